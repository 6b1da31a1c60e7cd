"""Answers to lesson 04's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
import torch


def step_by_autograd(U, V, M, eta):
    """Autograd on the linear function that has the pull M: the inner product of M with U V^T."""
    U, V, M = (torch.tensor(array, requires_grad=array is not M) for array in (U, V, M))
    (M * (U @ V.T)).sum().backward()
    return U.detach() + eta * U.grad, V.detach() + eta * V.grad


def step_on_the_product(U, V, M, eta):
    W = U @ V.T + eta * M
    p, s, qt = np.linalg.svd(W, full_matrices=False)
    return p * np.sqrt(s), qt.T * np.sqrt(s)


def step_normalised(U, V, M, eta):
    gU, gV = M @ V, M.T @ U
    return U + eta * gU / np.linalg.norm(gU), V + eta * gV / np.linalg.norm(gV)


def nuclear_from_eigenvalues(W):
    """Roots of the eigenvalues of the smaller Gram matrix."""
    G = W @ W.T if len(W) <= W.shape[1] else W.T @ W
    return float(torch.linalg.eigvalsh(torch.as_tensor(G)).clamp(min=0).sqrt().sum())


def nuclear_mean(W):
    return np.linalg.svd(W, compute_uv=False).mean()


def nuclear_of_the_symmetric_part(W):
    square = W[: min(W.shape), : min(W.shape)]
    return np.abs(np.linalg.eigvalsh(square)).sum()


def prices_by_loop(U, V):
    pairs = list(zip(U.T, V.T, strict=True))
    return [
        sum(u @ u + v @ v for u, v in pairs) / 2,
        sum(np.sqrt((u @ u) * (v @ v)) for u, v in pairs),
        torch.linalg.matrix_norm(torch.as_tensor(U @ V.T), "nuc").item(),
    ]


def prices_balanced_all_three(U, V):
    """Rescales first, and asks for the price of that."""
    u, v = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
    return u @ v, u @ v, np.linalg.norm(U @ V.T, "nuc")


def prices_of_the_other_product(U, V):
    u, v = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
    k = min(len(U), len(V))
    return (u @ u + v @ v) / 2, u @ v, np.linalg.norm(U[:k].T @ V[:k], "nuc")


def certify_by_loop(W, lam, A):
    S = sum(weight * a for weight, a in zip(lam, A, strict=True))
    lower = min((a * W).sum() for a in A) / np.linalg.norm(W, "nuc")
    return torch.tensor([lower, np.linalg.norm(S, 2) / sum(lam)])


def certify_by_trace(W, lam, A):
    """Frobenius in both places, with the rows' own norms divided out."""
    return (A * W).sum((1, 2)).min() / np.linalg.norm(W), np.linalg.norm(
        np.tensordot(lam, A, 1), 1
    ) / lam.sum()


def certify_with_largest_weight(W, lam, A):
    S = np.tensordot(lam, A, 1)
    return (A * W).sum((1, 2)).min() / np.linalg.norm(W, "nuc"), np.linalg.norm(S, 2) / lam.max()


def certify_where_the_weights_are(W, lam, A):
    """Overlooks an answer of weight zero."""
    return certify_by_loop(W, lam[lam > 0], A[lam > 0])


def certify_by_size(W, lam, A):
    """Takes the sizes of the margins, as if no answer could be wrong."""
    return np.abs((A * W).sum((1, 2))).min() / np.linalg.norm(W, "nuc"), certify_by_loop(W, lam, A)[1]


def race_by_matrices(M, beta, eta, t):
    """Descent on the matrices themselves."""
    U, V = beta * np.eye(len(M)), np.zeros_like(M)
    for _ in range(t):
        U, V = U + eta * M @ V, V + eta * M.T @ U
    return torch.linalg.svdvals(torch.as_tensor(U @ V.T))


def race_exponential(M, beta, eta, t):
    rho = np.linalg.svd(M, compute_uv=False)
    return beta**2 * np.exp(2 * eta * rho * t)


def race_of_one_factor(M, beta, eta, t):
    rho = np.linalg.svd(M, compute_uv=False)
    return beta**2 * ((1 + eta * rho) ** t - 1)


ANSWERS = {
    "04.1": {"also_right": step_by_autograd, "wrong": [step_on_the_product, step_normalised]},
    "04.2": {"also_right": nuclear_from_eigenvalues, "wrong": [nuclear_mean, nuclear_of_the_symmetric_part]},
    "04.3": {"also_right": prices_by_loop, "wrong": [prices_balanced_all_three, prices_of_the_other_product]},
    "04.4": {
        "also_right": certify_by_loop,
        "wrong": [
            certify_by_trace,
            certify_with_largest_weight,
            certify_where_the_weights_are,
            certify_by_size,
        ],
    },
    "04.5": {"also_right": race_by_matrices, "wrong": [race_exponential, race_of_one_factor]},
}
