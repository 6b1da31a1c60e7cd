"""Exercises of lesson 08: regularisation paths."""

import numpy as np

from course.check.specification import Exercise, known


# --------------------------------------------------------------------------- 08.1 the first turn
def _first_turns(path=1.0, descent=0.5, direction=1, across=True, power=1):
    """Both turns; wrong in a factor, in the side, along g or in the power of ||g||."""

    def answer(g, H):
        size = np.linalg.norm(g)
        unit = g / size
        turn = H @ unit
        turn = turn - (turn @ unit) * unit if across else turn
        return direction * np.stack([path * turn, descent * turn]) / size**power

    return answer


_first_turn_answer = _first_turns()


def _first_turn(g, H):
    return _first_turn_answer(g, H)


def _turn_cases(rng):
    """Gradients neither long 1 nor along an eigenvector; Hessians of either sign."""
    cases = []
    for d in (3, 2, 5, 4):  # the plane has one direction across g: there any c looks like a wrong factor
        A = rng.normal(size=(d, d))
        H = A + A.T + rng.uniform(1, 2) * np.diag(np.arange(d))
        g = rng.normal(size=d)
        g *= rng.choice([rng.uniform(0.3, 0.6), rng.uniform(1.8, 3.0)]) / np.linalg.norm(g)
        unit = g / np.linalg.norm(g)
        turn = H @ unit
        if np.linalg.norm(turn - (turn @ unit) * unit) < 0.5 or abs(turn @ unit) < 0.3:
            H = H + 2 * np.outer(np.eye(d)[0], np.eye(d)[0]) + 0.7 * np.ones((d, d))
        cases.append((g, H))
    return cases


TURN = Exercise(
    id="08.1",
    title="The first turn",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_first_turn,
    cases=_turn_cases,
    misconceptions=known(
        _first_turns(descent=1.0),
        "You made both turn alike. Solve dp/dtau = -(g + H p) to second order in tau: tau^2 / 2.",
        _first_turns(path=0.5, descent=1.0),
        "You have the two the wrong way round: the first is the path.",
        _first_turns(descent=2.0),
        "Descent is the slower one: the integral of tau is tau^2 / 2, and R is tau ||g||.",
        _first_turns(path=0.5, descent=0.25),
        "Both are half of what they should be. On the sphere the whole of g + H p has to be along p.",
        _first_turns(across=False),
        "c is perpendicular to g: the length is R already. Take away the part of H g along g.",
        _first_turns(direction=-1),
        "The sign is wrong: p starts along -g, and H p is then -R H g / ||g||, which is descended once more.",
        _first_turns(power=0),
        "You left out the division by ||g||: a longer gradient is turned less by the same H.",
        _first_turns(power=2),
        "One power of ||g|| too many: H acts on the unit vector g / ||g||.",
        _first_turns(power=-1),
        "H acts on the unit vector g / ||g||, and the turn is divided by ||g|| besides.",
        lambda g, H: np.stack([-np.linalg.solve(H, g), -np.linalg.solve(H, g) / 2]),
        "That is Newton's step, to the bottom of the quadratic. Near 0 the ball is far too small for it.",
        lambda g, H: np.outer([1, 0.5], (g @ H @ g) / np.linalg.norm(g) ** 4 * g),
        "You kept the part of H g along g, which changes the length only. A turn is the part across g.",
    ),
)


# --------------------------------------------------------------------------- 08.2 a minimum on the sphere?
def _sphere(p):
    return np.linalg.svd(p[None])[2][1:].T


def _curvature_by(bend=lambda p, g: -(g @ p) / (p @ p), basis=_sphere, pick=lambda values: values[0]):
    def answer(p, g, H):
        E = basis(p)
        return pick(np.linalg.eigvalsh(E.T @ H @ E)) + bend(p, g)

    return answer


def _without_nearest(p, g, H):
    values, vectors = np.linalg.eigh(H)
    return np.delete(values, np.abs(p @ vectors).argmax())[0] - (g @ p) / (p @ p)


_curvature_answer = _curvature_by()


def _curvature(p, g, H):
    return _curvature_answer(p, g, H)


def _curvature_cases(rng):
    """Stationary points on spheres of radius other than 1, minima and saddles, H of either sign.

    The least direction of H itself is neither along p nor across it, and along p H is lower than across in
    one case; nu decides the sign in another. In two cases p has a zero, so that no one entry gives nu.
    """
    cases = []
    for d, low in ((3, 0.6), (2, -0.7), (5, -2.5), (4, 0.9)):
        p = rng.normal(size=d)
        p[{3: [0], 4: [-1]}.get(d, [])] = 0
        p *= rng.uniform(1.7, 2.6) / np.linalg.norm(p)
        E = np.column_stack([p / np.linalg.norm(p), _sphere(p)])
        inner = np.diag(np.r_[low - rng.uniform(0.8, 1.2), low + np.arange(d - 1) * rng.uniform(0.7, 0.9)])
        if d > 2:  # turn the directions across p
            Q = np.linalg.qr(rng.normal(size=(d - 1, d - 1)))[0]
            inner[1:, 1:] = Q @ inner[1:, 1:] @ Q.T
        inner[0, 1:] = inner[1:, 0] = rng.uniform(0.3, 0.5, size=d - 1) * rng.choice([-1, 1], size=d - 1)
        cases.append((p, -rng.uniform(1.1, 1.5) * p, E @ inner @ E.T))
    return cases


CURVATURE = Exercise(
    id="08.2",
    title="Is it a minimum on the sphere?",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_curvature,
    cases=_curvature_cases,
    misconceptions=known(
        _curvature_by(bend=lambda p, g: 0.0),
        "You left out the bend of the circle: going along it you also go inwards, against the gradient.",
        _curvature_by(bend=lambda p, g: (g @ p) / (p @ p)),
        "The sign of nu is wrong: the circle bends inwards, where L is higher.",
        _curvature_by(basis=lambda p: np.eye(len(p))),
        "You let e be any direction. On the sphere only those across p are open.",
        _curvature_by(basis=lambda p: np.eye(len(p)), bend=lambda p, g: 0.0),
        "That is the smallest eigenvalue of H in the whole space. On the sphere e is perpendicular to p, and "
        "the gradient enters through the bend.",
        _curvature_by(bend=lambda p, g: -(g @ p)),
        "Divide g.p by R^2: on a large sphere a way of length 1 bends little.",
        _curvature_by(bend=lambda p, g: np.linalg.norm(g)),
        "nu is ||g|| / R, not ||g||.",
        _curvature_by(bend=lambda p, g: -(g @ p) / (p @ p) / 2),
        "Half of nu is missing: the second derivative of cos is -1, the half stands in Taylor's formula.",
        _curvature_by(pick=lambda values: values[-1]),
        "That is the largest. A point is a minimum only if the smallest is positive.",
        lambda p, g, H: _curvature_answer(p, g, H) * (p @ p),
        "That is the derivative in the angle. tau is a length: divide by R^2.",
        lambda p, g, H: (
            np.linalg.eigvalsh(H - np.outer(p, p) / (p @ p) * (p @ H @ p) / (p @ p))[0] - (g @ p) / (p @ p)
        ),
        "You took H's entry along p away, but not its mixed ones: restrict H on both sides.",
        lambda p, g, H: min(0, np.linalg.eigvalsh(_sphere(p).T @ H @ _sphere(p))[0]) - (g @ p) / (p @ p),
        "Projected on both sides, H has the eigenvalue 0 in the direction of p as well, which is no e. Leave "
        "it out, or take H in a basis of the d - 1 directions across p.",
        lambda p, g, H: min(0.0, _curvature_answer(p, g, H)),
        "A positive curvature became 0 in your answer. The projected matrix has the eigenvalue 0 along p, "
        "which is no e: leave that one out.",
        _without_nearest,
        "To leave out one eigenvector of H, the lowest or the one nearest to p, is not enough: the others "
        "are not across p. Restrict H to the directions across p first, then take eigenvalues.",
        lambda p, g, H: np.diag(_sphere(p).T @ H @ _sphere(p)).min() - (g @ p) / (p @ p),
        "The diagonal depends on the basis. The smallest value among all e is the smallest eigenvalue.",
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
        _offset_by(
            target=lambda weights, lam: np.log(weights / lam) - np.log(weights[0] / lam[0]), project=False
        ),
        "To measure b from its first entry is one choice of the constant. The condition r.p_mm = 0 asks for "
        "another.",
        _offset_by(
            target=lambda weights, lam: (
                np.log(weights / lam) - weights @ np.log(weights / lam) / weights.sum()
            ),
            project=False,
        ),
        "r.p_mm is the sum of lambda_j r.a_j: the mean that has to be 0 is the one with lambda, not with the "
        "weights.",
        lambda rows, weights, lam: _offset(rows / np.linalg.norm(rows, axis=1, keepdims=True), weights, lam),
        "You gave the rows length 1. Both conditions are about the a_j as they are: leave the lengths.",
        _offset_by(direction=lambda rows, weights: rows.mean(axis=0)),
        "The ray is p_mm = lam @ rows. The mean of the rows points elsewhere: each counts with its lambda.",
        lambda rows, weights, lam: lam @ rows,
        "That is p_mm itself, the direction of the ray. The offset is perpendicular to it.",
        lambda rows, weights, lam: _offset(rows, weights, lam) / np.linalg.norm(_offset(rows, weights, lam)),
        "That is the direction of r. Return r itself, with its length.",
        lambda rows, weights, lam: np.linalg.norm(_offset(rows, weights, lam)),
        "That is the length of r. Return the vector.",
        lambda rows, weights, lam: (
            rows.T @ np.log(weights / lam)
            - lam @ rows * (rows.T @ np.log(weights / lam) @ (lam @ rows)) / np.sum((lam @ rows) ** 2)
        ),
        "rows.T takes the logarithms for coefficients. They are the products of r with the rows: solve rows "
        "@ r = them, with np.linalg.pinv.",
    ),
)


# --------------------------------------------------------------------------- 08.4 predict the jump
def _short(top, own, others, lead, share=lambda e, m: 1 / (e + m)):
    """Gamma of a token with the score own, at this lead over its support tokens' scores others."""
    return top - own + share(np.exp(lead), len(others)) * (own - others).sum()


def _settled(top, own, others, lead):
    return top - own + 0 * lead


def _of_some(pick):
    return lambda top, own, others, lead: _short(top, own, np.atleast_1d(pick(others)), lead)


def _with(share):
    return lambda *args: _short(*args, share=share)


def _jump_by(
    best=_short, rival=None, leads=lambda R, a, b: (R / a, R / b), radius=lambda R, a, b: R, smaller=False
):
    """An answer: the largest (or smallest) R at which the two shortfalls are equal, by steps and halving."""
    rival = rival or best

    def answer(lengths, scores, own, others):
        a, b = lengths

        def ahead(R):
            one, two = leads(R, a, b)
            return best(scores[0], scores[0], own, one) - rival(scores[0], scores[1], others, two)

        R = np.linspace(0, 40 * max(a, b, 1), 801)
        above = ahead(R) > 0
        k = int(above[1:].argmax()) if smaller and not above[0] else np.nonzero(above)[0].max(initial=0)
        low, high = R[k], R[min(k + 1, len(R) - 1)]
        for _ in range(44):
            middle = (low + high) / 2
            low, high = (middle, high) if (ahead(middle) > 0) == above[k] else (low, middle)
        return float(radius(low, a, b))

    return answer


_jump_answer = _jump_by()


def _jump_radius(lengths, scores, own, others):
    return _jump_answer(lengths, scores, own, others)


def _jump_cases(rng):
    """One to three support tokens each; best scores other than 1; the rival's branch far from settled.

    Drawn from the leads at the jump, which give the rival's score: so a jump there is.
    """
    cases = []
    for one, two in (([1], [1.2]), ([1.5, 1.9], [1]), ([1], [0.6, 0.8]), ([1, 1.8, 2.6], [1.6, 2.2])):
        best, a, b = rng.uniform(1.2, 2.0), rng.uniform(1.2, 1.6), rng.uniform(3.1, 3.6)
        one, two = (rng.uniform(0.7, 0.9) * rng.permutation(gaps) for gaps in (one, two))
        s_1, s_2 = 1 / (np.exp(a) + len(one)), 1 / (np.exp(b) + len(two))
        rival = best - (s_1 * one.sum() - s_2 * two.sum()) / (1 - len(two) * s_2)
        length = rng.uniform(1.5, 4.0)
        cases.append((np.array([length, length * a / b]), np.array([best, rival]), best - one, best - two))
    return cases


JUMP = Exercise(
    id="08.4",
    title="Predict the jump",
    points=3,
    minutes=12,
    difficulty=3,
    reference=_jump_radius,
    cases=_jump_cases,
    misconceptions=known(
        _jump_by(rival=_settled),
        "You let the rival's branch have its limit. At this radius its support tokens keep attention, too.",
        lambda lengths, scores, own, others: (
            lengths[0] * np.log((scores[0] - own).sum() / (scores[0] - scores[1]))
        ),
        "That takes the rival at its limit, and s_t = e^-lead. It is where to begin: at this radius both "
        "branches share attention with their support tokens.",
        _jump_by(smaller=True),
        "That is the smaller of two radii that solve the equation. Near R = 0 nothing is on a ray: take the "
        "larger one, coming from large R.",
        _jump_by(rival=lambda top, own, others, lead: _short(own, own, others, lead)),
        "Both shortfalls are counted from the best score: the rival's own attention costs gamma_1 - gamma_2.",
        _jump_by(
            rival=lambda top, own, others, lead: (
                top - own + (top - others).sum() / (np.exp(lead) + len(others))
            )
        ),
        "What the rival's support tokens hold, the rival has not: its own share is 1 - m s_t.",
        _jump_by(_with(lambda e, m: 1 / e)),
        "You took s_t = e^-lead. The softmax divides by 1 + m e^-lead, with m support tokens.",
        _jump_by(_with(lambda e, m: 1 / (e + 1))),
        "There may be several support tokens: with m of them s_t = 1 / (m + e^lead), not 1 / (1 + e^lead).",
        _jump_by(_with(lambda e, m: 1 / (e + m + 1))),
        "On its ray only a token and its support tokens share attention: the other branch's token has none.",
        _jump_by(_of_some(lambda others: others[0])),
        "You counted one support token a branch. Each of them costs its s_t (gamma_1 - gamma_t).",
        _jump_by(_of_some(np.mean)),
        "You took the mean of the support tokens as one token. Each has its own s_t.",
        _jump_by(_of_some(np.min)),
        "You took the worst support token alone. Each of them has its share s_t.",
        _jump_by(leads=lambda R, a, b: (R / a, R / a)),
        "The same R buys the rival another lead: R over the rival's own ||p_mm||.",
        _jump_by(leads=lambda R, a, b: (R / b, R / a)),
        "The lengths are exchanged: lengths[0] belongs to the best token.",
        _jump_by(leads=lambda R, a, b: (R * a, R * b)),
        "R buys the lead R / ||p_mm||: a longer p_mm is a harder token.",
        _jump_by(leads=lambda R, a, b: (R, R)),
        "That takes the radius for the lead. It is R / ||p_mm||.",
        _jump_by(radius=lambda R, a, b: R / a),
        "That is the lead of the best token at the jump. The radius is the lead times its ||p_mm||.",
        lambda lengths, scores, own, others: _jump_answer(lengths, scores, others, own),
        "The support tokens are exchanged: `own` are those of the best token.",
    ),
)


EXERCISES = [TURN, CURVATURE, OFFSET, JUMP]
