"""Finding what students handed in, and reading it without trusting it."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from course.grade.released import Lesson

LARGEST = 20 * 2**20  # bytes of a notebook; a lesson has 0.4 million
CELLS = 2000
STUDENT = re.compile(r"[\w@+][\w.@+-]{0,99}", re.ASCII)


@dataclass
class Submission:
    """One student's notebook for one lesson.

    Attributes:
        student: an id made of letters, digits and . _ @ + -
        path: the notebook; None where there is none.
        cells: (cell id, code) of its code cells, in order.
        written: cell id -> text of its markdown cells.
        notes: what was done about it, for the student and the instructor to read.
        problem: why nothing could be graded, in words; None if something could.
    """

    student: str
    path: Path | None = None
    cells: list[tuple[str, str]] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None


def find(folder: Path, lesson: Lesson) -> list[Submission]:
    """Every submission in a folder: a folder for each student (nbgrader's layout too) or a file for each.

    Args:
        folder: holds student/lesson.ipynb, student/assignment/lesson.ipynb or student.ipynb.
        lesson: the lesson to grade; where a student handed in several notebooks, its own counts.

    Raises:
        NotADirectoryError: there is no such folder.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder of submissions")
    found: dict[str, Submission] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or not (entry.is_symlink() or entry.is_dir() or _notebook(entry)):
            continue
        name = entry.name if entry.is_dir() and not entry.is_symlink() else entry.stem
        student = name if STUDENT.fullmatch(name) else re.sub(r"[^A-Za-z0-9_@+-]", "_", name)[:90] or "_"
        while student in found:
            student += "_"
        submission = found[student] = Submission(student)
        if student != name:
            submission.notes.append(f"the name {name[:100]!r} was changed to {student!r}")
        if entry.is_symlink():
            submission.problem = "it is a link, not a file or folder; hand in the notebook itself"
            continue
        _choose(submission, entry, lesson)
        if submission.path is not None:
            read(submission)
    return list(found.values())


def _notebook(path: Path) -> bool:
    return path.suffix == ".ipynb"


def _choose(submission: Submission, entry: Path, lesson: Lesson) -> None:
    """Pick the notebook that is this lesson's."""
    if not entry.is_dir():
        submission.path = entry
        return
    paths = []
    for folder, folders, files in os.walk(entry):  # does not follow links to folders
        depth = len(Path(folder).relative_to(entry).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and depth < 2)
        paths += [Path(folder) / name for name in sorted(files) if name.endswith(".ipynb")]
    if not paths:
        submission.problem = "there is no notebook (.ipynb) in the folder"
        return
    own = [p for p in paths if p.name == lesson.path.name] or [
        p for p in paths if p.name.startswith(lesson.number) or f"lesson_{lesson.number}" in p.parts
    ]
    others = [p for p in paths if not re.match(r"\d\d_", p.name)]
    candidates = own or others
    if not candidates:
        submission.problem = f"none of its notebooks is lesson {lesson.number}"
        return
    submission.path = candidates[0]
    if len(candidates) > 1:
        submission.notes.append(
            f"{len(candidates)} notebooks could be meant; {candidates[0].name} was graded"
        )


def read(submission: Submission) -> None:
    """Read a notebook's cells into the submission, or say in `problem` why that cannot be done."""
    try:
        submission.cells, submission.written = _cells(_content(submission.path))
    except (OSError, ValueError, RecursionError) as error:
        reasons = {RecursionError: "it is nested too deeply", OSError: "the file could not be read"}
        known = next((words for kind, words in reasons.items() if isinstance(error, kind)), str(error))
        submission.problem = f"{submission.path.name[:100]}: {known}"


def _content(path: Path) -> object:
    # no links, no pipes that never end, nothing that grows while it is read
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a plain file")
        raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise ValueError(f"it has more than {LARGEST // 2**20} MB; clear its outputs")
    if not raw.strip():
        raise ValueError("the file is empty")
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError("it is not a text in UTF-8, so not a notebook") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not a notebook: JSON breaks off in line {error.lineno}") from error


def _cells(notebook: object) -> tuple[list[tuple[str, str]], dict[str, str]]:
    if isinstance(notebook, dict) and "worksheets" in notebook:
        raise ValueError("it is a notebook of format 3; open it in JupyterLab and save it again")
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("it is not a notebook: it has no list of cells")
    if len(notebook["cells"]) > CELLS:
        raise ValueError(f"it has more than {CELLS} cells")
    code, written = [], {}
    for cell in notebook["cells"]:
        if not isinstance(cell, dict):
            raise ValueError("it is not a notebook: one of its cells is not a cell")
        source, id = cell.get("source", ""), cell.get("id", "")
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str) or not isinstance(id, str):
            raise ValueError("it is not a notebook: a cell's text is not text")
        source = source.encode("utf-8", "replace").decode("utf-8")  # lone surrogates
        if cell.get("cell_type") == "code":
            code.append((id, source))
        elif cell.get("cell_type") == "markdown":
            while id in written:  # a copied cell, or a notebook of a format without ids
                id += "+"
            written[id] = source
    return code, written


def prelude(submission: Submission, lesson: Lesson) -> list[str]:
    """The lesson's own cells that the student deleted and others build on.

    They run first, and before them, if there are any, the lesson's imports, which they need.
    """
    ids = {id for id, _ in submission.cells}
    texts = {code.strip() for _, code in submission.cells}
    missing = [code for id, code in lesson.foundations if id not in ids and code.strip() not in texts]
    imports = [code for _, code in lesson.foundations if re.search(r"^(import|from) ", code, re.MULTILINE)]
    return [*(code for code in imports if code not in missing), *missing] if missing else []
