"""Answers to lesson 15's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
from scipy.optimize import minimize_scalar


def signed_power(x, c):
    return np.copysign(np.abs(x) ** c, x)


def bounds_by_entries(A, lam, rho, scale=lambda leads: min(leads), dual=lambda rho: 1 / (1 - 1 / rho)):
    S = [sum(lam[j] * A[j][k] for j in range(len(A))) for k in range(A.shape[1])]
    W = [np.sign(s) * abs(s) ** (1 / (rho - 1)) for s in S]
    smallest = scale([sum(x * w for x, w in zip(row, W, strict=True)) for row in A])
    upper = sum(abs(w / smallest) ** rho for w in W) ** (1 / rho) if smallest > 0 else float("inf")
    return sum(lam) / sum(abs(s) ** dual(rho) for s in S) ** (1 / dual(rho)), upper


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


def visible_by_weights(S, rho, share):
    W = np.abs(S / np.abs(S).max()) ** (1 / (rho - 1))
    return sum(1 for w in W.ravel() if w >= share)


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


def quoted_in_loops(validation, test, better=lambda new, old: new > old):
    rows = []
    for val, tst in zip(validation, test, strict=True):
        best, top, final = (-1.0, 0.0), 0.0, (-1.0, 0.0)
        for k in range(len(val)):
            for e in range(len(val[k])):
                if better(val[k][e], best[0]):
                    best = (val[k][e], tst[k][e])
                top = max(top, tst[k][e])
            if better(val[k][-1], final[0]):
                final = (val[k][-1], tst[k][-1])
        rows.append((best[1], top, final[1]))
    return [float(np.mean(column)) for column in zip(*rows, strict=True)]


ANSWERS = {
    "15.1": {
        "also_right": bounds_by_entries,
        "wrong": [
            lambda A, lam, rho: (
                bounds_by_entries(A, lam, rho)[0],
                np.inf
                if (A @ signed_power(lam @ A, 1 / (rho - 1))).min() <= 1e-6
                else bounds_by_entries(A, lam, rho)[1],
            ),
            lambda A, lam, rho: bounds_by_entries(A, lam, rho, scale=lambda u: 1 / (1 / float(min(u)))),
            lambda A, lam, rho: bounds_by_entries(A, lam, rho, dual=lambda rho: rho),
            lambda A, lam, rho: bounds_by_entries(A, lam, rho, scale=max),
            lambda A, lam, rho: bounds_by_entries(
                A, lam, rho, scale=lambda leads: sorted(leads)[len(leads) // 2]
            ),
            lambda A, lam, rho: bounds_by_entries(A, lam, rho, scale=lambda leads: 1.0),
            lambda A, lam, rho: bounds_by_entries(A, np.ones_like(lam), rho),
            lambda A, lam, rho: bounds_by_entries(A, lam / lam.sum(), 2.0),
            lambda A, lam, rho: (bounds_by_entries(A, lam, rho)[0], bounds_by_entries(A, lam, rho)[0]),
            lambda A, lam, rho: [1 / x if x else np.inf for x in bounds_by_entries(A, lam, rho)],
            lambda A, lam, rho: (
                bounds_by_entries(A, lam, rho)[0] * lam.sum(),
                bounds_by_entries(A, lam, rho)[1],
            ),
            lambda A, lam, rho: bounds_by_entries(np.abs(A), lam, rho),
            lambda A, lam, rho: (
                bounds_by_entries(A, lam, rho)[0],
                bounds_by_entries(A[lam > 0], lam[lam > 0], rho)[1],
            ),
        ],
    },
    "15.2": {
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
    "15.3": {
        "also_right": visible_by_weights,
        "wrong": [
            lambda S, rho, share: visible_by_weights(S, rho / (rho - 1), share),
            lambda S, rho, share: visible_by_weights(S, 2.0, share),
            lambda S, rho, share: visible_by_weights(np.maximum(S, 0), rho, share),
            lambda S, rho, share: visible_by_weights(S, rho, share**2),
            lambda S, rho, share: visible_by_weights(S, rho, 1 - share),
            lambda S, rho, share: visible_by_weights(S, rho, share) - 1,
            lambda S, rho, share: len(S),
            lambda S, rho, share: sum(abs(x) >= share ** (rho - 1) * S.max() for x in S.ravel()),
            lambda S, rho, share: int((S != 0).sum()),
            lambda S, rho, share: visible_by_weights(S, rho, share) / np.size(S),
        ],
    },
    "15.4": {
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
    "15.5": {
        "also_right": quoted_in_loops,
        "wrong": [
            lambda validation, test: quoted_in_loops(validation, test, lambda new, old: new > old + 1e-3),
            lambda validation, test: quoted_in_loops(test, validation),
            lambda validation, test: quoted_in_loops(validation, test, lambda new, old: new >= old),
            lambda validation, test: quoted_in_loops(validation[:1], test[:1]),
            lambda validation, test: quoted_in_loops(validation.mean(0)[None], test.mean(0)[None]),
            lambda validation, test: quoted_in_loops(test, test),
            lambda validation, test: [x * 100 for x in quoted_in_loops(validation, test)],
            lambda validation, test: quoted_in_loops(validation[..., ::-1], test[..., ::-1]),
            lambda validation, test: (
                [
                    *quoted_in_loops(validation, test)[:2],
                    float(test[..., -1].max(1).mean()),
                ]
            ),
            lambda validation, test: [float(test.mean())] * 3,
            lambda validation, test: [
                *quoted_in_loops(validation, test)[:2],
                quoted_in_loops(validation, test, lambda new, old: new >= old)[2],
            ],
        ],
    },
}
