"""Many entrywise l_p problems at once, 1 < p < inf: interior-point Newton steps, moving p outwards from 2."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.newton import iterate, room
from mini_attn.svm.norms import matrix_norm
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.rows import gram

STRIDE = 1.6  # largest factor between consecutive p > 2 (or q = p / (p - 1) > 2) on the way to p


def solve_entrywise(
    problem: HardMarginProblem,
    norm: float,
    tol: float,
    W: Float[Tensor, "B d1 d2"],
    dual: Float[Tensor, "B m"],
) -> tuple[Tensor, Tensor, Tensor]:
    """min (1/p) sum_k |W_k|^p s.t. <A_j, W> >= r_j (= where equality), by p = 2, ..., p in a few strides.

        y = sum_j lambda_j A_j,   sign(W) |W|^(p-1) = y,   s_j = <A_j, W> - r_j,   s_j lambda_j -> 0

    For p < 2 the relation is linearised as W = sign(y) |y|^(q-1), for p > 2 as y = sign(W) |W|^(p-1): the
    side whose derivative stays finite. Either way one m x m Cholesky factor serves a step.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        norm: p, not 1, 2 or inf.
        tol: relative gap that ends the work on a problem.
        W, dual: the Euclidean solution.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Mehrotra, "On the implementation of a primal-dual interior point method" (1992), for the
        corrector.
    """
    steps = torch.zeros(len(W), dtype=torch.int64, device=W.device)
    for p in strides(norm):
        last = p == norm
        next_W, next_dual, gap, count = _newton(problem, p, tol if last else 1e-2, W, dual)
        usable = gap.isfinite()
        W = torch.where(usable[:, None, None], next_W, W)
        dual = torch.where(usable[:, None], next_dual, dual)
        steps += count
    return W, dual, steps


def strides(p: float) -> list[float]:
    """Exponents from near 2 to p, such that max(p, q) at most doubles from one to the next."""
    far = max(p, p / (p - 1))
    path, now = [], 2 * STRIDE
    while now < far * 0.99:
        path.append(now if p > 2 else now / (now - 1))
        now *= STRIDE
    return [*path, p]


def _newton(problem: HardMarginProblem, p: float, tol: float, W: Tensor, dual: Tensor):
    """W, dual, gap and steps of the problem with exponent p, from the answer for a neighbouring exponent."""
    q, free = p / (p - 1), problem.is_equality
    size = matrix_norm(W, p)
    problem = HardMarginProblem(problem.a, problem.b, problem.r / size[:, None], free)
    W, r = W / size[:, None, None], problem.r

    # The multiple of the dual weights that maximises sum lambda r - (1/q) ||y||_q^q.
    power = problem.adjoint(dual).abs().pow(q).sum((-2, -1)).clamp_min(1e-300)
    lam = dual * ((dual * r).sum(-1) / power).clamp_min(1e-300).pow(1 / (q - 1))[:, None]
    lam = torch.where(free, lam, lam.clamp_min(0) + 0.1 * lam.abs().mean(-1, keepdim=True))
    s = torch.where(free, 0.0, (problem.forward(W) - r).clamp_min(0) + room(r))
    W, *rest = iterate(
        lambda problem, W, s, lam: _step(problem, p, W, s, lam),
        lambda problem, W, s, lam: (W, lam, (lam * (problem.r + s)).sum(-1)),
        problem,
        (W, s, lam),
        p,
        tol,
    )
    return W * size[:, None, None], *rest


def _step(problem: HardMarginProblem, p: float, W: Tensor, s: Tensor, lam: Tensor):
    """One predictor-corrector step (dW, ds, dlambda), shortened to keep s and lambda positive."""
    q, free, empty = p / (p - 1), problem.is_equality, (problem.a == 0).all(-1)
    count = (~free).sum(-1, keepdim=True).clamp_min(1)
    y = problem.adjoint(lam)
    if p < 2:
        slope, base = (q - 1) * y.abs().pow(q - 2), y.sign() * y.abs().pow(q - 1)
    else:
        slope = 1 / ((p - 1) * W.abs().pow(p - 2)).clamp_min(1e-6)
        base = W + slope * (y - W.sign() * W.abs().pow(p - 1))
    # W + dW = base + slope * (sum_j dlambda_j A_j)
    M = gram(problem, slope)
    ratio = torch.where(free, 0.0, s / lam)
    shift = 1e-15 * M.diagonal(dim1=1, dim2=2).amax(-1, keepdim=True)
    M.diagonal(dim1=1, dim2=2).add_(ratio + shift + empty)
    factor = torch.linalg.cholesky_ex(M).L
    rest = problem.r - problem.forward(base)

    def direction(product):
        push = torch.where(free, 0.0, product / lam)
        dlam = torch.where(empty, 0.0, torch.cholesky_solve((rest + push)[..., None], factor)[..., 0])
        return push - ratio * dlam - s, dlam

    def largest_step(ds, dlam):
        ratios = torch.minimum(
            torch.where(ds < 0, -s / ds, torch.inf), torch.where(dlam < 0, -lam / dlam, torch.inf)
        )
        return (0.99 * torch.where(free, torch.inf, ratios).amin(-1, keepdim=True)).clamp_max(1)

    mu = (s * lam).sum(-1, keepdim=True) / count
    ds, dlam = direction(torch.zeros_like(lam))
    step = largest_step(ds, dlam)
    ahead = ((s + step * ds) * (lam + step * dlam)).sum(-1, keepdim=True) / count
    center = (ahead / mu.clamp_min(1e-300)).clamp(0, 1) ** 3 * mu
    ds, dlam = direction(center - ds * dlam)
    step = largest_step(ds, dlam)
    dW = base + slope * problem.adjoint(dlam) - W
    return step[..., None] * dW, step * ds, step * dlam
