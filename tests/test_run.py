"""The last line of `make test` tells the truth."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("run", Path(__file__).with_name("run.py"))
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

NOTHING_COLLECTED = 5  # pytest's exit status

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_good"/>
<testcase classname="tests.a" name="test_bad"><failure message="no">...</failure></testcase>
<testcase classname="tests.a" name="test_broken"><error message="no">...</error></testcase>
<testcase classname="tests.a" name="test_gpu"><skipped message="no CUDA device"/></testcase>
</testsuite></testsuites>"""


def test_report_is_read(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    passed, failed, skipped = run.read(tmp_path / "report.xml")
    assert passed == [("tests.a", "test_good")]
    assert failed == [("tests.a", "test_bad"), ("tests.a", "test_broken")]
    assert skipped == ["no CUDA device"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((["312 tests", "8 notebooks"], [], []), "All is well: 312 tests and 8 notebooks passed."),
        ((["1 slow test"], [], ["a"]), "All is well: 1 slow test passed, 1 skipped (1: a)."),
        ((["3 tests"], [], ["b", "a", "b"]), "All is well: 3 tests passed, 3 skipped (1: a; 2: b)."),
        ((["3 tests"], ["test_x"], []), "Something failed: test_x. The reasons stand above."),
        (
            (["3 tests"], list("abcdefg"), []),
            "Something failed: a, b, c, d, e and 2 more. The reasons stand above.",
        ),
    ],
)
def test_last_line(arguments, line):
    assert run.verdict(*arguments) == line


@pytest.fixture
def prepare():
    return run.PREPARE


@pytest.fixture
def course(tmp_path, monkeypatch, prepare):
    """A project with one lesson, where each step writes a given report and exits with a given status."""
    monkeypatch.setattr(run, "ROOT", tmp_path)
    for folder in run.NOTEBOOKS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "01_x.ipynb").touch()
    (tmp_path / "fake.py").write_text(
        "import pathlib, sys\n"
        "path = [a.partition('=')[2] for a in sys.argv if a.startswith('--junitxml=')]\n"
        "if path and sys.argv[2]: pathlib.Path(path[0]).write_text(sys.argv[2])\n"
        "raise SystemExit(int(sys.argv[1]))\n"
    )
    monkeypatch.setattr(run, "PYTEST", [sys.executable, str(tmp_path / "fake.py")])
    monkeypatch.setattr(run, "PREPARE", [sys.executable, "-c", ""])

    def outcome(*arguments, **steps):
        good = {
            "unit tests": (0, cases("tests.a::one")),
            "lessons": (0, cases("lessons.01_x.ipynb::Cell 0")),
            "slow tests": (0, cases("tests.b::two")),
            "solutions": (0, cases("solutions.01_x.ipynb::Cell 0")),
        }
        commands = {
            step: [*run.PYTEST, str(status), report] for step, (status, report) in {**good, **steps}.items()
        }
        names = {False: ("unit tests", "lessons"), True: ("slow tests", "solutions")}
        monkeypatch.setattr(run, "steps", lambda _, slow: {name: commands[name] for name in names[slow]})
        return run.main([*arguments])

    return outcome


def cases(*names: str, inner: str = "") -> str:
    parts = [name.split("::") for name in names]
    lines = [f'<testcase classname="{file}" name="{test}">{inner}</testcase>' for file, test in parts]
    return f"<testsuite>{''.join(lines)}</testsuite>"


def last_line(capfd) -> str:
    return capfd.readouterr().out.splitlines()[-1]


def test_all_well(course, capfd):
    assert course() == 0
    said = capfd.readouterr().out.splitlines()
    assert said[-1] == "All is well: 1 test and 1 notebook passed."
    assert said[-2].endswith(", without the slow tests and the solutions (make test ARGS=--slow).")


def test_slow_tests_and_solutions_run_alone(course, capfd):
    assert course("--slow") == 0
    said = capfd.readouterr().out.splitlines()
    assert said[-1] == "All is well: 1 slow test and 1 notebook passed."
    assert "without" not in said[-2]
    assert course("--slow", solutions=(0, "<testsuite/>")) == 1
    assert last_line(capfd) == "Something failed: solutions/01_x.ipynb was not run. The reasons stand above."


def test_every_file_of_tests_is_in_one_part_of_each_run_or_left_out():
    def files(command):
        ignored = [run.ROOT / part.partition("=")[2] for part in command if part.startswith("--ignore=")]
        found = [
            path
            for part in command
            if part.startswith("tests")
            for path in [*(run.ROOT / part).rglob("test_*.py")] or [run.ROOT / part]
        ]
        return [path for path in found if not any(path.is_relative_to(folder) for folder in ignored)]

    every = {*(run.ROOT / "tests").rglob("test_*.py")}
    for slow, wanted, left_out in ((False, "not slow", {"theory", "browser"}), (True, "slow", set())):
        steps = run.steps([], slow)
        assert all(wanted in command for step, command in steps.items() if step != "browser")
        taken = [path for command in steps.values() for path in files(command)]
        assert len(taken) == len({*taken})
        assert every - {*taken} == {path for path in every if path.parent.name in left_out}


@pytest.mark.slow
def test_what_is_left_out_is_what_the_slow_run_takes():
    theory = next((run.ROOT / "tests" / "theory").glob("test_*.py"))
    listing = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:nbval",
        "-qq",
        "--collect-only",
        "-m",
        "not slow",
        str(theory),
    ]
    assert subprocess.run(listing, cwd=run.ROOT, stdout=subprocess.DEVNULL).returncode == NOTHING_COLLECTED


@pytest.mark.parametrize(
    ("step", "status", "report", "said"),
    [
        ("unit tests", 1, cases("tests.a::test_x", inner="<failure/>"), "test_x"),
        ("unit tests", 2, "", "the step 'unit tests' did not run to its end"),
        ("unit tests", 5, "<testsuite/>", "the step 'unit tests' did not run to its end"),
        ("lessons", 1, cases("lessons.01_x.ipynb::Cell 3", inner="<failure/>"), "lessons/01_x.ipynb"),
        ("lessons", 0, "<testsuite/>", "lessons/01_x.ipynb was not run"),
    ],
)
def test_nothing_that_fails_is_passed_over(course, capfd, step, status, report, said):
    assert course(**{step: (status, report)}) == 1
    assert last_line(capfd) == f"Something failed: {said}. The reasons stand above."


def test_a_course_that_cannot_be_compiled_is_not_well(course, capfd, monkeypatch, prepare):
    monkeypatch.setattr(run, "PREPARE", prepare)
    for room in ("course", "mini_attn"):
        (run.ROOT / room).mkdir()
    assert course() == 0
    (run.ROOT / "course" / "broken.py").write_text("def\n")
    capfd.readouterr()
    assert course() == 1
    assert last_line(capfd) == "Something failed: the course cannot be compiled. The reasons stand above."


WAITING = """
import pathlib, sys, time
own, other = map(pathlib.Path, sys.argv[1:])
print(own.name, 1, flush=True)
own.touch()
for _ in range(6000):
    if other.exists():
        break
    time.sleep(0.01)
else:
    sys.exit("nobody else is running")
print(own.name, 2, flush=True)
"""


def test_steps_run_side_by_side_and_are_told_one_after_the_other(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(run, "ROOT", tmp_path)
    names = ("one", "two", "three")  # each waits for the next
    commands = {
        name: [sys.executable, "-c", WAITING, name, other]
        for name, other in zip(names, (*names[1:], names[0]), strict=True)
    }
    assert run.side_by_side(commands, str(tmp_path), {}) == dict.fromkeys(names, 0)
    said = capfd.readouterr().out.split("\n")
    assert said == [line for name in names for line in ("", f"=== {name} ===", f"{name} 1", f"{name} 2")] + [
        ""
    ]


def test_a_course_without_notebooks_is_not_well(course, capfd):
    (run.ROOT / "lessons" / "01_x.ipynb").unlink()
    assert course() == 1
    assert "no notebooks" in last_line(capfd)


def test_every_notebook_is_computed_once_and_an_old_processor_only_when_asked(monkeypatch):
    lessons, solutions = ["lessons/01_x.ipynb", "lessons/02_y.ipynb"], ["solutions/01_x.ipynb"]
    monkeypatch.delenv("MINI_ATTN_OLD_PROCESSOR", raising=False)
    steps, slow = run.steps(lessons), run.steps(solutions, slow=True)
    computed = {
        step: [part for part in command if part.endswith(".ipynb")] for step, command in steps.items()
    }
    assert computed == {"course": [], "library": [], "grader": [], "lessons": lessons}
    assert [part for part in slow["solutions"] if part.endswith(".ipynb")] == solutions
    monkeypatch.setenv("MINI_ATTN_OLD_PROCESSOR", "1")
    assert run.steps(lessons) == steps | {"lessons": [*run.OLD_PROCESSOR, *steps["lessons"]]}
    assert run.steps(solutions, slow=True) == slow
    assert list(run.steps([])) == ["course", "library", "grader"]


@pytest.mark.parametrize(("cores", "workers"), [(1, None), (2, None), (4, "2"), (64, "2")])
def test_many_cores_have_several_workers_in_each_part(monkeypatch, cores, workers):
    monkeypatch.setattr(run, "cores", lambda: cores)
    for step, command in (run.steps([]) | run.steps([], slow=True)).items():
        spread = command[command.index("-n") + 1] if "-n" in command else None
        assert spread == (None if step == "browser" else workers)
