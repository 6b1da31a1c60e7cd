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
    cases = [(np.array([1.5, -6.0, 0.5]),)]  # 0.5 is small beside 6, but a slope
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


def dual_exponent(rho):
    """rho* with 1/rho + 1/rho* = 1."""
    return np.inf if rho == 1 else 1.0 if rho == np.inf else rho / (rho - 1)


def certify(w, lam, A, rho):
    """(margin of w in the l_rho norm, upper bound on every such margin), two numbers."""
    return (A @ w).min() / np.linalg.norm(w, rho), np.linalg.norm(lam @ A, dual_exponent(rho)) / lam.sum()


def _bounds(lower=None, upper=None):
    def wrong(w, lam, A, rho):
        with np.errstate(all="ignore"):
            parts = zip((lower, upper), certify(w, lam, A, rho), strict=True)
            return tuple(part(w, lam, A, rho) if part else right for part, right in parts)

    return wrong


def _entries(matrix, order):
    """numpy's norm of a matrix that should have been summed to a vector."""
    return np.linalg.norm(matrix, order if order in (1, 2, np.inf) else None)


def _dual(order):
    return _bounds(upper=lambda w, lam, A, rho: np.linalg.norm(lam @ A, order(rho)) / lam.sum())


def certify_cases(rng):
    """First, in four norms: w of both signs, a point of weight zero on the wrong side, a sum that cancels.

    The sum's largest entry is negative, the other nearly as large. rho is a float, so that every way to
    divide by rho - 1 = 0 ends in the same error.
    """
    w, lam = np.array([1.0, -2.0]), np.array([1.0, 1.0, 0.0])
    A = np.array([[2.98, 1.0], [-2.0, -2.0], [1.0, 1.0]])
    cases = [(w, lam, A, rho) for rho in (2.0, 1.0, np.inf, 3.0)]
    for rho, d in ((1.0, 3), (np.inf, 3), (3.0, 4), (1.5, 2), (2.0, 3)):
        A = rng.normal(size=(5, d)) + 0.8
        w = rng.uniform(0.5, 3, d) * rng.choice([-1.0, 1.0], d)
        cases.append((w, rng.uniform(0.2, 2, 5), A, rho))
    return cases


BOUNDS = known(
    _bounds(upper=lambda w, lam, A, rho: _entries(lam[:, None] * A, dual_exponent(rho)) / lam.sum()),
    "The first number is right. In the second, add up the lambda_i a_i before you take the norm.",
    _dual(lambda rho: rho),
    "The first is right; the second needs the dual norm, 1/rho + 1/rho* = 1.",
    _dual(lambda rho: 2),
    "The first is right; the second is Euclidean. Take the dual norm.",
    _dual(lambda rho: rho / (rho - 1)),
    "For rho = 1 the dual norm is l_inf, for rho = inf it is l_1: treat them apart.",
    _dual(lambda rho: np.inf if rho == 1 else rho / (rho - 1)),
    "Right unless rho is infinite: there 1/rho = 0, so rho* = 1 (rho / (rho - 1) is not a number).",
    lambda w, lam, A, rho: certify(w, lam, A, dual_exponent(rho)),
    "The two norms are exchanged: w is measured in l_rho, sums of signed points in the dual norm.",
    lambda w, lam, A, rho: certify(w, lam, A, 2),
    "Both numbers are the Euclidean ones of lesson 02: use the l_rho norm of w, and the dual norm.",
    _bounds(lower=lambda w, lam, A, rho: (A @ w).min() / np.linalg.norm(w)),
    "The second number is right. Divide the first by the l_rho norm of w, not its Euclidean length.",
    _bounds(lower=lambda w, lam, A, rho: (A @ w)[lam > 0].min() / np.linalg.norm(w, rho)),
    "The second number is right. The margin is the smallest over all points, those of weight zero too.",
    _bounds(lower=lambda w, lam, A, rho: np.abs(A @ w).min() / np.linalg.norm(w, rho)),
    "The second number is right. A margin keeps its sign: take no absolute value of a_i . w.",
    _bounds(lower=lambda w, lam, A, rho: (A @ w).min()),
    "The first grows with w; divide by its l_rho norm.",
    _bounds(upper=lambda w, lam, A, rho: np.linalg.norm(lam @ A, dual_exponent(rho))),
    "The first number is right. The second grows with the weights; divide by their sum.",
    _bounds(upper=lambda w, lam, A, rho: lam @ np.linalg.norm(A, dual_exponent(rho), axis=1) / lam.sum()),
    "The first number is right. In the second, add up first and take the norm last: vectors can cancel.",
)

# 03.3


def safe_steps(mu_hat, a_max, n, share):
    """(eta, t): constant steps with margin (1 - share) mu_hat guaranteed, of the fewest-steps length.

    The loss of margin is a_max^2 eta / 2 + log(n) / (eta t) <= share mu_hat; t is least where each term is
    half of it, at eta = share mu_hat / a_max^2.
    """
    return share * mu_hat / a_max**2, 2 * np.log(n) * (a_max / (share * mu_hat)) ** 2


def safe_cases(rng):
    cases = [(2.0, 6.0, 10, 0.1)]
    for _ in range(4):
        mu_hat = rng.uniform(0.3, 3)
        cases.append(
            (mu_hat, mu_hat * rng.uniform(1.5, 6), int(rng.integers(5, 300)), rng.uniform(0.02, 0.4))
        )
    return cases


def _safe(eta=None, t=None):
    """The answer with the length, eta(mu_hat, a_max, n, share), or the number of steps replaced."""

    def wrong(mu_hat, a_max, n, share):
        right = safe_steps(mu_hat, a_max, n, share)
        with np.errstate(all="ignore"):
            return (
                eta(mu_hat, a_max, n, share) if eta else right[0],
                t(mu_hat, a_max, n, share) if t else right[1],
            )

    return wrong


SAFE = known(
    lambda mu_hat, a_max, n, share: safe_steps(mu_hat, a_max, n, share)[::-1],
    "Return the length first, then the number of steps.",
    lambda mu_hat, a_max, n, share: safe_steps(1.0, a_max, n, share),
    "The share is one of mu_hat: the loss of margin may be share * mu_hat.",
    _safe(
        lambda mu, a, n, e: 2 * e * mu / a**2,
        lambda mu, a, n, e: np.inf,
    ),
    "With that length the first term uses up the whole loss of margin, and no number of steps is enough.",
    _safe(lambda mu, a, n, e: 2 * e * mu / a**2),
    "With that length the first term alone uses up the whole loss of margin. Share it between both terms.",
    _safe(t=lambda mu, a, n, e: np.log(n) * (a / (e * mu)) ** 2),
    "With your length the first term spends half of the loss of margin: log(n)/(eta t) may be the rest.",
    _safe(t=lambda mu, a, n, e: 4 * np.log(n) * (a / (e * mu)) ** 2),
    "Your length is right, but half as many steps do: solve a^2 eta/2 + log(n)/(eta t) = share mu_hat.",
    _safe(lambda mu, a, n, e: e * mu / a, lambda mu, a, n, e: 2 * np.log(n) * a / (e * mu) ** 2),
    "a_max enters squared: the theorem has a_max^2 eta / 2.",
    _safe(
        lambda mu, a, n, e: e * mu / (2 * a**2), lambda mu, a, n, e: 8 / 3 * np.log(n) * (a / (e * mu)) ** 2
    ),
    "That is enough, but a longer step needs fewer: minimise t over eta.",
    _safe(
        lambda mu, a, n, e: np.sqrt(2 * np.log(n)) / a,
        lambda mu, a, n, e: 2 * np.log(n) * (a / (e * mu)) ** 2,
    ),
    "The number of steps is right. The best length for t steps is sqrt(2 log(n) / t) / a_max.",
    _safe(t=lambda mu, a, n, e: 2 * n * (a / (e * mu)) ** 2),
    "In the theorem stands log n, not n.",
    _safe(t=lambda mu, a, n, e: 2 * np.log10(n) * (a / (e * mu)) ** 2),
    "The logarithm is the natural one: np.log.",
)

# 03.4


def mirror_step(w, g, eta, rho):
    """One normalised mirror descent step with psi(w) = (1/rho) sum |w_j|^rho, shape (d,)."""
    z = np.sign(w) * np.abs(w) ** (rho - 1) - eta * g / np.linalg.norm(g, rho / (rho - 1))
    return np.sign(z) * np.abs(z) ** (1 / (rho - 1))


def _mirror(into, length, back, sign=-1):
    def wrong(w, g, eta, rho):
        with np.errstate(all="ignore"):
            return back(into(w, rho) + sign * eta * g / length(g, rho), rho)

    return wrong


def _into(w, rho):
    return np.sign(w) * np.abs(w) ** (rho - 1)


def _length(g, rho):
    return np.linalg.norm(g, rho / (rho - 1))


def _back(z, rho):
    return np.sign(z) * np.abs(z) ** (1 / (rho - 1))


def mirror_cases(rng):
    cases = [(np.array([2.0, -1.0, 0.0]), np.array([-1.0, 2.0, 3.0]), 0.5, 1.4)]
    for rho, d in ((3.0, 3), (4.0, 2), (1.2, 4), (2.0, 3)):
        w = rng.uniform(0.3, 1.5, d) * rng.choice([-1.0, 1.0], d)
        w[0] = -abs(w[0])
        cases.append((w, rng.normal(size=d) * rng.uniform(0.5, 3), rng.uniform(0.3, 2), rho))
    return cases


MIRROR = known(
    _mirror(lambda w, rho: w ** (rho - 1), _length, _back),
    "The signs of w are lost on the way in: w ** (rho - 1) is right for positive entries only.",
    _mirror(_into, _length, lambda z, rho: z ** (1 / (rho - 1))),
    "A root of a negative number is not a number: take the root of |z|, and give it the sign of z.",
    _mirror(_into, _length, lambda z, rho: np.abs(z) ** (1 / (rho - 1))),
    "The signs are lost on the way back: give the root of |z| the sign of z.",
    _mirror(lambda w, rho: w * np.abs(w) ** (rho - 2), _length, _back),
    "Runs start at w = 0, where |w| ** (rho - 2) is infinite if rho < 2, and 0 times that is no number. Use "
    "np.sign(w) * np.abs(w) ** (rho - 1).",
    _mirror(_into, _length, lambda z, rho: z),
    "This is z itself; map it back to w.",
    _mirror(_into, _length, _into),
    "On the way back you took the power rho - 1 again; its inverse is the power 1 / (rho - 1).",
    _mirror(lambda w, rho: w, _length, lambda z, rho: z),
    "This moves w itself; step in z = grad psi(w).",
    _mirror(lambda w, rho: w, lambda g, rho: np.linalg.norm(g), lambda z, rho: z),
    "This is a step of normalised GD, right for rho = 2 only. First map w to z = grad psi(w), then move.",
    _mirror(lambda w, rho: w ** (rho - 1), _length, lambda z, rho: z ** (1 / (rho - 1))),
    "Powers lose the signs, or are not numbers: both ways, take the power of |.| and put the sign back.",
    _mirror(lambda w, rho: np.abs(w) ** (rho - 1), _length, lambda z, rho: np.abs(z) ** (1 / (rho - 1))),
    "The signs are lost, of w on the way in and of z on the way back: multiply by np.sign.",
    _mirror(_into, _length, _back, sign=1),
    "The step goes uphill: subtract the gradient.",
    _mirror(_into, lambda g, rho: np.linalg.norm(g, rho), _back),
    "You divided g by its l_rho norm. It lives with z, in the dual space: use rho* = rho / (rho - 1).",
    _mirror(_into, lambda g, rho: np.linalg.norm(g), _back),
    "Divide g by the dual norm, not the Euclidean.",
    _mirror(_into, lambda g, rho: 1.0, _back),
    "Normalise: divide the gradient by its l_rho* norm.",
)

# 03.5


def spectral_step(G):
    """Minus the polar factor of G, over the singular values above 1e-12 of the largest: the shape of G."""
    return _lift(G, lambda sigma: sigma > 1e-12 * sigma.max())


def _lift(G, kept):
    left, sigma, right = np.linalg.svd(G, full_matrices=False)
    return -left @ np.diag(kept(sigma).astype(float)) @ right


def spectral_cases(rng):
    """Like gradients of the cross-entropy, those of deficient rank have rows that add up to zero.

    One is tiny, in one a singular value is 1e-5 of the largest; one has entries of 1e-9, 1e-11 and 1e-13 of
    the largest, each a singular value that all ways to compute it give exactly; the last is zero.
    """
    full = ((3, 4), True), ((5, 3), False), ((4, 3), True), ((2, 3), False), ((4, 4), True), ((3, 3), False)
    drawn = [G - G.mean(axis=0) * flat for G, flat in ((rng.normal(size=shape), f) for shape, f in full)]
    left, right = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    steep = left * np.array([2.0, 1.0, 2e-5]) @ right
    graded = np.zeros((4, 4))
    graded[[0, 1, 2, 3], [1, 0, 3, 2]] = 2.0, -2e-9, 2e-11, 2e-13
    return [(G,) for G in (*drawn[:5], 1e-14 * drawn[5], steep, graded, np.zeros((2, 3)))]


def _with_all(G):
    U, _, Vt = np.linalg.svd(G, full_matrices=False)
    return -U @ Vt


def _inverse(G):
    _, sigma, Vt = np.linalg.svd(G, full_matrices=False)
    with np.errstate(all="ignore"):
        return -G @ Vt.T @ np.diag(1 / sigma) @ Vt


def _over(G, length):
    with np.errstate(all="ignore"):
        return -G / length


SPECTRAL = known(
    lambda G: _lift(G, lambda sigma: sigma > 1e-12),
    "The limit is 1e-12 times the largest singular value, not 1e-12: late in training all of G is tiny.",
    lambda G: _lift(G, lambda sigma: sigma >= 1e-12 * sigma.max()),
    "Where G is zero there is no slope at all, and no step: use > instead of >=.",
    lambda G: _lift(G, lambda sigma: sigma > 1e-3 * sigma.max()),
    "Your limit is too high: a singular value above 1e-12 of the largest is small, but a slope. Lift it too.",
    lambda G: _lift(G, lambda sigma: sigma > 1e-15 * sigma.max()),
    "Your limit is too low: it is 1e-12 of the largest singular value.",
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
    lambda G: _over(G, np.linalg.norm(G, 2)),
    "This only scales -G. Lift all singular values to one.",
    lambda G: _over(G, np.linalg.norm(G)),
    "This is -G over its Frobenius norm, the step of NGD.",
    lambda G: -np.outer(np.linalg.svd(G)[0][:, 0], np.linalg.svd(G)[2][0]),
    "You kept one singular value: the step in the nuclear norm. Lift all of them to one.",
    lambda G: -np.sign(G),
    "This is the sign of each entry: steepest in the max-norm.",
    lambda G: -G,
    "This is -G: the singular values are still in. Set them all to one.",
)

# 03.6

COEFFICIENTS = 3.4445, -4.7750, 2.0315


def muon_spectrum(sigma):
    """Singular values of a sum of Muon's steps from a matrix with values sigma: over the largest, falling."""
    return _spectrum()(sigma)


def _spectrum(length=np.linalg.norm, coefficients=COEFFICIENTS, steps=5, order=-1, top=np.max):
    def answer(sigma):
        with np.errstate(all="ignore"):
            lifted = sigma / length(sigma)
            for _ in range(steps):
                lifted = sum(c * lifted**power for c, power in zip(coefficients, (1, 3, 5), strict=True))
            return (np.sort(lifted)[::order] if order else lifted) / top(lifted)

    return answer


def muon_cases(rng):
    """Decreasing values that the polynomial brings out of order; then a zero, as G often has, and a tie."""
    cases = [(np.array([6.0, 2.0, 1.0, 0.5]),), (np.array([2.0, 2.0, 1.0, 0.0]),)]
    for small in (0.02, 0.2, 0.5, 0.01):
        middle = rng.uniform(0.25, 0.6, size=4)
        cases.append((rng.uniform(0.1, 5) * np.sort([1.0, *middle, small * rng.uniform(0.8, 1.2)])[::-1],))
    return cases


SPECTRUM = known(
    lambda sigma: np.ones_like(sigma),
    "That is the polar factor's: all alike. Muon's polynomial leaves waves: apply it to the values.",
    lambda sigma: sigma / sigma.max(),
    "These are the values of the mean gradient itself, as in GD with momentum. The polynomial changes them.",
    _spectrum(length=np.max),
    "You divided by the spectral norm. Muon divides by the Frobenius norm, the root of the sum of squares.",
    _spectrum(length=np.sum),
    "You divided by the sum. Muon divides by the Frobenius norm, the root of the sum of squares.",
    _spectrum(length=lambda sigma: 1.0),
    "Divide by the Frobenius norm first, the root of the sum of squares.",
    _spectrum(order=0),
    "Right values in the order of sigma. The polynomial does not keep the order: sort, largest first.",
    _spectrum(order=1),
    "Right values, in increasing order. Return the largest first.",
    _spectrum(top=lambda lifted: 1.0),
    "These are the values of one step. Divide by the largest.",
    _spectrum(top=lambda lifted: lifted[0]),
    "You divided by what became of the largest sigma. After the polynomial another one may be largest.",
    _spectrum(top=np.sum),
    "Divide by the largest, not by the sum.",
    _spectrum(steps=1),
    "You applied the polynomial once; Muon applies it five times.",
    _spectrum(coefficients=(1.5, -0.5, 0.0)),
    "These are Newton-Schulz's coefficients. Muon's are 3.4445, -4.7750, 2.0315.",
    _spectrum(coefficients=(3.4445, -4.7750 + 2.0315, 0.0)),
    "The last term is of fifth order.",
)

MATRICES = Compare(rtol=1e-6, atol=1e-8)

EXERCISES = [  # id, title, points, minutes, difficulty
    Exercise("03.1", "Three steepest steps", 2, 6, 1, steepest_steps, step_cases, misconceptions=STEEPEST),
    Exercise("03.2", "Two bounds in any norm", 2, 6, 2, certify, certify_cases, misconceptions=BOUNDS),
    Exercise("03.3", "Steps that cannot fail", 3, 10, 3, safe_steps, safe_cases, misconceptions=SAFE),
    Exercise(
        id="03.4",
        title="A mirror step",
        points=2,
        minutes=8,
        difficulty=2,
        reference=mirror_step,
        cases=mirror_cases,
        misconceptions=MIRROR,
        withheld=("mini_attn.optim.MirrorDescent._update",),
    ),
    Exercise("03.5", "The spectral step", 2, 6, 2, spectral_step, spectral_cases, MATRICES, SPECTRAL),
    Exercise(
        "03.6", "The spectrum that Muon leaves", 3, 8, 3, muon_spectrum, muon_cases, misconceptions=SPECTRUM
    ),
]
