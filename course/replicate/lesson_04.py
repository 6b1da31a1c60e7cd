"""Lesson 04: descent on factors of tables of answers, followed far beyond what plain steps reach."""

import numpy as np
import torch

from mini_attn import svm

MEASURED = []  # plain functions: no sweep is stored


def solve(Y, norm="nuc"):
    """Of tables Y (..., d, d): the solution in a norm, largest margin, lam, its problem and solution."""
    size = Y.shape[-1]
    a = (Y[..., None] * np.eye(size)[:, None, :]).reshape(*Y.shape[:-2], size**2, size)
    b = np.broadcast_to(np.tile(np.eye(size), (size, 1)), a.shape).copy()
    least = np.abs(Y).reshape(a.shape[:-1])
    problem = svm.HardMarginProblem(*map(torch.tensor, (a, b, least)))
    solution = svm.solve(problem, norm=norm)
    lam = solution.dual.numpy().reshape(Y.shape)
    return solution.value.numpy(), solution.margin.numpy(), lam, (problem, solution)


def begin(starts, Y):
    """U = start I and V = 0, for each start and each table of Y (..., d, d): (starts, ..., d, d) each."""
    U = np.multiply.outer(starts, np.broadcast_to(np.eye(Y.shape[-1]), Y.shape))
    return U, np.zeros_like(U)


def far(W, Y):
    """The pull on tables Y, divided by its largest slope so that it never underflows; the least u."""
    u = np.where(Y == 0, np.inf, Y * W)
    log_slopes = -np.logaddexp(0, u)
    return Y * np.exp(log_slopes - log_slopes.max((-2, -1), keepdims=True)), u.min((-2, -1))


def follow(U, V, Y, digits):
    """W when the loss is first below 10^-k, for each k of digits: (digits, ..., d, d)."""
    kept = np.full((len(digits), *U.shape), np.nan)
    levels = np.log(10) * np.reshape(digits, (-1, *[1] * (U.ndim - 2)))
    while (missing := np.isnan(kept[..., 0, 0])).any():
        W = U @ V.mT
        M, least = far(W, Y)
        new = missing & (least >= levels)
        kept[new] = np.broadcast_to(W, kept.shape)[new]
        gU, gV = M @ V, M.mT @ U  # as in `descend`, for all runs at once
        pace = np.abs(Y * (gU @ V.mT + U @ gV.mT)).max((-2, -1))
        size, length = (np.sqrt((a**2 + b**2).sum((-2, -1))) for a, b in ((U, V), (gU, gV)))
        step = np.minimum(0.02 * size / length, 0.4 / pace)[..., None, None]
        U, V = U + step * gU, V + step * gV
    return kept


def side_by_side(U, V, Y, etas, times, decay=0.0):
    """W after the given numbers of steps of plain descent, of sizes etas, from U, V (..., d, d) on tables Y.

    Args:
        decay: weight decay on both factors.
    """
    kept, counts = [], (Y != 0).sum((-2, -1), keepdims=True)
    for t, eta in enumerate(etas, 1):
        M = Y / (1 + np.exp(Y * (U @ V.mT))) / counts
        U, V = U + eta * (M @ V - decay * U), V + eta * (M.mT @ U - decay * V)
        if t in times:
            kept.append(U @ V.mT)
    return np.array(kept)


def truncated(Y, rank):
    """The tables of that rank nearest to Y (..., d, d), with its largest singular values and no others."""
    left, sizes, right = np.linalg.svd(Y)
    return (left[..., :rank] * sizes[..., None, :rank]) @ right[..., :rank, :]


def c_of(W, Y):
    """c, the largest singular value of S: the pull, scaled so that <S, W> = ||W||_*."""
    M, _ = far(W, Y)
    largest = np.linalg.norm(M, 2, axis=(-2, -1))
    return largest * np.linalg.norm(W, "nuc", axis=(-2, -1)) / (M * W).sum((-2, -1))


def newcomer(W, Y):
    """Of the direction of W (d, d) nearest to the leading one of S: its index and the overlap."""
    (xi, _, zeta), (left, _, right) = np.linalg.svd(far(W, Y)[0]), np.linalg.svd(W)
    overlaps = np.abs(left.T @ xi[:, 0]) * np.abs(right @ zeta[0])
    return overlaps.argmax(), overlaps.max()


def powers(early, late, Ys):
    """Between two tables of each survey: overlap (early), gain and c (means of both), power of sigma_1.

    Each is an array (surveys,), for the direction that `newcomer` finds in the early table.
    """
    rows = []
    for *ends, Y in zip(early, late, Ys, strict=True):
        k, overlap = newcomer(ends[0], Y)
        gains, logs = [], []
        for W in ends:
            left, sizes, right = np.linalg.svd(W)
            held = np.einsum("ak,ab,kb->k", left, far(W, Y)[0], right)
            gains.append(held[k] / held[0])
            logs.append(np.log(sizes[[k, 0]]))
        new, first = logs[1] - logs[0]
        rows.append((overlap, np.mean(gains), np.mean([c_of(W, Y) for W in ends]), new / first))
    return np.transpose(rows)
