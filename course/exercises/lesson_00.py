"""Exercises of lesson 00: what the course builds on."""

import numpy as np

from course.check.specification import Exercise, known


# --------------------------------------------------------------------------- 00.1 the length of a shadow
def _shadow(x, w):
    return x @ w / np.linalg.norm(w)


def _as_long_as(length, w):
    return length * w / np.linalg.norm(w)


SHADOW = Exercise(
    id="00.1",
    title="The length of a shadow",
    points=1,
    minutes=2,
    difficulty=1,
    reference=_shadow,
    # x falls on the far side of w, then on the near one; w is long and short, on a line too; x may be zero
    cases=lambda rng: [
        (np.array([-3.0, 1.0]), np.array([2.0, 0.0])),
        *(
            (w * rng.uniform(0.3, 1.5) + rng.normal(size=d), w)
            for d, length in ((3, 3.0), (5, 0.001))
            for w in [_as_long_as(length, rng.normal(size=d))]
        ),
        (rng.uniform(1, 2, size=1), rng.uniform(-3, -2, size=1)),
        (np.zeros(2), rng.normal(size=2)),
    ],
    misconceptions=known(
        lambda x, w: -_shadow(x, w),
        "The sign is turned: the shadow is positive where x falls on the side of w, as x @ w is.",
        lambda x, w: _shadow(x, w) if x.any() else np.nan,
        "Right, unless x = 0: there the cosine is 0 / 0. The length of x cancels: write it without.",
        lambda x, w: x @ w,
        "The product x.w grows with w, and a shadow does not: divide by the length of w.",
        lambda x, w: abs(_shadow(x, w)),
        "The sign is lost: a shadow on the far side counts as negative.",
        lambda x, w: x @ w / (np.linalg.norm(x) * np.linalg.norm(w)),
        "That is the cosine of the angle. Only w is a direction here; x keeps its length.",
        lambda x, w: x @ w / (w @ w),
        "You divided by the square of the length of w. That is the factor in front of w in the projection.",
        lambda x, w: x @ w / np.linalg.norm(x),
        "You divided by the length of x. The shadow falls on the line of w: divide by that of w.",
        lambda x, w: (x @ w / (w @ w)) * w,
        "That is the shadow itself, a vector. Its length with a sign, one number, is asked for.",
    ),
)


# --------------------------------------------------------------------------- 00.2 all points at once
def _margins(X, y, w):
    return y * (X @ w)


def _labelled(rng, n, d):
    y = rng.permutation(np.where(np.arange(n) % 2, -1.0, 1.0))
    return rng.normal(size=(n, d)), y, rng.normal(size=d)


ALL_AT_ONCE = Exercise(
    id="00.2",
    title="All points at once",
    points=1,
    minutes=3,
    difficulty=1,
    reference=_margins,
    cases=lambda rng: [
        (np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 1.0]]), np.array([1.0, -1.0, -1.0]), np.array([2.0, 1.0])),
        _labelled(rng, 4, 3),
        _labelled(rng, 6, 2),
    ],
    misconceptions=known(
        lambda X, y, w: -_margins(X, y, w),
        "The signs are turned: a point of label +1 with x.w > 0 counts as positive.",
        lambda X, y, w: X @ w,
        "The labels are missing: multiply each product by its own label.",
        lambda X, y, w: y @ (X @ w),
        "The sum over the points is one number. Each point has one of its own: y * (...).",
        lambda X, y, w: np.outer(y, X @ w),
        "That is each label times each product, n times n numbers. Entry by entry, `*` does what is asked.",
        lambda X, y, w: y[:, None] * X,
        "Those are the points, each with its label. The product with w is missing.",
        lambda X, y, w: y[:, None] * X * w,
        "Entry by entry, and not summed: x.w is the sum over the coordinates, which `X @ w` computes.",
        lambda X, y, w: (y * (X @ w)).mean(),
        "The mean over the points is one number. One number for each point is asked for.",
        lambda X, y, w: np.sign(y * (X @ w)),
        "You kept the signs alone. How large the products are counts as well.",
    ),
)


# --------------------------------------------------------------------------- 00.3 the chain rule
def _slope(w, A, b):
    return A.T @ (A @ w - b)


def _square_problem(rng, n, d):
    return rng.normal(size=d), rng.normal(size=(n, d)), rng.normal(size=n)


CHAIN_RULE = Exercise(
    id="00.3",
    title="The chain rule",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_slope,
    cases=lambda rng: [
        (np.array([1.0, 1.0]), np.array([[2.0, 0.0], [1.0, 3.0]]), np.array([5.0, 1.0])),
        _square_problem(rng, 3, 3),
        _square_problem(rng, 4, 2),
    ],
    misconceptions=known(
        lambda w, A, b: 2 * _slope(w, A, b),
        "Twice too large: the 2 of the square cancels the 1/2 in front of it.",
        lambda w, A, b: A.T @ (b - A @ w),
        "That is the direction of descent, minus the gradient. The residual is A w - b.",
        lambda w, A, b: A @ w - b,
        "The inner derivative is missing: the residual A w - b moves with w, along the columns of A.",
        lambda w, A, b: A.T @ A @ w,
        "The b is missing: the residual is A w - b, and the gradient A^T (A w - b).",
        lambda w, A, b: _slope(w, A, b) / 2,
        "Half of what it should be: the square brings a factor of 2, which cancels the 1/2.",
        lambda w, A, b: ((A @ w - b) ** 2).sum() / 2,
        "That is f itself. Its gradient has one entry for each entry of w.",
        lambda w, A, b: A @ (A @ w - b),
        "A must be transposed in front of the residual: the gradient has as many entries as w.",
        lambda w, A, b: _slope(w, A, b) / len(b),
        "f is the sum over the rows of A, not their mean: there is nothing to divide by.",
    ),
)


# --------------------------------------------------------------------------- 00.4 how far a matrix stretches
def _stretch(A):
    return np.linalg.svd(A, compute_uv=False)[0]


STRETCH = Exercise(
    id="00.4",
    title="How far a matrix stretches",
    points=1,
    minutes=4,
    difficulty=2,
    reference=_stretch,
    cases=lambda rng: [
        (np.array([[2.0, 1.0], [0.0, 2.0]]),),
        (rng.normal(size=(3, 3)),),
        (-np.diag(rng.uniform(1, 3, size=3)) @ np.linalg.qr(rng.normal(size=(3, 3)))[0],),
        (rng.normal(size=(2, 4)),),
        (np.diag([1.0, rng.uniform(1.003, 1.005)]),),  # a search from e_1 stays there
        (np.array([[2.0, -2.0], [1.0, 1.0]]) * 2.0 ** rng.integers(-2, 3),),  # one from (1, 1) stays there
    ],
    misconceptions=known(
        lambda A: np.linalg.norm(A),
        "That is the root of the sum of all squares (Frobenius). It adds up the stretch in all directions.",
        lambda A: np.linalg.svd(A, compute_uv=False)[0] ** 2,
        "The largest eigenvalue of A^T A is the square of what is asked: the root is missing.",
        lambda A: np.linalg.svd(A, compute_uv=False).sum(),
        "You added the singular values up. One direction is stretched most, by the largest of them.",
        lambda A: np.linalg.svd(A, compute_uv=False)[-1],
        "That is the smallest singular value: the least a vector of length one is stretched.",
        lambda A: np.abs(A).max(),
        "The largest entry says how much one coordinate of one unit vector grows. Other vectors grow more.",
        lambda A: np.linalg.norm(A, axis=0).max(),
        "You tried the coordinate vectors alone: their images are the columns. Others grow more.",
        lambda A: np.abs(np.linalg.eigvals(A)).max() if A.shape[0] == A.shape[1] else None,
        "Eigenvalues are about vectors that keep their direction. The one that grows most need not.",
    ),
)


# --------------------------------------------------------------------------- 00.5 ten steps downhill
def _descend(A, b, start, eta, steps):
    path = [start]
    for _ in range(steps):
        path.append(path[-1] - eta * A.T @ (A @ path[-1] - b))
    return np.array(path)


def _downhill(rng, n, d, steps):
    A = rng.normal(size=(n, d))
    return A, rng.normal(size=n), rng.normal(size=d), rng.uniform(0.2, 0.9) / np.linalg.norm(A, 2) ** 2, steps


def _same_array(A, b, start, eta, steps):
    """Each entry of the list is the one array that changes."""
    w, path = start.copy(), []
    for _ in range(steps + 1):
        path.append(w)
        w -= eta * _slope(w, A, b)
    return np.array(path)


def _start_itself(A, b, start, eta, steps):
    """No copy at all: the input changes, and each row is it."""
    path = [start]
    for _ in range(steps):
        start -= eta * _slope(start, A, b)
        path.append(start)
    return np.array(path)


def _each_from_the_start(A, b, start, eta, steps):
    return np.array([start - k * eta * _slope(start, A, b) for k in range(steps + 1)])


STEPS = Exercise(
    id="00.5",
    title="Steps downhill",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_descend,
    cases=lambda rng: [
        (np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros(2), np.array([2.0, 1.0]), 0.25, 2),
        _downhill(rng, 3, 3, 5),
        _downhill(rng, 4, 2, 10),
        (np.diag([1.0, 0.02]), np.zeros(2), np.array([0.0, rng.uniform(0.5, 2)]), 1.0, 3),  # flat
        _downhill(rng, 2, 3, 0),
    ],
    misconceptions=known(
        lambda A, b, start, eta, steps: _descend(A, b, start, -eta, steps),
        "You went uphill: a step goes against the gradient.",
        lambda A, b, start, eta, steps: _descend(A, b, start, eta, steps)[1:],
        "The start is missing: it is the first row, before any step.",
        lambda A, b, start, eta, steps: _descend(A, b, start, eta, steps)[:-1],
        "The last step is missing: `steps` steps from the start make steps + 1 rows.",
        lambda A, b, start, eta, steps: _descend(A, b, start, eta, steps)[-1],
        "That is the end alone. All points on the way are asked for, one a row.",
        _same_array,
        "All rows are one and the same array: `w -= ...` changes the one that is in the list. Write "
        "`w = w - ...`, which makes a new one, or append a copy.",
        _start_itself,
        "`w -= ...` changes `start` itself, and every row that is w. Write `w = w - ...`: a new array.",
        lambda A, b, start, eta, steps: np.tile(_descend(A, b, start, eta, steps)[-1], (steps + 1, 1)),
        "All rows are the end: `w -= ...` changes the point that is in the list. Write `w = w - ...`.",
        _each_from_the_start,
        "Each of your steps uses the gradient at the start. Take it where you are.",
        lambda A, b, start, eta, steps: _descend(A, b, start, 2 * eta, steps),
        "Your steps are twice as long as they should be: the gradient of 00.3 has no factor of 2.",
        lambda A, b, start, eta, steps: _descend(A, b, start, 1.0, steps),
        "The step size is missing: a step is eta times the gradient.",
    ),
)

EXERCISES = [SHADOW, ALL_AT_ONCE, CHAIN_RULE, STRETCH, STEPS]
