"""Answers to lesson 07's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np


def winners_in_a_loop(tight):
    total = 0
    for row in tight:
        probability = 1.0
        for k in row:
            probability /= int(k) + 1
        total += probability
    return total


def first_by_tries_and_last_by_bisection(a2, a3, own, second, third):
    """Two numbers linear in the score of token 3: their zeros, from two scores; the third by bisection."""

    def signs(score):
        step = (own - second) * a2 + (own - score) * a3
        p_mm = np.linalg.pinv(np.stack([a2, a3])) @ np.ones(2)
        return np.array([step @ p_mm, step @ a3])

    at, beyond = signs(own), signs(own + 1)
    low, high = -40.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2
        force = (own - second) * a2 + (own - third) * np.exp(-middle) * a3
        low, high = (middle, high) if force @ (a3 - a2) > 0 else (low, middle)
    return np.array([*(own - at / (beyond - at)), low])


def edges_by_the_pull(keys, scores, alpha):
    """On a fine grid of directions: where the token that descent climbs to changes, then bisected."""
    m = len(keys)

    def climbs_to(angle):
        p = np.array([np.cos(angle), np.sin(angle)])
        h = keys @ p
        t = int(h.argmax())
        while True:
            better = [s for s in ((t - 1) % m, (t + 1) % m) if scores[s] > scores[t]]
            if not better:
                return t
            t = max(better, key=lambda s: h[s])

    grid = np.linspace(0, 2 * np.pi, 721) + 0.001
    held = np.array([climbs_to(angle) == alpha for angle in grid])
    found = []
    for j in np.flatnonzero(held[1:] != held[:-1]):
        low, high = grid[j], grid[j + 1]
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if (climbs_to(middle) == alpha) == held[j] else (low, middle)
        found.append([np.cos(low), np.sin(low)])
    first, second = np.array(found)
    nearer = keys[alpha - 1] - keys[(alpha + 1) % m]  # the edge that prefers the corner before alpha
    return np.array([first, second] if first @ nearer > second @ nearer else [second, first])


def turned(degrees):
    def answer(keys, scores, alpha):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        return edges_by_the_pull(keys, scores, alpha) @ np.array([[c, s], [-s, c]])

    return answer


def lead_by_bisection(a2, a3, ratio):
    """The lead at which the difference of the two leads stands still."""
    p_mm = a2 / (a2 @ a2)
    low, high = 1e-3, 1e3
    for _ in range(200):
        lead = (low + high) / 2
        force = a2 - ratio * np.exp(-lead * (p_mm @ (a3 - a2))) * a3
        low, high = (low, lead) if force @ (a3 - a2) > 0 else (lead, high)
    return low


def edges_without_wrap(keys, scores, alpha):
    """Walks down from alpha as far as the array goes, and not from its last corner to its first."""
    m, found = len(keys), []
    for way in (-1, 1):
        t = alpha
        while 0 <= t + way < m and scores[t + way] < scores[t]:
            t += way
        before, after = keys[t - 1], keys[(t + 1) % m]
        p = np.array([after[1] - before[1], before[0] - after[0]])
        found.append(p * np.sign(p @ (keys[t] - after)) / np.linalg.norm(p))
    return np.array(found)


def edges_by_angle(start, step):
    """The right two, in the order of their angles from `start` on."""

    def answer(keys, scores, alpha):
        found = edges_by_the_pull(keys, scores, alpha)
        angle = (np.arctan2(found[:, 1], found[:, 0]) - start) % (2 * np.pi)
        return found[np.argsort(angle)[::step]]

    return answer


ANSWERS = {
    "07.1": {
        "also_right": winners_in_a_loop,
        "wrong": [
            lambda tight: winners_in_a_loop(tight.T),
            lambda tight: winners_in_a_loop(tight - 0.5),
            lambda tight: round(winners_in_a_loop(tight)),
            lambda tight: winners_in_a_loop(set(map(tuple, tight.tolist()))),
            lambda tight: len(tight) * float(np.prod(1 / (tight.mean(axis=0) + 1))),
        ],
    },
    "07.2": {
        "also_right": first_by_tries_and_last_by_bisection,
        "wrong": [
            lambda a2, a3, own, second, third: first_by_tries_and_last_by_bisection(
                a3, a2, own, second, third
            ),
            lambda a2, a3, own, second, third: first_by_tries_and_last_by_bisection(
                a2, a3, own, third, second
            ),
            lambda a2, a3, own, second, third: np.array([2 * own - second, own, 0.0]),
            lambda a2, a3, own, second, third: np.array([(own + second) / 2, own, np.nan]),
            lambda a2, a3, own, second, third: first_by_tries_and_last_by_bisection(
                a2, a3, own, second, third
            )[:2],
            lambda a2, a3, own, second, third: np.sort(
                first_by_tries_and_last_by_bisection(a2, a3, own, second, third)
            ),
            lambda a2, a3, own, second, third: first_by_tries_and_last_by_bisection(
                a2 / np.linalg.norm(a2), a3 / np.linalg.norm(a3), own, second, third
            ),
            lambda a2, a3, own, second, third: (
                first_by_tries_and_last_by_bisection(a2, a3, own, second, third)
                - [0, 0, np.log((own - third) / (own - second))]
            ),
            lambda a2, a3, own, second, third: (
                first_by_tries_and_last_by_bisection(a2, a3, own, second, third) * [1, 1, -1]
            ),
            lambda a2, a3, own, second, third: (
                first_by_tries_and_last_by_bisection(a2, a3, own, second, third)
                - [0, 0, np.log(np.linalg.norm(a2) / np.linalg.norm(a3))]
            ),
        ],
    },
    "07.3": {
        "also_right": edges_by_the_pull,
        "wrong": [
            turned(0.05),
            turned(180),
            lambda keys, scores, alpha: edges_by_the_pull(keys[::-1], scores[::-1], len(keys) - 1 - alpha),
            lambda keys, scores, alpha: edges_by_the_pull(keys, scores, alpha)[:1],
            lambda keys, scores, alpha: np.eye(2),
            edges_without_wrap,
            *(edges_by_angle(start, step) for start in (-np.pi, 0) for step in (1, -1)),
            lambda keys, scores, alpha: edges_by_the_pull(keys, scores, int(scores.argmax())),
        ],
    },
    "07.4": {
        "also_right": lead_by_bisection,
        "wrong": [
            lambda a2, a3, ratio: lead_by_bisection(a2, a3, 1 / ratio),
            lambda a2, a3, ratio: lead_by_bisection(a3, a2, ratio),
            lambda a2, a3, ratio: 1.01 * lead_by_bisection(a2, a3, ratio),
            lambda a2, a3, ratio: 10.0,
        ],
    },
}
