"""The library as a student may use it while being graded: without the functions they are asked to write."""

from __future__ import annotations

import ast
import shutil
from collections import Counter
from pathlib import Path

import mini_attn

REPLICATE = Path(__file__).parent.parent / "replicate"  # the sweeps that lessons show, and their functions


def seal(target: Path, withheld: list[str]) -> None:
    """Copy mini_attn and course.replicate into a folder, and take the bodies out of some of their functions.

    Private helpers that only those functions used go altogether: they are most of the answer.

    Args:
        target: folder that will hold `mini_attn`, and `course/replicate` without what makes it a package.
        withheld: full names, "mini_attn.softmax.softmax" or "mini_attn.models.PromptAttention.logits".
            Calling one raises NotImplementedError with a sentence.

    Raises:
        ValueError: a name that is not a function of theirs: a misspelt one must not pass for sealed.
    """
    source = Path(mini_attn.__file__).parent
    shutil.copytree(source, target / "mini_attn", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPLICATE, target / "course" / "replicate", ignore=shutil.ignore_patterns(".*", "__*"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in target.rglob("*.py")}
    said: dict[ast.stmt, _Said] = {}
    before = _unused(trees, said)
    for name in withheld:
        path, inside = _locate(target, name)
        tree = trees.get(path, ast.Module([], []))
        function = _find(tree, inside)
        if function is None:
            raise ValueError(f"{name} is not a function of mini_attn; correct `withheld` in the exercise")
        says = f"{name} is withheld while this lesson is graded: write it yourself"
        function.body = ast.parse(f"raise NotImplementedError({says!r})").body
        for node in tree.body:
            if getattr(node, "name", None) == inside[0]:
                said.pop(node, None)
    while gone := _unused(trees, said) - before:
        names = {node.name for node in gone}
        for tree in trees.values():
            tree.body = [node for node in tree.body if node not in gone]
            idle = names.difference(*(said[node].names for node in tree.body))
            for node in tree.body:
                if isinstance(node, ast.ImportFrom) and idle & said[node].imported:
                    node.names = [a for a in node.names if a.name not in idle]
                    said.pop(node)
            tree.body = [node for node in tree.body if not isinstance(node, ast.ImportFrom) or node.names]
    for path, tree in trees.items():
        path.write_text(ast.unparse(tree) + "\n", encoding="utf-8")


class _Said:
    """What a statement mentions: names, attributes, and what it imports."""

    def __init__(self, statement: ast.stmt):
        nodes = list(ast.walk(statement))
        self.names = {node.id for node in nodes if isinstance(node, ast.Name)}
        self.attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        self.imported = {node.name for node in nodes if isinstance(node, ast.alias)}


def _unused(trees: dict[Path, ast.Module], said: dict[ast.stmt, _Said]) -> set[ast.stmt]:
    """The private functions and classes that nothing but themselves mentions; `said` is added to."""
    elsewhere, unused = set(), set()
    for tree in trees.values():
        said |= {node: _Said(node) for node in tree.body if node not in said}
        here = [said[node] for node in tree.body]
        times = Counter(name for one in here for name in one.names)
        elsewhere.update(*(one.attributes for one in here), *(one.imported & times.keys() for one in here))
        unused |= {
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and node.name.startswith("_")
            and times[node.name] == (node.name in said[node].names)
        }
    return {node for node in unused if node.name not in elsewhere}


def _locate(target: Path, name: str) -> tuple[Path, list[str]]:
    """The file of a full name, and the names inside that file."""
    parts, path = name.split("."), target
    while parts and (path / parts[0]).is_dir():
        path /= parts.pop(0)
    if parts and (path / f"{parts[0]}.py").is_file():
        return path / f"{parts[0]}.py", parts[1:]
    return path / "__init__.py" if path != target else target / "mini_attn" / "__init__.py", parts


def _find(tree: ast.AST, names: list[str]) -> ast.FunctionDef | None:
    """The function of that name; the last one, if a file defines it several times."""
    for name in names:
        found = [
            node
            for node in getattr(tree, "body", [])
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        ]
        if not found:
            return None
        tree = found[-1]
    return tree if isinstance(tree, ast.FunctionDef) else None
