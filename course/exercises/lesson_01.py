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
    return [*cases, (np.array([600.0, 0.0]), np.array([[1.0, 0.5], [-1.1, 0.3]]), np.array([1.0, -1.0]))]


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
        "1 - sigmoid(u) cancels: from u = 37 on it is 0, and before that its digits go. Use 1/(1 + e^u), as "
        "np.exp(-np.logaddexp(0, u)).",
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
]


# 01.2


def margin(w, X, y):
    """Geometric margin min_i y_i w.x_i / ||w||, a number."""
    return (y * (X @ w)).min() / np.linalg.norm(w)


def margin_cases(rng):
    cases = [(np.array([3.0, 4.0]), np.array([[2.0, 1.0], [1.0, -2.0]]), np.array([1.0, -1.0]))]
    for n, d in [(6, 2), (9, 3)]:
        X, y = separable(rng, n, d)
        cases.append((rng.uniform(2, 5) * rng.normal(size=d), X, y))
    X, y = separable(rng, 7, 2)
    cases.append((rng.normal(size=2), X, rng.permutation(y)))  # on the wrong side: a negative margin
    far = np.array([[200.0, 100.0], [300.0, 50.0]])  # one label is missing, and all points are far away
    return [*cases, *((np.array([3.0, 4.0]), label * far, np.full(2, label)) for label in (1.0, -1.0))]


MARGIN = [
    Misconception(
        lambda w, X, y: (y * (X @ w)).min(),
        "This doubles when w doubles, though the line stays where it is. A distance is divided by ||w||.",
    ),
    Misconception(
        lambda w, X, y: np.abs(X @ w).min() / np.linalg.norm(w),
        "You measured how far the nearest point is from the line, on whichever side. The label says which "
        "side is right: a point on the wrong side has a negative margin.",
    ),
    Misconception(
        lambda w, X, y: (X @ w).min() / np.linalg.norm(w),
        "The labels are missing: with y_i = -1, a point is on the right side when w.x_i is negative.",
    ),
    Misconception(
        lambda w, X, y: (y * (X @ w)).mean() / np.linalg.norm(w),
        "You averaged over the points. The margin is the distance of the worst point: take the minimum.",
    ),
    Misconception(
        lambda w, X, y: (y * (X @ w)).min() / (w @ w),
        "You divided by ||w||^2; the distance of x from the line is |w.x| / ||w||.",
    ),
    Misconception(
        lambda w, X, y: (y * (X @ w) / np.linalg.norm(X, axis=1)).min(),
        "You divided by the lengths of the points; the distance of x from the line is |w.x| / ||w||.",
    ),
]


# 01.3


def best_direction(X, y, angles):
    """The unit vector (cos a, sin a), among the given angles, with the largest margin, shape (2,)."""
    units = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return units[(y * (units @ X.T)).min(axis=1).argmax()]


def best_cases(rng):
    """The fixed ones: every point counts; the best angle is the first, and points left; it is the last of an
    arc where all margins are positive; and every margin is far below zero."""
    circle = np.linspace(0, 2 * np.pi, 400)[:-1]
    pair = np.array([1.0, -1.0])
    fixed = [
        (np.array([[0.5, -1.0], [3.0, 1.5], [-3.0, -0.5], [1.5, -0.5]]), np.tile(pair, 2), circle),
        (np.array([[-1.0, 0.0], [1.0, 1.0]]), pair, np.array([3.3, 1.0, 0.3])),
        (np.array([[1.0, 0.0], [-1.0, 0.5]]), pair, np.array([0.9, 0.5, 0.0])),
        (30 * np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]]), np.ones(4), np.array([0.0, 0.8, 1.6])),
    ]
    cases = [(np.array([[1.0, 0.2], [0.5, -2.0]]), np.array([1.0, -1.0]), np.linspace(0, 2 * np.pi, 9)[:-1])]
    for n in (5, 10, 20):
        X, y = separable(rng, n, 2)
        cases.append((X, y, circle))
    X = rng.normal(size=(3, 2))  # a point and its opposite with the same label: every margin is negative
    X = np.vstack([X, -X[0] * rng.uniform(0.6, 1.4), -X[1] * rng.uniform(0.6, 1.4)])
    cases.append((X, np.ones(5), rng.permutation(np.linspace(0, 2 * np.pi, 101)[:-1])))
    return [*cases, *fixed]


def _pick(score, choose=np.argmax):
    def wrong(X, y, angles):
        units = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return units[choose(score(units @ X.T, y))]

    return wrong


def _best_above_zero(X, y, angles):
    best = best_direction(X, y, angles)
    return best if margin(best, X, y) > 0 else None


def _best_angle(X, y, angles):
    best = best_direction(X, y, angles)
    return angles[np.argmax(np.cos(angles) * best[0] + np.sin(angles) * best[1])]


BEST = [
    Misconception(
        _pick(lambda U, y: (y * U).mean(axis=1)),
        "This has the largest mean distance. Take the minimum over points, then the maximum over angles.",
    ),
    Misconception(
        _pick(lambda U, y: np.abs(U).min(axis=1)),
        "This line keeps away from all points, but need not separate them: multiply by y, take no absolute "
        "values.",
    ),
    Misconception(
        _pick(lambda U, y: U.min(axis=1)),
        "You left the labels out: with y_i = -1, u.x_i should be far below zero. Multiply by y first.",
    ),
    Misconception(
        _pick(lambda U, y: (y * U).min(axis=0)),
        "You took the minimum over angles. In `units @ X.T` a row is an angle: minimise along axis=1.",
    ),
    Misconception(
        _pick(lambda U, y: (y * U).min(axis=1), np.argmin),
        "This direction has the smallest margin of all: it is the worst. Use argmax over angles.",
    ),
    Misconception(
        _pick(lambda U, y: np.abs((y * U).min(axis=1))),
        "A margin far below zero is the worst, not the best: take no absolute value of it.",
    ),
    Misconception(
        _best_above_zero,
        "On this input no direction has a positive margin; the best is the largest, a negative one: "
        "start the search at -infinity, not at 0.",
    ),
    Misconception(_best_angle, "This is the best angle; return the unit vector (cos, sin) of that angle."),
    Misconception(
        lambda X, y, angles: margin(best_direction(X, y, angles), X, y),
        "This is the largest margin itself; return the direction that has it (argmax in place of max).",
    ),
    Misconception(
        lambda X, y, angles: best_direction(X, y, np.radians(angles)),
        "The angles are in radians already; converted once more, they cover only a few degrees.",
    ),
]


# 01.4


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
        "The slope is right. The loss misses the step size: c = eta mu^2 in dL / L^2 = -c dt.",
    ),
    Misconception(
        lambda t, eta, mu: (1 / mu, 1 / (eta * mu**2 * t)),
        "Both are right, in the wrong order: return the loss first, then the slope.",
    ),
    Misconception(
        lambda t, eta, mu: (np.exp(-eta * mu**2 * t), 1 / mu),
        "You solved dL/dt = -c L. The right-hand side here is -c L^2: separate, dL / L^2 = -c dt.",
    ),
]


# 01.5


def offset(rows, lam, eta, n):
    """The vector w_tilde with s_k . w_tilde = log(eta / (n lam_k)) for each row s_k, shape (d,)."""
    return np.linalg.solve(rows, np.log(eta / (n * lam)))


def offset_cases(rng):
    cases = [(np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([0.5, 0.2]), 1.0, 4)]
    for d in (2, 3, 2):
        rows = rng.normal(size=(d, d)) + 2 * np.eye(d)
        cases.append((rows, rng.uniform(0.1, 3, size=d), rng.uniform(0.2, 2), int(rng.integers(5, 30))))
    return cases


def _solve(right_side, transpose=False):
    return lambda rows, lam, eta, n: np.linalg.solve(rows.T if transpose else rows, right_side(lam, eta, n))


OFFSET = [
    Misconception(
        _solve(lambda lam, eta, n: np.log(n * lam / eta)),
        "The sign is turned: from lam = (eta/n) exp(-s.w) follows s.w = log(eta / (n lam)).",
    ),
    Misconception(
        lambda rows, lam, eta, n: np.log(eta / (n * lam)),
        "These are the numbers s.w, one for each support vector. It remains to solve rows @ w = them for w.",
    ),
    Misconception(
        _solve(lambda lam, eta, n: np.log(eta / lam)),
        "The factor 1/n is missing: the loss is a mean over all n points, not only over the support vectors.",
    ),
    Misconception(
        _solve(lambda lam, eta, n: np.log(n / (eta * lam))),
        "eta/n is upside down: divide lam = (eta/n) exp(-s.w) by eta/n, then take logarithms.",
    ),
    Misconception(
        _solve(lambda lam, eta, n: np.log(eta / (n * lam)), transpose=True),
        "This solves a system with rows.T. Here each row multiplies the unknown: rows @ w = right-hand side.",
    ),
    Misconception(
        _solve(lambda lam, eta, n: eta / (n * lam)),
        "The logarithm is missing: the weights are exponentials of -s.w.",
    ),
    Misconception(
        _solve(lambda lam, eta, n: -n * lam / eta),
        "You dropped the exponential: n lam / eta is exp(-s.w), so -s.w is its logarithm.",
    ),
]


# 01.6


def longest_step(rows, lam):
    """2 mu / sum_i q_i c_i^2: beyond it one normalised step turns a deviation across w_hat round and up."""
    w_hat, q = lam @ rows, lam / lam.sum()
    c = rows @ np.array([-w_hat[1], w_hat[0]]) / np.linalg.norm(w_hat)
    return 2 / (np.linalg.norm(w_hat) * (q @ c**2))


def longest_cases(rng):
    """Two support vectors of a true SVM: rows @ w_hat = 1 with w_hat = lam @ rows and lam > 0, mu not 1."""
    cases = [(np.array([[1.5, -0.5], [0.3, 0.7]]), np.array([1 / 3, 5 / 3]))]
    for _ in range(3):
        angle, mu = rng.uniform(0, 2 * np.pi), rng.choice([rng.uniform(0.3, 0.7), rng.uniform(1.5, 2.5)])
        c = np.array([rng.uniform(0.4, 1.0), -rng.uniform(1.4, 3.0)])
        unit = np.array([np.cos(angle), np.sin(angle)])
        rows = mu * unit + c[:, None] * np.array([-unit[1], unit[0]])
        cases.append((rows, np.linalg.solve(rows.T, unit / mu)))
    return cases


def _longest(
    factor=2.0, weights=lambda lam: lam / lam.sum(), part=None, mean=lambda q, c: q @ c**2, scale=-1
):
    """An answer from the weights, the parts of the rows, their mean, and the power of ||w_hat||."""

    def answer(rows, lam):
        w_hat = lam @ rows
        unit = w_hat / np.linalg.norm(w_hat)
        c = rows @ np.array([-unit[1], unit[0]]) if part is None else part(rows, unit)
        return factor * np.linalg.norm(w_hat) ** scale / mean(weights(lam), c)

    return answer


LONGEST = [
    Misconception(
        _longest(factor=1.0),
        "This is half of it. Did you ask for the factor 0, where x is gone in one step? Steps twice as long "
        "still settle, jumping to and fro. Or is there a 2 too few? mu is 1 / ||w_hat||.",
    ),
    Misconception(
        _longest(weights=lambda lam: lam),
        "Two slips give this number: lam in place of q = lam / lam.sum(), which sums to 1, and a vector "
        "across w_hat that is not divided by its length ||w_hat||.",
    ),
    Misconception(
        _longest(weights=lambda lam: np.full(len(lam), 1 / len(lam))),
        "The two support vectors do not pull alike: q is in proportion to lam.",
    ),
    Misconception(
        _longest(scale=0),
        "The length of sum q_i y_i x_i is missing: the step is normalised, so divide by it, which is mu.",
    ),
    Misconception(
        _longest(scale=1),
        "Two slips give this number: mu below the line (x shrinks by eta sum q c^2 / mu, so eta < 2 mu / sum "
        "q c^2), and a vector across w_hat divided by its length twice.",
    ),
    Misconception(
        _longest(part=lambda rows, unit: np.linalg.norm(rows, axis=1)),
        "You squared the whole length of each row. c_i is its part across w_hat alone.",
    ),
    Misconception(
        _longest(part=lambda rows, unit: rows @ unit),
        "That is the part along w_hat, which is mu for every row. c_i is the part across.",
    ),
    Misconception(
        _longest(mean=lambda q, c: q @ np.abs(c)),
        "x enters twice with c_i: in the change of the weight and in the pull. Square it.",
    ),
    Misconception(
        _longest(mean=lambda q, c: 1 / (q @ c**2)),
        "Upside down: the farther the support vectors lie across, the harder they pull back, and the shorter "
        "the step has to be.",
    ),
]

EXACT = Compare(atol=0)  # tiny weights have digits that count, and a tiny loss is not 0
EXERCISES = [  # id, title, points, minutes, difficulty
    Exercise("01.1", "The gradient", 2, 8, 1, logistic_gradient, gradient_cases, EXACT, GRADIENT),
    Exercise("01.2", "The margin", 1, 5, 1, margin, margin_cases, misconceptions=MARGIN),
    Exercise("01.3", "The best of many directions", 2, 8, 2, best_direction, best_cases, misconceptions=BEST),
    Exercise("01.4", "Two predictions", 3, 12, 3, predict, predict_cases, EXACT, PREDICT),
    Exercise("01.5", "The offset", 2, 8, 2, offset, offset_cases, misconceptions=OFFSET),
    Exercise("01.6", "The longest step", 3, 12, 3, longest_step, longest_cases, misconceptions=LONGEST),
]
