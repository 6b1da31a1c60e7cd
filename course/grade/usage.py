"""What the processes of a sandbox use together, counted from outside: memory by every door, and files.

Limits of the kernel's own count per process, so that many small processes, or memory that is no process's
own, would get past them.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path

import psutil

from course.grade.walls import WRITABLE

SOCKET = 2 * 212992  # bytes that the kernel may keep for a socket, by its default
MAPPING = 256  # bytes that it keeps for a mapping
FILE = 2**13  # bytes that it keeps for an open file: half a pipe, or a page that was read from /proc
TERMINAL = 100  # files that a pseudo-terminal counts as: a machine has some thousand, for all sandboxes
LISTED = 2**25  # bytes of the lists of mappings of all processes: a longer look gives memory time to grow
SIZE = re.compile(r"^(\w+):\s+(\d+) kB$", re.M)


def usage(pid: int, exact: bool = False) -> tuple[int, int]:
    """Memory in bytes and number of files of a sandbox in which code already runs.

    Args:
        pid: of the bubblewrap process that was started; what it started is looked at.
        exact: count once what processes share, so that a pool of workers is no worse than one. That takes
            longer; without it the memory is an upper bound.

    Returns:
        `sys.maxsize` as memory where there are too many mappings to look at all of them.
    """
    try:
        processes = [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return 0, 0
    memory, files, left = 0, 0, LISTED
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            thread = _living(process)
            with (thread / "maps").open("rb") as listed:
                mappings = listed.read(left + 1)
            left -= len(mappings)
            if left < 0:
                return sys.maxsize, 0
            memory += MAPPING * mappings.count(b"\n") + _own(thread, exact)
            memory += FILE * (thread / "fd").stat().st_size  # how many there are, since Linux 6.2
    for process in processes[:1]:
        with contextlib.suppress(OSError):
            thread = _living(process)
            memory += SOCKET * ((thread / "net/unix").read_bytes().count(b"\n") - 1)
            for folder in WRITABLE:
                held = os.statvfs(f"{thread}/root{folder}")
                memory += held.f_frsize * (held.f_blocks - held.f_bfree)
                files += held.f_files - held.f_ffree
            files += TERMINAL * len([name for name in os.listdir(f"{thread}/root/dev/pts") if name != "ptmx"])
    return memory, files


def _living(process: int) -> Path:
    """Where the kernel tells of a process: at its first thread, or at another if that one has ended."""
    folder = Path(f"/proc/{process}")
    if b"\nVmRSS" in (folder / "status").read_bytes():
        return folder
    threads = sorted((folder / "task").iterdir())
    return next((t for t in threads if b"\nVmRSS" in (t / "status").read_bytes()), folder)


def _own(thread: Path, exact: bool) -> int:
    """A process's memory, and what the kernel needs to find it; not that of files in memory and the like."""
    status = _numbers(thread / "status")
    if not exact:
        return sum(status.get(name, 0) for name in ("VmPTE", "VmSwap", "RssAnon", "RssFile"))
    parts = _numbers(thread / "smaps_rollup")
    return status.get("VmPTE", 0) + sum(parts.get(name, 0) for name in ("SwapPss", "Pss_Anon", "Pss_File"))


def _numbers(path: Path) -> dict[str, int]:
    """The sizes in a file of the kernel's, in bytes."""
    return {name: 1024 * int(size) for name, size in SIZE.findall(path.read_text("utf-8", "replace"))}
