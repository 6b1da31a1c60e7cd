"""`python -m course COMMAND`: everything that is done to the course from the command line."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys

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


def main(arguments: list[str] | None = None) -> int:
    """Run the command's own `main`, and return its exit status."""
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
        if sys.stdout is not None:
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
