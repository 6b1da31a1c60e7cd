"""Answers to lesson 14's exercises: a second right one each, and wrong ones that the checks have to catch."""

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


def forecast_by_counting(seen, first=lambda m: (m - 1) / m**2, last=lambda m: (m - 1) / m):
    """In loops."""
    T = len(seen)
    return [sum(map(of, map(int, seen))) / (T * of(T)) for of in (first, last)]


def forecast_by_linear_algebra(seen):
    """The first from the covariance of s = 1/m times (1 - mean), the last from the norms of exercise 14.2."""
    T = len(seen)
    first = [np.trace((np.eye(m) - 1 / m) @ (np.eye(m) - 1 / m).T) / m**2 for m in map(int, seen)]
    sees = np.arange(T) < np.asarray(seen)[:, None]
    last = price_by_least_squares(sees) / price_by_least_squares(np.ones_like(sees))
    return np.array([sum(first) / (1 - 1 / T), last])


def falls_in_loops(values, y, lengths, below=0.0):
    found = np.zeros(values.shape, dtype=bool)
    for i, m in enumerate(map(int, lengths)):
        for k in range(m):
            found[i, k] = m < values.shape[1] and all(y[i, k] * values[i, t] < below for t in range(m))
    return found


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
        "also_right": forecast_by_linear_algebra,
        "wrong": [
            lambda seen: forecast_by_counting(seen, first=lambda m: (m - 1) / m),
            lambda seen: forecast_by_counting(seen, first=lambda m: 1 / m),
            lambda seen: forecast_by_counting(seen, first=lambda m: (m - 1) / m**3),
            lambda seen: forecast_by_counting(seen, first=lambda m: (m - 1) ** 2 / m**3),
            lambda seen: forecast_by_counting(seen, first=lambda m: (m - 1) ** 0.5 / m),
            lambda seen: forecast_by_counting(seen, last=lambda m: m - 1),
            lambda seen: forecast_by_counting(seen, last=lambda m: float(m > 1)),
            lambda seen: forecast_by_counting(seen, last=lambda m: (m - 1) / (m + 1)),
            lambda seen: forecast_by_counting(seen, last=lambda m: np.log(m)),
            lambda seen: forecast_by_counting(seen)[::-1],
            lambda seen: forecast_by_counting(seen)[:1],
            lambda seen: [round(one, 1) for one in forecast_by_counting(seen)],
            lambda seen: np.prod(forecast_by_counting(seen)),
            lambda seen: forecast_by_counting(np.minimum(seen, max(seen) - 1)),
            lambda seen: forecast_by_counting(seen[:-1]),
            lambda seen: forecast_by_counting(np.arange(1, len(seen) + 1)),
        ],
    },
    "14.4": {
        "also_right": falls_in_loops,
        "wrong": [
            lambda values, y, lengths: np.zeros(values.shape, dtype=bool),
            lambda values, y, lengths: ~falls_in_loops(values, y, lengths),
            lambda values, y, lengths: falls_in_loops(values, np.ones_like(y), lengths),
            lambda values, y, lengths: falls_in_loops(values, y, np.minimum(lengths, 2)),
            lambda values, y, lengths: falls_in_loops(values, y, np.minimum(lengths, 1)),
            lambda values, y, lengths: falls_in_loops(values, y, lengths).any(axis=1),
            lambda values, y, lengths: (
                falls_in_loops(np.c_[values, values], np.c_[y, y], lengths)[:, : values.shape[1]]
                & (lengths < max(lengths))[:, None]
            ),
            lambda values, y, lengths: falls_in_loops(
                values, np.repeat(y[:, -1:], y.shape[1], axis=1), lengths
            ),
            lambda values, y, lengths: falls_in_loops(values + 0.01 * y[:, :1], y, lengths),
            lambda values, y, lengths: falls_in_loops(values, y, lengths, -0.01),
            lambda values, y, lengths: falls_in_loops(values, y, lengths, 0.01),
            lambda values, y, lengths: falls_in_loops(values, y, lengths) & (y < 0),
            lambda values, y, lengths: falls_in_loops(values, y, lengths) & (np.arange(values.shape[1]) == 0),
        ],
    },
}
