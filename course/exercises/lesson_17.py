"""Exercises of lesson 17: rates of convergence."""

import math

import numpy as np

from course.check.specification import Compare, Exercise, known

LN10 = math.log(10)


# --------------------------------------------------------------------------- 17.1 the weights to come
def _weights_by(
    target=lambda c, lam: np.log(c / lam),
    solve=lambda rows, b: np.linalg.pinv(rows) @ b,
    along=lambda rows, lam: lam @ rows,
    memory=lambda w, inside, unit: w - inside,
    join=lambda forth, r, left: forth + r + left,
):
    """An answer from the remainder (how it is solved, what is taken out), the memory, and their sum."""

    def answer(rows, lam, c, w, R):
        r, away, unit = solve(rows, target(c, lam)), along(rows, lam), lam @ rows
        unit = unit / np.linalg.norm(unit)
        if away is not None:
            r = r - (r @ away) * away / (away @ away)
        left = memory(w, np.linalg.pinv(rows) @ (rows @ w), unit)
        return join(R * unit, r, left)

    return answer


_weights = _weights_by()


def _tight(rng, k, D):
    """Rows that are all tight at the shortest w with leads 1, and the weights that they carry."""
    for _ in range(10_000):
        rows = rng.normal(size=(k, D)) + 1.2 * np.eye(D)[0]
        lam = np.linalg.solve(rows @ rows.T, np.ones(k))
        if lam.min() > 0.03 * lam.max() and np.linalg.cond(rows) < 30:
            return rows, lam
    raise RuntimeError("no rows found")


def _alike(rng):
    """Two rows that are nearly parallel, and a third across them."""
    frame = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    apart = rng.uniform(0.02, 0.03)
    rows = np.stack([frame[0] + apart * frame[1], frame[0] - apart * frame[1], 0.8 * frame[0] + frame[2]])
    return rows, np.linalg.solve(rows @ rows.T, np.ones(3))


def _weights_cases(rng):
    """Rows that span the space, and fewer; memories as large as remainders; R near and far."""
    simple = np.array([[1.0, 0.5, 0.0], [1.0, -1.0, 0.0]]), np.linalg.solve([[1.25, 0.5], [0.5, 2.0]], [1, 1])
    found = [simple, *(_tight(rng, k, D) for k, D in ((3, 3), (2, 5), (4, 9)))]
    cases = [(rows, lam, rng.uniform(0.02, 1.0, size=len(lam))) for rows, lam in found]
    cases.append((*_alike(rng), np.array([0.1, 0.7, 0.4]) * rng.uniform(0.8, 1.2, size=3)))
    return [
        (rows, lam, c, 6 * lam @ rows + rng.normal(size=rows.shape[1]) * 2, float(rng.uniform(4, 12)))
        for rows, lam, c in cases
    ]


WEIGHTS = Exercise(
    id="17.1",
    title="The weights to come",
    points=2,
    minutes=9,
    difficulty=2,
    reference=_weights,
    cases=_weights_cases,
    misconceptions=known(
        _weights_by(target=lambda c, lam: np.log(lam / c)),
        "The other way round: c e^-<A, r> is to be a multiple of lambda, so a strong comparison needs a "
        "*longer* lead.",
        _weights_by(memory=lambda w, inside, unit: 0 * w),
        "What the first steps left outside of the span of the rows stays there, and counts.",
        _weights_by(memory=lambda w, inside, unit: w - (w @ unit) * unit),
        "Only the part of w outside of the *span of the rows* stays. Inside it the run moves on to r.",
        _weights_by(memory=lambda w, inside, unit: w),
        "Of w only the part outside of the span of the rows stays: take its projection on the span off.",
        _weights_by(memory=lambda w, inside, unit: inside),
        "That is the part of w in the span of the rows. The memory is the rest.",
        lambda rows, lam, c, w, R: (unit := lam @ rows / np.linalg.norm(lam @ rows)) * (R - w @ unit) + w,
        "What is across does not stay as it is: in the span of the rows the run moves on to r.",
        _weights_by(
            target=lambda c, lam: np.log(lam / c), memory=lambda w, inside, unit: w - (w @ unit) * unit
        ),
        "Two mistakes: a strong comparison needs a *longer* lead; and inside the span the run moves on.",
        _weights_by(solve=lambda rows, b: np.zeros(rows.shape[1])),
        "The remainder in the span of the rows counts, too: there the run settles on r, not on 0.",
        _weights_by(join=lambda forth, r, left: r + left),
        "That is what is across. The part along the SVM's direction has the length R.",
        _weights_by(
            join=lambda forth, r, left: (
                np.linalg.norm(forth) * (whole := forth + r + left) / np.linalg.norm(whole)
            )
        ),
        "R is the part along the SVM's direction, not the whole length.",
        _weights_by(along=lambda rows, lam: None),
        "The remainder has a part along the SVM's direction: take that out, it belongs to R.",
        _weights_by(target=lambda c, lam: np.log(c)),
        "The pull of a row has to agree with its weight lambda, which is not the same for all rows.",
        _weights_by(target=lambda c, lam: -np.log(lam)),
        "The strengths c count, too: a strong comparison needs a longer lead.",
        _weights_by(target=lambda c, lam: np.log(c * lam)),
        "c e^-<A, r> is to be a multiple of lambda: so <A, r> is log(c / lambda) but for a constant.",
        _weights_by(target=lambda c, lam: np.log(c / lam) - np.log(c / lam).mean(), along=lambda *both: None),
        "Taking the mean off log(c / lambda) does not make r perpendicular to the SVM's direction.",
        _weights_by(join=lambda forth, r, left: forth + np.linalg.norm(forth) * (r + left)),
        "Remainder and memory do not grow with R: only the part along the SVM does.",
        lambda rows, lam, c, w, R: _weights(rows, lam, c, w, w @ (lam @ rows) / np.linalg.norm(lam @ rows)),
        "That is at the present length. Asked are the weights when the part along the SVM has grown to R.",
        lambda rows, lam, c, w, R: w + R * (lam @ rows) / np.linalg.norm(lam @ rows),
        "The part along the SVM is to *be* R, not to grow by R; and in the span of the rows w moves on to r.",
        lambda rows, lam, c, w, R: R * w / np.linalg.norm(w),
        "The direction of w changes: only the part along the SVM grows.",
        _weights_by(target=lambda c, lam: c / lam),
        "Take the logarithm of c / lambda.",
        _weights_by(along=lambda rows, lam: rows.sum(0)),
        "The direction to take out is that of the SVM, the rows weighted by lambda.",
        _weights_by(solve=lambda rows, b: rows.T @ b),
        "rows.T @ b lies in their span but does not solve <A_i, r> = b_i: the rows are not orthonormal.",
        lambda rows, lam, c, w, R: _weights(rows, lam, c, w, R * np.linalg.norm(lam @ rows)),
        "The part along the SVM is to have the length R: multiply a unit vector by it.",
        lambda rows, lam, c, w, R: _weights(rows, np.ones(len(lam)), c / lam, w, R),
        "The SVM's direction is the sum of the rows *times lambda*, not that of the rows alone.",
        lambda rows, lam, c, w, R: (
            _weights(rows, lam, c, w, R) + (np.linalg.pinv(rows) - rows.T) @ (rows @ w)
        ),
        "rows.T @ rows is a projection only if the rows are orthonormal: take pinv(rows) @ rows.",
    ),
    withheld=("mini_attn.rates.remainder",),
)


# --------------------------------------------------------------------------- 17.2 plain descent's clock
def _plain_by(
    scale=lambda rows, lam, c: lam @ np.log(c / lam) / lam.sum(),
    join=lambda log_s, mu, eta, j: (math.log(eta) + log_s + math.log(j)) / mu,
):
    """An answer from log s, and R from it."""

    def answer(rows, lam, c, eta, j):
        mu = 1 / np.linalg.norm(lam @ rows)
        return float(join(scale(rows, lam, c), mu, eta, j))

    return answer


_plain = _plain_by()


def _plain_cases(rng):
    found = [(rows, lam, c) for rows, lam, c, _, _ in _weights_cases(rng)]
    etas, steps = (1.0, 0.5, 2.0, 0.1, 3.0), (1e9, 1e10, 1e11, 1e12, 1e13)
    return [(*problem, eta, int(j)) for problem, eta, j in zip(found, etas, steps, strict=True)]


PLAIN = Exercise(
    id="17.2",
    title="Plain descent's clock",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_plain,
    cases=_plain_cases,
    compare=Compare(rtol=1e-6, atol=0.0),  # a run from R = 0, log(1 + eta s j), is right as well
    misconceptions=known(
        _plain_by(join=lambda log_s, mu, eta, j: math.log(j) / mu),
        "That drops eta and s, which are not small: keep the constants in front of the exponential.",
        _plain_by(join=lambda log_s, mu, eta, j: math.log(eta * j) / mu),
        "s is missing: the pull is s e^(-mu R) W_mm.",
        _plain_by(join=lambda log_s, mu, eta, j: (log_s + math.log(j)) / mu),
        "eta counts.",
        _plain_by(join=lambda log_s, mu, eta, j: (math.log(eta * j) - log_s) / mu),
        "Upside down: the stronger the pull, the longer the weights.",
        _plain_by(scale=lambda rows, lam, c: np.log(c / lam).mean()),
        "In the plain mean over the rows r does not drop out. With which weights is the sum of <A_i, r> 0?",
        _plain_by(scale=lambda rows, lam, c: np.log(c / lam)[0]),
        "The first row alone: there <A_i, r> does not drop out. Take a mean over all rows.",
        _plain_by(scale=lambda rows, lam, c: np.log(c / lam).max()),
        "Take a mean over the rows in which <A_i, r> drops out, not the largest.",
        _plain_by(scale=lambda rows, lam, c: math.log((c / lam).mean())),
        "Take the logarithm first, and then the mean in which <A_i, r> drops out.",
        _plain_by(scale=lambda rows, lam, c: math.log(c.sum() / lam.sum())),
        "Take the logarithm first: <A_i, r> is in the exponent, and drops out of a mean of logarithms only.",
        _plain_by(scale=lambda rows, lam, c: np.log(c).mean()),
        "The pull of a row has to agree with its weight: log(c / lambda), and a mean in which r drops out.",
        _plain_by(scale=lambda rows, lam, c: lam @ np.log(c) / lam.sum()),
        "lambda stands in the equation, too: c e^-<A, r> = s lambda.",
        _plain_by(scale=lambda rows, lam, c: lam @ np.log(c * lam) / lam.sum()),
        "c e^-<A, r> = s lambda: so s is about c / lambda, not their product.",
        _plain_by(scale=lambda rows, lam, c: lam @ np.log(c / lam)),
        "A mean has weights that add up to 1: divide by the sum of lambda.",
        _plain_by(
            scale=lambda rows, lam, c: lam @ np.log(c / lam),
            join=lambda log_s, mu, eta, j: (math.log(eta * j) + log_s - math.log(mu)) / mu,
        ),
        "Two mistakes: a mean has weights that add up to 1, so divide by the sum of lambda; and ||W_mm||, "
        "1 / mu, cancels the mu of the integral.",
        _plain_by(
            scale=lambda rows, lam, c: (f := lam * np.linalg.norm(rows, axis=1)) @ np.log(c / lam) / f.sum()
        ),
        "Weight the rows by lambda: W_mm is the sum of lambda_i A_i, and r is across it.",
        _plain_by(join=lambda log_s, mu, eta, j: (math.log(eta * j) + log_s) * mu),
        "Divide by mu: the pull falls as e^(-mu R).",
        _plain_by(join=lambda log_s, mu, eta, j: math.log(eta * j) + log_s),
        "That is mu R. Divide by mu.",
        _plain_by(join=lambda log_s, mu, eta, j: (math.log(eta * j) + log_s - math.log(mu)) / mu),
        "Integrating e^(mu R) divides by mu; that cancels the length of W_mm, which is 1 / mu.",
        _plain_by(join=lambda log_s, mu, eta, j: (math.log(eta * j) + log_s + math.log(mu)) / mu),
        "The pull has the length s e^(-mu R) ||W_mm||, and ||W_mm|| = 1 / mu cancels the mu of the integral.",
        _plain_by(join=lambda log_s, mu, eta, j: (math.log(eta * j) + log_s + 2 * math.log(mu)) / mu),
        "||W_mm|| = 1 / mu, not mu: the two factors mu cancel.",
        _plain_by(join=lambda log_s, mu, eta, j: (math.log(eta * j) + log_s - 2 * math.log(mu)) / mu),
        "That is the rate of the loss, not of R: the two factors mu cancel.",
        _plain_by(join=lambda log_s, mu, eta, j: (math.log10(eta * j) + log_s / LN10) / mu),
        "Take the natural logarithm.",
        _plain_by(join=lambda log_s, mu, eta, j: math.exp(log_s) * eta * j / mu),
        "The pull does not stay as it is: it falls as e^(-mu R). Integrate.",
    ),
)


# --------------------------------------------------------------------------- 17.3 the other clock
def _mean_of_both(u):
    """The log of the mean of e^u over a stretch on which u is linear."""
    rise = np.abs(np.diff(u))
    safe = np.where(rise > 1e-12, rise, 1.0)
    return np.maximum(u[1:], u[:-1]) + np.where(rise > 1e-12, np.log(-np.expm1(-safe) / safe), 0.0)


def _clock_by(
    each=lambda log_g, eta: -log_g - math.log(eta),
    mean=_mean_of_both,
    parts=np.diff,
    add=lambda logs: np.logaddexp.reduce(logs),
    unit=LN10,
):
    """An answer from the steps in a unit of length, their mean on a stretch, the stretches, and the sum."""

    def answer(way, log_g, eta):
        way, log_g = np.asarray(way, float), np.asarray(log_g, float)
        return float(add(np.log(parts(way)) + mean(each(log_g, eta))) / unit)

    return answer


_clock = _clock_by()


def _clock_cases(rng):
    def one(k, mu, far, drop=3.0):
        way = rng.uniform(1, 4) + np.cumsum(rng.uniform(0.5, 1.5, size=k)) * far / k
        log_g = -drop - mu * (way - way[0]) + rng.normal(size=k) * 0.05
        return way, log_g, float(rng.choice([rng.uniform(0.2, 0.6), rng.uniform(1.7, 4.0)]))

    return [
        (np.array([5.0, 9.0]), np.array([-3.0, -4.0]), 1.0),
        (np.array([5.0, 9.0, 11.0, 14.0]), np.array([-3.0, -4.0, -3.5, -4.0]), 0.5),  # on one it rises
        one(6, 0.3, 40),
        one(8, 0.15, 30),
        one(5, float(rng.uniform(0.05, 0.15)), 60),
        one(30, 0.4, 2600),  # beyond 10^308
    ]


def _left(u):
    return u[:-1]


def _right(u):
    return u[1:]


def _no_lower_limit(u):
    """The integral of e^u over a stretch, without what is to be taken off at its start."""
    with np.errstate(invalid="ignore"):
        return u[1:] - np.log(np.diff(u))


def _naive(way, log_g, eta):
    with np.errstate(all="ignore"):
        logs = np.log(np.diff(way)) + _mean_of_both(-np.asarray(log_g) - math.log(eta))
        return float(np.log10(np.exp(logs).sum()))


def _bare(way, log_g, eta):
    with np.errstate(all="ignore"):
        u = -np.asarray(log_g) - math.log(eta)
        return float(np.log10((np.diff(way) * np.diff(np.exp(u)) / np.diff(u)).sum()))


def _bare_upper(way, log_g, eta):
    with np.errstate(all="ignore"):
        u = -np.asarray(log_g) - math.log(eta)
        return float(np.log10((np.diff(way) * np.exp(u[1:]) / np.diff(u)).sum()))


def _rising(add=np.logaddexp.reduce):
    def answer(way, log_g, eta):
        with np.errstate(all="ignore"):
            u = -np.asarray(log_g) - math.log(eta)
            rise = np.diff(u)
            logs = np.log(np.diff(way)) + u[1:] + np.log(-np.expm1(-rise)) - np.log(rise)
            return float(add(logs) / LN10)

    return answer


CLOCK = Exercise(
    id="17.3",
    title="The other clock",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_clock,
    cases=_clock_cases,
    compare=Compare(rtol=1e-6, atol=0.0),
    misconceptions=known(
        _clock_by(mean=_left),
        "That takes the gradient at the start of each stretch. It changes on the way: integrate.",
        _clock_by(mean=_right),
        "That takes the gradient at the end of each stretch. It changes on the way: integrate.",
        _clock_by(mean=lambda u: (u[1:] + u[:-1]) / 2),
        "In the middle of a stretch is not its mean: an exponential is curved. Integrate it.",
        _clock_by(mean=lambda u: np.logaddexp(u[1:], u[:-1]) - math.log(2)),
        "The number of steps in a unit of length is an exponential of the way on a stretch, not linear.",
        _clock_by(unit=1.0),
        "That is the natural logarithm. Asked is log10.",
        _clock_by(each=lambda log_g, eta: log_g + math.log(eta)),
        "Upside down: a step covers eta ||G||, so a unit of length takes 1 / (eta ||G||) of them.",
        _clock_by(each=lambda log_g, eta: log_g - math.log(eta)),
        "The smaller the gradient, the more steps.",
        _clock_by(each=lambda log_g, eta: -log_g + math.log(eta)),
        "The larger eta, the fewer steps.",
        _clock_by(each=lambda log_g, eta: -log_g),
        "eta counts.",
        _clock_by(each=lambda log_g, eta: np.zeros_like(log_g) - math.log(eta)),
        "That is the number of steps of one length.",
        _clock_by(parts=lambda way: np.ones(len(way) - 1)),
        "A stretch has the length way[i + 1] - way[i]: that counts.",
        _clock_by(parts=lambda way: way[1:]),
        "A stretch has the length way[i + 1] - way[i], not way[i].",
        _clock_by(add=np.max),
        "The longest stretch alone is not all of them: add them up.",
        _clock_by(add=np.sum),
        "Add up the numbers of steps, not their logarithms.",
        _clock_by(add=lambda logs: np.log(np.mean(np.exp(logs - logs.max()))) + logs.max()),
        "Add the stretches up; that is their mean.",
        lambda way, log_g, eta: float(np.exp2(_clock(way, log_g, eta) / math.log10(2))),
        "Return the log10 of the number, which itself may overflow.",
        lambda way, log_g, eta: _clock(np.asarray(way)[[0, -1]], np.asarray(log_g)[[0, -1]], eta),
        "log ||G|| is linear between *neighbouring* places, not from the first to the last.",
        _naive,
        "The number overflows. Add up in logarithms, with np.logaddexp.reduce.",
        _bare,
        "Large numbers overflow: add up in logarithms, with np.logaddexp.reduce.",
        _rising(),
        "Where ||G|| rises, this takes the logarithm of a negative number: the integral is the larger "
        "exponential less the smaller one, over the size of the slope.",
        _rising(lambda logs: np.logaddexp.reduce(logs[np.isfinite(logs)])),
        "Stretches on which ||G|| rises count, too: there the integral is the larger exponential less the "
        "smaller one, over the size of the slope.",
        _clock_by(mean=_no_lower_limit),
        "That is the antiderivative at the end of each stretch alone. Take off what it is at the start.",
        _bare_upper,
        "An integral is a difference: take off what e^(su) / s is at the start of each stretch.",
        _clock_by(mean=lambda u: np.maximum(u[1:], u[:-1]) - np.log(np.abs(np.diff(u)) + 1e-300)),
        "That is the antiderivative at one end of each stretch alone. Take off what it is at the other.",
        _clock_by(mean=lambda u: _mean_of_both(u) + np.log(np.maximum(np.abs(np.diff(u)), 1e-300))),
        "The integral of e^(su) is e^(su) / s: the slope s is missing below.",
    ),
)


# --------------------------------------------------------------------------- 17.4 how an error fades
def _direction(W):
    return W / np.linalg.norm(W)


def _fade_by(
    W_hat=lambda rows, lam: _direction(lam @ rows),
    weights=lambda rows, lam, u: lam * np.exp(-rows @ u),
    across=lambda pull, unit: pull - (pull @ unit) * unit,
    over=lambda pull, rows, lam, unit: pull @ unit,
):
    """An answer from W_hat, how hard each row pulls, the part of the sum that counts, and the divisor."""

    def answer(rows, lam, u):
        unit = W_hat(rows, lam)
        pull = weights(rows, lam, u) @ rows
        return across(pull, unit) / over(pull, rows, lam, unit)

    return answer


_in_order = _fade_by()


def _pull(rows, lam, u):
    return (lam * np.exp(-rows @ u)) @ rows


def _fade(rows, lam, u):
    if not np.allclose(rows @ (lam @ rows), 1, atol=1e-3):  # so that no message doubles rows alone
        raise ValueError("lam @ rows does not have the leads 1")
    return _in_order(rows, lam, u)


def _fade_cases(rng):
    """Errors in the span of the rows and across the SVM, so large that leads differ by 2 to 6."""
    rows = [np.array([[2.0, 1.0], [1.0, -1.0]])]
    for k, D in ((2, 5), (3, 3), (3, 6), (4, 8), (5, 8)):
        while True:
            drawn = _tight(rng, k, D)[0] * rng.uniform(0.4, 2.5, size=(k, 1))
            lam = np.linalg.solve(drawn @ drawn.T, np.ones(k))
            if lam.min() > 0.05 * lam.max() and np.ptp(np.linalg.norm(drawn, axis=1)) > 0.4:
                break
        rows.append(drawn)
    cases = []
    for A in rows:
        lam = np.linalg.solve(A @ A.T, np.ones(len(A)))
        unit = lam @ A / np.linalg.norm(lam @ A)
        u = rng.normal(size=len(A)) @ A
        u = u - (u @ unit) * unit
        cases.append((A, lam, u * rng.uniform(2, 6) / np.ptp(A @ u)))
    return cases


def _linear(rows, lam, u):
    mu = 1 / np.linalg.norm(lam @ rows)
    across = rows - np.outer(rows @ rows.T @ lam, lam @ rows) * mu**2
    return -mu * (lam * (across @ u)) @ across


FADE = Exercise(
    id="17.4",
    title="How an error fades",
    points=2,
    minutes=12,
    difficulty=2,
    reference=_fade,
    cases=_fade_cases,
    misconceptions=known(
        _fade_by(weights=lambda rows, lam, u: lam * np.exp(rows @ u)),
        "The sign of the exponent: a row whose lead is longer by <A, u> pulls *less*.",
        _linear,
        "That is linear in u, the limit of a small u. Here u need not be small: keep the exponential.",
        _fade_by(weights=lambda rows, lam, u: np.exp(-rows @ u)),
        "lambda is missing: on the remainder, where u = 0, the rows pull in the ratio of lambda.",
        _fade_by(weights=lambda rows, lam, u: np.exp(-rows @ u) / lam),
        "On the remainder the rows pull in the ratio of lambda, not of its inverse.",
        _fade_by(weights=lambda rows, lam, u: lam * np.where(rows @ u > (rows @ u).min(), 0, 1)),
        "That is the hardest pull alone. All rows pull, each by s lambda e^-<A, u> e^(-mu R).",
        _fade_by(across=lambda pull, unit: pull),
        "Of the pull only the part across W_hat changes u; the part along W_hat belongs to R.",
        lambda rows, lam, u: -_in_order(rows, lam, u),
        "The sign: a step goes along the pull, and so does u.",
        lambda rows, lam, u: -_fade_by(weights=lambda rows, lam, u: lam * np.exp(rows @ u))(rows, lam, u),
        "Two signs: a row with a longer lead pulls less, and u moves along the pull.",
        _fade_by(over=lambda pull, rows, lam, unit: 1.0),
        "That is the pull across W_hat. By how much does R grow in the meantime?",
        _fade_by(over=lambda pull, rows, lam, unit: np.linalg.norm(pull)),
        "That is the change of u by a step of length 1. R grows by the part of a step *along* W_hat only.",
        _fade_by(over=lambda pull, rows, lam, unit: np.linalg.norm(lam @ rows)),
        "That divides by the pull along W_hat for u = 0. With u it is another.",
        _fade_by(over=lambda pull, rows, lam, unit: np.linalg.norm(lam @ rows) * (pull @ unit)),
        "You divide by how hard the rows pull in all, which is also pull @ W_mm. Along W_hat each of them "
        "has only the part mu_hat.",
        _fade_by(over=lambda pull, rows, lam, unit: (pull @ unit) / np.linalg.norm(lam @ rows)),
        "Along W_hat each row has the part mu_hat: that counts once, in the pull along W_hat.",
        _fade_by(over=lambda pull, rows, lam, unit: (pull @ unit) * (lam @ rows @ rows.T @ lam)),
        "You multiply by mu_hat: along W_hat each row has the part mu_hat, so divide.",
        _fade_by(W_hat=lambda rows, lam: lam @ rows),
        "W_hat has length 1: divide W_mm by its length before you take parts along it.",
        _fade_by(W_hat=lambda rows, lam: lam @ rows / (lam @ rows @ rows.T @ lam)),
        "W_hat has length 1: divide W_mm by its length, not by the square of its length.",
        _fade_by(W_hat=lambda rows, lam: _direction(rows.sum(0))),
        "W_hat is the direction of W_mm, the sum of the rows *times lambda*.",
        lambda rows, lam, u: (
            (_pull(rows, lam, u) - lam @ rows) / (_pull(rows, lam, u) @ _direction(lam @ rows))
        ),
        "Take off the part along W_hat of *this* pull, not the pull at u = 0.",
        lambda rows, lam, u: _pull(rows, lam, u) / np.linalg.norm(lam @ rows) - _direction(lam @ rows),
        "Two mistakes: take off the part along W_hat of *this* pull, not the pull at u = 0, and divide by "
        "this part's length.",
        lambda rows, lam, u: _pull(rows, lam, u) - lam @ rows,
        "That is by how much the pull differs from that at u = 0. Instead take off the part along W_hat of "
        "*this* pull, and divide by this part's length.",
        lambda rows, lam, u: (_in_order(rows, lam, u) @ u) * u / (u @ u),
        "With more rows u does not fall straight towards 0: take all that is across W_hat.",
        _fade_by(weights=lambda rows, lam, u: lam * np.exp(-rows @ u / np.linalg.norm(lam @ rows))),
        "mu_hat does not belong in the exponent: with u a lead is longer by <A, u>.",
        _fade_by(over=lambda pull, rows, lam, unit: np.linalg.norm(pull - (pull @ unit) * unit)),
        "That has the length 1 whatever u is. Divide by the part of the pull along W_hat.",
        _fade_by(
            across=lambda pull, unit: (pull @ unit) * unit,
            over=lambda pull, rows, lam, unit: np.linalg.norm(pull - (pull @ unit) * unit),
        ),
        "Upside down: the pull across W_hat over the pull along it.",
        lambda rows, lam, u: -u,
        "That would fade at the same rate in each direction. Which rows pull, and how hard?",
        lambda rows, lam, u: u + _in_order(rows, lam, u),
        "That is u after R has grown by 1. Asked is its derivative.",
    ),
)


EXERCISES = [WEIGHTS, PLAIN, CLOCK, FADE]
