"""The rank that the dual certificate proves."""

import torch

from mini_attn import svm


def planted(d=6, rank=2, seed=0):
    """Equality rows that read off every entry of a matrix of known rank: it is the only feasible one."""
    generator = torch.Generator().manual_seed(seed)
    U, V = (torch.randn(d, rank, generator=generator, dtype=torch.float64) for _ in range(2))
    W = U @ V.T
    a, b = torch.randn(2, d * d, d, generator=generator, dtype=torch.float64)
    r = ((a @ W) * b).sum(-1)
    return svm.HardMarginProblem(a, b, r, torch.ones(d * d, dtype=torch.bool)), W


def test_the_certificate_sees_a_planted_rank():
    problem, W = planted()
    solution = svm.solve(problem, norm="nuc")
    torch.testing.assert_close(solution.value, W, rtol=0, atol=1e-5)
    assert svm.certified_rank(problem, solution) == 2


def test_rank_of_attention_problems_agrees_with_a_sharp_drop_of_the_singular_values():
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(20, 4, 5, 8, generator=generator, dtype=torch.float64)
    z = torch.randn(20, 4, 8, generator=generator, dtype=torch.float64)
    problem = svm.attention_problem(X, z, torch.randint(5, (20, 4), generator=generator))
    solution = svm.solve(problem, norm="nuc", tol=1e-8)
    values = torch.linalg.svdvals(solution.value)
    rank = (values > 1e-3 * values[:, :1]).sum(-1)
    agree = svm.certified_rank(problem, solution) == rank
    assert agree.double().mean() >= 0.95
    assert (rank <= 4).all()  # W lies in the span of four queries


def test_rank_where_there_is_no_solution_or_none_is_needed():
    problem, _ = planted()
    a = torch.stack([problem.a, torch.zeros_like(problem.a)])
    b = torch.stack([problem.b, problem.b])
    r = torch.stack([0 * problem.r, torch.ones_like(problem.r)])
    batch = svm.HardMarginProblem(a, b, r)
    solution = svm.solve(batch, norm="nuc", throw=False)
    assert svm.certified_rank(batch, solution).tolist() == [0, -1]
