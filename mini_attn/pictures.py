"""From a matplotlib figure to an image that carries its text: the same for stored figures and for widgets."""

from __future__ import annotations

import html
import io
from base64 import b64encode

from matplotlib.figure import Figure
from PIL import Image

DPI = 200  # twice what the page shows: sharp when a projector or a screen has more pixels
SHOWN = 100  # pixels of the page that stand for an inch of the figure


def to_html(figure: Figure, alt: str, dpi: int = DPI, crop: bool = True) -> str:
    """A figure as an `<img>` that holds both the picture and its alternative text.

    JupyterLab and nbconvert drop the alternative text of a plain image output; this they keep, in pages and
    in slides. The picture is stored without loss, in its true colours.

    Args:
        figure: a matplotlib figure; it stays open.
        alt: what it shows, for those who cannot see it.
        dpi: pixels an inch. The page shows 100 of them, whatever it is.
        crop: leave out what is empty around the figure; not where pictures of one size follow each other.

    Returns:
        The element, with the picture in it as a data URL.
    """
    drawn, stored = io.BytesIO(), io.BytesIO()
    box = "tight" if crop else None
    figure.savefig(
        drawn,
        format="png",
        dpi=dpi,
        bbox_inches=box,
        facecolor="white",  # in dark themes too
        pil_kwargs={"compress_level": 0},  # it is read again at once
    )
    picture = Image.open(drawn).convert("RGB")
    picture.save(stored, format="WEBP", lossless=True, quality=60, method=4)  # a third of a PNG's bytes
    data = b64encode(stored.getvalue()).decode("ascii")
    width = round(picture.width * SHOWN / dpi)
    return f'<img src="data:image/webp;base64,{data}" width="{width}" alt="{html.escape(alt)}">'
