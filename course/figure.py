"""Showing a figure in a lesson, with a text for those who cannot see it."""

from __future__ import annotations

import io
from base64 import b64encode

import matplotlib.pyplot as plt
from IPython import get_ipython
from IPython.display import display
from matplotlib.figure import Figure
from PIL import Image

DPI = 100  # sharp enough on a slide, small enough for a notebook


def show(figure: Figure, alt: str) -> None:
    """Show a figure as a PNG with an alternative text, and close it.

    The text stands beside the image, for nbconvert and the site, and it is the output's plain form, which
    terminals print and tests compare (images themselves differ between machines).

    Args:
        figure: a matplotlib figure.
        alt: what the figure shows, for someone who cannot see it: axes, curves, and what they do.

    Raises:
        ValueError: an alt text that says next to nothing.
    """
    if len(alt.split()) < 5:
        raise ValueError(f"alt={alt!r} says too little; describe what the figure shows in a sentence.")
    if get_ipython() is None:
        plt.close(figure)
        print(f"[Figure: {alt}]")
        return
    data = {"image/png": b64encode(_png(figure)).decode("ascii"), "text/plain": alt}
    plt.close(figure)
    display(data, raw=True, metadata={"image/png": {"alt": alt}})


def _png(figure: Figure) -> bytes:
    """The figure in the 256 colours that fit it best: a third of the bytes, and no visible difference."""
    drawn, stored = io.BytesIO(), io.BytesIO()
    figure.savefig(
        drawn, format="png", dpi=DPI, bbox_inches="tight", facecolor="white"
    )  # white in dark themes too
    picture = Image.open(drawn).convert("RGB")
    few = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(stored, format="PNG", optimize=True)
    return stored.getvalue()
