"""Other right answers, and wrong ones beyond the misconceptions, for the exercises of lesson 05."""

import itertools

import numpy as np
import torch
from scipy.optimize import nnls


def softmax_in_torch(h):
    return torch.softmax(torch.as_tensor(h), dim=-1)


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


def output(p, keys, g):
    return float(softmax_in_torch(keys @ p).numpy() @ g)


def lengthening_by_autograd(p, keys, g):
    R = torch.tensor(float(np.linalg.norm(p)), dtype=torch.float64, requires_grad=True)
    u = torch.as_tensor(p) / np.linalg.norm(p)
    (torch.softmax(torch.as_tensor(keys) @ (R * u), dim=0) @ torch.as_tensor(g)).backward()
    return R.grad


def lengthening_as_covariance(p, keys, g):
    s, speed = softmax_in_torch(keys @ p).numpy(), keys @ p / np.linalg.norm(p)
    return s @ (speed * g) - (s @ speed) * (s @ g)


def lengthening_plain_covariance(p, keys, g):
    return np.cov(keys @ p / np.linalg.norm(p), g)[0, 1]


def lengthening_to_the_next_unit(p, keys, g):
    """What one unit of length changes, in place of the derivative."""
    return output(p + p / np.linalg.norm(p), keys, g) - output(p, keys, g)


def lengthening_average(p, keys, g):
    return (output(p, keys, g) - g.mean()) / np.linalg.norm(p)


def lengthening_winners_share(p, keys, g):
    """How fast the winner's own attention grows."""
    h = keys @ p
    return lengthening_as_covariance(p, keys, (h == h.max()).astype(float))


def lengthening_correlation(p, keys, g):
    s, speed = softmax_in_torch(keys @ p).numpy(), keys @ p / np.linalg.norm(p)
    spread = np.sqrt(s @ (speed - s @ speed) ** 2 * (s @ (g - s @ g) ** 2))
    return lengthening_as_covariance(p, keys, g) / spread


def lengthening_saturated(p, keys, g):
    """Only the winner and its nearest rival."""
    two = np.argsort(keys @ p)[-2:]
    return lengthening_as_covariance(p, keys[two], g[two])


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


def winner_from_losers(h, g):
    slopes, a = textbook(h, g), np.argmax(h)
    slopes[a] -= slopes.sum()
    return slopes


def winner_alone_minus(h, g):
    """All entries from the anchored values, but without the attention before the bracket."""
    s = softmax_in_torch(h).numpy()
    g = g - g[np.argmax(h)]
    return g - s @ g


def broken_by_corners(keys):
    """The nearest point by trial: the level point of a set of losers that has all others behind."""
    losers = keys[1:]
    for size in range(1, keys.shape[1] + 1):
        for some in itertools.combinations(range(len(losers)), size):
            corner = losers[list(some)]
            gram = np.block([[corner @ corner.T, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            share = np.linalg.lstsq(gram, np.append(np.zeros(size), 1.0), rcond=None)[0][:-1]
            n = share @ corner
            if (share >= 0).all() and n @ n > 1e-9 and (losers @ n >= n @ n - 1e-9).all():
                growth = ((keys[0] - losers) @ -n).min()
                return torch.as_tensor(-n / np.linalg.norm(n) * (growth > 0))
    return torch.zeros(keys.shape[1], dtype=torch.float64)  # none: the origin is inside


def broken_not_unit(keys):
    direction = broken_by_corners(keys).numpy()
    return 2 * direction


def broken_never(keys):
    return np.zeros(keys.shape[1])


def broken_mean(keys):
    """Away from the mean of all three keys."""
    mean = keys.mean(axis=0)
    return -mean / np.linalg.norm(mean)


def broken_if(leaves, point=None):
    """Away from a point, the right one if none is given, if the growth of the leads is taken for enough."""

    def answer(keys):
        n = (point or broken_point)(keys[1:])
        direction = -n / max(np.linalg.norm(n), 1e-9)
        return direction * bool(leaves((keys[0] - keys[1:]) @ direction))

    return answer


def broken_winner(keys):
    return keys[0] / np.linalg.norm(keys[0])


def broken_first_only(keys):
    """Token 2 taken for the nearest rival, whatever the keys."""
    direction = -keys[1] / np.linalg.norm(keys[1])
    return direction if ((keys[0] - keys[1:]) @ direction > 0).all() else 0 * direction


def broken_point(losers):
    """The hull's nearest point, by nonnegative weights that add up to one."""
    weights = nnls(np.vstack([losers.T, np.ones(len(losers))]), np.append(np.zeros(losers.shape[1]), 1.0))[0]
    point = weights @ losers / weights.sum()
    return point * (np.linalg.norm(point) > 1e-9)


def affine_point(losers):
    """Nearest to the origin of all points whose weights add up to one, negative weights too."""
    along = losers[1:] - losers[0]
    return losers[0] - np.linalg.pinv(along) @ along @ losers[0]


ANSWERS = {
    "05.1": {
        "also_right": jacobian_product,
        "wrong": [jacobian_with_plus, sign_reversed, unnormalised],
    },
    "05.2": {
        "also_right": lengthening_by_autograd,
        "wrong": [
            lengthening_plain_covariance,
            lengthening_to_the_next_unit,
            lengthening_average,
            lengthening_winners_share,
            lengthening_correlation,
            lengthening_saturated,
        ],
    },
    "05.3": {
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
    "05.4": {
        "also_right": pairwise,
        "wrong": [
            textbook_with_eps,
            textbook_in_torch,
            single_precision,
            winner_alone_minus,
            winner_from_losers,
        ],
    },
    "05.5": {
        "also_right": broken_by_corners,
        "wrong": [
            broken_not_unit,
            broken_never,
            broken_mean,
            broken_winner,
            broken_first_only,
            broken_if(lambda growth: growth.max() > 0),
            broken_if(lambda growth: growth.mean() > 0),
            broken_if(lambda growth: growth.min() > 0, point=affine_point),
            broken_if(lambda growth: growth.min() > 0, point=lambda losers: broken_point(losers[:2])),
            broken_if(lambda growth: growth[0] > 0),
            broken_if(lambda growth: growth[1] > 0),
            broken_if(lambda growth: growth.min() > 0.1),
            broken_if(lambda growth: growth.min() > 0.01),
            broken_if(lambda growth: growth.min() > -0.1),
            broken_if(lambda growth: growth.min() > -0.01),
        ],
    },
}
