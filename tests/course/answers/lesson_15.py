"""Answers to lesson 15's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
from scipy.optimize import minimize_scalar


def signed_power(x, c):
    return np.copysign(np.abs(x) ** c, x)


def distance_by_definition(
    W, A, lam, rho, unit=lambda w, rho: (np.abs(w) ** rho).sum() ** (1 / rho), swap=False, goal=None
):
    """D of the directions by its three terms, with W_rho as the mirror image of S."""
    S = sum(one * row for one, row in zip(lam, A, strict=True))
    b = signed_power(S / np.abs(S).max(), 1 / (rho - 1)) if goal is None else goal(S)
    a, b = W / unit(W, rho), b / unit(b, rho)
    if swap:
        a, b = b, a
    psi = [(np.abs(w) ** rho).sum() / rho for w in (a, b)]
    return psi[0] - psi[1] - signed_power(b, rho - 1) @ (a - b)


def held_by_search(a, b, rho):
    """The shortest point on the edge p.a = 1: the first ones in the plane by search, else by KKT."""
    found = []
    for one, other in zip(np.asarray(a, float), np.asarray(b, float), strict=True):
        p = signed_power(one, 1 / (rho - 1))
        p = p / (p @ one)
        if len(one) == 2 and len(found) < 3:
            along = np.array([-one[1], one[0]])
            at = one / (one @ one)
            best = minimize_scalar(
                lambda c, at=at, along=along: (np.abs(at + c * along) ** rho).sum(), options={"xtol": 1e-12}
            )
            p = at + best.x * along
        found.append(p @ other > 1)
    return np.array(found)


def falls_of_two_errors(
    rho, c, keep=max, order=2, grows=lambda rho: 1 / (rho - 1), zigzag=lambda c: c, fixed=lambda c: 0
):
    """The powers of both relative errors, in W and in S; the larger error has the larger power."""
    length = 1 + c  # the power of S
    return order * keep(fixed(c) - length * grows(rho), zigzag(c) - length)


def error_by_covariances(difference, r, shared=lambda r: 1 - r, ddof=1):
    """The variance of one, from the sample; then all J^2 covariances, one by one."""
    J = len(difference)
    mean = sum(difference) / J
    variance = sum((x - mean) ** 2 for x in difference) / (J - ddof) / shared(r)
    return (sum(variance if j == k else r * variance for j in range(J) for k in range(J)) / J**2) ** 0.5


ANSWERS = {
    "15.1": {
        "also_right": distance_by_definition,
        "wrong": [
            lambda W, A, lam, rho: distance_by_definition(W, A, lam, rho, swap=True),
            lambda W, A, lam, rho: distance_by_definition(W, A, lam, rho, unit=lambda w, rho: (w @ w) ** 0.5),
            lambda W, A, lam, rho: distance_by_definition(W, A, lam, rho, unit=lambda w, rho: 1.0),
            lambda W, A, lam, rho: distance_by_definition(
                W, A, lam, rho, unit=lambda w, rho: (np.abs(w) ** rho).sum()
            ),
            lambda W, A, lam, rho: distance_by_definition(W, A, lam, rho, goal=lambda S: S),
            lambda W, A, lam, rho: distance_by_definition(W, A, lam, rho / (rho - 1)),
            lambda W, A, lam, rho: distance_by_definition(W, A, np.ones(len(A)), rho),
            lambda W, A, lam, rho: distance_by_definition(W, A, lam**2, rho),
            lambda W, A, lam, rho: distance_by_definition(W, A, lam, rho) * rho,
            lambda W, A, lam, rho: max(distance_by_definition(W, A, lam, rho), 0) ** 0.5,
            lambda W, A, lam, rho: 1 - distance_by_definition(W, A, lam, rho),
            lambda W, A, lam, rho: (
                (distance_by_definition(W, A, lam, rho) + distance_by_definition(W, A, lam, rho, swap=True))
                / 2
            ),
            lambda W, A, lam, rho: distance_by_definition(W, np.abs(A), lam, rho),
            lambda W, A, lam, rho: distance_by_definition(W, A, lam, 2.0),
        ],
    },
    "15.2": {
        "also_right": falls_of_two_errors,
        "wrong": [
            lambda rho, c: falls_of_two_errors(rho, c, keep=min),
            lambda rho, c: falls_of_two_errors(rho, c, keep=lambda in_W, in_S: in_W),
            lambda rho, c: falls_of_two_errors(rho, c, keep=lambda in_W, in_S: in_S),
            lambda rho, c: falls_of_two_errors(rho, c, keep=lambda in_W, in_S: in_W + in_S),
            lambda rho, c: falls_of_two_errors(rho, c, keep=lambda in_W, in_S: (in_W + in_S) / 2),
            lambda rho, c: falls_of_two_errors(rho, c, order=1),
            lambda rho, c: falls_of_two_errors(rho, c, order=rho),
            lambda rho, c: falls_of_two_errors(rho, c, order=-2),
            lambda rho, c: falls_of_two_errors(rho, c, grows=lambda rho: rho - 1),
            lambda rho, c: falls_of_two_errors(rho, c, grows=lambda rho: 1 / rho),
            lambda rho, c: falls_of_two_errors(rho, c, grows=lambda rho: rho / (rho - 1)),
            lambda rho, c: falls_of_two_errors(rho, c, grows=lambda rho: 2 / (rho - 1)),
            lambda rho, c: falls_of_two_errors(rho / (rho - 1), c),
            lambda rho, c: falls_of_two_errors(rho, 0),
            lambda rho, c: falls_of_two_errors(rho, c, zigzag=lambda c: 0),
            lambda rho, c: falls_of_two_errors(rho, c, fixed=lambda c: c),
            lambda rho, c: falls_of_two_errors(rho, c / 2),
            lambda rho, c: falls_of_two_errors(rho, c - 1),
            lambda rho, c: -2 * (1 + c) if rho > 2 + c else -2.0,
            lambda rho, c: -2.0 if rho <= 2 else falls_of_two_errors(rho, c, keep=lambda in_W, in_S: in_W),
            lambda rho, c: -2.0 if rho <= 2.5 else falls_of_two_errors(rho, c, keep=lambda in_W, in_S: in_W),
            lambda rho, c: -2.0 if rho < 3 else falls_of_two_errors(rho, c, keep=lambda in_W, in_S: in_W),
            lambda rho, c: -2.0 if rho <= 2 + c / 2 else -2 * (1 + c) / (rho - 1),
            lambda rho, c: -2.0 if rho < 2 + 2 * c else -2 * (1 + c) / (rho - 1),
            lambda rho, c: falls_of_two_errors(rho, min(c, 1)),
            lambda rho, c: falls_of_two_errors(rho, c, keep=min, grows=lambda rho: 1.0),
        ],
    },
    "15.3": {
        "also_right": held_by_search,
        "wrong": [
            lambda a, b, rho: held_by_search(b, a, rho),
            lambda a, b, rho: ~held_by_search(a, b, rho),
            lambda a, b, rho: held_by_search(a, b, 2.0),
            lambda a, b, rho: held_by_search(a, b, rho / (rho - 1)),
            lambda a, b, rho: (a * b).sum(axis=1) > 0,
            lambda a, b, rho: np.linalg.norm(b, rho, axis=1) > np.linalg.norm(a, rho, axis=1),
            lambda a, b, rho: np.ones(len(a), dtype=bool),
            lambda a, b, rho: np.abs(b).max(axis=1) > np.abs(a).max(axis=1),
            lambda a, b, rho: held_by_search(-a, b, rho),
            lambda a, b, rho: (np.abs(a) ** (rho / (rho - 1)) / a * (b - a)).sum(axis=1) > 0,  # not at 0
            lambda a, b, rho: (a * np.abs(a) ** ((2 - rho) / (rho - 1)) * (b - a)).sum(axis=1) > 0,
        ],
    },
    "15.4": {
        "also_right": error_by_covariances,
        "wrong": [
            lambda difference, r: error_by_covariances(difference, 0.0),
            lambda difference, r: error_by_covariances(difference, r, lambda r: 1.0),
            lambda difference, r: error_by_covariances(difference, r, lambda r: 1 + r),
            lambda difference, r: error_by_covariances(difference, r, lambda r: 1 / (1 - r)),
            lambda difference, r: error_by_covariances(difference, r, ddof=0),
            lambda difference, r: error_by_covariances(difference, r**2),
            lambda difference, r: error_by_covariances(difference, 1 - r) if 0 < r < 1 else np.nan,
            lambda difference, r: error_by_covariances(difference, r) ** 2,
            lambda difference, r: 2 * error_by_covariances(difference, r),
            lambda difference, r: np.std(difference, ddof=1) / (len(difference) * (1 - r)) ** 0.5,
            lambda difference, r: np.std(difference, ddof=1) * (r + 1 / len(difference)) ** 0.5,
            lambda difference, r: abs(np.mean(difference)),
            lambda difference, r: np.std(difference) * ((1 + len(difference) * r) / len(difference)) ** 0.5,
        ],
    },
}
