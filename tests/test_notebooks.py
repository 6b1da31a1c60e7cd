"""The stored notebooks: up to date, run, small, and free of what does not belong there.

Their outputs are compared cell by cell by nbval, which `make test` runs beside the tests:

    pytest --nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg \\
           --nbval-cell-timeout 120 -n 2 --dist loadscope lessons solutions
"""

import os
import subprocess
import sys

import nbformat
import pytest

from course.make.build import ROOT, Folders, stale
from course.make.lint import house_problems, notebook_problems, source_problems

SOURCES = Folders().sources()
NOTEBOOKS = [target for source in SOURCES for target, _ in Folders().targets(source)]
NBVAL = "--nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg --nbval-cell-timeout 120"


def test_every_notebook_is_what_its_source_makes_now():
    assert stale(Folders()) == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_source_keeps_the_rules(source):
    assert source_problems(source) == []
    assert not any(house_problems(source).values()), house_problems(source)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_stored_notebook_keeps_the_rules(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook_problems(notebook, f"{path.parent.name}/{path.name}") == []


@pytest.mark.parametrize(
    ("printed", "status"),
    [("2 at 0x7f00aabbccdd in 3.5 ms\n", 0), ("3 at 0x7f00aabbccdd in 3.5 ms\n", 1)],
)
def test_nbval_notices_a_changed_output_and_nothing_else(tmp_path, printed, status):
    cell = nbformat.v4.new_code_cell("print(1 + 1, 'at 0x7fffffffffff in 17.25 ms')", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("stream", text=printed)]
    path = tmp_path / "lessons" / "90_sample.ipynb"
    path.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", *NBVAL.split(), str(path.parent)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert ("Cell outputs differ" in ran.stdout) is bool(status)
