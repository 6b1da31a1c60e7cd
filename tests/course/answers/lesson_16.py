"""Answers to lesson 16's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math

import numpy as np
import torch


def levels_by_least_norm(sizes):
    """The shortest heights of all tokens that stand 1 apart from level to level: no formula for the mean."""
    starts = np.cumsum(np.append(0, sizes))
    level = np.repeat(np.arange(len(sizes)), sizes)
    first = np.eye(len(level))[starts[:-1]]
    inside = [np.eye(len(level))[one] - first[level[one]] for one in range(len(level)) if one not in starts]
    rows = np.vstack([first[:-1] - first[1:], *inside])
    wants = np.append(np.ones(len(sizes) - 1), np.zeros(len(inside)))
    return np.linalg.lstsq(rows, wants, rcond=None)[0][starts[:-1]].tolist()


def slope_by_solver(lengths, eta):
    squares = 0.0
    for m in lengths:
        heights = np.arange(m) - (m - 1) / 2
        squares += (heights**2).sum()
    return torch.tensor(-eta / math.sqrt(squares))


def tie_by_rounds(which, copies, queries, new, lacks=lambda k, r: r / k, rounds=60, rate=0.5):
    """Logits that move until the tokens are pulled alike, each by what its sequences lack."""
    h, own = np.zeros(len(new)), np.eye(len(new))[:, which]
    lack = lacks(copies, queries) * np.ones(len(which))
    for _ in range(rounds):
        pull = np.log(own @ (lack * np.exp(-h)[which]))
        h = h + rate * (pull - pull.mean())
    votes = [k * math.exp(one) for k, one in zip(new, h, strict=True)]
    return [vote / sum(votes) for vote in votes]


def harder_by_values(c, V):
    """Softmax of whole vectors of logits, and the values (e_y - pi) W_ov x of both tokens."""
    W = c * (np.eye(V) - 1 / V)  # token k is followed by k, and token 0 is optimal
    apart = []
    for read in (1, 0):
        pi = np.exp(W[:, read] - W[:, read].max())
        values = (np.eye(V)[0] - pi / pi.sum()) @ W
        apart.append(values[0] - values[1])
    return torch.tensor(apart[0] / apart[1])


def lead_by_newton(won, copies_a, copies_b, rounds=300, longest=0.5):
    """Damped, for the curvature may be tiny."""
    won, held = np.asarray(won).sum(), np.asarray(copies_a) * np.asarray(copies_b) > 0
    always = (np.asarray(copies_b) == 0).sum()
    ratio, lead = np.log(copies_b[held] / copies_a[held]), 0.0
    for _ in range(rounds):
        share = 1 / (1 + np.exp(ratio - lead))
        step = (won - always - share.sum()) / (share * (1 - share)).sum()
        lead += min(max(step, -longest), longest)
        if abs(step) < 1e-12:
            break
    return lead


ANSWERS = {
    "16.1": {
        "also_right": levels_by_least_norm,
        "wrong": [
            lambda sizes: np.arange(len(sizes))[::-1],
            lambda sizes: np.zeros(len(sizes)),
            lambda sizes: levels_by_least_norm(np.ones(len(sizes), dtype=int)),
            lambda sizes: levels_by_least_norm(sizes)[::-1],
            lambda sizes: [0.5 - k for k in range(len(sizes))],
            lambda sizes: np.array(levels_by_least_norm(sizes)) * len(sizes),
            lambda sizes: np.array(levels_by_least_norm(sizes)) - levels_by_least_norm(sizes)[1],
            lambda sizes: (np.asarray(sizes).sum() - np.cumsum(sizes)) / np.asarray(sizes).sum(),
            lambda sizes: sum((k + 1) * n for k, n in enumerate(sizes)) / sum(sizes) - np.arange(len(sizes)),
            lambda sizes: np.array([1.0 / n for n in sizes]) - np.mean([1.0 / n for n in sizes]),
            lambda sizes: levels_by_least_norm([1, sum(sizes) - 1]),
        ],
    },
    "16.2": {
        "also_right": slope_by_solver,
        "wrong": [
            lambda lengths, eta: -eta / np.sqrt(sum(m * (m * m - 1) / 12 for m in set(lengths.tolist()))),
            lambda lengths, eta: -eta / np.sqrt(sum(m**2 for m in lengths)),
            lambda lengths, eta: -eta / sum(lengths),
            lambda lengths, eta: -eta / np.sqrt(sum(m * (m - 1) for m in lengths)),
            lambda lengths, eta: slope_by_solver(lengths[:1], eta) if lengths[0] > 1 else -eta,
            lambda lengths, eta: slope_by_solver(lengths, 1.0),
            lambda lengths, eta: slope_by_solver([sum(lengths)], eta),
            lambda lengths, eta: slope_by_solver([m + 1 for m in lengths], eta),
            lambda lengths, eta: math.exp(slope_by_solver(lengths, eta)),
        ],
    },
    "16.3": {
        "also_right": tie_by_rounds,
        "wrong": [
            lambda which, copies, queries, new: np.ones(len(new)) / len(new),
            lambda which, copies, queries, new: tie_by_rounds(which, copies, queries, np.ones(len(new))),
            lambda which, copies, queries, new: tie_by_rounds(which, queries, copies, new),
            lambda which, copies, queries, new: tie_by_rounds(which, copies, queries, new, lambda k, r: 1),
            lambda which, copies, queries, new: tie_by_rounds(which, copies, queries, new, lambda k, r: r),
            lambda which, copies, queries, new: tie_by_rounds(
                which, copies, queries, new, lambda k, r: 1 / k
            ),
            lambda which, copies, queries, new: tie_by_rounds(
                which, copies, queries, new, lambda k, r: r / (k + r)
            ),
            lambda which, copies, queries, new: tie_by_rounds(
                which, copies, queries, new, lambda k, r: np.log(1 + r / k)
            ),
            lambda which, copies, queries, new: tie_by_rounds(which, copies, queries, new, rounds=1),
            lambda which, copies, queries, new: np.bincount(which, minlength=len(new)) / len(which),
            lambda which, copies, queries, new: tie_by_rounds(
                which, copies, queries, new, lambda k, r: -(-r // k)
            ),
            lambda which, copies, queries, new: np.eye(len(new))[
                np.argmax(tie_by_rounds(which, copies, queries, new))
            ],
        ],
    },
    "16.4": {
        "also_right": harder_by_values,
        "wrong": [
            lambda c, V: 0.0,
            lambda c, V: 2.0,
            lambda c, V: V * math.exp(c),
            lambda c, V: math.exp(c) / V,
            lambda c, V: math.exp(c) / (V - 1),
            lambda c, V: math.exp(2 * c),
            lambda c, V: 1 / harder_by_values(c, V),
            lambda c, V: harder_by_values(c, V) - 1,
            lambda c, V: 1 + math.exp(c) / V,
            lambda c, V: 1 + 2 * math.exp(c) / (V - 1),
            lambda c, V: 1 + 2 * (math.exp(c) - 1) / (V - 1),
            lambda c, V: (math.exp(c) + V - 2) / (V - 1),
            lambda c, V: harder_by_values(2 * c, V),
            lambda c, V: harder_by_values(c, V + 1),
            lambda c, V: 1 + 2 * c / V,
        ],
    },
    "16.5": {
        "also_right": lead_by_newton,
        "wrong": [
            lambda won, a, b: min(max(lead_by_newton(won, a, b), -10), 10),
            lambda won, a, b: lead_by_newton(won, a, b, rounds=5, longest=np.inf),
            lambda won, a, b: 0.0,
            lambda won, a, b: float(
                np.log(won.sum() / (~won).sum()) - np.log(np.maximum(a, 1) / np.maximum(b, 1)).mean()
            ),
            lambda won, a, b: 2 * lead_by_newton(won, a, b),
            lambda won, a, b: lead_by_newton(~won, a, b),
            lambda won, a, b: lead_by_newton(won, b, a),
            lambda won, a, b: abs(lead_by_newton(won, a, b)),
            lambda won, a, b: 0.1 * float((won - a / (a + b)).sum()),
            lambda won, a, b: lead_by_newton(won, a**2, b**2),
            lambda won, a, b: lead_by_newton(won, a + 1, b + 1),
            lambda won, a, b: 1 / (1 + math.exp(-lead_by_newton(won, a, b))),
            lambda won, a, b: float((won * 2 - 1).sum()),
        ],
    },
}
