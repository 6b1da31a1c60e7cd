"""Answers to lesson 12's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math

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


def level_by_trying(scores, ways=((0.5, 0.5),)):
    """The cheapest way to have one best token caught up, sequence by sequence and token by token."""
    scores = torch.as_tensor(np.array(scores))
    cost = lambda u: torch.nn.functional.softplus(-u)  # noqa: E731
    best, levels = scores.amax(1), []
    for i, row in enumerate(scores):
        others = row[row < best[i]]
        for mine, other in ways:
            u = best[:, None].repeat(1, len(others))
            u[i] = mine * best[i] + other * others
            levels.append(cost(u).mean(0).min())
    return float(min(levels))


def level_by_cheapest(scores):
    """Unsafe: the sequence is chosen by what it costs when caught up, not by how much it rises."""
    scores = np.sort(scores, axis=1)
    least, caught = np.log1p(np.exp(-scores[:, -1])), np.log1p(np.exp(-scores[:, -2:].mean(axis=1)))
    least[caught.argmin()] = caught.min()
    return least.mean()


def one_length_by_dual(x, z):
    """The sum of x_i times the vector that is 1 on z_i and 0 on the other queries."""
    x, z = (torch.as_tensor(np.array(a)) for a in (x, z))
    dual = torch.linalg.pinv(z)  # its columns
    return sum(torch.outer(x[i], dual[:, i]) for i in range(len(x)))


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
        "also_right": one_length_by_dual,
        "wrong": [
            lambda x, z: one_length_by_dual(x, z).T,
            lambda x, z: one_length_by_dual(z, x),
            lambda x, z: one_length_by_dual(z, x).T,
            lambda x, z: one_length_by_dual(x, z.T),
            lambda x, z: one_length_by_dual(x.T, z),
            lambda x, z: one_length_by_dual(x[::-1], z),
            lambda x, z: one_length_by_dual(x + 1e-3, z),
            lambda x, z: 0.5 * one_length_by_dual(x, z),
            lambda x, z: np.einsum("id,ie->de", x, z),
            lambda x, z: np.linalg.inv(x) @ np.linalg.inv(z.T),
            lambda x, z: np.eye(len(x)),
            lambda x, z: x.T,
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
        "also_right": level_by_trying,
        "wrong": [
            level_by_cheapest,
            lambda scores: level_by_trying(scores, ways=((0.75, 0.25),)),
            lambda scores: level_by_trying(scores, ways=((0.25, 0.75),)),
            lambda scores: (
                level_by_trying(scores, ways=((1 / scores.shape[1], 1 - 1 / scores.shape[1]),)) + 1e-3
            ),
            lambda scores: level_by_trying(scores) / len(scores) if len(scores) > 1 else 0.0,
            lambda scores: level_by_trying(scores[:1]),
            lambda scores: level_by_trying(np.sort(scores, axis=1)[:, ::-1] + 0.01),
            lambda scores: level_by_trying(scores - scores.mean(axis=1, keepdims=True)),
            lambda scores: -level_by_trying(scores),
            lambda scores: np.log1p(np.exp(-scores.max(axis=1))).mean(),
            lambda scores: np.log1p(np.exp(-scores.mean(axis=1))).mean(),
            lambda scores: np.log(2.0),
            lambda scores: np.array([level_by_trying(row[None]) for row in scores]),
            lambda scores: min(level_by_trying(row[None]) for row in scores),
        ],
    },
}
