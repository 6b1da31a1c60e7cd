"""Where a sweep keeps its batches until all are done: a folder beside the result, with one writer."""

import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np

from mini_attn.sweep.design import Batch

PLAN, LOCK = "plan.json", "lock"


def write(path: Path, content: bytes | memoryview, part: Path, sync: bool = True):
    """Write a file that is either complete or not there; ``part`` is the name it has until then.

    With ``sync``, a power failure cannot change that either.
    """
    try:
        with part.open("wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class Store:
    """The folder ``out + ".parts"``: the plan, one file for each batch that is done, and a lock.

    A batch's file appears at once and whole. What was killed halfway leaves a file ending in .part, which the
    next one removes. The lock is the operating system's: it goes with the process that holds it.
    """

    def __init__(self, out: Path):
        self.folder = out.with_name(f"{out.name}.parts")
        self._lock = None

    def __enter__(self):
        if not self.folder.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {self.folder.parent}; make it, or give another out")
        if self.folder.exists() and not self._is_ours():
            raise FileExistsError(
                f"{self.folder}, where the sweep would keep its batches, holds other things; "
                "move it away, or give another out"
            )
        while self._lock is None:
            self.folder.mkdir(exist_ok=True)
            file = self._open()
            if file is None:
                continue
            if not _locked(file):
                file.close()
                raise RuntimeError(
                    f"another sweep is writing to {self.folder}; wait until it ends, or give another out"
                )
            if _same_file(file, self.folder / LOCK):  # the last sweep may just have removed it
                self._lock = file
            else:
                file.close()
        for part in self.folder.glob("*.part"):
            part.unlink()
        return self

    def __exit__(self, *_):
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _open(self):
        try:
            return (self.folder / LOCK).open("ab")
        except FileNotFoundError:  # the folder went away in between, with the sweep that made it
            return None

    def _is_ours(self) -> bool:
        if not self.folder.is_dir():
            return False
        names = {path.name for path in self.folder.iterdir()}
        return PLAN in names or not {name for name in names if not name.endswith(".part")} - {LOCK}

    def plan(self) -> dict | None:
        """What was begun here; None if nothing was."""
        try:
            return json.loads((self.folder / PLAN).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            raise ValueError(f"{self.folder / PLAN} is damaged; remove {self.folder} to begin anew") from None

    def begin(self, plan: dict):
        write(self.folder / PLAN, json.dumps(plan, indent=1).encode(), self.folder / f"{PLAN}.part")

    def put(self, batch: Batch, outputs: dict[str, np.ndarray]):
        """Keep what a batch returned."""
        content = io.BytesIO()
        # "o_", because savez has arguments of its own
        np.savez(content, **{f"o_{key}": value for key, value in outputs.items()})
        path = self.folder / f"{batch.index}.npz"
        # get() finds what a power failure damages
        write(path, content.getbuffer(), path.with_name(f"{path.name}.part"), sync=False)

    def get(self, batch: Batch) -> dict[str, np.ndarray] | None:
        """What a batch returned; None if it is not there, or is damaged."""
        try:
            with (self.folder / f"{batch.index}.npz").open("rb") as file:
                found = np.load(file, allow_pickle=False)
                return {key.removeprefix("o_"): found[key] for key in found.files}
        except (FileNotFoundError, ValueError, EOFError, zipfile.BadZipFile, KeyError):
            return None

    def drop(self, batch: Batch):
        (self.folder / f"{batch.index}.npz").unlink(missing_ok=True)

    def save(self, out: Path, content: bytes | memoryview):
        """Write the result, in place of one that is there."""
        write(out, content, self.folder / "result.part")

    def remove(self):
        """Take the folder away. The plan goes last, so that a half-removed folder still says whose it is."""
        for path in self.folder.iterdir():
            if path.name not in (PLAN, LOCK):
                path.unlink()
        (self.folder / PLAN).unlink(missing_ok=True)
        if os.name == "nt":  # there an open file cannot be removed
            self.__exit__()
        shutil.rmtree(self.folder)


def _locked(file) -> bool:
    """Take the lock of an open file, if nobody has it."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same_file(file, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
