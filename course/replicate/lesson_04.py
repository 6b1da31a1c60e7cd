"""Lesson 04: tables of answers solved for the largest margin, plain descent on factors, and its pull."""

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


def rest(U, V, Y, eps, steps=(500, 1000)):
    """W where descent with the penalty eps rests: so many steps of size 4, then of 0.12 / eps, at most 48."""
    etas = np.repeat([4, min(48, 0.12 / eps)], steps)
    return side_by_side(U, V, Y, etas, [len(etas)], eps)[0]


def c_of(W, Y):
    """c = ||S||_op, with S the pull at W, scaled to <S, W> = ||W||_*."""
    M, _ = far(W, Y)
    largest = np.linalg.norm(M, 2, axis=(-2, -1))
    return largest * np.linalg.norm(W, "nuc", axis=(-2, -1)) / (M * W).sum((-2, -1))


def judge(U, V, Y):
    """c, the leading pair of the pull, (..., d) each, and the nuclear margin."""
    W = U @ V.mT
    M, least = far(W, Y)
    left, _, right = np.linalg.svd(M)
    return c_of(W, Y), left[..., 0], right[..., 0, :], least / np.linalg.norm(W, "nuc", axis=(-2, -1))
