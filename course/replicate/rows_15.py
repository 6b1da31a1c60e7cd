"""The third paper's figures: divergences from three SVMs, and what test accuracies on IMDb say."""

import numpy as np
import torch

from course.replicate.rows import Estimate, Row, exact, mean
from mini_attn import data, heads, models, optim, train

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


def _on_first(rho: float) -> Estimate:
    """Joint toy: attention of sequence 1 on (1, 0), rather than (0, 0), after 960 steps of W and v from 0."""
    X = torch.tensor([[[[1, 0], [0, 0]], [[2, -1], [1.5, 1]]]], dtype=torch.float64)
    y = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    tokens = data.TokenData(X, z=X[:, [0, 0], 0], y=y, v=0 * X[:, 0, 0])
    model = models.CrossAttention(2, trials=1, head=heads.LinearHead(2, trials=1))
    groups = [{"params": [one]} for one in (model.W, model.head.v)]  # normalised one by one
    optimizer = optim.MirrorDescent(groups, 0.01, rho, batch_dims=1)
    train.fit(model, tokens, optimizer, 960, schedule=train.growing, every=960, progress=False)
    model.requires_grad_(False)
    return exact(round(float(model.attention(tokens)[0, 0, 0]), 2))


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
        "15.6",
        "15.published",
    ),
    Row(
        "15.two",
        "mirror",
        "the same, from the SVM of rho = 2, of the tokens that its own run selected",
        0.18,
        NEAR,
        _divergence("three", "theirs", 1),
        "15.6",
        "15.published",
    ),
    Row(
        "15.one",
        "mirror",
        "the same, from the SVM of rho = 1.75",
        0.21,
        NEAR,
        _divergence("three", "theirs", 0),
        "15.6",
        "15.published",
    ),
    Row(
        "15.two_alike",
        "mirror",
        "from the SVM of rho = 2, of the same tokens",
        0.18,
        NEAR,
        _divergence("one", "own", 1),
        "15.6",
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
        "15.6",
        "15.published",
        LIKE,
    ),
    *(
        Row(
            f"15.joint_{rho:g}",
            "mirror",
            f"joint toy, rho = {rho:g}: whether sequence 1 selects (1, 0) rather than (0, 0)",
            published,
            0.02,
            lambda rho=rho: _on_first(rho),
            "15.9",
        )
        for rho, published in ((1.75, 1.0), (2.0, 1.0), (3.0, 0.0))
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
