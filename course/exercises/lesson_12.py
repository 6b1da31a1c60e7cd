"""Exercises of lesson 12: when trained attention is global."""

import math

import numpy as np

from course.check.specification import Exercise, known


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
        lambda n, T: max(n, math.isqrt(n * (T - 1) - 1) + 1),
        "n <= d is not needed. What is it that the T - 1 rows of one sequence, which share z_i, need?",
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


# --------------------------------------------------------------------------- 12.2 a direction for every point
def _direction(v, z, y):
    return np.outer(v, np.linalg.solve(z, y))


def _direction_cases(rng):
    """The simplest first; queries of any length, far enough from dependent and from orthogonal."""
    cases = [
        (np.array([1.0, 2.0]), np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([1.0, -1.0])),
        (np.array([3.0]), np.array([[2.0]]), np.array([-1.0])),
    ]
    for n in (2, 3, 5):
        while True:
            v, z = rng.normal(size=n), rng.normal(size=(n, n))
            if np.linalg.cond(z) < 30:
                break
        y = rng.choice([-1.0, 1.0], size=n)
        y[:2] = 1, -1
        cases.append((v, z, y))
    return cases


DIRECTION = Exercise(
    id="12.2",
    title="A direction for every point",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_direction,
    cases=_direction_cases,
    misconceptions=known(
        lambda v, z, y: np.outer(np.linalg.solve(z, y), v),
        "That is the transpose of V: the logit of token x under query z is x . V z.",
        lambda v, z, y: np.outer(v, np.linalg.solve(z.T, y)),
        "The z_i are the rows of `z`: q . z_i = y_i for all i is z @ q = y, not z.T @ q = y.",
        lambda v, z, y: np.outer(np.linalg.solve(z.T, y), v),
        "The z_i are the rows of `z`, so q . z_i = y_i is z @ q = y; and V z = v (q . z) is outer(v, q) z.",
        lambda v, z, y: np.outer(v, np.linalg.solve(z, np.ones(len(y)))),
        "That makes every logit grow like v . x. A score has the label too, y_i v . x.",
        lambda v, z, y: np.outer(v, y @ z),
        "The sum of y_i z_i gives q . z_i = y_i only if the queries are orthonormal: solve for q.",
        lambda v, z, y: np.outer(v, y @ z / len(y)),
        "The mean of y_i v z_i^T is right only for orthogonal queries, and then up to a factor: solve for q.",
        lambda v, z, y: np.outer(v, y @ (z / (z**2).sum(axis=1, keepdims=True))),
        "Each term is right on its own query, but the others add to it unless the queries are orthogonal.",
        lambda v, z, y: np.outer(v, np.linalg.solve(z.T @ z, y)),
        "z.T @ z is the matrix of the normal equations. The equations are z @ q = y.",
        lambda v, z, y: -_direction(v, z, y),
        "The sign: the logits of high scores fall.",
        lambda v, z, y: np.linalg.solve(z.T, (y[:, None] * v).T),
        "In V @ z.T = (y[:, None] * v).T the unknown is on the left: transpose both sides, then solve.",
        lambda v, z, y: _direction(v / np.linalg.norm(v), z, y),
        "The right direction, but each logit is to grow like its score itself: do not scale v.",
        lambda v, z, y: _direction(v, z / np.linalg.norm(z, axis=1, keepdims=True), y),
        "The queries have lengths of their own: do not scale them to 1.",
        lambda v, z, y: _direction(v, z, y) / np.linalg.norm(_direction(v, z, y)),
        "The right direction, but each logit is to grow like its score itself: do not scale V.",
        lambda v, z, y: np.outer(v, np.linalg.solve(z, y.sum() * np.ones(len(y)))),
        "Each sequence has a label of its own.",
    ),
)


# --------------------------------------------------------------------------- 12.3 how many tokens tie
def _means(h):
    """The mean of the first and the highest k others, k = 0 ... T - 1, and these others from the highest."""
    others = -np.sort(-h[:, 1:], axis=1)
    return np.cumsum(np.hstack((h[:, :1], others)), axis=1) / np.arange(1, h.shape[1] + 1), others


def _ties(logits):
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
    title="How many tokens tie?",
    points=3,
    minutes=20,
    difficulty=3,
    reference=_ties,
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
        lambda h: _ties(h) + 1,
        "One too many: the first token is not tied with itself.",
        lambda h: h.shape[1] - 1 - _ties(h),
        "Those are the tokens that stay below. Asked for are the tied ones.",
        lambda h: np.where((h[:, 1:] > h[:, :1]).any(axis=1), h.shape[1] - 1, 0),
        "Tokens that are below the place where the others meet stay where they are.",
        lambda h: _ties(-h),
        "The first is to be ahead, with the largest logit: you put it behind all others.",
        lambda h: _ties(np.hstack((h[:, -1:], h[:, :-1]))),
        "The first column is the token that is to be ahead.",
        lambda h: _ties(h).mean(),
        "That is the mean. Asked for is the number of ties of each row.",
    ),
)


# --------------------------------------------------------------------------- 12.4 how many choices win
def _sets(
    win=lambda k: 1 / (1 + k),
    ways=math.comb,
    total=lambda n, T, m: math.comb(n * (T - 1), m),
):
    """An answer: sums over sets of m tokens, from one sequence to n of them, over the number of sets."""

    def answer(n, T):
        one, sums = [ways(T - 1, k) * win(k) for k in range(T)], np.ones(1)
        for _ in range(n):
            sums = np.convolve(sums, one)
        return sums / [total(n, T, m) for m in range(len(sums))]

    return answer


_win_all = _sets()


def _numbers(n, T):
    return np.arange(n * (T - 1) + 1)


def _falling(m, n):
    """m tokens that fall in n sequences, as many in one as may be."""
    w = [1 / (1 + D) for D in range(m + 1)]
    for N in range(2, n + 1):
        w = [
            sum(math.comb(D, k) * (N - 1) ** (D - k) / N**D / (1 + k) * w[D - k] for k in range(D + 1))
            for D in range(m + 1)
        ]
    return np.array(w)


def _alone(n, T):
    """The chance to win in one of n sequences."""
    M = n * (T - 1)
    return np.array(
        [
            sum(math.comb(T - 1, k) * math.comb(M - T + 1, m - k) / (1 + k) for k in range(min(T - 1, m) + 1))
            / math.comb(M, m)
            for m in range(M + 1)
        ]
    )


def _each_by_itself(n, T, q):
    """The chance to win in all n sequences if each token is a support token with chance q."""
    return sum(math.comb(T - 1, k) * q**k * (1 - q) ** (T - 1 - k) / (1 + k) for k in range(T)) ** n


def _divisions(n, T, m):
    """In how many ways n numbers from 0 to T - 1 add up to m."""
    ways = np.ones(1)
    for _ in range(n):
        ways = np.convolve(ways, np.ones(T))
    return ways[m]


def _win_cases(rng):
    """Two sequences of three tokens first, then one sequence, and pairs."""
    return [
        (2, 3),
        (1, 4),
        (4, 2),
        (int(rng.integers(3, 5)), 3),
        (int(rng.integers(2, 4)), int(rng.integers(4, 7))),
        (6, 5),
    ]


OPTIMAL = Exercise(
    id="12.4",
    title="How many choices win",
    points=3,
    minutes=20,
    difficulty=2,
    reference=_win_all,
    cases=_win_cases,
    misconceptions=known(
        lambda n, T: 1 / (1 + _numbers(n, T) / n) ** n,
        "You gave each sequence m / n tokens. They are spread at random, and the mean of a product of "
        "1/(1 + k) is not the product at the mean k.",
        lambda n, T: _falling(n * (T - 1), n),
        "You let each token fall in any sequence, whatever is there. A sequence has T - 1 others only: all "
        "sets of m among the n (T - 1) tokens are equally likely.",
        lambda n, T: _alone(n, T) ** n,
        "You took the sequences for independent. A support token of one is missing in the rest: m in all.",
        _alone,
        "That is the chance to win in one sequence. The choice must win in all n.",
        _sets(total=lambda n, T, m: 1),
        "You added up over all sets of m tokens. Divide by their number: each is as likely.",
        _sets(total=lambda n, T, m: n**m if n > 1 else math.comb(T - 1, m)),
        "Divide by the number of sets of m among n (T - 1) tokens, not by n^m.",
        _sets(ways=lambda a, k: 1, total=_divisions),
        "You took all divisions (k_1, ..., k_n) for equally likely. The tokens are all different: k of T - 1 "
        "can be had in comb(T - 1, k) ways.",
        _sets(ways=lambda a, k: 1),
        "Which k of the T - 1 tokens? There are comb(T - 1, k) ways.",
        _sets(ways=lambda a, k: 1, total=lambda n, T, m: 1),
        "You averaged inside each sequence first. Sum over all sets of m tokens, and divide once, at last.",
        _sets(ways=lambda a, k: math.comb(a + 1, k)),
        "The chosen token is not among its own support tokens: k of T - 1, in comb(T - 1, k) ways.",
        lambda n, T: np.array([_each_by_itself(n, T, m / (n * (T - 1))) for m in _numbers(n, T)]),
        "You let each token be a support token by itself, with chance m/M. Then their number varies; "
        "here it is m, exactly.",
        lambda n, T: (
            _sets(ways=lambda a, k: math.comb(a + 1, k), total=lambda n, T, m: math.comb(n * T, m))
        )(n, T),
        "The chosen token is not among its own support tokens: T - 1 others a sequence, n (T - 1) in all.",
        _sets(win=lambda k: 1 / max(k, 1)),
        "The chosen token is one of k + 1 that compete, so its chance is 1/(k + 1).",
        _sets(win=lambda k: 1 / (2 + k)),
        "One too many: k support tokens and the chosen one are k + 1.",
        _sets(win=lambda k: k / (1 + k)),
        "k/(k + 1) is the chance that one of the support tokens scores highest. The chosen one has the rest.",
        _sets(win=lambda k: 0.5**k),
        "One half for each support token would need independent comparisons. They share the chosen token: "
        "it is the best of k + 1 with chance 1/(k + 1).",
        lambda n, T: 1.0 / (1 + _numbers(n, T)) if n > 1 else np.zeros(1),
        "You pooled the support tokens of all sequences. Only those of one sequence compete with each other.",
        lambda n, T: (1.0 / (1 + _numbers(n, T))) ** n,
        "You gave every sequence all m support tokens. They are shared out: each is in one sequence.",
        lambda n, T: float(T) ** n * _win_all(n, T),
        "That is the number of choices that win, T^n w_m. Return the chances w_m.",
        lambda n, T: _win_all(n, T + 1),
        "T counts the chosen token: T - 1 others in each sequence.",
        lambda n, T: _win_all(n + 1, T),
        "One sequence too many: there are n.",
        lambda n, T: _win_all(n - 1, T) if n > 1 else np.ones(1),
        "One sequence is missing.",
        lambda n, T: _win_all(T, n),
        "The arguments are (n, T): n sequences of T tokens.",
        lambda n, T: _win_all(n, T)[1:],
        "w_0 is missing: without support tokens the choice always wins.",
        lambda n, T: _win_all(n, T)[:-1],
        "The last one, w_M, is missing: M + 1 numbers, M = n (T - 1).",
        lambda n, T: _win_all(n, T)[-1],
        "That is w_M alone. Return all of w_0, ..., w_M.",
        lambda n, T: 1 - _win_all(n, T),
        "That is the chance *not* to win everywhere.",
    ),
)

EXERCISES = [ENOUGH, DIRECTION, TIES, OPTIMAL]
