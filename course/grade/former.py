"""Students who had another id before ids were made from names alone: their marks go with them.

Names like "Müller" were once reduced to "M_ller" without a hash. The result that was kept under the old id
says whose it is; without it, the old row stays in the gradebook as it is.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from course.grade import gradebook
from course.grade.submission import Submission

CHANGED = re.compile(r"the name (.*) was changed to '(.*)'", re.DOTALL)


def rename(students: Path, handed_in: list[Submission], database: str) -> None:
    """Give the rows of the gradebook that were made under old ids to the students whose names they came from.

    Args:
        students: folder of kept results.
        handed_in: the submissions, with their present ids.
        database: URL of the gradebook.
    """
    now = {repr(one.name[:100]): one.student for one in handed_in}
    for path in students.glob("*.json"):
        name, old = _named(path)
        new = now.get(name)
        if old == path.stem and new is not None and old not in now.values():
            gradebook.rename(database, old, new)
            path.replace(path.with_name(f"{new}.json"))


def _named(path: Path) -> tuple[str, str] | tuple[None, None]:
    """The name, as it was quoted, and the id that it was changed to."""
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))["notes"]
        changed = [CHANGED.fullmatch(note) for note in notes]
    except (OSError, ValueError, KeyError, TypeError):
        return None, None
    return next((match.groups() for match in changed if match), (None, None))
