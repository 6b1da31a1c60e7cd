"""Answers to lesson 09's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
import torch


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


def sides_by_where(u, kappa):
    side = 1 + kappa - kappa * u
    return torch.tensor(np.where(side > 0, side, 0.0))


def border_by_bisection(u, leads, v_norm, p_norm):
    """The smallest kappa at which p_rel satisfies 09.2's constraints, sides clipped at 0, by halving."""
    outside = u > 1 + 1e-6

    def holds(kappa):
        return bool((leads[outside] >= sides_by_where(u[outside], kappa).numpy()).all())

    if holds(0):
        return 0.0
    low, high = 0.0, 1.0
    while not holds(high):
        assert high < 1e12, "no ratio frees every sequence"
        high *= 2
    for _ in range(80):
        kappa = (low + high) / 2
        low, high = (low, kappa) if holds(kappa) else (kappa, high)
    return high * v_norm / p_norm


def border_in_a_loop(u, leads, v_norm, p_norm, tolerance=1e-5):
    """The smallest ratio of a fine enough search: bisection on "all softened constraints hold"."""
    outside = [(output, lead) for output, lead in zip(u, leads, strict=True) if output > 1 + tolerance]
    low, high = 0.0, 1e3
    for _ in range(80):
        kappa = (low + high) / 2
        holds = all(lead >= 1 - kappa * (output - 1) for output, lead in outside)
        low, high = (low, kappa) if holds else (kappa, high)
    return high * v_norm / p_norm


def outside_first_or_last(u, leads, place):
    """Kappa from the sequence outside S that comes first (0), or last (-1)."""
    outside = u > 1 + 1e-6
    quotients = (1 - leads[outside]) / (u[outside] - 1)
    return max(0, quotients[place]) if outside.any() else 0.0


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
        "also_right": border_by_bisection,
        "wrong": [
            lambda u, leads, v_norm, p_norm: v_norm / p_norm,
            lambda u, leads, v_norm, p_norm: max(0, max(1 - leads)) * v_norm / p_norm,
            lambda u, leads, v_norm, p_norm: 2 * border_in_a_loop(u, leads, v_norm, p_norm),
            lambda u, leads, v_norm, p_norm: (
                max(0, np.nanmax((1 - leads) / np.where(u > 1, u - 1, np.nan))) * v_norm / p_norm
            ),
            lambda *args: border_in_a_loop(*args, tolerance=0.01),
            lambda *args: border_in_a_loop(*args, tolerance=0.1),
            lambda u, leads, v_norm, p_norm: (
                max(0, ((1 - leads[u > 1.001]) / (u[u > 1.001] - 1)).max()) * v_norm / p_norm
            ),
            lambda u, leads, v_norm, p_norm: outside_first_or_last(u, leads, 0) * v_norm / p_norm,
            lambda u, leads, v_norm, p_norm: outside_first_or_last(u, leads, -1) * v_norm / p_norm,
        ],
    },
    "09.4": {
        "also_right": lambda better, worse, ratio, v_norm, p_norm: min(
            1.0, max(0.0, (1 - worse) / (better - worse) + v_norm / p_norm / ratio / (better - worse))
        ),
        "wrong": [
            lambda better, worse, ratio, v_norm, p_norm: 1.0,
            lambda better, worse, ratio, v_norm, p_norm: 0.5,
            lambda better, worse, ratio, v_norm, p_norm: float(
                np.clip((1 + v_norm / (ratio * p_norm) - better) / (better - worse), 0, 1)
            ),
            lambda better, worse, ratio, v_norm, p_norm: float(
                np.clip((1 + v_norm / (ratio * p_norm) - worse) / (better + worse), 0, 1)
            ),
            lambda better, worse, ratio, v_norm, p_norm: round(
                float(np.clip((1 + v_norm / (ratio * p_norm) - worse) / (better - worse), 0, 1))
            ),
            lambda better, worse, ratio, v_norm, p_norm: float(
                np.clip((1 + (v_norm / (ratio * p_norm)) ** 2 - worse) / (better - worse), 0, 1)
            ),
            lambda better, worse, ratio, v_norm, p_norm: float(
                np.clip((1 + v_norm / (ratio * p_norm) - min(worse, 1)) / (better - worse), 0, 1)
            ),
            lambda better, worse, ratio, v_norm, p_norm: float(
                np.clip((1 + v_norm / (ratio * p_norm) - worse) / (better - worse), 0.05, 0.95)
            ),
            lambda better, worse, ratio, v_norm, p_norm: float(
                1 / (1 + np.exp(-(1 + v_norm / (ratio * p_norm) - worse) / (better - worse)))
            ),
            lambda better, worse, ratio, v_norm, p_norm: float(
                np.clip((1 + v_norm / (ratio * p_norm)) * (1 - worse) / (better - worse), 0, 1)
            ),
        ],
    },
}
