"""What lesson 04 builds from scratch agrees with `mini_attn` and torch."""

import numpy as np
import pytest
import torch

from course import exercises
from mini_attn import losses, optim, svm

factor_step, nuclear_norm, prices, certify, race = (spec.reference for spec in exercises.exercises("04"))


def rows(seed, n=7, d1=4, d2=3):
    """Signed pairs: a (n, d1), b (n, d2) and the matrices a_i b_i^T."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, d1)), rng.normal(size=(n, d2))
    a *= np.sign(np.einsum("ia,ab,ib->i", a, rng.normal(size=(d1, d2)), b))[:, None]
    return a, b, a[:, :, None] * b[:, None, :]


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("m", [2, 3])
def test_the_lessons_descent_takes_torchs_path(normalised, m, lesson):
    a, b, A = rows(seed=m)
    start = 0.1 * np.random.default_rng(m).normal(size=(7, m))
    U, V = (torch.nn.Parameter(torch.tensor(part)) for part in (start[:4], start[4:]))
    kind = optim.NormalizedGD if normalised else torch.optim.SGD
    optimizer, steps = kind([U, V], lr=0.2), 40  # few: later steps amplify rounding
    for _ in range(steps):
        optimizer.zero_grad()
        margins = (torch.tensor(a) @ U * (torch.tensor(b) @ V)).sum(dim=1)
        losses.logistic(margins, batch_dims=0 if normalised else None).mean().backward()
        optimizer.step()
    path = lesson["descend"](start[:4], start[4:], A, 0.2, [1, steps], normalised)
    np.testing.assert_allclose(path[-1][0], U.detach(), rtol=1e-6)
    np.testing.assert_allclose(path[-1][1], V.detach(), rtol=1e-6)


def test_the_pull_is_the_negative_gradient(lesson):
    _, _, A = rows(seed=0)
    W = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    losses.logistic((torch.tensor(A) * W).sum((1, 2))).mean().backward()
    np.testing.assert_allclose(lesson["pull"](W.detach().numpy(), A), -W.grad)
    value = losses.logistic((torch.tensor(A) * W).sum((1, 2))).mean().item()
    assert lesson["loss"](W.detach().numpy(), A) == pytest.approx(value)


@pytest.mark.parametrize("seed", range(3))
def test_the_certificate_is_the_librarys(seed):
    a, b, A = rows(seed)
    problem = svm.HardMarginProblem(torch.tensor(a), torch.tensor(b), torch.ones(7).double())
    solution = svm.solve(problem, norm="nuc")
    lower, upper = certify(solution.value.numpy(), solution.dual.numpy(), A)
    assert lower == pytest.approx(solution.margin.item(), rel=1e-6)
    assert 1 - lower / upper == pytest.approx(solution.gap.item(), abs=1e-8)
    assert nuclear_norm(solution.value.numpy()) == pytest.approx(solution.objective.item(), rel=1e-6)


@pytest.mark.parametrize("steps", [1, 4, 30])
def test_the_race_is_run_by_the_lessons_step(steps):
    M = np.random.default_rng(steps).normal(size=(4, 4)) / 10
    U, V = 0.3 * np.eye(4), np.zeros((4, 4))
    for _ in range(steps):
        U, V = factor_step(U, V, M, 0.5)
    np.testing.assert_allclose(np.linalg.svd(U @ V.T)[1], race(M, 0.3, 0.5, steps), rtol=1e-9)


def test_the_balanced_split_costs_the_nuclear_norm():
    p, s, qt = np.linalg.svd(np.random.default_rng(0).normal(size=(4, 3)), full_matrices=False)
    np.testing.assert_allclose(prices(p * np.sqrt(s), qt.T * np.sqrt(s)), s.sum())
    np.testing.assert_allclose(prices(p * s, qt.T), [(s @ s + 3) / 2, s.sum(), s.sum()])
