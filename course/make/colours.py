"""Whether a figure can be read: by people who see fewer colours, and text against what lies behind it.

The builder looks at every figure while it runs a lesson. Series on one axes must differ by more than a hue
that some readers do not see (or also by marker or line style); text needs a contrast of 4.5 to 1 (WCAG AA).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text

APART = 15.0  # distance in CIELAB; 2 is what an eye trained for it just sees side by side
CONTRAST = 4.5
# How linear RGB looks to people without long-wave and without middle-wave cones.
# Source: Machado, Oliveira & Fernandes (2009), A physiologically-based model for simulation of color vision
# deficiency, IEEE TVCG 15(6), severity 1.
MISSING = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)


def problems(figure: Figure) -> list[str]:
    """What some readers will not be able to tell apart or to read, a sentence each."""
    found = [problem for ax in figure.axes for problem in _alike(ax)]
    return found + _faint(figure)


def watch() -> None:
    """From now on, refuse figures with problems: the builder calls this in the kernel of a lesson."""
    from course import figure
    from mini_attn import pictures, widgets

    def checked(drawn: Figure, alt: str, **options) -> str:
        found = problems(drawn)
        if found:
            raise ValueError("This figure cannot be read by everybody: " + "; ".join(found) + ".")
        return pictures.to_html(drawn, alt, **options)

    figure.to_html = widgets.to_html = checked


def linear(color) -> np.ndarray:
    """A colour's linear RGB (3,), laid over white where it is transparent."""
    *rgb, alpha = to_rgba(color)
    rgb = alpha * np.array(rgb) + (1 - alpha)
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def distance(one, other, missing: str | None = None) -> float:
    """How different two colours look, in CIELAB; `missing` names the colours that a reader does not see."""
    seen = np.eye(3) if missing is None else np.array(MISSING[missing])
    return float(np.linalg.norm(_lab(seen @ linear(one)) - _lab(seen @ linear(other))))


def contrast(one, other) -> float:
    """The ratio of the luminances of two colours, from 1 to 21, as WCAG defines it."""
    dark, light = sorted(float(TO_XYZ[1] @ linear(color)) for color in (one, other))
    return (light + 0.05) / (dark + 0.05)


def _lab(rgb: np.ndarray) -> np.ndarray:
    white = TO_XYZ.sum(axis=1)
    ratio = TO_XYZ @ np.clip(rgb, 0, 1) / white
    x, y, z = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def _series(ax: Axes) -> Iterator[tuple[str, tuple]]:
    """The colours of lines, dots and bars on one axes, each with what else tells it from others."""
    for line in ax.lines:
        if line.get_visible() and len(line.get_xdata(orig=True)):
            style, marker = line.get_linestyle(), line.get_marker()
            color = line.get_markerfacecolor() if style in ("None", "") else line.get_color()
            color = line.get_color() if str(color) == "none" else color
            yield to_hex(_faded(color, line.get_alpha()), keep_alpha=True), ("line", style, str(marker))
    for dots in ax.collections:
        if isinstance(dots, PathCollection) and dots.get_visible() and dots.get_array() is None:
            colors = dots.get_facecolors() if len(dots.get_facecolors()) else dots.get_edgecolors()
            shape = dots.get_paths()[0].vertices.round(3).tobytes() if dots.get_paths() else b""
            yield from (
                (to_hex(color, keep_alpha=True), ("dots", shape)) for color in np.unique(colors, axis=0)
            )
    for bar in ax.patches:
        if bar.get_visible() and to_rgba(bar.get_facecolor())[3] > 0:
            yield to_hex(bar.get_facecolor(), keep_alpha=True), ("bar", bar.get_hatch())


def _faded(color, alpha: float | None) -> tuple:
    return to_rgba(color, alpha) if alpha is not None else to_rgba(color)


def _alike(ax: Axes) -> Iterator[str]:
    """Pairs of series whose colours most people tell apart and some do not."""
    pairs = itertools.combinations(sorted(set(_series(ax)), key=str), 2)
    for (one, how), (other, as_well) in pairs:
        if how != as_well or distance(one, other) < APART:  # shades of one colour are meant to be alike
            continue
        for missing in MISSING:
            if distance(one, other, missing) < APART:
                yield f"{one} and {other} differ in nothing but colour, and look alike with {missing}"


def _faint(figure: Figure) -> list[str]:
    """Texts that stand out too little from what is drawn behind them."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    height = canvas.buffer_rgba().shape[0]
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in texts]
    alphas = [text.get_alpha() for text in texts]
    for text in texts:
        text.set_alpha(0)  # hidden, it would take no place, and the layout would change
    canvas.draw()
    page = np.asarray(canvas.buffer_rgba())[..., :3] / 255
    found = []
    for text, box, alpha in zip(texts, boxes, alphas, strict=True):
        text.set_alpha(alpha)
        rows = slice(max(0, round(height - box.y1)), max(0, round(height - box.y0)))
        behind = page[rows, max(0, round(box.x0)) : max(0, round(box.x1))].reshape(-1, 3)
        if len(behind):
            color, paper = _faded(text.get_color(), alpha), np.median(behind, axis=0)
            seen = color[3] * np.array(color[:3]) + (1 - color[3]) * paper
            if contrast(tuple(seen), tuple(paper)) < CONTRAST:
                ratio = contrast(tuple(seen), tuple(paper))
                found.append(
                    f"the text {text.get_text()!r} has a contrast of {ratio:.1f} to 1, not {CONTRAST:g}"
                )
    return found
