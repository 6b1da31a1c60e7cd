"""Many l_1 and l_inf problems at once: linear programs, by Mehrotra's predictor-corrector on |W_k| <= t_k."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import Best

STEPS = 60


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
        problem: a batch with one leading dimension and unit rows, float64.
        norm: 1 or inf.
        tol: relative gap that ends the work on a problem.
        W, dual: the Euclidean solution.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Mehrotra, "On the implementation of a primal-dual interior point method" (1992).
        Introduced in lesson 15.
    """
    free, shared = problem.is_equality, norm != 1
    B, m, d1 = problem.a.shape
    empty = (problem.a == 0).all(-1)
    rows = (problem.a[..., :, None] * problem.b[..., None, :]).flatten(-2)  # (B, m, D)
    shape, D = W.shape, rows.shape[-1]
    r, count = problem.r, (~free).sum(-1, keepdim=True) + 2 * D
    best = Best(problem, norm, tol)

    w, lam = W.flatten(1), dual
    t = 1.5 * w.abs().amax(-1, keepdim=True).expand_as(w)
    alpha, beta = (torch.full_like(w, 0.5 / D if shared else 0.5) for _ in range(2))
    lam = lam / problem.adjoint(lam).flatten(1).abs().amax(-1, keepdim=True) * (0.5 / D if shared else 0.5)
    lam = torch.where(free, lam, lam.clamp_min(0) + 0.1 * lam.abs().mean(-1, keepdim=True))
    s = torch.where(free, 0.0, (problem.forward(W) - r).clamp_min(0) + 0.1)

    def largest_step(*pairs):
        steps = [torch.where(dx < 0, -0.99 * x / dx, torch.inf).amin(-1, keepdim=True) for x, dx in pairs]
        return torch.stack(steps).amin(0).clamp_max(1)

    for _ in range(STEPS):
        unfinished = best.update(w.reshape(shape), lam)
        if not unfinished.any():
            break
        u, v = t - w, t + w
        ku, kv = alpha / u, beta / v
        if shared:
            inverse = 1 / (ku + kv)
        else:
            inverse = (ku + kv) / (4 * ku * kv)
        M = (rows * inverse[:, None, :]) @ rows.mT
        ratio = torch.where(free, 0.0, s / lam)
        shift = 1e-15 * torch.diagonal(M, dim1=1, dim2=2).amax(-1, keepdim=True)
        factor = torch.linalg.cholesky_ex(M + torch.diag_embed(ratio + shift + empty)).L
        tilt = (ku - kv) * inverse  # how much W_k moves with t
        if shared:
            through = torch.cholesky_solve(rows @ tilt[..., None], factor)[..., 0]
            stiffness = (ku + kv - (ku - kv) * tilt).sum(-1, keepdim=True)
            stiffness = stiffness + ((rows @ tilt[..., None])[..., 0] * through).sum(-1, keepdim=True)

        def direction(cu, cv, cs):
            """Newton towards alpha u = cu, beta v = cv, lambda s = cs (second-order terms included)."""
            pu, pv, push = cu / u, cv / v, torch.where(free, 0.0, cs / lam)
            # dw = inverse (A' new - (pu - pv) + (ku - kv) dt);  A (w + dw) = r + push - ratio (new - lam)
            side = pu - pv
            if not shared:
                excess = pu + pv - 1  # dt = (excess + (ku - kv) dw) / (ku + kv)
                side = side - (ku - kv) * excess / (ku + kv)
            start = w - inverse * side
            rest = r + push + ratio * lam - (rows @ start[..., None])[..., 0]
            new = torch.cholesky_solve(rest[..., None], factor)[..., 0]
            if shared:
                pull = (rows.mT @ new[..., None])[..., 0] - side
                dt = ((pu + pv).sum(-1, keepdim=True) - 1 + (tilt * pull).sum(-1, keepdim=True)) / stiffness
                new = new - dt * through
            dlam = torch.where(empty, 0.0, new - lam)
            force = (rows.mT @ (lam + dlam)[..., None])[..., 0] - side
            if shared:
                dw = inverse * force + tilt * dt
                dt = dt.expand_as(dw)
            else:
                dw = inverse * force
                dt = (excess + (ku - kv) * dw) / (ku + kv)
            du, dv = dt - dw, dt + dw
            return dw, dt, push - ratio * dlam - s, dlam, du, dv, pu - ku * du - alpha, pv - kv * dv - beta

        def steps_of(ds, dlam, du, dv, da, db):
            ds_, dlam_ = (torch.where(free, 0.0, x) for x in (ds, dlam))
            return largest_step((s, ds_), (u, du), (v, dv)), largest_step((lam, dlam_), (alpha, da), (beta, db))

        zero = torch.zeros_like(w)
        dw, dt, ds, dlam, du, dv, da, db = direction(zero, zero, torch.zeros_like(s))
        primal, second = steps_of(ds, dlam, du, dv, da, db)
        mu = ((s * lam).sum(-1, keepdim=True) + (u * alpha + v * beta).sum(-1, keepdim=True)) / count
        ahead = (
            ((s + primal * ds) * (lam + second * dlam)).sum(-1, keepdim=True)
            + ((u + primal * du) * (alpha + second * da)).sum(-1, keepdim=True)
            + ((v + primal * dv) * (beta + second * db)).sum(-1, keepdim=True)
        ) / count
        center = (ahead / mu).clamp(0, 1) ** 3 * mu
        dw, dt, ds, dlam, du, dv, da, db = direction(center - du * da, center - dv * db, center - ds * dlam)
        primal, second = steps_of(ds, dlam, du, dv, da, db)
        sound = (unfinished & dw.isfinite().all(-1) & dlam.isfinite().all(-1))[:, None]
        primal, second = torch.where(sound, primal, 0.0), torch.where(sound, second, 0.0)
        dw, dt, ds, dlam, da, db = (torch.where(sound, x, 0.0) for x in (dw, dt, ds, dlam, da, db))
        w, t, s = w + primal * dw, t + primal * dt, s + primal * ds
        lam, alpha, beta = lam + second * dlam, alpha + second * da, beta + second * db
    return best.W, best.dual, best.steps
