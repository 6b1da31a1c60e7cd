"""Answers to lesson 04's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
import torch


def speed_by_autograd(U, V, M):
    """Both speeds by autograd, and the change of the product along them by a directional derivative."""
    U, V, M = (torch.tensor(array, requires_grad=array is not M) for array in (U, V, M))
    (M * (U @ V.T)).sum().backward()
    return torch.func.jvp(lambda U, V: U @ V.T, (U.detach(), V.detach()), (U.grad, V.grad))[1]


def speed_of_a_step(U, V, M, eta=0.01):
    """A step that is not short."""
    return ((U + eta * M @ V) @ (V + eta * M.T @ U).T - U @ V.T) / eta


def speed_one_after_the_other(U, V, M):
    """V's speed from the U that has moved."""
    moved = U + M @ V
    return M @ V @ V.T + U @ moved.T @ M


def speed_normalised(U, V, M):
    gU, gV = M @ V, M.T @ U
    return gU @ V.T / np.linalg.norm(gU) + U @ gV.T / np.linalg.norm(gV)


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


def a_pair(W, beta):
    """Factors with W and U^T U - V^T V = beta^2 I: all others are these, turned by one rotation."""
    left, sigma, right = np.linalg.svd(W)
    r = np.sqrt(sigma**2 + beta**4 / 4)
    return left * np.sqrt(r + beta**2 / 2), right.T * np.sqrt(r - beta**2 / 2)


def remembered_by_building(W, M, beta):
    """Builds a pair, and differentiates the singular values along its flow."""
    U, V, M = map(torch.tensor, (*a_pair(W, beta), M))
    _, speeds = torch.func.jvp(lambda U, V: torch.linalg.svdvals(U @ V.T), (U, V), (M @ V, M.T @ U))
    return (U.square().sum() + V.square().sum()) / 2, speeds


def remembered_with(cost=None, speeds=None):
    """The right two answers, one of them replaced: cost(W, M, beta) or speeds(W, M, beta)."""

    def wrong(W, M, beta):
        right = [np.asarray(part) for part in remembered_by_building(W, M, beta)]
        return cost(W, M, beta) if cost else right[0], speeds(W, M, beta) if speeds else right[1]

    return wrong


def speeds_of_a_step(W, M, beta):
    """Over one step of size one."""
    U, V = a_pair(W, beta)
    return np.linalg.svd((U + M @ V) @ (V + M.T @ U).T)[1] - np.linalg.svd(W)[1]


def speeds_with_roots_on_the_wrong_sides(W, M, beta):
    """Takes U U^T for V V^T and turns both."""
    U, V = a_pair(W, beta)
    left, _, right = np.linalg.svd(W)
    return np.diag(left.T @ (M @ U @ U.T + V @ V.T @ M) @ right.T)


def slopes(u):
    return 1 / (1 + np.exp(u))


def enclosed_by_autograd(u, eps):
    """The slopes by autograd, and both bounds from sums."""
    outputs = torch.tensor(u, requires_grad=True)
    torch.nn.functional.softplus(-outputs).mean().backward()
    weights = -outputs.grad
    return torch.stack([outputs.detach().min() * eps / (weights @ outputs.detach()), eps / weights.sum()])


ANSWERS = {
    "04.1": {
        "also_right": speed_by_autograd,
        "wrong": [
            speed_of_a_step,
            speed_one_after_the_other,
            speed_normalised,
            lambda U, V, M: M @ V @ V.T + M @ U @ U.T if U.shape == V.shape else M,
            lambda U, V, M: (U @ V.T) @ M.T @ (U @ V.T),
            lambda U, V, M: U @ V.T + M,
            lambda U, V, M: M @ V @ V.T + U @ U.T @ np.sign(M),
            lambda U, V, M: np.where(M == 0, 0, speed_by_autograd(U, V, M)),
        ],
    },
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
            lambda a, b, e: (
                b * e / a if abs(b * e) < a**2 else None if abs(b * e) == a**2 else a * np.sign(b * e)
            ),
            lambda a, b, e: np.clip(b / (a / e), -abs(a), abs(a)),
            lambda a, b, e: b * e / abs(b * e) * min(abs(b * e), a**2) / a,
        ],
    },
    "04.3": {
        "also_right": remembered_by_building,
        "wrong": [
            remembered_with(speeds=speeds_of_a_step),
            remembered_with(speeds=speeds_with_roots_on_the_wrong_sides),
            remembered_with(cost=lambda W, M, beta: np.linalg.norm(W) + beta**2 / 2),
            remembered_with(cost=lambda W, M, beta: np.sqrt((W**2).sum() + beta**4 / 4)),
            remembered_with(cost=lambda W, M, beta: np.sqrt(W**2 + beta**4 / 4).sum()),
            remembered_with(cost=lambda W, M, beta: np.linalg.norm(W, "nuc") + beta**4 / 4),
            remembered_with(
                speeds=lambda W, M, beta: np.asarray(remembered_by_building(W, M, beta)[1])[::-1]
            ),
            remembered_with(speeds=lambda W, M, beta: beta**2 * np.diag(M)),
            lambda W, M, beta: remembered_by_building(W, M, beta)[0],
        ],
    },
    "04.4": {
        "also_right": enclosed_by_autograd,
        "wrong": [
            lambda u, eps: (u.min() / np.linalg.norm(u), eps / slopes(u).mean()),
            lambda u, eps: (eps / slopes(u.min()), eps / slopes(u).mean()),
            lambda u, eps: (u.min() * eps / (slopes(u) * u).mean(), eps / slopes(u.mean())),
            lambda u, eps: (u.min() * eps / (slopes(u) * u).mean(), eps / slopes(u.min())),
            lambda u, eps: (u.min() * eps / (slopes(u) * u).mean(), eps / np.linalg.norm(slopes(u))),
            lambda u, eps: (u.min() * eps / np.logaddexp(0, -u).mean(), eps / slopes(u).mean()),
            lambda u, eps: (u.min() * eps**0.5 / (slopes(u) * u).mean(), eps**0.5 / slopes(u).mean()),
            lambda u, eps: (eps * slopes(u).mean(), eps / slopes(u).mean()),
            lambda u, eps: (u.min() * eps / (slopes(u) * u).mean(), eps * len(u) / slopes(u).mean()),
            lambda u, eps: u.min() * eps / (slopes(u) * u).mean(),
        ],
    },
}
