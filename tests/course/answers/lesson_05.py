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


def softmax_axis_one(h, temperature=1.0):
    axis = min(1, h.ndim - 1)
    e = np.exp((h - h.max(axis=axis, keepdims=True)) / temperature)
    return e / e.sum(axis=axis, keepdims=True)


def softmax_row_by_row(h, temperature=1.0):
    """Rows of a matrix, no more axes."""
    if h.ndim == 1:
        return softmax_in_torch(h, temperature).numpy()
    e = np.stack([np.exp((row - row.max()) / temperature) for row in h])
    return np.stack([row / row.sum() for row in e])


def softmax_transposed(h, temperature=1.0):
    e = np.exp((h - h.max(axis=-1, keepdims=True)) / temperature)
    return (e.T / e.sum(axis=-1)).T


def softmax_to_a_power(h, temperature=1.0):
    e = np.exp(h - h.max(axis=-1, keepdims=True)) ** (1 / temperature)
    return e / e.sum(axis=-1, keepdims=True)


def softmax_less_maximum(h, temperature=1.0):
    with np.errstate(all="ignore"):
        e = np.exp(h / temperature - h.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)


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


def crawl_from_zero(keys, g, eta, j):
    """The differential equation's solution from p = 0, on the rival that pulls."""
    t = next(t for t in range(len(g)) if g[t] != g[0])
    lead = keys[0] - keys[t]
    return np.log1p(eta * lead**2 * (g[0] - g[t]) * j) / lead


def crawl_nearest(keys, g, eta, j):
    """The right pull, over the lead on the nearest rival."""
    return crawl_by_newton(keys, g, eta, j) * (keys[0] - keys[np.argmax(g < g[0])]) / (keys[0] - keys[1])


def crawl_by_newton(keys, g, eta, j):
    """p at which exp(lead p) has grown by eta j times lead squared times worth, found numerically."""
    t = next(t for t in range(len(g)) if g[t] != g[0])
    lead, worth = keys[0] - keys[t], g[0] - g[t]
    p = 1.0
    for _ in range(200):
        p += (np.log(eta * j * worth) + 2 * np.log(lead) - lead * p) / (2 * lead)
    return p


def crawl_margin(keys, g, eta, j):
    """log j over the margin: order of growth, on the nearest rival."""
    return np.log(j) / (keys[0] - keys[1])


def crawl_no_constant(keys, g, eta, j):
    return np.log(eta * j) / (keys[0] - keys[np.argmax(g < g[0])])


def crawl_times_lead(keys, g, eta, j):
    lead = keys[0] - keys[np.argmax(g < g[0])]
    return lead**2 * crawl_by_newton(keys, g, eta, j)


def crawl_all_rivals(keys, g, eta, j):
    """All rivals' pulls added up, as if they had the same lead."""
    t = np.argmax(g < g[0])
    lead = keys[0] - keys[t]
    return np.log(eta * ((keys[0] - keys) ** 2 * (g[0] - g)).sum() * j) / lead


def crawl_from_key(keys, g, eta, j):
    """The rival's key in place of the lead over it."""
    key = abs(keys[np.argmax(g < g[0])])
    return np.log(eta * key**2 * (g[0] - g[np.argmax(g < g[0])]) * j) / key


def crawl_unless(tied):
    """On the first rival that is not taken for a tie."""

    def answer(keys, g, eta, j):
        t = next((t for t in range(len(g)) if not tied(g[t], g[0])), len(g) - 1)
        return crawl_from_zero(keys[[0, t]], g[[0, t]], eta, j)

    return answer


def crawl_half(keys, g, eta, j):
    """The slope 1/2 of the tied example for all."""
    return 0.5 * np.log(j)


def pairwise(h, g):
    s = softmax_in_torch(h).numpy()
    return s * ((g[:, None] - g[None, :]) @ s)


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


def winner_in_brackets(h, g):
    """Only the winner's entry from differences of values."""
    slopes, s, a = textbook(h, g), softmax_in_torch(h).numpy(), np.argmax(h)
    slopes[a] = s[a] * (s * (g[a] - g)).sum()
    return slopes


def winner_from_losers(h, g):
    slopes, a = textbook(h, g), np.argmax(h)
    slopes[a] -= slopes.sum()
    return slopes


def winner_alone_minus(h, g):
    """All entries from the anchored values, but without the attention before the bracket."""
    s = softmax_in_torch(h).numpy()
    g = g - g[np.argmax(h)]
    return g - s @ g


def broken_by_cases(keys):
    """One loser alone if the other then falls behind, else level."""
    _, b, c = keys
    if b @ c >= b @ b:
        nearest = b
    elif b @ c >= c @ c:
        nearest = c
    else:
        normal = np.linalg.solve(np.array([[b @ b, b @ c], [b @ c, c @ c]]), np.ones(2)) @ np.array([b, c])
        nearest = normal / (normal @ normal)
    leads = (keys[0] - keys[1:]) @ -nearest
    return torch.as_tensor(-nearest / np.linalg.norm(nearest) * (leads.min() > 0))


def broken_not_unit(keys):
    direction = broken_by_cases(keys).numpy()
    return 2 * direction


def broken_never(keys):
    return np.zeros(keys.shape[1])


def broken_mean(keys):
    """Away from the mean of all three keys."""
    mean = keys.mean(axis=0)
    return -mean / np.linalg.norm(mean)


def broken_if(leaves):
    """The right direction, if the leads' growth along it is taken for enough."""

    def answer(keys):
        direction = -broken_point(keys) / np.linalg.norm(broken_point(keys))
        return direction * bool(leaves((keys[0] - keys[1:]) @ direction))

    return answer


def broken_winner(keys):
    return keys[0] / np.linalg.norm(keys[0])


def broken_first_only(keys):
    """Token 2 taken for the nearest rival, whatever the keys."""
    direction = -keys[1] / np.linalg.norm(keys[1])
    return direction if ((keys[0] - keys[1:]) @ direction > 0).all() else 0 * direction


def broken_leads_at_any(keys):
    """Leaves if only one of the leads grows."""
    nearest = broken_point(keys)
    direction = -nearest / np.linalg.norm(nearest)
    return (
        direction
        if ((keys[0] - keys[1:]) @ direction).max() > 0 and keys[0] @ direction > 0
        else 0 * direction
    )


def broken_mean_lead(keys):
    """Leaves if the mean of the two leads grows."""
    direction = -broken_point(keys) / np.linalg.norm(broken_point(keys))
    return direction if ((keys[0] - keys[1:]) @ direction).mean() > 0 else 0 * direction


def broken_point(keys):
    along = keys[2] - keys[1]
    return keys[1] + np.clip(-keys[1] @ along / (along @ along), 0, 1) * along


ANSWERS = {
    "05.1": {
        "also_right": softmax_in_torch,
        "wrong": [
            softmax_over_maximum,
            softmax_first_axis,
            softmax_hard,
            softmax_from_mean,
            softmax_clipped,
            softmax_axis_one,
            softmax_row_by_row,
            softmax_transposed,
            softmax_to_a_power,
            softmax_less_maximum,
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
        "also_right": crawl_from_zero,
        "wrong": [
            crawl_margin,
            crawl_no_constant,
            crawl_times_lead,
            crawl_all_rivals,
            crawl_from_key,
            crawl_half,
            crawl_nearest,
            crawl_unless(np.isclose),
            crawl_unless(lambda value, best: value >= best - 0.1),
            crawl_unless(lambda value, best: value >= best - 0.01),
            crawl_unless(lambda value, best: value >= best - 1e-3),
        ],
    },
    "05.5": {
        "also_right": pairwise,
        "wrong": [
            textbook_with_eps,
            textbook_in_torch,
            single_precision,
            winner_alone_minus,
            winner_in_brackets,
            winner_from_losers,
        ],
    },
    "05.6": {
        "also_right": broken_by_cases,
        "wrong": [
            broken_not_unit,
            broken_never,
            broken_mean,
            broken_winner,
            broken_first_only,
            broken_leads_at_any,
            broken_mean_lead,
            broken_if(lambda growth: growth[0] > 0),
            broken_if(lambda growth: growth[1] > 0),
            broken_if(lambda growth: growth.min() > 0.1),
            broken_if(lambda growth: growth.min() > 0.01),
            broken_if(lambda growth: growth.min() > -0.1),
            broken_if(lambda growth: growth.min() > -0.01),
        ],
    },
}
