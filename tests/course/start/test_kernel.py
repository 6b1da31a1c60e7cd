"""What is added to an error in a cell, and to which."""

import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell

from course.start import kernel, progress


@pytest.fixture
def run(monkeypatch):
    """Runs a cell in a shell with the extension; returns the lines of its error."""
    shell, seen = InteractiveShell(), []
    monkeypatch.setattr(shell, "_showtraceback", lambda kind, error, lines: seen.append(lines))
    kernel.load_ipython_extension(shell)
    monkeypatch.setattr(progress, "now", {})

    def run(code):
        seen.clear()
        shell.run_cell(code)
        return seen[0] if seen else None

    yield run
    shell.history_manager.end_session()


def test_an_exercise_without_the_cells_above_says_what_to_do(run, monkeypatch):
    monkeypatch.delitem(sys.modules, "course.exercise", raising=False)
    (said,) = run('@exercise("01.2")\ndef margin(w, X, y):\n    todo()')
    assert "'exercise' is not there yet" in said
    assert "Run > Run All Above Selected Cell" in said
    assert "NameError" not in said


def test_a_name_from_a_cell_that_was_skipped(run):
    import course.exercise  # noqa: F401

    *traceback, said = run("best + 1")
    assert "NameError" in "".join(traceback)
    assert said == "If a cell above defines 'best', run it first: Run > Run All Above Selected Cell."


def test_a_wrong_answer_above_is_named_where_a_cell_stops(run):
    assert "exercise" not in run("1 / 0")[-1]
    progress.now.update({"01.1": "solved", "01.3": "wrong"})
    assert "exercise 01.3 is not right yet" in run("assert False")[-1]
    progress.now["01.2"] = "wrong"
    assert "exercises 01.2, 01.3 are not right yet" in run("1 / 0")[-1]
    progress.now.update({"01.2": "solved", "01.3": "solved"})
    assert "exercise" not in run("1 / 0")[-1]


def test_other_errors_are_left_alone(run):
    import course.exercise  # noqa: F401

    assert "defines" not in run("def f():\n    x += 1\nf()")[-1]  # UnboundLocalError: the learner's own
    assert "SyntaxError" in run("def")[-1]
    assert run("1 + 1") is None
