"""Running a student's notebook where it can harm nobody: bubblewrap, resource limits and a watchdog.

What happens in there is decided by `runner.py`, `walls.py` makes the walls, `usage.py` counts what is used,
and `protocol.py` reads what comes out without believing any of it; this file starts, watches and ends.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import resource
import selectors
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from matplotlib import font_manager

from course.grade import calls, plain
from course.grade.leftovers import workshop
from course.grade.protocol import LINE, TIMEOUT, UNEXPECTED, Answer, Listener, Report
from course.grade.sealed import seal
from course.grade.usage import usage
from course.grade.walls import INSIDE, GraderError, NotStarted, SandboxMissing, command, require

__all__ = ["Answer", "GraderError", "Limits", "Report", "Sandbox", "SandboxMissing", "Stopped", "require"]

HERE = Path(__file__).parent
_NUMBERS = itertools.count(os.getpid())  # two graders begin at different ones
USERS = range(60706, 61184)  # systemd leaves these unused
GRACE = 5.0  # seconds between the alarm inside and the kill outside
COMPARING = 10.0  # seconds for all answers of a submission, which `plain.SIZE` bounds, and for the end
OWN = 10  # processes and threads of the grader's own for each submission at a time
START = 60.0  # seconds until the first cell, on a busy machine
EVENTS = 10_000  # of a life: cells, marks and answers are some hundred, and many leave no time for a look
SHARING = 16  # times its memory, if what processes share counts for each: to count it once takes too long
# letter of `ulimit` -> the kernel's name for it, the limit of the course, and what it counts
SHELL = {
    "u": ("NPROC", "processes", "processes and threads"),
    "v": ("AS", "address_bytes", "bytes of addresses"),
    "f": ("FSIZE", "file_bytes", "bytes in a file"),
    "n": ("NOFILE", "open_files", "open files"),
    "t": ("CPU", "total_seconds", "seconds of a processor"),
    "d": ("DATA", "address_bytes", "bytes of data"),
    "s": ("STACK", "stack_bytes", "bytes of a stack"),
}


class Stopped(BaseException):
    """The grader was told to end while it waited for a sandbox."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Seconds are wall time; memory counts all its processes together."""

    cell_seconds: float = 60.0
    exercise_seconds: float = 20.0
    total_seconds: float = 300.0
    memory_bytes: int = 2 * 2**30
    address_bytes: int = 6 * 2**30
    processes: int = 256
    file_bytes: int = 64 * 2**20
    disk_bytes: int = 256 * 2**20
    files: int = 10_000
    open_files: int = 256
    output_bytes: int = 32 * 2**20
    stack_bytes: int = 8 * 2**20  # what Linux gives a program

    @property
    def longest(self) -> float:
        """Seconds that a submission costs at most: tried twice if neighbours were there, and compared."""
        return 2 * (self.total_seconds + COMPARING)


def lower_limits(limits: Limits, jobs: int = 1) -> str | None:
    """What the shell that started the grader allows less of, in words: its limits hold for students' code.

    Args:
        limits: what one submission may use.
        jobs: submissions at a time. Unless root grades, all their processes are one user's, and the grader's
            own too, which have no more than the soft limit.
    """
    found = []
    for letter, (kind, name, unit) in SHELL.items():
        soft, allowed = resource.getrlimit(getattr(resource, f"RLIMIT_{kind}"))
        wanted = getattr(limits, name)
        if kind == "NPROC" and os.geteuid() != 0:
            allowed, wanted = soft, jobs * (wanted + OWN)
            unit = f"{unit} with --jobs {jobs}"
        if resource.RLIM_INFINITY != allowed < wanted:
            found.append(f"{allowed:,} instead of {wanted:,.0f} {unit} (`ulimit -{letter}`)")
    if not found:
        return None
    return (
        f"The shell that started the grader allows students' code only {', '.join(found)}. Right answers "
        "that need more fail: start the grader from a shell without these limits."
    )


class Sandbox:
    """Everything that one lesson's submissions share: the sealed library and the list of fonts.

    Args:
        withheld: functions of mini_attn that the lesson's exercises ask for (see `sealed.py`).
        limits: what a submission may use.
        unsafe: run without walls. For a grader who reads every submission first.
        codes: the lesson's cells; of its sweeps' functions only those that they use are there.

    Use it in a `with` statement; `call` may run in several threads at once.
    """

    def __init__(
        self,
        withheld: list[str] = (),
        limits: Limits = Limits(),
        unsafe: bool = False,
        codes: Iterable[str] = (),
    ):
        if not unsafe:
            require()
        self.limits, self.unsafe = limits, unsafe
        self.ended = threading.Event()
        self._withheld, self._codes = list(withheld), list(codes)

    def __enter__(self) -> Sandbox:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(workshop())
            self.folder = folder / "inside"
            try:
                self._furnish()
            except shutil.Error as error:  # it names every file
                why = error.args[0][0][2]
                if f"[Errno {errno.EFBIG}]" in why:
                    raise GraderError(
                        "the shell allows no files as large as the library's: start the grader from one with "
                        "`ulimit -f unlimited`"
                    ) from error
                raise GraderError(f"no room for a copy of the library: {why}") from error
            self._exit = stack.pop_all()
        return self

    def _furnish(self) -> None:
        self.folder.mkdir()
        for name in ("runner.py", "plain.py"):
            shutil.copy(HERE / name, self.folder)
        seal(self.folder / "library", self._withheld, self._codes)
        (self.folder / "fonts").mkdir()
        fonts = self.folder / "fonts" / f"fontlist-v{font_manager.FontManager.__version__}.json"
        font_manager.json_dump(font_manager.fontManager, fonts)  # as matplotlib stores it
        for path in [self.folder, *self.folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)

    def __exit__(self, *_):
        self.ended.set()
        self._exit.close()

    def call(
        self, cells: list[str], exercises: dict[str, tuple[str, list[tuple]]], seconds: float | None = None
    ) -> Report:
        """Run a notebook and call its functions on the cases.

        A cell or an exercise that kills the process, hangs or floods costs only itself: the sandbox is made
        anew without it, as long as there is time.

        Args:
            cells: the code cells, in order.
            exercises: exercise -> (name of the function if no @exercise registered one, argument tuples).
            seconds: for everything together; the limits' total by default.

        Raises:
            GraderError: no sandbox could be started, twice. As on any other error here, `blind` says whether
                no life had the inputs.
        """
        report, skip, waiting, failed = Report(), set(), dict(exercises), False
        seen = False  # whether an earlier life had the inputs
        deadline = time.monotonic() + (self.limits.total_seconds if seconds is None else seconds)
        while (left := deadline - time.monotonic()) > 0:
            told = dict(report.cell_errors), {id: [*names] for id, names in report.registered.items()}
            listener = Listener(report, cells, {id: len(cases) for id, (_, cases) in waiting.items()})
            try:
                reason, place = self._live(listener, cells, skip, waiting, left), listener.place
            except Exception as error:
                error.blind = not seen and listener.stage in ("starting", "cells")
                if failed or not isinstance(error, GraderError):
                    raise
                failed = True  # a machine without memory for a moment, perhaps
                time.sleep(1)
                continue
            if seen:  # the one before could have left them for this one to find: no word of it is told
                report.crowded = report.disturbed or reason == TIMEOUT
                if isinstance(place, int) or report.cell_errors.keys() - told[0].keys():
                    report.lost |= waiting.keys()
                report.cell_errors, report.registered = told
            if reason is None:
                return report
            if isinstance(place, int):
                skip.add(place)
                if not seen:
                    report.problems[f"cell {place + 1}"] = reason
            elif place is not None:
                report.problems[place] = reason
                waiting = {id: waiting[id] for id in list(waiting)[list(waiting).index(place) + 1 :]}
            else:
                report.problems |= dict.fromkeys(waiting, reason)
                return report
            seen = seen or listener.stage in ("exercises", "done")
            if not waiting:
                return report
        if waiting:
            report.problems |= dict.fromkeys([id for id in waiting if id not in report.problems], TIMEOUT)
        return report

    def _live(self, listener: Listener, cells, skip, exercises, seconds: float) -> str | None:
        """One life of a sandbox: started, watched until it is done (None) or stopped (why)."""
        number = next(_NUMBERS)
        root = os.geteuid() == 0 and not self.unsafe
        request = {
            "cells": cells,
            "skip": sorted(skip),
            "exercises": {id: name for id, (name, _) in exercises.items()},
            "limits": asdict(self.limits),
            "fonts": f"{self._home}/fonts",
        }
        inputs = {id: [plain.encode(case) for case in cases] for id, (_, cases) in exercises.items()}
        with _user() if root else contextlib.nullcontext() as user, self._started(number) as process:
            watch = _Watch(self, process, listener, seconds)
            return watch.until_done(_line({**request, "user": user}), _line(inputs))

    @contextlib.contextmanager
    def _started(self, number: int) -> Iterator[subprocess.Popen]:
        """The process of a sandbox, with pipes only: a file could be opened anew inside, and written to."""
        temporary = self.folder.parent / f"tmp-{number}"
        if self.unsafe:
            temporary.mkdir()
        readable, writable = os.pipe()
        try:
            os.write(writable, calls.program())
            os.close(writable)
            # -s: no folder of the user's own, -B: nothing is written beside the sources
            runner = [sys.executable, "-B", "-s", f"{self._home}/runner.py"]
            walls = command(str(self.folder), self.limits.disk_bytes, readable)
            process = subprocess.Popen(
                runner if self.unsafe else [*walls, *runner],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment(str(temporary) if self.unsafe else "/tmp"),
                pass_fds=() if self.unsafe else (readable,),
                start_new_session=True,
                umask=0o022,  # the shell's may keep the library's readers out
            )
        finally:
            os.close(readable)
        try:
            yield process
        finally:
            _kill(process)
            if self.unsafe:
                shutil.rmtree(temporary, ignore_errors=True)

    @property
    def _home(self) -> str:
        return str(self.folder) if self.unsafe else INSIDE

    def _environment(self, home: str) -> dict[str, str]:
        """All the variables that exist inside."""
        return {
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
            "PYTHONPATH": f"{self._home}/library",
            "HOME": home,
            "USER": "student",  # the system knows no name for who runs there
            "TMPDIR": home,
            "MPLCONFIGDIR": f"{home}/matplotlib",
            "IPYTHONDIR": f"{home}/ipython",
            "MPLBACKEND": "Agg",
            "LANG": "C.UTF-8",
            **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")},
        }


class _Watch:
    """Talks with one sandbox, looks at the clock and at what it uses."""

    def __init__(self, sandbox: Sandbox, process: subprocess.Popen, listener: Listener, seconds: float):
        self.sandbox, self.limits, self.process, self.listener = sandbox, sandbox.limits, process, listener
        self.end = time.monotonic() + seconds
        self.patience = self._for(START)
        self.received, self.heard, self.buffer = 0, 0, b""

    def until_done(self, request: bytes, inputs: bytes) -> str | None:
        """None when all went to its end, else why it was stopped; the listener knows where."""
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            os.set_blocking(pipe.fileno(), False)
        unsent = memoryview(request)
        watchdog = ThreadPoolExecutor(1)  # the clock does not wait for its looks
        # not epoll: its watches are counted for a user, and a sandbox can use up those of all
        with selectors.PollSelector() as selector, contextlib.ExitStack() as stack:
            stack.callback(watchdog.shutdown, wait=False)
            look = watchdog.submit(self._excess)
            selector.register(self.process.stdout, selectors.EVENT_READ)
            selector.register(self.process.stdin, selectors.EVENT_WRITE)
            while True:
                ready = {key.fileobj for key, _ in selector.select(timeout=0.1)}
                if self.sandbox.ended.is_set():
                    raise Stopped
                if time.monotonic() > self.patience:
                    return TIMEOUT
                if look.done():
                    if reason := look.result():
                        return reason
                    look = watchdog.submit(self._excess)
                if self.process.stdin in ready:
                    unsent = self._send(unsent)
                if self.process.stdout in ready and (reason := self._receive()):
                    return reason
                if self.listener.stage == "done":
                    return None
                if not unsent and self.process.stdin in selector.get_map():
                    selector.unregister(self.process.stdin)
                if not unsent and self.listener.stage == "exercises" and inputs:
                    unsent, inputs = memoryview(inputs), b""
                    selector.register(self.process.stdin, selectors.EVENT_WRITE)

    def _for(self, seconds: float) -> float:
        return min(time.monotonic() + seconds, self.end)

    def _excess(self) -> str | None:
        """What the sandbox uses too much of, in a while."""
        time.sleep(0.1)
        if self.sandbox.unsafe or self.listener.stage == "starting":
            return None
        memory, files = usage(self.process.pid)
        limit = self.limits.memory_bytes
        if limit < memory <= SHARING * limit:
            memory, files = usage(self.process.pid, exact=True)
        if memory > limit:
            return "it used too much memory"
        return "it made too many files" if files > self.limits.files else None

    def _send(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(self.process.stdin.fileno(), unsent[:65536]) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:  # it has ended, or no longer listens; its output says which
            return memoryview(b"")

    def _receive(self) -> str | None:
        chunk = self.process.stdout.read(65536)
        if chunk is None:
            return None
        if not chunk and self.listener.stage == "starting":
            words = (self.process.stderr.read(2000) or b"").decode(errors="replace").strip()
            raise NotStarted(f"the sandbox did not start: {words or 'no reason given'}")
        if not chunk:
            return "it ended the program that ran it"
        self.received += len(chunk)
        *lines, self.buffer = (self.buffer + chunk).split(b"\n")
        self.heard += len(lines)
        long = max(map(len, [self.buffer, *lines])) > LINE
        if self.received > self.limits.output_bytes or self.heard > EVENTS or long:
            return "it produced too much output"
        for line in lines:
            before = self.listener.stage, self.listener.place
            if not self.listener.hear(line):
                return UNEXPECTED
            if (self.listener.stage, self.listener.place) != before:
                cell = isinstance(self.listener.place, int)
                seconds = self.limits.cell_seconds if cell else self.limits.exercise_seconds
                self.patience = self._for(seconds + GRACE)
        return None


@contextlib.contextmanager
def _user() -> Iterator[int]:
    """A user of its own for a sandbox, so that limits are not shared with any other on the machine.

    The name of a socket, without a file, is held by one process only, and ends with it.
    """
    for number in itertools.islice(_NUMBERS, len(USERS)):
        user = USERS[number % len(USERS)]
        with socket.socket(socket.AF_UNIX) as held:
            try:
                held.bind(f"\0mini_attn-grading-{user}")
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise
            yield user
            return
    raise GraderError(f"all {len(USERS)} users of sandboxes are taken; wait for other graders to end")


def _line(request: dict) -> bytes:
    return json.dumps(request).encode() + b"\n"


def _kill(process: subprocess.Popen) -> None:
    """End the sandbox: its first process takes all others of its namespace with it."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            pipe.close()
