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
    for d in (3, 2, 5, 4):  # the plane has one direction across g: there any b looks like a wrong factor
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
        "b is perpendicular to g: the length is R already. Take away the part of H g along g.",
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
        "That is the derivative in the angle. sigma is a length: divide by R^2.",
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
    minutes=20,
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
        "To subtract the mean is another choice of the constant. The condition r.p_mm = 0 decides it.",
        _offset_by(
            target=lambda weights, lam: np.log(weights / lam) - np.log(weights[0] / lam[0]), project=False
        ),
        "To start from the first logarithm is one choice of the constant. The condition r.p_mm = 0 asks for "
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


# --------------------------------------------------------------------- 08.4 a proof by the loss
def _loss(output):
    return np.logaddexp(0, -output)


def _best_two(scores):
    return np.sort(scores, axis=1)[:, :-3:-1]


def _lost(scores):
    """The least loss of each sequence if its best token has attention one half at most."""
    return _loss(_best_two(scores).mean(axis=1))


def _proving_by(lost=_lost, pick=lambda rise, scores: rise.min(), share=len, base=np.mean):
    """An answer: a base of the least losses, plus the rise of one sequence, divided by their number."""

    def answer(scores):
        least = _loss(scores.max(axis=1))
        return base(least) + pick(lost(scores) - least, scores) / share(scores)

    return answer


_proving_answer = _proving_by()


def _proving_loss(scores):
    return _proving_answer(scores)


def _of_smallest_gap(rise, scores):
    first, second = _best_two(scores).T
    return rise[(first - second).argmin()]


def _by_slope(rise, scores):
    first, second = _best_two(scores).T
    return ((first - second) / 2 / (1 + np.exp(first))).min()


def _proving_cases(rng):
    """A sequence with a high best score decides, though another one has the smaller gap."""
    cases = []
    for n, T in ((2, 3), (3, 4), (4, 3), (2, 5)):
        first = np.r_[rng.uniform(2.0, 2.6), rng.uniform(-0.7, 0.4, size=n - 1)]
        gap = np.r_[rng.uniform(0.5, 0.6), rng.uniform(0.8, 1.2, size=n - 1)]
        gap[-1] = rng.uniform(0.35, 0.42)
        rest = (first - gap)[:, None] - rng.uniform(0.2, 1.5, size=(n, T - 2))
        scores = np.column_stack([first, first - gap, rest])
        cases.append((rng.permutation(rng.permuted(scores, axis=1)),))
    return cases


PROOF = Exercise(
    id="08.4",
    title="A loss that proves the choice",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_proving_loss,
    cases=_proving_cases,
    misconceptions=known(
        _proving_by(lost=lambda scores: _loss(_best_two(scores)[:, 1])),
        "You gave the second best token all the attention. It needs only as much as the best one: half.",
        _proving_by(share=lambda scores: 1),
        "L is a mean over the sequences: what one of them loses counts 1/n.",
        _proving_by(pick=lambda rise, scores: rise.max()),
        "You took the sequence that is dearest to lose. The proof has to exclude the cheapest one, too.",
        _proving_by(pick=lambda rise, scores: rise.mean()),
        "You took the mean of what the sequences lose. The proof has to exclude the cheapest one alone.",
        _proving_by(pick=lambda rise, scores: rise.sum()),
        "You let all sequences fail at once. It is enough that one does.",
        _proving_by(pick=_of_smallest_gap),
        "You took the sequence with the smallest gap. Compare losses: where the scores are high the logistic "
        "loss is flat, and a larger gap may cost less.",
        _proving_by(pick=lambda rise, scores: rise[scores.max(axis=1).argmax()] * 0),
        "That is L_*, which no p can be below. How much may it be exceeded?",
        _proving_by(base=lambda least: 0.0),
        "That is how much L must rise over L_*. Return the loss itself: add L_*.",
        lambda scores: _lost(scores).min(),
        "That is the loss of one sequence. L is the mean over all: the others contribute their least loss.",
        lambda scores: _lost(scores).min() / len(scores),
        "The other sequences contribute at least their least loss, not 0.",
        _proving_by(share=lambda scores: 1, base=np.sum),
        "You added the losses of the sequences. L is their mean.",
        _proving_by(pick=_by_slope),
        "You multiplied the slope of the loss by half the gap. The gap is not small: take the loss itself.",
        _proving_by(pick=lambda rise, scores: 2 * _by_slope(rise, scores)),
        "You multiplied the slope of the loss by the gap. Attention is shared by halves, and the gap is not "
        "small: take the loss of the output.",
        _proving_by(share=lambda scores: len(scores) - 1),
        "L is a mean over all n sequences, also the one that fails.",
        _proving_by(
            lost=lambda scores: _loss(_best_two(scores) @ [1 - 1 / scores.shape[1], 1 / scores.shape[1]])
        ),
        "You gave the other token 1/T. The best one may still have more: it has to be half and half.",
        _proving_by(lost=lambda scores: _loss(_best_two(scores)[:, 1]), share=lambda scores: 1),
        "Two things: the other token needs only as much attention as the best one, half, and L is a mean.",
        _proving_by(lost=lambda scores: _loss(_best_two(scores)).mean(axis=1)),
        "The loss is taken of the output: of the mean of the two scores, not the mean of two losses.",
        _proving_by(lost=lambda scores: _loss(scores.mean(axis=1))),
        "You spread the attention over all tokens. Half on each of the best two costs less.",
        _proving_by(lost=lambda scores: _loss((scores.max(axis=1) + scores.min(axis=1)) / 2)),
        "You shared with the worst token. The best but one costs less.",
        lambda scores: -(_best_two(scores) @ [0.5, -0.5]).min() / len(scores) + scores.max(axis=1).mean(),
        "That is an output, not a loss: put the outputs through log(1 + exp(-u)), one sequence at a time.",
        lambda scores: (_best_two(scores) @ [0.5, -0.5]).min() / len(scores),
        "That is a shortfall of scores. c is a loss: put the outputs through log(1 + exp(-u)).",
        lambda scores: _loss(
            scores.max(axis=1).mean() - (_best_two(scores) @ [0.5, -0.5]).min() / len(scores)
        ),
        "You took the loss of the mean output. L is the mean of the losses, one for each sequence.",
        lambda scores: (
            np.logaddexp(0, scores.max(axis=1)).mean()
            + (np.logaddexp(0, _best_two(scores).mean(axis=1)) - np.logaddexp(0, scores.max(axis=1))).min()
            / len(scores)
        ),
        "The sign is wrong: the loss is log(1 + exp(-u)), smaller for larger outputs.",
    ),
)


EXERCISES = [TURN, CURVATURE, OFFSET, PROOF]
