"""Answers to lesson 17's exercises: a second right one each, and wrong ones that the checks have to catch."""

import math

import numpy as np


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


def clock_by_quadrature(way, log_g, eta, panels=400, up=lambda u: -u, plus=0.0):
    """The steps in each stretch by Simpson's rule, relative to the most that a unit of length takes."""
    way, u = np.asarray(way, float), up(np.asarray(log_g, float) + math.log(eta)) + plus
    top, share, total = u.max(), np.linspace(0, 1, 2 * panels + 1), 0.0
    weight = np.ones(2 * panels + 1)
    weight[1:-1:2], weight[2:-1:2] = 4, 2
    for k in range(len(way) - 1):
        height = np.exp((1 - share) * u[k] + share * u[k + 1] - top)
        total += (way[k + 1] - way[k]) * (weight @ height) / (6 * panels)
    return (top + math.log(total)) / math.log(10)


def fade_by_differences(rows, lam, u, sign=-1.0, power=1.0, level=lambda total: np.log(total), far=1.0):
    """Down the gradient of log sum lambda e^-<A, u> / mu, by differences, without its part along the SVM."""
    rows, lam, eps = np.asarray(rows, float), np.asarray(lam, float), 1e-5
    unit, mu = lam @ rows / np.linalg.norm(lam @ rows), 1 / math.sqrt(lam.sum())

    def height(u):
        return level((lam**power) @ np.exp(sign * rows @ u)) / mu

    slope = [(height(far * u + eps * e) - height(far * u - eps * e)) / (2 * eps) for e in np.eye(len(u))]
    return -(np.array(slope) - (unit @ slope) * unit)


def fade_row_by_row(rows, lam, u, forth=lambda W_mm, rows: W_mm / math.hypot(*W_mm), bend=1.0, less=None):
    """The rows' pulls added up one by one, less their part along `forth`, or less what `less` gives."""
    rows, u = np.asarray(rows, float), np.asarray(u, float)
    forth = forth(sum(one * A for one, A in zip(lam, rows, strict=True)), rows)
    pull = sum(one * math.exp(-bend * (A @ u)) * A for one, A in zip(lam, rows, strict=True))
    off = forth * (forth @ pull) if less is None else less(pull, forth)
    return (pull - off) / (forth @ pull)


def plain_by_integrating(rows, lam, c, eta, j, r=remainder_by_kkt, long=1.0, read=np.mean):
    """s from each row and the remainder, and the step e^(mu R) dR = eta s ||W_mm|| dj."""
    s = read(c * np.exp(-rows @ r(rows, lam, c)) / lam)
    mu = 1 / math.sqrt(lam.sum())
    return math.log(mu * eta * s / mu * long * j) / mu


def plain_from_0(rows, lam, c, eta, j):
    """The run begins at R = 0: e^(mu R) - 1 = eta s j."""
    s = math.exp(lam @ np.log(c / lam) / lam.sum())
    return math.log1p(eta * s * j) * np.linalg.norm(lam @ rows)


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
        "also_right": plain_by_integrating,
        "more_right": [plain_from_0],
        "wrong": [
            lambda *given: plain_by_integrating(*given) * (1 + 5e-4),
            lambda *given: plain_by_integrating(*given, r=lambda rows, lam, c: 0 * rows[0]),
            lambda *given: plain_by_integrating(
                *given, r=lambda rows, lam, c: -remainder_by_kkt(rows, lam, c)
            ),
            lambda *given: plain_by_integrating(*given, long=2.0),
            lambda rows, lam, c, eta, j: plain_by_integrating(rows, lam, c, 1.0, j),
            lambda rows, lam, c, eta, j: plain_by_integrating(rows, lam, c, eta, math.sqrt(j)),
            lambda rows, lam, c, eta, j: plain_by_integrating(rows, lam, c, eta, j) / math.log(10),
            lambda rows, lam, c, eta, j: plain_by_integrating(rows, lam, c, eta, j) * lam.sum(),
            lambda rows, lam, c, eta, j: plain_by_integrating(rows, lam, lam, eta, j),
            lambda rows, lam, c, eta, j: math.log1p(eta * j) / np.linalg.norm(rows, axis=1).min(),
        ],
    },
    "17.3": {
        "also_right": clock_by_quadrature,
        "wrong": [
            lambda way, log_g, eta: clock_by_quadrature(way, log_g, eta, panels=1),
            lambda way, log_g, eta: clock_by_quadrature(way, log_g, eta, up=lambda u: u),
            lambda way, log_g, eta: clock_by_quadrature(way, log_g, eta, plus=0.1),
            lambda way, log_g, eta: clock_by_quadrature(way, log_g, 1 / eta),
            lambda way, log_g, eta: clock_by_quadrature(way, log_g, 1.0),
            lambda way, log_g, eta: clock_by_quadrature(way, 0.5 * np.asarray(log_g), eta),
            lambda way, log_g, eta: clock_by_quadrature(way, log_g, eta) * math.log(10),
            lambda way, log_g, eta: clock_by_quadrature(way, log_g, eta) / math.log(2),
            lambda way, log_g, eta: clock_by_quadrature(way[1:], log_g[1:], eta) if len(way) > 2 else 0.0,
            lambda way, log_g, eta: clock_by_quadrature(way, log_g - log_g[0], eta),
            lambda way, log_g, eta: math.log10(len(way)),
            lambda way, log_g, eta: float(-log_g[-1] / math.log(10)),
            lambda way, log_g, eta: clock_by_quadrature(way, log_g, eta) - 1,
        ],
    },
    "17.4": {
        "also_right": fade_by_differences,
        "wrong": [
            lambda rows, lam, u: fade_by_differences(rows, lam, u, sign=1.0),
            lambda rows, lam, u: -fade_by_differences(rows, lam, u),
            lambda rows, lam, u: fade_by_differences(rows, lam, u, power=0.0),
            lambda rows, lam, u: fade_by_differences(rows, lam, u, power=2.0),
            lambda rows, lam, u: fade_by_differences(rows, lam, u, level=lambda total: total),
            lambda rows, lam, u: fade_by_differences(rows, lam, u, far=1e-3) * 1e3,
            lambda rows, lam, u: fade_by_differences(rows, lam, u, far=0.5),
            lambda rows, lam, u: 2 * fade_by_differences(rows, lam, u),
            lambda rows, lam, u: fade_by_differences(rows, lam, u) / lam.sum() ** 0.5,
            lambda rows, lam, u: fade_by_differences(rows, lam, u) * lam.sum() ** 0.5,
            lambda rows, lam, u: (d := fade_by_differences(rows, lam, u)) / math.hypot(1, np.linalg.norm(d)),
            lambda rows, lam, u: (d := fade_by_differences(rows, lam, u)) / np.linalg.norm(d),
            lambda rows, lam, u: np.linalg.norm(fade_by_differences(rows, lam, u)),
            lambda rows, lam, u: fade_by_differences(rows, lam, u) / lam.sum(),
            lambda rows, lam, u: fade_row_by_row(rows, lam, u, forth=lambda W_mm, rows: W_mm),
            lambda rows, lam, u: fade_row_by_row(rows, lam, u, forth=lambda W_mm, rows: W_mm / (W_mm @ W_mm)),
            lambda rows, lam, u: fade_row_by_row(
                rows, lam, u, forth=lambda W_mm, rows: rows.mean(0) / np.linalg.norm(rows.mean(0))
            ),
            lambda rows, lam, u: fade_row_by_row(rows, lam, u, less=lambda pull, forth: lam @ rows),
            lambda rows, lam, u: (
                fade_row_by_row(rows, lam, u, less=lambda pull, forth: lam @ rows)
                * (np.exp(-rows @ u) @ lam / math.sqrt(lam.sum()))
            ),
            lambda rows, lam, u: fade_row_by_row(
                rows, lam, u, less=lambda pull, forth: pull - (pull @ u) * u / (u @ u)
            ),
            lambda rows, lam, u: fade_row_by_row(rows, lam, u, bend=1 / math.sqrt(lam.sum())),
            lambda rows, lam, u: fade_by_differences(rows, lam, u) + lam @ rows / np.linalg.norm(lam @ rows),
            lambda rows, lam, u: 0 * u,
        ],
    },
}
