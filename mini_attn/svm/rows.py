"""The two Newton matrices of rank-one rows, made from a slice of the expanded rows at a time."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem

SLICE = 128  # columns, or rows, of the expanded rows that are held at once; fewer make the products slow


def gram(problem: HardMarginProblem, weights: Float[Tensor, "B d1 d2"]) -> Float[Tensor, "B m m"]:
    """<A_i, weights * A_j> for all i, j, with the entrywise product *.

    Args:
        problem: a batch with one leading dimension, A_j = a_j b_j^T.
        weights: one for each entry of W.
    """
    a, b = problem.a, problem.b
    at_once = max(1, SLICE // b.shape[-1])
    M = None
    for some, part in zip(a.split(at_once, -1), weights.split(at_once, -2), strict=True):
        rows = _expanded(some, b)
        scaled = rows * part.flatten(1)[:, None]
        M = scaled @ rows.mT if M is None else M.baddbmm_(scaled, rows.mT)
    return M


def normal_matrix(problem: HardMarginProblem, weights: Float[Tensor, "B m"]) -> Float[Tensor, "B D D"]:
    """sum_j weights_j vec(A_j) vec(A_j)^T, D = d1 d2.

    Args:
        problem: a batch with one leading dimension, A_j = a_j b_j^T.
        weights: one for each row.
    """
    parts = (x.split(SLICE, 1) for x in (problem.a, problem.b, weights))
    H = None
    for a, b, weight in zip(*parts, strict=True):
        rows = _expanded(a, b)
        scaled = weight[..., None] * rows
        H = rows.mT @ scaled if H is None else H.baddbmm_(rows.mT, scaled)
    return H


def _expanded(a: Tensor, b: Tensor) -> Tensor:
    return (a[..., :, None] * b[..., None, :]).flatten(-2)
