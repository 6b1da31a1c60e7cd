"""Trial functions that cost nothing, so that the tests are about what goes on around them."""

import numpy as np
import pytest
import torch


def noise(n, p, *, trials, seed):
    """Numbers, words and truth values of independent draws."""
    x = torch.randn(trials, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    size = (x.abs() ** p).mean(-1)
    return {
        "size": size,
        "large": size > 1,
        "word": np.where(size > 1, "large", "small"),
        "count": (x > 0).sum(-1),
    }


@pytest.fixture
def experiment():
    return noise


@pytest.fixture
def options():
    return {"grid": {"n": [2, 4], "p": [0.5, 1, 2]}, "trials": 25, "batch": 10, "seed": 3, "progress": False}
