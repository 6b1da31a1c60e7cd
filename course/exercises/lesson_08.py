"""Exercises of lesson 08: regularisation paths."""

import numpy as np

from course.check.specification import Compare, Exercise, known


# --------------------------------------------------------------------------- 08.1 the shortfall
def _softmax(h, axis=1):
    e = np.exp(h - h.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _shortfall(p, keys, scores):
    return _softmax(p @ keys.T) @ (scores.max() - scores)


def _shortfall_cases(rng):
    """Scores around 0, with the worst largest in size, and all negative; then long p.

    No shortfall is beyond float32: where p is 2000 long, another token than the best has the attention.
    """
    cases = []
    for count, T, d, shift in ((4, 3, 2, 0), (5, 4, 3, 1), (3, 6, 2, 2)):
        p, keys, scores = 2 * rng.normal(size=(count, d)), rng.normal(size=(T, d)), rng.uniform(-1, 1, size=T)
        h = p[0] @ keys.T  # of the first p: the winner has not the best score, and that is not 0 or alone
        scores[h.argmax()], scores[h.argmin()] = 0.4, rng.uniform(1.1, 1.5)
        turn = 1 if scores.argmax() == 0 else 0  # nor is the first token the best
        scores[scores.argmin()] -= shift and 0.6
        cases.append((p, np.roll(keys, turn, axis=0), np.roll(scores, turn) - shift))
    angle = rng.uniform([1.3, 1.3, 3.25, 3.25], [2.5, 2.5, 4.8, 4.8])
    far = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    keys = np.array([[1.0, 0.1], [-0.2, 1.0], [-0.7, -0.8]]) + 0.05 * rng.normal(size=(3, 2))
    cases.append((2000 * far, keys, np.array([0.9, 0.2, 0.0])))
    won = keys[0] - keys[1:].mean(axis=0) + 0.05 * rng.normal(size=(3, 2))  # far on the best token's side
    won *= rng.uniform(31, 34, size=(3, 1)) / ((keys[0] - keys[1:]) @ won.T).min(axis=0)[:, None]
    cases.append((won, keys, np.array([0.9, 0.2, 0.0])))
    return cases


def _attended(p, keys, scores):
    h = p @ keys.T
    return (_softmax(h) * (scores[h.argmax(axis=1)][:, None] - scores)).sum(axis=1)


SHORTFALL = Exercise(
    id="08.1",
    title="The shortfall",
    points=1,
    minutes=3,
    difficulty=1,
    reference=_shortfall,
    cases=_shortfall_cases,
    compare=Compare(atol=0),  # where all shortfalls are 1e-13, their digits count
    misconceptions=known(
        lambda p, keys, scores: _softmax(p @ keys.T) @ scores,
        "That is the prediction sum_t s_t gamma_t. The shortfall is the best score minus that.",
        lambda p, keys, scores: -_shortfall(p, keys, scores),
        "The sign is the wrong way round: scores.max() - scores is never negative.",
        lambda p, keys, scores: _softmax(p @ keys.T, axis=0) @ (scores.max() - scores),
        "Your softmax runs over the rows of p. It has to run over the tokens, axis=1.",
        _attended,
        "You measured from the score of the token with most attention. Measure from the best score.",
        lambda p, keys, scores: (p @ keys.T) @ (scores.max() - scores),
        "You weighed with the logits. Turn them into attention first, by softmax.",
        lambda p, keys, scores: np.log1p(np.exp(-_softmax(p @ keys.T) @ scores)),
        "That is the loss l(sum_t s_t gamma_t); the shortfall leaves the logarithm out.",
        lambda p, keys, scores: scores.max() - scores[(p @ keys.T).argmax(axis=1)],
        "Attention is soft: weigh all tokens by s_t, do not take only the one with most attention.",
        lambda p, keys, scores: _softmax(p @ keys.T) @ (scores[0] - scores),
        "You measured from the first score. The best token may be any: scores.max().",
        lambda p, keys, scores: _softmax(p @ keys.T) @ (1 - scores),
        "You measured from 1. The best score is scores.max(), here another number.",
        lambda p, keys, scores: _softmax(p @ keys.T) @ (np.abs(scores).max() - scores),
        "The best score is the largest, not the one of largest size: scores.max(), without abs.",
        lambda p, keys, scores: _softmax(p @ keys.T) @ (scores - scores.min()),
        "That is how far you are above the worst score. The shortfall is measured down from the best.",
        lambda p, keys, scores: scores.max() - _softmax(p @ keys.T) @ scores,
        "Right in exact arithmetic, but here delta is tiny and the difference of two nearly equal numbers "
        "cancels. Weigh the gaps instead: the second form.",
    ),
)


# --------------------------------------------------------------------------- 08.2 a projected step
def _lengths(p):
    return np.linalg.norm(p, axis=1, keepdims=True)


def _onto_sphere(p, R):
    return R * p / _lengths(p)


def _onto_ball(p, R):
    return p * (R / np.maximum(_lengths(p), R))


def _projected_step(p, g, eta, R):
    return _onto_ball(p - eta * g, R)


def _step_cases(rng):
    """Rows that end inside, outside, one at 0; some start outside: the order of the two matters.

    Of those that end inside, one is longer than the root of R and one is shorter.
    """
    cases = []
    for rows, d in ((4, 2), (5, 3), (6, 5)):
        R, eta = rng.uniform(1.5, 2.5), rng.uniform(0.4, 0.8)
        p, g = rng.normal(size=(rows, d)), rng.normal(size=(rows, d))
        length = np.linspace(0.5, 2.2, rows)[:, None] * R
        p = length * p / np.linalg.norm(p, axis=1, keepdims=True)
        g = rng.uniform(0.3, 0.5) * R * g / np.linalg.norm(g, axis=1, keepdims=True) / eta
        inside = np.array([[(R + np.sqrt(R)) / 2], [rng.uniform(0.5, 0.9) * np.sqrt(R)]])
        p[:2] = inside * p[:2] / _lengths(p[:2]) + eta * g[:2]
        cases.append((p, g, eta, R))
    g = rng.normal(size=(3, 2))
    p = rng.normal(size=(3, 2))
    p[1] = 0.5 * g[1]  # this step ends at 0 exactly, whose length divides nothing
    cases.append((p, g, 0.5, rng.uniform(0.8, 1.2)))
    return cases


STEP = Exercise(
    id="08.2",
    title="A projected step",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_projected_step,
    cases=_step_cases,
    misconceptions=known(
        lambda p, g, eta, R: p - eta * g,
        "You took the step, but points that are longer than R have to come back to length R.",
        lambda p, g, eta, R: _onto_sphere(p - eta * g, R),
        "You put every row on the sphere. A point inside the ball is its own nearest point: leave it.",
        lambda p, g, eta, R: np.where(
            _lengths(p - eta * g) ** 2 > R, _onto_sphere(p - eta * g, R), p - eta * g
        ),
        "You compared the squared length with R. Compare the length, or its square with R**2.",
        lambda p, g, eta, R: _onto_ball(p + eta * g, R),
        "You went uphill: descent subtracts eta * g.",
        lambda p, g, eta, R: _onto_ball(p, R) - eta * g,
        "You projected before the step. Step first, then project.",
        lambda p, g, eta, R: np.clip(p - eta * g, -R, R),
        "You clipped each coordinate: that projects on a cube. The ball asks for the length of the row.",
        lambda p, g, eta, R: (p - eta * g) * np.minimum(1, R / np.linalg.norm(p - eta * g)),
        "You took the length of the whole array. Each row has its own: axis=1, keepdims=True.",
        lambda p, g, eta, R: _onto_ball(p - eta * g / _lengths(g), R),
        "Do not normalise here: the step is eta * g as given.",
        lambda p, g, eta, R: _onto_ball(p - eta * g, 1),
        "You came back to length 1. The ball has radius R.",
        lambda p, g, eta, R: _onto_sphere(p - eta * g, np.minimum(_lengths(p - eta * g), R)),
        "One step ends at 0, and there you divide by 0. Multiply by R over the larger of length and R.",
        lambda p, g, eta, R: np.where(_lengths(p - eta * g) > R, p, p - eta * g),
        "A step that leads out of the ball is not refused: its end comes back to the nearest point.",
        lambda p, g, eta, R: (p - eta * g) * np.minimum(1, R / np.linalg.norm(p - eta * g, axis=1)),
        "One length a row has to multiply a whole row: keepdims=True makes the lengths (K, 1).",
    ),
)


# --------------------------------------------------------------------------- 08.3 the path's offset
def _offset_by(target=lambda weights, lam: np.log(weights / lam), direction=None, project=True, length=True):
    def answer(rows, weights, lam):
        q = np.linalg.lstsq(rows, target(weights, lam), rcond=None)[0]
        unit = lam @ rows if direction is None else direction(rows, weights)
        unit = unit / np.linalg.norm(unit) if length else unit
        return q - (q @ unit) * unit if project else q

    return answer


_offset = _offset_by()


def _offset_without_constant(rows, weights, lam):
    conditions, target = np.vstack([rows, lam @ rows]), np.append(np.log(weights / lam), 0)
    return np.linalg.lstsq(conditions, target, rcond=None)[0]


def _offset_cases(rng):
    """Support vectors of a true SVM: rows with rows @ p_mm = 1, where p_mm = lam @ rows and lam > 0."""
    cases = []
    while len(cases) < 4:
        m, d = ((2, 2), (2, 3), (3, 5), (4, 4))[len(cases)]
        rows = rng.normal(size=(m, d)) + 1.5 * np.eye(m, d)
        lam = np.linalg.solve(rows @ rows.T, np.ones(m))
        if lam.min() > 0.05 and np.ptp(np.log(lam)) > 0.3:
            weights = rng.uniform(0.05, 1, size=m)
            weights[0] = 0.5 * weights[-1]  # never all alike, nor in proportion to lam
            if np.ptp(np.log(weights / lam)) > 0.3:
                cases.append((rows, weights, lam))
    return cases


OFFSET = Exercise(
    id="08.3",
    title="The path's offset",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_offset,
    cases=_offset_cases,
    misconceptions=known(
        _offset_by(project=False),
        "r has to be perpendicular to the ray: take away its part along lam @ rows.",
        _offset_by(target=lambda weights, lam: np.log(lam / weights)),
        "The sign is wrong: a heavier weight asks for a larger r.a, so log(weights / lam).",
        _offset_by(target=lambda weights, lam: weights / lam),
        "You left out the logarithm: r.a_j = log(w_j / lambda_j) + const.",
        _offset_by(target=lambda weights, lam: np.log(weights)),
        "You left out lambda: the forces must be in proportion to lambda_j, not all alike.",
        _offset_by(target=lambda weights, lam: -np.log(lam)),
        "You left out the weights w_j, which multiply the exponentials.",
        _offset_by(direction=lambda rows, weights: weights @ rows),
        "The ray is p_mm, the combination of the rows with lam, not with the weights.",
        _offset_by(length=False),
        "q - (q @ u) * u takes away the part along u only if u has length 1: divide lam @ rows by its norm.",
        _offset_without_constant,
        "With the constant fixed at 0 the conditions contradict each other: let r.p_mm = 0 decide its value.",
        _offset_by(
            target=lambda weights, lam: np.log(weights / lam) - np.log(weights / lam).mean(), project=False
        ),
        "To subtract the mean of b is another choice of the constant. The condition r.p_mm = 0 decides it.",
        _offset_by(direction=lambda rows, weights: rows.mean(axis=0)),
        "The ray is p_mm = lam @ rows. The mean of the rows points elsewhere: each counts with its lambda.",
        lambda rows, weights, lam: lam @ rows,
        "That is p_mm itself, the direction of the ray. The offset is perpendicular to it.",
        lambda rows, weights, lam: np.linalg.norm(_offset(rows, weights, lam)),
        "That is the length of r. Return the vector.",
    ),
)


# --------------------------------------------------------------------------- 08.4 predict the jump
def _jump_radius(length, scores):
    return length * np.log((scores[0] - scores[2]) / (scores[0] - scores[1]) - 1)


def _jump_cases(rng):
    """Best scores other than 1, worst ones other than 0; the jump may be early (a lead of .2) or late."""
    cases = []
    for lead in (2.2, 0.2, 4.0, 1.0):
        best, worst = rng.uniform(1.2, 2.0), rng.uniform(-1.0, 0.5)
        second = best - (best - worst) / (1 + np.exp(lead * rng.uniform(0.9, 1.1)))
        cases.append((rng.uniform(1.5, 4.0), np.array([best, second, worst])))
    return cases


def _jump_by(odds=lambda a, b, c: (a - c) / (a - b) - 1, radius=lambda length, lead: length * lead):
    """An answer from e^lead, a function of the three scores, and the radius that a lead asks for."""
    return lambda length, scores: radius(length, np.log(odds(*scores)))


JUMP = Exercise(
    id="08.4",
    title="Predict the jump",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_jump_radius,
    cases=_jump_cases,
    misconceptions=known(
        _jump_by(lambda a, b, c: (a - c) / (a - b)),
        "You took s_3 = e^-lead. With two tokens the softmax gives s_3 = 1 / (1 + e^lead).",
        _jump_by(lambda a, b, c: (a - c) / (a - b) + 1),
        "The 1 belongs on the other side: 1 + e^lead is the ratio, so e^lead is the ratio minus 1.",
        _jump_by(radius=lambda length, lead: lead / length),
        "R buys the lead R / ||p_mm||, so the lead has to be multiplied by ||p_mm||.",
        _jump_by(radius=lambda length, lead: lead),
        "That is the lead over token 3. The radius is the lead times ||p_mm||.",
        _jump_by(radius=lambda length, lead: -length * lead),
        "The sign is wrong: s_3 falls as the lead grows, so e^lead is the large number.",
        _jump_by(radius=lambda length, lead: length * np.exp(lead)),
        "You left out the logarithm: e^lead, not the lead, is the ratio minus 1.",
        _jump_by(lambda a, b, c: 1 / (a - b) - 1),
        "The shortfall on the branch of token 1 is s_3 (gamma_1 - gamma_3), not s_3 alone.",
        _jump_by(lambda a, b, c: 1 / (1 - b) - 1),
        "That is for scores 1, gamma_2 and 0. Take the differences of the scores that are given.",
        _jump_by(lambda a, b, c: (a - b) / (a - c)),
        "Your ratio is upside down, and it lacks the 1 of s_3 = 1 / (1 + e^lead).",
        _jump_by(lambda a, b, c: (b - c) / (a - c)),
        "Compare the shortfalls of the two branches: gamma_1 - gamma_2 and s_3 (gamma_1 - gamma_3).",
    ),
)


# --------------------------------------------------------------------------- 08.5 the point of a mixture
def _pythagoras(R, fixed):
    return np.sqrt(max(R**2 - fixed @ fixed, 0))


def _mixture_by(ratio=lambda s: np.log(s[0] / s[1]), square=True, side=1, rest=_pythagoras):
    def answer(keys, share, R):
        e = keys[0] - keys[1]
        fixed = ratio(share) * e / (e @ e if square else np.sqrt(e @ e))
        across = np.array([-e[1], e[0]]) / np.sqrt(e @ e)
        across = across * (side * np.sign(across @ (keys[0] - keys[2])))
        return fixed + rest(R, fixed) * across

    return answer


def _side_by_the_whole(first):
    """Take this side of e, and change sides if p.(k_1 - k_3) < 0."""

    def answer(keys, share, R):
        e = keys[0] - keys[1]
        fixed = np.log(share[0] / share[1]) * e / (e @ e)
        rest = first * np.array([-e[1], e[0]]) / np.sqrt(e @ e) * _pythagoras(R, fixed)
        return fixed + rest if (fixed + rest) @ (keys[0] - keys[2]) > 0 else fixed - rest

    return answer


_mixture_answer = _mixture_by()
_too_long = _mixture_by(rest=lambda R, fixed: R)


def _mixture_point(keys, share, R):
    return _mixture_answer(keys, share, R)


def _mixture_cases(rng):
    """Keys whose first two are neither equally far from the third nor 1 apart; both sides occur.

    Neither the sign of a key across k_1 - k_2 nor that of a coordinate tells the side: in the first case all
    keys are on the side asked for, in the second all on the other, in two more both coordinates are negative,
    then positive.

    In the last two k_1 - k_3 lies almost along k_1 - k_2: there the part that the ratio fixes decides the
    sign of p.(k_1 - k_3), so that the side has to be judged by the other part alone.
    """
    cases = []
    for place, side in enumerate((1, -1, 1, -1)):
        angle = rng.uniform(0, 2 * np.pi) if place < 2 else rng.uniform(1.9, 2.8)
        e = rng.uniform(1.4, 2.0) * np.array([np.cos(angle), np.sin(angle)])
        across = side * np.array([-e[1], e[0]]) / np.sqrt(e @ e)
        third = rng.normal(size=2)
        ahead = rng.uniform(0.6, 1.5)
        if place < 2:  # move all keys across
            third += ((0.5, -0.5 - ahead)[place] - third @ across) * across
        first = third + ahead * across + rng.uniform(-0.4, 0.4) * e
        large = rng.uniform(0.6, 0.9)
        share = np.array([large, 1 - large] if rng.random() < 0.5 else [1 - large, large])
        cases.append((np.array([first, first - e, third]), share, rng.uniform(5, 20)))
    for side in (1, -1):
        angle = rng.uniform(0, 2 * np.pi)
        e = rng.uniform(0.8, 1.2) * np.array([np.cos(angle), np.sin(angle)])
        across = side * np.array([-e[1], e[0]]) / np.sqrt(e @ e)
        third = rng.normal(size=2)
        first = third + rng.uniform(0.08, 0.12) * across + rng.uniform(4, 6) * e
        cases.append((np.array([first, first - e, third]), np.array([0.9, 0.1]), rng.uniform(5, 6)))
    return cases


MIXTURE = Exercise(
    id="08.5",
    title="The point of a mixture",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_mixture_point,
    cases=_mixture_cases,
    misconceptions=known(
        _mixture_by(ratio=lambda s: np.log(s[1] / s[0])),
        "The ratio is upside down: p.(k_1 - k_2) = log(s_1 / s_2).",
        _mixture_by(ratio=lambda s: s[0] / s[1]),
        "You left out the logarithm: attention is an exponential of p.k.",
        _mixture_by(square=False),
        "Divide by e.e, not by its root: then the part along e has the product log(s_1/s_2) with e.",
        _mixture_by(side=-1),
        "You are on the side of token 3. Take the other side of the line through 0 and k_1 - k_2.",
        _side_by_the_whole(1),
        "The side is chosen by the part across k_1 - k_2 alone, not by the whole of p: that part must have a "
        "positive product with k_1 - k_3.",
        _side_by_the_whole(-1),
        "The whole of p may have a positive product with k_1 - k_3 on both sides. Choose by the part across "
        "k_1 - k_2 alone.",
        _too_long,
        "Your p is longer than R: the part across is the root of R**2 minus the square of the other part.",
        _mixture_by(ratio=lambda s: 0.0),
        "That is the limit of the direction. A part along k_1 - k_2 sets the ratio of the shares.",
        _mixture_by(rest=lambda R, fixed: R - np.sqrt(fixed @ fixed)),
        "Lengths of perpendicular parts do not add up, their squares do: Pythagoras.",
        lambda keys, share, R: R * _too_long(keys, share, R) / np.linalg.norm(_too_long(keys, share, R)),
        "You scaled the whole p to length R, and its product with k_1 - k_2 with it. Scale the part across.",
        lambda keys, share, R: _mixture_answer(keys, share, R) / R,
        "That is a unit vector. Return the point of length R.",
    ),
)


EXERCISES = [SHORTFALL, STEP, OFFSET, JUMP, MIXTURE]
