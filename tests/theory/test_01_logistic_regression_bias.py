"""Lesson 01. On separable data, gradient descent on the logistic loss runs off along the SVM direction.

Soudry et al. 2018, for any step below the smoothness bound and any start: L(w_t) -> 0 as 1/t, ||w_t|| grows
as log t with slope ||w_hat||, and w_t - w_hat log t stays bounded, so that the direction tends to that of
the hard-margin SVM, at distance O(1 / log t). Measured on data whose other points are well behind the margin:
points just behind it fade only as t^-(their distance), and hide the limit.

The loss of the flow is in the end at most 1 / (eta mu^2 t), from every start. Exactly,
1/L = 1/L_0 + eta int (||grad L|| / L)^2 dt: while the quotient rests, L is (mu L / ||grad L||)^2 of that.
"""

import numpy as np
import pytest
import torch
from scipy import integrate

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


def descent(A, w, eta, last):
    """Yield t and w_t of descent on the mean logistic loss of rows A (problems, n, d), t = 1, ..., last."""
    for t in range(1, last + 1):
        weights = np.exp(-np.logaddexp(0, (A @ w[..., None])[..., 0]))
        w = w + eta[:, None] / A.shape[-2] * (weights[:, None] @ A)[:, 0]
        yield t, w


@pytest.fixture(scope="module", params=[0.0, 2.0], ids=["from zero", "from elsewhere"])
def history(request, batch):
    """The losses and the iterates of all problems after STEPS, from one start."""
    A = (batch.y[..., None] * batch.X).numpy()
    start = np.tile(request.param * np.array([1.0, -1.0]), (len(A), 1))
    smoothness = (np.linalg.norm(A, 2, axis=(1, 2)) ** 2).max() / (4 * A.shape[1])
    eta = np.full(len(A), 1 / smoothness)
    w = np.stack([w for t, w in descent(A, start, eta, STEPS[-1]) if t in STEPS])
    loss = np.logaddexp(0, -(A @ w[..., None])[..., 0]).mean(-1)
    return {"loss": torch.tensor(loss), "w": torch.tensor(w)}


def test_the_loss_falls_as_one_over_t(history):
    loss = history["loss"]
    slope = (loss[2] / loss[1]).log10()
    torch.testing.assert_close(slope, -torch.ones_like(slope), rtol=0, atol=0.15)


def test_each_decade_adds_the_solution_times_log_10(history, solution):
    w = history["w"]
    error = [(w[k + 1] - w[k]) / np.log(10) - solution.value for k in (0, 1)]
    size = [e.norm(dim=-1) / solution.objective for e in error]
    assert size[1].median() < 0.2
    assert (size[1] < 0.6 * size[0]).float().mean() > 0.9


def test_the_offset_grows_slower_and_slower(history, solution):
    """Bounded: each further decade adds less to w_t - w_hat log t, and less than to w_t."""
    w = history["w"]
    logs = torch.tensor(STEPS, dtype=torch.float64).log()[:, None, None]
    offset = (w - solution.value * logs).diff(dim=0).norm(dim=-1)
    assert (offset[1] < 0.6 * offset[0]).float().mean() > 0.9
    assert (offset[1] < 0.5 * w.diff(dim=0)[1].norm(dim=-1)).all()


def test_normalised_descent_is_far_faster(batch, solution):
    model = models.LinearClassifier(2, trials=len(batch.y))
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.5, batch_dims=1)
    train.fit(model, batch, optimizer, 1000, progress=False)
    assert geometry.cosine(model.w.detach(), solution.value).min() > 1 - 1e-4


def flow(A, w, decades, h=0.04):
    """Gradient flow on the mean logistic loss with eta = 1 at t = 10^decade, in midpoint steps of log t.

    Each problem may have decades of its own, (len(decades), problems).
    """
    kept, log_t = [], np.log(0.01)

    def slope(w, log_t):
        pull = np.exp(log_t - np.logaddexp(0, (A @ w[..., None])[..., 0]))
        return (pull[..., None, :] @ A)[..., 0, :] / A.shape[-2]

    for end in np.log(10) * np.asarray(decades, dtype=float)[..., None]:
        count = int(np.ceil((end - log_t).max() / h))
        step = (end - log_t) / count
        for _ in range(count):
            w = w + step * slope(w + step / 2 * slope(w, log_t), log_t + step / 2)
            log_t += step
        kept.append(w)
    return np.array(kept)


def wide_points(n, d, seed):
    """The library's clouds in d dimensions: rows y_i x_i, at (1.5, 1, 0, ...), 0.4 or more off their line."""
    centre = np.zeros(d)
    centre[:2] = 1.5, 1
    axis = centre / np.linalg.norm(centre)
    rows = centre + 0.7 * np.random.default_rng(seed).standard_normal((n, d))
    return rows + (np.maximum(rows @ axis, 0.4) - rows @ axis)[:, None] * axis


@pytest.mark.parametrize(("n", "d"), [(10, 2), (40, 2), (20, 3)])
@pytest.mark.parametrize("start", [0.0, 5.0, 20.0])
def test_the_loss_ends_at_or_below_one_over_eta_mu2_t_from_every_start(n, d, start):
    """And from zero not far below: the shortfall dies, but slowly. Here eta = 1; t_0 = n / (eta mu^2)."""
    A = np.stack([wide_points(n, d, seed) for seed in range(60)])
    signed = torch.tensor(A)
    w_hat = svm.solve(svm.label_problem(signed, torch.ones(signed.shape[:2], dtype=signed.dtype))).value
    mu2 = 1 / (w_hat**2).sum(-1).numpy()
    decades = np.log10(n / mu2) + np.array([3, 6, 12])[:, None]
    away = start * np.array([1.0, -1.0, 1.0])[:d]
    ends = flow(A, np.tile(away, (60, 1)), decades, h=0.1)
    ratio = np.logaddexp(0, -(A @ ends[..., None])[..., 0]).mean(-1) * mu2 * 10.0**decades
    assert ratio[0].max() < 1.1
    assert ratio[1:].max() < 1.001
    if start == 0:
        short = 1 - ratio.min(axis=1)
        assert 0.1 < short[0] < 0.4
        assert 0.015 < short[2] < 0.08
    if start == 20:
        assert ratio[0].min() < 0.5


def test_plain_descent_obeys_the_flow_s_bound():
    """At 100 t_0, for a step below the theorem's bound."""
    A = np.stack([wide_points(20, 2, seed) for seed in range(40)])
    signed = torch.tensor(A)
    w_hat = svm.solve(svm.label_problem(signed, torch.ones(signed.shape[:2], dtype=signed.dtype))).value
    eta, mu2 = 4 * 20 / np.linalg.norm(A, 2, axis=(1, 2)) ** 2, 1 / (w_hat**2).sum(-1).numpy()
    last = np.round(100 * 20 / (eta * mu2)).astype(int)
    ratio = np.zeros(40)
    for t, w in descent(A, np.zeros((40, 2)), eta, last.max()):
        if (now := last == t).any():
            loss = np.logaddexp(0, -(A @ w[..., None])[..., 0]).mean(-1)
            ratio[now] = (loss * eta * mu2 * t)[now]
    assert 0.5 < ratio.min() < ratio.max() < 1.02


def test_one_over_the_loss_is_the_sum_of_its_gains():
    """From starts far out, over ten decades: the integral in log t, by Simpson's rule."""
    decades = np.linspace(0, 10, 4001)
    t = 10.0**decades
    for seed, start in ((0, [20.0, -20.0]), (1, [-10.0, 20.0]), (2, [0.0, 0.0])):
        A = wide_points(20, 2, seed)
        w = flow(A, np.array(start), decades)
        u = w @ A.T
        loss = np.logaddexp(0, -u).mean(-1)
        gradient = np.linalg.norm(np.exp(-np.logaddexp(0, u)) @ A, axis=-1) / 20
        gains = integrate.cumulative_simpson((gradient / loss) ** 2 * t, x=np.log(t))[1::2]
        np.testing.assert_allclose((1 / loss - 1 / loss[0])[200::200], gains[99::100], rtol=2e-3)


def test_one_point_alone_sets_the_ratio():
    """The plateau: (mu / ||x||)^2 of the point with the weight, here a support vector."""
    rows = np.array([[1.5, -0.5], [0.3, 0.7], [3.3, -1.0]])
    for start, alone in (([-20.0, 40.0], 0), ([20.0, -20.0], 1)):
        w = flow(rows, np.array(start), [5.0, 8.0])
        ratio = np.logaddexp(0, -w @ rows.T).mean(-1) * 0.5 * np.array([1e5, 1e8])  # mu^2 = 1/2
        np.testing.assert_allclose(ratio, 0.5 / (rows[alone] @ rows[alone]), rtol=5e-3)
