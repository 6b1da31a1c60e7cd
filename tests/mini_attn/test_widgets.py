"""The interactive figures: a control that moves redraws the picture, and the picture is right."""

import io
import time

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from mini_attn import widgets

X = np.array([[1.5, -0.5], [2.8, -0.4], [-0.3, -0.7], [-2.0, -0.5]])
y = np.array([1.0, 1.0, -1.0, -1.0])


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


def test_margin_figure_names_the_margin_of_the_moved_point_and_leaves_no_figure_open():
    plane, _ = widgets.margin_figure(X, y, x1=1.5, x2=-0.5, eta=1.0).axes
    assert plane.get_title() == "largest margin 0.71"  # (1, 1) / sqrt(2), held by the first and third point
    dashed = next(line for line in plane.lines if line.get_linestyle() == "--")
    np.testing.assert_allclose(np.array(dashed.get_xy2()) @ [1, 1], 0, atol=1e-3)
    plane, _ = widgets.margin_figure(X, y, x1=-0.3, x2=-0.7, eta=1.0).axes
    assert plane.get_title() == "not separable: no margin"
    assert plt.get_fignums() == []


def spent(action, *args):
    start = time.process_time()  # not wall time: the machine may be busy with other tests
    action(*args)
    return time.process_time() - start


def test_margin_widget_answers_a_slider_about_as_fast_as_axes_can_be_drawn():
    box = widgets.margin_widget(X, y)
    size = widgets.margin_figure(X, y, x1=1.5, x2=-0.5, eta=1.0).get_size_inches()

    def draw_empty():
        figure = Figure(figsize=size)
        figure.subplots(1, 2)
        figure.savefig(io.BytesIO(), format="png", dpi=90)

    times, empty, pictures = [], [], {bytes(box.children[-1].value)}
    for x1 in (0.8, 1.1, 2.0, 0.4):
        times.append(spent(setattr, box.children[0], "value", x1))
        empty.append(spent(draw_empty))
        pictures.add(bytes(box.children[-1].value))
    assert len(pictures) == 5
    assert min(times) < 4 * min(empty)  # measured: twice; 80 ms on an idle laptop
