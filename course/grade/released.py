"""What the lesson handed out: which function answers which exercise, and the cells that others build on."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import nbformat

from course import exercises
from course.build import Folders
from course.specification import Exercise

LESSONS = Folders().lessons


@dataclass(frozen=True)
class Lesson:
    """A lesson as it was handed out.

    Attributes:
        number: "06".
        path: the notebook in lessons/.
        specs: its exercises, in order.
        functions: exercise -> name of the function to write.
        foundations: (cell id, code) of the cells that only import, define or assign, in order.
        cell_ids: exercise -> id of the cell in which the function stands.
    """

    number: str
    path: Path
    specs: list[Exercise]
    functions: dict[str, str]
    foundations: list[tuple[str, str]]
    cell_ids: dict[str, str]

    @property
    def withheld(self) -> list[str]:
        """The functions of mini_attn that some exercise of the lesson asks for."""
        return sorted({name for spec in self.specs for name in spec.withheld})


def lesson(number: str, lessons: Path = LESSONS) -> Lesson:
    """Read a lesson's notebook and specifications.

    Raises:
        ValueError: there is no such lesson.
    """
    paths = sorted(lessons.glob(f"{number}_*.ipynb"))
    specs = exercises.exercises(number) if paths else []
    if not specs:
        known = sorted({path.name[:2] for path in lessons.glob("[0-9][0-9]_*.ipynb")})
        raise ValueError(f"there is no lesson {number!r} with exercises; the lessons are {', '.join(known)}")
    functions, foundations, cell_ids = {}, [], {}
    for cell in nbformat.read(paths[0], as_version=4).cells:
        if cell.cell_type != "code":
            continue
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:  # a magic
            continue
        answers = {id: node.name for node in tree.body for id in _exercises(node)}
        functions |= answers
        cell_ids |= {id: cell.id for id in answers}
        if not answers and all(map(_is_foundation, tree.body)):
            foundations.append((cell.id, cell.source))
    return Lesson(number, paths[0], specs, functions, foundations, cell_ids)


def _exercises(node: ast.stmt) -> list[str]:
    """The exercises that a statement answers: those in its decorators."""
    return [
        call.args[0].value
        for call in getattr(node, "decorator_list", [])
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "exercise"
    ]


def _is_foundation(node: ast.stmt) -> bool:
    """Whether a statement imports, defines, or assigns without a loop."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return not any(isinstance(part, ast.For | ast.comprehension | ast.Await) for part in ast.walk(node))
    return isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef | ast.Assert) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.Call)
    )
