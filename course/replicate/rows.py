"""The replication table: a published figure, ours beside it with an interval, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from course.replicate.stored import listed, measured

PAPERS = {
    "max-margin": "Tarzanagh and others, Max-Margin Token Selection in Attention (arXiv 2306.13596)",
    "transformers": "Tarzanagh and others, Transformers as Support Vector Machines (arXiv 2308.16898)",
    "mirror": "Julistiono and others, Optimizing Attention with Mirror Descent (arXiv 2410.14581)",
    "next-token": "Huang and others, Non-asymptotic Convergence of Training Transformers for Next-token "
    "Prediction (arXiv 2409.17335)",
    "graph": "Li and others, Mechanics of Next Token Prediction with Self-Attention (arXiv 2403.08081)",
    "separable": "Soudry and others, The Implicit Bias of Gradient Descent on Separable Data (arXiv "
    "1710.10345), for linear models",
    "dual": "Ji and Telgarsky, Characterizing the Implicit Bias via a Primal-Dual Analysis (arXiv "
    "1906.04540), for linear models",
    "muon": "Fan and others, Implicit Bias of Spectral Descent and Muon on Multiclass Separable Data "
    "(arXiv 2502.04664), for linear models",
}


@dataclass(frozen=True)
class Estimate:
    """What we measured: a number, the interval in which a repetition would lie, and from how many trials."""

    value: float
    low: float
    high: float
    trials: int


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        id: the lesson and a name, "11.nuclear".
        paper: a key of `PAPERS`.
        quantity: what was measured, with its setting.
        published: the published value.
        within: how exactly it is known: half a unit of its last digit, or more where it was read off a plot.
        ours: computes our estimate from the stored sweep (from nothing, where `sweep` is None).
        section: where the course shows it, "11.2".
        sweep: the stored sweep.
        differs: why the two differ; empty where they agree. A test compares it with the numbers.
        seed: of trials that are computed whenever the row is shown; a stored sweep has its own.
    """

    id: str
    paper: str
    quantity: str
    published: float
    within: float
    ours: Callable[..., Estimate]
    section: str
    sweep: str | None = None
    differs: str = ""
    seed: int | None = None

    def estimate(self) -> Estimate:
        """Our value, from the stored sweep."""
        return self.ours(measured(self.sweep).load()) if self.sweep else self.ours()

    def agrees(self, found: Estimate) -> bool:
        """Whether the published value lies in our interval, as exactly as it is known."""
        return found.low - self.within <= self.published <= found.high + self.within


def exact(value: float) -> Estimate:
    """A number without chance in it."""
    return Estimate(float(value), float(value), float(value), 1)


def mean(values, runs: int | None = None) -> Estimate:
    """The mean of our trials, and where the mean of `runs` other trials lies in 95 cases of 100.

    That is mean +- 1.96 sd sqrt(1/ours + 1/runs): what to expect of a figure that was published for `runs`
    trials of its own. Without `runs`, of one published for as many as ours.
    """
    values = values.values.ravel()
    values = values[values == values]  # what is missing is NaN
    half = 1.96 * values.std(ddof=1) * (1 / len(values) + 1 / (runs or len(values))) ** 0.5
    return Estimate(
        float(values.mean()), float(values.mean() - half), float(values.mean() + half), len(values)
    )


def least(values, runs: int) -> Estimate:
    """The least of `runs` trials: the median over groups of so many of ours, and the groups' range."""
    values = values.values.ravel()
    groups = sorted(values[i : i + runs].min() for i in range(0, len(values) - runs + 1, runs))
    return Estimate(float(groups[len(groups) // 2]), float(groups[0]), float(groups[-1]), len(values))


def every() -> list[Row]:
    """All rows, in the order of the lessons."""
    return listed("rows", "ROWS")


def find(id: str) -> Row:
    """The row "11.nuclear".

    Raises:
        ValueError: there is none.
    """
    known = {row.id: row for row in every()}
    if id not in known:
        raise ValueError(f"There is no row {id!r}; there are: {', '.join(known)}.")
    return known[id]
