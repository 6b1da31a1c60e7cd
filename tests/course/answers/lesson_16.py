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


def until_by_bisection(copies, logits, heights, norm, eta, ahead=lambda votes: votes[0] >= votes[1:].max()):
    low, high = 0.0, 1e6
    copies, logits, heights = (np.asarray(part, dtype=float) for part in (copies, logits, heights))
    if ahead(np.log(copies) + logits):
        return 0.0
    for _ in range(100):
        j = (low + high) / 2
        late = ahead(np.log(copies) + logits + j * eta * heights / norm)
        low, high = (low, j) if late else (j, high)
    return high


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
        "also_right": until_by_bisection,
        "wrong": [
            lambda copies, logits, heights, norm, eta: 0.0,
            lambda copies, logits, heights, norm, eta: norm / eta,
            lambda copies, logits, heights, norm, eta: math.log(max(copies) / copies[0]) * norm / eta,
            lambda copies, logits, heights, norm, eta: until_by_bisection(
                np.ones(len(copies)), logits, heights, norm, eta
            ),
            lambda copies, logits, heights, norm, eta: until_by_bisection(
                copies, 0 * logits, heights, norm, eta
            ),
            lambda copies, logits, heights, norm, eta: until_by_bisection(
                copies, logits, heights, norm, eta, lambda votes: votes[0] >= votes[1:].min()
            ),
            lambda copies, logits, heights, norm, eta: until_by_bisection(
                copies, logits, heights, norm, eta, lambda votes: votes[0] >= votes[1:].mean()
            ),
            lambda copies, logits, heights, norm, eta: until_by_bisection(
                copies[:2], logits[:2], heights[:2], norm, eta
            ),
            lambda copies, logits, heights, norm, eta: until_by_bisection(copies, logits, heights, 1.0, eta),
            lambda copies, logits, heights, norm, eta: until_by_bisection(copies, logits, heights, norm, 1.0),
            lambda copies, logits, heights, norm, eta: until_by_bisection(
                copies, -np.asarray(logits), heights, norm, eta
            ),
            lambda copies, logits, heights, norm, eta: math.floor(
                until_by_bisection(copies, logits, heights, norm, eta)
            ),
            lambda copies, logits, heights, norm, eta: until_by_bisection(
                copies, logits, heights / np.abs(heights).max(), norm, eta
            ),
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
