"""Exercises of lesson 03: the optimiser picks the norm."""

import numpy as np

from course.check.specification import Compare, Exercise, known

# 03.1


def steepest_steps(g):
    """The steps of length one that decrease the loss most, in the l_1, l_2 and l_inf norm, shape (3, d)."""
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


STEEPEST = known(
    lambda g: -steepest_steps(g),
    "These steps go uphill: a downhill step has g @ step < 0.",
    lambda g: steepest_steps(g)[::-1],
    "The order is turned round: first l_1, last l_inf.",
    _first(lambda g: -1.0, pick=np.array),
    "Your coordinate is that of the largest entry of g; take the largest absolute value.",
    _first(lambda g: -1.0),
    "The first row moves down its coordinate whatever the sign of g there: where g < 0, move up.",
    _first(np.sign),
    "The first row goes uphill: mind the sign of g in the chosen coordinate.",
    _first(np.negative),
    "The first row has the right direction, but length |g_k|; make it one.",
    _with_row(0, lambda g: -g / np.abs(g).sum()),
    "The first row is -g made one long in l_1. Another step of that length goes down further: spend "
    "all of it on one coordinate.",
    _with_row(1, np.negative),
    "The middle row is -g; divide it by its Euclidean length.",
    _unscaled,
    "The rows must have length one in their own norm.",
    lambda g: np.stack([*_unscaled(g)[:2], -np.sign(g)]),
    "The first two rows must have length one.",
    lambda g: np.stack([-g, -g, -g]),
    "All rows are -g. Each must have length one in its own norm.",
    _with_row(2, lambda g: -g / np.abs(g).max()),
    "The last row is -g made one long in l_inf. Every coordinate may move by one.",
    lambda g: np.stack([-g / np.linalg.norm(g, p) for p in (1, 2, np.inf)]),
    "All rows point along -g. In l_1 and l_inf other steps of length one go down further.",
)

# 03.2


def dual_exponent(p):
    """p* with 1/p + 1/p* = 1."""
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


BOUNDS = known(
    _dual(lambda p: p),
    "The first is right; the second needs the dual norm, 1/p + 1/p* = 1.",
    _dual(lambda p: 2),
    "The first is right; the second is Euclidean. Take the dual norm.",
    _dual(lambda p: p / (p - 1)),
    "For p = 1 the dual norm is l_inf, for p = inf it is l_1: treat them apart.",
    _dual(lambda p: np.inf if p == 1 else p / (p - 1)),
    "Right unless p is infinite: there 1/p = 0, so p* = 1 (p / (p - 1) is not a number).",
    lambda w, lam, A, p: certify(w, lam, A, dual_exponent(p)),
    "The two norms are exchanged: w is measured in l_p, sums of signed points in the dual norm.",
    lambda w, lam, A, p: certify(w, lam, A, 2),
    "Both numbers are the Euclidean ones of lesson 02: use the l_p norm of w, and the dual norm.",
    _bounds(lower=lambda w, lam, A, p: (A @ w).min() / np.linalg.norm(w)),
    "The second number is right. Divide the first by the l_p norm of w, not its Euclidean length.",
    _bounds(lower=lambda w, lam, A, p: (A @ w).min()),
    "The first grows with w; divide by its l_p norm.",
    _bounds(upper=lambda w, lam, A, p: np.linalg.norm(lam @ A, dual_exponent(p))),
    "The first number is right. The second grows with the weights; divide by their sum.",
    _bounds(upper=lambda w, lam, A, p: lam @ np.linalg.norm(A, dual_exponent(p), axis=1) / lam.sum()),
    "The first number is right. In the second, add up first and take the norm last: vectors can cancel.",
)

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
    cases = [(np.array([2.0, -1.0, 0.0]), np.array([-1.0, 2.0, 3.0]), 0.5, 1.4)]
    for p, d in ((3.0, 3), (4.0, 2), (1.2, 4), (2.0, 3)):
        w = rng.uniform(0.3, 1.5, d) * rng.choice([-1.0, 1.0], d)
        w[0] = -abs(w[0])
        cases.append((w, rng.normal(size=d) * rng.uniform(0.5, 3), rng.uniform(0.3, 2), p))
    return cases


MIRROR = known(
    _mirror(lambda w, p: w ** (p - 1), _length, _back),
    "The signs of w are lost on the way in: w ** (p - 1) is right for positive entries only.",
    _mirror(_into, _length, lambda z, p: z ** (1 / (p - 1))),
    "A root of a negative number is not a number: take the root of |z|, and give it the sign of z.",
    _mirror(_into, _length, lambda z, p: np.abs(z) ** (1 / (p - 1))),
    "The signs are lost on the way back: give the root of |z| the sign of z.",
    _mirror(lambda w, p: w * np.abs(w) ** (p - 2), _length, _back),
    "Runs start at w = 0, where |w| ** (p - 2) is infinite if p < 2, and 0 times that is not a number. Use "
    "np.sign(w) * np.abs(w) ** (p - 1).",
    _mirror(_into, _length, lambda z, p: z),
    "This is z itself; map it back to w.",
    _mirror(_into, _length, _into),
    "On the way back you took the power p - 1 again; its inverse is the power 1 / (p - 1).",
    _mirror(lambda w, p: w, _length, lambda z, p: z),
    "This moves w itself; step in z = grad psi(w).",
    _mirror(lambda w, p: w, lambda g, p: np.linalg.norm(g), lambda z, p: z),
    "This is a step of normalised GD, right for p = 2 only. First map w to z = grad psi(w), then move.",
    _mirror(lambda w, p: w ** (p - 1), _length, lambda z, p: z ** (1 / (p - 1))),
    "Powers lose the signs, or are not numbers: both ways, take the power of |.| and put the sign back.",
    _mirror(lambda w, p: np.abs(w) ** (p - 1), _length, lambda z, p: np.abs(z) ** (1 / (p - 1))),
    "The signs are lost, of w on the way in and of z on the way back: multiply by np.sign.",
    _mirror(_into, _length, _back, sign=1),
    "The step goes uphill: subtract the gradient.",
    _mirror(_into, lambda g, p: np.linalg.norm(g, p), _back),
    "You divided g by its l_p norm. It lives with z, in the dual space: use l_p*, p* = p / (p - 1).",
    _mirror(_into, lambda g, p: np.linalg.norm(g), _back),
    "Divide g by the dual norm, not the Euclidean.",
    _mirror(_into, lambda g, p: 1.0, _back),
    "Normalise: divide the gradient by its l_p* norm.",
)

# 03.4


def spectral_step(G):
    """-U V^T for the singular value decomposition G = U S V^T, where S > 0: the shape of G."""
    U, sigma, Vt = np.linalg.svd(G, full_matrices=False)
    return -U @ np.diag(sigma > 1e-12 * sigma.max()) @ Vt


def spectral_cases(rng):
    """Like gradients of the cross-entropy, those of deficient rank have rows that add up to zero."""
    full = ((3, 4), True), ((5, 3), False), ((4, 3), True), ((2, 3), False), ((4, 4), True)
    return [(G - G.mean(axis=0) * flat,) for G, flat in ((rng.normal(size=shape), f) for shape, f in full)]


def _with_all(G):
    U, _, Vt = np.linalg.svd(G, full_matrices=False)
    return -U @ Vt


def _inverse(G):
    _, sigma, Vt = np.linalg.svd(G, full_matrices=False)
    return -G @ Vt.T @ np.diag(1 / sigma) @ Vt


SPECTRAL = known(
    _with_all,
    "Right where all singular values are positive. If one is zero (rounding makes it 1e-16), its column of U "
    "and row of V^T are arbitrary: leave them out.",
    _inverse,
    "Dividing by a singular value that is zero up to rounding blows the rounding up: leave such ones out.",
    lambda G: -_with_all(G),
    "This goes uphill: the product with G must be negative. And leave singular values of zero out.",
    lambda G: -spectral_step(G),
    "This goes uphill: the product with G must be negative.",
    lambda G: -np.linalg.svd(G, full_matrices=False)[0] @ np.linalg.svd(G, full_matrices=False)[2].T,
    "numpy's third factor is already V^T: transpose nothing.",
    lambda G: -np.linalg.svd(G)[0] @ np.linalg.svd(G)[2],
    "Use full_matrices=False: otherwise the factors of a matrix that is not square do not fit together.",
    lambda G: -G / np.linalg.norm(G, 2),
    "This only scales -G. Lift all singular values to one.",
    lambda G: -G / np.linalg.norm(G),
    "This is -G over its Frobenius norm, the step of NGD.",
    lambda G: -np.outer(np.linalg.svd(G)[0][:, 0], np.linalg.svd(G)[2][0]),
    "You kept one singular value: the step in the nuclear norm. Lift all of them to one.",
    lambda G: -np.sign(G),
    "This is the sign of each entry: steepest in the max-norm.",
    lambda G: -G,
    "This is -G: the singular values are still in. Set them all to one.",
)

# 03.5

COEFFICIENTS = 3.4445, -4.7750, 2.0315


def newton_schulz(G, steps):
    """Muon's approximation of U V^T: an odd polynomial, applied `steps` times to G / ||G||_F."""
    return _iterate(G, steps)


def _iterate(G, steps, length=np.linalg.norm, coefficients=COEFFICIENTS, product=lambda P: P @ P.T):
    first, third, fifth = coefficients
    with np.errstate(all="ignore"):
        P = G / length(G)
        for _ in range(steps):
            square = product(P)
            P = first * P + (third * square + fifth * square @ square) @ P
    return P


def _entrywise(G, steps):
    first, third, fifth = COEFFICIENTS
    P = G / np.linalg.norm(G)
    for _ in range(steps):
        P = first * P + third * P**3 + fifth * P**5
    return P


def muon_cases(rng):
    shapes = ((2, 3), 2), ((3, 3), 1), ((4, 3), 5), ((3, 5), 3)
    return [(rng.normal(size=shape), steps) for shape, steps in shapes]


MUON = known(
    lambda G, steps: _iterate(G, steps, length=lambda G: 1.0),
    "Divide G by its Frobenius norm first.",
    lambda G, steps: _iterate(G, steps, length=lambda G: np.linalg.norm(G, 2)),
    "You divided by the spectral norm, which costs an SVD to know. Divide by the Frobenius norm.",
    _entrywise,
    "You took powers of the entries. The polynomial acts on singular values: use matrix products.",
    lambda G, steps: _iterate(G, steps, coefficients=(3.4445, -4.7750 + 2.0315, 0.0)),
    "The last term is of fifth order, (P P^T)(P P^T) P, with the product P P^T twice.",
    lambda G, steps: _iterate(G, 1),
    "You applied the polynomial once; apply it `steps` times.",
    lambda G, steps: _iterate(G, 5),
    "Five steps are Muon's habit; here apply `steps` of them.",
    lambda G, steps: _iterate(G, steps, product=lambda P: P.T @ P),
    "To the left of P stands P P^T. With P^T P the product goes to the right: P (P^T P).",
    lambda G, steps: -_iterate(G, steps),
    "The sign is turned: here approximate +U V^T.",
    lambda G, steps: -_with_all(G),
    "This is U V^T itself. Return what the polynomial makes of G in the given number of steps.",
)

MATRICES = Compare(rtol=1e-6, atol=1e-8)

EXERCISES = [  # id, title, points, minutes, difficulty
    Exercise("03.1", "Three steepest steps", 2, 8, 1, steepest_steps, step_cases, misconceptions=STEEPEST),
    Exercise("03.2", "Two bounds in any norm", 2, 8, 2, certify, certify_cases, misconceptions=BOUNDS),
    Exercise("03.3", "A mirror step", 2, 10, 2, mirror_step, mirror_cases, misconceptions=MIRROR),
    Exercise("03.4", "The spectral step", 2, 8, 2, spectral_step, spectral_cases, MATRICES, SPECTRAL),
    Exercise("03.5", "Muon's shortcut", 2, 10, 2, newton_schulz, muon_cases, MATRICES, MUON),
]
