"""The instructor's guide, followed to the letter."""

import csv
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nbgrader import api

from course import exercises
from course.grade import plain, released, submission
from course.grade.sandbox import Limits
from course.make.build import ROOT

GUIDE = (ROOT / "course" / "instructor.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", GUIDE, re.M | re.S)
NAME = "06_attention_as_svm"


@pytest.fixture
def hand_in():
    """Writes submissions: the one that the test of the whole round has."""
    path = Path(__file__).with_name("test_round.py")
    description = importlib.util.spec_from_file_location("whole_round", path)
    module = importlib.util.module_from_spec(description)
    description.loader.exec_module(module)
    return module.hand_in


@pytest.fixture
def follow(tmp_path):
    """Runs a block as an instructor would: the environment is active, the folder empty at first."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}

    def run(block):
        command = ["bash", "-euo", "pipefail", "-c", block]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"

    return run


def scores(path):
    return {row["student"]: row for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())}


@pytest.mark.slow
def test_the_guide_works(walls, tmp_path, follow, hand_in):
    release, seed, grade, final, export = BLOCKS
    folder = tmp_path / "autumn-06"
    follow(release)
    assert (folder / "release" / "lesson_06" / f"{NAME}.ipynb").is_file()
    hand_in(folder / "submitted", released.lesson("06"), 2)
    follow(seed)
    secret = (folder / "seed.txt").read_text().strip()
    assert len(secret) == 32
    follow(grade)
    first = scores(folder / "scores.csv")
    assert [row["to_mark"] for row in first.values()] == ["0", "1"]

    with api.Gradebook(
        f"sqlite:///{folder / 'gradebook.db'}", "mini_attn"
    ) as book:  # step 4, in the formgrader
        mark = book.find_grade("written-06-5", NAME, "lesson_06", "student01")
        mark.manual_score, mark.needs_manual_grade = 3, False
        book.db.commit()
    follow(final)
    after = scores(folder / "scores.csv")
    assert after["student01"]["06.5"] == "3"
    assert [row["to_mark"] for row in after.values()] == ["0", "0"]
    assert "3 of 4 points" in (folder / "feedback" / "student01.html").read_text(encoding="utf-8")
    follow(export)
    totals = list(csv.DictReader((folder / "totals.csv").read_text().splitlines()))
    assert {row["student_id"]: float(row["score"]) for row in totals} == {
        student: float(row["total"]) for student, row in after.items()
    }
    made = [path for path in folder.rglob("*") if path.is_file() and path.name != "seed.txt"]
    assert not any(secret.encode() in path.read_bytes() for path in made)


def test_final_marks_come_from_the_same_command():
    assert len(BLOCKS) == 5
    assert BLOCKS[2] == BLOCKS[3]


def test_what_the_guide_names_is_there():
    names = set(re.findall(r"`(course/[\w/.]*|lessons/)`", GUIDE))
    assert names
    assert all((ROOT / name).exists() for name in names)


def test_the_limits_are_those_of_the_guide():
    limits = Limits()
    assert f"At most {limits.total_seconds:.0f} seconds" in GUIDE.replace("\n", " ")
    assert f"no submission costs more than {limits.longest:.0f} seconds" in GUIDE.replace("\n", " ")
    assert f"Memory ({limits.memory_bytes // 2**30} GB), files ({limits.files:,})" in GUIDE
    assert f"processes ({limits.processes}, threads included)" in GUIDE
    assert f"{plain.SIZE // 2**10} KB" in GUIDE
    assert submission.identity("Müller") in GUIDE


def test_the_solutions_that_the_guide_names_are_those_that_enter_a_sandbox():
    needs = [needed for number in exercises.lessons() for needed in released.lesson(number).needs.values()]
    *most, last = sorted(set().union(*needs))
    assert f"Whose {', '.join(most)} or {last} is not right gets its solution" in " ".join(GUIDE.split())


def test_both_commands_of_the_readme_name_one_folder():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (folder,) = re.findall(r'make release ARGS="06 --out (\S+)"', readme)
    (grade,) = re.findall(r'make grade ARGS="(.*)"', readme)
    assert grade == f"{folder}/submitted --lesson 06 --seed-file {folder}/seed.txt --out {folder}"
    assert f"> {folder}/seed.txt" in readme
