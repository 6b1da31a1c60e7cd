"""Answers to lesson 02's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math

import cvxpy as cp
import numpy as np
import torch
from scipy.optimize import minimize, nnls


def primal_by_slsqp(X, y):
    """The same problem for a general-purpose solver."""
    A = y[:, None] * X
    start = np.linalg.lstsq(A, 2 * np.ones(len(A)), rcond=None)[0]
    constraint = {"type": "ineq", "fun": lambda w: A @ w - 1, "jac": lambda w: A}
    found = minimize(lambda w: w @ w, start, jac=lambda w: 2 * w, constraints=[constraint], tol=1e-12)
    return found.x.tolist()


def primal_least_squares(X, y):
    return np.linalg.lstsq(X, y, rcond=None)[0]


def primal_soft(X, y):
    w = cp.Variable(X.shape[1])
    cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / 10)).solve()
    return w.value


def bound_by_loop(lam, X, y):
    total = sum(l * label * x for l, label, x in zip(lam, y, X, strict=True))  # noqa: E741
    return torch.linalg.vector_norm(torch.as_tensor(total)) / lam.sum()


def bound_with_largest_weight(lam, X, y):
    return np.linalg.norm((lam * y) @ X) / lam.max()


def bound_in_l1(lam, X, y):
    return np.abs((lam * y) @ X).sum() / lam.sum()


def kkt_by_loop(w, lam, X, y):
    points = list(zip(lam, X, y, strict=True))
    combined = sum(l * label * x for l, x, label in points)  # noqa: E741
    scores = [label * float(x @ w) for _, x, label in points]
    return [
        max(abs(a - b) for a, b in zip(w, combined, strict=True)),
        max([0, *(1 - u for u in scores)]),
        max([0, *(-l for l in lam)]),  # noqa: E741
        max(abs(l * (u - 1)) for l, u in zip(lam, scores, strict=True)),  # noqa: E741
    ]


def kkt_against_zero(w, lam, X, y):
    slack = y * (X @ w)
    return [
        np.abs(w - (lam * y) @ X).max(),
        max(0, (-slack).max()),
        max(0, (-lam).max()),
        np.abs(lam * slack).max(),
    ]


def kkt_swapped(w, lam, X, y):
    slack = y * (X @ w) - 1
    stationarity, complementarity = np.abs(w - (lam * y) @ X).max(), np.abs(lam * slack).max()
    return [stationarity, max(0, (-lam).max()), max(0, (-slack).max()), complementarity]


def ascent_on_the_gram_matrix(X, y, sweeps):
    """Without w: the slope from the matrix of inner products, in torch."""
    A = torch.as_tensor(y[:, None] * X)
    G = A @ A.T
    lam = torch.zeros(len(A), dtype=torch.float64)
    for step in range(sweeps * len(A)):
        i = step % len(A)
        lam[i] = torch.clamp(lam[i] + (1 - G[i] @ lam) / G[i, i], min=0)
    return lam


def ascent_perceptron(X, y, sweeps):
    A = y[:, None] * X
    lam = np.zeros(len(A))
    for _ in range(sweeps):
        for i, a in enumerate(A):
            lam[i] += a @ (lam @ A) < 1
    return lam


def ascent_backwards(X, y, sweeps):
    return ascent_on_the_gram_matrix(X[::-1].copy(), y[::-1].copy(), sweeps).flip(0)


def ascent_one_sweep_too_many(X, y, sweeps):
    return ascent_on_the_gram_matrix(X, y, sweeps + 1)


def margin_from_the_weights(X, y):
    """The length of the nearest point instead of the residual."""
    A = y[:, None] * X
    lam, _ = nnls(np.concatenate([A.T, np.ones((1, len(A)))]), [*np.zeros(X.shape[1]), 1])
    return np.linalg.norm(A.T @ lam / lam.sum())


def margin_unscaled(X, y):
    A = y[:, None] * X
    lam, _ = nnls(np.concatenate([A.T, np.ones((1, len(A)))]), [*np.zeros(X.shape[1]), 1])
    return np.linalg.norm(A.T @ lam)


def margin_of_least_squares(X, y):
    w = np.linalg.lstsq(X, y, rcond=None)[0]
    return max(0, (y * (X @ w)).min() / np.linalg.norm(w))


def certify_in_torch(w, X, y):
    w, A = torch.as_tensor(w), torch.as_tensor(y[:, None] * X)
    u = A @ w
    q = torch.softmax(torch.nn.functional.logsigmoid(-u), dim=0)
    return torch.stack([u.min() / w.norm(), (q @ A).norm()])


def certify_uniform(w, X, y):
    A = y[:, None] * X
    return (A @ w).min() / np.linalg.norm(w), np.linalg.norm(A.mean(axis=0))


def certify_points_not_signed(w, X, y):
    u = y * (X @ w)
    q = np.exp(-(u - u.min()))
    return u.min() / math.sqrt(w @ w), np.linalg.norm(q @ X) / q.sum()


def certify_nearest_only(w, X, y):
    u = y * (X @ w)
    return u.min() / np.linalg.norm(w), np.linalg.norm(X[u.argmin()])


def certify_with_a_fallback(w, X, y):
    A = y[:, None] * X
    u = A @ w
    weights = 1 / (1 + np.exp(np.minimum(u, 700)))
    if u.min() > 700:
        weights = 1.0 * (u == u.min())
    return u.min() / np.linalg.norm(w), np.linalg.norm(weights @ A) / weights.sum()


ANSWERS = {
    "02.1": {"also_right": primal_by_slsqp, "wrong": [primal_least_squares, primal_soft]},
    "02.2": {"also_right": bound_by_loop, "wrong": [bound_with_largest_weight, bound_in_l1]},
    "02.3": {"also_right": kkt_by_loop, "wrong": [kkt_against_zero, kkt_swapped]},
    "02.4": {
        "also_right": ascent_on_the_gram_matrix,
        "wrong": [ascent_perceptron, ascent_backwards, ascent_one_sweep_too_many],
    },
    "02.5": {"also_right": margin_from_the_weights, "wrong": [margin_unscaled, margin_of_least_squares]},
    "02.6": {
        "also_right": certify_in_torch,
        "wrong": [certify_uniform, certify_points_not_signed, certify_nearest_only, certify_with_a_fallback],
    },
}
