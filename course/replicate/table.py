"""The replication table as text: for the terminal, for one row, and for the README."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

from course.replicate.rows import PAPERS, Estimate, Row
from course.replicate.stored import measured

LESSONS = Path(__file__).parents[2] / "lessons"


def number(x: float, row: Row) -> str:
    """A number in as many decimals as the published one has, and at least two."""
    decimals = len(f"{row.published:g}".partition(".")[2])
    return f"{x:.{max(2, decimals)}f}"


def interval(found: Estimate, row: Row) -> str:
    """ "0.987 (0.981 to 0.993)", or the number alone where there is no chance in it."""
    value, low, high = (number(x, row) for x in (found.value, found.low, found.high))
    return value if found.low == found.high else f"{value} ({low} to {high})"


def verdict(row: Row, found: Estimate) -> str:
    """One word."""
    return "agrees" if row.agrees(found) else "differs"


def reasons(rows: Iterable[Row]) -> list[str]:
    """Why rows differ, each reason once: number k of the list is [k] in the tables."""
    return list(dict.fromkeys(row.differs for row in rows if row.differs))


def lines(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Row id, paper, quantity, published, ours, trials, seed, verdict, section."""
    rows = list(rows)
    why, result = reasons(rows), []
    for row in rows:
        found = row.estimate()
        seed = measured(row.sweep).seed if row.sweep else row.seed
        word = verdict(row, found) + (f" [{why.index(row.differs) + 1}]" if row.differs else "")
        ours = (number(row.published, row), interval(found, row), f"{found.trials:,}")
        result.append(
            (row.id, row.paper, row.quantity, *ours, "" if seed is None else str(seed), word, row.section)
        )
    return result


HEAD = ("row", "paper", "what", "published", "ours", "trials", "seed", "verdict", "in")


def text(rows: Iterable[Row], width: int = 46) -> str:
    """The table for a terminal: what is measured takes several lines where it must; the reasons below."""
    rows = list(rows)
    table = [HEAD, *lines(rows)]
    folded = [[textwrap.wrap(cell, width) or [""] for cell in line] for line in table]
    sizes = [max(len(part) for line in folded for part in line[c]) for c in range(len(HEAD))]
    out = []
    for line in folded:
        for k in range(max(map(len, line))):
            parts = (cell[k] if k < len(cell) else "" for cell in line)
            out.append("  ".join(part.ljust(size) for part, size in zip(parts, sizes, strict=True)).rstrip())
    for k, why in enumerate(reasons(rows), 1):
        out.append(textwrap.fill(f"[{k}] {why}", 110, subsequent_indent="    "))
    return "\n".join(out)


def markdown(rows: Iterable[Row]) -> str:
    """The table for the README, with links to the lessons, and the reasons below."""
    rows = list(rows)
    out = ["| what | published | ours | verdict | in |", "|---|---|---|---|---|"]
    for _, _, what, said, ours, _, _, word, section in lines(rows):
        (lesson,) = LESSONS.glob(f"{section.partition('.')[0].zfill(2)}_*.ipynb")
        out.append(f"| {what} | {said} | {ours} | {word} | [{section}](lessons/{lesson.name}) |")
    out += ["", *(f"[{k}] {why}.  " for k, why in enumerate(reasons(rows), 1))]
    return "\n".join(out) + "\n"


def whole(row: Row) -> str:
    """All about one row, in sentences."""
    found = row.estimate()
    parts = [
        f"{row.id}: {row.quantity}",
        f"Source: {PAPERS[row.paper]}",
        f"Published: {number(row.published, row)}, give or take {row.within:g}",
        f"Ours: {interval(found, row)}, from {found.trials:,} trials",
        f"Verdict: {verdict(row, found)}" + (f": {row.differs}" if row.differs else ""),
        f"Shown in section {row.section}",
    ]
    if row.seed is not None:
        parts.append(f"Computed now, seed {row.seed}")
    if row.sweep:
        one = measured(row.sweep)
        parts.append(
            f"Stored in {one.path.name}, seed {one.seed}; `python -m course replicate --fresh {one.id}` "
            f"computes it anew in about {one.minutes:g} minutes of one core"
        )
    return "\n".join(parts)
