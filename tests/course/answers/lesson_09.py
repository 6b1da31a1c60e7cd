"""Answers to lesson 09's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
import torch


def gradient_by_autograd(v, p, X, y):
    v, p, X, y = (torch.tensor(a, dtype=torch.float64) for a in (v, p, X, y))
    v.requires_grad_()
    seen = (torch.softmax(X @ p, dim=1)[..., None] * X).sum(dim=1)
    torch.nn.functional.softplus(-y * (seen @ v)).mean().backward()
    return v.grad


def support_in_a_loop(x, y, v_mm):
    return [bool(label * (point @ v_mm) < 1 + 1e-4) for point, label in zip(x, y, strict=True)]


def relaxed_in_a_loop(support, T):
    return [1.0 if flag else 0.0 for flag in support for _ in range(T - 1)]


def sides_by_where(u, kappa):
    side = 1 + kappa - kappa * u
    return torch.tensor(np.where(side > 0, side, 0.0))


ANSWERS = {
    "09.1": {
        "also_right": gradient_by_autograd,
        "wrong": [
            lambda v, p, X, y: gradient_by_autograd(v, 0 * p, X, y),
            lambda v, p, X, y: gradient_by_autograd(0 * v, p, X, y),
            lambda v, p, X, y: gradient_by_autograd(v, v, X, y),
        ],
    },
    "09.2": {
        "also_right": support_in_a_loop,
        "wrong": [
            lambda x, y, v_mm: np.ones(len(y), dtype=bool),
            lambda x, y, v_mm: sum(support_in_a_loop(x, y, v_mm)),
            lambda x, y, v_mm: support_in_a_loop(x, y, v_mm)[::-1],
        ],
    },
    "09.3": {
        "also_right": relaxed_in_a_loop,
        "wrong": [
            lambda support, T: np.zeros(len(support) * (T - 1)),
            lambda support, T: relaxed_in_a_loop(support, T)[::-1],
            lambda support, T: np.outer(support, np.ones(T - 1)),
        ],
    },
    "09.4": {
        "also_right": sides_by_where,
        "wrong": [
            lambda u, kappa: np.ones_like(u),
            lambda u, kappa: np.clip(1 - kappa * (u - 1), 0.5, 1),
            lambda u, kappa: np.maximum(0, 1 - kappa * (u - 1)).sum(),
        ],
    },
    "09.5": {
        "also_right": lambda j, j0, m0: m0 + 2 * np.log(np.log(j)) - 2 * np.log(np.log(j0)),
        "wrong": [
            lambda j, j0, m0: m0,
            lambda j, j0, m0: m0 - 2 * np.log(np.log(j) / np.log(j0)),
            lambda j, j0, m0: 2 * np.log(np.log(j) / np.log(j0)),
        ],
    },
}
