"""What lesson 02 builds from scratch agrees with `mini_attn.svm` (its solutions equal these references)."""

import numpy as np
import pytest
import torch

from course import exercises
from mini_attn import svm

primal, upper_bound, kkt, dual_ascent, largest_margin, certify = (
    spec.reference for spec in exercises.exercises("02")
)


@pytest.fixture(params=range(3))
def separable(request):
    rng = np.random.default_rng(request.param)
    X = rng.normal(size=(8, 3))
    X[:, 0] = np.abs(X[:, 0]) + 0.3
    y = np.repeat([1.0, -1.0], 4)
    return y[:, None] * X, y


def library(X, y):
    return svm.solve(svm.label_problem(torch.as_tensor(X), torch.as_tensor(y)))


def test_dual_ascent_ends_at_the_librarys_solution(separable):
    X, y = separable
    lam, solution = dual_ascent(X, y, 2000), library(X, y)
    np.testing.assert_allclose((lam * y) @ X, solution.value, rtol=1e-6)
    np.testing.assert_allclose(lam / lam.sum(), solution.dual / solution.dual.sum(), atol=1e-6)
    np.testing.assert_allclose(upper_bound(lam, X, y), solution.margin, rtol=1e-9)


def test_the_librarys_dual_satisfies_the_kkt_conditions(separable):
    X, y = separable
    solution = library(X, y)
    lam = solution.dual.numpy() * solution.objective.item()  # the lesson's scale, w = sum lam_i a_i
    assert max(kkt(solution.value.numpy(), lam, X, y)) < 1e-9


def test_the_librarys_gap_is_the_lessons(separable):
    X, y = separable
    solution, weights = library(X, y), np.linspace(1, 2, 8)
    w = solution.value.numpy() + 0.1
    margin = (y * (X @ w)).min() / np.linalg.norm(w)
    assert margin <= solution.margin <= upper_bound(weights, X, y)
    best = solution.value.numpy()
    cosine = w @ best / np.linalg.norm(w) / np.linalg.norm(best)
    assert cosine >= margin / upper_bound(weights, X, y)
    lower, upper = certify(50 * w, X, y)
    assert lower == pytest.approx(margin)
    assert upper >= solution.margin.item()
