"""Rows live in small spaces: coordinates there, and the way back."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem

ROUNDING = 1e-13


def to_spans(problem: HardMarginProblem) -> list[tuple[Tensor, HardMarginProblem, Tensor, Tensor]]:
    """The same problems in coordinates of span(a_j) and span(b_j).

        <A_j, P V Q'> = <P' A_j Q, V>,   N(P V Q') = N(V)   for orthonormal columns P, Q and N any of
            "fro", "nuc", "spectral"

    and P P' W Q Q' satisfies the rows that W does without being longer: nothing is lost. In attention
    problems b_j repeats the query of its sequence, so that n sequences leave n of d2 columns. Problems that
    need as many columns stay together: with more of them than it needs, a nearly singular problem is lost
    to the interior-point methods.

    Args:
        problem: a batch with one leading dimension, with b.

    Returns:
        For each part of the batch the numbers of its problems, (B',); the problems, with a (B', m, k1) and
        b (B', m, k2); P (B', d1, k1), Q (B', d2, k2). Weights on the rows carry over as they are, and
        W = P V Q'.
    """
    a, P, k1 = _coordinates(problem.a)
    b, Q, k2 = _coordinates(problem.b)
    parts = []
    widths, part = torch.stack([k1, k2], -1).unique(dim=0, return_inverse=True)
    for number, (w1, w2) in enumerate(widths.tolist()):
        i = torch.nonzero(part == number)[:, 0]
        inside = a[i, :, :w1].contiguous(), b[i, :, :w2].contiguous()
        some = HardMarginProblem(*inside, problem.r[i], problem.is_equality[i])
        parts.append((i, some, P[i, :, :w1].contiguous(), Q[i, :, :w2].contiguous()))
    return parts


def _coordinates(rows: Float[Tensor, "B m d"]) -> tuple[Tensor, Tensor, Int[Tensor, " B"]]:
    """rows @ basis, basis, and how many columns each problem needs: up to rounding, its rows vanish in the
    others."""
    gram = rows.mT @ rows
    identity = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
    every = torch.arange(1, len(identity) + 1, device=rows.device)
    # Which problems need every column is cheaper to see than eigenvectors.
    full = torch.linalg.cholesky_ex(gram - 1e-9 * identity).info == 0
    basis = identity.expand(len(rows), -1, -1)
    if full.all():
        return rows, basis, every[-1].expand(len(rows))
    basis = torch.where(full[:, None, None], basis, torch.linalg.eigh(gram).eigenvectors.flip(-1))
    inside = rows @ basis
    # Not the eigenvalues, which are squares: those of singular values under 1e-8 are rounding alone.
    needed = (inside.abs() > ROUNDING).any(1) * every
    return inside, basis, needed.amax(-1).clamp(min=1)
