"""What the lessons draw: one style, one colour-blind-safe palette, and a few pictures that return.

Every plot takes `ax=None` (the current axes) and returns the Axes it drew on.
"""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from numpy.typing import ArrayLike

# Okabe & Ito (2008): eight colours that people with any common colour vision tell apart.
COLORS = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "black": "#000000",
    "grey": "#666666",  # not of the palette: for context behind the data
}


def ink(color: str) -> str:
    """A colour of the palette, darkened until text in it can be read on white (contrast 4.5 to 1, WCAG AA).

    Args:
        color: a name in COLORS, or any colour of matplotlib's.

    Returns:
        The colour as "#rrggbb"; one that is dark enough comes back as it is.

    Introduced in lesson 01.
    """
    rgb = np.array(to_rgb(COLORS.get(color, color)))
    light = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = float(light @ [0.2126, 0.7152, 0.0722])
    light *= min(1.0, (1.05 / 4.6 - 0.05) / max(luminance, 1e-9))
    return to_hex(np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055))


def style() -> None:
    """Sets matplotlib's defaults for the course: readable from the last row, small as a file.

    Introduced in lesson 01.
    """
    cycle = [COLORS[name] for name in ("blue", "vermillion", "green", "orange", "purple", "sky", "black")]
    plt.rcParams.update(
        {
            "axes.prop_cycle": plt.cycler(color=cycle),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": 13,
            "axes.labelsize": 12,
            "font.size": 12,
            "legend.fontsize": 11,
            "legend.frameon": False,
            "lines.linewidth": 2.2,
            "figure.figsize": (6.0, 4.0),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "savefig.dpi": 100,
        }
    )


def points(X: ArrayLike, y: ArrayLike, ax: Axes | None = None, size: float = 60) -> Axes:
    """Draws labelled points of the plane: blue discs for y = +1, vermillion squares for y = -1.

    Args:
        X: (n, 2) points.
        y: (n,) labels, -1 or +1.
        ax: where to draw; the current axes by default.
        size: area of a marker, in points squared.

    Introduced in lesson 01.
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    if X.ndim != 2 or X.shape[1] != 2 or y.shape != X.shape[:1]:
        raise ValueError(
            f"points needs X of shape (n, 2) and y of shape (n,); got {X.shape} and {y.shape}. "
            "Draw one trial at a time, in two dimensions."
        )
    if not (np.abs(y) == 1).all():
        raise ValueError(
            f"labels y must be -1 or +1; found {y[np.abs(y) != 1][0]}, which no marker stands for"
        )
    ax = ax or plt.gca()  # after the checks: it may open a figure
    for label, marker, color in ((1, "o", COLORS["blue"]), (-1, "s", COLORS["vermillion"])):
        chosen = X[y == label]
        ax.scatter(*chosen.T, s=size, marker=marker, color=color, edgecolor="white", zorder=3)
    ax.set(xlabel="$x_1$", ylabel="$x_2$")
    ax.set_aspect("equal")
    return ax


def boundary(w: ArrayLike, ax: Axes | None = None, margin: float | None = None, **line) -> Axes:
    """Draws the line w.x = 0, and the strip of half-width `margin` around it if one is given.

    Args:
        w: (2,) weights; only their direction matters.
        ax: where to draw; the current axes by default.
        margin: half-width of the strip |w.x| / ||w|| <= margin, in the units of x.
        line: colour, label and so on, passed to matplotlib.

    Introduced in lesson 01.
    """
    w = np.asarray(w, dtype=float)
    if w.shape != (2,) or not np.isfinite(w).all() or not w.any():
        raise ValueError(f"boundary needs weights w of shape (2,) that are finite and not zero; got {w}")
    ax = ax or plt.gca()
    unit = w / np.linalg.norm(w)
    along = np.array([-unit[1], unit[0]])
    line.setdefault("color", COLORS["black"])
    ax.axline((0, 0), along, **line)
    if margin is not None:
        reach = 100 * along
        edge = margin * unit
        corners = [edge + reach, edge - reach, -edge - reach, -edge + reach]
        ax.autoscale(False)
        ax.fill(*np.transpose(corners), color=line["color"], alpha=0.12, linewidth=0, zorder=0)
    return ax


def directions(W: ArrayLike, ax: Axes | None = None, target: ArrayLike | None = None, **dots) -> Axes:
    """Draws directions w / ||w|| on the unit circle, and a ray where they should end.

    Args:
        W: (k, 2) weights along a training run; later ones are drawn larger.
        ax: where to draw; the current axes by default.
        target: (2,) the predicted limit.
        dots: colour, label and so on, passed to matplotlib.

    Introduced in lesson 01.
    """
    ax = ax or plt.gca()
    W = np.asarray(W, dtype=float)
    units = W / np.linalg.norm(W, axis=1, keepdims=True)
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color=COLORS["grey"], linewidth=1)
    if target is not None:
        end = 1.15 * np.asarray(target, dtype=float) / np.linalg.norm(target)
        ax.plot([0, end[0]], [0, end[1]], color=COLORS["black"], linestyle="--")
    dots.setdefault("color", COLORS["blue"])
    ax.scatter(*units.T, s=np.linspace(15, 110, len(units)), edgecolor="white", zorder=3, **dots)
    ax.set_aspect("equal")
    return ax


def convergence(
    steps: ArrayLike,
    measured: ArrayLike,
    predicted: ArrayLike | None = None,
    ax: Axes | None = None,
    since: float = 0,
    **dots,
) -> Axes:
    """Draws a measured quantity against steps (logarithmic axis) and, dashed, what theory says of it.

    Args:
        steps: (k,) positive step numbers.
        measured: (k,) values; NaN where there is none.
        predicted: (k,) values; NaN where theory says nothing.
        ax: where to draw; the current axes by default.
        since: step from which on the prediction is drawn.
        dots: label, marker and so on of the measured values, passed to matplotlib; color is for both.

    Introduced in lesson 01.
    """
    ax = ax or plt.gca()
    (curve,) = ax.plot(steps, measured, **{"marker": "o", "markersize": 5, "linestyle": "", **dots})
    if predicted is not None:
        predicted = np.where(np.asarray(steps) >= since, predicted, np.nan)
        ax.plot(steps, predicted, linestyle="--", linewidth=1.8, color=curve.get_color())
    ax.set_xscale("log")
    ax.set_xlabel("step $t$")
    return ax


def weights(
    paths: dict[str, ArrayLike],
    slope: ArrayLike,
    offset: ArrayLike,
    reach: float,
    ax: Axes | None = None,
    linestyle: str = "",
) -> Axes:
    """Draws training runs in the plane of weights, and the line slope log t + offset that they approach.

    Args:
        paths: (k, 2) weights along each run, by its name for the legend.
        slope: (2,) change of the weights per unit of log t.
        offset: (2,) where the line is at t = 1.
        reach: log t up to which the line is drawn.
        ax: where to draw; the current axes by default.
        linestyle: of what joins the dots; nothing by default.

    Introduced in lesson 01.
    """
    ax = ax or plt.gca()
    line = np.outer([0, reach], slope) + np.asarray(offset, dtype=float)
    ax.plot(*line.T, color=COLORS["grey"], label=r"$\hat w \,\log t + \tilde w$")
    for (name, path), marker in zip(paths.items(), itertools.cycle("osD^")):
        ax.plot(
            *np.transpose(path), marker=marker, markersize=4.5, linewidth=1, linestyle=linestyle, label=name
        )
    ax.set(xlabel="$w_1$", ylabel="$w_2$")
    return ax
