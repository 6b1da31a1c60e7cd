"""Exercises of lesson 07: local and global winners."""

import numpy as np

from course.check.specification import Compare, Exercise, known


# --------------------------------------------------------------------------- 07.1 how many winners
def _expected_winners(tight):
    return float((1 / (tight + 1)).prod(axis=1).sum())


WINNERS = Exercise(
    id="07.1",
    title="How many local winners to expect",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_expected_winners,
    cases=lambda rng: [
        (np.array([[1, 2], [0, 3], [1, 2]]),),
        *((rng.integers(0, 5, size=size),) for size in ((4, 3), (9, 2), (6, 4))),
    ],
    misconceptions=known(
        lambda tight: float((0.5**tight).prod(axis=1).sum()),
        "You took each comparison for a coin of its own. They share the score of alpha: among k + 1 equally "
        "good tokens it is the best with probability 1 / (k + 1).",
        lambda tight: float((1 / (tight.sum(axis=1) + 1)).sum()),
        "You threw the sequences together. Each alpha_i has to beat its own support tokens only: multiply "
        "over the sequences.",
        lambda tight: float((1 / (tight + 1)).sum()),
        "A choice is locally optimal if all its sequences are: multiply over the sequences, then add up the "
        "choices.",
        lambda tight: float((1 / (tight + 1)).prod(axis=1).mean()),
        "That is the share of the choices. Return their number: the sum.",
        lambda tight: float((1 / np.maximum(tight, 1)).prod(axis=1).sum()),
        "With k support tokens there are k + 1 candidates, alpha among them: 1 / (k + 1).",
        lambda tight: float((1 / (tight + 1)).prod(axis=0).sum()),
        "Multiply along the rows: a row is a choice, a column a sequence.",
        lambda tight: float((1 / (tight + 1)).prod()),
        "You multiplied over the choices too. Their numbers add up.",
        lambda tight: float((1 / (np.unique(tight, axis=0) + 1)).prod(axis=1).sum()),
        "You counted equal rows once. Two choices with the same numbers of support tokens are two choices.",
        lambda tight: float((1 / (tight[(tight > 0).all(axis=1)] + 1)).prod(axis=1).sum()),
        "Without a support token, k = 0, alpha_i has nobody to beat: its probability is 1. The row counts.",
        lambda tight: float((1 / (tight.prod(axis=1) + 1)).sum()),
        "Multiply the probabilities 1 / (k + 1) over the sequences, not the numbers k.",
        lambda tight: float(
            np.divide(1, tight, where=tight > 0, out=np.full(tight.shape, np.inf)).prod(axis=1).sum()
        ),
        "With k support tokens alpha is one of k + 1 candidates, so 1 / (k + 1): with k = 0 it is 1, not "
        "infinite.",
        lambda tight: float((tight / (tight + 1)).prod(axis=1).sum()),
        "k / (k + 1) is the probability that one of the support tokens is the best. That of alpha is 1 / (k "
        "+ 1).",
        lambda tight: float((1 / (tight + 1)).prod(axis=1).max()),
        "That is the probability of the likeliest choice. Return how many there are on average: the sum.",
    ),
)


# --------------------------------------------------------------------------- 07.2 the first step, and the end
def _first_and_last(a2, a3, own, second, third):
    weights = (a3 @ (a3 - a2)) / (a2 @ (a2 - a3))  # of p_mm, those of tokens 2 and 3
    better = own - second
    return np.array(
        [own + better, own + better * (a2 @ a3) / (a3 @ a3), np.log((own - third) / better * weights)]
    )


def _with(place, number):
    """The answer with another number at one place, a function of the inputs."""

    def answer(a2, a3, own, second, third):
        numbers = _first_and_last(a2, a3, own, second, third)
        numbers[place] = number(a2, a3, own, second, third)
        return numbers

    return answer


def _ahead_by(quotient):
    return _with(1, lambda a2, a3, own, second, third: own + (own - second) * quotient(a2, a3))


def _weights(a2, a3):
    return (a3 @ (a3 - a2)) / (a2 @ (a2 - a3))


def _behind_by(number):
    """The answer with number(weights of the SVM, differences of scores) in the third place."""
    return _with(
        2,
        lambda a2, a3, own, second, third: number(_weights(a2, a3), (own - third) / (own - second)),
    )


def _reordered(*order):
    return lambda *args: _first_and_last(*args)[list(order)]


def _step_cases(rng):
    """Two comparisons of unlike length at an obtuse angle, two at an acute one; token 3 worse than 2 in one.

    Both weights of the SVM are positive: the longer comparison's part along the shorter is the shorter one.
    """
    cases = []
    for d, low, high, worse in (
        (2, 100, 150, (0.03, 0.2)),
        (2, 55, 75, (0.03, 0.2)),
        (3, 100, 150, (1.1, 1.4)),
        (4, 55, 75, (0.05, 0.25)),
    ):
        frame = np.linalg.qr(rng.normal(size=(d, d)))[0]
        angle, lengths = np.radians(rng.uniform(low, high)), rng.permutation([rng.uniform(0.7, 0.8), 1.1])
        a2, a3 = lengths[0] * frame[0], lengths[1] * (np.cos(angle) * frame[0] + np.sin(angle) * frame[1])
        own = rng.uniform(0.3, 0.8)
        second, third = own - rng.uniform(0.35, 0.9), own - rng.uniform(*worse)
        cases.append((a2, a3, float(own), float(second), float(third)))
    return cases


STEP = Exercise(
    id="07.2",
    title="What the first step says, and how it ends",
    points=3,
    minutes=17,
    difficulty=3,
    reference=_first_and_last,
    cases=_step_cases,
    misconceptions=known(
        _with(0, lambda a2, a3, own, second, third: own),
        "p still gets longer when token 3 is a little better than token 1: token 2 pushes along p_mm too.",
        _with(0, lambda a2, a3, own, second, third: second),
        "p gets longer while (gamma_1 - gamma_2) + (gamma_1 - gamma_3) > 0: mind the sign.",
        _with(0, lambda a2, a3, own, second, third: own + second),
        "The sign of the second score: p gets longer while (gamma_1 - gamma_2) + (gamma_1 - gamma_3) > 0, "
        "which gamma_3 = 2 gamma_1 - gamma_2 ends.",
        _with(0, lambda a2, a3, own, second, third: own + (own - second) * (a2 @ a2) / (a3 @ a3)),
        "The first is about p_mm, on which both comparisons have the product 1: the lengths of a2 and a3 do "
        "not count.",
        _ahead_by(lambda a2, a3: 0.0),
        "At gamma_1 only the force of token 3 changes its sign. Token 2's force changes that lead as well, "
        "by a2.a3.",
        _ahead_by(lambda a2, a3: -(a2 @ a3) / (a3 @ a3)),
        "The lead over token 3 grows while (gamma_1 - gamma_2) a2.a3 + (gamma_1 - gamma_3) a3.a3 > 0: mind "
        "the sign.",
        _ahead_by(lambda a2, a3: a2 @ a3 / (a2 @ a2)),
        "Token 3's own push changes its lead by (gamma_1 - gamma_3) a3.a3: divide by a3.a3, not by a2.a2.",
        _ahead_by(lambda a2, a3: a2 @ a2 / (a2 @ a3)),
        "That is the lead over token 2. For the lead over token 3 multiply the step with a3.",
        _ahead_by(lambda a2, a3: a2 @ a3 / np.sqrt((a2 @ a2) * (a3 @ a3))),
        "That is the cosine of the angle. The comparisons have lengths, too.",
        _ahead_by(lambda a2, a3: a2 @ a3),
        "Token 3's own push changes its lead by (gamma_1 - gamma_3) a3.a3: divide by a3.a3.",
        _reordered(1, 0, 2),
        "You swapped the first two: first comes the length of p, then the lead over token 3.",
        lambda *args: _first_and_last(*args) - np.array([1, 1, 0]) * args[2],
        "The first two are differences to gamma_1. Return scores.",
        _behind_by(lambda weights, better: -np.log(better * weights)),
        "The third is the lead over token 3 minus that over token 2; you have it the other way round.",
        _behind_by(lambda weights, better: np.log(better)),
        "You made both strengths equal in the end. Their proportion has to be that of the weights of p_mm.",
        _behind_by(lambda weights, better: np.log(better / weights)),
        "You have the weights of p_mm the wrong way round: the strength of token 2 is to that of token 3 as "
        "a3.(a3 - a2) to a2.(a2 - a3).",
        _behind_by(lambda weights, better: np.log(weights)),
        "The strengths contain the differences of scores too, not the exponentials alone.",
        _behind_by(lambda weights, better: np.log(weights / better)),
        "You have the differences of scores the wrong way round: token 3, if it is nearly as good, has to be "
        "less far behind than token 2.",
        _behind_by(lambda weights, better: 0.0),
        "Both comparisons are tight in p_mm, but p ends beside the ray. On it the strengths are in the "
        "proportion of the differences of scores, not of the weights of p_mm.",
        _behind_by(lambda weights, better: better * weights),
        "That is e to the difference of the leads. Take the logarithm.",
        _behind_by(lambda weights, better: np.log10(better * weights)),
        "The strengths are powers of e: np.log, not np.log10.",
        _with(
            2,
            lambda a2, a3, own, second, third: np.log((own - third) / (own - second) * (a3 @ a3) / (a2 @ a2)),
        ),
        "The weights of p_mm are as a3.a3 to a2.a2 only if a2 and a3 are orthogonal: ask a2.p_mm = a3.p_mm.",
    ),
)


# --------------------------------------------------------------------------- 07.3 where basins end
def _valleys(keys, scores, alpha):
    """The corners where the scores stop falling, before and after alpha."""
    found = []
    for way in (-1, 1):
        t = alpha
        while scores[(t + way) % len(keys)] < scores[t]:
            t = (t + way) % len(keys)
        found.append(t)
    return found


def _tie(first, second, ahead):
    """The unit vector on which two keys tie, and which the key `ahead` prefers to the first."""
    across = np.array([second[1] - first[1], first[0] - second[0]])
    return across * np.sign(across @ (ahead - first)) / np.linalg.norm(across)


def _edges_by(edge, order=(0, 1)):
    """An answer: edge(keys, scores, alpha, valley, way), for the valleys before (way -1) and after."""

    def answer(keys, scores, alpha):
        valleys = zip(_valleys(keys, scores, alpha), (-1, 1), strict=True)
        return np.array([edge(keys, scores, alpha, t, way) for t, way in valleys])[list(order)]

    return answer


def _next_winner(keys, scores, t, way):
    while scores[(t + way) % len(keys)] > scores[t]:
        t = (t + way) % len(keys)
    return t


def _neighbours_tie(keys, scores, alpha, t, way):
    return _tie(keys[t - 1], keys[(t + 1) % len(keys)], keys[t])


def _winners_tie(keys, scores, alpha, t, way):
    return _tie(keys[alpha], keys[_next_winner(keys, scores, t, way)], keys[t])


def _first_corner(keys, scores, alpha, t, way):
    m, t = len(keys), (alpha + way) % len(keys)
    return _tie(keys[t - 1], keys[(t + 1) % m], keys[t])


def _to_the_valley(keys, scores, alpha, t, way):
    before = keys[(t - way) % len(keys)]
    return _tie(keys[t], before, (keys[t] + before) / 2 + (keys[t] - keys.mean(axis=0)))


def _while_ahead(keys, scores, alpha, t, way):
    t = (alpha + way) % len(keys)
    return _to_the_valley(keys, scores, alpha, t, way)


def _not_unit(keys, scores, alpha, t, way):
    step = keys[(t + 1) % len(keys)] - keys[t - 1]
    return np.linalg.norm(step) * _neighbours_tie(keys, scores, alpha, t, way)


def _lowest_within_half(keys, scores, alpha, t, way):
    m = len(keys)
    lowest = min(((alpha + way * k) % m for k in range(1, m // 2 + 1)), key=lambda s: scores[s])
    return _neighbours_tie(keys, scores, alpha, lowest, way)


def _ahead_of_the_origin(keys, scores, alpha, t, way):
    tie = _neighbours_tie(keys, scores, alpha, t, way)
    return tie * np.sign(tie @ keys[t])


def _counterclockwise(keys, scores, alpha, t, way):
    step = keys[(t + 1) % len(keys)] - keys[t - 1]
    return np.array([step[1], -step[0]]) / np.linalg.norm(step)


def _polygon(rng, m, order, first):
    """Corners around a polygon with obtuse angles, from about the angle `first` on.

    They run counterclockwise if order is 1; if it is -1 clockwise, and the last is at `first`.
    """
    while True:
        angle = 2 * np.pi / m * (np.arange(m) + rng.uniform(-0.3, 0.3, size=m)) + first
        keys = rng.uniform(0.85, 1.15, size=m)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        after, before = np.roll(keys, -1, axis=0) - keys, np.roll(keys, 1, axis=0) - keys
        convex, product = (
            after[:, 1] * before[:, 0] < after[:, 0] * before[:, 1],
            (after * before).sum(axis=1),
        )
        if convex.all() and (product < -0.05).all():
            return keys[::order]


def _edge_cases(rng):
    """Scores that alternate in the first case; then a winner from which they fall for several corners.

    In the first case the origin lies beyond an end of the basin, a better winner and a lower corner are two
    and three corners on, and alpha is the first corner; in the second alpha is the last, and the corners run
    the other way round. In both alpha is on the left, so that no order of the edges by angle is right twice.
    """
    keys = _polygon(rng, 6, order=1, first=rng.uniform(2.9, 3.4))
    scores = np.array([0.7, 0.2, 0.8, 0.1, 0.9, 0.3]) + rng.uniform(0, 0.05, size=6)
    cases = [(keys - 2 * keys[1], scores, 0)]
    for order in ((5, 3, 0, 4, 1, 2), (0, 3, 6, 5, 2, 1, 4), (7, 4, 2, 5, 3, 1, 0, 6)):
        m = len(order)
        scores = (np.array(order) + rng.uniform(0.1, 0.9, size=m)) / m
        best = [t for t in range(m) if scores[t] > max(scores[t - 1], scores[(t + 1) % m])]
        alpha = max(best, key=lambda t: scores[t])
        if m == 6:
            turn, keys = m - 1 - alpha, _polygon(rng, m, order=-1, first=rng.uniform(2.9, 3.4))
        else:
            turn = int(rng.integers(m))
            keys = _polygon(rng, m, order=rng.choice([-1, 1]), first=rng.uniform(0, 6))
        cases.append((keys + rng.normal(size=2), np.roll(scores, turn), (alpha + turn) % m))
    return cases


def _ahead_as_corner(edge, keys, scores, alpha, t, way):
    """The end of the edge's line at which corner t is ahead of the one before it."""
    line = edge(keys, scores, alpha, t, way)
    return line * np.sign(line @ (keys[t] - keys[t - 1]))


def _along_the_side(keys, scores, alpha, t, way):
    step = keys[t - 1] - keys[(t + 1) % len(keys)]
    return step / np.linalg.norm(step)


def _ahead_as(keys, alpha, edge):
    """That end of the line at which alpha's key is ahead of the mean."""
    return edge * np.sign(edge @ (keys[alpha] - keys.mean(axis=0)))


EDGES = Exercise(
    id="07.3",
    title="Where basins end",
    points=4,
    minutes=17,
    difficulty=3,
    reference=lambda keys, scores, alpha: _edges_by(_neighbours_tie)(keys, scores, alpha),
    cases=_edge_cases,
    compare=Compare(rtol=1e-5),
    misconceptions=known(
        _edges_by(_winners_tie),
        "That is where two winners tie. p falls to the one or the other earlier: at the corner that is worse "
        "than both its neighbours, and only they pull there.",
        _edges_by(lambda *args: _ahead_as_corner(_winners_tie, *args)),
        "There alpha and the next winner tie. Which of them p comes to is decided earlier: at the corner "
        "that is worse than both its neighbours, where these two tie.",
        _edges_by(lambda *args: _ahead_as_corner(_to_the_valley, *args)),
        "There the last corner gets ahead, or stops to be. It keeps nothing: the edge is where its two "
        "neighbours tie.",
        _edges_by(_while_ahead),
        "That is where alpha stops being ahead. The neighbour that is ahead beyond is worse: p comes back.",
        _edges_by(_first_corner),
        "You stopped at the next corner. If it is better than the one after it, it loses to alpha only, and "
        "the basin goes on: go as far as the scores fall.",
        _edges_by(_to_the_valley),
        "That is where the last corner gets ahead. It is worse than both neighbours and keeps nothing: the "
        "edge is inside its sector.",
        _edges_by(lambda *args: -_neighbours_tie(*args)),
        "The neighbours tie on a line. You took its other end: the corner between them has to be ahead.",
        _edges_by(_ahead_of_the_origin),
        "Which end of the line it is must not depend on the origin: p.(k_t - k_{t+1}) > 0, not p.k_t > 0.",
        _edges_by(_counterclockwise),
        "You took the corners to run counterclockwise. They may run either way: which end of the line it is "
        "shows in p.(k_t - k_{t+1}) > 0.",
        _edges_by(_lowest_within_half),
        "The edge is at the first corner where the fall ends. What lies beyond it, however low, belongs to "
        "the next winner.",
        _edges_by(_neighbours_tie, order=(1, 0)),
        "You swapped the edges: first the one on the side of the corners before alpha.",
        _edges_by(_not_unit),
        "The directions are right. Return unit vectors.",
        _edges_by(lambda keys, scores, alpha, t, way: keys[t] / np.linalg.norm(keys[t])),
        "That points from the origin to the corner's key, which means nothing: move all keys by one vector "
        "and no attention changes.",
        _edges_by(_along_the_side),
        "That is along the line through the two neighbours. They pull alike where p is at right angles to "
        "it.",
        _edges_by(
            lambda keys, scores, alpha, t, way: _ahead_as(
                keys, alpha, _neighbours_tie(keys, scores, alpha, t, way)
            )
        ),
        "Which end of the line it is shows at the corner t where the fall ends, not at alpha: p.(k_t - "
        "k_{t+1}) > 0.",
    ),
)


# --------------------------------------------------------------------------- 07.4 how far is far?
def _lead_by(push=None, per=None):
    """An answer: log(ratio times push) / per, both of a2, a3."""
    push = push or (lambda a2, a3: (a3 - a2) @ a3 / ((a3 - a2) @ a2))
    per = per or (lambda a2, a3: a2 @ a3 / (a2 @ a2) - 1)
    return lambda a2, a3, ratio: float(np.log(ratio * push(a2, a3)) / per(a2, a3))


def _lead_cases(rng):
    cases = []
    for d in (2, 3, 5):
        frame = np.linalg.qr(rng.normal(size=(d, d)))[0]
        length, slack, beside = rng.uniform(0.6, 1.6), rng.uniform(0.2, 0.6), rng.uniform(0.8, 2)
        a2 = length * frame[0]
        cases.append((a2, (1 + slack) * a2 + beside * frame[1], float(rng.uniform(1.5, 4))))
    return cases


LEAD = Exercise(
    id="07.4",
    title="How far is far?",
    points=4,
    minutes=14,
    difficulty=3,
    reference=lambda a2, a3, ratio: _lead_by()(a2, a3, ratio),
    cases=_lead_cases,
    misconceptions=known(
        _lead_by(push=lambda a2, a3: 1.0),
        "From there on token 3's force is the weaker one. But it may still gain on token 2: what counts is "
        "whether its lead grows faster, and the forces have directions.",
        _lead_by(push=lambda a2, a3: np.sqrt(a3 @ a3 / (a2 @ a2))),
        "From there on token 3's force is the shorter one. Not the lengths of the forces count, but their "
        "products with a3 - a2.",
        _lead_by(push=lambda a2, a3: a3 @ a3 / (a2 @ a2)),
        "Compare products with a3 - a2: of a2, which widens the distance between tokens 2 and 3, and of a3, "
        "which narrows it.",
        _lead_by(push=lambda a2, a3: a3 @ a3 / (a3 @ a2)),
        "From there on the lead over token 3 grows. It has to grow faster than that over token 2: take the "
        "product of the force with a3 - a2.",
        _lead_by(push=lambda a2, a3: a2 @ a3 / (a2 @ a2)),
        "From there on p gets longer, and the lead over token 2 grows. That over token 3 has to grow faster.",
        _lead_by(push=lambda a2, a3: (a3 - a2) @ a2 / ((a3 - a2) @ a3)),
        "The quotient is upside down: x (a3 - a2).a3 < (a3 - a2).a2, with x = ratio exp(-Delta_0 slack).",
        _lead_by(per=lambda a2, a3: 1.0),
        "That is the product of Delta_0 and the slack. Divide by the slack, a2.a3 / a2.a2 - 1.",
        _lead_by(per=lambda a2, a3: a2 @ a3 / (a2 @ a2)),
        "You divided by the lead 1 + slack. On the ray token 3 is Delta_0 times the slack further behind "
        "than token 2.",
        _lead_by(per=lambda a2, a3: (a3 - a2) @ a2),
        "The slack is measured at p_mm = a2 / |a2|^2: divide (a3 - a2).a2 by a2.a2.",
        _lead_by(push=lambda a2, a3: (a3 - a2) @ (a3 - a2) / ((a3 - a2) @ a2)),
        "The force is a2 - x a3, not a2 - x (a3 - a2).",
        _lead_by(push=lambda a2, a3: (a2 @ a2) / ((a3 - a2) @ a2)),
        "The slack is no value of x: token 3 falls further behind while (a2 - x a3).(a3 - a2) > 0.",
        lambda a2, a3, ratio: _lead_by()(a2, a3, ratio) * float(a2 @ a3 / (a2 @ a2)),
        "That is the lead over token 3. Return the one over token 2, Delta_0.",
        lambda a2, a3, ratio: _lead_by()(a2, a3, 1 / ratio),
        "The ratio is upside down: the better token 3 is, the further out one has to start.",
        lambda a2, a3, ratio: _lead_by()(a2, a3, 1.0),
        "You left out the ratio: x = ratio exp(-Delta_0 slack) starts at the ratio, not at 1.",
        _lead_by(per=lambda a2, a3: a2 @ a3 / (a3 @ a3) - 1),
        "p_mm is a2 / ||a2||^2, so the slack is a2.a3 / a2.a2 - 1: divide by the square of a2.",
    ),
)


EXERCISES = [WINNERS, STEP, EDGES, LEAD]
