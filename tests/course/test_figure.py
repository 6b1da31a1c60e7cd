"""Figures carry their alternative text wherever they go."""

import re

import matplotlib.pyplot as plt
import nbformat
import pytest
from nbconvert import HTMLExporter, SlidesExporter

from course import figure

ALT = "A straight line that rises from one to two."


@pytest.fixture
def line():
    made, ax = plt.subplots()
    ax.plot([1, 2])
    yield made
    plt.close(made)


def test_shown_with_its_text_and_closed(line, monkeypatch):
    shown = []
    monkeypatch.setattr(figure, "get_ipython", lambda: object())
    monkeypatch.setattr(figure, "display", lambda data, **options: shown.append((data, options)))
    figure.show(line, alt=ALT)
    figure.show(line, alt=ALT)
    (data, options), again = shown
    assert again[0] == data
    assert data["text/plain"] == ALT
    assert options == {"raw": True}
    assert data["text/html"].startswith('<img src="data:image/webp;base64,')
    assert data["text/html"].endswith(f' alt="{ALT}">')
    assert not plt.fignum_exists(line.number)


def test_plain_python_prints_the_text(line, capsys):
    figure.show(line, alt=ALT)
    assert capsys.readouterr().out == f"[Figure: {ALT}]\n"
    assert not plt.fignum_exists(line.number)


@pytest.mark.parametrize("alt", ["", "  ", "A plot"])
def test_text_must_say_something(line, alt):
    with pytest.raises(ValueError, match="describe what the figure shows"):
        figure.show(line, alt=alt)


@pytest.mark.parametrize("exporter", [HTMLExporter, SlidesExporter])
def test_the_text_reaches_pages_and_slides(line, monkeypatch, exporter):
    shown = []
    monkeypatch.setattr(figure, "get_ipython", lambda: object())
    monkeypatch.setattr(figure, "display", lambda data, **options: shown.append(data))
    figure.show(line, alt=ALT)
    cell = nbformat.v4.new_code_cell("draw()", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("display_data", shown[0])]
    cell.metadata["slideshow"] = {"slide_type": "slide"}
    page, _ = exporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    images = re.findall(r"<img[^>]*>", page)
    assert len(images) == 1
    assert f'alt="{ALT}"' in images[0]
    assert "No description has been provided" not in page
