import re
import subprocess
import sys
from pathlib import Path

import pytest

import mini_attn
from course import exercises
from course.grade.sealed import seal


def run(folder, code):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_withheld_functions_say_so_and_the_rest_works(tmp_path):
    seal(tmp_path, ["mini_attn.geometry.cosine", "mini_attn.models.LinearClassifier.forward"])
    done = run(
        tmp_path,
        "import torch, mini_attn\nfrom mini_attn import geometry, models\n"
        f"assert mini_attn.__file__.startswith({str(tmp_path)!r})\n"
        "print(geometry.selected_tokens(torch.eye(2)).tolist())\n"
        "for call in (lambda: geometry.cosine(1, 2), lambda: models.LinearClassifier(2)(None)):\n"
        "    try: call()\n    except NotImplementedError as error: print(error)\n",
    )
    withheld = "is withheld while this lesson is graded: write it yourself"
    assert done.stdout.splitlines() == [
        "[0, 1]",
        f"mini_attn.geometry.cosine {withheld}",
        f"mini_attn.models.LinearClassifier.forward {withheld}",
    ], done.stderr


@pytest.mark.parametrize(
    "name", ["mini_attn.geometry.cosin", "mini_attn.nothing.f", "numpy.abs", "mini_attn.geometry"]
)
def test_a_misspelt_name_does_not_pass_for_sealed(name, tmp_path):
    with pytest.raises(ValueError, match=f"{name} is not a function of mini_attn"):
        seal(tmp_path, [name])


@pytest.mark.parametrize("lesson", exercises.lessons())
def test_what_the_exercises_withhold_exists(lesson, tmp_path):
    seal(tmp_path, sorted({name for spec in exercises.exercises(lesson) for name in spec.withheld}))


HELPERS = {
    "02": "_Answers _answers _as_it_is _at_sight _coordinates _joined _methods _norm _nothing _piecewise "
    "_solution _solve_chunk _solve_one _span _tolerance",
    "05": "_Softmax _TextbookSoftmax",
    "06": "_tight _visible_others _winner_minus_others",
}


@pytest.mark.parametrize("lesson", HELPERS)
def test_private_helpers_are_no_way_round(lesson, tmp_path):
    def private(folder):
        texts = {path.name: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
        defined = re.compile(r"^(?:def|class) (_\w+)", re.M)
        return {(file, name) for file, text in texts.items() for name in defined.findall(text)}

    seal(tmp_path, sorted({name for spec in exercises.exercises(lesson) for name in spec.withheld}))
    before, after = private(Path(mini_attn.__file__).parent), private(tmp_path / "mini_attn")
    assert {name for _, name in before - after} == set(HELPERS[lesson].split())
    done = run(tmp_path, "import mini_attn\nfrom mini_attn import models, paths, svm, train, widgets")
    assert done.returncode == 0, done.stderr
