"""What the processes of a sandbox use together, counted from outside: memory by every door, and files.

Limits of the kernel's own count per process, so that many small processes, or memory that is no process's
own, would get past them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from course.grade import calls
from course.grade.walls import WRITABLE


def _room() -> int:
    """Bytes for what is on its way through a socket, on this machine."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/core/wmem_default").read_text(encoding="ascii"))
    return 212992


SOCKET = 2 * _room()  # bytes that the kernel may keep for a socket: nobody gets more room (see `calls.py`)
DATAGRAM, WAITING = b"0002", 10  # sockets of this type keep as many messages of others, ended or not
MAPPING = 256  # bytes that it keeps for a mapping
LINK = 64  # and for each process above that it was forked from, one from another, as long as those live
NAME = 2**11  # bytes, for each folder's name, for what was read from a list of mappings: it grows by doubling
FLYING = 512  # open files that can be on their way through sockets, where nobody sees what they are
ENOUGH = 2**24  # bytes that all open files together may have for such lists before they are looked at
FILE = 2**13  # bytes that it keeps for an open file: half a pipe, or a page that was read from /proc
TERMINAL = 100  # files that a pseudo-terminal counts as: a machine has some thousand, for all sandboxes
LISTED = 2**25  # bytes of the lists of mappings of all processes: a longer look gives memory time to grow
TRIES, ROUNDS = 3, 100  # looks before all is stopped for one; and rounds until all is
QUIET = 4  # rounds in a row that find nothing new: a list of children leaves some out while others end
SETTLING = 1.0  # seconds, at most, until what was told to stop has: on a busy machine it waits for its turn
PARTS = ("SwapPss", "Pss_Anon", "Pss_File")
APART = ("VmPTE", "HugetlbPages")  # the second from a store that a machine may have for its databases
# of bytes: there a line ends at \n only, which the kernel writes in no name, but at \r as well in a text
STATE = re.compile(rb"^State:\t(\w)", re.M)
NUMBER = re.compile(rb"^(\w+):\s+(\d+)( kB)?$", re.M)
KCMP_VM = 1


def usage(pid: int, exact: bool = False) -> tuple[int, int]:
    """Memory in bytes and number of files of a sandbox in which code already runs.

    Who hands memory on from process to process, each ended before anybody could look at it, is stopped for
    the moment of a look.

    Args:
        pid: of the bubblewrap process that was started; what it started is looked at.
        exact: count once what processes share, so that a pool of workers is no worse than one. That takes
            longer; without it the memory is an upper bound.

    Returns:
        `sys.maxsize` as memory where there are too many mappings or processes to look at all of them.
    """
    gone: set[int] = set()
    for _ in range(TRIES):
        memory, files, ended = _look(pid, exact)
        if ended <= gone:  # or it was a child that nobody waited for, and that has long ended
            return memory, files
        gone |= {process for process in ended if _states(process) <= {"Z"}}  # until then it shares memory
    with _halted(pid) as whole:
        memory, files, _ = _look(pid, exact)
    return (memory, files) if whole else (sys.maxsize, 0)


def _look(pid: int, exact: bool) -> tuple[int, int, set[int]]:
    """Memory and files, and the processes that ended or began meanwhile: they may have some unseen."""
    processes, ended, living = list(_below(pid)), set(), {}
    for process in processes:  # the quick part for all, then the others
        try:
            living[process] = _living(process)
        except OSError:
            ended.add(process)
    memory, files, left, opened, sockets = 0, 0, LISTED, 0, []
    threads = {process: thread for process, (thread, _) in living.items()}
    for process, above in _generations(living).items():  # before what takes longer where there are many
        with contextlib.suppress(OSError):  # it has ended meanwhile
            opened += _opened(*living[process])
            with (threads[process] / "maps").open("rb") as listed:
                mappings = listed.read(left + 1)
            left -= len(mappings)
            if left < 0:
                return sys.maxsize, 0, set()
            memory += (MAPPING + LINK * above) * mappings.count(b"\n")
    borrowers = _borrowers(living) if exact else set()
    own = {process: _own(*one, exact) for process, one in living.items()}
    if exact:  # a part of what was seen is counted for those that began; whoever is still there had no others
        ended |= {*_below(pid)} - {*processes}
        still = _borrowers(living)
        ended |= borrowers - still
        ended |= {process for process, (thread, _) in living.items() if not _is_alive(thread)}
        for process in reversed(living):  # children before their parents
            if process in still - ended:
                parent = living[process][1]["PPid"]
                own[parent] = max(own.get(parent, 0), own.pop(process))
    memory += sum(own.values())
    for thread in list(threads.values())[:1]:
        with contextlib.suppress(OSError):
            sockets = (thread / "net/unix").read_bytes().splitlines()[1:]
            datagram = [line for line in sockets if line.split()[4:5] == [DATAGRAM]]  # a name may break lines
            memory += SOCKET * (len(sockets) + WAITING * len(datagram))
            for folder in WRITABLE:
                held = os.statvfs(f"{thread}/root{folder}")
                memory += held.f_frsize * (held.f_blocks - held.f_bfree)
                files += held.f_files - held.f_ffree
    memory += FILE * opened
    longest = NAME * files  # all folders, one in another
    if longest * opened > ENOUGH:
        opened = sum(_lists(*one) for one in living.values())
    memory += longest * (opened + FLYING * bool(sockets))
    for thread in list(threads.values())[:1]:
        with contextlib.suppress(OSError):
            files += TERMINAL * len([name for name in os.listdir(f"{thread}/root/dev/pts") if name != "ptmx"])
    return memory, files, ended


def _generations(living: dict[int, tuple[Path, dict[str, int]]]) -> dict[int, int]:
    """From how many processes, one from another, each was forked, at most, of those that are still there.

    The first is bubblewrap, which started the program that runs cells. Whatever else is a child of its own
    has lost its parents: all that live may share them.
    """
    above: dict[int, int] = {}
    for process, (_, status) in living.items():
        number = above.get(status["PPid"], -1) + 1
        above[process] = len(living) if number == 1 and len(above) > 1 else number
    return above


def _opened(thread: Path, status: dict[str, int]) -> int:
    """How many files a process has open; for how many it has room, where it keeps an ordinary user out.

    Raises:
        OSError: it has ended.
    """
    folder = thread / "fd"
    try:
        return folder.stat().st_size or len(os.listdir(folder))  # the first says it since Linux 6.2
    except PermissionError:  # it wants no core of its own (prctl)
        return status["FDSize"]


def _lists(thread: Path, status: dict[str, int]) -> int:
    """How many of the kernel's own lists a process has open; all its files, where it keeps us out."""
    found = 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        try:
            kernels = os.stat(thread / "root/proc").st_dev
            for file in (thread / "fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                    found += file.stat().st_dev == kernels
        except PermissionError:
            return _opened(thread, status)
    return found


def _below(pid: int) -> Iterator[int]:
    """What a process started, and what that started: each as soon as it is found."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # a kernel without these lists
        with contextlib.suppress(psutil.Error):
            yield from (child.pid for child in psutil.Process(pid).children(recursive=True))
        return
    seen = [pid]
    for process in seen:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{process}/task/{thread}/children") as listed:
                    for child in map(int, listed.read().split()):
                        if child not in seen:
                            seen.append(child)
                            yield child


@contextlib.contextmanager
def _halted(pid: int) -> Iterator[bool]:
    """Stop all processes for a look; gives whether none is left that runs."""
    stopped: list[int] = []
    until, quiet = time.monotonic() + SETTLING, 0
    try:
        for _ in range(ROUNDS):  # one that was not yet stopped may have started another
            quiet += 1
            for process in _below(pid):
                if process not in stopped:
                    with contextlib.suppress(OSError):
                        os.kill(process, signal.SIGSTOP)
                    stopped.append(process)
                    quiet = 0
            while any(_states(one) & {"R", "D"} for one in stopped) and time.monotonic() < until:
                time.sleep(0.001)
            if quiet == QUIET:
                break
        yield quiet == QUIET
    finally:
        for process in stopped:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGCONT)


def _states(process: int) -> set[str]:
    """The kernel's letters for what its threads do: R or D, run or end; T, have stopped; Z, have ended."""
    states = set()
    with contextlib.suppress(OSError):  # nothing is left of it
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{process}/task/{thread}/status").read_bytes()
                states |= {state.decode() for state in STATE.findall(status)}
    return states


def _living(process: int) -> tuple[Path, dict[str, int]]:
    """Where the kernel tells of a process, and what: at its first thread, or another if that one has ended.

    Raises:
        OSError: all have ended.
    """
    folder = Path(f"/proc/{process}")
    status = _numbers(folder / "status")
    if "VmRSS" in status:
        return folder, status
    for thread in sorted((folder / "task").iterdir()):
        with contextlib.suppress(OSError):
            status = _numbers(thread / "status")
            if "VmRSS" in status:
                return thread, status
    raise ProcessLookupError(f"process {process} has ended")


def _is_alive(thread: Path) -> bool:
    try:
        return "VmRSS" in _numbers(thread / "status")
    except OSError:
        return False


def _borrowers(living: dict[int, tuple[Path, dict[str, int]]]) -> set[int]:
    """Processes whose memory is their parent's own: children of vfork, until they run another program.

    Who is one at the end of a look was one throughout: nobody gets the memory of another that exists already.
    """
    parents = {process: living.get(status["PPid"]) for process, (_, status) in living.items()}
    threads = {process: parent[0].name for process, parent in parents.items() if parent is not None}
    return {process for process, name in threads.items() if _one_memory(living[process][0].name, name)}


def _one_memory(thread: str, other: str) -> bool:
    """Whether the kernel says so; not where it was built without the call, or does not answer."""
    column, _ = calls.ARCHITECTURES.get(platform.machine(), (None, None))
    if column is None:
        return False
    numbers = calls.CLOSED["kcmp"][column], int(thread), int(other), KCMP_VM, 0, 0
    return ctypes.CDLL(None).syscall(*map(ctypes.c_long, numbers)) == 0


def _own(thread: Path, status: dict[str, int], exact: bool) -> int:
    """A process's memory, and what the kernel needs to find it; not that of files in memory and the like."""
    parts = {}
    if exact:
        with contextlib.suppress(OSError):
            parts = _numbers(thread / "smaps_rollup")
    if parts:  # else it has ended meanwhile
        return sum(status.get(name, 0) for name in APART) + sum(parts.get(name, 0) for name in PARTS)
    return sum(status.get(name, 0) for name in (*APART, "VmSwap", "RssAnon", "RssFile"))


def _numbers(path: Path) -> dict[str, int]:
    """The numbers in a file of the kernel's; sizes in bytes."""
    found = NUMBER.findall(path.read_bytes())
    return {name.decode(): int(number) * (1024 if unit else 1) for name, number, unit in found}
