import errno
import itertools
import os
import resource
import selectors
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from course.grade import grading, marking, sealed, submission, trying
from course.grade import sandbox as walls
from course.grade.protocol import TIMEOUT
from course.grade.walls import NotStarted
from course.replicate import Measured


def test_without_bubblewrap_grading_refuses_and_says_what_to_install(tmp_path, monkeypatch, capsys):
    (tmp_path / "in" / "ada").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(walls.SandboxMissing, match="apt install bubblewrap"):
        walls.require()
    folders = [str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    status = grading.main([*folders, "--seed", "s", "--lesson", "06"])
    assert status == 1
    assert "needs bubblewrap" in capsys.readouterr().err


def test_a_sandbox_that_cannot_be_made_says_what_to_change(tmp_path, monkeypatch):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(walls.SandboxMissing, match=r"No permissions.*user namespaces"):
        walls.require()


def test_our_own_failure_is_not_the_students(call, sandbox, monkeypatch):
    monkeypatch.setattr(type(sandbox), "_home", property(lambda self: "/nowhere"))
    with pytest.raises(NotStarted, match="the sandbox did not start"):
        call("x = 1")


def test_the_umask_of_the_shell_stays_outside(call):
    before = os.umask(0o777)
    try:
        report = call("import os\ndef square(x):\n    return os.umask(0)")
    finally:
        os.umask(before)
    assert report.answers["99.1"][0].value == 0o022


def test_a_sandbox_that_starts_at_the_second_try_is_enough(call, sandbox, monkeypatch):
    live, tries = type(sandbox)._live, []

    def second(*arguments):
        tries.append(arguments)
        if len(tries) == 1:
            raise grading.GraderError("the sandbox did not start")
        return live(*arguments)

    monkeypatch.setattr(type(sandbox), "_live", second)
    assert call("def square(x):\n    return x").found == {"99.1"}


def test_the_clock_does_not_wait_for_the_watchdog(call, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(walls, "usage", lambda *arguments, **exact: over.wait(60) and (0, 0))
    monkeypatch.setattr(walls, "GRACE", 1.0)
    start = time.monotonic()
    report = call("import os\ndef square(x):\n    os.kill(os.getpid(), 19)  # SIGSTOP", seconds=1)
    took = time.monotonic() - start
    over.set()
    assert report.problems["99.1"] == TIMEOUT
    assert took < 50


@pytest.mark.skipif(not hasattr(selectors, "EpollSelector"), reason="there is no epoll here")
def test_a_user_whose_epoll_is_used_up_can_grade(call, monkeypatch):
    def register(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(selectors.EpollSelector, "register", register)
    assert call("def square(x):\n    return x").found == {"99.1"}


def test_what_is_shared_too_often_is_not_counted_once(call, sandbox, monkeypatch):
    looks = []

    def usage(pid, exact=False):
        if psutil.pid_exists(pid):  # not the last look of the test before, at a sandbox that has ended
            looks.append(exact)
        return walls.SHARING * sandbox.limits.memory_bytes + 1, 0

    monkeypatch.setattr(walls, "usage", usage)
    report = call("def square(x):\n    import time\n    time.sleep(20)")
    assert "it used too much memory" in report.problems.values()
    assert looks
    assert not any(looks)


def test_events_without_number_are_a_flood(call):
    """Each is short, so that all their bytes are no more than honest answers have."""
    flood = """
import os
def send(events):
    for fd in range(3, 64):
        try:
            for _ in range(events // 100): os.write(fd, b'{"event":""}\\n' * 100)
        except OSError: pass
def square(x):
    send(1000)
    return x
def total(x):
    send(20_000)
    return 3"""
    report = call(flood)
    assert [answer.error for answer in report.answers["99.1"]] == [None, None]
    assert report.problems == {"99.2": "it produced too much output"}


def test_no_two_sandboxes_have_one_user(monkeypatch):
    monkeypatch.setattr(walls, "_NUMBERS", itertools.cycle([5, 5, 5, 6]))
    with walls._user() as first, walls._user() as second:
        assert (first, second) == (walls.USERS[5], walls.USERS[6])
        other = f"import socket; socket.socket(socket.AF_UNIX).bind('\\0mini_attn-grading-{first}')"
        done = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=False)
        assert "Address already in use" in done.stderr
        with pytest.raises(walls.GraderError, match="all 478 users of sandboxes are taken"), walls._user():
            pass
    with walls._user() as again:
        assert again in (first, second)


@pytest.mark.slow
def test_a_lesson_reads_its_stored_sweeps(tmp_path, monkeypatch):
    grid = {"d": [2, 3], "scale": [1.0]}

    def trial(d, scale, *, trials, seed):
        return {"length": np.full(trials, d * scale)}

    one = Measured("99.lengths", "Lengths.", trial, grid, trials=30, batch=10)
    (tmp_path / "results").mkdir()
    one.compute(tmp_path / "results" / "99_lengths.nc", progress=False)
    code = "def twice(x):\n    return 2 * x\ndef thrice(x):\n    return 3 * x\n"
    (tmp_path / "lesson_99.py").write_text(code)
    monkeypatch.setattr(sealed, "REPLICATE", tmp_path)
    cells = [
        "from course.replicate import measured\nlengths = measured('99.lengths')",
        "from course.replicate.lesson_99 import thrice, twice",
        "whole, part = lengths.load(), lengths.part(d=[3])",
        "def square(x):\n    return [float(whole.length.sum()), twice(float(part.length.sum()))]",
        "thrice(1)",
    ]
    with walls.Sandbox(["course.replicate.lesson_99.thrice"], codes=cells) as sandbox:
        report = sandbox.call(cells, {"99.1": ("square", [(1.0,)])})
    assert report.cell_errors == {4: "NotImplementedError: thrice is withheld here"}
    assert report.answers["99.1"][0].value == [150, 60]


def test_matplotlib_finds_its_list_of_fonts(call):
    cells = [
        "import os, matplotlib\nbefore = os.listdir(matplotlib.get_cachedir())",
        "import matplotlib.font_manager\nafter = os.listdir(matplotlib.get_cachedir())",
        "def square(x):\n    return [len(before), len({*after} - {*before})]",
    ]
    report = call(*cells)
    assert not report.cell_errors
    assert report.answers["99.1"][0].value == [1, 0]


def test_errors_in_cells_cost_only_what_they_define(call):
    report = call("1 / 0", "%matplotlib inline", "!true", "def square(x):\n    return x", "syntax error here")
    assert report.cell_errors[0] == "ZeroDivisionError; its words are not shown"
    assert report.cell_errors[4] == "SyntaxError in line 1"
    assert set(report.cell_errors) == {0, 4}
    assert report.found == {"99.1"}


def test_the_last_registered_function_counts_and_is_found_anywhere(call):
    start = "from course.exercise import exercise, todo"
    cells = [f"@exercise('99.1')\ndef f{n}(x):\n    return {n}" for n in (1, 2)]
    report = call(start, *cells, "def total(x):\n    return 3")
    assert [answer.value for answer in report.answers["99.1"]] == [2, 2]
    assert report.registered["99.1"] == [(1, "f1"), (2, "f2")]
    assert [answer.value for answer in report.answers["99.2"]] == [3, 3]
    blank = call(start, "@exercise('99.1')\ndef square(x):\n    todo()")
    assert {answer.error for answer in blank.answers["99.1"]} == {"not attempted"}


def test_inputs_are_fresh_for_each_call_and_changes_are_noted(call):
    report = call("def square(x):\n    x *= x\n    return x", "def total(x):\n    return x.sum()")
    assert [answer.changed for answer in report.answers["99.1"]] == [[0], [0]]
    assert [answer.changed for answer in report.answers["99.2"]] == [[], []]


def test_without_walls_the_same_code_runs(lesson, cases):
    with walls.Sandbox(lesson.withheld, unsafe=True) as box:
        report = box.call(["def square(x):\n    return x**2"], {"99.1": ("square", cases["99.1"])})
    assert [answer.error for answer in report.answers["99.1"]] == [None, None]


def test_what_the_cells_of_a_later_life_say_is_not_told(lesson, cases, tmp_path):
    """An earlier one had the inputs, and could have left them where this one finds them."""
    left = str(tmp_path / "left")
    cells = [
        f"import os\nassert not os.path.exists({left!r}), 'the input was 3'",
        f"def square(x):\n    open({left!r}, 'w').close()\n    os._exit(0)",
        "def total(x):\n    return 3",
    ]
    with walls.Sandbox(lesson.withheld, unsafe=True) as box:
        report = box.call(cells, {"99.1": ("square", cases["99.1"]), "99.2": ("total", cases["99.2"])})
    assert [answer.value for answer in report.answers["99.2"]] == [3, 3]
    assert (report.problems.keys(), report.cell_errors) == ({"99.1"}, {})
    assert report.lost == {"99.2"}
    assert not report.disturbed


@pytest.mark.parametrize(("lives", "blind"), [(0, True), (1, False)])
@pytest.mark.parametrize("error", [BlockingIOError, NotStarted])
def test_an_error_says_whether_a_life_had_the_inputs(error, lives, blind, lesson, cases, monkeypatch):
    live, lived = walls.Sandbox._live, []

    def few(*arguments):
        if len(lived) == lives:
            raise error
        lived.append(arguments)
        return live(*arguments)

    monkeypatch.setattr(walls.Sandbox, "_live", few)
    exercises = {"99.1": ("square", cases["99.1"]), "99.2": ("total", cases["99.2"])}
    with walls.Sandbox(lesson.withheld, unsafe=True) as box, pytest.raises(error) as raised:
        box.call(["import os\ndef square(x):\n    os._exit(0)"], exercises)
    assert raised.value.blind == blind


@pytest.mark.parametrize(
    "fails",
    [
        'raise RuntimeError("can\'t start new thread")',
        "time.sleep(9)",
        "while True:\n        try: time.sleep(9)\n        except BaseException: pass",
    ],
)
def test_a_neighbours_harm_to_a_later_life_is_not_lost_with_its_words(
    fails, lesson, cases, tmp_path, monkeypatch
):
    monkeypatch.setattr(walls, "GRACE", 1.0)
    left = str(tmp_path / "left")
    cells = [
        "import os, time\nfrom course.exercise import exercise",
        f"@exercise('99.1')\ndef square(x):\n    open({left!r}, 'w').close()\n    os._exit(0)",
        f"if os.path.exists({left!r}):\n    {fails}\n@exercise('99.2')\ndef total(x):\n    return 3",
    ]
    limits = walls.Limits(cell_seconds=2, exercise_seconds=9, total_seconds=90)
    with walls.Sandbox(lesson.withheld, limits, unsafe=True) as box:
        report = box.call(cells, {"99.1": ("square", cases["99.1"]), "99.2": ("total", cases["99.2"])})
    assert (report.problems.keys(), report.cell_errors) == ({"99.1"}, {})
    assert report.disturbed
    assert marking.mark(lesson, report, cases)[1].says == [
        "There was no function for this exercise.",
        marking.LOST,
    ]
    one = submission.Submission("ada", "ada", cells=[("", cell) for cell in cells])
    assert not [note for note in trying._notes(one, lesson, report) if note.startswith("99.2")]


@pytest.mark.parametrize(
    ("kind", "letter"),
    [("NPROC", "u"), ("NOFILE", "n"), ("FSIZE", "f"), ("CPU", "t"), ("DATA", "d"), ("STACK", "s")],
)
def test_lower_limits_of_the_shell_are_named(kind, letter, monkeypatch):
    assert walls.lower_limits(walls.Limits(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)) is None
    hard = getattr(resource, f"RLIMIT_{kind}")
    have, no = {hard: (64, 64)}, resource.RLIM_INFINITY
    others = {resource.RLIMIT_NPROC: (no, no)} | have
    monkeypatch.setattr(resource, "getrlimit", lambda which: others.get(which, (8, no)))
    assert "only 64 instead of " in walls.lower_limits(walls.Limits())
    assert f"(`ulimit -{letter}`). Right answers that need more fail" in walls.lower_limits(walls.Limits())


@pytest.mark.parametrize(("user", "jobs", "enough"), [(0, 9, True), (1000, 1, True), (1000, 2, False)])
def test_processes_of_all_submissions_at_a_time_are_one_users(user, jobs, enough, monkeypatch):
    no, names = resource.RLIM_INFINITY, {resource.RLIMIT_NPROC: (300, resource.RLIM_INFINITY)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: names.get(which, (no, no)))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    says = walls.lower_limits(walls.Limits(), jobs)
    assert (says is None) == enough
    assert enough or "only 300 instead of 532 processes and threads with --jobs 2 (`ulimit -u`)" in says


@pytest.mark.parametrize("stack", [2**20, 2**30])
def test_what_the_shell_allows_but_does_not_give_is_taken(stack):
    """The course has no limits of these: the soft ones of a shell would be silent.

    Of the stack no more than Linux gives: each thread takes as much of the addresses.
    """
    code = f"""if True:
        import resource, sys, threading
        from dataclasses import asdict
        from course.grade.sandbox import HERE, Limits
        sys.path.insert(0, str(HERE))
        import runner
        kinds = resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_STACK
        for kind, value in zip(kinds, (90, 2**32, {stack})):
            resource.setrlimit(kind, (value, 2**33))
        runner._limit(asdict(Limits()))
        print([resource.getrlimit(kind)[0] for kind in kinds] == [2**33, 2**33, Limits().stack_bytes])
        print(threading.stack_size() == Limits().stack_bytes)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\nTrue\n"


def test_a_library_too_large_for_the_shell_names_its_limit(tmp_path, monkeypatch):
    def full(target, *arguments):
        raise shutil.Error([("a", "b", "[Errno 27] File too large")])

    monkeypatch.setattr(walls, "seal", full)
    with pytest.raises(walls.GraderError, match="ulimit -f unlimited"), walls.Sandbox(unsafe=True):
        pass


def test_a_probe_that_hangs_says_what_it_may_be(monkeypatch):
    def hang(*arguments, **options):
        raise subprocess.TimeoutExpired(arguments, 30)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(walls.SandboxMissing, match="SIGCHLD"):
        walls.require()
