import re
import subprocess
import sys
from pathlib import Path

import pytest

import mini_attn
from course import exercises
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
    "02": "_Answers _answers _as_it_is _at_sight _coordinates _joined _methods _norm _nothing _piecewise "
    "_solution _solve_chunk _solve_one _span _tolerance",
    "05": "_Softmax _TextbookSoftmax",
    "06": "_tight _visible_others _winner_minus_others",
}


# each library in turn, by one process: it loads torch once
IMPORTS = """
import sys
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    import mini_attn
    from mini_attn import models, paths, svm, train, widgets
    assert mini_attn.__file__.startswith(folder)
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
        assert {name for _, name in before - after} == set(helpers.split()), lesson
    done = run(IMPORTS, *(tmp_path / lesson for lesson in HELPERS))
    assert done.returncode == 0, done.stderr
