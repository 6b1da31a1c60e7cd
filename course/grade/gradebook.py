"""nbgrader's gradebook: scores from the grader and from people, in any database that SQLAlchemy reaches.

The grader writes `auto_score` and `auto_comment`; `manual_score`, `manual_comment` and `extra_credit` belong
to the person who marks in nbgrader's formgrader and are never touched. Each student is one transaction, so
that the database is whole at any moment.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import hashlib
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from alembic.script import ScriptDirectory
from nbgrader import api, dbutil
from sqlalchemy import create_engine, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from course import exercises
from course.files import write
from course.grade.marking import Mark
from course.grade.released import Lesson
from course.grade.walls import GraderError

COURSE = "mini_attn"
PAUSES = (0.1, 0.3, 1.0, 3.0)  # seconds between tries where another program writes to the same gradebook


@dataclass(frozen=True)
class Cell:
    """A cell with points, as nbgrader's gradebook and notebooks know it.

    Attributes:
        id, title, points: of the exercise or written question.
        written: marked by a person.
        grade_id: nbgrader's name for the cell that has the points.
        solution_id: nbgrader's name for the cell where the student writes, and where comments go.
    """

    id: str
    title: str
    points: float
    written: bool

    @property
    def grade_id(self) -> str:
        return f"{'written' if self.written else 'exercise'}-{self.id.replace('.', '-')}"

    @property
    def solution_id(self) -> str:
        return self.grade_id if self.written else f"answer-{self.id.replace('.', '-')}"


def cells(lesson: Lesson) -> list[Cell]:
    """The cells of a lesson that have points, in order."""
    asked = [(lesson.specs, False), (exercises.written(lesson.number), True)]
    return [Cell(spec.id, spec.title, spec.points, written) for specs, written in asked for spec in specs]


def assignment(lesson: Lesson) -> str:
    """nbgrader's name of a lesson, "lesson_06"."""
    return f"lesson_{lesson.number}"


def _patient(work: Callable) -> Callable:
    """Do a piece of work again if another program came in between; what was done already stays so."""

    @functools.wraps(work)
    def wrapper(*arguments, **keywords):
        for pause in (*PAUSES, None):
            try:
                return work(*arguments, **keywords)
            except (SQLAlchemyError, api.InvalidEntry) as error:
                if pause is None or not isinstance(
                    error, IntegrityError | OperationalError | api.InvalidEntry
                ):
                    reason = str(getattr(error, "orig", None) or error).splitlines()[0]
                    raise GraderError(f"the gradebook could not be read or written: {reason}") from error
                time.sleep(pause)

    return wrapper


@_patient
def register(url: str, lesson: Lesson) -> None:
    """Make the assignment, its notebook and its cells known to the gradebook; again, nothing changes.

    Args:
        url: of the database, "sqlite:////home/me/gradebook.db"; it is made if there is none.
        lesson: as it was handed out.

    Raises:
        ValueError: not a database URL; or a person has already marked an exercise that the lesson lost.
        GraderError: the database cannot be written, as for the others here.
    """
    with _open(url) as db:
        _register(db, lesson)
        db.commit()


@_patient
def record(
    url: str,
    lesson: Lesson,
    rows: dict[str, list[Mark]],
    answers: dict[str, dict[str, str]] | None = None,
) -> None:
    """Write what the grader found; recorded again, nothing changes.

    Args:
        url: of the database.
        lesson: as it was handed out; registered if it is not yet.
        rows: student -> marks of the exercises.
        answers: student -> written question -> the answer; one that is missing or empty gets 0 points, the
            others wait for a person. None: not known, so that a person has to look at all of them.
    """
    with _open(url) as db:
        _register(db, lesson)
        db.commit()
        for student, marks in rows.items():
            notebook = _submitted(db, lesson, student)
            given = {mark.id: mark for mark in marks}
            for cell, grade, comment in _entries(db, lesson, notebook):
                if not cell.written:
                    _score(grade, given[cell.id].points)
                    if given[cell.id].state == "failed" and grade.manual_score is None:
                        grade.needs_manual_grade = True
                    comment.auto_comment = "\n".join(given[cell.id].says)
                elif answers is None:
                    grade.needs_manual_grade = grade.manual_score is None
                else:
                    _answered(grade, comment, answers.get(student, {}).get(cell.id, ""))
            db.commit()


@_patient
def final(url: str, lesson: Lesson, rows: dict[str, list[Mark]]) -> dict[str, list[Mark]]:
    """The marks that count: the grader's, changed and completed by what a person entered.

    Args:
        url: of the database, in which `record` has put the rows.
        lesson: as it was handed out.
        rows: student -> the grader's marks.

    Returns:
        student -> a mark for each exercise and each written question.
    """
    with _open(url) as db:
        result = {}
        for student, marks in rows.items():
            notebook, given = _submitted(db, lesson, student), {mark.id: mark for mark in marks}
            entries = _entries(db, lesson, notebook)
            result[student] = [_final(given.get(entry[0].id), *entry) for entry in entries]
        return result


@_patient
def rename(url: str, old: str, new: str) -> None:
    """Give all that the gradebook has under a student's old id to the new one, unless that has a row."""
    with _open(url) as db:
        person = db.get(api.Student, old)
        if person is None or db.get(api.Student, new) is not None:
            return
        fields = {name: getattr(person, name) for name in ("first_name", "last_name", "email", "lms_user_id")}
        successor = api.Student(id=new, **fields)
        db.add(successor)
        for handed_in in list(person.submissions):
            handed_in.student = successor
        db.flush()
        db.delete(person)
        db.commit()


@_patient
def export(url: str, lesson: Lesson, path: Path) -> None:
    """Write the scores of all students, a person's marks included, as CSV in one step.

    A student who handed in nothing has empty fields and 0 points in total. `to_mark` counts the cells that
    still wait for a person.
    """
    asked = cells(lesson)
    table = io.StringIO()
    lines = csv.writer(table, lineterminator="\n")
    lines.writerow(["student", *(cell.id for cell in asked), "total", "out_of", "to_mark"])
    with _open(url) as db:
        for student in db.query(api.Student).order_by(api.Student.id):
            notebook = _find(db, lesson, student.id)
            grades = _by_name(notebook.grades if notebook else [])
            found = [grades.get(cell.grade_id) for cell in asked]
            points = ["" if grade is None else f"{grade.score:g}" for grade in found]
            total = sum(grade.score for grade in found if grade is not None)
            waiting = sum(grade.needs_manual_grade for grade in found if grade is not None)
            out_of = sum(cell.points for cell in asked)
            lines.writerow([_harmless(student.id), *points, f"{total:g}", f"{out_of:g}", waiting])
    write(path, table.getvalue())


def _harmless(name: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{name}" if name[:1] in "=+-@" else name


@contextlib.contextmanager
def _open(url: str) -> Iterator[Session]:
    try:
        place = make_url(url)
        if place.get_backend_name() == "sqlite" and place.database in (None, "", ":memory:"):
            raise ArgumentError("it names no file, and marks in memory would be gone at once")
        _create(url)
    except ModuleNotFoundError as error:
        raise ValueError(f"the gradebook needs a driver that is not installed here: {error}") from error
    except (ArgumentError, NoSuchModuleError) as error:
        raise ValueError(
            f"{url!r} is not the URL of a database ({error}); write it like sqlite:////home/me/gradebook.db"
        ) from error
    api.app_log.disabled = True  # it has a traceback for what `_patient` says in a sentence
    with api.Gradebook(url, COURSE) as book, book.db.no_autoflush:  # half-made objects stay out of queries
        yield book.db


def _create(url: str) -> None:
    """Make nbgrader's tables in one transaction; nbgrader itself can be killed between two of them."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            if connection.dialect.name == "sqlite":  # its driver would commit each table
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            if not inspect(connection).get_table_names():
                api.Base.metadata.create_all(connection)
                version = ScriptDirectory(dbutil.ALEMBIC_DIR).get_current_head()
                connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
                connection.execute(
                    text("INSERT INTO alembic_version VALUES (:version)"), {"version": version}
                )
    finally:
        engine.dispose()


def _register(db: Session, lesson: Lesson) -> None:
    task = db.query(api.Assignment).filter_by(name=assignment(lesson)).one_or_none()
    if task is None:
        task = api.Assignment(name=assignment(lesson), course_id=COURSE)
        db.add(task)
    notebook = next((one for one in task.notebooks if one.name == lesson.path.stem), None)
    if notebook is None:
        notebook = api.Notebook(name=lesson.path.stem, assignment=task, kernelspec="{}")
        db.add(notebook)
    graded, solutions = _by_name(notebook.grade_cells), _by_name(notebook.solution_cells)
    for cell in cells(lesson):
        kind = "markdown" if cell.written else "code"
        grade = graded.pop(cell.grade_id, None) or api.GradeCell(name=cell.grade_id, notebook=notebook)
        grade.max_score, grade.cell_type = cell.points, kind
        solution = solutions.pop(cell.solution_id, None)
        db.add_all([grade, solution or api.SolutionCell(name=cell.solution_id, notebook=notebook)])
    for gone in [*graded.values(), *solutions.values()]:
        _forget(db, gone)


def _forget(db: Session, cell: api.BaseCell) -> None:
    """Remove a cell that the lesson no longer has, unless that would lose a person's work."""
    if any(g.manual_score is not None for g in cell.grades) or any(c.manual_comment for c in cell.comments):
        raise ValueError(
            f"the gradebook has marks that a person gave for {cell.name}, which the lesson no longer has; "
            "export them and use a new gradebook"
        )
    for entry in [*cell.grades, *cell.comments, cell]:
        db.delete(entry)


def _find(db: Session, lesson: Lesson, student: str) -> api.SubmittedNotebook | None:
    notebooks = db.query(api.SubmittedNotebook).join(api.SubmittedAssignment).join(api.Assignment)
    found = notebooks.filter(
        api.Assignment.name == assignment(lesson), api.SubmittedAssignment.student_id == student
    )
    return next((one for one in found if one.name == lesson.path.stem), None)


def _submitted(db: Session, lesson: Lesson, student: str) -> api.SubmittedNotebook:
    """A student's notebook in the gradebook, made if it is not there."""
    found = _find(db, lesson, student)
    if found is not None:
        return found
    person = db.get(api.Student, student) or api.Student(id=student)
    task = db.query(api.Assignment).filter_by(name=assignment(lesson)).one()
    filters = {"assignment_id": task.id, "student_id": student}
    handed_in = db.query(api.SubmittedAssignment).filter_by(**filters).one_or_none()
    if handed_in is None:
        handed_in = api.SubmittedAssignment(assignment=task, student=person)
    notebook = next(one for one in task.notebooks if one.name == lesson.path.stem)
    submitted = api.SubmittedNotebook(notebook=notebook, assignment=handed_in)
    db.add_all([person, handed_in, submitted])
    db.flush()
    return submitted


def _entries(
    db: Session, lesson: Lesson, notebook: api.SubmittedNotebook
) -> list[tuple[Cell, api.Grade, api.Comment]]:
    """The grade and the comment of each cell that has points, made if they are not there."""
    graded, solutions = _by_name(notebook.notebook.grade_cells), _by_name(notebook.notebook.solution_cells)
    grades, comments = _by_name(notebook.grades), _by_name(notebook.comments)
    entries = []
    for cell in cells(lesson):
        grade = grades.get(cell.grade_id) or api.Grade(cell=graded[cell.grade_id], notebook=notebook)
        comment = comments.get(cell.solution_id) or api.Comment(
            cell=solutions[cell.solution_id], notebook=notebook
        )
        db.add_all([grade, comment])
        entries.append((cell, grade, comment))
    return entries


def _by_name(entries: list) -> dict:
    return {entry.name: entry for entry in entries}


def _score(grade: api.Grade, points: float) -> None:
    """Set the grader's score; a person's stays, and is to be looked at again if the grader's changed."""
    if grade.manual_score is None:
        grade.needs_manual_grade = False
    elif grade.auto_score != points:
        grade.needs_manual_grade = True
    grade.auto_score = points


def _answered(grade: api.Grade, comment: api.Comment, answer: str) -> None:
    """Note a written answer; a person has to look at a new one, also where an older one was marked."""
    words = answer.split()
    if not words:
        comment.auto_comment = "No response."
        _score(grade, 0)
        return
    receipt = f"Received: {len(words)} words, number {hashlib.sha256(answer.encode()).hexdigest()[:8]}."
    if grade.manual_score is None or comment.auto_comment != receipt:
        grade.needs_manual_grade = True
    grade.auto_score, comment.auto_comment = None, receipt


def _final(mark: Mark | None, cell: Cell, grade: api.Grade, comment: api.Comment) -> Mark:
    remarks = [comment.manual_comment] if comment.manual_comment else []
    if mark is None and grade.needs_manual_grade:
        says = ["Not marked yet."] if grade.manual_score is None else ["To be looked at again.", *remarks]
        return Mark(cell.id, cell.title, grade.score, cell.points, "manual", says)
    if mark is None:
        says = remarks or [comment.auto_comment or ""]
        return Mark(cell.id, cell.title, grade.score, cell.points, "manual", says)
    if grade.manual_score is not None or grade.extra_credit:
        remarks = ["A person changed the points.", *remarks]
    return replace(mark, points=grade.score, says=[*mark.says, *remarks])
