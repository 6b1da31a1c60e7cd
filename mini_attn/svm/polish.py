"""Nearly opposite rows, one problem at a time: singular values of the support, residuals without rounding."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm import rational
from mini_attn.svm.norms import Norm, dual_norm, matrix_norm
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import rank_one_size

LARGEST = 2**16  # entries m d1 d2 of a problem that is worth it: a few hundredths of a second
REFINEMENTS = 3


def polished(
    problem: HardMarginProblem, dual: Float[Tensor, "B m"]
) -> tuple[Float[Tensor, "B d1 d2"], Float[Tensor, "B m"]]:
    """The Euclidean answer with the support of a candidate, as exact as W and lambda can be in float64.

        W = A_S^+ r_S,   lambda_S = (A_S^+)' W,   S = {j: lambda_j > 1e-9 max lambda}, A_S its expanded rows

    Rows at an angle theta from opposite have a W of length 1 / theta and weights of size 1 / theta^2. A Gram matrix
    squares the condition number, and even <A_j, W> loses all digits to rounding once 1 / theta nears 1e8. Here the
    pseudoinverse comes from singular values, and W <- W + A_S^+ (r_S - A_S W) from residuals without rounding:
    each step takes away all but 1e-16 / theta of the error.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        dual: candidates; what counts is where they are not 0.

    Returns:
        W (B, d1, d2), dual (B, m): candidates for `certify`.

    Source: Higham, "Accuracy and stability of numerical algorithms" (2002), chapter 12.
    """
    answers = [_polished_one(problem[k], dual[k]) for k in range(len(dual))]
    W, weights = (torch.stack(parts) for parts in zip(*answers, strict=True))
    return W, weights


def _polished_one(problem: HardMarginProblem, dual: Tensor) -> tuple[Tensor, Tensor]:
    support = (dual.abs() > 1e-9 * dual.abs().amax()) | problem.is_equality
    rows = torch.nonzero(support & ~(problem.a == 0).all(-1))[:, 0]
    part = HardMarginProblem(problem.a[rows], problem.b[rows], problem.r[rows])
    W, weights = part.adjoint(torch.zeros_like(part.r)), torch.zeros_like(dual)
    if not 0 < len(rows) * W.numel() <= LARGEST:
        return W, weights
    back = torch.linalg.pinv((part.a[:, :, None] * part.b[:, None, :]).flatten(1), rtol=1e-15)
    for _ in range(REFINEMENTS):
        W = W + (back @ rational.missing(part, W)).reshape(W.shape)
    return W, weights.index_copy(0, rows, back.mT @ W.flatten())


def certified_exactly(
    problem: HardMarginProblem, W: Float[Tensor, "B d1 d2"], dual: Float[Tensor, "B m"], norm: Norm
) -> tuple[Float[Tensor, "B m"], Float[Tensor, " B"]]:
    """What `certify` says of the candidates, with W as it is and without rounding errors in any sum.

    Errors of the weights themselves hardly matter, for sum_j lambda_j r_j / N*(sum_j lambda_j A_j) is at its
    highest; those of the sum do, once its terms are much longer than it is.

    Returns:
        dual (B, m), scaled to N*(sum_j lambda_j A_j) = 1, and gap (B,), inf where a margin has the wrong sign.
    """
    sizes = rank_one_size(problem, dual_norm(norm))
    duals, gaps = [], []
    for k in range(len(dual)):
        one, equality = problem[k], problem.is_equality[k]
        if one.a.numel() * W.shape[-1] > LARGEST:
            duals.append(dual[k])
            gaps.append(dual.new_tensor(torch.inf))
            continue
        weights = torch.where(equality, dual[k], dual[k].clamp_min(0))
        size, upper = (
            matrix_norm(M, n) for M, n in ((rational.adjoint(one, weights), dual_norm(norm)), (W[k], norm))
        )
        duals.append(weights / size if size > 0 else weights)
        missed = rational.missing(one, W[k])
        wrong = ((one.r > 0) & (one.r <= missed)).any()
        missed = torch.where(equality, missed.abs(), missed.clamp_min(0))
        violation = torch.where(missed > 0, missed / (sizes[k] * upper), 0.0).amax()
        gap = (upper - (duals[-1] * one.r).sum()).abs() / upper + violation
        gaps.append(torch.where(wrong | ~gap.isfinite(), torch.inf, gap))
    return torch.stack(duals), torch.stack(gaps)
