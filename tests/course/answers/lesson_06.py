"""Answers to lesson 06's exercises: a second right one each, and wrong ones that the checks have to catch."""

import functools

import numpy as np


def loop_comparisons(keys, selected):
    rows = []
    for sequence, winner in zip(keys, selected, strict=True):
        rows += [sequence[winner] - key for t, key in enumerate(sequence) if t != winner]
    return rows


def pushes_in_torch(p, keys, scores, selected):
    import torch  # only here: the test of the whole round runs this file in many fresh processes

    p, keys, scores = map(torch.as_tensor, (p, keys, scores))
    s = torch.softmax(keys @ p, dim=0)
    return s[selected] * s * (scores[selected] - scores)


nodes = functools.cache(np.polynomial.legendre.leggauss)


def beside_by_walking(p, c):
    """By quadrature: sum up the steps across the ray, which die out like exp(p_1)."""
    x, weights = nodes(400)
    e = np.exp(p[0]) * (x + 1) / 2  # exp(p_1) falls from its start to 0
    across = -1 / (c + (1 + c) * e)  # d(p_1 + c p_2) / d(exp p_1) = -across
    return (p[0] + c * p[1] + np.exp(p[0]) / 2 * weights @ across) / np.hypot(1, c)


def beats_in_a_loop(keys, scores, selected, p_mm):
    answer = []
    for K, gamma, a in zip(keys, scores, selected, strict=True):
        support = [t for t in range(len(K)) if t != a and abs(p_mm @ (K[a] - K[t]) - 1) < 1e-5]
        answer.append(all(gamma[a] > gamma[t] for t in support))
    return answer


def beats_with_tolerance(tolerance):
    def answer(keys, scores, selected, p_mm):
        passes = []
        for K, gamma, a in zip(keys, scores, selected, strict=True):
            lead = p_mm @ K[a] - K @ p_mm
            passes.append(bool(np.all(gamma[a] > gamma[np.abs(lead - 1) < tolerance])))
        return passes

    return answer


def beats_the_worst(keys, scores, selected, p_mm):
    """Only the support token of least score is looked at."""
    passes = []
    for K, gamma, a in zip(keys, scores, selected, strict=True):
        support = np.abs(p_mm @ K[a] - K @ p_mm - 1) < 1e-5
        passes.append(not support.any() or gamma[a] > min(gamma[support]))
    return passes


def matrices_by_einsum(X, z, selected):
    n, T, d = X.shape
    own = np.arange(T) == selected[:, None]
    differences = (X[own][:, None] - X)[~own].reshape(n, T - 1, d)
    return np.einsum("itj,ik->itjk", differences, z).reshape(-1, d, d)


ANSWERS = {
    "06.1": {
        "also_right": loop_comparisons,
        "wrong": [
            lambda keys, selected: np.abs(loop_comparisons(keys, selected)),
            lambda keys, selected: keys[np.arange(len(keys)), selected],
            lambda keys, selected: np.array(loop_comparisons(keys, selected))[::-1],
        ],
    },
    "06.2": {
        "also_right": pushes_in_torch,
        "wrong": [
            lambda p, keys, scores, selected: pushes_in_torch(p, keys, scores, selected).sum(),
            lambda p, keys, scores, selected: pushes_in_torch(2 * p, keys, scores, selected),
            lambda p, keys, scores, selected: pushes_in_torch(p, keys, scores, 0),
        ],
    },
    "06.3": {
        "also_right": beside_by_walking,
        "wrong": [
            lambda p, c: np.hypot(*p),
            lambda p, c: abs(beside_by_walking(p, c)),
            lambda p, c: beside_by_walking(p, 2 * c),
            lambda p, c: beside_by_walking(p[::-1] + 0.1, c),
            lambda p, c: (p[0] + c * p[1]) / np.hypot(1, c) - np.log(12) / 1.1 / np.hypot(1, c),
        ],
    },
    "06.4": {
        "also_right": beats_in_a_loop,
        "wrong": [
            lambda *args: all(beats_in_a_loop(*args)),
            lambda *args: ~np.array(beats_in_a_loop(*args)),
            lambda keys, *rest: np.ones(len(keys), dtype=bool),
            lambda keys, scores, selected, p_mm: beats_in_a_loop(keys, scores, selected, -p_mm),
            lambda keys, scores, selected, p_mm: beats_in_a_loop(
                keys, scores, selected, p_mm / np.linalg.norm(p_mm)
            ),
            lambda keys, scores, selected, p_mm: beats_in_a_loop(keys, keys @ p_mm, selected, p_mm),
            lambda keys, scores, selected, p_mm: beats_in_a_loop(keys, scores, 0 * selected, p_mm),
            beats_with_tolerance(0.1),
            beats_with_tolerance(0.02),
            beats_with_tolerance(0.0101),
            lambda keys, *rest: np.zeros(len(keys), dtype=bool),
            lambda keys, scores, selected, p_mm: [
                all(gamma[a] > gamma[p_mm @ K[a] - K @ p_mm <= 1])
                for K, gamma, a in zip(keys, scores, selected, strict=True)
            ],
            beats_with_tolerance(1e-9),
            beats_the_worst,
        ],
    },
    "06.5": {
        "also_right": matrices_by_einsum,
        "wrong": [
            lambda X, z, selected: matrices_by_einsum(X, z, selected).reshape(-1, X.shape[-1] ** 2),
            lambda X, z, selected: matrices_by_einsum(X, z / np.linalg.norm(z), selected),
            lambda X, z, selected: matrices_by_einsum(X, z[::-1], selected),
        ],
    },
}
