"""Answers to lesson 09's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np


def lift_by_halving(x, e, y, v_rest, least=1.0):
    """The lift at which the signed output of x + b e passes 1, by trying larger and larger lifts."""

    def free(b):
        return bool(y * np.dot(v_rest, x + b * e) >= least)

    if free(0.0):
        return 0
    high = 1.0
    while not free(high):
        high *= 2
        if high > 1e9:
            return np.inf
    low = 0.0
    for _ in range(100):
        b = (low + high) / 2
        low, high = (low, b) if free(b) else (b, high)
    return high


def leads_one_by_one(g, mu, lam):
    """Exponents less signed outputs, in a loop, over the smallest of them."""
    leads = []
    for factor, share_of_v, share_of_p in zip(g, mu, lam, strict=True):
        exponent, output = -np.log(share_of_p / factor), -np.log(share_of_v)
        leads.append(exponent - output)
    return [lead - min(leads) for lead in leads]


def angle_of_the_largest_exponent(lift, ratio, tokens=None, outputs=None):
    """The angle in degrees at which the smallest signed output plus lead is largest, by thirds."""
    tokens = np.array(tokens or [(1, 1), (1, -1), (0.5, 1 + lift)])
    outputs = np.array(outputs or (1, 1, 1 + lift))

    def least(angle):
        return (tokens @ (np.cos(angle), np.sin(angle)) + ratio * outputs).min()

    low, high = -0.7, 1.5
    for _ in range(200):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        low, high = (one, high) if least(one) < least(two) else (low, two)
    return float(np.degrees(low))


def attention_by_halving(factor, lead, tau, margin, upper, lower):
    """The odds grow with the steps; without a relaxed lead s is halved until the mixture is at the margin."""
    if tau > 0:
        odds = np.exp(lead) * factor ** (2 * tau)
        return odds / (1 + odds)
    low, high = 0.0, 1.0
    for _ in range(60):
        s = (low + high) / 2
        low, high = (s, high) if s * upper + (1 - s) * lower < margin else (low, s)
    return low


ANSWERS = {
    "09.1": {
        "also_right": lift_by_halving,
        "wrong": [
            lambda x, e, y, v_rest: lift_by_halving(x, e, y, v_rest, least=0.0),
            lambda x, e, y, v_rest: lift_by_halving(x, e, y, v_rest, least=np.linalg.norm(v_rest)),
            lambda x, e, y, v_rest: lift_by_halving(x, e, y, v_rest / np.linalg.norm(v_rest)),
            lambda x, e, y, v_rest: lift_by_halving(x, e / np.linalg.norm(e), y, v_rest),
            lambda x, e, y, v_rest: lift_by_halving(x, v_rest, y, v_rest),
            lambda x, e, y, v_rest: lift_by_halving(x, y * e, y, v_rest),
            lambda x, e, y, v_rest: min(1e6, lift_by_halving(x, e, y, v_rest)),
            lambda x, e, y, v_rest: abs((1 - y * (v_rest @ x)) / (v_rest @ e)),
            lambda x, e, y, v_rest: (y - v_rest @ x) / (v_rest @ e),
            lambda x, e, y, v_rest: lift_by_halving(x, e, y, v_rest) if v_rest @ e > 0 else np.inf,
        ],
    },
    "09.2": {
        "also_right": angle_of_the_largest_exponent,
        "wrong": [
            lambda lift, ratio: angle_of_the_largest_exponent(lift, 0.0),
            lambda lift, ratio: angle_of_the_largest_exponent(
                lift, ratio, tokens=[(1, 1), (1, -1), (0.5, 1)]
            ),
            lambda lift, ratio: angle_of_the_largest_exponent(lift, ratio, outputs=(1, 1, lift)),
            lambda lift, ratio: angle_of_the_largest_exponent(lift, ratio, outputs=(1, -1, 1 + lift)),
            lambda lift, ratio: angle_of_the_largest_exponent(lift, ratio**2),
            lambda lift, ratio: angle_of_the_largest_exponent(lift, 1 / ratio),
            lambda lift, ratio: np.radians(angle_of_the_largest_exponent(lift, ratio)),
            lambda lift, ratio: angle_of_the_largest_exponent(lift, ratio) / (1 + lift),
            lambda lift, ratio: round(angle_of_the_largest_exponent(lift, ratio)),
            lambda lift, ratio: np.degrees(np.arctan(1 / 5)),
            lambda lift, ratio: np.degrees(np.arctan2(1, 4)) if lift == 0 else 0.0,
        ],
    },
    "09.3": {
        "also_right": leads_one_by_one,
        "wrong": [
            lambda g, mu, lam: np.zeros_like(g),
            lambda g, mu, lam: np.array(leads_one_by_one(g, lam, mu)),
            lambda g, mu, lam: np.array(leads_one_by_one(1 / g, mu, lam)),
            lambda g, mu, lam: np.array(leads_one_by_one(g**2, mu, lam)),
            lambda g, mu, lam: np.array(leads_one_by_one(g, mu**2, lam)),
            lambda g, mu, lam: np.array(leads_one_by_one(g, mu, lam))[::-1],
            lambda g, mu, lam: np.sort(leads_one_by_one(g, mu, lam)),
            lambda g, mu, lam: np.array(leads_one_by_one(g, mu / mu.sum(), lam)) + 1,
            lambda g, mu, lam: np.array(leads_one_by_one(g, mu, lam)) / 2,
            lambda g, mu, lam: np.round(leads_one_by_one(g, mu, lam)),
            lambda g, mu, lam: g * mu / lam - (g * mu / lam).min(),
        ],
    },
    "09.4": {
        "also_right": attention_by_halving,
        "wrong": [
            lambda factor, lead, tau, *z: 1 / (1 + np.exp(-lead)),
            lambda factor, lead, tau, *z: 0.5,
            lambda factor, lead, tau, *z: 1.0,
            lambda factor, lead, tau, *z: attention_by_halving(factor, -lead, tau, *z),
            lambda factor, lead, tau, *z: attention_by_halving(1 / factor, lead, tau, *z),
            lambda factor, lead, tau, *z: attention_by_halving(factor**2, lead, tau, *z),
            lambda factor, lead, tau, *z: attention_by_halving(factor, max(lead, 0), tau, *z),
            lambda factor, lead, tau, *z: attention_by_halving(factor, lead, tau**2, *z),
            lambda factor, lead, tau, m, upper, lower: attention_by_halving(
                factor, lead, tau, m, lower, upper
            ),
            lambda factor, lead, tau, m, upper, lower: attention_by_halving(
                factor, lead, tau, 1.0, upper, lower
            ),
            lambda factor, lead, tau, m, upper, lower: attention_by_halving(
                factor, lead, tau, m, upper, min(lower, 1)
            ),
            lambda factor, lead, tau, m, upper, lower: abs(
                (m - lower) / (upper - lower)
                if tau == 0
                else attention_by_halving(factor, lead, tau, m, 2, 0)
            ),
            lambda factor, lead, tau, m, upper, lower: (
                np.clip((m - lower) / (upper - lower), 0.01, 0.99)
                if tau == 0
                else attention_by_halving(factor, lead, tau, m, 2, 0)
            ),
            lambda *z: round(attention_by_halving(*z), 1),
        ],
    },
}
