"""The interactive figures: a control that moves redraws the picture, and the picture is right."""

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


def test_margin_widget_answers_a_slider_quickly():
    box = widgets.margin_widget(X, y)
    times, pictures = [], {bytes(box.children[-1].value)}
    for x1 in (0.8, 1.1, 2.0, 0.4):
        start = time.process_time()  # not wall time: the machine may be busy with other tests
        box.children[0].value = x1
        times.append(time.process_time() - start)
        pictures.add(bytes(box.children[-1].value))
    assert len(pictures) == 5
    assert min(times) < 0.15
