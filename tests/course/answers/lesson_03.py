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


def bounds_by_loops(w, lam, A, rho):
    def norm(v, order):
        largest = max(abs(float(c)) for c in v)
        if order == np.inf:
            return largest
        return largest * sum((abs(float(c)) / largest) ** order for c in v) ** (1 / order)

    q = {1: np.inf, np.inf: 1}.get(rho) or 1 / (1 - 1 / rho)
    total = [sum(weight * row[j] for weight, row in zip(lam, A, strict=True)) for j in range(A.shape[1])]
    worst = min(sum(c * b for c, b in zip(w, row, strict=True)) for row in A)
    return [worst / norm(w, rho), norm(total, q) / sum(lam)]


def mirror_by_the_library(w, g, eta, rho):
    return moved(lambda v: optim.MirrorDescent(v, lr=eta, p=rho), g, start=w)


def spectral_by_the_library(G):
    return moved(lambda W: optim.SpectralDescent(W, lr=1.0), G)


def polar_factor(G):
    """-G (G^T G)^(-1/2), with the pseudo-inverse of the root, or the same from the other side."""
    if G.shape[0] < G.shape[1]:
        return polar_factor(G.T).T
    unit = G / (np.abs(G).max() or 1.0)
    values, vectors = np.linalg.eigh(unit.T @ unit)
    large = values > 1e-14 * values[-1]
    return -unit @ (vectors[:, large] / np.sqrt(values[large])) @ vectors[:, large].T


def torch_svd(G):
    """U V^T, null directions and all, as LAPACK gives it to torch."""
    U, _, Vh = torch.linalg.svd(torch.tensor(G), full_matrices=False)
    return -U @ Vh


def kept(limit):
    """The spectral step with singular values kept where limit(sigma) says so."""

    def step(G):
        left, sigma, right = np.linalg.svd(G, full_matrices=False)
        return -left @ np.diag(limit(sigma).astype(float)) @ right

    return step


def safe_by_search(mu_hat, a_max, n, share):
    """Tries lengths, finer and finer: the steps for each are what makes the guarantee an equality."""
    low, high = 0.0, 2 * share * mu_hat / a_max**2
    for _ in range(40):
        eta = np.linspace(low, high, 102)[1:-1]
        steps = np.log(n) / eta / (share * mu_hat - a_max**2 * eta / 2)
        k = steps.argmin()
        low, high = eta[max(k - 1, 0)], eta[min(k + 1, 99)]
    return [(low + high) / 2, torch.tensor(steps[k])]


def safe_halves(mu_hat, a_max, n, share):
    """Splits the loss of margin in halves, but forgets the 1/2 of the first term."""
    eta = share * mu_hat / 2 / a_max**2
    return eta, 2 * np.log(n) / (eta * share * mu_hat)


def safe_whole(mu_hat, a_max, n, share):
    """Gives each term the whole loss of margin."""
    eta = 2 * share * mu_hat / a_max**2
    return eta, np.log(n) / (eta * share * mu_hat)


def spectrum_of_a_matrix(sigma):
    """The polynomial on a matrix that has these singular values."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(len(sigma), len(sigma))))[0] for _ in range(2))
    P = left @ np.diag(sigma) @ right
    P = torch.tensor(P / np.linalg.norm(P))
    for _ in range(5):
        square = P @ P.T
        P = 3.4445 * P - 4.7750 * square @ P + 2.0315 * square @ square @ P
    values = torch.linalg.svdvals(P)
    return values / values[0]


def spectrum_of_six(sigma):
    values = np.sort(sigma / np.linalg.norm(sigma))
    for _ in range(6):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return np.sort(values)[::-1] / values.max()


def spectrum_within_the_band(sigma):
    return np.clip(sigma / sigma.max(), 0.68 / 1.2, 1)


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
            lambda w, lam, A, rho: bounds_by_loops(w, lam, A, rho)[::-1],
            lambda w, lam, A, rho: (
                bounds_by_loops(w, lam, A, rho)[0],
                bounds_by_loops(w, 1 + 0 * lam, A, rho)[1],
            ),
            lambda w, lam, A, rho: (np.abs(A @ w).max() / np.linalg.norm(w, rho), 0.0),
            lambda w, lam, A, rho: (np.abs(A @ w).min() / np.linalg.norm(w, rho) + 1e-3, 1.0),
            lambda w, lam, A, rho: (bounds_by_loops(w, lam, A, rho)[0] / len(A), 0.0),
        ],
    },
    "03.3": {"also_right": safe_by_search, "wrong": [safe_halves, safe_whole]},
    "03.4": {
        "also_right": mirror_by_the_library,
        "wrong": [
            lambda w, g, eta, rho: w - eta * g / np.linalg.norm(g),
            lambda w, g, eta, rho: mirror_by_the_library(w, g, 1.0, rho),
            lambda w, g, eta, rho: w,
            lambda w, g, eta, rho: mirror_by_the_library(np.where(w == 0, 1e-3, w), g, eta, rho),
        ],
    },
    "03.5": {
        "also_right": polar_factor,
        "wrong": [
            lambda G: spectral_by_the_library(G).T,
            lambda G: 0 * G,
            torch_svd,
            kept(lambda sigma: sigma > 1e-12),
            kept(lambda sigma: sigma > 1e-3 * sigma[0]),
            kept(lambda sigma: sigma >= 1e-12 * sigma[0]),
        ],
    },
    "03.6": {
        "also_right": spectrum_of_a_matrix,
        "wrong": [spectrum_of_six, spectrum_within_the_band, lambda sigma: sigma[::-1] / sigma[0]],
    },
}
