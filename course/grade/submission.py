"""Finding what students handed in, and reading it without trusting it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from course.grade import plain
from course.grade.released import Lesson

LARGEST = 20 * 2**20  # bytes of a notebook; a lesson has 0.4 million
PARTS = 1_000_000  # lists, objects and entries in it
TEXT = 2**20  # bytes of what its cells say, without outputs; all students' are in memory at once
CELLS = 2000
QUOTED = 100  # characters of a name; a longer one is cut where it is quoted
FILES = 10_000  # in a student's folder
COPIES = 5  # of a student's notebooks of the lesson, which are read to see whether anything was written there
DEPTH = 2  # folders in it, one in another
STUDENT = re.compile(r"[\w@+][\w.@+-]{0,99}", re.ASCII)
HASHED = re.compile(r".*-([0-9a-f]{8}|[0-9a-f]{16})", re.DOTALL)  # the hashes were once of 8
# what file managers and editors leave behind; everything else that was handed in gets a line
LITTER = (".DS_Store", ".gitignore", ".gitkeep", ".ipynb_checkpoints", "Thumbs.db", "desktop.ini", "__MACOSX")


@dataclass
class Submission:
    """One student's notebook for one lesson.

    Attributes:
        student: an id made of letters, digits and . _ @ + - (see `identity`).
        name: what the id was made from.
        path: the notebook; None where there is none.
        cells: (cell id, code) of its code cells, in order.
        written: cell id -> text of its markdown cells.
        notes: what was done about it, for the student and the instructor to read.
        problem: why nothing could be graded, in words; None if something could.
        unclear: several files or folders are of this student; what was graded before stays.
    """

    student: str
    name: str
    path: Path | None = None
    cells: list[tuple[str, str]] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None
    unclear: bool = False


def identity(name: str, kind: str = "") -> str:
    """A student's id, made from the name of what was handed in and from nothing else.

    A name of letters, digits and . _ @ + - is its own id. Any other is followed by a hash of the name itself,
    so that no two become one, whoever hands in what and when; so is one that looks as if it already were.
    """
    if not kind and STUDENT.fullmatch(name) and not HASHED.fullmatch(name):
        return name
    safe = re.sub(r"[^A-Za-z0-9_@+]", "_", name)[:60] or "_"
    return f"{safe}-{hashlib.sha256(kind.encode() + os.fsencode(name)).hexdigest()[:16]}"


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
        if entry.name in LITTER or entry.name.startswith("._"):
            continue
        is_folder = entry.is_dir() and not entry.is_symlink()
        notebook = not is_folder and _notebook(entry.name)
        known = is_folder or notebook or entry.is_symlink()
        name = entry.stem if notebook else entry.name
        student = identity(name, kind="" if known else "file")
        if student in found:
            found[student].unclear = True
            found[student].problem = "this student has several files or folders here; leave one of them"
            continue
        submission = found[student] = Submission(student, name)
        if student != name:
            submission.notes.append(f"the name {name[:QUOTED]!r} was changed to {student!r}")
        if entry.is_symlink():
            submission.problem = "it is a link, not a file or folder; hand in the notebook itself"
        elif not known:
            submission.problem = f"{entry.name[:QUOTED]} is neither a notebook (.ipynb) nor a folder with one"
        else:
            _choose(submission, entry, lesson)
        if submission.path is not None:
            read(submission)
        submission.notes = [plain.readable(note, 500) for note in submission.notes]
        if submission.problem is not None:
            submission.problem = plain.readable(submission.problem, 500)
    return list(found.values())


def _notebook(name: str) -> bool:
    return name.lower().endswith(".ipynb")


def _choose(submission: Submission, entry: Path, lesson: Lesson) -> None:
    """Pick the notebook that is this lesson's."""
    if not entry.is_dir():
        submission.path = entry
        return
    paths, unseen = [], {}  # reason -> a folder that was not looked into

    def refused(error: OSError) -> None:
        unseen["may not be read by the grader"] = error.filename

    for folder, folders, files in os.walk(entry, onerror=refused):  # does not follow links to folders
        depth = len(Path(folder).relative_to(entry).parts)
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        links = [f for f in folders if os.path.islink(os.path.join(folder, f))]
        if links:
            unseen["is a link"] = links[0]
        if folders and depth == DEPTH:
            unseen[f"lies deeper than {DEPTH} folders"] = folders[0]
            folders.clear()
        paths += [Path(folder) / name for name in sorted(files) if _notebook(name)]
        if len(folders) + len(paths) > FILES:
            submission.problem = "there are too many files in the folder"
            return
    if not paths:
        submission.problem = "there is no notebook (.ipynb) in the folder"
        for reason, folder in unseen.items():
            submission.problem += f"; {os.path.basename(folder)[:QUOTED]} {reason}"
        return
    own = [p for p in paths if p.name.startswith(lesson.number) or f"lesson_{lesson.number}" in p.parts]
    own.sort(key=lambda path: path.name != lesson.path.name)  # the one that was handed out
    others = [p for p in paths if not re.match(r"\d\d_", p.name)]
    candidates = own or others
    if not candidates:
        submission.problem = f"none of its notebooks is lesson {lesson.number}"
        return
    blank = [path for path in candidates[:COPIES] if len(candidates) > 1 and _untouched(path, lesson)]
    submission.path = next((path for path in candidates if path not in blank), candidates[0])
    if len(candidates) > 1:
        submission.notes.append(
            f"{len(candidates)} notebooks could be meant; {submission.path.name} was graded"
        )


def _untouched(path: Path, lesson: Lesson) -> bool:
    """Whether a notebook says just what was handed out: its student may have worked in a copy beside it."""
    said = []
    for place in (path, lesson.path):
        one = Submission("", "", place)
        read(one)
        said.append([[code for _, code in one.cells], [*one.written.values()]])
    return said[0] == said[1] != [[], []]


def read(submission: Submission) -> None:
    """Read a notebook's cells into the submission, or say in `problem` why that cannot be done."""
    try:
        submission.cells, submission.written = _cells(_content(submission.path))
    except ValueError as error:
        submission.problem = f"{submission.path.name[:QUOTED]}: {error}"
    except Exception as error:  # whatever it is, the others are read
        known = (
            "it is nested too deeply" if isinstance(error, RecursionError) else "the file could not be read"
        )
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            known = "it is a link; hand in the notebook itself"
        submission.problem = f"{submission.path.name[:QUOTED]}: {known}"


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
        return plain.parse(raw, PARTS)
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
    code, written, size = [], {}, 0
    for cell in notebook["cells"]:
        if not isinstance(cell, dict):
            raise ValueError("it is not a notebook: one of its cells is not a cell")
        source, id = cell.get("source", ""), cell.get("id")
        id = "" if id is None else id
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str) or not isinstance(id, str):
            raise ValueError("it is not a notebook: a cell's text is not text")
        source, id = (text.encode("utf-8", "replace").decode() for text in (source, id))  # lone surrogates
        source = source.replace("\r\n", "\n").replace("\r", "\n")
        size += len(source.encode()) + len(id)
        if size > TEXT:
            raise ValueError(f"its cells hold more than {TEXT // 2**20} MB of text")
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
    missing = [
        restored for id, code, restored in lesson.foundations if id not in ids and code.strip() not in texts
    ]
    imports = [code for *_, code in lesson.foundations if re.search(r"^(import|from) ", code, re.MULTILINE)]
    return [*(code for code in imports if code not in missing), *missing] if missing else []
