"""The exercises of all lessons: one module `lesson_NN` each, with `EXERCISES` and perhaps `WRITTEN`."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from course.check.specification import Exercise, Written


def lessons() -> list[str]:
    """The lessons that have exercises, ["01", "02", ...]."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name.removeprefix("lesson_") for name in names if name.startswith("lesson_"))


def exercises(lesson: str) -> list[Exercise]:
    """The exercises of lesson "01", in the order in which the lesson asks them."""
    if lesson not in lessons():
        raise ValueError(f"Lesson {lesson!r} has no exercises; these have: {', '.join(lessons())}.")
    return _module(lesson).EXERCISES


def written(lesson: str) -> list[Written]:
    """The questions of lesson "01" that are answered in words and marked by a person; often none."""
    return getattr(_module(lesson), "WRITTEN", []) if lesson in lessons() else []


def _module(lesson: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.lesson_{lesson}")


def find(id: str) -> Exercise:
    """The exercise with the id "01.2"."""
    lesson = str(id).split(".")[0]
    known = exercises(lesson) if lesson in lessons() else []
    for exercise in known:
        if exercise.id == id:
            return exercise
    ids = ", ".join(exercise.id for exercise in known)
    where = f"Lesson {lesson} has {ids}." if known else f"Lessons with exercises: {', '.join(lessons())}."
    raise ValueError(f"There is no exercise {id!r}. {where}")
