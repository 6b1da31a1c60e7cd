"""Exercises of lesson 02: the hard-margin SVM and its certificate."""

import cvxpy as cp
import numpy as np
import torch
from scipy.optimize import nnls

from course.specification import Compare, Exercise, Misconception
from mini_attn import svm

# --------------------------------------------------------------------------- inputs


def _separable(rng, n, d):
    """n points in d dimensions, both labels present, separated by a random direction with room to spare."""
    u = rng.normal(size=d)
    u /= np.linalg.norm(u)
    y = rng.choice([-1.0, 1.0], size=n)
    y[:2] = 1.0, -1.0
    X = rng.normal(size=(n, d))
    X += np.outer(y * rng.uniform(0.4, 2.0, size=n) - X @ u, u)
    return X, y


def _half_plane(rng, n):
    """Separable points that all lie in one half-plane: forgetting the labels stays feasible, and is wrong."""
    angle = rng.uniform(0, 2 * np.pi)
    u, h = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    y = rng.choice([-1.0, 1.0], size=n)
    y[:2] = 1.0, -1.0
    return np.outer(y * rng.uniform(0.4, 2.0, n), u) + np.outer(rng.uniform(0.4, 2.0, n), h), y


def _hopeless(rng, n, d):
    """Points that no direction separates: two signed points are opposite to each other."""
    X, y = _separable(rng, n, d)
    X[1] = -y[0] * y[1] * X[0] * rng.uniform(0.5, 2.0)
    return X, y


# --------------------------------------------------------------------------- 02.1 the primal


def _primal(X, y):
    problem = svm.label_problem(torch.as_tensor(X), torch.as_tensor(y))
    return svm.solve(problem).value.numpy()


def _primal_variant(X, y, norm=cp.norm2, bias=0.0):
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    problem = cp.Problem(cp.Minimize(norm(w)), [cp.multiply(y, X @ w + bias * b) >= 1])
    problem.solve(solver=cp.CLARABEL)
    return w.value


def _primal_no_labels(X, y):
    # Without the labels many inputs have no solution at all, and a learner's w.value is then None.
    separable = _largest_margin(X, np.ones_like(y)) > 1e-6
    return _primal(X, np.ones_like(y)) if separable else None


PRIMAL = Exercise(
    id="02.1",
    title="The primal, as you would say it",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_primal,
    cases=lambda rng: [
        _half_plane(rng, 6),
        _separable(rng, 2, 3),
        _separable(rng, 8, 3),
        _separable(rng, 3, 5),
    ],
    compare=Compare(rtol=1e-4, atol=1e-5),
    misconceptions=[
        Misconception(
            _primal_no_labels,
            "The labels are missing from the constraint: a point with y = -1 has to satisfy w.x <= -1. "
            "Multiply each score w.x_i by y_i.",
        ),
        Misconception(
            lambda X, y: np.zeros(X.shape[1]),
            "You returned w = 0. With the constraint y_i w.x_i >= 0 the zero vector is feasible and has the "
            "smallest norm; the right-hand side has to be 1.",
        ),
        Misconception(
            lambda X, y: _primal_variant(X, y, norm=cp.norm1),
            "You minimised the l1 norm, sum |w_j|. The margin is a Euclidean distance, so minimise the "
            "Euclidean norm (cp.norm(w) or cp.sum_squares(w)).",
        ),
        Misconception(
            lambda X, y: _primal(X, y) / np.linalg.norm(_primal(X, y)),
            "You returned the unit vector w/||w||. The direction is right; the exercise asks for the w that "
            "solves the problem, whose length 1/margin carries information.",
        ),
        Misconception(
            lambda X, y: _primal_variant(X, y, bias=1.0),
            "You added an intercept b. In this course the separating line goes through the origin, as the "
            "model of lesson 01 does: use y_i w.x_i >= 1 alone.",
        ),
    ],
)


# --------------------------------------------------------------------------- 02.2 the upper bound


def _upper_bound(lam, X, y):
    return np.linalg.norm((lam * y) @ X) / lam.sum()


BOUND = Exercise(
    id="02.2",
    title="A bound from any weights",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_upper_bound,
    cases=lambda rng: [
        (rng.uniform(0.1, 3.0, size=n), *_separable(rng, n, d)) for n, d in ((3, 2), (6, 3), (8, 2))
    ],
    misconceptions=[
        Misconception(
            lambda lam, X, y: np.linalg.norm((lam * y) @ X),
            "You did not divide by the sum of the weights, so the bound grows when all weights are doubled. "
            "The weights of an average add up to one: divide by lam.sum().",
        ),
        Misconception(
            lambda lam, X, y: np.linalg.norm(lam @ X) / lam.sum(),
            "You averaged the points x_i. The bound is about the signed points a_i = y_i x_i: bring in y.",
        ),
        Misconception(
            lambda lam, X, y: lam @ np.linalg.norm(X, axis=1) / lam.sum(),
            "You averaged the lengths ||a_i||. That is an upper bound too, but a useless one: average the "
            "vectors first and take the length of the result, so that they can cancel.",
        ),
        Misconception(
            lambda lam, X, y: _upper_bound(lam, X, y) ** 2,
            "You returned the squared length. The margin is a distance, so its bound is the length itself.",
        ),
        Misconception(
            lambda lam, X, y: np.linalg.norm((lam * y) @ X) / len(lam),
            "You divided by the number of points. Divide by the sum of the weights, lam.sum().",
        ),
    ],
)


# --------------------------------------------------------------------------- 02.3 the KKT conditions


def _kkt(w, lam, X, y):
    A = y[:, None] * X
    slack = A @ w - 1
    return np.array(
        [
            np.abs(w - A.T @ lam).max(),
            np.maximum(-slack, 0).max(),
            np.maximum(-lam, 0).max(),
            np.abs(lam * slack).max(),
        ]
    )


def _kkt_cases(rng):
    cases = []
    for n, d in ((4, 2), (6, 3), (5, 2)):
        X, y = _separable(rng, n, d)
        cases.append((3 * rng.normal(size=d), rng.normal(size=n), X, y))  # everything is violated
    X, y = _separable(rng, 5, 2)
    lam = rng.uniform(0.1, 1.0, size=5)
    cases.append(((lam * y) @ X, lam, X, y))  # stationary, multipliers fine, the rest is not
    X, y = _separable(rng, 6, 3)
    w = _primal(X, y)
    cases.append((2 * w, np.zeros(6), X, y))  # feasible and slack, but not stationary
    return cases


def _kkt_variant(position, value):
    """The right four numbers but one: `value(w, lam, A, slack)` stands at `position`."""

    def wrong(w, lam, X, y):
        A = y[:, None] * X
        answer = _kkt(w, lam, X, y)
        answer[position] = value(w, lam, A, A @ w - 1)
        return answer

    return wrong


KKT = Exercise(
    id="02.3",
    title="Four numbers that prove optimality",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_kkt,
    cases=_kkt_cases,
    misconceptions=[
        Misconception(
            lambda w, lam, X, y: np.r_[np.abs(w - lam @ X).max(), _kkt(w, lam, X, y)[1:]],
            "Stationarity is w = sum lam_i a_i with the signed points a_i = y_i x_i; you used the x_i.",
        ),
        Misconception(
            _kkt_variant(1, lambda w, lam, A, slack: np.maximum(slack, 0).max()),
            "Your primal violation punishes points that are beyond the margin. A constraint is violated "
            "where a_i.w < 1, so the violation is max(0, 1 - a_i.w).",
        ),
        Misconception(
            _kkt_variant(1, lambda w, lam, A, slack: np.maximum(-A @ w, 0).max()),
            "Your primal violation compares a_i.w with 0. The constraint asks for at least 1.",
        ),
        Misconception(
            _kkt_variant(2, lambda w, lam, A, slack: np.maximum(lam, 0).max()),
            "Your dual violation punishes positive multipliers. They have to be nonnegative, so the "
            "violation is max(0, -lam_i).",
        ),
        Misconception(
            _kkt_variant(3, lambda w, lam, A, slack: np.abs(lam * (A @ w)).max()),
            "Complementary slackness multiplies lam_i with the slack a_i.w - 1, not with a_i.w: a support "
            "vector has a_i.w = 1 and may keep its multiplier.",
        ),
        Misconception(
            _kkt_variant(3, lambda w, lam, A, slack: abs(lam @ slack)),
            "You summed lam_i (a_i.w - 1) before taking the size, so that violations of opposite sign "
            "cancel. Take the largest |lam_i (a_i.w - 1)|.",
        ),
        Misconception(
            _kkt_variant(0, lambda w, lam, A, slack: np.linalg.norm(w - A.T @ lam)),
            "Your stationarity violation is a Euclidean length. The exercise asks for the largest absolute "
            "entry, as in the other three numbers.",
        ),
    ],
)


# --------------------------------------------------------------------------- 02.4 a dual solver


def _dual_ascent(X, y, sweeps):
    A = y[:, None] * X
    lam, w = np.zeros(len(A)), np.zeros(A.shape[1])
    for _ in range(sweeps):
        for i in range(len(A)):
            new = max(0.0, lam[i] + (1 - A[i] @ w) / (A[i] @ A[i]))
            w += (new - lam[i]) * A[i]
            lam[i] = new
    return lam


def _ascent_variant(clip=True, step=None, labels=True, clip_increment=False):
    """Coordinate ascent with one thing done wrong."""

    def wrong(X, y, sweeps):
        A = y[:, None] * X if labels else X
        lam = np.zeros(len(A))
        for _ in range(sweeps):
            for i in range(len(A)):
                size = A[i] @ A[i] if step is None else step(A[i])
                change = (1 - A[i] @ (A.T @ lam)) / size
                if clip_increment:
                    change = max(0.0, change)
                lam[i] = max(0.0, lam[i] + change) if clip else lam[i] + change
        return lam

    return wrong


def _stale_ascent(X, y, sweeps):
    A = y[:, None] * X
    lam = np.zeros(len(A))
    for _ in range(sweeps):
        lam = np.maximum(0.0, lam + (1 - A @ (A.T @ lam)) / (A * A).sum(axis=1))
    return lam


ASCENT = Exercise(
    id="02.4",
    title="A dual solver in ten lines",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_dual_ascent,
    cases=lambda rng: [
        (*_separable(rng, n, d), sweeps) for n, d, sweeps in ((5, 2, 1), (6, 3, 2), (8, 2, 3), (10, 3, 5))
    ],
    misconceptions=[
        Misconception(
            _ascent_variant(clip=False),
            "Some of your multipliers are negative: clip each new value with max(0, ...).",
        ),
        Misconception(
            _ascent_variant(clip_increment=True),
            "You clipped the change instead of the new multiplier, so multipliers can only grow. A "
            "multiplier that was set too high has to come down again: lam_i = max(0, lam_i + change).",
        ),
        Misconception(
            _stale_ascent,
            "You updated all multipliers of a sweep from the same old w. Coordinate ascent moves w after "
            "each point, so that the next point sees the change.",
        ),
        Misconception(
            _ascent_variant(step=lambda a: 1.0),
            "You left out the division by ||a_i||^2, which makes the step land on the maximum along "
            "coordinate i.",
        ),
        Misconception(
            _ascent_variant(step=np.linalg.norm),
            "You divided by ||a_i||. The second derivative along coordinate i is ||a_i||^2: divide by that.",
        ),
        Misconception(
            _ascent_variant(labels=False),
            "You used the points x_i. The dual is written in the signed points a_i = y_i x_i.",
        ),
    ],
)


# --------------------------------------------------------------------------- 02.5 one call to nnls


def _residual(X, y):
    n, d = X.shape
    return nnls(np.vstack([(y[:, None] * X).T, np.ones(n)]), np.r_[np.zeros(d), 1.0])


def _largest_margin(X, y):
    problem = svm.label_problem(torch.as_tensor(X), torch.as_tensor(y))
    return svm.solve(problem, throw=False).margin.item()


NNLS = Exercise(
    id="02.5",
    title="One call decides",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_largest_margin,
    cases=lambda rng: [
        _separable(rng, 6, 2),
        _separable(rng, 8, 3),
        _hopeless(rng, 6, 2),
        _hopeless(rng, 7, 4),
    ],
    compare=Compare(rtol=1e-6, atol=1e-7),
    misconceptions=[
        Misconception(
            lambda X, y: _residual(X, y)[1],
            "You returned the residual r itself. It satisfies r^2 = margin^2 / (1 + margin^2): solve that "
            "for the margin.",
        ),
        Misconception(
            lambda X, y: _residual(X, y)[1] ** 2 / (1 - _residual(X, y)[1] ** 2),
            "You returned the square of the margin: take the root.",
        ),
        Misconception(
            lambda X, y: _residual(X, y)[1] ** 2,
            "nnls returns the length r of the residual, not its square, and r^2 = margin^2 / (1 + margin^2): "
            "solve that for the margin.",
        ),
        Misconception(
            lambda X, y: _largest_margin(X, np.ones_like(y)),
            "The labels are missing: the columns of the matrix are the signed points a_i = y_i x_i.",
        ),
        Misconception(
            lambda X, y: np.sqrt(_residual(X, y)[1] / (1 - _residual(X, y)[1])),
            "nnls returns the length r of the residual, not its square. Insert r^2, not r, into "
            "r^2 = margin^2 / (1 + margin^2).",
        ),
    ],
)


# --------------------------------------------------------------------------- 02.6 certify gradient descent


def _softmax(logits):
    q = np.exp(logits - logits.max())
    return q / q.sum()


def _certify(w, X, y):
    A = y[:, None] * X
    u = A @ w
    q = _softmax(-np.logaddexp(0, u))
    return np.array([u.min() / np.linalg.norm(w), np.linalg.norm(A.T @ q)])


def _certify_cases(rng):
    cases = []
    for n, d, size in ((5, 2, 1.0), (8, 3, 5.0), (6, 2, 30.0), (6, 2, 4000.0)):
        X, y = _separable(rng, n, d)
        w = _primal(X, y) + 0.2 * rng.normal(size=d)
        cases.append((size * w / np.linalg.norm(w), X, y))
    return cases


def _certify_with(weights, lower=None):
    """The two numbers, but with other weights or another lower bound."""

    def wrong(w, X, y):
        A = y[:, None] * X
        with np.errstate(all="ignore"):  # the point of some of these is that they overflow
            q = weights(w, A)
            low = (A @ w).min() / np.linalg.norm(w) if lower is None else lower(w, A)
            return np.array([low, np.linalg.norm(A.T @ q)])

    return wrong


def _naive(w, A):
    q = 1 / (1 + np.exp(A @ w))
    return q / q.sum()


CERTIFY = Exercise(
    id="02.6",
    title="Certify gradient descent",
    points=3,
    minutes=12,
    difficulty=3,
    reference=_certify,
    cases=_certify_cases,
    misconceptions=[
        Misconception(
            _certify_with(_naive),
            "Right for moderate w; but for a long w each weight 1/(1 + exp(u_i)) underflows to 0 and you "
            "divide 0 by 0. Work with log weights -np.logaddexp(0, u) and subtract their maximum before exp.",
        ),
        Misconception(
            _certify_with(lambda w, A: _softmax(-np.logaddexp(0, A @ w / np.linalg.norm(w)))),
            "You normalised w before computing the weights. The weights come from the gradient at w itself, "
            "at its true length; only the lower bound is divided by ||w||.",
        ),
        Misconception(
            _certify_with(lambda w, A: _softmax(-np.logaddexp(0, -(A @ w)))),
            "Your weights grow with the margin u_i: easy points count most. The weight of point i is "
            "1/(1 + exp(u_i)), with a plus sign.",
        ),
        Misconception(
            _certify_with(lambda w, A: np.exp(-np.logaddexp(0, A @ w))),
            "Your weights do not add up to one, so ||A^T q|| goes to zero with the gradient and bounds "
            "nothing: divide by their sum.",
        ),
        Misconception(
            _certify_with(
                lambda w, A: _softmax(-np.logaddexp(0, A @ w)),
                lower=lambda w, A: (A @ w).min(),
            ),
            "Your lower bound min u_i grows with the length of w. A margin is a distance: divide by ||w||.",
        ),
        Misconception(
            lambda w, X, y: _certify(w, X, y)[::-1],
            "You returned (upper, lower): the order is (lower, upper).",
        ),
    ],
)

EXERCISES = [PRIMAL, BOUND, KKT, ASCENT, NNLS, CERTIFY]
