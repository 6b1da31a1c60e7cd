"""The Euclidean hard-margin problem as nonnegative least squares, one problem at a time (scipy)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mini_attn.svm.norms import Norm
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import HOPELESS


def solve_nnls(problem: HardMarginProblem, norm: Norm, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """Lawson and Hanson's least distance programming: exact active sets, so gaps near rounding.

        min ||W||_F  s.t. <A_j, W> >= r_j     <->     min_{u >= 0} || sum_j u_j (A_j, r_j) - (0, 1) ||

    At the minimum W is a positive multiple of sum_j u_j A_j, and lambda of u. A zero minimum is Farkas'
    proof of infeasibility, and u is the ray. Equality rows get a free u_j, as a difference of two
    nonnegative ones. Choose it for a few small problems, where it is the most accurate method; its cost
    grows with m^3.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        norm: "fro" only.
        tol: unused, the method is finite.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Lawson & Hanson, "Solving least squares problems" (1974), chapter 23.
    """
    B, m = problem.r.shape
    dual = problem.a.new_zeros(B, m)
    a, b, r, equality = (t.cpu().numpy() for t in (problem.a, problem.b, problem.r, problem.is_equality))
    for k in range(B):
        u = least_distance(_coordinates(a[k], b[k]), r[k], equality[k])
        dual[k] = torch.from_numpy(u).to(dual)
    total = problem.adjoint(dual)
    square = (total * total).sum((-2, -1))
    W = total * ((dual * problem.r).sum(-1) / square.clamp_min(1e-300))[:, None, None]
    return W, dual, torch.ones(B, dtype=torch.int64)


def least_distance(A: np.ndarray, r: np.ndarray, equality: np.ndarray) -> np.ndarray:
    """Dual weights u of min ||w|| s.t. A w >= r (= where equality), by one or more NNLS problems.

    Args:
        A: (m, k) rows; r: (m,); equality: (m,) bool.

    Returns:
        (m,) u with w proportional to A^T u; where A^T u is 0, u proves that no w exists.
    """
    from scipy.optimize import nnls  # here: it is rarely needed, and takes a third of a second to load

    signs = np.concatenate([np.ones(len(r)), -np.ones(equality.sum())])
    rows = np.concatenate([np.arange(len(r)), np.flatnonzero(equality)])
    A, r = A[rows] * signs[:, None], r[rows] * signs
    scale = 1.0
    for _ in range(4):  # the problem is best conditioned when ||w|| is near 1, so rescale by what was found
        E = np.concatenate([A.T, r[None] / scale])
        f = np.zeros(len(E))
        f[-1] = 1.0
        u, _ = nnls(E, f, maxiter=30 * E.shape[1])
        rest = 1.0 - E[-1] @ u
        length = np.linalg.norm(A.T @ u)
        ratio = length / rest if rest > 0 else np.inf  # ||w|| in units of scale
        if ratio > HOPELESS or 0.1 < ratio < 10 or ratio == 0:  # a ray, well scaled, nothing to do
            break
        scale *= ratio
    dual = np.zeros(equality.size)
    np.add.at(dual, rows, signs * u)
    return dual


def _coordinates(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The rows a_j b_j^T as vectors (m, k) with the same inner products, k <= min(m, rank a * rank b)."""
    left, right = _span(a), _span(b)
    rows = (left[:, :, None] * right[:, None, :]).reshape(len(a), -1)
    return _span(rows)


def _span(rows: np.ndarray) -> np.ndarray:
    """Coordinates of the rows in an orthonormal basis of their span, if there are fewer rows than columns."""
    m, k = rows.shape
    return rows if m >= k else np.linalg.qr(rows.T, mode="r").T
