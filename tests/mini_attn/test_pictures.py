"""Pictures for pages: sharp, in their true colours, with the text that stands for them."""

import io
import re
from base64 import b64decode
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from mini_attn.pictures import to_html


@pytest.fixture
def figure():
    # whatever style other tests have set: savefig gives a figure the layout of the style
    with matplotlib.rc_context({"figure.constrained_layout.use": False}):
        made = Figure(figsize=(3, 2))
        made.add_axes((0.2, 0.2, 0.6, 0.6)).imshow(np.linspace(0, 1, 1000).reshape(10, 100), aspect="auto")
        yield made


def image(element):
    data = re.search(r'src="data:image/webp;base64,([^"]+)"', element)[1]
    return Image.open(io.BytesIO(b64decode(data)))


def attributes(element):
    found = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, pairs: found.append((tag, dict(pairs)))
    parser.feed(element)
    ((tag, pairs),) = found
    assert tag == "img"
    return pairs


def test_the_text_survives_whatever_it_holds(figure):
    alt = 'Where x < 1 & "y" > 2.'
    assert attributes(to_html(figure, alt))["alt"] == alt


def test_twice_as_many_pixels_as_the_page_shows(figure):
    for dpi in (100, 200):
        element = to_html(figure, "A ramp.", dpi=dpi, crop=False)
        assert image(element).size == (3 * dpi, 2 * dpi)
        assert attributes(element)["width"] == "300"
    assert image(to_html(figure, "A ramp.")).size < (600, 400)


def test_no_colour_is_lost(figure):
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=200)
    stored = image(to_html(figure, "A ramp.", crop=False)).convert("RGB")
    assert np.array_equal(np.asarray(stored), np.asarray(Image.open(drawn).convert("RGB")))
    assert len(stored.getcolors(10**6)) > 256


def test_same_figure_same_bytes(figure):
    assert to_html(figure, "A ramp.") == to_html(figure, "A ramp.")
