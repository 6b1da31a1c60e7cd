"""Lesson 01. On separable data, gradient descent on the logistic loss runs off along the SVM direction.

Soudry et al. 2018, for any step below the smoothness bound and any start: L(w_t) -> 0 as 1/t, ||w_t|| grows
as log t with slope ||w_hat||, and w_t - w_hat log t stays bounded, so that the direction tends to that of
the hard-margin SVM, at distance O(1 / log t). Measured on data whose other points are well behind the margin:
points just behind it fade only as t^-(their distance), and hide the limit.
"""

import numpy as np
import pytest
import torch

from mini_attn import data, geometry, models, optim, svm, train

STEPS = [200, 2000, 20_000]


@pytest.fixture(scope="module")
def batch():
    """The problems among 60 in which every point but the two support vectors has margin at least 1.5."""
    points = [data.separable_points(12, seed=seed) for seed in range(100, 160)]
    X, y = torch.stack([p.X for p in points]), torch.stack([p.y for p in points])
    w = svm.solve(svm.label_problem(X, y)).value
    third = (y * (X @ w[..., None]).squeeze(-1)).sort(-1).values[:, 2]
    chosen = third >= 1.5
    assert chosen.sum() >= 4
    return data.PointData(X[chosen], y[chosen])


@pytest.fixture(scope="module")
def solution(batch):
    return svm.solve(svm.label_problem(batch.X, batch.y))


@pytest.fixture(scope="module", params=[0.0, 2.0], ids=["from zero", "from elsewhere"])
def history(request, batch):
    start = request.param * torch.tensor([1.0, -1.0], dtype=torch.float64)
    model = models.LinearClassifier(2, trials=len(batch.y), init=start)
    smoothness = torch.linalg.matrix_norm(batch.X, ord=2).square().max() / (4 * 12)
    optimizer = torch.optim.SGD(model.parameters(), lr=float(1 / smoothness))
    record = {"w": lambda m: m.w}
    return train.fit(model, batch, optimizer, STEPS[-1], record=record, every=STEPS, progress=False)


def at(history, name):
    return history[name][[history.steps.tolist().index(step) for step in STEPS]]


def test_the_loss_falls_as_one_over_t(history):
    loss = at(history, "loss")
    slope = (loss[2] / loss[1]).log10()
    torch.testing.assert_close(slope, -torch.ones_like(slope), rtol=0, atol=0.15)


def test_each_decade_adds_the_solution_times_log_10(history, solution):
    w = at(history, "w")
    error = [(w[k + 1] - w[k]) / np.log(10) - solution.value for k in (0, 1)]
    size = [e.norm(dim=-1) / solution.objective for e in error]
    assert size[1].median() < 0.2
    assert (size[1] < 0.6 * size[0]).float().mean() > 0.9


def test_the_offset_grows_slower_and_slower(history, solution):
    """Bounded: each further decade adds less to w_t - w_hat log t, and less than to w_t."""
    w = at(history, "w")
    logs = torch.tensor(STEPS, dtype=torch.float64).log()[:, None, None]
    offset = (w - solution.value * logs).diff(dim=0).norm(dim=-1)
    assert (offset[1] < 0.6 * offset[0]).float().mean() > 0.9
    assert (offset[1] < 0.5 * w.diff(dim=0)[1].norm(dim=-1)).all()


def test_normalised_descent_is_far_faster(batch, solution):
    model = models.LinearClassifier(2, trials=len(batch.y))
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.5, batch_dims=1)
    train.fit(model, batch, optimizer, 1000, progress=False)
    assert geometry.cosine(model.w.detach(), solution.value).min() > 1 - 1e-4
