"""Exercises of lesson 04: factored weights and the nuclear norm."""

import numpy as np

from course.check.specification import Compare, Exercise, known


def _singular(W):
    return np.linalg.svd(W, compute_uv=False)


def speed(U, V, M):
    """The speed of U V^T under gradient flow on both factors, shape (d1, d2): U' = M V, V' = M^T U."""
    return M @ V @ V.T + U @ U.T @ M


def _speed_with(first=lambda U, V, M: M @ V @ V.T, second=lambda U, V, M: U @ U.T @ M):
    """The answer with the part that U's motion makes, or that of V's, replaced."""
    return lambda U, V, M: first(U, V, M) + second(U, V, M)


def _speed_cases(rng):
    """One entry of M is zero, a blank. The shown input has three sizes to tell apart; where they agree, a
    lost transpose gives numbers.
    """
    cases = []
    for a, b, m in ((3, 2, 4), (2, 2, 2), (3, 3, 2), (3, 3, 3)):
        M = rng.normal(size=(a, b))
        M[0, -1] = 0
        cases.append((rng.normal(size=(a, m)), rng.normal(size=(b, m)), M))
    return cases


SPEED = Exercise(
    id="04.1",
    title="How a product moves",
    points=2,
    minutes=6,
    difficulty=2,
    reference=speed,
    cases=_speed_cases,
    misconceptions=known(
        lambda U, V, M: M,
        "That is the speed of entries that are trained themselves. Here U and V move: find their speeds.",
        lambda U, V, M: -speed(U, V, M),
        "Uphill: M is the negative gradient already.",
        lambda U, V, M: speed(U, V, M) / 2,
        "Half of it: the derivative of <M, U V^T> in U is M V, with no 1/2.",
        lambda U, V, M: 2 * speed(U, V, M),
        "Twice too much: each factor moves once.",
        _speed_with(second=lambda U, V, M: 0.0),
        "That is what the motion of U does. V moves too: by the product rule there are two terms.",
        _speed_with(first=lambda U, V, M: 0.0),
        "That is what the motion of V does. U moves too: by the product rule there are two terms.",
        lambda U, V, M: M @ V @ V.T - U @ U.T @ M,
        "Both motions help: add the two terms.",
        lambda U, V, M: (M @ V) @ (M.T @ U).T,
        "That is the product of the two speeds. The product rule has U' V^T + U V'^T.",
        lambda U, V, M: U @ U.T @ M @ V @ V.T,
        "One term has V V^T, the other U U^T: the product rule adds them, one factor moving at a time.",
        lambda U, V, M: speed(U, V, M) + M @ V @ U.T @ M,
        "That is a step of size one, with the product of both moves in it. For tiny steps it drops out.",
        _speed_with(second=lambda U, V, M: U @ U.T @ M.T),
        "V moves with M^T U, so V'^T = U^T M: the second M is not transposed.",
        lambda U, V, M: V @ V.T @ M + M @ U @ U.T,
        "The factors are exchanged: M V V^T mixes columns (films), U U^T M mixes rows (people).",
        lambda U, V, M: M @ U @ V.T + U @ V.T @ M,
        "Each factor is pulled by the other one: U moves with M V, V with M^T U.",
        _speed_with(first=lambda U, V, M: M @ V @ U.T),
        "U' is M V. In the product U V^T it is multiplied by V^T, not by U^T.",
        _speed_with(first=lambda U, V, M: M @ V.T @ V),
        "It is V V^T, films by films: U' = M V, times V^T.",
        lambda U, V, M: (M @ V, M.T @ U),
        "These are the speeds of U and V. Return that of their product, one matrix.",
        lambda U, V, M: speed(U, V, M) * (M != 0),
        "Blanks move too: M is zero there, M V V^T is not.",
    ),
)


def best_blank(a, b, e):
    """The w of least nuclear norm in [[a, b], [e, w]]: ||W||_*^2 = a^2 + b^2 + e^2 + w^2 + 2 |aw - be|.

    Left and right of the kink w0 = be/a the parabolas have their minima at a and -a (in some order), so w is
    w0 where that lies between -|a| and |a|, else the nearer end.
    """
    return a * np.clip(b * e / a**2, -1, 1)


def _blanks(rng):
    """Kinks within reach and beyond it, of both signs, with a of both signs; sizes drawn; |be| = a^2 once.

    Then fixed: |a| < 1, where a^2 < |be| < |a|; |a| > 1, where |a| < |be| < a^2; b and e on either side of
    |a|, with be on either side of a^2; b or e zero.
    """
    cases = [(1.0, 2.0, 3.0)]
    for sign, reach in ((-1, 0.6), (1, -0.4), (-1, 3.0), (1, -2.5), (-1, -4.0)):
        a = sign * rng.uniform(0.7, 3)
        b = rng.choice([-1.0, 1.0]) * rng.uniform(0.7, 3)
        cases.append((a, b, reach * rng.uniform(0.9, 1.1) * a**2 / b))
    tie = rng.uniform(0.7, 3)
    cases.append((tie, -tie, tie))
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
            "That is the w of rank one. Far out it costs more than it saves: where |be| > a^2, the minimum "
            "is not in the kink but on one of the parabolas beside it."
        ),
        lambda a, b, e: 0.0,
        "w = 0 makes the Frobenius norm smallest. The nuclear norm has 2 |aw - be| besides.",
        lambda a, b, e: a,
        "w = a is the minimum of one parabola, right where it lies on its own side of the kink be/a.",
        lambda a, b, e: -a,
        "w = -a is the minimum of one parabola, right where it lies on its own side of the kink be/a.",
        lambda a, b, e: a * np.sign(b * e),
        "These are the minima of the parabolas. Where |be| < a^2 the minimum is in the kink, w = be/a.",
        lambda a, b, e: -a * np.sign(b * e) if abs(b * e) > a**2 else b * e / a,
        "Beyond the kink's reach you took the wrong parabola: w moves towards be/a, as far as |a|.",
        lambda a, b, e: np.clip(b * e / a, -1, 1),
        "Limits of -1 and 1 are right for a = 1 only: the parabolas have their minima at a and -a.",
        lambda a, b, e: b * e / a if abs(b * e) <= abs(a) else a * np.sign(b * e),
        "The kink be/a is in reach where |be/a| <= |a|, that is |be| <= a^2; you asked for |be| <= |a|.",
        lambda a, b, e: min(b * e / a, a),
        "min cuts on one side only: where be/a is out of reach, w is at the end, -|a| or |a|, nearer to it.",
        lambda a, b, e: np.clip(b * e / a, 0, abs(a)),
        "be/a may be negative: the limits are -|a| and |a|.",
        lambda a, b, e: np.clip(b * e / a, -a, a),
        "np.clip wants the lower limit first. For a < 0 that is a: take -|a| and |a|.",
        lambda a, b, e: abs(a) * np.clip(b * e / a**2, -1, 1),
        "Right for a > 0. For a < 0 the sign is turned: the kink is at be/a.",
        lambda a, b, e: b * e / a if abs(b * e) <= a**2 else 0.0,
        "Where the kink is out of reach, w is not 0: minimise w^2 - 2aw or w^2 + 2aw, whichever is the side.",
        lambda a, b, e: a * np.clip(-b * e / a**2, -1, 1),
        "The determinant is aw - be, so the kink is at +be/a.",
        lambda a, b, e: abs(best_blank(a, b, e)),
        "The sign is lost: w may be negative. It lies between 0 and be/a.",
        lambda a, b, e: np.linalg.norm([[a, b], [e, best_blank(a, b, e)]], "nuc"),
        "That is the least norm. Return the w that has it.",
        lambda a, b, e: a / (b * e) if b * e else 0.0,
        "The kink is where aw - be = 0, so w = be / a.",
    ),
)


def _along(matrix, W, many=2):
    """xi_k^T matrix zeta_k with W's first singular vectors, that of the largest singular value first."""
    xi, _, zeta = np.linalg.svd(W, full_matrices=False)
    return np.einsum("ak,ab,kb->k", xi[:, :many], matrix, zeta[:many])


def _root(matrix):
    """The root of a symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.clip(values, 0, None)) @ vectors.T


def _remembered(W, M, beta, scale=lambda beta: beta**4 / 4, cost=None, speeds=None):
    """The two answers; scale(beta) under the roots, cost(sigma, root, beta), speeds(sigma, root, pull)."""
    sigma = _singular(W)
    root, along = np.sqrt(sigma**2 + scale(beta)), _along(M, W, len(W))
    return (
        cost(sigma, root, beta) if cost else root.sum(),
        speeds(sigma, root, along) if speeds else 2 * root * along,
    )


def _remembered_with(**changes):
    return lambda W, M, beta: _remembered(W, M, beta, **changes)


def remembered(W, M, beta):
    """(cost, speeds) of factors that came by the flow from U = beta I, V = 0.

    U^T U - V^T V = beta^2 I for ever. So (U U^T)^2 - beta^2 U U^T = W W^T, and U U^T has the eigenvalues
    r_k + beta^2 / 2 with r_k^2 = sigma_k^2 + beta^4 / 4, V V^T likewise r_k - beta^2 / 2: the cost is
    sum r_k, and sigma_k' = xi_k^T (M V V^T + U U^T M) zeta_k = 2 r_k xi_k^T M zeta_k.
    """
    return _remembered(W, M, beta)


def _speeds_by_rows(W, M, beta):
    """Takes the rows of the left vectors for the vectors."""
    xi, sigma, zeta = np.linalg.svd(W)
    return remembered(W, M, beta)[0], 2 * np.sqrt(sigma**2 + beta**4 / 4) * np.diag(xi @ M @ zeta.T)


def _speeds_by_columns(W, M, beta):
    """Takes the columns of the right vectors, which come transposed, for the vectors."""
    xi, sigma, zeta = np.linalg.svd(W)
    return remembered(W, M, beta)[0], 2 * np.sqrt(sigma**2 + beta**4 / 4) * np.diag(xi.T @ M @ zeta)


def _speed_of_W(W, M, beta):
    left, right = (_root(one + np.eye(len(W)) * beta**4 / 4) for one in (W @ W.T, W.T @ W))
    return M @ right + left @ M


def _speeds_of_the_speed(W, M, beta):
    """The singular values of the speed of W."""
    return remembered(W, M, beta)[0], _singular(_speed_of_W(W, M, beta))


def _as_long(W, M, beta):
    """With the eigenvalues of U U^T for those of V V^T."""
    large = np.sqrt(_singular(W) ** 2 + beta**4 / 4) + beta**2 / 2
    return large.sum(), 2 * large * _along(M, W, len(W))


def _remembered_cases(rng):
    """beta^2 / 2 among the singular values, which are distinct: no answer that drops either is right."""
    cases = []
    for d, beta, sizes in (
        (2, 1.5, (2.0, 0.4)),
        (3, 2.2, (4.0, 1.5, 0.3)),
        (3, 0.7, (1.0, 0.3, 0.05)),
        (4, 1.7, (6.0, 2.0, 0.8, 0.02)),
    ):
        left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
        W = left * (np.array(sizes) * rng.uniform(0.85, 1.15, d)) @ right.T
        while True:
            M = rng.normal(size=(d, d))
            along = _along(M, W, d)
            if abs(along).min() > 0.2 and along.min() < 0 < along.max():
                break
        cases.append((W, M, beta * rng.uniform(0.95, 1.05)))
    return cases


REMEMBERED = Exercise(
    id="04.3",
    title="What a run remembers",
    points=3,
    minutes=25,
    difficulty=3,
    reference=remembered,
    cases=_remembered_cases,
    compare=Compare(rtol=1e-4),
    misconceptions=known(
        _remembered_with(scale=lambda beta: 0.0),
        "That is for balanced factors, U^T U = V^T V. Here the difference is beta^2 I, now as at the start.",
        _remembered_with(cost=lambda sigma, root, beta: sigma.sum()),
        "For the cost you took the nuclear norm, that of balanced factors. U^T U - V^T V is beta^2 I here.",
        _remembered_with(speeds=lambda sigma, root, along: 2 * sigma * along),
        "Your speeds belong to balanced factors, U^T U = V^T V. Here the difference is beta^2 I.",
        _remembered_with(scale=lambda beta: beta**4),
        "g^2 - beta^2 g = sigma^2 has g = beta^2 / 2 + sqrt(beta^4 / 4 + sigma^2): you lost the 4.",
        _remembered_with(cost=lambda sigma, root, beta: np.sqrt(sigma**2 + beta**4).sum()),
        "Your cost lost a 4: g^2 - beta^2 g = sigma^2 has g = beta^2 / 2 + sqrt(beta^4 / 4 + sigma^2).",
        _remembered_with(scale=lambda beta: beta**2 / 4),
        "At the start U^T U = beta^2 I, not beta I: square it.",
        _remembered_with(scale=lambda beta: beta**2),
        "Under the root stands beta^4 / 4: g^2 - beta^2 g = sigma^2 for the eigenvalues g of U U^T.",
        _remembered_with(cost=lambda sigma, root, beta: 2 * root.sum()),
        "The cost has a factor 1/2.",
        _remembered_with(cost=lambda sigma, root, beta: (root + beta**2 / 2).sum() / 2),
        "That is the half of ||U||^2. The cost has that of ||V||^2 besides.",
        _remembered_with(cost=lambda sigma, root, beta: (root - beta**2 / 2).sum() / 2),
        "That is the half of ||V||^2. The cost has that of ||U||^2 besides.",
        _remembered_with(cost=lambda sigma, root, beta: (root + beta**2 / 2).sum()),
        "That is ||U||^2. ||V||^2 is smaller: V V^T has the eigenvalues h with h^2 + beta^2 h = sigma^2.",
        _remembered_with(cost=lambda sigma, root, beta: (root - beta**2 / 2).sum()),
        "That is ||V||^2. ||U||^2 is larger: U U^T has the eigenvalues g with g^2 - beta^2 g = sigma^2.",
        _remembered_with(cost=lambda sigma, root, beta: sigma.sum() + len(sigma) * beta**2 / 2),
        "The start's cost and the nuclear norm do not just add up: find the eigenvalues of U U^T and V V^T.",
        _remembered_with(cost=lambda sigma, root, beta: len(sigma) * beta**2 / 2),
        "That is the cost at the start. What never changes is U^T U - V^T V, not the lengths.",
        _remembered_with(speeds=lambda sigma, root, along: root * along),
        "Half of it: both factors move, and M V V^T and U U^T M both have a part.",
        lambda W, M, beta: _remembered(
            W, M, beta, speeds=lambda sigma, root, along: (root - beta**2 / 2) * along
        ),
        "That is what the motion of U does, M V V^T. V moves too: U U^T M.",
        lambda W, M, beta: _remembered(
            W, M, beta, speeds=lambda sigma, root, along: (root + beta**2 / 2) * along
        ),
        "That is what the motion of V does, U U^T M. U moves too: M V V^T.",
        _remembered_with(speeds=lambda sigma, root, along: along),
        "So trained entries would move. A product moves with M V V^T + U U^T M (exercise 04.1).",
        _remembered_with(speeds=lambda sigma, root, along: 2 * root * along / sigma),
        "These are rates. Speeds are asked for: do not divide by sigma_k.",
        _remembered_with(speeds=lambda sigma, root, along: 2 * root * abs(along)),
        "A singular value may also shrink: its speed has a sign.",
        _remembered_with(speeds=lambda sigma, root, along: np.sort(2 * root * along)[::-1]),
        "Your speeds are sorted. They belong in the order of the singular values.",
        lambda W, M, beta: _remembered(
            W, M, beta, speeds=lambda sigma, root, along: 2 * root * np.linalg.svd(M)[1]
        ),
        "You took the singular values of M. Its part along the singular vectors of W moves sigma_k.",
        _as_long,
        "You took V V^T to be as large as U U^T. Their eigenvalues differ by beta^2.",
        lambda W, M, beta: (remembered(W, M, beta)[0], _as_long(W, M, beta)[1]),
        "In your speeds V V^T is as large as U U^T. Their eigenvalues differ by beta^2.",
        lambda W, M, beta: (
            np.sqrt(abs(_singular(W) ** 2 - beta**4 / 4)).sum(),
            2 * np.sqrt(abs(_singular(W) ** 2 - beta**4 / 4)) * _along(M, W, len(W)),
        ),
        "A sign under the root: g^2 - beta^2 g = sigma^2 has g = beta^2 / 2 + sqrt(beta^4 / 4 + sigma^2).",
        lambda W, M, beta: (remembered(W, M, beta)[0], _speed_of_W(W, M, beta)),
        "Your second answer is the speed of W. Put it between xi_k and zeta_k, as in section 4.5.",
        _speeds_of_the_speed,
        "The singular values of the speed are not the speeds of the singular values: put it between xi_k and "
        "zeta_k.",
        _speeds_by_rows,
        "The vectors xi_k are the columns of what np.linalg.svd returns first, not its rows.",
        _speeds_by_columns,
        "The vectors zeta_k are the rows of what np.linalg.svd returns last, not its columns.",
        _remembered_with(speeds=lambda sigma, root, along: -2 * root * along),
        "Uphill: M is the negative gradient already.",
        lambda *given: remembered(*given)[::-1],
        "Return the cost first, then the speeds.",
    ),
)


def _enclosed(u, eps, slopes=None, lower=None, upper=None):
    """The two numbers; slopes(u) for p, lower(u, eps, p) or upper(u, eps, p) in place of one."""
    p = slopes(u) if slopes else 1 / (1 + np.exp(u))
    return (
        lower(u, eps, p) if lower else u.min() * eps / (p * u).mean(),
        upper(u, eps, p) if upper else eps / p.mean(),
    )


def _enclosed_with(**changes):
    return lambda u, eps: _enclosed(u, eps, **changes)


def enclosed(u, eps):
    """(mu(W), B) at a stationary point with ||M||_op = eps, from its u (n,) alone: they enclose mu-hat.

    M has the weights lambda_i = p_i / n, p = |l'(u)|, and the largest singular value eps: B = eps / mean p.
    And mean p u = <M, W> = <M V, U> = eps ||U||^2 = eps ||W||_*, as the factors are balanced.
    """
    return _enclosed(u, eps)


def _rests(rng):
    """Positive outputs of several sizes, the least well below the others' mean; weights that differ."""
    cases = []
    for n in (3, 5, 8, 12):
        u = np.concatenate([rng.uniform(0.4, 0.8, 1), rng.uniform(1.2, 4, n - 1)])
        cases.append((rng.permutation(u), rng.uniform(0.01, 0.1)))
    return cases


ENCLOSED = Exercise(
    id="04.4",
    title="Where a penalty stops",
    points=3,
    minutes=10,
    difficulty=2,
    reference=enclosed,
    cases=_rests,
    compare=Compare(rtol=1e-4),
    misconceptions=known(
        lambda u, eps: _enclosed(u, eps)[::-1],
        "Your two numbers are swapped: first the margin, then the bound.",
        _enclosed_with(lower=lambda u, eps, p: u.min()),
        "The margin is the least output over the nuclear norm: <M, W> = eps ||W||_* gives that.",
        _enclosed_with(lower=lambda u, eps, p: u.min() * eps),
        "||W||_* is not 1/eps: it is <M, W> over eps, and <M, W> is the mean of slope times output.",
        _enclosed_with(lower=lambda u, eps, p: (p * u).mean() / eps),
        "That is the nuclear norm. The margin is the least output over it.",
        _enclosed_with(lower=lambda u, eps, p: u.min() / (p * u).mean()),
        "<M, W> is eps ||W||_*: divide by eps to have the nuclear norm.",
        _enclosed_with(lower=lambda u, eps, p: u.min() / eps / (p * u).mean()),
        "<M, W> = eps ||W||_*: the nuclear norm is <M, W> over eps, not times eps.",
        _enclosed_with(lower=lambda u, eps, p: u.min() * eps / (2 * (p * u).mean())),
        "Half of it: <M, W> = <M V, U> = eps ||U||^2, and that is eps ||W||_*, once.",
        _enclosed_with(lower=lambda u, eps, p: 2 * u.min() * eps / (p * u).mean()),
        "Twice too much: balanced factors have ||U||^2 = ||V||^2 = ||W||_* each.",
        _enclosed_with(lower=lambda u, eps, p: u.min() * eps / (p.mean() * u.mean())),
        "<M, W> is the mean of slope times output, not the product of the two means.",
        _enclosed_with(lower=lambda u, eps, p: u.min() * eps / u.mean()),
        "In <M, W> each output counts with its slope, 1 / (1 + exp(u_i)).",
        _enclosed_with(lower=lambda u, eps, p: u.mean() * eps / (p * u).mean()),
        "The margin takes the least output, not the mean.",
        _enclosed_with(lower=lambda u, eps, p: eps),
        "The margin takes the least output: over ||W||_* = <M, W> / eps.",
        _enclosed_with(lower=lambda u, eps, p: u.min() * p.sum() / (p * u).sum()),
        "That is mu(W) over the bound. Return mu(W) itself.",
        _enclosed_with(lower=lambda u, eps, p: u.min() * eps / (p * u).sum()),
        "In your margin M lacks its 1/n: <M, W> is the mean of slope times output.",
        _enclosed_with(
            lower=lambda u, eps, p: u.min() * eps / (p * u).sum(), upper=lambda u, eps, p: eps / p.sum()
        ),
        "The pull has a factor 1/n: sums should be means.",
        _enclosed_with(upper=lambda u, eps, p: eps / p.sum()),
        "In your bound M lacks its 1/n: the lambda_i are slopes / n, and add up to their mean.",
        _enclosed_with(upper=lambda u, eps, p: 1 / p.mean()),
        "||M||_op is eps here, not 1.",
        _enclosed_with(upper=lambda u, eps, p: eps),
        "eps is ||S||_op. The bound divides it by the sum of the weights.",
        _enclosed_with(upper=lambda u, eps, p: p.mean() / eps),
        "Your bound is upside down: B = ||S||_op / sum of the lambda_i.",
        _enclosed_with(upper=lambda u, eps, p: eps / p.max()),
        "The bound divides by the sum of the weights, not by the largest.",
        _enclosed_with(upper=lambda u, eps, p: eps / (p * u).mean()),
        "The bound divides by the sum of the weights, without the outputs.",
        _enclosed_with(upper=lambda u, eps, p: eps / u.mean()),
        "The weights are the slopes over n, not the outputs.",
        _enclosed_with(slopes=lambda u: 1 / (1 + np.exp(-u))),
        "Those are the probabilities of the right answers. The slopes are 1 / (1 + exp(u)).",
        _enclosed_with(slopes=lambda u: np.exp(-u)),
        "The slope is 1 / (1 + exp(u)). exp(-u) is near it for large u only.",
        _enclosed_with(slopes=lambda u: np.logaddexp(0, -u)),
        "You took the losses for the slopes, 1 / (1 + exp(u)).",
        _enclosed_with(slopes=lambda u: -1 / (1 + np.exp(u))),
        "The weights are the absolute slopes, |l'(u)|: positive.",
        _enclosed_with(upper=lambda u, eps, p: np.log10(p.mean() / eps)),
        "That is a logarithm. Return the bound itself.",
        _enclosed_with(lower=lambda u, eps, p: eps / p.mean()),
        "You returned the bound in both places. The margin needs ||W||_*: <M, W> = eps ||W||_*.",
        _enclosed_with(upper=lambda u, eps, p: u.min() * eps / (p * u).mean()),
        "You returned the margin in both places. The bound is ||S||_op over the sum of the weights.",
    ),
)

EXERCISES = [SPEED, BLANK, REMEMBERED, ENCLOSED]
