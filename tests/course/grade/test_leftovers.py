"""Kills, interrupts, full disks, and two graders at once."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from course.grade import gradebook, grading, leftovers, sandbox
from course.grade.sandbox import GraderError, Sandbox

SOURCES = Path(__file__).parents[3]
LOOP = '@exercise("99.1")\ndef square(x):\n    while True: pass'
GRADER = """
import signal
import sys
from pathlib import Path
sys.modules["rfc3987_syntax"] = None  # as `python -m course` leaves it out
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
sys.path.insert(0, {sources!r})
from course import exercises
from course.grade import grading, released
from course.check.specification import Exercise

specs = [Exercise("99.1", "square", 3, 5, 1, lambda x: x**2, lambda rng: [(2.0,)])]
exercises.exercises, exercises.written = lambda number: specs, lambda number: []
read = released.lesson
released.lesson = lambda number: read(number, Path("lessons"))
sys.exit(grading.main(["submissions", "--lesson", "99", "--seed", "s", "--out", "out", "--jobs", "2"]))
"""


@pytest.fixture
def start(tmp_path, submit):
    """Starts a grader that has to do with endless loops; returns once two sandboxes run."""
    for student in ("ada", "bob", "cy"):
        submit(student, "from course.exercise import exercise", LOOP)
    (tmp_path / "tmp").mkdir()
    running = []

    def begin():
        (tmp_path / "grader.py").write_text(GRADER.format(sources=str(SOURCES)))
        command = [sys.executable, "grader.py"]
        environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes))
        while len(sandboxes(running[-1].pid)) < 2 and running[-1].poll() is None:
            time.sleep(0.2)
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def sandboxes(pid):
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(pid).children(recursive=True)
        return [child for child in children if "/grading/runner.py" in child.cmdline()]
    return []


@pytest.mark.slow
def test_an_interrupt_ends_the_grader_at_once(start, tmp_path):
    process = start()
    inside, asked = sandboxes(process.pid), time.monotonic()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert time.monotonic() - asked < 20  # five on an idle machine
    assert process.returncode == 130
    assert error.endswith("Stopped; the same command goes on from here.\n")
    assert "Traceback" not in error
    assert psutil.wait_procs(inside, timeout=2)[1] == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_request_to_end_is_an_interrupt(tmp_path, monkeypatch, capsys):
    def asked(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    monkeypatch.setattr(grading, "grade", asked)
    before = signal.getsignal(signal.SIGTERM)
    assert grading.main([str(tmp_path), "--lesson", "99", "--seed", "s"]) == 130
    assert capsys.readouterr().err == "Stopped; the same command goes on from here.\n"
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.slow
def test_nothing_is_left_of_a_grader_that_was_killed(arguments, start, tmp_path, monkeypatch, capsys):
    process = start()
    inside = sandboxes(process.pid)
    assert grading.main(arguments) == 1  # meanwhile, into the same folder
    where = f"another grader is at work in {tmp_path / 'out'}"
    assert capsys.readouterr().err == f"Grading stopped: {where}; wait for it, or choose another --out\n"
    process.kill()
    process.wait()
    assert psutil.wait_procs(inside, timeout=5)[1] == []
    (left,) = (tmp_path / "tmp").iterdir()
    (tmp_path / "out" / "students").mkdir()
    (tmp_path / "out" / "students" / f".ada.json.{process.pid}.part").write_text("half")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with leftovers.claim(tmp_path / "out"), leftovers.workshop() as mine:
        assert list((tmp_path / "tmp").iterdir()) == [mine]
        assert mine != left
        with leftovers.workshop() as other:  # of a grader that lives
            assert set((tmp_path / "tmp").iterdir()) == {mine, other}
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list((tmp_path / "out" / "students").iterdir()) == []


def test_only_what_the_grader_itself_had_begun_is_swept(tmp_path):
    own = [f"{folder}.page.html.12.part" for folder in ("", "students/", "feedback/", "autograded/ada/x/")]
    others = ["submitted/mallory/.x.12.part", "source/.x.12.part", ".notes.part", "students/mine.12.part"]
    for name in [*own, *others]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("half")
    (tmp_path / "feedback" / ".x.3.part").mkdir()
    (tmp_path / "students" / ".x.3.part").symlink_to(tmp_path / ".notes.part")
    with leftovers.claim(tmp_path):
        pass
    assert [name for name in own if (tmp_path / name).exists()] == []
    assert [name for name in others if not (tmp_path / name).exists()] == []
    assert (tmp_path / "feedback" / ".x.3.part").is_dir()
    assert (tmp_path / "students" / ".x.3.part").is_symlink()


def test_a_young_folder_without_a_lock_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "grading-young").mkdir()
    (tmp_path / "grading-old").mkdir()
    (tmp_path / "grading-link").symlink_to(tmp_path)
    os.utime(tmp_path / "grading-old", (0, 0))
    with leftovers.workshop() as mine:
        assert {path.name for path in tmp_path.iterdir()} == {"grading-young", "grading-link", mine.name}


def test_an_impatient_interrupt_leaves_a_folder_for_the_next_grader(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    remove, left = shutil.rmtree, []

    def interrupted(path, **keywords):
        remove(path, **keywords)
        left.append(path)
        raise KeyboardInterrupt

    begun = leftovers.workshop()
    folder = begun.__enter__()
    (folder / "inside").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            begun.__exit__(None, None, None)
    assert left == [folder / "inside"]
    with leftovers.workshop() as mine:
        assert list(tmp_path.iterdir()) == [mine]


def test_no_room_for_the_library_is_a_sentence(arguments, submit, monkeypatch, capsys):
    submit("ada", "")

    def full(*args):
        names = [f"{n}.py" for n in range(100)]
        raise shutil.Error([(name, name, "[Errno 28] No space left on device") for name in names])

    monkeypatch.setattr(sandbox, "seal", full)
    assert grading.main(arguments) == 1
    says = "Grading stopped: no room for a copy of the library: [Errno 28] No space left on device"
    assert capsys.readouterr().err.splitlines()[-1] == says


def test_a_full_disk_is_a_sentence(arguments, submit, tmp_path, monkeypatch, capsys):
    submit("ada", "")

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for place, name in ((grading, "write"), (Sandbox, "_live"), (leftovers.tempfile, "mkdtemp")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, full)
            assert grading.main(arguments) == 1
        error = capsys.readouterr().err
        assert error.splitlines()[-1] == "Grading stopped: [Errno 28] No space left on device"
        assert "Traceback" not in error


def test_a_gradebook_that_cannot_grow_is_a_sentence(tmp_path, small, monkeypatch):
    monkeypatch.setattr(gradebook, "PAUSES", ())
    url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    gradebook.register(url, small)
    opened = gradebook.api.Gradebook

    def limited(*arguments):
        book = opened(*arguments)
        book.db.execute(gradebook.text("PRAGMA max_page_count = 1"))
        return book

    monkeypatch.setattr(gradebook.api, "Gradebook", limited)
    says = {"99.1": ["x" * 4000], "99.2": ["x"]}
    marks = [grading.Mark(spec.id, "", 0, 3, "wrong", says[spec.id]) for spec in small.specs]
    with pytest.raises(
        GraderError, match=r"^the gradebook could not be read or written: database or disk is full$"
    ):
        gradebook.record(url, small, {f"student{n}": marks for n in range(30)})


def test_two_graders_may_begin_the_same_gradebook(tmp_path, small):
    url, failures = f"sqlite:///{tmp_path / 'gradebook.db'}", []
    rows = {f"student{n}": [grading.Mark(s.id, "", 3, 3, "right") for s in small.specs] for n in range(8)}

    def record():
        try:
            gradebook.record(url, small, rows)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=record) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    gradebook.export(url, small, tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text().count(",3,3,6,6,0\n") == 8
