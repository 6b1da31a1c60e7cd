"""The house style: each rule with cells that keep it and cells that break it."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from course.make.house import folding_problems, style_problems

SOUND = """# 06 · Title

In lesson 02 it was so; Lesson 02 told why. See [lesson 02](02.ipynb), `lesson 2`.

## 6.1 One

### Exercise 06.1: Do

★★☆ · 6 minutes

Do it.

1. One point,
   and more of it.
2. Another.

> A box, and in it
> - a point.

### Exercise 06.2: Say

★★★ · 12 minutes · in words

## 6.2 Two *(optional)*

## Questions

## Summary

## Further reading"""


def style(text):
    return style_problems([new_markdown_cell(text)], "06")


def test_sound_style():
    assert style(SOUND.replace("so; Lesson 02 told", "so. Lesson 02 told")) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("## 6.1 One", "## 1. One", "the section '1. One' should be '## 6.1 Title'"),
        ("## 6.2 Two", "## 6.3 Two", "the section '6.3 Two' should be '## 6.2 Title'"),
        ("## Questions", "## Questionnaire", "its last sections are ['Questionnaire', 'Summary', 'Further"),
        ("## Further reading", "**Further reading.**", "its last sections are "),
        ("In lesson 02", "In lesson 2", "says 'lesson 2': lessons are 'lesson 06'"),
        ("In lesson 02", "In lessons 2", "says 'lessons 2'"),
        ("In lesson 02", "As in Lesson 02", "says 'Lesson 02'"),
        ("[lesson 02]", "[02]", "has the link [02]: a link needs words, 'lesson 02'"),
        ("Do it.", "The length is\n1. Every", "has the line '1. Every' within a paragraph"),
        ("Do it.", "It is $x$\n> 3.", "has the line '> 3.' within a paragraph"),
        ("Do it.", "**Note.** It is\n- 3.", "has the line '- 3.' within a paragraph"),
        ("Do it.", "The Att-\nSVM", "breaks a line after 'Att-'"),
        ("★★☆ ·", "★★ ·", "under the heading of exercise 06.1 stands '★★ · 6 minutes'"),
        ("★★☆ · 6 minutes", "*★★☆ · 6 minutes.* Do", "exercise 06.1 stands '*★★☆ · 6 minutes.* Do'"),
        ("★★★ · 12 minutes · in words", "★★★ · 12 min", "exercise 06.2 stands '★★★ · 12 min'"),
    ],
)
def test_departures_from_the_style(old, new, problem):
    found = style(SOUND.replace("so; Lesson 02 told", "so. Lesson 02 told").replace(old, new))
    assert any(problem in sentence for sentence in found), found


DRAWING = """fig, ax = plt.subplots()
for w in W:
    ax.plot(*w)
    plots.boundary(w, ax)
show(fig, alt="A line.")"""
FUNCTION = "def draw(ax):\n" + "\n".join(f"    ax.plot(x, {k} * x)" for k in range(13)) + "\n"
COMPUTING = "w = fit(X)\nprint(w)\nassert w.shape == (2,)"


def folding(source, folded=False):
    metadata = {"jupyter": {"source_hidden": True}} if folded else {}
    return folding_problems([new_code_cell(source, metadata=metadata)])


@pytest.mark.parametrize(
    ("source", "folded"),
    [
        (DRAWING, True),
        (FUNCTION, True),
        (COMPUTING, False),
        ("def draw(ax):\n    ax.plot(x, x)\n", False),
        ("for _ in range(9):\n    optimizer.zero_grad()\n    optimizer.step()\n", False),
        ("@exercise('06.1')\n" + FUNCTION, False),
    ],
)
def test_what_may_stand_as_it_is(source, folded):
    assert folding(source, folded) == []


def test_what_widgets_need_may_be_folded_with_them():
    cell = new_code_cell(COMPUTING, metadata={"jupyter": {"source_hidden": True}, "tags": ["widget"]})
    assert folding_problems([cell]) == []


@pytest.mark.parametrize(
    ("source", "folded", "problem"),
    [
        (DRAWING, False, "only draws: fold it"),
        (FUNCTION, False, "only draws: fold it"),
        (f"{FUNCTION}\n\n{COMPUTING}\n" + "x = 1\n" * 20, False, "has 14 lines of drawing: fold them"),
        (f"{DRAWING}\nassert W.any()", True, "draws, and asserts or prints"),
        (f"{DRAWING}\nfor w in W:\n    print(w)", True, "draws, and asserts or prints"),
        (COMPUTING, True, "is folded, but it computes more than it draws"),
    ],
)
def test_what_must_be_folded_or_taken_apart(source, folded, problem):
    found = folding(source, folded)
    assert any(problem in sentence for sentence in found), found
