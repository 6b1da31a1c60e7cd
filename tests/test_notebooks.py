"""The stored notebooks: up to date, run, small, and free of what does not belong there.

Their outputs are compared cell by cell by nbval, which `make test` runs beside the tests:

    pytest --nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg \\
           --nbval-cell-timeout 120 -n 2 --dist loadscope lessons solutions
"""

import os
import re
import subprocess
import symtable
import sys

import nbformat
import pytest

from course.make.build import ROOT, Folders, stale
from course.make.lint import house_problems, notebook_problems, source_problems
from course.make.notebook import from_source

SOURCES = Folders().sources()
NOTEBOOKS = [target for source in SOURCES for target, _ in Folders().targets(source)]
NBVAL = "--nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg --nbval-cell-timeout 120"


def test_every_notebook_is_what_its_source_makes_now():
    assert stale(Folders()) == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_source_keeps_the_rules(source):
    assert source_problems(source) == []
    assert not any(house_problems(source).values()), house_problems(source)


def _read_in(table):
    """The global names that the functions of a table read."""
    inner = [name for part in table.get_children() for name in _read_in(part)]
    return {*inner, *(s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced())}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_cell_takes_a_name_that_a_slider_or_an_exercise_above_needs(source):
    """A slider moved, or an exercise checked once more, after the whole lesson has run."""
    texts = [cell.source for cell in from_source(source, True).cells if cell.cell_type == "code"]
    tables = [symtable.symtable(text, "cell", "exec") for text in texts]
    bound = [{s.get_name() for s in table.get_symbols() if s.is_assigned()} for table in tables]
    for k, (text, table) in enumerate(zip(texts, tables, strict=True)):
        needed = set(re.findall(r"@exercise\(.*\)\ndef (\w+)", text))
        if "widgets." in text:
            needed |= {name for part in table.get_children() for name in _read_in(part)}
        assert not needed & set().union(*bound[k + 1 :]), text[:60]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_stored_notebook_keeps_the_rules(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook_problems(notebook, f"{path.parent.name}/{path.name}") == []


@pytest.mark.slow
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
