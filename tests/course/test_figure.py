"""Figures carry their alternative text wherever they go."""

import io
from base64 import b64decode

import matplotlib.pyplot as plt
import pytest
from PIL import Image

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
    assert options == {"raw": True, "metadata": {"image/png": {"alt": ALT}}}
    picture = Image.open(io.BytesIO(b64decode(data["image/png"])))
    assert picture.format == "PNG"
    assert "Software" not in picture.info
    assert not plt.fignum_exists(line.number)


def test_plain_python_prints_the_text(line, capsys):
    figure.show(line, alt=ALT)
    assert capsys.readouterr().out == f"[Figure: {ALT}]\n"
    assert not plt.fignum_exists(line.number)


@pytest.mark.parametrize("alt", ["", "  ", "A plot"])
def test_text_must_say_something(line, alt):
    with pytest.raises(ValueError, match="describe what the figure shows"):
        figure.show(line, alt=alt)
