"""Coordinates in the spans of the rows: nothing is lost, and only what is zero is left out."""

import pytest
import torch

from mini_attn import svm
from mini_attn.svm import batched
from mini_attn.svm.span import to_spans


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def repeating(distinct, B=3, m=8, d1=4, d2=5):
    """Rows whose right factors are `distinct` vectors in turn."""
    b = normal(B, distinct, d2, seed=1)[:, torch.arange(m) % distinct]
    return svm.HardMarginProblem(normal(B, m, d1), b, torch.ones(B, m, dtype=torch.float64))


@pytest.mark.parametrize("distinct", [1, 2, 5])
def test_rows_and_lengths_carry_over(distinct):
    problem = repeating(distinct)
    ((_, small, P, Q),) = to_spans(problem)
    assert small.b.shape[-1] == distinct
    assert small.a.shape[-1] == 4
    for rows, inside, basis in ((problem.a, small.a, P), (problem.b, small.b, Q)):
        torch.testing.assert_close(inside @ basis.mT, rows)
        torch.testing.assert_close(basis.mT @ basis, torch.eye(basis.shape[-1]).to(basis).expand(3, -1, -1))
    V = normal(3, 4, distinct, seed=2)
    torch.testing.assert_close(problem.forward(P @ V @ Q.mT), small.forward(V))


def test_a_direction_that_only_squares_would_lose_is_kept():
    b = torch.tensor([[[1.0, 0.0, 0.0], [1.0, 1e-9, 0.0]]], dtype=torch.float64)
    problem = svm.HardMarginProblem(b, b, torch.ones(1, 2, dtype=torch.float64))
    ((_, small, _, Q),) = to_spans(problem)
    torch.testing.assert_close(small.b @ Q.mT, b, rtol=0, atol=1e-13)


def test_each_problem_keeps_what_it_needs():
    parts = [repeating(1, B=1), repeating(3, B=1), repeating(1, B=2)]
    batch = svm.HardMarginProblem(*(torch.cat([getattr(p, x) for p in parts]) for x in ("a", "b", "r")))
    one, three = to_spans(batch)
    assert one[0].tolist() == [0, 2, 3]
    assert three[0].tolist() == [1]
    for (index, small, P, Q), width in ((one, 1), (three, 3)):
        assert small.b.shape[-1] == Q.shape[-1] == width
        torch.testing.assert_close(small.a @ P.mT, batch.a[index])
        torch.testing.assert_close(small.b @ Q.mT, batch.b[index])


def test_no_rows_that_count():
    zero = torch.zeros(2, 3, 4, dtype=torch.float64)
    ((_, small, P, Q),) = to_spans(svm.HardMarginProblem(zero, zero, zero[..., 0]))
    assert (small.a == 0).all()
    assert P.shape == Q.shape == (2, 4, 1)


@pytest.mark.parametrize("norm", ["nuc", "spectral"])
@pytest.mark.parametrize("distinct", [1, 2])
def test_the_answer_is_that_of_the_whole_space(norm, distinct, monkeypatch):
    problem = repeating(distinct, m=4)
    one = svm.solve(problem, norm=norm, method="batched")

    def whole(problem):
        P, Q = (torch.eye(x.shape[-1]).to(x).expand(len(x), -1, -1) for x in (problem.a, problem.b))
        return [(torch.arange(len(problem.a)), problem, P, Q)]

    monkeypatch.setattr(batched, "to_spans", whole)
    two = svm.solve(problem, norm=norm, method="batched")
    torch.testing.assert_close(one.objective, two.objective, rtol=2e-6, atol=0)
    assert (problem.forward(one.value) > 1 - 1e-9).all()
