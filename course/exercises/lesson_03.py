"""Exercises of lesson 03: the optimiser picks the norm."""

import numpy as np

from course.specification import Compare, Exercise, Misconception

# 03.1


def steepest_steps(g):
    """The steps of length one that decrease g.v most, in the l_1, l_2 and l_inf norm, shape (3, d)."""
    k = np.abs(g).argmax()
    coordinate = np.zeros_like(g)
    coordinate[k] = -np.sign(g[k])
    return np.stack([coordinate, -g / np.linalg.norm(g), -np.sign(g)])


def _with_row(row, change):
    """The right steps with one row computed otherwise."""

    def wrong(g):
        steps = steepest_steps(g)
        steps[row] = change(g)
        return steps

    return wrong


def _first(value, pick=np.abs):
    """The right steps, but the first row is value(g_k) in the coordinate k where pick(g) is largest."""
    return _with_row(0, lambda g: np.where(np.arange(len(g)) == pick(g).argmax(), value(g), 0.0))


def _unscaled(g):
    lengths = np.array([np.abs(g).max(), np.linalg.norm(g), np.abs(g).sum()])
    return steepest_steps(g) * lengths[:, None]


def step_cases(rng):
    cases = [(np.array([1.5, -4.0, 0.5]),)]
    for d, largest in ((2, 4.0), (4, -4.0), (6, 4.0)):
        g = rng.uniform(0.1, 2, d) * rng.choice([-1.0, 1.0], d)
        g[1] = largest
        cases.append((g,))
    return cases


STEEPEST = [
    Misconception(lambda g: -steepest_steps(g), "These steps go uphill: a downhill step has g.v < 0."),
    Misconception(lambda g: steepest_steps(g)[::-1], "The order is turned round: first l_1, last l_inf."),
    Misconception(
        _first(lambda g: -1.0, pick=np.array),
        "Your coordinate is that of the largest entry of g; take the largest absolute value.",
    ),
    Misconception(
        _first(lambda g: -1.0),
        "The first row moves down its coordinate whatever the sign of g there: where g < 0, move up.",
    ),
    Misconception(
        _first(np.sign),
        "The first row goes uphill: mind the sign of g in the chosen coordinate.",
    ),
    Misconception(
        _first(np.negative), "The first row has the right direction, but length |g_k|; make it one."
    ),
    Misconception(
        _with_row(0, lambda g: -g / np.abs(g).sum()),
        "The first row is -g made one long in l_1. It has the right length, but another step of that length "
        "decreases g.v more: spend all of it on one coordinate.",
    ),
    Misconception(_with_row(1, np.negative), "The middle row is -g; divide it by its Euclidean length."),
    Misconception(_unscaled, "The rows must have length one in their own norm."),
    Misconception(
        lambda g: np.stack([*_unscaled(g)[:2], -np.sign(g)]), "The first two rows must have length one."
    ),
    Misconception(
        lambda g: np.stack([-g, -g, -g]), "All rows are -g. Each must have length one in its own norm."
    ),
    Misconception(
        _with_row(2, lambda g: -g / np.abs(g).max()),
        "The last row is -g made one long in l_inf. Every coordinate may move by one.",
    ),
    Misconception(
        lambda g: np.stack([-g / np.linalg.norm(g, p) for p in (1, 2, np.inf)]),
        "All rows point along -g. In l_1 and l_inf other steps of length one decrease g.v more.",
    ),
]

# 03.2


def dual_exponent(p):
    """q with 1/p + 1/q = 1."""
    return np.inf if p == 1 else 1.0 if p == np.inf else p / (p - 1)


def certify(w, lam, A, p):
    """(margin of w in the l_p norm, upper bound on every such margin), two numbers."""
    return (A @ w).min() / np.linalg.norm(w, p), np.linalg.norm(lam @ A, dual_exponent(p)) / lam.sum()


def _bounds(lower=None, upper=None):
    def wrong(w, lam, A, p):
        with np.errstate(all="ignore"):
            parts = zip((lower, upper), certify(w, lam, A, p), strict=True)
            return tuple(part(w, lam, A, p) if part else right for part, right in parts)

    return wrong


def _dual(order):
    return _bounds(upper=lambda w, lam, A, p: np.linalg.norm(lam @ A, order(p)) / lam.sum())


def certify_cases(rng):
    cases = []
    for p, d in ((1, 3), (np.inf, 3), (3.0, 4), (1.5, 2), (2, 3)):
        A = rng.normal(size=(5, d)) + 0.8
        cases.append((rng.uniform(0.5, 3, d), rng.uniform(0.2, 2, 5), A, p))
    return cases


BOUNDS = [
    Misconception(_dual(lambda p: p), "The first is right; the second needs the dual norm, 1/p + 1/q = 1."),
    Misconception(_dual(lambda p: 2), "The first is right; the second is Euclidean. Take the dual norm."),
    Misconception(
        _dual(lambda p: p / (p - 1)),
        "For p = 1 the dual norm is l_inf, for p = inf it is l_1: treat them apart.",
    ),
    Misconception(
        _dual(lambda p: np.inf if p == 1 else p / (p - 1)),
        "Right unless p is infinite: there 1/p = 0, so q = 1 (p / (p - 1) is not a number).",
    ),
    Misconception(
        lambda w, lam, A, p: certify(w, lam, A, dual_exponent(p)),
        "The two norms are exchanged: w is measured in l_p, sums of signed points in the dual norm.",
    ),
    Misconception(
        lambda w, lam, A, p: certify(w, lam, A, 2),
        "Both numbers are the Euclidean ones of lesson 02: use the l_p norm of w, and the dual norm.",
    ),
    Misconception(
        _bounds(lower=lambda w, lam, A, p: (A @ w).min() / np.linalg.norm(w)),
        "The second number is right. Divide the first by the l_p norm of w, not its Euclidean length.",
    ),
    Misconception(
        _bounds(lower=lambda w, lam, A, p: (A @ w).min()), "The first grows with w; divide by its l_p norm."
    ),
    Misconception(
        _bounds(upper=lambda w, lam, A, p: np.linalg.norm(lam @ A, dual_exponent(p))),
        "The first number is right. The second grows with the weights; divide by their sum.",
    ),
    Misconception(
        _bounds(upper=lambda w, lam, A, p: lam @ np.linalg.norm(A, dual_exponent(p), axis=1) / lam.sum()),
        "The first number is right. In the second, add up first and take the norm last: vectors can cancel.",
    ),
]

# 03.3


def mirror_step(w, g, eta, p):
    """One normalised mirror descent step with psi(w) = (1/p) sum |w_j|^p, shape (d,)."""
    z = np.sign(w) * np.abs(w) ** (p - 1) - eta * g / np.linalg.norm(g, p / (p - 1))
    return np.sign(z) * np.abs(z) ** (1 / (p - 1))


def _mirror(into, length, back, sign=-1):
    def wrong(w, g, eta, p):
        with np.errstate(all="ignore"):
            return back(into(w, p) + sign * eta * g / length(g, p), p)

    return wrong


def _into(w, p):
    return np.sign(w) * np.abs(w) ** (p - 1)


def _length(g, p):
    return np.linalg.norm(g, p / (p - 1))


def _back(z, p):
    return np.sign(z) * np.abs(z) ** (1 / (p - 1))


def mirror_cases(rng):
    cases = [(np.array([2.0, -1.0, 0.5]), np.array([-1.0, 2.0, 3.0]), 0.5, 3.0)]
    for p, d in ((1.5, 3), (4.0, 2), (1.2, 4), (2.0, 3)):
        w = rng.uniform(0.3, 1.5, d) * rng.choice([-1.0, 1.0], d)
        w[0] = -abs(w[0])
        cases.append((w, rng.normal(size=d) * rng.uniform(0.5, 3), rng.uniform(0.3, 2), p))
    return cases


MIRROR = [
    Misconception(
        _mirror(lambda w, p: w ** (p - 1), _length, _back),
        "The signs of w are lost on the way in: w ** (p - 1) is right for positive entries only.",
    ),
    Misconception(
        _mirror(_into, _length, lambda z, p: z ** (1 / (p - 1))),
        "A root of a negative number is not a number: take the root of |z|, and give it the sign of z.",
    ),
    Misconception(
        _mirror(_into, _length, lambda z, p: np.abs(z) ** (1 / (p - 1))),
        "The signs are lost on the way back: give the root of |z| the sign of z.",
    ),
    Misconception(_mirror(_into, _length, lambda z, p: z), "This is z itself; map it back to w."),
    Misconception(
        _mirror(_into, _length, _into),
        "On the way back you took the power p - 1 again; its inverse is the power 1 / (p - 1).",
    ),
    Misconception(
        _mirror(lambda w, p: w, _length, lambda z, p: z), "This moves w itself; step in z = grad psi(w)."
    ),
    Misconception(
        _mirror(lambda w, p: w, lambda g, p: np.linalg.norm(g), lambda z, p: z),
        "This is a step of normalised GD, right for p = 2 only. First map w to z = grad psi(w), then move.",
    ),
    Misconception(
        _mirror(lambda w, p: w ** (p - 1), _length, lambda z, p: z ** (1 / (p - 1))),
        "Powers lose the signs, or are not numbers: both ways, take the power of |.| and put the sign back.",
    ),
    Misconception(
        _mirror(lambda w, p: np.abs(w) ** (p - 1), _length, lambda z, p: np.abs(z) ** (1 / (p - 1))),
        "The signs are lost, of w on the way in and of z on the way back: multiply by np.sign.",
    ),
    Misconception(_mirror(_into, _length, _back, sign=1), "The step goes uphill: subtract the gradient."),
    Misconception(
        _mirror(_into, lambda g, p: np.linalg.norm(g, p), _back),
        "You divided g by its l_p norm. It lives with z, in the dual space: use l_q, q = p / (p - 1).",
    ),
    Misconception(
        _mirror(_into, lambda g, p: np.linalg.norm(g), _back), "Divide g by the dual norm, not the Euclidean."
    ),
    Misconception(_mirror(_into, lambda g, p: 1.0, _back), "Normalise: divide the gradient by its l_q norm."),
]

# 03.4


def spectral_step(G):
    """-U V^T for the singular value decomposition G = U S V^T, shape of G."""
    U, _, Vt = np.linalg.svd(G, full_matrices=False)
    return -U @ Vt


def spectral_cases(rng):
    return [(rng.normal(size=shape),) for shape in ((2, 3), (3, 3), (5, 3), (4, 4))]


SPECTRAL = [
    Misconception(lambda G: -spectral_step(G), "This goes uphill: the product with G must be negative."),
    Misconception(
        lambda G: -np.linalg.svd(G, full_matrices=False)[0] @ np.linalg.svd(G, full_matrices=False)[2].T,
        "numpy's third factor is already V^T: transpose nothing.",
    ),
    Misconception(
        lambda G: -np.linalg.svd(G)[0] @ np.linalg.svd(G)[2],
        "Use full_matrices=False: otherwise the factors of a matrix that is not square do not fit together.",
    ),
    Misconception(
        lambda G: -G / np.linalg.norm(G, 2), "This only scales -G. Lift all singular values to one."
    ),
    Misconception(lambda G: -G / np.linalg.norm(G), "This is -G over its Frobenius norm, the step of NGD."),
    Misconception(
        lambda G: -np.outer(np.linalg.svd(G)[0][:, 0], np.linalg.svd(G)[2][0]),
        "You kept one singular value: the step in the nuclear norm. Lift all of them to one.",
    ),
    Misconception(lambda G: -np.sign(G), "This is the sign of each entry: steepest in the max-norm."),
    Misconception(lambda G: -G, "This is -G: the singular values are still in. Set them all to one."),
]

# 03.5

COEFFICIENTS = 3.4445, -4.7750, 2.0315


def newton_schulz(G, steps):
    """Muon's approximation of U V^T: an odd polynomial, applied `steps` times to G / ||G||_F."""
    return _iterate(G, steps)


def _iterate(G, steps, length=np.linalg.norm, coefficients=COEFFICIENTS, product=lambda X: X @ X.T):
    a, b, c = coefficients
    with np.errstate(all="ignore"):
        X = G / length(G)
        for _ in range(steps):
            S = product(X)
            X = a * X + (b * S + c * S @ S) @ X
    return X


def _entrywise(G, steps):
    a, b, c = COEFFICIENTS
    X = G / np.linalg.norm(G)
    for _ in range(steps):
        X = a * X + b * X**3 + c * X**5
    return X


def muon_cases(rng):
    shapes = ((2, 3), 2), ((3, 3), 1), ((4, 3), 5), ((3, 5), 3)
    return [(rng.normal(size=shape), steps) for shape, steps in shapes]


MUON = [
    Misconception(
        lambda G, steps: _iterate(G, steps, length=lambda G: 1.0), "Divide G by its Frobenius norm first."
    ),
    Misconception(
        lambda G, steps: _iterate(G, steps, length=lambda G: np.linalg.norm(G, 2)),
        "You divided by the spectral norm, which costs an SVD to know. Divide by the Frobenius norm.",
    ),
    Misconception(
        _entrywise,
        "You took powers of the entries. The polynomial acts on singular values: use matrix products.",
    ),
    Misconception(
        lambda G, steps: _iterate(G, steps, coefficients=(3.4445, -4.7750 + 2.0315, 0.0)),
        "The last term is of fifth order: c (X X^T)(X X^T) X, with the product X X^T twice.",
    ),
    Misconception(
        lambda G, steps: _iterate(G, 1), "You applied the polynomial once; apply it `steps` times."
    ),
    Misconception(
        lambda G, steps: _iterate(G, 5), "Five steps are Muon's habit; here apply `steps` of them."
    ),
    Misconception(
        lambda G, steps: _iterate(G, steps, product=lambda X: X.T @ X),
        "To the left of X stands X X^T. With X^T X the product goes to the right: X (X^T X).",
    ),
    Misconception(lambda G, steps: -_iterate(G, steps), "The sign is turned: here approximate +U V^T."),
    Misconception(
        lambda G, steps: -spectral_step(G),
        "This is U V^T itself. Return what the polynomial makes of G in the given number of steps.",
    ),
]

MATRICES = Compare(rtol=1e-6, atol=1e-8)

EXERCISES = [  # id, title, points, minutes, difficulty
    Exercise("03.1", "Three steepest steps", 2, 8, 1, steepest_steps, step_cases, misconceptions=STEEPEST),
    Exercise("03.2", "Two bounds in any norm", 2, 8, 2, certify, certify_cases, misconceptions=BOUNDS),
    Exercise("03.3", "A mirror step", 2, 10, 2, mirror_step, mirror_cases, misconceptions=MIRROR),
    Exercise("03.4", "The spectral step", 2, 6, 2, spectral_step, spectral_cases, MATRICES, SPECTRAL),
    Exercise("03.5", "Muon's shortcut", 2, 10, 2, newton_schulz, muon_cases, MATRICES, MUON),
]
