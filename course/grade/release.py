"""`python -m course release LESSON --out DIR`: a lesson as an nbgrader assignment.

DIR becomes an nbgrader course folder: source/ for the instructor, release/ for the students, submitted/ for
what they hand in, a configuration with which nbgrader works on it, and a gradebook that knows the assignment.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.utils import compute_checksum

from course import exercises
from course.files import write
from course.grade import gradebook, released
from course.grade.inert import inert
from course.grade.released import Lesson
from course.grade.submission import Submission
from course.grade.walls import GraderError
from course.grade.written import answers, places
from course.make.build import Folders
from course.make.notebook import ANSWER, TODO, from_source, to_text, without_outputs

CONFIG = """\
# Made by `python -m course release`. nbgrader reads it when it is started in this folder.
import os

c = get_config()
c.CourseDirectory.root = os.path.dirname(os.path.abspath(__file__))
c.CourseDirectory.course_id = {course!r}
{database}
# What `nbgrader generate_assignment` puts in the place of a solution, should you edit source/.
c.ClearSolutions.code_stub = {{"python": {code!r}}}
c.ClearSolutions.text_stub = {text!r}

# nbgrader's own autograder would run students' code without a sandbox: it must run nothing.
c.Autograde.autograde_preprocessors = []
"""


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m course release", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("lesson", help="number of the lesson, such as 06")
    parser.add_argument("--out", type=Path, required=True, help="folder for the assignment")
    parser.add_argument("--gradebook", help="database URL (default: sqlite, gradebook.db in the folder)")
    parser.add_argument(
        "--force", action="store_true", help="replace files that differ; the old ones are kept beside them"
    )
    options = parser.parse_args(arguments)
    try:
        made = release(options.lesson, options.out, options.gradebook, options.force)
    except (GraderError, ValueError, OSError) as error:
        print(f"Nothing was released: {error}", file=sys.stderr)
        return 1
    print(f"Released lesson {options.lesson}. Hand out {made}.")
    return 0


def release(number: str, folder: Path, database: str | None = None, force: bool = False) -> Path:
    """Make the nbgrader assignment of a lesson.

    Args:
        number: of the lesson, "06"; its notebook is in lessons/.
        folder: for nbgrader's course folder.
        database: URL of the gradebook; gradebook.db in the folder by default.
        force: replace files that exist with other contents.

    Returns:
        The notebook to hand out.

    Raises:
        ValueError: no such lesson, or one that lacks the cell for an exercise; a path for no gradebook.
        FileExistsError: a file was edited, or comes from an earlier lesson; nothing is written.
    """
    lesson, url = released.lesson(number), database or default_database(folder)
    name = f"{gradebook.assignment(lesson)}/{lesson.path.name}"
    handed_out = folder / "release" / name
    texts = {
        folder / "source" / name: to_text(_marked(_source(lesson), lesson)),
        handed_out: to_text(_fixed(_marked(nbformat.read(lesson.path, as_version=4), lesson))),
    }
    config, line = folder / "nbgrader_config.py", _database_line(database)
    if not config.exists() or line not in config.read_text("utf-8"):
        # one that names the same database stays, with what the instructor added to it
        texts[config] = CONFIG.format(course=gradebook.COURSE, database=line, code=TODO, text=ANSWER)
    different = [path for path, text in texts.items() if path.exists() and path.read_text("utf-8") != text]
    if different and not force:
        raise FileExistsError(
            f"{', '.join(map(str, different))} would change: edited there, or the lesson has changed since. "
            "Move it away, or use --force, which keeps the old one beside it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    gradebook.register(url, lesson)
    for path in different:
        names = (path.with_name(f"{path.name}.before{n or ''}") for n in itertools.count())
        path.rename(next(kept for kept in names if not kept.exists()))
    for path, text in texts.items():
        write(path, text)
    (folder / "submitted").mkdir(exist_ok=True)
    if database and config in texts:
        config.chmod(0o600)  # the URL may hold a password
    return handed_out


def default_database(folder: Path) -> str:
    """The URL of the gradebook that nbgrader expects in a course folder.

    Raises:
        ValueError: a path that cannot stand in a URL.
    """
    if "?" in str(folder.resolve()):  # what follows would be taken for options
        raise ValueError(f"no gradebook can be in {folder.resolve()}: choose a path without a question mark")
    return f"sqlite:///{folder.resolve() / 'gradebook.db'}"


def autograded(lesson: Lesson, submission: Submission, folder: Path) -> Path:
    """Write the notebook in which a person marks a submission in nbgrader's formgrader.

    It is the notebook that was handed out, without outputs, with the student's code and answers in their
    places and the rubric beside them. None of it is rendered as HTML: whoever opens it is logged in.

    Args:
        lesson: as it was handed out.
        submission: that was read; one that could not be read gives a notebook without answers.
        folder: nbgrader's course folder.
    """
    notebook = without_outputs(_marked(nbformat.read(lesson.path, as_version=4), lesson))
    own = {cell.source.strip() for cell in notebook.cells}
    shown, cells = set(), {cell.id: cell for cell in notebook.cells}
    for id, name in lesson.functions.items():
        number = _cell_of(id, name, lesson, submission)
        shown.add(number)
        code = f"# {id}: nothing was found" if number is None else submission.cells[number][1]
        cells[lesson.cell_ids[id]].source = code
    wrote, position = answers(lesson, submission), places(notebook)
    for spec in reversed(exercises.written(lesson.number)):
        notebook.cells[position[spec.id]].source = inert(wrote[spec.id]) or "*No answer.*"
        rubric = "\n".join(f"- {points:g}: {text}" for points, text in spec.rubric)
        notice = f"**Rubric for {spec.id}** ({spec.points:g} points)\n\n{rubric}"
        name = f"rubric-{position[spec.id]}"
        notebook.cells.insert(position[spec.id], nbformat.v4.new_markdown_cell(notice, id=name))
    rest = [code for number, (_, code) in enumerate(submission.cells) if number not in shown]
    others = [code for code in rest if code.strip() and code.strip() not in own]
    if others:
        heading = "## Other cells that the student wrote"
        notebook.cells.append(nbformat.v4.new_markdown_cell(heading, id="others"))
    for number, code in enumerate(others):
        notebook.cells.append(nbformat.v4.new_code_cell(code, id=f"other-{number}"))
    path = folder / "autograded" / submission.student / gradebook.assignment(lesson) / lesson.path.name
    write(path, to_text(notebook))
    return path


def _cell_of(id: str, name: str, lesson: Lesson, submission: Submission) -> int | None:
    """Which of a student's cells answers an exercise: the last that defines it, as in grading."""
    defines = re.compile(
        rf"""@exercise\(\s*["']{re.escape(id)}["']|^(async )?def {re.escape(name)}\b""", re.M
    )
    marked = [number for number, (_, code) in enumerate(submission.cells) if defines.search(code)]
    same = [number for number, (cell, _) in enumerate(submission.cells) if cell == lesson.cell_ids[id]]
    return (marked or same or [None])[-1]


def _source(lesson: Lesson) -> NotebookNode:
    """The lesson with its solutions between the markers, which nbgrader knows too."""
    (path,) = Folders().sources([lesson.number])
    notebook = from_source(path, solved=True)
    written = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent").cells
    for cell, original in zip(notebook.cells, written, strict=True):
        cell.source = original.source
    return notebook


def _marked(notebook: NotebookNode, lesson: Lesson) -> NotebookNode:
    """Tell nbgrader which cells are answers and which have points."""
    by_id, position = {cell.id: cell for cell in notebook.cells}, places(notebook)
    for cell in gradebook.cells(lesson):
        if cell.written and cell.id in position:
            _mark(notebook.cells[position[cell.id]], cell.grade_id, cell.points, solution=True)
            continue
        checks = [c for c in by_id.values() if c.cell_type == "code" and f'check("{cell.id}",' in c.source]
        if cell.written or lesson.cell_ids.get(cell.id) not in by_id or not checks:
            raise ValueError(
                f"{lesson.path.name} lacks exercise {cell.id}; run `python -m course build {lesson.number}`"
            )
        _mark(by_id[lesson.cell_ids[cell.id]], cell.solution_id, None, solution=True)
        _mark(checks[0], cell.grade_id, cell.points, solution=False)
    MetadataValidator().validate_nb(notebook)
    nbformat.validate(notebook)
    return notebook


def _mark(cell: NotebookNode, name: str, points: float | None, solution: bool) -> None:
    known = {
        "schema_version": 3,
        "grade_id": name,
        "solution": solution,
        "locked": not solution,
        "task": False,
    }
    graded = {"grade": False} if points is None else {"grade": True, "points": points}
    cell.metadata["nbgrader"] = nbformat.from_dict({**known, **graded})


def _fixed(notebook: NotebookNode) -> NotebookNode:
    """Let nbgrader recognise the released text of its cells, so that it sees which of them were changed."""
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader["cell_type"] = cell.cell_type
            cell.metadata.nbgrader["checksum"] = compute_checksum(cell)
    return notebook


def _database_line(database: str | None) -> str:
    return f"c.CourseDirectory.db_url = {database!r}\n" if database else ""
