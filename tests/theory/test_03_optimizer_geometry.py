"""Theory of lesson 03, item 3: the optimiser picks the norm. Each docstring holds the statement tested."""

import numpy as np
import pytest
import torch

from mini_attn import data, models, optim, svm, train

SEEDS = [11, 12, 13]  # the lesson uses other points


def signed_points(seed, n=8, d=3):
    """Points that the first axis separates, with labels +1."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d))
    A[:, 0] = np.abs(A[:, 0]) + 0.5
    return data.PointData(torch.tensor(A), torch.ones(n, dtype=torch.float64))


def largest(points, norm):
    return svm.solve(svm.label_problem(points.X, points.y), norm=norm)


def trained(points, make, steps, schedule=None):
    model = models.LinearClassifier(d=points.X.shape[-1])
    train.fit(
        model,
        points,
        make(model.parameters()),
        steps,
        loss="exponential",
        schedule=schedule,
        every=steps,
        progress=False,
    )
    return model.w.detach()


def share(points, w, norm):
    """The margin of w as a share of the largest in the norm."""
    least = (points.X @ w).min()
    return float(least / torch.linalg.vector_norm(w, norm) / largest(points, norm).margin)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("norm", "make"),
    [
        (2.0, lambda w: optim.NormalizedGD(w, lr=0.1)),
        (np.inf, lambda w: optim.SignDescent(w, lr=0.1)),
        (1.5, lambda w: optim.MirrorDescent(w, lr=0.1, p=1.5)),
        (3.0, lambda w: optim.MirrorDescent(w, lr=0.3, p=3.0)),
    ],
    ids=["normalised GD", "sign descent", "mirror 1.5", "mirror 3"],
)
def test_each_optimiser_reaches_the_largest_margin_of_its_norm(seed, norm, make):
    """mu(w_t) -> mu_hat in the optimiser's norm (Gunasekar et al. 2018; Sun et al. 2022).

    Measured: the share of the largest margin after 3,000 short constant steps, at least 0.985 (0.97 for
    mirror descent with p = 3, whose norm grows as the root of the steps).
    """
    points = signed_points(seed)
    least = 0.97 if norm == 3 else 0.985
    assert least < share(points, trained(points, make, 3000), norm) < 1 + 1e-6


@pytest.mark.parametrize("seed", SEEDS[:2])  # for the third the two solutions nearly coincide
def test_the_norms_differ(seed):
    """The limits differ: each of sign descent and normalised GD has more of the margin in its own norm.

    Measured after 2,000 steps of 0.1: shares that differ by at least 0.001, with tolerance 0.0005.
    """
    points = signed_points(seed)
    by_sign = trained(points, lambda w: optim.SignDescent(w, lr=0.1), 2000)
    by_ngd = trained(points, lambda w: optim.NormalizedGD(w, lr=0.1), 2000)
    assert share(points, by_ngd, 2.0) > share(points, by_sign, 2.0) + 0.0005
    assert share(points, by_sign, np.inf) > share(points, by_ngd, np.inf) + 0.0005


@pytest.mark.parametrize(("n", "d"), [(8, 3), (20, 6), (40, 10)])
@pytest.mark.parametrize("rho", [1.2, 1.5, 2.0, 3.0, 6.0, 10.0])
def test_mirror_descent_reaches_the_margin_with_any_constant_step(rho, n, d):
    """||S_t|| - mu_hat Lambda_t grows by at most (eta log n / mu_hat + C) / ||S_{t-1}||^(r-1) a step.

    r = rho* and C = 2^(2-r) eta^r / r for rho >= 2; else the log n has a factor ||S||^(2-r), the power is 1
    and C = (r - 1) eta^2 / 2. So ||S_t||_r / Lambda_t tends to mu_hat, for steps of 0.03, 0.3, 3 and 30.
    """
    points = signed_points(11, n, d)
    A, mu, r = points.X.numpy(), float(largest(points, rho).margin), rho / (rho - 1)
    eta = np.array([0.03, 0.3, 3.0, 30.0])[:, None]
    S, size, total, above = np.zeros((4, d)), np.zeros((4, 1)), 0.0, {}
    for t in range(1, 3001):
        u = np.sign(S) * np.abs(S) ** (1 / (rho - 1)) @ A.T
        q = np.exp(u.min(1, keepdims=True) - u)
        M = q / q.sum(1, keepdims=True) @ A
        length = np.linalg.norm(M, r, axis=1, keepdims=True)
        S, before = S + eta * M / length, size
        size, total = np.linalg.norm(S, r, axis=1, keepdims=True), total + eta / length
        if t > 1:
            most = (eta * np.log(n) / mu + 2 ** (2 - r) * eta**r / r) / before ** (r - 1)
            if rho < 2:
                most = (eta * np.log(n) / mu * before ** (2 - r) + (r - 1) * eta**2 / 2) / before
            assert (size - before - mu * eta / length <= most + 1e-7).all()
        above[t] = size / total / mu - 1
    assert (above[3000] > -1e-6).all()
    assert (above[3000] < 0.6 * above[300] if rho <= 3 else above[3000] < above[300]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_guarantee_holds(seed):
    """mu(w_t) >= mu_hat - (R^2/2 sum eta^2 + log n) / sum eta, R = max ||a_i||_1, for sign descent.

    Checked for steps 0.5 / sqrt(t) after 300 and 3,000 of them, with no tolerance but rounding.
    """
    points = signed_points(seed)
    R, mu = points.X.abs().sum(-1).max(), largest(points, np.inf).margin
    for steps in (300, 3000):
        etas = 0.5 / np.sqrt(np.arange(1, steps + 1))
        w = trained(points, lambda w: optim.SignDescent(w, lr=0.5), steps, schedule=lambda t: t**-0.5)
        bound = mu - (R**2 / 2 * (etas**2).sum() + np.log(8)) / etas.sum()
        assert (points.X @ w).min() / w.abs().max() >= bound - 1e-9


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_adam_without_epsilon_tends_to_the_max_norm_margin(seed):
    """Adam with epsilon = 0 and eta mu_hat < log(1/beta2)/2 reaches the l_inf margin (Zhang, Zou & Cao 2024).

    Measured: at least 0.97 of it after 2,500 steps; with epsilon = 0.1 less of it, by 0.001 or more.
    """
    points = signed_points(seed)

    def adam(eps):
        return lambda w: torch.optim.Adam(w, lr=0.02, betas=(0.9, 0.95), eps=eps)

    exact, blurred = (share(points, trained(points, adam(eps), 2500), np.inf) for eps in (0.0, 0.1))
    assert exact > 0.97
    assert exact > blurred + 0.001


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_spectral_descent_reaches_the_spectral_margin(seed):
    """Spectral descent maximises min <A_j, W> / ||W||_op over rank-one A_j (Fan et al. 2025).

    Measured: at least 0.985 of it after 1,500 steps of 0.05; normalised GD has less.
    """
    rng = np.random.default_rng(seed)
    a, b = torch.tensor(rng.normal(size=(6, 3))), torch.tensor(rng.normal(size=(6, 4)))
    problem = svm.HardMarginProblem(a, b, torch.ones(6, dtype=torch.float64))
    top = svm.solve(problem, norm="spectral").margin
    shares = []
    for kind in (optim.SpectralDescent, optim.NormalizedGD):
        W = torch.nn.Parameter(torch.zeros(3, 4, dtype=torch.float64))
        optimizer = kind([W], lr=0.05)
        for _ in range(1500):
            u = problem.forward(W.detach())
            W.grad = -problem.adjoint((u.min() - u).exp())
            optimizer.step()
        shares.append(
            float(problem.forward(W.detach()).min() / torch.linalg.matrix_norm(W.detach(), 2) / top)
        )
    assert 0.985 < shares[0] < 1 + 1e-5
    assert shares[1] < shares[0]


MUON, NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315), (1.5, -0.5, 0.0)


def lifted(P, coefficients, times):
    """A polynomial iterated on matrices, (seeds, j, l)."""
    P = P / torch.linalg.matrix_norm(P, keepdim=True)
    for _ in range(times):
        square = P @ P.mT
        P = coefficients[0] * P + (coefficients[1] * square + coefficients[2] * square @ square) @ P
    return P


def test_muons_margin_is_read_off_its_polynomial():
    """mu(W) = sum sigma_k f_k / max f for the singular values sigma of the mean gradient, f = Muon's waves.

    Rank-one comparisons, eight seeds, 1,200 steps of 0.05. Within 0.03 of the prediction in each
    seed, 0.008 in the median. The rival, all f alike, is off by more than 0.02 in all; one that
    converges has 0.98 or more of the bound in every seed.
    """
    drawn = [np.random.default_rng(seed) for seed in range(8)]
    a, b = (torch.tensor(np.array([rng.normal(size=(12, k)) for rng in drawn])) for k in (4, 8))

    def run(coefficients, times):
        W, mean = torch.zeros(8, 4, 8, dtype=torch.float64), 0.0
        for _ in range(1200):
            u = torch.einsum("snj,sjl,snl->sn", a, W, b)
            mean = 0.95 * mean + 0.05 * torch.einsum("sn,snj,snl->sjl", (-u).softmax(-1), a, b)
            W = W + 0.05 * lifted(mean, coefficients, times)
        u = torch.einsum("snj,sjl,snl->sn", a, W, b)
        return u.min(-1).values / torch.linalg.matrix_norm(W, 2), torch.linalg.svdvals(mean)

    margin, sigma = run(MUON, 5)
    f = torch.diagonal(lifted(torch.diag_embed(sigma), MUON, 5), dim1=-2, dim2=-1)
    error = ((sigma * f).sum(-1) / f.amax(-1) / margin - 1).abs()
    assert error.max() < 0.03
    assert error.median() < 0.008
    assert ((sigma.sum(-1) / margin - 1) > 0.02).sum() >= 6
    margin, sigma = run(NEWTON_SCHULZ, 30)
    assert (margin / sigma.sum(-1)).min() > 0.98


def late_step(eta, mu, beta1, beta2):
    """eta_eff, by bisection of eta_eff / eta = momentum * root of mean square, for g_t = e^-nu g_(t-1)."""
    low, high = 0.0, -np.log(beta2) / 2 / mu
    for _ in range(100):
        middle = (low + high) / 2
        grown = np.exp(middle * mu)
        size = (1 - beta1) / (1 - beta1 * grown) * np.sqrt((1 - beta2 * grown**2) / (1 - beta2))
        low, high = (middle, high) if eta * size > middle else (low, middle)
    return low


def adam_runs(A, eta, beta1, beta2, times):
    """The w after each of the increasing times of Adam, epsilon = 0, on sets A (sets, n, d) of points."""
    w, mean, square, least = np.zeros((len(A), 1, A.shape[-1])), 0.0, 0.0, 0.0
    kept = []
    for t in range(1, times[-1] + 1):
        u = w @ A.mT
        grown, least = np.exp(u.min(-1, keepdims=True) - least), u.min(-1, keepdims=True)
        g = np.exp(least - u) @ A
        mean = beta1 * grown * mean + (1 - beta1) * g
        square = beta2 * grown**2 * square + (1 - beta2) * g**2
        w = w + eta * mean / (1 - beta1**t) / np.sqrt(square / (1 - beta2**t))
        if t in times:
            kept.append(w[:, 0])
    return kept


@pytest.mark.parametrize(("eta", "beta1", "beta2"), [(0.01, 0.9, 0.99), (0.05, 0.5, 0.95), (0.1, 0.0, 0.9)])
def test_adams_real_step_and_that_memory_does_not_change_the_limit(eta, beta1, beta2):
    """With epsilon = 0, late steps are eta_eff long, at any memory, and w has the l_inf margin.

    Eight sets of eight points in three dimensions, 16,000 steps. Measured: ||w||_inf grows by eta_eff a step
    to 0.2 percent, and at least 0.992 of the margin; full steps would be 1.7 to 3 times as long.
    """
    sets = [signed_points(seed) for seed in range(8)]
    A = np.array([points.X.numpy() * points.y.numpy()[:, None] for points in sets])
    mu = np.array([float(largest(points, np.inf).margin) for points in sets])
    half, end = adam_runs(A, eta, beta1, beta2, [8000, 16_000])
    length = (np.abs(end).max(-1) - np.abs(half).max(-1)) / 8000
    wanted = np.array([late_step(eta, one, beta1, beta2) for one in mu])
    np.testing.assert_allclose(length, wanted, rtol=0.01)
    assert (wanted < 0.9 * eta).all()
    least = (end[:, None, :] @ A.mT)[:, 0].min(-1) / np.abs(end).max(-1)
    assert (least / mu).min() > 0.99


def test_long_memory_makes_the_step_size_drop_out():
    """eta_eff tends to log(1/beta2) / (2 mu), near (1 - beta2) / (2 mu), as eta grows."""
    for beta2 in (0.9, 0.99, 0.999):
        lengths = [late_step(eta, 2.5, 0.0, beta2) for eta in (1.0, 10.0)]
        assert lengths[1] < 1.01 * lengths[0]
        assert lengths[1] == pytest.approx(-np.log(beta2) / 5, rel=0.01)


def test_worst_points_and_norms_at_a_corner():
    """w is the l_rho SVM if |w|^(rho-1) lies between its two worst points: here from 1.766 to 2.170."""
    corner = data.PointData(
        torch.tensor([[1.7, 1.0], [1.8, 0.8]], dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    )
    for rho, there in ((1.75, False), (1.78, True), (2.16, True), (2.19, False)):
        w = largest(corner, rho).value
        assert bool((w[1] / w[0] - 0.5).abs() < 1e-4) == there
    low, high = (1 + np.log(ratio) / np.log(2) for ratio in (1.7, 2.25))
    assert (round(low, 3), round(high, 3)) == (1.766, 2.170)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rho", [1.5, 3.0])
def test_steepest_steps_between_the_corners(seed, rho):
    """Steepest descent in l_rho reaches its margin too: at least 0.999 after 3,000 steps of 0.1."""
    points = signed_points(seed)
    w = torch.zeros(3, dtype=torch.float64)
    for _ in range(3000):
        u = points.X @ w
        g = (-u).softmax(-1) @ points.X
        step = g.sign() * g.abs() ** (1 / (rho - 1))
        w = w + 0.1 * step / torch.linalg.vector_norm(step, rho)
    assert 0.998 < share(points, w, rho) < 1 + 1e-6
