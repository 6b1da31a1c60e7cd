"""`python -m course COMMAND`: everything that is done to the course from the command line."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import TextIO

COMMANDS = {  # name: (module with a `main`, what it does)
    "start": (
        "course.start.jupyterlab",
        "copy the lessons to my-lessons/, open JupyterLab where you left off",
    ),
    "progress": ("course.start.progress", "say which exercises you have solved, and which come next"),
    "build": ("course.make.build", "make the notebooks in lessons/ and solutions/ from course/source/"),
    "lint": ("course.make.lint", "say what the lessons' sources must mend, and how long each lesson takes"),
    "grade": ("course.grade.grading", "grade a folder of submissions in a sandbox"),
    "picture": ("course.make.picture", "draw the README's picture"),
    "replicate": ("course.replicate.command", "list the sweeps that the course keeps, or compute them anew"),
    "release": ("course.grade.release", "make the nbgrader assignment of a lesson"),
}
NEEDS = ("nbgrader", "psutil")  # for grading; the extra `grade` of pyproject.toml


class Heedless:
    """A stream whose failure stops no work: it is closed, say, or its disk is full.

    Args:
        stream: to write to; None if it was closed when Python started.
        heeded: errors that are raised nevertheless.

    Attributes:
        error: the last one that was not.
    """

    def __init__(self, stream: TextIO | None, heeded: type[OSError] | tuple = ()):
        self._stream = stream or open(os.devnull, "w", errors="replace")  # noqa: SIM115 (until the end)
        with contextlib.suppress(AttributeError, OSError, ValueError):  # one of another kind, or closed
            self._stream.reconfigure(errors="backslashreplace")  # what its encoding lacks
        self._heeded = heeded
        self.error: OSError | None = None

    def __getattr__(self, name: str):
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, if that is possible."""
        self._do(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Pass on what was written, if that is possible."""
        self._do(self._stream.flush)

    def forget(self) -> None:
        """Drop what could not be written: at its end Python would try again, and change the exit status."""
        if self.error is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def _do(self, work: Callable, *arguments: str) -> None:
        try:
            work(*arguments)
        except self._heeded:
            raise
        except OSError as error:
            self.error = error


def main(arguments: list[str] | None = None) -> int:
    """Run the command's own `main`, and return its exit status."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass  # or a file of ours would take the place of a stream that was closed
    os.close(descriptor)
    out, err = Heedless(sys.stdout, BrokenPipeError), Heedless(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = _run(arguments)
        if out.error is not None:
            print(f"What was done is written; the text that says so could not be: {out.error}", file=err)
    out.forget()
    err.forget()
    return status


def _run(arguments: list[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course",
        description=__doc__,
        epilog="\n".join(f"  {name:9} {does}" for name, (_, does) in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the command takes; see COMMAND -h")
    chosen = parser.parse_args(arguments)
    needed = NEEDS if chosen.command in ("grade", "release") else ()
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"{chosen.command} needs {' and '.join(missing)}: run `make {chosen.command}` instead, or "
            "`python -m pip install --editable .[grade]` first.",
            file=sys.stderr,
        )
        return 1
    # jsonschema would load it with every notebook, a second of work, for addresses that no notebook has
    sys.modules.setdefault("rfc3987_syntax", None)
    try:
        status = importlib.import_module(COMMANDS[chosen.command][0]).main(chosen.arguments) or 0
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:  # before the command was ready to answer one itself
        print("Stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our lines, `head` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would try them again
        return 141


if __name__ == "__main__":
    sys.exit(main())
