"""Many spectral-norm problems at once: the semidefinite pair of `nuclear`, with the roles of its sides exchanged."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import Best

STEPS = 60
STIFF = 1e6


def solve_spectral(
    problem: HardMarginProblem,
    norm: str,
    tol: float,
    W: Float[Tensor, "B d1 d2"],
    dual: Float[Tensor, "B m"],
) -> tuple[Tensor, Tensor, Tensor]:
    """min ||W||_op s.t. <A_j, W> >= r_j (= where equality), as the semidefinite pair

        min t                       s.t.  X = [t I, W; W', t I] psd,  <A_j, W> - s_j = r_j,  s >= 0
        max sum_j lambda_j r_j      s.t.  trace Z = 1,  -2 Z_12 = sum_j lambda_j A_j,  Z psd,  lambda >= 0

    A Helmberg-Kojima-Monteiro predictor-corrector. The Newton matrix of (W, t) has d1 d2 + 1 rows, which is
    the price of this norm: choose it for d1 d2 up to a few hundred.

    Args:
        problem: a batch with one leading dimension and unit rows, float64.
        norm: "spectral".
        tol: relative gap that ends the work on a problem.
        W, dual: the Euclidean solution, near 1 in size.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Vandenberghe & Boyd, "Semidefinite programming" (1996), section 2; Todd, Toh & Tutuncu, "On the
        Nesterov-Todd direction in semidefinite programming" (1998). Introduced in lesson 10.
    """
    a, b, r, free = problem.a, problem.b, problem.r, problem.is_equality
    B, m, d1 = a.shape
    d2 = b.shape[-1]
    d = d1 + d2
    empty = (a == 0).all(-1)
    nu = d + (~free).sum(-1)
    rows = (a[..., :, None] * b[..., None, :]).flatten(-2)  # (B, m, d1 d2)

    eye = torch.eye(d, dtype=a.dtype, device=a.device).expand(B, d, d)
    t = 1.5 * torch.linalg.matrix_norm(W, 2)
    Z = eye / d
    s = torch.where(free, 0.0, (problem.forward(W) - r).clamp_min(0) + 0.1)
    lam = torch.where(free, 0.0, 1.0 / m) * torch.ones_like(r)
    best = Best(problem, norm, tol)

    def block(t, W):
        top = torch.cat([t[:, None, None] * eye[:, :d1, :d1], W], -1)
        return torch.cat([top, torch.cat([W.mT, t[:, None, None] * eye[:, d1:, d1:]], -1)], -2)

    def largest_step(factor, D, x, dx):
        half = torch.linalg.solve_triangular(factor, D, upper=False)
        inner = torch.linalg.solve_triangular(factor, half.mT, upper=False)
        lowest = torch.linalg.eigvalsh(torch.nan_to_num(inner + inner.mT))[:, 0] / 2
        lowest = torch.minimum(lowest, torch.where(free, 0.0, dx / x).amin(-1))
        return torch.where(lowest < 0, -0.98 / lowest, 1.0).clamp_max(1.0)

    for _ in range(STEPS):
        X = block(t, W)
        mu = ((X * Z).sum((-2, -1)) + torch.where(free, 0.0, s * lam).sum(-1)) / nu
        unfinished = best.update(W, lam)
        if not unfinished.any():
            break
        X_factor, Z_factor = torch.linalg.cholesky_ex(X).L, torch.linalg.cholesky_ex(Z).L
        V = torch.cholesky_inverse(X_factor)
        # Equality rows enter as a stiff spring whose force, their multiplier, is corrected in every step.
        weight = torch.where(empty, 0.0, torch.where(free, STIFF, lam / s))
        H = _newton_matrix(Z, V, d1)
        H[:, :-1, :-1] += rows.mT @ (weight[..., None] * rows)
        factor = torch.linalg.cholesky_ex(H).L
        missing = r - problem.forward(W)

        def direction(center, matrix_term, vector_term):
            # H (dW, dt) = A' (lam + dlam) + 2 center V_12 + ..., trace (Z + dZ) = 1, and s lam -> center
            target = center[:, None, None] * V
            if matrix_term is not None:
                target = target + matrix_term
            side = torch.cat(
                [2 * target[:, :d1, d1:].flatten(1), target.diagonal(dim1=1, dim2=2).sum(-1)[:, None] - 1], -1
            )
            push = torch.where(free, 0.0, (center[:, None] - vector_term) / lam)
            pull = lam + weight * (missing + push)
            side[:, :-1] += problem.adjoint(pull).flatten(1)
            move = torch.cholesky_solve(side[..., None], factor)[..., 0]
            dW, dt = move[:, :-1].reshape(W.shape), move[:, -1]
            reach = problem.forward(dW)
            dlam = weight * (missing + push - reach)
            ds = torch.where(free, 0.0, reach - missing - s)
            dX = block(dt, dW)
            product = Z @ dX @ V
            dZ = target - Z - (product + product.mT) / 2
            return dX, dW, dt, dZ, ds, dlam

        zero = torch.zeros_like(mu)
        dX, dW, dt, dZ, ds, dlam = direction(zero, None, 0.0)
        primal = largest_step(X_factor, dX, s, ds)
        dual = largest_step(Z_factor, dZ, lam, dlam)
        ahead = ((X + primal[:, None, None] * dX) * (Z + dual[:, None, None] * dZ)).sum((-2, -1))
        both = (s + primal[:, None] * ds) * (lam + dual[:, None] * dlam)
        ahead = ahead + torch.where(free, 0.0, both).sum(-1)
        center = (ahead / nu / mu).clamp(0, 1) ** 2 * mu
        cross = dZ @ dX @ V
        dX, dW, dt, dZ, ds, dlam = direction(center, -(cross + cross.mT) / 2, ds * dlam)
        primal = largest_step(X_factor, dX, s, ds)
        dual = largest_step(Z_factor, dZ, lam, dlam)
        sound = unfinished & dZ.isfinite().all(-1).all(-1) & dlam.isfinite().all(-1)
        primal, dual = torch.where(sound, primal, 0.0), torch.where(sound, dual, 0.0)
        dW, dZ = (torch.where(sound[:, None, None], x, 0.0) for x in (dW, dZ))
        ds, dlam = (torch.where(sound[:, None], x, 0.0) for x in (ds, dlam))
        W, t = W + primal[:, None, None] * dW, t + primal * torch.where(sound, dt, 0.0)
        s, lam, Z = s + primal[:, None] * ds, lam + dual[:, None] * dlam, Z + dual[:, None, None] * dZ
    return best.W, best.dual, best.steps


def _newton_matrix(Z: Tensor, V: Tensor, d1: int) -> Tensor:
    """H: (dW, dt) -> (2 sym(Z dX V)_12, trace sym(Z dX V)), (B, d1 d2 + 1, d1 d2 + 1)."""
    B = len(Z)

    def kron(P, Q):  # dW -> P dW Q', rows (i, k), columns (j, l)
        return P[:, :, None, :, None] * Q[:, None, :, None, :]

    def cross(P, Q):  # dW -> P_12 dW' Q_12
        P, Q = P[:, :d1, d1:], Q[:, :d1, d1:]
        return P[:, :, None, None, :] * Q.mT[:, None, :, :, None]

    H = kron(Z[:, :d1, :d1], V[:, d1:, d1:]) + kron(V[:, :d1, :d1], Z[:, d1:, d1:]) + cross(Z, V) + cross(V, Z)
    H = H.reshape(B, H.shape[1] * H.shape[2], -1)
    product = Z @ V
    border = (product[:, :d1, d1:] + product[:, d1:, :d1].mT).flatten(1)[..., None]
    corner = product.diagonal(dim1=1, dim2=2).sum(-1)[:, None, None]
    return torch.cat([torch.cat([H, border], -1), torch.cat([border.mT, corner], -1)], -2)
