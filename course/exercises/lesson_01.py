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
        "e^-u overflows when u is far below zero, and infinity / infinity is not a number; use 1/(1 + e^u), "
        "or np.exp(-np.logaddexp(0, u)), which is the same without a warning.",
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


def _by_search(score, step=0.25):
    """The angle with the largest score(u), for the u_i (n, angles) of all directions, in steps of degrees."""
    fine = np.radians(np.arange(0, 360, step))
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
        _turns(_by_search(lambda u, A: u.min(axis=0), step=1.0)),
        "Right to about a degree: you tried directions a degree apart. Try them in steps of 0.1 degree.",
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
        "You shared out one turn. How far the limit turns depends on who holds the strip next: "
        "search again without the point.",
    ),
]


# 01.3


def bound(t, loss, n, eta, mu):
    """||grad L|| >= mu L (1 - n L / 2), so 1/L grows at least at the rate eta mu^2 (1 - n loss / 2)^2."""
    return 1 / (1 / loss + eta * mu**2 * (1 - n * loss / 2) ** 2 * t)


def bound_cases(rng):
    """n loss from 0.3 to 1.5, so that the correction counts; 1/L grows to 1.5 to 4 times what it was."""
    cases = [(1000.0, 0.05, 10, 1.0, 0.5)]
    large, small = (1.3, 3.0), (0.2, 0.7)
    for n, scale, margin in ((12, large, small), (20, small, large), (7, large, small), (30, small, large)):
        loss, eta, mu = rng.uniform(0.3, 1.5) / n, rng.uniform(*scale), rng.uniform(*margin)
        rate = eta * mu**2 * (1 - n * loss / 2) ** 2
        cases.append((rng.uniform(0.5, 3) / loss / rate, loss, n, eta, mu))
    return cases


def _bound(rate):
    """The bound with another rate of 1/L: of (loss, n, eta, mu)."""
    return lambda t, loss, n, eta, mu: 1 / (1 / loss + rate(loss, n, eta, mu) * t)


def _rate(loss, n, eta, mu):
    return eta * mu**2 * (1 - n * loss / 2) ** 2


def _with_falling_loss(t, loss, n, eta, mu):
    """n L falls in the correction, too: z = 1/L has dz/dt = eta mu^2 (1 - a/z)^2 with a = n/2, integrated."""
    a = n / 2

    def passed(z):  # eta mu^2 times the time at which 1/L = z, up to a constant
        return z + 2 * a * np.log(z - a) - a**2 / (z - a)

    low = 1 / loss
    high, goal = low + eta * mu**2 * t, passed(low) + eta * mu**2 * t
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if passed(middle) < goal else (low, middle)
    return 1 / high


BOUND = [
    Misconception(
        lambda t, loss, n, eta, mu: 1 / (_rate(loss, n, eta, mu) * t),
        "The rate of 1/L is right, but 1/L starts from 1/L_1, not from 0: the bound can be lower.",
    ),
    Misconception(
        _bound(lambda loss, n, eta, mu: eta * mu**2),
        "The correction is missing, and without it a run can be above this: the weights are smaller than the "
        "l_i, by a factor that may be as small as 1 - n L_1 / 2.",
    ),
    Misconception(
        _bound(lambda loss, n, eta, mu: eta * mu**2 * (-np.expm1(-n * loss) / (n * loss)) ** 2),
        "Your bound holds too, and is a little lower: you used the weight 1 - e^-l_i itself. Put "
        "l_i - l_i^2 / 2 for it, as the exercise asks.",
    ),
    Misconception(
        _with_falling_loss,
        "Your bound holds too, and is lower: you let n L fall in the correction. Put n L_1 there, as the "
        "exercise asks: the answer is then a formula.",
    ),
    Misconception(
        lambda t, loss, n, eta, mu: 1 / (eta * mu**2 * t),
        "That is where the bound tends for large t and small L_1. Here L_1 is given: start 1/L from 1/L_1, "
        "and keep the factor by which the weights fall short of the l_i.",
    ),
    Misconception(
        _bound(lambda loss, n, eta, mu: eta * mu**2 * (1 - n * loss / 2)),
        "The correction enters ||grad L||, and dL/dt has the square of that.",
    ),
    Misconception(
        _bound(lambda loss, n, eta, mu: eta * mu**2 * (1 - loss / 2) ** 2),
        "One point may carry the whole loss: l_i can be as large as n L_1, not only L_1.",
    ),
    Misconception(
        _bound(lambda loss, n, eta, mu: eta * mu**2 * (1 - n * loss) ** 2),
        "The weight is l_i - l_i^2 / 2: the factor is 1 - l_i / 2, at least 1 - n L_1 / 2.",
    ),
    Misconception(
        _bound(lambda loss, n, eta, mu: eta * mu * (1 - n * loss / 2) ** 2),
        "A factor mu is missing: ||grad L|| is at least mu times the mean weight, and dL/dt has its square.",
    ),
    Misconception(
        _bound(lambda loss, n, eta, mu: mu**2 * (1 - n * loss / 2) ** 2),
        "The step size is missing: dw/dt = -eta grad L, so dL/dt = -eta ||grad L||^2.",
    ),
    Misconception(
        _bound(lambda loss, n, eta, mu: eta**2 * mu**2 * (1 - n * loss / 2) ** 2),
        "dL/dt is grad L times dw/dt = -eta grad L: that is eta once, not squared.",
    ),
    Misconception(
        _bound(lambda loss, n, eta, mu: eta / mu**2 * (1 - n * loss / 2) ** 2),
        "mu is upside down: along w_hat / ||w_hat|| every y_i x_i measures at least mu, not 1 / mu.",
    ),
    Misconception(
        _bound(lambda loss, n, eta, mu: eta * mu**2 * (1 - n * loss / 2) ** 2 / n),
        "L is the mean of the l_i, and the gradient the mean of the pulls: no 1/n is left over.",
    ),
    Misconception(
        lambda t, loss, n, eta, mu: loss * np.exp(-_rate(loss, n, eta, mu) * t),
        "You solved dL/dt = -k L. It is -k L^2, for the gradient is squared: 1/L grows at the rate k.",
    ),
    Misconception(
        lambda t, loss, n, eta, mu: loss * np.exp(-_rate(loss, n, eta, mu) * loss * t),
        "You held one L of dL/dt = -k L^2 fixed. Both fall: 1/L grows at the rate k.",
    ),
    Misconception(
        lambda t, loss, n, eta, mu: 1 / loss + _rate(loss, n, eta, mu) * t,
        "This is the lower bound on 1/L. The bound on L is one over it.",
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
        "You took away the part along the sum of the rows. w_hat is the sum of lam_i times row i: lam @ "
        "rows.",
    ),
    Misconception(
        _along(lambda rows, lam: rows @ lam),
        "rows @ lam multiplies along the rows. w_hat is the sum of lam_i times row i: lam @ rows.",
    ),
    Misconception(
        _creep(lambda lam, copies: np.log(copies)),
        "The lam_i are missing: copies[i] exp(-s_i.w) is in proportion to lam_i, so s_i.w is log(copies[i] / "
        "lam_i) up to a constant.",
    ),
]


# 01.5


def _joining(
    w,
    X,
    y,
    eta,
    ahead=99.0,
    pace=lambda A, x, others: others @ x / (x @ x),
    choose=lambda rise, u: rise.min(),
    time=lambda u, rise, n, eta, square: np.exp(u) * np.expm1(rise) * n / (eta * square),
    signs=lambda y: y,
):
    """log10 of the time until the heaviest point has `ahead` times the next one's weight, part by part."""
    A = signs(y)[:, None] * X
    heavy = np.argmin(A @ w)
    x, others = A[heavy], np.delete(A, heavy, axis=0)
    paces = pace(A, x, others)
    with np.errstate(all="ignore"):
        rise = ((others - x) @ w - np.log(ahead)) / (1 - paces)
    able = paces < 1
    rise = choose(rise[able], (others @ w)[able]) if able.any() else 1.0
    with np.errstate(all="ignore"):
        return np.log10(time(x @ w, rise, len(y), eta, x @ x))


def joins(w, X, y, eta):
    """e^u of the heaviest point x grows at the rate eta |x|^2 / n, another u_i by x_i.x / |x|^2 times u."""
    return _joining(w, X, y, eta)


def joins_cases(rng):
    """On a plateau: the next point comes after a rise of 9 to 16, no other soon, and some never.

    In all but the first, another point than the next one is second in weight now. With x the heaviest signed
    point, the others are pace * x + across * (x turned by 90 degrees).
    """
    shown = np.array([[1.5, -0.5], [3.3, -1.0], [-0.3, -0.7]]), np.array([1.0, 1.0, -1.0])
    cases = [(np.array([19.1, 32.8]), *shown, 0.5)]
    while len(cases) < 5:
        n, u, rise = int(rng.integers(5, 10)), rng.uniform(6, 12), rng.uniform(9, 16)
        fast = int(rng.integers(1, 3))  # so many have a pace above 1 and never join
        late = n - 2 - fast
        pace = np.array([rng.uniform(-0.5, 0.3), *rng.uniform(1.1, 1.8, fast), *rng.uniform(-0.5, 0.8, late)])
        ahead = rise * (1 - pace)  # of log 99, now
        ahead[1 : fast + 1] = rng.uniform(4, 0.8 * ahead[0], fast)
        ahead[fast + 1 :] += rng.uniform(5, 15, late)
        turn, length = rng.uniform(0, 2 * np.pi), rng.choice([rng.uniform(0.5, 0.8), rng.uniform(1.3, 2.0)])
        x = length * np.array([np.cos(turn), np.sin(turn)])
        turned = np.array([-x[1], x[0]])
        side = rng.choice([-1, 1]) * rng.uniform(20, 50)  # w . turned
        across = (ahead + np.log(99) + u * (1 - pace)) / side
        A = np.vstack([x, pace[:, None] * x + across[:, None] * turned])
        w = (u * x + side * turned) / (x @ x)
        y = rng.permutation(np.resize([1.0, -1.0], n))
        order = rng.permutation(n)
        case = (w, y[:, None] * A[order], y, float(rng.choice([0.2, 0.5, 2.0, 3.0])))
        right = joins(*case)
        if all(not abs(known.wrong(*case) - right) < 0.06 for known in JOINS):
            cases.append(case)
    return cases


def _but(**parts):
    """The answer with one part wrong."""
    return lambda w, X, y, eta: _joining(w, X, y, eta, **parts)


def _farthest(w, X, y, eta):
    """The point with the largest u for the one with all the weight."""
    A = y[:, None] * X
    u = A @ w
    x = A[u.argmax()]
    return np.log10(np.exp(u.max()) * len(y) / (eta * (x @ x)))


JOINS = [
    Misconception(
        _but(pace=lambda A, x, others: 0 * others[:, 0]),
        "You held the u_i of the other points fixed. w moves along y x, so each of them changes, too: by "
        "y_i x_i . y x / ||x||^2 while u rises by 1.",
    ),
    Misconception(
        _but(ahead=1.0),
        "That is when another point would have the same weight. With 99 percent and 1 percent the u_i are "
        "log 99 apart.",
    ),
    Misconception(
        _but(ahead=10.0),
        "You stopped at a tenth of the weight. With 99 percent and 1 percent the u_i are log 99 apart.",
    ),
    Misconception(
        _but(time=lambda u, rise, n, eta, square: np.exp(u) * np.expm1(rise) / (eta * square)),
        "The n is missing: the gradient is a mean, so one point alone moves w by (eta/n) e^-u y x.",
    ),
    Misconception(
        _but(time=lambda u, rise, n, eta, square: np.exp(u) * np.expm1(rise) * n / square),
        "The step size is missing: dw/dt = -eta grad L.",
    ),
    Misconception(
        _but(time=lambda u, rise, n, eta, square: np.exp(u) * np.expm1(rise) * n * eta / square),
        "eta is upside down: larger steps make the time shorter.",
    ),
    Misconception(
        _but(time=lambda u, rise, n, eta, square: np.exp(u) * np.expm1(rise) * n / eta),
        "||x||^2 is missing: w moves along y x, and u = y x . w changes by y x times that.",
    ),
    Misconception(
        _but(time=lambda u, rise, n, eta, square: np.exp(u) * np.expm1(rise) * n / (eta * square**0.5)),
        "||x|| enters with its square: once because w moves along y x, once because u = y x . w.",
    ),
    Misconception(
        _but(time=lambda u, rise, n, eta, square: np.expm1(rise) * n / (eta * square)),
        "You let u start from 0. At w it is y x . w already, and e^u grows from there at a constant rate.",
    ),
    Misconception(
        _but(time=lambda u, rise, n, eta, square: rise * np.exp(u) * n / (eta * square)),
        "You let u rise at its present speed. It slows down as e^-u: e^u is what grows at a constant rate.",
    ),
    Misconception(
        _but(time=lambda u, rise, n, eta, square: np.exp(rise)),
        "This is by how much u rises, over log 10. How long does that take? e^u grows at the rate "
        "eta ||x||^2 / n.",
    ),
    Misconception(
        lambda w, X, y, eta: np.log(10) * joins(w, X, y, eta),
        "The right time, but its natural logarithm: np.log10.",
    ),
    Misconception(
        lambda w, X, y, eta: 10 ** joins(w, X, y, eta),
        "The right time; log10 of it is asked.",
    ),
    Misconception(
        _but(signs=np.ones_like),
        "The labels are missing: u_i = y_i w.x_i, and w moves along y x.",
    ),
    Misconception(
        _but(choose=lambda rise, u: rise[u.argmin()]),
        "You took the point with the smallest u_i after the heaviest now. The one that joins first may be "
        "another: how fast u catches up counts, too.",
    ),
    Misconception(
        _but(choose=lambda rise, u: rise.max()),
        "That is the last point that would join. The first one is asked.",
    ),
    Misconception(
        _but(pace=lambda A, x, others: -others @ x / (x @ x)),
        "A sign is turned: a point with y_i x_i . y x > 0 moves on as u rises, and joins later.",
    ),
    Misconception(
        _but(pace=lambda A, x, others: others @ x),
        "Divide by ||x||^2: while u rises by 1, w moves by y x / ||x||^2.",
    ),
    Misconception(
        _but(pace=lambda A, x, others: others @ x / np.linalg.norm(others, axis=1) / (x @ x) ** 0.5),
        "You took the cosine of the two points. While u rises by 1, w moves by y x / ||x||^2, and the u_i of "
        "another by y_i x_i . y x / ||x||^2.",
    ),
    Misconception(
        _farthest,
        "The point with nearly all the weight is the one with the smallest u_i, not the largest.",
    ),
]

EXACT = Compare(atol=0)  # tiny weights have digits that count, and a tiny loss is not 0
LATER = ("mini_attn.rates.remainder",)  # of lesson 17: it knows r and C
EXERCISES = [  # id, title, points, minutes, difficulty
    Exercise("01.1", "The gradient", 2, 8, 1, logistic_gradient, gradient_cases, EXACT, GRADIENT),
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
    Exercise("01.3", "A bound from every start", 3, 24, 3, bound, bound_cases, EXACT, BOUND),
    Exercise("01.4", "Copies and creep", 2, 12, 2, creep, creep_cases, misconceptions=CREEP, withheld=LATER),
    Exercise(
        "01.5",
        "When the next one joins",
        2,
        10,
        2,
        joins,
        joins_cases,
        Compare(rtol=0, atol=0.02),
        misconceptions=JOINS,
    ),
]
