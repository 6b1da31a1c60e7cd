"""Running a student's notebook where it can harm nobody: bubblewrap, resource limits and a watchdog.

What happens in there is decided by `runner.py`, and `walls.py` makes the walls; this file watches, and reads
what comes out without believing any of it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from course.grade import plain
from course.grade.sealed import seal
from course.grade.walls import INSIDE, GraderError, SandboxMissing, command, require

__all__ = ["Answer", "GraderError", "Limits", "Report", "Sandbox", "SandboxMissing", "require"]

HERE = Path(__file__).parent
_USERS = itertools.cycle(range(61000, 65000))  # a user of its own for each, so that limits are not shared
GRACE = 5.0  # seconds between the alarm inside and the kill outside


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Seconds are wall time; memory counts all its processes together."""

    cell_seconds: float = 60.0
    exercise_seconds: float = 20.0
    total_seconds: float = 300.0
    memory_bytes: int = 2 * 2**30
    address_bytes: int = 6 * 2**30
    processes: int = 64
    file_bytes: int = 64 * 2**20
    disk_bytes: int = 256 * 2**20
    output_bytes: int = 32 * 2**20
    restarts: int = 6


@dataclass
class Answer:
    """What a student's function gave on one case: a plain value, or an error in words.

    `changed` holds the positions of the arguments that it changed in place.
    """

    value: Any = None
    error: str | None = None
    changed: list[int] = field(default_factory=list)


@dataclass
class Report:
    """What came out of the sandbox for one notebook.

    Attributes:
        cell_errors: cell number -> the error in a line; such a cell costs only what it defines.
        registered: exercise -> (cell number, function name) for each time a function was marked as its
        answer. answers: exercise -> an answer for each case, as far as it got.
        found: exercises for which there was a function.
        problems: "cell 3" or an exercise -> why it was stopped (time, memory, crash, output).
    """

    cell_errors: dict[int, str] = field(default_factory=dict)
    registered: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    problems: dict[str, str] = field(default_factory=dict)


class Sandbox:
    """Everything that one lesson's submissions share: the sealed library and the list of fonts.

    Args:
        withheld: functions of mini_attn that the lesson's exercises ask for (see `sealed.py`).
        limits: what a submission may use.
        unsafe: run without walls. For a grader who reads every submission first.

    Use it in a `with` statement; `call` may run in several threads at once.
    """

    def __init__(self, withheld: list[str] = (), limits: Limits = Limits(), unsafe: bool = False):
        if not unsafe:
            require()
        self.limits, self.unsafe = limits, unsafe
        self._withheld = list(withheld)

    def __enter__(self) -> Sandbox:
        self._folder = tempfile.TemporaryDirectory(prefix="grading-")
        try:
            self._furnish(Path(self._folder.name))
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def _furnish(self, folder: Path) -> None:
        for name in ("runner.py", "plain.py"):
            shutil.copy(HERE / name, folder)
        seal(folder / "library", self._withheld)
        (folder / "fonts").mkdir()
        subprocess.run(
            [sys.executable, "-c", "import matplotlib.font_manager"],
            env={**os.environ, "MPLCONFIGDIR": str(folder / "fonts")},
            check=True,
        )
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)

    def __exit__(self, *_):
        self._folder.cleanup()

    def call(self, cells: list[str], exercises: dict[str, tuple[str, list[tuple]]]) -> Report:
        """Run a notebook and call its functions on the cases.

        A cell or an exercise that kills the process, hangs or floods costs only itself: the sandbox is made
        anew without it, a few times.

        Args:
            cells: the code cells, in order.
            exercises: exercise -> (name of the function if no @exercise registered one, argument tuples).
        """
        report, skip, waiting = Report(), set(), dict(exercises)
        deadline = time.monotonic() + self.limits.total_seconds
        for _ in range(self.limits.restarts + 1):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            run = _Run(self, cells, skip, waiting, left)
            stopped = run.watch(report)
            if stopped is None:
                return report
            place, reason = stopped
            if isinstance(place, int):
                skip.add(place)
                report.problems[f"cell {place + 1}"] = reason
            elif place in waiting:
                report.problems[place] = reason
                waiting = {id: waiting[id] for id in list(waiting)[list(waiting).index(place) + 1 :]}
            else:
                for id in waiting:
                    report.problems[id] = reason
                return report
            if not waiting:
                return report
        for id in waiting:
            report.problems.setdefault(id, "the notebook as a whole took too long or was stopped too often")
        return report

    def _command(self) -> list[str]:
        # -I: no folder of the user's own, -B: nothing is written beside the sources
        run = [sys.executable, "-B", "-s", f"{self._home}/runner.py"]
        if self.unsafe:
            return run
        return [*command(self._folder.name, self._environment(), self.limits.disk_bytes), *run]

    @property
    def _home(self) -> str:
        return self._folder.name if self.unsafe else INSIDE

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
            "PYTHONPATH": f"{self._home}/library",
            "HOME": "/tmp",
            "MPLCONFIGDIR": "/tmp/matplotlib",
            "IPYTHONDIR": "/tmp/ipython",
            "MPLBACKEND": "Agg",
            "LANG": "C.UTF-8",
            **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")},
        }


class _Run:
    """One life of a sandbox: started with a request, watched until it is done or stopped."""

    def __init__(self, sandbox: Sandbox, cells, skip, exercises, seconds: float):
        self.limits, self.exercises = sandbox.limits, exercises
        self.end = time.monotonic() + seconds
        root = os.geteuid() == 0 and not sandbox.unsafe
        request = {
            "cells": cells,
            "skip": sorted(skip),
            "exercises": {
                id: {"name": name, "cases": [plain.encode(case) for case in cases]}
                for id, (name, cases) in exercises.items()
            },
            "limits": asdict(sandbox.limits),
            "fonts": f"{sandbox._home}/fonts",
            "user": next(_USERS) if root else None,
        }
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in _kill)
        with tempfile.TemporaryFile() as file:
            file.write(json.dumps(request).encode())
            file.seek(0)
            self.process = subprocess.Popen(
                sandbox._command(),
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                env=sandbox._environment() if sandbox.unsafe else None,
                start_new_session=True,
            )

    def watch(self, report: Report) -> tuple[int | str | None, str] | None:
        """Read events into the report. None when all went to its end; else where it stopped, and why."""
        place, received, buffer, alive = None, 0, b"", False
        patience = self._patience(60.0)
        pipe = self.process.stdout
        os.set_blocking(pipe.fileno(), False)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(pipe, selectors.EVENT_READ)
                while True:
                    ready = selector.select(timeout=0.1)
                    if self._memory() > self.limits.memory_bytes:
                        return place, "it used too much memory"
                    if time.monotonic() > patience:
                        return place, "it took too long"
                    if not ready:
                        continue
                    chunk = pipe.read(65536)
                    if chunk is None:
                        continue
                    if not chunk and not alive:
                        self.errors.seek(0)
                        words = self.errors.read(2000).decode(errors="replace").strip()
                        raise GraderError(f"the sandbox did not start: {words or 'no reason given'}")
                    if not chunk:
                        return place, "it ended the program that ran it"
                    received += len(chunk)
                    if received > self.limits.output_bytes:
                        return place, "it produced too much output"
                    *lines, buffer = (buffer + chunk).split(b"\n")
                    for line in lines:
                        event = _event(line)
                        if event is None:
                            return place, "it wrote into the program that ran it"
                        alive = True  # the first event comes before any student code
                        if event["event"] == "done":
                            return None
                        moved = self._note(event, report)
                        if moved is not None:
                            place, seconds = moved
                            patience = self._patience(seconds + GRACE)
        finally:
            self._kill()

    def _patience(self, seconds: float) -> float:
        return min(time.monotonic() + seconds, self.end)

    def _note(self, event: dict, report: Report) -> tuple[int | str, float] | None:
        """Put an event into the report; returns the place and its time where a new one begins."""
        index, id = event.get("index"), event.get("id")
        if event["event"] == "cell" and type(index) is int:
            return index, self.limits.cell_seconds
        if event["event"] == "cell-error" and type(index) is int:
            report.cell_errors[index] = str(event.get("error"))[:300]
        if not isinstance(id, str) or id not in self.exercises:
            return None
        if event["event"] == "registered" and type(event.get("cell")) is int:
            marks = report.registered.setdefault(id, [])
            mark = (event["cell"], str(event.get("name"))[:60])
            if len(marks) < 100 and mark not in marks:
                marks.append(mark)
        if event["event"] == "exercise":
            report.answers[id] = []
            if event.get("found") is True:
                report.found.add(id)
            return id, self.limits.exercise_seconds
        answers = report.answers.get(id, [])
        if event["event"] == "answer" and event.get("case") == len(answers) < len(self.exercises[id][1]):
            answers.append(_answer(event))
        return None

    def _memory(self) -> int:
        """Resident memory of everything in the sandbox, in bytes."""
        total = 0
        with contextlib.suppress(psutil.Error):
            processes = psutil.Process(self.process.pid).children(recursive=True)
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
        return total

    def _kill(self) -> None:
        """End the sandbox: its first process takes all others of its namespace with it."""
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def _event(line: bytes) -> dict | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def _answer(event: dict) -> Answer:
    if "error" in event:
        return Answer(error=str(event["error"])[:300])
    changed = event.get("changed")
    changed = [place for place in changed if type(place) is int] if isinstance(changed, list) else []
    try:
        return Answer(value=plain.decode(event.get("value")), changed=changed)
    except (ValueError, RecursionError):
        return Answer(error="its answer could not be read")
