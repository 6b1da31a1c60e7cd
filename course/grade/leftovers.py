"""One grader for a folder at a time, and nothing left of one that was killed once the next one starts.

Both rest on locks of the kernel's, which end with the process that holds them, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from course.grade.walls import GraderError

PREFIX, LOCK = "grading-", ".lock"
PART = re.compile(r"\..+\.\d+\.part", re.DOTALL)
YOUNG = 60.0  # seconds in which a folder without a lock may still be getting one


@contextlib.contextmanager
def claim(out: Path) -> Iterator[None]:
    """Hold the folder of results for this grader alone, and clear it of half-written files.

    Raises:
        GraderError: another grader is at work there.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("w") as lock:
        if not _locked(lock.fileno()):
            raise GraderError(f"another grader is at work in {out}; wait for it, or choose another --out")
        for folder in (out, out / "students", out / "feedback"):  # nothing that others wrote into
            _unfinished(folder)
        for folder in (out / "autograded").glob("*/*"):
            _unfinished(folder)
        yield


def _unfinished(folder: Path) -> None:
    """Remove what `course.files.write` had begun in a folder when it was killed."""
    for path in folder.glob(".*.part"):
        with contextlib.suppress(OSError):
            if PART.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                path.unlink()


@contextlib.contextmanager
def workshop() -> Iterator[Path]:
    """A temporary folder of this grader's, removed at its end, or by the next grader if it was killed."""
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with (folder / LOCK).open("w") as lock:
            _locked(lock.fileno())
            yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """The lock goes last: a folder without one that was begun just now is left alone."""
    for path in folder.iterdir():
        if path.name != LOCK:
            shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _sweep(place: Path) -> None:
    """Remove the folders of this user's graders that no longer run."""
    for folder in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another grader removes it too
            status = folder.lstat()
            if folder.is_symlink() or not folder.is_dir() or status.st_uid != os.geteuid():
                continue
            if not (folder / LOCK).exists() and time.time() - status.st_mtime < YOUNG:
                continue
            with (folder / LOCK).open("w") as lock:
                if _locked(lock.fileno()):
                    _remove(folder)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
