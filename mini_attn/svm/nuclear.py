"""Many nuclear-norm problems at once: a primal-dual interior point on one small semidefinite block each."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mini_attn.svm.newton import iterate
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import Solution


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

    with W = 2 X_12. A Helmberg-Kojima-Monteiro predictor-corrector: the rows have rank one, so the m x m
    Newton matrix is four elementwise products of m x m matrices like a X_11 a', and nothing of size d1 d2
    is formed.

    Args:
        problem: a batch with one leading dimension and unit rows, float64.
        norm: "nuc".
        tol: relative gap that ends the work on a problem.
        W, dual: the Euclidean solution, near 1 in size.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Recht, Fazel & Parrilo, "Guaranteed minimum-rank solutions" (2010), for the pair; Todd, Toh &
        Tutuncu, "On the Nesterov-Todd direction in semidefinite programming" (1998), for the direction.
    """
    a, free = problem.a, problem.is_equality
    d1, d = a.shape[-1], a.shape[-1] + problem.b.shape[-1]
    empty = (a == 0).all(-1)

    lam = torch.where(free, dual, dual.clamp_min(0) + 0.1 * dual.abs().mean(-1, keepdim=True))
    lam = torch.where(empty, 1.0, lam * (0.7 / torch.linalg.matrix_norm(problem.adjoint(lam)))[:, None])
    X = 0.5 * torch.eye(d, dtype=a.dtype, device=a.device).expand(len(a), d, d)
    s = torch.where(free, 0.0, torch.ones_like(lam))

    def candidate(problem, X, s, lam):
        return 2 * X[:, :d1, d1:], lam, X.diagonal(dim1=1, dim2=2).sum(-1)

    W, dual, _, steps = iterate(_step, candidate, (problem,), (X, s, lam), norm, tol)
    return W, dual, steps


def certified_rank(problem: HardMarginProblem, solution: Solution) -> Int[Tensor, "*batch"]:
    """Rank of the nuclear-norm solution, read off the dual: how many singular values of S = sum_j
        lambda_j A_j are 1.

        sum of singular values of W* outside the k leading directions of S  <=  gap ||W*||_* / (1 -
            sigma_{k+1}(S))

    holds for every optimal W*. Values above 1 - sqrt(gap) are counted, so what lies outside is at most a
    share sqrt(gap) of ||W*||_*. No threshold on W is involved.

    Args:
        problem: with b.
        solution: of `solve(problem, norm="nuc")`.

    Returns:
        (...,) ranks; 0 where W = 0, -1 where the problem is infeasible.

    Source: Watson, "Characterization of the subdifferential of some matrix norms" (1992), with complementary
        slackness. Introduced in lesson 04.
    """
    gap = solution.gap.clamp_min(torch.finfo(solution.gap.dtype).eps)
    values = torch.linalg.svdvals(problem.adjoint(solution.dual))
    rank = (values > 1 - gap.sqrt()[..., None]).sum(-1)
    return torch.where(solution.objective.isinf(), -1, rank)


def _step(problem: HardMarginProblem, X: Tensor, s: Tensor, lam: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One predictor-corrector step (dX, ds, dlambda), already shortened to stay inside the cones."""
    a, b, r, free = problem.a, problem.b, problem.r, problem.is_equality
    d1 = a.shape[-1]
    empty = (a == 0).all(-1)
    nu = X.shape[-1] + (~free).sum(-1)
    off = off_diagonal(problem.adjoint(lam))
    Z = torch.eye(X.shape[-1], dtype=X.dtype, device=X.device) - off
    Z_factor, X_factor = torch.linalg.cholesky_ex(Z).L, torch.linalg.cholesky_ex(X).L
    Y = torch.cholesky_inverse(Z_factor)
    M = _newton_matrix(a, b, X, Y)
    ratio = torch.where(free, 0.0, s / lam)
    shift = 1e-15 * M.diagonal(dim1=1, dim2=2).amax(-1, keepdim=True)
    M.diagonal(dim1=1, dim2=2).add_(ratio + empty + shift)
    M_factor = torch.linalg.cholesky_ex(M).L

    def direction(center, second_matrix, second_vector):
        """Newton towards X Z = center I and s lam = center; `second_...` are what the predictor left out."""
        push = torch.where(free, 0.0, (center[:, None] - second_vector) / lam)
        target = center[:, None, None] * Y + second_matrix
        rest = r + push - 2 * problem.forward(target[:, :d1, d1:])
        dlam = torch.cholesky_solve(rest[..., None], M_factor)[..., 0]
        dlam = torch.where(empty, 0.0, dlam)
        dS = off_diagonal(problem.adjoint(dlam))
        return target - X + symmetric(X @ dS @ Y), dS, push - ratio * dlam - s, dlam

    mu = ((X * Z).sum((-2, -1)) + (s * lam).sum(-1)) / nu
    dX, dS, ds, dlam = direction(torch.zeros_like(mu), 0.0, 0.0)
    primal = largest_step(X_factor, dX, s, ds, free)
    second = largest_step(Z_factor, -dS, lam, dlam, free)
    ahead = ((X + primal[:, None, None] * dX) * (Z - second[:, None, None] * dS)).sum((-2, -1))
    ahead = ahead + ((s + primal[:, None] * ds) * (lam + second[:, None] * dlam)).sum(-1)
    center = (ahead / nu / mu).clamp(0, 1) ** 2 * mu
    dX, dS, ds, dlam = direction(center, symmetric(dX @ dS @ Y), ds * dlam)
    primal = largest_step(X_factor, dX, s, ds, free)
    second = largest_step(Z_factor, -dS, lam, dlam, free)
    return primal[:, None, None] * dX, primal[:, None] * ds, second[:, None] * dlam


def off_diagonal(S: Float[Tensor, "B d1 d2"]) -> Float[Tensor, "B d d"]:
    """[0, S; S', 0]."""
    d1, d2 = S.shape[-2:]
    top = torch.cat([S.new_zeros(len(S), d1, d1), S], -1)
    return torch.cat([top, torch.cat([S.mT, S.new_zeros(len(S), d2, d2)], -1)], -2)


def symmetric(M: Float[Tensor, "B d d"]) -> Float[Tensor, "B d d"]:
    """(M + M') / 2."""
    return (M + M.mT) / 2


def largest_step(
    factor: Float[Tensor, "B d d"],
    direction: Float[Tensor, "B d d"],
    x: Float[Tensor, "B m"],
    dx: Float[Tensor, "B m"],
    free: Tensor,
) -> Float[Tensor, " B"]:
    """Step, at most 1, and 0.98 of the way to the edge of {L L' + t D psd, x + t dx >= 0 where not free}."""
    half = torch.linalg.solve_triangular(factor, direction, upper=False)
    inner = torch.linalg.solve_triangular(factor, half.mT, upper=False)
    lowest = torch.linalg.eigvalsh(torch.nan_to_num(inner))[:, 0]
    lowest = torch.minimum(lowest, torch.where(free, 0.0, dx / x).amin(-1))
    return torch.where(lowest < 0, -0.98 / lowest, 1.0).clamp_max(1.0)


def _newton_matrix(a: Tensor, b: Tensor, X: Tensor, Y: Tensor) -> Tensor:
    """<A_i, d(2 X_12) / d lambda_j> for all i, j, where dX = sym(X dS Y)."""
    d1 = a.shape[-1]

    def products(M):
        left = a @ M[:, :d1]  # (B, m, d1 + d2)
        return left[..., :d1] @ a.mT, left[..., d1:] @ b.mT, (b @ M[:, d1:, d1:]) @ b.mT

    Xaa, Xab, Xbb = products(X)
    Yaa, Yab, Ybb = products(Y)
    cross = Xab * Yab.mT
    return (Xaa * Ybb).addcmul_(Yaa, Xbb).add_(cross).add_(cross.mT)
