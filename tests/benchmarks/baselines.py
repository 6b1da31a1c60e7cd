"""What the benchmarks compare with: the same work written the way a user would, one trial at a time."""

import cvxpy as cp
import numpy as np
import scipy.optimize
import torch
from torch import nn


def explicit_rows(X, z, selected):
    """The constraints (x_alpha - x_t) z^T of one trial as a matrix, (n (T - 1), d * d)."""
    rows = []
    for i in range(len(X)):
        for t in range(X.shape[1]):
            if t != selected[i]:
                rows.append(np.outer(X[i, selected[i]] - X[i, t], z[i]).ravel())
    return np.array(rows)


def solve_with_cvxpy(X, z, selected, norm, solver, **options):
    """min N(W) s.t. <A_j, W> >= 1 through the modelling layer; returns W."""
    A = explicit_rows(X, z, selected)
    d = X.shape[-1]
    W = cp.Variable((d, d))
    objective = {
        "fro": lambda: cp.sum_squares(W),
        "nuc": lambda: cp.normNuc(W),
    }.get(norm, lambda: cp.pnorm(cp.vec(W, order="C"), norm))()
    cp.Problem(cp.Minimize(objective), [A @ cp.vec(W, order="C") >= 1]).solve(solver=solver, **options)
    return W.value


def solve_with_nnls(X, z, selected):
    """The Frobenius problem as nonnegative least squares (Lawson and Hanson's least distance programming)."""
    A = explicit_rows(X, z, selected)
    E = np.vstack([A.T, np.ones(len(A))])
    f = np.zeros(len(E))
    f[-1] = 1
    u, _ = scipy.optimize.nnls(E, f)
    residual = E @ u - f
    d = X.shape[-1]
    return (-residual[:-1] / residual[-1]).reshape(d, d)


def _train(logits, parameters, X, y, v, steps, lr):
    for _ in range(steps):
        attention = torch.softmax(logits(), dim=-1)
        output = (attention[..., None] * X).sum(-2) @ v
        loss = nn.functional.softplus(-y * output).mean()
        grads = torch.autograd.grad(loss, parameters)
        norm = torch.sqrt(sum((g**2).sum() for g in grads))
        with torch.no_grad():
            for w, g in zip(parameters, grads, strict=True):
                w -= lr * g / (norm + 1e-30)


def train_W(X, z, y, v, steps, lr):
    """Normalised descent on W = an nn.Linear, from zero; returns W and the attention, (n, T)."""
    layer = nn.Linear(X.shape[-1], X.shape[-1], bias=False, dtype=X.dtype)
    nn.init.zeros_(layer.weight)

    def logits():
        return (X @ layer(z)[..., None]).squeeze(-1)

    _train(logits, [layer.weight], X, y, v, steps, lr)
    return layer.weight.detach(), torch.softmax(logits(), -1).detach()


def train_KQ(X, z, y, v, steps, lr, K, Q):
    """Normalised descent on a key and a query layer, from the given K and Q, (d, m)."""
    key, query = (nn.Linear(*w.shape, bias=False, dtype=X.dtype) for w in (K, Q))
    with torch.no_grad():
        key.weight.copy_(K.T)
        query.weight.copy_(Q.T)

    def logits():
        return (key(X) @ query(z)[..., None]).squeeze(-1)

    _train(logits, [key.weight, query.weight], X, y, v, steps, lr)
    return key.weight.detach().T @ query.weight.detach(), torch.softmax(logits(), -1).detach()


def accelerated_dual(X, z, tol, steps=20_000):
    """min ||W||_F s.t. (x_i1 - x_it)^T W z_i >= 1 by accelerated projected gradient on the factored dual.

    Restarts when the momentum points the wrong way (O'Donoghue and Candes 2015). Returns W, feasible, and its
    relative gap.
    """
    D = X[:, :1] - X[:, 1:]  # (n, T - 1, d)

    def total(dual):
        return ((dual[:, None] @ D)[:, 0]).T @ z  # sum_j dual_j A_j

    def reach(W):
        return (D @ (z @ W.T)[..., None])[..., 0]

    dual = torch.rand(D.shape[:2], generator=torch.Generator().manual_seed(0), dtype=X.dtype)
    for _ in range(30):  # the largest eigenvalue, by the power method
        dual = dual / dual.norm()
        image = reach(total(dual))
        largest, dual = float(dual.flatten() @ image.flatten()), image
    dual = torch.zeros_like(dual)
    ahead, momentum = dual, 1.0
    for step in range(1, steps + 1):
        new = (ahead + (1 - reach(total(ahead))) / (1.05 * largest)).clamp_min(0)
        if ((ahead - new) * (new - dual)).sum() > 0:
            momentum = 1.0
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = new + (momentum - 1) / following * (new - dual)
        dual, momentum = new, following
        if step % 25 == 0:
            W = total(dual)
            least = reach(W).amin()
            gap = 1 - dual.sum() * least / W.norm() ** 2  # lower bound sum / ||W||, upper ||W|| / least
            if least > 0 and gap <= tol:
                break
    return W / least, float(gap)
