"""Answers to lesson 00's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np


def margins_in_a_loop(X, y, w):
    answer = []
    for x, label in zip(X, y, strict=True):
        answer.append(label * sum(a * b for a, b in zip(x, w, strict=True)))
    return answer


def slope_in_torch(w, A, b):
    import torch

    w = torch.tensor(w, requires_grad=True)
    residual = torch.tensor(A) @ w - torch.tensor(b)
    (gradient,) = torch.autograd.grad((residual**2).sum() / 2, w)
    return gradient


def downhill(A, b, start, eta, steps, slope=lambda w, A, b: A.T @ (A @ w - b)):
    path = np.empty((steps + 1, len(start)))
    path[0] = start
    for k in range(steps):
        path[k + 1] = path[k] - eta * slope(path[k], A, b)
    return path


def overwriting(A, b, start, eta, steps):
    """Right numbers, and the start is gone."""
    path = downhill(A, b, start, eta, steps)
    start[:] = path[-1]
    return path


def stopping_early(A, b, start, eta, steps):
    """Stands still where the slope is small."""

    def slope(w, A, b):
        g = A.T @ (A @ w - b)
        return g if np.linalg.norm(g) > 1e-3 else 0 * g

    return downhill(A, b, start, eta, steps, slope)


def powers(steps, from_ones):
    """Power iteration from one start: it may be slow, or start where nothing grows."""

    def answer(A):
        v = np.ones(A.shape[1]) if from_ones else np.eye(A.shape[1])[0]
        for _ in range(steps):
            v = A.T @ (A @ v)
            v /= np.linalg.norm(v)
        return np.linalg.norm(A @ v)

    return answer


ANSWERS = {
    "00.1": {
        "also_right": lambda x, w: (
            sum(a * b for a, b in zip(x, w, strict=True)) / sum(b * b for b in w) ** 0.5
        ),
        "wrong": [
            lambda x, w: np.linalg.norm(x @ w / (w @ w) * w),
            lambda x, w: x @ w * np.linalg.norm(w),
            lambda x, w: -(x @ w) / np.linalg.norm(w),
            lambda x, w: x @ w / abs(w).sum(),
            lambda x, w: x @ w / abs(w).max(),
            lambda x, w: x @ w / len(w),
            lambda x, w: x @ w / max(np.linalg.norm(w), 1.0),
            lambda x, w: x @ w / min(np.linalg.norm(w), 1.0),
            lambda x, w: x @ w / (np.linalg.norm(w) + 1e-6),
            lambda x, w: x @ w / np.linalg.norm(w) if len(x) > 1 else np.nan,
            lambda x, w: np.linalg.norm(x),
            lambda x, w: np.linalg.norm(x - x @ w / (w @ w) * w),
            lambda x, w: max(0.0, x @ w / np.linalg.norm(w)),
            lambda x, w: x * w / np.linalg.norm(w),
        ],
    },
    "00.2": {
        "also_right": margins_in_a_loop,
        "wrong": [
            lambda X, y, w: -y * (X @ w),
            lambda X, y, w: y * (X @ w) / np.linalg.norm(w),
            lambda X, y, w: np.abs(X @ w),
            lambda X, y, w: (y * (X @ w)).min(),
            lambda X, y, w: (y * (X @ w))[:, None],
            lambda X, y, w: (y[:, None] * X) @ (w / np.abs(w).sum()),
            lambda X, y, w: y + X @ w,
            lambda X, y, w: y * X.sum(axis=1),
            lambda X, y, w: (y * (X @ w))[::-1],
            lambda X, y, w: y * (X @ w) > 0,
        ],
    },
    "00.3": {
        "also_right": slope_in_torch,
        "wrong": [
            lambda w, A, b: A.T @ A @ w + A.T @ b,
            lambda w, A, b: A.T @ (A @ w) - b[: len(w)].sum(),
            lambda w, A, b: (A @ w - b) @ A * w,
            lambda w, A, b: (A.T @ (A @ w - b)).sum(),
            lambda w, A, b: np.abs(A.T @ (A @ w - b)),
            lambda w, A, b: A.T @ (A @ w - b) / np.linalg.norm(A @ w - b),
            lambda w, A, b: A.T @ (A @ w - b) / np.linalg.norm(A.T @ (A @ w - b)),
            lambda w, A, b: w - A.T @ (A @ w - b),
            lambda w, A, b: (A.T @ (A @ w - b))[:, None],
            lambda w, A, b: np.diag(A.T @ A) * w - A.T @ b,
        ],
    },
    "00.4": {
        "also_right": lambda A: np.sqrt(np.linalg.eigvalsh(A.T @ A).max()),
        "wrong": [
            lambda A: np.abs(A).sum(axis=1).max(),
            lambda A: np.abs(A).sum(axis=0).max(),
            lambda A: np.linalg.norm(A, axis=1).max(),
            lambda A: np.linalg.svd(A, compute_uv=False),
            lambda A: np.abs(A).sum(),
            lambda A: np.trace(A) if A.shape[0] == A.shape[1] else np.linalg.norm(A, 2),
            lambda A: np.linalg.norm(A @ np.ones(A.shape[1]) / np.sqrt(A.shape[1])),
            lambda A: np.linalg.eigvalsh(A @ A.T).max(),
            lambda A: np.linalg.cond(A) if min(A.shape) > 2 else np.linalg.norm(A, 2) * 2,
            lambda A: -np.linalg.norm(A, 2),
            *(powers(steps, from_ones) for steps in (10, 100, 1000) for from_ones in (True, False)),
        ],
    },
    "00.5": {
        "also_right": downhill,
        "wrong": [
            overwriting,
            lambda A, b, start, eta, steps: downhill(A, b, start, eta, steps).T,
            lambda A, b, start, eta, steps: downhill(A, b, start, eta, steps + 1),
            lambda A, b, start, eta, steps: downhill(A, b, start, eta, steps)[::-1],
            lambda A, b, start, eta, steps: downhill(A, b, np.zeros_like(start), eta, steps),
            lambda A, b, start, eta, steps: downhill(
                A, b, start, eta, steps, lambda w, A, b: A.T @ A @ w - b.sum()
            ),
            lambda A, b, start, eta, steps: downhill(A, b, start, eta / steps, steps),
            lambda A, b, start, eta, steps: downhill(
                A, b, start, eta, steps, lambda w, A, b: A.T @ (A @ w - b) / np.linalg.norm(A.T @ (A @ w - b))
            ),
            lambda A, b, start, eta, steps: downhill(
                A, b, start, eta, steps, lambda w, A, b: np.sign(A.T @ (A @ w - b))
            ),
            stopping_early,
            lambda A, b, start, eta, steps: (
                downhill(A, b, start, eta, steps) if steps else np.zeros((0, len(start)))
            ),
            lambda A, b, start, eta, steps: np.cumsum(downhill(A, b, start, eta, steps), axis=0),
        ],
    },
}
