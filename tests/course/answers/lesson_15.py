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


def reasons_one_by_one(chosen, fine):
    """Each data set by itself: for each choice the norms that could hold it, as a set."""
    counts = {"way": 0, "one-sided": 0, "both excluded": 0, "unfinished": 0}
    for pair, could in zip(chosen, fine, strict=True):
        if (pair[0] == pair[1]).all():
            continue
        holds = [{k for k in range(2) if could[m][k]} for m in range(2)]
        if 0 not in holds[0] or 1 not in holds[1]:
            counts["unfinished"] += 1
        else:
            more = sum(len(norms) for norms in holds) - 2
            counts[("both excluded", "one-sided", "way")[more]] += 1
    return [sum(counts.values()), *counts.values()]


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
    "15.3": {
        "also_right": reasons_one_by_one,
        "wrong": [
            lambda chosen, fine: reasons_one_by_one(chosen, fine[:, ::-1]),
            lambda chosen, fine: reasons_one_by_one(chosen, fine[:, :, ::-1]),
            lambda chosen, fine: reasons_one_by_one(chosen, ~fine),
            lambda chosen, fine: reasons_one_by_one(chosen[:, :, :1], fine),
            lambda chosen, fine: reasons_one_by_one(chosen, fine | np.eye(2, dtype=bool)),
            lambda chosen, fine: reasons_one_by_one(chosen, fine & fine[:, ::-1, ::-1]),
            lambda chosen, fine: reasons_one_by_one(chosen, fine | fine[:, ::-1, ::-1]),
            lambda chosen, fine: np.array(reasons_one_by_one(chosen, fine))[[0, 2, 1, 3, 4]],
            lambda chosen, fine: np.array(reasons_one_by_one(chosen, fine))[[0, 1, 3, 2, 4]],
            lambda chosen, fine: np.array(reasons_one_by_one(chosen, fine))[[0, 1, 2, 4, 3]],
            lambda chosen, fine: np.cumsum(reasons_one_by_one(chosen, fine)),
            lambda chosen, fine: [
                int((chosen[:, 0] != chosen[:, 1]).sum()),
                *reasons_one_by_one(chosen, fine)[1:],
            ],
            lambda chosen, fine: [len(chosen), *reasons_one_by_one(chosen, fine)[1:]],
            lambda chosen, fine: [0, 0, 0, 0, 0],
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
