import ast
import builtins
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mini_attn
from course import exercises
from course.grade import released, sealed
from course.grade.sealed import seal


def withheld(lesson):
    return sorted({name for spec in exercises.exercises(lesson) for name in spec.withheld})


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Gives the folder of a lesson's library, as the grader seals it; each is sealed once."""
    made = {}

    def sealed_for(number):
        if number not in made:
            lesson = released.lesson(number)
            made[number] = tmp_path_factory.mktemp(f"lesson-{number}")
            seal(made[number], lesson.withheld, [*lesson.codes, *lesson.solutions.values()])
        return made[number]

    return sealed_for


# each library in turn, by one process, which loads torch once: all its modules, and the calls that it lists
IMPORTS = """
import importlib, pathlib, pkgutil, sys
import torch
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    import mini_attn
    assert mini_attn.__file__.startswith(folder)
    for module in pkgutil.walk_packages(mini_attn.__path__, "mini_attn."):
        importlib.import_module(module.name)
    from mini_attn import data, geometry, models, svm, sweep
    calls = pathlib.Path(folder, "calls")
    for call in calls.read_text().splitlines() if calls.exists() else ():
        try: print(eval(call))
        except NotImplementedError as error: print(error)
    for name in [name for name in sys.modules if name.split(".")[0] == "mini_attn"]:
        del sys.modules[name]
"""


@pytest.mark.parametrize(
    "name",
    [
        "mini_attn.geometry.cosin",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("mini_attn.nothing.f", "numpy.abs", "mini_attn.geometry")
        ),
    ],
)
def test_a_misspelt_name_does_not_pass_for_sealed(name, tmp_path):
    with pytest.raises(ValueError, match=f"{name} is not a function of mini_attn"):
        seal(tmp_path, [name])


def test_what_the_exercises_withhold_exists(tmp_path):
    seal(tmp_path, [name for lesson in exercises.lessons() for name in withheld(lesson)])


HELPERS = {
    "06": "_tight _visible_others _winner_minus_others",
}


def test_private_helpers_are_no_way_round(library):
    def private(folder):
        texts = {path.name: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
        defined = re.compile(r"^(?:def|class) (_\w+)", re.M)
        return {(file, name) for file, text in texts.items() for name in defined.findall(text)}

    for lesson, helpers in HELPERS.items():
        before, after = private(Path(mini_attn.__file__).parent), private(library(lesson) / "mini_attn")
        compiled = {(file, name) for file, name in before if file == "kernels.py"}  # never there: see `seal`
        assert compiled
        assert compiled.isdisjoint(after)
        assert {name for _, name in before - after - compiled} == set(helpers.split()), lesson


def functions(folder):
    """The functions and classes that the modules of a folder define: module -> names."""
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    return {stem: {node.name for node in tree.body if hasattr(node, "name")} for stem, tree in trees.items()}


def solving():
    """Lessons that withhold the solver."""
    return [n for n in exercises.lessons() if "mini_attn.svm.dispatch.solve" in withheld(n)]


@pytest.mark.slow
def test_a_solver_is_withheld_with_its_methods(library):
    lessons = solving()
    assert {"02", "13", "15", "16"} <= {*lessons}
    for lesson in lessons:
        left = set().union(*functions(library(lesson) / "mini_attn" / "svm").values())
        methods = re.compile(
            "_?solve|shortest|exact_answer|least_distance|interior_point|block_pivot|iterate"
        )
        assert {name for name in left if methods.match(name)} == {"solve", "shortest", "solve_soft"}
        assert "mini_attn.svm.rational.shortest" in withheld(lesson)
        assert {"attention_problem", "certified_rank", "Solution"} <= left


SWEEPS = {
    "lesson_98": """
from __future__ import annotations
import torch
from course.replicate import lesson_97 as others, stored
from course.replicate.lesson_97 import half, quarter

SIZE, UNUSED = 3, 4
LEVEL = 2

class Kind: pass

def used(x: Kind): return others.twice(x) + SIZE + helper(x)
def helper(x, drawn=LEVEL):
    trial = half(x)
    return [trial + unused + drawn for unused in Kind.all(x, lambda again: again)]
def trial(x): return quarter(x) + torch.ones(1)
def unused(x): return trial(x)
def drawn(x): return trial(x)
def again(x): return trial(x)
""",
    "lesson_97": "def twice(x): return x\ndef half(x): return x\ndef quarter(x): return x\nLIST = [twice]",
    "rows_98": "from course.replicate.lesson_98 import trial\ndef used(x): return x",
}


@pytest.mark.parametrize(
    "cell",
    [
        "from course.replicate.lesson_98 import used",
        "from course.replicate import lesson_98 as runs, measured\nruns.used(1)",
    ],
)
def test_of_the_sweeps_only_what_cells_use_is_there(cell, tmp_path, monkeypatch):
    (tmp_path / "sweeps").mkdir()
    for name, code in SWEEPS.items():
        (tmp_path / "sweeps" / f"{name}.py").write_text(code)
    monkeypatch.setattr(sealed, "REPLICATE", tmp_path / "sweeps")
    seal(tmp_path / "sealed", [], ["def trial(x): quarter(x)", cell])
    folder = tmp_path / "sealed" / "course" / "replicate"
    assert functions(folder) == {"lesson_98": {"used", "helper", "Kind"}, "lesson_97": {"twice", "half"}}
    text = (folder / "lesson_98.py").read_text()
    assert "annotations" in text
    assert "LEVEL = 2" in text
    assert not re.search("stored|quarter|torch", text)


@pytest.mark.slow
def test_each_lesson_has_the_functions_of_its_own_sweeps_that_it_shows(library):
    shown = {n: functions(library(n) / "course" / "replicate") for n in ("06", "12", "13", "15", "17", "18")}
    assert shown["06"] == {}
    assert {*shown["15"]} == {"lesson_15", "stored"}
    assert "choose" in shown["15"]["lesson_15"]
    assert not {"published", "longer", "selection", "handed", "shape"} & shown["15"]["lesson_15"]
    assert {*shown["12"]} == {"lesson_12"}
    assert {"attend", "ends"} <= shown["12"]["lesson_12"]
    assert not {"wide", "rivals", "dimensions"} & shown["12"]["lesson_12"]
    assert {"first_return", "lost_runs"} <= shown["13"]["lesson_13"]
    assert not {"mixture_runs", "published_runs"} & shown["13"]["lesson_13"]
    assert {*shown["17"]} == {"lesson_17"}
    own = {"begin_one", "cases", "descent", "few_layers", "ten_sentences", "under_norms"}
    assert {*shown["18"]["lesson_18"]} == own


@pytest.mark.slow
def test_no_function_of_a_sweep_misses_what_it_looks_up(library):
    for lesson in exercises.lessons():
        for path in (library(lesson) / "course").rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            there = {"__file__", *dir(builtins)}.union(*map(sealed._binds, tree.body))
            assert there >= set().union(*map(sealed._of_module, tree.body)), path


# what once answered an exercise by another name; each must fail before it looks at its arguments
THIEVES = {
    "14": "svm.sequence_problem(1, 2)",
    "13": "svm.rational.shortest(1, 2, 3)",
}


@pytest.mark.slow
def test_every_library_loads_and_what_is_withheld_says_so(library, tmp_path):
    two = ["mini_attn.geometry.cosine", "mini_attn.models.LinearClassifier.forward"]
    seal(tmp_path, two)
    calls = ["geometry.selected_tokens(torch.eye(2)).tolist()", "geometry.cosine(1, 2)"]
    (tmp_path / "calls").write_text("\n".join([*calls, "models.LinearClassifier(2)(None)"]))
    for lesson, thief in THIEVES.items():
        (library(lesson) / "calls").write_text(thief)
    folders = [tmp_path, *map(library, dict.fromkeys([*THIEVES, *HELPERS, *solving()]))]
    command = [sys.executable, "-c", IMPORTS, *map(str, folders)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = [
        *two,
        "mini_attn.svm.sequence.sequence_problem",
        "mini_attn.svm.rational.shortest",
    ]
    says = "is withheld while this lesson is graded: write it yourself"
    assert done.stdout.splitlines() == ["[0, 1]", *(f"{name} {says}" for name in names)]
    assert "course.replicate.lesson_16.finite_part" in withheld("16")
