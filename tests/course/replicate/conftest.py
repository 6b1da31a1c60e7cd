import pytest
import torch

from course.replicate.stored import Measured


def trial(d, scale, *, trials, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"length": scale * torch.randn(trials, d, generator=generator).norm(dim=-1)}


@pytest.fixture
def one(tmp_path, monkeypatch):
    """A sweep of 30 trials in batches of 10, of nothing in particular, not computed yet."""
    monkeypatch.setattr("course.replicate.stored.RESULTS", tmp_path)
    grid = {"d": [2, 3, 5], "scale": [1.0, 2.0]}
    return Measured("99.lengths", "Lengths.", trial, grid, trials=30, batch=10, paired=("scale",))
