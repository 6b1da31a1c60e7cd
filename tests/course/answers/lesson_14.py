"""Answers to lesson 14's exercises: a second right one each, and wrong ones that the checks have to catch."""

from math import comb

import numpy as np
import torch


def visible_in_loops(lengths, T, causal):
    return torch.tensor(
        [
            [[k < m and t < m and (t <= k or not causal) for t in range(T)] for k in range(T)]
            for m in map(int, lengths)
        ]
    )


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


def pooled_from_above(g, passes=100, slack=0.0):
    """Begin with all others tied, and let go those below the mean, until none is."""
    counts = []
    for first, *others in np.asarray(g, dtype=float):
        kept = others
        for _ in range(passes):
            mean = (first + sum(kept)) / (1 + len(kept))
            still = [other for other in kept if other > mean + slack]
            if len(still) == len(kept):
                break
            kept = still
        counts.append(len(kept))
    return counts


def pooled_in_one_pass(g):
    ahead = g[:, 1:] > g[:, :1]
    mean = (g[:, 0] + (g[:, 1:] * ahead).sum(1)) / (1 + ahead.sum(1))
    return (g[:, 1:] > mean[:, None]).sum(1)


def share_by_sum(T, d):
    return sum(comb(T - 1, k) for k in range(d)) / 2 ** (T - 1)


def falls_by_products(values, y, lengths):
    """Padding is taken out by multiplication, which leaves NaN where it is infinite."""
    real = np.arange(values.shape[1]) < np.asarray(lengths)[:, None]
    with np.errstate(invalid="ignore"):
        scores = y[..., None] * (values * real - 1e3 * ~real)[:, None] * real[:, None] - 1e3 * ~real[:, None]
        return real & ~real.all(axis=1, keepdims=True) & (scores.max(axis=-1) < 0)


def falls_in_loops(values, y, lengths, below=0.0):
    found = np.zeros(values.shape, dtype=bool)
    for i, m in enumerate(map(int, lengths)):
        for k in range(m):
            found[i, k] = m < values.shape[1] and all(y[i, k] * values[i, t] < below for t in range(m))
    return found


ANSWERS = {
    "14.1": {
        "also_right": visible_in_loops,
        "wrong": [
            lambda lengths, T, causal: visible_in_loops(lengths, T, causal).numpy().swapaxes(1, 2),
            lambda lengths, T, causal: np.ones((len(lengths), T, T), dtype=bool),
            lambda lengths, T, causal: visible_in_loops([T] * len(lengths), T, causal),
            lambda lengths, T, causal: visible_in_loops(lengths, T, causal)[0],
            lambda lengths, T, causal: visible_in_loops(np.sort(lengths), T, causal),
            lambda lengths, T, causal: visible_in_loops(np.sort(lengths)[::-1], T, causal),
            lambda lengths, T, causal: visible_in_loops(np.maximum(lengths - 1, 1), T, causal),
            lambda lengths, T, causal: visible_in_loops(lengths, max(lengths), causal),
            lambda lengths, T, causal: visible_in_loops(lengths, T, causal).squeeze(0),
            lambda lengths, T, causal: visible_in_loops(lengths, T, causal).numpy().squeeze(),
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
        "also_right": pooled_from_above,
        "wrong": [
            pooled_in_one_pass,
            lambda g: np.zeros(len(g)),
            lambda g: np.array(pooled_from_above(g))[::-1],
            lambda g: np.array(pooled_from_above(g[:, ::-1])),
            lambda g: np.minimum(pooled_from_above(g), 2),
            lambda g: np.minimum(pooled_from_above(g), 4),
            lambda g: np.minimum(pooled_from_above(g), 5),
            lambda g: pooled_from_above(g, passes=2),
            lambda g: pooled_from_above(g, passes=3),
            lambda g: pooled_from_above(g, slack=0.01),
            lambda g: pooled_from_above(g, slack=-0.01),
            lambda g: (g[:, 1:] > np.median(g, axis=1, keepdims=True)).sum(1),
            lambda g: np.minimum((g[:, 1:] > g[:, :1]).sum(1), 1 + (g[:, 1:] > g[:, :1] + 1).sum(1)),
        ],
    },
    "14.4": {
        "also_right": share_by_sum,
        "wrong": [
            lambda T, d: 1.0,
            lambda T, d: 1 - share_by_sum(T, d),
            lambda T, d: 0.5 if 2 * d <= T else 1.0,
            lambda T, d: share_by_sum(T, d) ** 2,
            lambda T, d: share_by_sum(d, T),
            lambda T, d: sum(comb(T - 1, k) for k in range(d)) / 2**T,
            lambda T, d: share_by_sum(T, d) if d < T else 0.0,
            lambda T, d: share_by_sum(T, d - 1) if d == T else share_by_sum(T, d),
            lambda T, d: 0.5 if T == 1 else share_by_sum(T, d),
            lambda T, d: share_by_sum(min(T, 12), d),
            lambda T, d: share_by_sum(T, d) if T < 12 or (T, d) in {(30, 5), (40, 20)} else 0.5,
            lambda T, d: share_by_sum(T, min(d, 4)),
            lambda T, d: round(share_by_sum(T, d), 4),
            lambda T, d: float(np.array(sum(comb(T - 1, k) for k in range(d)) % 2**31) / 2 ** (T - 1)),
        ],
    },
    "14.5": {
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
            lambda values, y, lengths: falls_by_products(values, y, lengths),
            lambda values, y, lengths: falls_in_loops(values + 0.01 * y[:, :1], y, lengths),
            lambda values, y, lengths: falls_in_loops(values, y, lengths, -0.01),
            lambda values, y, lengths: falls_in_loops(values, y, lengths, 0.01),
            lambda values, y, lengths: falls_in_loops(values, y, lengths) & (y < 0),
            lambda values, y, lengths: falls_in_loops(values, y, lengths) & (np.arange(values.shape[1]) == 0),
        ],
    },
}
