"""The house style of the lessons: headings, exercises, names of lessons, and what is folded away."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

from nbformat import NotebookNode

DOOR = "00"  # the page one starts from: a lesson, but short and without the last sections
LAST = ["Questions", "Summary", "Further reading"]  # the sections that carry no number
LONG = 12  # lines of drawing from which on they are folded
# Methods of matplotlib's figures and axes, and names under which lessons hold these.
METHODS = set(
    # "step" is left out: optimisers have one, too
    """add_artist add_patch annotate arrow axhline axhspan axis axline axvline axvspan bar barh clabel
    colorbar contour contourf errorbar fill fill_between fill_betweenx grid hist hlines imshow legend loglog
    margins matshow pcolormesh plot quiver savefig scatter secondary_xaxis semilogx semilogy set set_aspect
    set_axis_off set_label set_title set_xlabel set_xlim set_xscale set_xticks set_ylabel set_ylim set_yscale
    set_yticks sharex sharey stackplot stem subplots subplots_adjust suptitle table text tick_params
    vlines""".split()  # noqa: SIM905
)
HOLDERS = {"plt", "plots"}


def style_problems(cells: list[NotebookNode], lesson: str) -> list[str]:
    """Where headings, exercises or links depart from the house style."""
    problems = _headings(cells, lesson)
    for position, cell in enumerate(cells):
        if cell.cell_type != "markdown":
            continue
        text = re.sub(r"```.*?```|`[^`]*`", "", cell.source, flags=re.S)
        for before, line in pairwise(text.splitlines()):
            item = re.match(r"\d+[.)] ", before) or before.endswith(":")
            if re.match(r"(>|[-+*] |1[.)] )", line) and re.match(r"\w|[(*$\[](?! )", before) and not item:
                problems.append(
                    f"{where(position, cell)} has the line '{line[:40]}' within a paragraph: Markdown takes "
                    "it for a list or a quotation; break the line elsewhere, or leave one blank before it"
                )
            if re.search(r"\w-$", before) and line[:1].isalnum():
                problems.append(
                    f"{where(position, cell)} breaks a line after '{before.split()[-1]}': that prints a "
                    "space behind the hyphen"
                )
        for found in re.finditer(r"\b[Ll]essons?\s+\d\b(?!\d)|(?<=[a-z,] )Lesson \d\d", text):
            problems.append(
                f"{where(position, cell)} says '{' '.join(found[0].split())}': lessons are 'lesson 06'"
            )
        for found in re.finditer(r"\[(\d+)\]\(", text):
            problems.append(
                f"{where(position, cell)} has the link [{found[1]}]: a link needs words, 'lesson {found[1]}'"
            )
        for heading in re.finditer(r"^### Exercise (\d\d\.\d): .*\n+(.*)", cell.source, re.M):
            if not re.fullmatch(r"(★☆☆|★★☆|★★★) · \d+ minutes( · in words)?", heading[2].strip()):
                problems.append(
                    f"under the heading of exercise {heading[1]} stands '{heading[2].strip()[:40]}'; "
                    "it should be a line such as '★★☆ · 6 minutes'"
                )
    return problems


def _headings(cells: list[NotebookNode], lesson: str) -> list[str]:
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found = re.findall(r"^## (.*)$", text, re.M)
    names = [heading.removesuffix(" *(optional)*") for heading in found]
    problems = (
        []
        if names[-3:] == LAST or lesson == DOOR
        else [f"its last sections are {names[-3:]}, they should be {LAST}"]
    )
    for number, name in enumerate((name for name in names if name not in LAST), start=1):
        if not name.startswith(f"{int(lesson)}.{number} "):
            problems.append(f"the section '{name}' should be '## {int(lesson)}.{number} Title'")
    return problems


def folding_problems(cells: list[NotebookNode]) -> list[str]:
    """Cells that draw and compute, and cells of drawing that stand open."""
    problems = []
    for position, cell in enumerate(cells):
        if cell.cell_type != "code" or "@exercise(" in cell.source:
            continue
        tree = ast.parse(cell.source)
        drawing = sum(_lines(statement) for statement in tree.body if _draws(statement))
        share = drawing / max(1, sum(map(_lines, tree.body)))
        folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        shows = any(_calls(statement, {"show"}) for statement in tree.body if not _defines(statement))
        if shows and any(_asserts(statement) for statement in tree.body if not _defines(statement)):
            problems.append(
                f"{where(position, cell)} draws, and asserts or prints: compute in a cell of its own"
            )
        if not folded and share > 0.6 and (shows or drawing > LONG):
            problems.append(
                f"{where(position, cell)} only draws: fold it ('# %% jupyter={{\"source_hidden\": true}}')"
            )
        elif not folded and drawing > LONG:
            problems.append(
                f"{where(position, cell)} has {drawing} lines of drawing: fold them, or move them to plots"
            )
        if folded and share < 0.4 and "widget" not in cell.metadata.get("tags", []):
            problems.append(f"{where(position, cell)} is folded, but it computes more than it draws")
    return problems


def where(position: int, cell: NotebookNode) -> str:
    """A cell's number and its first words, to find it by."""
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    return f"cell {position} ({first.strip()[:32]})"


def _lines(statement: ast.stmt) -> int:
    return statement.end_lineno - statement.lineno + 1


def _defines(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _draws(statement: ast.stmt) -> bool:
    """Whether a statement draws: at least half of a function's or a loop's lines do."""
    body = getattr(statement, "body", None)
    if body and not isinstance(statement, ast.ClassDef):
        rest = [*body, *getattr(statement, "orelse", [])]
        return 2 * sum(_lines(part) for part in rest if _draws(part)) >= sum(map(_lines, rest))
    if isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom | ast.Return):
        return False
    return bool(_calls(statement, METHODS | {"show"}))


def _calls(node: ast.AST, names: set[str]) -> list[ast.Call]:
    """Calls of these functions or methods, or of anything in a module that draws."""
    found = []
    for call in (part for part in ast.walk(node) if isinstance(part, ast.Call)):
        function = call.func
        if isinstance(function, ast.Name) and function.id in names & {"show"}:
            found.append(call)
        elif isinstance(function, ast.Attribute):
            root = function.value.id if isinstance(function.value, ast.Name) else ""
            if names != {"show"} and (
                root in HOLDERS or (function.attr in names and root not in ("np", "torch"))
            ):
                found.append(call)
    return found


def _asserts(statement: ast.stmt) -> bool:
    parts = list(ast.walk(statement))
    printed = any(
        isinstance(p, ast.Call) and isinstance(p.func, ast.Name) and p.func.id == "print" for p in parts
    )
    return printed or any(isinstance(part, ast.Assert) for part in parts)
