"""Answers to lesson 12's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math

import numpy as np
import torch


def enough_by_trying(n, T):
    d = 1
    while d < T - 1 or d * d < n * (T - 1):
        d += 1
    return d


def probability_by_enumeration(share, n, d, kind):
    """All combinations of how much the sequences use up, one by one."""
    return shared(share, n, d if kind == "p" else d * d)


def shared(share, n, D):
    """The formula for n sequences that share D numbers."""
    total = {0: 1.0}
    for _ in range(n):
        added = {}
        for used, chance in total.items():
            for k, more in enumerate(share):
                added[used + k] = added.get(used + k, 0.0) + chance * more
        total = added
    return 2 * sum(chance for used, chance in total.items() if used < D and (D - 1 - used) % 2 == 0)


def probability_by(total, formula):
    """As asked, with a sum of n and a formula of one's own."""

    def answer(share, n, d, kind):
        return formula(total(share, n), d if kind == "p" else d * d)

    return answer


def summed(share, n):
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, share)
    return total


def summed_from_two(share, n):
    """Wrong for n = 1."""
    total = np.convolve(share, share)
    for _ in range(n - 2):
        total = np.convolve(total, share)
    return total


def every_other(total, D):
    return 2 * sum(total[k] for k in range(D - 1, -1, -2) if k < len(total))


def every_other_within(total, D):
    """0, not 1, for large D."""
    return 2 * total[D - 1 :: -2].sum() if len(total) >= D else 0.0


def every_other_unbounded(total, D):
    """An error for large D."""
    return 2 * sum(total[k] for k in range(D - 1, -1, -2))


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
        "also_right": probability_by_enumeration,
        "wrong": [
            lambda share, n, d, kind: 1 - probability_by_enumeration(share, n, d, kind),
            lambda share, n, d, kind: probability_by_enumeration(share, n, d, kind) / 2,
            lambda share, n, d, kind: probability_by_enumeration(share[::-1], n, d, kind),
            lambda share, n, d, kind: probability_by_enumeration(share, n, d + 1, kind),
            lambda share, n, d, kind: shared(share, n, d),
            lambda share, n, d, kind: shared(share, n, d * d),
            lambda share, n, d, kind: shared(share, n, n * d),
            lambda share, n, d, kind: shared(share, n, d if kind == "p" else d * n),
            lambda share, n, d, kind: shared(share, n, d if kind == "p" else d * (len(share) - 1)),
            lambda share, n, d, kind: shared(share, n, d if kind == "p" else 2 * d),
            lambda share, n, d, kind: shared(share, 1, d if kind == "p" else d * d) ** n,
            lambda share, n, d, kind: shared(share, n, d) if kind == "p" else shared(share, 1, d) ** n,
            lambda share, n, d, kind: shared(share[:d], n, d if kind == "p" else d * d),
            lambda share, n, d, kind: shared(share / share[0], n, d if kind == "p" else d * d),
            lambda share, n, d, kind: shared([0.5, 0.5], n * (len(share) - 1), d if kind == "p" else d * d),
            lambda share, n, d, kind: float(d >= n * (share * np.arange(len(share))).sum()),
            lambda share, n, d, kind: min(1, d / (n * (len(share) - 1))),
            probability_by(summed_from_two, every_other),
            probability_by(summed, every_other_within),
            probability_by(summed, every_other_unbounded),
            probability_by(summed, lambda total, D: every_other(total, D) * (D > 1)),
            lambda share, n, d, kind: probability_by_enumeration(
                np.full(len(share), 1 / len(share)), n, d, kind
            ),
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
