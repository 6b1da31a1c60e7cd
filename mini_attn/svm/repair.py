"""The shortest step from a W that misses rows to one that meets them all."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.euclidean import solve_euclidean
from mini_attn.svm.large import solve_large
from mini_attn.svm.problem import LARGE, HardMarginProblem
from mini_attn.svm.solution import BEYOND, ROUNDING, certify

FARTHEST = 1e6  # slack, in units of the largest miss, that a step is expected to leave some of


def repaired(
    problem: HardMarginProblem, W: Float[Tensor, "B d1 d2"]
) -> tuple[Float[Tensor, "B d1 d2"], Float[Tensor, "B m"]]:
    """W + D, where D is the shortest step that meets every row.

        D = argmin ||D||_F   subject to   <A_j, D> >= r_j - <A_j, W>  (or = )

    The problem is of the same kind, its right-hand sides are small and computed from W itself: each repair
    takes away all but the relative error of the method. Rows with r_j > 0 are asked for a little more,
    enough that rounding cannot turn the sign of <A_j, W>. Where the rows contradict each other by little,
    nothing but such a step tells it.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        W: candidates that nearly satisfy it, in any norm.

    Returns:
        W + D (B, d1, d2); and weights (B, m) that may be a ray of the problem, 0 where a step was found.
    """
    W = torch.nan_to_num(W, posinf=0.0, neginf=0.0)
    rest = problem.r - problem.forward(W)
    terms = HardMarginProblem(problem.a.abs(), problem.b.abs(), problem.r).forward(W.abs())
    rest = torch.where((problem.r > 0) & ~problem.is_equality, rest + 8 * ROUNDING * terms, rest)
    rest = rest.masked_fill((problem.a == 0).all(-1), 0.0)
    missed = problem.missing(rest).amax(-1, keepdim=True)
    missed = torch.where(missed > 0, missed, 1.0)
    step = HardMarginProblem(problem.a, problem.b, (rest / missed).clamp_min(-FARTHEST), problem.is_equality)
    method = solve_large if problem.r.shape[-1] > LARGE else solve_euclidean
    D, weights, _ = method(step, "fro", 1e-6)
    D, weights, _, reach = certify(step, D, weights, "fro")  # scaled, so that rows hold and not only nearly
    D = torch.nan_to_num(D, posinf=0.0, neginf=0.0)
    return W + missed[..., None] * D, torch.where(reach[:, None] >= BEYOND, weights, 0.0)
