"""What counts as a proof that no W exists, and what does not."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_attn import svm
from mini_attn.svm.farkas import _absorbed, _exact, refuted
from mini_attn.svm.rational import integer_rows, shortest
from mini_attn.svm.units import to_units


def t(rows):
    return torch.tensor(rows, dtype=torch.float64)


def proof(a, b, r, ray, equality=None):
    """Whether a candidate ray, given for the unit rows, is taken for a proof; and the ray that came of it."""
    equality = None if equality is None else torch.tensor([equality])
    units = to_units(svm.HardMarginProblem(t([a]), None if b is None else t([b]), t([r]), equality))
    proved, rays = refuted(units.unit, units.right, units.row_size, t([ray]))
    return proved.item(), rays[0], units.unit


def test_a_ray_near_an_exact_one_is_a_proof_and_becomes_it():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    rows[5] = -(rows[:5] * t([1.0, 2, 3, 4, 5])[:, None]).sum(
        0
    )  # rounded: the ray is only near (1, ..., 5, 1)
    units = to_units(svm.HardMarginProblem(rows[None], None, torch.ones(1, 6, dtype=torch.float64)))
    exact = t([1.0, 2, 3, 4, 5, 1]) * 2.0 ** units.row_size[0]
    proved, rays = refuted(
        units.unit, units.right, units.row_size, (exact * (1 + 1e-6 * t([1.0, -1, 1, -1, 1, -1])))[None]
    )
    assert proved
    assert units.unit.adjoint(rays).norm() < 1e-15 * exact.norm()


def test_a_feasible_problem_is_never_refuted():
    """1 and -1 + 1e-9 j: W = 2e9 j is long, but there is one."""
    proved, _, _ = proof([[1.0, 0.0], [-1.0, 1e-9]], None, [1.0, 1.0], [1.0, 1.0])
    assert not proved


@pytest.mark.parametrize("delta", [1.0, 1e-8, 1e-14])
def test_rows_that_span_less_than_the_space_are_refuted_exactly(delta):
    rows, right = [[1.0, 2.0, 0.0], [-1.0, -2.0, 0.0]], [1.0, -1.0 + delta]
    assert proof(rows, None, right, [1.0, 0.99])[0]
    assert not proof(rows, None, [1.0, -1.0], [1.0, 0.99])[0]  # 1 <= <A, W> <= 1


def test_right_hand_sides_of_both_signs_may_outweigh_each_other():
    rows = [[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]
    assert proof(rows, None, [1.0, -0.9, -0.9], [1.0, 0.5, 0.5])[0]
    assert not proof(rows, None, [1.0, -1.1, -1.1], [1.0, 0.5, 0.5])[0]


def test_equalities_count_for_the_group_of_their_own_b_only():
    """Rows 0 and 1 share b; the equality has another, and must not stand in for a row of theirs."""
    a, b = [[1.0], [1.0], [-1.0]], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    proved, _, _ = proof(a, b, [1.0, 1.0, 1.0], [1.0, 1.0, 2.0], [False, False, True])
    assert not proved


def test_a_huge_negative_right_hand_side_is_no_help():
    """-w >= -1e30 is far below what float64 can hold beside w >= 1, and w = 1 meets both."""
    assert not proof([[1.0], [-1.0]], None, [1.0, -1e30], [1.0, 1.0])[0]


def test_weights_that_are_no_ray_are_absorbed_nowhere():
    problem = svm.HardMarginProblem(t([[[0.5, 0.0], [0.0, 0.5]]]), t([[[0.5], [0.5]]]), t([[1.0, 1.0]]))
    proved, _ = _absorbed(problem, t([[1.0, 1.0]]))
    assert not proved
    power = torch.zeros(2, dtype=torch.int64)
    everywhere = torch.ones(2, dtype=torch.bool)
    assert _exact(problem[0], problem.b[0], problem.r[0], power, t([1.0, 1.0]), everywhere) is None


@pytest.mark.slow
@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=4, max_size=4), min_size=2, max_size=6),
    st.lists(st.integers(0, 5), min_size=6, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_a_proof_agrees_with_rational_arithmetic(rows, ray, equality):
    a, r = [row[:3] for row in rows], [row[3] for row in rows]
    ray, equality = ray[: len(rows)], equality[: len(rows)]
    proved, rays, unit = proof(
        [list(map(float, x)) for x in a], None, [float(x) for x in r], list(map(float, ray)), equality
    )
    w, _ = shortest(*integer_rows(a, None, [Fraction(x) for x in r])[:2], equality)
    if proved:
        assert w is None
        assert unit.adjoint(rays[None]).norm() <= 1e-12 * rays.norm()


def test_weights_below_zero_prove_nothing():
    problem = svm.HardMarginProblem(t([[[0.5], [0.5]]]), t([[[0.5], [0.5]]]), t([[1.0, 0.5]]))
    power = torch.zeros(1, 2, dtype=torch.int64)
    assert not refuted(problem, problem.r, power, t([[1.0, -1.0]]))[0]


def contradictory(rows, r, dtype):
    """Two equalities and their sum, which rounding made another."""
    rows = torch.tensor([*rows, [x + y for x, y in zip(*rows, strict=True)]], dtype=dtype)
    r = torch.tensor([*r, sum(r)], dtype=dtype)
    return svm.HardMarginProblem(rows, None, r, torch.ones(3, dtype=torch.bool))


@pytest.mark.parametrize("norm", ["fro", 1.01, float("inf")])
@pytest.mark.parametrize(
    ("rows", "r", "dtype"),
    [
        ([[0.7, 1.0], [0.1, 0.9]], [1.0, 2.0], torch.float32),
        ([[0.2, 1.0], [0.1, 0.1]], [1.0, 2.0], torch.float32),
        ([[0.9, 0.2], [0.3, 0.1]], [5.0, 2.0], torch.float64),
        ([[0.3, 2.2], [0.5, 1.5]], [5.0, 8.0], torch.float64),
    ],
)
def test_what_contradicts_itself_in_the_last_digit_has_an_exact_ray(rows, r, dtype, norm):
    problem = contradictory(rows, r, dtype)
    solution = svm.solve(problem, norm, throw=False)
    if solution.status == "optimal":  # up to tol
        assert dtype == torch.float64
        return
    weights, bounds = solution.dual.double(), problem.r.double()
    assert solution.status == "infeasible"
    noise = torch.finfo(dtype).eps * (weights * bounds).abs().sum()
    assert abs(weights @ bounds - 1) <= 2 * noise  # no sign to rely on ...
    ray = svm.exact_ray(problem, solution.dual)
    assert sum(x * Fraction(y) for x, y in zip(ray, problem.r.tolist(), strict=True)) == 1  # ... but here
    for column in problem.a.T.tolist():
        assert sum(x * Fraction(y) for x, y in zip(ray, column, strict=True)) == 0


def test_rounded_weights_lose_the_sign_that_the_exact_ray_has():
    problem = contradictory([[0.7, 1.0], [0.1, 0.9]], [1.0, 2.0], torch.float32)
    solution = svm.solve(problem, throw=False)
    assert (solution.dual.double() * problem.r).sum() <= 0
    ray = svm.exact_ray(problem, solution.dual)
    assert sum(x * Fraction(y) for x, y in zip(ray, problem.r.tolist(), strict=True)) > 0


def test_an_exact_ray_has_weights_on_the_rows_that_matter():
    a, b = t([[1.0, 0.0], [0.0, 1.0], [-2.0, 0.0]]), t([[3.0], [1.0], [3.0]])
    problem = svm.HardMarginProblem(a, b, t([1.0, 1.0, 1.0]))
    for dual in (t([1.0, 0.0, 0.5]), t([0.0, 1.0, 0.0]), t([0.0, 0.0, 0.0])):  # near it, or of no help
        assert svm.exact_ray(problem, dual) == [Fraction(2, 3), 0, Fraction(1, 3)]


def test_exact_rays_are_refused_where_there_is_none():
    problem = svm.HardMarginProblem(t([[1.0]]), None, t([1.0]))
    with pytest.raises(ValueError, match="has a W"):
        svm.exact_ray(problem, t([1.0]))
    for some, dual in ((problem, t([1.0, 1.0])), (problem, [1.0]), (problem[None], t([[1.0]]))):
        with pytest.raises(ValueError, match="expected one problem"):
            svm.exact_ray(some, dual)
