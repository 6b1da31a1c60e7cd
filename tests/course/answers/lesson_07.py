"""Answers to lesson 07's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
import torch


def choices_by_counting(n, T):
    return [[(k // T ** (n - 1 - i)) % T for i in range(n)] for k in range(T**n)]


def step_in_a_loop(keys, scores, alpha, p_mm):
    step = np.zeros_like(p_mm)
    for key, score in zip(keys, scores, strict=True):
        if abs((keys[alpha] - key) @ p_mm - 1) < 1e-5:
            step += (scores[alpha] - score) * (keys[alpha] - key)
    return step / np.sqrt(step @ step)


def held_in_a_loop(p, start, keys, selected):
    answer = []
    for c in range(len(p)):
        same = [int(np.argmax(K @ p[c])) == a for K, a in zip(keys[c], selected[c], strict=True)]
        answer.append(all(same) and p[c] @ p[c] > start[c] @ start[c])
    return answer


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


ANSWERS = {
    "07.1": {
        "also_right": choices_by_counting,
        "wrong": [
            lambda n, T: choices_by_counting(n, T)[::-1],
            lambda n, T: T**n,
            lambda n, T: choices_by_counting(n, T)[:-1],
        ],
    },
    "07.2": {
        "also_right": step_in_a_loop,
        "wrong": [
            lambda keys, scores, alpha, p_mm: step_in_a_loop(keys, scores**2, alpha, p_mm),
            lambda keys, scores, alpha, p_mm: step_in_a_loop(keys, scores, alpha, 2 * p_mm) * 0.5,
            lambda keys, scores, alpha, p_mm: keys[alpha] / np.linalg.norm(keys[alpha]),
        ],
    },
    "07.3": {
        "also_right": held_in_a_loop,
        "wrong": [
            lambda *args: ~np.array(held_in_a_loop(*args)),
            lambda *args: all(held_in_a_loop(*args)),
            lambda p, start, keys, selected: held_in_a_loop(start, p, keys, selected),
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
            lambda *args: np.array(["undecided", "other", "global"])[outcomes_in_a_loop(*args)],
        ],
    },
}
