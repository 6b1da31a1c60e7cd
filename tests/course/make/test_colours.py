"""Figures that everybody can read: the palette, series on one axes, and text."""

import itertools
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from course.make import colours
from course.make.colours import APART, CONTRAST, MISSING, contrast, distance, problems
from mini_attn import plots
from mini_attn.plots import COLORS, ink


@pytest.fixture
def ax():
    figure, ax = plt.subplots(figsize=(3, 2))
    yield ax
    plt.close(figure)


@pytest.mark.parametrize("missing", MISSING)
def test_every_two_colours_of_the_palette_differ_for_everybody(missing):
    for one, other in itertools.combinations(COLORS, 2):
        assert distance(COLORS[one], COLORS[other], missing) > APART, (one, other)


def test_distances_and_contrasts_are_the_known_ones():
    assert contrast("white", "black") == pytest.approx(21)
    assert contrast("#767676", "white") == pytest.approx(4.54, abs=0.01)  # the lightest grey that passes
    assert distance("white", "black") == pytest.approx(100, abs=0.01)
    assert distance("#8C8C8C", COLORS["green"], "deuteranopia") == pytest.approx(9.6, abs=0.1)
    assert distance("#8C8C8C", COLORS["purple"], "deuteranopia") == pytest.approx(8.5, abs=0.1)
    for missing in MISSING:  # white stays white
        assert distance("white", "white", missing) == 0
        assert distance("white", "black", missing) == pytest.approx(100, abs=0.1)


def test_ink_can_be_read_on_white_and_keeps_dark_colours():
    for name in COLORS:
        assert contrast(ink(name), "white") >= CONTRAST, name
    assert ink("blue") == COLORS["blue"].lower()
    assert ink("#000000") == "#000000"
    assert distance(ink("orange"), COLORS["orange"]) > 10


def test_colours_that_only_some_tell_apart(ax):
    ax.plot([0, 1], [0, 1], color=COLORS["green"])
    ax.plot([0, 1], [1, 0], color="#8C8C8C")
    (problem,) = problems(ax.figure)
    assert problem == "#009e73ff and #8c8c8cff differ in nothing but colour, and look alike with deuteranopia"


@pytest.mark.parametrize(
    "style", [{"linestyle": "--"}, {"marker": "o"}, {"visible": False}, {"color": "#8C9C8C"}, {"color": "k"}]
)
def test_what_else_tells_lines_apart(ax, style):
    ax.plot([0, 1], [0, 1], color="#8C8C8C")
    ax.plot([0, 1], [1, 0], **{"color": COLORS["green"], **style})
    assert problems(ax.figure) == []


@pytest.mark.parametrize(("marker", "count"), [("o", 1), ("s", 0)])
def test_dots_differ_by_marker_too(ax, marker, count):
    ax.scatter([0, 1], [0, 1], color="#8C8C8C", marker="o")
    ax.scatter([0, 1], [1, 0], color=COLORS["purple"], marker=marker)
    assert len(problems(ax.figure)) == count


def test_bars_differ_by_hatch_too(ax):
    ax.bar([0], [1], color="#8C8C8C")
    (bar,) = ax.bar([1], [1], color=COLORS["purple"])
    assert len(problems(ax.figure)) == 1
    bar.set_hatch("//")
    assert problems(ax.figure) == []


def test_text_is_seen_against_what_lies_behind_it(ax):
    plots.style()
    ax.imshow(np.zeros((2, 2)), cmap="gray", aspect="auto")
    text = ax.text(0.5, 0.5, "here", color=COLORS["sky"], ha="center")
    assert problems(ax.figure) == []
    text.set_color(ink("blue"))
    assert problems(ax.figure) == ["the text 'here' has a contrast of 4.0 to 1, not 4.5"]
    assert text.get_alpha() is None
    text.set(color="white", alpha=0.3)
    assert "'here'" in problems(ax.figure)[0]
    text.set_text("")
    assert problems(ax.figure) == []
    ax.set_title("pale", color=COLORS["orange"])
    assert problems(ax.figure) == ["the text 'pale' has a contrast of 2.3 to 1, not 4.5"]


def test_the_builder_refuses_such_figures(ax, monkeypatch):
    from course import figure
    from mini_attn import widgets

    monkeypatch.setattr(figure, "to_html", figure.to_html)
    monkeypatch.setattr(widgets, "to_html", widgets.to_html)
    colours.watch()
    ax.set_title("fine")
    for to_html in (figure.to_html, widgets.to_html):
        assert to_html(ax.figure, "A frame.").startswith("<img")
    ax.set_title("pale", color="#EEEEEE")
    for to_html in (figure.to_html, widgets.to_html):
        with pytest.raises(ValueError, match="cannot be read by everybody: the text 'pale'"):
            to_html(ax.figure, "A frame.")
    assert "course.make.colours" in sys.modules
