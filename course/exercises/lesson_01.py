"""Exercises of lesson 01: logistic regression chooses a margin."""

import numpy as np

from course.check.specification import Compare, Exercise, Misconception


def separable(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Points whose labels some direction gets right with room to spare: X (n, d), y (n,)."""
    direction = rng.normal(size=d)
    direction /= np.linalg.norm(direction)
    X = rng.normal(size=(n, d))
    side = X @ direction
    y = np.where(side > 0, 1.0, -1.0)
    return X + rng.uniform(0.2, 1.0) * y[:, None] * direction, y


# 01.1


def logistic_gradient(w, X, y):
    """Gradient of (1/n) sum_i log(1 + exp(-y_i w.x_i)), shape (d,)."""
    u = y * (X @ w)
    return -(X.T @ (y * np.exp(-np.logaddexp(0, u)))) / len(y)


def gradient_cases(rng):
    """The first w is not zero: there all weights are 1/2, and many a wrong answer is off by a factor only."""
    shown = np.array([[1.0, 2.0], [3.0, -1.0], [-1.0, 0.5]])
    cases = [(np.array([1.0, -1.0]), shown, np.array([1.0, -1.0, -1.0]))]
    for n, d in [(5, 2), (8, 3), (12, 2)]:
        X, y = separable(rng, n, d)
        cases.append((rng.normal(size=d), X, y))
    X, y = separable(rng, 6, 2)
    cases.append((rng.normal(size=2), X, rng.permutation(y)))  # labels that no line need respect
    far = rng.uniform(900, 1100) * np.array([1.0, -1.0])  # u = 1000 and -800: e^800 is no double
    cases.append((far, np.array([[1.0, 0.0], [0.2, 1.0]]), np.ones(2)))
    ahead = rng.uniform(1, 1.4, size=(4, 1)) * [0.6, 0.8] + rng.normal(size=(4, 1)) * [0.8, -0.6]
    signs = np.array([1.0, -1.0, 1.0, -1.0])  # every u is 35 to 50: weights of 1e-16 have digits, too
    cases.append((35 * np.array([0.6, 0.8]), signs[:, None] * ahead, signs))
    pair = np.array([[1.0, 0.5], [-1.02, 0.3]]), np.array([1.0, -1.0])
    return [*cases, *((np.array([far, 0.0]), *pair) for far in (690.0, 12.0))]  # at 12, e^-u is too large


def _sigmoid(u):
    return np.exp(-np.logaddexp(0, -u))


def _overflowing(w, X, y):
    u = y * (X @ w)
    return -(X.T @ (y * np.exp(-u) / (1 + np.exp(-u)))) / len(y)


GRADIENT = [
    Misconception(
        lambda w, X, y: -logistic_gradient(w, X, y),
        "The sign is turned: this points downhill. The gradient points to where the loss grows.",
    ),
    Misconception(
        lambda w, X, y: len(y) * logistic_gradient(w, X, y),
        "You added up the points; the loss is their mean, so divide by n.",
    ),
    Misconception(
        lambda w, X, y: -(X.T @ (y * _sigmoid(y * (X @ w)))) / len(y),
        "You weighted each point by 1/(1 + e^-u), so that points classified well pull hardest. The "
        "derivative of log(1 + e^-u) is -1/(1 + e^u): the badly classified pull hardest.",
    ),
    Misconception(
        lambda w, X, y: -(X.T @ _sigmoid(-y * (X @ w))) / len(y),
        "The labels are lost in the derivative: u_i = y_i w.x_i changes with w as y_i x_i, not as x_i.",
    ),
    Misconception(
        _overflowing,
        "e^-u overflows when u is far below zero, and infinity / infinity is not a number; use "
        "np.exp(-np.logaddexp(0, u)), which is 1/(1 + e^u) for every u.",
    ),
    Misconception(
        lambda w, X, y: -(X.T @ (y * (1 - _sigmoid(y * (X @ w))))) / len(y),
        "Where u is large your weights are 0, or lost their digits: 1 - sigmoid(u) does that from 37 on, "
        "and so does a cut. Use 1/(1 + e^u), as np.exp(-np.logaddexp(0, u)).",
    ),
    Misconception(
        lambda w, X, y: X.T @ (_sigmoid(X @ w) - (y + 1) / 2) / len(y),
        "Right on paper, but sigmoid minus label cancels where u is large. Use y times 1/(1 + "
        "e^u), as np.exp(-np.logaddexp(0, u)).",
    ),
    Misconception(
        lambda w, X, y: -(X.T @ (y * np.exp(-np.logaddexp(0, np.clip(y * (X @ w), -20, 20))))) / len(y),
        "You clipped u at 20: beyond, the weights go on falling like e^-u. np.logaddexp needs no clipping.",
    ),
    Misconception(
        lambda w, X, y: -(X.T @ (y * np.exp(-y * (X @ w)))) / len(y),
        "e^-u is the slope of the exponential loss. The logistic loss has 1/(1 + e^u), which is at most 1.",
    ),
    Misconception(
        lambda w, X, y: -(X.T @ (y * _sigmoid(-y * (X @ w)) * _sigmoid(y * (X @ w)))) / len(y),
        "s (1 - s) is the derivative of the sigmoid itself: the second derivative of the loss, not the "
        "first.",
    ),
]


# 01.2


def _nearest(A):
    """The weights (m,) of the point nearest to 0 in the hull of A (m, 2), if 0 is outside: on some edge."""
    i, j = np.triu_indices(len(A))
    edge = A[j] - A[i]
    share = -(A[i] * edge).sum(axis=1) / np.maximum((edge * edge).sum(axis=1), np.finfo(float).tiny)
    share = np.clip(share, 0, 1)
    weights = np.zeros((len(i), len(A)))
    weights[np.arange(len(i)), i] = 1 - share
    weights[np.arange(len(i)), j] += share
    return weights[np.linalg.norm(weights @ A, axis=1).argmin()]


def _limit(A):
    """The angle of the largest margin of signed points A (m, 2): that of their hull's nearest point."""
    return np.arctan2(*(_nearest(A) @ A)[::-1])


def _apart(angle, other):
    """Degrees between two angles, the shorter way round."""
    return np.degrees(np.abs((angle - other + np.pi) % (2 * np.pi) - np.pi))


def turns(X, y):
    """Degrees by which the direction of largest margin turns when point i is deleted: (n,), for X (n, 2).

    Only a point with weight in the nearest point of the hull can turn it.
    """
    A = y[:, None] * X
    weights = _nearest(A)
    before = np.arctan2(*(weights @ A)[::-1])
    turned = [_limit(np.delete(A, i, axis=0)) if weights[i] else before for i in range(len(A))]
    return _apart(np.array(turned), before)


def _turns(limit, signs=lambda y: y):
    """The same with another limit(A) of the signed points, or other signs."""

    def answer(X, y):
        A = signs(y)[:, None] * X
        return _apart(np.array([limit(np.delete(A, i, axis=0)) for i in range(len(A))]), limit(A))

    return answer


def turns_cases(rng):
    """Two points turn the limit, by more than three degrees, one of them by more than 20; no two alike.

    None is near to the edge of the strip without being on it, nor are the margins of two directions alike.
    """
    cases = []
    while len(cases) < 4:
        X, y = separable(rng, (5, 7, 8, 10)[len(cases)], 2)
        if abs(y.sum()) >= len(y) - 2:
            continue
        right = np.sort(turns(X, y))
        if (
            right[-3] < 1e-6
            and 3 < right[-2] < right[-1] - 5
            and 20 < right[-1] < 170
            and all(np.abs(rival(X, y) - turns(X, y)).max() > 1 for rival in RIVALS)
        ):
            cases.append((_turned(X, y, np.pi * (len(cases) % 2)) if len(cases) < 2 else X, y))
    return cases


def _turned(X, y, middle):
    """The points turned so that the largest turn has this angle in its middle: where angles jump."""
    A = y[:, None] * X
    i = turns(X, y).argmax()
    old = (np.delete(A, i, axis=0), A)
    units = [(np.cos(angle), np.sin(angle)) for angle in map(_limit, old)]
    by = middle - np.arctan2(*np.sum(units, axis=0)[::-1])
    return X @ np.array([[np.cos(by), np.sin(by)], [-np.sin(by), np.cos(by)]])


def descent_turns(X, y):
    """The turns of w after 300 steps of plain descent from 0: all points, and each deletion, at once."""
    A, n = y[:, None] * X, len(y)
    kept = np.vstack([1 - np.eye(n), np.ones(n)])
    w = np.zeros((n + 1, 2))
    for _ in range(300):
        w = w + kept / kept.sum(axis=1, keepdims=True) * np.exp(-np.logaddexp(0, w @ A.T)) @ A
    angles = np.arctan2(w[:, 1], w[:, 0])
    return _apart(angles[:-1], angles[-1])


def _by_search(score):
    """The angle with the largest score(u), for the u_i (n, angles) of all directions."""
    fine = np.radians(np.arange(0, 360, 0.25))
    units = np.stack([np.cos(fine), np.sin(fine)])
    return lambda A: fine[score(A @ units, A).argmax()]


def _only_holders(X, y):
    """1 where the limit turns, else 0."""
    return (turns(X, y) > 0.3).astype(float)


def _unwrapped(X, y, around=np.inf):
    """The differences of the angles, as arctan2 gives them, or counted from 0 to once around."""
    A = y[:, None] * X
    limits = [_limit(np.delete(A, i, axis=0)) for i in range(len(A))] + [_limit(A)]
    if np.isfinite(around):
        limits = np.mod(limits, around)
    return np.degrees(np.abs(np.array(limits[:-1]) - limits[-1]))


def _signed(X, y):
    """The turns, negative where the limit turns clockwise."""
    A = y[:, None] * X
    turned = [_limit(np.delete(A, i, axis=0)) - _limit(A) for i in range(len(A))]
    return np.degrees((np.array(turned) + np.pi) % (2 * np.pi) - np.pi)


def _shares(X, y):
    """The turn shared among the points by their weights in the nearest point of the hull."""
    A = y[:, None] * X
    lam = _nearest(A)
    return turns(X, y).max() * lam / lam.max()


mean_turns = _turns(lambda A: np.arctan2(*A.mean(axis=0)[::-1]))
cosine_turns = _turns(_by_search(lambda u, A: (u / np.linalg.norm(A, axis=1)[:, None]).min(axis=0)))
either_side = _turns(_by_search(lambda u, A: np.abs(u).min(axis=0)))
unlabelled = _turns(_limit, signs=np.ones_like)
RIVALS = [mean_turns, cosine_turns, _only_holders, either_side, unlabelled]

TURNS = [
    Misconception(
        descent_turns,
        "You descended and took the direction that came out. It creeps, like 1/log t, and is still degrees "
        "from its limit. The theorem names the limit: the largest margin of the points that are left.",
    ),
    Misconception(
        mean_turns,
        "You took the direction of the mean of the y_i x_i. The limit is that of the largest margin, which "
        "the nearest points alone decide.",
    ),
    Misconception(
        cosine_turns,
        "You divided by the lengths of the points: that is an angle from the line, not a distance. The "
        "margin is min_i y_i w.x_i / ||w||.",
    ),
    Misconception(
        lambda X, y: np.zeros(len(y)),
        "You say that no deletion turns the limit. Without a point of the strip's edge the strip can widen, "
        "and turns.",
    ),
    Misconception(
        _only_holders,
        "You found who turns the limit. By how many degrees?",
    ),
    Misconception(
        _unwrapped,
        "Two angles on either side of the half-turn, such as 170 and -170 degrees, are 20 degrees apart: go "
        "the shorter way round.",
    ),
    Misconception(
        lambda X, y: _unwrapped(X, y, around=2 * np.pi),
        "Two angles on either side of the search's end, such as 359 and 1 degrees, are 2 degrees apart: go "
        "the shorter way round.",
    ),
    Misconception(
        _signed,
        "The right turns, with a sign. By how many degrees, whichever way?",
    ),
    Misconception(
        lambda X, y: np.radians(turns(X, y)),
        "The right turns, in radians: np.degrees.",
    ),
    Misconception(
        lambda X, y: np.sort(turns(X, y)),
        "The right turns, in another order: entry i is for point i deleted.",
    ),
    Misconception(
        either_side,
        "You measured distances on whichever side of the line. The label says which is right: y_i w.x_i.",
    ),
    Misconception(
        unlabelled,
        "The labels are missing: with y_i = -1, a point is on the right side when w.x_i is negative.",
    ),
    Misconception(
        _turns(lambda A: _limit(A[np.argsort(np.linalg.norm(A, axis=1))[:2]])),
        "You took the two points nearest to the origin for the support vectors. They are those nearest to "
        "the line.",
    ),
    Misconception(
        lambda X, y: np.array(
            [_apart(_limit(np.delete(y[:, None] * X, i, axis=0)), 0.0) for i in range(len(y))]
        ),
        "These are the angles of the limits from the w_1 axis. By how much does each differ from the limit "
        "of all points?",
    ),
    Misconception(
        _shares,
        "You shared out the turn by weight. How far the limit turns depends on who holds the strip next: "
        "search again without the point.",
    ),
]


# 01.3


def predict(t, eta, mu):
    """Loss after t steps of length eta, and the slope of ||w|| in log t, for data of margin mu."""
    return 1 / (eta * mu**2 * t), 1 / mu


def predict_cases(rng):
    return [
        (1000, 1.0, 0.5),
        *[(int(rng.integers(10, 10**4)), rng.uniform(1.3, 3), rng.uniform(0.2, 0.6)) for _ in range(2)],
        *[(int(rng.integers(10, 10**4)), rng.uniform(0.2, 0.7), rng.uniform(1.3, 2)) for _ in range(2)],
    ]


PREDICT = [
    Misconception(
        lambda t, eta, mu: (1 / (eta * mu**2 * t), mu),
        "The loss is right. The slope is upside down: with your L, d||w||/dt = eta mu L is 1/(mu t).",
    ),
    Misconception(
        lambda t, eta, mu: (1 / (eta * mu**2 * t), 1 / (eta * mu)),
        "The loss is right. The slope has no eta: in d||w||/dt = eta mu L it cancels against the one in L.",
    ),
    Misconception(
        lambda t, eta, mu: (1 / (eta * mu**2 * t), eta / mu),
        "The loss is right. The slope has no eta: d||w||/dt = eta mu L, and L has eta below.",
    ),
    Misconception(
        lambda t, eta, mu: (1 / (eta * mu**2 * t), 1 / (mu * t)),
        "This is d||w||/dt; per unit of log t, multiply by t.",
    ),
    Misconception(
        lambda t, eta, mu: (1 / (eta * mu * t), 1 / mu),
        "The slope is right. The loss misses a factor mu: dL/dt = -eta ||grad L||^2 has mu L squared.",
    ),
    Misconception(
        lambda t, eta, mu: (1 / (mu**2 * t), 1 / mu),
        "The slope is right. The loss misses the step size: with eta, dL / L^2 = -eta mu^2 dt.",
    ),
    Misconception(
        lambda t, eta, mu: (1 / mu, 1 / (eta * mu**2 * t)),
        "Both are right, in the wrong order: return the loss first, then the slope.",
    ),
    Misconception(
        lambda t, eta, mu: (np.exp(-eta * mu**2 * t), 1 / mu),
        "You solved dL/dt = -k L. It is -k L^2, for the gradient is squared: separate, dL / L^2 = -k dt.",
    ),
    Misconception(
        lambda t, eta, mu: (1 / (eta * mu**2 * t), np.log(t) / mu),
        "The loss is right. The other is the norm itself; its slope in log t has no log t.",
    ),
]


# 01.4


def creep(rows, lam, copies):
    """Length of the part across w_hat of the w with s_k.w = log(copies_k / lam_k), rows s_k."""
    unit = lam @ rows / np.linalg.norm(lam @ rows)
    shift = np.linalg.solve(rows, np.log(copies / lam))
    return np.linalg.norm(shift - (shift @ unit) * unit)


def support_vectors(rng, d):
    """d independent support vectors of a true SVM: rows @ w_hat = 1 with w_hat = lam @ rows, lam > 0."""
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    mu = rng.choice([rng.uniform(0.3, 0.7), rng.uniform(1.5, 2.5)])
    q = np.array([0.12, 0.33, 0.55])[3 - d :] + rng.uniform(-0.05, 0.05, size=d)
    q /= q.sum()
    parts = rng.uniform(0.7, 1.6, size=(d - 1, d - 1)) * (np.ones((d - 1, d - 1)) - 2 * np.eye(d - 1))
    parts = np.vstack([parts, -(q[:-1] @ parts) / q[-1]])  # across w_hat: with weights q they cancel
    return mu * basis[0] + parts @ basis[1:], q / mu**2


def creep_cases(rng):
    """The last one has copies in proportion to lam: no creep is left."""
    cases = [(np.array([[1.5, -0.5], [0.3, 0.7]]), np.array([1 / 3, 5 / 3]), np.array([1.0, 2.0]))]
    for d in (2, 3, 2):
        rows, lam = support_vectors(rng, d)
        copies = rng.permutation(np.arange(d) * rng.integers(2, 5) + rng.integers(1, 3)).astype(float)
        cases.append((rows, lam, copies))
    rows, lam = support_vectors(rng, 2)
    return [*cases, (rows, lam, 3 * lam)]


def _creep(right_side, part="across", matrix=lambda rows: rows):
    """An answer from the right-hand side of the linear equations and the part of their solution."""

    def answer(rows, lam, copies):
        w_hat = lam @ rows
        unit = w_hat / np.linalg.norm(w_hat)
        shift = np.linalg.solve(matrix(rows), right_side(lam, copies))
        parts = {
            "across": shift - (shift @ unit) * unit,
            "all": shift,
            "along": (shift @ unit) * unit,
            "w_hat": shift - (shift @ w_hat) * w_hat,
        }
        return np.linalg.norm(parts[part])

    return answer


def _log_weights(lam, copies):
    return np.log(copies / lam)


def _along(direction):
    """The answer with the part along another direction taken away."""

    def answer(rows, lam, copies):
        shift, away = np.linalg.solve(rows, _log_weights(lam, copies)), direction(rows, lam)
        return np.linalg.norm(shift - (shift @ away) / (away @ away) * away)

    return answer


CREEP = [
    Misconception(
        lambda rows, lam, copies: creep(rows, lam, np.ones(len(lam))),
        "The copies make no difference to your answer. All copies of a point together pull copies[i] "
        "times as hard: lam_i = copies[i] (eta/n) exp(-s_i.w).",
    ),
    Misconception(
        _creep(lambda lam, copies: -np.log(copies * lam)),
        "You gave each copy the whole of lam_i, times the copies; they share it: lam_i / copies[i] each.",
    ),
    Misconception(
        _creep(_log_weights, part="all"),
        "This is the length of an offset, with its part along w_hat. That part depends on eta and n; r is "
        "what is left across w_hat.",
    ),
    Misconception(
        _creep(_log_weights, part="along"),
        "This is the part along w_hat. r is the part across it.",
    ),
    Misconception(
        _creep(_log_weights, part="w_hat"),
        "To take away the part along w_hat, project on w_hat / ||w_hat||, which has length 1.",
    ),
    Misconception(
        _creep(lambda lam, copies: copies / lam),
        "The logarithm is missing: copies[i] exp(-s_i.w) is in proportion to lam_i.",
    ),
    Misconception(
        _creep(_log_weights, matrix=lambda rows: rows.T),
        "This solves a system with rows.T. Here each row multiplies the unknown: rows @ w = right-hand side.",
    ),
    Misconception(
        lambda rows, lam, copies: np.linalg.norm(np.log(copies / lam) - np.log(copies / lam).mean()),
        "These numbers are s_i.w, less their mean. It remains to solve rows @ w = them for w.",
    ),
    Misconception(
        _along(lambda rows, lam: rows.sum(axis=0)),
        "You took away the part along the sum of the rows. w_hat is their sum with the weights lam: lam @ "
        "rows.",
    ),
    Misconception(
        _along(lambda rows, lam: rows @ lam),
        "rows @ lam multiplies along the rows. w_hat is the sum of the rows with the weights lam: lam @ "
        "rows.",
    ),
    Misconception(
        _creep(lambda lam, copies: np.log(copies)),
        "The lam_i are missing: copies[i] exp(-s_i.w) is in proportion to lam_i, so s_i.w is log(copies[i] / "
        "lam_i) up to a constant.",
    ),
]


# 01.5


def speeds(rows, lam, others):
    """E = min(C, next - 1, 1), C = sum_i lam_i c_i^2, and the step: off the track
    ds / d log t = -C s + k t^(1 - next) + m / t, and one normalised step takes s to (1 - eta mu C) s."""
    w_hat = lam @ rows
    c = rows @ np.array([-w_hat[1], w_hat[0]]) / np.linalg.norm(w_hat)
    C = lam @ c**2
    return min(C, (others @ w_hat).min() - 1, 1.0), 2 * np.linalg.norm(w_hat) / C


def speeds_cases(rng):
    """Two support vectors of a true SVM: rows @ w_hat = 1 with w_hat = lam @ rows and lam > 0, mu not 1. In
    the first two C is the least of the three, in the third and fourth the next point, in the others 1."""
    shown = np.array([[3.3, -1.0], [2.5, 2.0]])
    cases = [(np.array([[1.5, -0.5], [0.3, 0.7]]), np.array([1 / 3, 5 / 3]), shown)]
    least = [((0.2, 0.6), (2.2, 3.5)), *2 * [((0.7, 2.5), (1.1, 1.5))], *2 * [((1.5, 3.0), (2.3, 3.5))]]
    for wanted, following in least:
        angle, mu = rng.uniform(0, 2 * np.pi), rng.choice([rng.uniform(0.3, 0.7), rng.uniform(1.5, 2.5)])
        unit = np.array([np.cos(angle), np.sin(angle)])
        across = np.array([-unit[1], unit[0]])
        uneven = rng.uniform(1.5, 2.5)
        c = np.sqrt(rng.uniform(*wanted)) * mu * rng.permutation([uneven, -1 / uneven])  # -c_1 c_2 = C mu^2
        rows = mu * unit + c[:, None] * across
        ahead = rng.uniform(*following) + np.insert(rng.uniform(0.4, 2.0, size=3), rng.integers(1, 3), 0.0)
        others = mu * (ahead[:, None] * unit + rng.normal(size=(4, 1)) * across)
        cases.append((rows, np.linalg.solve(rows.T, unit / mu), others))
    return cases


def _speeds(exponent=None, step=None, slowest=None):
    """The right pair with parts replaced: C in the exponent, the step, or how E comes from the three."""

    def answer(rows, lam, others):
        w_hat = lam @ rows
        length = np.linalg.norm(w_hat)
        c = rows @ np.array([-w_hat[1], w_hat[0]]) / length
        right = {"lam": lam, "c": c, "mu": 1 / length, "C": lam @ c**2, "rows": rows, "unit": w_hat / length}
        longest = 2 / (right["mu"] * right["C"])
        C, following = exponent(**right) if exponent else right["C"], (others @ w_hat).min()
        return (
            slowest(C, following, right["mu"]) if slowest else min(C, following - 1, 1.0),
            step(**right, longest=longest) if step else longest,
        )

    return answer


SPEEDS = [
    Misconception(
        _speeds(slowest=lambda C, following, mu: C),
        "The step is right, and so is C. But the pushes may last longer than the pull back needs: the "
        "slowest of the three decides.",
    ),
    Misconception(
        _speeds(slowest=lambda C, following, mu: min(C, following - 1)),
        "The step is right. One push is missing: 1/(1 + e^u) is not e^-u, and their difference dies, "
        "relative to e^-u, like t^-1.",
    ),
    Misconception(
        _speeds(slowest=lambda C, following, mu: min(C, 1.0)),
        "The step is right. One push is missing: that of the next point in `others`, t^-next in ds/dt, so "
        "t^(1 - next) in ds / d log t.",
    ),
    Misconception(
        _speeds(slowest=lambda C, following, mu: min(following - 1, 1.0)),
        "The step is right. E has the pushes only: the pull back, t^-C, may be the slowest.",
    ),
    Misconception(
        _speeds(slowest=lambda C, following, mu: min(C, following, 2.0)),
        "The step is right. Pushes like t^-next and t^-2 in ds/dt are t^(1 - next) and t^-1 in ds / d log t.",
    ),
    Misconception(
        _speeds(slowest=lambda C, following, mu: max(C, following - 1, 1.0)),
        "The step is right. Of several powers of t the slowest is left in the end: take the least exponent.",
    ),
    Misconception(
        _speeds(slowest=lambda C, following, mu: C + following),
        "The step is right. The three do not add up: each is a term of s, and the slowest is left.",
    ),
    Misconception(
        _speeds(slowest=lambda C, following, mu: min(C, mu * (following - 1), 1.0)),
        "The step is right. You measured how far the next point is from the strip. Its pull is e^-u, "
        "u = others @ w_hat times log t.",
    ),
    Misconception(
        _speeds(slowest=lambda C, following, mu: -min(C, following - 1, 1.0)),
        "The step is right. s falls like t^-E: E itself is positive.",
    ),
    Misconception(
        _speeds(step=lambda longest, **_: longest / 2),
        "E is right. The step is half as long as it may be: at the factor 0, s is gone at once, and steps "
        "up to twice as long still settle, jumping to and fro.",
    ),
    Misconception(
        _speeds(step=lambda C, **_: 2 / C),
        "E is right. The normalised step is the pull over its length, and the pull on the track is w_hat / "
        "t, of length 1 / (mu t).",
    ),
    Misconception(
        _speeds(step=lambda C, mu, **_: 2 * mu / C),
        "E is right. The step is upside down in mu: lam sums to 1 / mu^2, not to 1, and w_hat has the length "
        "1 / mu.",
    ),
    Misconception(
        _speeds(step=lambda C, mu, **_: 2 / (mu * min(C, 1.0))),
        "E is right. In the step it is C that counts, whether or not it decides E: no push is left there.",
    ),
    Misconception(
        _speeds(exponent=lambda C, mu, **_: C * mu**2),
        "The step is right. In C, the weights are the lam_i themselves, not divided by their sum: on the "
        "track support vector i adds lam_i / t times y_i x_i.",
    ),
    Misconception(
        _speeds(lambda lam, c, **_: lam @ np.abs(c), lambda lam, c, mu, **_: 2 / (mu * (lam @ np.abs(c)))),
        "s enters twice with c_i: in the change of the weight and in the pull. Square it.",
    ),
    Misconception(
        _speeds(
            lambda lam, rows, **_: lam @ (rows**2).sum(axis=1),
            lambda lam, rows, mu, **_: 2 / (mu * (lam @ (rows**2).sum(axis=1))),
        ),
        "You squared the whole length of each row. c_i is its part across w_hat alone.",
    ),
    Misconception(
        _speeds(
            lambda lam, rows, unit, **_: lam @ (rows @ unit) ** 2,
            lambda lam, rows, unit, mu, **_: 2 / (mu * (lam @ (rows @ unit) ** 2)),
        ),
        "You took the part of each row along w_hat, which is mu for all. c_i is the part across.",
    ),
    Misconception(
        _speeds(lambda C, mu, **_: C / mu**2, lambda C, mu, **_: 2 * mu / C),
        "Divide the vector across w_hat by its length ||w_hat||: it should have length 1.",
    ),
    Misconception(
        lambda rows, lam, others: speeds(rows, lam, others)[::-1],
        "Both are right, in the wrong order: return E first, then the step.",
    ),
    Misconception(
        _speeds(slowest=lambda C, following, mu: min(C, following - 1, 2.0)),
        "The step is right. The weights fall short by a push like t^-2 in ds/dt, which is t^-1 in ds / d log "
        "t.",
    ),
    Misconception(
        _speeds(lambda c, **_: c @ c, lambda c, mu, **_: 2 / (mu * (c @ c))),
        "The lam_i are missing in C: on the track support vector i adds lam_i / t times y_i x_i.",
    ),
]

EXACT = Compare(atol=0)  # tiny weights have digits that count, and a tiny loss is not 0
LATER = ("mini_attn.rates.remainder",)  # of lesson 17: it knows both answers
EXERCISES = [  # id, title, points, minutes, difficulty
    Exercise("01.1", "The gradient", 2, 7, 1, logistic_gradient, gradient_cases, EXACT, GRADIENT),
    Exercise(
        "01.2",
        "A point is deleted",
        2,
        6,
        2,
        turns,
        turns_cases,
        compare=Compare(rtol=0, atol=0.34),
        misconceptions=TURNS,
        withheld=("mini_attn.svm.dispatch.solve", "mini_attn.svm.rational.shortest"),
    ),
    Exercise("01.3", "Two predictions", 3, 14, 3, predict, predict_cases, EXACT, PREDICT),
    Exercise("01.4", "Copies and creep", 2, 9, 2, creep, creep_cases, misconceptions=CREEP, withheld=LATER),
    Exercise(
        "01.5",
        "The slowest of three",
        3,
        15,
        3,
        speeds,
        speeds_cases,
        misconceptions=SPEEDS,
        withheld=LATER,
    ),
]
