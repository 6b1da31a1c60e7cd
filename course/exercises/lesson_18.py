"""Exercises of lesson 18: the controls of a measurement, and a certificate."""

import numpy as np
from scipy.optimize import nnls

from course.check.specification import Compare, Exercise, known


# --------------------------------------------------------------------------- 18.1 what a selection gives back
def _given_by(
    centre=lambda c: c - c.mean(1, keepdims=True),
    gain=lambda c: c.max(1).sum(),
    size=np.linalg.norm,
    one=lambda T: 1 - 1 / T,
):
    """An answer from how coefficients are centred, the inner product, the length of W, and that of a part."""

    def answer(c):
        T, c = len(c), centre(c)
        return float(gain(c) / (size(c) * np.sqrt(T * one(T))))

    return answer


_given = _given_by()


def _second(c):
    return np.sort(c, axis=1)[:, -2]


GIVEN = Exercise(
    id="18.1",
    title="What a selection gives back",
    points=3,
    minutes=20,
    difficulty=3,
    reference=_given,
    cases=lambda rng: [
        (rng.normal(size=(T, T)) * scale + shift,)
        for T, scale, shift in ((3, 1.0, 0.0), (4, 2.0, 0.7), (6, 0.5, -0.4), (9, 1.0, 0.3))
    ],
    compare=Compare(rtol=1e-6, atol=1e-9),
    misconceptions=known(
        _given_by(centre=lambda c: c),
        "Take the mean over the tokens off first, for each position.",
        _given_by(centre=lambda c: c - c.mean(0)),
        "c has the position before the token: the mean is over the last axis.",
        _given_by(centre=lambda c: c - c.mean()),
        "Each position has a mean of its own.",
        _given_by(one=lambda T: 1.0),
        "The SVM's part of a position is not x_alpha alone: the other tokens go down, all alike.",
        _given_by(one=lambda T: 1 + 1 / T),
        "The length of x_alpha - mean: the selected token is in the mean, too.",
        _given_by(one=lambda T: 1 + 1 / (T - 1)),
        "That is x_alpha minus the mean of the *others*: its inner product with W is larger, too.",
        _given_by(gain=lambda c: c.max(1).mean()),
        "Add up over the positions: each of them has a part of its own in the SVM.",
        _given_by(gain=lambda c: c.max(0).sum()),
        "A position selects its largest token: the largest of each row of c, not of each column.",
        _given_by(gain=lambda c: len(c) * c.max()),
        "Each position selects its own largest, not all of them the largest of all.",
        _given_by(gain=lambda c: np.take_along_axis(c, np.abs(c).argmax(1)[:, None], 1).sum()),
        "A position selects the largest logit, with its sign: the argmax of c, not of its size.",
        _given_by(gain=lambda c: np.abs(c).max(1).sum()),
        "The largest logit, with its sign; not the largest size.",
        _given_by(gain=lambda c: (c.max(1) - _second(c)).sum()),
        "The SVM asks for a lead over *all* other tokens alike, not over the second best of W.",
        _given_by(gain=lambda c: np.sqrt((c.max(1) ** 2).sum())),
        "An inner product adds the largest entries, not their squares.",
        _given_by(size=lambda c: np.abs(c).sum()),
        "The length of W is the root of the sum of squares of its entries.",
        _given_by(size=lambda c: np.square(c).sum()),
        "The length of W: take the root.",
        lambda c: float(_given(c) ** 2),
        "A cosine, not its square.",
        lambda c: float(
            np.mean([r.max() / np.linalg.norm(r) for r in c - c.mean(1, keepdims=True)])
            / np.sqrt(1 - 1 / len(c))
        ),
        "One cosine of the whole matrices, not a mean over positions: the parts of W differ in length.",
        lambda c: float(_given(c) * np.sqrt(len(c) * (1 - 1 / len(c)))),
        "Divide by the length of the SVM's solution, too.",
        lambda c: float(_given(c) / np.sqrt(len(c))),
        "The number of positions counts once: in the length of the SVM's solution.",
        lambda c: float(_given(c) * np.sqrt(len(c))),
        "Each position adds to the length of the SVM's solution, too: by the root of their number.",
        _given_by(gain=lambda c: -c.min(1).sum()),
        "The position selects the largest logit, not the smallest.",
        lambda c: 1.0,
        "W is not the SVM's solution: it only selects what that was fitted to.",
    ),
    withheld=("mini_attn.svm.soft.solve_soft",),
)


# --------------------------------------------------------------------------- 18.2 a rival that moves alike
def _pairs(K, Q, M, far):
    """K' = M Q and Q' = M^T K: a linear flow with a symmetric matrix."""
    d, m = K.shape
    rates, U = np.linalg.eigh(np.block([[np.zeros((d, d)), M], [M.T, np.zeros((d, d))]]))
    begin = U.T @ np.vstack([K, Q])

    def moved(t):
        both = U @ (np.exp(rates * t)[:, None] * begin)
        return (both[:d] @ both[d:].T - K @ Q.T) / np.sqrt(m)

    low, high = 0.0, 1.0
    while np.linalg.norm(moved(high)) < far:
        high *= 2
    for _ in range(60):
        t = (low + high) / 2
        low, high = (t, high) if np.linalg.norm(moved(t)) < far else (low, t)
    return moved(high)


def _flow_by(
    slopes=lambda K, Q, M: (M @ Q, M.T @ K),
    moved=lambda K, Q, K_0, Q_0: (K @ Q.T - K_0 @ Q_0.T) / np.sqrt(K.shape[1]),
    reached=lambda K, Q, K_0, Q_0, gone: np.linalg.norm(gone),
    steps=25,
):
    """Midpoint steps along other slopes, until something else has reached `far`."""

    def answer(K, Q, M, far):
        K_0, Q_0, so_far, gone = K, Q, 0.0, moved(K, Q, K, Q)
        size, h = 1e-3 / (1e-9 + np.hypot(*map(np.linalg.norm, slopes(K, Q, M)))), None
        for _ in range(20 * steps):
            a, b = slopes(K, Q, M)
            h = size if h is None else h
            a, b = slopes(K + h / 2 * a, Q + h / 2 * b, M)
            K_next, Q_next = K + h * a, Q + h * b
            gone_next = moved(K_next, Q_next, K_0, Q_0)
            here = reached(K_next, Q_next, K_0, Q_0, gone_next)
            if here >= far:
                share = (far - so_far) / (here - so_far)
                return gone + share * (gone_next - gone)
            pace = max(abs(here - so_far) / h, 1e-3)
            K, Q, gone, so_far, h = K_next, Q_next, gone_next, here, far / steps / pace
        return gone

    return answer


def _unit(x):
    return x / np.linalg.norm(x)


def _one_step(K, Q, M, far):
    """The movement of a single step, of the length that moves W by `far`."""
    first, second = M @ Q @ Q.T + K @ K.T @ M, M @ Q @ K.T @ M
    low, high = 0.0, 1e3
    for _ in range(60):
        h = (low + high) / 2
        moved = (h * first + h * h * second) / np.sqrt(K.shape[1])
        low, high = (h, high) if np.linalg.norm(moved) < far else (low, h)
    return moved


def _whole(K, Q, M, far):
    return _pairs(K, Q, M, far) + K @ Q.T / np.sqrt(K.shape[1])


def _pairs_cases(rng):
    """Far enough that K and Q change on the way; one column first, then two and three, K and Q unequal."""
    cases = [
        (np.array([[1.0], [0.0]]), np.array([[0.5], [-1.0]]), np.array([[0.6, 0.0], [-0.64, 0.48]]), 3.0)
    ]
    for d, m in ((4, 2), (5, 3), (6, 2)):
        K, Q = rng.normal(size=(2, d, m))
        K = K * rng.uniform(1.5, 2.0)
        M = _unit(rng.normal(size=(d, d)))
        cases.append((K, Q, M, float(rng.uniform(2.0, 3.0) * np.linalg.norm(K @ Q.T) / np.sqrt(m))))
    return cases


PAIRS = Exercise(
    id="18.2",
    title="Keys and queries that nobody trained",
    points=3,
    minutes=15,
    difficulty=2,
    reference=_pairs,
    cases=_pairs_cases,
    compare=Compare(rtol=1e-2, atol=0),
    withheld=("course.replicate.lesson_18.moved_by_slopes",),
    misconceptions=known(
        lambda K, Q, M, far: far * M,
        "That is a free W. K and Q move, and W follows them.",
        lambda K, Q, M, far: far * _unit(M @ Q @ Q.T + K @ K.T @ M),
        "That is the direction at the start. K and Q change on the way, and with them where W goes.",
        _one_step,
        "That is one long step of K and Q. Take many short ones, with new slopes at each.",
        _flow_by(slopes=lambda K, Q, M: (M @ Q, 0 * Q)),
        "Q moves, too.",
        _flow_by(slopes=lambda K, Q, M: (0 * K, M.T @ K)),
        "K moves, too.",
        _flow_by(slopes=lambda K, Q, M: (M.T @ Q, M @ K)),
        "M is the wrong way round: <M, dK Q^T> = <M Q, dK>, and <M, K dQ^T> = <M^T K, dQ>.",
        _flow_by(slopes=lambda K, Q, M: (M @ Q, M @ K)),
        "For Q it is the transpose: <M, K dQ^T> = <M^T K, dQ>.",
        _flow_by(slopes=lambda K, Q, M: (M.T @ Q, M.T @ K)),
        "For K it is M itself: <M, dK Q^T> = <M Q, dK>.",
        _flow_by(slopes=lambda K, Q, M: (M @ K, M.T @ Q)),
        "The slope in K has Q in it, and the other way round.",
        _flow_by(slopes=lambda K, Q, M: (-M @ Q, -M.T @ K)),
        "M is the pull, minus the slope of the loss: descent goes along +M.",
        _flow_by(slopes=lambda K, Q, M: (M @ Q, -M.T @ K)),
        "Both go along M: check the sign of Q's slope.",
        _flow_by(slopes=lambda K, Q, M: (_unit(M @ Q), _unit(M.T @ K))),
        "Each slope has a length of its own: do not normalise them apart.",
        _flow_by(slopes=lambda K, Q, M: ((M + M.T) @ Q / 2, (M + M.T) @ K / 2)),
        "M is not symmetric: K goes along M Q, Q along M^T K.",
        lambda K, Q, M, far: _pairs(K, Q, M, far / np.sqrt(K.shape[1])),
        "W has a factor 1/sqrt(m), once.",
        lambda K, Q, M, far: np.sqrt(K.shape[1]) * _pairs(K, Q, M, far),
        "W = K Q^T / sqrt(m): what you return lacks the root.",
        _flow_by(moved=lambda K, Q, K_0, Q_0: K @ Q.T - K_0 @ Q_0.T),
        "W = K Q^T / sqrt(m): the root is missing.",
        _whole,
        "That is W itself at the end. Return how it has moved: take W_0 off.",
        lambda K, Q, M, far: _unit(_pairs(K, Q, M, far)),
        "That has the length 1: W has moved by `far`.",
        lambda K, Q, M, far: far * _unit(_whole(K, Q, M, far)),
        "The movement is W - W_0, not a multiple of W.",
        _flow_by(
            reached=lambda K, Q, K_0, Q_0, gone: np.hypot(np.linalg.norm(K - K_0), np.linalg.norm(Q - Q_0))
        ),
        "`far` is how far W has moved, not K and Q.",
        _flow_by(
            reached=lambda K, Q, K_0, Q_0, gone: (
                (np.linalg.norm(K @ Q.T) - np.linalg.norm(K_0 @ Q_0.T)) / np.sqrt(K.shape[1])
            )
        ),
        "`far` is the length of W - W_0, not by how much W has become longer.",
        _flow_by(reached=lambda K, Q, K_0, Q_0, gone: np.linalg.norm(K @ Q.T) / np.sqrt(K.shape[1])),
        "`far` is the length of W - W_0, not that of W.",
        _flow_by(reached=lambda K, Q, K_0, Q_0, gone: np.linalg.norm(gone, 2)),
        "The Frobenius norm of W - W_0, not its largest singular value.",
        lambda K, Q, M, far: far * _unit(K @ K.T @ M @ Q @ Q.T),
        "The columns of K may leave their span: M Q does not lie in it. dW = dK Q^T + K dQ^T is a sum.",
        lambda K, Q, M, far: _pairs(K, Q, M, far).T,
        "That is its transpose: W = K Q^T, not Q K^T.",
    ),
)


# --------------------------------------------------------------------------- 18.3 what LayerNorm prefers
def _on_cone(X, goal):
    """The coefficients, none below 0, of the point of the cone of the rows of X that is nearest to goal."""
    return nnls(X.T, goal)[0]


def _shares(c):
    return c / c.sum()


def _mixture(X, v, y):
    return _shares(_on_cone(X, y * v))


def _one(scores):
    return np.eye(len(scores))[scores.argmax()]


def _softmax(scores):
    e = np.exp(scores - scores.max())
    return e / e.sum()


def _least_squares(X, goal):
    return np.linalg.lstsq(X.T, goal, rcond=None)[0]


def _positive(c):
    return _shares(np.maximum(c, 0)) if (c > 0).any() else np.full(len(c), 1 / len(c))


def _lengths(X):
    return np.linalg.norm(X, axis=1)


def _in_the_hull(X, v, y):
    """The point of the hull nearest to y v: coefficients with sum one, held there by a heavy row."""
    return _shares(nnls(np.vstack([X.T, np.full(len(X), 1e4)]), np.append(y * v, 1e4))[0])


def _scoring(X, v, y):
    """Only the tokens that score above 0."""
    good = y * X @ v > 0
    s = np.zeros(len(X))
    s[good] = _mixture(X[good], v, y)
    return s


def _mixture_cases(rng):
    """Two tokens at a right angle, of two lengths; then some where a token that scores below 0 is used."""
    cases = [(np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.array([0.6, 0.5, -0.3]), 1)]
    for T, d, y in ((3, 4, 1), (4, 6, -1), (6, 8, -1)):
        while True:
            X = (rng.normal(size=(T, d)) + rng.normal(size=d)) * rng.uniform(0.5, 2, size=(T, 1))
            v = rng.normal(size=d)
            s, scores = _mixture(X, v, y) if (y * X @ v).max() > 0.1 else np.ones(T), y * X @ v
            used = s > 0.05
            if used.sum() >= max(2, T // 2) and (s == 0).any() and (used & (scores < -0.05)).any():
                break
        cases.append((X, v, y))
    return cases


MIXTURE = Exercise(
    id="18.3",
    title="What LayerNorm prefers",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_mixture,
    cases=_mixture_cases,
    compare=Compare(rtol=1e-3, atol=1e-6),
    misconceptions=known(
        lambda X, v, y: _one(y * X @ v),
        "That is the best single token. A mixture can point nearer to y v than every token.",
        lambda X, v, y: _one(y * X @ v / _lengths(X)),
        "That is the token at the smallest angle to y v. A mixture can have a smaller one.",
        lambda X, v, y: _softmax(y * X @ v),
        "That is a softmax of the scores. Which mixture points nearest to y v?",
        lambda X, v, y: _positive(y * X @ v),
        "Scores are the coefficients for orthonormal tokens only: these are at other angles to each other.",
        lambda X, v, y: _positive(y * X @ v / _lengths(X) ** 2),
        "That is right for tokens at right angles: these are at other angles to each other.",
        lambda X, v, y: _positive(_least_squares(X, y * v)),
        "Coefficients that are cut off at 0 afterwards are not the best ones among those that stay above.",
        lambda X, v, y: _shares(_least_squares(X, y * v)),
        "Attention is never below 0: the nearest point of the cone, not of the span.",
        lambda X, v, y: _shares(_on_cone(X, v)),
        "For y = -1 the answer should point away from v.",
        lambda X, v, y: _mixture(X, v, -y) if (y * X @ v < 0).any() else _one(-y * X @ v),
        "That makes y f small. Check the sign.",
        lambda X, v, y: _on_cone(X, y * v),
        "These coefficients have the right ratios. Attention adds up to 1.",
        lambda X, v, y: _on_cone(X, y * v) / np.linalg.norm(_on_cone(X, y * v)),
        "Attention adds up to 1, not its squares.",
        lambda X, v, y: _shares(_mixture(X, v, y) ** 2),
        "The coefficients themselves, not their squares.",
        lambda X, v, y: _mixture(X - X.mean(1, keepdims=True), v, y),
        "You took its mean off each token. Take f as it is written, for any tokens.",
        lambda X, v, y: _mixture((X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True), v, y),
        "You normalised the tokens. LayerNorm acts on their mixture z: take f as it is written.",
        lambda X, v, y: _mixture(X / _lengths(X)[:, None], v, y),
        "Those are the coefficients of tokens of length one. Attention mixes the tokens as they are.",
        _in_the_hull,
        "That is the point of the *hull* nearest to y v. Only the direction counts: take the cone.",
        _scoring,
        "A token that scores below 0 may help: it can take off what another one has beside y v.",
        lambda X, v, y: np.full(len(X), 1 / len(X)),
        "That is even attention. Which mixture points nearest to y v?",
    ),
)


# --------------------------------------------------------------------------- 18.4 a bound for soft margins
def _bound_by(
    weights=lambda slack, C: slack,
    best=lambda one, two: one**2 / (2 * two),
    ridge=lambda C: 1 / C,
    slack=lambda lead: np.maximum(0, 1 - lead),
):
    """An answer from the direction of the weights, the best multiple of it, and the term of the slack."""

    def answer(A, w, C):
        lam = weights(slack(A @ w), C)
        one = lam.sum()
        two = (A.T @ lam) @ (A.T @ lam) + lam @ lam * ridge(C)
        return float(best(one, two)) if one > 0 else 0.0

    return answer


_bound = _bound_by()


def _bound_cases(rng):
    """Far from and near the best w, more rows than entries and fewer, contradictions, no slack at all."""
    cases = []
    sizes = (3, 2, 1.0, 0.0), (5, 3, 0.5, 0.4), (12, 2, 4.0, 0.3), (2, 4, 0.1, 0.2), (1, 1, 2.0, 0.1)
    for rows, d, C, scale in sizes:
        A, w = rng.normal(size=(rows, d)), scale * rng.normal(size=d)
        if rows > 4:
            A[1] = -A[0]
            w -= A[2] * (A[2] @ w - 3) / (A[2] @ A[2])  # row 2 has no slack
        cases.append((A, w, C))
    A = rng.normal(size=(3, 5)) + 0.1
    cases.append((A, np.linalg.lstsq(A, np.array([1.5, 2.0, 1.1]), rcond=None)[0], 1.0))
    cases.append((np.abs(rng.normal(size=(20, 2))) * [1, 0.01], np.array([0.05, 0.0]), 100.0))
    a = rng.uniform(0.5, 1.5)
    cases += [(np.array([[1.0]]), np.array([1 - slack]), 1.0) for slack in (5e-4, 1e-7)]  # .25, at any slack
    return [*cases, (np.array([[a]]), np.array([0.98 / a]), 0.1)]  # little slack, cheap: the best c is large


def _bound_of(two):
    """An answer from its own coefficient of the square of c."""

    def answer(A, w, C):
        lam = np.maximum(0, 1 - A @ w)
        return float(lam.sum() ** 2 / (2 * two(A, lam, C))) if lam.any() else 0.0

    return answer


def _length_of_w(A, w, C):
    slack = np.maximum(0, 1 - A @ w)
    size = w @ w + slack @ slack / C
    return float(slack.sum() ** 2 / (2 * size)) if slack.any() else 0.0


BOUND = Exercise(
    id="18.4",
    title="A bound for soft margins",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_bound,
    cases=_bound_cases,
    compare=Compare(rtol=1e-6, atol=0),
    misconceptions=known(
        _bound_by(weights=lambda slack, C: C * slack, best=lambda one, two: one - two / 2),
        "That is the bound of the weights lambda = C xi, r = C. Which r gives the largest?",
        _bound_by(weights=lambda slack, C: slack, best=lambda one, two: one - two / 2),
        "That is the bound of r = 1. Which r gives the largest?",
        _bound_by(best=lambda one, two: min(1, one / two) * one - min(1, one / two) ** 2 * two / 2),
        "r may be any number from 0 on: do not hold it below 1.",
        _bound_by(ridge=lambda C: 0.0),
        "The term of the slack is missing: minimising over xi leaves -lambda^2/(2C) for each row.",
        _bound_by(best=lambda one, two: one**2 / two),
        "A factor 2: r one - r^2 two/2 is largest at r = one/two.",
        _bound_by(best=lambda one, two: one / two),
        "That is the best r. Return the bound that it gives.",
        _bound_by(weights=lambda slack, C: (slack > 0).astype(float)),
        "The weights are in proportion to the slack, not equal.",
        lambda A, w, C: float(w @ w / 2 + C / 2 * (np.maximum(0, 1 - A @ w) ** 2).sum()),
        "That is the objective at w: an upper bound on the least one. Return a lower bound.",
        _bound_by(ridge=lambda C: C),
        "C is in the wrong place: where slack is expensive, C large, its term lambda^2/(2C) is small.",
        _bound_by(ridge=lambda C: 1.0),
        "The price C is forgotten: the term of the slack is lambda^2/(2C).",
        _bound_by(ridge=lambda C: 1 / (2 * C)),
        "Half of the slack's term is lost: with lambda = r xi it is r^2 |xi|^2/(2C), beside r^2 |v|^2/2.",
        _bound_by(ridge=lambda C: 2 / C),
        "Twice the slack's term: with lambda = r xi it is r^2 |xi|^2/(2C), beside r^2 |v|^2/2.",
        _bound_by(ridge=lambda C: 1 / C**2),
        "C counts once: the term of the slack is lambda^2/(2C).",
        _bound_by(best=lambda one, two: one**2 / (4 * two)),
        "A factor 2: at r = one/two the parabola r one - r^2 two/2 is one^2/(2 two).",
        _bound_by(best=lambda one, two: one / (2 * two)),
        "The sum of the slack is squared: r one with r = one/two.",
        _bound_by(slack=lambda lead: 1 - lead),
        "Slack is never negative: a row with a lead above 1 has none.",
        _bound_by(slack=lambda lead: np.maximum(0, lead - 1)),
        "Slack is what is missing to 1, not what is above it.",
        _bound_by(slack=lambda lead: np.maximum(0, -lead)),
        "The margin is 1: a lead between 0 and 1 has slack, too.",
        _bound_by(slack=lambda lead: np.maximum(0, 1 - np.abs(lead))),
        "A negative lead has a slack above 1: no absolute value.",
        _bound_by(weights=lambda slack, C: slack**2),
        "The weights are in proportion to the slack, not to its square.",
        _bound_by(weights=lambda slack, C: C * slack, best=lambda one, two: max(0.0, one - two / 2)),
        "lambda = C xi is one choice, r = C. Maximise over r instead of cutting off at 0.",
        _bound_of(lambda A, lam, C: ((A.T * lam) ** 2).sum() + lam @ lam / C),
        "The length of the sum of all lambda_j a_j, squared, not the sum of their squared lengths.",
        _bound_of(lambda A, lam, C: (lam @ A) @ (lam @ A) + lam.sum() ** 2 / C),
        "The last term is the sum of the squares of lambda_j, not the square of their sum.",
        _length_of_w,
        "|w|^2 is in the place of |sum of lambda_j A_j|^2: the two agree only where w solves the problem.",
        lambda A, w, C: _bound(A, w, C) if (A @ w < 1).any() else np.nan,
        "Without slack that is 0 / 0: return 0 then.",
    ),
    withheld=("mini_attn.svm.soft.solve_soft",),
)

EXERCISES = [GIVEN, PAIRS, MIXTURE, BOUND]
