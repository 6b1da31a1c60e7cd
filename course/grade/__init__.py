"""Grading: strangers' code runs in a sandbox, its answers are compared outside."""

from __future__ import annotations


def main(arguments: list[str] | None = None) -> int:
    """`python -m course grade`; see `grading.py`."""
    from course.grade.grading import main  # here: the sandbox's parts are used without nbgrader too

    return main(arguments)
