"""What lesson 01 builds from scratch agrees with `mini_attn` (its solutions equal these references)."""

import ast
import io
import time

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from course import exercises
from course.make.build import ROOT
from mini_attn import data, geometry, models, optim, svm, train

gradient, turns, bound, creep, joins = (spec.reference for spec in exercises.exercises("01"))


@pytest.fixture(params=range(3))
def points(request):
    return data.separable_points(n=10, seed=request.param)


def test_the_best_of_many_angles_is_the_librarys_svm(points, lesson):
    X, y = points.X.numpy(), points.y.numpy()
    solution = svm.solve(svm.label_problem(points.X, points.y))
    turn = np.radians(np.arange(0, 360, 0.02))
    best = max(np.transpose([np.cos(turn), np.sin(turn)]), key=lambda w: lesson["margin"](w, X, y))
    np.testing.assert_allclose(best, solution.value / solution.value.norm(), atol=2e-4)
    np.testing.assert_allclose(lesson["margin"](best, X, y), solution.margin, rtol=1e-3)


def test_the_limit_turns_as_the_librarys_svm_does(points):
    """Only where a support vector is deleted."""
    whole, n = svm.solve(svm.label_problem(points.X, points.y)), len(points.y)
    fewer = torch.tensor([[k for k in range(n) if k != i] for i in range(n)])
    without = svm.solve(svm.label_problem(points.X[fewer], points.y[fewer]))
    turned = torch.rad2deg(torch.arccos(geometry.cosine(without.value, whole.value.expand(n, 2)).clip(-1, 1)))
    found = turns(points.X.numpy(), points.y.numpy())
    np.testing.assert_allclose(found, turned, atol=1e-2)
    assert (found[whole.dual.numpy() < 1e-9] < 1e-6).all()


@pytest.mark.parametrize("normalized", [False, True])
def test_descent_from_scratch_follows_the_library(points, normalized, lesson):
    X, y, w = points.X.numpy(), points.y.numpy(), np.zeros(2)
    model = models.LinearClassifier(d=2)
    optimizer = (optim.NormalizedGD if normalized else torch.optim.SGD)(model.parameters(), lr=0.5)
    train.fit(model, points, optimizer, steps=50, progress=False)
    for _ in range(50):
        w = lesson["normalized_step"](w, X, y, 0.5) if normalized else w - 0.5 * gradient(w, X, y)
    np.testing.assert_allclose(model.w.detach(), w, rtol=1e-9)


def test_the_offset_predicts_where_descent_is(lesson):
    """Two support vectors and a point far away: the prediction is exact soon."""
    S = np.array([[1.0, 0.8], [1.0, -1.5]])
    X, y = np.vstack([S, [[4.0, 0.0]]]), np.ones(3)
    lam = np.linalg.solve(S.T, [1.0, 0.0])  # the SVM is (1, 0), of margin 1
    w = np.zeros(2)
    for _ in range(20_000):
        w = w - gradient(w, X, y)
    np.testing.assert_allclose(
        w, np.log(20_000) * np.array([1.0, 0.0]) + lesson["offset"](S, lam, 1.0, 3), atol=2e-3
    )
    np.testing.assert_allclose(np.logaddexp(0, -X @ w).mean(), 1 / 20_000, rtol=2e-3)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [4, 15, 60])
def test_no_run_of_the_flow_exceeds_the_bound(seed, n, lesson):
    """Whenever its loss is below 2/n, from starts on either side."""
    points = data.separable_points(n=n, seed=seed)
    mu = float(svm.solve(svm.label_problem(points.X, points.y)).margin)
    A, decades = (points.y[:, None] * points.X).numpy(), np.linspace(0, 7, 15)
    for start in ((0.0, 0.0), (5.0, -5.0), (20.0, 20.0), (-40.0, -40.0)):
        ends = lesson["flow"](A, np.ones(n), start, 10**decades, 0.7)
        losses = np.logaddexp(0, -ends @ A.T).mean(axis=1)
        first = np.flatnonzero(n * losses < 2)
        assert len(first)
        for k in first:
            highest = bound(10 ** decades[k:] - 10 ** decades[k], losses[k], n, 0.7, mu)
            assert (losses[k:] <= highest * (1 + 1e-3)).all()


def test_copies_move_the_track_as_the_offset_says(lesson):
    """Real weights in the loss, three dimensions: descent ends at the predicted distance from the ray."""
    rows = np.array([[1.0, 1.0, 0.0], [1.0, -0.7, 0.9], [1.0, -0.4, -1.2]])
    lam = np.linalg.solve(rows @ rows.T, np.ones(3))
    w_hat, copies = lam @ rows, np.array([3.0, 0.5, 1.0])
    w = np.zeros(3)
    for _ in range(50_000):
        w = w + 3 / copies.sum() * (copies * np.exp(-np.logaddexp(0, rows @ w))) @ rows
    across = w - (w @ w_hat) / (w_hat @ w_hat) * w_hat
    assert min(lam) > 0.1
    np.testing.assert_allclose(np.linalg.norm(across), creep(rows, lam, copies), rtol=3e-3)
    assert abs(creep(rows, lam, np.ones(3)) / creep(rows, lam, copies) - 1) > 0.2
    assert creep(rows, lam, 7 * lam) < 1e-12


@pytest.mark.parametrize("n", [10, 20, 40])
def test_a_rest_ends_when_the_next_point_joins(n, lesson):
    """From t = 10^5 on, where one point has nearly all the weight and no third comes near within a decade.

    Until then the loss is 1 / (eta |x|^2 t); from every start it is at least 1 / (1/L_1 + eta R^2 t).
    """
    decades, rested = np.linspace(-1.95, 30, 1599), 0
    for seed in range(24):
        points = data.separable_points(n=n, seed=seed)
        A, y = (points.y[:, None] * points.X).numpy(), np.ones(n)
        for start in ((20.0, -20.0), (-20.0, 40.0)):
            path = lesson["flow"](A, y, start, 10**decades, 0.5)
            u = path @ A.T
            losses, weights = np.logaddexp(0, -u).mean(axis=1), np.exp(-np.logaddexp(0, u))
            least = 1 / (1 / losses[0] + 0.5 * (A**2).sum(axis=1).max() * 10**decades)
            assert (losses >= (1 - 1e-3) * least)[1:].all()
            share = weights.max(axis=1) / weights.sum(axis=1)
            k = int(np.searchsorted(decades, 5))
            heavy = weights[k].argmax()
            x, square = A[heavy], A[heavy] @ A[heavy]
            alone = [
                joins(path[k], np.vstack([x, a]), np.ones(2), 0.5) + np.log10(n / 2)
                for a in np.delete(A, heavy, axis=0)
                if a @ x < 0.8 * square and (a - x) @ path[k] > 2 + np.log(99)
            ]
            if share[k] < 0.9999 or len(alone) < 2 or np.diff(np.sort(alone)[:2])[0] < 1 or min(alone) > 29:
                continue
            end = joins(path[k], A, y, 0.5)
            measured = decades[k:][np.argmax(share[k:] < 0.99)]
            assert abs(measured - end) < 0.2
            np.testing.assert_allclose(losses[k] * 0.5 * square * 10 ** decades[k], 1, atol=0.05)
            rested += 1
    assert rested >= 5


def test_the_flow_is_the_limit_of_small_steps(lesson, twelve):
    """At t = 100, plain steps of size 1/k, k times as many: the difference falls like 1/k."""
    X, y = twelve
    (end,) = lesson["flow"](X, y, (0, 0), [100], 1.0)
    apart = []
    for k in (4, 16, 64):
        w = np.zeros(2)
        for _ in range(100 * k):
            w = w - gradient(w, X, y) / k
        apart.append(np.linalg.norm(w - end))
    assert apart[0] > 3 * apart[1] > 6 * apart[2]


def test_who_has_the_weight_from_a_start_far_out(lesson, twelve):
    """The text and the question: the first point, until 10^11 nearly alone, with a fifth of the bound."""
    X, y = twelve
    for t in (1e5, 1e6, 1e8, 1e11):
        (w,) = lesson["flow"](X, y, (-20, 40), [t], 1.0)
        weights = np.exp(-np.logaddexp(0, y * (X @ w)))
        assert weights[0] / weights.sum() > 0.97
        np.testing.assert_allclose(np.logaddexp(0, -y * (X @ w)).mean() * t / 2, 0.2, rtol=0.01)


@pytest.fixture(scope="module")
def twelve():
    """The lesson's own points, read from its source."""
    source = (ROOT / "course" / "source" / "01_logistic_regression_bias.py").read_text()
    named = {
        target.id: ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name)
        if target.id in ("positive", "negative")
    }
    return np.array(named["positive"] + named["negative"]), np.repeat([1.0, -1.0], 6)


def moved(lesson, twelve, x1, x2):
    """What the widget shows: its two titles, the angles of w along the run, and of the largest margin."""
    plane, course = lesson["margin_figure"](*twelve, x1=x1, x2=x2).axes
    angles = course.lines[0].get_ydata()
    target = course.lines[1].get_ydata()[0] if len(course.lines) > 1 else None
    return plane.get_title(), course.get_title(), angles, target


def test_the_answers_to_the_widgets_tasks(lesson, twelve):
    assert len({moved(lesson, twelve, 1.5, x2)[3] for x2 in (0.1, 0.2, 1.0)}) == 1
    assert moved(lesson, twelve, 1.5, 0.0)[3] != moved(lesson, twelve, 1.5, 0.1)[3]
    _, _, angles, target = moved(lesson, twelve, 0.3, -0.7)
    assert abs(angles[-1] - target) < 0.01
    margin_title, norm_title, *_ = moved(lesson, twelve, -1.0, 0.0)
    assert margin_title == "not separable: no margin"
    assert "= 2.4 at" in norm_title


FOUR = np.array([[1.5, -0.5], [2.8, -0.4], [-0.3, -0.7], [-2.0, -0.5]]), np.array([1.0, 1.0, -1.0, -1.0])


def test_margin_figure_names_the_margin_of_the_moved_point_and_leaves_no_figure_open(lesson):
    margin_figure = lesson["margin_figure"]
    plane, _ = margin_figure(*FOUR, x1=1.5, x2=-0.5).axes
    assert plane.get_title() == "largest margin 0.71"  # (1, 1) / sqrt(2), held by the first and third point
    dashed = next(line for line in plane.lines if line.get_linestyle() == "--")
    np.testing.assert_allclose(np.array(dashed.get_xy2()) @ [1, 1], 0, atol=1e-3)
    plane, _ = margin_figure(*FOUR, x1=-0.3, x2=-0.7).axes
    assert plane.get_title() == "not separable: no margin"
    assert plt.get_fignums() == []


def spent(action, *args):
    start = time.process_time()  # not wall time: the machine may be busy with other tests
    action(*args)
    return time.process_time() - start


@pytest.mark.slow
def test_margin_widget_answers_a_slider_about_as_fast_as_axes_can_be_drawn(lesson):
    margin_figure, margin_widget = lesson["margin_figure"], lesson["margin_widget"]
    box = margin_widget(*FOUR)
    size = margin_figure(*FOUR, x1=1.5, x2=-0.5).get_size_inches()

    def draw_empty():
        figure = Figure(figsize=size)
        figure.subplots(1, 2)
        figure.savefig(io.BytesIO(), format="png", dpi=90)

    times, empty, pictures = [], [], {box.children[-1].value}
    for x1 in (0.8, 1.1, 2.0, 0.4):
        times.append(spent(setattr, box.children[0], "value", x1))
        empty.append(spent(draw_empty))
        pictures.add(box.children[-1].value)
    assert len(pictures) == 5
    assert min(times) < 4 * min(empty)  # measured: twice; 80 ms on an idle laptop
