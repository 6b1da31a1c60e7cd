"""Answers to lesson 18's exercises: a second right one each, and wrong ones that the checks have to catch."""

import itertools

import numpy as np


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


def pairs_in_steps(K, Q, M, far, steps=30, pull=(1.0, 1.0), scale=None, turns=False):
    """Short steps, as a learner would take them; or K and Q by turns, each for half of the way."""
    W_0, scale = K @ Q.T, 1 / np.sqrt(K.shape[1]) if scale is None else scale
    moved = np.zeros_like(M)
    while (gone := np.linalg.norm(moved)) < far * (1 - 1e-9):
        first = gone < far / 2
        a, b = (pull[0], pull[1]) if not turns else (float(first), float(not first))
        slope_K, slope_Q = a * M @ Q, b * M.T @ K
        h = far / steps / (scale * np.linalg.norm(slope_K @ Q.T + K @ slope_Q.T))
        K, Q = K + h * slope_K, Q + h * slope_Q
        moved = scale * (K @ Q.T - W_0)
    return moved


def pairs_by_midpoints(K, Q, M, far, steps=40):
    """Fewer steps, each along the slopes at its middle, and the last ones shorter."""
    W_0, root, moved = K @ Q.T, np.sqrt(K.shape[1]), 0 * M
    while (gone := np.linalg.norm(moved)) < 0.999 * far:
        a, b = M @ Q, M.T @ K
        h = min(far / steps, far - gone) * root / np.linalg.norm(a @ Q.T + K @ b.T)
        K, Q = K + h * M @ (Q + h / 2 * b), Q + h * M.T @ (K + h / 2 * a)
        moved = (K @ Q.T - W_0) / root
    return moved


def given_in_matrices(c, mean=lambda row: row.mean(), part=lambda T: -np.ones(T) / T, picks=np.argmax):
    """W and the SVM's direction as matrices in the basis of the tokens, position by position."""
    T = len(c)
    W, V = np.zeros((2, T, T))
    for k, row in enumerate(c):
        W[:, k] = row - mean(row)
        V[:, k] = part(T)
        V[picks(row), k] += 1
    return (W * V).sum() / np.sqrt((W**2).sum() * (V**2).sum())


def mixed_by_subsets(X, v, y, least=0.0, best=max, value=lambda m, goal: goal @ m / np.linalg.norm(m)):
    """Least squares over each set of tokens; the best of those with no coefficient below `least`."""
    found = []
    for size in range(1, len(X) + 1):
        for those in itertools.combinations(range(len(X)), size):
            s = np.zeros(len(X))
            s[list(those)] = np.linalg.lstsq(X[list(those)].T, y * v, rcond=None)[0]
            if s.min() >= least and s.sum() > 0:
                found.append((value(X.T @ s, y * v), *(s / s.sum())))
    return np.array(best(found)[1:])


def mixed_in_pairs(X, v, y):
    """The best mixture of two tokens."""
    a = np.linspace(0, 1, 2001)[:, None]
    found = []
    for i, j in itertools.combinations(range(len(X)), 2):
        m = a * X[i] + (1 - a) * X[j]
        f = y * m @ v / np.linalg.norm(m, axis=1)
        s = np.zeros(len(X))
        s[i], s[j] = a[f.argmax(), 0], 1 - a[f.argmax(), 0]
        found.append((f.max(), *s))
    return np.array(max(found)[1:])


def softmax_of(scores):
    e = np.exp(scores - scores.max())
    return e / e.sum()


ANSWERS = {
    "18.1": {
        "also_right": given_in_matrices,
        "wrong": [
            lambda c: given_in_matrices(c, mean=lambda row: 0.0),
            lambda c: given_in_matrices(c, mean=np.median),
            lambda c: given_in_matrices(c, part=np.zeros),
            lambda c: given_in_matrices(c, part=lambda T: np.ones(T) / T),
            lambda c: given_in_matrices(c.T),
            lambda c: given_in_matrices(c, picks=np.argmin),
            lambda c: given_in_matrices(c, picks=lambda row: np.abs(row).argmax()),
            lambda c: given_in_matrices(c, picks=lambda row: 0),
            lambda c: -given_in_matrices(c),
            lambda c: given_in_matrices(c) ** 2,
            lambda c: np.arccos(given_in_matrices(c)),
            lambda c: given_in_matrices(c[:1].repeat(len(c), 0)),
            lambda c: given_in_matrices(np.sign(c)),
            lambda c: given_in_matrices(c) * (1 - 1 / len(c)),
            lambda c: float(np.mean(c.max(1)) * np.sqrt(len(c)) / (len(c) - 1)),
            lambda c: 1 / np.sqrt(len(c)),
        ],
    },
    "18.2": {
        "also_right": pairs_by_midpoints,
        "wrong": [
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far, steps=8),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far, steps=1),
            lambda K, Q, M, far: pairs_in_steps(Q, K, M, far),
            lambda K, Q, M, far: pairs_in_steps(Q, K, M.T, far),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M.T, far),
            lambda K, Q, M, far: pairs_in_steps(K, Q, -M, far),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far, turns=True),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far, pull=(1.0, 0.0)),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far, pull=(0.0, 1.0)),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far, pull=(1.0, 0.5)),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, 2 * far),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far**2),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far * np.sqrt(K.shape[1]), scale=1.0),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far, scale=1 / K.shape[1]),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far, scale=1.0),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far) + K @ Q.T / np.sqrt(K.shape[1]),
            lambda K, Q, M, far: pairs_in_steps(K, Q, M, far) / far,
            lambda K, Q, M, far: -pairs_in_steps(K, Q, M, far),
            lambda K, Q, M, far: far * M / np.abs(M).sum(),
            lambda K, Q, M, far: far * (K @ Q.T) / np.linalg.norm(K @ Q.T),
            lambda K, Q, M, far: (M @ Q @ Q.T + K @ K.T @ M) / np.sqrt(K.shape[1]),
            lambda K, Q, M, far: far * M @ Q @ Q.T / np.linalg.norm(M @ Q @ Q.T),
        ],
    },
    "18.3": {
        "also_right": mixed_by_subsets,
        "wrong": [
            lambda X, v, y: mixed_by_subsets(X, v, y, best=min),
            lambda X, v, y: mixed_by_subsets(X, v, 1),
            lambda X, v, y: mixed_by_subsets(X - X.mean(0), v, y),
            lambda X, v, y: mixed_by_subsets(X / np.linalg.norm(X, axis=1, keepdims=True), v, y),
            lambda X, v, y: mixed_by_subsets(X, v, y, least=-np.inf),
            lambda X, v, y: mixed_by_subsets(X, v, y, value=lambda m, goal: goal @ (m / np.abs(m).sum())),
            lambda X, v, y: mixed_by_subsets(X, v, y) * len(X),
            lambda X, v, y: y * mixed_by_subsets(X, v, y),
            lambda X, v, y: np.sqrt(mixed_by_subsets(X, v, y)),
            lambda X, v, y: softmax_of(mixed_by_subsets(X, v, y)),
            lambda X, v, y: (mixed_by_subsets(X, v, y) > 0) / (mixed_by_subsets(X, v, y) > 0).sum(),
            lambda X, v, y: np.eye(len(X))[mixed_by_subsets(X, v, y).argmax()],
            mixed_in_pairs,
            lambda X, v, y: softmax_of(y * X @ v / np.linalg.norm(X, axis=1)),
            lambda X, v, y: softmax_of(10 * y * X @ v),
            lambda X, v, y: X.T @ mixed_by_subsets(X, v, y),
            lambda X, v, y: np.ones(len(X)),
        ],
    },
    "18.4": {
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
}
