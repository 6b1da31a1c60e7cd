"""Lesson 01. On separable data, gradient descent on the logistic loss runs off along the SVM direction.

Soudry et al. 2018, for any step below the smoothness bound and any start: L(w_t) -> 0 as 1/t, ||w_t|| grows
as log t with slope ||w_hat||, and w_t - w_hat log t stays bounded, so that the direction tends to that of
the hard-margin SVM, at distance O(1 / log t). Measured on data whose other points are well behind the margin:
points just behind it fade only as t^-(their distance), and hide the limit.

The loss of the flow is in the end at most 1 / (eta mu^2 t), from every start.

How fast: off its track by s across w_hat, with c_i the part of support vector i across, the flow has
ds / d log t = -C s + const t^-(next - 1), C = sum_i lam_i c_i^2; 1 bounds the exponent, where log(1 + e^-u)
is not e^-u.
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


@pytest.fixture(scope="module")
def both(batch):
    """One run of all problems from zero, and of all from elsewhere."""
    twice = data.PointData(torch.cat([batch.X, batch.X]), torch.cat([batch.y, batch.y]))
    start = torch.zeros(len(twice.y), 2, dtype=torch.float64)
    start[len(batch.y) :] = 2.0 * torch.tensor([1.0, -1.0])
    model = models.LinearClassifier(2, trials=len(twice.y), init=start)
    smoothness = torch.linalg.matrix_norm(batch.X, ord=2).square().max() / (4 * 12)
    optimizer = torch.optim.SGD(model.parameters(), lr=float(1 / smoothness))
    record = {"w": lambda m: m.w}
    return train.fit(model, twice, optimizer, STEPS[-1], record=record, every=STEPS, progress=False)


@pytest.fixture(params=[0, 1], ids=["from zero", "from elsewhere"])
def history(request, both, batch):
    """What was recorded after STEPS, of the problems from one start."""
    kept = [both.steps.tolist().index(step) for step in STEPS]
    half = slice(request.param * len(batch.y), (request.param + 1) * len(batch.y))
    return {name: both[name][kept][:, half] for name in ("loss", "w")}


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


@pytest.fixture(scope="module")
def random_sets():
    """Sixty sets of 13 points, seeds and size not the lesson's: A, w_hat, across, C, next, lines."""
    points = [data.separable_points(13, seed=seed) for seed in range(500, 560)]
    X, y = torch.stack([p.X for p in points]), torch.stack([p.y for p in points])
    A = (y[..., None] * X).numpy()
    w_hat = svm.solve(svm.label_problem(X, y)).value.numpy()
    u = (A @ w_hat[..., None])[..., 0]
    held = u < 1 + 1e-6
    pairs = held.sum(axis=1) == 2
    assert 30 < pairs.sum() < 55
    across = np.stack([-w_hat[:, 1], w_hat[:, 0]], axis=1) / np.linalg.norm(w_hat, axis=1, keepdims=True)
    C, line = np.zeros(60), np.zeros(60)
    for k in np.flatnonzero(pairs):
        rows = A[k, held[k]]
        lam = np.linalg.solve(rows.T, w_hat[k])
        C[k] = lam @ (rows @ across[k]) ** 2
        line[k] = np.linalg.solve(rows, -np.log(13 * lam)) @ across[k]
    return A, w_hat, across, pairs, C, np.where(held, np.inf, u).min(axis=1), line


def test_the_line_is_approached_with_the_least_exponent(random_sets):
    """Where E is not tiny; neither C alone nor the next point alone says it."""
    A, _, across, pairs, C, following, line = random_sets
    chosen = pairs & (np.minimum(C, following - 1) > 0.08) & (np.minimum(C, following - 1) < 0.9)
    decades = np.array([10, 20, 40, 80])
    s = np.abs(
        (flow(A[chosen], np.zeros((chosen.sum(), 2)), decades) * across[chosen]).sum(-1) - line[chosen]
    )
    last = np.maximum((s[1:] > 1e-9).sum(axis=0) - 1, 0)
    rates = (-np.diff(np.log10(s), axis=0) / np.diff(decades)[:, None])[last, np.arange(chosen.sum())]
    ok = s[1:].max(axis=0) > 1e-9  # else the first window is rounding already
    rates, C, following = rates[ok], C[chosen][ok], following[chosen][ok]
    assert ok.sum() >= 15
    right = np.abs(rates / np.minimum(C, following - 1) - 1) < 0.15
    assert right.mean() > 0.85
    assert (np.abs(rates / C - 1) < 0.15).mean() < 0.7
    assert (np.abs(rates / (following - 1) - 1) < 0.15).mean() < 0.9
    assert (following - 1 > C).sum() >= 3


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
    w, ratio = np.zeros((40, 2)), np.zeros(40)
    for t in range(1, last.max() + 1):
        weights = np.exp(-np.logaddexp(0, (A @ w[..., None])[..., 0]))
        w = w + eta[:, None] / 20 * (weights[:, None] @ A)[:, 0]
        if (now := last == t).any():
            loss = np.logaddexp(0, -(A @ w[..., None])[..., 0]).mean(-1)
            ratio[now] = (loss * eta * mu2 * t)[now]
    assert 0.5 < ratio.min() < ratio.max() < 1.02


def test_no_exponent_is_above_one():
    """C = 3 and no other point: the logistic loss is not the exponential one, which costs 1/t."""
    rows = np.array([[1.0, 1.0], [1.0, -3.0]])
    lam = np.linalg.solve(rows.T, [1.0, 0.0])
    line = np.linalg.solve(rows, -np.log(2 * lam))[1]
    s = np.abs(flow(rows, np.zeros(2), [4, 6, 8], h=0.01)[:, 1] - line)
    np.testing.assert_allclose(lam @ rows[:, 1] ** 2, 3)
    np.testing.assert_allclose(-np.diff(np.log10(s)) / 2, 1, atol=0.05)


def test_one_support_vector_keeps_the_start_and_two_forget_it(random_sets):
    A, _, across, pairs, C, following, _ = random_sets
    ends = [flow(A, np.tile(w, (60, 1)), [20, 30]) for w in ([0.0, 0.0], [2.0, -3.0], [-1.0, 4.0])]
    apart = np.ptp([(end * across).sum(-1) for end in ends], axis=0)
    alone = ~pairs & (following > 1.1)  # nearer points go on pushing for long
    assert alone.sum() >= 10
    assert (apart[:, alone] > 0.02).all()
    assert (apart[1, alone] > 0.8 * apart[0, alone]).all()
    assert apart[1, pairs & (C > 0.3)].max() < 1e-4
