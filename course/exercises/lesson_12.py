"""Exercises of lesson 12: when trained attention is global."""

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
    minutes=10,
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


# --------------------------------------------------------------------------- 12.2 tokens of one length
def _one_length(x, z):
    return np.linalg.solve(z, x).T


def _one_length_cases(rng):
    """The simplest first; queries of any length, far enough from dependent and from orthogonal."""
    cases = [(np.eye(2), np.array([[1.0, 0.0], [1.0, 1.0]])), (np.array([[1.0]]), np.array([[2.0]]))]
    for n in (2, 3, 5):
        while True:
            x, z = rng.normal(size=(n, n)), rng.normal(size=(n, n))
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            if max(np.linalg.cond(x), np.linalg.cond(z)) < 30:
                break
        cases.append((x, z))
    return cases


ONE_LENGTH = Exercise(
    id="12.2",
    title="Tokens of one length",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_one_length,
    cases=_one_length_cases,
    misconceptions=known(
        lambda x, z: np.linalg.solve(z, x),
        "That is the transpose of W: the logit of token x under query z is x . W z.",
        lambda x, z: x.T @ z,
        "The sum of x_i z_i^T gives W z_i = x_i only if the queries are orthonormal: solve for W.",
        lambda x, z: x.T @ z / len(x),
        "The mean of x_i z_i^T gives a multiple of x_i, and only for orthonormal queries: solve for W.",
        lambda x, z: x.T @ (z / (z**2).sum(axis=1, keepdims=True)),
        "Each term gives x_i on its own query, but the others add to it unless the queries are orthogonal.",
        lambda x, z: x.T @ np.linalg.inv(z),
        "The z_i are the rows of `z`. As columns they are z.T: it is W z.T that you want to be x.T.",
        lambda x, z: np.linalg.solve(x, z).T,
        "You solved W x_i = z_i. The queries go in: W z_i is what the tokens meet.",
        lambda x, z: np.linalg.solve(x, z),
        "You solved W x_i = z_i, and transposed. The queries go in: W z_i is what the tokens meet.",
        lambda x, z: np.linalg.inv(x) @ np.linalg.inv(z.T),
        "Each selected token has the logit 1, but you made the *other selected* ones 0. Then a unit vector "
        "that is not among them can have more than 1.",
        lambda x, z: 2 * _one_length(x, z),
        "Twice too large: the selected token has the logit 2.",
        lambda x, z: -_one_length(x, z),
        "The sign: the selected token has the logit -1.",
        lambda x, z: _one_length(x, z) / np.linalg.norm(_one_length(x, z)),
        "The right direction, but the selected tokens are to have the logit 1: do not scale W.",
        lambda x, z: _one_length(x, z / np.linalg.norm(z, axis=1, keepdims=True)),
        "The queries have lengths of their own: do not scale them to 1.",
        lambda x, z: _one_length(x - x.mean(axis=0), z),
        "Only the sequence's own selected token decides its p: do not subtract a mean over the sequences.",
    ),
)


# --------------------------------------------------------------------------- 12.3 what a sequence uses up
def _means(h):
    """The mean of the first and the highest k others, k = 0 ... T - 1, and these others from the highest."""
    others = -np.sort(-h[:, 1:], axis=1)
    return np.cumsum(np.hstack((h[:, :1], others)), axis=1) / np.arange(1, h.shape[1] + 1), others


def _used_up(logits):
    mean, others = _means(logits)
    return (others > mean[:, :-1]).sum(axis=1)


def _one_by_one(order=lambda row: row, mean=lambda tied: sum(tied) / len(tied), stop=False):
    """Others join, in some order, if they are above the common place of those tied so far."""

    def answer(h):
        counts = []
        for row in h:
            tied = [row[0]]
            for one in order(row[1:]):
                if one > mean(tied):
                    tied.append(one)
                elif stop:
                    break
            counts.append(len(tied) - 1)
        return np.array(counts)

    return answer


def _above(place):
    """The others above one place of each row."""
    return lambda h: (h[:, 1:] > place(h)[:, None]).sum(axis=1)


def _from_the_lowest(h):
    others = np.sort(h[:, 1:])
    mean = np.cumsum(np.hstack((h[:, :1], others)), axis=1) / np.arange(1, h.shape[1] + 1)
    return (others > mean[:, :-1]).sum(axis=1)


def _logits_cases(rng):
    cases = [(np.array([[0.0, 3.0, 1.0], [0.0, 1.0, 3.0], [0.0, 3.0, 2.0], [0.0, -1.0, -2.0]]),)]
    for T in (2, 3, 4, 6, 9):
        while True:  # no logit is so close to a mean that rounding could decide
            h = rng.normal(size=(40, T))
            h[::2, 0] -= 1.5
            mean, others = _means(h)
            if np.abs(others - mean[:, :-1]).min() > 1e-9:
                break
        cases.append((h,))
    return cases


TIES = Exercise(
    id="12.3",
    title="What one sequence uses up",
    points=3,
    minutes=14,
    difficulty=3,
    reference=_used_up,
    cases=_logits_cases,
    misconceptions=known(
        _above(lambda h: h[:, 0]),
        "You counted all tokens above the first. Bring the highest down before the others: the first rises "
        "to meet it, and can pass some.",
        _above(lambda h: h.mean(axis=1)),
        "The place where they meet is the mean of the tied ones only, not of all T logits.",
        _above(lambda h: (h[:, 0] + h[:, 1:].max(axis=1)) / 2),
        "The first and the highest meet half way, but a third that is tied lifts or lowers that place again.",
        _above(lambda h: np.where(h >= h[:, :1], h, 0).sum(axis=1) / (h >= h[:, :1]).sum(axis=1)),
        "You took the mean of the first and of all tokens above it at once. Some of these may not be tied "
        "and must not count: bring the highest down first, then see whether the next one is still above.",
        _from_the_lowest,
        "You took the means from the lowest up. Begin with the highest: the first rises to meet it.",
        lambda h: (h[:, 1:] > h[:, :1]).any(axis=1).astype(int),
        "At most one tie? The second is tied too if it is above the mean of the first and the highest.",
        _one_by_one(),
        "You took the tokens as they come. Whether one is tied hangs on the higher ones: sort them first.",
        _one_by_one(order=lambda row: -np.sort(-row), mean=lambda tied: (tied[0] + tied[-1]) / 2),
        "The squared moves of all tied tokens count: they meet at the mean of all of them, not half way "
        "between the first and the last.",
        lambda h: _used_up(h) + 1,
        "One too many: the first token is not tied with itself.",
        lambda h: h.shape[1] - 1 - _used_up(h),
        "Those are the tokens that stay below. Asked for are the tied ones.",
        lambda h: np.where((h[:, 1:] > h[:, :1]).any(axis=1), h.shape[1] - 1, 0),
        "Tokens that are below the place where the others meet stay where they are.",
        lambda h: _used_up(-h),
        "The first is to be ahead, with the largest logit: you put it behind all others.",
        lambda h: _used_up(np.hstack((h[:, -1:], h[:, :-1]))),
        "The first column is the token that is to be ahead.",
        lambda h: _used_up(h).mean(),
        "That is the mean. Asked for is the number of ties of each row.",
    ),
)


# --------------------------------------------------------------------------- 12.4 how low is safe
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
    cases.append((np.array([[2.0, 0.0], [1.0, 0.9]]),))  # the first costs less when caught up, but rises more
    for n, T in ((2, 4), (3, 3), (5, 4)):
        while True:  # the narrowest gap is not the cheapest, as its output is not yet large
            scores = 2 * rng.normal(size=(n, T))
            g = np.sort(scores, axis=1)
            gap, rise = g[:, -1] - g[:, -2], _loss((g[:, -1] + g[:, -2]) / 2) - _loss(g[:, -1])
            cheapest = _loss((g[:, -1] + g[:, -2]) / 2).argmin()
            if gap.argmin() != rise.argmin() and gap.min() > 0.1 and (n == 2 or cheapest != rise.argmin()):
                break
        cases.append((scores,))
    return cases


SAFE = Exercise(
    id="12.4",
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
        _level(caught=lambda g: _loss((g[:, -1] + (g.shape[1] - 1) * g[:, -2]) / g.shape[1])),
        "A best token that is not ahead can have more attention than 1/T: up to a half.",
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
        _level(join=lambda rise, g: rise[_loss((g[:, -1] + g[:, -2]) / 2).argmin()]),
        "You took the sequence that costs least when it is caught up. What counts is how much *more* it "
        "costs than with all attention on its best token. Your level can be too high, and then unsafe.",
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

EXERCISES = [ENOUGH, ONE_LENGTH, TIES, SAFE]
