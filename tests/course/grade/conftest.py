"""A made-up lesson of two exercises, and a sandbox for it that several tests share."""

import copy
import dataclasses
import os
import re
import shutil
from pathlib import Path

import nbformat
import pytest

from course import exercises
from course.check.specification import Exercise, Misconception
from course.grade import released, sealed
from course.grade import sandbox as sandboxes
from course.grade.released import Lesson
from course.grade.sandbox import Limits, Sandbox, SandboxMissing, require

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
    numpy = "import numpy as np"
    return Lesson("99", Path("99_squares.ipynb"), specs, functions, [("cell-zero", numpy, numpy)], ids)


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


@pytest.fixture(scope="session", autouse=True)
def sealed_once(tmp_path_factory):
    """Each sandbox gets a copy of a library that was sealed once: sealing costs more than most tests."""
    made = {}

    def seal(target, withheld, codes):
        key = (sealed.REPLICATE, *withheld, *codes)
        if key not in made:
            folder = tmp_path_factory.mktemp("sealed")
            sealed.seal(folder, withheld, codes)
            made[key] = folder
        shutil.copytree(made[key], target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandboxes, "seal", seal)
        yield


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


START = "from course.exercise import exercise, check, todo\nimport numpy as np"
SQUARE = '@exercise("99.1")\ndef square(x):\n    return x**2'
TOTAL = '@exercise("99.2")\ndef total(x):\n    return square(x).sum()'


@pytest.fixture
def small(lesson, tmp_path, monkeypatch):
    """The lesson of the fixtures, but its second exercise builds on the first, as on disk."""
    specs = [lesson.specs[0], dataclasses.replace(lesson.specs[1], reference=lambda x: (x**2).sum())]
    for folder, blank in (("lessons", True), ("solutions", False)):
        cells = [nbformat.v4.new_code_cell(START, id="cell-zero")]
        for id, code in (("cell-one", SQUARE), ("cell-two", TOTAL)):
            text = re.sub(r"return .*", "todo()", code) if blank else code
            name = re.search(r"def (\w+)", code)[1]
            cells.append(nbformat.v4.new_code_cell(text, id=id))
            check = f'check("{re.search("99..", code)[0]}", {name})'
            cells.append(nbformat.v4.new_code_cell(check, id=f"{id}-check"))
        (tmp_path / folder).mkdir()
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / folder / "99_squares.ipynb")
    monkeypatch.setattr(exercises, "exercises", lambda number: specs)
    monkeypatch.setattr(exercises, "written", lambda number: [])
    read = released.lesson
    monkeypatch.setattr(released, "lesson", lambda number: read(number, tmp_path / "lessons"))
    return released.lesson("99")


@pytest.fixture
def submit(tmp_path, small, walls):
    def hand_in(student, *codes, ids=("cell-zero", "cell-one", "cell-two")):
        cells = [
            nbformat.v4.new_code_cell(code, id=ids[n] if n < len(ids) else f"own-{n}")
            for n, code in enumerate(codes)
        ]
        folder = tmp_path / "submissions" / student
        folder.mkdir(parents=True, exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "99_squares.ipynb")

    return hand_in


@pytest.fixture
def arguments(tmp_path):
    """What the command line says to grade what was handed in."""
    submissions, out = str(tmp_path / "submissions"), str(tmp_path / "out")
    return [submissions, "--lesson", "99", "--seed", "s", "--out", out]
