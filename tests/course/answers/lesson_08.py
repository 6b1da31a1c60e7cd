"""Answers to lesson 08's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
import torch


def shortfall_in_torch(p, keys, scores):
    p, keys, scores = (torch.as_tensor(a) for a in (p, keys, scores))
    s = torch.softmax(p @ keys.T, dim=1)
    return (s * (scores.max() - scores)).sum(dim=1)


def step_in_a_loop(p, g, eta, R):
    rows = []
    for point, slope in zip(p, g, strict=True):
        q = point - eta * slope
        length = np.sqrt(q @ q)
        rows.append(q if length <= R else q * R / length)
    return rows


def offset_by_elimination(rows, weights, lam):
    """r = rows^T c with (a_j - a_0) . r = b_j - b_0 and r perpendicular to p_mm: one square system for c."""
    b = np.log(weights) - np.log(lam)
    conditions = np.vstack([rows[1:] - rows[0], lam @ rows]) @ rows.T
    return rows.T @ np.linalg.solve(conditions, np.r_[b[1:] - b[0], 0.0])


def jump_by_bisection(length, scores):
    """The lead at which the branch of tokens 1 and 3 falls short by as much as token 2, by halving."""
    low, high = 0.0, 100.0
    for _ in range(100):
        lead = (low + high) / 2
        short = (scores[0] - scores[2]) / (1 + np.exp(lead))
        low, high = (lead, high) if short > scores[0] - scores[1] else (low, lead)
    return lead * length


def mixture_by_equations(keys, share, R):
    """Solve the quadratic equation for the length along one side, and take the root away from token 3."""
    (a, b), c = keys[0] - keys[1], np.log(share[0]) - np.log(share[1])
    candidates = []
    for sign in (-1, 1):
        root = sign * np.sqrt((a * a + b * b) * R * R - c * c)
        candidates.append(
            np.array([(c * a - b * root) / (a * a + b * b), (c * b + a * root) / (a * a + b * b)])
        )
    return max(candidates, key=lambda p: p @ (keys[0] - keys[2]))


def side_by_the_whole(first):
    def answer(keys, share, R):
        (a, b), c = keys[0] - keys[1], np.log(share[0]) - np.log(share[1])
        root = first * np.sqrt((a * a + b * b) * R * R - c * c)
        p = np.array([(c * a - b * root) / (a * a + b * b), (c * b + a * root) / (a * a + b * b)])
        other = np.array([(c * a + b * root) / (a * a + b * b), (c * b - a * root) / (a * a + b * b)])
        return p if p @ (keys[0] - keys[2]) > 0 else other

    return answer


def mixture_on_the_side(product):
    """The root whose part across k_1 - k_2, a unit vector, makes `product(across, keys)` positive."""

    def answer(keys, share, R):
        e, c = keys[0] - keys[1], np.log(share[0]) - np.log(share[1])
        across = np.array([-e[1], e[0]]) / np.linalg.norm(e)
        across = across if product(across, keys) > 0 else -across
        return c * e / (e @ e) + np.sqrt(R * R - c * c / (e @ e)) * across

    return answer


def square_against_R(p, g, eta, R):
    q = p - eta * g
    length = np.linalg.norm(q, axis=1, keepdims=True)
    return np.where(length**2 > R, q * R / np.maximum(length, 1e-300), q)


ANSWERS = {
    "08.1": {
        "also_right": shortfall_in_torch,
        "wrong": [
            lambda p, keys, scores: shortfall_in_torch(p, keys, scores).mean(),
            lambda p, keys, scores: shortfall_in_torch(p, keys, abs(scores)) + 0.1,
            lambda p, keys, scores: shortfall_in_torch(2 * p, keys, scores),
            lambda p, keys, scores: (
                shortfall_in_torch(p, keys, scores).numpy() + abs(scores).max() - scores.max()
            ),
            lambda p, keys, scores: (
                shortfall_in_torch(p, keys, scores).numpy() + max(0, scores.max()) - scores.max()
            ),
        ],
    },
    "08.2": {
        "also_right": step_in_a_loop,
        "wrong": [
            square_against_R,
            lambda p, g, eta, R: step_in_a_loop(p, g, 1.0, R),
            lambda p, g, eta, R: (
                (p - eta * g)
                / np.linalg.norm(p - eta * g, axis=1, keepdims=True)
                * np.minimum(np.linalg.norm(p - eta * g, axis=1, keepdims=True), R)
            ),
            lambda p, g, eta, R: step_in_a_loop(p, g, eta, 1.0),
            lambda p, g, eta, R: np.array(step_in_a_loop(p, g, eta, R)).T,
        ],
    },
    "08.3": {
        "also_right": offset_by_elimination,
        "wrong": [
            lambda rows, weights, lam: 2 * offset_by_elimination(rows, weights, lam),
            lambda rows, weights, lam: -offset_by_elimination(rows, weights, lam),
            lambda rows, weights, lam: offset_by_elimination(rows, weights**2, lam),
        ],
    },
    "08.4": {
        "also_right": jump_by_bisection,
        "wrong": [
            lambda length, scores: jump_by_bisection(length, scores[[0, 2, 1]]),
            lambda length, scores: jump_by_bisection(length, scores / scores[0]) + 1,
            lambda length, scores: jump_by_bisection(length, scores) / length**2,
            lambda length, scores: length * np.log((scores[0] - scores[2]) / (scores[1] - scores[2])),
            lambda length, scores: length * np.log(scores[0] / (scores[0] - scores[1]) - 1),
        ],
    },
    "08.5": {
        "also_right": mixture_by_equations,
        "wrong": [
            lambda keys, share, R: -mixture_by_equations(keys, share, R),
            side_by_the_whole(1),
            side_by_the_whole(-1),
            mixture_on_the_side(lambda across, keys: across @ keys[0]),
            mixture_on_the_side(lambda across, keys: -across @ keys[0]),
            mixture_on_the_side(lambda across, keys: across @ (keys[0] + keys[1])),
            mixture_on_the_side(lambda across, keys: across @ keys[2]),
            mixture_on_the_side(lambda across, keys: -across @ keys[2]),
            *(
                mixture_on_the_side(lambda across, keys, k=k, sign=sign: sign * across[k])
                for k in (0, 1)
                for sign in (1, -1)
            ),
            lambda keys, share, R: mixture_by_equations(keys, share, 2 * R),
            lambda keys, share, R: mixture_by_equations(keys[[0, 2, 1]], share, R),
        ],
    },
}
