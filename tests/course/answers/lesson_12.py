"""Answers to lesson 12's exercises: a second right one each, and wrong ones that the checks have to catch."""

import functools
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


def win_all_by_counting(n, T):
    """Exact: of the sets of n + m tokens those with some of each sequence."""
    M = n * (T - 1)
    none_out = [
        sum((-1) ** s * math.comb(n, s) * math.comb(T * (n - s), n + m) for s in range(n + 1))
        for m in range(M + 1)
    ]
    return torch.tensor([float(Fraction(none_out[m], T**n * math.comb(M, m))) for m in range(M + 1)])


def win_all_by_sequence(n, T, win=lambda k: 1 / (1 + k), left=lambda m, k: m - k):
    """One sequence after another: k of the m tokens are in the new one, by the hypergeometric chances."""
    w = [1.0]
    for N in range(1, n + 1):
        M = N * (T - 1)
        w = [
            sum(
                math.comb(T - 1, k) * math.comb(M - T + 1, m - k) / math.comb(M, m) * win(k) * w[left(m, k)]
                for k in range(max(0, m - M + T - 1), min(T - 1, m) + 1)
            )
            for m in range(M + 1)
        ]
    return np.array(w)


def win_all_by_draws(n, T, draws=2000):
    generator, M = np.random.default_rng(0), n * (T - 1)
    order = np.argsort(generator.random((draws, M)), axis=1) // (T - 1)  # the sequences of tokens in turn
    counts = [[(order[:, :m] == i).sum(axis=1) for i in range(n)] for m in range(M + 1)]
    return np.array([(1 / (1 + np.array(k))).prod(axis=0).mean() for k in counts])


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
            lambda n, T: max(n, math.ceil(math.sqrt(n * (T - 1)))),
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
        "also_right": win_all_by_counting,
        "wrong": [
            win_all_by_draws,
            lambda n, T: win_all_by_sequence(n + 1, T),
            lambda n, T: win_all_by_sequence(max(1, n - 1), T),
            lambda n, T: win_all_by_sequence(n, T + 1),
            lambda n, T: win_all_by_sequence(T, n),
            lambda n, T: win_all_by_sequence(n, T, lambda k: 1 / (k + 2)),
            lambda n, T: win_all_by_sequence(n, T, lambda k: 1 / max(1, k)),
            lambda n, T: win_all_by_sequence(n, T, lambda k: k / (k + 1)),
            lambda n, T: win_all_by_sequence(n, T, lambda k: 1 / 2**k),
            lambda n, T: win_all_by_sequence(n, T, lambda k: 1.0),
            lambda n, T: win_all_by_sequence(n, T, lambda k: 1 / math.factorial(k + 1)),
            lambda n, T: win_all_by_counting(n, T) * T**n,
            lambda n, T: (
                win_all_by_counting(n, T) * [math.comb(n * (T - 1), m) for m in range(n * T - n + 1)]
            ),
            lambda n, T: (1 + np.arange(n * (T - 1) + 1) / n) ** -float(n),
            lambda n, T: 1 / (1 + np.arange(n * (T - 1) + 1)) ** n,
            lambda n, T: win_all_by_counting(1, n * (T - 1) + 1) ** n,
            lambda n, T: win_all_by_sequence(n, T, lambda k: T / (T - k) / (k + 1)),  # comb(T, k) sets
            lambda n, T: functools.reduce(np.convolve, [1 / np.arange(1, T + 1)] * n),  # one mean a sequence
            lambda n, T: win_all_by_counting(n, T)[1:],
            lambda n, T: win_all_by_counting(n, T)[:-1],
            lambda n, T: win_all_by_counting(n, T).flip(0),
            lambda n, T: win_all_by_counting(n, T).round(decimals=3),
            lambda n, T: win_all_by_counting(n, T).cumsum(0),
            lambda n, T: win_all_by_counting(n, T).mean(),
            lambda n, T: np.exp(-np.arange(n * (T - 1) + 1) / n),
            lambda n, T: np.linspace(1, 1 / T**n, n * (T - 1) + 1),
        ],
    },
}
