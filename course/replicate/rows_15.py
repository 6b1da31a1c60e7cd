"""The third paper's figures: divergences from three SVMs, and what test accuracies on IMDb say."""

import numpy as np

from course.replicate.rows import Estimate, Row, mean

RHOS = (1.75, 2.0, 3.0)
NEAR = 0.005  # half a unit of the last digit that is known


def _divergence(starts: str, whose: str, k: int):
    return lambda found: mean(found[whose].sel(starts=starts)[:, 2, k], runs=100)


def _quoted(found, rho: float, how: str) -> np.ndarray:
    """Test accuracy in % of each split: of the best test epoch, or of the last epoch."""
    cell = found.sel(rho=rho).transpose("trial", "doubling", ...)
    n = cell.examples.values
    validation, test = cell.validation.values / n[:, :, 1:2], 100 * cell.test.values / n[:, :, 2:]
    if how == "best":
        return test.max(axis=(1, 2))
    return test[np.arange(len(test)), validation[:, :, -1].argmax(axis=1), -1]


def _points(difference: np.ndarray) -> Estimate:
    half = 1.96 * difference.std(ddof=1) * (1 / len(difference) + 1 / 3) ** 0.5  # three sizes were published
    centre = float(difference.mean())
    return Estimate(centre, centre - half, centre + half, len(difference))


LIKE = "ours: one start, the run's own tokens; with the tokens of a run from another start it agrees"
OTHER = "IMDb and several layers there; here one layer on film sentences, with step sizes tuned alike"

ROWS = [
    Row(
        "15.own",
        "mirror",
        "n, T, d = 6, 8, 10: divergence of the rho = 3 run from its own SVM",
        0.01,
        NEAR,
        _divergence("three", "theirs", 2),
        "15.5",
        "15.published",
    ),
    Row(
        "15.two",
        "mirror",
        "the same, from the SVM of rho = 2, of the tokens that its own run selected",
        0.18,
        NEAR,
        _divergence("three", "theirs", 1),
        "15.5",
        "15.published",
    ),
    Row(
        "15.one",
        "mirror",
        "the same, from the SVM of rho = 1.75",
        0.21,
        NEAR,
        _divergence("three", "theirs", 0),
        "15.5",
        "15.published",
    ),
    Row(
        "15.two_alike",
        "mirror",
        "from the SVM of rho = 2, of the same tokens",
        0.18,
        NEAR,
        _divergence("one", "own", 1),
        "15.5",
        "15.published",
        LIKE,
    ),
    Row(
        "15.one_alike",
        "mirror",
        "from the SVM of rho = 1.75, of the same tokens",
        0.21,
        NEAR,
        _divergence("one", "own", 0),
        "15.5",
        "15.published",
        LIKE,
    ),
    Row(
        "15.best",
        "mirror",
        "film sentences, one layer (there IMDb, several): points of test accuracy, rho = 1.1 minus 2, "
        "best test epoch, mean of three sizes",
        1.9,
        0.05,
        lambda found: _points(_quoted(found, 1.1, "best") - _quoted(found, 2.0, "best")),
        "15.10",
        "15.reviews",
        OTHER,
    ),
    Row(
        "15.last",
        "mirror",
        "the same, last epoch",
        1.0,
        0.05,
        lambda found: _points(_quoted(found, 1.1, "last") - _quoted(found, 2.0, "last")),
        "15.10",
        "15.reviews",
        OTHER,
    ),
    Row(
        "15.peek",
        "mirror",
        "the same data, rho = 2: points between the best test epoch and the last",
        1.0,
        0.05,
        lambda found: _points(_quoted(found, 2.0, "best") - _quoted(found, 2.0, "last")),
        "15.10",
        "15.reviews",
    ),
]
