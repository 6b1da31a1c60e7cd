"""The lessons' pictures: what is drawn where, and what is refused."""

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from mini_attn import plots
from mini_attn.plots import COLORS

X = np.array([[1.0, 2.0], [3.0, 1.0], [-1.0, -1.0]])
y = np.array([1.0, 1.0, -1.0])


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_style_sets_the_palette_for_the_lines_that_follow():
    with mpl.rc_context():
        plots.style()
        colors = plt.rcParams["axes.prop_cycle"].by_key()["color"]
        assert len(set(colors)) == len(colors) == 7
        assert set(colors) <= set(COLORS.values())
        assert plt.rcParams["font.size"] >= 12


def test_each_plot_draws_on_the_axes_it_is_given_or_on_the_current_ones(ax):
    other = plt.figure().add_subplot()
    for draw in (
        lambda **where: plots.points(X, y, **where),
        lambda **where: plots.boundary([1.0, 1.0], **where),
        lambda **where: plots.directions(X, **where),
        lambda **where: plots.convergence([1, 10], [1.0, 0.1], **where),
        lambda **where: plots.weights({"GD": X}, [1.0, 1.0], [0.0, 0.0], 5.0, **where),
    ):
        assert draw(ax=ax) is ax
        assert draw() is other
    plt.close(other.figure)


def test_points_separate_labels_by_marker_and_colour(ax):
    plots.points(X, y, ax)
    positive, negative = ax.collections
    np.testing.assert_allclose(positive.get_offsets(), X[:2])
    np.testing.assert_allclose(negative.get_offsets(), X[2:])
    assert not np.allclose(positive.get_facecolor(), negative.get_facecolor())
    assert positive.get_paths()[0].vertices.shape != negative.get_paths()[0].vertices.shape


@pytest.mark.parametrize(("X", "y"), [(np.ones((4, 3)), np.ones(4)), (np.ones((4, 2)), np.ones(3))])
def test_points_refuse_what_the_plane_cannot_show(ax, X, y):
    with pytest.raises(ValueError, match=r"shape \(n, 2\)"):
        plots.points(X, y, ax)


def test_boundary_is_at_right_angles_to_w_and_its_strip_as_wide_as_the_margin(ax):
    w = np.array([3.0, 4.0])
    plots.boundary(w, ax, margin=0.5)
    (line,) = ax.lines
    start, end = np.array(line.get_xy1()), np.array(line.get_xy2())
    np.testing.assert_allclose(start @ w, 0)
    np.testing.assert_allclose(end @ w, 0, atol=1e-12)
    (strip,) = ax.patches
    np.testing.assert_allclose(np.unique((strip.get_xy() @ w / 5).round(9)), [-0.5, 0.5])


def test_directions_lie_on_the_unit_circle_and_grow_with_time(ax):
    plots.directions(X, ax, target=[2.0, 0.0])
    (dots,) = ax.collections
    np.testing.assert_allclose(dots.get_offsets(), X / np.linalg.norm(X, axis=1, keepdims=True))
    assert len(dots.get_sizes()) == len(X)
    assert (np.diff(dots.get_sizes()) > 0).all()
    np.testing.assert_allclose(ax.lines[-1].get_xydata(), [[0, 0], [1.15, 0]])


def test_convergence_draws_the_prediction_dashed_in_the_colour_of_the_measurement(ax):
    plots.convergence([1, 10, 100], [3.0, 2.0, 1.0], [np.nan, 2.1, 1.1], ax, label="GD", color="green")
    measured, predicted = ax.lines
    np.testing.assert_allclose(measured.get_xydata(), [[1, 3], [10, 2], [100, 1]])
    np.testing.assert_allclose(predicted.get_ydata()[1:], [2.1, 1.1])
    assert measured.get_color() == predicted.get_color() == "green"
    assert (measured.get_linestyle(), predicted.get_linestyle()) == ("None", "--")
    assert ax.get_xscale() == "log"
    assert measured.get_label() == "GD"


def test_convergence_draws_the_prediction_only_since_a_given_step(ax):
    plots.convergence([1, 10, 100], [3.0, 2.0, 1.0], [3.1, 2.1, 1.1], ax, since=10)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [np.nan, 2.1, 1.1])
    assert not np.isnan(ax.lines[0].get_ydata()).any()


def test_weights_draw_each_path_and_the_line_that_theory_gives(ax):
    plots.weights({"one": X, "other": 2 * X}, [1.0, 2.0], [-1.0, 0.5], 4.0, ax)
    line, one, other = ax.lines
    np.testing.assert_allclose(line.get_xydata(), [[-1, 0.5], [3, 8.5]])
    np.testing.assert_allclose(one.get_xydata(), X)
    np.testing.assert_allclose(other.get_xydata(), 2 * X)
    assert (one.get_label(), other.get_label()) == ("one", "other")
    assert one.get_marker() != other.get_marker()


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match=r"labels y must be -1 or \+1; found 0"):
        plots.points(np.ones((2, 2)), np.array([0, 1]))
    for w in ([0.0, 0.0], [np.nan, 1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match=r"boundary needs weights w of shape \(2,\)"):
            plots.boundary(w)
    assert plt.get_fignums() == []
