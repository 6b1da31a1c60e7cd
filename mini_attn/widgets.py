"""The lessons' interactive figures: controls above a picture, redrawn within 150 ms at each move."""

from __future__ import annotations

import io
from collections.abc import Callable

import ipywidgets
from matplotlib.figure import Figure


def sliders(draw: Callable[..., Figure], **controls: ipywidgets.ValueWidget) -> ipywidgets.VBox:
    """Puts controls above a picture, and redraws it whenever one of them moves.

    Args:
        draw: the controls' values, by name -> a Figure made without pyplot, so that nothing stays open.
        controls: sliders and the like, by the name of draw's argument.

    Introduced in lesson 01.
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
