"""The shared loop: it keeps the best certified answer of each problem, and lets finished problems go."""

import torch

from mini_attn import svm
from mini_attn.svm.newton import iterate


def squares(count):
    """Copies of w_1 >= 1, w_2 >= 1 in the plane: the answer is (1, 1), with weights in proportion (1, 1)."""
    a = torch.eye(2, dtype=torch.float64).expand(count, 2, 2)
    b = torch.ones(count, 2, 1, dtype=torch.float64)
    return svm.HardMarginProblem(a, b, torch.ones(count, 2, dtype=torch.float64))


def follow(heights, tol=1e-6):
    """Candidates (1, heights[k][count]) for problem k after count steps, then nan; and the sizes seen."""
    heights = torch.tensor(heights, dtype=torch.float64)
    seen = []

    def candidate(problem, which, count):
        seen.append(len(which))
        column = count.long().clamp_max(heights.shape[1] - 1)
        height = torch.where(count < heights.shape[1], heights[which.long(), column], torch.nan)
        W = torch.stack([torch.ones_like(height), height], -1)[..., None]
        dual = torch.ones_like(problem.r) / 2**0.5
        return W, dual, dual.sum(-1)  # as if the method believed itself finished

    def step(problem, which, count):
        return torch.zeros_like(which), torch.ones_like(count)

    state = torch.arange(float(len(heights))), torch.zeros(len(heights))
    return *iterate(step, candidate, squares(len(heights)), state, "fro", tol), seen


def test_finished_problems_leave():
    W, dual, gap, steps, seen = follow([[2, 1, 9, 9], [2, 3, 1.5, 1]])
    torch.testing.assert_close(W[..., 0], torch.ones(2, 2, dtype=torch.float64))
    torch.testing.assert_close(dual, torch.full((2, 2), 0.5**0.5, dtype=torch.float64))
    assert gap.max() < 1e-15
    assert steps.tolist() == [1, 3]
    assert seen == [2, 2, 1, 1]


def test_a_gap_below_tol_is_improved_as_long_as_that_goes_on():
    good = 1 + 1e-7  # gap 5e-8: below tol, above a hundredth of it
    W, _, gap, steps, _ = follow([[good, 2, 3, 4, 5, 1], [good, 2, 3, 1, 5, 5]])
    assert steps.tolist() == [4, 3]
    torch.testing.assert_close(W[0, 1, 0].item(), good, rtol=1e-12, atol=0)
    assert gap[1] < 1e-15


def test_the_best_is_kept_when_nothing_suffices():
    W, _, gap, steps, _ = follow([[3, 2, 4]])
    assert W[0, :, 0].tolist() == [1, 2]
    assert 0.1 < gap < 1
    assert steps == 60


def test_steps_that_are_not_finite_are_not_taken():
    def candidate(problem, x):
        return x[:, :, None], torch.ones_like(x), x.sum(-1)

    def step(problem, x):
        jump = torch.tensor([[torch.nan, 0.0], [0.0, -1.0]], dtype=torch.float64)
        return (jump[: len(x)],)

    start = torch.tensor([[1.0, 2.0], [1.0, 2.0]], dtype=torch.float64)
    W, *_ = iterate(step, candidate, squares(2), (start,), "fro", 1e-6)
    assert W[0, :, 0].tolist() == [1, 2]
    assert W[1, :, 0].tolist() == [1, 1]
