"""What README.md shows works as it stands there."""

import json
import math
import re
from pathlib import Path

import nbformat

from course import exercises
from course.__main__ import COMMANDS
from course.make import readme
from course.make.build import Folders
from course.start import handing_out, progress

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_as_written(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    cosine, *outcomes = capsys.readouterr().out.splitlines()
    assert float(re.search(r"[\d.]+", cosine)[0]) >= 0.999
    assert set(re.findall(r"\w+", " ".join(outcomes))) <= {"global", "local", "undecided"}


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_the_syllabus_links_every_lesson_that_exists():
    linked = set(re.findall(r"\(lessons/(\d\d)_", README))
    assert linked == {path.name[:2] for path in Folders().sources()} == set(exercises.lessons())


def test_the_map_is_what_the_lessons_say_of_themselves():
    assert readme.with_map(README) == README, "run `python -m course build 00`"
    stored = nbformat.read(ROOT / "lessons" / "00_start_here.ipynb", as_version=4)
    outputs = [output.get("data", {}) for cell in stored.cells for output in cell.get("outputs", [])]
    shown = next(data["text/markdown"] for data in outputs if "text/markdown" in data)
    assert shown == progress.as_table(set()), "run `python -m course build 00`"


def test_the_commands_exist():
    rules = re.findall(r"^(\w[\w ]*):", (ROOT / "Makefile").read_text(), re.M)
    targets = {target for rule in rules for target in rule.split()}
    named = set(re.findall(r"(?:^|`)make (\w+)", README, re.M))  # in code, not in prose
    assert {"learn", "test"} < named < targets
    assert set(re.findall(r"python -m course (\w+)", README)) <= set(COMMANDS)


def test_each_lesson_is_as_described():
    for source in Folders().sources():
        number, text = source.name[:2], source.read_text(encoding="utf-8")
        assert 4 <= len(exercises.exercises(number)) <= 6
        assert f'\nprogress("{number}")\n' in text
        assert '"widget"]' in text or number == "00"


def test_a_new_version_is_named_as_quoted():
    quoted = re.search(r"put beside it, as\s+`(.+?)`", README)[1]
    assert quoted == handing_out.new_name("01_logistic_regression_bias.ipynb", 1)


def test_the_folders_are_there():
    (tree,) = re.findall(r"## Where things are\n\n```\n(.*?)```", README, re.DOTALL)
    for line in tree.splitlines():
        inside = ROOT / "course" if line.startswith(" ") else ROOT
        for folder in re.findall(r"(\w+)/", line):
            assert (inside / folder).is_dir(), folder


def test_the_speeds_are_those_that_the_benchmark_saved():
    results = json.loads(
        (ROOT / "tests/benchmarks/results/intel-r-xeon-r-processor-1-threads.json").read_text()
    )
    sections = {name: section["rows"] for name, section in results["sections"].items()}
    cpu = results["machine"]["cpu"].replace("(R)", "").removesuffix(" Processor")
    svms = [
        (row["ours_ms"], row["baseline_ms"], row)
        for row in (sections["frobenius"][0], sections["nuclear"][0])
    ]
    whole = [(row["ours_ms_a_trial"], row["by_hand_ms_a_trial"], row) for row in sections["experiment"]]
    expected = [
        [
            f"{ours:.2g} ms",
            f"{theirs:.2g} ms" if theirs < 100 else f"{theirs / 1000:.2g} s",
            row["times_faster"],
        ]
        for ours, theirs, row in svms + whole
    ]
    planted, million = sections["large"][-2:]
    expected.append(
        [f"{planted['seconds']:.2g} s", f"{planted['first_order_s']:.2g} s", planted["times_faster"]]
    )
    cells = [line.strip("|").split(" | ") for line in README.splitlines() if re.match(r"\|.*\d m?s \|", line)]
    quoted = [[ours.strip(), theirs.split(",")[0].strip(), float(ratio)] for _, ours, theirs, ratio in cells]
    assert quoted == [[ours, theirs, round(ratio)] for ours, theirs, ratio in expected]
    assert f"{planted['rows']:,} constraints, gap {planted['gap']:.0e}".replace("e-0", "e-") in README
    assert planted["first_order_gap"] <= 1e-8
    assert (
        f"{million['rows'] / 1e6:.2f} million constraints, the last takes {million['seconds']:.0f} s"
        in README
    )
    assert f"({cpu}, one thread;" in README
    assert results["machine"]["threads"] == 1
    choices = [row["chosen_by_best"] for row in sections["threads"]]
    assert f"in {len(choices)} cases from 1 to 10,000 trials" in README
    assert f"within {math.ceil(100 * max(choices)) - 100}% of the best of four settings by hand" in README
    usual = {row["trials"]: row for row in sections["growth"] if (row["n"], row["T"], row["d"]) == (6, 8, 10)}
    ratios = [usual[10_000][key] / usual[400][key] / 25 for key in ("W_step_us", "KQ_step_us")]
    assert "{:.2f} (W) and {:.2f} (K, Q) times one among 400".format(*ratios) in README
    hard = sections["torture"][-1]
    assert (hard["wrong"], hard["crashed"]) == (0, 0)
    assert f"Of {hard['problems']:,} problems made to be hard" in README
    assert f"left {hard['stopped'] / hard['problems']:.1%} undecided" in README
    row = sections["nuclear"][0]
    larger = round(row["baseline_largest_gap"] / row["our_largest_gap"], -2)
    assert f"at a gap {larger:,.0f} times as large" in README
