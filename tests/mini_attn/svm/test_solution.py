"""The certificate: what it accepts, repairs, and counts against a candidate."""

import pytest
import torch

from mini_attn import svm
from mini_attn.svm.euclidean import block_pivot, gram_matrix
from mini_attn.svm.solution import certify


def unit_square(equality=None, r=(1.0, 1.0)):
    """w_1 >= r_1 and w_2 >= r_2 in the plane; with r = (1, 1) the answer is (1, 1), with weights (1, 1)."""
    a = torch.eye(2, dtype=torch.float64)[None]
    b = torch.ones(1, 2, 1, dtype=torch.float64)
    flags = None if equality is None else torch.tensor([equality])
    return svm.HardMarginProblem(a, b, torch.tensor([r], dtype=torch.float64), flags)


def check(problem, w, dual):
    w, dual = (torch.tensor([x], dtype=torch.float64) for x in (w, dual))
    W, dual, gap, reach = certify(problem, w[..., None], dual, "fro")
    return W[0, :, 0].tolist(), dual[0], gap.item(), reach.item()


def test_candidates_are_scaled_to_the_boundary():
    w, dual, gap, reach = check(unit_square(), (0.2, 0.2), (7.0, 7.0))
    assert w == [1.0, 1.0]
    torch.testing.assert_close(dual, torch.full((2,), 0.5**0.5, dtype=torch.float64))
    assert gap < 1e-15
    assert reach == pytest.approx(2**0.5)  # one row alone asks for length 1


def test_the_gap_is_the_distance_between_the_two_bounds():
    w, _, gap, _ = check(unit_square(), (2.0, 1.0), (1.0, 0.0))
    assert w == [2.0, 1.0]
    assert gap == pytest.approx((5**0.5 - 1) / 5**0.5)  # |w| = sqrt 5; the first row alone proves 1


def test_negative_weights_prove_nothing():
    _, dual, gap, _ = check(unit_square(r=(1.0, -1.0)), (1.0, -1.0), (1.0, -1.0))
    assert dual.tolist() == [1.0, 0.0]
    assert gap == pytest.approx(1 - 0.5**0.5)


def test_negative_weights_count_on_equalities():
    _, dual, gap, _ = check(unit_square((False, True), (1.0, -1.0)), (1.0, -1.0), (1.0, -1.0))
    assert dual[1] < 0
    assert gap < 1e-15


@pytest.mark.parametrize("equality", [(False, True), None])
def test_what_scaling_cannot_repair_is_counted(equality):
    w, _, gap, _ = check(unit_square(equality, (1.0, 0.0)), (1.0, -0.1), (1.0, 0.0))
    assert w == [1.0, -0.1]
    assert gap == pytest.approx((1.01**0.5 - 1) / 1.01**0.5 + 0.1 / 1.01**0.5)


def test_a_margin_of_the_wrong_sign_spoils_the_gap_even_where_the_lengths_agree():
    assert check(unit_square(), (1.0, -1.0), (1.0, 1.0))[2] == torch.inf
    assert check(unit_square(r=(1.0, 1e-9)), (1.0, -1e-12), (1.0, 0.0))[2] == torch.inf
    assert check(unit_square(r=(1.0, 1e-9)), (1.0, 1e-9), (1.0, 0.0))[2] < 1e-15


def test_candidates_that_are_nan_leave_an_infinite_gap():
    assert check(unit_square(), (torch.nan, 1.0), (torch.nan, 1.0))[2] == torch.inf


def test_rays():
    a = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]], dtype=torch.float64)
    b, r = torch.ones(1, 2, 1, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    contradiction = svm.HardMarginProblem(a, b, r)
    _, dual, gap, reach = check(contradiction, (1.0, 0.0), (3.0, 3.0))
    assert reach > 1e14  # only the rounding allowance keeps it from inf
    assert dual[0] == dual[1] > 0
    assert gap == torch.inf
    assert check(contradiction, (1.0, 0.0), (3.0, 2.9))[3] == pytest.approx(59)


def test_block_pivots_keep_equality_rows_in_the_support():
    problem = unit_square((False, True), (1.0, -1.0))
    dual, sure, steps = block_pivot(problem, gram_matrix(problem), torch.ones(1, 2, dtype=torch.bool))
    assert sure
    assert dual.tolist() == [[1.0, -1.0]]
    assert steps == 1


def test_block_pivots_are_not_sure_of_rows_that_contradict_each_other():
    a, b = torch.ones(1, 2, 1, dtype=torch.float64), torch.ones(1, 2, 1, dtype=torch.float64)
    equality = torch.ones(1, 2, dtype=torch.bool)
    problem = svm.HardMarginProblem(a, b, torch.tensor([[1.0, 2.0]], dtype=torch.float64), equality)
    _, sure, _ = block_pivot(problem, gram_matrix(problem), equality)
    assert not sure
