"""Exercises of lesson 15: mirror descent for attention."""

import numpy as np

from course.check.specification import Exercise, known


def _power(x, c):
    return np.sign(x) * np.abs(x) ** c


# --------------------------------------------------------------------------- 15.1 a certificate
def _bounds_by(
    mirror=lambda rho: 1 / (rho - 1),
    dual=lambda rho: rho / (rho - 1),
    primal=lambda rho: rho,
    worth=lambda lam: lam.sum(),
    least=np.min,
    signs=np.sign,
    refuse=True,
):
    """An answer from the exponents it uses, what it divides, and which lead it scales by."""

    def answer(A, lam, rho):
        S = lam @ A
        W = signs(S) * np.abs(S) ** mirror(rho)
        lead = least(A @ W)
        upper = np.linalg.norm(W, primal(rho)) / lead if lead > 0 or not refuse else np.inf
        return float(worth(lam) / np.linalg.norm(S, dual(rho))), float(upper)

    return answer


_bounds = _bounds_by()


def _bound_cases(rng):
    """Rows around one direction, so that most mirror images are feasible; the last one is not."""
    cases = [
        (np.array([[3.0, 4.0]]), np.array([2.0]), 2.0),
        (np.array([[-0.5], [-2.0]]), np.array([1.0, 3.0]), 3.0),
        (np.array([[1.0, 1.0], [1.0, -0.5]]), np.array([2.0, 0.0]), 1.5),  # the least lead has no weight
        (np.eye(2), np.array([0.01, 0.01]), 1.1),  # leads of 1e-20
        (np.eye(2), np.array([1.0, 0.0]), 2.0),  # a lead of 0
    ]
    for rows, N, rho, scale in ((3, 4, 1.5, 1.0), (5, 3, 3.0, 20.0), (4, 6, 1.2, 0.05), (6, 2, 4.0, 1.0)):
        centre = rng.choice([-1.0, 1.0], size=N) * rng.uniform(0.5, 1.5, size=N)
        while True:
            A = centre + 0.4 * rng.normal(size=(rows, N))
            lam = rng.uniform(0.1, 2.0, size=rows) * (np.arange(rows) != 1)
            leads = A @ _power(lam @ A, 1 / (rho - 1))
            if leads.min() > 0.05 * leads.max() and abs(leads[1] - leads.min()) > 0:
                break
        cases.append((scale * A, lam / scale, rho))
    a = rng.normal(size=3)
    cases.append((np.stack([a, -0.5 * a + 0.1 * rng.normal(size=3)]), np.array([2.0, 1.0]), 2.5))
    return cases


BOUNDS = Exercise(
    id="15.1",
    title="A certificate",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_bounds,
    cases=_bound_cases,
    misconceptions=known(
        _bounds_by(dual=lambda rho: rho),
        "Hölder pairs the norm of W with the *dual* norm of S: exponent rho / (rho - 1).",
        _bounds_by(mirror=lambda rho: rho - 1),
        "The mirror image goes from S to W: the power 1 / (rho - 1), the inverse of the mirror map.",
        _bounds_by(primal=lambda rho: 2.0),
        "The length of W is its l_rho norm.",
        _bounds_by(mirror=lambda rho: 1.0),
        "W is the mirror image of S, the power 1 / (rho - 1), not S itself.",
        _bounds_by(signs=np.ones_like),
        "The mirror image keeps the signs of S.",
        _bounds_by(dual=lambda rho: 2.0),
        "The norm of S is the dual one, rho / (rho - 1): Euclidean only where rho = 2.",
        _bounds_by(primal=lambda rho: rho / (rho - 1)),
        "S is measured in the dual norm, W in l_rho.",
        _bounds_by(dual=lambda rho: 2.0, mirror=lambda rho: 1.0, primal=lambda rho: 2.0),
        "That is the certificate of the Euclidean SVM: norms and mirror image depend on rho.",
        _bounds_by(least=np.mean),
        "Every lead has to reach 1, not their mean.",
        _bounds_by(least=lambda leads: np.abs(leads).min()),
        "A negative lead stays negative at any scale: no absolute value, upper is np.inf.",
        _bounds_by(least=lambda leads: np.sign(leads.min())),
        "Scale W until its smallest lead is 1: divide its length by that lead.",
        lambda A, lam, rho: (1 / _bounds(A, lam, rho)[0], _bounds(A, lam, rho)[1]),
        "Upside down: lower is sum(lam) over the norm of S.",
        _bounds_by(worth=lambda lam: 1.0),
        "Divide sum(lam) by the norm of S: the length of lam must not matter.",
        _bounds_by(least=np.max),
        "Every lead has to reach 1: scale by the *smallest*.",
        _bounds_by(refuse=False),
        "Where some lead is not positive no scaling makes W feasible: upper is np.inf.",
        lambda A, lam, rho: (_bounds(A, lam, rho)[0], _bounds(A[lam > 0], lam[lam > 0], rho)[1]),
        "Every lead has to reach 1, also that of a comparison without weight.",
        lambda A, lam, rho: _bounds(A, lam, rho)[::-1],
        "The order: (lower, upper).",
        lambda A, lam, rho: (float(lam.sum()), _bounds(A, lam, rho)[1]),
        "The length of lambda must not matter: divide its sum by the dual norm of S.",
    ),
    withheld=(
        "mini_attn.svm.dispatch.solve",
        "mini_attn.svm.rational.shortest",
        "mini_attn.svm.solution.certify",
    ),
)


# --------------------------------------------------------------------------- 15.2 how far, without the goal
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
    "Euclidean norms belong to rho = 2: here W has the l_rho norm and S the dual one.",
    _distance_by(dual=lambda rho: 2.0),
    "S is measured in its own norm, the dual one, rho / (rho - 1).",
    _distance_by(primal=lambda rho: 2.0),
    "W is divided by its l_rho norm, not by the Euclidean one.",
    _distance_by(primal=lambda rho: rho / (rho - 1)),
    "W is divided by its l_rho norm; the dual exponent belongs to S.",
    _distance_by(primal=lambda rho: None),
    "Of the directions: W may have any length, divide it by its l_rho norm.",
    _distance_by(dual=lambda rho: None),
    "lam is given up to a factor: divide S by its dual norm.",
    _distance_by(seen=lambda S, rho: _power(S, 1 / (rho - 1)), dual=lambda rho: rho),
    "The slope of psi at W_rho is S, not W_rho itself: undo the mirror image.",
    _distance_by(seen=lambda S, rho: _power(S, 1 / (rho - 1)), dual=lambda rho: 2.0, primal=lambda rho: 2.0),
    "1 - cosine to W_rho is the divergence at rho = 2 only.",
    _distance_by(seen=lambda S, rho: _power(S, rho - 1)),
    "S is the mirror image already: the slope of psi at W_rho is along S, no further power.",
    _distance_by(seen=lambda S, rho: np.abs(S)),
    "The slope keeps the signs of S.",
    _distance_by(finish=lambda held: held),
    "That is <slope at W_rho, W>. The divergence is what it lacks to 1.",
    _distance_by(finish=lambda held: (1 - held) / (2 * held) if held else np.inf),
    "No further division: both directions have l_rho norm 1, and two terms cancel.",
    _lacking(lambda leads, lam: leads.min()),
    "That is what the margin lacks, the smallest lead. The divergence is linear in W: it averages leads.",
    _lacking(lambda leads, lam: leads.mean()),
    "Not all comparisons count alike: S weighs them by lam.",
    _lacking(lambda leads, lam: leads[lam > 0].mean()),
    "The support comparisons count by their weights lam, not alike.",
    lambda W, A, lam, rho: float(1 - lam @ A @ W / lam.sum() / np.linalg.norm(W, rho)),
    "The sum of lam is not the dual norm of S: a mean lead has to be set against the largest margin.",
    lambda W, A, lam, rho: _distance(W, A, np.ones_like(lam), rho),
    "The weights lam are part of S: S is the sum of lam_j A_j.",
)

DISTANCE = Exercise(
    id="15.2",
    title="How far, without the goal",
    points=2,
    minutes=10,
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
            "psi of both is 1/rho, and these cancel. What is left is <slope at b, b> = 1.",
        ),
    ],
    withheld=("mini_attn.geometry.bregman", "mini_attn.svm.dispatch.solve"),
)


# --------------------------------------------------------------------------- 15.3 visible entries
def _visible_by(power=lambda rho: rho - 1, top=np.max, strict=False):
    def answer(S, rho, share):
        size = np.abs(S)
        return int((size >= share ** power(rho) * top(size)).sum())

    return answer


_visible = _visible_by()


def _visible_cases(rng):
    """Arrays in which each rival counts otherwise, and no entry is near the threshold."""
    cases = [(np.array([1.0, -0.7, 0.5, 0.0]), 1.1, 0.01), (np.array([[0.5, -1.0], [0.02, -0.3]]), 1.5, 0.1)]
    for shape, rho, share in (((6, 6), 1.2, 0.02), ((5, 4), 2.6, 0.3), ((40,), 1.5, 0.1), ((1, 1), 3.0, 0.5)):
        while True:
            S = rng.normal(size=shape) * 10 ** rng.uniform(-2, 2)
            ratio = np.abs(S) / np.abs(S).max()
            right = _visible(S, rho, share)
            rivals = [rival.wrong(S, rho, share) for rival in _VISIBLE_RIVALS]
            clear = np.abs(np.log(ratio / share ** (rho - 1))).min() > 1e-3
            if clear and (S.size == 1 or (-S.min() > S.max() and all(right != one for one in rivals))):
                break
        cases.append((S, rho, share))
    return cases


_VISIBLE_RIVALS = known(
    _visible_by(power=lambda rho: 1.0),
    "The share is that of W's entries. |W| is the power 1 / (rho - 1) of |S|, so ask S for another share.",
    lambda S, rho, share: int((np.abs(S) >= share ** (rho - 1) * S.max()).sum()),
    "The largest in *absolute value* sets the threshold.",
    _visible_by(power=lambda rho: 1 / (rho - 1)),
    "The wrong way round: |W| >= share max|W| means |S| >= share^(rho - 1) max|S|.",
    lambda S, rho, share: int(
        (_power(S, 1 / (rho - 1)) >= share * np.abs(_power(S, 1 / (rho - 1))).max()).sum()
    ),
    "Negative entries are visible, too: take absolute values.",
    lambda S, rho, share: S.size - _visible(S, rho, share),
    "That is the number of those that one cannot see.",
    lambda S, rho, share: int((np.abs(_power(S, 1 / (rho - 1))) >= share).sum()),
    "The threshold is relative: `share` times the largest entry of W.",
)

VISIBLE = Exercise(
    id="15.3",
    title="Visible entries",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_visible,
    cases=_visible_cases,
    misconceptions=[
        *_VISIBLE_RIVALS,
        *known(
            lambda S, rho, share: int((share ** (rho - 1) * S.max() <= S).sum()),
            "Take absolute values, of the entries and of the largest.",
            _visible_by(power=lambda rho: rho),
            "|W| is the power 1 / (rho - 1) of |S|: the share for S is share^(rho - 1).",
            _visible_by(power=lambda rho: 1 / rho),
            "The exponent of the mirror map is rho - 1, not rho nor its inverse.",
            _visible_by(power=lambda rho: rho / (rho - 1)),
            "Not the dual exponent: the mirror map is the power rho - 1.",
            _visible_by(top=lambda size: size.max(-1, keepdims=True)),
            "The largest of all entries, not of each row.",
            _visible_by(top=lambda size: size.max(0)),
            "The largest of all entries, not of each column.",
            _visible_by(top=np.linalg.norm),
            "A share of the largest entry, not of the norm.",
            _visible_by(top=np.sum),
            "A share of the largest entry, not of the sum.",
            lambda S, rho, share: _visible(S, rho, share) / S.size,
            "Return how many, a whole number, not which part of all.",
            lambda S, rho, share: _visible(S, rho, share) - 1,
            "The largest entry is visible, too.",
        ),
    ],
)


# --------------------------------------------------------------------------- 15.4 held in which norm?
def _held_by(
    power=lambda rho: 1 / (rho - 1), than=lambda p, a, b: (p * b).sum(1) > (p * a).sum(1), by=lambda a, b: a
):
    def answer(a, b, rho):
        return than(_power(by(a, b), power(rho)), a, b)

    return answer


_held = _held_by()


def _held_cases(rng):
    cases = [(np.array([[2.0, 1.0], [2.0, 1.0]]), np.array([[1.0, 2.7], [0.0, 3.0]]), 1.5)]
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
    id="15.4",
    title="Held in which norm?",
    points=3,
    minutes=12,
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
        "mini_attn.geometry.locally_optimal",
        "mini_attn.geometry.support_tokens",
    ),
)


# --------------------------------------------------------------------------- 15.5 three ways to quote
def _quoted_by(honest=None, peeked=None, last=None):
    """An answer from its three parts, each a function of validation and test."""

    def by_validation(validation, test):
        pick = validation.reshape(len(test), -1).argmax(axis=1)
        return test.reshape(len(test), -1)[np.arange(len(test)), pick].mean()

    def by_test(validation, test):
        return test.reshape(len(test), -1).max(axis=1).mean()

    def at_last(validation, test):
        return test[np.arange(len(test)), validation[:, :, -1].argmax(axis=1), -1].mean()

    parts = (honest or by_validation, peeked or by_test, last or at_last)
    return lambda validation, test: tuple(float(part(validation, test)) for part in parts)


_quoted = _quoted_by()


def _quoted_cases(rng):
    cases = [(np.array([[[0.5, 0.5004]]]), np.array([[[0.1, 0.9]]]))]  # near, but no tie
    for splits, steps, epochs in ((2, 2, 2), (5, 3, 4), (4, 1, 6), (6, 4, 3)):
        while True:  # few examples, so that there are ties, and no two of the three coincide
            validation = rng.integers(3, 9, size=(splits, steps, epochs)) / 10
            test = rng.integers(20, 80, size=(splits, steps, epochs)) / 100
            ties = (validation == validation.max(axis=(1, 2), keepdims=True)).sum(axis=(1, 2))
            right = _quoted(validation, test)
            apart = all(rival.wrong(validation, test) != right for rival in _QUOTED_RIVALS)
            apart &= _quoted_by(last=_last_ties)(validation, test) != right
            apart &= _epochs_first(validation, test) != right[0]
            if ties.max() > 1 and len(set(right)) == 3 and (apart or min(steps, epochs) < 3):
                break
        cases.append((validation, test))
    return cases


def _reversed_ties(validation, test):
    flat = validation.reshape(len(test), -1)[:, ::-1]
    pick = flat.shape[1] - 1 - flat.argmax(axis=1)
    return test.reshape(len(test), -1)[np.arange(len(test)), pick].mean()


def _last_ties(validation, test):
    pick = validation.shape[1] - 1 - validation[:, ::-1, -1].argmax(axis=1)
    return test[np.arange(len(test)), pick, -1].mean()


def _paired(choose):
    """Test accuracies at the chosen (step sizes, epochs), one of each for every split."""
    return lambda validation, test: test[(np.arange(len(test)), *choose(validation, test))].mean()


def _best_epoch(size):
    """The epoch that is best on validation, of a step size that is chosen first."""

    def choose(validation, test):
        k = size(validation)
        return k, validation[np.arange(len(test)), k].argmax(axis=1)

    return _paired(choose)


def _epochs_first(validation, test):
    return _quoted(validation.swapaxes(1, 2), test.swapaxes(1, 2))[0]


def _same_for_all(validation, test):
    return test.mean(axis=0).ravel()[validation.mean(axis=0).argmax()]


_QUOTED_RIVALS = known(
    lambda validation, test: _quoted(validation, test)[::-1],
    "The order: chosen on validation, chosen on the test part, last epoch.",
    _quoted_by(honest=lambda validation, test: validation.max(axis=(1, 2)).mean()),
    "Choose on validation, but quote the *test* accuracy of what was chosen.",
    _quoted_by(honest=_reversed_ties),
    "Among equals on validation take the first, not the last.",
    _quoted_by(honest=_same_for_all),
    "Each split chooses for itself, before the mean is taken.",
    _quoted_by(peeked=lambda validation, test: test.mean(axis=0).max()),
    "The best of each split, then the mean: not the best of the means.",
    _quoted_by(last=lambda validation, test: test[:, :, -1].max(axis=1).mean()),
    "At the last epoch, too, the step size is chosen on validation.",
    _quoted_by(
        last=lambda validation, test: test[
            np.arange(len(test)), validation.max(axis=2).argmax(axis=1), -1
        ].mean()
    ),
    "For the last epoch take the step size that is best on validation *at the last epoch*.",
    _quoted_by(last=lambda validation, test: test[:, :, -1].mean()),
    "For the last epoch a step size has to be chosen, not averaged over.",
)

QUOTED = Exercise(
    id="15.5",
    title="Three ways to quote a result",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_quoted,
    cases=_quoted_cases,
    misconceptions=[
        *_QUOTED_RIVALS,
        *known(
            _quoted_by(_same_for_all, lambda v, t: t.mean(axis=0).max()),
            "Each split chooses for itself, in all three: do not average over the splits before you choose.",
            _quoted_by(last=_last_ties),
            "At the last epoch, too: among equal step sizes take the first.",
            _quoted_by(honest=_epochs_first),
            "Among equals the first in the order of step sizes, then of epochs: not the earliest epoch.",
            _quoted_by(last=lambda v, t: t[:, v[:, :, -1].mean(axis=0).argmax(), -1].mean()),
            "At the last epoch, too, each split chooses its own step size.",
            _quoted_by(
                _same_for_all,
                lambda v, t: t.mean(axis=0).max(),
                lambda v, t: t[:, v[:, :, -1].mean(axis=0).argmax(), -1].mean(),
            ),
            "Choose within each split, and take the mean over the splits last.",
            _quoted_by(last=lambda v, t: t[np.arange(len(t)), v[:, :, -1].argmax(1)].max(1).mean()),
            "The third is the accuracy *at the last epoch* of the chosen step size.",
            _quoted_by(last=_paired(lambda v, t: (v.mean(axis=2).argmax(1), -1))),
            "The third chooses by the last epoch on validation, not by the mean over epochs.",
            _quoted_by(last=lambda v, t: v[:, :, -1].max(axis=1).mean()),
            "The third is a test accuracy, too.",
            _quoted_by(
                peeked=lambda v, t: v.reshape(len(t), -1)[
                    np.arange(len(t)), t.reshape(len(t), -1).argmax(1)
                ].mean()
            ),
            "The second is the test accuracy of what the test part chose.",
            _quoted_by(peeked=lambda v, t: t[:, :, -1].max(axis=1).mean()),
            "The second chooses among all epochs, not the last ones only.",
            _quoted_by(peeked=lambda v, t: t[np.arange(len(t)), v.max(axis=2).argmax(1)].max(1).mean()),
            "The second chooses the step size on the test part, too.",
            _quoted_by(peeked=lambda v, t: t.max()),
            "The second is a mean over splits, each with a best of its own.",
            _quoted_by(honest=_paired(lambda v, t: (v.max(axis=2).argmax(1), -1))),
            "The first chooses the epoch, too, not the step size only.",
            _quoted_by(honest=_best_epoch(lambda v: v[:, :, -1].argmax(axis=1))),
            "Step size and epoch are chosen together, as a pair, not the size at the last epoch first.",
            _quoted_by(honest=_best_epoch(lambda v: v.mean(axis=2).argmax(axis=1))),
            "Step size and epoch are chosen together, as a pair, not the size by its mean first.",
            _quoted_by(honest=_paired(lambda v, t: (v.mean(axis=2).argmax(1), v.mean(axis=1).argmax(1)))),
            "Step size and epoch are chosen together: the best pair, not the best of each.",
            lambda validation, test: tuple(_quoted(validation, test)[k] for k in (1, 0, 2)),
            "The order: first what validation chooses, then what the test part chooses.",
            lambda validation, test: _quoted(test, validation),
            "The other way round: validation chooses, and the test accuracy is quoted.",
            lambda validation, test: tuple(100 * one for one in _quoted(validation, test)),
            "Return accuracies as they are given, not in percent.",
        ),
    ],
)

EXERCISES = [BOUNDS, DISTANCE, VISIBLE, HELD, QUOTED]
