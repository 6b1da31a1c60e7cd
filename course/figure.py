"""Showing a figure in a lesson, with a text for those who cannot see it."""

from __future__ import annotations

import matplotlib.pyplot as plt
from IPython import get_ipython
from IPython.display import display
from matplotlib.figure import Figure

from mini_attn.pictures import to_html


def show(figure: Figure, alt: str) -> None:
    """Show a figure with an alternative text, and close it.

    The text is in the image's `alt`, where screen readers find it in JupyterLab, in pages and in slides. It
    is also the output's plain form, which terminals print and tests compare (images differ between machines).

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
    data = {"text/html": to_html(figure, alt), "text/plain": alt}
    plt.close(figure)
    display(data, raw=True)
