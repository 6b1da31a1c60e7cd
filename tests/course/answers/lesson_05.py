"""Other right answers, and wrong ones beyond the misconceptions, for the exercises of lesson 05."""

import numpy as np
import torch


def softmax_in_torch(h, temperature=1.0):
    return torch.softmax(torch.as_tensor(h) / temperature, dim=-1)


def softmax_over_maximum(h, temperature=1.0):
    return np.exp((h - h.max(axis=-1, keepdims=True)) / temperature)


def softmax_first_axis(h, temperature=1.0):
    e = np.exp((h - h.max(axis=0)) / temperature)
    return e / e.sum(axis=0)


def softmax_from_mean(h, temperature=1.0):
    with np.errstate(all="ignore"):
        e = np.exp((h - h.mean(axis=-1, keepdims=True)) / temperature)
        return e / e.sum(axis=-1, keepdims=True)


def softmax_clipped(h, temperature=1.0):
    e = np.exp(np.clip(h / temperature, -600, 600))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_hard(h, temperature=1.0):
    return (h == h.max(axis=-1, keepdims=True)).astype(float)


def jacobian_product(h, g):
    s = softmax_in_torch(h).numpy()
    return (np.diag(s) - np.outer(s, s)) @ g


def jacobian_with_plus(h, g):
    s = softmax_in_torch(h).numpy()
    return (np.diag(s) + np.outer(s, s)) @ g


def sign_reversed(h, g):
    return -jacobian_product(h, g)


def unnormalised(h, g):
    return np.exp(h) * (g - g @ np.exp(h) / np.exp(h).sum())


def prompt_by_autograd(p, X, keys, y, v):
    p = torch.tensor(p, requires_grad=True)
    X, keys, y, v = map(torch.as_tensor, (X, keys, y, v))
    f = (torch.softmax(keys @ p, -1) * (X @ v)).sum(-1)
    return torch.autograd.grad(torch.nn.functional.softplus(-y * f).mean(), p)[0]


def prompt_loop(p, X, keys, y, v):
    total = np.zeros_like(p)
    for i in range(len(y)):
        s = softmax_in_torch(keys[i] @ p).numpy()
        f = s @ X[i] @ v
        total -= y[i] / (1 + np.exp(y[i] * f)) * keys[i].T @ (s * (X[i] @ v - f))
    return list(total / len(y))


def prompt_mean_inside(p, X, keys, y, v):
    """One loss of the mean margin, in place of the mean of the losses."""
    p = torch.tensor(p, requires_grad=True)
    X, keys, y, v = map(torch.as_tensor, (X, keys, y, v))
    f = (torch.softmax(keys @ p, -1) * (X @ v)).sum(-1)
    return torch.autograd.grad(torch.nn.functional.softplus(-(y * f).mean()), p)[0]


def prompt_wrong_tail(p, X, keys, y, v):
    """sigma(+Yf) in place of sigma(-Yf)."""
    total = np.zeros_like(p)
    for i in range(len(y)):
        s = softmax_in_torch(keys[i] @ p).numpy()
        f = s @ X[i] @ v
        total -= y[i] / (1 + np.exp(-y[i] * f)) * keys[i].T @ (s * (X[i] @ v - f))
    return total / len(y)


def prompt_per_token(p, X, keys, y, v):
    """Keys not summed over the tokens: the wrong shape."""
    return keys.mean(axis=0)


def norm_by_sorting(keys, p, tolerance):
    h = np.sort(keys @ (p / np.linalg.norm(p)))
    return (np.log(len(h) - 1) - np.log(tolerance)) / (h[-1] - h[-2])


def norm_log10(keys, p, tolerance):
    return norm_by_sorting(keys, p, tolerance) / np.log(10)


def norm_counts_winner(keys, p, tolerance):
    h = np.sort(keys @ (p / np.linalg.norm(p)))
    return np.log(len(h) / tolerance) / (h[-1] - h[-2])


def norm_negative(keys, p, tolerance):
    return -norm_by_sorting(keys, p, tolerance)


def pairwise(h, g):
    s = softmax_in_torch(h).numpy()
    return s * ((g[:, None] - g[None, :]) @ s)


def anchored(h, g):
    s, a = softmax_in_torch(h).numpy(), int(np.argmax(h))
    u = s * (g - g[a] - s @ (g - g[a]))
    u[a] -= u.sum()
    return u


def textbook_completed(h, g):
    """The textbook's losers, and the winner minus their sum: right while no loser has the winner's value."""
    u, a = textbook(h, g), int(np.argmax(h))
    u[a] -= u.sum()
    return u


def textbook(h, g):
    s = softmax_in_torch(h).numpy()
    return s * (g - s @ g)


def textbook_with_eps(h, g):
    s = softmax_in_torch(h).numpy()
    return s * (g - s @ g + 1e-12)


def textbook_in_torch(h, g):
    h = torch.tensor(h, requires_grad=True)
    return torch.autograd.grad(torch.softmax(h, -1) @ torch.as_tensor(g), h)[0]


def single_precision(h, g):
    return textbook_in_torch(h.astype(np.float32), g.astype(np.float32)).double()


def direction_shifted_logits(h, g):
    """Off the winners u is proportional to exp(h - h_a): shift these gaps by one constant."""
    winner = np.eye(h.shape[-1], dtype=bool)[h.argmax(-1)]
    gap = h - h.max(-1, keepdims=True)
    log_sum = np.log1p(np.exp(np.where(winner, -np.inf, gap)).sum(-1, keepdims=True))
    g = g - (g * winner).sum(-1, keepdims=True)
    advantage = g - (np.exp(gap - log_sum) * g).sum(-1, keepdims=True)
    scaled = np.where(winner, -np.inf, gap - log_sum)
    u = advantage * np.exp(scaled - scaled.max())
    u = np.where(winner, -u.sum(-1, keepdims=True), u)
    return torch.as_tensor(u / np.abs(u).max())


def direction_underflown(h, g):
    """Each row as in 05.5, with the losers of the textbook; all 0 once every rival underflows."""
    u = np.stack([textbook_completed(*row) for row in zip(h, g, strict=True)])
    return u / max(np.abs(u).max(), 1e-300)


def direction_euclidean(h, g):
    u = direction_shifted_logits(h, g)
    return u / u.norm()


def direction_signs_only(h, g):
    return direction_shifted_logits(h, g).sign()


def direction_reversed(h, g):
    return -direction_shifted_logits(h, g)


ANSWERS = {
    "05.1": {
        "also_right": softmax_in_torch,
        "wrong": [
            softmax_over_maximum,
            softmax_first_axis,
            softmax_hard,
            softmax_from_mean,
            softmax_clipped,
        ],
    },
    "05.2": {
        "also_right": jacobian_product,
        "wrong": [jacobian_with_plus, sign_reversed, unnormalised],
    },
    "05.3": {
        "also_right": prompt_loop,
        "wrong": [prompt_mean_inside, prompt_wrong_tail, prompt_per_token],
    },
    "05.4": {
        "also_right": norm_by_sorting,
        "wrong": [norm_log10, norm_counts_winner, norm_negative],
    },
    "05.5": {
        "also_right": pairwise,
        "wrong": [textbook_with_eps, textbook_in_torch, single_precision],
    },
    "05.6": {
        "also_right": direction_shifted_logits,
        "wrong": [direction_underflown, direction_euclidean, direction_signs_only, direction_reversed],
    },
}
