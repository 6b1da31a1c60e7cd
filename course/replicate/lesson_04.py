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
