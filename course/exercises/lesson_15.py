"""Exercises of lesson 15: mirror descent for attention."""

import numpy as np

from course.check.specification import Exercise, known


def _power(x, c):
    return np.sign(x) * np.abs(x) ** c


# ------------------------------------------------------------------ 15.1 how far, from the weights alone
def _distance_by(
    primal=lambda rho: rho,
    dual=lambda rho: rho / (rho - 1),
    seen=lambda S, rho: S,
    finish=lambda held: 1 - held,
):
    """An answer from the norms of W and S, what W is compared with, and what is made of the result."""

    def answer(W, A, lam, rho):
        S = seen(lam @ A, rho)
        long = [1.0 if p(rho) is None else np.linalg.norm(w, p(rho)) for w, p in ((S, dual), (W, primal))]
        return float(finish(S @ W / long[0] / long[1]))

    return answer


_distance = _distance_by()


def _goal(A, lam, rho):
    """The SVM's solution up to its length."""
    return _power(lam @ A, 1 / (rho - 1))


def _distance_swapped(W, A, lam, rho):
    b, a = W / np.linalg.norm(W, rho), _goal(A, lam, rho)
    return float(1 - _power(b, rho - 1) @ a / np.linalg.norm(a, rho))


def _lacking(average):
    """1 less some average of the leads of W over the largest margin."""

    def answer(W, A, lam, rho):
        largest = np.linalg.norm(lam @ A, rho / (rho - 1)) / lam.sum()
        return float(1 - average(A @ W / np.linalg.norm(W, rho), lam) / largest)

    return answer


def _distance_case(rng, N, support, others, rho, near):
    """Comparisons whose SVM is known: it holds `support` of them tight, with weights, and `others` not."""
    S = rng.choice([-1.0, 1.0], size=N) * rng.uniform(0.3, 1.5, size=N)
    goal = _power(S, 1 / (rho - 1))
    goal /= np.abs(goal).max()
    lam = rng.uniform(0.3, 2.0, size=support)
    A = rng.normal(size=(support + others, N))
    wants = np.r_[np.ones(support), rng.uniform(1.5, 3.0, size=others)]
    A += ((wants - A @ goal) / (goal @ goal))[:, None] * goal
    A[support - 1] = (lam.sum() / (S @ goal) * S - lam[:-1] @ A[: support - 1]) / lam[-1]
    order = rng.permutation(support + others)
    W = goal + near * rng.normal(size=N)
    return rng.uniform(2, 9) * W, A[order], (rng.uniform(2, 5) * np.r_[lam, np.zeros(others)])[order], rho


def _distance_cases(rng):
    cases = [
        (np.array([2.0, 1.0]), np.array([[3.0, 4.0]]), np.array([1.0]), 2.0),
        (np.array([0.0, -5.0]), np.array([[1.0, -2.0]]), np.array([3.0]), 3.0),
    ]
    for how in ((5, 3, 2, 1.5, 0.5), (6, 4, 2, 3.0, 0.6), (4, 2, 3, 1.3, 0.4), (5, 3, 1, 4.0, 1.5)):
        while True:
            case = _distance_case(rng, *how)
            right = _distance(*case)
            if min(abs(rival.wrong(*case) - right) for rival in _DISTANCE_RIVALS) > 1e-3:
                break
        cases.append(case)
    return cases


_DISTANCE_RIVALS = known(
    _distance_swapped,
    "The tangent plane touches at W_rho, the second argument: the slope is that of W_rho, not of W.",
    _distance_by(dual=lambda rho: rho),
    "The slope lives on the dual side: its norm has the exponent rho / (rho - 1).",
    _distance_by(dual=lambda rho: 2.0, primal=lambda rho: 2.0),
    "Euclidean norms belong to rho = 2: here W has the l_rho norm and S_rho the dual one.",
    _distance_by(dual=lambda rho: 2.0),
    "S_rho is measured in its own norm, the dual one, rho / (rho - 1).",
    _distance_by(primal=lambda rho: 2.0),
    "W is divided by its l_rho norm, not by the Euclidean one.",
    _distance_by(primal=lambda rho: rho / (rho - 1)),
    "W is divided by its l_rho norm; the dual exponent belongs to S_rho.",
    _distance_by(primal=lambda rho: None),
    "Of the directions: W may have any length, divide it by its l_rho norm.",
    _distance_by(dual=lambda rho: None),
    "lam is given up to a factor: divide S_rho by its dual norm.",
    _distance_by(seen=lambda S, rho: _power(S, 1 / (rho - 1)), dual=lambda rho: rho),
    "The slope of psi at W_rho is along S_rho, not W_rho itself: undo the mirror image.",
    _distance_by(seen=lambda S, rho: _power(S, 1 / (rho - 1)), dual=lambda rho: 2.0, primal=lambda rho: 2.0),
    "1 - cosine to W_rho is the divergence at rho = 2 only.",
    _distance_by(seen=lambda S, rho: _power(S, rho - 1)),
    "S_rho is the mirror image already: the slope of psi at W_rho is along it, no further power.",
    _distance_by(seen=lambda S, rho: np.abs(S)),
    "The slope keeps the signs of S_rho.",
    _distance_by(finish=lambda held: held),
    "That is <slope at W_rho, W>. The divergence is what it lacks to 1.",
    _distance_by(finish=lambda held: (1 - held) / (2 * held) if held else np.inf),
    "No further division: both directions have l_rho norm 1, and two terms cancel.",
    _lacking(lambda leads, lam: leads.min()),
    "That is what the margin lacks, the smallest lead. The divergence is linear in W: it averages leads.",
    _lacking(lambda leads, lam: leads.mean()),
    "Not all comparisons count alike: S_rho weighs them by lam.",
    _lacking(lambda leads, lam: leads[lam > 0].mean()),
    "The support comparisons count by their weights lam, not alike.",
    lambda W, A, lam, rho: float(1 - lam @ A @ W / lam.sum() / np.linalg.norm(W, rho)),
    "The sum of lam is not the dual norm of S_rho: a mean lead has to be set against the largest margin.",
    lambda W, A, lam, rho: _distance(W, A, np.ones_like(lam), rho),
    "The weights lam are part of S_rho, the sum of lam_it A_it.",
)

DISTANCE = Exercise(
    id="15.1",
    title="How far, without the SVM",
    points=2,
    minutes=20,
    difficulty=2,
    reference=_distance,
    cases=_distance_cases,
    misconceptions=[
        *_DISTANCE_RIVALS,
        *known(
            lambda W, A, lam, rho: _distance(W, A, lam, rho) / rho,
            "psi has a factor 1/rho, but its slope has none, and the slope is all that is left.",
            lambda W, A, lam, rho: _distance(W, A, lam, rho) * rho,
            "psi has the factor 1/rho, so its slope has none: nothing is left to multiply.",
            lambda W, A, lam, rho: _distance(W, A, lam, rho) - 1 + 1 / rho,
            "psi of both is 1/rho, and these cancel. What is left is <slope at w, w> = 1.",
            _distance_by(seen=lambda S, rho: _power(S, (rho - 1) ** 2)),
            "W_rho is the power 1 / (rho - 1) of S_rho; rho - 1 is the way from W to S.",
        ),
    ],
    withheld=(
        "mini_attn.geometry.bregman",
        "mini_attn.svm.dispatch.solve",
        "mini_attn.svm.rational.shortest",
    ),
)


# ------------------------------------------------------------------------------------- 15.2 how fast
def _falls(rho, c):
    return -2 * min(1.0, (1 + c) / (rho - 1))


def _falls_where(border):
    return lambda rho, c: -2.0 if rho < border(c) else -2 * (1 + c) / (rho - 1)


def _falls_cases(rng):
    """The third and fourth input, below and above the border 2 + c, are in the other order of rho."""
    steep, shallow, far = rng.uniform((0.7, 0.2, 1.2), (0.9, 0.3, 1.8))
    below = 2 + steep * rng.uniform(0.8, 0.9), steep
    above = 2 + shallow * rng.uniform(1.2, 1.4), shallow
    low, high = (rng.uniform((rho, 0.2), (rho + 0.5, 0.8)) for rho in (1.1, 4.2))
    cases = [(3, 0), (1.5, 0), below, above, (3, 0.5), (2 + far + rng.uniform(0.5, 2), far), low, high]
    return [(float(rho), float(c)) for rho, c in cases]


FALLS = Exercise(
    id="15.2",
    title="How fast?",
    points=2,
    minutes=20,
    difficulty=2,
    reference=_falls,
    cases=_falls_cases,
    misconceptions=known(
        lambda rho, c: -2 * min(1.0, 1 / (rho - 1)),
        "That is for steps of one length. With steps like j^c, S grows like j^(1 + c).",
        lambda rho, c: -2 * min(1 + c, (1 + c) / (rho - 1)),
        "The error in S does not stay bounded: a zigzag is as large as a step, j^c, beside j^(1 + c).",
        lambda rho, c: -2 * min(1.0, 1 / (rho - 1) + c),
        "W is the power 1 / (rho - 1) of S, whatever S grows like: of j^(1 + c).",
        lambda rho, c: -2 * min(1.0, max(0.0, (1 + c) / (rho - 1) - c)),
        "The error in W is bounded: the tight leads are equal up to a constant. The zigzag is one in S.",
        lambda rho, c: -2 * (1 + c) / (rho - 1),
        "That is the constant in the leads alone. For rho < 2 + c the other error is larger: like 1/j.",
        _falls_where(lambda c: 2),
        "The border rho = 2 is for c = 0. Where do steps that grow begin to move a lead less and less?",
        _falls_where(lambda c: 2 + 2 * c),
        "At the border a step moves a lead by the same amount for ever: S's length j^(1 + c) to the power "
        "1 / (rho - 1) - 1, times a step's j^c, is constant.",
        lambda rho, c: -2 * min(1.0, (1 + min(c, 1)) / (rho - 1)),
        "c may be larger than 1.",
        lambda rho, c: -2.0,
        "That is the error in S alone. For rho > 2 + c the length of W grows more slowly than j.",
        lambda rho, c: -2.0 * (1 + c if rho > 2 + c else 1),
        "For rho > 2 + c the error is bounded in W, so W's length counts, j^((1 + c) / (rho - 1)), not S's.",
        lambda rho, c: -2.0 * (1 + c),
        "That is a bounded error beside the length of S. The bounded one is in W, and the one in S grows.",
        lambda rho, c: -2 * max(1.0, (1 + c) / (rho - 1)),
        "That is the smaller error. The larger one stays: of two slopes the one nearer to 0.",
        lambda rho, c: -2 * (1 + (1 + c) / (rho - 1)),
        "Errors add up, they are not multiplied: the larger one decides.",
        lambda rho, c: -min(1.0, (1 + c) / (rho - 1)),
        "That is how the direction's error falls. The divergence is of second order in it.",
        lambda rho, c: 2 * min(1.0, (1 + c) / (rho - 1)),
        "The divergence falls: the slope is negative.",
        lambda rho, c: -2 * min(1.0, (1 + c) * (rho - 1)),
        "S has the power rho - 1 of W, so W has the power 1 / (rho - 1) of S.",
        lambda rho, c: -2 * max(1.0, (1 + c) * (rho - 1)),
        "S has the power rho - 1 of W, so W has the power 1 / (rho - 1) of S; and the larger error stays.",
        lambda rho, c: -2 * (1 + c) * (rho - 1),
        "S grows like j^(1 + c), and W is its power 1 / (rho - 1), not rho - 1.",
        lambda rho, c: -2 * min(1.0, (1 + c) / rho),
        "The length of W grows like j^((1 + c) / (rho - 1)), not like j^((1 + c) / rho).",
        lambda rho, c: -2 * min(1.0, (1 + c) * (rho - 1) / rho),
        "The dual exponent says how S is measured. W grows like j^((1 + c) / (rho - 1)).",
        lambda rho, c: -2 / (rho - 1),
        "That is the power 1 / (rho - 1) of S's error, 1/j. But a power multiplies a small *relative* error "
        "by a constant: 1/j in S is about 1/j in W.",
        lambda rho, c: -rho / (rho - 1) * min(1.0, (1 + c) / (rho - 1)),
        "The dual exponent measures S. The divergence is of second order in the error, whatever rho is.",
        lambda rho, c: -rho * min(1.0, (1 + c) / (rho - 1)),
        "Second order, whatever rho is: psi is curved where W_rho's entries are not 0.",
        lambda rho, c: -2 * min(1.0, (1 + c) / (rho - 1)) - 1,
        "The slope of D itself is asked for, not of its change in a step.",
    ),
)


# ----------------------------------------------------------------- 15.3 locally optimal in which norm?
def _held_by(
    power=lambda rho: 1 / (rho - 1), than=lambda p, a, b: (p * b).sum(1) > (p * a).sum(1), by=lambda a, b: a
):
    def answer(a, b, rho):
        return than(_power(by(a, b), power(rho)), a, b)

    return answer


_held = _held_by()


def _held_cases(rng):
    cases = [(np.array([[2.0, 1.0], [2.0, 1.0]]), np.array([[1.0, 4.0], [0.0, 3.0]]), 1.5)]
    for rows, d, rho in ((60, 2, 1.3), (60, 3, 3.5), (40, 5, 1.6), (6, 1, 2.0)):
        while True:
            a, b = rng.normal(size=(rows, d)), rng.normal(size=(rows, d))
            a[-1, 1:2] = 0
            b += rng.uniform(0.5, 1.5, size=(rows, 1)) * a
            p = _power(a, 1 / (rho - 1))
            clear = np.abs((p * b).sum(1) / (p * a).sum(1) - 1) > 1e-3
            right = _held(a, b, rho)  # the last, with its 0, is held: a NaN would be no lead
            if clear.all() and right[-1] and not right[0]:
                break
        cases.append((a, b, rho))
    return cases


HELD = Exercise(
    id="15.3",
    title="Locally optimal in which norm?",
    points=3,
    minutes=25,
    difficulty=3,
    reference=_held,
    cases=_held_cases,
    misconceptions=known(
        _held_by(power=lambda rho: 1.0),
        "The shortest p with p.a >= 1 is along a only in l_2. In l_rho it is the mirror image of a.",
        _held_by(power=lambda rho: rho - 1),
        "The mirror image of a is the power 1 / (rho - 1), from the dual side to the weights.",
        _held_by(than=lambda p, a, b: (p * b).sum(1) > 0),
        "A lead above 0 is not enough: b's constraint asks for as much as a's, 1.",
        _held_by(than=lambda p, a, b: (p * b).sum(1) < (p * a).sum(1)),
        "The other way round: the better token must *not* be a support token.",
        _held_by(by=lambda a, b: b, than=lambda p, a, b: (p * a).sum(1) > (p * b).sum(1)),
        "The better token's constraint is the one to leave out: p comes from a alone.",
        lambda a, b, rho: (
            np.linalg.norm(b, rho / (rho - 1), axis=1) > np.linalg.norm(a, rho / (rho - 1), axis=1)
        ),
        "Longer is not enough, the direction of b counts: compare the leads of one p.",
        lambda a, b, rho: _held(np.abs(a), np.abs(b), rho),
        "Signs count: sign(a) |a|^(1 / (rho - 1)), and b as it is.",
        _held_by(than=lambda p, a, b: (np.abs(p) * b).sum(1) > (np.abs(p) * a).sum(1)),
        "The mirror image keeps the signs of a.",
        _held_by(than=lambda p, a, b: (p * b).sum(1) > 1),
        "Scale p first, so that p.a = 1; or compare p.b with p.a.",
        _held_by(than=lambda p, a, b: (p * b).sum(1) > np.linalg.norm(p, axis=1)),
        "Of the scalings of p the one with p.a = 1 counts, not the one of Euclidean length 1.",
        lambda a, b, rho: (
            (_power(a, 1 / (rho - 1)) * b).sum(1) > np.linalg.norm(_power(a, 1 / (rho - 1)), rho, axis=1)
        ),
        "Of the scalings of p the one with p.a = 1 counts, not the one of l_rho norm 1.",
        _held_by(than=lambda p, a, b: (p * b).sum(1) > (a * a).sum(1)),
        "p.a, not a.a, is what p has to be divided by.",
        lambda a, b, rho: (a * b).sum(1) > 0,
        "That a and b point to one side is not enough: ask for the lead p.b of the shortest p for a.",
        _held_by(power=lambda rho: rho),
        "p is the mirror image of a: the power 1 / (rho - 1), not rho.",
        _held_by(power=lambda rho: 1 / rho),
        "The exponent is 1 / (rho - 1), not 1 / rho.",
        _held_by(power=lambda rho: rho / (rho - 1)),
        "The exponent is rho* - 1 = 1 / (rho - 1), one less than the dual exponent rho*.",
        _held_by(than=lambda p, a, b: np.abs((p * b).sum(1)) > (p * a).sum(1)),
        "A lead p.b below -1 violates the constraint: no absolute value.",
        _held_by(than=lambda p, a, b: np.abs((p * b).sum(1) - (p * a).sum(1)) > 1e-9),
        "Not tight is not enough: p.b below 1 means that the constraint is needed.",
        lambda a, b, rho: (np.abs(b) ** rho).sum(1) > (np.abs(a) ** rho).sum(1),
        "How long a and b are does not tell. Find the shortest p for a alone, and ask for its lead over b.",
    ),
    withheld=(
        "mini_attn.svm.dispatch.solve",
        "mini_attn.svm.rational.shortest",
        "mini_attn.geometry.locally_optimal",
        "mini_attn.geometry.support_tokens",
    ),
)


# --------------------------------------------------------------------------- 15.4 splits that overlap
def _error_by(factor=lambda m, r: 1 / m + r / (1 - r), ddof=1, root=np.sqrt):
    """An answer from what the sample variance is multiplied by."""
    return lambda difference, r: float(root(np.var(difference, ddof=ddof) * factor(len(difference), r)))


_error = _error_by()


def _error_cases(rng):
    cases = [(np.array([1.0, 3.0]), 0.5), (np.array([-2.0, 0.0, 2.0, 4.0]), 0.25)]
    cases += [(np.array([0.5, 1.5, 4.0]), 0.0)]
    for m, low, high in ((5, 0.1, 0.3), (20, 0.2, 0.4), (8, 0.6, 0.9)):
        cases.append(
            (rng.normal(size=m) * 10 ** rng.uniform(-1, 1) + rng.normal(), float(rng.uniform(low, high)))
        )
    return cases


ERROR = Exercise(
    id="15.4",
    title="Splits that overlap",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_error,
    cases=_error_cases,
    misconceptions=known(
        _error_by(lambda m, r: 1 / m),
        "That is for independent splits. With a correlation r the variance of the mean does not fall below "
        "r times that of one.",
        _error_by(lambda m, r: 1 / m + r * (1 - 1 / m)),
        "Right, if the sample variance were the variance. But it does not see what all splits share: its "
        "expectation is 1 - r times that.",
        _error_by(lambda m, r: 1 / m / (1 - r)),
        "The sample variance is corrected, not yet the variance of the mean: add up all covariances.",
        _error_by(lambda m, r: 1 / m + r),
        "Of the m^2 covariances m are variances, and m^2 - m have the factor r; and the sample variance is "
        "1 - r times the variance, on average.",
        _error_by(lambda m, r: (1 / m + (1 - 1 / m) * r) * (1 - r)),
        "On the wrong side: the sample variance is 1 - r times the variance, on average, so divide by 1 - r.",
        _error_by(lambda m, r: (1 + (m - 1) * r / 2) / (1 - r) / m),
        "Each pair of splits is twice among the m^2 covariances, as (a, b) and (b, a).",
        _error_by(lambda m, r: 1 / m + r / (1 + r)),
        "The sample variance has the expectation (1 - r) times the variance, not 1 + r.",
        _error_by(lambda m, r: r / (1 - r)),
        "The share of each split's own chance is missing, 1 / m.",
        _error_by(lambda m, r: 1 / m + (1 - 1 / m) * r / (1 - r)),
        "Add up again: 1 / m + (1 - 1 / m) r is over 1 - r, all of it.",
        _error_by(lambda m, r: (1 / m + r) / (1 - r)),
        "Of the m^2 covariances only m^2 - m have the factor r: the other m are variances.",
        _error_by(lambda m, r: 1 + r / (1 - r)),
        "That is the variance of one split. The mean is over m of them.",
        _error_by(lambda m, r: (1 / m + r / (1 - r)) / m),
        "The mean's variance is the whole factor: 1 / m is in it already.",
        _error_by(lambda m, r: (1 + (m - 1) * r) / (1 - r)),
        "The sum of all covariances is divided by m^2, not by m.",
        _error_by(lambda m, r: 1 / m + (r / (1 - r)) ** 2),
        "Covariances count once, not squared.",
        _error_by(ddof=0),
        "The sample variance divides by m - 1: with m it is too small on average.",
        _error_by(root=lambda x: x),
        "That is the variance. Return its square root, a standard error.",
        _error_by(root=lambda x: 1.96 * np.sqrt(x)),
        "The standard error itself, not half of an interval.",
        lambda difference, r: float(np.abs(np.mean(difference)) / _error(difference, r)),
        "That is how many standard errors the mean is away from 0. Return the standard error.",
        lambda difference, r: float(
            np.std(difference, ddof=1) * (len(difference) ** -0.5 + (r / (1 - r)) ** 0.5)
        ),
        "Variances add up, not standard errors.",
        lambda difference, r: float(np.sqrt(np.mean(difference**2) * (1 / len(difference) + r / (1 - r)))),
        "The sample variance is about the mean of the differences, not about 0.",
    ),
)

EXERCISES = [DISTANCE, FALLS, HELD, ERROR]
