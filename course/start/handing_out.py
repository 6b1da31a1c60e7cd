"""Handing the lessons out into my-lessons/: a learner's work is never overwritten or deleted.

Standard library only, so that a second start is immediate.
"""

import hashlib
import itertools
import json
import os
import platform
import re
import stat
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LESSONS = ROOT / "lessons"
MINE = ROOT / "my-lessons"
RECORD = ".handed-out.json"  # file name -> digest of what was last handed out under it
SET_BY_JUPYTERLAB = {
    "kernelspec",
    "language_info",
    "widgets",
    "trusted",
    "execution",
    "collapsed",
    "scrolled",
}


def digest(content: bytes) -> str:
    """Return the SHA-256 of what a person writes in a notebook; running it changes nothing here."""
    try:
        notebook = json.loads(content)
        cells = [
            [cell["cell_type"], "".join(cell["source"]), cell.get("attachments"), written(cell["metadata"])]
            for cell in notebook["cells"]
        ]
        content = json.dumps([cells, written(notebook["metadata"])], sort_keys=True).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # not a notebook any more: then each byte counts
    return hashlib.sha256(content).hexdigest()


def written(metadata: dict) -> dict:
    """Return the metadata that JupyterLab does not set by itself."""
    return {name: value for name, value in metadata.items() if name not in SET_BY_JUPYTERLAB}


def found(path: Path) -> str | None:
    """Return the digest of a file; None where there is nothing; "unreadable" where something else stands."""
    if not os.path.lexists(path):
        return None
    try:
        return digest(path.read_bytes())
    except OSError:
        return "unreadable"


def replaceable(path: Path) -> bool:
    """Say whether this is a plain, writable file: a link or a write protection is the learner's own doing."""
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) and bool(mode & stat.S_IWUSR)


def write(path: Path, content: bytes) -> None:
    """Write a whole file or nothing."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_record(mine: Path) -> dict[str, str]:
    """Return what was handed out before; empty where that is unknown, and then every present file is kept."""
    try:
        record = json.loads((mine / RECORD).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return {k: v for k, v in record.items() if isinstance(v, str)} if isinstance(record, dict) else {}


def fitted(content: bytes) -> bytes:
    """Return the notebook with this Python's version, which JupyterLab would enter and call a change."""
    try:
        notebook = json.loads(content)
        notebook["metadata"]["language_info"]["version"] = platform.python_version()
    except (ValueError, KeyError, TypeError, RecursionError):
        return content
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()


def new_name(name: str, number: int) -> str:
    """Return a new version's name, "01_new_slug.ipynb": the word stands where a narrow sidebar shows it."""
    mark = "new" if number == 1 else f"new{number}"
    return re.sub(r"^(\d\d_|)", rf"\g<1>{mark}_", name, count=1)


def put_beside(target: Path, content: bytes, record: dict[str, str]) -> Path:
    """Put a lesson's new version beside the learner's own, under a name that holds nothing of theirs."""
    new = digest(content)
    for number in itertools.count(1):
        beside = target.with_name(new_name(target.name, number))
        there = found(beside)
        if there is None or (there == record.get(beside.name) and replaceable(beside)):
            write(beside, content)
        elif there != new:
            continue
        record[beside.name] = new
        return beside


def hand_out(lessons: Path, mine: Path) -> list[str]:
    """Copy new and updated lessons into the learner's folder, and return what the learner should know.

    A lesson that the learner deleted is handed out afresh. A lesson that both sides changed stays as the
    learner left it, and the new version is put beside it.

    Args:
        lessons: folder of the built notebooks.
        mine: the learner's folder; made where there is none.

    Returns:
        Sentences, one for each lesson that came, was updated, or has a new version.

    Raises:
        FileNotFoundError: there are no lessons to hand out.
        OSError: a file cannot be read or written.
    """
    sources = sorted(lessons.glob("*.ipynb"))
    if not sources:
        raise FileNotFoundError(f"{lessons} holds none; get the course again, or run `make build`")
    mine.mkdir(parents=True, exist_ok=True)
    record = read_record(mine)
    before = dict(record)
    news = []
    for source in sources:
        content = fitted(source.read_bytes())
        new = digest(content)
        target = mine / source.name
        given, there = record.get(source.name), found(target)
        if there is None:
            write(target, content)
            news.append(f"{source.name}: new")
        elif there != new and given != new:
            if there == given and replaceable(target):
                write(target, content)
                news.append(f"{source.name}: updated")
            else:
                beside = put_beside(target, content, record)
                news.append(f"{source.name}: yours is kept, and a new version is beside it as {beside.name}")
        record[source.name] = new
    if record != before:
        write(mine / RECORD, json.dumps(record, indent=1).encode())
    return news
