"""Lesson 01: a second right answer for each exercise, and more wrong ones.

Where `mini_attn` can answer, it does: what learners write from scratch equals the library.
"""

import math

import numpy as np
import torch
from scipy import integrate, optimize

from mini_attn import containers, losses, models


def model_and_loss(w, X, y):
    model = models.LinearClassifier(d=len(w), init=torch.tensor(w))
    points = containers.PointData(torch.tensor(X), torch.tensor(y))
    losses.logistic(points.y * model(points)).mean().backward()
    return model


def gradient_by_the_library(w, X, y):
    return model_and_loss(w, X, y).w.grad


def gradient_of_the_sum_over_d(w, X, y):
    u = y * (X @ w)
    return -(X.T @ (y / (1 + np.exp(u)))) / len(w)


def gradient_per_point(w, X, y):
    u = y * (X @ w)
    return -(y / (1 + np.exp(u)))[:, None] * X / len(y)


def gradient_clipped(limit):
    """Clips u, as one does against overflow."""
    return lambda w, X, y: -(X.T @ (y / (1 + np.exp(np.clip(y * (X @ w), -limit, limit))))) / len(y)


def gradient_by_the_exponential_beyond(far):
    def wrong(w, X, y):
        u = y * (X @ w)
        with np.errstate(over="ignore"):
            weights = np.where(u > far, np.exp(-u), 1 / (1 + np.exp(u)))
        return -(X.T @ (y * weights)) / len(y)

    return wrong


def gradient_cut(limit):
    """Weights of 0 beyond a limit."""

    def wrong(w, X, y):
        u = y * (X @ w)
        with np.errstate(over="ignore"):
            return -(X.T @ (y * np.where(u > limit, 0, 1 / (1 + np.exp(u))))) / len(y)

    return wrong


def limit_by_pairs(A):
    """The angle of the largest margin: each point alone and each pair of points may hold the strip."""
    best = -np.inf, None
    for i in range(len(A)):
        for k in range(i + 1):
            w = A[i] if i == k else np.array([A[i, 1] - A[k, 1], A[k, 0] - A[i, 0]])
            w = w * np.sign(w @ A[i])
            best = max(best, ((A @ w).min() / math.hypot(*w), math.atan2(w[1], w[0])))
    return best[1]


def turns_by_pairs(X, y, limit=limit_by_pairs, shorter=True):
    A, found = y[:, None] * X, []
    whole = limit(A)
    for i in range(len(A)):
        turn = abs(limit(np.delete(A, i, axis=0)) - whole)
        found.append(math.degrees(min(turn, 2 * math.pi - turn) if shorter else turn))
    return found


def turns_with(limit):
    return lambda X, y: turns_by_pairs(X, y, limit)


def limit_after(steps):
    """Normalised steps, but few."""

    def limit(A):
        w = np.zeros(2)
        for _ in range(steps):
            g = np.exp(-np.logaddexp(0, A @ w)) @ A
            w = w + g / np.linalg.norm(g)
        return math.atan2(w[1], w[0])

    return limit


def limit_of_the_nearest(A):
    nearest = A[np.linalg.norm(A, axis=1).argmin()]
    return math.atan2(nearest[1], nearest[0])


def turns_by_flipping(X, y):
    """Turns the label of point i round, and finds the best of the margins below zero."""
    return [
        abs(limit_by_pairs(np.where(np.arange(len(y))[:, None] == i, -1, 1) * y[:, None] * X))
        for i in range(len(y))
    ]


def creep_in_the_plane(rows, lam, copies):
    """Two equations less one another: the part across times the difference of the rows' parts across."""
    if len(rows) == 2:
        logs = np.log(lam) - np.log(copies)
        return abs(logs[0] - logs[1]) / np.linalg.norm(rows[0] - rows[1])
    w_hat = lam @ rows  # least squares on all differences: the shortest solution lies across w_hat
    i, k = np.triu_indices(len(rows), 1)
    logs = np.log(copies / lam)
    across = rows - np.outer(rows @ w_hat, w_hat) / (w_hat @ w_hat)
    return np.linalg.norm(np.linalg.lstsq(across[i] - across[k], logs[i] - logs[k], rcond=None)[0])


def bound_by_halving(t, loss, n, eta, mu):
    """Solves 1/L - 1/loss = k t for L by bisection."""
    k, low, high = eta * (mu - mu * n * loss / 2) ** 2, 0.0, loss
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 / middle - 1 / loss > k * t else (low, middle)
    return high


def bound_with(rate):
    return lambda t, loss, n, eta, mu: 1 / (1 / loss + rate(n * loss, eta * mu**2) * t)


def bound_with_falling_loss(t, loss, n, eta, mu):
    """Valid, and lower than what is asked: n L falls in the correction as well."""

    def time_left(z):
        pace = integrate.quad(
            lambda log_z: np.exp(log_z) / (1 - n / 2 / np.exp(log_z)) ** 2, *np.log([1 / loss, z])
        )
        return pace[0] / (eta * mu**2) - t

    return 1 / optimize.brentq(time_left, 1 / loss, 1 / loss + eta * mu**2 * t, xtol=1e-12, rtol=1e-12)


def joins_by_halving(w, X, y, eta):
    """Along the line on which w moves, until 99 percent; the time is that of e^u."""
    A = y[:, None] * X
    heavy = min(range(len(y)), key=lambda i: A[i] @ w)
    u, square = A[heavy] @ w, A[heavy] @ A[heavy]

    def share(rise):
        after = A @ (w + rise / square * A[heavy])
        return 1 / np.exp(after[heavy] - after).sum()

    low, high = 0.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) > 0.99 else (low, middle)
    return math.log10(len(y) / eta / square) + (u + high) / math.log(10)


def joins_with(change):
    """A change of the inputs."""
    return lambda w, X, y, eta: joins_by_halving(*change(w, X, y, eta))


def gradient_by_sigmoid(w, X, y):
    return -(X.T @ (y * (1 - 1 / (1 + np.exp(-y * (X @ w)))))) / len(y)


ANSWERS = {
    "01.1": {
        "also_right": gradient_by_the_library,
        "wrong": [
            gradient_of_the_sum_over_d,
            gradient_per_point,
            gradient_by_sigmoid,
            lambda w, X, y: 0 * w,
            gradient_clipped(500),
            gradient_clipped(30),
            gradient_clipped(620),
            gradient_cut(650),
            gradient_by_the_exponential_beyond(10),
            lambda w, X, y: -(X.T @ (y * np.exp(np.minimum(-y * (X @ w), 700)))) / len(y),
        ],
    },
    "01.2": {
        "also_right": turns_by_pairs,
        "wrong": [
            turns_with(limit_after(20)),
            turns_with(limit_of_the_nearest),
            turns_with(lambda A: math.atan2(*A[np.linalg.norm(A, axis=1).argmin()])),
            turns_with(lambda A: math.atan2(*np.median(A, axis=0)[::-1])),
            turns_with(lambda A: math.atan2(*np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0][::-1])),
            turns_by_flipping,
            lambda X, y: max(turns_by_pairs(X, y)),
            lambda X, y: np.array(turns_by_pairs(X, y)) / 2,
            lambda X, y: 180 - np.array(turns_by_pairs(X, y)),
            lambda X, y: np.cumsum(turns_by_pairs(X, y)),
            lambda X, y: np.cos(np.radians(turns_by_pairs(X, y))),
            lambda X, y: np.array(turns_by_pairs(X, y)) > 1,
        ],
    },
    "01.3": {
        "also_right": bound_by_halving,
        "wrong": [
            bound_with(lambda x, k: k * (1 - x / 4) ** 2),
            bound_with(lambda x, k: k * (1 - x**2 / 2) ** 2),
            bound_with(lambda x, k: k * (1 + x / 2) ** 2),
            bound_with(lambda x, k: k / (1 - x / 2) ** 2),
            bound_with(lambda x, k: 2 * k * (1 - x / 2) ** 2),
            bound_with(lambda x, k: k * np.exp(-x)),
            bound_with_falling_loss,
            bound_with(lambda x, k: k * ((1 - np.exp(-x)) / x) ** 2),  # valid, and lower than what is asked
            lambda t, loss, n, eta, mu: loss,
            lambda t, loss, n, eta, mu: loss - eta * (mu * loss * (1 - n * loss / 2)) ** 2 * t,
            lambda t, loss, n, eta, mu: (bound_by_halving(t, loss, n, eta, mu), 1 / mu),
            lambda t, loss, n, eta, mu: bound_by_halving(t, loss, n, eta, mu) ** 0.5,
        ],
    },
    "01.4": {
        "also_right": creep_in_the_plane,
        "wrong": [
            lambda rows, lam, copies: creep_in_the_plane(rows, lam, 1 / copies),
            lambda rows, lam, copies: creep_in_the_plane(rows, copies, lam) / np.linalg.norm(lam @ rows),
            lambda rows, lam, copies: abs(np.diff(np.log(copies / lam))).max(),
            lambda rows, lam, copies: np.linalg.norm(np.log(copies / lam)),
            lambda rows, lam, copies: np.log(copies / lam) @ np.log(copies / lam),
            lambda rows, lam, copies: creep_in_the_plane(rows, lam, copies) ** 2,
            lambda rows, lam, copies: creep_in_the_plane(rows, lam, np.sqrt(copies)),
            lambda rows, lam, copies: abs(np.log(copies[0] / lam[0]) - np.log(copies[-1] / lam[-1])),
            lambda rows, lam, copies: 0.0,
            lambda rows, lam, copies: (
                creep_in_the_plane(rows[:2], lam[:2], copies[:2]) if len(rows) > 2 else 1.0
            ),
        ],
    },
    "01.5": {
        "also_right": joins_by_halving,
        "wrong": [
            joins_with(lambda w, X, y, eta: (w, X, y, eta**2)),
            joins_with(lambda w, X, y, eta: (w, X, y, eta / len(y) ** 2)),
            joins_with(lambda w, X, y, eta: (w / 2, X, y, eta)),
            joins_with(lambda w, X, y, eta: (w, X / np.linalg.norm(X, axis=1)[:, None], y, eta)),
            lambda *args: joins_by_halving(*args) / 2,
            lambda *args: -joins_by_halving(*args),
            lambda *args: joins_by_halving(*args) + 0.05,
            lambda *args: joins_by_halving(*args) - 0.05,
            lambda *args: joins_by_halving(*args) / math.log(10),
            lambda w, X, y, eta: (y * (X @ w)).min() / math.log(10),
            lambda w, X, y, eta: np.sort(y * (X @ w))[1] / math.log(10),
            lambda w, X, y, eta: 0.0,
            lambda *args: (joins_by_halving(*args), 1.0),
        ],
    },
}
