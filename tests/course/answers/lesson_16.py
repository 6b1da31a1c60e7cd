"""Answers to lesson 16's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math

import numpy as np
import torch

from mini_attn import svm
from mini_attn.vocabulary import NextTokens, closure, priorities


def relations_by_library(tokens, target, following):
    E = torch.eye(len(following), dtype=torch.float64)
    arrays = (torch.as_tensor(np.asarray(x)) for x in (following, tokens, target))
    return priorities(NextTokens(E, *arrays))


def relations_in_loops(tokens, target, following, keep=lambda q, a, b: True):
    V = len(following)
    above = np.zeros((V, V, V), dtype=bool)
    for sequence, y in zip(tokens, target, strict=True):
        q = sequence[-1]
        for a in sequence:
            for b in sequence:
                if following[a] == y != following[b] and keep(q, a, b):
                    above[q, a, b] = True
    return above


def query_never_wins(tokens, target, following):
    """The query is left out where it is optimal, its earlier copies are not."""
    above = np.zeros((len(following),) * 3, dtype=bool)
    for sequence, y in zip(tokens, target, strict=True):
        lose = following[sequence] != y
        above[sequence[-1], sequence[:-1][~lose[:-1], None], sequence[lose]] = True
    return above


def contradictions_dropped(above):
    return above & ~above.transpose(0, 2, 1)


def values_by_solver(following):
    following = torch.as_tensor(np.asarray(following))
    return svm.solve(svm.next_problem(torch.eye(len(following), dtype=torch.float64), following)).value


def slope_by_solver(lengths, eta):
    squares = 0.0
    for m in lengths:
        heights = np.arange(m) - (m - 1) / 2
        squares += (heights**2).sum()
    return torch.tensor(-eta / math.sqrt(squares))


def decided_by_library(above, tokens, order=lambda above: closure(torch.as_tensor(above)).numpy()):
    order = order(above)
    found = []
    for sequence in tokens:
        different = set(map(int, sequence))
        winner = [a for a in different if all(order[a, b] for b in different - {a})]
        found.append(winner[0] if winner else -1)
    return found


def squared(above, rounds):
    for _ in range(rounds):
        above = above | (above.astype(int) @ above > 0)
    return above


def longer(above, k=2):
    return np.linalg.matrix_power(above.astype(int), k) > 0


def overflowing(above):
    paths = above.astype(np.int8)
    for _ in range(9):
        paths = paths + paths @ paths
    return paths > 0


def champion(above, tokens):
    """Stops at the first pair that is not comparable, though a later token may be above both."""
    order, found = closure(torch.as_tensor(above)).numpy(), []
    for sequence in tokens:
        best = sequence[0]
        for b in sequence[1:]:
            if best != b and not (order[best, b] or order[b, best]):
                best = -1
                break
            best = b if order[b, best] else best
        found.append(int(best))
    return found


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
        "also_right": relations_by_library,
        "wrong": [
            lambda tokens, target, following: relations_in_loops(tokens, target, following)[
                : tokens.max() + 1, : tokens.max() + 1, : tokens.max() + 1
            ],
            lambda tokens, target, following: relations_in_loops(tokens, target, following)[0],
            lambda tokens, target, following: relations_in_loops(
                tokens, target, following, lambda q, a, b: b != q
            ),
            lambda tokens, target, following: relations_in_loops(
                tokens, target, following, lambda q, a, b: a != q
            ),
            lambda tokens, target, following: relations_in_loops(tokens[:1], target[:1], following),
            lambda tokens, target, following: relations_in_loops(tokens, target, np.arange(len(following))),
            lambda tokens, target, following: ~relations_in_loops(tokens, target, following),
            lambda tokens, target, following: relations_in_loops(tokens, following[target], following),
            lambda tokens, target, following: relations_in_loops(tokens[:, ::-1], target, following),
            lambda tokens, target, following: relations_in_loops(
                tokens, target, following, lambda q, a, b: a < b
            ),
            lambda tokens, target, following: relations_in_loops(tokens[:-1], target[:-1], following),
            lambda tokens, target, following: contradictions_dropped(
                relations_in_loops(tokens, target, following)
            ),
            lambda tokens, target, following: relations_in_loops(tokens, target, following).astype(float) * 2,
            lambda tokens, target, following: (  # all that go before the answer, in the sequence or not
                relations_in_loops(tokens, target, following)
                | relations_in_loops(
                    np.c_[np.tile(np.arange(len(following)), (len(tokens), 1)), tokens], target, following
                )
            ),
            query_never_wins,
        ],
    },
    "16.2": {
        "also_right": values_by_solver,
        "wrong": [
            lambda following: values_by_solver(following).T,
            lambda following: np.eye(len(following))[following],
            lambda following: np.eye(len(following))[following] - 1 / len(following),
            lambda following: 2 * values_by_solver(following),
            lambda following: values_by_solver(following) / values_by_solver(following).norm(),
            lambda following: values_by_solver(np.arange(len(following))),
            lambda following: np.eye(len(following))[following].T - 1 / (len(following) - 1),
            lambda following: np.eye(len(following))[following].T - 0.5,
        ],
    },
    "16.3": {
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
    "16.4": {
        "also_right": decided_by_library,
        "wrong": [
            lambda above, tokens: decided_by_library(above, tokens, lambda above: squared(above, 4)),
            lambda above, tokens: [
                found if len(sequence) > 1 else -1
                for found, sequence in zip(decided_by_library(above, tokens), tokens, strict=True)
            ],
            lambda above, tokens: tokens[:, 0],
            lambda above, tokens: tokens[:, -1],
            lambda above, tokens: np.full(len(tokens), -1),
            lambda above, tokens: decided_by_library(above.T, tokens),
            lambda above, tokens: decided_by_library(above, tokens, lambda above: above),
            lambda above, tokens: decided_by_library(
                above, tokens, lambda above: above.astype(float) @ above > 0
            ),
            lambda above, tokens: decided_by_library(above, tokens)[::-1],
            *(
                lambda above, tokens, k=k: decided_by_library(above, tokens, lambda A: squared(A, k))
                for k in (1, 2)
            ),
            lambda above, tokens: decided_by_library(above, tokens, lambda A: A | longer(A) | longer(A, 3)),
            lambda above, tokens: decided_by_library(above, tokens, overflowing),
            champion,
            lambda above, tokens: np.array(decided_by_library(above, tokens)) >= 0,
            lambda above, tokens: np.sort(tokens, axis=1)[:, 0],
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
