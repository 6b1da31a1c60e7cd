"""What is remembered of a learner's answers, and that remembering never gets in their way."""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import time

import pytest

from course import syllabus
from course.start import progress
from course.start.handing_out import RECORD, ROOT


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A learner's folder, in which a notebook runs."""
    folder = tmp_path / "my-lessons"
    folder.mkdir()
    (folder / RECORD).write_text("{}")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(progress, "now", {})
    return folder


def test_the_latest_answer_counts_and_a_blank_one_takes_nothing_back(mine):
    for id, state in [("01.1", "wrong"), ("01.1", "solved"), ("01.2", "solved"), ("01.2", "wrong")]:
        progress.remember(id, state)
    progress.remember("01.1", "blank")
    memory = progress.recall(mine)
    assert memory.states == {"01.1": "solved", "01.2": "wrong"}
    assert memory.solved == {"01.1"}
    assert memory.last == "01.1"


def test_a_lesson_run_again_adds_nothing_new(mine):
    for _ in range(50):
        progress.remember("01.1", "solved")
    assert len((mine / progress.FILE).read_text().split()) == len(
        json.dumps({"id": "01.1", "state": "solved", "at": "x"}).split()
    )


def test_in_a_folder_of_the_learners_own_as_well(mine, monkeypatch):
    (mine / "copies").mkdir()
    monkeypatch.chdir(mine / "copies")
    progress.remember("02.3", "solved")
    assert progress.recall(mine).solved == {"02.3"}


def test_a_notebook_that_goes_elsewhere_keeps_its_verdicts(mine, tmp_path):
    code = (
        "import os\nfrom course.start import progress\n"
        "os.chdir('/')\nprogress.remember('02.3', 'solved')\n"
        f"os.mkdir({str(tmp_path / 'gone')!r})\nos.chdir({str(tmp_path / 'gone')!r})\n"
        f"os.rmdir({str(tmp_path / 'gone')!r})\nprogress.remember('02.4', 'solved')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=mine, env={"PYTHONPATH": str(ROOT)})
    assert progress.recall(mine).solved == {"02.3", "02.4"}


def test_nothing_is_written_where_no_lessons_were_handed_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    progress.remember("01.1", "solved")
    assert list(tmp_path.iterdir()) == []
    assert progress.folder() is None
    assert progress.recall(None).solved == set()


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\xff\x00", b"{", b"[]\n7\nnull", b'{"id": 3, "state": "solved"}', b"[" * 99999, b'{"id": "0'],
)
def test_what_cannot_be_read_is_skipped_and_the_next_verdict_is_kept(mine, garbage):
    progress.remember("01.1", "solved")
    with (mine / progress.FILE).open("ab") as file:
        file.write(b"\n" + garbage)
    assert progress.recall(mine).solved == {"01.1"}
    progress.remember("01.2", "solved")
    assert progress.recall(mine).solved == {"01.1", "01.2"}


@pytest.mark.parametrize("trouble", ["a folder in the way", "a full disk", "no folder any more"])
def test_trouble_with_the_file_stays_out_of_the_way(mine, monkeypatch, trouble):
    if trouble == "a folder in the way":
        (mine / progress.FILE).mkdir()
    elif trouble == "a full disk":

        def full(*arguments, **options):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("builtins.open", full)
    else:
        (mine / RECORD).unlink()
        mine.rmdir()
    progress.remember("01.1", "solved")
    assert progress.now == {"01.1": "solved"}


def test_deleting_it_forgets_and_harms_nothing(mine):
    progress.remember("01.1", "solved")
    (mine / progress.FILE).unlink()
    assert progress.recall(mine) == progress.Memory()
    progress.remember("01.1", "wrong")
    assert progress.recall(mine).states == {"01.1": "wrong"}


def write_many(numbers):
    for number in numbers:
        progress.remember(f"0{number % 9 + 1}.{number}", "solved")


def test_many_notebooks_may_write_at_once(mine):
    parts = [range(start, 200, 4) for start in range(4)]
    context = multiprocessing.get_context("fork" if sys.platform != "win32" else "spawn")
    writers = [context.Process(target=write_many, args=(part,)) for part in parts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(progress.recall(mine).solved) == 200


def test_remembering_takes_no_time_that_anyone_notices(mine):
    for number in range(300):
        progress.remember(f"01.{number}", "wrong")
    start = time.process_time()
    for number in range(20):
        progress.remember(f"01.{number}", "solved")
    assert (time.process_time() - start) / 20 < 0.02  # measured: 1 ms


def test_where_the_learner_left_off():
    first, second = syllabus.find("01"), syllabus.find("02")
    assert progress.left_off(progress.Memory()).number == "00"
    assert progress.left_off(progress.Memory({}, "99.1")).number == "00"  # of no lesson that there is
    some = progress.Memory({id: "solved" for id in list(first.exercises)[1:]}, "01.2")
    assert progress.left_off(some) is first
    every = progress.Memory(dict.fromkeys(first.exercises, "solved"), "01.2")
    assert progress.left_off(every) is second
    last = [lesson for lesson in syllabus.LESSONS if lesson.path][-1]
    done = progress.Memory(dict.fromkeys(last.exercises, "solved"), next(iter(last.exercises)))
    assert progress.left_off(done) is last  # there is no other yet


def test_in_a_terminal(mine, capsys):
    progress.remember("01.1", "solved")
    assert progress.main(["01", "--in", str(mine)]) == 0
    assert re.match(
        r"Lesson 01: 1 of \d exercises solved; next: 01.2 A point is deleted.", capsys.readouterr().out
    )
    assert progress.main(["--in", str(mine)]) == 0
    out = capsys.readouterr().out
    assert re.match(r"1 of \d+ exercises solved\n  00  Start here", out)
    assert re.search(
        rf"01  Logistic regression chooses a margin +\d+ min  1 of {len(syllabus.find('01').exercises)}\n",
        out,
    )
    for lesson in syllabus.LESSONS:
        if not lesson.path:
            assert re.search(rf"{lesson.number}  {re.escape(lesson.title)} +being written\n", out)
            assert progress.main([lesson.number, "--in", str(mine)]) == 0
            assert "being written" in capsys.readouterr().out
    assert progress.main(["77", "--in", str(mine)]) == 1
    assert "There is no lesson '77'" in capsys.readouterr().err


def test_the_command_runs_without_what_lessons_need(mine):
    """It answers at once: torch and numpy are not imported."""
    code = f"import sys; from course.start import progress; progress.main(['--in', {str(mine)!r}]); " + (
        "assert not {'torch', 'numpy', 'IPython'} & set(sys.modules), 'slow'"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment)
