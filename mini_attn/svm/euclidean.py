"""Many Euclidean (Frobenius) problems at once: block active sets, and an interior point where they do not settle."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import certify

PIVOTS = 10  # block steps before the interior point takes over; random problems settle in 5 or 6
NEWTON = 50


def solve_euclidean(problem: HardMarginProblem, norm: str, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """min ||W||_F s.t. <A_j, W> >= r_j (= where equality), through the Gram matrix G of the rows.

        dual: min_lambda 1/2 lambda' G lambda - r' lambda, lambda >= 0;   W = sum_j lambda_j A_j

    First block active sets (`block_pivot`): where they settle, the answer is exact to rounding. They need not
    settle (degenerate or infeasible problems), so what certification rejects goes to `interior_point`, and
    from the support found there to block active sets once more.

    Args:
        problem: a batch with one leading dimension and unit rows, float64.
        norm: "fro".
        tol: relative gap that ends the work on a problem.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Portugal, Judice & Vicente, "A comparison of block pivoting and interior-point algorithms for linear
        least squares problems with nonnegative variables" (1994). Introduced in lesson 02.
    """
    G = (problem.a @ problem.a.mT) * (problem.b @ problem.b.mT)
    dual, steps = block_pivot(problem, G, torch.ones_like(problem.is_equality))
    W, done = _primal(problem, dual, tol)
    hard = torch.nonzero(~done)[:, 0]
    scale = problem.r.new_ones(len(hard))
    for _ in range(4):  # rounding is least when ||W|| / scale is near 1, and ||W|| is not known beforehand
        if not len(hard):
            break
        part = problem[hard]
        u, slack, count = interior_point(part, G[hard], scale)
        pivoted, more = block_pivot(part, G[hard], u > slack)
        steps[hard] += count + more
        for candidate in (u, pivoted):
            candidate_W, candidate_done = _primal(part, candidate, tol)
            better = candidate_done | ~done[hard]
            dual[hard] = torch.where(better[:, None], candidate, dual[hard])
            W[hard] = torch.where(better[:, None, None], candidate_W, W[hard])
            done[hard] |= candidate_done
        share = (u * part.r).sum(-1) / scale  # = ||W||^2 / (scale^2 + ||W||^2) at the optimum
        length = (share.clamp_min(1e-12) / (1 - share).clamp_min(1e-12)).sqrt()
        again = ~done[hard] & (length > 10)
        hard, scale = hard[again], (scale * length)[again]
    return W, dual, steps


def block_pivot(
    problem: HardMarginProblem, G: Float[Tensor, "B m m"], active: Bool[Tensor, "B m"]
) -> tuple[Tensor, Tensor]:
    """Guess the support P, solve G_PP lambda_P = r_P, drop rows with lambda_j <= 0, add rows that W violates, repeat.

    Args:
        problem: as in `solve_euclidean`.
        G: Gram matrices of the rows.
        active: the first guess; equality rows are always in P, empty rows never.

    Returns:
        dual (B, m), steps (B,). Where the sets did not settle the weights are those of the last guess.

    Source: Portugal, Judice & Vicente (1994). Introduced in lesson 02.
    """
    equality, real = problem.is_equality, torch.diagonal(G, dim1=1, dim2=2) > 0
    active = (active | equality) & real
    dual = torch.zeros_like(problem.r)
    steps = torch.zeros(len(G), dtype=torch.int64, device=G.device)
    index = torch.arange(len(G), device=G.device)
    part = problem
    for _ in range(PIVOTS):
        weights = _solve_on(part, G, active)
        slack = part.forward(part.adjoint(weights)) - part.r
        keep = torch.where(active, weights > 0, slack < -1e-12)
        changed = (keep | part.is_equality) & real[index]
        settled = (changed == active).all(-1)
        dual[index] = weights
        steps[index] += 1
        if settled.all():
            break
        active = changed
        if settled.sum() * 2 > len(index):
            stay = torch.nonzero(~settled)[:, 0]
            index, active, G, part = index[stay], active[stay], G[stay], part[stay]
    return dual, steps


def _solve_on(problem: HardMarginProblem, G: Tensor, active: Tensor) -> Tensor:
    """lambda with G_PP lambda_P = r_P and zero elsewhere, refined once with residuals from the rows themselves."""
    inside = active.to(G.dtype)
    # A little more than rounding on the diagonal lets dependent rows share their weight.
    M = G * inside[:, :, None] * inside[:, None, :] + torch.diag_embed(1.0 - inside * (1 - 1e-13))
    factor = torch.linalg.cholesky_ex(M).L
    weights = torch.cholesky_solve((problem.r * inside)[..., None], factor)[..., 0]
    rest = (problem.r - problem.forward(problem.adjoint(weights))) * inside
    return weights + torch.cholesky_solve(rest[..., None], factor)[..., 0]


def interior_point(
    problem: HardMarginProblem, G: Float[Tensor, "B m m"], scale: Float[Tensor, " B"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Mehrotra's predictor-corrector on the least-distance form, which has an optimum for infeasible problems too.

        min_{u >= 0} 1/2 || sum_j u_j A_j ||^2 + 1/2 (1 - sum_j u_j r_j / scale)^2,   lambda proportional to u

    A zero minimum means that u is a ray. u is free on equality rows.

    Args:
        problem: as in `solve_euclidean`.
        G: Gram matrices of the rows.
        scale: best near ||W||.

    Returns:
        u (B, m), slack (B, m), steps (B,).

    Source: Lawson & Hanson, "Solving least squares problems" (1974), chapter 23; Mehrotra, "On the implementation
        of a primal-dual interior point method" (1992). Introduced in lesson 02.
    """
    free = problem.is_equality
    empty = (torch.diagonal(G, dim1=1, dim2=2) == 0).to(G.dtype)
    r = problem.r / scale[:, None]
    target = r - empty  # an empty row becomes the harmless u_j + 1 >= 0
    H = G + r[:, :, None] * r[:, None, :] + torch.diag_embed(empty + 1e-14)

    def residual(u, s):
        Hu = problem.forward(problem.adjoint(u)) + r * (u * r).sum(-1, keepdim=True) + empty * u
        return target - Hu + s

    def step_length(x, dx):
        ratio = torch.where((dx < 0) & ~free, -x / dx, torch.inf)
        return (0.995 * ratio.amin(-1, keepdim=True)).clamp_max(1.0)

    count = (~free).sum(-1, keepdim=True).clamp_min(1)
    u = torch.full_like(r, 1.0 / r.shape[-1])
    s = torch.where(free, 0.0, 1.0).to(r)
    steps = torch.zeros(len(r), dtype=torch.int64, device=r.device)
    for _ in range(NEWTON):
        rest = residual(u, s)
        mu = (u * s).sum(-1, keepdim=True) / count
        open_ = ((mu > 1e-18) | (rest.abs().amax(-1, keepdim=True) > 1e-14))[:, 0]
        if not open_.any():
            break
        steps += open_
        ratio = torch.where(free, 0.0, s / u)
        factor = torch.linalg.cholesky_ex(H + torch.diag_embed(ratio)).L

        def direction(product, rest=rest, factor=factor, ratio=ratio, u=u):
            # (H + S/U) du = rest - s + product / u;   ds = -s + product / u - S/U du
            push = torch.where(free, 0.0, product / u)
            du = torch.cholesky_solve((rest + push)[..., None], factor)[..., 0]
            return du, push - ratio * du

        du, ds = direction(-u * s)
        alpha = torch.minimum(step_length(u, du), step_length(s, ds))
        ahead = torch.where(free, 0.0, (u + alpha * du) * (s + alpha * ds)).sum(-1, keepdim=True) / count
        center = (ahead / mu.clamp_min(1e-300)).clamp(0, 1) ** 3 * mu
        du, ds = direction(center - u * s - du * ds)
        alpha = torch.minimum(step_length(u, du), step_length(s, ds))
        sound = (du.isfinite().all(-1) & ds.isfinite().all(-1) & open_)[:, None]
        u = torch.where(sound, u + alpha * du, u)
        s = torch.where(sound, s + alpha * ds, s)
    return u, s, steps


def _primal(problem: HardMarginProblem, dual: Tensor, tol: float) -> tuple[Tensor, Tensor]:
    """W proportional to sum_j lambda_j A_j with lambda's own length, and whether the pair is certified."""
    dual = torch.where(problem.is_equality, dual, dual.clamp_min(0))
    total = problem.adjoint(dual)
    square = total.square().sum((-2, -1))
    W = total * ((dual * problem.r).sum(-1) / square.clamp_min(1e-300))[:, None, None]
    _, _, gap, infeasible = certify(problem, W, dual, "fro")
    return W, infeasible | (gap <= tol)
