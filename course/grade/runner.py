"""The program inside the sandbox: runs a student's cells, calls their functions, reports plain data.

It reads JSON from standard input, the cells in one line and, once they have run, the inputs of the
exercises in another; it writes JSON events, a line each, to what was its standard output. From the moment
the first student cell runs, nothing in this process is to be trusted; the other side of the pipe
(`protocol.py`) knows that. Standard library, IPython and numpy only: nothing else of the course is in here.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import threading
import types

import plain

PR_SET_THP_DISABLE = 41
REPLICATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "library", "course", "replicate")


class NotAttempted(Exception):
    """Raised by `todo()`."""


class TimeIsUp(BaseException):
    """Raised in student code when its time is over; `except Exception` lets it pass."""


def main() -> None:
    requests = os.fdopen(os.dup(0), "rb")
    request = json.loads(requests.readline())
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    _drop_privileges(request["user"])
    _limit(request["limits"])
    _prepare_matplotlib(request["fonts"])

    def tell(**event):
        events.write(json.dumps(event) + "\n")
        events.flush()

    registered: dict[str, object] = {}
    at = {"cell": -1}

    def register(id, function):
        registered[id] = function
        tell(event="registered", id=id, cell=at["cell"], name=getattr(function, "__name__", "?"))

    _install_stubs(register)
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.enable_gui = lambda self, gui=None: None  # what %matplotlib asks for
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    tell(event="ready")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    signal.signal(signal.SIGALRM, _time_is_up)
    for index, code in enumerate(request["cells"]):
        if index in request["skip"]:
            continue
        at["cell"] = index
        tell(event="cell", index=index)
        with _alarm(request["limits"]["cell_seconds"]):
            error = _run_cell(shell, code)
        if error is not None:
            tell(event="cell-error", index=index, error=_words(error))
    tell(event="cells-done")
    cases = json.loads(requests.readline())  # not here before: a cell could shout them out in its error
    for id, name in request["exercises"].items():
        function = registered.get(id, shell.user_ns.get(name))
        tell(event="exercise", id=id, found=callable(function))
        if callable(function):
            with _alarm(request["limits"]["exercise_seconds"]):
                for number, case in enumerate(cases[id]):
                    tell(event="answer", id=id, case=number, **_answer(function, case))
    tell(event="done")
    os._exit(0)  # whatever a student registered to run at exit stays undone


def _run_cell(shell, code: str) -> BaseException | None:
    try:
        result = shell.run_cell(code, store_history=False, silent=True)
    except BaseException as error:
        return error
    return result.error_before_exec or result.error_in_exec


def _answer(function, case: dict) -> dict:
    arguments = plain.decode(case)
    try:
        value = plain.encode(function(*arguments))
        after = plain.encode(arguments)["tuple"]
        changed = [place for place, before in enumerate(case["tuple"]) if before != after[place]]
        return {"value": value, "changed": changed}
    except NotAttempted:
        return {"error": "not attempted"}
    except plain.TooLarge:
        return {"error": "too large"}
    except BaseException as error:
        return {"error": _words(error)}


def _words(error: BaseException) -> str:
    """An error in a line, whatever its class does when it is asked."""
    try:
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0][:200]}" if lines else str(type(error).__name__)
    except BaseException:
        return "an error that cannot be described"


class Measured:
    """A stored sweep as a lesson reads it; what it would compute again, it reads as well."""

    def __init__(self, id):
        self.path = os.path.join(REPLICATE, "results", f"{id.replace('.', '_')}.nc")

    def load(self):
        import xarray

        return xarray.load_dataset(self.path, engine="scipy")

    def part(self, trials=None, **values):
        found = self.load()
        return found.sel(values).isel(trial=slice(trials or int(found.attrs["batch"])))


def _install_stubs(register) -> None:
    """What a lesson imports from the course, without the course: nothing is checked or shown in here."""

    def exercise(id):
        def decorate(function):
            register(id, function)
            return function

        return decorate

    def todo():
        raise NotAttempted

    def show(figure=None, alt=""):
        import matplotlib.pyplot as plt

        plt.close("all")

    course = types.ModuleType("course")
    for name in ("exercise", "figure", "replicate"):
        module = types.ModuleType(f"course.{name}")
        setattr(course, name, module)
        sys.modules[module.__name__] = module

    def nothing(*args, **kwargs):
        pass

    vars(course.exercise).update(exercise=exercise, todo=todo, check=nothing, progress=nothing)
    course.figure.show = show
    course.replicate.measured = Measured
    course.replicate.__path__ = [REPLICATE]  # a lesson may use functions of its sweeps
    course.__path__ = []
    sys.modules["course"] = course


@contextlib.contextmanager
def _alarm(seconds: float):
    signal.setitimer(
        signal.ITIMER_REAL, seconds, 1
    )  # and every second after, for code that swallows the first
    try:
        yield
    except TimeIsUp:  # it came between two of our own lines
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _time_is_up(number, frame):
    raise TimeIsUp("it took too long")


def _drop_privileges(user: int | None) -> None:
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def _limit(limits: dict) -> None:
    for name, value in (
        ("AS", limits["address_bytes"]),
        ("NPROC", limits["processes"]),
        ("FSIZE", limits["file_bytes"]),
        ("MSGQUEUE", 0),
        ("NOFILE", limits["open_files"]),
    ):
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]  # of the shell that grades: it may be lower already
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    stack = limits["stack_bytes"]
    for name in ("CPU", "DATA", "STACK"):  # the course has no limits of these
        kind = getattr(resource, f"RLIMIT_{name}")
        soft, hard = resource.getrlimit(kind)
        if name != "STACK":
            soft = hard
        elif soft not in (stack, resource.RLIM_INFINITY):  # without one Linux starts threads of other sizes
            soft = stack if hard == resource.RLIM_INFINITY else min(stack, hard)
            threading.stack_size(soft)  # the C library has read the old limit
        resource.setrlimit(kind, (soft, hard))
    if sys.platform == "linux":  # no huge pages: one of which a part is left counts as that part
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, *map(ctypes.c_ulong, (1, 0, 0, 0)))


def _prepare_matplotlib(fonts: str | None) -> None:
    """Give matplotlib a list of fonts that was made outside: making it takes seconds."""
    if fonts is not None:
        shutil.copytree(fonts, os.environ["MPLCONFIGDIR"], dirs_exist_ok=True)


if __name__ == "__main__":
    main()
