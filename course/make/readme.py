"""The map of the course in README.md, made from what the lessons say of themselves."""

from __future__ import annotations

from course import syllabus
from course.files import between, write

README = syllabus.ROOT / "README.md"
BEGIN = "<!-- The map: `python -m course build` writes it from the lessons and course/syllabus.py. -->\n"
END = "<!-- End of the map. -->\n"


def with_map(text: str) -> str:
    """README's text with the map as it is now between its two comments.

    Raises:
        ValueError: one of the comments is missing.
    """
    return between(text, BEGIN, END, syllabus.table("lessons/"))


def refresh() -> bool:
    """Bring the map in README.md up to date; says whether it had changed."""
    text = README.read_text(encoding="utf-8")
    new = with_map(text)
    if new != text:
        write(README, new)
    return new != text
