"""What the lesson handed out: which function answers which exercise, and the cells that others build on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from course import exercises
from course.check.specification import Exercise
from course.make.build import Folders

LESSONS = Folders().lessons


@dataclass(frozen=True)
class Lesson:
    """A lesson as it was handed out.

    Attributes:
        number: "06".
        path: the notebook in lessons/.
        specs: its exercises, in order.
        functions: exercise -> name of the function to write.
        foundations: (cell id, code, what of it is restored if it was deleted), in order: cells that only
            import, define or assign, whole; of others that define something, the definitions.
        cell_ids: exercise -> id of the cell in which the function stands.
        blanks: exercise -> that cell's code as it was handed out.
        solutions: exercise -> the cell that solves it.
        needs: exercise -> earlier exercises whose functions its solution calls.
        codes: all code cells as they were handed out.
    """

    number: str
    path: Path
    specs: list[Exercise]
    functions: dict[str, str]
    foundations: list[tuple[str, str, str]]
    cell_ids: dict[str, str]
    blanks: dict[str, str] = field(default_factory=dict)
    solutions: dict[str, str] = field(default_factory=dict)
    needs: dict[str, set[str]] = field(default_factory=dict)
    codes: set[str] = field(default_factory=set)

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
    functions, foundations, cell_ids, blanks, codes = {}, [], {}, {}, set()
    for cell, tree, answers in _code(paths[0]):
        codes.add(cell.source.strip())
        functions |= answers
        cell_ids |= {id: cell.id for id in answers}
        blanks |= {id: cell.source for id in answers}
        restored = "" if answers else cell.source if _is_foundation(tree) else _definitions(tree)
        if restored:
            foundations.append((cell.id, cell.source, restored))
    solutions, needs = {}, {}
    for cell, tree, answers in _code(lessons.parent / "solutions" / paths[0].name):
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for id in answers:
            solutions[id] = cell.source
            needs[id] = {other for other, name in functions.items() if name in names and other != id}
    return Lesson(number, paths[0], specs, functions, foundations, cell_ids, blanks, solutions, needs, codes)


def _code(path: Path) -> Iterator[tuple[nbformat.NotebookNode, ast.Module, dict[str, str]]]:
    """The code cells of a notebook of ours, and which exercises each answers, by which function."""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:  # a magic
            continue
        yield cell, tree, {id: node.name for node in tree.body for id in _exercises(node)}


def _exercises(node: ast.stmt) -> list[str]:
    """The exercises that a statement answers: those in its decorators."""
    return [
        call.args[0].value
        for call in getattr(node, "decorator_list", [])
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "exercise"
    ]


def _is_foundation(tree: ast.Module) -> bool:
    """Whether a cell imports, defines, or assigns without a loop, and neither checks nor draws."""
    plain = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
    if not all(isinstance(node, plain | ast.Assert | ast.Expr) for node in tree.body):
        return False
    calls = [node.value.func for node in tree.body if isinstance(getattr(node, "value", None), ast.Call)]
    if any(getattr(call, "id", "") in ("check", "progress", "show") for call in calls):
        return False
    defines = any(isinstance(node, plain) and not isinstance(node, ast.Assign) for node in tree.body)
    return defines or not any(isinstance(node, ast.comprehension) for node in ast.walk(tree))


def _definitions(tree: ast.Module) -> str:
    """What a cell that also measures, draws or checks defines on the way, its imports and plain numbers."""
    if not any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body):
        return ""
    return "\n\n".join(ast.unparse(node) for node in tree.body if _is_definition(node))


def _is_definition(node: ast.stmt) -> bool:
    """Whether it says what something is, and computes nothing."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        parts = ast.walk(node.value) if node.value else ()
        return isinstance(node.value, ast.Lambda) or not any(
            isinstance(p, ast.Name | ast.Call) for p in parts
        )
    return isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)
