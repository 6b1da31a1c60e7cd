"""A made-up lesson of two exercises, and a sandbox for it that several tests share."""

import copy
import dataclasses
import os
from pathlib import Path

import pytest

from course.grade.released import Lesson
from course.grade.sandbox import Limits, Sandbox, SandboxMissing, require
from course.specification import Exercise, Misconception

LIMITS = Limits(cell_seconds=30, exercise_seconds=30, total_seconds=120, memory_bytes=2**29, disk_bytes=2**26)


def _exercise(id, name, reference, wrong, message):
    return Exercise(
        id=id,
        title=name,
        points=3,
        minutes=5,
        difficulty=1,
        reference=reference,
        cases=lambda rng: [(rng.normal(size=n),) for n in (3, 5)],
        misconceptions=[Misconception(wrong, message)],
        withheld=("mini_attn.softmax.softmax", "mini_attn.geometry.outcome"),
    )


@pytest.fixture(scope="session")
def lesson():
    specs = [
        _exercise("99.1", "square", lambda x: x**2, lambda x: 2 * x, "You doubled; square instead."),
        _exercise("99.2", "total", lambda x: x.sum(), lambda x: x.mean(), "You averaged; add up instead."),
    ]
    functions = {spec.id: spec.title for spec in specs}
    ids = {"99.1": "cell-one", "99.2": "cell-two"}
    return Lesson(
        "99", Path("99_squares.ipynb"), specs, functions, [("cell-zero", "import numpy as np")], ids
    )


@pytest.fixture(scope="session")
def cases(lesson):
    return {spec.id: spec.draw(5) for spec in lesson.specs}


@pytest.fixture(scope="session")
def walls():
    """Skips a test where there is no sandbox; with MINI_ATTN_REQUIRE_SANDBOX that is a failure."""
    try:
        require()
    except SandboxMissing as missing:
        if os.environ.get("MINI_ATTN_REQUIRE_SANDBOX"):
            raise
        pytest.skip(str(missing).split(":")[0])


@pytest.fixture(scope="session")
def sandbox(lesson, walls):
    with Sandbox(lesson.withheld, LIMITS) as sandbox:
        yield sandbox


@pytest.fixture
def call(lesson, cases, sandbox):
    """Run cells in the sandbox, as the grader would."""

    def run(*cells, seconds=LIMITS.exercise_seconds):
        patient = copy.copy(sandbox)
        patient.limits = dataclasses.replace(LIMITS, exercise_seconds=seconds, cell_seconds=2 * seconds)
        return patient.call(list(cells), {spec.id: (spec.title, cases[spec.id]) for spec in lesson.specs})

    return run
