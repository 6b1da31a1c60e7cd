"""Exercises of lesson 02: the hard-margin SVM and its certificate."""

import numpy as np
from scipy import optimize

from course.check.specification import Compare, Exercise, known
from course.exercises.points import separable

SOLVERS = ("mini_attn.svm.dispatch.solve", "mini_attn.svm.rational.shortest")


def _signed(rng, n, d):
    X, y = separable(rng, n, d)
    return y[:, None] * X


def nnls(matrix, target):
    """scipy's, which with no columns at all writes where it should not (version 1.17.1)."""
    if matrix.size == 0:
        raise ValueError(f"the matrix has shape {matrix.shape}; nnls needs at least one column")
    return optimize.nnls(matrix, target)


def _nnls(A):
    return nnls(np.vstack([A.T, np.ones(len(A))]), np.append(np.zeros(A.shape[1]), 1.0))


def _solve(A):
    """The SVM's solution, and its normalised weights."""
    lam, _ = _nnls(A)
    nearest = lam @ A / lam.sum()
    return nearest / (nearest @ nearest), lam / lam.sum()


def _margin(w, A):
    return (A @ w).min() / np.linalg.norm(w)


# 02.1


def _norm(a):
    return np.linalg.norm(a)


def _nearest(a, b):
    return a + np.clip(a @ (a - b) / ((a - b) @ (a - b)), 0, 1) * (b - a)


def _foot(a, b):
    return a + a @ (a - b) / ((a - b) @ (a - b)) * (b - a)


def _two_points(a, b):
    nearest = _nearest(a, b)
    return nearest / (nearest @ nearest)


def _from(direction):
    """The answer with `direction(a, b)`, stretched until both constraints hold."""

    def answer(a, b):
        w = direction(a, b)
        return w / min(a @ w, b @ w)

    return answer


def _one_alone(a, b):
    shorter = min(a, b, key=lambda point: point @ point)
    return shorter / (shorter @ shorter)


def _always_both(a, b):
    A = np.stack([a, b])
    return np.linalg.solve(A @ A.T, np.ones(2)) @ A


def _both_first(a, b):
    """Solves both equations and looks at the signs afterwards: parallel points stop it."""
    A = np.stack([a, b])
    weights = np.linalg.solve(A @ A.T, np.ones(2))
    return _one_alone(a, b) if weights.min() < 0 else weights @ A


def _a_then_both(a, b):
    """Tries the first point alone, never the second; for parallel points by the pseudo-inverse."""
    w = a / (a @ a)
    return w if b @ w >= 1 else np.linalg.pinv(np.stack([a, b])) @ np.ones(2)


def _pair(rng, d, both, acute=True):
    """Two signed points, not too near to the border between one tight constraint and two.

    Where one is tight, a.w comes out as 1 or a little above: a test of `a @ w >= 1` is right.
    """
    while True:
        a, b = rng.normal(size=(2, d)) * rng.uniform(0.5, 3.0, size=(2, 1))
        weight = a @ (a - b) / ((a - b) @ (a - b))
        angle = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        exact = all(one @ (one / size) >= 1 for one in (a, b) for size in (one @ one, _norm(one) ** 2))
        if (
            (exact or both)
            and (angle > 0.05 if acute else -0.9 < angle < -0.05)
            and (0.15 < weight < 0.4 if both else weight < -0.1 or weight > 1.1)
        ):
            return a, b


def _two_points_cases(rng):
    """Both are tight, at an obtuse and at an acute angle; the first alone; the second alone, and parallel."""
    cases = [_pair(rng, 2, both=True, acute=False), _pair(rng, 3, both=True)]
    cases.append(sorted(_pair(rng, 2, both=False), key=_norm))
    shorter = rng.permutation([rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0]), 0.0])
    return [*map(tuple, cases), (2 * shorter, shorter)]  # powers of two: exactly singular


TWO_POINTS = Exercise(
    id="02.1",
    title="Two points by hand",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_two_points,
    withheld=SOLVERS,
    cases=_two_points_cases,
    misconceptions=known(
        lambda a, b: np.linalg.pinv(np.stack([a, b])) @ np.ones(2),
        "You made both constraints tight whatever the points. If b.w > 1 at the shortest w with a.w = 1, "
        "then a is tight alone (and the same with a and b exchanged).",
        _always_both,
        "You made both constraints tight where one is enough, and for parallel points both cannot be. If "
        "b.w > 1 at the shortest w with a.w = 1, a is tight alone (and the same with a and b exchanged).",
        _a_then_both,
        "Where your answer is wrong, b is tight alone: try both points by themselves.",
        lambda a, b: _a_then_both(b, a),
        "Where your answer is wrong, a is tight alone: try both points by themselves.",
        _both_first,
        "Where a and b are parallel, the two equations contradict each other: first try both points by "
        "themselves.",
        _one_alone,
        "You made only the shorter point's constraint tight. Look at the other one: is it kept?",
        lambda a, b: a / (a @ a) if a @ b >= a @ a else b / (b @ b),
        "a alone, else b alone: a third case is missing, both tight.",
        _nearest,
        "That is the nearest point of the segment. Its direction is right, but w has the length 1 / margin.",
        _foot,
        "That is the nearest point of the *line* through a and b. Where one is tight alone, the segment's is "
        "another; and w, in its direction, has the length 1 / margin.",
        lambda a, b: a / _norm(a) + b / _norm(b),
        "You halved the angle between a and b, and left the length. The constraints are about a.w, not about "
        "angles: the shorter point counts more, and the lowest score is 1.",
        lambda a, b: _nearest(a, b) / np.linalg.norm(_nearest(a, b)),
        "You normalised w. Its direction is right, but its length, 1 / margin, is part of the answer.",
        _from(lambda a, b: a / np.linalg.norm(a) + b / np.linalg.norm(b)),
        "You halved the angle between a and b. The constraints are about a.w, not about angles: the shorter "
        "point counts more.",
        _from(lambda a, b: a + b),
        "You took the direction of a + b. That is feasible once stretched, but not the shortest.",
    ),
)


# 02.2


def _angle(cosine):
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def _bound(lam, A):
    return np.linalg.norm(lam @ A) / lam.sum()


def _numbers(w, lam, A):
    """mu(w), mu(a_bar), B and the angle between w and a_bar: all that the two proofs are made of."""
    a_bar = lam @ A / lam.sum()
    B = np.linalg.norm(a_bar)
    return _margin(w, A), _margin(a_bar, A), B, _angle(w @ a_bar / np.linalg.norm(w) / B)


def _by_root(mu_bar, B):
    """For a_bar, in the hull: cos >= mu_hat / B and cos >= mu(a_bar) / mu_hat, so cos^2 >= mu(a_bar) / B."""
    return _angle(np.sqrt(max(0.0, mu_bar / B)))


def _by_part_3(mu, B):
    return _angle(mu / B)


def _routes(w, lam, A, for_a_bar=_by_root):
    """What part 3 proves for w, the angle between w and a_bar, and what we prove for a_bar."""
    mu, mu_bar, B, between = _numbers(w, lam, A)
    return _by_part_3(mu, B), between, for_a_bar(mu_bar, B)


def _better(w, lam, A, for_a_bar):
    direct, between, last = _routes(w, lam, A, for_a_bar)
    return min(direct, between + last)


def _proved_angle(w, lam, A):
    return _better(w, lam, A, _by_root)


def _unnormalised(w, lam, A, for_a_bar=_by_root):
    mu, mu_bar, B, between = _numbers(w, lam, A)
    B = B * lam.sum()
    return min(_by_part_3(mu, B), between + for_a_bar(mu_bar, B))


def _held_angle(w, lam, A):
    """Off w if mu_hat^2 were mu(a_bar) B."""
    mu, mu_bar, B, _ = _numbers(w, lam, A)
    return _angle(mu / np.sqrt(mu_bar * B))


def _shifted(rng, w_hat, q_hat, A):
    """A direction near the best one, and weights near the best ones."""
    w = w_hat + rng.normal(size=len(w_hat)) * rng.choice([0.1, 0.3, 1.0]) * np.linalg.norm(w_hat)
    return w, 3 * (q_hat + rng.choice([0.02, 0.1, 0.6]) * rng.uniform(size=len(A)))


def _on_the_lowest(rng, w_hat, q_hat, A):
    """A direction in which two support vectors score the same, and weights on these: a_bar scores mu(w)."""
    first, second = rng.permutation(np.flatnonzero(q_hat > 1e-9))[:2]
    edge = A[first] - A[second]
    shift = rng.normal(size=len(w_hat)) * rng.choice([0.3, 1.0]) * np.linalg.norm(w_hat)
    lam = np.zeros(len(A))
    lam[[first, second]] = rng.uniform(0.2, 2.0, size=2)
    return w_hat + shift - (shift @ edge) / (edge @ edge) * edge, lam


def _angle_cases(rng):
    """Both separate. By turns the way by a_bar is better, and the direct one.

    On these inputs nothing sharper than the better one follows from mu(w), mu(a_bar), B and the angle between
    w and a_bar, so no valid proof from them is refused. Hold the unknown mu_hat: w is at most
    arccos(mu(w) / mu_hat) off, and by way of a_bar at most between + arccos(mu_hat / B). The way by a_bar
    is the sharpest where the first is the greater at mu_hat^2 = mu(a_bar) B; the direct one, where all the
    weight is on points of the lowest score, for a_bar then scores mu(w).
    Once the direct one is better although a_bar has the larger margin, and once the way by a_bar is, but only
    by the proof that is asked for.
    """
    cases = []
    while len(cases) < 5:
        lowest = len(cases) % 2 == 1
        A = _signed(rng, int(rng.integers(4, 9)), 3 if lowest else int(rng.integers(2, 4)))
        w_hat, q_hat = _solve(A)
        if lowest and np.count_nonzero(q_hat > 1e-9) < 2:
            continue
        for _ in range(30):
            w, lam = (_on_the_lowest if lowest else _shifted)(rng, w_hat, q_hat, A)
            mu, mu_bar, B, between = _numbers(w, lam, A)
            if min(mu, mu_bar) < 0.05 * B or between < 3:
                continue
            direct, _, last = _routes(w, lam, A)
            old = _by_part_3(mu_bar, B)
            held = _held_angle(w, lam, A)
            if lowest:
                fits = abs(direct - between) < 1e-6 and last > 3 and old < 80 and direct < 80
                fits = fits and (len(cases) == 1 or mu_bar > 1.02 * mu)
            else:
                fits = last > 3 and old > last + 2 and between + old < 80 and held > between + last + 3
                fits = fits and (len(cases) < 4 or between + old > direct + 1)
            if fits:
                cases.append((rng.uniform(2, 5) * w, lam, A))
                break
    return cases


def _small_angles(*places):
    """The answer with sqrt(2 - 2 cos) for some of the three angles."""

    def answer(w, lam, A):
        direct, between, last = [
            np.degrees(np.sqrt(2 - 2 * np.cos(np.radians(angle)))) if place in places else angle
            for place, angle in enumerate(_routes(w, lam, A))
        ]
        return min(direct, between + last)

    return answer


def _of_length(w, lam, A):
    """The answer with the least a_i.w for mu(w)."""
    _, between, last = _routes(w, lam, A)
    return min(_angle((A @ w).min() / _bound(lam, A)), between + last)


def _root_for_both(w, lam, A):
    """The root for w, too, which need not be in the hull."""
    mu, _, B, _ = _numbers(w, lam, A)
    _, between, last = _routes(w, lam, A)
    return min(_by_root(mu, B), between + last)


def _root_of_the_wrong_margin(w, lam, A):
    mu, _, B, between = _numbers(w, lam, A)
    return min(_by_part_3(mu, B), between + _by_root(mu, B))


def _by_margins(w, lam, A):
    mu, mu_bar, _, _ = _numbers(w, lam, A)
    direct, between, last = _routes(w, lam, A)
    return direct if mu > mu_bar else between + last


def _chosen_by_part_3(w, lam, A):
    direct, between, old = _routes(w, lam, A, _by_part_3)
    return direct if direct < between + old else sum(_routes(w, lam, A)[1:])


def _true_angle(w, lam, A):
    w_hat, _ = _solve(A)
    return _angle(w @ w_hat / np.linalg.norm(w) / np.linalg.norm(w_hat))


ANGLE = Exercise(
    id="02.2",
    title="Two proofs of an angle",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_proved_angle,
    withheld=SOLVERS,
    cases=_angle_cases,
    compare=Compare(rtol=1e-4, atol=1e-5),  # in float32 a small arccos loses digits
    misconceptions=known(
        _unnormalised,
        "Your weights do not add up to one: a_bar is lam @ A / lam.sum(), and its length is the bound B.",
        lambda w, lam, A: _unnormalised(w, lam, A, _by_part_3),
        "Your weights do not add up to one: a_bar is lam @ A / lam.sum(). And for a_bar, in the hull, more "
        "can be proved than part 3 does.",
        lambda w, lam, A: _better(w, lam, A, _by_part_3),
        "Valid, but for a_bar more can be proved than part 3 does: a_bar is in the hull, so its cosine "
        "is at least mu_hat / B, too. Multiply this by mu(a_bar) / mu_hat.",
        lambda w, lam, A: sum(_routes(w, lam, A, _by_part_3)[1:]),
        "Valid, but for a_bar more can be proved than part 3 does: a_bar is in the hull. And where w itself "
        "separates well, the direct proof may be better.",
        lambda w, lam, A: abs(_routes(w, lam, A)[1] - _routes(w, lam, A)[2]),
        "You subtracted the angles. By the triangle inequality the way by a_bar is at most their *sum*.",
        lambda w, lam, A: _routes(w, lam, A)[0],
        "You used part 3 for w alone. The weights bring a second direction, lam @ A: go by way of it.",
        lambda w, lam, A: sum(_routes(w, lam, A)[1:]),
        "You always go by way of a_bar. Where w itself separates well, the direct proof may be better.",
        lambda w, lam, A: np.radians(_proved_angle(w, lam, A)),
        "Your angles are in radians: np.degrees.",
        lambda w, lam, A: _routes(w, lam, A)[2],
        "That bounds the angle between a_bar and w_hat. Add the one between w and a_bar.",
        lambda w, lam, A: _routes(w, lam, A)[1],
        "That is the angle between w and a_bar, which need not be that of w_hat: add a proof for a_bar.",
        lambda w, lam, A: min(_routes(w, lam, A)[0], _routes(w, lam, A)[2]),
        "a_bar's proof is not w's: by way of a_bar the angle between w and a_bar comes on top.",
        lambda w, lam, A: max(_routes(w, lam, A)[0], sum(_routes(w, lam, A)[1:])),
        "You took the larger angle. Both proofs hold, so the smaller one does.",
        _root_for_both,
        "Your direct angle is not proved. The square needs a point of the hull: a_bar is one, w need not be.",
        _root_of_the_wrong_margin,
        "By way of a_bar the margin of a_bar itself counts, not that of w.",
        lambda w, lam, A: _better(w, lam, A, lambda mu, B: _by_part_3(mu, B) / 2),
        "You halved part 3's angle for a_bar. The product of two bounds bounds the *square* of a cosine.",
        lambda w, lam, A: _better(w, lam, A, lambda mu, B: _angle((mu / B) ** 2)),
        "You squared mu(a_bar) / B. It bounds the square of the cosine: take the root.",
        _small_angles(0, 2),
        "sqrt(2 - 2 cos) is only the small-angle value: the proved angle is an arccos.",
        _small_angles(0, 1, 2),
        "sqrt(2 - 2 cos) is only the small-angle value: the angle is arccos(cos).",
        lambda w, lam, A: _proved_angle(w, np.ones(len(A)), A),
        "You did not use the weights that were given.",
        _of_length,
        "mu(w) is the least a_i.w divided by ||w||: the length of w must not matter.",
        _by_margins,
        "The larger margin does not tell which proof is better: find both angles, and take the smaller one.",
        _chosen_by_part_3,
        "You chose by part 3's angle for a_bar. With what you prove for it the other is better more often.",
        lambda w, lam, A: min(_proved_angle(w, lam, A), _held_angle(w, lam, A)),
        "A square root of mu(a_bar) B is no bound on mu_hat, which may be as large as B.",
        _true_angle,
        "That is the true angle, which takes best weights. What do the weights that were given prove?",
    ),
)


# 02.3


def _after_move(mu_hat, q_a, apart, length):
    """With w = cos w_hat + sin e, e along a - b: (a - b).w = length, as a.w - length = b.w."""
    turned = np.sqrt(1 - (length / apart) ** 2)
    return mu_hat * turned - q_a * length, mu_hat * turned + q_a * length


def _move_cases(rng):
    """Both points keep weight: tan(turn) < the lesser share times apart / mu_hat. A margin is left."""
    cases = [(1.0, 0.75, 2.0, 0.4)]
    while len(cases) < 5:
        mu_hat, q = rng.uniform(0.4, 2), rng.choice([rng.uniform(0.2, 0.4), rng.uniform(0.6, 0.8)])
        apart = mu_hat * rng.uniform(1.5, 4)
        sine = rng.uniform(0.25, 0.6)
        turned = np.sqrt(1 - sine**2)
        kept = sine / turned < 0.9 * min(q, 1 - q) * apart / mu_hat  # by both points, some weight
        if kept and mu_hat * turned > 1.1 * q * sine * apart:
            cases.append((mu_hat, q, apart, sine * apart))
    return cases


def _move(turned=lambda sine: np.sqrt(1 - sine**2), worth=lambda q, r: q * r):
    """The answer with the cosine of the turn, or what the move adds, replaced."""

    def answer(mu_hat, q, apart, r):
        cosine, added = turned(r / apart), worth(q, r)
        return mu_hat * cosine - added, mu_hat * cosine + added

    return answer


def _along_old(mu_hat, q, apart, r):
    """a moved along w_hat, back and forth: the distance of the origin from the line through a and b."""
    shrunk = np.sqrt(1 + (r / apart) ** 2)
    return (mu_hat - q * r) / shrunk, (mu_hat + q * r) / shrunk


def _shrunk(mu_hat, q, apart, r):
    turned = np.sqrt(1 - (r / apart) ** 2)
    return (mu_hat - q * r) * turned, (mu_hat + q * r) * turned


MOVE = Exercise(
    id="02.3",
    title="A long move",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_after_move,
    cases=_move_cases,
    withheld=SOLVERS,
    misconceptions=known(
        lambda mu_hat, q, apart, r: _after_move(mu_hat, q, apart, r)[::-1],
        "The right two numbers; return the least first.",
        _move(turned=lambda sine: 1.0),
        "That is the first order, with the strip held. For a move of finite length the best strip turns: by "
        "which angle?",
        _along_old,
        "You moved a along the old w_hat. The strip turns, and the worst move is at right angles to the new "
        "line.",
        _shrunk,
        "You shrink what the move itself brings, too. The move is at right angles to the *new* line: it "
        "brings q_a ||delta||, whole.",
        lambda mu_hat, q, apart, r: _after_move(mu_hat, 1 - q, apart, r),
        "You took the weight of b. The point that moves has the weight q_a.",
        _move(worth=lambda q, r: r),
        "Your move counts in full. In the average with the weights q_a and 1 - q_a, it counts q_a times.",
        _move(worth=lambda q, r: r / 2),
        "You averaged a and b with equal weights. Only with the old ones is the average of a and b along "
        "w_hat.",
        _move(turned=lambda sine: 1 / np.sqrt(1 + sine**2)),
        "You took ||delta|| / ||a - b|| for the tangent of the turn. (a - b).w = ||delta|| with ||w|| = 1 "
        "makes it the sine.",
        _move(turned=lambda sine: np.sqrt(1 - sine**2 / 4)),
        "Your strip turns half as far as it should. Both ends at equal distances: a.w - ||delta|| = b.w.",
        _move(turned=lambda sine: 1 - sine**2),
        "The square root is missing: from the sine of the turn, its cosine is sqrt(1 - sine^2).",
        _move(turned=lambda sine: 1 - sine**2 / 2),
        "Right to second order in ||delta||. The law is exact: leave the square root as it is.",
        _move(turned=lambda sine: sine),
        "You took the sine of the turn for the cosine: for a short move the margin is nearly the old one.",
        _move(worth=lambda q, r: 0.0),
        "The strip turns by the right angle. But the move itself counts, too: q_a ||delta||.",
        lambda mu_hat, q, apart, r: (mu_hat - q * r, _after_move(mu_hat, q, apart, r)[1]),
        "The greatest is right. The least has the strip turned, too: it is below the first order.",
        lambda mu_hat, q, apart, r: (_after_move(mu_hat, q, apart, r)[0], mu_hat + q * r),
        "The least is right. The greatest has the strip turned, too: it is below the first order.",
        lambda mu_hat, q, apart, r: (mu_hat - r, mu_hat + r),
        "So far the margin moves if *all* points move by ||delta||. Here one does, with the weight q_a.",
    ),
)


# 02.4


def _of_covariance(
    covariance=lambda A, q: np.cov(A.T, aweights=q, bias=True), eigenvalue=lambda values: values[-1]
):
    """The answer with another matrix(A, q), or with another number made of its eigenvalues."""

    def answer(A, q):
        return 2 * _norm(q @ A) / eigenvalue(np.linalg.eigvalsh(covariance(A, q)))

    return answer


def _longest_step(A, q):
    """C w_hat = 0, and a step takes a_perp to (I - eta C / mu_hat) a_perp: eta sigma / mu_hat < 2."""
    if not np.isclose(q.sum(), 1):  # a hint that scales q would speak of what no right answer has to do
        raise ValueError("the weights q do not add up to one")
    return _of_covariance()(A, q)


def _that_count(A, q, chosen):
    """The answer with a number made of the eigenvalues that are not 0: one fewer than support vectors."""
    values = np.linalg.eigvalsh(np.cov(A.T, aweights=q, bias=True))
    return 2 * _norm(q @ A) / chosen(values[1 - np.count_nonzero(q) :])


def _around(centre=lambda A, q: q @ A, weights=lambda A, q: q):
    """A covariance around another centre(A, q), or with other weights(A, q)."""

    def covariance(A, q):
        apart = A - centre(A, q)
        return (apart.T * weights(A, q)) @ apart

    return covariance


def _mean(A, q):
    return A.mean(axis=0)


def _mean_held(A, q):
    return A[q > 0].mean(axis=0)


def _held(A, q):
    return 1.0 * (q > 0)


def _exponential(A, w):
    """Normalised weights from exp(-a_i.w) of all points."""
    weights = np.exp(-A @ w)
    return weights / weights.sum()


def _at_score_one(A, q):
    nearest = q @ A
    return _exponential(A, nearest / (nearest @ nearest))


def _at_length_one(A, q):
    nearest = q @ A
    return _exponential(A, nearest / _norm(nearest))


def _of_pair(A, q, i, j):
    """The answer with one pair of support vectors: right if there is no other."""
    return 2 * _norm(q @ A) / (q[i] * q[j] * _norm(A[i] - A[j]) ** 2)


def _of_the_only_pair(A, q):
    i, j = np.flatnonzero(q)
    return _of_pair(A, q, i, j)


def _longest_step_cases(rng):
    """Two, three and more support vectors of unequal weights; in two cases mu_hat^2 is above sigma."""
    kinds = [(6, 2, 2, False), (8, 3, 2, True), (16, 4, 3, False), (16, 4, 3, True)]
    cases = []
    while len(cases) < len(kinds):
        n, d, held, near = kinds[len(cases)]
        A = _signed(rng, n, d)
        q = _solve(A)[1]
        some = q[q > 0]
        if not (len(some) >= held and some.min() > 0.03 and np.ptp(some) > 0.1):
            continue
        mu_hat = _norm(q @ A)
        spread = np.linalg.eigvalsh(np.cov(A.T, aweights=q, bias=True))[1 - len(some) :]
        if abs(mu_hat - 1) < 0.05 or not (held == 2 or spread[-1] > 1.3 * spread[0]):
            continue
        if near == (mu_hat**2 > 1.2 * spread[-1]):
            cases.append((A, q))
    return cases


LONGEST = Exercise(
    id="02.4",
    title="How long may a step be?",
    points=3,
    minutes=12,
    difficulty=3,
    reference=_longest_step,
    withheld=("mini_attn.rates.remainder",),
    cases=_longest_step_cases,
    misconceptions=known(
        lambda A, q: _longest_step(A, q) / 2,
        "With your step the widest part of a_perp is zero at once. Twice as long it overshoots by as much as "
        "it was off: that is the limit.",
        lambda A, q: _longest_step(A, q) / _norm(q @ A),
        "Your eta* has no mu_hat in it. A step of length eta is eta a_bar / ||a_bar||, and ||a_bar|| is "
        "nearly mu_hat.",
        lambda A, q: _longest_step(A, q) / _norm(q @ A) ** 2,
        "You divided by mu_hat instead of multiplying. A step of length eta is eta a_bar / ||a_bar||, so C "
        "(a change v of w changes a_bar by -C v: first hint) acts with the factor eta / mu_hat.",
        lambda A, q: _longest_step(A, q) * _norm(q @ A),
        "Your eta* has mu_hat twice. A step moves w by eta a_perp / mu_hat at right angles to w_hat.",
        lambda A, q: _longest_step(A, q) / _norm(q @ A) * _norm(_mean(A, q)),
        "mu_hat is ||q @ A||, not the length of the mean of all points.",
        lambda A, q: _longest_step(A, q) / _norm(q @ A) * _norm(_mean_held(A, q)),
        "mu_hat is ||q @ A||, not the length of the mean of the support vectors.",
        lambda A, q: _that_count(A, q, np.min),
        "You took the smallest eigenvalue that counts. All parts of a_perp have to die out: the largest one "
        "limits the step.",
        _of_covariance(eigenvalue=lambda values: values[0]),
        "You took the smallest eigenvalue, which is 0 along w_hat; the largest one limits the step.",
        _of_covariance(_around(), eigenvalue=lambda values: values[0]),
        "You took the smallest eigenvalue, which is 0 up to rounding: C w_hat = 0 for C (a change v of w "
        "changes a_bar by -C v: first hint). The largest one limits the step.",
        lambda A, q: 2 * _norm(q @ A) / np.linalg.svd(np.cov(A.T, aweights=q, bias=True))[1][-1],
        "You took the smallest singular value, which is 0 along w_hat; the largest one limits the step.",
        lambda A, q: 2 * _norm(q @ A) / np.linalg.svd(_around()(A, q))[1][-1],
        "You took the smallest singular value, which is 0 up to rounding; the largest one limits the step.",
        _of_covariance(eigenvalue=lambda values: values.sum()),
        "You summed the eigenvalues. Each part of a_perp has its own factor, and the largest one limits.",
        _of_covariance(eigenvalue=np.mean),
        "You averaged the eigenvalues. Each part of a_perp has its own factor, and the largest one limits.",
        lambda A, q: _that_count(A, q, np.mean),
        "You averaged the eigenvalues that are not 0. With more than two support vectors there are several, "
        "and the largest one limits.",
        _of_covariance(eigenvalue=_norm),
        "That is the root of the sum of the squared eigenvalues (np.linalg.norm of a matrix). With more than "
        "two support vectors several are not 0: take the largest one.",
        lambda A, q: 2 * _norm(q @ A) / np.cov(A.T, aweights=q, bias=True).max(),
        "You took the largest entry. It is on the diagonal, and the spread along one axis only: the widest "
        "part of a_perp may lie along none, so take the largest eigenvalue.",
        lambda A, q: _of_pair(A, q, *np.flatnonzero(q)[:2]),
        "q_i q_j ||a_i - a_j||^2 is enough with two support vectors. With more than two: the largest "
        "eigenvalue of C (a change v of w changes a_bar by -C v: first hint).",
        lambda A, q: _of_pair(A, q, *np.argsort(q)[-2:]),
        "The two largest weights are enough with two support vectors. With more than two: the largest "
        "eigenvalue of C (a change v of w changes a_bar by -C v: first hint).",
        _of_the_only_pair,
        "There may be more than two support vectors. Then take the largest eigenvalue of C (a change v of w "
        "changes a_bar by -C v: first hint).",
        _of_covariance(eigenvalue=lambda values: np.sqrt(values[-1])),
        "You took the root of the largest eigenvalue, a standard deviation. C (a change v of w changes a_bar "
        "by -C v: first hint) itself multiplies the step: take the eigenvalue, a variance.",
        _of_covariance(lambda A, q: np.cov(A[q > 0].T, bias=True)),
        "Your covariance counts all support vectors the same. They count q_i times (in np.cov: aweights=q, "
        "bias=True).",
        _of_covariance(lambda A, q: np.cov(A[q > 0].T)),
        "Your covariance counts all support vectors the same, as in a sample. They count q_i times (in "
        "np.cov: aweights=q, bias=True).",
        _of_covariance(lambda A, q: np.cov(A.T, bias=True)),
        "Your covariance counts all points the same. They count q_i times (in np.cov: aweights=q, "
        "bias=True).",
        _of_covariance(lambda A, q: np.cov(A.T)),
        "Your covariance counts all points the same, as in a sample. They count q_i times (in np.cov: "
        "aweights=q, bias=True).",
        _of_covariance(_around(weights=_held)),
        "You sum over the support vectors without weights. Each counts q_i times in C (a change v of w "
        "changes a_bar by -C v: first hint).",
        _of_covariance(_around(_mean_held, _held)),
        "You sum over the support vectors without weights, around their mean. Each counts q_i times in C (a "
        "change v of w changes a_bar by -C v: first hint), and its centre is a_bar = q @ A.",
        _of_covariance(_around(weights=lambda A, q: _held(A, q) / np.count_nonzero(q))),
        "You average over the support vectors without weights. Each counts q_i times in C (a change v of w "
        "changes a_bar by -C v: first hint).",
        _of_covariance(_around(weights=lambda A, q: np.ones(len(A)))),
        "You sum over all points without weights. Each counts q_i times in C (a change v of w changes a_bar "
        "by -C v: first hint).",
        _of_covariance(_around(weights=lambda A, q: np.full(len(A), 1 / len(A)))),
        "You average over all points without weights. Each counts q_i times in C (a change v of w changes "
        "a_bar by -C v: first hint).",
        _of_covariance(lambda A, q: np.cov(A.T, aweights=_at_score_one(A, q), bias=True)),
        "You weigh all points by exp(-a.w_hat). Only the support vectors have weight left: each counts q_i "
        "times.",
        _of_covariance(lambda A, q: np.cov(A.T, aweights=_at_length_one(A, q), bias=True)),
        "You weigh all points by exp(-a.w) at the best w of length one. Only the support vectors have "
        "weight left: each counts q_i times.",
        _of_covariance(_around(weights=_at_score_one)),
        "You subtract a_bar, but weigh all points by exp(-a.w_hat). Only the support vectors have weight "
        "left: each counts q_i times.",
        _of_covariance(_around(weights=lambda A, q: q**2)),
        "You squared the q_i. Each support vector counts q_i times; rows whose squares are summed take "
        "sqrt(q_i).",
        _of_covariance(_around(_mean)),
        "Your matrix has the wrong centre, the mean of all points. In C (a change v of w changes a_bar by "
        "-C v: first hint) subtract a_bar = q @ A.",
        _of_covariance(_around(_mean_held)),
        "Your matrix has the wrong centre, the mean of the support vectors. In C (a change v of w changes "
        "a_bar by -C v: first hint) subtract a_bar = q @ A.",
        _of_covariance(lambda A, q: (A.T * q) @ A),
        "q_i a_i a_i^T, summed, has an eigenvalue along w_hat. In C (a change v of w changes a_bar by -C v: "
        "first hint) a_bar is subtracted first.",
        _of_covariance(lambda A, q: np.cov(A.T, aweights=q)),
        "np.cov divides as for a sample. The q_i add up to one: bias=True.",
        _of_covariance(lambda A, q: np.diag(q) - np.outer(q, q)),
        "That is the covariance of the weights alone, with no points in it: diag(q) - q q^T belongs between "
        "A^T and A.",
        lambda A, q: 4 / _longest_step(A, q),
        "You turned the fraction over: a longer mu_hat allows a longer step, a larger eigenvalue a shorter "
        "one.",
        lambda A, q: 1 / _longest_step(A, q),
        "That is 1 / eta*.",
    ),
)


# 02.5


def _wrong_side(A):
    """How far each point is from the cone of the others."""
    return np.array([nnls(np.delete(A, i, axis=0).T, A[i])[1] for i in range(len(A))])


def _flipped(A):
    """The signed points with each one turned round, by turns."""
    return [np.where(np.arange(len(A))[:, None] == i, -A, A) for i in range(len(A))]


def _near(A, i):
    """The distance of the point from the hull of the rows of A."""
    shifted = A - i
    return _bound(_nnls(shifted)[0], shifted)


def _to_hull(A, *more):
    """How far each point is from the hull of the others, and of more points."""
    return np.array([_near(np.vstack([np.delete(A, i, axis=0), *more]), a) for i, a in enumerate(A)])


def _with_ones(A):
    """Residuals of least squares with a row for the sum of the weights."""
    answer = []
    for i in range(len(A)):
        rest = np.delete(A, i, axis=0)
        answer.append(nnls(np.vstack([rest.T, np.ones(len(rest))]), np.append(A[i], 1.0))[1])
    return np.array(answer)


def _to_rays(A):
    """How far each point is from the nearest single ray of another one."""
    answer = []
    for i, a in enumerate(A):
        units = np.delete(A, i, axis=0)
        units = units / np.linalg.norm(units, axis=1, keepdims=True)
        answer.append(min(_norm(a - max(0.0, a @ unit) * unit) for unit in units))
    return np.array(answer)


def _flipped_margins(A):
    """The largest margin after each flip; 0 where there is none."""
    return np.array([_bound(_nnls(turned)[0], turned) for turned in _flipped(A)])


def _to_supports(A):
    """How far each point is from the cone of the other support vectors."""
    held, rows = _solve(A)[1] > 1e-9, np.arange(len(A))
    return np.array([nnls((A * (held & (rows != i))[:, None]).T, A[i])[1] for i in rows])


def _edge_angles(A):
    """The points farthest in angle from w_hat."""
    w, _ = _solve(A)
    cosines = A @ w / np.linalg.norm(A, axis=1)
    return cosines <= np.sort(cosines)[A.shape[1] - 1]


def _flip_cases(rng):
    """Some points can and some cannot, other than the support vectors; no borderline. In the last all points
    are short."""
    cases = []
    while len(cases) < 4:
        n, d = ((6, 2), (9, 2), (8, 3), (10, 3))[len(cases)]
        A = _signed(rng, n, d)
        right = _wrong_side(A)
        away = right / np.linalg.norm(A, axis=1)
        can = away > 1e-9
        if away[can].min() < 0.05 or can.all():
            continue
        tolerance = 0.01 * right.max()
        rivals = (_to_hull, _with_ones, _flipped_margins)
        rays = d == 2 or abs(_to_rays(A) - right)[can].max() > tolerance
        others = ((_solve(A)[1] > 1e-9) != can).any() and (_edge_angles(A) != can).any()
        if rays and others and all(abs(rival(A) - right).max() > tolerance for rival in rivals):
            cases.append((0.05 * A if len(cases) == 3 else A,))
    return cases


FLIP = Exercise(
    id="02.5",
    title="Who can change sides?",
    points=3,
    minutes=12,
    difficulty=3,
    reference=_wrong_side,
    cases=_flip_cases,
    compare=Compare(rtol=1e-5, atol=1e-7),
    withheld=SOLVERS,
    misconceptions=known(
        lambda A: _wrong_side(A) > 1e-9 * np.linalg.norm(A, axis=1),
        "That is who can change sides. The question is how far.",
        _to_supports,
        "Only the support vectors had weight. The bounds may use all other points: the cone is theirs.",
        _flipped_margins,
        "You flipped each point and took the largest margin. That keeps the others at this distance, too; "
        "here they may be on the line.",
        lambda A: _solve(A)[1] > 1e-9,
        "You named the support vectors. A long point can change sides without being one: only angles count.",
        _edge_angles,
        "You ranked the points by their angle to w_hat. w_hat depends on lengths, who can does not.",
        _to_hull,
        "Your weights add up to one, as in a hull. Any weights >= 0 give a bound: it is a cone.",
        lambda A: _to_hull(A, np.zeros(A.shape[1])),
        "Your weights add up to at most one. Any weights >= 0 give a bound: it is a cone.",
        _with_ones,
        "You kept the row of ones of section 2.6. The weights need not add up to one here.",
        lambda A: np.zeros(len(A)),
        "You found nobody. Is a_i itself among the points that make the cone? Leave it out. Or may your "
        "weights be negative? Then it is a span (np.linalg.lstsq), not a cone (nnls).",
        lambda A: np.array([nnls(np.delete(A, i, axis=0).T, -a)[1] for i, a in enumerate(A)]),
        "It is a_i, not -a_i, whose distance from the sums of the others counts: -a_i.w is at most "
        "(sum - a_i).w.",
        lambda A: np.linalg.norm(A, axis=1),
        "You gave the others no weight: that is the bound for all w, also those that get the others wrong.",
        lambda A: np.where(_wrong_side(A) > 1e-9 * np.linalg.norm(A, axis=1), np.linalg.norm(A, axis=1), 0.0),
        "Right who can change sides. But how far? Others get weight, too, or w gets them wrong.",
        lambda A: _wrong_side(A) / np.linalg.norm(A, axis=1),
        "You divided by the length of a_i: that is the sine of an angle. The distance is asked for.",
        lambda A: _wrong_side(A) ** 2,
        "That is the square of the distance.",
        lambda A: -_wrong_side(A),
        "The right numbers with the wrong sign: -a_i.w is positive on the wrong side.",
        _to_rays,
        "You gave weight to one other point at a time. Sums of several may be nearer.",
        lambda A: A @ _solve(A)[0] / _norm(_solve(A)[0]),
        "That is how far each point is on the right side, with w_hat. Each point i may have a w of its own.",
    ),
)

EXERCISES = [TWO_POINTS, ANGLE, MOVE, LONGEST, FLIP]
