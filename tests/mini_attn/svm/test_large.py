"""Many rows on one small matrix: the working-set method, and what `solve` chooses by itself."""

import pytest
import torch

from mini_attn import svm
from mini_attn.svm import dispatch, large


def planted(n, T, d, seed=0):
    """Token 0 of every sequence points along a rotation of the query, so that a separating W exists."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, T, d, generator=generator, dtype=torch.float64)
    z = torch.randn(n, d, generator=generator, dtype=torch.float64)
    X, z = X / X.norm(dim=-1, keepdim=True), z / z.norm(dim=-1, keepdim=True)
    rotation, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    X[:, 0] += 2 * z @ rotation.T
    return svm.attention_problem(X, z, torch.zeros(n, dtype=torch.int64))


def test_working_set_agrees_with_the_batched_method():
    problem = planted(40, 20, 6)
    one, two = (svm.solve(problem, method=method) for method in ("large", "batched"))
    torch.testing.assert_close(one.value, two.value, rtol=1e-9, atol=1e-9)
    assert one.gap < 1e-12


def test_thousands_of_rows_are_solved_by_default():
    problem = planted(200, 32, 12)  # 6,200 rows
    solution = svm.solve(problem)
    assert solution.gap < 1e-10
    assert 0 < (solution.dual > 0).sum() <= 144
    reach = problem.forward(solution.value)
    assert reach.min() >= 1 - 1e-12


@pytest.mark.parametrize("keep", [0.5, 0.99])
def test_ungrouped_rows(keep):
    problem = planted(60, 10, 5)
    rows = torch.rand(540, generator=torch.Generator().manual_seed(1)) < keep
    problem = svm.HardMarginProblem(problem.a[rows], problem.b[rows], problem.r[rows])
    one, two = (svm.solve(problem, method=method) for method in ("large", "batched"))
    torch.testing.assert_close(one.value, two.value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [[0, 1, 2, 4, 6, 7], [0, 2, 4], [0, 1, 2, 3, 4, 5], [0]])
def test_passes_over_all_rows_whatever_their_grouping(rows):
    problem = planted(4, 3, 4)  # runs of 2
    problem = svm.HardMarginProblem(problem.a[rows], problem.b[rows], problem.r[rows])
    W = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(large._passes(problem).forward(W), problem.forward(W))


def test_low_dimension_with_many_points():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(5000, 2, generator=generator, dtype=torch.float64)
    X[:, 0] += 0.05 * X[:, 0].sign()
    solution = svm.solve(svm.label_problem(X, X[:, 0].sign()))
    assert solution.gap < 1e-9
    assert (solution.dual > 0).sum() <= 3


@pytest.mark.slow
def test_a_large_infeasible_problem_is_refuted():
    problem = planted(200, 32, 12)
    a = problem.a.clone()
    a[77] = -a[78]
    b = problem.b.clone()
    b[77] = b[78]
    contradiction = svm.HardMarginProblem(a, b, problem.r)
    refuted = svm.solve(contradiction, throw=False)
    assert refuted.status == "infeasible"
    assert refuted.gap < 1e-9
    assert (refuted.dual >= 0).all()
    assert abs(refuted.dual.sum() - 1) < 1e-12
    assert contradiction.adjoint(refuted.dual).abs().max() < 1e-9
    assert refuted.iterations < 300  # nobody waits for a ray as good as rounding allows: that took 952


def test_large_is_euclidean_only():
    with pytest.raises(ValueError, match=r'"large" solves norm "fro"'):
        svm.solve(planted(3, 3, 2), norm="nuc", method="large")


def teacher(n, T, d, seed=0):
    """The tokens that a random W prefers: nearly as many rows hold exactly as W has entries."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, T, d, generator=generator, dtype=torch.float64)
    z = torch.randn(n, d, generator=generator, dtype=torch.float64)
    W = torch.randn(d, d, generator=generator, dtype=torch.float64)
    return svm.attention_problem(X, z, (X @ (z @ W.T)[..., None]).squeeze(-1).argmax(-1))


@pytest.mark.slow
def test_tokens_of_a_teacher_have_a_large_support():
    problem = teacher(250, 16, 16)
    solution = svm.solve(problem)
    assert solution.gap < 1e-12
    assert 200 < (solution.dual > 0).sum() <= 256
    assert solution.iterations < 100


def test_newton_steps_over_rows_and_over_entries_are_the_same():
    problem = teacher(40, 6, 9)
    generator = torch.Generator().manual_seed(1)
    active = torch.rand(len(problem.r), generator=generator) < 0.3
    right = torch.randn(9, 9, generator=generator, dtype=torch.float64)
    for sigma in (0.1, 100.0):
        moves = [by(problem, active, sigma, right) for by in (large._factored, large._factored_in_rows)]
        torch.testing.assert_close(moves[0], moves[1], rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_newton_steps_over_rows_find_the_support(monkeypatch):
    monkeypatch.setattr(large, "CONJUGATE", 3)  # as if it had been too slow
    monkeypatch.setattr(large, "DIRECT", 0)  # and W too large
    solution = svm.solve(teacher(250, 16, 16))
    assert solution.gap < 1e-12
    assert 200 < (solution.dual > 0).sum() <= 256


@pytest.mark.parametrize(("n", "d", "flipped"), [(2100, 5, 0.5), (2100, 5, 0.01), (10_000, 2, 0.01)])
def test_labels_that_no_plane_separates_are_refuted_soon(n, d, flipped):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(n, d, generator=generator, dtype=torch.float64)
    y = X[:, 0].sign() * torch.where(torch.rand(n, generator=generator) < flipped, -1.0, 1.0)
    solution = svm.solve(svm.label_problem(X, y), throw=False)
    assert solution.status == "infeasible"
    assert solution.iterations < 200


@pytest.mark.parametrize("seed", range(4))
def test_right_hand_sides_of_both_signs(seed):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(601, 30, generator=generator, dtype=torch.float64)
    w = torch.randn(30, generator=generator, dtype=torch.float64)
    slack = torch.randn(601, generator=generator, dtype=torch.float64).abs()
    problem = svm.HardMarginProblem(a, None, a @ w - 0.1 * slack)
    large, batched = (svm.solve(problem, method=method) for method in ("large", "batched"))
    torch.testing.assert_close(large.objective, batched.objective, rtol=1e-9, atol=0)


def test_equalities_among_many_rows():
    problem = planted(40, 20, 6)
    equality = torch.zeros(len(problem.r), dtype=torch.bool)
    equality[:3] = True
    problem = svm.HardMarginProblem(problem.a, problem.b, problem.r, equality)
    one, two = (svm.solve(problem, method=method) for method in ("large", "batched"))
    torch.testing.assert_close(one.value, two.value, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(problem.forward(one.value)[:3], problem.r[:3])


@pytest.mark.parametrize("rows", [2004, 4000])
def test_equalities_that_contradict_each_other_are_refuted(rows):
    a, r = torch.eye(4, dtype=torch.float64).repeat(rows // 4, 1), torch.ones(rows, dtype=torch.float64)
    every = torch.ones(rows, dtype=torch.bool)
    assert svm.solve(svm.HardMarginProblem(a, None, r, every), throw=False).status == "optimal"
    other = r.index_fill(0, torch.tensor(rows - 1), 2.0)
    assert svm.solve(svm.HardMarginProblem(a, None, other, every), throw=False).status == "infeasible"
    a, free = torch.cat([a[:-1], -a[-2:-1]]), every & (torch.arange(rows) < rows - 2)
    assert svm.solve(svm.HardMarginProblem(a, None, r, free), throw=False).status == "infeasible"


def test_rows_that_depend_on_each_other_share_their_weight():
    X = torch.eye(30, dtype=torch.float64).repeat(80, 1)
    solution = svm.solve(svm.label_problem(X, torch.ones(2400)))
    torch.testing.assert_close(solution.value, torch.ones(30, dtype=torch.float64))
    assert solution.gap < 1e-12


@pytest.mark.slow
def test_a_teacher_of_few_dimensions_leaves_a_long_w_and_is_found():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(1000, 8, 12, generator=generator, dtype=torch.float64)
    z = torch.randn(1000, 12, generator=generator, dtype=torch.float64)
    W = torch.randn(12, 12, generator=generator, dtype=torch.float64)
    problem = svm.attention_problem(X, z, (X @ (z @ W.T)[..., None]).squeeze(-1).argmax(-1))
    solution = svm.solve(problem, method="large")
    assert solution.status == "optimal"
    assert solution.objective > 10


def test_a_gram_matrix_of_2000_rows_is_not_factorised_where_nobody_asks(monkeypatch):
    def refuse(*given, **more):
        raise AssertionError("batched")

    monkeypatch.setitem(dispatch.METHODS, "batched", refuse)
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(500, 5, 4, generator=generator, dtype=torch.float64)
    selected = torch.randint(0, 5, (500,), generator=generator)
    problem = svm.attention_problem(X, X[:, 0], selected)  # 2,000 rows: as a Gram matrix they took 10 s
    assert svm.solve(problem, throw=False).status == "infeasible"


@pytest.mark.parametrize(("rows", "d", "margin"), [(130, 8, 1e-10), (1001, 3, 1e-7)])
def test_a_tiny_margin_among_many_rows_is_solved_in_rational_arithmetic(rows, d, margin):
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(rows, d, generator=generator, dtype=torch.float64)
    w = torch.full((d,), d**-0.5, dtype=torch.float64)
    a += (margin - a @ w)[:, None] * w  # every row leaves w by as little: the shortest W is about w / margin
    solution = svm.solve(svm.HardMarginProblem(a, None, torch.ones(rows, dtype=torch.float64)))
    assert solution.status == "optimal"
    assert solution.gap < 1e-12
