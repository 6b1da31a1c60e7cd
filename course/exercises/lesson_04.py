"""Exercises of lesson 04: factored weights and the nuclear norm."""

import numpy as np

from course.specification import Compare, Exercise, Misconception


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
    minutes=6,
    difficulty=1,
    reference=_factor_step,
    cases=lambda rng: [
        # square first: there, forgotten transposes give numbers, not errors
        *(
            (rng.normal(size=(a, m)), rng.normal(size=(b, m)), rng.normal(size=(a, b)), eta)
            for a, b, m, eta in ((2, 2, 2, 0.5), (3, 3, 2, 0.1), (3, 2, 4, 0.3))
        )
    ],
    misconceptions=[
        Misconception(
            _one_after_the_other,
            "V's step used the new U. Both gradients belong to the old pair: compute both, then move.",
        ),
        Misconception(
            _changing,
            "`+=` changes the inputs themselves, and V's step then sees the new U. Write U + ..., V + ...",
        ),
        Misconception(
            lambda U, V, M, eta: (U - eta * M @ V, V - eta * M.T @ U),
            "You went uphill: M is the negative gradient already, so add its step.",
        ),
        Misconception(
            lambda U, V, M, eta: (U + eta * M @ V, V + eta * M @ U),
            "For V the pull is transposed: <M, U D^T> = <M^T U, D>.",
        ),
        Misconception(
            lambda U, V, M, eta: (U + eta * M @ U, V + eta * M.T @ V),
            "Each factor is pulled by the other one: U moves along M V, V along M^T U.",
        ),
        Misconception(
            lambda U, V, M, eta: (U + M @ V, V + M.T @ U), "The step size is missing: multiply by eta."
        ),
        Misconception(lambda U, V, M, eta: _factor_step(U, V, M, eta)[::-1], "Return U first, then V."),
    ],
)


def _matrices(rng):
    """Not symmetric, not square, symmetric with eigenvalues of both signs, rank one."""
    S = rng.normal(size=(3, 3))
    return [
        (rng.normal(size=(3, 3)),),
        (rng.normal(size=(2, 4)),),
        (S + S.T - 3 * np.diag([1.0, 0.0, -1.0]),),
        (np.outer(rng.normal(size=4), rng.normal(size=3)),),
    ]


NUCLEAR = Exercise(
    id="04.2",
    title="The nuclear norm",
    points=1,
    minutes=4,
    difficulty=1,
    reference=lambda W: _singular(W).sum(),
    cases=_matrices,
    misconceptions=[
        Misconception(
            lambda W: np.linalg.norm(W),
            "That is the Frobenius norm, np.linalg.norm's default: the root of the sum of squares.",
        ),
        Misconception(lambda W: _singular(W)[0], "That is the spectral norm, the largest: take the sum."),
        Misconception(
            lambda W: np.trace(W), "That is the trace, the sum of eigenvalues. Take singular values."
        ),
        Misconception(
            lambda W: np.abs(np.linalg.eigvals(W)).sum(),
            "Singular values are not the sizes of eigenvalues, unless W is symmetric: use np.linalg.svd.",
        ),
        Misconception(
            lambda W: (_singular(W) ** 2).sum(),
            "You summed the squares. Eigenvalues of W^T W are squared singular values: take their roots.",
        ),
        Misconception(lambda W: np.abs(W).sum(), "You summed the sizes of the entries, not singular values."),
        Misconception(lambda W: _singular(W), "These are the singular values: return their sum."),
    ],
)


def _lengths(U, V, axis=0):
    return np.linalg.norm(U, axis=axis), np.linalg.norm(V, axis=axis)


def _price(U, V):
    return ((U**2).sum() + (V**2).sum()) / 2


def _prices(U, V):
    u, v = _lengths(U, V)
    return _price(U, V), u @ v, _singular(U @ V.T).sum()


def _prices_with(position, value):
    """The right three numbers but one: `value(U, V)` stands at `position`."""

    def wrong(U, V):
        answer = list(_prices(U, V))
        answer[position] = value(U, V)
        return tuple(answer)

    return wrong


def _rows(U, V):
    u, v = _lengths(U, V, axis=1)
    return u @ v


def _pairs(rng):
    sizes = (3, 3, 2), (4, 3, 2), (2, 3, 4)
    return [(rng.normal(size=(a, m)), 2 * rng.normal(size=(b, m))) for a, b, m in sizes]


PRICES = Exercise(
    id="04.3",
    title="Three prices",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_prices,
    cases=_pairs,
    misconceptions=[
        Misconception(_prices_with(0, lambda U, V: 2 * _price(U, V)), "The price has a factor 1/2 in front."),
        Misconception(
            _prices_with(0, lambda U, V: (np.linalg.norm(U) + np.linalg.norm(V)) / 2),
            "The price is made of squared lengths; np.linalg.norm is not squared.",
        ),
        Misconception(
            _prices_with(1, lambda U, V: np.linalg.norm(U) * np.linalg.norm(V)),
            "Your second number rescales U and V as a whole, one c for all. Each column has its own c_k.",
        ),
        Misconception(
            _prices_with(1, lambda U, V: _prices(U, V)[1] / 2),
            "Second number: the minimum over c is ||u|| ||v|| itself. The factor 1/2 is used up.",
        ),
        Misconception(
            _prices_with(1, _rows), "You took lengths of rows (axis=1). The columns u_k need axis=0."
        ),
        Misconception(
            _prices_with(2, lambda U, V: np.linalg.norm(U @ V.T)),
            "Third number: that is the product's Frobenius norm. The theorem says nuclear norm.",
        ),
        Misconception(
            _prices_with(2, lambda U, V: _singular(U @ V.T)[0]),
            "Third number: that is the largest singular value of the product. Take the sum of all.",
        ),
        Misconception(
            _prices_with(2, lambda U, V: (_singular(U).sum() + _singular(V).sum()) / 2),
            "Third number: take singular values of the product U V^T, not of the factors.",
        ),
    ],
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
    cases = []
    for n, a, b in ((4, 2, 2), (6, 3, 3), (5, 3, 2)):
        x, z = rng.normal(size=(n, a)), rng.normal(size=(n, b))
        W = rng.normal(size=(a, b))
        y = np.sign(np.einsum("ia,ab,ib->i", x, W, z))
        cases.append((W, rng.uniform(0.1, 2.0, size=n), y[:, None, None] * x[:, :, None] * z[:, None, :]))
    return cases


CERTIFY = Exercise(
    id="04.4",
    title="A certificate in the other norm",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_certify,
    cases=_certify_cases,
    misconceptions=[
        Misconception(
            _certify_with(lower=lambda u, W: u.min() / np.linalg.norm(W)),
            "Your lower bound divides by the Frobenius norm. The nuclear margin divides by ||W||_*.",
        ),
        Misconception(
            _certify_with(lower=lambda u, W: u.min()),
            "Your lower bound grows with W: divide min_i <A_i, W> by the nuclear norm of W.",
        ),
        Misconception(
            _certify_with(upper=lambda S, lam: np.linalg.norm(S) / lam.sum()),
            "Your upper bound uses the Frobenius norm, as in lesson 02. It holds, but is weaker than B: "
            "the dual of the nuclear norm is the spectral norm.",
        ),
        Misconception(
            _certify_with(upper=lambda S, lam: _singular(S).sum() / lam.sum()),
            "Your upper bound uses the nuclear norm of the sum. Its dual belongs there: the spectral norm.",
        ),
        Misconception(
            _certify_with(upper=lambda S, lam: _singular(S)[0]),
            "Your upper bound grows with the weights: divide by their sum, lam.sum().",
        ),
        Misconception(
            _certify_with(upper=lambda S, lam: _singular(S)[0] / len(lam)),
            "You divided by the number of rows. Divide by the sum of the weights, lam.sum().",
        ),
        Misconception(
            lambda W, lam, A: (_certify(W, lam, A)[0], lam @ [_singular(a)[0] for a in A] / lam.sum()),
            "You averaged the norms of the A_i. Sum the matrices first, so that they can cancel.",
        ),
        Misconception(
            _certify_with(
                lambda u, W: u.min() / np.linalg.norm(W), lambda S, lam: np.linalg.norm(S) / lam.sum()
            ),
            "That is lesson 02's certificate. Here ||W||_* stands below, and the spectral norm above.",
        ),
        Misconception(lambda W, lam, A: _certify(W, lam, A)[::-1], "Return the lower bound mu(W) first."),
    ],
)


def _race(M, beta, eta, t):
    sigma = np.linalg.svd(M, compute_uv=False)
    return beta**2 / 4 * ((1 + eta * sigma) ** (2 * t) - (1 - eta * sigma) ** (2 * t))


def _race_with(formula):
    return lambda M, beta, eta, t: formula(_singular(M), beta, eta, t)


def _loop_race(spectrum=_singular, stale=True):
    """The race step by step; the right answer with the defaults."""

    def run(M, beta, eta, t):
        sigma = spectrum(M)
        a, b = beta * np.ones_like(sigma), np.zeros_like(sigma)
        for _ in range(t):
            new = a + eta * sigma * b
            a, b = new, b + eta * sigma * (a if stale else new)
        return a * b

    return run


def _race_cases(rng):
    sizes = (2, 0.5, 0.4, 2), (3, 0.3, 0.5, 3), (3, 1.5, 0.3, 1), (4, 0.1, 0.2, 12)
    return [(rng.normal(size=(d, d)), beta, eta, t) for d, beta, eta, t in sizes]


def _eigenvalues(M):
    return np.sort(np.abs(np.linalg.eigvals(M)))[::-1]


RACE = Exercise(
    id="04.5",
    title="The start of the race",
    points=3,
    minutes=12,
    difficulty=2,
    reference=_race,
    cases=_race_cases,
    compare=Compare(rtol=1e-6, atol=1e-12),
    misconceptions=[
        Misconception(
            _race_with(lambda s, b, e, t: b**2 * e * s * t),
            "That is additive growth, as for descent on the entries. Each factor feeds the other: the sum "
            "a + b is multiplied by 1 + eta sigma at each step.",
        ),
        Misconception(
            _race_with(lambda s, b, e, t: b**2 / 4 * (1 + e * s) ** (2 * t)),
            "The difference a - b shrinks, but is not zero (it starts at beta): subtract (a - b)^2.",
        ),
        Misconception(
            _race_with(lambda s, b, e, t: b**2 / 4 * ((1 + e * s) ** (2 * t) + (1 - e * s) ** (2 * t))),
            "4ab = (a + b)^2 - (a - b)^2, with a minus: W starts at zero.",
        ),
        Misconception(
            _race_with(lambda s, b, e, t: b**2 * ((1 + e * s) ** (2 * t) - (1 - e * s) ** (2 * t))),
            "(a + b)^2 - (a - b)^2 is 4ab: divide by 4.",
        ),
        Misconception(
            _race_with(lambda s, b, e, t: b**2 / 4 * ((1 + e * s) ** t - (1 - e * s) ** t)),
            "The sum and the difference enter squared: the exponents are 2t.",
        ),
        Misconception(
            _race_with(lambda s, b, e, t: b / 2 * ((1 + e * s) ** t - (1 - e * s) ** t)),
            "These are the b_k, the singular values of V. Those of W are the products a_k b_k.",
        ),
        Misconception(
            _race_with(lambda s, b, e, t: b**2 * (1 + e * s) ** (2 * t)),
            "You started both factors at beta. V starts at zero, so b_k = 0 and W = 0 at first.",
        ),
        Misconception(
            _race_with(lambda s, b, e, t: b**2 / 2 * np.sinh(2 * e * s * t)),
            "That is the limit of small steps. With steps of size eta, use powers of 1 + eta sigma.",
        ),
        Misconception(
            _loop_race(stale=False),
            "In your loop b sees the new a. Keep the old pair until both are computed.",
        ),
        Misconception(
            _loop_race(spectrum=_eigenvalues),
            "You used eigenvalues of M. It is not symmetric: its singular values run the race.",
        ),
    ],
)

EXERCISES = [STEP, NUCLEAR, PRICES, CERTIFY, RACE]
