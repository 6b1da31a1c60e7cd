"""`solve`: from a problem in any scale, dtype and batch shape to a method and back, with the certificate."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor

from mini_attn.svm.batched import solve_batched
from mini_attn.svm.large import solve_large
from mini_attn.svm.nnls import solve_nnls
from mini_attn.svm.norms import Norm, matrix_norm, parse_norm
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.reference import solve_cvxpy
from mini_attn.svm.solution import Solution, certify

METHODS = {"batched": solve_batched, "large": solve_large, "nnls": solve_nnls, "cvxpy": solve_cvxpy}
LARGE = 2000  # rows from which on "auto" solves Euclidean problems one by one with a working set


def solve(
    problem: HardMarginProblem,
    norm: Norm = "fro",
    method: str = "auto",
    tol: float | None = None,
    throw: bool = True,
) -> Solution:
    """Solve a batch of hard-margin problems and certify each answer.

        min_W N(W)                 subject to   <A_j, W> >= r_j  (or = r_j),   A_j = a_j b_j^T
        max_lambda  lambda . r     subject to   N*(sum_j lambda_j A_j) <= 1,   lambda_j >= 0 on inequalities

    The arithmetic is float64 whatever the input; the answer has the input's dtype and device, and the gap
    is that of the float64 answer. Rows and right-hand side are first brought to unit size, so scale does
    not matter.

    Args:
        problem: with leading batch dimensions or none.
        norm: "fro", "nuc", "spectral", or p >= 1 (`math.inf` allowed) for the entrywise l_p norm. For a
            vector unknown the first three are all the Euclidean norm.
        method: "batched" (torch, all problems at once, CPU or GPU), "large" (norm "fro", few problems
            with very many rows), "nnls" (norm "fro", scipy), "cvxpy" (one by one, the reference), or
            "auto": "large" for norm "fro" and more than 2,000 rows, else "batched" and, for what that
            leaves above tol, "nnls" or "cvxpy".
        tol: the relative gap up to which an answer counts as optimal. Default 1e-9 for "fro", else 1e-6.
        throw: raise if any problem is infeasible or stopped early; False reports it in `status`.

    Returns:
        A `Solution`; an infeasible problem does not disturb its neighbours.

    Raises:
        ValueError: unknown norm or method.
        InfeasibleError, SolveError: see `throw`; the exception carries `.solution`.

    Source: Boyd & Vandenberghe, "Convex optimization" (2004), chapter 5. Introduced in lesson 02.
    """
    start = time.perf_counter()
    vector = problem.b is None
    norm = parse_norm(norm, vector)
    if method not in METHODS and method != "auto":
        raise ValueError(f'method must be "auto" or one of {sorted(METHODS)}, got {method!r}')
    methods = _automatic(norm, problem.r.shape[-1]) if method == "auto" else [method]
    if tol is None:
        tol = 1e-9 if norm == "fro" else 1e-6

    unit, row_scale, r_scale = _normalize(problem)
    B, m, d1 = unit.a.shape
    W = unit.a.new_zeros(B, d1, unit.b.shape[-1])
    dual, gap = torch.zeros_like(unit.r), unit.a.new_zeros(B)
    iterations = torch.zeros(B, dtype=torch.int64, device=W.device)

    # A row 0 >= r_j > 0 refutes itself, and W = 0 may satisfy everything: neither needs a method.
    unmet = torch.where(unit.is_equality, unit.r.abs(), unit.r.clamp_min(0))
    refuted = torch.where((unit.a == 0).all(-1), unmet, 0)
    infeasible = (refuted > 0).any(-1)
    worst = refuted.argmax(-1, keepdim=True) if m else torch.zeros(B, 0, dtype=torch.int64, device=W.device)
    ray = torch.zeros_like(dual).scatter(-1, worst, 1.0) / torch.where(unit.r == 0, 1.0, unit.r)
    dual = torch.where(infeasible[:, None], ray, dual)
    W[infeasible] = torch.nan

    gap[~infeasible & (unmet > 0).any(-1)] = torch.inf
    for name in methods:
        left = torch.nonzero(gap > tol)[:, 0]
        if not len(left):
            break
        rest = unit if len(left) == B else unit[left]
        candidate, weights, steps = METHODS[name](rest, norm, tol)
        candidate, weights, rest_gap, refuted = certify(rest, candidate, weights, norm)
        picked = rest_gap < gap[left]
        better = left[picked]
        W[better], dual[better], gap[better] = candidate[picked], weights[picked], rest_gap[picked]
        infeasible[better] = refuted[picked]
        iterations[left] += steps.to(iterations.device)

    status = np.where((gap <= tol).cpu(), "optimal", "stopped")
    status = np.where(infeasible.cpu(), "infeasible", status)
    W = W * r_scale[:, None, None]
    dual = torch.where(infeasible[:, None], dual / r_scale[:, None], dual) / row_scale
    objective = torch.where(infeasible, torch.inf, matrix_norm(W, norm))

    shape, dtype = problem.batch_shape, problem.a.dtype
    solution = Solution(
        value=W.reshape(*shape, *W.shape[1 : 2 if vector else 3]).to(dtype),
        dual=dual.reshape(*shape, m).to(dtype),
        objective=objective.reshape(shape).to(dtype),
        margin=(1 / objective).reshape(shape).to(dtype),
        gap=gap.reshape(shape).to(dtype),
        status=status.reshape(shape),
        iterations=iterations.reshape(shape),
        seconds=time.perf_counter() - start,
    )
    return solution.raise_for_status() if throw else solution


def _automatic(norm: Norm, rows: int) -> list[str]:
    """The methods to try in turn."""
    if norm != "fro":
        return ["batched", "cvxpy"]
    return ["large"] if rows > LARGE else ["batched", "nnls"]


def _normalize(problem: HardMarginProblem) -> tuple[HardMarginProblem, Tensor, Tensor]:
    """The same problem in float64, one batch dimension, ||a_j|| = ||b_j|| = 1 and max_j |r_j| = 1.

    Returns:
        problem, row_scale (B, m), r_scale (B,): A_j = row_scale_j unit A_j, W = r_scale unit W.
    """
    m, d1 = problem.a.shape[-2:]
    B = problem.batch_shape.numel()
    a = problem.a.detach().reshape(B, m, d1).double()
    b = a.new_ones(B, m, 1) if problem.b is None else problem.b.detach()
    b = b.reshape(B, m, b.shape[-1]).double()
    r = problem.r.detach().reshape(B, m).double()
    sizes = [matrix_norm(factor[..., None], "fro") for factor in (a, b)]
    empty = (sizes[0] == 0) | (sizes[1] == 0)  # A_j = 0
    sizes = [torch.where(empty, 1.0, size) for size in sizes]
    a, b = (
        torch.where(empty, 0.0, 1 / size)[..., None] * factor
        for size, factor in zip(sizes, (a, b), strict=True)
    )
    r = r / sizes[0] / sizes[1]  # in turn: the product could leave the range of float64
    r_scale = r.abs().amax(-1) if m else r.new_zeros(B)
    r_scale = torch.where(r_scale > 0, r_scale, 1.0)
    unit = HardMarginProblem(a, b, r / r_scale[:, None], problem.is_equality.reshape(B, m))
    return unit, sizes[0] * sizes[1], r_scale
