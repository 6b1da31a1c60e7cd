"""Answers to lesson 16's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math

import numpy as np
import torch

from mini_attn import svm


def levels_by_solver(sizes):
    """The SVM of levels, each token above each of the next level."""
    level = np.repeat(np.arange(len(sizes)), sizes)
    above = torch.zeros(*3 * (len(level),), dtype=torch.bool)
    above[0] = torch.as_tensor(level[:, None] + 1 == level)
    E = torch.eye(len(level), dtype=torch.float64)
    W = svm.solve(svm.order_problem(E, above)).value
    return [float(W[np.flatnonzero(level == one)[0], 0]) for one in range(len(sizes))]


def slope_by_solver(lengths, eta):
    squares = 0.0
    for m in lengths:
        heights = np.arange(m) - (m - 1) / 2
        squares += (heights**2).sum()
    return torch.tensor(-eta / math.sqrt(squares))


def tie_by_rounds(which, copies, queries, new, lacks=lambda k, r: r / k, rounds=200, rate=0.5):
    """Logits that move until the tokens are pulled alike, each by what its sequences lack."""
    h = np.zeros(len(new))
    for _ in range(rounds):
        pull = np.zeros(len(new))
        for token, k, r in zip(which, copies, queries, strict=True):
            pull[token] += lacks(k, r) * math.exp(-h[token])
        h += rate * (np.log(pull) - np.log(pull).mean())
    votes = [k * math.exp(one) for k, one in zip(new, h, strict=True)]
    return [vote / sum(votes) for vote in votes]


def room_by_models(c, V, own=0, other=1):
    """The two differences of values, from probabilities that are written out."""
    q = np.full(V, -1 / V)
    pulls = []
    for read in (own, other):  # attention on the optimal token, whose next is 0, or on one whose next is 1
        o = c * q
        o[read] += c
        pi = np.exp(o - np.logaddexp.reduce(o))
        blame = np.eye(V)[0] - pi
        pulls.append(blame @ (np.eye(V)[0] - np.eye(V)[1]))
    return math.log(pulls[1] / pulls[0])


def lead_by_newton(won, copies_a, copies_b, rounds=300, longest=0.5):
    won, a, b = (torch.as_tensor(np.asarray(part)).double() for part in (won, copies_a, copies_b))
    ratio, h = torch.log(a / b), torch.zeros((), dtype=torch.float64)
    for _ in range(rounds):  # damped: the curvature may be tiny
        share = torch.sigmoid(h + ratio)
        step = ((won - share).sum() / (share * (1 - share)).sum()).clamp(-longest, longest)
        h = h + step
        if abs(step) < 1e-15:
            break
    return h


def lead_by_steps(won, copies_a, copies_b, rate=0.1, steps=4000):
    h = 0.0
    for _ in range(steps):
        share = copies_a / (copies_a + copies_b * math.exp(-h))
        step = rate * float((won - share).sum())
        h += step
        if abs(step) < 1e-14:
            break
    return h


ANSWERS = {
    "16.1": {
        "also_right": levels_by_solver,
        "wrong": [
            lambda sizes: np.arange(len(sizes))[::-1],
            lambda sizes: np.zeros(len(sizes)),
            lambda sizes: levels_by_solver(np.ones(len(sizes), dtype=int)),
            lambda sizes: levels_by_solver(sizes)[::-1],
            lambda sizes: [0.5 - k for k in range(len(sizes))],
            lambda sizes: np.array(levels_by_solver(sizes)) * len(sizes),
            lambda sizes: np.array(levels_by_solver(sizes)) - levels_by_solver(sizes)[1],
            lambda sizes: (np.asarray(sizes).sum() - np.cumsum(sizes)) / np.asarray(sizes).sum(),
            lambda sizes: sum((k + 1) * n for k, n in enumerate(sizes)) / sum(sizes) - np.arange(len(sizes)),
            lambda sizes: np.array([1.0 / n for n in sizes]) - np.mean([1.0 / n for n in sizes]),
            lambda sizes: levels_by_solver([1, sum(sizes) - 1]),
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
                which, copies, queries, new, lambda k, r: math.log(1 + r / k)
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
        "also_right": room_by_models,
        "wrong": [
            lambda c, V: 0.0,
            lambda c, V: max(0.0, c - math.log(V / 2)),
            lambda c, V: math.log(1 + 2 * math.exp(c) / V) - math.log(1 + 2 / V),
            lambda c, V: math.log(1 + (math.exp(c) - 1) / V),
            lambda c, V: math.log(1 + 2 * (math.exp(c) - 1) / (V + 1)),
            lambda c, V: math.log(2 + (V - 2) * math.exp(-c)) - math.log(V),
            lambda c, V: 2 * (math.exp(c) - 1) / V,
            lambda c, V: c * 2 / V,
            lambda c, V: math.log(math.exp(c) / V + 1) - math.log(1 / V + 1),
            lambda c, V: abs(room_by_models(c, V, own=1, other=0)) * c,
            lambda c, V: math.log((1 + (V - 2) * math.exp(-c)) / ((V - 1) * math.exp(-c))),
        ],
    },
    "16.5": {
        "also_right": lead_by_newton,
        "wrong": [
            lambda won, a, b: lead_by_newton(won, a, b).clamp(-10, 10),
            lambda won, a, b: lead_by_newton(won, a, b, rounds=5, longest=np.inf),
            lambda won, a, b: 0.0,
            lambda won, a, b: float(
                np.log(won.sum() / (~won).sum()) - np.log(np.maximum(a, 1) / np.maximum(b, 1)).mean()
            ),
            lambda won, a, b: 2 * lead_by_steps(won, a, b),
            lambda won, a, b: lead_by_steps(~won, a, b),
            lambda won, a, b: lead_by_steps(won, b, a),
            lambda won, a, b: abs(lead_by_steps(won, a, b)),
            lambda won, a, b: lead_by_steps(won, a, b, steps=1),
            lambda won, a, b: lead_by_steps(won, a**2, b**2),
            lambda won, a, b: lead_by_steps(won, a + 1, b + 1),
            lambda won, a, b: 1 / (1 + math.exp(-lead_by_steps(won, a, b))),
            lambda won, a, b: float((won * 2 - 1).sum()),
        ],
    },
}
