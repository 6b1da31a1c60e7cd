"""Many nuclear-norm problems at once: a primal-dual interior point on one small semidefinite block each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mini_attn.svm.newton import iterate
from mini_attn.svm.norms import matrix_norm
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import Solution

FEW = 16  # rows that are not worth choosing from
SETTLE = 3  # steps until lambda_j / s_j tells the rows that matter


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
    is formed. After three steps only the rows that still look tight go on; where one that was left out turns
    out to be violated, all rows start over.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        norm: "nuc".
        tol: relative gap that ends the work on a problem.
        W, dual: the Euclidean solution, near 1 in size.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Recht, Fazel & Parrilo, "Guaranteed minimum-rank solutions" (2010), for the pair; Todd, Toh &
        Tutuncu, "On the Nesterov-Todd direction in semidefinite programming" (1998), for the direction.
    """
    d1 = W.shape[-2]
    start = X, s, lam = _start(problem, W, dual)

    def candidate(problem, X, s, lam):
        return 2 * X[:, :d1, d1:], lam, X.diagonal(dim1=1, dim2=2).sum(-1)

    for _ in range(SETTLE):
        dX, ds, dlam = _step(problem, X, s, lam)
        X, s, lam = X + dX, s + ds, lam + dlam
    rows = _likely_support(problem, s, lam)
    part, weights = _take(problem, rows), lam.gather(-1, rows)
    # The rows left out had weights too: without them S must not be longer than it was.
    lengths = [matrix_norm(p.adjoint(w), "spectral") for p, w in ((problem, lam), (part, weights))]
    weights = weights * (lengths[0] / lengths[1]).clamp_max(1.0)[:, None]
    state = X, s.gather(-1, rows), weights
    W, weights, gap, steps = iterate(_step, candidate, part, state, norm, tol)
    dual, steps = torch.zeros_like(dual).scatter(-1, rows, weights), steps + SETTLE

    missed = (problem.forward(W) < problem.r - 1e-12 * problem.r.abs()) & ~problem.is_equality
    again = torch.nonzero(missed.any(-1) | (gap > tol))[:, 0]
    if len(again):
        rest, state = problem[again], tuple(x[again] for x in start)
        W[again], dual[again], _, count = iterate(_step, candidate, rest, state, norm, tol)
        steps[again] += count
    return W, dual, steps


def certified_rank(problem: HardMarginProblem, solution: Solution) -> Int[Tensor, "*batch"]:
    """A bound on the rank of every nuclear-norm solution, read off the dual: how many singular values of
    S = sum_j lambda_j A_j are 1.

        sum of singular values of W* outside the k leading directions of S
            <=  gap ||W*||_* / (1 - sigma_{k+1}(S))

    holds for every optimal W*. Values above 1 - sqrt(gap) are counted, so what lies outside is at most a
    share sqrt(gap) of ||W*||_*: no W* has a larger rank, but for that share. No threshold on W is involved.
    The bound is the rank itself where strict complementarity holds, as it does for data in general position:
    a W has as many singular values that are not 0. Data with many ties (one-hot tokens) may lack it; then a
    smaller tol, or other weights, may give another bound, and the solutions have several ranks.

    Args:
        problem: with b.
        solution: of `solve(problem, norm="nuc")`.

    Returns:
        (...,) ranks; 0 where W = 0, -1 where there is no W.

    Raises:
        ValueError: a problem without b, whose unknown is a vector; a solution in another norm.

    Source: Watson, "Characterization of the subdifferential of some matrix norms" (1992), with complementary
        slackness. Introduced in lesson 04.
    """
    if problem.b is None:
        raise ValueError(
            "a problem without b has a vector w, and that has no rank; expected one for a matrix W"
        )
    if solution.norm != "nuc":
        raise ValueError(f'the solution is in norm {solution.norm!r}; expected solve(problem, norm="nuc")')
    gap = solution.gap.clamp_min(torch.finfo(solution.gap.dtype).eps)
    values = torch.linalg.svdvals(problem.adjoint(solution.dual))
    rank = (values > 1 - gap.sqrt()[..., None]).sum(-1)
    return torch.where(solution.objective.isinf(), -1, rank)


def _start(problem: HardMarginProblem, W: Tensor, dual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(X, s, lambda) inside the cones, with gap and violation near those of the Euclidean pair (W, dual)."""
    free, empty = problem.is_equality, (problem.a == 0).all(-1)
    size = dual.abs().mean(-1, keepdim=True)
    lam = torch.where(free, dual, torch.maximum(dual, 0.2 * size))
    shrink = 0.9 / matrix_norm(problem.adjoint(lam), "spectral")[:, None]
    lam, size = torch.where(empty, 1.0, lam * shrink), size * shrink
    X = _above(W)
    room = 0.05 * X.diagonal(dim1=1, dim2=2).mean(-1, keepdim=True) / size
    s = torch.maximum(problem.forward(W) - problem.r, room)
    return X, torch.where(free, 0.0, torch.where(empty, 1.0, s)), lam


def _above(W: Tensor) -> Tensor:
    """[(W W' + e^2)^1/2, W; W', (W' W + e^2)^1/2] / 2 with e = 0.15: X a little inside, for ||W||_F = 1."""
    square, V = torch.linalg.eigh(W.mT @ W)
    root = (square.clamp_min(0) + 0.15**2).sqrt()[:, None]
    WV = W @ V
    # The square root on the other side, in directions that W does not reach too.
    left = (WV / (root + 0.15)) @ WV.mT
    left.diagonal(dim1=1, dim2=2).add_(0.15)
    top = torch.cat([left, W], -1)
    return 0.5 * torch.cat([top, torch.cat([W.mT, (V * root) @ V.mT], -1)], -2)


def _likely_support(problem: HardMarginProblem, s: Tensor, lam: Tensor) -> Tensor:
    """The rows with the largest lambda_j / s_j, (B, k): enough to hold the equalities and all above
    0.3 times the average."""
    empty, fixed = (problem.a == 0).all(-1), problem.is_equality
    real = (~empty & ~fixed).to(s)
    average = (real * lam).sum(-1, keepdim=True) / (real * s).sum(-1, keepdim=True)
    ratio = torch.where(empty, 0.0, torch.where(fixed, torch.inf, lam / s))
    k = int((fixed | (ratio > 0.3 * average)).sum(-1).amax())
    return ratio.topk(min(max(k, FEW), ratio.shape[-1]), dim=-1).indices


def _take(problem: HardMarginProblem, rows: Tensor) -> HardMarginProblem:
    """The problem with only the given rows, (B, k)."""
    a, b = (x.gather(1, rows[..., None].expand(-1, -1, x.shape[-1])) for x in (problem.a, problem.b))
    return HardMarginProblem(a, b, problem.r.gather(-1, rows), problem.is_equality.gather(-1, rows))


def _step(problem: HardMarginProblem, X: Tensor, s: Tensor, lam: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One predictor-corrector step (dX, ds, dlambda), already shortened to stay inside the cones."""
    a, b, r, free = problem.a, problem.b, problem.r, problem.is_equality
    d1 = a.shape[-1]
    nu = X.shape[-1] + (~free).sum(-1)
    S = problem.adjoint(lam)
    Z = torch.eye(X.shape[-1], dtype=X.dtype, device=X.device) - off_diagonal(S)
    Y = inverse(Z)
    M = _newton_matrix(a, b, X, Y)
    ratio = torch.where(free, 0.0, s / lam)
    diagonal = M.diagonal(dim1=1, dim2=2)
    empty = diagonal == 0
    diagonal.add_(ratio + empty + 1e-15 * diagonal.amax(-1, keepdim=True))
    M_factor = torch.linalg.cholesky_ex(M).L

    def direction(center, second_matrix, second_vector):
        """Newton towards X Z = center I and s lam = center; `second_...` are what the predictor left out."""
        push = torch.where(free, 0.0, (center[:, None] - second_vector) / lam)
        target = center[:, None, None] * Y + second_matrix
        rest = r + push - 2 * problem.forward(target[:, :d1, d1:])
        dlam = torch.cholesky_solve(rest[..., None], M_factor)[..., 0]
        dlam = torch.where(empty, 0.0, dlam)
        dS = problem.adjoint(dlam)
        cross = symmetric(X @ off_diagonal(dS) @ Y)
        return target - X + cross, dS, push - ratio * dlam - s, dlam

    ball = torch.eye(S.shape[-1], dtype=S.dtype, device=S.device) - S.mT @ S

    def dual_step(dS, dlam):
        """Z is positive definite where I - (S + t dS)' (S + t dS) is."""
        square = dS.mT @ dS
        linear = 2 * symmetric(S.mT @ dS)
        return largest_step(lambda t: inside(ball - t * (linear + t * square)), lam, dlam, free)

    mu = ((X * Z).sum((-2, -1)) + (s * lam).sum(-1)) / nu
    dX, dS, ds, dlam = direction(torch.zeros_like(mu), 0.0, 0.0)
    center = (1 - dual_step(dS, dlam)).clamp_min(1e-3) ** 1.5 * mu
    dX, dS, ds, dlam = direction(center, symmetric(dX @ off_diagonal(dS) @ Y), ds * dlam)
    primal = largest_step(lambda t: inside(torch.addcmul(X, t, dX)), s, ds, free)
    return primal[:, None, None] * dX, primal[:, None] * ds, dual_step(dS, dlam)[:, None] * dlam


def off_diagonal(S: Float[Tensor, "B d1 d2"]) -> Float[Tensor, "B d d"]:
    """[0, S; S', 0]."""
    d1, d2 = S.shape[-2:]
    top = torch.cat([S.new_zeros(len(S), d1, d1), S], -1)
    return torch.cat([top, torch.cat([S.mT, S.new_zeros(len(S), d2, d2)], -1)], -2)


def symmetric(M: Float[Tensor, "B d d"]) -> Float[Tensor, "B d d"]:
    """(M + M') / 2."""
    return (M + M.mT) / 2


def inverse(Z: Float[Tensor, "B d d"]) -> Float[Tensor, "B d d"]:
    """Z^-1 of positive definite matrices; NaN where one is not: `torch.cholesky_inverse` alone would stop
    the whole batch."""
    factor, info = torch.linalg.cholesky_ex(Z)
    failed = (info > 0)[:, None, None]
    identity = torch.eye(Z.shape[-1], dtype=Z.dtype, device=Z.device)
    Y = torch.cholesky_inverse(torch.where(failed, identity, factor))
    return Y.masked_fill(failed, torch.nan)


def inside(X: Float[Tensor, "B d d"]) -> Bool[Tensor, " B"]:
    """X positive definite."""
    return torch.linalg.cholesky_ex(X).info == 0


def largest_step(
    works: Callable, x: Float[Tensor, "B m"], dx: Float[Tensor, "B m"], free: Bool[Tensor, "B m"]
) -> Float[Tensor, " B"]:
    """Step, at most 1, and up to 0.98 of the way to the edge of {works(t), x + t dx >= 0 where not free}.

    By bisection over sixteen lengths, closest together near the longest: four Cholesky factors are cheaper
    than the lowest eigenvalue.

    Args:
        works: t (B, 1, 1) -> (B,) bool, true from t = 0 up to the length that is looked for.
        x, dx: (B, m), x >= 0.
        free: (B, m) bool, entries that may have any sign.
    """
    edge = torch.where((dx < 0) & ~free, -x / dx, torch.inf).amin(-1).clamp_max(1 / 0.98)
    failed = torch.zeros_like(edge)  # of 15; a length is (1 - (failed / 15)^2) edge
    curve = -edge / 225
    for stride in (8, 4, 2, 1):
        trial = failed + (stride - 1)
        length = torch.addcmul(edge, curve, trial * trial)
        failed.add_(~works(length[:, None, None]), alpha=stride)
    return 0.98 * torch.addcmul(edge, curve, failed * failed)


def _newton_matrix(a: Tensor, b: Tensor, X: Tensor, Y: Tensor) -> Tensor:
    """<A_i, d(2 X_12) / d lambda_j> for all i, j, where dX = sym(X dS Y)."""
    d1, aT, bT = a.shape[-1], a.mT, b.mT
    # Three m x m matrices in all: in memory that stays in the cache this takes two thirds of the time.
    M = (a @ X[:, :d1, :d1]) @ aT
    other = (b @ Y[:, d1:, d1:]) @ bT
    M.mul_(other)
    third = torch.bmm(a @ Y[:, :d1, :d1], aT)
    M.addcmul_(third, torch.bmm(b @ X[:, d1:, d1:], bT, out=other))
    torch.bmm(a @ X[:, :d1, d1:], bT, out=other)
    torch.bmm(b @ Y[:, d1:, :d1], aT, out=third)
    other.mul_(third)
    return M.add_(other).add_(other.mT)
