"""Many nuclear-norm problems at once: a primal-dual interior point on one small semidefinite block each."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import Best

STEPS = 60


def solve_nuclear(
    problem: HardMarginProblem,
    norm: str,
    tol: float,
    W: Float[Tensor, "B d1 d2"],
    dual: Float[Tensor, "B m"],
) -> tuple[Tensor, Tensor, Tensor]:
    """min ||W||_* s.t. <A_j, W> >= r_j (= where equality), as the semidefinite pair

        min <I, X>                     s.t.  <A_j, 2 X_12> - s_j = r_j,   X psd, s >= 0
        max sum_j lambda_j r_j         s.t.  Z = [I, -S; -S', I] psd,  S = sum_j lambda_j A_j,  lambda >= 0

    with W = 2 X_12. A Helmberg-Kojima-Monteiro predictor-corrector: the rows have rank one, so the m x m Newton
    matrix is four elementwise products of m x m matrices like a X_11 a', and nothing of size d1 d2 is formed.

    Args:
        problem: a batch with one leading dimension and unit rows, float64.
        norm: "nuc".
        tol: relative gap that ends the work on a problem.
        W, dual: the Euclidean solution, near 1 in size.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Recht, Fazel & Parrilo, "Guaranteed minimum-rank solutions" (2010), for the pair; Todd, Toh & Tutuncu,
        "On the Nesterov-Todd direction in semidefinite programming" (1998), for the direction.
        Introduced in lesson 11.
    """
    a, b, r, free = problem.a, problem.b, problem.r, problem.is_equality
    B, m, d1 = a.shape
    d = d1 + b.shape[-1]
    empty = (a == 0).all(-1)
    nu = d + (~free).sum(-1)

    eye = torch.eye(d, dtype=a.dtype, device=a.device).expand(B, d, d)
    lam = torch.where(free | empty, dual, dual.clamp_min(0) + 0.1 * dual.abs().mean(-1, keepdim=True))
    lam = torch.where(empty, 1.0, lam)
    size = torch.linalg.matrix_norm(problem.adjoint(lam))
    lam = torch.where(empty, lam, lam * (0.7 / size)[:, None])
    X, s = 0.5 * eye, torch.where(free, 0.0, torch.ones_like(r))
    best = Best(problem, norm, tol)

    def off_diagonal(S):  # [0, S; S', 0]
        top = torch.cat([torch.zeros_like(X[:, :d1, :d1]), S], -1)
        return torch.cat([top, torch.cat([S.mT, torch.zeros_like(X[:, d1:, d1:])], -1)], -2)

    def largest_step(factor, D, x, dx):
        """Up to 1, and 0.98 of the way to the boundary of the matrix block and of x >= 0."""
        half = torch.linalg.solve_triangular(factor, D, upper=False)
        inner = torch.linalg.solve_triangular(factor, half.mT, upper=False)
        lowest = torch.linalg.eigvalsh(torch.nan_to_num(inner + inner.mT))[:, 0] / 2
        lowest = torch.minimum(lowest, torch.where(free, 0.0, dx / x).amin(-1))
        return torch.where(lowest < 0, -0.98 / lowest, 1.0).clamp_max(1.0)

    for _ in range(STEPS):
        S = problem.adjoint(lam)
        D = off_diagonal(S)
        Z = eye - D
        mu = ((X * Z).sum((-2, -1)) + (s * lam).sum(-1)) / nu
        unfinished = best.update(2 * X[:, :d1, d1:], lam)
        if not unfinished.any():
            break
        Z_factor, X_factor = torch.linalg.cholesky_ex(Z).L, torch.linalg.cholesky_ex(X).L
        Y = torch.cholesky_inverse(Z_factor)
        M = _newton_matrix(a, b, X, Y, d1)
        ratio = torch.where(free, 0.0, s / lam)
        shift = 1e-15 * torch.diagonal(M, dim1=1, dim2=2).amax(-1, keepdim=True)
        factor = torch.linalg.cholesky_ex(M + torch.diag_embed(ratio + empty + shift)).L
        reach_Y = problem.forward(Y[:, :d1, d1:])

        def direction(center, matrix_term, vector_term):
            """Newton towards X Z = center I and s lam = center, with second-order terms."""
            push = torch.where(free, 0.0, (center[:, None] - vector_term) / lam)
            rest = r + push - 2 * center[:, None] * reach_Y
            if matrix_term is not None:
                rest = rest - 2 * problem.forward(matrix_term[:, :d1, d1:])
            dlam = torch.cholesky_solve(rest[..., None], factor)[..., 0]
            dlam = torch.where(empty, 0.0, dlam)
            dD = off_diagonal(problem.adjoint(dlam))
            product = X @ dD @ Y
            dX = center[:, None, None] * Y - X + (product + product.mT) / 2
            if matrix_term is not None:
                dX = dX + matrix_term
            return dX, dD, push - ratio * dlam - s, dlam

        zero = torch.zeros_like(mu)
        dX, dD, ds, dlam = direction(zero, None, 0.0)
        primal = largest_step(X_factor, dX, s, ds)
        dual = largest_step(Z_factor, -dD, lam, dlam)
        ahead = ((X + primal[:, None, None] * dX) * (Z - dual[:, None, None] * dD)).sum((-2, -1))
        ahead = ahead + ((s + primal[:, None] * ds) * (lam + dual[:, None] * dlam)).sum(-1)
        center = (ahead / nu / mu).clamp(0, 1) ** 2 * mu
        cross = dX @ dD @ Y
        dX, dD, ds, dlam = direction(center, (cross + cross.mT) / 2, ds * dlam)
        primal = largest_step(X_factor, dX, s, ds)
        dual = largest_step(Z_factor, -dD, lam, dlam)
        sound = unfinished & dX.isfinite().all(-1).all(-1) & dlam.isfinite().all(-1)
        primal, dual = torch.where(sound, primal, 0.0), torch.where(sound, dual, 0.0)
        X = X + primal[:, None, None] * torch.where(sound[:, None, None], dX, 0.0)
        s = s + primal[:, None] * torch.where(sound[:, None], ds, 0.0)
        lam = lam + dual[:, None] * torch.where(sound[:, None], dlam, 0.0)
    return best.W, best.dual, best.steps


def _newton_matrix(a: Tensor, b: Tensor, X: Tensor, Y: Tensor, d1: int) -> Tensor:
    """<A_i, d(2 X_12) / d lambda_j> for all i, j, where dX = sym(X dS Y)."""

    def products(M):
        left = a @ M[:, :d1]  # (B, m, d1 + d2)
        return left[..., :d1] @ a.mT, left[..., d1:] @ b.mT, (b @ M[:, d1:, d1:]) @ b.mT

    Xaa, Xab, Xbb = products(X)
    Yaa, Yab, Ybb = products(Y)
    return Xaa * Ybb + Yaa * Xbb + Xab * Yab.mT + Yab * Xab.mT
