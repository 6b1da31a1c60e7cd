"""Answers to lesson 17's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math

import numpy as np
from scipy.optimize import brentq


def remainder_by_kkt(rows, lam, c, log=np.log, right=lambda c, lam: c / lam):
    """Unknowns: the coefficients of the rows, and the constant."""
    k = len(rows)
    w = lam @ rows
    system = np.zeros((k + 1, k + 1))
    system[:k, :k] = rows @ rows.T
    system[:k, k] = 1
    system[k, :k] = rows @ w
    found = np.linalg.solve(system, np.append(log(right(c, lam)), 0))
    return found[:k] @ rows


def remainder_by_lstsq(rows, lam, c, rcond=None, ridge=0.0):
    b, unit = np.log(c / lam), lam @ rows / np.linalg.norm(lam @ rows)
    if ridge:
        r = rows.T @ np.linalg.solve(rows @ rows.T + ridge * np.eye(len(rows)), b)
    else:
        r = np.linalg.lstsq(rows, b, rcond=rcond)[0]
    return r - (r @ unit) * unit


def weights_by(remainder, memory=None):
    """The weights from a remainder, and what is kept of w, by QR."""

    def answer(rows, lam, c, w, R):
        Q = np.linalg.qr(np.asarray(rows).T)[0]
        left = w - Q @ (Q.T @ w) if memory is None else memory(rows, w)
        goal = rows.T @ np.linalg.solve(rows @ rows.T, np.ones(len(rows)))  # where all leads are 1
        return np.asarray(remainder(rows, lam, c)) + left + R * goal / np.linalg.norm(goal)

    return answer


def clock_in_logs(R, log_g, mu, eta, a, steps, add=0.0):
    """By the number of steps, in logs, from where e^(a mu rho) would have begun."""
    if a == 0:
        return R + eta * steps
    before = -a * log_g - math.log(a * mu * eta)  # log of the steps that would have led here
    return R + (np.logaddexp(before, math.log(steps) + add) - before) / (a * mu)


def clock_step_by_step(R, log_g, mu, eta, a, steps, most=100):
    """The steps themselves, or fewer and longer ones."""
    each = max(1, steps // most)
    for _ in range(min(steps, most)):
        step = each * eta * math.exp(a * log_g)
        R, log_g = R + step, log_g - mu * step
    return R


def speed_by_margin(rows, lam):
    mu = 1 / math.sqrt(lam.sum())  # ||sum lam A||^2 = sum lam, since each tight lead is 1
    return mu * lam.sum() / (lam @ np.linalg.norm(rows, axis=1))


def adam_by_brentq(eta, mu, beta_1, beta_2, square=lambda x: x):
    def left(b):
        kept = (1 - beta_2 * math.exp(2 * b)) / (1 - beta_2)
        return b - eta * mu * (1 - beta_1) / (1 - beta_1 * math.exp(b)) * math.sqrt(max(kept, 0))

    return brentq(left, 0, -math.log(beta_2) / 2 * (1 - 1e-15), xtol=1e-16, rtol=1e-12)


def adam_by_iterating(eta, mu, beta_1, beta_2, rounds):
    b = eta * mu
    for _ in range(rounds):
        kept = max((1 - beta_2 * math.exp(2 * b)) / (1 - beta_2), 1e-9)
        b = eta * mu * (1 - beta_1) / abs(1 - beta_1 * math.exp(b)) * math.sqrt(kept)
    return b


ANSWERS = {
    "17.1": {
        "also_right": weights_by(remainder_by_kkt),
        "wrong": [
            weights_by(lambda rows, lam, c: -remainder_by_kkt(rows, lam, c)),
            weights_by(lambda rows, lam, c: remainder_by_kkt(rows, lam, lam)),
            weights_by(lambda rows, lam, c: remainder_by_kkt(rows, np.ones_like(lam), c)),
            weights_by(lambda rows, lam, c: remainder_by_kkt(rows, lam, c, log=np.log2)),
            weights_by(lambda rows, lam, c: remainder_by_kkt(rows, lam, c, log=lambda x: x - 1)),
            weights_by(lambda rows, lam, c: remainder_by_kkt(rows, lam, c, right=lambda c, lam: c * lam)),
            weights_by(
                lambda rows, lam, c: (r := remainder_by_kkt(rows, lam, c)) / np.linalg.norm(r)  # of length 1
            ),
            weights_by(lambda rows, lam, c: np.linalg.lstsq(rows, np.log(c / lam), rcond=None)[0]),
            weights_by(lambda rows, lam, c: np.log(c / lam) @ rows),
            weights_by(lambda rows, lam, c: remainder_by_lstsq(rows, lam, c, rcond=0.05)),
            weights_by(lambda rows, lam, c: remainder_by_lstsq(rows, lam, c, ridge=1e-2)),
            weights_by(remainder_by_kkt, memory=lambda rows, w: w - rows.T @ (rows @ w)),
            weights_by(remainder_by_kkt, memory=lambda rows, w: w - w.mean()),
            lambda rows, lam, c, w, R: weights_by(remainder_by_kkt)(rows, lam, c, w, R * np.linalg.norm(w)),
            lambda rows, lam, c, w, R: weights_by(remainder_by_kkt)(rows, lam, c, w, np.linalg.norm(w)),
            lambda rows, lam, c, w, R: math.atan2(
                np.linalg.norm(weights_by(remainder_by_kkt)(rows, lam, c, w, 0)), R
            ),
        ],
    },
    "17.2": {
        "also_right": clock_in_logs,
        "wrong": [
            clock_step_by_step,
            lambda *given: clock_in_logs(*given, add=1.0),
            lambda *given: clock_in_logs(*given) - given[0],
            lambda R, log_g, mu, eta, a, steps: clock_in_logs(R, log_g, 1 / mu, eta, a, steps),
            lambda R, log_g, mu, eta, a, steps: clock_in_logs(R, log_g, mu, eta, a**2, steps),
            lambda R, log_g, mu, eta, a, steps: clock_in_logs(R, log_g, mu, 1.0, a, steps),
            lambda R, log_g, mu, eta, a, steps: clock_in_logs(R, log_g, mu, eta, a, 2 * steps),
            lambda R, log_g, mu, eta, a, steps: clock_in_logs(R, -mu * R, mu, eta, a, steps),
            lambda R, log_g, mu, eta, a, steps: clock_in_logs(R, 0.0, mu, eta, a, steps),
            lambda R, log_g, mu, eta, a, steps: clock_in_logs(R, log_g + mu * R, mu, eta, a, steps),
            lambda R, log_g, mu, eta, a, steps: clock_in_logs(R, log_g - mu * R, mu, eta, a, steps),
            lambda R, log_g, mu, eta, a, steps: (
                R + (eta * steps if a == 0 else math.log1p(eta * math.exp(a * log_g) * steps))
            ),
            lambda R, log_g, mu, eta, a, steps: math.log(steps) / (max(a, 1e-9) * mu),
            lambda R, log_g, mu, eta, a, steps: R + math.log(steps) / mu,
            lambda R, log_g, mu, eta, a, steps: R * clock_in_logs(0.0, log_g, mu, eta, a, steps),
            lambda R, log_g, mu, eta, a, steps: R + eta * math.exp(a * log_g) * steps ** (1 - a),
        ],
    },
    "17.3": {
        "also_right": speed_by_margin,
        "wrong": [
            lambda rows, lam: speed_by_margin(rows, lam) ** 2,
            lambda rows, lam: speed_by_margin(rows, lam**2),
            lambda rows, lam: speed_by_margin(rows, np.ones_like(lam)),
            lambda rows, lam: 1 / math.sqrt(lam.sum()),
            lambda rows, lam: speed_by_margin(rows / np.linalg.norm(rows, axis=1, keepdims=True), lam),
            lambda rows, lam: lam.sum() / (lam @ np.linalg.norm(rows, axis=1)),
            lambda rows, lam: 1.0,
            lambda rows, lam: np.linalg.norm((rows / np.linalg.norm(rows, axis=1, keepdims=True)).mean(0)),
            lambda rows, lam: speed_by_margin(rows**2, lam),
        ],
    },
    "17.4": {
        "also_right": adam_by_brentq,
        "wrong": [
            lambda eta, mu, b1, b2: adam_by_brentq(eta, mu, 0.0, b2),
            lambda eta, mu, b1, b2: adam_by_brentq(eta, 1.0, b1, b2) * mu,
            lambda eta, mu, b1, b2: math.exp(-adam_by_brentq(eta, mu, b1, b2)),
            lambda eta, mu, b1, b2: -adam_by_brentq(eta, mu, b1, b2),
            lambda eta, mu, b1, b2: -math.log(b2),
            lambda eta, mu, b1, b2: 1 - b2,
            lambda eta, mu, b1, b2: adam_by_iterating(eta, mu, b1, b2, 1),
            lambda eta, mu, b1, b2: adam_by_iterating(eta, mu, b1, b2, 2),
            lambda eta, mu, b1, b2: 2 * adam_by_brentq(eta, mu, b1, b2),
        ],
    },
}
