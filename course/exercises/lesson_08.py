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
    cases = []
    for K, T, d in ((4, 3, 2), (5, 4, 3), (3, 6, 2)):
        p, keys, scores = 2 * rng.normal(size=(K, d)), rng.normal(size=(T, d)), rng.uniform(-1, 1, size=T)
        h = p[0] @ keys.T  # of the first p: the winner has not the best score, and that is not 0 or alone
        scores[h.argmax()], scores[h.argmin()] = 0.4, rng.uniform(1.1, 1.5)
        cases.append((p, keys, scores))
    far = rng.normal(size=(4, 2))
    keys = np.array([[1.0, 0.1], [-0.2, 1.0], [-0.7, -0.8]]) + 0.05 * rng.normal(size=(3, 2))
    cases.append((2000 * far / np.linalg.norm(far, axis=1, keepdims=True), keys, np.array([0.9, 0.2, 0.0])))
    won = keys[0] - keys[1:].mean(axis=0) + 0.05 * rng.normal(size=(3, 2))  # far on the best token's side
    won *= rng.uniform(28, 30, size=(3, 1)) / ((keys[0] - keys[1:]) @ won.T).min(axis=0)[:, None]
    cases.append((won, keys, np.array([0.9, 0.2, 0.0])))
    return cases


def _attended(p, keys, scores):
    h = p @ keys.T
    return (_softmax(h) * (scores[h.argmax(axis=1)][:, None] - scores)).sum(axis=1)


SHORTFALL = Exercise(
    id="08.1",
    title="The shortfall",
    points=1,
    minutes=4,
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
        lambda p, keys, scores: scores.max() - _softmax(p @ keys.T) @ scores,
        "Right in exact arithmetic, but here delta is tiny and the difference of two nearly equal numbers "
        "cancels. Weigh the gaps instead: the second form.",
    ),
)


# --------------------------------------------------------------------------- 08.2 a projected step
def _onto_ball(q, R):
    return q * np.minimum(1, R / np.linalg.norm(q, axis=1, keepdims=True))


def _projected_step(p, g, eta, R):
    return _onto_ball(p - eta * g, R)


def _step_cases(rng):
    """Rows that end inside and outside; some start outside too, so that the order of the two acts matters."""
    cases = []
    for K, d in ((4, 2), (5, 3), (6, 5)):
        R, eta = rng.uniform(1.5, 2.5), rng.uniform(0.4, 0.8)
        p, g = rng.normal(size=(K, d)), rng.normal(size=(K, d))
        length = np.linspace(0.5, 2.2, K)[:, None] * R
        p = length * p / np.linalg.norm(p, axis=1, keepdims=True)
        g = rng.uniform(0.3, 0.5) * R * g / np.linalg.norm(g, axis=1, keepdims=True) / eta
        cases.append((p, g, eta, R))
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
        lambda p, g, eta, R: R * (p - eta * g) / np.linalg.norm(p - eta * g, axis=1, keepdims=True),
        "You put every row on the sphere. A point inside the ball is its own nearest point: leave it.",
        lambda p, g, eta, R: _onto_ball(p + eta * g, R),
        "You went uphill: descent subtracts eta * g.",
        lambda p, g, eta, R: _onto_ball(p, R) - eta * g,
        "You projected before the step. Step first, then project.",
        lambda p, g, eta, R: np.clip(p - eta * g, -R, R),
        "You clipped each coordinate: that projects on a cube. The ball asks for the length of the row.",
        lambda p, g, eta, R: (p - eta * g) * np.minimum(1, R / np.linalg.norm(p - eta * g)),
        "You took the length of the whole array. Each row has its own: axis=1, keepdims=True.",
        lambda p, g, eta, R: _onto_ball(p - eta * g / np.linalg.norm(g, axis=1, keepdims=True), R),
        "Do not normalise here: the step is eta * g as given.",
        lambda p, g, eta, R: _onto_ball(p - eta * g, 1),
        "You came back to length 1. The ball has radius R.",
        lambda p, g, eta, R: np.where(np.linalg.norm(p - eta * g, axis=1, keepdims=True) > R, p, p - eta * g),
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
        lambda rows, weights, lam: lam @ rows,
        "That is p_mm itself, the direction of the ray. The offset is perpendicular to it.",
        lambda rows, weights, lam: np.linalg.norm(_offset(rows, weights, lam)),
        "That is the length of r. Return the vector.",
    ),
)


# --------------------------------------------------------------------------- 08.4 find the jump
def _cosines(path):
    u = path / np.linalg.norm(path, axis=1, keepdims=True)
    return (u[:-1] * u[1:]).sum(axis=1)


def _turns(path):
    return np.degrees(np.arccos(np.clip(_cosines(path), -1, 1)))


def _largest_turn(path):
    turns = _turns(path)
    return turns.max(), turns.argmax()


def _turn_cases(rng):
    """Directions that drift one way, jump once and drift back, so that the way from the start misleads.

    In the last one pairs of neighbours are parallel, and by rounding the cosine of some is above 1.
    """
    cases = []
    for K, d, jump, at in ((6, 2, 150, 2), (8, 3, 100, 3), (9, 2, 60, 6)):
        drift = rng.uniform(10, 16, size=K)
        drift[at + 1] = -jump
        drift[at + 2 :] = -rng.uniform(3, 8, size=K - at - 2)
        angle = np.radians(np.cumsum(drift) + rng.uniform(0, 360))
        plane, _ = np.linalg.qr(rng.normal(size=(d, 2)))
        lengths = np.geomspace(0.3, 40, K) * rng.uniform(0.9, 1.1, size=K)
        cases.append((lengths[:, None] * np.c_[np.cos(angle), np.sin(angle)] @ plane.T,))
    while len(cases) < 4:
        path = np.repeat(rng.normal(size=(20, 3)), 2, axis=0)
        if (_cosines(path) > 1).any():
            cases.append((path,))
    return cases


def _raw_cosines(path):
    cosines = (path[:-1] * path[1:]).sum(axis=1)
    return np.degrees(np.arccos(np.clip(cosines, -1, 1))).max(), cosines.argmin()


def _moves(path):
    return np.linalg.norm(np.diff(path, axis=0), axis=1)


def _unclipped(path):
    return np.degrees(np.arccos(_cosines(path)))


def _to_others(path):
    u = path / np.linalg.norm(path, axis=1, keepdims=True)
    return np.degrees(np.arccos(np.clip(u @ u.T, -1, 1)))  # of each row with each


TURN = Exercise(
    id="08.4",
    title="Find the jump",
    points=2,
    minutes=6,
    difficulty=1,
    reference=_largest_turn,
    cases=_turn_cases,
    misconceptions=known(
        lambda path: (np.radians(_turns(path).max()), _turns(path).argmax()),
        "The angle is right, in radians. Return degrees: np.degrees(...).",
        lambda path: (_turns(path).max(), _turns(path).argmax() + 1),
        "Return the index of the row before the turn; yours is the row after it.",
        _raw_cosines,
        "Divide each row by its length first: only then is the product a cosine.",
        lambda path: (_moves(path).max(), _moves(path).argmax()),
        "That is the longest move. p grows with R by itself: compare directions.",
        lambda path: (_to_others(path)[0].max(), _to_others(path)[0].argmax()),
        "You compared each row with the first. Its neighbour is the one before it.",
        lambda path: (_turns(path).min(), _turns(path).argmin()),
        "That is the smallest turn; np.argmax finds the largest.",
        lambda path: (np.cos(np.radians(_turns(path).max())), _turns(path).argmax()),
        "That is the cosine. Its angle is np.degrees(np.arccos(...)).",
        lambda path: (_unclipped(path).max(), _unclipped(path).argmax()),
        "Between parallel rows the cosine can come out as 1.0000000000000002, and its arccos is NaN: np.clip "
        "the cosines to [-1, 1] first.",
        lambda path: _largest_turn(path)[::-1],
        "The other way round: first the angle, then the index.",
        lambda path: (_to_others(path).max(), _to_others(path).max(axis=1).argmax()),
        "You compared each row with every other. Compare it with the one before it.",
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


_mixture_answer = _mixture_by()
_too_long = _mixture_by(rest=lambda R, fixed: R)


def _mixture_point(keys, share, R):
    return _mixture_answer(keys, share, R)


def _mixture_cases(rng):
    """Keys whose first two are neither equally far from the third nor 1 apart; both sides occur."""
    cases = []
    for side in (1, -1, 1, -1):
        angle = rng.uniform(0, 2 * np.pi)
        e = rng.uniform(1.4, 2.0) * np.array([np.cos(angle), np.sin(angle)])
        across = side * np.array([-e[1], e[0]]) / np.sqrt(e @ e)
        third = rng.normal(size=2)
        first = third + rng.uniform(0.6, 1.5) * across + rng.uniform(-0.4, 0.4) * e
        large = rng.uniform(0.6, 0.9)
        share = np.array([large, 1 - large] if rng.random() < 0.5 else [1 - large, large])
        cases.append((np.array([first, first - e, third]), share, rng.uniform(5, 20)))
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
        "Your p prefers token 3. Take the other side of the line through k_1 and k_2.",
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


EXERCISES = [SHORTFALL, STEP, OFFSET, TURN, MIXTURE]
