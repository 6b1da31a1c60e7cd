"""What README.md shows works as it stands there."""

import json
import re
from pathlib import Path

from course import exercises
from course.make.build import Folders

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


def test_the_speeds_are_those_that_the_benchmark_saved():
    results = json.loads((ROOT / "tests/benchmarks/results/amd-epyc-1-threads.json").read_text())
    sections = {name: section["rows"] for name, section in results["sections"].items()}
    svms = [
        (row["ours_ms"], row["baseline_ms"], row)
        for row in (sections["frobenius"][0], sections["nuclear"][0])
    ]
    whole = [(row["ours_ms_a_trial"], row["by_hand_ms_a_trial"], row) for row in sections["experiment"]]
    expected = [
        [
            f"{ours:.2g} ms",
            f"{theirs:.2g} ms" if theirs < 1000 else f"{theirs / 1000:.2g} s",
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
    assert f"{results['machine']['cpu']}, one thread" in README
    assert results["machine"]["threads"] == 1
    row = sections["nuclear"][0]
    larger = round(row["baseline_largest_gap"] / row["our_largest_gap"], -2)
    assert f"at a gap {larger:,.0f} times as large" in README
