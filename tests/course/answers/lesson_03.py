"""Lesson 03: a second right answer for each exercise, and more wrong ones.

Where `mini_attn` or torch can answer, they do: what learners write from scratch equals the library.
"""

import numpy as np
import torch

from mini_attn import optim


def moved(make, gradient, start=None):
    """Where an optimiser goes from `start` (zero by default) in one step."""
    start = np.zeros_like(gradient) if start is None else start
    parameter = torch.nn.Parameter(torch.tensor(start))
    parameter.grad = torch.tensor(gradient)
    make([parameter]).step()
    return parameter.detach().numpy()


def steps_by_the_library(g):
    coordinate = np.where(np.abs(g) == np.abs(g).max(), -np.sign(g), 0.0)
    return [
        coordinate,
        moved(lambda w: optim.NormalizedGD(w, lr=1.0), g),
        moved(lambda w: optim.SignDescent(w, lr=1.0), g),
    ]


def bounds_by_loops(w, lam, A, p):
    def norm(v, order):
        largest = max(abs(float(c)) for c in v)
        if order == np.inf:
            return largest
        return largest * sum((abs(float(c)) / largest) ** order for c in v) ** (1 / order)

    q = {1: np.inf, np.inf: 1}.get(p) or 1 / (1 - 1 / p)
    total = [sum(weight * row[j] for weight, row in zip(lam, A, strict=True)) for j in range(A.shape[1])]
    worst = min(sum(c * b for c, b in zip(w, row, strict=True)) for row in A)
    return [worst / norm(w, p), norm(total, q) / sum(lam)]


def mirror_by_the_library(w, g, eta, p):
    return moved(lambda v: optim.MirrorDescent(v, lr=eta, p=p), g, start=w)


def spectral_by_the_library(G):
    return moved(lambda W: optim.SpectralDescent(W, lr=1.0), G)


def polar_factor(G):
    """-G (G^T G)^(-1/2), with the pseudo-inverse of the root, or the same from the other side."""
    if G.shape[0] < G.shape[1]:
        return polar_factor(G.T).T
    values, vectors = np.linalg.eigh(G.T @ G)
    kept = values > 1e-12 * values[-1]
    return -G @ (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T


def torch_svd(G):
    """U V^T, null directions and all, as LAPACK gives it to torch."""
    U, _, Vh = torch.linalg.svd(torch.tensor(G), full_matrices=False)
    return -U @ Vh


def polynomial_of_singular_values(G, steps):
    U, s, Vt = np.linalg.svd(G / np.linalg.norm(G), full_matrices=False)
    for _ in range(steps):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return U @ np.diag(s) @ Vt


def forgets_to_renew_the_product(G, steps):
    P = G / np.linalg.norm(G)
    square = P @ P.T
    for _ in range(steps + 1):
        P = 3.4445 * P + (-4.7750 * square + 2.0315 * square @ square) @ P
    return P


ANSWERS = {
    "03.1": {
        "also_right": steps_by_the_library,
        "wrong": [
            lambda g: np.stack([-g, -g, -g]),
            lambda g: -np.sign(g),
            lambda g: steps_by_the_library(g)[:2],
        ],
    },
    "03.2": {
        "also_right": bounds_by_loops,
        "wrong": [
            lambda w, lam, A, p: bounds_by_loops(w, lam, A, p)[::-1],
            lambda w, lam, A, p: (bounds_by_loops(w, lam, A, p)[0], bounds_by_loops(w, 1 + 0 * lam, A, p)[1]),
            lambda w, lam, A, p: (np.abs(A @ w).max() / np.linalg.norm(w, p), 0.0),
        ],
    },
    "03.3": {
        "also_right": mirror_by_the_library,
        "wrong": [
            lambda w, g, eta, p: w - eta * g / np.linalg.norm(g),
            lambda w, g, eta, p: mirror_by_the_library(w, g, 1.0, p),
            lambda w, g, eta, p: w,
            lambda w, g, eta, p: mirror_by_the_library(np.where(w == 0, 1e-3, w), g, eta, p),
        ],
    },
    "03.4": {
        "also_right": polar_factor,
        "wrong": [lambda G: spectral_by_the_library(G).T, lambda G: 0 * G, torch_svd],
    },
    "03.5": {
        "also_right": polynomial_of_singular_values,
        "wrong": [
            forgets_to_renew_the_product,
            lambda G, steps: polynomial_of_singular_values(G, steps + 1),
            lambda G, steps: G / np.linalg.norm(G),
        ],
    },
}
