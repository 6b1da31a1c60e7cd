"""What one submission costs, and what of it can reach another: nothing."""

import dataclasses
import errno
import json
import shutil
import threading
import time

import nbformat
import numpy as np
import pytest
from nbgrader import api

from course.grade import gradebook, grading, marking, plain, release, released, submission, trying
from course.grade.protocol import TIMEOUT, Answer, Report
from course.grade.sandbox import COMPARING, Limits
from course.grade.walls import NotStarted

START = "from course.exercise import exercise, check, todo\nimport numpy as np"
SQUARE = '@exercise("99.1")\ndef square(x):\n    return x**2'
TOTAL = '@exercise("99.2")\ndef total(x):\n    return (x**2).sum()'
BUSY = "the sandbox did not start: bwrap: Can't fork for pid 1: Resource temporarily unavailable"


def grade(tmp_path, jobs=2):
    rows = grading.grade(tmp_path / "submissions", "99", "s", tmp_path / "out", jobs)
    return {student: [mark.points for mark in marks] for student, marks in rows.items()}


def page(tmp_path, student):
    return (tmp_path / "out" / "feedback" / f"{student}.html").read_text(encoding="utf-8")


def by_hand(tmp_path, student, points):
    with api.Gradebook(release.default_database(tmp_path / "out"), gradebook.COURSE) as book:
        mark = book.find_grade("exercise-99-1", "99_squares", "lesson_99", student)
        mark.manual_score, mark.needs_manual_grade = points, False
        book.db.commit()


@pytest.fixture
def fake(monkeypatch):
    """Puts something else in the place of all sandboxes; its calls get the students' cells."""

    def put(call):
        monkeypatch.setattr(grading.Sandbox, "call", lambda self, *args, **seconds: call(*args, **seconds))

    return put


def right(cells, exercises, seconds=None):
    functions = {"99.1": lambda x: x**2, "99.2": lambda x: (x**2).sum()}
    answers = {id: [Answer(functions[id](*case)) for case in cases] for id, (_, cases) in exercises.items()}
    return Report(found=set(answers), answers=answers)


def test_a_failure_of_the_grader_is_one_students_line(arguments, submit, fake, tmp_path, capsys):
    for student in ("ada", "bob", "cy"):
        submit(student, f"{student} = 1")
    broken = True

    def call(cells, exercises, seconds=None):
        if broken and "bob = 1" in cells:
            raise TypeError("nobody thought of this")
        return right(cells, exercises)

    fake(call)
    assert grading.main(arguments) == 1
    assert "The grader failed on bob; they wait for a person, or for another run." in capsys.readouterr().out
    says = "The grader failed on this notebook (TypeError); a person will look at it."
    assert says in page(tmp_path, "bob")
    assert (tmp_path / "out" / "scores.csv").read_text().splitlines()[1:] == [
        "ada,3,3,6,6,0",
        "bob,0,0,0,6,2",
        "cy,3,3,6,6,0",
    ]
    assert grade(tmp_path) == {"ada": [3, 3], "bob": [0, 0], "cy": [3, 3]}
    broken = False  # it was not kept
    assert grade(tmp_path)["bob"] == [3, 3]
    assert "bob,3,3,6,6,0" in (tmp_path / "out" / "scores.csv").read_text()


@pytest.mark.parametrize("place", [(grading.feedback, "page"), (grading.written, "answers")])
def test_so_is_one_while_results_are_written(place, submit, fake, tmp_path, monkeypatch):
    for student in ("ada", "bob"):
        submit(student, "")
    fake(right)
    whole, work = [], getattr(*place)

    def fail(first, second, *rest):
        if "bob" in (first, getattr(second, "student", "")):
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        whole.append(first)
        return work(first, second, *rest)

    monkeypatch.setattr(*place, fail)
    rows = grading.grade(tmp_path / "submissions", "99", "s", tmp_path / "out")
    assert whole
    assert [mark.points for mark in rows["ada"]] == [3, 3]
    assert {mark.state for mark in rows["bob"]} == {"failed"}
    assert "ada,3,3,6,6,0" in (tmp_path / "out" / "scores.csv").read_text()


def test_who_ran_out_of_time_beside_others_is_tried_again_alone(submit, fake, tmp_path):
    for student in ("ada", "bob", "cy", "dan"):
        submit(student, f"{student} = 1")
    running, alone, lock = set(), {}, threading.Lock()

    def call(cells, exercises, seconds=None):
        me = cells[-1]
        with lock:
            running.add(me)
        time.sleep(0.1)
        with lock:
            busy = len(running) > 1
            running.discard(me)
        report = right(cells, exercises)
        if me == "ada = 1" and me not in alone:
            report.problems["99.1"] = TIMEOUT
        elif me == "dan = 1" and me not in alone:  # files on their way were another's
            report.answers["99.1"][0] = Answer(
                error="OSError: [Errno 109] Too many references: cannot splice"
            )
        elif me == "bob = 1":  # stopped by the alarm inside, always
            report.answers["99.1"][0] = Answer(error="TimeIsUp: it took too long")
        alone.setdefault(me, []).append(not busy)
        return report

    fake(call)
    assert grade(tmp_path, jobs=4) == {"ada": [3, 3], "bob": [0, 3], "cy": [3, 3], "dan": [3, 3]}
    assert {me: len(times) for me, times in alone.items()} == {
        "ada = 1": 2,
        "bob = 1": 2,
        "cy = 1": 1,
        "dan = 1": 2,
    }
    assert alone["ada = 1"][1]
    assert alone["bob = 1"][1]
    assert "Your function took too long." in page(tmp_path, "bob")


@pytest.mark.parametrize(
    "error",
    [BlockingIOError(errno.EAGAIN, "busy"), RuntimeError("can't start new thread"), NotStarted(BUSY)],
    ids=["fork", "thread", "bubblewrap"],
)
@pytest.mark.parametrize("solved", [False, True])
def test_whose_grader_had_no_process_left_is_tried_again_alone(error, solved, submit, fake, tmp_path):
    for student in ("ada", "bob"):
        submit(student, f"{student} = 1", SQUARE.replace("x**2", "x"), TOTAL)
    sandbox, failed = Recorded(), []

    def call(cells, exercises, seconds=None):
        report = sandbox(cells, exercises)
        if cells[0] == "ada = 1" and (cells[-1] == SQUARE) == solved and not failed:
            failed.append(cells)
            raise error
        return report

    fake(call)
    rows = grading.grade(tmp_path / "submissions", "99", "s", tmp_path / "out", 2)
    assert {student: [mark.state for mark in marks] for student, marks in rows.items()} == {
        student: ["wrong", "right"] for student in ("ada", "bob")
    }
    assert [solved for _, solved, _ in sandbox.calls] == (
        [False] * 2 + [True] * 3 if solved else [False] * 3 + [True] * 2
    )
    assert "The grader failed" not in page(tmp_path, "ada")


def test_who_has_none_left_alone_waits_for_another_run(submit, fake, tmp_path):
    for student in ("ada", "bob"):
        submit(student, f"{student} = 1")
    tried = []

    def call(cells, exercises, seconds=None):
        tried.append(cells[-1])
        if cells[-1] == "ada = 1":
            raise BlockingIOError(errno.EAGAIN, "busy")
        return right(cells, exercises)

    fake(call)
    assert grade(tmp_path) == {"ada": [0, 0], "bob": [3, 3]}
    assert sorted(tried) == ["ada = 1", "ada = 1", "bob = 1"]
    assert "The grader failed on this notebook (BlockingIOError)" in page(tmp_path, "ada")
    fake(right)
    assert grade(tmp_path) == {"ada": [3, 3], "bob": [3, 3]}


@pytest.mark.parametrize("solved", [False, True])
@pytest.mark.parametrize("jobs", [1, 2])
def test_no_sandbox_for_one_alone_stops_the_grader_after_all_others(jobs, solved, submit, fake, tmp_path):
    for student in ("ada", "bob"):
        submit(student, f"{student} = 1", SQUARE.replace("x**2", "x"), TOTAL)
    sandbox, tried = Recorded(), []

    def call(cells, exercises, seconds=None):
        if (cells[-1] == SQUARE) == solved:
            tried.append(cells[0])
            if cells[0] == "ada = 1":
                raise NotStarted(BUSY)
        return sandbox(cells, exercises)

    fake(call)
    with pytest.raises(grading.GraderError, match="Resource temporarily unavailable"):
        grade(tmp_path, jobs)
    assert sorted(tried) == ["ada = 1", "ada = 1", "bob = 1"]
    assert tried[-1] == "ada = 1"
    fake(sandbox)
    before = len(sandbox.calls)
    assert grade(tmp_path, jobs) == {"ada": [0, 3], "bob": [0, 3]}
    assert {me for me, *_ in sandbox.calls[before:]} == ({"ada"} if solved else {"ada", "bob"})


class Recorded:
    """Stands for all sandboxes: 99.1 is never right; the first tries of 99.2 fail as `errors` say."""

    def __init__(self, **errors):
        self.errors, self.calls = errors, []

    def __call__(self, cells, exercises, seconds=None):
        me, solved = cells[0].partition(" ")[0], cells[-1] == SQUARE
        self.calls.append((me, solved, [*exercises]))
        errors = self.errors.get(f"{me}_again" if solved else me, [])
        report = right(cells, exercises)
        if not solved:
            report.answers["99.1"] = report.answers["99.2"] = [Answer(0.5)] * 2
        if errors:
            report.answers["99.2"] = [Answer(error=errors.pop(0))] * 2
        return report


CUT = "OSError: [Errno 109] Too many references: cannot splice"


def test_no_first_try_comes_after_one_with_a_solution(submit, fake, tmp_path):
    students = ("ada", "bob", "cy", "dan")
    for student in students:
        submit(student, f"{student} = 1", SQUARE.replace("x**2", "x"), TOTAL)
    sandbox = Recorded(bob=[CUT], cy_again=[CUT], dan=[CUT, CUT], dan_again=[CUT, CUT])
    fake(sandbox)
    rows = grade(tmp_path)
    assert rows == {"ada": [0, 3], "bob": [0, 3], "cy": [0, 3], "dan": [0, 0]}
    begin = [solved for _, solved, _ in sandbox.calls].index(True)
    first, again = sandbox.calls[:begin], sandbox.calls[begin:]
    assert sorted(me for me, *_ in first) == ["ada", "bob", "bob", "cy", "dan", "dan"]
    assert sorted(me for me, *_ in again) == ["ada", "bob", "cy", "cy", "dan", "dan"]
    assert all(solved and tried == ["99.2"] for _, solved, tried in again)
    assert {me for me, *_ in again[:4]} == {*students}  # who was disturbed comes again at the end
    assert "It builds on 99.1, for which it was given the solution." in page(tmp_path, "cy")


def test_those_with_a_solution_are_by_exercise(submit, small, fake, tmp_path, monkeypatch):
    """One for a later exercise may hold the solution of an earlier one."""
    both = dataclasses.replace(small, needs={"99.1": {"99.2"}, "99.2": {"99.1"}})
    monkeypatch.setattr(released, "lesson", lambda number: both)
    for student in ("ada", "bob"):
        submit(student, f"{student} = 1")
    calls = []

    def call(cells, exercises, seconds=None):
        calls.append([*exercises])
        answers = {id: [Answer(error=CUT if len(calls) < 9 else "KeyError")] * 2 for id in exercises}
        return Report(found={*exercises}, answers=answers)

    fake(call)
    assert grade(tmp_path) == {"ada": [0, 0], "bob": [0, 0]}
    assert calls == [["99.1", "99.2"]] * 4 + [["99.1"]] * 4 + [["99.2"]] * 2


def test_first_marks_are_kept_before_any_solution_is_in_a_sandbox(submit, fake, tmp_path):
    for student in ("ada", "bob"):
        submit(student, f"{student} = 1", SQUARE.replace("x**2", "x"), TOTAL)
    sandbox = Recorded()

    def stop(cells, exercises, seconds=None):
        if cells[-1] == SQUARE:
            raise grading.GraderError("no room")
        return sandbox(cells, exercises)

    fake(stop)
    with pytest.raises(grading.GraderError):
        grade(tmp_path)
    assert len(sandbox.calls) == 2
    fake(sandbox)
    assert grade(tmp_path) == {"ada": [0, 3], "bob": [0, 3]}
    assert [solved for _, solved, _ in sandbox.calls] == [False] * 2 + [True] * 2


def test_a_failure_of_the_grader_there_costs_that_exercise(submit, fake, tmp_path):
    submit("ada", "ada = 1", SQUARE.replace("x**2", "x"), TOTAL)
    sandbox = Recorded()

    def call(cells, exercises, seconds=None):
        if cells[-1] == SQUARE and len(sandbox.calls) == 1:
            sandbox(cells, exercises)
            raise TypeError("nobody thought of this")
        return sandbox(cells, exercises)

    fake(call)
    rows = grading.grade(tmp_path / "submissions", "99", "s", tmp_path / "out")
    assert [mark.state for mark in rows["ada"]] == ["wrong", "failed"]
    assert grade(tmp_path) == {"ada": [0, 3]}
    assert len(sandbox.calls) == 3


def test_of_a_try_alone_the_cells_are_not_told(submit, fake, tmp_path):
    """The first had the inputs, and could have left them where cells find them."""
    for student in ("ada", "bob"):
        submit(student, f"{student} = 1")
    tried = []

    def call(cells, exercises, seconds=None):
        report, me = right(cells, exercises), cells[-1]
        if me == "ada = 1":
            if me not in tried:
                report.answers["99.2"][0] = Answer(error=CUT)
                report.cell_errors = {0: "KeyError"}
            else:
                report.cell_errors = {0: "NameError: name 'm0p741' is not defined"}
                report.registered = {"99.1": [(0, "m0p741")]}
                report.problems["cell 7"] = TIMEOUT
            tried.append(me)
        return report

    fake(call)
    assert grade(tmp_path) == {"ada": [3, 3], "bob": [3, 3]}
    assert len(tried) == 2
    said = page(tmp_path, "ada").partition("About the notebook")[2]
    assert "cell 1 failed: KeyError" in said
    assert trying.ALONE in said
    assert "m0p741" not in said
    assert "cell 7" not in said
    assert trying.ALONE not in page(tmp_path, "bob")


@pytest.mark.parametrize("blind", [True, False])
def test_of_a_first_try_without_the_inputs_nothing_is_told(blind, submit, fake, tmp_path):
    for student in ("ada", "bob"):
        submit(student, f"{student} = 1")
    failed = []

    def call(cells, exercises, seconds=None):
        if cells[-1] == "ada = 1" and not failed:
            failed.append(BlockingIOError(errno.EAGAIN, "busy"))
            failed[0].blind = blind
            raise failed[0]
        report = right(cells, exercises)
        report.cell_errors = {0: "ZeroDivisionError"}
        return report

    fake(call)
    assert grade(tmp_path) == {"ada": [3, 3], "bob": [3, 3]}
    assert ("cell 1 failed: ZeroDivisionError" in page(tmp_path, "ada")) == blind
    assert (trying.ALONE in page(tmp_path, "ada")) != blind


def test_all_tries_share_the_time_of_one_submission(submit, small, tmp_path):
    submit("ada", START, SQUARE, TOTAL)
    (one,) = submission.find(tmp_path / "submissions", small)
    given = []

    class Clock:
        limits = Limits(total_seconds=10)

        def call(self, cells, exercises, seconds=None):
            given.append(seconds)
            time.sleep(0.2)
            report = right(cells, exercises)
            for answers in report.answers.values():
                answers[0] = Answer(value=None)
            return report

    cases = {spec.id: spec.draw(0) for spec in small.specs}
    first = trying.attempt(one, small, cases, Clock())
    trying.again(one, small, cases, Clock(), "99.2", first)
    alone = trying.attempt(one, small, cases, Clock(), first)
    trying.again(one, small, cases, Clock(), "99.2", alone, alone)
    assert given[::2] == [10, 10]
    assert all(9 < left < 9.81 for left in given[1::2])


def test_time_that_is_over_starts_no_sandbox(sandbox, cases):
    report = sandbox.call(["x = 1"], {"99.1": ("square", cases["99.1"])}, seconds=0)
    assert report.problems == {"99.1": TIMEOUT}


@pytest.mark.slow
def test_the_largest_answers_are_compared_in_time():
    lesson, worst = released.lesson("06"), []
    cases = {spec.id: spec.draw(0) for spec in lesson.specs}
    size = plain.SIZE // plain.ENTRY
    for value in ([0] * (size - 1), [[0.5] * 63] * (size // 65)):
        answer = plain.decode(plain.encode(value))
        answers = {id: [Answer(answer) for _ in inputs] for id, inputs in cases.items()}
        start = time.process_time()  # whatever else the machine does
        marks = marking.mark(lesson, Report(found=set(cases), answers=answers), cases)
        worst.append(time.process_time() - start)
        assert not any(mark.points for mark in marks)
    assert max(worst) < COMPARING
    for value in ([0] * (size + 1), [np.zeros(plain.SIZE // 16)] * 2, ["x" * 2000] * 66):
        with pytest.raises(plain.TooLarge):
            plain.encode(value)


def test_what_a_cell_said_is_told(submit, fake, tmp_path):
    submit("ada", "")

    def call(cells, exercises, seconds=None):
        errors = {0: "ModuleNotFoundError: No module named 'pandas'", 1: "NotAttempted"}
        return Report(cell_errors=errors | {n: "KeyError: 1" for n in range(2, 30)})

    fake(call)
    grade(tmp_path)
    assert "cell 1 failed: ModuleNotFoundError: No module named &#x27;pandas&#x27;" in page(tmp_path, "ada")
    assert marking.FAILED in page(tmp_path, "ada")
    assert "cell 2 failed" not in page(tmp_path, "ada")
    assert page(tmp_path, "ada").count(" failed: ") == trying.NOTED
    assert "so did others: 29 cells failed, 0 were left out" in page(tmp_path, "ada")


def test_what_was_handed_out_does_not_fail_and_a_reset_is_named(submit, fake, tmp_path):
    submit("ada", START, f"{TOTAL}\r\n", 'check("99.2", total)', 'check("99.2", 3)', "x = 1\n%reset -f")

    def call(cells, exercises, seconds=None):
        return Report(cell_errors={2: "KeyError", 3: "KeyError"})

    fake(call)
    grade(tmp_path)
    assert "cell 3 failed" not in page(tmp_path, "ada")
    assert "cell 4 failed: KeyError" in page(tmp_path, "ada")
    assert "cell 5 has %reset, which removes what the cells before it made" in page(tmp_path, "ada")
    assert page(tmp_path, "ada").count("%reset") == 1


def test_late_and_hostile_names_move_nobodys_marks(submit, fake, tmp_path):
    fake(right)
    submit("Müller", "a = 1")
    submit("ada", "b = 1")
    mueller = submission.identity("Müller")
    assert grade(tmp_path) == {mueller: [3, 3], "ada": [3, 3]}
    by_hand(tmp_path, mueller, 1.5)
    for name in ("Möller", "M_ller", f"{mueller}", "M?ller"):
        submit(name, "c = 1")
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "submissions" / "ada.ipynb")
    fake(lambda cells, exercises, seconds=None: Report())
    rows = grade(tmp_path)
    assert rows.pop(mueller) == [1.5, 3]
    assert rows.pop("ada") == [3, 3]  # what was graded before stays until one of the two is gone
    assert "this student has several files or folders here; leave one of them" in page(tmp_path, "ada")
    assert set(map(tuple, rows.values())) == {(0, 0)}
    assert len(rows) == 4
    assert "ada,3,3,6,6,0" in (tmp_path / "out" / "scores.csv").read_text()


def test_two_of_one_name_from_the_beginning_have_a_line(submit, fake, tmp_path):
    fake(right)
    submit("ada", "b = 1")
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "submissions" / "ada.ipynb")
    assert grade(tmp_path) == {"ada": [0, 0]}
    assert "ada,0,0,0,6,0" in (tmp_path / "out" / "scores.csv").read_text()
    (tmp_path / "submissions" / "ada.ipynb").unlink()
    assert grade(tmp_path) == {"ada": [3, 3]}


@pytest.fixture
def kept(small, tmp_path):
    """Puts a row with 1.5 points by hand, and its result, under the id that a name was once changed to."""
    students = tmp_path / "out" / "students"

    def put(name, former):
        students.mkdir(parents=True, exist_ok=True)
        record = {"key": "old", "marks": [], "notes": [f"the name {name[:100]!r} was changed to {former!r}"]}
        (students / f"{former}.json").write_text(json.dumps(record))
        nothing = marking.nothing(small, "old")
        gradebook.record(release.default_database(tmp_path / "out"), small, {former: nothing})
        by_hand(tmp_path, former, 1.5)

    return put


@pytest.mark.parametrize("former", ["M_ller", "M_ller-a7842989"])
def test_marks_under_an_old_id_go_with_their_student(former, submit, fake, kept, tmp_path):
    fake(right)
    kept("Müller", former)
    for name in ("Müller", "Möller", "M_ller"):
        submit(name, "a = 1")
    rows = grade(tmp_path)
    assert rows.pop(submission.identity("Müller")) == [1.5, 3]
    assert rows == {submission.identity("Möller"): [3, 3], "M_ller": [3, 3]}
    assert len(list((tmp_path / "out" / "students").iterdir())) == 3
    assert (tmp_path / "out" / "scores.csv").read_text().count("\n") == 4
    fake(lambda *arguments, **seconds: pytest.fail("graded twice"))
    assert sum(map(sum, grade(tmp_path).values())) == 16.5


def test_a_result_that_was_kept_since_is_not_replaced(submit, fake, kept, tmp_path):
    fake(right)
    submit("Müller", "a = 1")
    rows = grade(tmp_path)
    kept("Müller", "M_ller")
    fake(lambda *arguments, **seconds: pytest.fail("graded twice"))
    assert grade(tmp_path) == rows


@pytest.mark.parametrize("length", [100, 130])
def test_who_hands_in_later_under_a_name_that_begins_alike_gets_nothing(length, submit, fake, kept, tmp_path):
    begin = "n" * (length - 1) + "é"
    fake(right)
    submit(f"{begin}A", "a = 1")
    grade(tmp_path)
    first, former = submission.identity(f"{begin}A"), "n" * 60
    by_hand(tmp_path, first, 1.5)
    kept(f"{begin}A", former)
    shutil.rmtree(tmp_path / "submissions" / f"{begin}A")
    fake(lambda cells, exercises, seconds=None: Report())
    for name in {f"{begin}B", begin, f"{begin}A"[:100]}:
        submit(name, "b = 1")
    assert set(map(tuple, grade(tmp_path).values())) == {(0, 0)}
    scores = (tmp_path / "out" / "scores.csv").read_text()
    assert f"\n{first},1.5,3,4.5," in scores
    assert f"\n{former},1.5," in scores
    assert (tmp_path / "out" / "students" / f"{first}.json").exists()


@pytest.mark.parametrize(
    "old",
    [
        None,
        "M_ller",
        *(pytest.param(old, marks=pytest.mark.slow) for old in ("M_ller-a7842989", "M_ller-8a2a2a2a")),
    ],
)
def test_a_file_and_a_notebook_of_one_name_are_two(old, fake, kept, tmp_path):
    submissions, students = tmp_path / "submissions", tmp_path / "out" / "students"
    new = submission.identity("Müller")
    if old is not None:
        kept("Müller", old)
    submissions.mkdir()
    (submissions / "Müller").write_text("not a notebook")
    fake(right)
    assert list(grade(tmp_path).values()) == [[0, 0]]
    nbformat.write(nbformat.v4.new_notebook(), submissions / "Müller.ipynb")
    rows = grade(tmp_path)
    assert rows.pop(new) == [1.5 if old in ("M_ller", "M_ller-a7842989") else 3, 3]
    assert list(rows.values()) == [[0, 0]]
    before = {path: path.read_bytes() for path in students.iterdir()}
    fake(lambda *arguments, **seconds: pytest.fail("graded twice"))
    nbformat.write(nbformat.v4.new_notebook(), submissions / "Müller.IPYNB")
    rows = grade(tmp_path)
    assert rows[new][1] == 3
    assert {path: path.read_bytes() for path in students.iterdir()} == before
    assert "neither a notebook" not in page(tmp_path, new)
    assert "this student has several files or folders here" in page(tmp_path, new)
