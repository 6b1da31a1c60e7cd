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


def gains_by_columns(won, d, rivals):
    """Least squares with a column of zeros and ones for each number of rivals."""
    x, slopes = np.log2(d), []
    for group in (np.zeros(len(x)), rivals):
        columns = np.column_stack([x, *(group == name for name in np.unique(group))])
        slopes.append(np.linalg.lstsq(columns, np.asarray(won, float), rcond=None)[0][0])
    return torch.tensor(slopes)


def gains_from_ends(won, d, rivals):
    """Largest d against smallest, in all and as the mean over the numbers of rivals that both have."""
    few, many = d == d.min(), d == d.max()
    doublings = np.log2(d.max() / d.min())
    both = [r for r in np.unique(rivals) if (few & (rivals == r)).any() and (many & (rivals == r)).any()]
    steps = [won[many & (rivals == r)].mean() - won[few & (rivals == r)].mean() for r in both]
    return (won[many].mean() - won[few].mean()) / doublings, np.mean(steps or [0.0]) / doublings


def gains_by_mixing(won, d, rivals):
    """Each run reweighted so that every number of rivals counts the same."""
    weight = 1 / np.array([(rivals == r).sum() for r in rivals])
    x = np.log2(d) - np.average(np.log2(d), weights=weight)
    return gains_by_columns(won, d, rivals)[0], (weight * x * won).sum() / (weight * x**2).sum()


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
    "12.3": {
        "also_right": level_by_trying,
        "wrong": [
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
    "12.4": {
        "also_right": gains_by_columns,
        "wrong": [
            lambda won, d, rivals: gains_by_columns(won, d, np.minimum(rivals, 6)),
            lambda won, d, rivals: gains_by_columns(won, d, d),
            lambda won, d, rivals: gains_by_columns(rivals, d, won),
            lambda won, d, rivals: gains_by_columns(won, np.log2(d), rivals),
            lambda won, d, rivals: gains_by_columns(won[rivals > 1], d[rivals > 1], rivals[rivals > 1]),
            lambda won, d, rivals: gains_by_columns(1 - won, d, rivals),
            lambda won, d, rivals: (gains_by_columns(won, d, rivals)[0],) * 2,
            lambda won, d, rivals: (gains_by_columns(won, d, rivals)[0], 0.0),
            lambda won, d, rivals: np.subtract(*gains_by_columns(won, d, rivals)),
            lambda won, d, rivals: tuple(2 * np.array(gains_by_columns(won, d, rivals))),
            gains_from_ends,
            gains_by_mixing,
        ],
    },
}
