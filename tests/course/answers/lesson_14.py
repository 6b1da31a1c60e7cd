"""Answers to lesson 14's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math

import numpy as np
import torch


def moves_by_trying(sees, same_query=False, same_values=False, seed=0):
    """Change one token after another, and look."""
    rng = np.random.default_rng(seed)
    n, T, _ = sees.shape
    X, W, v = rng.normal(size=(n, T, 9)), rng.normal(size=(9, 9)) / 9, rng.normal(size=9)

    def outputs(keys, queries, values):
        weights = np.exp(np.einsum("itd,de,ike->ikt", keys, W, queries)) * sees
        total = weights.sum(-1)
        return (weights * (values @ v)[:, None]).sum(-1) / np.where(total > 0, total, 1)

    found = np.zeros(sees.shape, dtype=bool)
    for t in range(T):
        new = X.copy()
        new[:, t] = rng.normal(size=(n, 9))
        moved = outputs(new, X if same_query else new, X if same_values else new) - outputs(X, X, X)
        found[:, :, t] = abs(moved) > 1e-9
    return torch.tensor(found)


def price_by_least_squares(sees, scale=1.0, one_too_many=False):
    """All rows tight, by least squares, with the first token that is seen for the choice."""
    total = 0.0
    for row in sees.reshape(-1, sees.shape[-1]):
        seen = np.flatnonzero(row)
        if len(seen) > 1 - one_too_many:
            tokens = np.eye(len(seen) + one_too_many)
            rows = tokens[0] - tokens[1:]
            a = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
            total += scale * a @ a
    return total


def level_by_bisection(m, others=-1, by=lambda x, a: x - a, climbed=lambda a: a, count=None):
    """Sums over a fine grid in place of the normal integrals, and halving."""
    x = np.linspace(0, 12, 12_001)
    density = np.exp(-x * x / 2) / (2 * np.pi) ** 0.5 * (x[1] - x[0])

    def mean(values, a):  # over those above a; the cell that holds a counts in part
        inside = np.clip((x - a) / (x[1] - x[0]) + 0.5, 0, 1)
        return float((values * inside * density).sum())

    low, high = 0.0, 10.0
    for _ in range(50):
        a = (low + high) / 2
        low, high = (a, high) if (m + others) * mean(by(x, a), a) > climbed(a) else (low, a)
    return low, (count or (lambda m, a, Q: (m - 1) * Q))(m, low, mean(np.ones_like(x), low))


def level_by_newton(m):
    """The same balance, (m - 1) phi = theta (1 + (m - 1) Q), by Newton's method from 0.5."""
    a = 0.5
    for _ in range(60):
        phi, Q = np.exp(-a * a / 2) / (2 * np.pi) ** 0.5, float(torch.special.ndtr(torch.tensor(-a).double()))
        a = a + ((m - 1) * (phi - a * Q) - a) / ((m - 1) * Q + 1)
    return np.array([a, (m - 1) * Q])


def wrong_way_by_erfc(T, d, term=lambda d: 1 / d, others=lambda T: T - 1, own=1.0):
    """The sum's variance term by term, and the tail by the error function."""
    variance = sum(term(d) for _ in range(others(T)))
    return math.erfc(own / math.sqrt(2 * variance)) / 2


ANSWERS = {
    "14.1": {
        "also_right": moves_by_trying,
        "wrong": [
            lambda sees: moves_by_trying(sees, same_query=True),
            lambda sees: moves_by_trying(sees, same_values=True),
            lambda sees: moves_by_trying(sees).numpy().swapaxes(1, 2),
            lambda sees: np.ones_like(sees),
            lambda sees: moves_by_trying(sees)[:1],
            lambda sees: moves_by_trying(sees & np.tri(sees.shape[-1], dtype=bool)),
            lambda sees: moves_by_trying(sees & ~np.eye(sees.shape[-1], dtype=bool)),
            lambda sees: moves_by_trying(sees).any(axis=1),
            lambda sees: moves_by_trying(sees) & ~np.eye(sees.shape[-1], dtype=bool),
            lambda sees: sees.astype(float) + np.eye(sees.shape[-1]),
        ],
    },
    "14.2": {
        "also_right": price_by_least_squares,
        "wrong": [
            lambda sees: 0.0,
            lambda sees: float(sees.shape[0] * (sees.shape[1] - 1)),
            lambda sees: price_by_least_squares(sees, one_too_many=True),
            lambda sees: price_by_least_squares(sees, scale=2.0),
            lambda sees: price_by_least_squares(sees.swapaxes(1, 2)),
            lambda sees: price_by_least_squares(sees & np.tri(sees.shape[1], dtype=bool)),
            lambda sees: price_by_least_squares(sees | np.eye(sees.shape[1], dtype=bool)),
            lambda sees: price_by_least_squares(sees & sees.any(axis=1, keepdims=True)[:, :1] & sees[:1]),
            lambda sees: price_by_least_squares(sees[:1]) * len(sees),
            lambda sees: price_by_least_squares(sees) ** 0.5,
            lambda sees: 1 / price_by_least_squares(sees),
            lambda sees: float((sees.sum(-1) > 1).sum()) * (1 - 1 / sees.sum(-1).max()),
            lambda sees: float(np.maximum(sees.sum(-1) - 1, 0).sum()) / sees.shape[-1],
            lambda sees: float(np.log(np.maximum(sees.sum(-1), 1)).sum()),
            lambda sees: round(price_by_least_squares(sees), 1),
        ],
    },
    "14.3": {
        "also_right": level_by_newton,
        "wrong": [
            lambda m: level_by_newton(m - 1),
            lambda m: level_by_newton(m + 1),
            lambda m: level_by_newton(m)[::-1],
            lambda m: level_by_newton(m)[:1],
            lambda m: level_by_newton(m).round(2),
            lambda m: level_by_newton(m) * [1, 2],
            lambda m: level_by_newton(m) ** 2,
            lambda m: level_by_newton(m) + np.array([0, 1]),
            lambda m: (0.0, (m - 1) / 2),
            lambda m: (level_by_newton(m)[0], np.log(m)),
            lambda m: (np.log(m) ** 0.5, np.log(m)),
            lambda m: level_by_bisection(m, others=1),
            lambda m: level_by_bisection(m, by=lambda x, a: x),
            lambda m: level_by_bisection(m, by=lambda x, a: (x - a) ** 2),
            lambda m: level_by_bisection(m, by=lambda x, a: (x - a) / 2),
            lambda m: level_by_bisection(m, climbed=lambda a: a * a),
            lambda m: level_by_bisection(m, climbed=lambda a: 1 + a),
            lambda m: level_by_bisection(m, count=lambda m, a, Q: (m - 1) * 2 * Q),
            lambda m: level_by_bisection(m, count=lambda m, a, Q: (m - 1) * (1 - Q)),
        ],
    },
    "14.4": {
        "also_right": wrong_way_by_erfc,
        "wrong": [
            lambda T, d: 1.0,
            lambda T, d: 1 / T,
            lambda T, d: (T - 1) / d,
            lambda T, d: 1 - wrong_way_by_erfc(T, d),
            lambda T, d: wrong_way_by_erfc(T + 1, d),
            lambda T, d: wrong_way_by_erfc(T, d + 1),
            lambda T, d: wrong_way_by_erfc(T, d - 1),
            lambda T, d: wrong_way_by_erfc(d, T),
            lambda T, d: wrong_way_by_erfc(T, d, own=0.5),
            lambda T, d: wrong_way_by_erfc(T, d, own=1 / T),
            lambda T, d: wrong_way_by_erfc(T, d, own=1 / math.sqrt(2)),
            lambda T, d: wrong_way_by_erfc(T, d, term=lambda d: 1 / d**0.5),
            lambda T, d: wrong_way_by_erfc(T, d, term=lambda d: 1 / d**2),
            lambda T, d: wrong_way_by_erfc(T, d, others=lambda T: 1),
            lambda T, d: wrong_way_by_erfc(T, d, others=lambda T: T * (T - 1)),
            lambda T, d: math.exp(-d / (2 * (T - 1))),
            lambda T, d: round(wrong_way_by_erfc(T, d), 2),
            lambda T, d: (wrong_way_by_erfc(T, d), 1 - wrong_way_by_erfc(T, d)),
        ],
    },
}
