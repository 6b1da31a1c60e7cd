"""Exercises of lesson 02: the hard-margin SVM and its certificate."""

import cvxpy as cp
import numpy as np
import torch
from scipy.optimize import nnls
from scipy.special import softmax

from course.check.specification import Compare, Exercise, Misconception
from course.exercises.points import half_plane, hopeless, separable
from mini_attn import svm


def _primal(X, y):
    return svm.solve(svm.label_problem(torch.as_tensor(X), torch.as_tensor(y))).value.numpy()


def _primal_in_cvxpy(X, y, norm):
    w = cp.Variable(X.shape[1])
    cp.Problem(cp.Minimize(norm(w)), [cp.multiply(y, X @ w) >= 1]).solve(solver=cp.CLARABEL)
    return w.value  # None where nothing is feasible, which is what a learner's code returns there


def _primal_with_equalities(X, y):
    w = cp.Variable(X.shape[1])
    cp.Problem(cp.Minimize(cp.norm(w)), [cp.multiply(y, X @ w) == 1]).solve(solver=cp.CLARABEL)
    return w.value


PRIMAL = Exercise(
    id="02.1",
    title="The primal, as you would say it",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_primal,
    withheld=("mini_attn.svm.dispatch.solve", "mini_attn.svm.rational.shortest"),
    cases=lambda rng: [half_plane(rng, 6), *(separable(rng, n, d) for n, d in ((2, 3), (8, 3), (3, 5)))],
    compare=Compare(rtol=1e-4, atol=1e-5),
    misconceptions=[
        Misconception(
            lambda X, y: _primal_in_cvxpy(X, np.ones_like(y), cp.norm2),
            "The labels are missing from the constraint: multiply each score w.x_i by y_i.",
        ),
        Misconception(
            lambda X, y: np.zeros(X.shape[1]),
            "w = 0 satisfies y_i w.x_i >= 0 and nothing is shorter: the right-hand side has to be 1.",
        ),
        Misconception(
            lambda X, y: _primal_in_cvxpy(X, y, cp.norm1),
            "You minimised the l1 norm. The margin is a Euclidean distance: use cp.norm(w) as it is.",
        ),
        Misconception(
            lambda X, y: _primal(X, y) / np.linalg.norm(_primal(X, y)),
            "You normalised w. Its direction is right, but its length, 1 / margin, is part of the answer.",
        ),
        Misconception(
            lambda X, y: None,
            "You returned nothing: w.value is None until `.solve()` is called, and a function must return.",
        ),
        Misconception(
            _primal_with_equalities,
            "With == 1 every point has to lie on the edge of the strip, which mostly cannot be (then w.value "
            "is None). Points may lie beyond: >= 1.",
        ),
        Misconception(
            lambda X, y: np.linalg.norm(_primal(X, y)),
            "That is the length of w: `.solve()` returns the objective; read `w.value`.",
        ),
    ],
)


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
        (rng.uniform(0.1, 3.0, size=n), *separable(rng, n, d)) for n, d in ((3, 2), (6, 3), (8, 2))
    ],
    misconceptions=[
        Misconception(
            lambda lam, X, y: np.linalg.norm((lam * y) @ X),
            "Your bound grows when all weights are doubled: divide by their sum, lam.sum().",
        ),
        Misconception(
            lambda lam, X, y: np.linalg.norm(lam @ X) / lam.sum(),
            "You averaged the points x_i. The bound is about the signed points a_i = y_i x_i: bring in y.",
        ),
        Misconception(
            lambda lam, X, y: lam @ np.linalg.norm(X, axis=1) / lam.sum(),
            "You averaged the lengths of the a_i. Average the vectors first, so that they can cancel.",
        ),
        Misconception(
            lambda lam, X, y: np.linalg.norm((lam * y) @ X) / len(lam),
            "You divided by the number of points. Divide by the sum of the weights, lam.sum().",
        ),
    ],
)


def _kkt(w, lam, X, y):
    A = y[:, None] * X
    slack = A @ w - 1
    equations = np.abs(w - A.T @ lam).max(), np.abs(lam * slack).max()
    return np.array([equations[0], np.maximum(-slack, 0).max(), np.maximum(-lam, 0).max(), equations[1]])


def _kkt_cases(rng):
    cases = []
    for n, d in ((4, 2), (6, 3), (5, 2)):
        X, y = separable(rng, n, d)
        cases.append((3 * rng.normal(size=d), rng.normal(size=n), X, y))  # everything is violated
    X, y = separable(rng, 5, 2)
    lam = rng.uniform(0.1, 1.0, size=5)
    cases.append(((lam * y) @ X, lam, X, y))  # stationary, multipliers fine, the rest is not
    X, y = separable(rng, 6, 3)
    return [*cases, (2 * _primal(X, y), np.zeros(6), X, y)]  # feasible and slack, but not stationary


def _kkt_variant(position, value):
    """The right four numbers but one: `value(w, lam, A, u)` stands at `position`."""

    def wrong(w, lam, X, y):
        answer, A = _kkt(w, lam, X, y), y[:, None] * X
        answer[position] = value(w, lam, A, A @ w)
        return answer

    return wrong


def _kkt_unclipped(w, lam, X, y):
    slack = y * (X @ w) - 1
    return np.array([np.abs(w - (lam * y) @ X).max(), -slack.min(), -lam.min(), np.abs(lam * slack).max()])


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
            _kkt_variant(0, lambda w, lam, A, u: np.linalg.norm(w - A.T @ lam)),
            "For stationarity you took a Euclidean length; take the largest absolute entry.",
        ),
        Misconception(
            _kkt_variant(1, lambda w, lam, A, u: np.maximum(u - 1, 0).max()),
            "Your second number grows with points beyond the edge. Violated is a_i.w < 1, by 1 - a_i.w.",
        ),
        Misconception(
            _kkt_variant(3, lambda w, lam, A, u: np.abs(lam * u).max()),
            "Complementary slackness multiplies lam_i with the slack a_i.w - 1, not with a_i.w.",
        ),
        Misconception(
            _kkt_variant(3, lambda w, lam, A, u: abs(lam @ (u - 1))),
            "You summed lam_i (a_i.w - 1), so violations of opposite sign cancel. Take the largest size.",
        ),
        Misconception(
            _kkt_unclipped, "A condition that holds with room to spare has violation 0, not a negative one."
        ),
    ],
)


def _ascent(clip, step=lambda a: a @ a, labels=True, moved=lambda new, old: new - old):
    """Coordinate ascent with given ways to clip a multiplier `old + change` and to move w along a."""

    def solve(X, y, sweeps):
        A = y[:, None] * X if labels else X
        lam, w = np.zeros(len(A)), np.zeros(A.shape[1])
        for _ in range(sweeps):
            for i, a in enumerate(A):
                new = clip(lam[i], (1 - a @ w) / step(a))
                w += moved(new, lam[i]) * a
                lam[i] = new
        return lam

    return solve


def _clip(old, change):
    return max(0.0, old + change)


_unclipped = _ascent(lambda old, change: old + change)


def _stale_ascent(X, y, sweeps):
    A = y[:, None] * X
    lam = np.zeros(len(A))
    for _ in range(sweeps):
        lam = np.maximum(0.0, lam + (1 - A @ (A.T @ lam)) / (A * A).sum(axis=1))
    return lam


ASCENT = Exercise(
    id="02.4",
    title="A dual solver in ten lines",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_ascent(_clip),
    cases=lambda rng: [
        (*separable(rng, n, d), sweeps) for n, d, sweeps in ((5, 2, 1), (6, 3, 2), (8, 2, 3), (10, 3, 5))
    ],
    misconceptions=[
        Misconception(_unclipped, "Some multipliers are negative: clip each new value with max(0, ...)."),
        Misconception(
            _ascent(lambda old, change: old + max(0.0, change)),
            "You clipped the change, so multipliers can only grow. Clip the new multiplier instead.",
        ),
        Misconception(
            _stale_ascent,
            "You updated a whole sweep from the same old w. Move w after each point, before the next one.",
        ),
        Misconception(
            _ascent(_clip, step=lambda a: 1.0),
            "You left out the division by ||a_i||^2, which makes the step end at the parabola's top.",
        ),
        Misconception(
            _ascent(_clip, labels=False),
            "You used the points x_i. The dual is written in the signed points a_i = y_i x_i.",
        ),
        Misconception(
            _ascent(_clip, moved=lambda new, old: new),
            "Move w by the difference lambda' - lambda: it already contains the old lambda a.",
        ),
        Misconception(
            lambda X, y, sweeps: np.maximum(0.0, _unclipped(X, y, sweeps)),
            "Clip at every update: the next update needs the w of the clipped multiplier.",
        ),
    ],
)


def _largest_margin(X, y):
    return svm.solve(svm.label_problem(torch.as_tensor(X), torch.as_tensor(y)), throw=False).margin.item()


def _nnls(X, y):
    return nnls(np.vstack([(y[:, None] * X).T, np.ones(len(y))]), np.append(np.zeros(X.shape[1]), 1.0))


def _residual(X, y):
    return _nnls(X, y)[1]


def _from_residual(residual):
    return residual / np.sqrt(abs(1 - residual**2))


def _target_of_ones(X, y):
    matrix = np.vstack([(y[:, None] * X).T, np.ones(len(y))])
    return _from_residual(nnls(matrix, np.ones(X.shape[1] + 1))[1])


def _margin_of_weights(X, y):
    A = y[:, None] * X
    w = _nnls(X, y)[0] @ A
    with np.errstate(all="ignore"):  # w may be an exact zero
        return (A @ w).min() / np.linalg.norm(w)


NNLS = Exercise(
    id="02.5",
    title="One call decides",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_largest_margin,
    withheld=("mini_attn.svm.dispatch.solve", "mini_attn.svm.rational.shortest"),
    cases=lambda rng: [
        *(separable(rng, n, d) for n, d in ((6, 2), (8, 3))),
        *(hopeless(rng, n, d) for n, d in ((6, 2), (7, 4))),
    ],
    compare=Compare(rtol=1e-6, atol=1e-7),
    misconceptions=[
        Misconception(
            _residual,
            "That is the residual. Insert the best c into c^2 margin^2 + (1 - c)^2 = res^2, and solve.",
        ),
        Misconception(
            lambda X, y: np.sqrt(_residual(X, y) / (1 - _residual(X, y))),
            "nnls returns the length res, not its square: insert res^2, not res, into your formula.",
        ),
        Misconception(
            lambda X, y: _residual(X, y) ** 2 / (1 - _residual(X, y) ** 2),
            "You returned the square of the margin.",
        ),
        Misconception(
            _margin_of_weights,
            "Right where the points can be separated. Elsewhere lam @ A is zero up to rounding and its "
            "direction is noise: use the residual.",
        ),
        Misconception(
            lambda X, y: _largest_margin(X, np.ones_like(y)),
            "The labels are missing: the columns of the matrix are the signed points a_i = y_i x_i.",
        ),
        Misconception(
            lambda X, y: 0.0,
            "Always 0: without the row of ones, or with a target of zeros, lam = 0 leaves nothing over.",
        ),
        Misconception(
            _target_of_ones,
            "The target is all zeros and a final one: the combination of signed points should be 0, the sum "
            "of the weights 1.",
        ),
    ],
)


def _certify_with(weights, lower=lambda u, w: u.min() / np.linalg.norm(w)):
    """(lower bound, upper bound from weights(u, w)), where u holds the a_i.w."""

    def answer(w, X, y):
        A = y[:, None] * X
        with np.errstate(all="ignore"):  # some wrong answers overflow: that is the point of them
            return np.array([lower(A @ w, w), np.linalg.norm(weights(A @ w, w) @ A)])

    return answer


def _logistic(u, w):
    return softmax(-np.logaddexp(0, u))


def _certify_cases(rng):
    cases = []
    for n, d, size in ((5, 2, 1.0), (8, 3, 5.0), (6, 2, 30.0)):
        X, y = separable(rng, n, d)
        w = _primal(X, y) + 0.2 * rng.normal(size=d)
        cases.append((size * w / np.linalg.norm(w), X, y))
    while (
        len(cases) < 5
    ):  # every u above 800, the two smallest within 1: both have weight, and no exponential
        X, y = separable(rng, 6, 2)
        w = _primal(X, y) + 0.2 * rng.normal(size=2)
        u = y * (X @ w)
        if u.min() <= 0:
            continue
        w *= rng.uniform(2000, 4000) / u.min()
        first, second = (y * (X @ w)).argsort()[:2]
        X[second] *= ((y * (X @ w))[first] + rng.uniform(0.3, 1.0)) / (y * (X @ w))[second]
        cases.append((w, X, y))
    return cases


CERTIFY = Exercise(
    id="02.6",
    title="Certify gradient descent",
    points=3,
    minutes=12,
    difficulty=3,
    reference=_certify_with(_logistic),
    cases=_certify_cases,
    misconceptions=[
        Misconception(
            _certify_with(lambda u, w: 1 / (1 + np.exp(u)) / (1 / (1 + np.exp(u))).sum()),
            "Right for moderate w, but for long w all weights underflow and you divide 0 by 0. Start from "
            "the logarithms -np.logaddexp(0, u) and subtract the largest before np.exp.",
        ),
        Misconception(
            _certify_with(lambda u, w: _logistic(u / np.linalg.norm(w), w)),
            "You normalised w before computing the weights. They come from the gradient at w as it is.",
        ),
        Misconception(
            _certify_with(lambda u, w: _logistic(-u, w)),
            "Your weights grow with u_i, so easy points count most: the weight is 1 / (1 + exp(+u_i)).",
        ),
        Misconception(
            _certify_with(lambda u, w: softmax(-u)),
            "You used e^-u; that is the weight 1 / (1 + e^u) only for large u.",
        ),
        Misconception(
            _certify_with(lambda u, w: np.exp(-np.logaddexp(0, u))),
            "Your weights do not add up to one, so the bound fades with the gradient: divide by their sum.",
        ),
        Misconception(
            _certify_with(lambda u, w: softmax(-np.logaddexp(0, np.clip(u, -700, 700)))),
            "Far out your weights are all alike: u capped, or a small number added to what underflows. Only "
            "differences of u count: subtract the largest logarithm before np.exp.",
        ),
        Misconception(
            _certify_with(lambda u, w: 1.0 * (u == u.min())),
            "You gave all the weight to the nearest point. The next ones have some, too, however long w is.",
        ),
        Misconception(
            _certify_with(_logistic, lower=lambda u, w: u.min()),
            "Your lower bound min u_i grows with the length of w. A margin is a distance: divide by ||w||.",
        ),
    ],
)

EXERCISES = [PRIMAL, BOUND, KKT, ASCENT, NNLS, CERTIFY]
