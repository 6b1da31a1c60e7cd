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


def threshold_by_vectors(r, gamma):
    """Builds, in a plane through v, the query and W z, and takes their cosine."""
    z = np.stack([np.asarray(gamma), np.sqrt(1 - np.asarray(gamma) ** 2)])
    moved = np.diag([r, 1.0]) @ z
    return (z * moved).sum(axis=0) / np.linalg.norm(moved, axis=0)


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
        "also_right": threshold_by_vectors,
        "wrong": [
            lambda r, gamma: threshold_by_vectors(r**2, gamma),
            lambda r, gamma: threshold_by_vectors(np.sqrt(r), gamma),
            lambda r, gamma: threshold_by_vectors(1 + r, gamma),
            lambda r, gamma: threshold_by_vectors(r, gamma**2),
            lambda r, gamma: threshold_by_vectors(r, gamma).mean(),
            lambda r, gamma: -threshold_by_vectors(r, gamma),
            lambda r, gamma: 1 - threshold_by_vectors(r, gamma),
            lambda r, gamma: np.abs(gamma),
            lambda r, gamma: 1 / np.sqrt(1 + (r - 1) ** 2 * gamma**2),
            lambda r, gamma: np.full_like(gamma, 1 / np.sqrt(r)),
            lambda r, gamma: np.sqrt(1 + (r**2 - 1) * gamma**2),
            lambda r, gamma: 1 + (r - 1) * gamma * (gamma - gamma.mean()),
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
