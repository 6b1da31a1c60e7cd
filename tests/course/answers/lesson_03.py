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
    """From the eigenvectors (u, v) / sqrt(2) of [[0, G], [G^T, 0]], whose eigenvalues are the +-sigma."""
    rows, columns = G.shape
    unit = G / (np.abs(G).max() or 1.0)
    values, vectors = np.linalg.eigh(
        np.block([[np.zeros((rows, rows)), unit], [unit.T, np.zeros((columns, columns))]])
    )
    kept = vectors[:, values > 1e-12 * values[-1]]
    return -2 * kept[:rows] @ kept[rows:].T


def inverse_root(cut):
    """-G (G^T G)^(-1/2): the squares of singular values below 1e-8 of the largest drown in rounding."""

    def step(G):
        values, vectors = np.linalg.eigh(G.T @ G)
        large = values > cut * values[-1]
        return -G @ (vectors[:, large] / np.sqrt(values[large])) @ vectors[:, large].T

    return step


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


def bounds_with(lower=None, upper=None):
    """The right bounds with one formula replaced: lower(u, w, lam, rho) or upper(S, lam, rho, dual)."""

    def wrong(w, lam, A, rho):
        right = bounds_by_loops(w, lam, A, rho)
        dual = {1: np.inf, np.inf: 1}.get(rho) or rho / (rho - 1)
        return (
            lower(A @ w, w, lam, rho) if lower else right[0],
            upper(lam @ A, lam, rho, dual) if upper else right[1],
        )

    return wrong


def power_sum(v, order):
    """A norm without the absolute values."""
    return v.max() if order == np.inf else (v**order).sum() ** (1 / order)


def norm_above_one(S, lam, rho, dual):
    """Nudges rho to 1.01, where rho / (rho - 1) is a number."""
    rho = max(rho, 1.01)
    return np.linalg.norm(S, 1 if rho == np.inf else rho / (rho - 1)) / lam.sum()


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


def spectrum_by_factors(sigma):
    """Divides by values that may be zero."""
    lifted = sigma / np.linalg.norm(sigma)
    for _ in range(5):
        lifted = 3.4445 * lifted - 4.7750 * lifted**3 + 2.0315 * lifted**5
    lifted = lifted / sigma * sigma
    return np.sort(lifted)[::-1] / lifted.max()


def spectrum_within_the_band(sigma):
    return np.clip(sigma / sigma.max(), 0.68 / 1.2, 1)


ANSWERS = {
    "03.1": {
        "also_right": steps_by_the_library,
        "wrong": [
            lambda g: np.stack([-g, -g, -g]),
            lambda g: -np.sign(g),
            lambda g: steps_by_the_library(g)[:2],
            lambda g: [*steps_by_the_library(g)[:2], -np.sign(g) * (np.abs(g) > 0.1 * np.abs(g).max())],
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
            bounds_with(lambda u, w, lam, rho: u[lam > 0].min() / np.linalg.norm(w, rho)),
            bounds_with(lambda u, w, lam, rho: u.min() / (w.sum() if rho == 1 else np.linalg.norm(w, rho))),
            bounds_with(
                lambda u, w, lam, rho: u.min() / (w.max() if rho == np.inf else np.linalg.norm(w, rho))
            ),
            bounds_with(lambda u, w, lam, rho: u.min() / power_sum(w, rho)),
            bounds_with(lambda u, w, lam, rho: np.abs(u).min() / np.linalg.norm(w, rho)),
            bounds_with(lambda u, w, lam, rho: max(u.min() / np.linalg.norm(w, rho), 0.0)),
            bounds_with(
                upper=lambda S, lam, rho, dual: (
                    (S.max() if dual == np.inf else np.linalg.norm(S, dual)) / lam.sum()
                )
            ),
            bounds_with(
                upper=lambda S, lam, rho, dual: (
                    (S.sum() if dual == 1 else np.linalg.norm(S, dual)) / lam.sum()
                )
            ),
            bounds_with(
                upper=lambda S, lam, rho, dual: (
                    (power_sum(S, dual) if 1 < dual < np.inf else np.linalg.norm(S, dual)) / lam.sum()
                )
            ),
            bounds_with(upper=norm_above_one),
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
            kept(lambda sigma: sigma > 1e-6 * sigma[0]),
            kept(lambda sigma: sigma > 1e-9 * sigma[0]),
            kept(lambda sigma: sigma > 1e-10 * sigma[0]),
            kept(lambda sigma: sigma > 1e-15 * sigma[0]),
            kept(lambda sigma: sigma > np.finfo(float).eps * sigma[0]),
            kept(lambda sigma: sigma > 4 * np.finfo(float).eps * sigma[0]),  # matrix_rank's, about
            inverse_root(1e-12),
            inverse_root(1e-15),
        ],
    },
    "03.6": {
        "also_right": spectrum_of_a_matrix,
        "wrong": [
            spectrum_of_six,
            spectrum_within_the_band,
            lambda sigma: sigma[::-1] / sigma[0],
            spectrum_by_factors,
            lambda sigma: spectrum_of_a_matrix(sigma[sigma > 0]),
            lambda sigma: np.unique(spectrum_of_a_matrix(sigma).numpy().round(9))[::-1],
        ],
    },
}
