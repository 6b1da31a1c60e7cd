"""Lesson 04: tables of answers solved for the largest margin, and the gradient flow on their factors."""

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


def far(W, Y):
    """The pull at the tables W, divided by its largest slope, so that it never underflows; the least u."""
    u = np.where(Y == 0, np.inf, Y * W)
    log_slopes = -np.logaddexp(0, u)
    return Y * np.exp(log_slopes - log_slopes.max((-2, -1), keepdims=True)), u.min((-2, -1))


def follow(U, V, Y, digits, most=0.02):
    """U and V (..., d, d) when all u_i first reach k log 10, for each k of digits: (digits, ..., d, d)."""
    kept = []
    for level in np.log(10) * np.array(digits):
        M, least = far(U @ V.mT, Y)
        while (behind := least < level).any():  # runs that have arrived wait
            gU, gV = M @ V, M.mT @ U
            size, length = (np.sqrt((a**2 + b**2).sum((-2, -1))) for a, b in ((U, V), (gU, gV)))
            change = np.abs(Y * (gU @ V.mT + U @ gV.mT)).max((-2, -1))  # of the fastest u_i
            # (U, V) moves by at most the share `most` of its length, and to first order no u_i by more than
            # 20 `most`
            step = (most * behind * np.minimum(size / length, 20 / change))[..., None, None]
            U, V = U + step * gU, V + step * gV
            M, least = far(U @ V.mT, Y)
        kept.append((U, V))
    return [np.array(factor) for factor in zip(*kept, strict=True)]
