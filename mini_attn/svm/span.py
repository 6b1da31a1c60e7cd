"""Rows live in small spaces: coordinates there, and the way back."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem

ROUNDING = 1e-13


def to_spans(problem: HardMarginProblem) -> tuple[HardMarginProblem, Tensor, Tensor]:
    """The same problem in coordinates of span(a_j) and span(b_j).

        <A_j, P V Q'> = <P' A_j Q, V>,   N(P V Q') = N(V)   for orthonormal columns P, Q and N any of
            "fro", "nuc", "spectral"

    and P P' W Q Q' satisfies the rows that W does without being longer: nothing is lost. In attention
    problems b_j repeats the query of its sequence, so that n sequences leave n of d2 columns. A batch
    keeps as many columns as the problem in it that needs most.

    Args:
        problem: a batch with one leading dimension, with b.

    Returns:
        problem with a (B, m, k1), b (B, m, k2); P (B, d1, k1), Q (B, d2, k2). Weights on the rows
        carry over as they are, and W = P V Q'.
    """
    a, P = _coordinates(problem.a)
    b, Q = _coordinates(problem.b)
    return HardMarginProblem(a, b, problem.r, problem.is_equality), P, Q


def _coordinates(rows: Float[Tensor, "B m d"]) -> tuple[Tensor, Tensor]:
    """rows @ basis and basis, without the columns in which all rows vanish up to rounding."""
    gram = rows.mT @ rows
    identity = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
    # Where one problem of the batch needs every column, all keep them: cheaper to see than eigenvectors.
    if (torch.linalg.cholesky_ex(gram - 1e-9 * identity).info == 0).any():
        return rows, identity.expand(len(rows), -1, -1)
    basis = torch.linalg.eigh(gram).eigenvectors.flip(-1)
    inside = rows @ basis
    # Not the eigenvalues, which are squares: those of singular values under 1e-8 are rounding alone.
    needed = (inside.abs() > ROUNDING).any(1).any(0)
    width = max(1, int((needed * torch.arange(1, len(needed) + 1, device=rows.device)).amax()))
    return inside[..., :width].contiguous(), basis[..., :width].contiguous()
