"""One large Euclidean problem at a time: a small working set, and matrix-free passes over all the rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mini_attn.svm.euclidean import solve_euclidean
from mini_attn.svm.problem import HardMarginProblem

ROUNDS = 200
FIRST = 1024  # rows of the first working set, at most


def solve_large(problem: HardMarginProblem, norm: str, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """min ||W||_F s.t. <A_j, W> >= r_j (= where equality), by cutting planes.

        W = argmin ||W||_F subject to the rows of S;   S <- support of W, and the rows that W violates most

    The multipliers of S bound the optimum from below, and W scaled up until every row holds bounds it
    from above; work ends when the two are within tol. The support has at most d1 d2 rows and usually far
    fewer, so the small problems stay small: memory beyond the rows is |S|^2. Rows that share b_j in equal
    runs (attention problems) are passed over as one batched product with W b_j. A ray of S is a ray of
    the problem.

    Args:
        problem: a batch with one leading dimension and unit rows, float64.
        norm: "fro" only.
        tol: relative gap that ends the work on a problem.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,), the rounds: candidates for `certify`.

    Raises:
        ValueError: for another norm.

    Source: Kelley, "The cutting-plane method for solving convex programs" (1960); Joachims, "Training linear
        SVMs in linear time" (2006).
    """
    if norm != "fro":
        raise ValueError(f'method "large" solves norm "fro" (or 2) only, got {norm!r}; use method "auto"')
    answers = [_solve_one(problem[k], tol) for k in range(len(problem.a))]
    return tuple(torch.stack(parts) for parts in zip(*answers, strict=True))


def _solve_one(problem: HardMarginProblem, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    r, m, entries = problem.r, len(problem.r), problem.a.shape[-1] * problem.b.shape[-1]
    forward = _pass_over(problem)
    first = min(m, max(16, min(entries, FIRST)))
    fixed = problem.is_equality.nonzero()[:, 0]
    slack = forward(problem.adjoint(r)) - r
    slack[fixed] = torch.inf
    following = torch.cat([fixed, slack.topk(min(first, m - len(fixed)), largest=False).indices])
    highest, rounds = 0.0, 0
    while len(following):
        rounds, working = rounds + 1, following
        part = HardMarginProblem(*(x[None, working] for x in (problem.a, problem.b, r, problem.is_equality)))
        W, dual, _ = solve_euclidean(part, "fro", min(tol, 1e-9), torch.ones_like(part.is_equality))
        W, dual = W[0], torch.where(part.is_equality, dual, dual.clamp_min(0))[0]
        length = torch.linalg.matrix_norm(W)
        lower = (dual * part.r[0]).sum() / torch.linalg.matrix_norm(part.adjoint(dual[None])[0])
        reach = forward(W)
        scalable = (r > 0) & ~problem.is_equality
        stretch = torch.where(scalable, r / reach.clamp_min(1e-300), 1.0).amax()
        slack = reach - r
        slack[working] = torch.inf
        violated = int((slack < 0).sum())
        if rounds == ROUNDS or not lower.isfinite() or stretch * length - lower <= 0.1 * tol * lower:
            break
        # Only a bound that rose may drop rows: the same working set cannot come back.
        support = working[(dual != 0) | part.is_equality[0]] if lower > highest else working
        highest = max(highest, lower)
        worst = slack.topk(min(max(16, first // 2, len(support) // 2), violated), largest=False).indices
        following = torch.cat([support, worst]) if violated else worst
    full = torch.zeros_like(r).scatter(0, working, dual)
    return W, full, torch.tensor(rounds, device=r.device)


def _pass_over(problem: HardMarginProblem) -> Callable[[Tensor], Tensor]:
    """The function W -> <a_j b_j^T, W> for all rows, in the cheapest order for these rows."""
    a, b = problem.a, problem.b
    changes = 1 + (b[1:] != b[:-1]).any(-1).nonzero()[:, 0]
    run = int(changes[0]) if len(changes) else len(b)
    regular = len(b) % run == 0 and torch.equal(changes, torch.arange(run, len(b), run, device=b.device))
    if regular and run > 1:
        groups, shared = a.reshape(-1, run, a.shape[-1]), b[::run]
        return lambda W: (groups @ (shared @ W.mT)[..., None]).reshape(-1)
    return problem.forward
