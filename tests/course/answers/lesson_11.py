"""Answers to lesson 11's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math

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


def rest_of_positive_differences(lam, slope, difference, eps):
    """Leaves out what has no positive difference, but keeps 0 log 0 elsewhere."""
    keep = difference > 0
    with np.errstate(all="ignore"):
        forces = np.where(keep, slope[:, None] * difference, 1) / len(lam)
        return np.where(keep, lam * np.log(forces / (2 * eps * lam)), 0).sum()


def ridge_by_torch(W, W_nuc, eps, other):
    """By what is known of both, without the moved matrix."""
    W, N, t = torch.as_tensor(W), torch.as_tensor(W_nuc), math.log(eps) - math.log(other)
    norm = torch.linalg.svdvals(W).sum() + t * torch.linalg.svdvals(N).sum()
    along, own = (W * N).sum(), (N * N).sum()
    size = ((W * W).sum() + 2 * t * along + t**2 * own).sqrt()
    return [norm, (along + t * own) / (size * own.sqrt())]


def ridge_then(change):
    """The right norm, and a changed cosine."""

    def answer(W, W_nuc, eps, other):
        norm, cosine = ridge_by_torch(W, W_nuc, eps, other)
        return norm, change(float(cosine), eps, other)

    return answer


def ridge_by_scaling(W, W_nuc, eps, other):
    """The angle shrinks like 1 / log: what holds in the limit only."""
    cosine = (W * W_nuc).sum() / np.linalg.norm(W) / np.linalg.norm(W_nuc)
    ratio = np.log(2 * eps) / np.log(2 * other)
    return np.linalg.norm(W, "nuc") / ratio, 1 - (1 - cosine) * ratio**2


def growth_by_steps(c, length, time, eps):
    """The share itself, from look to look, by b."""
    share = torch.tensor(1.0, dtype=torch.float64)
    for k, now in enumerate(torch.as_tensor(c)):
        b = (math.log(length[k + 1]) - math.log(length[k])) / (2 * time[k]) + 2 * eps
        share = share * torch.exp(2 * b * (now - 1) * time[k])
    return share


def growth_then(change):
    """The right factor, changed."""
    return lambda c, length, time, eps: change(growth_by_steps(c, length, time, eps), length)


def growth_of_the_last_over_the_one_before(c, length, time, eps):
    """Forgets the looks before the last two."""
    return growth_by_steps(c[-1:], length[-2:], time[-1:], eps)


def decay_by_gradient(X, z, y, v):
    """Torch's gradient of the loss at W = 0."""
    X, z, y, v = (torch.as_tensor(part, dtype=torch.float64) for part in (X, z, y, v))
    W = torch.zeros(X.shape[-1], z.shape[-1], dtype=torch.float64, requires_grad=True)
    s = torch.softmax(torch.einsum("ntd,de,ne->nt", X, W, z), -1)
    loss = torch.nn.functional.softplus(-y * (s * (X @ v)).sum(-1)).mean()
    return torch.linalg.matrix_norm(torch.autograd.grad(loss, W)[0], 2)


def decay_of(change):
    """The right answer for changed data."""
    return lambda X, z, y, v: decay_by_gradient(*change(X, z, y, v))


ANSWERS = {
    "11.1": {
        "also_right": rest_by_loop,
        "wrong": [
            rest_with_tokens_for_sequences,
            rest_at_one_lead,
            rest_by_differences,
            rest_of_positive_differences,
            lambda lam, slope, difference, eps: rest_by_loop(
                np.where(lam > 1e-3, lam, 0), slope, difference, eps
            ),
            lambda lam, slope, difference, eps: (lam * np.log(1 / eps)).sum(),
            lambda lam, slope, difference, eps: np.log(1 / (2 * eps)),
            lambda lam, slope, difference, eps: rest_by_loop(lam / lam.sum(), slope, difference, eps),
        ],
    },
    "11.2": {
        "also_right": ridge_by_torch,
        "wrong": [
            ridge_by_scaling,
            ridge_then(lambda cosine, eps, other: cosine**2),
            ridge_then(lambda cosine, eps, other: np.sqrt(1 - cosine**2)),
            ridge_then(lambda cosine, eps, other: np.arccos(min(cosine, 1))),
            lambda W, W_nuc, eps, other: ridge_by_torch(W_nuc, W, eps, other),
            lambda W, W_nuc, eps, other: ridge_by_torch(W, W_nuc, other, eps),
            lambda W, W_nuc, eps, other: ridge_by_torch(W, W_nuc, eps, other**2),
            lambda W, W_nuc, eps, other: ridge_by_torch(W, W_nuc.T, eps, other),
            lambda W, W_nuc, eps, other: ridge_by_torch(W, 2 * W_nuc, eps, other),
        ],
    },
    "11.3": {
        "also_right": growth_by_steps,
        "wrong": [
            growth_then(lambda share, length: 1 / share),
            growth_then(lambda share, length: share * length[-1] / length[0]),
            growth_then(lambda share, length: torch.log10(share)),
            growth_then(lambda share, length: share - 1),
            lambda c, length, time, eps: growth_by_steps(c - 1, length, time, eps),
            lambda c, length, time, eps: growth_by_steps(c[::-1], length, time, eps),
            lambda c, length, time, eps: growth_by_steps(c, length, time[::-1] * 0 + time.mean(), eps) ** 2,
            growth_of_the_last_over_the_one_before,
        ],
    },
    "11.4": {
        "also_right": decay_by_gradient,
        "wrong": [
            decay_of(lambda X, z, y, v: (X, z / np.linalg.norm(z, axis=1, keepdims=True), y, v)),
            decay_of(lambda X, z, y, v: (X - X.mean(axis=1, keepdims=True), z, y, v)),
            decay_of(lambda X, z, y, v: (X, z, -y, v)),
            lambda X, z, y, v: decay_by_gradient(X, z, y, v) ** 2,
            lambda X, z, y, v: 1 / decay_by_gradient(X, z, y, v),
            lambda X, z, y, v: 0.0,
            lambda X, z, y, v: decay_by_gradient(X, z, y, v) / 2,
            lambda X, z, y, v: decay_by_gradient(X[:1], z[:1], y[:1], v),
        ],
    },
}
