"""Answers to lesson 10's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np


def first_by_outer_products(X, z, scores, lr):
    """Forms the gradient at W = 0 from pairs of tokens, steps, and reads the logits."""
    n, T, d = X.shape
    W = np.zeros((d, d))
    for x, query, gamma in zip(X, z, scores, strict=True):
        pull = sum((gamma[t] - gamma[r]) * (x[t] - x[r]) for t in range(T) for r in range(t)) / T**2
        W = W + lr / n * np.outer(pull, query) / (1 + np.exp(gamma.mean()))
    return np.stack([x @ W @ query for x, query in zip(X, z, strict=True)])


def first_of_a_trained_p(X, z, scores, lr):
    """A step of one p for all sequences, compared with the tokens."""
    pull = np.einsum("kt,ktd->kd", scores - scores.mean(axis=1, keepdims=True), X) / X.shape[1]
    return X @ (lr * (pull / (1 + np.exp(scores.mean(axis=1)))[:, None]).mean(axis=0))


def first_by_one_outer_product(X, z, scores, lr):
    """Multiplies the mean pull by the mean query."""
    pull = np.einsum("kt,ktd->kd", scores - scores.mean(axis=1, keepdims=True), X) / X.shape[1]
    W = lr * np.outer((pull / (1 + np.exp(scores.mean(axis=1)))[:, None]).mean(axis=0), z.mean(axis=0))
    return np.einsum("itd,de,ie->it", X, W, z)


def first_normalised(X, z, scores, lr):
    """A step of length lr, whatever the gradient's."""
    n, T, _ = X.shape
    unit = first_by_outer_products(X, z, scores, 1.0)
    pull = np.einsum("kt,ktd->kd", scores - scores.mean(axis=1, keepdims=True), X) / T
    G = (pull / (1 + np.exp(scores.mean(axis=1)))[:, None]).T @ z / n
    return lr * unit / np.linalg.norm(G)


def symmetry_by_basis(W, v):
    """In a basis whose first vector is along v, W keeps its first entry and the mean of the others."""
    basis = np.linalg.qr(np.column_stack([v, np.eye(len(v))]))[0]
    turned = np.diag(basis.T @ W @ basis)
    return basis @ np.diag(np.r_[turned[0], np.full(len(v) - 1, turned[1:].mean())]) @ basis.T


def symmetry_by_projection(W, v):
    """The nearest matrix to W in the span of I and vv^T."""
    rows = np.stack([np.eye(len(v)).ravel(), np.outer(v, v).ravel()], axis=1)
    return (rows @ np.linalg.lstsq(rows, W.ravel(), rcond=None)[0]).reshape(W.shape)


def noise_by_sums(n, T, d):
    """Adds up the variances, sequence by sequence, from the scores' own left without their mean."""
    pull = np.trace(np.eye(T) - np.full((T, T), 1 / T)) / d / (2 * T) ** 2  # the mean square of a pull
    noise = sum(pull / d / d for _ in range(n - 1))
    return np.sqrt(noise / (1 / d / (2 * T) ** 2))


def falls_by_radii(growth, d):
    """The radius at which n caps of a sphere hold one rival, before and after."""
    radius = [np.exp(-np.log(n) / (d - 1)) for n in (1.0, growth)]
    return radius[0] / radius[1]


ANSWERS = {
    "10.1": {
        "also_right": first_by_outer_products,
        "wrong": [
            first_of_a_trained_p,
            first_by_one_outer_product,
            first_normalised,
            lambda X, z, scores, lr: first_by_outer_products(X[:1], z[:1], scores[:1], lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z, -scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z, scores, 2 * lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z, 0 * scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, X[:, 0], scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z[::-1], scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, np.abs(z), scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z, np.sign(scores), lr),
            lambda X, z, scores, lr: first_by_outer_products(X[:, ::-1], z, scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z, scores, lr).T,
            lambda X, z, scores, lr: first_by_outer_products(X, z, scores, lr).argmax(axis=1),
        ],
    },
    "10.2": {
        "also_right": symmetry_by_projection,
        "wrong": [
            lambda W, v: symmetry_by_basis(W, np.eye(len(v))[0]),
            lambda W, v: symmetry_by_basis(W, v) / 2,
            lambda W, v: symmetry_by_basis(W, v).sum(axis=0),
            lambda W, v: symmetry_by_basis(-W, v),
            lambda W, v: symmetry_by_basis(W @ W.T, v),
            lambda W, v: symmetry_by_basis(W, W @ v),
            lambda W, v: np.diag(np.diag(W)),
            lambda W, v: np.outer(v, v) @ W @ np.outer(v, v) / (v @ v) ** 2,
            lambda W, v: np.outer(W @ v, v) / (v @ v),
            lambda W, v: W,
            lambda W, v: W[0, 0] * np.eye(len(v)),
            lambda W, v: symmetry_by_basis(W, v) - np.trace(W) / len(v) * np.eye(len(v)),
            lambda W, v: np.median(np.diag(W)) * np.eye(len(v)) + (v @ W @ v) * np.outer(v, v) / (v @ v) ** 2,
        ],
    },
    "10.3": {
        "also_right": noise_by_sums,
        "wrong": [
            lambda n, T, d: noise_by_sums(n, T, d) ** 2,
            lambda n, T, d: noise_by_sums(n + 1, T, d),
            lambda n, T, d: noise_by_sums(n - 1, T, d),
            lambda n, T, d: noise_by_sums(n, T + 1, d),
            lambda n, T, d: noise_by_sums(n, T, d) * np.sqrt(T),
            lambda n, T, d: noise_by_sums(n, T, d) / np.sqrt(n),
            lambda n, T, d: noise_by_sums(n, T, d - 1),
            lambda n, T, d: -noise_by_sums(n, T, d),
            lambda n, T, d: n / d**2,
            lambda n, T, d: n * T / d**2,
            lambda n, T, d: np.sqrt(n / d),
            lambda n, T, d: np.sqrt(n * T / d),
            lambda n, T, d: np.sqrt(n) / d,
            lambda n, T, d: np.log(n) * np.sqrt(T - 1) / d,
        ],
    },
    "10.4": {
        "also_right": falls_by_radii,
        "wrong": [
            lambda growth, d: growth**0.25,
            lambda growth, d: growth ** (1 / (d - 0.5)),
            lambda growth, d: growth ** (1 / (d + 2)),
            lambda growth, d: growth ** (3 / (d - 1)),
            lambda growth, d: growth ** (1 / (d * (d - 1))),
            lambda growth, d: 2 * growth ** (1 / (d - 1)),
            lambda growth, d: growth ** (1 / (d - 1)) - 1,
            lambda growth, d: np.log(growth),
            lambda growth, d: np.sqrt(growth * np.log(growth)),
            lambda growth, d: np.sqrt(growth / (d - 1)),
            lambda growth, d: np.sqrt(growth) * d,
            lambda growth, d: (1 / growth) ** (1 / d),
            lambda growth, d: growth * (d - 1),
            lambda growth, d: 16 ** (1 / (d - 1)),
        ],
    },
}
