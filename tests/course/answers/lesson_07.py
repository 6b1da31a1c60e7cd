"""Answers to lesson 07's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
import torch


def winners_in_a_loop(tight):
    total = 0
    for row in tight:
        probability = 1.0
        for k in row:
            probability /= int(k) + 1
        total += probability
    return total


def step_in_a_loop(keys, scores, alpha, p_mm):
    step = np.zeros_like(p_mm)
    for key, score in zip(keys, scores, strict=True):
        if abs((keys[alpha] - key) @ p_mm - 1) < 1e-5:
            step += (scores[alpha] - score) * (keys[alpha] - key)
    return step / np.sqrt(step @ step)


def step_with_soft_support(keys, scores, alpha, p_mm):
    ahead = keys[alpha] - keys
    step = ((scores[alpha] - scores) * np.exp(200 * np.minimum(1 - ahead @ p_mm, 0))) @ ahead
    return step / np.linalg.norm(step)


def step_within(tolerance):
    def answer(keys, scores, alpha, p_mm):
        ahead = keys[alpha] - keys
        step = ((scores[alpha] - scores) * (np.abs(ahead @ p_mm - 1) < tolerance)) @ ahead
        return step / np.linalg.norm(step)

    return answer


def harmless_by_bisection(a, b, scores):
    """The p_2 at which the forces across the ray cancel, by bisection."""
    second, third = scores[0] - scores[1], scores[0] - scores[2]
    low, high = -50.0, 50.0
    for _ in range(200):
        middle = (low + high) / 2
        upward = a * second * np.exp(-a * middle) > b * third * np.exp(b * middle)
        low, high = (middle, high) if upward else (low, middle)
    return scores[0] + second * np.exp(-a * low) + third * np.exp(b * low)


def cone_in_torch(keys, selected, p_mm):
    keys, p_mm = torch.as_tensor(keys), torch.as_tensor(p_mm)
    angles = []
    for K, a in zip(keys, selected, strict=True):
        others = torch.cat([K[:a], K[a + 1 :]])
        sines = torch.cosine_similarity(K[a] - others, p_mm[None]).clamp(max=1)
        angles.append(90 - torch.rad2deg(torch.acos(sines)))
    return torch.cat(angles).min()


def outcomes_in_a_loop(attention, scores):
    codes = []
    for s, gamma in zip(attention, scores, strict=True):
        if (s.max(axis=1) <= 0.99).any():
            codes.append(0)
        else:
            best = [scores_i[s_i.argmax()] == max(scores_i) for s_i, scores_i in zip(s, gamma, strict=True)]
            codes.append(2 if all(best) else 1)
    return codes


def best_of(attention, scores):
    selected = attention.argmax(-1)[..., None]
    return (np.take_along_axis(scores, selected, -1)[..., 0] == scores.max(-1)).all(-1)


def nearly_best(attention, scores):
    return ((attention * scores).sum(-1) >= 0.99 * scores.max(-1)).all(-1)


ANSWERS = {
    "07.1": {
        "also_right": winners_in_a_loop,
        "wrong": [
            lambda tight: winners_in_a_loop(tight.T),
            lambda tight: winners_in_a_loop(tight - 0.5),
            lambda tight: round(winners_in_a_loop(tight)),
            lambda tight: len(tight) * float(np.prod(1 / (tight.mean(axis=0) + 1))),
        ],
    },
    "07.2": {
        "also_right": step_in_a_loop,
        "wrong": [
            lambda keys, scores, alpha, p_mm: step_in_a_loop(keys, scores**2, alpha, p_mm),
            lambda keys, scores, alpha, p_mm: step_in_a_loop(keys, scores, alpha, 2 * p_mm) * 0.5,
            lambda keys, scores, alpha, p_mm: keys[alpha] / np.linalg.norm(keys[alpha]),
            step_with_soft_support,
            step_within(0.1),
            step_within(0.03),
        ],
    },
    "07.3": {
        "also_right": harmless_by_bisection,
        "wrong": [
            lambda a, b, scores: harmless_by_bisection(b, a, scores),
            lambda a, b, scores: harmless_by_bisection(a, b, scores[[0, 2, 1]]),
            lambda a, b, scores: 3 * scores[0],
            lambda a, b, scores: 2 * scores[0] - scores[1:].min(),
        ],
    },
    "07.4": {
        "also_right": cone_in_torch,
        "wrong": [
            lambda *args: 2 * cone_in_torch(*args),
            lambda *args: 90 - cone_in_torch(*args),
            lambda keys, selected, p_mm: cone_in_torch(keys[:1], selected[:1], p_mm) - 1,
        ],
    },
    "07.5": {
        "also_right": outcomes_in_a_loop,
        "wrong": [
            lambda attention, scores: [2 - code for code in outcomes_in_a_loop(attention, scores)],
            lambda attention, scores: sum(outcomes_in_a_loop(attention, scores)),
            lambda attention, scores: attention.argmax(-1) == scores.argmax(-1),
            lambda attention, scores: np.where(
                (attention.max(-1) >= 0.99).all(-1), 1 + best_of(attention, scores), 0
            ),
            lambda attention, scores: np.where(
                (attention.max(-1) > 0.99).all(-1), 1 + nearly_best(attention, scores), 0
            ),
            lambda attention, scores: np.where(
                (np.sort(attention)[..., -2:].sum(-1) > 0.99).all(-1), 1 + best_of(attention, scores), 0
            ),
        ],
    },
}
