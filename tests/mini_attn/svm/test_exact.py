"""Rational arithmetic: the shortest W, rays, and certificates without rounding."""

from fractions import Fraction

import pytest
import torch

from mini_attn import svm
from mini_attn.svm.exact import certified_exactly, exact_answer, solve_exact
from mini_attn.svm.rational import integer_rows, shortest


def t(rows):
    return torch.tensor(rows, dtype=torch.float64)


def two_rows(angle, r=(1.0, 1.0)):
    """Two rows at an angle from opposite; the shortest w with margins 1 is (1, 2 / angle)."""
    one = torch.ones(1, 2, 1, dtype=torch.float64)
    return svm.HardMarginProblem(t([[[1.0, 0.0], [-1.0, angle]]]), one, t([list(r)]))


def test_whole_numbers_have_the_same_zeros_signs_and_ratios():
    rows, right, factors = integer_rows([[0.5, -0.25]], [[2.0, 0.1]], [1.0])
    assert rows[0][0] * -1 == rows[0][2] * 2
    assert Fraction(rows[0][1], rows[0][0]) == Fraction(0.1) / 2
    assert right[0] == factors[0] * 1


def test_the_shortest_w_comes_with_its_proof():
    rows, r = [[1, 0], [0, 1], [-1, 3]], [1, 1, 4]
    w, weights = shortest(rows, r, [False] * 3)
    assert w == [1, Fraction(5, 3)]
    assert [sum(x * row[k] for x, row in zip(weights, rows, strict=True)) for k in (0, 1)] == w
    assert weights[1] == 0
    assert shortest(rows, r, [False] * 3, most=1) == (None, None)


def test_where_there_is_no_w_there_is_a_ray():
    w, ray = shortest([[1, 1], [-1, 0], [0, -1]], [2, -1, 0], [False, False, False])
    assert w is None
    assert ray[0] == ray[1] == ray[2] > 0


@pytest.mark.parametrize("angle", [1e-3, 1e-9, 1e-14])
def test_nearly_opposite_rows_are_solved_to_the_last_digit(angle):
    problem = two_rows(angle)
    W, dual, _ = solve_exact(problem, "fro", 1e-9)
    assert W[0, :, 0].tolist() == [1.0, pytest.approx(2 / angle, rel=1e-15)]
    dual, gap = certified_exactly(problem, W, dual, "fro")
    assert gap < 1e-15
    assert certified_exactly(problem, 1.01 * W, dual, "fro")[1] == pytest.approx(1 - 1 / 1.01)


def test_large_problems_are_given_up_and_cost_nothing():
    problem = svm.HardMarginProblem(
        torch.ones(1, 600, 12).double(), torch.ones(1, 600, 1).double(), torch.ones(1, 600).double()
    )
    W, dual, _ = solve_exact(problem, "fro", 1e-9)
    assert not W.any()
    assert not dual.any()


def test_a_certificate_notices_what_rounding_hides():
    problem = two_rows(1e-9)
    W, dual = t([[[1.0], [2e9]]]), t([[2e18, 2e18]])
    assert certified_exactly(problem, W, dual, "fro")[1] < 1e-9
    assert certified_exactly(problem, t([[[1.5], [2e9]]]), dual, "fro")[1] == torch.inf  # misses row 1
    assert certified_exactly(problem, t([[[-1.0], [2e9]]]), dual, "fro")[1] == torch.inf  # a margin below 0
    assert certified_exactly(problem, W * torch.nan, dual, "fro")[1] == torch.inf


def test_answers_are_in_the_rows_own_units():
    problem = svm.HardMarginProblem(t([[0.1], [0.3]]), t([[2.0], [7.0]]), t([1.0, 1.0]))
    W, dual, is_ray = exact_answer(problem, problem.r.tolist())
    assert not is_ray
    torch.testing.assert_close(problem.adjoint(dual), W)
    torch.testing.assert_close(problem.forward(W).amin(), t(1.0))
