"""Lesson 04: tables of answers solved for the largest margin."""

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
