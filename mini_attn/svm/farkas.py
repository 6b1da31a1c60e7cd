"""Proofs that no W satisfies the rows, for the very floats that were given and not only up to rounding."""

from __future__ import annotations

from fractions import Fraction

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mini_attn.svm.exact import exact_answer, independent
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.rational import integer_rows, shortest
from mini_attn.svm.rows import normal_matrix

LIGHT = 1e-9  # weights below this share of the largest are left out of exact arithmetic
ENTRIES = 1024  # of W: beyond this the matrix of the first proof is not made; of the rows in the second
MEMORY = 2**26  # bytes of matrices at a time


def refuted(
    problem: HardMarginProblem,
    right: Float[Tensor, "B m"],
    power: Int[Tensor, "B m"],
    ray: Float[Tensor, "B m"],
) -> tuple[Bool[Tensor, " B"], Float[Tensor, "B m"]]:
    """Whether an exact ray stands near each candidate, which proves that its problem is infeasible.

        lambda >= 0 on inequalities,   sum_j lambda_j A_j = 0,   sum_j lambda_j r_j > 0

    A candidate in floating point leaves E = sum_j lambda_j A_j, small but not 0. Two ways to an exact ray:

    1. With N = sum_j lambda_j^2 vec(A_j) vec(A_j)', the weights mu_j = -lambda_j^2 vec(A_j)' N^-1 vec(E) take
       E away, and |mu_j| <= rho lambda_j for rho^2 = vec(E)' N^-1 vec(E). So where rho < 1 and
       rho sum_j lambda_j |r_j| < sum_j lambda_j r_j, lambda + mu is a ray. A bound on all rounding errors is
       part of |E|; one Cholesky factor of N, shifted, tells whether it is small enough. Rays of points in
       general position pass this way, all problems at once.
    2. Where the A_j span less than the space N may be singular: rational arithmetic, one problem at a time.

    Either is tried with the rows that share the b_j of the heaviest row (the tokens of one sequence), then
    with all.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        right, power: the right-hand sides are right_j / 2^power_j, those of the problem but for one power of
            two that they share.
        ray: lambda, 0 where a row or right-hand side of the problem is not exactly the one that is meant.

    Returns:
        proved (B,), False says nothing; and the rays (B, m), as near to exact as float64 allows.

    Source: Farkas' lemma; Jansson, Chaykin & Keil, "Rigorous error bounds for the optimal value in
        semidefinite programming" (2008), for rounding errors that a verified solution absorbs.
    """
    b, ray = problem.b, problem.multipliers(ray)
    heaviest = (ray * problem.r).argmax(-1)[:, None, None].expand(-1, -1, b.shape[-1])
    shared = (b == b.gather(1, heaviest)).all(-1)
    mixed, one = ~shared.all(-1), torch.ones_like(b[..., :1])
    proved, found = _absorbed(HardMarginProblem(problem.a, one, problem.r, problem.equality), ray * shared)
    rest, entries = torch.nonzero(~proved & mixed)[:, 0], problem.a.shape[-1] * b.shape[-1]
    if len(rest) and entries <= ENTRIES:
        for some in rest.split(max(1, MEMORY // (8 * entries**2))):
            proved[some], found[some] = _absorbed(problem[some], ray[some])
    for k in torch.nonzero(~proved)[:, 0].tolist():
        tries = [(one[k], shared[k])] + ([(b[k], torch.ones_like(shared[k]))] if mixed[k] else [])
        for factor, among in tries:
            exact = _exact(problem[k], factor, right[k], power[k], ray[k], among)
            if exact is not None:
                proved[k], found[k] = True, exact
                break
    return proved, torch.where(proved[:, None], found, ray)


def _absorbed(problem: HardMarginProblem, ray: Tensor) -> tuple[Tensor, Tensor]:
    """The first way of `refuted`."""
    ray = ray / ray.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    m, entries = ray.shape[-1], problem.a.shape[-1] * problem.b.shape[-1]
    rounding = torch.finfo(ray.dtype).eps * (m + entries + 16)
    left = torch.linalg.matrix_norm(problem.adjoint(ray)) + rounding * ray.abs().sum(-1)
    raw, total = (ray * problem.r).sum(-1), (ray * problem.r).abs().sum(-1)
    rho = 0.5 * (raw / total - rounding)
    N = normal_matrix(problem, ray.square())
    diagonal = N.diagonal(dim1=1, dim2=2)
    shift = (left / rho).square() + 4 * rounding * diagonal.sum(-1)
    diagonal.sub_(shift[:, None])
    proved = (rho > 0) & (torch.linalg.cholesky_ex(N).info == 0)
    diagonal.add_(torch.where(proved, shift, torch.inf)[:, None])
    factor, squares = torch.linalg.cholesky_ex(N).L, ray.square()
    for _ in range(2):
        E = problem.adjoint(ray)
        x = torch.cholesky_solve(E.flatten(1)[..., None], factor).reshape(E.shape)
        ray = ray - squares * problem.forward(torch.where(proved[:, None, None], x, 0.0))
    return proved, problem.multipliers(ray)


def _exact(
    problem: HardMarginProblem, b: Tensor, right: Tensor, power: Tensor, ray: Tensor, among: Tensor
) -> Tensor | None:
    """The second way, for one problem: a ray of the heavier rows in rational arithmetic, or None."""
    weight, most = ray.abs() * among, ENTRIES // (problem.a.shape[-1] * b.shape[-1])
    heavy = weight > LIGHT * ray.abs().amax()
    used = torch.nonzero(heavy | (among & problem.is_equality))[:, 0]
    if len(used) > most:  # some of them will do, if the rest repeats what they say
        used = weight.topk(min(most, int(heavy.sum()))).indices.sort().values
    if not len(used):
        return None
    part = HardMarginProblem(problem.a[used], b[used], problem.r[used], problem.is_equality[used])
    if independent(part):
        return None
    pairs = zip(right[used].tolist(), power[used].tolist(), strict=True)
    sides = [Fraction(x) / Fraction(2) ** p for x, p in pairs]
    _, weights, is_ray = exact_answer(part, sides)
    return torch.zeros_like(ray).index_copy(0, used, weights) if is_ray else None


def exact_ray(problem: HardMarginProblem, dual: Float[Tensor, " m"]) -> list[Fraction]:
    """The proof that one problem has no W, in rational numbers, from the weights that `solve` hands out.

        lambda >= 0 on inequalities,   sum_j lambda_j A_j = 0,   sum_j lambda_j r_j = 1

    holds without any rounding for the floats of the problem, so that `fractions.Fraction` checks it. Floats
    as weights cannot always: where rows contradict each other by less than a float's last digit, the terms
    lambda_j r_j are so much longer than their sum that rounding takes even its sign. Choose it for problems
    with up to a hundred entries in W; rational arithmetic takes seconds for more.

    Args:
        problem: without leading dimensions, any dtype.
        dual: its weights, `solution.dual`: the rows that have one are tried first, then all rows.

    Returns:
        m weights.

    Raises:
        ValueError: the problem has leading dimensions, dual has another shape, or a W exists.

    Source: Farkas' lemma, which lesson 02 proves; `mini_attn.svm.rational.shortest`.
    """
    if not isinstance(problem, HardMarginProblem):
        raise ValueError(f"problem is {type(problem).__name__}; expected a HardMarginProblem")
    if problem.batch_shape or not isinstance(dual, Tensor) or dual.shape != problem.r.shape:
        raise ValueError(
            f"expected one problem and its weights, such as problem[0] and solution.dual[0]; got a problem "
            f"of shape {tuple(problem.r.shape)} and weights {getattr(dual, 'shape', type(dual).__name__)}"
        )
    some = torch.nonzero(dual)[:, 0].tolist()
    everything = list(range(len(dual)))
    for used in (some, everything) if 0 < len(some) < len(dual) else (everything,):
        a, b = (None if x is None else x[used].tolist() for x in (problem.a, problem.b))
        rows, right, factors = integer_rows(a, b, problem.r[used].tolist())
        w, weights = shortest(rows, right, problem.is_equality[used].tolist())
        if w is None:
            worth = sum(x * y for x, y in zip(weights, right, strict=True))
            ray = [Fraction(0)] * len(dual)
            for j, x, factor in zip(used, weights, factors, strict=True):
                ray[j] = x * factor / worth
            return ray
    raise ValueError("this problem has a W that satisfies every row, so that no ray exists")
