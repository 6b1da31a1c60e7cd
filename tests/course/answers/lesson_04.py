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


def blank_by_sides(a, b, e):
    """Tries the kink and both minima of parabolas, and keeps the best."""
    found = [(np.linalg.svd(np.array([[a, b], [e, c]]))[1].sum(), c) for c in (b * e / a, a, -a)]
    return torch.tensor(min(found)[1])


def blank_on_a_grid(a, b, e):
    c = np.linspace(-5, 5, 1001)
    tables = np.array([[[a, b], [e, x]] for x in c])
    return c[np.linalg.svd(tables, compute_uv=False).sum(axis=1).argmin()]


def blank_of_least_rank_or_zero(a, b, e):
    return b * e / a if abs(b * e) < 1 else 0


def blank_of_least_square(a, b, e):
    """Minimises the determinant's square plus the square of c."""
    return a * b * e / (1 + a**2)


def blank_if(reached):
    """The kink where reached(a, b, e), else the end beside it."""
    return lambda a, b, e: b * e / a if reached(abs(a), abs(b), abs(e)) else float(np.sign(b * e)) * a


def costs_by_loop(U, V):
    pairs = list(zip(U.T, V.T, strict=True))
    return [
        sum(u @ u + v @ v for u, v in pairs) / 2,
        sum(np.sqrt((u @ u) * (v @ v)) for u, v in pairs),
        torch.linalg.matrix_norm(torch.as_tensor(U @ V.T), "nuc").item(),
    ]


def costs_balanced_all_three(U, V):
    """Rescales first, and asks for the cost of that."""
    u, v = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
    return u @ v, u @ v, np.linalg.norm(U @ V.T, "nuc")


def costs_of_the_other_product(U, V):
    u, v = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
    k = min(len(U), len(V))
    return (u @ u + v @ v) / 2, u @ v, np.linalg.norm(U[:k].T @ V[:k], "nuc")


def costs_by_roots(U, V):
    """Multiplies by the best c_k, which a column of zeros does not have."""
    c = np.sqrt(np.linalg.norm(V, axis=0) / np.linalg.norm(U, axis=0))
    return costs_by_loop(U, V)[0], costs_by_loop(U * c, V / c)[0], np.linalg.norm(U @ V.T, "nuc")


def costs_but_zero_columns(U, V):
    """Leaves the cost of a column whose partner in V is zero as it is."""
    u, v = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
    first, _, third = costs_by_loop(U, V)
    return first, np.where(v > 0, u * v, u**2 / 2).sum(), third


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


def certify_by_roots(W, lam, A):
    """Takes roots of eigenvalues that rounding may have made negative."""
    nuclear = np.sqrt(np.linalg.eigvalsh(W @ W.T)).sum()
    return np.tensordot(A, W).min() / nuclear, certify_by_loop(W, lam, A)[1]


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


def race_halved_once(M, beta, eta, t):
    rho = np.linalg.svd(M, compute_uv=False)
    return beta**2 / 2 * ((1 + eta * rho) ** (2 * t) - (1 - eta * rho) ** (2 * t))


def race_by_logarithms(M, beta, eta, t):
    """Takes the logarithm of 1 - x, which may be negative."""
    x = eta * np.linalg.svd(M, compute_uv=False)
    return beta**2 / 4 * (np.exp(2 * t * np.log(1 + x)) - np.exp(2 * t * np.log(1 - x)))


def race_clipped(M, beta, eta, t):
    """Lets the difference rest at zero once it would change its sign."""
    x = eta * np.linalg.svd(M, compute_uv=False)
    return beta**2 / 4 * ((1 + x) ** (2 * t) - np.maximum(1 - x, 0) ** (2 * t))


def race_of_the_live(M, beta, eta, t):
    """Leaves zeros out."""
    values = race_by_matrices(M, beta, eta, t)
    return values[values > 1e-12]


def wait_by_projection(W, M, newcomer, share):
    """Reads the scale of M off the live directions, one by one."""
    left, s, right = np.linalg.svd(W)
    live = s > 1e-9 * s[0]
    m = np.diag(left.T[: len(s)] @ M @ right[: len(s)].T)[live].mean()
    c = torch.linalg.matrix_norm(torch.as_tensor(M), 2).item() / m
    return [c, np.exp(np.log(s[0]) + (np.log(share) - np.log(newcomer / s[0])) / (c - 1))]


def wait_of_the_mean(W, M, newcomer, share):
    """Takes the mean of the singular values of M for the live one."""
    s = np.linalg.svd(M)[1]
    c = s[0] / s.mean()
    return c, wait_by_projection(W, M, newcomer, share)[1]


def wait_linear(W, M, newcomer, share):
    """As if the share grew in proportion to sigma_1."""
    c, top = wait_by_projection(W, M, newcomer, share)[0], np.linalg.norm(W, 2)
    return c, share * top**2 / newcomer


def wait_for_size(W, M, newcomer, share):
    """Until the newcomer is as large as a share of today's sigma_1."""
    c, top = wait_by_projection(W, M, newcomer, share)[0], np.linalg.norm(W, 2)
    return c, top * (share * top / newcomer) ** (1 / c)


ANSWERS = {
    "04.1": {"also_right": step_by_autograd, "wrong": [step_on_the_product, step_normalised]},
    "04.2": {
        "also_right": blank_by_sides,
        "wrong": [
            blank_on_a_grid,
            blank_of_least_rank_or_zero,
            blank_of_least_square,
            blank_if(lambda a, b, e: b * e <= max(a, a**2)),
            blank_if(lambda a, b, e: b * e <= a),
            blank_if(lambda a, b, e: b * e / a <= 1),
            blank_if(lambda a, b, e: max(b, e) <= a),
            blank_if(lambda a, b, e: min(b, e) <= a),
            blank_if(lambda a, b, e: b + e <= 2 * a),
            lambda a, b, e: np.clip(b / (a / e), -abs(a), abs(a)),
            lambda a, b, e: b * e / abs(b * e) * min(abs(b * e), a**2) / a,
        ],
    },
    "04.3": {
        "also_right": costs_by_loop,
        "wrong": [
            costs_balanced_all_three,
            costs_of_the_other_product,
            costs_by_roots,
            costs_but_zero_columns,
        ],
    },
    "04.4": {
        "also_right": certify_by_loop,
        "wrong": [
            certify_by_trace,
            certify_with_largest_weight,
            certify_where_the_weights_are,
            certify_by_size,
            certify_by_roots,
        ],
    },
    "04.5": {
        "also_right": race_by_matrices,
        "wrong": [
            race_exponential,
            race_of_one_factor,
            race_halved_once,
            race_by_logarithms,
            race_clipped,
            race_of_the_live,
        ],
    },
    "04.6": {
        "also_right": wait_by_projection,
        "wrong": [wait_of_the_mean, wait_linear, wait_for_size],
    },
}
