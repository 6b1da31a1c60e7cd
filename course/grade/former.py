"""Students who had another id before ids were made from names alone: their marks go with them.

Names like "Müller" were once reduced to "M_ller" without a hash. The result that was kept under the old id
says whose it is; without it, the old row stays in the gradebook as it is. So does that of a name which the
result may quote in part only: another's could begin alike.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from course.grade import gradebook
from course.grade.submission import HASHED, QUOTED, Submission, identity

CHANGED = re.compile(r"the name (.*) was changed to '.*'", re.DOTALL)


def rename(students: Path, handed_in: list[Submission], database: str) -> None:
    """Give the rows of the gradebook that were made under old ids to the students whose names they came from.

    Args:
        students: folder of kept results.
        handed_in: the submissions, with their present ids.
        database: URL of the gradebook.
    """
    # a file that is no notebook has another id than the student of its name, who may be there as well
    whole = [one for one in handed_in if len(one.name) < QUOTED and one.student == identity(one.name)]
    now = {repr(one.name): one.student for one in whole}
    for path in students.glob("*.json"):
        old, new = path.stem, now.get(_name(path))
        successor = path.with_name(f"{new}.json")
        if new is None or successor.exists():
            continue
        if HASHED.fullmatch(old) and not new.startswith(old):  # the hash, or its first half, is another's
            continue
        gradebook.rename(database, old, new)
        path.replace(successor)


def _name(path: Path) -> str | None:
    """The name that the id of a kept result was made from, as it was quoted."""
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))["notes"]
        changed = [CHANGED.fullmatch(note) for note in notes]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return next((match[1] for match in changed if match), None)
