"""Answers to lesson 13's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
import torch
from scipy.integrate import solve_ivp


def _gelu_head(x, V):
    return torch.nn.functional.gelu(4 * x @ V.mT).sum(-1)


def ceiling_by_autograd(s, X, V, y):
    X, V = (torch.as_tensor(A, dtype=torch.float64) for A in (X, V))
    if y == 1:
        return float(_gelu_head(X, V).amax())
    s = torch.as_tensor(s, dtype=torch.float64).clone().requires_grad_()
    u = -_gelu_head(s @ X, V)
    (G,) = torch.autograd.grad(u, s)
    return (u + (G - s @ G).amax()).item()


def parts_by_least_squares(X, z, s):
    kept = [t for t in range(3) if s[t] > 0]
    (t,) = {0, 1, 2} - set(kept)
    a, b = kept
    rows = np.stack([np.outer(X[a] - X[b], z).ravel(), np.outer(X[a] - X[t], z).ravel()])
    d = len(z)
    fin = np.linalg.pinv(rows[:1]) @ [np.log(s[a]) - np.log(s[b])]
    return fin.reshape(d, d), (np.linalg.pinv(rows) @ [0.0, 1.0]).reshape(d, d)


def parts_with(fin_s=lambda s: s, dropped_row=1.0, ratio_row=0.0):
    def answer(X, z, s):
        a, b = np.flatnonzero(s > 0)
        (t,) = np.flatnonzero(s == 0)
        rows = np.stack([np.outer(X[a] - X[b], z).ravel(), np.outer(X[a] - X[t], z).ravel()])
        shares = fin_s(s)
        fin = np.linalg.pinv(rows[:1]) @ [np.log(shares[a]) - np.log(shares[b])]
        return fin.reshape(len(z), -1), (np.linalg.pinv(rows) @ [ratio_row, dropped_row]).reshape(len(z), -1)

    return answer


def parts_with_both_rows(X, z, s, of=0):
    """Both rows in W_fin too, the dropped token's with 0."""
    kept, (t,) = np.flatnonzero(s > 0), np.flatnonzero(s == 0)
    rows = np.stack([np.kron(X[kept[0]] - X[kept[1]], z), np.kron(X[kept[of]] - X[t], z)])
    fin = np.linalg.pinv(rows) @ [np.log(s[kept[0]] / s[kept[1]]), 0.0]
    return fin.reshape(len(z), -1), parts_by_least_squares(X, z, s)[1]


def third_level_by_squares(F, q):
    """As if the constant went with the multipliers."""
    m = np.linalg.solve(F @ F.T, np.ones(len(F)))
    b = np.log(q / m)
    return np.linalg.pinv(F) @ (b - m @ b / (m @ m) * m)


def third_by_projection(F, q, tilt=lambda q, m: np.log(q / m), along=1.0):
    """From w_dir and its multipliers by pseudo-inverses, and a projection of vectors, not of coefficients."""
    back = np.linalg.pinv(F)
    w_dir = back.sum(axis=1)
    w = back @ tilt(q, back.T @ w_dir)
    return w - along * (w @ w_dir) / (w_dir @ w_dir) * w_dir


def back_by_integration(pi, K, s, now, until=0.005, own=1.0):
    """The law in log time, p = -pi and log attention together, until attention is 1/2 %."""

    def there(u, at):
        return at[1] - np.log(until)

    there.terminal = True
    found = solve_ivp(
        lambda u, at: [1 + own * K * np.exp(at[0]), own * K * np.exp(at[0])],
        (np.log(now), np.log(now) + 60),
        [np.log(-pi), np.log(s)],
        method="DOP853",
        events=there,
        rtol=1e-11,
        atol=1e-11,
    )
    return float(np.exp(found.t_events[0][0]))


ANSWERS = {
    "13.1": {
        "also_right": ceiling_by_autograd,
        "wrong": [
            lambda s, X, V, y: y * float(_gelu_head(torch.tensor(X), torch.tensor(V)).amax()),
            lambda s, X, V, y: float((y * _gelu_head(torch.tensor(X), torch.tensor(V))).amax()),
            lambda s, X, V, y: ceiling_by_autograd(s, X, V, -1),
            lambda s, X, V, y: ceiling_by_autograd(s, X, V, 1),
            lambda s, X, V, y: ceiling_by_autograd(np.full(len(s), 1 / len(s)), X, V, y),
            lambda s, X, V, y: ceiling_by_autograd(s, X, V, y) + 0.01,
            lambda s, X, V, y: ceiling_by_autograd(*((s, X) if y > 0 else (s[s > 0], X[s > 0])), V, y),
            lambda s, X, V, y: 0.0,
            lambda s, X, V, y: np.inf,
            lambda s, X, V, y: ceiling_by_autograd(np.eye(len(s))[np.argmax(s)], X, V, y),
        ],
    },
    "13.2": {
        "also_right": parts_by_least_squares,
        "wrong": [
            lambda X, z, s: parts_by_least_squares(X, z, s)[0],
            lambda X, z, s: tuple(W.T for W in parts_by_least_squares(X, z, s)),
            parts_with(dropped_row=2.0),
            parts_with(dropped_row=-1.0),
            parts_with(ratio_row=1.0),
            parts_with(lambda s: 1 - s),
            parts_with(lambda s: np.exp(s)),
            parts_with(lambda s: s**2),
            lambda X, z, s: (0 * np.outer(z, z), parts_by_least_squares(X, z, s)[1]),
            lambda X, z, s: parts_by_least_squares(X, z, s[::-1]),
            lambda X, z, s: parts_by_least_squares(X, z / 2, s),
            parts_with_both_rows,
            lambda X, z, s: parts_with_both_rows(X, z, s, of=1),
        ],
    },
    "13.3": {
        "also_right": third_by_projection,
        "wrong": [
            lambda F, q: q @ F,
            lambda F, q: np.zeros(F.shape[1]),
            lambda F, q: np.linalg.pinv(F) @ np.log(q),
            lambda F, q: np.linalg.pinv(F) @ q,
            lambda F, q: -third_by_projection(F, q),
            lambda F, q: third_by_projection(F, 1 / q),
            lambda F, q: third_by_projection(F, q**2),
            lambda F, q: third_by_projection(F, np.ones(len(q))),
            lambda F, q: third_by_projection(F, q, along=0.0),
            lambda F, q: third_by_projection(F, q, along=2.0),
            lambda F, q: third_by_projection(F, q, tilt=lambda q, m: np.log(q)),
            lambda F, q: third_by_projection(F, q, tilt=lambda q, m: np.log10(q / m)),
            lambda F, q: third_by_projection(2 * F, q),
            lambda F, q: F @ third_by_projection(F, q),
            third_level_by_squares,
            lambda F, q: third_by_projection(F, q) / np.linalg.norm(third_by_projection(F, q)),
        ],
    },
    "13.4": {
        "also_right": back_by_integration,
        "wrong": [
            lambda pi, K, s, now: now,
            lambda pi, K, s, now: np.inf,
            lambda pi, K, s, now: back_by_integration(pi, K, s, now) - now,
            lambda pi, K, s, now: back_by_integration(pi, K, s, now) / now,
            lambda pi, K, s, now: back_by_integration(pi, 1.0, s, now),
            lambda pi, K, s, now: back_by_integration(pi, K**2, s, now),
            lambda pi, K, s, now: back_by_integration(pi, 1 / K, s, now),
            lambda pi, K, s, now: back_by_integration(-(pi**2), K, s, now),
            lambda pi, K, s, now: back_by_integration(-1.0, K, s, now),
            lambda pi, K, s, now: back_by_integration(pi, K, s, now, until=0.05),
            lambda pi, K, s, now: back_by_integration(pi, K, s, now, until=0.5),
            lambda pi, K, s, now: back_by_integration(pi, K, s, now, own=2.0),
            lambda pi, K, s, now: now * np.exp((0.005 / s - 1) / (-K * pi)),
            lambda pi, K, s, now: now * (1 - (1 - s / 0.005) / (-K * pi)),
            lambda pi, K, s, now: now / (-K * pi),
            lambda pi, K, s, now: now * (1 + (1 / s - 1 / 0.005) / (K * abs(pi))),
            lambda pi, K, s, now: now * np.float64(0.005 / s) ** (1 / (K * abs(pi) - 1)),
            lambda pi, K, s, now: now * np.exp(np.log(0.005 / s) / (1 + K * abs(pi))),
        ],
    },
}
