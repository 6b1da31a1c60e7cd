"""The judge of the torture must find wrong answers, and its rational arithmetic must agree with others."""

import dataclasses

import numpy as np
import pytest
import scipy.optimize
import torch
from families import FAMILIES, P
from judge import _root, judge, shortest

from mini_attn import svm
from mini_attn.svm.rational import integer_rows


def t(rows):
    return torch.tensor(rows, dtype=torch.float64)


def solved():
    """A feasible and an infeasible problem, with right answers."""
    a = t([[[1, 0], [0, 1], [1, 1]], [[1, 0], [-1, 0], [0, 1]]])
    problem = P(a, None, torch.ones(2, 3, dtype=torch.float64))
    solution = svm.solve(problem, throw=False)
    assert solution.status.tolist() == ["optimal", "infeasible"]
    return problem, solution


def test_right_answers_pass():
    assert judge(*solved(), "fro") == ["", ""]


WRONG = {
    "row missed": lambda s: {"value": s.value * (1 - 1e-8)},
    "objective said": lambda s: {"objective": s.objective * (1 + 1e-9)},
    "optimal, and off by": lambda s: {
        name: getattr(s, name) * factor
        for name, factor in (("value", 1 + 1e-8), ("objective", 1 + 1e-8), ("margin", 1 - 1e-8))
    },
    "margin said": lambda s: {"margin": 2 * s.margin},
    "norm said": lambda s: {"norm": 3.0},
    "violation said": lambda s: {"violation": s.violation + 1e-9},
    "beyond the dual ball": lambda s: {"dual": s.dual * (1 + 1e-7)},
    "negative weight": lambda s: {"dual": -s.dual},
    "wrong sign": lambda s: {"value": -s.value},
    "not finite": lambda s: {"value": s.value * torch.nan},
    "with a gap": lambda s: {"gap": s.gap + 1e-8},
    "though a W exists": lambda s: {"status": np.array(["infeasible", "infeasible"])},
    "need be only": lambda s: {"status": np.array(["unreachable", "infeasible"])},
    "weights that are no ray": lambda s: {"dual": torch.stack([s.dual[0], -s.dual[1]])},
    "weights that leave": lambda s: {"dual": s.dual + torch.tensor([[0.0] * 3, [1.0, 0, 0]]).double()},
    "stopped though": lambda s: {"status": np.array(["stopped", "infeasible"])},
}


@pytest.mark.parametrize("found", WRONG)
def test_wrong_answers_are_found(found):
    problem, solution = solved()
    verdicts = judge(problem, dataclasses.replace(solution, **WRONG[found](solution)), "fro")
    assert any(found in verdict for verdict in verdicts)


def test_an_optimum_that_cannot_exist_is_found():
    problem, solution = solved()
    value = torch.nan_to_num(solution.value, nan=1e12)
    claims = {"value": value, "status": np.array(["optimal", "optimal"])}
    assert "wrong sign" in judge(problem, dataclasses.replace(solution, **claims), "fro")[1]


def test_a_dtype_with_room_for_w_is_no_excuse():
    steep = P(torch.tensor([[[0.6, 0.8], [-0.6 + 8e-8, -0.8 - 6e-8]]]), None, torch.ones(1, 2))
    solution = svm.solve(steep, throw=False)
    assert solution.status == "unrepresentable"
    assert judge(steep, solution, "fro") == [""]
    for fault, found in (
        ({"gap": solution.gap + 1}, "gap of"),
        ({"objective": 2 * solution.objective}, "off by"),
    ):
        assert found in judge(steep, dataclasses.replace(solution, **fault), "fro")[0]
    problem, solution = solved()
    claims = {"status": np.array(["unrepresentable", "infeasible"])}
    assert "has room" in judge(problem, dataclasses.replace(solution, **claims), "fro")[0]


def test_rational_arithmetic_agrees_with_a_linear_program_and_with_least_squares():
    seen = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        m, d = rng.integers(1, 9), rng.integers(1, 4)
        A, r = rng.normal(size=(m, d)), rng.choice([1.0, 0.0, -0.5], m)
        w = shortest(*integer_rows(A.tolist(), None, r.tolist())[:2], [False] * m)
        program = scipy.optimize.linprog(np.zeros(d), -A, -r, bounds=(None, None))
        assert (w is None) == (program.status == 2)
        seen.add(w is None)
        if w is not None:
            u, _ = scipy.optimize.nnls(np.vstack([A.T, r]), np.eye(d + 1)[-1])
            rest = np.vstack([A.T, r]) @ u - np.eye(d + 1)[-1]
            np.testing.assert_allclose([float(x) for x in w], -rest[:-1] / rest[-1], atol=1e-9)
    assert seen == {True, False}


def test_rational_arithmetic_on_equalities():
    rows, r, _ = integer_rows([[1.0, 0.1], [2.0, 0.2], [0.0, 1.0]], None, [1.0, 2.0, -3.0])
    assert shortest(rows, r, [True, True, True])[1] == -3
    assert shortest(rows, [r[0], r[1] + 1, r[2]], [True, True, False]) is None
    assert shortest(rows, [r[0], r[1] - 1, r[2]], [True, False, False]) is not None


def test_square_roots_of_rational_numbers():
    from fractions import Fraction

    for x in (Fraction(2), Fraction(1, 3), Fraction(10) ** 300, Fraction(1, 10**300), Fraction(7, 2**2000)):
        root = _root(x)
        assert abs(float(Fraction(*root.as_integer_ratio()) ** 2 / x) - 1) < 1e-17 + 2e-16


def test_families_repeat_themselves():
    for make in FAMILIES.values():
        one, other = (make(np.random.default_rng(5), 4) for _ in range(2))
        assert torch.equal(one.problem.a, other.problem.a)
        assert torch.equal(one.problem.r, other.problem.r)
