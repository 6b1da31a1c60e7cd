"""The nuclear solver's own devices: steps that stay inside, and rows that wait outside."""

import pytest
import torch

from mini_attn import svm
from mini_attn.svm import nuclear


def attention(n=5, T=7, d=6, B=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(B, n, T, d, generator=generator, dtype=torch.float64)
    z = torch.randn(B, n, d, generator=generator, dtype=torch.float64)
    return svm.attention_problem(X, z, torch.randint(T, (B, n), generator=generator))


@pytest.fixture
def sizes(monkeypatch):
    """How many problems and rows each run of the shared loop was given."""
    seen, loop = [], nuclear.iterate

    def recorded(step, candidate, problem, *rest):
        seen.append(tuple(problem.r.shape))
        return loop(step, candidate, problem, *rest)

    monkeypatch.setattr(nuclear, "iterate", recorded)
    return seen


def step(edges, x, dx, free):
    """`largest_step` where the cone ends at the given lengths."""
    edges, x, dx = (torch.tensor(part, dtype=torch.float64) for part in (edges, x, dx))
    return nuclear.largest_step(lambda t: t[:, 0, 0] < edges, x, dx, torch.tensor(free)).tolist()


def test_steps_end_a_little_before_the_edge():
    x, dx, free = [[1.0]] * 6, [[0.0], [0.0], [0.0], [0.0], [-4.0], [-4.0]], [[False]] * 5 + [[True]]
    found = step([9.0, 0.9, 0.3, 1e-9, 9.0, 9.0], x, dx, free)
    assert found[0] == found[5] == 1.0
    assert 0.9 * 0.9 < found[1] < 0.9
    assert 0.6 * 0.3 < found[2] < 0.3
    assert found[3] == pytest.approx(0, abs=1e-15)
    assert found[4] == pytest.approx(0.98 * 0.25)


def test_cones_are_told_by_their_factors():
    edge = torch.tensor([[2.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    identity = torch.eye(2, dtype=torch.float64)
    assert nuclear.inside(torch.stack([edge, edge - 0.5 * identity])).tolist() == [True, False]


def test_most_rows_wait_outside_and_the_answer_stands(sizes):
    problem = attention()
    solution = svm.solve(problem, norm="nuc", method="batched")
    assert sizes[0][1] < 0.8 * problem.r.shape[1]
    assert (solution.gap < 1e-6).all()
    assert (problem.forward(solution.value) > 1 - 1e-9).all()
    assert (solution.dual == 0).any(-1).all()


def test_a_row_that_was_missed_brings_all_rows_back(sizes, monkeypatch):
    problem = attention()
    right = svm.solve(problem, norm="nuc", method="batched")
    sizes.clear()
    monkeypatch.setattr(nuclear, "_likely_support", lambda problem, s, lam: (lam / s).topk(3).indices)
    solution = svm.solve(problem, norm="nuc", method="batched")
    assert sizes == [(8, 3), (8, 30)]
    torch.testing.assert_close(solution.objective, right.objective, rtol=2e-6, atol=0)


def test_equalities_never_wait(sizes):
    generator = torch.Generator().manual_seed(0)
    a, b, W = (
        torch.randn(*shape, 5, generator=generator, dtype=torch.float64) for shape in ((25,), (25,), (5,))
    )
    r = ((a @ W) * b).sum(-1)
    problem = svm.HardMarginProblem(a, b, r, torch.ones(25, dtype=torch.bool))
    solution = svm.solve(problem, norm="nuc", method="batched")
    assert sizes[0] == (1, 25)
    torch.testing.assert_close(solution.value, W, rtol=0, atol=1e-4)


def test_equalities_come_first_whatever_their_weights(monkeypatch):
    monkeypatch.setattr(nuclear, "FEW", 1)
    problem = attention(B=1)
    fixed = torch.arange(30) % 10 == 0
    mixed = svm.HardMarginProblem(problem.a, problem.b, problem.r, fixed[None])
    lam = torch.where(fixed, -1.0, torch.linspace(0.01, 1, 30).double())[None]
    rows = nuclear._likely_support(mixed, torch.where(fixed, 0.0, 0.1)[None].double(), lam)[0].tolist()
    assert set(rows[:3]) == {0, 10, 20}
    assert rows[3:] == sorted(rows[3:], reverse=True)
    assert 3 < len(rows) < 30
