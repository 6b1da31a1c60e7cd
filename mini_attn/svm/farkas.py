"""Proofs that no W satisfies the rows, for the very floats that were given and not only up to rounding."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.rows import normal_matrix

SMALL = 1e-9  # weights below this share of the largest are left out of exact arithmetic
ENTRIES = 1024  # of W: beyond this the matrix of the first proof is not made
WORK = 300_000  # multiplications of long integers, a second or so for one problem
MEMORY = 2**26  # bytes of matrices at a time


def refutes(
    problem: HardMarginProblem, given: HardMarginProblem, ray: Float[Tensor, "B m"]
) -> Bool[Tensor, " B"]:
    """Whether an exact ray stands near each candidate, which proves that its problem is infeasible.

        lambda >= 0 on inequalities,   sum_j lambda_j A_j = 0,   sum_j lambda_j r_j > 0

    A candidate in floating point leaves E = sum_j lambda_j A_j, small but not 0. Two ways to an exact ray:

    1. With N = sum_j lambda_j^2 vec(A_j) vec(A_j)', the weights mu_j = -lambda_j^2 vec(A_j)' N^-1 vec(E)
    take E
       away, and |mu_j| <= rho lambda_j for rho^2 = vec(E)' N^-1 vec(E). So where rho < 1 and
       rho sum_j lambda_j |r_j| < sum_j lambda_j r_j, lambda + mu is a ray. A bound on all rounding errors is
       part of |E|; one Cholesky factor of N, shifted, tells whether it is small enough. Rays of points in
       general position pass this way, all problems at once.
    2. Where the A_j span less than the space N may be singular: integer elimination, one problem at a time.

    Either is tried with the rows that share the b_j of the heaviest row (the tokens of one sequence), then
    with all.

    Args:
        problem: a batch with one leading dimension and unit rows, float64.
        given: the same problem before its rows were brought to unit size.
        ray: lambda, for the unit rows.

    Returns:
        True where infeasibility is proved. False says nothing.

    Source: Farkas' lemma; Jansson, Chaykin & Keil, "Rigorous error bounds for the optimal value in
        semidefinite programming" (2008), for rounding errors that a verified solution absorbs.
    """
    heaviest = (ray * problem.r).argmax(-1, keepdim=True)
    shared = (given.b == given.b.gather(1, heaviest[..., None].expand(-1, -1, given.b.shape[-1]))).all(-1)
    own = torch.where(shared, ray, 0.0)
    one = torch.ones_like(problem.b[..., :1])
    proved = _absorbed(HardMarginProblem(problem.a, one, problem.r, problem.equality), own)
    mixed = ~shared.all(-1)
    entries = problem.a.shape[-1] * problem.b.shape[-1]
    rest = torch.nonzero(~proved & mixed)[:, 0]
    if entries <= ENTRIES:
        for some in rest.split(max(1, MEMORY // (8 * entries**2))) if len(rest) else ():
            proved[some] = _absorbed(problem[some], ray[some])
    for k in torch.nonzero(~proved)[:, 0].tolist():
        tries = [(own[k], one[k])] + ([(ray[k], given.b[k])] if mixed[k] else [])
        proved[k] = any(_exact(given.a[k], b, given.r[k], problem.is_equality[k], w) for w, b in tries)
    return proved


def _absorbed(problem: HardMarginProblem, ray: Tensor) -> Tensor:
    """The first way of `refutes`."""
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
    return (rho > 0) & (torch.linalg.cholesky_ex(N).info == 0)


def _exact(a: Tensor, b: Tensor, r: Tensor, equality: Tensor, ray: Tensor) -> bool:
    """The second way: the light weights stay as they are, the heavy ones are solved for, in integers."""
    weight = ray.abs()
    used = torch.nonzero(weight > SMALL * weight.amax())[:, 0]
    used = used[weight[used].argsort(descending=True)].tolist()  # those solved for come first
    if not used or len(used) ** 2 * a.shape[-1] * b.shape[-1] > WORK:
        return False
    columns, right, weights = [], [], []
    for j in used:
        row = a[j].tolist(), b[j].tolist()
        (left, p), (other, q), ((side,), s) = _integers(row[0]), _integers(row[1]), _integers([r[j].item()])
        shift = max(p + q, s)  # the column is A_j 2^shift
        columns.append([(x * y) << (shift - p - q) for x in left for y in other])
        right.append(side << (shift - s))
        (w, e), (u, f), (v, g) = map(math.frexp, (ray[j].item(), math.hypot(*row[0]), math.hypot(*row[1])))
        weights.append((int(w / u / v * 2**53), e - f - g - 53 - shift))
    lowest = min(exponent for _, exponent in weights)
    weights = [number << (exponent - lowest) for number, exponent in weights]
    pivots, free, rows, scale = _reduced([list(row) for row in zip(*columns, strict=True)])
    solved = {j: -sum(row[f] * weights[f] for f in free) for j, row in zip(pivots, rows, strict=True)}
    sign = 1 if scale > 0 else -1
    exact = [sign * (solved[j] if j in solved else scale * weights[j]) for j in range(len(used))]
    kept = all(value >= 0 or equality[j] for j, value in zip(used, exact, strict=True))
    return kept and sum(value * side for value, side in zip(exact, right, strict=True)) > 0


def _integers(numbers: list[float]) -> tuple[list[int], int]:
    """Integers n_k and p with numbers_k = n_k / 2^p exactly; p may be negative."""
    ratios = [x.as_integer_ratio() for x in numbers]
    p = max(denominator.bit_length() - 1 for _, denominator in ratios)
    return [n << (p - denominator.bit_length() + 1) for n, denominator in ratios], p


def _reduced(M: list[list[int]]) -> tuple[list[int], list[int], list[list[int]], int]:
    """Fraction-free Gauss-Jordan elimination.

    Returns:
        pivots, free: numbers of the columns; rows: one for each pivot, with `scale` at its own pivot and 0 at
        the others; scale: not 0.
    """
    pivots, free, done, scale = [], [], 0, 1
    for column in range(len(M[0])):
        found = next((i for i in range(done, len(M)) if M[i][column]), None)
        if found is None:
            free.append(column)
            continue
        M[done], M[found] = M[found], M[done]
        top, pivot = M[done], M[done][column]
        for i, row in enumerate(M):
            if i != done:
                factor = row[column]
                M[i] = [(pivot * x - factor * y) // scale for x, y in zip(row, top, strict=True)]
        pivots.append(column)
        scale, done = pivot, done + 1
    return pivots, free, M[:done], scale
