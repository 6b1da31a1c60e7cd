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
    minutes=10,
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
    etas, steps = (1.0, 0.5, 2.0, 0.1, 3.0), (1e5, 1e6, 1e7, 1e8, 1e9)
    return [(*problem, eta, int(j)) for problem, eta, j in zip(found, etas, steps, strict=True)]


PLAIN = Exercise(
    id="17.2",
    title="Plain descent's clock",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_plain,
    cases=_plain_cases,
    compare=Compare(rtol=1e-3, atol=0.0),  # a run from R = 0, log(1 + eta s j), is right as well
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
    each=lambda log_g, eta, a: -a * log_g - math.log(eta),
    mean=_mean_of_both,
    parts=np.diff,
    add=lambda logs: np.logaddexp.reduce(logs),
    unit=LN10,
):
    """An answer from the steps in a unit of length, their mean on a stretch, the stretches, and the sum."""

    def answer(way, log_g, eta, a):
        way, log_g = np.asarray(way, float), np.asarray(log_g, float)
        return float(add(np.log(parts(way)) + mean(each(log_g, eta, a))) / unit)

    return answer


_clock = _clock_by()


def _clock_cases(rng):
    def one(k, mu, far, a, drop=3.0):
        way = rng.uniform(1, 4) + np.cumsum(rng.uniform(0.5, 1.5, size=k)) * far / k
        log_g = -drop - mu * (way - way[0]) + rng.normal(size=k) * 0.05
        return way, log_g, float(rng.choice([rng.uniform(0.2, 0.6), rng.uniform(1.7, 4.0)])), a

    return [
        (np.array([5.0, 9.0]), np.array([-3.0, -4.0]), 1.0, 1.0),
        (np.array([5.0, 9.0, 11.0]), np.array([-3.0, -4.0, -4.0]), 0.5, 1.0),  # one stretch is level
        one(6, 0.3, 40, 0.5),
        one(8, 0.3, 30, 0.0),
        one(5, float(rng.uniform(0.2, 0.4)), 60, float(rng.uniform(0.2, 0.4))),
        one(30, 0.4, 2600, 1.0),  # beyond 10^308
    ]


def _left(u):
    return u[:-1]


def _right(u):
    return u[1:]


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
        "That takes the gradient at the start of each stretch. It falls on the way: integrate.",
        _clock_by(mean=_right),
        "That takes the gradient at the end of each stretch: too many steps. Integrate.",
        _clock_by(mean=lambda u: (u[1:] + u[:-1]) / 2),
        "In the middle of a stretch is not its mean: an exponential is curved. Integrate it.",
        _clock_by(mean=lambda u: np.logaddexp(u[1:], u[:-1]) - math.log(2)),
        "The number of steps in a unit of length is an exponential of the way on a stretch, not linear.",
        _clock_by(unit=1.0),
        "That is the natural logarithm. Asked is log10.",
        _clock_by(each=lambda log_g, eta, a: a * log_g + math.log(eta)),
        "Upside down: a step covers eta ||G||^a, so a unit of length takes 1 / (eta ||G||^a) of them.",
        _clock_by(each=lambda log_g, eta, a: a * log_g - math.log(eta)),
        "The smaller the gradient, the more steps.",
        _clock_by(each=lambda log_g, eta, a: -a * log_g + math.log(eta)),
        "The larger eta, the fewer steps.",
        _clock_by(each=lambda log_g, eta, a: -a * log_g),
        "eta counts.",
        _clock_by(each=lambda log_g, eta, a: -log_g - math.log(eta)),
        "That is plain descent, a = 1.",
        _clock_by(each=lambda log_g, eta, a: -(1 - a) * log_g - math.log(eta)),
        "a = 1 is plain descent, a = 0 has steps of one length.",
        _clock_by(each=lambda log_g, eta, a: -a * (log_g + math.log(eta))),
        "A step has the length eta ||G||^a, not (eta ||G||)^a.",
        _clock_by(each=lambda log_g, eta, a: np.zeros_like(log_g) - math.log(eta)),
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
        lambda way, log_g, eta, a: float(np.exp2(_clock(way, log_g, eta, a) / math.log10(2))),
        "Return the log10 of the number, which itself may overflow.",
        lambda way, log_g, eta, a: _clock(np.asarray(way)[[0, -1]], np.asarray(log_g)[[0, -1]], eta, a),
        "log ||G|| is linear between *neighbouring* places, not from the first to the last.",
        lambda way, log_g, eta, a: _naive(way, log_g, eta, a),
        "The number overflows. Add up in logarithms, with np.logaddexp.reduce.",
        lambda way, log_g, eta, a: _bare(way, log_g, eta, a),
        "Where log ||G|| stays as it is, that is 0 / 0: there all steps have one length. And large numbers "
        "overflow: add up in logarithms, with np.logaddexp.reduce.",
        lambda way, log_g, eta, a: _level(way, log_g, eta, a),
        "Where log ||G|| stays as it is, that is 0 / 0. There all steps have one length.",
        _clock_by(mean=lambda u: _mean_of_both(u) + np.log(np.maximum(np.abs(np.diff(u)), 1e-300))),
        "The integral of e^(su) is e^(su) / s: the slope s is missing below.",
    ),
)


def _naive(way, log_g, eta, a):
    with np.errstate(all="ignore"):
        logs = np.log(np.diff(way)) + _mean_of_both(-a * np.asarray(log_g) - math.log(eta))
        return float(np.log10(np.exp(logs).sum()))


def _bare(way, log_g, eta, a):
    with np.errstate(all="ignore"):
        u = -a * np.asarray(log_g) - math.log(eta)
        return float(np.log10((np.diff(way) * np.diff(np.exp(u)) / np.diff(u)).sum()))


def _level(way, log_g, eta, a):
    with np.errstate(all="ignore"):
        u = -a * np.asarray(log_g) - math.log(eta)
        rise = np.abs(np.diff(u))
        logs = np.log(np.diff(way)) + np.maximum(u[1:], u[:-1]) + np.log(-np.expm1(-rise) / rise)
        return float(np.logaddexp.reduce(logs) / LN10)


# --------------------------------------------------------------------------- 17.4 the longest step
def _longest_by(
    across=lambda rows, unit: rows - np.outer(rows @ unit, unit),
    weights=lambda lam, rows: lam / lam.sum(),
    stiff=lambda H: np.linalg.eigvalsh(H)[-1],
    join=lambda mu, h: 2 * mu / h,
):
    """An answer from the rows' parts across the SVM, their weights, and what of the matrix counts."""

    def answer(rows, lam):
        mu = 1 / np.linalg.norm(lam @ rows)
        parts, q = across(rows, mu * (lam @ rows)), weights(lam, rows)
        return float(join(mu, stiff(parts.T @ (q[:, None] * parts))))

    return answer


_right = _longest_by()


def _longest(rows, lam):
    if not np.allclose(rows @ (lam @ rows), 1, atol=1e-3):  # so that no message doubles rows alone
        raise ValueError("lam @ rows does not have the leads 1")
    return _right(rows, lam)


def _longest_cases(rng):
    cases = [np.array([[2.0, 1.0], [1.0, -1.0]])]
    for k, D in ((3, 3), (2, 6), (4, 8), (5, 8)):
        for _ in range(1000):
            rows = _tight(rng, k, D)[0] * rng.uniform(0.4, 2.5, size=(k, 1))
            lam = np.linalg.solve(rows @ rows.T, np.ones(k))
            if lam.min() > 0.02 * lam.max() and np.ptp(np.linalg.norm(rows, axis=1)) > 0.5:
                break
        cases.append(rows)
    return [(rows, np.linalg.solve(rows @ rows.T, np.ones(len(rows)))) for rows in cases]


LONGEST = Exercise(
    id="17.4",
    title="The longest step that settles",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_longest,
    cases=_longest_cases,
    misconceptions=known(
        _longest_by(across=lambda rows, unit: rows),
        "u is across the SVM's direction: so take the part along it off each row.",
        _longest_by(join=lambda mu, h: mu / h),
        "With that step the stiffest part of u is gone at once. A longer one overshoots, but may shrink u.",
        _longest_by(join=lambda mu, h: 2 / h),
        "mu is missing: the pull has the length s e^(-mu R) / mu, and the weights lambda add up to 1 / mu^2.",
        _longest_by(join=lambda mu, h: 2 * mu**2 / h),
        "That is for eta times the pull over s e^(-mu R). A normalised step divides by ||W_mm||, too.",
        _longest_by(join=lambda mu, h: 2 / (mu * h)),
        "The sum of lambda is 1 / mu^2, ||W_mm|| is 1 / mu: the one over the other gives 1 / mu, beside h.",
        _longest_by(join=lambda mu, h: h / (2 * mu)),
        "Upside down: the stiffer, the shorter.",
        _longest_by(join=lambda mu, h: mu / (2 * h)),
        "1 - eta h / mu has to be above -1: eta below 2 mu / h.",
        _longest_by(weights=lambda lam, rows: np.full(len(lam), 1 / len(lam))),
        "The rows do not pull equally: their pulls are in the ratio of lambda.",
        _longest_by(weights=lambda lam, rows: lam),
        "The step is normalised: divide by the length of the whole pull.",
        _longest_by(weights=lambda lam, rows: np.ones(len(lam))),
        "Each row counts with its pull, in the ratio of lambda, not with 1.",
        _longest_by(stiff=np.trace),
        "The sum of the eigenvalues is more than the largest, and that one decides.",
        _longest_by(stiff=lambda H: np.linalg.eigvalsh(H)[-2]),
        "All parts of u have to shrink: the largest eigenvalue decides, not the second.",
        _longest_by(stiff=lambda H: min(x for x in np.linalg.eigvalsh(H) if x > 1e-9)),
        "The largest eigenvalue overshoots first.",
        _longest_by(stiff=lambda H: math.sqrt(np.linalg.eigvalsh(H)[-1])),
        "The eigenvalue itself, not its root: <A, u> and A multiply.",
        lambda rows, lam: 1 / float(np.linalg.norm(lam @ rows)),
        "That is the margin. How far u is turned depends on the rows' parts across the SVM.",
        lambda rows, lam: 2 / float(np.linalg.norm(lam @ rows)),
        "That is 2 mu. How far u is turned depends on the rows' parts across the SVM, too.",
        _longest_by(join=lambda mu, h: 2 / (mu**2 * h)),
        "The sum of lambda is 1 / mu^2, but a normalised step divides by the whole pull.",
    ),
    withheld=("mini_attn.rates.remainder",),
)


# --------------------------------------------------------------------------- 17.5 Adam's speed
def _ratio(b, beta_1, beta_2):
    first = (1 - beta_1) / (1 - beta_1 * math.exp(b))
    return first * math.sqrt(max((1 - beta_2 * math.exp(2 * b)) / (1 - beta_2), 0.0))


def _adam_by(ratio=_ratio, top=lambda beta_1, beta_2: min(-math.log(beta_1), -math.log(beta_2) / 2)):
    """Solve b = eta mu ratio(b) on (0, top) by bisection."""

    def answer(eta, mu, beta_1, beta_2):
        low, high = 0.0, top(beta_1, beta_2) * (1 - 1e-12)
        for _ in range(200):
            b = (low + high) / 2
            low, high = (b, high) if b < eta * mu * ratio(b, beta_1, beta_2) else (low, b)
        return (low + high) / 2

    return answer


_adam = _adam_by()


def _both_rooted(b, beta_1, beta_2):
    first = (1 - beta_1) / (1 - beta_1 * math.exp(b))
    return math.sqrt(max(first * (1 - beta_2 * math.exp(2 * b)) / (1 - beta_2), 0.0))


def _by_rounds(eta, mu, beta_1, beta_2):
    b = eta * mu
    for _ in range(200):
        b = eta * mu * _ratio(min(b, -math.log(beta_1) * 0.999), beta_1, beta_2)
    return b


ADAM = Exercise(
    id="17.5",
    title="Adam's speed limit",
    points=3,
    minutes=10,
    difficulty=3,
    reference=_adam,
    cases=lambda rng: [
        (0.01, 1.0, 0.9, 0.95),
        (0.01, float(rng.uniform(0.5, 2.0)), 0.9, 0.999),
        (float(rng.uniform(0.02, 0.06)), float(rng.uniform(0.8, 1.5)), 0.9, 0.95),
        (float(rng.uniform(0.01, 0.03)), 1.2, 0.7, float(rng.uniform(0.93, 0.97))),
    ],
    compare=Compare(rtol=1e-6, atol=0.0),
    misconceptions=known(
        lambda eta, mu, beta_1, beta_2: eta * mu,
        "That is sign descent's. Adam's means hold older, larger gradients: how do they change the step?",
        lambda eta, mu, beta_1, beta_2: -math.log(beta_2) / 2,
        "That is the limit for long steps. For shorter ones solve b = eta mu ratio(b).",
        _adam_by(lambda b, b1, b2: 1 / max(_ratio(b, b1, b2), 1e-9)),
        "The constant is upside down: the mean of the gradients over the root of that of their squares.",
        lambda eta, mu, beta_1, beta_2: min(eta * mu, -math.log(beta_2) / 2),
        "Both limits are right, and in between the two join smoothly: solve b = eta mu ratio(b).",
        _adam_by(lambda b, b1, b2: math.sqrt(max((1 - b2 * math.exp(2 * b)) / (1 - b2), 0.0))),
        "The mean of the gradients lags as well: it holds older gradients, which are larger.",
        _adam_by(
            lambda b, b1, b2: (1 - b1) / (1 - b1 * math.exp(b)) * math.sqrt((1 - b2 * math.exp(b)) / (1 - b2))
        ),
        "The second mean is one of squares, which fall by e^(-2b) each step.",
        _adam_by(
            lambda b, b1, b2: (
                (1 - b1) / (1 - b1 * math.exp(-b)) * math.sqrt((1 - b2 * math.exp(-2 * b)) / (1 - b2))
            )
        ),
        "Going back in time the gradients get *larger*: the sums run over beta^k e^(bk).",
        _adam_by(
            lambda b, b1, b2: (1 - b1) / (1 - b1 * math.exp(b)) * max(1 - b2 * math.exp(2 * b), 0) / (1 - b2)
        ),
        "Adam divides by the root of the second mean.",
        _adam_by(lambda b, b1, b2: _ratio(b, b2, b1)),
        "The two means are mixed up: beta_1 belongs to the mean, beta_2 to the mean of squares.",
        lambda eta, mu, beta_1, beta_2: (
            eta * mu * _ratio(eta * mu, beta_1, beta_2)
            if eta * mu < -math.log(beta_2) / 2
            else -math.log(beta_2) / 2
        ),
        "One substitution is not enough: b stands on both sides. Solve the equation, by bisection.",
        _adam_by(lambda b, b1, b2: (1 - b1) / (1 - b1 * math.exp(b))),
        "The second mean lags as well, and divides: it holds older gradients, which are larger.",
        lambda eta, mu, beta_1, beta_2: _adam(eta, 1.0, beta_1, beta_2),
        "mu is missing: a step of length eta times the constant lets the loss fall by mu times that.",
        lambda eta, mu, beta_1, beta_2: _adam(eta, mu, beta_1, beta_2) / mu,
        "That is the length of a step. The log of the loss falls by mu times that.",
        _adam_by(lambda b, b1, b2: _ratio(b, b1, b2) / (1 - b1) * math.sqrt(1 - b2)),
        "The means have weights (1 - beta) beta^k, not beta^k.",
        lambda eta, mu, beta_1, beta_2: _ratio(_adam(eta, mu, beta_1, beta_2), beta_1, beta_2),
        "That is the constant. The loss falls by e^-b, with b = eta mu times the constant.",
        _adam_by(ratio=lambda b, beta_1, beta_2: _ratio(b, beta_1, beta_2) / (1 - beta_1)),
        "The first mean has a factor 1 - beta_1 in front of its series.",
        _adam_by(ratio=lambda b, beta_1, beta_2: _ratio(-b, beta_1, beta_2), top=lambda beta_1, beta_2: 10.0),
        "Gradients fall, so older ones are larger: the series has the ratio beta_1 e^b, not beta_1 e^(-b).",
        lambda eta, mu, beta_1, beta_2: eta * mu * _ratio(eta * mu, beta_1, beta_2),
        "b stands on both sides: putting it in on the right, once or often, need not solve that. Halve an "
        "interval.",
        _by_rounds,
        "Putting b in on the right again and again can jump between two ends. Halve an interval.",
        _adam_by(ratio=_both_rooted),
        "The root is over the second mean alone.",
    ),
)

EXERCISES = [WEIGHTS, PLAIN, CLOCK, LONGEST, ADAM]
