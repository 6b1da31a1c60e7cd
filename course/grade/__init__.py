"""Grading: strangers' code runs in a sandbox, its answers are compared outside."""

from __future__ import annotations

import importlib.util
import sys


def main(arguments: list[str] | None = None) -> int:
    """`python -m course grade`; see `grading.py`."""
    missing = [name for name in ("nbgrader", "psutil") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"Grading needs {' and '.join(missing)}: run `make grade` instead, or "
            "`python -m pip install --editable .[grade]` first.",
            file=sys.stderr,
        )
        return 1
    from course.grade.grading import main

    return main(arguments)
