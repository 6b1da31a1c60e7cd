"""Any norm, many problems at once, torch only: the Euclidean problem first, and from it the others."""

from __future__ import annotations

import torch
from torch import Tensor

from mini_attn.svm.box import solve_box
from mini_attn.svm.entrywise import solve_entrywise
from mini_attn.svm.euclidean import solve_euclidean
from mini_attn.svm.norms import Norm, nearest_limit
from mini_attn.svm.nuclear import solve_nuclear
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.rows import SLICE
from mini_attn.svm.solution import certify
from mini_attn.svm.span import to_spans
from mini_attn.svm.spectral import solve_spectral

METHODS = {"nuc": solve_nuclear, "spectral": solve_spectral}
CACHE = 2**22  # bytes that the Newton matrices of one chunk may fill on the CPU
MEMORY = 2**30  # likewise on a GPU


def solve_batched(problem: HardMarginProblem, norm: Norm, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """min N(W) s.t. <A_j, W> >= r_j (= where equality), for a batch, in chunks that fit the cache.

    The Euclidean problem comes first: it decides whether a W exists at all (which no norm changes),
    supplies the ray where none does, and elsewhere the scale and the start of the method for N. Choose it
    for many problems of up to a few hundred rows.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        norm: as `parse_norm` returns it.
        tol: relative gap that ends the work on a problem.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: see the method for each norm.
    """
    m, entries = problem.r.shape[-1], problem.a.shape[-1] * problem.b.shape[-1]
    # The Newton matrix, or the slice of expanded rows that it is made from.
    spectral, entrywise = entries * max(entries, min(m, SLICE)), m * max(m, min(entries, SLICE))
    work = {"fro": m * m, "nuc": m * m, "spectral": spectral}.get(norm, entrywise)
    on_cpu = problem.a.device.type == "cpu"
    if on_cpu:
        # Freed at once and never touched: it teaches glibc's malloc to keep blocks of this size. Otherwise
        # each chunk's memory goes back to the system and is cleared for the next, a third of the time.
        torch.empty(31 * 2**20, dtype=torch.uint8)
    room = CACHE if on_cpu else MEMORY
    size = max(1, room // (8 * work))
    answers = [_solve_chunk(problem[k : k + size], norm, tol) for k in range(0, len(problem.a), size)]
    return tuple(torch.cat(parts) for parts in zip(*answers, strict=True))


def _solve_chunk(problem: HardMarginProblem, norm: Norm, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    W, dual, steps = solve_euclidean(problem, "fro", tol if norm == "fro" else 1e-6)
    if norm == "fro":
        return W, dual, steps
    certified_W, certified_dual, gap, _ = certify(problem, W, dual, "fro")
    index = torch.nonzero(gap.isfinite())[:, 0]
    if not len(index):
        return W, dual, steps
    start, weights = certified_W[index], certified_dual[index]
    length = torch.linalg.matrix_norm(start)
    part = problem[index]
    part = HardMarginProblem(part.a, part.b, part.r / length[:, None], part.is_equality)
    start = start / length[:, None, None]
    if norm in ("nuc", "spectral"):
        method, found, count = METHODS[norm], start, torch.zeros_like(index)
        for i, some, P, Q in to_spans(part):
            V, weights[i], count[i] = method(some, norm, tol, P.mT @ start[i] @ Q, weights[i])
            found[i] = P @ V @ Q.mT
    elif nearest_limit(norm) is not None:
        found, weights, count = solve_box(part, nearest_limit(norm), tol, start, weights)
    else:
        found, weights, count = solve_entrywise(part, norm, tol, start, weights)
    W, dual = W.clone(), dual.clone()
    W[index], dual[index] = found * length[:, None, None], weights
    steps[index] += count
    return W, dual, steps
