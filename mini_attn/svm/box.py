"""Many l_1 and l_inf problems at once: linear programs, by Mehrotra's predictor-corrector on |W_k| <= t_k."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.newton import iterate, room
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.rows import gram


def solve_box(
    problem: HardMarginProblem,
    norm: float,
    tol: float,
    W: Float[Tensor, "B d1 d2"],
    dual: Float[Tensor, "B m"],
) -> tuple[Tensor, Tensor, Tensor]:
    """min sum_k |W_k| (norm 1) or max_k |W_k| (norm inf) s.t. <A_j, W> >= r_j (= where equality), as

        min sum_k t_k  or  min t    s.t.  u = t - W >= 0,  v = t + W >= 0,  s_j = <A_j, W> - r_j >= 0

    with multipliers alpha, beta, lambda >= 0 of u, v, s: alpha - beta = sum_j lambda_j A_j, and
    alpha_k + beta_k = 1 for each k (norm 1) or sum_k alpha_k + beta_k = 1 (norm inf).

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        norm: 1 or inf.
        tol: relative gap that ends the work on a problem.
        W, dual: the Euclidean solution.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Mehrotra, "On the implementation of a primal-dual interior point method" (1992).
    """
    free, shape = problem.is_equality, W.shape
    w = W.flatten(1)
    share = 0.5 if norm == 1 else 0.5 / w.shape[-1]
    t = 1.5 * w.abs().amax(-1, keepdim=True).expand_as(w)
    alpha, beta = torch.full_like(w, share), torch.full_like(w, share)
    lam = dual * share / problem.adjoint(dual).flatten(1).abs().amax(-1, keepdim=True)
    lam = torch.where(free, lam, lam.clamp_min(0) + 0.1 * lam.abs().mean(-1, keepdim=True))
    s = torch.where(free, 0.0, (problem.forward(W) - problem.r).clamp_min(0) + room(problem.r))

    def candidate(problem, w, t, s, lam, alpha, beta):
        return w.reshape(-1, *shape[1:]), lam, t.sum(-1) if norm == 1 else t[:, 0]

    def step(problem, *state):
        return _step(problem, norm != 1, *state)

    W, dual, _, steps = iterate(step, candidate, problem, (w, t, s, lam, alpha, beta), norm, tol)
    return W, dual, steps


def _step(problem, shared, w, t, s, lam, alpha, beta) -> tuple[Tensor, ...]:
    """One predictor-corrector step of (w, t, s, lambda, alpha, beta), shortened to keep the signs."""
    free, empty = problem.is_equality, (problem.a == 0).all(-1)
    shape = len(w), problem.a.shape[-1], problem.b.shape[-1]
    u, v = t - w, t + w
    ku, kv = alpha / u, beta / v
    inverse = 1 / (ku + kv) if shared else (ku + kv) / (4 * ku * kv)
    tilt = (ku - kv) * inverse  # how far w_k moves with a shared t
    M = gram(problem, inverse.view(shape))
    ratio = torch.where(free, 0.0, s / lam)
    shift = 1e-14 * M.diagonal(dim1=1, dim2=2)
    M.diagonal(dim1=1, dim2=2).add_(ratio + shift + empty)
    factor = torch.linalg.cholesky_ex(M).L

    def solve(right):
        """M^-1 right without the shift, but for its square."""
        first = torch.cholesky_solve(right[..., None], factor)[..., 0]
        rest = right - (first[:, None] @ M)[:, 0] + shift * first
        return first + torch.cholesky_solve(rest[..., None], factor)[..., 0]

    if shared:
        border = problem.forward(tilt.view(shape))
        through = solve(border)
        stiffness = (ku + kv - (ku - kv) * tilt).sum(-1, keepdim=True)
        stiffness = stiffness + (border * through).sum(-1, keepdim=True)

    def direction(cu, cv, cs):
        """Newton towards alpha u = cu, beta v = cv, lambda s = cs, second-order terms included in these."""
        pu, pv, push = cu / u, cv / v, torch.where(free, 0.0, cs / lam)
        # inverse^-1 dw = sum_j (lam + dlam)_j A_j - side + (ku - kv) dt, the last only where t is shared;
        # else dt = (excess + (ku - kv) dw) / (ku + kv) has been eliminated.
        excess = pu + pv - (0 if shared else 1)
        side = pu - pv if shared else pu - pv - (ku - kv) * excess / (ku + kv)
        # Only what is still wrong goes into the solve: inverse grows like 1 / mu, and rounding with it.
        wrong = problem.adjoint(lam).flatten(1) - side
        rest = problem.r + push - problem.forward((w + inverse * wrong).view(shape))
        dlam = solve(rest)
        if shared:
            pull = wrong + problem.adjoint(dlam).flatten(1)
            dt = ((excess + tilt * pull).sum(-1, keepdim=True) - 1) / stiffness
            dlam = dlam - dt * through
        dlam = torch.where(empty, 0.0, dlam)
        dw = inverse * (wrong + problem.adjoint(dlam).flatten(1))
        if shared:
            dw = dw + tilt * dt
            dt = dt.expand_as(dw)
        else:
            dt = (excess + (ku - kv) * dw) / (ku + kv)
        du, dv = dt - dw, dt + dw
        return dw, dt, push - ratio * dlam - s, dlam, pu - ku * du - alpha, pv - kv * dv - beta

    def largest_step(*pairs):
        steps = [torch.where(dx < 0, -0.99 * x / dx, torch.inf) for x, dx in pairs]
        steps[0] = torch.where(free, torch.inf, steps[0])  # the first pair belongs to the rows
        return torch.stack([step.amin(-1, keepdim=True) for step in steps]).amin(0).clamp_max(1)

    def complementarity(ps, dw, dt, ds, dlam, dalpha, dbeta):
        primal, second = ps
        rows_part = (s + primal * ds) * (lam + second * dlam)
        box_part = (u + primal * (dt - dw)) * (alpha + second * dalpha)
        box_part = box_part + (v + primal * (dt + dw)) * (beta + second * dbeta)
        return rows_part.sum(-1, keepdim=True) + box_part.sum(-1, keepdim=True)

    def steps(dw, dt, ds, dlam, dalpha, dbeta):
        primal = largest_step((s, ds), (u, dt - dw), (v, dt + dw))
        return primal, largest_step((lam, dlam), (alpha, dalpha), (beta, dbeta))

    count = (~free).sum(-1, keepdim=True) + 2 * w.shape[-1]
    zero = torch.zeros_like(w)
    move = direction(zero, zero, torch.zeros_like(s))
    mu = complementarity((0, 0), *move) / count
    ahead = complementarity(steps(*move), *move) / count
    center = (ahead / mu).clamp(0, 1) ** 3 * mu
    dw, dt, ds, dlam, dalpha, dbeta = move
    move = direction(center - (dt - dw) * dalpha, center - (dt + dw) * dbeta, center - ds * dlam)
    primal, second = steps(*move)
    return tuple(step * dx for step, dx in zip((primal,) * 3 + (second,) * 3, move, strict=True))
