"""What a solver returns, and the certificate that every method's answer goes through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mini_attn.svm.norms import Norm, dual_norm, matrix_norm
from mini_attn.svm.problem import HardMarginProblem

BEYOND = 1e9  # a problem whose W would have to be this many times too long is called infeasible

ADVICE = {
    "infeasible": "no W satisfies every row, and `dual` holds the proof: nonnegative weights under which the "
    "left sides add up to zero and the right sides to more. For labels: the points are not separable. For "
    "tokens: another choice of selected tokens, a larger d, or fewer duplicated tokens may be feasible",
    "stopped": "the gap is still above tol; raise tol, try another method, or look for rows that nearly "
    "contradict each other",
}


@dataclass(frozen=True)
class Solution:
    """Answers to a batch of hard-margin problems, each with the proof of how good it is.

    Attributes:
        value: (..., d1, d2) or (..., d1), the W (or w) found; NaN where infeasible.
        dual: (..., m) weights lambda_j, at least 0 on inequalities, with N*(sum_j lambda_j A_j) <= 1: by weak
            duality no feasible W is shorter than sum_j lambda_j r_j. Where infeasible: a ray, with
            sum_j lambda_j A_j = 0 (up to rounding) and sum_j lambda_j r_j = 1, which no W can satisfy.
        objective: (...,) N(W); inf where infeasible.
        margin: (...,) 1 / objective, the largest rho with <A_j, W> >= rho r_j for some N(W) <= 1. Where all
            r_j = 1 it is min_j <A_j, W> / N(W). 0 where infeasible, inf where W = 0 is feasible.
        gap: (...,) relative: (N(W) - sum_j lambda_j r_j) / N(W), plus the largest distance (in N,
            relative to N(W)) from W to a half-space or hyperplane that it misses. Where infeasible: what
            the ray leaves, as the ratio of the longest W that one row alone asks for to the shortest W
            that the ray allows.
        status: (...,) numpy array of "optimal", "infeasible" or "stopped" (gap above tol).
        iterations: (...,) steps of the method; 0 where none was needed.
        seconds: wall time of the whole batch.

    Introduced in lesson 02.
    """

    value: Float[Tensor, ...]
    dual: Float[Tensor, "*batch m"]
    objective: Float[Tensor, "*batch"]
    margin: Float[Tensor, "*batch"]
    gap: Float[Tensor, "*batch"]
    status: np.ndarray
    iterations: Int[Tensor, "*batch"]
    seconds: float

    def raise_for_status(self) -> Solution:
        """Return self where every problem is optimal, else raise.

        Raises:
            InfeasibleError: if a problem is infeasible.
            SolveError: if a method stopped early.
        """
        for status, error in (("infeasible", InfeasibleError), ("stopped", SolveError)):
            hit = np.argwhere(self.status == status)
            if not len(hit):
                continue
            if self.status.ndim == 0:
                which = "the problem is"
            else:
                which = f"{len(hit)} of {self.status.size} problems (first: {hit[0].tolist()}) are"
            gap = self.gap.cpu().numpy()[self.status == status].max()
            raise error(
                f"{which} {status} (largest gap {gap:.1e}): {ADVICE[status]}. "
                "throw=False returns what there is.",
                self,
            )
        return self


class SolveError(RuntimeError):
    """A problem was not solved to its tolerance. `.solution` holds the answers to the whole batch."""

    def __init__(self, message: str, solution: Solution):
        super().__init__(message)
        self.solution = solution


class InfeasibleError(SolveError):
    """No W satisfies every row of some problem; `.solution.dual` holds the proof."""


def rank_one_size(problem: HardMarginProblem, norm: Norm) -> Float[Tensor, "B m"]:
    """N(a_j b_j^T) for every row: each of the norms is the product of the two vectors' norms."""
    p = 2 if norm in ("fro", "nuc", "spectral") else norm
    return torch.linalg.vector_norm(problem.a, p, dim=-1) * torch.linalg.vector_norm(problem.b, p, dim=-1)


def certify(
    problem: HardMarginProblem,
    W: Float[Tensor, "B d1 d2"],
    dual: Float[Tensor, "B m"],
    norm: Norm,
    row_size: Float[Tensor, "B m"] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Make both candidates feasible by scaling and measure what is left between them.

        upper = N(W),   lower = sum_j lambda_j r_j,   gap = |upper - lower| / upper + violation

    W is scaled until its tightest row with r_j > 0 holds exactly. Scaling cannot repair equality rows,
    rows with r_j <= 0 or rows that W gets wrong in sign: what is missing there is counted as violation,
    the distance (r_j - <A_j, W>) / N*(A_j) from W to the row's half-space, relative to N(W). Where an
    equality row has r_j != 0, W is left as it is. lambda is clamped to >= 0 on inequalities and scaled to
    N*(sum_j lambda_j A_j) = 1. The lower bound holds whatever W is. A lambda that proves N(W) >= BEYOND *
    max_j |r_j| / N*(A_j) is a ray: the problem is infeasible.

    Args:
        problem: a batch with one leading dimension, with b.
        W: (B, d1, d2) candidates; NaN where the method has none.
        dual: (B, m) candidates.
        norm: as `parse_norm` returns it.
        row_size: (B, m) N*(A_j), for callers that certify the same problem many times.

    Returns:
        W (B, d1, d2), dual (B, m), gap (B,), infeasible (B,) bool: as in `Solution`.

    Source: weak duality and Farkas' lemma; Boyd & Vandenberghe, "Convex optimization" (2004), section 5.8.
    """
    star, equality, r = dual_norm(norm), problem.is_equality, problem.r
    if row_size is None:
        row_size = rank_one_size(problem, star)
    asked = torch.where(row_size > 0, r.abs() / row_size.clamp_min(1e-300), 0).amax(-1)

    dual = torch.nan_to_num(dual, posinf=0.0, neginf=0.0)
    dual = torch.where(row_size > 0, torch.where(equality, dual, dual.clamp_min(0)), 0.0)
    total = matrix_norm(problem.adjoint(dual), star)
    raw = (dual * r).sum(-1)
    useful = raw > 0
    infeasible = useful & (raw >= BEYOND * asked * total)
    ray_gap = asked * total / raw
    length = torch.where(infeasible, raw, torch.where(total > 0, total, 1.0))
    dual = torch.where(useful[:, None], dual / length[:, None], 0.0)
    lower = (dual * r).sum(-1)

    reach = problem.forward(W)
    scalable = (r > 0) & (reach > 0)
    tightest = torch.where(scalable, r / torch.where(scalable, reach, 1), 0).amax(-1)
    fixed = (equality & (r != 0)).any(-1) | (tightest == 0)
    scale = torch.where(fixed, 1.0, tightest)
    W, reach = W * scale[:, None, None], reach * scale[:, None]
    upper = matrix_norm(W, norm)
    missing = torch.where(equality, (r - reach).abs(), (r - reach).clamp_min(0))
    violation = torch.where(missing > 0, missing / (row_size * upper[:, None]), 0).amax(-1)
    gap = (upper - lower).abs() / upper + violation
    gap = torch.where(infeasible, ray_gap, torch.nan_to_num(gap, nan=torch.inf))
    W = torch.where(infeasible[:, None, None], torch.nan, W)
    return W, dual, gap, infeasible
