"""Rates that papers state, as fitted exponents."""

import torch

from course.replicate.lesson_17 import steps_of
from course.replicate.rows import Estimate, Row
from mini_attn import rates


def _values(found, parameter: str, optimiser: str, what: str) -> torch.Tensor:
    return torch.as_tensor(found[what].sel(parameter=parameter, optimiser=optimiser).values.astype(float))


def exponent(parameter: str, optimiser: str, what: str = "angle"):
    """The median over problems of the exponent in the last decade, and its bootstrap interval."""

    def ours(found) -> Estimate:
        if optimiser == "GD":  # in log j: read from NGD's clock
            x, y = (_values(found, parameter, "NGD", name)[:, 3:] for name in ("clock", what))
        else:
            x = torch.tensor(steps_of(parameter, optimiser)[4:], dtype=torch.float64)
            y = _values(found, parameter, optimiser, what)[:, 4:]
        slopes = rates.slope(x, y)
        return Estimate(*rates.interval(slopes), len(slopes))

    return ours


def row(id: str, paper: str, quantity: str, published: float, section: str, *run, differs: str = "") -> Row:
    """An exponent that a paper states, known up to logarithms: give or take .05."""
    return Row(f"17.{id}", paper, quantity, published, 0.05, exponent(*run), section, f"17.{run[0]}", differs)


ROWS = [
    row(
        "gd_p",
        "separable",
        "p, plain descent: exponent of the angle in the log of the steps",
        -1.0,
        "17.7",
        "p",
        "GD",
    ),
    row("gd_W", "separable", "the same for W", -1.0, "17.7", "W", "GD"),
    row(
        "ngd_p", "dual", "p, normalised descent: exponent of the angle in the steps", -1.0, "17.7", "p", "NGD"
    ),
    row("ngd_W", "dual", "the same for W", -1.0, "17.7", "W", "NGD"),
    row(
        "sign_p",
        "muon",
        "p, sign descent with steps 1/sqrt(j): exponent of the margin's error",
        -0.5,
        "17.7",
        "p",
        "sign, decaying",
        "gap",
    ),
    row("sign_W", "muon", "the same for W", -0.5, "17.7", "W", "sign, decaying", "gap"),
    row(
        "spectral_W",
        "muon",
        "W, spectral descent with steps 1/sqrt(j): exponent of the margin's error",
        -0.5,
        "17.7",
        "W",
        "spectral, decaying",
        "gap",
    ),
]
