"""Many spectral-norm problems at once: the semidefinite pair of `nuclear` with its two sides exchanged."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.newton import iterate, room
from mini_attn.svm.nuclear import inside, inverse, largest_step, off_diagonal, symmetric
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.rows import normal_matrix

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
        problem: a batch with one leading dimension and rows near unit length, float64.
        norm: "spectral".
        tol: relative gap that ends the work on a problem.
        W, dual: the Euclidean solution, near 1 in size.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Vandenberghe & Boyd, "Semidefinite programming" (1996), section 2; Todd, Toh & Tutuncu, "On the
        Nesterov-Todd direction in semidefinite programming" (1998).
    """
    free = problem.is_equality
    B, m, d1 = problem.a.shape
    d = d1 + W.shape[-1]

    t = 1.5 * torch.linalg.matrix_norm(W, 2)
    Z = torch.eye(d, dtype=W.dtype, device=W.device).expand(B, d, d) / d
    s = torch.where(free, 0.0, (problem.forward(W) - problem.r).clamp_min(0) + room(problem.r))
    lam = torch.where(free, 0.0, 1.0 / m).to(W)

    def candidate(problem, W, t, Z, s, lam):
        return W, lam, t

    W, dual, _, steps = iterate(_step, candidate, problem, (W, t, Z, s, lam), norm, tol)
    return W, dual, steps


def _step(problem: HardMarginProblem, W: Tensor, t: Tensor, Z: Tensor, s: Tensor, lam: Tensor):
    """One predictor-corrector step (dW, dt, dZ, ds, dlambda), shortened to stay inside the cones."""
    free, d1, d = problem.is_equality, W.shape[-2], Z.shape[-1]
    nu = d + (~free).sum(-1)
    identity = torch.eye(d, dtype=W.dtype, device=W.device)
    X = t[:, None, None] * identity + off_diagonal(W)
    V = inverse(X)
    # Equality rows enter as a stiff spring whose force, their multiplier, is corrected in every step.
    weight = torch.where((problem.a == 0).all(-1), 0.0, torch.where(free, STIFF, lam / s))
    H = _newton_matrix(Z, V, d1)
    H[:, :-1, :-1] += normal_matrix(problem, weight)
    factor = torch.linalg.cholesky_ex(H).L
    missing = problem.r - problem.forward(W)

    def direction(center, second_matrix, second_vector):
        """Newton towards X Z = center I and s lam = center; `second_...` are what the predictor left out."""
        push = torch.where(free, 0.0, (center[:, None] - second_vector) / lam)
        target = center[:, None, None] * V + second_matrix
        force = 2 * target[:, :d1, d1:] + problem.adjoint(lam + weight * (missing + push))
        trace = target.diagonal(dim1=1, dim2=2).sum(-1, keepdim=True) - 1
        move = torch.cholesky_solve(torch.cat([force.flatten(1), trace], -1)[..., None], factor)[..., 0]
        dW, dt = move[:, :-1].reshape(W.shape), move[:, -1]
        reach = problem.forward(dW)
        dX = dt[:, None, None] * identity + off_diagonal(dW)
        dZ = target - Z - symmetric(Z @ dX @ V)
        ds = torch.where(free, 0.0, reach - missing - s)
        return dX, dW, dt, dZ, ds, weight * (missing + push - reach)

    def steps(dX, dZ, ds, dlam):
        primal = largest_step(lambda t: inside(torch.addcmul(X, t, dX)), s, ds, free)
        return primal, largest_step(lambda t: inside(torch.addcmul(Z, t, dZ)), lam, dlam, free)

    mu = ((X * Z).sum((-2, -1)) + torch.where(free, 0.0, s * lam).sum(-1)) / nu
    dX, dW, dt, dZ, ds, dlam = direction(torch.zeros_like(mu), 0.0, 0.0)
    primal, second = steps(dX, dZ, ds, dlam)
    ahead = ((X + primal[:, None, None] * dX) * (Z + second[:, None, None] * dZ)).sum((-2, -1))
    product = (s + primal[:, None] * ds) * (lam + second[:, None] * dlam)
    ahead = ahead + torch.where(free, 0.0, product).sum(-1)
    center = (ahead / nu / mu).clamp(0, 1) ** 2 * mu
    dX, dW, dt, dZ, ds, dlam = direction(center, -symmetric(dZ @ dX @ V), ds * dlam)
    primal, second = steps(dX, dZ, ds, dlam)
    return (
        primal[:, None, None] * dW,
        primal * dt,
        second[:, None, None] * dZ,
        primal[:, None] * ds,
        second[:, None] * dlam,
    )


def _newton_matrix(Z: Tensor, V: Tensor, d1: int) -> Tensor:
    """H: (dW, dt) -> (2 sym(Z dX V)_12, trace sym(Z dX V)), (B, d1 d2 + 1, d1 d2 + 1)."""
    B = len(Z)

    def kron(P, Q):  # dW -> P dW Q', rows (i, k), columns (j, l)
        return P[:, :, None, :, None] * Q[:, None, :, None, :]

    def cross(P, Q):  # dW -> P_12 dW' Q_12
        P, Q = P[:, :d1, d1:], Q[:, :d1, d1:]
        return P[:, :, None, None, :] * Q.mT[:, None, :, :, None]

    H = (
        kron(Z[:, :d1, :d1], V[:, d1:, d1:])
        + kron(V[:, :d1, :d1], Z[:, d1:, d1:])
        + cross(Z, V)
        + cross(V, Z)
    )
    H = H.reshape(B, H.shape[1] * H.shape[2], -1)
    product = Z @ V
    border = (product[:, :d1, d1:] + product[:, d1:, :d1].mT).flatten(1)[..., None]
    corner = product.diagonal(dim1=1, dim2=2).sum(-1)[:, None, None]
    return torch.cat([torch.cat([H, border], -1), torch.cat([border.mT, corner], -1)], -2)
