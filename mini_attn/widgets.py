"""The lessons' interactive figures: controls above a picture, redrawn within 150 ms at each move."""

from __future__ import annotations

import io
from collections.abc import Callable

import ipywidgets
import numpy as np
from matplotlib.figure import Figure

from mini_attn import plots
from mini_attn.plots import COLORS


def sliders(draw: Callable[..., Figure], **controls: ipywidgets.ValueWidget) -> ipywidgets.VBox:
    """Puts controls above a picture, and redraws it whenever one of them moves.

    Args:
        draw: the controls' values, by name -> a Figure made without pyplot, so that nothing stays open.
        controls: sliders and the like, by the name of draw's argument.

    Introduced in lesson 03.
    """
    picture = ipywidgets.Image(format="png", layout={"align_self": "flex-start"})  # stretched, it blurs

    def redraw(_=None):
        buffer = io.BytesIO()
        figure = draw(**{name: control.value for name, control in controls.items()})
        figure.savefig(buffer, format="png", dpi=90)
        picture.value = buffer.getvalue()

    for control in controls.values():
        control.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([*controls.values(), picture])


def _slider(
    value: float, low: float, high: float, label: str, kind=ipywidgets.FloatSlider, step: float = 0.1
):
    layout = ipywidgets.Layout(width="480px")
    style = {"description_width": "150px"}
    return kind(value=value, min=low, max=high, step=step, description=label, layout=layout, style=style)


# Lesson 01


def margin_figure(X: np.ndarray, y: np.ndarray, x1: float, x2: float, eta: float) -> Figure:
    """Draws where gradient descent goes, from zero, when the first point is moved to (x1, x2).

    Left the points, the line of w after 3,000 steps of w <- w - eta grad L(w) on the mean logistic loss, and
    the max-margin line with its strip; right the direction of w against steps.

    Args:
        X: (n, 2) points. y: (n,) labels, -1 or +1.
        x1, x2: where to put the first point.
        eta: step size.

    Introduced in lesson 01.
    """
    X = np.concatenate([[[x1, x2]], X[1:]])
    A = y[:, None] * X
    at = np.unique(np.geomspace(1, 3000, 40).round().astype(int))
    W, w = [], np.zeros(2)
    for t in range(1, at[-1] + 1):
        w = w + eta / len(y) * np.exp(-np.logaddexp(0, A @ w)) @ A
        if t in at:
            W.append(w)
    degrees = np.degrees(np.unwrap(np.arctan2(*np.transpose(W)[::-1])))

    turn = np.linspace(-np.pi, np.pi, 3601)
    units = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    margins = (units @ A.T).min(axis=1)
    best, margin = units[margins.argmax()], margins.max()

    figure = Figure(figsize=(7.8, 3.3), layout="none")  # constrained layout draws everything twice
    figure.subplots_adjust(left=0.07, right=0.99, bottom=0.15, top=0.9, wspace=0.25)
    plane, course = figure.subplots(1, 2, width_ratios=[1.2, 1])
    plots.points(X, y, plane)
    plane.scatter(x1, x2, s=220, facecolor="none", edgecolor=COLORS["black"], linewidth=1.5)
    plane.set(xlim=(-4.3, 4.3), ylim=(-2.6, 2.6), xticks=[-4, -2, 0, 2, 4], yticks=[-2, 0, 2])
    plots.boundary(w, plane, color=COLORS["green"])
    course.plot(np.log10(at), degrees, color=COLORS["green"], label="gradient descent")
    if margin > 0:
        plots.boundary(best, plane, margin=margin, linestyle="--")
        target = np.degrees(np.arctan2(best[1], best[0]))
        target += 360 * np.round((degrees[-1] - target) / 360)
        course.axhline(target, color=COLORS["black"], linestyle="--", label="largest margin")
        plane.set_title(f"largest margin {margin:.2f}")
    else:
        plane.set_title("not separable: no margin")
    # ticks set by hand: a logarithmic axis with its minor ticks costs 50 ms a drawing
    course.set_xticks([0, 1, 2, 3], ["1", "10", "100", "1000"])
    course.legend(loc="best", fontsize=10)
    length = rf"$\Vert w_t \Vert$ = {np.linalg.norm(w):.1f} at the end"
    course.set(xlabel="step $t$", ylabel="angle of $w_t$ (degrees)", title=length)
    return figure


def margin_widget(X: np.ndarray, y: np.ndarray) -> ipywidgets.VBox:
    """The figure of :func:`margin_figure` with sliders for the first point and the step size.

    Introduced in lesson 01.
    """
    return sliders(
        lambda x1, x2, eta: margin_figure(X, y, x1, x2, eta),
        x1=_slider(float(X[0, 0]), -3.0, 4.0, "ringed point, first"),
        x2=_slider(float(X[0, 1]), -2.4, 2.4, "ringed point, second"),
        eta=_slider(1.0, -2, 2, "step size", ipywidgets.FloatLogSlider),
    )
