"""Lessons lead to each other, and to the library and back."""

import ast
import importlib
import inspect
import pkgutil
import re
from functools import cache
from itertools import pairwise

import pytest

import mini_attn
from course.make.build import Folders
from course.make.notebook import from_source
from mini_attn import svm, sweep

SOURCES = {path.stem[:2]: path for path in Folders().sources()}
NEW = "**New in the library:**"
LINK = re.compile(r"\[([^\]]*)\]\(([^)]+)\)")


# A lesson may look ahead and say so: 01 needs the SVMs of a hundred sets, and 02 explains the solver.
AHEAD = {"01": {"svm.solve", "svm.label_problem"}, "10": {"models.FactoredAttention"}}


@cache
def library():
    """What the library's docstrings say: path -> (the lesson it was introduced in or None, is it a class)."""
    found = {}
    for module in pkgutil.walk_packages(mini_attn.__path__, "mini_attn."):
        for name, thing in vars(importlib.import_module(module.name)).items():
            own = getattr(thing, "__module__", None) == module.name and not name.startswith("_")
            if own and (inspect.isclass(thing) or inspect.isfunction(thing)):
                said = re.search(r"Introduced in lesson (\d\d)", inspect.getdoc(thing) or "")
                shown = [p for p in (svm, sweep) if module.name.startswith(p.__name__) and name in p.__all__]
                path = f"{shown[0].__name__ if shown else module.name}.{name}"
                found[path.removeprefix("mini_attn.")] = (said and said[1], inspect.isclass(thing))
    return found


@cache
def used(lesson):
    """The library's names that a lesson's code uses."""
    tree = ast.parse("\n".join(c.source for c in cells(lesson) if c.cell_type == "code"))
    called, names = {}, set()  # what a plain name stands for: a module, or one thing from it
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mini_attn":
            for alias in node.names:
                path = f"{node.module}.{alias.name}".removeprefix("mini_attn.")
                called[alias.asname or alias.name] = path
                names.add(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            path = ast.unparse(node)
            head, _, rest = path.partition(".")
            names.add(f"{called.get(head, head)}.{rest}")
    return {short(path) for path in names} & set(library())


def short(path):
    """svm.solution.Solution and svm.Solution are one thing."""
    module, _, name = path.rpartition(".")
    return f"svm.{name}" if module.startswith("svm") and name in svm.__all__ else path


@cache
def cells(lesson):
    return from_source(SOURCES[lesson], solved=True).cells


def text(lesson):
    return "\n\n".join(cell.source for cell in cells(lesson) if cell.cell_type == "markdown")


def presented(lesson):
    """The names in a lesson's list of what is new, each with the file it leads to."""
    paragraphs = [part for part in text(lesson).split("\n\n") if part.startswith(NEW)]
    return [(name.strip("`"), target) for part in paragraphs for name, target in LINK.findall(part)]


@pytest.mark.parametrize("lesson", SOURCES)
def test_links_in_a_lesson_lead_somewhere(lesson):
    folders = Folders()
    for name, target in LINK.findall(text(lesson)):
        if "://" not in target:
            file = target.partition("#")[0]
            assert not file or (folders.lessons / file).exists(), f"[{name}]({target})"


@pytest.mark.parametrize(
    ("lesson", "following"), [(a, b) for a, b in pairwise(SOURCES) if int(b) == int(a) + 1]
)
def test_each_lesson_ends_with_a_link_to_the_next(lesson, following):
    last = text(lesson).split("\n\n")[-1]
    assert last.startswith("**Next:**")
    assert f"({SOURCES[following].stem}.ipynb)" in last


@pytest.mark.parametrize("lesson", SOURCES)
def test_a_lesson_lists_what_is_new_in_the_library(lesson):
    """... and the library's docstrings name the same lesson. Drawing is left out of the lists."""
    expected = {
        path
        for path, (introduced, _) in library().items()
        if introduced == lesson and not path.startswith(("plots.", "widgets."))
    }
    assert sorted(name for name, _ in presented(lesson)) == sorted(expected)


@pytest.mark.parametrize("lesson", SOURCES)
def test_the_list_links_to_the_files(lesson):
    for name, target in presented(lesson):
        thing = pkgutil.resolve_name(f"mini_attn.{name}")
        assert target == f"../{thing.__module__.replace('.', '/')}.py", name


@pytest.mark.parametrize("lesson", SOURCES)
def test_a_lesson_uses_what_it_introduces_and_nothing_that_comes_later(lesson):
    for path, (introduced, is_class) in library().items():
        if path in AHEAD.get(lesson, ()):
            assert path in used(lesson)
            assert f"lesson {introduced}'s method" in "\n".join(c.source for c in cells(lesson))
        elif path in used(lesson):
            assert introduced is not None, f"{path} is used here, and its docstring names no lesson"
            assert introduced <= lesson, f"{path} is used here, before lesson {introduced} introduces it"
        elif not is_class:  # a class may be met as what a function returns
            assert introduced != lesson, f"{path} says that it was introduced here, but is not used"


def test_every_lesson_that_a_docstring_names_is_planned():
    assert {introduced for introduced, _ in library().values()} - {None} <= {f"{k:02}" for k in range(1, 19)}
