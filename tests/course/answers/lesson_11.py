"""Answers to lesson 11's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
import torch


def rest_by_loop(lam, slope, difference, eps):
    total = 0.0
    for i, row in enumerate(lam):
        for t, weight in enumerate(row):
            if weight > 0:
                total += weight * (np.log(slope[i] * difference[i, t]) - np.log(2 * len(lam) * eps * weight))
    return torch.tensor(total)


def rest_with_tokens_for_sequences(lam, slope, difference, eps):
    """Divides by the number of tokens."""
    tight = lam > 0
    force = (slope[:, None] * difference)[tight] / lam.shape[1]
    return (lam[tight] * np.log(force / (2 * eps * lam[tight]))).sum()


def rest_at_one_lead(lam, slope, difference, eps):
    return lam.sum() * np.log(1 / (2 * eps))


def rest_by_differences(lam, slope, difference, eps):
    """Counts a comparison where its difference is positive."""
    keep = difference > 0
    weight = np.where(keep, np.maximum(lam, 1e-3), 1.0)
    return (
        np.where(
            keep,
            weight * np.log(slope[:, None] * np.abs(difference) / len(lam) / (2 * eps * weight) + 1e-300),
            0,
        )
    ).sum()


def newcomer_by_torch(K, Q, S, growth):
    K, Q, S = map(torch.as_tensor, (K, Q, S))
    left, singular, right = torch.linalg.svd(S)
    part = K.T @ left[:, 0] + Q.T @ right[0]
    return (part @ part).item(), ((part @ part) * torch.exp(singular[0] * np.log(growth))).item()


def newcomer_by_power(K, Q, S, growth):
    """Power iteration on the stacked pair's generator."""
    H = np.block([[np.zeros_like(S), S], [S.T, np.zeros_like(S)]])
    values, vectors = np.linalg.eigh(H)
    part = np.sqrt(2) * vectors[:, -1] @ np.concatenate([K, Q])
    return [part @ part, part @ part * growth ** values[-1]]


def newcomer_of_columns(K, Q, S, growth):
    left, s, right = np.linalg.svd(S)
    now = np.linalg.norm(left[:, 0] @ K) + np.linalg.norm(right[0] @ Q)
    return now**2, now**2 * growth ** s[0]


def newcomer_in_log(K, Q, S, growth):
    left, s, right = np.linalg.svd(S)
    now = ((left[:, 0] @ K + right[0] @ Q) ** 2).sum()
    return now, now * np.exp(s[0] * growth)


def newcomer_with_rows(K, Q, S, growth):
    """Takes rows of numpy's left factor and columns of its right one."""
    left, s, right = np.linalg.svd(S)
    now = ((left[0] @ K + right[:, 0] @ Q) ** 2).sum()
    return now, now * growth ** s[0]


def verdict_by_eigenvalues(K, Q, S, tol):
    if np.linalg.eigvalsh(S.T @ S)[-1] <= (1 + tol) ** 2:
        return "arrived"
    gram = K.T @ K + Q.T @ Q
    return "slow" if np.linalg.eigvalsh(gram)[0] <= tol**2 * np.trace(gram) else "stuck"


def verdict_by_the_product(K, Q, S, tol):
    """The singular values of W in the m columns."""
    s = np.linalg.svd(K @ Q.T, compute_uv=False)[: K.shape[1]]
    return "arrived" if np.linalg.norm(S, 2) <= 1 + tol else "slow" if s[-1] <= tol**2 * s.sum() else "stuck"


def verdict_without_stuck(K, Q, S, tol):
    return "arrived" if np.linalg.norm(S, 2) <= 1 + tol else "slow"


def verdict_by_balance(K, Q, S, tol):
    if np.linalg.norm(S, 2) <= 1 + tol:
        return "arrived"
    return "slow" if np.linalg.norm(K.T @ K - Q.T @ Q) <= tol else "stuck"


def memory_by_eigenvalues(W, beta):
    """K K' = beta^2 / 2 + sqrt(beta^4 / 4 + W W'), in torch."""
    values = torch.linalg.eigvalsh(torch.as_tensor(W @ W.T)).clamp_min(0)
    a2 = beta**2 / 2 + torch.sqrt(beta**4 / 4 + values)
    return (2 * a2.sum() - len(W) * beta**2) / 2


def memory_of_the_identity(W, beta):
    """The pair (beta I, W' / beta): it has the product, but not the imbalance."""
    return (len(W) * beta**2 + (W**2).sum() / beta**2) / 2 if beta else np.linalg.norm(W, "nuc")


def memory_added(W, beta):
    return len(W) * beta**2 / 2 + np.linalg.norm(W, "nuc")


def bound_by_counting(s, gap, share):
    return np.sum(s > 1 - gap / share)


def bound_by_cumulated_mass(s, gap, share):
    mass = np.cumsum(s) / s.sum()
    return int(np.searchsorted(mass, 1 - share) + 1)


def bound_by_threshold(s, gap, share):
    return int((s > share * s[0]).sum())


def bound_by_last(s, gap, share):
    """Compares with the smallest value that is inside."""
    for k in range(1, len(s) + 1):
        if gap <= share * (1 - s[k - 1]):
            return k
    return len(s)


ANSWERS = {
    "11.1": {
        "also_right": rest_by_loop,
        "wrong": [
            rest_with_tokens_for_sequences,
            rest_at_one_lead,
            rest_by_differences,
            lambda lam, slope, difference, eps: (lam * np.log(1 / eps)).sum(),
            lambda lam, slope, difference, eps: np.log(1 / (2 * eps)),
        ],
    },
    "11.2": {
        "also_right": newcomer_by_torch,
        "wrong": [newcomer_of_columns, newcomer_in_log, newcomer_with_rows],
    },
    "11.3": {
        "also_right": verdict_by_eigenvalues,
        "wrong": [
            verdict_by_the_product,
            verdict_without_stuck,
            verdict_by_balance,
            lambda K, Q, S, tol: "arrived" if np.linalg.norm(S, 2) <= 1 + tol else "stuck",
            lambda K, Q, S, tol: "slow",
        ],
    },
    "11.4": {
        "also_right": memory_by_eigenvalues,
        "wrong": [memory_of_the_identity, memory_added, lambda W, beta: np.linalg.norm(W) * beta**2],
    },
    "11.5": {
        "also_right": bound_by_counting,
        "wrong": [bound_by_cumulated_mass, bound_by_threshold, bound_by_last],
    },
}
