"""The rules that every lesson keeps to, each with a lesson that breaks it."""

import re

import nbformat
import numpy as np
import pytest

from course import exercises
from course.check.specification import Exercise, Written
from course.make import lint
from course.make.lint import notebook_problems, source_problems

EXERCISE = """
# %% [markdown]
# ### Exercise 90.1: Double
# Difficulty 1 of 3, 4 minutes.
# <details><summary>Hint</summary>Add.</details>

# %%
@exercise("90.1")
def double(x):
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION

# %%
check("90.1", double)

# %%
progress("90")
"""


@pytest.fixture
def problems(tmp_path, monkeypatch):
    double = Exercise("90.1", "Double", 1, 4, 1, lambda x: 2 * x, lambda rng: [(1,)])
    monkeypatch.setattr(exercises, "lessons", lambda: ["90"])
    monkeypatch.setattr(exercises, "exercises", lambda lesson: [double])
    monkeypatch.setattr(exercises, "written", lambda lesson: [])

    def find(text, number="90"):
        path = tmp_path / f"{number}_sample.py"
        path.write_text("# %% [markdown]\n# # Title\n" + text)
        return [problem.removeprefix(f"{path.name}: ") for problem in source_problems(path)]

    return find


def test_nothing_wrong(problems):
    assert problems(EXERCISE) == []


def test_formulas_that_lost_their_backslash(problems):
    lost = EXERCISE.replace("Add.", "Take $\frac12$.")  # not raw: a form feed
    assert problems(lost) == ["line 7 has the control character '\\x0c': a lost backslash."]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            '@exercise("90.1")',
            '@exercise("90.2")',
            "its exercises are ['90.2'], the specifications ['90.1'].",
        ),
        ('check("90.1"', 'check("90.2"', 'exercise 90.1 is not followed by a cell with check("90.1", ...).'),
        ("double(x)", "double(y)", "exercise 90.1 takes ['y'], its reference ['x']."),
        (": Double", ": Twice", "there is no heading '### Exercise 90.1: Double'."),
        ("4 minutes", "5 minutes", "exercise 90.1 must say '4 minutes' and have a hint in <details>."),
        ("details>", "b>", "exercise 90.1 must say '4 minutes' and have a hint in <details>."),
        ('progress("90")', "None", "no cell calls progress(...)."),
        ('progress("90")', 'progress("90");', "cell 4 ends in ';'."),
        ("return x + x", "return x +", "cell 2 is not Python (invalid syntax, line 3)."),
    ],
)
def test_exercises_match_their_specification(problems, old, new, problem):
    assert problem in problems(EXERCISE.replace(old, new))


def test_exercises_need_specifications(problems):
    assert problems(EXERCISE, "91") == ["it has exercises, but there is no course/exercises/lesson_91.py."]


WRITTEN = """
# %% [markdown]
# ### Exercise 90.2: Why
# 5 minutes.

# %% [markdown] tags=["written"] exercise="90.2"
# ### BEGIN SOLUTION
# Because.
# ### END SOLUTION
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("", "", None),
        (
            'exercise="90.2"',
            'exercise="90.3"',
            "its written questions are ['90.3'], the specifications ['90.2'].",
        ),
        (' tags=["written"]', "", "its written questions are [], the specifications ['90.2']."),
        (": Why", ": How", "the cell before the answer to 90.2 must be headed '### Exercise 90.2: Why'"),
        ("5 minutes", "6 minutes", "the cell before the answer to 90.2 must be headed"),
        ("Because.", "*Write your answer here.*", "the answer to 90.2 must be a model answer between"),
        ("# ### END SOLUTION", "# ### END SOLUTION\n# More.", "the answer to 90.2 must be a model answer"),
    ],
)
def test_written_questions_match_their_specification(problems, monkeypatch, old, new, problem):
    why = Written("90.2", "Why", 3, 5, [(1, "A reason."), (2, "The reason.")])
    monkeypatch.setattr(exercises, "written", lambda lesson: [why])
    found = problems(EXERCISE + WRITTEN.replace(old, new))
    assert found == [] if problem is None else found[0].startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n# %%\nshow(f)\n\n# %% [markdown]\n# **Figure 1.** A.\n", "cell 1: show(...) without alt text."),
        (
            "\n# %%\nif f:\n    show(f)\n\n# %% [markdown]\n# **Figure 1.** A.\n",
            "cell 1: show(...) without alt text.",
        ),
        ('\n# %%\nshow(f, alt="")\n\n# %% [markdown]\n# Text.\n', "cell 1: show(...) is not followed by"),
        ('\n# %%\nshow(f, alt="")\n', "cell 1: show(...) is not followed by"),
        ('\n# %%\nshow(f, alt="")\n\n# %% [markdown]\n# **Figure 1.** A.\n', None),
        ('\n# %%\ndef draw(x):\n    show(f, alt="")\n', None),
    ],
)
def test_figures_have_alt_text_and_caption(problems, text, problem):
    found = problems(text, "91")
    assert found == [] if problem is None else found[0].startswith(problem)


def notebook(output=None, count=1, source="x", tags=()):
    cell = nbformat.v4.new_code_cell(source, execution_count=count, outputs=[output] if output else [])
    cell.metadata["tags"] = list(tags)
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title"), cell])


def picture(alt=None, size=10):
    if alt is None:
        return nbformat.v4.new_output("display_data", {"image/png": "A" * size, "text/plain": "x"})
    html = f'<img src="data:image/webp;base64,{"A" * size}" alt="{alt}">'
    return nbformat.v4.new_output("display_data", {"text/html": html, "text/plain": alt})


def text(words, name="stdout"):
    return nbformat.v4.new_output("stream", text=words, name=name)


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (notebook(count=None), "was not run in order"),
        (notebook(count=2), "was not run in order"),
        (notebook(nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])), "ended in an error"),
        (notebook(text("careful", "stderr")), "standard error"),
        (notebook(picture()), "without alt text"),
        (
            notebook(nbformat.v4.new_output("display_data", {"text/html": "<img src='x'>"})),
            "without alt text",
        ),
        (notebook(nbformat.v4.new_output("display_data", {"text/html": '<img alt="">'})), "without alt text"),
        (notebook(text(f"saved {np.__file__}")), "path or an address"),
        (notebook(text("<A object at 0x7f0e363799e0>")), "path or an address"),
        (notebook(text("took 31.2 ms")), "wall time: '31.2 ms'"),
        (notebook(text("100%|####| 10/10 [00:01<00:00, 8.1it/s]")), "wall time"),
        (
            notebook(
                nbformat.v4.new_output("display_data", {"application/vnd.jupyter.widget-view+json": {}})
            ),
            "widgets",
        ),
        (
            notebook(picture("A line.", size=400_001)),
            "it has 401 kB, of which pictures 400 kB; the limit is 400 kB",
        ),
    ],
)
def test_what_a_stored_notebook_must_not_have(made, problem):
    found = notebook_problems(made, "lessons/90.ipynb")
    assert len(found) == 1
    assert problem in found[0]
    assert found[0].startswith("lessons/90.ipynb: ")


@pytest.mark.parametrize(
    "made",
    [
        notebook(),
        notebook(picture("A line.")),
        notebook(text("the loss is 0.31, the norm 4.2 after 1000 steps")),
        notebook(text("31 ms"), tags=["nbval-ignore-output", "widget"]),
    ],
)
def test_sound_notebooks(made):
    assert notebook_problems(made, "lessons/90.ipynb") == []


def test_command_line_tells_minutes_and_problems(capsys, monkeypatch):
    assert lint.main(["01"]) == 0
    out = capsys.readouterr().out
    assert re.match(r"01_\w+\.py: \d+ minutes \(\d+ words, \d+ lines, \d+ minutes of exercises\)\n", out)
    monkeypatch.setattr(lint, "house_problems", lambda source: {"style": ["a heading"]})
    assert lint.main(["01"]) == 1
    assert "  style: a heading.\n" in capsys.readouterr().out


def test_minutes_with_a_pencil_follow_the_rule(monkeypatch):
    monkeypatch.setattr(lint, "with_pencil", lambda takes: 7)
    problems = lint.house_problems(next((lint.ROOT / "course" / "source").glob("01_*.py")))["minutes"]
    assert problems == ["it says 135 minutes with a pencil, the rule 7"]
