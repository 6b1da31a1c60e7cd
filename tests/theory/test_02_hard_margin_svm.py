"""Lesson 02. Any dual point certifies any direction, and the two optima meet.

For lambda >= 0, weak duality gives  margin(w) <= max margin <= ||sum_i lambda_i y_i x_i|| / sum_i lambda_i.
Their weighted mean a_bar has cos(a_bar, w_hat) >= max margin / ||a_bar||, separating or not.
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


def test_weights_certify_their_own_direction_separating_or_not(batch):
    """cos(a_bar, w_hat) >= mu_hat / B; equal, with a right triangle, if only support vectors have weight."""
    X, y, solution = batch
    A = y[..., None] * X
    nearest = solution.value * solution.margin.square()[:, None]
    astray = 0
    for power in (1, 8):
        lam = torch.rand(50, 20, generator=generator, dtype=torch.float64) ** power
        support = solution.dual > 1e-9 * solution.dual.amax(-1, keepdim=True)
        for weights, equal in ((lam, False), (lam * support, True)):
            a_bar = (weights[:, None] @ A).squeeze(1) / weights.sum(-1, keepdim=True)
            cosine = torch.cosine_similarity(a_bar, solution.value, dim=-1)
            bound = solution.margin / a_bar.norm(dim=-1)
            astray += int(((A @ a_bar[..., None]).squeeze(-1).amin(-1) < 0).sum())
            assert (cosine >= bound * (1 - 1e-9)).all()
            legs = solution.margin.square() + (a_bar - nearest).square().sum(-1)
            if equal:
                torch.testing.assert_close(cosine, bound)
                torch.testing.assert_close(legs, a_bar.square().sum(-1))
            else:
                assert (legs < a_bar.square().sum(-1) - 1e-6).all()
    assert astray > 20  # the statement is about these, too


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


@pytest.mark.parametrize(("factor", "settles"), [(0.9, True), (1.1, False)])
def test_the_latest_weights_become_good_below_the_longest_step_only(factor, settles):
    """Six problems, d = 5, longest step 2 mu / eig_max(sum q c c^T). NGD's B of the latest weights is within
    .5% at .9 of it, more than 5% off at 1.1; that of the total weights within 2% at both."""
    A = torch.randn(6, 60, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    A[..., 0] = A[..., 0].abs() + 0.2
    solution = svm.solve(svm.label_problem(A, torch.ones(6, 60, dtype=torch.float64)))
    mu, q = solution.margin, solution.dual / solution.dual.sum(-1, keepdim=True)
    unit = solution.value * mu[:, None]
    c = A - (A @ unit[..., None]) * unit[:, None]
    longest = 2 * mu / torch.linalg.eigvalsh((c * q[..., None]).mT @ c)[:, -1]
    w, total = torch.zeros(6, 5, 1, dtype=torch.float64), torch.zeros(6, 1, 60, dtype=torch.float64)
    for _ in range(6000):
        weights = torch.softmax(torch.nn.functional.logsigmoid(-(A @ w)), 1).mT
        weights *= (factor * longest)[:, None, None] / (weights @ A).norm(dim=-1, keepdim=True)
        w, total = w + (weights @ A).mT, total + weights
    latest = torch.softmax(torch.nn.functional.logsigmoid(-(A @ w)), 1).mT
    excess = (latest @ A).norm(dim=(-2, -1)) / mu - 1
    assert (excess < 0.005).all() if settles else (excess > 0.05).all()
    assert ((total @ A).norm(dim=(-2, -1)) / total.sum((-2, -1)) / mu - 1 < 0.02).all()


@pytest.mark.parametrize("high", [0.5, 0.2, 0.05])
@pytest.mark.parametrize("apart", [0.6, 2.0, 6.0])
def test_how_far_the_bound_rises_beyond_the_longest_step_depends_on_the_two_points(high, apart):
    """Two points at height 1, `apart` apart, best weights high and 1 - high. Beyond eta* the bound is
    eta / eta* = B v (logit(high + x) - logit(high - x)) / 2x, B^2 = 1 + (apart x)^2: near eta*, the part
    1 / (1 + 2 (1 - 3v) / (3 h v)) of the excess, v = high (1 - high), h = v apart^2."""
    v = high * (1 - high)
    A = np.array([[1, (1 - high) * apart], [1, -high * apart]])
    ratios = np.array([1.002, 1.05, 1.2])
    w = np.tile([0.0, (np.log(high / (1 - high)) + 0.3) / apart], (3, 1))
    for _ in range(8000):
        q = 1 / (1 + np.exp(w @ (A[0] - A[1])))
        a_bar = q[:, None] * A[0] + (1 - q[:, None]) * A[1]
        B = np.linalg.norm(a_bar, axis=1)
        w = w + (ratios * 2 / (v * apart**2) / B)[:, None] * a_bar
    x = np.abs(q - high)
    ahead, behind = (np.log((high + side) / (1 - high - side)) for side in (x, -x))
    np.testing.assert_allclose(B * v * (ahead - behind) / (2 * x), ratios, rtol=1e-6)
    part = 1 / (1 + 2 * (1 - 3 * v) / (3 * v**2 * apart**2))
    assert (B[0] - 1) / 0.002 == pytest.approx(part, rel=0.01)
    assert part < 0.96  # not all of it


@pytest.mark.parametrize("others", [[[2.2, 0.1], [2.0, 1.5]], [[1.7, 0.5], [1.5, 1.5]]])
def test_two_things_hold_up_the_bound_of_the_gradients_weights(others):
    """B^2 = mu^2 (1 + beyond)^2 + across^2: beyond = sum_i q_i (a_i.w_hat - 1), across is a part of a_bar.

    On gradient flow, beyond ~ t^-(next - 1) and across ~ t^-C, C = sum lam_i c_i^2 (lesson 01): so B - mu
    falls like t^-min(2C, next - 1), not always like the square of what the gradient's margin is short of.
    Two support vectors with C = 0.8 and next = 2.3 or 2.2, from t = 10^9 to 10^12.
    """
    A = np.array([[1.5, -0.5], [0.3, 0.7], *others])
    w_hat, mu, C = np.ones(2), np.sqrt(0.5), 0.8
    following = (A[2:] @ w_hat).min()

    def slope(w, log_t):
        return np.exp(log_t - np.logaddexp(0, A @ w)) @ A / len(A)

    w, h, found = np.zeros(2), 0.01, {}
    for step in range(round((3 + 12) * np.log(10) / h)):
        log_t = -3 * np.log(10) + step * h
        w = w + h * slope(w + h / 2 * slope(w, log_t), log_t + h / 2)
        pull = np.exp(-np.logaddexp(0, A @ w))
        q = pull / pull.sum()
        a_bar = q @ A
        found[step] = q[2:] @ (A[2:] @ w_hat - 1), abs(a_bar @ [-mu, mu]), np.linalg.norm(a_bar)
        beyond, across, B = found[step]
        assert abs(mu**2 * (1 + beyond) ** 2 + across**2 - B**2) < 1e-12 * B**2
    early, late = (np.array(found[round((3 + k) * np.log(10) / h) - 1]) for k in (9, 12))
    powers = np.log10(early[:2] / late[:2]) / 3
    np.testing.assert_allclose(powers, [following - 1, C], rtol=0.02)
    assert late[0] > late[1] ** 2  # in the end the points beyond the edge hold B up, not the square
    assert following - 1 < 2 * C
