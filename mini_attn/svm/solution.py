"""What a solver returns, and the certificate that every method's answer goes through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mini_attn.svm.norms import Norm, dual_norm, matrix_norm
from mini_attn.svm.problem import HardMarginProblem

BEYOND = 1e9  # no float64 method is asked for a W that is this many times longer than any one row asks
HOPELESS = 1e13  # likewise: here rounding alone hides whether a W exists
FAR_BELOW = -(2.0**58)  # an inequality with such a right-hand side, in units, has no say
NOISE = 1e-12  # relative rounding errors below this are not worth a word
ROUNDING = 1e-15  # relative error of one <A_j, W>, whatever the order of the sum

ADVICE = {
    "infeasible": "no W satisfies every row, which was proved without rounding, and `dual` is near a proof: "
    "nonnegative weights under which the left sides add up to zero and the right sides to more; "
    "svm.exact_ray(problem, dual) is one, in rational numbers. For labels: "
    "the points are not separable. For tokens: another choice of selected tokens, a larger d, or fewer "
    "duplicated tokens may be feasible",
    "unreachable": "no W of norm below {bound:.1e} satisfies every row, `dual` proves it, and float64 cannot "
    "tell whether a longer one does: some rows contradict each other up to rounding. Treat it as infeasible, "
    "or look for rows that are nearly opposite",
    "unrepresentable": "solved within tol, but the dtype of the problem cannot hold W: it is so long that "
    "rounding its entries may turn the sign of a margin, or beyond the dtype's range. Convert the problem "
    "to float64, or look for rows that are nearly opposite",
    "stopped": "the gap is still above tol; raise tol, try another method, or look for rows that nearly "
    "contradict each other; where the gap is inf, no W was found whose margins all have the right sign",
}


@dataclass(frozen=True, eq=False)
class Solution:
    """Answers to a batch of hard-margin problems, each with the proof of how good it is.

    Attributes:
        value: (..., d1, d2) or (..., d1), the W (or w) found; NaN where infeasible or unreachable, or out of
            the range of the dtype.
        dual: (..., m) weights lambda_j, at least 0 on inequalities, with N*(sum_j lambda_j A_j) <= 1: by weak
            duality no feasible W is shorter than sum_j lambda_j r_j. Where infeasible: close to a ray, with
            sum_j lambda_j A_j = 0 and sum_j lambda_j r_j = 1, both up to rounding of lambda, which no W can
            satisfy; that an exact ray stands beside it has been proved, and `exact_ray` hands it out. Where
            rows contradict each other by less than the dtype's last digit, rounding of lambda takes even the
            sign of sum_j lambda_j r_j, and the exact ray alone is a proof.
        objective: (...,) N(W); inf where infeasible or unreachable.
        margin: (...,) 1 / objective, the largest rho with <A_j, W> >= rho r_j for some N(W) <= 1. Where all
            r_j = 1 it is min_j <A_j, W> / N(W). 0 where infeasible or unreachable, inf where W = 0 is
            feasible.
        gap: (...,) relative: (N(W) - sum_j lambda_j r_j) / N(W), plus the largest distance (in N,
            relative to N(W)) from W to a half-space or hyperplane that it misses; inf where some margin
            <A_j, W> that should be positive is not, or nothing was found. Where infeasible: what
            the ray leaves, as the ratio of the longest W that one row alone asks for to the shortest W
            that the ray allows.
        bound: (...,) sum_j lambda_j r_j: no feasible W is shorter; inf where infeasible.
        violation: (...,) how far the worst row is missed, relative to its own size,
            max_j (r_j - <A_j, W>) / (||A_j||_F ||W||_F + |r_j|), with | | around the difference where = is
            asked; 0 where every row is met, NaN where there is no W.
        status: (...,) numpy array of strings:
            "optimal": gap and violation are at most tol, and <A_j, W> > 0 wherever r_j > 0;
            "infeasible": proved, for the floats that were given;
            "unreachable": no W of norm below `bound`, `BEYOND` times what any one row asks for;
            "unrepresentable": solved, gap and violation of the float64 answer are at most tol, but not a W
                for the dtype: rounded to it, some <A_j, W> with r_j > 0 is below its own rounding errors, or
                W is out of range;
            "stopped": none of these.
            A W that misses a row by no more than tol counts as meeting it. Where rows contradict each other
            by about as little, the shortest W that meets them to the last digit may be far longer, or none.
            And where W is so long that ||A_j|| ||W|| is q times r_j, rounding its entries alone moves margins
            by 1e-16 q: objective and bound agree to the gap, and with exact arithmetic to about 1e-16 q.
        iterations: (...,) steps of the method; 0 where none was needed.
        seconds: wall time of the whole batch.
        norm: N, "fro", "nuc", "spectral" or p, as it was solved: for vectors the first three are "fro".

    Everything is detached: gradients do not flow through a solution.

    Introduced in lesson 02.
    """

    value: Float[Tensor, ...]
    dual: Float[Tensor, "*batch m"]
    objective: Float[Tensor, "*batch"]
    margin: Float[Tensor, "*batch"]
    gap: Float[Tensor, "*batch"]
    bound: Float[Tensor, "*batch"]
    violation: Float[Tensor, "*batch"]
    status: np.ndarray
    iterations: Int[Tensor, "*batch"]
    seconds: float
    norm: Norm

    def raise_for_status(self) -> Solution:
        """Return self where every problem is optimal, else raise.

        Raises:
            InfeasibleError: if a problem is infeasible.
            SolveError: if no W within reach exists, or a method stopped early.
        """
        for status, advice in ADVICE.items():
            hit = np.argwhere(self.status == status)
            if not len(hit):
                continue
            if self.status.ndim == 0:
                which = "the problem is"
            else:
                which = f"{len(hit)} of {self.status.size} problems (first: {hit[0].tolist()}) are"
            first = tuple(hit[0])
            says = advice.format(bound=self.bound[first].item())
            gap = self.gap.cpu().numpy()[self.status == status].max()
            error = InfeasibleError if status == "infeasible" else SolveError
            raise error(
                f"{which} {status} (largest gap {gap:.1e}): {says}. throw=False returns what there is.", self
            )
        return self


class SolveError(RuntimeError):
    """A problem was not solved to its tolerance. `.solution` holds the answers to the whole batch."""

    def __init__(self, message: str, solution: Solution):
        super().__init__(message, solution)  # both, so that it can be pickled
        self.solution = solution

    def __str__(self) -> str:
        return self.args[0]


class InfeasibleError(SolveError):
    """No W satisfies every row of some problem; `.solution.dual` holds the proof."""


def rank_one_size(problem: HardMarginProblem, norm: Norm) -> Float[Tensor, "B m"]:
    """N(a_j b_j^T) for every row: each of the norms is the product of the two vectors' norms."""
    p = "fro" if norm in ("fro", "nuc", "spectral") else norm
    a, b = (matrix_norm(factor[..., None], p) for factor in (problem.a, problem.b))
    return a * b


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
    or rows with r_j <= 0: what is missing there is counted as violation,
    the distance (r_j - <A_j, W>) / N*(A_j) from W to the row's half-space, relative to N(W). Where an
    equality row has r_j != 0, W is left as it is. Where r_j > 0 but <A_j, W> is not, beyond rounding, the
    gap is inf. lambda is clamped to >= 0 on inequalities and scaled to
    N*(sum_j lambda_j A_j) = 1. The lower bound holds whatever W is; where the terms of that sum are so much
    longer than the sum that rounding matters, the gap grows by as much.

    Args:
        problem: a batch with one leading dimension, with b, rows near unit length.
        W: (B, d1, d2) candidates; NaN where the method has none.
        dual: (B, m) candidates.
        norm: as `parse_norm` returns it.
        row_size: (B, m) N*(A_j), for callers that certify the same problem many times.

    Returns:
        W (B, d1, d2), dual (B, m), gap (B,): as in `Solution`; reach (B,): no feasible W is shorter than
        `reach` times the longest that one row alone asks for, rounding allowed for.

    Source: weak duality and Farkas' lemma; Boyd & Vandenberghe, "Convex optimization" (2004), section 5.8.
    """
    star, equality, r = dual_norm(norm), problem.is_equality, problem.r
    if row_size is None:
        row_size = rank_one_size(problem, star)
    asked = torch.where(row_size > 0, problem.missing(r) / row_size.clamp_min(1e-300), 0).amax(-1)

    dual = torch.nan_to_num(dual, posinf=0.0, neginf=0.0)
    dual = torch.where((row_size > 0) & (r > FAR_BELOW), problem.multipliers(dual), 0.0)
    total = matrix_norm(problem.adjoint(dual), star)
    raw = (dual * r).sum(-1)
    useful = raw > 0
    rounding = ROUNDING * (dual.abs() * row_size).sum(-1)
    reach = torch.where(useful, raw / (asked * (total + rounding)), 0.0)
    noise = torch.where(rounding > NOISE * total, rounding, 0.0)  # what the sum may have lost
    dual = torch.where(useful[:, None], dual / (total + noise)[:, None], 0.0)
    lower = (dual * r).sum(-1)

    met = problem.forward(W)
    scalable = (r > 0) & (met > 0)
    tightest = torch.where(scalable, r / torch.where(scalable, met, 1), 0).amax(-1)
    fixed = (equality & (r != 0)).any(-1) | (tightest == 0)
    scale = torch.where(fixed, 1.0, tightest)
    W, met = W * scale[:, None, None], met * scale[:, None]
    upper = matrix_norm(W, norm)
    missing = problem.missing(r - met)
    violation = torch.where(missing > 0, missing / (row_size * upper[:, None]), 0).amax(-1)
    wrong = drowned(problem, W, met, ROUNDING)
    gap = torch.nan_to_num((upper - lower).abs() / upper + violation + noise / total, nan=torch.inf)
    return W, dual, torch.where(wrong, torch.inf, gap), reach


def drowned(
    problem: HardMarginProblem, W: Float[Tensor, "B d1 d2"], met: Float[Tensor, "B m"], unit: float
) -> Bool[Tensor, " B"]:
    """Where a margin met_j = <A_j, W> that should have a sign may turn it by rounding of the terms that it is
    a sum of: met_j sign(r_j) <= unit sum_kl |a_jk| |W_kl| |b_jl|."""
    asks = torch.where(problem.is_equality, problem.r != 0, problem.r > 0)
    met = met * problem.r.sign()
    low = asks & (met <= unit * torch.linalg.matrix_norm(W)[:, None])  # at least that sum
    found = low.any(-1)
    some = torch.nonzero(found)[:, 0]
    if len(some):
        rows, W = problem[some], torch.nan_to_num(W[some].abs())
        terms = HardMarginProblem(rows.a.abs(), rows.b.abs(), rows.r).forward(W)
        real = (rows.a != 0).any(-1) & (rows.b != 0).any(-1)
        found[some] = (low[some] & real & (met[some] <= unit * terms)).any(-1)
    return found


def violation(problem: HardMarginProblem, W: Float[Tensor, "B d1 d2"]) -> Float[Tensor, " B"]:
    """How far W misses the worst row, as `Solution.violation` says."""
    missed, r = problem.missing(problem.r - problem.forward(W)), problem.r
    allowed = rank_one_size(problem, "fro") * torch.linalg.matrix_norm(W)[:, None] + r.abs()
    share = torch.where(missed > 0, missed / allowed, 0.0)
    return share.amax(-1) if share.shape[-1] else share.sum(-1)
