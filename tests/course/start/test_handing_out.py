"""The learner's folder: what is handed out, what is updated, and that nothing of theirs is ever lost."""

import json
import os
import platform
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course.start import handing_out

NAME = "01_lesson.ipynb"
BESIDE = "01_new_lesson.ipynb"


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob("*.ipynb"))}


def test_first_time_copies_every_lesson_and_nothing_else(lessons, mine):
    (lessons / "notes.txt").write_text("not a lesson")
    (lessons / NAME).chmod(0o444)
    assert handing_out.hand_out(lessons, mine) == [f"{NAME}: new", "02_lesson.ipynb: new"]
    assert files(mine) == {NAME: "upstream 1", "02_lesson.ipynb": "another"}
    assert (mine / NAME).stat().st_mode & stat.S_IWUSR  # a read-only course still gives lessons to write in
    assert sorted(path.name for path in mine.iterdir()) == [handing_out.RECORD, NAME, "02_lesson.ipynb"]


def test_second_time_does_nothing(lessons, mine):
    handing_out.hand_out(lessons, mine)
    before = {path: path.stat().st_mtime_ns for path in mine.iterdir()}
    assert handing_out.hand_out(lessons, mine) == []
    assert {path: path.stat().st_mtime_ns for path in mine.iterdir()} == before


def test_untouched_lesson_is_updated(lessons, mine):
    handing_out.hand_out(lessons, mine)
    (lessons / NAME).write_text("upstream 2")
    assert handing_out.hand_out(lessons, mine) == [f"{NAME}: updated"]
    assert files(mine)[NAME] == "upstream 2"


def test_changed_lesson_is_kept_while_upstream_stays(lessons, mine):
    handing_out.hand_out(lessons, mine)
    (mine / NAME).write_text("my work")
    assert handing_out.hand_out(lessons, mine) == []
    assert files(mine)[NAME] == "my work"
    assert BESIDE not in files(mine)


def test_both_changed_keeps_the_learners_and_puts_the_new_one_beside(lessons, mine):
    handing_out.hand_out(lessons, mine)
    (mine / NAME).write_text("my work")
    (lessons / NAME).write_text("upstream 2")
    assert handing_out.hand_out(lessons, mine) == [
        f"{NAME}: yours is kept, and a new version is beside it as {BESIDE}"
    ]
    assert handing_out.hand_out(lessons, mine) == []
    assert files(mine) == {NAME: "my work", BESIDE: "upstream 2", "02_lesson.ipynb": "another"}

    (lessons / NAME).write_text("upstream 3")  # the file beside is still as handed out: it may be replaced
    handing_out.hand_out(lessons, mine)
    assert files(mine)[BESIDE] == "upstream 3"

    (mine / BESIDE).write_text("my work in the new version")
    (lessons / NAME).write_text("upstream 4")
    handing_out.hand_out(lessons, mine)
    assert files(mine) == {
        NAME: "my work",
        BESIDE: "my work in the new version",
        "01_new2_lesson.ipynb": "upstream 4",
        "02_lesson.ipynb": "another",
    }


def test_learner_who_takes_over_the_new_version_gets_updates_again(lessons, mine):
    handing_out.hand_out(lessons, mine)
    (mine / NAME).write_text("my work")
    (lessons / NAME).write_text("upstream 2")
    handing_out.hand_out(lessons, mine)
    os.replace(mine / BESIDE, mine / NAME)
    (lessons / NAME).write_text("upstream 3")
    assert handing_out.hand_out(lessons, mine) == [f"{NAME}: updated"]


def test_deleted_lesson_is_handed_out_afresh(lessons, mine):
    handing_out.hand_out(lessons, mine)
    (mine / NAME).unlink()
    assert handing_out.hand_out(lessons, mine) == [f"{NAME}: new"]


@pytest.mark.parametrize(
    "record", [None, b"", b"{", b"[]", b'{"01_lesson.ipynb": 3}', b"\xff\xfe", b"[" * 99999]
)
def test_lost_record_never_costs_work(lessons, mine, record):
    handing_out.hand_out(lessons, mine)
    (mine / NAME).write_text("my work")
    (mine / handing_out.RECORD).unlink()
    if record is not None:
        (mine / handing_out.RECORD).write_bytes(record)
    (lessons / NAME).write_text("upstream 2")
    handing_out.hand_out(lessons, mine)
    assert files(mine) == {NAME: "my work", BESIDE: "upstream 2", "02_lesson.ipynb": "another"}
    assert json.loads((mine / handing_out.RECORD).read_bytes()).keys() == {NAME, BESIDE, "02_lesson.ipynb"}


def test_a_lesson_says_which_python_runs_it_as_jupyterlab_would(lessons, mine):
    (lessons / NAME).write_text(a_notebook(language=None))
    handing_out.hand_out(lessons, mine)
    given, built = (json.loads((folder / NAME).read_text()) for folder in (mine, lessons))
    assert given["metadata"]["language_info"] == {"name": "python", "version": platform.python_version()}
    assert {**given, "metadata": 0} == {**built, "metadata": 0}


def a_notebook(source="1 + 1", outputs=(), count=None, language="3.11.2", **cell_metadata) -> str:
    cell = {"cell_type": "code", "source": source, "outputs": list(outputs), "execution_count": count}
    metadata = {"language_info": {"name": "python", "version": language}}
    return json.dumps({"cells": [{**cell, "metadata": cell_metadata}], "metadata": metadata, "nbformat": 4})


RAN = {
    "outputs": [{"output_type": "stream", "name": "stdout", "text": "2"}],
    "count": 7,
    "language": "3.12.0",
}


@pytest.mark.parametrize("ran", [RAN, {"source": ["1 ", "+ 1"]}, {"trusted": True, "scrolled": True}])
def test_lesson_that_was_only_opened_or_run_counts_as_untouched(lessons, mine, ran):
    (lessons / NAME).write_text(a_notebook())
    handing_out.hand_out(lessons, mine)
    (mine / NAME).write_text(a_notebook(**ran))
    assert handing_out.hand_out(lessons, mine) == []
    (lessons / NAME).write_text(a_notebook("2 + 2"))
    assert handing_out.hand_out(lessons, mine) == [f"{NAME}: updated"]


@pytest.mark.parametrize("changed", [{"source": "1 + 2"}, {"source": "1 + 1\n"}, {"tags": ["mine"]}])
def test_what_a_learner_wrote_counts_as_a_change(lessons, mine, changed):
    (lessons / NAME).write_text(a_notebook())
    handing_out.hand_out(lessons, mine)
    (mine / NAME).write_text(a_notebook(**changed))
    (lessons / NAME).write_text(a_notebook("2 + 2"))
    handing_out.hand_out(lessons, mine)
    assert files(mine)[NAME] == a_notebook(**changed)
    assert json.loads(files(mine)[BESIDE])["cells"] == json.loads(a_notebook("2 + 2"))["cells"]


def a_link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere.ipynb"
    os.replace(path, elsewhere)
    path.symlink_to(elsewhere)


def a_broken_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "gone")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def read_only(path: Path) -> None:
    path.chmod(0o444)


@pytest.mark.parametrize("make", [a_link, a_broken_link, a_folder, read_only])
def test_what_is_not_a_plain_writable_file_is_left_alone(lessons, mine, make):
    handing_out.hand_out(lessons, mine)
    make(mine / NAME)
    before = (mine / NAME).lstat()
    (lessons / NAME).write_text("upstream 2")
    handing_out.hand_out(lessons, mine)
    assert (mine / NAME).lstat() == before
    assert (mine / BESIDE).read_text() == "upstream 2"
    if make is a_link:
        assert (mine / NAME).read_text() == "upstream 1"


def test_failed_write_leaves_the_old_file_and_no_rubbish(lessons, mine, monkeypatch):
    handing_out.hand_out(lessons, mine)
    (lessons / NAME).write_text("upstream 2")
    before = files(mine)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        handing_out.hand_out(lessons, mine)
    assert files(mine) == before
    assert not list(mine.glob("*.part")) + list(mine.glob(".*.part"))


CHOICES = st.lists(
    st.sampled_from(["upstream", "edit", "edit beside", "delete", "forget", "take over", "hand out"]),
    max_size=12,
)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(history=CHOICES)
def test_nothing_a_learner_wrote_is_ever_lost(tmp_path_factory, history):
    folder = tmp_path_factory.mktemp("history")
    lessons, mine = folder / "lessons", folder / "my-lessons"
    lessons.mkdir()
    (lessons / NAME).write_text("upstream 0")
    handing_out.hand_out(lessons, mine)
    written: dict[str, str] = {}  # file -> what the learner last wrote there
    for number, action in enumerate(history):
        beside = next((path for path in sorted(mine.glob("*_new*"))), None)
        if action == "upstream":
            (lessons / NAME).write_text(f"upstream {number}")
        elif action == "edit" or (action == "edit beside" and beside):
            path = beside if action == "edit beside" else mine / NAME
            path.write_text(f"my work {number}")
            written[path.name] = f"my work {number}"
        elif action == "delete":
            (mine / NAME).unlink(missing_ok=True)
            written.pop(NAME, None)
        elif action == "forget":
            (mine / handing_out.RECORD).unlink(missing_ok=True)
        elif action == "take over" and beside:
            os.replace(beside, mine / NAME)
            written.pop(NAME, None)
            if beside.name in written:
                written[NAME] = written.pop(beside.name)
        elif action == "hand out":
            handing_out.hand_out(lessons, mine)
        for name, text in written.items():
            assert (mine / name).read_text() == text
    handing_out.hand_out(lessons, mine)
    assert (lessons / NAME).read_text() in files(mine).values() or NAME in written
    for name, text in written.items():
        assert (mine / name).read_text() == text
