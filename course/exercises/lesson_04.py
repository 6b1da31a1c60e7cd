"""Exercises of lesson 04: factored weights and the nuclear norm."""

import numpy as np

from course.check.specification import Compare, Exercise, known


def _singular(W):
    return np.linalg.svd(W, compute_uv=False)


def _factor_step(U, V, M, eta):
    return U + eta * M @ V, V + eta * M.T @ U


def _one_after_the_other(U, V, M, eta):
    U = U + eta * M @ V
    return U, V + eta * M.T @ U


def _changing(U, V, M, eta):
    """Steps in place: the inputs change, and V sees the new U."""
    U += eta * M @ V
    V += eta * M.T @ U
    return U, V


STEP = Exercise(
    id="04.1",
    title="One step for two factors",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_factor_step,
    cases=lambda rng: [
        # the shown input has three sizes to tell apart; where they agree, a lost transpose gives numbers
        *(
            (rng.normal(size=(a, m)), rng.normal(size=(b, m)), rng.normal(size=(a, b)), eta)
            for a, b, m, eta in ((3, 2, 4, 0.3), (2, 2, 2, 0.5), (3, 3, 2, 0.1))
        )
    ],
    misconceptions=known(
        _one_after_the_other,
        "V's step used the new U. Both gradients belong to the old pair: compute both, then move.",
        _changing,
        "`+=` changes the inputs themselves, and V's step then sees the new U. Write U + ..., V + ...",
        lambda U, V, M, eta: (U - eta * M @ V, V - eta * M.T @ U),
        "You went uphill: M is the negative gradient already, so add its step.",
        lambda U, V, M, eta: (U + eta * M @ V, V + eta * M @ U),
        "For V the pull is transposed: <M, U D^T> = <M^T U, D>.",
        lambda U, V, M, eta: (U + eta * M @ U, V + eta * M.T @ V),
        "Each factor is pulled by the other one: U moves along M V, V along M^T U.",
        lambda U, V, M, eta: (U + M @ V, V + M.T @ U),
        "The step size is missing: multiply by eta.",
        lambda U, V, M, eta: _factor_step(U, V, M, eta)[::-1],
        "Return U first, then V.",
        lambda U, V, M, eta: (eta * M @ V, eta * M.T @ U),
        "These are the steps alone. Add them to the old U and V.",
        lambda U, V, M, eta: (U + eta * M @ V, V),
        "V has not moved. Both factors take a step: V's is eta M^T U.",
        lambda U, V, M, eta: (U + eta * M @ V.T, V + eta * M.T @ U.T),
        "W has V transposed, its gradient has not: -dL/dU = M V.",
        lambda U, V, M, eta: (U + eta * M @ V) @ (V + eta * M.T @ U).T,
        "That is the product after the step. Return the pair: U, then V.",
    ),
)


def best_blank(a, b, e):
    """The c of least nuclear norm in [[a, b], [e, c]]: ||W||_*^2 = a^2 + b^2 + e^2 + c^2 + 2 |ac - be|.

    Left and right of the kink c0 = be/a the parabolas have their minima at a and -a (in some order), so c is
    c0 where that lies between -|a| and |a|, else the nearer end.
    """
    return a * np.clip(b * e / a**2, -1, 1)


def _blanks(rng):
    """Kinks within reach and beyond it, of both signs, with a of both signs; sizes drawn.

    Then fixed: |a| < 1, where a^2 < |be| < |a|; |a| > 1, where |a| < |be| < a^2; b and e on either side of
    |a|, with be on either side of a^2; b or e zero.
    """
    cases = [(1.0, 2.0, 3.0)]
    for sign, reach in ((-1, 0.6), (1, -0.4), (-1, 3.0), (1, -2.5), (-1, -4.0), (1, 0.3)):
        a = sign * rng.uniform(0.7, 3)
        b = rng.choice([-1.0, 1.0]) * rng.uniform(0.7, 3)
        cases.append((a, b, reach * rng.uniform(0.9, 1.1) * a**2 / b))
    edges = (-0.5, 1.0, 0.4), (2.0, 3.0, 1.0), (1.0, 4.0, 0.2), (1.0, 4.0, -0.9), (1.0, 1.0, 0.0)
    return [*cases, *edges, (-1.0, 0.0, 2.0)]


BLANK = Exercise(
    id="04.2",
    title="The best blank",
    points=2,
    minutes=8,
    difficulty=2,
    reference=best_blank,
    cases=_blanks,
    misconceptions=known(
        lambda a, b, e: b * e / a,
        (
            "That is the c of rank one. Far out it costs more than it saves: where |be| > a^2, the minimum "
            "is not in the kink but on one of the parabolas beside it."
        ),
        lambda a, b, e: 0.0,
        "c = 0 makes the Frobenius norm smallest. The nuclear norm has 2 |ac - be| besides.",
        lambda a, b, e: a,
        "c = a is the minimum of one parabola, right where it lies on its own side of the kink be/a.",
        lambda a, b, e: -a,
        "c = -a is the minimum of one parabola, right where it lies on its own side of the kink be/a.",
        lambda a, b, e: a * np.sign(b * e),
        "These are the minima of the parabolas. Where |be| < a^2 the minimum is in the kink, c = be/a.",
        lambda a, b, e: -a * np.sign(b * e) if abs(b * e) > a**2 else b * e / a,
        "Beyond the kink's reach you took the wrong parabola: c moves towards be/a, as far as |a|.",
        lambda a, b, e: np.clip(b * e / a, -1, 1),
        "Limits of -1 and 1 are right for a = 1 only: the parabolas have their minima at a and -a.",
        lambda a, b, e: b * e / a if abs(b * e) <= abs(a) else a * np.sign(b * e),
        "The kink be/a is in reach where |be/a| <= |a|, that is |be| <= a^2; you asked for |be| <= |a|.",
        lambda a, b, e: np.clip(b * e / a, 0, abs(a)),
        "be/a may be negative: the limits are -|a| and |a|.",
        lambda a, b, e: np.clip(b * e / a, -a, a),
        "np.clip wants the lower limit first. For a < 0 that is a: take -|a| and |a|.",
        lambda a, b, e: abs(a) * np.clip(b * e / a**2, -1, 1),
        "Right for a > 0. For a < 0 the sign is turned: the kink is at be/a.",
        lambda a, b, e: b * e / a if abs(b * e) <= a**2 else 0.0,
        "Where the kink is out of reach, c is not 0: minimise c^2 - 2ac or c^2 + 2ac, whichever is the side.",
        lambda a, b, e: a * np.clip(-b * e / a**2, -1, 1),
        "The determinant is ac - be, so the kink is at +be/a.",
        lambda a, b, e: np.linalg.norm([[a, b], [e, best_blank(a, b, e)]], "nuc"),
        "That is the least norm. Return the c that has it.",
    ),
)


def _lengths(U, V, axis=0):
    return np.linalg.norm(U, axis=axis), np.linalg.norm(V, axis=axis)


def _cost(U, V):
    return ((U**2).sum() + (V**2).sum()) / 2


def _costs(U, V):
    u, v = _lengths(U, V)
    return _cost(U, V), u @ v, _singular(U @ V.T).sum()


def _costs_with(position, value):
    """The right three numbers but one: `value(U, V)` stands at `position`."""

    def wrong(U, V):
        answer = list(_costs(U, V))
        answer[position] = value(U, V)
        return tuple(answer)

    return wrong


def _upside_down(U, V):
    """The cost after rescaling by 1 / c_k instead of c_k."""
    u, v = _lengths(U, V)
    with np.errstate(all="ignore"):
        return ((u**3 / v).sum() + (v**3 / u).sum()) / 2


def _rows(U, V):
    u, v = _lengths(U, V, axis=1)
    return u @ v


def _balanced(U, V):
    """The cost after rescaling by c_k = sqrt(|V_k| / |U_k|): right, unless a column is zero."""
    u, v = _lengths(U, V)
    with np.errstate(all="ignore"):
        c = np.sqrt(v / u)
        return _cost(U * c, V / c)


def _pairs(rng):
    """In the third pair a column of V is zero, in the last one of U."""
    sizes = (3, 3, 2), (4, 3, 2), (2, 3, 4), (4, 4, 3)
    pairs = [(rng.normal(size=(a, m)), 2 * rng.normal(size=(b, m))) for a, b, m in sizes]
    pairs[2][1][:, 0] = 0
    pairs[-1][0][:, 1] = 0
    return pairs


COSTS = Exercise(
    id="04.3",
    title="Three costs",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_costs,
    cases=_pairs,
    misconceptions=known(
        lambda U, V: tuple(_costs(U, V)[k] for k in (0, 2, 1)),
        "Your second and third number are swapped: first rescaled columns, then the cheapest pair of all.",
        _costs_with(0, lambda U, V: 2 * _cost(U, V)),
        "The cost has a factor 1/2 in front.",
        _costs_with(0, lambda U, V: (np.linalg.norm(U) + np.linalg.norm(V)) / 2),
        "The cost is made of squared lengths; np.linalg.norm is not squared.",
        _costs_with(1, lambda U, V: np.linalg.norm(U) * np.linalg.norm(V)),
        "Your second number rescales U and V as a whole, one c for all. Each column has its own c_k.",
        _costs_with(1, lambda U, V: _costs(U, V)[1] / 2),
        "Second number: the minimum over c is ||U_k|| ||V_k|| itself. The factor 1/2 is used up.",
        _costs_with(1, _upside_down),
        "Your c_k is upside down: the rescaled columns must have equal length.",
        _costs_with(1, _balanced),
        "Right, unless a column is zero: then c_k divides by zero. The minimum can be written without c_k.",
        _costs_with(1, _rows),
        "You took lengths of rows (axis=1). The columns need axis=0.",
        _costs_with(2, lambda U, V: np.linalg.norm(U @ V.T)),
        "Third number: that is the product's Frobenius norm. The theorem says nuclear norm.",
        _costs_with(2, lambda U, V: _singular(U @ V.T)[0]),
        "Third number: that is the largest singular value of the product. Take the sum of all.",
        _costs_with(2, lambda U, V: (_singular(U).sum() + _singular(V).sum()) / 2),
        "Third number: take singular values of the product U V^T, not of the factors.",
        _costs_with(2, lambda U, V: _singular(U.T @ V).sum()),
        "Third number: W is U V^T. You took U^T V, the inner products of the columns.",
    ),
)


def _certify(W, lam, A):
    S = np.tensordot(lam, A, 1)
    return np.tensordot(A, W).min() / _singular(W).sum(), _singular(S)[0] / lam.sum()


def _certify_with(lower=None, upper=None):
    """Bounds with one of them, if given, replaced: lower(u, W), upper(S, lam)."""

    def wrong(W, lam, A):
        right = _certify(W, lam, A)
        u, S = np.tensordot(A, W), np.tensordot(lam, A, 1)
        return lower(u, W) if lower else right[0], upper(S, lam) if upper else right[1]

    return wrong


def _certify_cases(rng):
    """In the first and third the two largest in size are wrong, and the larger has weight zero.

    In the last W W^T has ten eigenvalues that are zero, up to rounding of either sign.
    """
    cases = []
    for n, a, b, wrong in ((4, 2, 2, True), (6, 3, 3, False), (5, 3, 2, True), (4, 12, 2, False)):
        A = np.einsum("ia,ib->iab", rng.normal(size=(n, a)), rng.normal(size=(n, b)))
        W, lam = rng.normal(size=(a, b)), rng.uniform(0.1, 2.0, size=n)
        u = np.tensordot(A, W)
        A *= np.sign(u)[:, None, None]
        if wrong:
            largest = np.abs(u).argsort()[-2:]
            A[largest] *= -1
            lam[largest[1]] = 0
        cases.append((W, lam, A))
    return cases


CERTIFY = Exercise(
    id="04.4",
    title="A certificate in the other norm",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_certify,
    cases=_certify_cases,
    misconceptions=known(
        _certify_with(lower=lambda u, W: u.min() / np.linalg.norm(W)),
        "Your lower bound divides by the Frobenius norm. The nuclear margin divides by ||W||_*.",
        _certify_with(lower=lambda u, W: u.min()),
        "Your lower bound grows with W: divide min_i <A_i, W> by the nuclear norm of W.",
        _certify_with(lower=lambda u, W: 1 / _singular(W).sum()),
        "1 / ||W||_* is mu(W) only for a W whose smallest <A_i, W> is 1. Divide that smallest value.",
        _certify_with(lower=lambda u, W: u.mean() / _singular(W).sum()),
        "Your lower bound takes the mean of the <A_i, W>. A margin is the smallest of them.",
        _certify_with(lower=lambda u, W: np.abs(u).min() / _singular(W).sum()),
        "A margin keeps its sign: where an answer is wrong, <A_i, W> is negative. Take no absolute value.",
        lambda W, lam, A: (np.tensordot(A[lam > 0], W).min() / _singular(W).sum(), _certify(W, lam, A)[1]),
        "mu(W) is the smallest <A_i, W> over all answers, those with lambda_i = 0 too.",
        _certify_with(lower=lambda u, W: u.min() / np.abs(np.linalg.eigvals(W)).sum()),
        "||W||_* sums singular values. The sizes of eigenvalues are something else.",
        _certify_with(upper=lambda S, lam: np.linalg.norm(S) / lam.sum()),
        (
            "Your upper bound uses the Frobenius norm, as in lesson 02. It holds, but is weaker than B: "
            "the dual of the nuclear norm is the spectral norm."
        ),
        _certify_with(upper=lambda S, lam: _singular(S).sum() / lam.sum()),
        "Your upper bound uses the nuclear norm of the sum. Its dual belongs there: the spectral norm.",
        _certify_with(upper=lambda S, lam: _singular(S)[0]),
        "Your upper bound grows with the weights: divide by their sum, lam.sum().",
        _certify_with(upper=lambda S, lam: _singular(S)[0] / np.linalg.norm(lam)),
        "You divided by the length of lam. Divide by the sum of the weights, lam.sum().",
        _certify_with(upper=lambda S, lam: np.abs(np.linalg.eigvals(S)).max() / lam.sum()),
        "The spectral norm is the largest singular value, not the size of the largest eigenvalue.",
        _certify_with(upper=lambda S, lam: _singular(S)[0] / len(lam)),
        "You divided by the number of rows. Divide by the sum of the weights, lam.sum().",
        lambda W, lam, A: (_certify(W, lam, A)[0], lam @ [_singular(a)[0] for a in A] / lam.sum()),
        "You averaged the norms of the A_i. Sum the matrices first, so that they can cancel.",
        _certify_with(lambda u, W: u.min() / np.linalg.norm(W), lambda S, lam: np.linalg.norm(S) / lam.sum()),
        "That is lesson 02's certificate. Here ||W||_* stands below, and the spectral norm above.",
        lambda W, lam, A: _certify(W, lam, A)[::-1],
        "Return the lower bound mu(W) first.",
    ),
)


def _race(M, beta, eta, t):
    rho = np.linalg.svd(M, compute_uv=False)
    return beta**2 / 4 * ((1 + eta * rho) ** (2 * t) - (1 - eta * rho) ** (2 * t))


def _race_with(formula):
    return lambda M, beta, eta, t: formula(_singular(M), beta, eta, t)


def _loop_race(spectrum=_singular, stale=True, extra=0):
    """The race step by step; the right answer with the defaults."""

    def run(M, beta, eta, t):
        rho = spectrum(M)
        a, b = beta * np.ones_like(rho), np.zeros_like(rho)
        for _ in range(t + extra):
            new = a + eta * rho * b
            a, b = new, b + eta * rho * (a if stale else new)
        return a * b

    return run


def _race_cases(rng):
    """No t below 3, where wrong formulas coincide; one triangular M, so that its eigenvalues are real.

    In the last, fixed, one eta sigma is beyond 1, and one zero.
    """
    sizes = (2, 0.7, 0.4, 3), (3, 0.3, 0.5, 4), (3, 1.5, 0.3, 5), (4, 0.1, 0.2, 12)
    cases = [(rng.normal(size=(d, d)), beta, eta, t) for d, beta, eta, t in sizes]
    far = np.array([[0.0, 4.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    return [*cases[:2], (np.triu(cases[2][0]), *cases[2][1:]), cases[3], (far, 1.0, 0.5, 3)]


def _eigenvalues(M):
    return np.sort(np.abs(np.linalg.eigvals(M)))[::-1]


RACE = Exercise(
    id="04.5",
    title="The start of the race",
    points=3,
    minutes=8,
    difficulty=2,
    reference=_race,
    cases=_race_cases,
    compare=Compare(rtol=1e-6, atol=1e-12),
    misconceptions=known(
        _race_with(lambda s, b, e, t: b**2 * e * s * t),
        (
            "That is additive growth, as for descent on the entries. Each factor feeds the other: the sum "
            "a + b is multiplied by 1 + eta sigma at each step."
        ),
        _race_with(lambda s, b, e, t: b**2 / 4 * (1 + e * s) ** (2 * t)),
        "The difference a - b shrinks, but is not zero (it starts at beta): subtract (a - b)^2.",
        _race_with(lambda s, b, e, t: b**2 / 4 * ((1 + e * s) ** (2 * t) + (1 - e * s) ** (2 * t))),
        "4ab = (a + b)^2 - (a - b)^2, with a minus: W starts at zero.",
        _race_with(lambda s, b, e, t: b**2 * ((1 + e * s) ** (2 * t) - (1 - e * s) ** (2 * t))),
        "(a + b)^2 - (a - b)^2 is 4ab: divide by 4.",
        _race_with(lambda s, b, e, t: b**2 / 2 * ((1 + e * s) ** (2 * t) - (1 - e * s) ** (2 * t))),
        "(a + b)^2 - (a - b)^2 is 4ab, not 2ab: divide by 4.",
        _race_with(lambda s, b, e, t: b**2 / 4 * ((1 + e * s) ** t - (1 - e * s) ** t)),
        "The sum and the difference enter squared: the exponents are 2t.",
        _race_with(lambda s, b, e, t: b / 4 * ((1 + e * s) ** (2 * t) - (1 - e * s) ** (2 * t))),
        "Both a_k and b_k are proportional to beta, and W has their products: square beta.",
        _race_with(lambda s, b, e, t: b / 2 * ((1 + e * s) ** t - (1 - e * s) ** t)),
        "These are the b_k, the singular values of V. Those of W are the products a_k b_k.",
        _race_with(lambda s, b, e, t: b**2 * (1 + e * s) ** (2 * t)),
        "W starts at zero, and this at beta^2: 4ab is (a + b)^2 less the shrinking (a - b)^2. If you started "
        "both factors at beta: V starts at zero.",
        _race_with(lambda s, b, e, t: b**2 / 2 * np.sinh(2 * e * s * t)),
        "That is the limit of small steps. With steps of size eta, use powers of 1 + eta sigma.",
        lambda M, beta, eta, t: _race(M, beta, eta, t)[::-1],
        "Right values, in increasing order. Return them in decreasing order, largest first.",
        _loop_race(stale=False),
        "In your loop b sees the new a. Keep the old pair until both are computed.",
        _loop_race(spectrum=_eigenvalues),
        "You used sizes of eigenvalues of M. It is not symmetric: its singular values run the race.",
        _loop_race(spectrum=np.linalg.eigvals),
        "You used eigenvalues of M. They can be negative or complex: its singular values run the race.",
        _loop_race(extra=-1),
        "You took one step too few: after t steps, both factors have moved t times.",
        _loop_race(extra=1),
        "You took one step too many: at t = 0 nothing has moved yet.",
    ),
)


def wait(W, M, newcomer, share):
    """(c, sigma_1 when the newcomer, that grows like sigma_1^c, is `share` of it).

    M = b S, and S is scaled so that <S, W> = ||W||_*, as at a KKT point; c = ||S||_op > 1.
    """
    return _wait_with()(W, M, newcomer, share)


def _scaled(W, M):
    return _singular(M)[0] * _singular(W).sum() / (M * W).sum()


def _then(c, top, newcomer, share):
    return top * (share * top / newcomer) ** (1 / (c - 1))


def _wait_with(power=_scaled, then=_then):
    """The answer, with the power, power(W, M), or the wait, then(c, sigma_1, newcomer, share), replaced."""

    def answer(W, M, newcomer, share):
        with np.errstate(all="ignore"):
            c = power(W, M)
            return c, then(c, _singular(W)[0], newcomer, share)

    return answer


def _wait_cases(rng):
    """KKT points: W has the first left and right vectors, M those with 1 and newcomers with other values.

    In most there are several newcomers, so that the ratio of the two largest singular values of M is not c,
    and live values that differ, so that the norms of W do.
    """
    cases = []
    for (d1, d2), live, others in (
        ((3, 3), (5.0, 2.0), (1.5,)),
        ((4, 4), (9.0, 4.0), (2.2, 1.3)),
        ((4, 3), (7.0,), (1.8, 1.4)),
        ((5, 4), (6.0, 5.5), (2.8, 0.5)),
        ((3, 5), (20.0, 15.0), (3.1,)),
    ):
        rank = len(live) + len(others)
        left, right = (np.linalg.qr(rng.normal(size=(k, k)))[0][:, :rank] for k in (d1, d2))
        grown = np.array(live) * rng.uniform(0.9, 1.1)
        values = np.array([*np.ones(len(live)), *others]) * rng.uniform(0.02, 0.08)
        W = left[:, : len(live)] * grown @ right[:, : len(live)].T
        newcomer, share = grown[0] * 10.0 ** rng.uniform(-4, -2.5), rng.uniform(0.05, 0.3)
        cases.append((W, left * values @ right.T, newcomer, share))
    return cases


WAIT = Exercise(
    id="04.6",
    title="How long is the wait?",
    points=3,
    minutes=12,
    difficulty=3,
    reference=wait,
    cases=_wait_cases,
    misconceptions=known(
        _wait_with(power=lambda W, M: _singular(M)[0]),
        "c is the largest singular value of S, and M = b S: find b from <S, W> = ||W||_*.",
        _wait_with(power=lambda W, M: _singular(M)[0] / _singular(M)[1]),
        "You divided by the second singular value of M. It may belong to another newcomer: scale by <M, W>.",
        _wait_with(power=lambda W, M: _singular(M)[0] / _singular(M)[np.linalg.matrix_rank(W, tol=1e-8)]),
        "You divided by the wrong singular value of M: the live ones need not come first. Scale by <M, W>.",
        _wait_with(power=lambda W, M: _singular(M)[0] / _singular(M)[-1]),
        "You divided by the least singular value of M. Live directions have value 1 in S: scale by <M, W>.",
        _wait_with(power=lambda W, M: _singular(M)[0] * _singular(W)[0] / (M * W).sum()),
        "The scale of S comes from the cost, which is the sum of W's singular values, not the largest.",
        _wait_with(power=lambda W, M: _singular(M)[0] * np.linalg.norm(W) / (M * W).sum()),
        "The scale of S comes from the cost, which is the nuclear norm of W, not the Frobenius norm.",
        _wait_with(power=lambda W, M: 1 / _scaled(W, M)),
        "Your power is upside down: it is the growth of the newcomer over that of sigma_1.",
        _wait_with(power=lambda W, M: _scaled(W, M) - 1, then=lambda c, *rest: _then(c + 1, *rest)),
        "That is the power of the share. The newcomer itself grows like sigma_1^c.",
        _wait_with(power=lambda W, M: np.linalg.norm(M) * _singular(W).sum() / (M * W).sum()),
        "c is the largest singular value of S, the spectral norm; you took the Frobenius norm of M.",
        _wait_with(then=lambda c, top, new, share: top * (share * top / new) ** (1 / c)),
        "The share grows like sigma_1^(c - 1): sigma_1 grows while you wait. The exponent is 1 / (c - 1).",
        _wait_with(then=lambda c, top, new, share: top * (share * top / new) ** (c - 1)),
        "The power is upside down: solve share_now * (sigma_1 / sigma_1_now)^(c - 1) = share for sigma_1.",
        _wait_with(then=lambda c, top, new, share: top * (share / new) ** (1 / (c - 1))),
        "`newcomer` is a singular value. Its share now is newcomer / sigma_1.",
        _wait_with(then=lambda c, top, new, share: _then(c, top, new, share) / top),
        "That is the factor by which sigma_1 must grow. Return sigma_1 itself.",
        _wait_with(then=lambda c, top, new, share: share * _then(c, top, new, share)),
        "That is the newcomer's size then. Return sigma_1.",
        lambda W, M, newcomer, share: wait(W, M, newcomer, share)[::-1],
        "Return the power c first.",
    ),
)

EXERCISES = [STEP, BLANK, COSTS, CERTIFY, RACE, WAIT]
