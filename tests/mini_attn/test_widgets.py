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

    controls = {"a": ipywidgets.FloatSlider(1.5), "b": ipywidgets.IntSlider(2, description="steps")}
    box = widgets.sliders(draw, alt="The sum in the middle.", **controls)
    first = box.children[-1].value
    box.children[1].value = 5
    second = box.children[-1].value
    assert seen == [(1.5, 2), (1.5, 5)]
    assert first.startswith('<img src="data:image/webp;base64,')
    assert first.endswith(' width="100" alt="The sum in the middle; now a 1.5, steps 2.">')
    assert second.endswith(' width="100" alt="The sum in the middle; now a 1.5, steps 5.">')
    assert first.split(" width=")[0] != second.split(" width=")[0]
