"""Every method against every other, on ordinary, degenerate and infeasible problems."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_attn import svm
from mini_attn.svm import dispatch
from mini_attn.svm.batched import solve_batched

NORMS = ["fro", "nuc", "spectral", 1, 1.5, 3, math.inf]
METHODS = [("fro", "nnls"), ("fro", "large")]
METHODS += [(norm, method) for norm in NORMS for method in ("cvxpy", "batched")]
few = settings(derandomize=True, max_examples=15, deadline=None)


def attention(n=2, T=3, d=4, batch=(), seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(*batch, n, T, d, generator=generator, dtype=dtype)
    z = torch.randn(*batch, n, d, generator=generator, dtype=dtype)
    selected = torch.randint(T, (*batch, n), generator=generator)
    return svm.attention_problem(X, z, selected)


def assert_certified(problem, solution, norm, gap):
    """Check the certificate without any code of the library."""
    W = solution.value if solution.value.ndim > problem.r.ndim else solution.value[..., None]
    total = problem.adjoint(solution.dual)
    total = total if total.ndim > problem.r.ndim else total[..., None]

    def size(M, name):
        s = torch.linalg.svdvals(M)
        if isinstance(name, str):
            return {"fro": M.square().sum((-2, -1)).sqrt(), "nuc": s.sum(-1), "spectral": s.amax(-1)}[name]
        return torch.linalg.vector_norm(M, name, dim=(-2, -1))

    swap = {"fro": "fro", "nuc": "spectral", "spectral": "nuc", 1: math.inf, math.inf: 1}
    star = swap[norm] if norm in swap else norm / (norm - 1)
    upper, lower = size(W, norm), (solution.dual * problem.r).sum(-1)
    torch.testing.assert_close(upper, solution.objective)
    assert (size(total, star) <= 1 + 1e-9).all()
    assert (solution.dual[~problem.is_equality] >= 0).all()
    assert ((upper - lower) / upper <= gap).all()
    slack = problem.forward(solution.value) - problem.r
    missing = torch.where(problem.is_equality, slack.abs(), (-slack).clamp_min(0))
    assert (missing <= gap * (1 + problem.r.abs().amax(-1, keepdim=True))).all()


@pytest.mark.parametrize(("norm", "method"), METHODS)
def test_toys_of_the_first_paper(norm, method):
    keys = torch.tensor([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    problem = svm.token_problem(keys.expand(2, 1, 3, 2), torch.tensor([[0], [1]]))
    solution = svm.solve(problem, norm=norm, method=method)
    if norm in ("fro", "nuc", "spectral"):
        assert [f"{half:.5f}" for half in (solution.objective**2 / 2).tolist()] == ["0.49505", "0.50000"]
        expected = torch.tensor([-0.1, 1.0], dtype=torch.float64)
        torch.testing.assert_close(solution.value[0] * 1.01, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(solution.margin, 1 / solution.objective)
    assert_certified(problem, solution, "fro" if norm in ("nuc", "spectral") else norm, 1e-6)


@pytest.mark.parametrize(("norm", "method"), METHODS)
def test_answers_are_certified(norm, method):
    problem = attention(batch=(2, 2))
    solution = svm.solve(problem, norm=norm, method=method)
    assert solution.value.shape == (2, 2, 4, 4)
    assert solution.status.shape == solution.gap.shape == solution.iterations.shape == (2, 2)
    assert (solution.status == "optimal").all()
    assert solution.seconds > 0
    assert_certified(problem, solution, norm, 1e-9 if norm == "fro" else 1e-6)


@pytest.mark.parametrize(("norm", "method"), METHODS)
def test_equality_rows(norm, method):
    problem = attention(n=2, T=4)
    equality = torch.tensor([True, False, True, False, False, False])
    r = torch.tensor([0.0, 1.0, -0.5, 1.0, 0.0, -2.0], dtype=torch.float64)
    problem = svm.HardMarginProblem(problem.a, problem.b, r, equality)
    solution = svm.solve(problem, norm=norm, method=method)
    assert_certified(problem, solution, norm, 1e-6)
    assert (solution.dual[equality] != 0).any()


@pytest.mark.parametrize(("norm", "method"), METHODS)
@pytest.mark.parametrize("scale", [1e-8, pytest.param(1e8, marks=pytest.mark.slow)])
def test_scale_changes_nothing_but_the_scale(norm, method, scale):
    problem = attention()
    plain = svm.solve(problem, norm=norm, method=method)
    scaled = svm.solve(
        svm.HardMarginProblem(problem.a * scale, problem.b, problem.r), norm=norm, method=method
    )
    assert scaled.status == "optimal"
    torch.testing.assert_close(scaled.objective * scale, plain.objective, rtol=1e-6, atol=0)
    mixed = torch.tensor([1.0, scale, 1.0, 1 / scale], dtype=torch.float64)
    rows = svm.HardMarginProblem(problem.a * mixed[:, None], problem.b, problem.r * mixed)
    torch.testing.assert_close(
        svm.solve(rows, norm=norm, method=method).objective, plain.objective, rtol=1e-6, atol=0
    )


@pytest.mark.parametrize(("norm", "method"), METHODS)
def test_an_infeasible_problem_does_not_spoil_its_neighbours(norm, method):
    problem = attention(batch=(4,))
    a = problem.a.clone()
    a[1, 0], a[2, 0] = 0, -a[2, 1]  # 0 >= 1; then, with the same query, x >= 1 and -x >= 1
    b = problem.b.clone()
    b[2, 0] = b[2, 1]
    spoiled = svm.HardMarginProblem(a, b, problem.r)
    solution = svm.solve(spoiled, norm=norm, method=method, throw=False)
    assert solution.status.tolist() == ["optimal", "infeasible", "infeasible", "optimal"]
    keep = [0, 3]
    alone = svm.solve(svm.HardMarginProblem(a[keep], b[keep], problem.r[keep]), norm=norm, method=method)
    torch.testing.assert_close(solution.objective[keep], alone.objective)
    assert solution.objective[1:3].isinf().all()
    assert (solution.margin[1:3] == 0).all()
    assert solution.value[1:3].isnan().all()
    ray = solution.dual[1:3]
    assert (ray >= 0).all()
    assert (spoiled.adjoint(solution.dual)[1:3].abs() < 1e-8).all()
    torch.testing.assert_close((ray * problem.r[1:3]).sum(-1), torch.ones(2, dtype=torch.float64))
    with pytest.raises(
        svm.InfeasibleError, match=r"2 of 4 problems \(first: \[1\]\) are infeasible"
    ) as caught:
        svm.solve(spoiled, norm=norm, method=method)
    assert caught.value.solution.status[1] == "infeasible"


@pytest.mark.parametrize(("norm", "method"), METHODS)
def test_contradicting_equalities_are_infeasible(norm, method):
    problem = attention()
    a, b = problem.a[[0, 0]], problem.b[[0, 0]]
    r = torch.tensor([1.0, -1.0], dtype=torch.float64)
    rows = svm.HardMarginProblem(a, b, r, torch.tensor([True, True]))
    assert svm.solve(rows, norm=norm, method=method, throw=False).status == "infeasible"


@pytest.mark.parametrize(("norm", "method"), METHODS)
def test_nothing_to_satisfy_means_zero(norm, method):
    single = svm.solve(attention(T=1, batch=(2,)), norm=norm, method=method)  # T = 1: no rows
    assert (single.value == 0).all()
    assert single.value.shape == (2, 4, 4)
    assert single.dual.shape == (2, 0)
    assert (single.status == "optimal").all()
    assert (single.margin == torch.inf).all()
    problem = attention()
    slack = svm.solve(svm.HardMarginProblem(problem.a, problem.b, -problem.r), norm=norm, method=method)
    assert slack.objective == slack.gap == 0


@pytest.mark.parametrize(("norm", "method"), METHODS)
def test_empty_batch_and_tiny_sizes(norm, method):
    empty = svm.solve(attention(batch=(0,)), norm=norm, method=method)
    assert empty.value.shape == (0, 4, 4)
    assert empty.status.shape == (0,)
    tiny = svm.solve(svm.label_problem(torch.tensor([[2.0]]), torch.tensor([-1])), norm=norm, method=method)
    torch.testing.assert_close(tiny.value, torch.tensor([-0.5]))


@pytest.mark.parametrize(("norm", "method"), METHODS)
def test_duplicated_rows_change_nothing(norm, method):
    problem = attention()
    twice = [0, 0, 1, 2, 3, 3, 3]
    again = svm.HardMarginProblem(problem.a[twice], problem.b[twice], problem.r[twice])
    solution = svm.solve(again, norm=norm, method=method)
    plain = svm.solve(problem, norm=norm, method=method)
    torch.testing.assert_close(solution.objective, plain.objective, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("norm", "method"), METHODS)
def test_ragged_batches_by_masks(norm, method):
    problem = attention(batch=(2,))
    mask = torch.tensor([[True, True, False, False], [True] * 4])
    ragged = svm.solve(
        svm.HardMarginProblem(problem.a, problem.b, problem.r, mask=mask), norm=norm, method=method
    )
    short = svm.HardMarginProblem(problem.a[0, :2], problem.b[0, :2], problem.r[0, :2])
    torch.testing.assert_close(
        ragged.objective[0], svm.solve(short, norm=norm, method=method).objective, rtol=1e-6, atol=0
    )
    assert (ragged.dual[0, 2:] == 0).all()


@pytest.mark.parametrize(("norm", "method"), METHODS)
def test_float32_in_float32_out(norm, method):
    solution = svm.solve(attention(dtype=torch.float32), norm=norm, method=method)
    assert solution.value.dtype == solution.dual.dtype == solution.gap.dtype == torch.float32
    double = attention(dtype=torch.float32)
    double = svm.HardMarginProblem(double.a.double(), double.b.double(), double.r.double())
    exact = svm.solve(double, norm=norm, method=method).objective
    torch.testing.assert_close(solution.objective.double(), exact, rtol=1e-6, atol=0)


sizes = {
    "n": st.integers(1, 5),
    "T": st.integers(2, 5),
    "d": st.integers(1, 4),
    "seed": st.integers(0, 10**6),
    "rounded": st.booleans(),
}


def random_problem(n, T, d, seed, rounded, batch=()):
    """Gaussian data, or small integers: duplicates, empty rows, many ties, infeasible problems."""
    problem = attention(n, T, d, batch, seed)
    if not rounded:
        return problem
    return svm.HardMarginProblem(problem.a.round(), problem.b.round(), problem.r)


@pytest.mark.parametrize("method", ["nnls", "batched", "large"])
@few
@given(**sizes)
def test_euclidean_methods_agree_with_cvxpy(method, n, T, d, seed, rounded):
    problem = random_problem(n, T, d, seed, rounded)
    one = svm.solve(problem, method=method, throw=False)
    two = svm.solve(problem, method="cvxpy", tol=1e-7, throw=False)
    assert one.status == two.status
    if one.status == "optimal":
        assert_certified(problem, one, "fro", 1e-8)
        torch.testing.assert_close(one.objective, two.objective, rtol=1e-6, atol=0)
        torch.testing.assert_close(one.value, two.value, rtol=1e-3, atol=1e-3 * two.objective.item())


@pytest.mark.parametrize("norm", ["nuc", *(pytest.param(norm, marks=pytest.mark.slow) for norm in NORMS[2:])])
@few
@given(**sizes)
def test_batched_agrees_with_cvxpy(norm, n, T, d, seed, rounded):
    problem = random_problem(n, T, d, seed, rounded, batch=(3,))
    one = svm.solve(problem, norm=norm, method="batched", throw=False)
    two = svm.solve(problem, norm=norm, method="cvxpy", tol=1e-5, throw=False)
    assert one.status.tolist() == two.status.tolist()
    torch.testing.assert_close(one.objective, two.objective, rtol=2e-6, atol=0)


@pytest.mark.slow
@few
@given(**sizes, free=st.integers(0, 2**6))
def test_equality_rows_agree_with_cvxpy(n, T, d, seed, rounded, free):
    problem = random_problem(n, T, d, seed, rounded)
    m = len(problem.r)
    equality = torch.tensor([bool(free >> (j % 6) & 1) for j in range(m)])
    problem = svm.HardMarginProblem(problem.a, problem.b, torch.where(equality, 0.0, problem.r), equality)
    for norm in ("fro", "nuc", 3):
        one = svm.solve(problem, norm=norm, method="batched", throw=False)
        two = svm.solve(problem, norm=norm, method="cvxpy", tol=1e-5, throw=False)
        assert one.status == two.status
        torch.testing.assert_close(one.objective, two.objective, rtol=1e-5, atol=1e-9)


def test_stopped_is_an_error_that_carries_the_answer():
    with pytest.raises(svm.SolveError, match=r"the problem is stopped .*raise tol") as caught:
        svm.solve(attention(), norm="nuc", method="cvxpy", tol=1e-17)
    assert caught.value.solution.gap < 1e-7


@pytest.mark.parametrize("norm", ["l2", 0.5, math.nan, None])
def test_unknown_norms(norm):
    with pytest.raises(ValueError, match="norm must be"):
        svm.solve(attention(), norm=norm)


def test_unknown_or_unfit_methods():
    with pytest.raises(ValueError, match="method must be"):
        svm.solve(attention(), method="simplex")
    with pytest.raises(ValueError, match='solves norm "fro"'):
        svm.solve(attention(), norm="nuc", method="nnls")


@pytest.mark.parametrize("norm", ["fro", "nuc", 1.5])
def test_a_first_guess_of_no_support_at_all_is_recovered_from(norm):
    """The gradient steps that guess the support leave nothing of two opposite rows, in a batch of its own."""
    keys = torch.tensor([[[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]], dtype=torch.float64)
    solution = svm.solve(svm.token_problem(keys, torch.tensor([1])), norm=norm, throw=False)
    assert solution.status == "infeasible"
    assert (solution.dual > 0).all()
    nearly = keys + torch.tensor([[0.0, 0.0], [0.0, 1e-3], [0.0, 0.0]], dtype=torch.float64)
    solution = svm.solve(svm.token_problem(nearly, torch.tensor([1])), norm=norm)
    torch.testing.assert_close(
        solution.value, torch.tensor([0.0, 1e3], dtype=torch.float64), rtol=1e-4, atol=1e-3
    )


def test_a_method_that_fails_on_one_problem_fails_on_that_one_alone(monkeypatch):
    """Whatever linear algebra raises, the neighbours keep their answers, and the next method takes over."""
    problem = attention(batch=(5,))
    expected = svm.solve(problem)
    poison = dispatch.to_units(problem).unit.a[3]

    def fragile(part, norm, tol):
        if (part.a == poison).flatten(1).all(-1).any():
            raise torch.linalg.LinAlgError("did not converge")
        return solve_batched(part, norm, tol)

    monkeypatch.setitem(dispatch.METHODS, "batched", fragile)
    with pytest.warns(RuntimeWarning, match=r"gave up on one problem.*did not converge"):
        solution = svm.solve(problem)
    torch.testing.assert_close(solution.value, expected.value)
    with pytest.warns(RuntimeWarning):
        alone = svm.solve(problem, method="batched", throw=False)
    assert alone.status.tolist() == ["optimal"] * 3 + ["stopped", "optimal"]


@pytest.mark.parametrize("norm", ["fro", 1, 3])
def test_a_w_that_float32_cannot_hold_is_said_to_be_so(norm):
    """Two rows at 1e-7 from opposite: w is 2e7 long, and 0.6 w_1 + 0.8 w_2 = 1 is lost in its rounding."""
    a = torch.tensor([[0.6, 0.8], [-0.6 + 8e-8, -0.8 - 6e-8]])
    steep = svm.HardMarginProblem(a, None, torch.ones(2))
    solution = svm.solve(steep, norm, throw=False)
    assert solution.status == "unrepresentable"
    double = svm.HardMarginProblem(a.double(), None, torch.ones(2).double())
    torch.testing.assert_close(solution.objective.double(), svm.solve(double, norm).objective)
    with pytest.raises(svm.SolveError, match="Convert the problem to float64"):
        solution.raise_for_status()


def test_a_w_beyond_the_range_of_its_dtype_is_said_to_be_so():
    tiny = svm.HardMarginProblem(torch.tensor([[1e-310]], dtype=torch.float64), None, torch.ones(1).double())
    solution = svm.solve(tiny, throw=False)
    assert solution.status == "unrepresentable"
    assert solution.objective == torch.inf
    assert solution.value.isnan()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_w_of_which_a_part_underflows_is_no_solution(sign):
    """w_1 = 1e-366 is 0 in float64, and its row then misses a right-hand side that is not 0."""
    rows = torch.tensor([[1e265, 0.0], [0.0, 1.0]], dtype=torch.float64)
    right = torch.tensor([sign * 1e-101, 1e-200], dtype=torch.float64)
    equality = torch.tensor([sign < 0, False])
    assert (
        svm.solve(svm.HardMarginProblem(rows, None, right, equality), throw=False).status == "unrepresentable"
    )
    alone = svm.HardMarginProblem(rows[:1, :1], None, right[:1], equality[:1])
    assert svm.solve(alone, throw=False).status == "unrepresentable"
    rest = svm.solve(svm.HardMarginProblem(rows[1:], None, right[1:]))
    assert rest.value.tolist() == [0.0, 1e-200]


def test_bound_is_below_the_optimum_also_where_its_terms_cancel():
    """Rows at 1e-12 from opposite: the shortest W is known in fractions."""
    e, low = 1e-12, -0.5 + 1e-10
    rows = torch.tensor([[1.0, 0.0], [-1.0, e]], dtype=torch.float64)
    problem = svm.HardMarginProblem(rows, None, torch.tensor([0.5, low], dtype=torch.float64))
    second = (Fraction(low) + Fraction(1, 2)) / Fraction(e)  # w_1 = 1/2: more would make both longer
    solution = svm.solve(problem)
    assert Fraction(float(solution.bound)) ** 2 <= Fraction(1, 4) + second**2
    assert solution.bound == pytest.approx(float(second), rel=1e-5)


def test_solutions_say_their_norm_bound_and_worst_row():
    problem = attention(batch=(3,))
    for norm in NORMS:
        solution = svm.solve(problem, norm=norm)
        assert solution.norm == norm
        assert (solution.bound <= solution.objective * (1 + 1e-12)).all()
        assert (solution.violation <= 1e-12).all()
        torch.testing.assert_close(solution.bound, (solution.dual * problem.r).sum(-1))
    points = svm.token_problem(torch.eye(3, dtype=torch.float64)[None], torch.tensor([0]))
    assert svm.solve(points, norm="nuc").norm == "fro"


def test_a_contradiction_up_to_rounding_is_out_of_reach_and_says_so():
    """e_1 - e_2, e_2 - e_3, e_3 - e_1 add up to rounding errors, so float64 cannot tell."""
    tokens = torch.randn(3, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    cycle = svm.HardMarginProblem(tokens - tokens.roll(-1, 0), None, torch.ones(3, dtype=torch.float64))
    solution = svm.solve(cycle, throw=False)
    assert solution.status in ("unreachable", "infeasible")
    assert solution.value.isnan().all()
    assert solution.objective.isinf()
    with pytest.raises(svm.SolveError, match=r"no W of norm below \d|no W satisfies every row"):
        svm.solve(cycle)


def test_a_method_for_one_norm_says_so():
    for method in ("nnls", "large"):
        with pytest.raises(ValueError, match=rf'"{method}" solves norm "fro"'):
            svm.solve(attention(), norm=1, method=method)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"norm": [1]}, "norm must be"),
        ({"norm": True}, "norm must be"),
        ({"method": ["nnls"]}, "method must be"),
        ({"tol": 0.0}, "tol is a relative gap"),
        ({"tol": math.inf}, "tol is a relative gap"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(arguments, says):
    with pytest.raises(ValueError, match=says):
        svm.solve(attention(), **arguments)
    with pytest.raises(ValueError, match="expected a HardMarginProblem"):
        svm.solve((1, 2))


def test_a_tolerance_may_be_any_number():
    assert svm.solve(attention(), tol=np.float32(1e-6)).status == "optimal"


W_EXISTS = [  # where unit rows or right-hand sides lose bits, and rays of theirs refute something else
    ([[2.0**60, 2.0**-1020], [-(2.0**60), 0.0]], None, [2.0**-1020, 0.0], None),
    ([[1e300, 1e-300], [-1e300, 0.0]], None, [1.0, 1.0], None),
    (
        [[1.0], [1.0], [-1.0]],
        [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]],
        [1.0, 1e-305, -1e-303],
        [True, False, False],
    ),
    ([[1.0, 1e-160], [-1.0, 0.0]], None, [1.0, 1.0], None),  # weights beyond every float
]


@pytest.mark.parametrize("norm", ["fro", "nuc", 1])
@pytest.mark.parametrize(("a", "b", "r", "equality"), W_EXISTS)
def test_numbers_hundreds_of_powers_apart_refute_nothing(norm, a, b, r, equality):
    a, b, r = (None if x is None else torch.tensor(x, dtype=torch.float64) for x in (a, b, r))
    problem = svm.HardMarginProblem(a, b, r, None if equality is None else torch.tensor(equality))
    assert svm.solve(problem, norm, throw=False).status != "infeasible"


def test_a_bound_is_below_the_truth_where_rows_are_nearly_opposite():
    rows = [[0.7162855007574144, -2.2465103634602075], [-0.7162855007574526, 2.246510363460354]]
    problem = svm.HardMarginProblem(torch.tensor(rows, dtype=torch.float64), None, torch.ones(2).double())
    assert 0 < svm.solve(problem, throw=False).bound < 2.4596e14  # by rational arithmetic: 2.45961e14
