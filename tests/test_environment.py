"""environment.yml asks conda for exactly what pyproject.toml asks pip for."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}  # where conda-forge uses another name
COMES_WITH = {
    "IPython": "ipykernel",
    "PIL": "matplotlib",
    "sklearn": "scikit-learn",
}  # imported by a name that no requirement has


def parts(requirement: str) -> tuple[str, frozenset[str]]:
    """Split "torch>=2.6,<2.14" into the name and the bounds, whose order does not matter."""
    name, bounds = re.fullmatch(r"([A-Za-z0-9_.-]+?)\s*((?:[<>=!~].*)?)", requirement).groups()
    return name, frozenset(bound.strip() for bound in bounds.split(",") if bound)


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def conda() -> tuple[dict[str, frozenset[str]], list[str]]:
    """Return what environment.yml takes from conda, and what it leaves to pip."""
    listed = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    named = dict(parts(line) for line in listed if isinstance(line, str))
    assert len(named) == sum(isinstance(line, str) for line in listed), "a package stands there twice"
    return named, [line for entry in listed if isinstance(entry, dict) for line in entry["pip"]]


def test_names_and_ranges_are_the_same_both_ways():
    ours = dict(parts(line) for line in project()["dependencies"])
    expected = {CONDA_NAMES.get(name, name): bounds for name, bounds in ours.items()}
    expected |= {"python": parts("python" + project()["requires-python"])[1], "pip": frozenset()}
    assert conda()[0] == expected


def test_pip_installs_the_project_and_nothing_else():
    assert conda()[1] == ["-e ."]


def test_packages_come_from_conda_forge_alone():
    described = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert described["channels"] == ["conda-forge"]
    assert described["name"] == project()["name"]


def test_every_module_that_a_lesson_imports_is_asked_for():
    """What lessons import, directly or through the project, comes with Python or from a listed package.

    Dask is the exception: a sweep loads it when it is given a cluster, and says what to install.
    """
    listed = {parts(line)[0] for line in project()["dependencies"]}
    known = {*listed, *COMES_WITH, *sys.stdlib_module_names, "mini_attn", "course"}
    assert set(COMES_WITH.values()) <= listed
    waiting = [
        *ROOT.glob("course/source/*.py"),
        *ROOT.glob("course/exercises/*.py"),
        *ROOT.glob("mini_attn/**/*.py"),
    ]
    seen = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        names = imports(path)
        optional = {"distributed"} if path == ROOT / "mini_attn" / "sweep" / "executors.py" else set()
        assert {name.split(".")[0] for name in names} <= known | optional, path
        waiting += [file for name in names if (file := ROOT / f"{name.replace('.', '/')}.py").exists()]
    assert (
        ROOT / "course" / "check" / "checking.py" in seen  # through course.exercise
    )  # through course.exercise, which each lesson imports


def imports(path: Path) -> list[str]:
    """Return the modules that a file imports, "from a import b" as both a and a.b."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names
