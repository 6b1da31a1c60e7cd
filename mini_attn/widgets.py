"""The lessons' interactive figures: controls above a picture, redrawn within 150 ms at each move."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets
from matplotlib.figure import Figure

from mini_attn.pictures import to_html


def sliders(
    draw: Callable[..., Figure], alt: str = "Interactive figure", **controls: ipywidgets.ValueWidget
) -> ipywidgets.VBox:
    """Puts controls above a picture, and redraws it whenever one of them moves.

    Args:
        draw: the controls' values, by name -> a Figure made without pyplot, so that nothing stays open.
        alt: what the picture shows, for those who cannot see it; the controls' values are added to it.
        controls: sliders and the like, by the name of draw's argument.

    Introduced in lesson 01.
    """
    picture = ipywidgets.HTML(layout={"align_self": "flex-start"})  # an Image widget has no text

    def redraw(_=None):
        values = {name: control.value for name, control in controls.items()}
        now = ", ".join(f"{controls[name].description or name} {value}" for name, value in values.items())
        picture.value = to_html(draw(**values), f"{alt.rstrip('.')}; now {now}.", dpi=100, crop=False)

    for control in controls.values():
        control.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([*controls.values(), picture])
