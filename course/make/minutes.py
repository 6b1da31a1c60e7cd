"""How long a lesson takes, by one rule for all: reading words, reading code, and the exercises' own minutes.

Not counted are sections whose heading says *(optional)*, what is folded away (`<details>`, cells whose source
is hidden), further reading, and the cells of exercises, which their minutes stand for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbformat import NotebookNode

WORDS = 110  # a minute, of prose with formulas, about as fast as careful readers went
LINES = 12  # a minute, of visible code
DISPLAYED = 12  # words that a displayed formula takes as long as
STEP = 5  # minutes are stated in fives
PENCIL = 1.5  # times as long, about, took readers who did every derivation on paper
RANGE = (60, 90)


def minutes(cells: list[NotebookNode]) -> tuple[int, dict[str, int]]:
    """The minutes to state, in fives, and what they come from: words, lines and minutes of exercises.

    Args:
        cells: of the unsolved notebook.
    """
    counted = {"words": 0, "lines": 0, "exercises": 0}
    for cell in _counted(cells):
        if cell.cell_type == "markdown":
            counted["words"] += _words(cell.source)
            counted["exercises"] += sum(map(int, re.findall(r"★\S*\s+· (\d+) minutes", cell.source)))
        elif not cell.metadata.get("jupyter", {}).get("source_hidden") and "exercise(" not in cell.source:
            lines = [line.strip() for line in cell.source.splitlines()]
            counted["lines"] += sum(bool(line) and not line.startswith("#") for line in lines)
    total = counted["words"] / WORDS + counted["lines"] / LINES + counted["exercises"]
    return STEP * round(total / STEP), counted


def with_pencil(takes: int) -> int:
    """The minutes to state for a reader who does every derivation on paper, in fives."""
    return STEP * round(PENCIL * takes / STEP)


def stated(cells: list[NotebookNode]) -> tuple[int | None, int | None]:
    """The minutes a lesson promises in the paragraph that says what one needs: reading, with a pencil."""
    for cell in cells[:4]:
        found = re.search(
            r"\*\*You need\*\*.*?(\d+)\s+minutes(?:\s+\((\d+)\s+with\s+a\s+pencil\))?", cell.source, re.S
        )
        if found:
            return int(found[1]), found[2] and int(found[2])
    return None, None


def _counted(cells: list[NotebookNode]) -> Iterator[NotebookNode]:
    """The cells of the sections that count."""
    optional = False
    for cell in cells:
        heading = re.search(r"^## (.*)$", cell.source, re.M) if cell.cell_type == "markdown" else None
        if heading:
            optional = "*(optional)*" in heading[1] or heading[1] == "Further reading"
        if not optional:
            yield cell


def _words(text: str) -> int:
    """Words of a markdown cell: a formula in a line counts as one, a displayed one as several."""
    text = re.sub(r"<details>.*?</details>", "", text, flags=re.S)
    text, displayed = re.subn(r"\$\$.*?\$\$", " ", text, flags=re.S)
    text = re.sub(r"\$[^$]*\$", "formula", text)
    text = re.sub(r"\]\([^)]*\)|[|>#*`-]", " ", text)
    return len(re.findall(r"\w[\w'.,-]*", text)) + DISPLAYED * displayed
