"""The interactive figures: a control that moves redraws the picture."""

import ipywidgets
from matplotlib.figure import Figure

from mini_attn import widgets


def test_moving_a_slider_redraws_with_the_new_values():
    seen = []

    def draw(a, b):
        seen.append((a, b))
        figure = Figure(figsize=(1, 1))
        figure.text(0.5, 0.5, str(a + b))
        return figure

    box = widgets.sliders(draw, a=ipywidgets.FloatSlider(1.0), b=ipywidgets.IntSlider(2))
    first = box.children[-1].value
    box.children[1].value = 5
    assert seen == [(1.0, 2), (1.0, 5)]
    assert bytes(first).startswith(b"\x89PNG")
    assert bytes(box.children[-1].value) != bytes(first)
