"""Answers to lesson 06's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np


def loop_comparisons(keys, selected):
    rows = []
    for sequence, winner in zip(keys, selected, strict=True):
        rows += [sequence[winner] - key for t, key in enumerate(sequence) if t != winner]
    return rows


def pushes_in_torch(p, keys, scores, selected):
    import torch  # only here: the test of the whole round runs this file in thirty fresh processes

    p, keys, scores = map(torch.as_tensor, (p, keys, scores))
    s = torch.softmax(keys @ p, dim=0)
    return s[selected] * s * (scores[selected] - scores)


def beats_in_a_loop(keys, scores, selected, p_mm):
    answer = []
    for K, gamma, a in zip(keys, scores, selected, strict=True):
        support = [t for t in range(len(K)) if t != a and abs(p_mm @ (K[a] - K[t]) - 1) < 1e-5]
        answer.append(all(gamma[a] > gamma[t] for t in support))
    return answer


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
        "also_right": lambda R, R0, j0, length: np.exp(np.log(j0) + R / length - R0 / length),
        "wrong": [
            lambda R, R0, j0, length: j0 + (R - R0) / length,
            lambda R, R0, j0, length: j0 * (R - R0) / length,
            lambda R, R0, j0, length: j0 * np.exp(R / length),
        ],
    },
    "06.4": {
        "also_right": beats_in_a_loop,
        "wrong": [
            lambda *args: all(beats_in_a_loop(*args)),
            lambda *args: ~np.array(beats_in_a_loop(*args)),
            lambda keys, *rest: np.ones(len(keys), dtype=bool),
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
