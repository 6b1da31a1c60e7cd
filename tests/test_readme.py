"""What README.md shows works as it stands there."""

import re
from pathlib import Path

from course import build, exercises

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
    assert linked == {path.name[:2] for path in build.Folders().sources()} == set(exercises.lessons())
