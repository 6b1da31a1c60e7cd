"""The library as a student may use it while being graded: without the functions they are asked to write."""

from __future__ import annotations

import ast
import shutil
import symtable
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import mini_attn

REPLICATE = Path(__file__).parent.parent / "replicate"  # the sweeps that lessons show, and their functions


def seal(target: Path, withheld: list[str], codes: Iterable[str] = ()) -> None:
    """Copy mini_attn into a folder, and of course.replicate what a lesson's cells use; take answers out.

    Helpers that only the withheld functions used go altogether, since they are most of the answer: private
    ones, and those of a package inside mini_attn (such as the methods of svm.solve) that it does not export.

    Args:
        target: folder that will hold `mini_attn`, and `course/replicate` without what makes it a package.
        withheld: full names, "mini_attn.softmax.softmax" or "mini_attn.models.PromptAttention.logits".
            Calling one raises NotImplementedError with a sentence.
        codes: the lesson's cells; what they import stays.

    Raises:
        ValueError: a name that is not a function of theirs: a misspelt one must not pass for sealed.
    """
    source = Path(mini_attn.__file__).parent
    # the compiled loops take steps by themselves, without what is withheld; torch takes them too
    ignored = shutil.ignore_patterns("__pycache__", "kernels.py")
    shutil.copytree(source, target / "mini_attn", ignore=ignored)
    shutil.copytree(REPLICATE, target / "course" / "replicate", ignore=shutil.ignore_patterns(".*", "__*"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in target.rglob("*.py")}
    sweeps = {path.stem: tree for path, tree in trees.items() if path.parent.name == "replicate"}
    cells = ast.parse("\n".join(codes))
    said: dict[ast.stmt, _Said] = {}
    functions = {name: _found(trees, target, name) for name in withheld}
    before = _unused(trees, cells, said)
    for name, (tree, inside, function) in functions.items():
        says = f"{name} is withheld while this lesson is graded: write it yourself"
        function.body = ast.parse(f"raise NotImplementedError({says!r})").body
        for node in tree.body:
            if inside in _binds(node):
                said.pop(node, None)
    _keep(sweeps, cells)
    while gone := _unused(trees, cells, said) - before:
        names = set().union(*map(_binds, gone))
        for tree in trees.values():
            tree.body = [node for node in tree.body if node not in gone]
            idle = names.difference(*(said[node].names for node in tree.body))
            for node in tree.body:
                if isinstance(node, ast.ImportFrom) and idle & said[node].imported:
                    node.names = [a for a in node.names if a.name not in idle]
                    said.pop(node)
            tree.body = [node for node in tree.body if not isinstance(node, ast.ImportFrom) or node.names]
    for path, tree in trees.items():
        if tree.body:
            path.write_text(ast.unparse(tree) + "\n", encoding="utf-8")
        else:
            path.unlink()


class _Said:
    """What a statement binds and mentions: names, attributes, and what it imports."""

    def __init__(self, statement: ast.stmt):
        nodes = list(ast.walk(statement))
        self.binds = _binds(statement, nodes)
        self.names = {node.id for node in nodes if isinstance(node, ast.Name)}
        self.attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        self.imported = {node.name for node in nodes if isinstance(node, ast.alias)}


def _binds(statement: ast.stmt, nodes: list[ast.AST] | None = None) -> set[str]:
    """The names that a statement of a module, which has these nodes, gives a meaning."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
    nodes = ast.walk(statement) if nodes is None else nodes
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _keep(sweeps: dict[str, ast.Module], cells: ast.Module) -> None:
    """Leave in the modules of course.replicate what the cells import, and what that needs."""
    for tree in sweeps.values():
        for node in [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]:
            place = tree.body.index(node)
            tree.body[place : place + 1] = [_with(node, [alias]) for alias in node.names]
    kept, waiting = set(), [*_asked(cells, cells, "")]
    while waiting:
        module, name = waiting.pop()
        for node in sweeps[module].body if module in sweeps else ():
            if node not in kept and name in _binds(node):
                kept.add(node)
                waiting += _asked(node, sweeps[module], module)
    for tree in sweeps.values():
        future = [node for node in tree.body if getattr(node, "module", "") == "__future__"]
        body = [node for node in tree.body if node in kept and node not in future]
        tree.body = [*future, *body] if body else []


def _with(node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.stmt:
    return (
        ast.Import(names) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, names, node.level)
    )


def _asked(statement: ast.AST, tree: ast.Module, module: str) -> set[tuple[str, str]]:
    """Names that a statement of a module asks for: of its own module, or of others in course.replicate."""
    asked, others = set(), {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "course.replicate":
            others |= {alias.asname or alias.name: alias.name for alias in node.names}
    mentioned = _of_module(statement)
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id in mentioned:
            asked.add((module, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            asked.add((others.get(node.value.id, ""), node.attr))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course.replicate."):
            asked |= {(node.module.split(".")[2], alias.name) for alias in node.names}
    return asked


def _of_module(statement: ast.AST) -> set[str]:
    """The names that a statement looks up in its module: a local variable may be called like a trial."""
    tables, names = [symtable.symtable(ast.unparse(statement), "<statement>", "exec")], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        outermost = table.get_type() == "module"
        names |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (outermost or symbol.is_global())
        }
    return names


def _unused(trees: dict[Path, ast.Module], cells: ast.Module, said: dict[ast.stmt, _Said]) -> set[ast.stmt]:
    """What is nobody's but the library's own, and nothing but itself mentions; `said` is added to.

    That are private functions, classes and constants, and in a package inside mini_attn all that it does not
    export.
    """
    own = _Said(cells)
    elsewhere, unused = own.attributes | own.imported, set()
    for path, tree in trees.items():
        said |= {node: _Said(node) for node in tree.body if node not in said}
        here = [said[node] for node in tree.body]
        times = Counter(name for one in here for name in one.names)
        exports = path.name == "__init__.py"
        elsewhere.update(*(one.attributes for one in here))
        elsewhere.update(*(one.imported if exports else one.imported & times.keys() for one in here))
        inner = path.parent.parent.name == "mini_attn"
        unused |= {
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign)
            and all(inner or name.startswith("_") for name in said[node].binds)
            and all(times[name] == (name in said[node].names) for name in said[node].binds)
        }
    return {node for node in unused if not said[node].binds & elsewhere}


def _locate(target: Path, name: str) -> tuple[Path, list[str]]:
    """The file of a full name, and the names inside that file."""
    parts, path = name.split("."), target
    while parts and (path / parts[0]).is_dir():
        path /= parts.pop(0)
    if parts and (path / f"{parts[0]}.py").is_file():
        return path / f"{parts[0]}.py", parts[1:]
    return path / "__init__.py" if path != target else target / "mini_attn" / "__init__.py", parts


def _found(trees: dict[Path, ast.Module], target: Path, name: str) -> tuple[ast.Module, str, ast.FunctionDef]:
    """A function's module, the name in it that it belongs to, and the function itself."""
    path, inside = _locate(target, name)
    tree = trees.get(path, ast.Module([], []))
    function = _find(tree, inside)
    if function is None:
        raise ValueError(f"{name} is not a function of mini_attn; correct `withheld` in the exercise")
    return tree, inside[0], function


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
