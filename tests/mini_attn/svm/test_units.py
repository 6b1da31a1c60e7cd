"""Powers of two in and out: not a bit of the data changes, whatever its size."""

import pytest
import torch

from mini_attn import svm
from mini_attn.svm.units import to_units


def t(rows):
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1e-3, 1.0, 3e5, 1e300])
def test_rows_come_near_length_1_and_keep_every_bit(size):
    a = t([[0.3, -0.7], [0.0, 0.1]]) * size
    units = to_units(svm.HardMarginProblem(a, t([[3e-5], [2e7]]), t([1.0, 2.0])))
    for factor in (units.unit.a, units.unit.b):
        assert (factor.norm(dim=-1) < 1).all()
        assert (factor.norm(dim=-1) >= 0.5).all()
    ratio = (units.unit.a[0, 0, 0] / units.unit.a[0, 0, 1]).item()
    assert ratio == (a[0, 0] / a[0, 1]).item()
    assert 0.5 <= units.unit.r.abs().max() < 1


def test_answers_come_back_in_the_units_that_were_given():
    a, b, r = t([[3e-120, 4e-120]]), t([[5e80]]), t([1e-3])
    problem = svm.HardMarginProblem(a, b, r)
    units = to_units(problem)
    W = units.unit.adjoint(
        units.unit.r / units.unit.forward(units.unit.adjoint(torch.ones_like(units.unit.r)))
    )
    value = units.value(W)[0]
    torch.testing.assert_close(problem.forward(value), r)
    torch.testing.assert_close(units.from_value(value[None]), W)
    dual = units.dual(torch.ones(1, 1, dtype=torch.float64), torch.float64)[0]
    assert problem.adjoint(dual).norm() == pytest.approx(units.unit.adjoint(torch.ones(1, 1).double()).norm())


def test_weights_beyond_the_dtype_are_shortened_by_one_factor():
    a = t([[1e-310], [1.0]])
    units = to_units(svm.HardMarginProblem(a, None, t([1.0, 1.0])))
    dual = units.dual(torch.ones(1, 2, dtype=torch.float64), torch.float64)
    assert dual.isfinite().all()
    assert dual[0, 0] / dual[0, 1] > 1e305
    assert units.dual(torch.ones(1, 2, dtype=torch.float64), torch.float32).max() < 3.4e38


def test_rows_that_hold_anyway_ask_for_nothing():
    units = to_units(svm.HardMarginProblem(t([[0.0], [1.0]]), t([[1.0], [1.0]]), t([-5.0, 1.0])))
    assert units.unit.r.tolist() == [[0.0, 0.5]]
