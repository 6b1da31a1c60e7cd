"""What lesson 04 builds from scratch agrees with `mini_attn` and torch."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from course import exercises
from mini_attn import losses, svm

factor_step, best_blank, costs, certify, race, wait = (spec.reference for spec in exercises.exercises("04"))


def rows(seed, n=7, d1=4, d2=3):
    """Signed pairs: a (n, d1), b (n, d2) and the matrices a_i b_i^T."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, d1)), rng.normal(size=(n, d2))
    a *= np.sign(np.einsum("ia,ab,ib->i", a, rng.normal(size=(d1, d2)), b))[:, None]
    return a, b, a[:, :, None] * b[:, None, :]


@pytest.mark.parametrize("m", [2, 3])
def test_the_lessons_descent_takes_torchs_path(m, lesson):
    a, b, A = rows(seed=m)
    start = 0.1 * np.random.default_rng(m).normal(size=(7, m))
    U, V = (torch.nn.Parameter(torch.tensor(part)) for part in (start[:4], start[4:]))
    optimizer, steps = torch.optim.SGD([U, V], lr=0.2), 40  # few: later steps amplify rounding
    for _ in range(steps):
        optimizer.zero_grad()
        losses.logistic((torch.tensor(a) @ U * (torch.tensor(b) @ V)).sum(dim=1)).mean().backward()
        optimizer.step()
    path = lesson["descend"](start[:4], start[4:], A, 0.2, [1, steps])
    np.testing.assert_allclose(path[-1][0], U.detach(), rtol=1e-6)
    np.testing.assert_allclose(path[-1][1], V.detach(), rtol=1e-6)


def test_the_pull_is_the_negative_gradient(lesson):
    _, _, A = rows(seed=0)
    W = torch.randn(
        2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True
    )
    u = torch.einsum("iab,kab->ki", torch.tensor(A), W)
    losses.logistic(u).mean(dim=1).sum().backward()
    given = W.detach().numpy()
    np.testing.assert_allclose(lesson["outputs"](given, A), u.detach())
    np.testing.assert_allclose(lesson["pull"](given, A), -W.grad)
    np.testing.assert_allclose(lesson["pull"](given[1], A), -W.grad[1])
    scaled = lesson["pull"](given, A, scaled=True) / -W.grad.numpy()
    np.testing.assert_allclose(scaled, np.broadcast_to(scaled[:, :1, :1], scaled.shape))
    assert np.isfinite(lesson["pull"](1e6 * given, A, scaled=True)).all()


def test_follow_follows_the_flow(lesson):
    """Against scipy's solver of U' = M V, V' = M^T U, M the scaled pull, until all u_i >= 3 log 10."""
    A = lesson["features"](*lesson["survey"](3, d=4))
    starts = [0.1, 1e-3]
    (found,) = lesson["follow"](starts, A, [3])

    def flow(_, pair):
        U, V = pair.reshape(2, 4, 4)
        M = lesson["pull"](U @ V.T, A, scaled=True)
        return np.concatenate([(M @ V).ravel(), (M.T @ U).ravel()])

    def reached(_, pair):
        U, V = pair.reshape(2, 4, 4)
        return lesson["outputs"](U @ V.T, A).min() - 3 * np.log(10)

    reached.terminal = True
    for start, W in zip(starts, found, strict=True):
        begin = np.concatenate([start * np.eye(4).ravel(), np.zeros(16)])
        end = solve_ivp(flow, (0, 1e4), begin, events=reached, rtol=1e-8, atol=1e-12).y_events[0][0]
        U, V = end.reshape(2, 4, 4)
        assert 0 <= lesson["outputs"](W, A).min() - 3 * np.log(10) < 0.5
        assert lesson["cosine"](W, U @ V.T) > 0.999
        assert np.linalg.norm(W) == pytest.approx(np.linalg.norm(U @ V.T), rel=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_blank_is_the_best(seed):
    a, b, e = np.random.default_rng(seed).normal(size=3)

    def norm(c):
        return np.linalg.norm([[a, b], [e, c]], "nuc")

    best = best_blank(a, b, e)
    assert all(norm(best) <= norm(c) + 1e-12 for c in best + np.linspace(-3, 3, 601))


@pytest.mark.parametrize("seed", range(4))
def test_the_wait_is_what_two_factors_do(seed):
    """Descent on two factors with the constant pull M, in small steps, from W and a newcomer beside it."""
    W, M, newcomer, share = next(
        case for case in exercises.find("04.6").draw(seed) if case[0].shape == (4, 4)
    )
    p, s, qt = np.linalg.svd(W)
    xi, _, zeta = np.linalg.svd(M)
    U = np.column_stack([p[:, :2] * np.sqrt(s[:2]), np.sqrt(newcomer) * xi[:, 0]])
    V = np.column_stack([qt[:2].T * np.sqrt(s[:2]), np.sqrt(newcomer) * zeta[0]])
    assert (s[2:] < 1e-12).all()
    c, then = wait(W, M, newcomer, share)
    while np.linalg.norm(U[:, 2]) ** 2 < share * (top := np.linalg.norm(U[:, :2] @ V[:, :2].T, 2)):
        U, V = factor_step(U, V, M, 0.002 / np.linalg.norm(M, 2))
    assert top == pytest.approx(then, rel=0.03)
    assert c > 1


@pytest.mark.parametrize("seed", range(3))
def test_the_certificate_is_the_librarys(seed):
    a, b, A = rows(seed)
    problem = svm.HardMarginProblem(torch.tensor(a), torch.tensor(b), torch.ones(7).double())
    solution = svm.solve(problem, norm="nuc")
    lower, upper = certify(solution.value.numpy(), solution.dual.numpy(), A)
    assert lower == pytest.approx(solution.margin.item(), rel=1e-6)
    assert 1 - lower / upper == pytest.approx(solution.gap.item(), abs=1e-8)
    assert np.linalg.norm(solution.value.numpy(), "nuc") == pytest.approx(solution.objective.item(), rel=1e-6)


@pytest.mark.parametrize("steps", [1, 4, 30])
def test_the_race_is_run_by_the_lessons_step(steps):
    M = np.random.default_rng(steps).normal(size=(4, 4)) / 10
    U, V = 0.3 * np.eye(4), np.zeros((4, 4))
    for _ in range(steps):
        U, V = factor_step(U, V, M, 0.5)
    np.testing.assert_allclose(np.linalg.svd(U @ V.T)[1], race(M, 0.3, 0.5, steps), rtol=1e-9)


def test_the_balanced_split_costs_the_nuclear_norm():
    p, s, qt = np.linalg.svd(np.random.default_rng(0).normal(size=(4, 3)), full_matrices=False)
    np.testing.assert_allclose(costs(p * np.sqrt(s), qt.T * np.sqrt(s)), s.sum())
    np.testing.assert_allclose(costs(p * s, qt.T), [(s @ s + 3) / 2, s.sum(), s.sum()])
