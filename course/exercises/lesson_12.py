"""Exercises of lesson 12: when trained attention is global."""

import functools
import math

import numpy as np

from course.check.specification import Compare, Exercise, known


# --------------------------------------------------------------------------- 12.1 enough for every choice
def _enough(n, T):
    return max(T - 1, math.isqrt(n * (T - 1) - 1) + 1)


ENOUGH = Exercise(
    id="12.1",
    title="Enough dimensions for every choice",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_enough,
    cases=lambda rng: [
        (9, 2),
        (1, 2),
        (1, 5),
        (15, 2),
        (2, 3),  # here and at (5, 6) the product of two rounded roots is just above the whole number
        (5, 6),
        (2, 9),
        (int(rng.integers(40, 90)), int(rng.integers(3, 6))),
        (int(rng.integers(2, 5)), int(rng.integers(8, 14))),
        (12, 2),
        (2602, 2),  # 51^2 + 1: a root that has hardly to be rounded up, and a long search
    ],
    misconceptions=known(
        lambda n, T: max(T - 1, n),
        "That is the theorem's bound. Enough, but W has d^2 numbers: count them against n (T - 1) rows.",
        lambda n, T: n * (T - 1),
        "That is enough for p, which has d numbers. W has d^2.",
        lambda n, T: math.isqrt(n * (T - 1) - 1) + 1,
        "Enough numbers in all, but a sequence's T - 1 differences have to be independent in d dimensions.",
        lambda n, T: max(T, math.isqrt(n * (T - 1) - 1) + 1),
        "A sequence of T tokens has T - 1 differences: T - 1 dimensions are enough for it.",
        lambda n, T: max(T - 1, math.isqrt(n * (T - 1))),
        "You rounded the square root down: then W has fewer numbers than there are rows.",
        lambda n, T: max(T - 1, round(math.sqrt(n * (T - 1)))),
        "You rounded to the nearest whole number. If that is below the root, W has fewer numbers than rows.",
        lambda n, T: max(T - 1, math.ceil(math.sqrt((n - 1) * (T - 1)))),
        "You left one sequence out. All n of them have T - 1 rows each.",
        lambda n, T: max(T - 1, math.ceil(math.sqrt(n) * math.sqrt(T - 1))),
        "The product of two rounded roots can lie just above a whole number. Take one root, of n (T - 1).",
        lambda n, T: max(T - 1, math.isqrt(n * (T - 1)) + 1),
        "Where n (T - 1) is a square, its root is enough: as many rows as numbers can be independent.",
        lambda n, T: max(T - 1, math.isqrt(n * T - 1) + 1),
        "The selected token is not compared with itself: T - 1 rows a sequence.",
        lambda n, T: max(T, math.isqrt(n * T - 1) + 1),
        "The selected token is not compared with itself: T - 1 rows a sequence, n (T - 1) in all.",
        lambda n, T: max(T - 1, math.isqrt(n - 1) + 1),
        "Each sequence has T - 1 rows, not one.",
        lambda n, T: max(2, T - 1, math.isqrt(n * (T - 1) - 1) + 1),
        "One sequence of two tokens has one row: one dimension is enough for it.",
        lambda n, T: max(T - 1, math.sqrt(n * (T - 1))),
        "A number of dimensions is whole: round the root up.",
    ),
)


# --------------------------------------------------------------------------- 12.2 a W for any choice
def _picked(X, alpha):
    return X[np.arange(len(X)), alpha]  # (n, d)


def _shortest(X, z, alpha):
    return _picked(X, alpha).T @ np.linalg.pinv(z).T


def _selector_cases(rng):
    cases = []
    for n, T, d in ((2, 3, 3), (3, 4, 3), (3, 5, 6), (1, 4, 5)):
        X, z = rng.normal(size=(n, T, d)), rng.normal(size=(n, d)) * 2
        cases.append((X / np.linalg.norm(X, axis=-1, keepdims=True), z, rng.integers(1, T, size=n)))
    X, z, alpha = cases[2]
    near = z[0] + 0.01 * rng.normal(size=z.shape[1])  # nearly parallel queries are independent too
    cases.append((X, np.stack([z[0], near, z[2]]), alpha))
    return cases


SELECTOR = Exercise(
    id="12.2",
    title="Write down a W for any choice",
    points=3,
    minutes=8,
    difficulty=2,
    reference=_shortest,
    cases=_selector_cases,
    compare=Compare(rtol=1e-6),
    misconceptions=known(
        lambda X, z, alpha: _picked(X, alpha).T @ z,
        "That would be right for orthonormal queries. In general use the pseudoinverse of z.",
        lambda X, z, alpha: _shortest(X, z, alpha).T,
        "That is the transpose: W z_i, not W^T z_i, is to be the selected token.",
        lambda X, z, alpha: _shortest(X, z, np.zeros_like(alpha)),
        "You selected the first token of each sequence, whatever alpha says.",
        lambda X, z, alpha: _picked(X, alpha).T @ (z / (z**2).sum(axis=1, keepdims=True)),
        "Dividing by ||z_i||^2 makes each query right on its own; the others disturb it: pseudoinverse.",
        lambda X, z, alpha: -_shortest(X, z, alpha),
        "The sign: W z_i has to point to the selected token.",
        lambda X, z, alpha: (_picked(X, alpha) - X.mean(axis=1)).T @ np.linalg.pinv(z).T,
        "Asked for is W z_i = x_i,alpha_i, without subtracting the mean token.",
        lambda X, z, alpha: X.sum(axis=1).T @ np.linalg.pinv(z).T,
        "You used all tokens of a sequence. Take the selected one.",
        lambda X, z, alpha: 2 * _shortest(X, z, alpha),
        "W z_i is to equal the selected token, not a multiple of it.",
        lambda X, z, alpha: _picked(X, alpha).T @ np.linalg.pinv(z[::-1]).T,
        "Query i belongs to sequence i: you exchanged their order.",
        lambda X, z, alpha: _picked(X, alpha).T @ np.linalg.pinv(z, rcond=0.1).T,
        "You dropped small singular values. Nearly parallel queries are independent too: keep all of them.",
        lambda X, z, alpha: (np.linalg.pinv(z) @ X[:, alpha]).T,
        "X[:, alpha] takes all these places from every sequence. One from each is "
        "X[np.arange(len(X)), alpha].",
    ),
)


# --------------------------------------------------------------------------- 12.3 the probability
def _sums(share, n):
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, share)
    return total


def _formula(total, D, start=-1, step=2, factor=2.0):
    return float(factor * sum(total[k] for k in range(D + start, -1, -step) if k < len(total)))


def _cut(share, d):
    """P(possible alone and k numbers used up), k = 0 ... d."""
    below = np.append(share, np.zeros(d))[:d]
    return np.append(below, _formula(share, d) - below.sum())


def _law(cut=_cut, numbers=lambda n, d: d * min(n, d), formula=_formula, more=0):
    """An answer: n sequences (and `more`) that use up `cut` each, of d or of so many numbers."""

    def answer(share, n, d, kind):
        return formula(_sums(cut(share, d), n + more), d if kind == "p" else numbers(n, d))

    return answer


_probability = _law()


def _joined(join, always=False):
    """An answer for W that joins, for d < n or always, two reasons to fail: too few numbers, one alone."""

    def answer(share, n, d, kind):
        if kind == "p" or (d >= n and not always):
            return _probability(share, n, d, kind)
        return join(_formula(share, d) ** n, _formula(_sums(share, n), d * d))

    return answer


def _everywhere(**changes):
    changed = functools.partial(_formula, **changes)
    cut = lambda share, d: np.append(_cut(share, d)[:d], changed(share, d) - _cut(share, d)[:d].sum())  # noqa: E731
    return _law(cut=cut, formula=changed)


def _even_and_odd(rng, T):
    """A distribution of m in which even and odd numbers come with probability one half each."""
    weight = rng.uniform(0.5, 1.5, size=T)
    weight[0::2] /= 2 * weight[0::2].sum()
    weight[1::2] /= 2 * weight[1::2].sum()
    return weight


def _law_cases(rng):
    sizes = [(6, 4, 3, "W"), (3, 14, 4, "W"), (6, 3, 2, "W"), (4, 2, 1, "W"), (6, 3, 3, "W"), (6, 3, 4, "W")]
    sizes += [(4, 3, 4, "p"), (6, 1, 4, "p"), (5, 5, 3, "W")]
    return [
        (np.array([0.5, 0.5]), 3, 1, "p"),
        *((_even_and_odd(rng, T), n, d, kind) for T, n, d, kind in sizes),
    ]


LAW = Exercise(
    id="12.3",
    title="How often is a random choice possible?",
    points=4,
    minutes=12,
    difficulty=3,
    reference=_probability,
    cases=_law_cases,
    compare=Compare(rtol=1e-6),
    misconceptions=known(
        _joined(min),
        "Each of two reasons to fail, too few numbers and a sequence impossible alone, gives a bound or a "
        "guess. Both act at once, so their smaller says too much: cut each sequence to its d numbers first.",
        _joined(lambda alone, guess: alone * guess),
        "The two reasons to fail are not independent: a product counts some failures twice.",
        _joined(lambda alone, guess: guess),
        "A sequence cannot use up more than its d numbers w_i: what is possible beyond d, put at m' = d.",
        _joined(lambda alone, guess: guess, always=True),
        "A sequence cannot use up more than its d numbers w_i, not for d >= n either: cut share at d.",
        _law(cut=lambda share, d: share),
        "A sequence cannot use up more than its d numbers w_i, for d >= n either: none lends to another.",
        _joined(lambda alone, guess: alone),
        "For d < n the vectors w_i = W z_i are not free, they share "
        "the d^2 numbers of W. Alone, as n d numbers would give it, is a bound only.",
        _law(numbers=lambda n, d: d),
        "W has d^2 numbers, not d.",
        _law(cut=lambda share, d: np.append(_cut(share, d)[:d], 1 - _cut(share, d)[:d].sum())),
        "You counted sequences that are impossible alone among m' = d. They make the choice impossible: the "
        "q_k add up to P_alone, not to 1.",
        _law(cut=lambda share, d: np.append(share, np.zeros(d))[:d]),
        "A possible sequence can have its nearest point at w = 0 too: q_d is missing.",
        _law(cut=lambda share, d: np.append(share, np.zeros(d))[:d] / share[:d].sum()),
        "Nothing is to be rescaled: below d the q_k are P(m = k) itself. The rest of P_alone is q_d.",
        _law(cut=lambda share, d: _cut(share, d) / _formula(share, d)),
        "You took each sequence as possible: P(possible and m' = k) adds up to P_alone, not to 1.",
        lambda share, n, d, kind: _formula(share, d) ** n if kind == "p" else _probability(share, n, d, kind),
        "With p all sequences share d numbers: the power would need numbers of their own.",
        lambda share, n, d, kind: 1.0 if kind == "W" and d >= n else _probability(share, n, d, kind),
        "For d >= n the vectors W z_i are free, but a sequence can be impossible alone, with d numbers.",
        lambda share, n, d, kind: _probability(share, n if kind == "p" or d < n else 1, d, kind),
        "For d >= n that is one sequence alone. All n have to be possible.",
        _everywhere(factor=1.0),
        "The factor 2 is missing.",
        _law(formula=functools.partial(_formula, factor=1.0)),
        "The factor 2 is missing in the last sum.",
        _law(formula=functools.partial(_formula, step=1, factor=1.0)),
        "That is P(M < D), near the answer but not equal to it: every other term, twice.",
        _law(formula=functools.partial(_formula, start=0)),
        "The sum begins at D - 1, not at D.",
        _law(formula=functools.partial(_formula, start=-2)),
        "The sum begins at D - 1, not at D - 2.",
        _law(more=1),
        "One sequence too many: n of them mean n - 1 convolutions, or n that start from [1].",
    ),
)


# --------------------------------------------------------------------------- 12.4 Wilson's band
def _band(k, m, z):
    centre, half = k + z**2 / 2, z * math.sqrt(k * (m - k) / m + z**2 / 4)
    return (centre - half) / (m + z**2), (centre + half) / (m + z**2)


def _band_by(centre=lambda k, z: k + z**2 / 2, inside=lambda k, m, z: k * (m - k) / m + z**2 / 4, below=None):
    def answer(k, m, z):
        size = m + z**2 if below is None else below(m, z)
        half = z * math.sqrt(max(inside(k, m, z), 0))
        return (centre(k, z) - half) / size, (centre(k, z) + half) / size

    return answer


BAND = Exercise(
    id="12.4",
    title="Shares that a count does not refute",
    points=3,
    minutes=8,
    difficulty=2,
    reference=_band,
    cases=lambda rng: [
        (8, 10, 2.0),
        (0, 10, 1.96),
        (20, 20, 1.96),
        *(
            (int(rng.integers(2, 12)), int(rng.integers(15, 40)), float(rng.uniform(1.5, 2.6)))
            for _ in range(4)
        ),
    ],
    compare=Compare(rtol=1e-6),
    misconceptions=known(
        lambda k, m, z: _band(k, m, z) if 0 < k < m else (k / m, k / m),
        "At k = 0 and at k = m one end is k / m, but the band has a width there too: the same formula holds.",
        lambda k, m, z: (
            k / m - z * math.sqrt(k / m * (1 - k / m) / m),
            k / m + z * math.sqrt(k / m * (1 - k / m) / m),
        ),
        "You put the measured share under the root: at k = 0 that band has no width. The variance is of q, "
        "which you solve for.",
        lambda k, m, z: (
            max(0, k / m - z * math.sqrt(k / m * (1 - k / m) / m)),
            min(1, k / m + z * math.sqrt(k / m * (1 - k / m) / m)),
        ),
        "You put the measured share under the root, and cut at 0 and 1. The variance is of q, which you "
        "solve for; then nothing has to be cut.",
        lambda k, m, z: (_band(k, m, z)[1], _band(k, m, z)[0]),
        "The two ends are exchanged: return (low, high).",
        _band_by(below=lambda m, z: m),
        "The square of (k/m - q) has a q^2 too: collect all of them before you divide, m + z^2.",
        _band_by(inside=lambda k, m, z: (k + z**2 / 2) * (1 - (k + z**2 / 2) / (m + z**2))),
        "Right middle, but a band around it with the middle's own variance: solve the quadratic instead.",
        _band_by(centre=lambda k, z: k),
        "The middle of the band is not k/m: the term z^2 q on the right moves it towards one half.",
        _band_by(inside=lambda k, m, z: k * (m - k) / m),
        "A term z^2 / 4 is missing under the root; it is what is left at k = 0.",
        lambda k, m, z: tuple(m * end for end in _band(k, m, z)),
        "Return shares, between 0 and 1, not counts.",
        _band_by(inside=lambda k, m, z: k * (m - k) + z**2 / 4),
        "Divide k (m - k) by m.",
        _band_by(centre=lambda k, z: k + z**2),
        "The middle is at k + z^2 / 2: half of the linear coefficient.",
        _band_by(inside=lambda k, m, z: k * (m - k) / m + z**2),
        "Under the root stands z^2 / 4.",
        lambda k, m, z: _band(k, m, 1.96),
        "Use the z that is given.",
    ),
    withheld=("mini_attn.sweep.shares.wilson",),
)


# --------------------------------------------------------------------------- 12.5 how low is safe
def _loss(u):
    return np.logaddexp(0, -u)


def _level(caught=lambda g: _loss((g[:, -1] + g[:, -2]) / 2), join=None, least=lambda g: _loss(g[:, -1])):
    """An answer from sorted scores: what a caught-up sequence costs, and how the sequences are joined."""

    def answer(scores):
        g = np.sort(scores, axis=1)
        rise = caught(g) - least(g)
        return (least(g).sum() + (rise.min() if join is None else join(rise, g))) / len(g)

    return answer


_safe_level = _level()


def _level_of_first_two(scores):
    """As if each row came sorted, the best token first."""
    best, caught = _loss(scores[:, 0]), _loss((scores[:, 0] + scores[:, 1]) / 2)
    return (best.sum() + (caught - best).min()) / len(scores)


def _tangent(g):
    """The convexity bound on what a caught-up sequence costs."""
    return _loss(g[:, -1]) + (g[:, -1] - g[:, -2]) / 2 / (1 + np.exp(g[:, -1]))


def _level_cases(rng):
    cases = [(np.array([[1.0, 0.0]]),), (np.array([[0.0, 2.0, -1.0], [3.0, 0.5, 0.0]]),)]
    for n, T in ((2, 4), (3, 3), (5, 4)):
        while True:  # the narrowest gap is not the cheapest, as its output is not yet large
            scores = 2 * rng.normal(size=(n, T))
            g = np.sort(scores, axis=1)
            gap, rise = g[:, -1] - g[:, -2], _loss((g[:, -1] + g[:, -2]) / 2) - _loss(g[:, -1])
            if gap.argmin() != rise.argmin() and gap.min() > 0.1:
                break
        cases.append((scores,))
    return cases


SAFE = Exercise(
    id="12.5",
    title="How low is safe?",
    points=3,
    minutes=10,
    difficulty=2,
    reference=_safe_level,
    cases=_level_cases,
    compare=Compare(rtol=1e-6),
    misconceptions=known(
        _level(caught=lambda g: _loss(g[:, -2])),
        "When it has just been caught up, a best token still has half of the attention at best.",
        _level(caught=lambda g: (_loss(g[:, -1]) + _loss(g[:, -2])) / 2),
        "The attention mixes scores, not losses: it is the loss of the mean score that counts.",
        _level(caught=_tangent),
        "That is safe, but not the largest level: a tangent bounds the convex loss from below. Use the loss.",
        _level(caught=lambda g: _loss(g.mean(axis=1))),
        "Uniform attention is one way to be caught up, not the cheapest: only two tokens need any.",
        _level(caught=lambda g: _loss((g[:, -1] + g[:, 0]) / 2)),
        "Caught up by the worst token is dearer than by the second best: take the cheapest way.",
        _level(join=lambda rise, g: rise.max()),
        "One sequence is enough to lose a lead: take the one that is cheapest to catch up.",
        _level(join=lambda rise, g: rise.sum()),
        "One sequence is enough to lose a lead; the others may have all attention on their best tokens.",
        _level(join=lambda rise, g: rise[(g[:, -1] - g[:, -2]).argmin()]),
        "The narrowest gap in score need not be the cheapest in loss: the loss is flat at large outputs.",
        _level(join=lambda rise, g: 0.0),
        "That is the infimum of the loss: no run is below it. Add the price of catching one best token up.",
        lambda scores: _safe_level(scores) - _loss(scores.max(axis=1)).mean(),
        "That is the price above the infimum. Asked for is the level of the loss itself: add the infimum.",
        lambda scores: _safe_level(scores) * len(scores),
        "L is a mean over sequences: divide by n.",
        lambda scores: min(_loss(np.sort(scores, axis=1)[:, -2:].mean(axis=1))) / len(scores),
        "The other sequences cost something too: at least the loss of their best scores.",
        lambda scores: min(_loss(np.sort(scores, axis=1)[:, -2:].mean(axis=1))),
        "That is the loss of one sequence. L is the mean over all, and the others cost something too.",
        lambda scores: _safe_level(-scores),
        "The loss is log(1 + e^(-u)): large scores are the good ones.",
        lambda scores: _level()(scores[:, :2]),
        "The columns are in no order. Find the best and the second best token of each sequence first.",
        _level_of_first_two,
        "scores[:, 0] need not be the best token's, nor scores[:, 1] the second best one's: sort each row.",
        _level(join=lambda rise, g: rise.mean()),
        "The cheapest way to lose one lead counts, not the mean over the sequences.",
    ),
)

EXERCISES = [ENOUGH, SELECTOR, LAW, BAND, SAFE]
