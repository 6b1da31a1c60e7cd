"""Answers to lesson 12's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math
from fractions import Fraction

import numpy as np
import torch


def enough_by_trying(n, T):
    d = 1
    while d < T - 1 or d * d < n * (T - 1):
        d += 1
    return d


def ties_by_bisection(h):
    """The level at which what comes down from above it is as much as the first has to rise."""
    counts = []
    for first, *others in h.tolist():
        low, high = first, max(first, *others)
        for _ in range(200):
            level = (low + high) / 2
            if sum(max(one - level, 0) for one in others) > level - first:
                low = level
            else:
                high = level
        counts.append(sum(one > high for one in others))
    return torch.tensor(counts)


def ties_by_sets(h, most=99, keep=lambda tied, first: (first + sum(tied)) / (1 + len(tied))):
    """The first k of the sorted others, with the largest k whose last one is above the mean before it."""
    counts = []
    for first, *others in h.tolist():
        others.sort(reverse=True)
        fit = [k for k in range(1, len(others) + 1) if others[k - 1] > keep(others[: k - 1], first)]
        counts.append(min(most, max(fit, default=0)))
    return np.array(counts)


def win_all_by_series(m, n, win=lambda k: Fraction(1, k + 1)):
    """In exact fractions, by exponential generating functions: 1 / ((1 + k) k!) to the power n."""
    one = [win(k) / math.factorial(k) for k in range(m + 1)]
    power = [Fraction(1), *[Fraction(0)] * m]
    for _ in range(n):
        power = [sum(power[j] * one[D - j] for j in range(D + 1)) for D in range(m + 1)]
    return torch.tensor([float(power[D] * math.factorial(D) / n**D) for D in range(m + 1)])


def win_all_by_draws(m, n, draws=2000):
    generator = np.random.default_rng(0)
    split = [generator.multinomial(D, np.ones(n) / n, size=draws) for D in range(m + 1)]
    return np.array([(1 / (1 + k)).prod(axis=1).mean() for k in split])


def direction_by_dual(v, z, y):
    """The sum of y_i v times the vector that is 1 on z_i and 0 on the other queries."""
    v, z, y = (torch.as_tensor(np.array(a)) for a in (v, z, y))
    dual = torch.linalg.pinv(z)  # its columns
    return sum(y[i] * torch.outer(v, dual[:, i]) for i in range(len(y)))


ANSWERS = {
    "12.1": {
        "also_right": enough_by_trying,
        "wrong": [
            lambda n, T: min(T - 1, enough_by_trying(n, T)),
            lambda n, T: enough_by_trying(T - 1, n + 1),
            lambda n, T: enough_by_trying(n, T) - 1,
            lambda n, T: max(T - 1, (n * (T - 1)) // 2),
            lambda n, T: max(T - 1, round((n * (T - 1)) ** 0.5)),
            lambda n, T: max(2, enough_by_trying(n, T)),
            lambda n, T: 1 if n * T == 2 else max(2, n, T - 1),
            lambda n, T: max(T - 1, (n * (T - 1)) ** 0.5),
            lambda n, T: max(T - 1, n, enough_by_trying(n, T)),
            lambda n, T: enough_by_trying(n + 1, T),
            lambda n, T: int(np.ceil(max(T - 1, n**0.5 * (T - 1) ** 0.5))),
            lambda n, T: max(T - 1, math.ceil(math.sqrt(n) * math.sqrt(T - 1))),
            lambda n, T: min(20, enough_by_trying(n, T)),
            lambda n, T: max(T - 1, int(math.sqrt(n * (T - 1)) + 0.9)),
            lambda n, T: max(T - 1, int(math.sqrt(n * (T - 1)) + 0.99)),
        ],
    },
    "12.2": {
        "also_right": direction_by_dual,
        "wrong": [
            lambda v, z, y: direction_by_dual(v, z, y).T,
            lambda v, z, y: direction_by_dual(v, z.T, y),
            lambda v, z, y: direction_by_dual(v, z.T, y).T,
            lambda v, z, y: direction_by_dual(v, z, 0 * y + 1),
            lambda v, z, y: direction_by_dual(v, z, y[::-1]),
            lambda v, z, y: direction_by_dual(v + 1e-3, z, y),
            lambda v, z, y: -direction_by_dual(v, z, y),
            lambda v, z, y: 0.5 * direction_by_dual(v, z, y),
            lambda v, z, y: direction_by_dual(v, np.linalg.qr(z.T)[0].T, y),
            lambda v, z, y: np.einsum("d,ie,i->de", v, z, y),
            lambda v, z, y: np.outer(v, z.mean(axis=0)),
            lambda v, z, y: np.outer(v, v),
            lambda v, z, y: np.linalg.inv(z),
            lambda v, z, y: np.eye(len(v)),
        ],
    },
    "12.3": {
        "also_right": ties_by_bisection,
        "wrong": [
            lambda h: ties_by_sets(h, most=1),
            lambda h: ties_by_sets(h, most=2),
            lambda h: ties_by_sets(h, keep=lambda tied, first: first),
            lambda h: ties_by_sets(h, keep=lambda tied, first: (first + sum(tied[:1])) / (1 + len(tied[:1]))),
            lambda h: ties_by_sets(h, keep=lambda tied, first: np.median([first, *tied])),
            lambda h: ties_by_sets(h, keep=lambda tied, first: sum(tied) / max(1, len(tied))),
            lambda h: ties_by_sets(h - h.mean(axis=1, keepdims=True), keep=lambda tied, first: 0.0),
            lambda h: np.maximum(1, ties_by_sets(h)),
            lambda h: ties_by_sets(h) + 1,
            lambda h: h.shape[1] - ties_by_sets(h),
            lambda h: ties_by_sets(h[:, ::-1].copy()),
            lambda h: ties_by_sets(h).sum(),
            lambda h: ties_by_sets(h) / (h.shape[1] - 1),
            lambda h: np.full(len(h), round(ties_by_sets(h).mean())),
            lambda h: (h[:, 1:] > h.mean(axis=1, keepdims=True)).sum(axis=1),
            lambda h: (h > 0).sum(axis=1),
        ],
    },
    "12.4": {
        "also_right": win_all_by_series,
        "wrong": [
            win_all_by_draws,
            lambda m, n: win_all_by_series(m, n + 1),
            lambda m, n: win_all_by_series(m, max(1, n - 1)),
            lambda m, n: win_all_by_series(m, n, lambda k: Fraction(1, k + 2)),
            lambda m, n: win_all_by_series(m, n, lambda k: Fraction(1, max(1, k))),
            lambda m, n: win_all_by_series(m, n, lambda k: Fraction(k, k + 1)),
            lambda m, n: win_all_by_series(m, n, lambda k: Fraction(1, 2**k)),
            lambda m, n: win_all_by_series(m, n, lambda k: Fraction(1)),
            lambda m, n: win_all_by_series(m, n, lambda k: Fraction(1, math.factorial(k + 1))),
            lambda m, n: win_all_by_series(m, n) * n ** np.arange(m + 1),
            lambda m, n: win_all_by_series(m, n) / n ** np.arange(m + 1),
            lambda m, n: (1 + np.arange(m + 1) / n) ** -float(n),
            lambda m, n: 1 / (1 + np.arange(m + 1)),
            lambda m, n: win_all_by_series(m, 1) ** n,
            lambda m, n: win_all_by_series(m + 1, n)[1:],
            lambda m, n: win_all_by_series(m + 1, n),
            lambda m, n: win_all_by_series(m, n).flip(0),
            lambda m, n: win_all_by_series(m, n).round(decimals=3),
            lambda m, n: win_all_by_series(m, n).cumsum(0),
            lambda m, n: win_all_by_series(m, n).mean(),
            lambda m, n: np.exp(-np.arange(m + 1) / n),
        ],
    },
}
