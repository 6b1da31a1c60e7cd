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


# --------------------------------------------------------------------------- 12.2 what a sequence uses up
def _means(h):
    """The mean of the first and the highest k others, k = 0 ... T - 1, and these others from the highest."""
    others = -np.sort(-h[:, 1:], axis=1)
    return np.cumsum(np.hstack((h[:, :1], others)), axis=1) / np.arange(1, h.shape[1] + 1), others


def _used_up(h):
    mean, others = _means(h)
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
    id="12.2",
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


# --------------------------------------------------------------------------- 12.3 how low is safe
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
    id="12.3",
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


# --------------------------------------------------------------------------- 12.4 at equal rivals
def _slope(x, y):
    """Of the line through the means."""
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y / (x @ x))


def _left(a, group):
    """Less the mean of its group."""
    _, of = np.unique(group, return_inverse=True)
    return a - (np.bincount(of, a) / np.bincount(of))[of]


def _within(x, y, group):
    x, y = _left(x, group), _left(y, group)
    return float(x @ y / (x @ x))


def _mean_of_slopes(weight):
    """The slope of each group by itself, and their mean."""

    def within(x, y, group):
        slopes, weights = [], []
        for name in np.unique(group):
            of = group == name
            if np.ptp(x[of]) > 0:
                slopes.append(_slope(x[of], y[of]))
                weights.append(weight(of.sum()))
        return float(np.average(slopes, weights=weights))

    return within


def _gains_by(scale=np.log2, all_=lambda x, y, group: _slope(x, y), within=_within):
    def answer(won, d, rivals):
        x, y = scale(np.asarray(d, dtype=float)), np.asarray(won, dtype=float)
        return all_(x, y, rivals), within(x, y, rivals)

    return answer


_gains = _gains_by()


def _by_columns(columns):
    """The coefficient of the first of some columns, by least squares."""
    return lambda x, y, group: float(np.linalg.lstsq(np.column_stack(columns(x, group)), y, rcond=None)[0][0])


def _gains_cases(rng):
    """Fewer rivals in larger d, fewer wins with more rivals; one number occurs once, one at one d only."""
    cases = []
    for runs, slope in ((24, 0.0), (30, 0.12), (40, -0.15), (50, 0.05)):
        d = 2 ** rng.integers(2, 6, size=runs)
        d[:4] = 4, 8, 16, 32
        rivals = np.clip(rng.poisson(16 / d) + rng.integers(1, 3, size=runs), 1, 6)
        rivals[4], rivals[5:7], d[5:7] = 9, 12, 4
        chance = np.clip(1.05 - 0.13 * rivals + slope * (np.log2(d) - 3), 0.05, 0.95)
        won = (rng.random(runs) < chance).astype(int)
        won[:2], won[4:7] = (0, 1), (1, 0, 1)
        order = rng.permutation(runs)
        cases.append((won[order], d[order], rivals[order]))
    return cases


GAINS = Exercise(
    id="12.4",
    title="At equal rivals",
    points=3,
    minutes=15,
    difficulty=2,
    reference=_gains,
    cases=_gains_cases,
    compare=Compare(rtol=1e-6),
    misconceptions=known(
        lambda won, d, rivals: _gains(won, d, rivals)[::-1],
        "Return b, of all runs, first, then b' at equal rivals.",
        _gains_by(scale=lambda d: d),
        "The line is in log2 d: asked for is the gain per doubling.",
        _gains_by(scale=np.log),
        "That is the gain per factor e. Per doubling take log2 d.",
        _gains_by(within=_mean_of_slopes(lambda size: 1)),
        "That is the mean of the groups' own slopes. One slope for all groups counts each group with the "
        "spread of its log2 d.",
        _gains_by(within=_mean_of_slopes(lambda size: size)),
        "You weighted the groups' slopes with their sizes. One slope for all groups counts each with the "
        "spread of its log2 d: a group at a single d says nothing.",
        _gains_by(within=_by_columns(lambda x, group: (x, np.ones(len(x)), group))),
        "You let the share fall along a line in the number of rivals. Each number has its own intercept.",
        _gains_by(within=lambda x, y, group: float((x - x.mean()) @ _left(y, group) / np.var(x) / len(x))),
        "You took group means from one of the two only. The denominator is what is left of log2 d inside the "
        "groups, not all of its spread.",
        _gains_by(within=lambda x, y, group: _slope(x, y) - _within(x, y, group)),
        "That is b - b', what the change of the mix explains. Asked for is b', what is left at equal rivals.",
        _gains_by(within=lambda x, y, group: _slope(x[group == 1], y[group == 1])),
        "You took the runs with one rival alone. All numbers of rivals share the one slope b'.",
        _gains_by(
            within=_by_columns(lambda x, group: (x, *(group == name for name in np.unique(group)[1:])))
        ),
        "One group has no intercept: each number of rivals needs one.",
        _gains_by(all_=_by_columns(lambda x, group: (x,))),
        "b's line has an intercept, too: it need not go through the origin.",
        _gains_by(
            within=lambda x, y, group: float(_left(x, group) @ _left(y, group) / (y @ _left(y, group)))
        ),
        "You divided by the spread of `won`: that is a line for log2 d, given `won`.",
        _gains_by(all_=lambda x, y, group: float(np.corrcoef(x, y)[0, 1])),
        "That is a correlation. The slope is in shares per doubling: divide by the spread of log2 d alone.",
        _gains_by(within=lambda x, y, group: _slope(x, y)),
        "You returned b twice: for b' every number of rivals has an intercept of its own.",
    ),
)

EXERCISES = [ENOUGH, TIES, SAFE, GAINS]
