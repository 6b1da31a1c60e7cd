"""Arithmetic without rounding on the floats of one problem, for what float64 cannot tell."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem


def integers(numbers: Tensor) -> tuple[np.ndarray, int]:
    """Python integers n_k and p with numbers_k = n_k / 2^p exactly, in an array of the same shape."""
    ratios = [x.as_integer_ratio() for x in numbers.flatten().tolist()]
    p = max((denominator.bit_length() - 1 for _, denominator in ratios), default=0)
    whole = [n << (p - denominator.bit_length() + 1) for n, denominator in ratios]
    return np.array(whole, dtype=object).reshape(numbers.shape), p


def adjoint(problem: HardMarginProblem, dual: Tensor) -> Tensor:
    """sum_j dual_j a_j b_j' of one problem, rounded once."""
    (a, p), (b, q), (weights, s) = (integers(x) for x in (problem.a, problem.b, dual))
    return _rounded((a * weights[:, None]).T @ b, p + q + s, dual)


def missing(problem: HardMarginProblem, W: Tensor) -> Tensor:
    """r_j - <a_j b_j', W> of one problem, rounded once."""
    (a, p), (b, q), (w, s), (r, t) = (integers(x) for x in (problem.a, problem.b, W, problem.r))
    top = max(p + q + s, t)
    reach = ((a @ w) * b).sum(-1)
    return _rounded(r * (1 << (top - t)) - reach * (1 << (top - p - q - s)), top, W)


def reduced(M: list[list[int]]) -> tuple[list[int], list[int], list[list[int]], int]:
    """Fraction-free Gauss-Jordan elimination of integers.

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


def _rounded(numbers: np.ndarray, p: int, like: Tensor) -> Tensor:
    """numbers / 2^p as floats; Python divides integers of any length without error."""
    floats = [n / (1 << p) for n in numbers.ravel().tolist()]
    return torch.tensor(floats, dtype=like.dtype, device=like.device).reshape(numbers.shape)
