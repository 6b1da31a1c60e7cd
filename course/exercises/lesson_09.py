"""Exercises of lesson 09: training the head too."""

import numpy as np

from course.specification import Exercise, Misconception


# --------------------------------------------------------------------------- 09.1 the head's gradient
def _gradient_by(points=lambda s, X: np.einsum("it,itd->id", s, X), slope=None, combine=None):
    """An answer from the points the head sees, the slope of the loss, and how the terms are combined."""
    slope = slope or (lambda u: np.exp(-np.logaddexp(0, u)))  # 1 / (1 + exp(u)), without overflow
    combine = combine or (lambda y, c, x: -(y * c) @ x / len(y))

    def answer(v, p, X, y):
        h = X @ p
        s = np.exp(h - h.max(axis=1, keepdims=True))
        x = points(s / s.sum(axis=1, keepdims=True), X)  # (n, d)
        return combine(y, slope(y * (x @ v)), x)

    return answer


_head_gradient = _gradient_by()


def _gradient_cases(rng):
    cases = []
    for n, T, d in ((2, 3, 2), (3, 2, 2), (4, 3, 5)):
        y = rng.permutation(np.where(np.arange(n) % 2, -1.0, 1.0))
        cases.append((rng.normal(size=d), rng.normal(size=d), rng.normal(size=(n, T, d)), y))
    return cases


GRADIENT = Exercise(
    id="09.1",
    title="What the head sees",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_head_gradient,
    cases=_gradient_cases,
    misconceptions=[
        Misconception(
            lambda *args: -_head_gradient(*args),
            "That is the direction of descent. Return the gradient itself; the loss has a negative slope.",
        ),
        Misconception(
            _gradient_by(combine=lambda y, c, x: -c @ x / len(y)),
            "The label is missing: the derivative of y v.x in v is y x.",
        ),
        Misconception(
            _gradient_by(combine=lambda y, c, x: -(y * c) @ x),
            "You summed over the sequences. L is their mean: divide by n.",
        ),
        Misconception(
            _gradient_by(points=lambda s, X: X.mean(axis=1)),
            "The head sees the tokens averaged with the attention as weights, not their plain mean.",
        ),
        Misconception(
            _gradient_by(points=lambda s, X: X[np.arange(len(X)), s.argmax(axis=1)]),
            "You took the token with most attention. While attention is soft, all tokens count: sum s x.",
        ),
        Misconception(
            _gradient_by(slope=lambda u: 1 / (1 + np.exp(-u))),
            "Wrong sign in the exponent: |l'(u)| = 1 / (1 + exp(u)) is small where the margin is large.",
        ),
        Misconception(
            _gradient_by(slope=np.ones_like),
            "The slope of the loss is missing: a sequence counts with the weight |l'(u)| = 1 / (1 + exp(u)).",
        ),
        Misconception(
            _gradient_by(slope=lambda u: np.exp(-u)),
            "exp(-u) is the slope of the exponential loss. The logistic loss has 1 / (1 + exp(u)).",
        ),
    ],
)


# --------------------------------------------------------------------------- 09.2 support sequences
def _margins(x, y, v_mm):
    return y * (x @ v_mm)


def _support(x, y, v_mm):
    return np.isclose(_margins(x, y, v_mm), 1, atol=1e-6)


def _support_cases(rng):
    cases = []
    for n, d in ((5, 3), (4, 2), (8, 5)):
        # margins first, points to match: two of 1, up to rounding, one of ||v_mm||, others above 1
        y = np.where(np.arange(n) % 2, -1.0, 1.0)
        v_mm = rng.normal(size=d)
        v_mm *= rng.uniform(1.3, 2) / np.linalg.norm(v_mm)
        u = np.r_[1 + 1e-9, 1 - 1e-9, np.linalg.norm(v_mm), rng.uniform(1.1, 2.5, size=n - 3)]
        x = rng.normal(size=(n, d))
        x += ((y * u - x @ v_mm) / (v_mm @ v_mm))[:, None] * v_mm
        order = rng.permutation(n)
        cases.append((x[order], y[order], v_mm))
    return cases


SUPPORT = Exercise(
    id="09.2",
    title="Which sequences hold the head?",
    points=2,
    minutes=6,
    difficulty=1,
    reference=_support,
    cases=_support_cases,
    misconceptions=[
        Misconception(
            lambda x, y, v_mm: ~_support(x, y, v_mm),
            "These are the sequences that are no support vectors: support vectors have margin 1, no more.",
        ),
        Misconception(
            lambda x, y, v_mm: np.isclose(x @ v_mm, 1, atol=1e-6),
            "Multiply by the label: a point labelled -1 is a support vector where v.x = -1.",
        ),
        Misconception(
            lambda x, y, v_mm: _margins(x, y, v_mm) == 1,
            "Margins of support vectors are 1 only up to rounding; use np.isclose(margins, 1, atol=1e-6).",
        ),
        Misconception(
            lambda x, y, v_mm: np.isclose(_margins(x, y, v_mm) / np.linalg.norm(v_mm), 1, atol=1e-6),
            "Do not divide by the norm of v_mm: its constraints read y v.x >= 1, so a tight one is at 1.",
        ),
        Misconception(
            lambda x, y, v_mm: _margins(x, y, v_mm) >= 1 - 1e-6,
            "Every point satisfies its constraint. A support vector satisfies it with equality.",
        ),
        Misconception(
            lambda x, y, v_mm: np.flatnonzero(_support(x, y, v_mm)),
            "You returned the numbers of the support sequences. Return a bool for each sequence.",
        ),
        Misconception(
            lambda x, y, v_mm: np.arange(len(y)) == _margins(x, y, v_mm).argmin(),
            "argmin finds one sequence. Several have the smallest margin, 1, up to rounding.",
        ),
    ],
)


# --------------------------------------------------------------------------- 09.3 the relaxed rows
def _relaxed(support, T):
    return np.repeat(np.asarray(support, dtype=float), T - 1)


RELAXED = Exercise(
    id="09.3",
    title="Relax the rows",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_relaxed,
    cases=lambda rng: [
        (rng.permutation(n) < k, int(rng.integers(3, 6))) for n, k in ((4, 3), (4, 1), (6, 3))
    ],
    misconceptions=[
        Misconception(
            lambda support, T: 1 - _relaxed(support, T),
            "The other way round: support vectors of the head keep the right-hand side 1, the others get 0.",
        ),
        Misconception(
            lambda support, T: np.tile(np.asarray(support, dtype=float), T - 1),
            "Rows are ordered by sequence: each sequence's number serves T - 1 rows in a row (np.repeat).",
        ),
        Misconception(
            lambda support, T: np.repeat(np.asarray(support, dtype=float), T),
            "A sequence has T - 1 comparisons, one with each token but the selected one.",
        ),
        Misconception(
            lambda support, T: np.asarray(support, dtype=float),
            "That is one number for each sequence. The SVM has T - 1 rows for each.",
        ),
        Misconception(
            lambda support, T: np.ones(np.sum(support) * (T - 1)),
            "Do not drop the other rows: they stay, with right-hand side 0.",
        ),
        Misconception(
            lambda support, T: 2 * _relaxed(support, T) - 1,
            "The other sequences must not turn away from their token either: their right-hand side is 0.",
        ),
        Misconception(
            lambda support, T: np.ones(len(support) * (T - 1)),
            "That is the tight problem. Sequences that are no support vectors have right-hand side 0.",
        ),
    ],
)


# --------------------------------------------------------------------------- 09.4 in between
def _sides(u, kappa):
    return np.maximum(0, 1 - kappa * (u - 1))


def _side_cases(rng):
    cases = []
    for n, kappa in ((5, 0.8), (4, 0.5), (6, 1.7)):
        u = 1 + np.r_[0, 0.3 / kappa, 1.6 / kappa, rng.uniform(0.1, 2.5, size=n - 3) / kappa]
        cases.append((rng.permutation(u), kappa))
    return cases


SIDES = Exercise(
    id="09.4",
    title="Between tight and relaxed",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_sides,
    cases=_side_cases,
    misconceptions=[
        Misconception(
            lambda u, kappa: 1 - kappa * (u - 1),
            "No right-hand side is below 0: a sequence that turned away from its token would be the worst.",
        ),
        Misconception(
            lambda u, kappa: np.maximum(0, 1 - kappa * u),
            "Only the part of the margin beyond 1 helps: a support vector, u = 1, keeps its 1.",
        ),
        Misconception(
            lambda u, kappa: np.maximum(0, 1 - (u - 1) / kappa),
            "A larger kappa means a longer head, which frees the sequences sooner: multiply u - 1 by kappa.",
        ),
        Misconception(
            lambda u, kappa: np.maximum(0, 1 - (u - 1)),
            "kappa is missing. For kappa = 0 every right-hand side is 1, the tight problem.",
        ),
        Misconception(
            lambda u, kappa: np.exp(-kappa * (u - 1)),
            "That is the weight of the force. The right-hand side compares exponents: 1 - kappa (u - 1).",
        ),
        Misconception(
            lambda u, kappa: 1 + kappa * (u - 1),
            "The other way round: a sequence with margin to spare needs less of a lead, not more.",
        ),
        Misconception(
            lambda u, kappa: np.isclose(u, 1).astype(float),
            "That is the relaxed problem, the limit of large kappa. In between a right-hand side can be 0.3.",
        ),
    ],
)


# --------------------------------------------------------------------------- 09.5 the slow prompt
def _later(j, j0, m0):
    return m0 + 2 * np.log(np.log(j) / np.log(j0))


LATER = Exercise(
    id="09.5",
    title="The lead after j steps",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_later,
    cases=lambda rng: [
        (j0 * 10 ** rng.uniform(2, 8), j0, m0) for j0, m0 in ((1e3, 2.5), (1e4, 3.0), (500.0, 4.0))
    ],
    misconceptions=[
        Misconception(
            lambda j, j0, m0: m0 + np.log(j / j0),
            "That is the law for a fixed head (lesson 06). Here m follows 2 log r, and r follows log j.",
        ),
        Misconception(
            lambda j, j0, m0: m0 + 2 * np.log(j / j0),
            "You put the number of steps where the norm of the head belongs: r is in proportion to log j.",
        ),
        Misconception(
            lambda j, j0, m0: m0 + np.log(np.log(j) / np.log(j0)),
            "The factor 2 is missing: exp(m) grows as the square of r.",
        ),
        Misconception(
            lambda j, j0, m0: 2 * np.log(np.log(j)),
            "You dropped the constant. It follows from the lead m0 at step j0: subtract the two laws.",
        ),
        Misconception(
            lambda j, j0, m0: m0 + 2 * np.log(np.log(j)),
            "At j = j0 your answer is not m0: subtract 2 log log j0.",
        ),
        Misconception(
            lambda j, j0, m0: m0 + 2 * np.log(np.log(j / j0)),
            "log j - log j0 is not log j / log j0. The lead depends on the ratio of the two norms r / r0.",
        ),
        Misconception(
            lambda j, j0, m0: m0 * (np.log(j) / np.log(j0)) ** 2,
            "It is exp(m) that grows with the square of r, not m.",
        ),
        Misconception(
            lambda j, j0, m0: m0 + 2 * np.log10(np.log10(j) / np.log10(j0)),
            "The logarithm is the natural one: np.log.",
        ),
    ],
)

EXERCISES = [GRADIENT, SUPPORT, RELAXED, SIDES, LATER]
