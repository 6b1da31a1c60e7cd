"""Answers to lesson 18's exercises: a second right one each, and wrong ones that the checks have to catch."""

from collections import Counter
from itertools import product

import numpy as np
import torch
from scipy import stats


def sharp_in_loops(s, number, total=lambda row: sum(-p * np.log(p) for p in row if p > 0)):
    return [
        float(total(row)) / np.log(m) if m > 1 else 0.0 for row, m in zip(s, map(int, number), strict=True)
    ]


def sharp_in_torch(s, number):
    s, number = torch.as_tensor(s), torch.as_tensor(number)
    return torch.where(number > 1, torch.special.entr(s).sum(-1) / number.clamp_min(2).log(), 0.0)


def agree_in_loops(selected, real, votes=lambda counted: max(counted.values()), only=None):
    counted = [Counter(row[asks].tolist()) for row, asks in zip(selected, real, strict=True)]
    number = [sum(c.values()) for c in counted]
    if only is not None:  # drop votes for what is padding
        counted = [
            Counter({t: v for t, v in c.items() if keep[t]}) or Counter([0])
            for c, keep in zip(counted, only, strict=True)
        ]
    return [votes(c) / m for c, m in zip(counted, number, strict=True)]


def bound_by_search(A, w, C, weights=lambda slack: slack, largest=np.inf):
    """The dual value over multiples of the slack: a parabola, through three of its points."""
    lam = weights(np.maximum(0, 1 - A @ w))
    if not lam.any():
        return 0.0

    def value(c):
        return c * lam.sum() - c * c * (np.square(A.T @ lam).sum() + lam @ lam / C) / 2

    unit = 1 / lam.max()
    a = (value(unit) + value(-unit)) / 2 / unit**2
    b = (value(unit) - value(-unit)) / 2 / unit
    return -(b**2) / (4 * a) if -b / (2 * a) <= largest else value(largest)


def flips_by_hand(trained, control, far=lambda mean, seen: abs(mean) >= abs(seen) - 1e-12):
    units = (np.asarray(trained) - np.asarray(control)).mean(axis=1)
    seen = units.mean()
    hits = [far(np.dot(signs, units) / len(units), seen) for signs in product((-1, 1), repeat=len(units))]
    return sum(hits) / len(hits)


def untrained_in_loops(c, X, real, centre=True, back=False):
    W = np.zeros((X.shape[2],) * 2)
    for i in range(len(X)):
        seen = np.flatnonzero(real[i])
        for k in seen:
            mean = np.mean([c[i, k, t] for t in seen]) if centre else 0.0
            for t in seen:
                W += (c[i, k, t] - mean) * np.outer(X[i, t], X[i, k])
    return W


ANSWERS = {
    "18.1": {
        "also_right": sharp_in_torch,
        "wrong": [
            lambda s, number: [x * np.log(2) for x in sharp_in_loops(s, number)],
            lambda s, number: [x / np.log(2) for x in sharp_in_loops(s, number)],
            lambda s, number: sharp_in_loops(s, np.full(len(s), s.shape[1])),
            lambda s, number: sharp_in_loops(s, (s > 0).sum(1)),
            lambda s, number: sharp_in_loops(
                s, number, lambda row: (1 - np.square(row).sum()) * np.log(len(row))
            ),
            lambda s, number: sharp_in_loops(s, number, lambda row: -np.log(max(row))),
            lambda s, number: np.nan_to_num(
                np.array(sharp_in_loops(s, number)) * np.where(s.max(1) == 1, np.nan, 1), nan=1
            ),
            lambda s, number: np.array(sharp_in_loops(s, number))[::-1],
            lambda s, number: sharp_in_loops(s, number, lambda row: -(row * np.log(row + 1e-2)).sum()),
            lambda s, number: np.array(sharp_in_loops(s, number))[:, None],
            lambda s, number: (np.array(sharp_in_loops(s, number)) > 0.5).astype(float),
            lambda s, number: sharp_in_loops(s, number + 1),
        ],
    },
    "18.2": {
        "also_right": agree_in_loops,
        "wrong": [
            lambda selected, real: agree_in_loops(selected, real, lambda c: min(c.values())),
            lambda selected, real: agree_in_loops(selected, real, lambda c: max(c)),
            lambda selected, real: agree_in_loops(selected, real, lambda c: sum(c.values()) / len(c)),
            lambda selected, real: agree_in_loops(selected, real, lambda c: max(c.values()) - 1),
            lambda selected, real: agree_in_loops(
                selected, real, lambda c: sum(v * v for v in c.values()) / sum(c.values())
            ),
            lambda selected, real: agree_in_loops(selected, np.ones_like(real)),
            lambda selected, real: agree_in_loops(selected, np.sort(real, axis=1)[:, ::-1]),
            lambda selected, real: np.array(agree_in_loops(selected, real))[::-1],
            lambda selected, real: float(np.mean(agree_in_loops(selected, real))),
            lambda selected, real: agree_in_loops(selected, real, only=real),
            lambda selected, real: [
                1 - (len(set(row[ok].tolist())) - 1) / ok.sum()
                for row, ok in zip(selected, real, strict=True)
            ],
            lambda selected, real: [
                (row == np.arange(len(row)))[ok].mean() for row, ok in zip(selected, real, strict=True)
            ],
            lambda selected, real: [
                (row[ok] == row[ok][0]).mean() for row, ok in zip(selected, real, strict=True)
            ],
            lambda selected, real: [
                (row[ok] == np.median(row[ok])).mean() for row, ok in zip(selected, real, strict=True)
            ],
        ],
    },
    "18.3": {
        "also_right": bound_by_search,
        "wrong": [
            lambda A, w, C: 0.0 if (1 - A @ w).max() < 1e-2 else bound_by_search(A, w, C),
            lambda A, w, C: 0.0 if (1 - A @ w).max() < 1e-6 else bound_by_search(A, w, C),
            lambda A, w, C: bound_by_search(A, w, C, lambda slack: np.where(slack > 1e-3, slack, 0.0)),
            lambda A, w, C: 0.0,
            lambda A, w, C: 2 * bound_by_search(A, w, C),
            lambda A, w, C: bound_by_search(A, w, C, np.square),
            lambda A, w, C: bound_by_search(A, w, C, np.sqrt),
            lambda A, w, C: bound_by_search(A, w, 2 * C),
            lambda A, w, C: bound_by_search(A, w, C / 2),
            lambda A, w, C: bound_by_search(A, 0 * w, C),
            lambda A, w, C: bound_by_search(A, -w, C),
            lambda A, w, C: bound_by_search(A, w, C, lambda slack: slack * (slack == slack.max())),
            lambda A, w, C: bound_by_search(A, w, C, np.ones_like),
            lambda A, w, C: bound_by_search(A, w, C, largest=C),
            lambda A, w, C: bound_by_search(A, w, C, largest=1.0),
            lambda A, w, C: float(w @ w / 2),
            lambda A, w, C: bound_by_search(A, w, C) or float("nan"),
        ],
    },
    "18.5": {
        "also_right": flips_by_hand,
        "wrong": [
            lambda trained, control: float(
                stats.wilcoxon(trained.mean(1), control.mean(1)).pvalue if (trained != control).any() else 1.0
            ),
            lambda trained, control: flips_by_hand(
                trained, control, lambda mean, seen: abs(mean / seen if seen else np.nan) >= 1 - 1e-9
            ),
            lambda trained, control: flips_by_hand(trained, control, lambda mean, seen: mean >= seen - 1e-12),
            lambda trained, control: flips_by_hand(
                trained, control, lambda mean, seen: abs(mean) > abs(seen) + 1e-12
            ),
            lambda trained, control: flips_by_hand(
                trained, control, lambda mean, seen: abs(mean) <= abs(seen) + 1e-12
            ),
            lambda trained, control: flips_by_hand(
                trained, control, lambda mean, seen: abs(mean) >= abs(seen)
            ),
            lambda trained, control: flips_by_hand(
                trained, control, lambda mean, seen: abs(mean) >= abs(seen) - 1e-4
            ),
            lambda trained, control: flips_by_hand(
                trained,
                control,
                lambda mean, seen: abs(mean) >= abs(seen) or np.isclose(abs(mean), abs(seen)),
            ),
            lambda trained, control: flips_by_hand(trained.T, control.T),
            lambda trained, control: flips_by_hand(trained, 0 * control),
            lambda trained, control: flips_by_hand(np.sort(trained, 0), np.sort(-control, 0)),
            lambda trained, control: flips_by_hand((trained - control).reshape(-1, 1)[:10], np.zeros((1, 1))),
            lambda trained, control: flips_by_hand(np.sign(trained - control), 0 * control),
            lambda trained, control: flips_by_hand(
                np.median(trained - control, axis=1)[:, None], np.zeros((len(trained), 1))
            ),
            lambda trained, control: flips_by_hand(trained, control) / 2,
            lambda trained, control: 2 * flips_by_hand(trained, control),
            lambda trained, control: 0.5 ** len(trained),
            lambda trained, control: float((trained <= control).mean()),
            lambda trained, control: flips_by_hand(
                *(part[(trained != control).any(1)] for part in (trained, control))
            ),
            lambda trained, control: flips_by_hand(trained[1:], control[1:]) if len(trained) > 1 else 1.0,
        ],
    },
    "18.4": {
        "also_right": untrained_in_loops,
        "wrong": [
            lambda c, X, real: untrained_in_loops(c, X, real, centre=False),
            lambda c, X, real: untrained_in_loops(c, X, np.ones_like(real)),
            lambda c, X, real: untrained_in_loops(c, X, real).T,
            lambda c, X, real: -untrained_in_loops(c, X, real),
            lambda c, X, real: untrained_in_loops(c, X, real) / real.sum(),
            lambda c, X, real: untrained_in_loops(c.swapaxes(1, 2), X, real),
            lambda c, X, real: untrained_in_loops(c[:1], X[:1], real[:1]),
            lambda c, X, real: untrained_in_loops(c - c.mean(), X, real, centre=False),
            lambda c, X, real: untrained_in_loops(c, X - X.mean((0, 1)), real),
            lambda c, X, real: untrained_in_loops(np.sign(c), X, real),
            lambda c, X, real: untrained_in_loops(c, X, np.sort(real, axis=1)[:, ::-1]),
            lambda c, X, real: np.einsum("ikt,itd,ike->ide", c, X, X),
        ],
    },
}
