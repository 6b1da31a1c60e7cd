"""Lesson 02. Any dual point certifies any direction, and the two optima meet.

For lambda >= 0, weak duality gives  margin(w) <= max margin <= ||sum_i lambda_i y_i x_i|| / sum_i lambda_i.
At the optimum the bounds are equal and lambda lives on the support vectors; a problem without
a solution has a ray.
"""

import numpy as np
import pytest
import torch

from mini_attn import svm

generator = torch.Generator().manual_seed(2024)


def randn(*shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.fixture(scope="module")
def batch():
    """Fifty random problems, separable by a planted direction."""
    X, w = randn(50, 20, 5), randn(50, 5)
    scores = (X @ w[..., None]).squeeze(-1)
    X = X + 0.3 * scores.sign()[..., None] * (w / w.norm(dim=-1, keepdim=True))[:, None]
    return X, scores.sign(), svm.solve(svm.label_problem(X, scores.sign()))


def test_every_dual_point_bounds_every_margin(batch):
    X, y, solution = batch
    A = y[..., None] * X
    for _ in range(20):
        lam, w = torch.rand(50, 20, generator=generator, dtype=torch.float64), randn(50, 5)
        bound = (lam[:, None] @ A).squeeze(1).norm(dim=-1) / lam.sum(-1)
        margin = (A @ (w / w.norm(dim=-1, keepdim=True))[..., None]).squeeze(-1).amin(-1)
        assert (margin <= solution.margin * (1 + 1e-9)).all()
        assert (solution.margin <= bound * (1 + 1e-9)).all()


def test_at_the_optimum_the_bounds_meet_on_the_support_vectors(batch):
    X, y, solution = batch
    A = y[..., None] * X
    assert solution.gap.max() <= 1e-9
    margins = (A @ solution.value[..., None]).squeeze(-1)
    assert (margins >= 1 - 1e-9).all()
    support = solution.dual > 1e-9 * solution.dual.amax(-1, keepdim=True)
    torch.testing.assert_close(margins[support], torch.ones(int(support.sum()), dtype=torch.float64))
    combination = (solution.dual[:, None] @ A).squeeze(1)  # w is a nonnegative combination of them
    torch.testing.assert_close(
        combination * solution.objective[:, None], solution.value, rtol=1e-7, atol=1e-9
    )


def test_what_cannot_be_separated_is_refuted_by_a_ray():
    X = randn(30, 25, 3)
    y = torch.where(torch.rand(30, 25, generator=generator) < 0.5, 1.0, -1.0).to(X)
    solution = svm.solve(svm.label_problem(X, y), throw=False)
    refuted = torch.as_tensor(solution.status == "infeasible")
    assert refuted.sum() >= 25
    ray = solution.dual[refuted]
    assert (ray >= 0).all()
    zero = (ray[:, None] @ (y[..., None] * X)[refuted]).squeeze(1).norm(dim=-1)
    assert (zero <= 1e-8 * ray.sum(-1)).all()


def test_the_gap_of_the_optima_is_the_sum_of_what_two_kkt_conditions_miss(batch):
    X, y, _ = batch
    A, w = y[..., None] * X, randn(50, 5)
    lam = torch.rand(50, 20, generator=generator, dtype=torch.float64)
    combination = (lam[:, None] @ A).squeeze(1)
    dual = lam.sum(-1) - (combination**2).sum(-1) / 2
    slack = (lam * ((A @ w[..., None]).squeeze(-1) - 1)).sum(-1)
    torch.testing.assert_close((w**2).sum(-1) / 2 - dual, ((w - combination) ** 2).sum(-1) / 2 + slack)


def test_a_direction_turned_by_theta_has_a_gap_that_grows_like_theta(batch):
    """So part 3, with the best weights, proves an angle of about the root of theta."""
    X, y, solution = batch
    A, best = y[..., None] * X, solution.value / solution.value.norm(dim=-1, keepdim=True)
    aside = randn(50, 5)
    aside = aside - (aside * best).sum(-1, keepdim=True) * best
    aside = aside / aside.norm(dim=-1, keepdim=True)
    several = (solution.dual > 1e-6 * solution.dual.amax(-1, keepdim=True)).sum(-1) > 1
    assert several.sum() > 25
    gaps = []
    for theta in torch.tensor([1e-3, 1e-4], dtype=torch.float64):
        w = torch.cos(theta) * best + torch.sin(theta) * aside
        gaps.append(1 - (A @ w[..., None]).squeeze(-1).amin(-1) / solution.margin)
    torch.testing.assert_close(
        (gaps[0] / gaps[1])[several], torch.full_like(gaps[0], 10)[several], rtol=0.05, atol=0
    )
    proved = torch.arccos(1 - gaps[1])
    torch.testing.assert_close(proved, (2 * gaps[1]).sqrt(), rtol=1e-2, atol=0)
    assert (proved > 3e-4)[several].all()  # the true angle is 1e-4


@pytest.mark.parametrize(("n", "d", "seed", "steps"), [(40, 4, 1, 10_000), (60, 10, 2, 5000)])
def test_the_weights_of_normalised_descent_settle_below_the_step_threshold_alone(n, d, seed, steps):
    """eta* = 2 mu / sigma; sigma is the largest eigenvalue of the covariance under the best weights."""
    rng = torch.Generator().manual_seed(seed)
    A = torch.randn(20, n, d, generator=rng, dtype=torch.float64)
    A[..., 0] = A[..., 0].abs() + 0.2
    solution = svm.solve(svm.label_problem(A, torch.ones(20, n, dtype=torch.float64)))
    q, mu = solution.dual / solution.dual.sum(-1, keepdim=True), solution.margin
    apart = A - (q[:, None] @ A)
    sigma = torch.linalg.eigvalsh(apart.mT @ (q[..., None] * apart))[:, -1]
    several = sigma > 0.05 * mu  # with one support vector there is no threshold
    assert several.sum() > 15
    shares, (A, mu, sigma) = np.array([0.9, 1.1]), (t.numpy()[:, None] for t in (A, mu, sigma))
    eta, w = (shares * 2 * mu / sigma)[..., None, None], np.zeros((20, 2, 1, d))  # both steps at once
    for _ in range(steps):
        scores = w @ np.swapaxes(A, -1, -2)
        weights = np.exp(scores.min(axis=-1, keepdims=True) - scores) / (1 + np.exp(-scores))
        nearest = weights @ A
        w += eta * nearest / np.linalg.norm(nearest, axis=-1, keepdims=True)
    length = np.linalg.norm(nearest / weights.sum(axis=-1, keepdims=True), axis=-1)[..., 0]
    assert ((length < 1.001 * mu) == (shares < 1))[several].all()
