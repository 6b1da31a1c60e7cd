"""The rooms of the project: imports go one way, and lessons import three things of the course."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# room: the rooms and files beside its own that it may import; mini_attn is free to all but the standard ones
ROOMS = {
    "course.files": set(),
    "course.syllabus": set(),
    "course.check": set(),
    "course.exercises": {"course.check"},
    "course.start": {"course.syllabus"},
    "course.figure": set(),
    "course.exercise": {"course.check", "course.exercises", "course.start"},
    "course.make": {"course.check", "course.exercises", "course.figure", "course.files", "course.syllabus"},
    "course.grade": {"course.make", "course.check", "course.exercises", "course.files"},
    "course.replicate": {"course.files"},
    "course.source": {"course.exercise", "course.figure", "course.replicate"},
    "course.bootstrap": set(),
    "course.__main__": set(),  # it loads the commands' modules by name
    "mini_attn": set(),
}
FILES = [*ROOT.glob("course/**/*.py"), *ROOT.glob("mini_attn/**/*.py")]


def room(name: str) -> str:
    """The room of a module: "course.check" for "course.check.values", "mini_attn" for all of the library."""
    return ".".join(name.split(".")[: 1 if name.startswith("mini_attn") else 2])


def imported(path: Path) -> set[str]:
    """The rooms from which a file imports, wherever in it the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {room(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "course" else []
            found |= set(map(room, names or [node.module or ""])) if not node.level else {"relative"}
    return {name for name in found if name.split(".")[0] in ("course", "mini_attn", "relative")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    own = room(".".join(parts))
    if parts == ("course", "__init__"):
        assert imported(path) == set()
    else:
        free = {"mini_attn"} if own.startswith("course") else set()
        assert imported(path) - {own} <= ROOMS[own] | free


def test_the_rooms_have_an_order():
    seen = set()
    while left := ROOMS.keys() - seen:
        free = {name for name in left if ROOMS[name] <= seen}
        assert free, f"these import each other: {sorted(left)}"
        seen |= free


@pytest.mark.parametrize("name", ["course.bootstrap", "course.start", "course.syllabus"])
def test_what_runs_before_anything_is_installed_needs_the_standard_library_alone(name):
    import sys

    path = ROOT / name.replace(".", "/")
    for file in [path.with_suffix(".py")] if path.with_suffix(".py").exists() else path.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= {*sys.stdlib_module_names, "course"}, file
