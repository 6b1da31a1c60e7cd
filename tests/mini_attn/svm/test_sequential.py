"""l_p problems through quadratic programs in rational arithmetic: as others find, and where others stop."""

import math

import pytest
import torch

from mini_attn import svm
from mini_attn.svm.exact import certified_exactly
from mini_attn.svm.sequential import solve_sequential

NORMS = [1, 1.01, 1.5, 3, 50.0, math.inf]


def attention(seed, equality=False):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(4, 3, 3, 4, generator=generator, dtype=torch.float64)
    z = torch.randn(4, 3, 2, generator=generator, dtype=torch.float64)
    problem = svm.attention_problem(X, z, torch.zeros(4, 3, dtype=torch.int64))
    fixed = torch.rand(problem.r.shape, generator=generator) < 0.3
    return svm.HardMarginProblem(problem.a, problem.b, problem.r, fixed) if equality else problem


def steep(angle, seed=0):
    """Two rows at an angle from opposite, and two more."""
    generator = torch.Generator().manual_seed(seed)
    u, v, *others = torch.randn(4, 1, 3, generator=generator, dtype=torch.float64)
    a = torch.stack([u, -u + angle * v, *others], 1)
    return svm.HardMarginProblem(a, torch.ones_like(a[..., :2]), torch.ones_like(a[..., 0]))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("equality", [pytest.param(False, marks=pytest.mark.slow), True])
def test_ordinary_problems_have_the_answers_that_newton_steps_find(norm, equality):
    problem = attention(1, equality)
    exact = svm.solve(problem, norm, method="exact", throw=False)
    batched = svm.solve(problem, norm, method="batched", throw=False)
    assert (exact.gap < (1e-6 if norm not in (1, math.inf) else 1e-3)).all()  # linear programs may have ties
    assert ((exact.objective / batched.objective - 1).abs() <= 2 * (exact.gap + batched.gap)).all()
    assert exact.iterations.max() > 1


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("angle", [1e-6, 1e-8])
def test_nearly_opposite_rows_are_solved(norm, angle):
    problem = steep(angle)
    W, dual, _ = solve_sequential(problem, norm, 1e-6)
    assert certified_exactly(problem, W, dual, norm)[1] < 1e-6
    assert svm.solve(problem, norm).status.tolist() == ["optimal"]


@pytest.mark.parametrize(("norm", "seed"), [(1, 2), (math.inf, 3)])
def test_what_newton_steps_and_cvxpy_leave_open_is_decided(norm, seed):
    problem = steep(2e-8, seed)
    for method in ("batched", "cvxpy"):
        assert svm.solve(problem, norm, method=method, throw=False).status.tolist() == ["stopped"]
    assert svm.solve(problem, norm).status.tolist() == ["optimal"]


def test_what_is_too_large_or_has_no_w_is_given_up():
    ones = torch.ones(1, 600, 2).double()
    large = svm.HardMarginProblem(ones, torch.ones(1, 600, 1).double(), torch.ones(1, 600).double())
    opposite = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]]).double()
    none = svm.HardMarginProblem(opposite, torch.ones(1, 2, 1).double(), torch.ones(1, 2).double())
    for problem in (large, none):
        W, dual, _ = solve_sequential(problem, 3.0, 1e-6)
        assert not W.any()
        assert not dual.any()


@pytest.mark.parametrize("norm", ["nuc", "spectral"])
def test_norms_of_singular_values_are_refused(norm):
    with pytest.raises(ValueError, match="exponents p"):
        svm.solve(attention(0), norm, method="exact")
