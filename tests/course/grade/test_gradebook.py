"""nbgrader's gradebook: what the grader writes, what people write, and what is left after a kill."""

import contextlib
import csv
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from nbgrader import api
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from course import exercises
from course.check.specification import Exercise, Written
from course.grade import gradebook
from course.grade.marking import Mark
from course.grade.released import Lesson
from course.grade.walls import GraderError

WRITTEN = Written("90.3", "Why", 4, 5, [(4, "A reason.")])


@pytest.fixture
def written(monkeypatch):
    """The lesson's written questions; a test may change them."""
    questions = [WRITTEN]
    monkeypatch.setattr(exercises, "written", lambda number: questions)
    return questions


@pytest.fixture
def lesson(written):
    return make_lesson([2, 3])


def make_lesson(points):
    specs = [
        Exercise(f"90.{n}", "Double", worth, 4, 1, lambda x: 2 * x, lambda rng: [(1,)])
        for n, worth in enumerate(points, start=1)
    ]
    return Lesson("90", Path("90_sample.ipynb"), specs, {}, [], {})


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'gradebook.db'}"


def marks(*points):
    return [Mark(f"90.{n}", "Double", p, 3, "right", ["So."]) for n, p in enumerate(points, start=1)]


def person(url, student, cell, points, comment=None, extra=None):
    """What the formgrader does when a person marks."""
    with api.Gradebook(url, gradebook.COURSE) as book:
        grade = book.find_grade(cell, "90_sample", "lesson_90", student)
        grade.manual_score, grade.extra_credit, grade.needs_manual_grade = points, extra, False
        if comment:
            book.find_comment(cell, "90_sample", "lesson_90", student).manual_comment = comment
        book.db.commit()


def content(url):
    """Every grade and comment, without the ids that nbgrader makes up."""
    with api.Gradebook(url, gradebook.COURSE) as book:
        drop = ("id",)
        rows = [*book.db.query(api.Grade), *book.db.query(api.Comment)]
        found = [{k: v for k, v in row.to_dict().items() if k not in drop} for row in rows]
        return sorted(found, key=lambda row: (row["student"], row["name"], len(row)))


def grade(url, student, cell):
    with api.Gradebook(url, gradebook.COURSE) as book:
        return book.find_grade(cell, "90_sample", "lesson_90", student).to_dict()


def table(url, lesson, tmp_path):
    gradebook.export(url, lesson, tmp_path / "scores.csv")
    return list(csv.DictReader((tmp_path / "scores.csv").read_text().splitlines()))


def test_scores_are_where_nbgrader_looks_for_them(url, lesson):
    gradebook.record(url, lesson, {"ada": marks(2, 0), "bob": marks(0, 3)}, {"ada": {"90.3": "Because."}})
    with api.Gradebook(url, gradebook.COURSE) as book:
        task = book.find_assignment("lesson_90")
        assert (task.max_score, task.max_code_score, task.max_written_score) == (9, 5, 4)
        scores = {one.student.id: one.score for one in book.assignment_submissions("lesson_90")}
        assert scores == {"ada": 2, "bob": 3}
        assert [s.id for s in book.students] == ["ada", "bob"]
        said = book.find_comment("answer-90-1", "90_sample", "lesson_90", "ada")
        assert said.comment == "So."
        assert book.db.execute(api.text("select count(*) from alembic_version")).scalar() == 1
    assert grade(url, "ada", "exercise-90-1")["auto_score"] == 2
    assert grade(url, "ada", "exercise-90-1")["needs_manual_grade"] is False


def test_written_answers_wait_for_a_person(url, lesson):
    gradebook.record(url, lesson, {"ada": marks(2, 3), "bob": marks(2, 3)}, {"ada": {"90.3": "Because."}})
    assert grade(url, "ada", "written-90-3")["needs_manual_grade"]
    assert grade(url, "ada", "written-90-3")["auto_score"] is None
    assert not grade(url, "bob", "written-90-3")["needs_manual_grade"]
    assert grade(url, "bob", "written-90-3")["auto_score"] == 0


def test_unknown_answers_wait_for_a_person(url, lesson):
    gradebook.record(url, lesson, {"ada": marks(2, 3)})
    assert grade(url, "ada", "written-90-3")["needs_manual_grade"]


def test_a_persons_marks_stay(url, lesson):
    rows, answers = {"ada": marks(2, 0)}, {"ada": {"90.3": "Because."}}
    gradebook.record(url, lesson, rows, answers)
    person(url, "ada", "exercise-90-2", 1.5, extra=0.5)
    person(url, "ada", "written-90-3", 3, "Nearly.")
    before = content(url)
    gradebook.record(url, lesson, rows, answers)
    assert content(url) == before
    assert grade(url, "ada", "exercise-90-2")["manual_score"] == 1.5

    # a new submission: the person's marks stay until that person has looked again
    gradebook.record(url, lesson, {"ada": marks(2, 3)}, {"ada": {"90.3": "Because of the norm."}})
    for cell, points in (("exercise-90-2", 1.5), ("written-90-3", 3)):
        assert grade(url, "ada", cell)["manual_score"] == points
        assert grade(url, "ada", cell)["needs_manual_grade"]


def test_recorded_again_nothing_changes(url, lesson):
    rows = {"ada": marks(2, 0), "bob": marks(0, 3)}
    gradebook.record(url, lesson, rows, {"ada": {"90.3": "Because."}})
    before = content(url)
    gradebook.record(url, lesson, rows, {"ada": {"90.3": "Because."}})
    assert content(url) == before
    assert len(before) == 2 * (3 + 3)
    gradebook.record(url, lesson, {"ada": marks(0, 0)}, {"ada": {"90.3": "Because."}})
    changed = [row for row in content(url) if row not in before]
    assert [(row["student"], row["name"]) for row in changed] == [("ada", "exercise-90-1")]


def test_final_marks_are_the_persons(url, lesson):
    rows = {"ada": marks(2, 0), "bob": marks(0, 3)}
    gradebook.record(url, lesson, rows, {"ada": {"90.3": "Because."}})
    first = gradebook.final(url, lesson, rows)
    assert first["ada"][:2] == rows["ada"]
    assert (first["ada"][2].points, first["ada"][2].says) == (0, ["Not marked yet."])
    assert (first["bob"][2].points, first["bob"][2].says) == (0, ["No response."])
    person(url, "ada", "exercise-90-2", 1.5)
    person(url, "ada", "written-90-3", 3, "Nearly.")
    then = gradebook.final(url, lesson, rows)
    assert [mark.points for mark in then["ada"]] == [2, 1.5, 3]
    assert then["ada"][1].says[-1] == "A person changed the points."
    assert then["ada"][2].says == ["Nearly."]
    assert [mark.out_of for mark in then["ada"]] == [3, 3, 4]


def test_export_has_everybody_and_every_mark(url, lesson, tmp_path):
    gradebook.record(url, lesson, {"ada": marks(2, 0), "@x": marks(0, 3)}, {"ada": {"90.3": "Because."}})
    with api.Gradebook(url, gradebook.COURSE) as book:
        book.add_student("zoe")
    person(url, "ada", "written-90-3", 2.5)
    assert [list(row.values()) for row in table(url, lesson, tmp_path)] == [
        ["'@x", "0", "3", "0", "3", "9", "0"],
        ["ada", "2", "0", "2.5", "4.5", "9", "0"],
        ["zoe", "", "", "", "0", "9", "0"],
    ]
    assert list(table(url, lesson, tmp_path)[0])[1:4] == ["90.1", "90.2", "90.3"]
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_lessons_share_a_gradebook(url, lesson, tmp_path):
    gradebook.record(url, lesson, {"ada": marks(2, 0)}, {})
    other = Lesson("91", Path("91_other.ipynb"), lesson.specs[:1], {}, [], {})
    gradebook.record(url, other, {"ada": marks(1)}, {})
    assert table(url, lesson, tmp_path)[0]["total"] == "2"
    assert table(url, other, tmp_path)[0]["total"] == "1"


def test_a_changed_lesson(url, lesson, written):
    gradebook.record(url, lesson, {"ada": marks(2, 0)}, {"ada": {"90.3": "Because."}})
    longer = make_lesson([5, 3, 1])
    written[:] = []
    gradebook.record(url, longer, {"ada": marks(5, 0, 1)}, {})
    with api.Gradebook(url, gradebook.COURSE) as book:
        assert book.find_assignment("lesson_90").max_score == 9
        assert book.find_submission("lesson_90", "ada").score == 6
    person(url, "ada", "exercise-90-3", 0.5)
    with pytest.raises(ValueError, match="marks that a person gave for exercise-90-3"):
        gradebook.register(url, lesson)


def test_what_is_not_a_database(lesson):
    with pytest.raises(ValueError, match="not the URL of a database"):
        gradebook.register("gradebook.db", lesson)
    with pytest.raises(ValueError, match="not the URL of a database"):
        gradebook.register("nosuch://x/y", lesson)
    for memory in ("sqlite://", "sqlite:///:memory:"):
        with pytest.raises(ValueError, match=r"not the URL of a database \(it names no file"):
            gradebook.register(memory, lesson)


def test_a_driver_that_is_missing_is_named(lesson, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ValueError, match=r"needs a driver that is not installed here: .*psycopg2"):
        gradebook.register("postgresql+psycopg2://me:secret@localhost/marks", lesson)


def test_nbgrader_shows_no_traceback_of_what_is_said_in_a_sentence(url, lesson, monkeypatch, caplog):
    def full(*_):
        raise OperationalError("COMMIT", None, sqlite3.OperationalError("database or disk is full"))

    monkeypatch.setattr(gradebook, "PAUSES", ())
    with monkeypatch.context() as patch:
        patch.setattr(Session, "commit", full)
        with pytest.raises(GraderError, match="database or disk is full"):
            gradebook.register(url, lesson)
    assert caplog.records == []


RECORDER = """
import sys
sys.modules["rfc3987_syntax"] = None  # as `python -m course` leaves it out
sys.path.insert(0, {tests!r})
from test_gradebook import exercises, gradebook, make_lesson, marks, WRITTEN

exercises.written = lambda number: [WRITTEN]
rows = {{f"student{{n}}": marks(2, 3) for n in range(100)}}
gradebook.record({url!r}, make_lesson([2, 3]), rows, {{student: {{"90.3": "Because."}} for student in rows}})
"""


@pytest.mark.slow
def test_killed_in_the_middle_the_gradebook_is_whole(url, lesson, tmp_path):
    gradebook.register(url, lesson)
    code = textwrap.dedent(RECORDER).format(tests=str(Path(__file__).parent), url=url)
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "gradebook.db", timeout=30)) as database:
        while process.poll() is None and database.execute("select count(*) from student").fetchone()[0] < 5:
            time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    rows = content(url)
    assert 5 <= len(rows) // 6 < 100
    assert len(rows) % 6 == 0  # each student has all three grades and comments, or none
    assert all(row["auto_score"] == 3 for row in rows if row["name"] == "exercise-90-2")
    assert all(row["auto_comment"] for row in rows if "auto_comment" in row)
    gradebook.record(url, lesson, {f"student{n}": marks(2, 3) for n in range(100)}, {})
    assert len(content(url)) == 100 * 6


def test_a_gradebook_is_made_in_one_step(url, lesson, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(gradebook, "ScriptDirectory", None)  # stops between two tables
        with pytest.raises(TypeError):
            gradebook.register(url, lesson)
    gradebook.register(url, lesson)
    with api.Gradebook(url, gradebook.COURSE) as book:
        assert book.db.execute(api.text("select count(*) from alembic_version")).scalar() == 1
