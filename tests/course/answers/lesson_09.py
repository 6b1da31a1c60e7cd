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


def late_by_doubling(step, gap, lead, attention=0.99):
    """The step by halving, in the logarithm, between now and the doubling that is too late."""

    def decided(log_step):
        rival = np.exp(-gap - lead * 2 * (log_step - np.log(step)))
        return 1 / (1 + rival) >= attention

    if lead == 0:
        return float("inf")
    low = np.log(step)
    high = low + 1
    while not decided(high):
        high += 1
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return float(np.exp(high))


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
        "also_right": late_by_doubling,
        "wrong": [
            lambda step, gap, lead: np.inf,
            lambda step, gap, lead: step,
            lambda step, gap, lead: late_by_doubling(step, gap, lead / 2),
            lambda step, gap, lead: late_by_doubling(step, gap, 2 * lead),
            lambda step, gap, lead: late_by_doubling(step, 0.0, lead),
            lambda step, gap, lead: late_by_doubling(step, gap, lead, attention=0.9),
            lambda step, gap, lead: late_by_doubling(1.0, gap, lead),
            lambda step, gap, lead: late_by_doubling(step, gap, lead) - step,
            lambda step, gap, lead: late_by_doubling(step, gap, max(lead, 0.1)),
            lambda step, gap, lead: min(1e5, late_by_doubling(step, gap, lead)),
            lambda step, gap, lead: late_by_doubling(step, gap, lead**2),
            lambda step, gap, lead: late_by_doubling(step, abs(gap), lead),
        ],
    },
}
