"""One source, two notebooks: what is kept, what is replaced, what stops a build."""

import nbformat
import pytest

from course.make import build as builder
from course.make.build import BuildError, Folders, build, execute, main, stale
from course.make.notebook import formulas_on_one_line, from_source, to_text

SAMPLE = '''\
# %% [markdown] slideshow={"slide_type": "slide"}
# # A sample
# Text.

# %%
import ipywidgets
import matplotlib.pyplot as plt

from course.exercise import todo
from course.figure import show


# %%
def double(x):
    """Twice x."""
    y = x + x
    ### BEGIN SOLUTION
    # The sum.

    return y
    ### END SOLUTION

# %%
for i in range(3):
    print(i, flush=True)
i

# %%
figure, ax = plt.subplots()
ax.plot([1, 2])
show(figure, alt="A straight line that rises from one to two.")

# %% [markdown]
# **Figure 1.** A line.

# %% tags=["nbval-ignore-output", "widget"]
ipywidgets.interact(double, x=(0, 3))
'''

WRITTEN = """
# %% [markdown]
# Why? `### BEGIN SOLUTION` is text here:
# ### BEGIN SOLUTION

# %% [markdown] tags=["written"] exercise="91.1"
# ### BEGIN SOLUTION
# Because
#
# of $x$.
# ### END SOLUTION
"""


@pytest.fixture
def folders(tmp_path):
    made = Folders(tmp_path / "source", tmp_path / "lessons", tmp_path / "solutions")
    made.source.mkdir()
    (made.source / "90_sample.py").write_text(SAMPLE)
    return made


def source(folders, *cells):
    path = folders.source / "91_other.py"
    path.write_text("# %% [markdown]\n# # Title\n\n# %%\n" + "\n\n# %%\n".join(cells) + "\n")
    return path


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_solutions_are_taken_out_or_opened(folders):
    (path,) = folders.sources()
    lesson, solution = from_source(path, solved=False), from_source(path, solved=True)
    assert code(lesson)[1].source == 'def double(x):\n    """Twice x."""\n    y = x + x\n    todo()'
    assert code(solution)[1].source == (
        'def double(x):\n    """Twice x."""\n    y = x + x\n    # The sum.\n\n    return y'
    )
    others = [
        (one, two)
        for one, two in zip(lesson.cells, solution.cells, strict=True)
        if "double(x)" not in one.source
    ]
    assert all(one == two for one, two in others)
    assert [cell.id for cell in lesson.cells] == [cell.id for cell in solution.cells]


def test_model_answers_are_taken_out_or_shown(folders):
    path = source(folders, "1")
    path.write_text(path.read_text() + WRITTEN)
    lesson, solution = from_source(path, solved=False), from_source(path, solved=True)
    assert [cell.source for cell in lesson.cells[-2:]] == [
        "Why? `### BEGIN SOLUTION` is text here:\n### BEGIN SOLUTION",
        "*Write your answer here.*",
    ]
    assert solution.cells[-1].source == "Because\n\nof $x$."
    assert solution.cells[-1].metadata == {"tags": ["written"], "exercise": "91.1"}
    assert lesson.cells[-1].metadata == solution.cells[-1].metadata


def test_notebook_is_fixed_by_its_source(folders):
    (path,) = folders.sources()
    text = to_text(from_source(path, solved=False))
    assert text == to_text(from_source(path, solved=False))
    assert "lines_to_next_cell" not in text
    assert "jupytext" not in text
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells[0].metadata == {"slideshow": {"slide_type": "slide"}}
    assert notebook.cells[-1].metadata == {"tags": ["nbval-ignore-output", "widget"]}
    assert "version" not in notebook.metadata.language_info
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("> let $a\n> \\ge b$, then\n> $c$", "> let $a \\ge b$, then\n> $c$"),
        ("> with $a\n> > 0$ and\n> more", "> with $a > 0$ and\n> more"),
        ("> $$x\n> = y$$\n>\n> is $z$", "> $$x = y$$\n>\n> is $z$"),
        ("along $k\n- l$ and\n- $m$", "along $k - l$ and\n- $m$"),
        ("- where $a\n  > 0$\n- $b$", "- where $a > 0$\n- $b$"),
        ("`a$` and\n> `$b`", "`a$` and\n> `$b`"),
        ("```\n$x\n> y$\n```", "```\n$x\n> y$\n```"),
        ("costs 3 \\$,\n- not $4$", "costs 3 \\$,\n- not $4$"),
        ("one $\n\nand $x$", "one $\n\nand $x$"),
    ],
)
def test_a_formula_stands_on_one_line(text, cell):
    assert formulas_on_one_line(text) == cell


def test_a_formula_in_a_quotation_is_whole_in_the_notebook(folders):
    cell = "# %% [markdown]\n# > Let $a\n# > > 0$.\n"
    path = source(folders, "1")
    path.write_text(path.read_text() + cell)
    for solved in (False, True):
        assert from_source(path, solved).cells[-1].source == "> Let $a > 0$."


@pytest.mark.parametrize(
    "text",
    [
        "### BEGIN SOLUTION\n1",
        "1\n### END SOLUTION",
        "### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION\n### END SOLUTION",
    ],
)
def test_markers_must_pair_up(folders, text):
    with pytest.raises(ValueError, match=r"91_other\.py, cell 1: '### (BEGIN|END) SOLUTION' without"):
        from_source(source(folders, text), solved=False)


@pytest.mark.slow
def test_built_notebooks_are_executed_and_the_same_every_time(folders):
    path, target = folders.sources()[0], folders.lessons / "90_sample.ipynb"
    build(path, target, solved=False)
    first = target.read_bytes()
    build(path, target, solved=False)
    assert target.read_bytes() == first
    assert b"widget-view" not in first
    assert list(folders.lessons.iterdir()) == [target]

    notebook = nbformat.read(target, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata == from_source(path, solved=False).metadata
    assert [cell.execution_count for cell in code(notebook)] == [1, 2, 3, 4, 5]
    printed, value = code(notebook)[2].outputs
    assert printed.text == "0\n1\n2\n"
    assert value.data == {"text/plain": "2"}
    (picture,) = code(notebook)[3].outputs[-1:]
    assert picture.data["text/plain"] == "A straight line that rises from one to two."
    assert f' alt="{picture.data["text/plain"]}">' in picture.data["text/html"]
    assert code(notebook)[4].outputs[0].data == {"text/plain": builder.UNTIL_RUN}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import sys\nprint('oops', file=sys.stderr)", "standard error:.*oops"),
        ("import ipywidgets\nipywidgets.IntSlider()", "draws a widget"),
        (
            "import matplotlib.pyplot as plt\nfrom course.figure import show\nfigure = plt.figure()\n"
            "figure.text(0, 0, 'pale', color='yellow')\nshow(figure, alt='A word that can hardly be read.')",
            "cannot be read by everybody: the text 'pale'",
        ),
        ("import time\ntime.sleep(60)", "[Tt]imed out|[Tt]imeout"),
        ("import os\nos._exit(1)", "died"),
    ],
)
def test_what_stops_a_build(folders, cell, words):
    notebook = from_source(source(folders, "x = 1", cell), solved=False)
    with pytest.raises(BuildError, match=f"(?s)here.*{words}"):
        execute(notebook, "here", timeout=60 if "pale" in cell else 2)


@pytest.mark.slow
def test_failed_build_keeps_the_old_notebook(folders, capsys):
    target = folders.lessons / "91_other.ipynb"
    target.parent.mkdir()
    target.write_text("old")
    source(folders, "print(undefined)")
    assert main(["91"], folders) == 1
    assert target.read_text() == "old"
    error = capsys.readouterr().err
    assert "NameError" in error
    assert "print(undefined)" in error
    assert "\x1b[3" not in error


def test_stale_notebooks_are_named(folders, capsys):
    (path,) = folders.sources()
    assert stale(folders) == [
        "lessons/90_sample.ipynb is missing: run `python -m course build 90`.",
        "solutions/90_sample.ipynb is missing: run `python -m course build 90`.",
    ]
    for target, solved in folders.targets(path):
        target.parent.mkdir()
        target.write_text(to_text(from_source(path, solved)))
    assert main(["--check"], folders) == 0

    path.write_text(SAMPLE.replace("Text.", "New text."))
    assert len(stale(folders, ["90"])) == 2
    path.write_text(SAMPLE.replace("return y", "return 2 * x"))
    assert stale(folders) == [
        "solutions/90_sample.ipynb differs from 90_sample.py: run `python -m course build 90`."
    ]
    path.write_text(SAMPLE)
    lesson = folders.lessons / "90_sample.ipynb"
    lesson.write_text(lesson.read_text().replace("Text.", "Edited by hand."))
    assert main(["--check"], folders) == 1
    assert "lessons/90_sample.ipynb differs" in capsys.readouterr().err
    lesson.rename(folders.lessons / "07_gone.ipynb")
    assert "lessons/07_gone.ipynb has no source: delete it." in stale(folders)


def test_outputs_do_not_make_a_notebook_stale(folders):
    (path,) = folders.sources()
    for target, solved in folders.targets(path):
        target.parent.mkdir()
        notebook = from_source(path, solved)
        code(notebook)[2].outputs = [nbformat.v4.new_output("stream", text="9\n")]
        code(notebook)[2].execution_count = 3
        target.write_text(to_text(notebook))
    assert stale(folders) == []


def test_unknown_lesson(folders, capsys):
    assert main(["17"], folders) == 1
    assert "17_*.py; give lessons as 01 02" in capsys.readouterr().err


def test_problems_in_the_source_are_found_before_it_runs(folders, capsys):
    source(folders, "1 +")
    assert main(["91"], folders) == 1
    assert "91_other.py: cell 1 is not Python" in capsys.readouterr().err
