"""The command as a whole, on a made-up lesson: what is restored, forgiven, kept and repeated."""

import json
import re
from pathlib import Path

import pytest

from course import exercises
from course.check.checking import problem_with
from course.check.trying import Outcome, run
from course.grade import grading, released, submission
from course.grade.sandbox import GraderError, Limits

START = "from course.exercise import exercise, check, todo\nimport numpy as np"  # as in `small`
SQUARE = '@exercise("99.1")\ndef square(x):\n    return x**2'
TOTAL = '@exercise("99.2")\ndef total(x):\n    return square(x).sum()'


def points(tmp_path, seed="s"):
    rows = grading.grade(tmp_path / "submissions", "99", seed, tmp_path / "out", jobs=2)
    return {student: [mark.points for mark in marks] for student, marks in rows.items()}


def notes(tmp_path, student):
    return json.loads((tmp_path / "out" / "students" / f"{student}.json").read_text())["notes"]


def test_a_lesson_knows_what_builds_on_what(small):
    assert small.needs == {"99.1": set(), "99.2": {"99.1"}}
    assert small.foundations == [("cell-zero", START, START)]
    assert small.functions == {"99.1": "square", "99.2": "total"}


@pytest.mark.parametrize("number", exercises.lessons())
def test_every_lesson_can_be_graded(number):
    lesson = released.lesson(number)
    assert set(lesson.functions) == set(lesson.solutions) == {spec.id for spec in lesson.specs}
    assert any("import numpy" in code for *_, code in lesson.foundations)
    assert all(needed < id for id, others in lesson.needs.items() for needed in others)
    assert not any("check(" in code for *_, code in lesson.foundations)


@pytest.mark.slow
def test_moved_renamed_split_and_repeated_answers_count(submit, tmp_path):
    submit("moved", START, TOTAL, SQUARE)
    submit("renamed", START, SQUARE.replace("def square", "def quadrat"), "square = quadrat", TOTAL)
    submit("bare", START, SQUARE.split("\n", 1)[1], TOTAL)
    submit("twice", START, SQUARE.replace("x**2", "x"), SQUARE, TOTAL)
    submit("no imports", SQUARE, TOTAL, ids=("cell-one", "cell-two"))
    assert set(map(tuple, points(tmp_path).values())) == {(3, 3)}
    assert any("found in code cell 3" in note for note in notes(tmp_path, "moved"))
    assert any("is called quadrat instead of square" in note for note in notes(tmp_path, "renamed"))
    assert any("@exercise was missing" in note for note in notes(tmp_path, "bare"))
    assert any("the last one counts" in note for note in notes(tmp_path, "twice"))
    assert any("restored" in note for note in notes(tmp_path, submission.identity("no imports")))


@pytest.mark.slow
def test_a_wrong_first_exercise_does_not_cost_the_second(submit, tmp_path):
    blank = re.sub(r"return .*", "todo()", SQUARE)
    submit("wrong", START, SQUARE.replace("x**2", "2 * x"), TOTAL)
    submit("skipped", START, blank, TOTAL)
    submit("both", START, SQUARE.replace("x**2", "2 * x"), TOTAL.replace(".sum()", ".max()"))
    submit("blank", START, blank, re.sub(r"return .*", "todo()", TOTAL))
    assert points(tmp_path) == {"wrong": [0, 3], "skipped": [0, 3], "both": [0, 0], "blank": [0, 0]}
    page = (tmp_path / "out" / "feedback" / "wrong.html").read_text()
    assert "It builds on 99.1, for which it was given the solution." in page


@pytest.mark.slow
def test_grading_goes_on_where_it_stopped_and_gives_the_same_marks(submit, tmp_path, monkeypatch):
    submit("ada", START, SQUARE, TOTAL)
    submit("bob", START, SQUARE.replace("x**2", "x"), TOTAL)
    calls, call = [], grading.Sandbox.call

    def counted(self, cells, exercises, **seconds):
        calls.append(cells)
        if len(calls) == 2:
            raise GraderError("the power failed")
        return call(self, cells, exercises, **seconds)

    monkeypatch.setattr(grading.Sandbox, "call", counted)
    with pytest.raises(GraderError, match="the power failed"):
        grading.grade(tmp_path / "submissions", "99", "s", tmp_path / "out", jobs=1)
    first = points(tmp_path)
    assert first == {"ada": [3, 3], "bob": [0, 3]}
    done = len(calls)
    assert points(tmp_path) == first
    assert len(calls) == done  # nothing was run again
    assert points(tmp_path, seed="another") == first
    assert len(calls) > done
    submit("bob", START, SQUARE, TOTAL)
    assert points(tmp_path, seed="another") == {"ada": [3, 3], "bob": [3, 3]}


def test_every_submission_has_a_row_and_a_page(submit, tmp_path):
    submit("ada", START, SQUARE, TOTAL)
    (tmp_path / "submissions" / "eve.ipynb").write_text("{")
    (tmp_path / "submissions" / "nil").mkdir()
    assert points(tmp_path) == {"ada": [3, 3], "eve": [0, 0], "nil": [0, 0]}
    for student in ("ada", "eve", "nil"):
        assert (tmp_path / "out" / "feedback" / f"{student}.html").exists()
    assert (tmp_path / "out" / "scores.csv").read_text().count("\n") == 4


def test_bad_arguments_are_refused_with_a_reason(tmp_path, small):
    with pytest.raises(ValueError, match="there is no lesson '98'"):
        grading.grade(tmp_path, "98", "s", tmp_path / "out")
    (tmp_path / "submissions").mkdir()
    with pytest.raises(ValueError, match="holds no folders or notebooks of students"):
        grading.grade(tmp_path / "submissions", "99", "s", tmp_path / "out")
    with pytest.raises(ValueError, match="jobs = 0"):
        grading.grade(tmp_path / "submissions", "99", "s", tmp_path / "out", jobs=0)
    for out in ("submissions", "submissions/results", "x/../submissions"):
        with pytest.raises(ValueError, match="lies among the submissions"):
            grading.grade(tmp_path / "submissions", "99", "s", tmp_path / out)


def test_the_command_names_those_of_whom_nothing_could_be_graded(tmp_path, submit, arguments, capsys):
    for name in ("ada", "bob"):
        submit(name, "")
        next((tmp_path / "submissions" / name).iterdir()).write_bytes("{}".encode("utf-16"))
    assert grading.main(arguments) == 0
    assert "Nothing could be graded of ada, bob; their pages say why." in capsys.readouterr().out


@pytest.mark.parametrize("secret", [["--seed", ""], ["--seed", " "], ["--seed-file", "seed.txt"]])
def test_an_empty_seed_is_refused(secret, tmp_path, small, submit, capsys, monkeypatch):
    submit("ada", START)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed.txt").write_text("\n")
    assert grading.main(["submissions", "--lesson", "99", *secret, "--out", "out"]) == 1
    assert capsys.readouterr().err == (
        "Grading stopped: the seed is empty; draw one as the instructor's guide says\n"
    )


def test_a_seed_of_bytes_is_a_sentence(tmp_path, capsys):
    (tmp_path / "seed").write_bytes(b"secret\xcd")
    secret = ["--seed-file", str(tmp_path / "seed"), "--out", str(tmp_path / "out")]
    assert grading.main([str(tmp_path), "--lesson", "99", *secret]) == 1
    assert capsys.readouterr().err == (
        f"Grading stopped: {tmp_path / 'seed'} is not a text; draw a seed as the instructor's guide says\n"
    )


def test_the_seed_decides_the_inputs_of_each_exercise_alone():
    one, other = exercises.exercises("06")[:2]
    drawn = [repr(grading._inputs(seed, spec)) for seed in ("a", "b", "") for spec in (one, other)]
    assert len(set(drawn)) == 6
    assert repr(grading._inputs("a", one)) == drawn[0]


@pytest.mark.parametrize("id", ["10.4", "12.1"])
def test_answers_told_by_counting_calls_earn_nothing(id):
    """Drawn in one order, the answers to these follow each other alike for (nearly) every seed."""
    (spec,) = [spec for spec in exercises.exercises(id[:2]) if spec.id == id]

    def answers(seed):
        return [run(spec.reference, case, spec.parameters) for case in grading._inputs(seed, spec)]

    by_heart = answers("of last year")
    for k in range(5):
        pairs = zip(answers(f"of this year {k}"), by_heart, strict=True)
        assert any(problem_with(spec, wanted, Outcome(told.value)) for wanted, told in pairs)


@pytest.mark.parametrize(
    "name",
    [
        "check/checking",
        "check/trying",
        "grade/runner",
        "grade/submission",
        "exercises/points",
        "exercises/lesson_02",
    ],
)
def test_a_result_is_kept_no_longer_than_what_decides_it(name, monkeypatch):
    lesson, read = released.lesson("02"), Path.read_text
    one = submission.Submission("ada", "ada", None)
    kept = grading._key(one, lesson, "s", Limits())
    assert grading._key(one, lesson, "s", Limits()) == kept
    changed = Path(grading.__file__).parents[1] / f"{name}.py"
    monkeypatch.setattr(Path, "read_text", lambda path, **how: read(path, **how) + "\n" * (path == changed))
    assert grading._key(one, lesson, "s", Limits()) != kept


def test_students_names_are_shown_as_text(lesson):
    assert submission.STUDENT.fullmatch("ada.lovelace@uni-x_1")
    assert not submission.STUDENT.fullmatch("../ada")
