import ast
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


def run(code, *folders):
    command = [sys.executable, "-c", code, *map(str, folders)]
    return subprocess.run(command, cwd=folders[0], capture_output=True, text=True, check=False)


def test_withheld_functions_say_so_and_the_rest_works(tmp_path):
    seal(tmp_path, ["mini_attn.geometry.cosine", "mini_attn.models.LinearClassifier.forward"])
    done = run(
        "import torch, mini_attn\nfrom mini_attn import geometry, models\n"
        f"assert mini_attn.__file__.startswith({str(tmp_path)!r})\n"
        "print(geometry.selected_tokens(torch.eye(2)).tolist())\n"
        "for call in (lambda: geometry.cosine(1, 2), lambda: models.LinearClassifier(2)(None)):\n"
        "    try: call()\n    except NotImplementedError as error: print(error)\n",
        tmp_path,
    )
    says = "is withheld while this lesson is graded: write it yourself"
    assert done.stdout.splitlines() == [
        "[0, 1]",
        f"mini_attn.geometry.cosine {says}",
        f"mini_attn.models.LinearClassifier.forward {says}",
    ], done.stderr


@pytest.mark.parametrize(
    "name", ["mini_attn.geometry.cosin", "mini_attn.nothing.f", "numpy.abs", "mini_attn.geometry"]
)
def test_a_misspelt_name_does_not_pass_for_sealed(name, tmp_path):
    with pytest.raises(ValueError, match=f"{name} is not a function of mini_attn"):
        seal(tmp_path, [name])


def test_what_the_exercises_withhold_exists(tmp_path):
    seal(tmp_path, [name for lesson in exercises.lessons() for name in withheld(lesson)])


HELPERS = {
    "05": "_Softmax _TextbookSoftmax",
    "06": "_tight _visible_others _winner_minus_others",
    "14": "_visible_others _winner_minus_others",
}


# each library in turn, by one process: it loads torch once
IMPORTS = """
import importlib, pkgutil, sys
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    import mini_attn
    assert mini_attn.__file__.startswith(folder)
    for module in pkgutil.walk_packages(mini_attn.__path__, "mini_attn."):
        importlib.import_module(module.name)
    for name in [name for name in sys.modules if name.split(".")[0] == "mini_attn"]:
        del sys.modules[name]
"""


def test_private_helpers_are_no_way_round(tmp_path):
    def private(folder):
        texts = {path.name: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
        defined = re.compile(r"^(?:def|class) (_\w+)", re.M)
        return {(file, name) for file, text in texts.items() for name in defined.findall(text)}

    for lesson, helpers in HELPERS.items():
        seal(tmp_path / lesson, withheld(lesson))
        before, after = private(Path(mini_attn.__file__).parent), private(tmp_path / lesson / "mini_attn")
        compiled = {(file, name) for file, name in before if file == "kernels.py"}  # never there: see `seal`
        assert compiled
        assert compiled.isdisjoint(after)
        assert {name for _, name in before - after - compiled} == set(helpers.split()), lesson
    done = run(IMPORTS, *(tmp_path / lesson for lesson in HELPERS))
    assert done.returncode == 0, done.stderr


def functions(folder):
    """The functions and classes that the modules of a folder define: module -> names."""
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    return {stem: {node.name for node in tree.body if hasattr(node, "name")} for stem, tree in trees.items()}


def test_a_solver_is_withheld_with_its_methods(tmp_path):
    lessons = [n for n in exercises.lessons() if "mini_attn.svm.dispatch.solve" in withheld(n)]
    assert {"02", "13", "15", "16"} <= {*lessons}
    for lesson in lessons:
        seal(tmp_path / lesson, withheld(lesson))
        left = set().union(*functions(tmp_path / lesson / "mini_attn" / "svm").values())
        methods = re.compile(
            "_?solve|shortest|exact_answer|least_distance|interior_point|block_pivot|iterate"
        )
        assert {name for name in left if methods.match(name)} == {"solve", "shortest", "solve_soft"}
        assert "mini_attn.svm.rational.shortest" in withheld(lesson)
        assert {"attention_problem", "certified_rank", "Solution"} <= left
    done = run(IMPORTS, *(tmp_path / lesson for lesson in lessons))
    assert done.returncode == 0, done.stderr


SWEEPS = {
    "lesson_98": """
from __future__ import annotations
import torch
from course.replicate import lesson_97 as others, stored
from course.replicate.lesson_97 import half, quarter

SIZE, UNUSED = 3, 4

class Kind: pass

def used(x: Kind): return others.twice(x) + SIZE + helper(x)
def helper(x): return half(x)
def trial(x): return quarter(x) + torch.ones(1)
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
    assert not re.search("stored|quarter|torch", text)


def test_each_lesson_has_the_functions_of_its_own_sweeps_that_it_shows(tmp_path):
    shown = {}
    for number in ("06", "12", "15", "17", "18"):
        lesson = released.lesson(number)
        seal(tmp_path / number, lesson.withheld, [*lesson.codes, *lesson.solutions.values()])
        shown[number] = functions(tmp_path / number / "course" / "replicate")
    assert shown["06"] == shown["15"] == {}
    assert {*shown["12"]} == {"lesson_12"}
    assert {"attend", "first_leads"} <= shown["12"]["lesson_12"]
    assert not {"wide", "crowded", "load", "starts"} & shown["12"]["lesson_12"]
    assert {*shown["17"]} == {"lesson_17", "rates_17"}
    assert shown["18"]["lesson_18"] == set()  # it hands on what it imports
    assert "taken_apart" in shown["18"]["taken_apart"]


# what once answered an exercise by another name; each must fail before it looks at its arguments
THIEVES = {
    "12": "sweep.wilson(1, 2)",
    "14": "data.every_position(1, 2, 3)",
    "13": "svm.rational.shortest(1, 2, 3)",
}
TRY = """
import sys, torch
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    from mini_attn import data, svm, sweep
    import mini_attn.svm.rational
    try: eval(open(folder + "/thief").read())
    except NotImplementedError as error: print(error)
    for name in [name for name in sys.modules if name.split(".")[0] == "mini_attn"]:
        del sys.modules[name]
"""


def test_other_names_for_an_answer_are_withheld(tmp_path):
    for lesson, thief in THIEVES.items():
        seal(tmp_path / lesson, withheld(lesson))
        (tmp_path / lesson / "thief").write_text(thief)
    done = run(TRY, *(tmp_path / lesson for lesson in THIEVES))
    said = [line.split(" is withheld")[0] for line in done.stdout.splitlines()]
    assert said == [
        "mini_attn.sweep.shares.wilson",
        "mini_attn.data.every_position",
        "mini_attn.svm.rational.shortest",
    ], done.stderr
    assert "course.replicate.lesson_16.finite_part" in withheld("16")
