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


# --------------------------------------------------------------------------- 15.2 the directional divergence
def _divergence_by(
    norm=lambda rho: rho,
    power=lambda rho: rho - 1,
    factor=lambda rho: 1.0,
    swap=False,
    unit=(True, True),
    sign=True,
    short=None,
):
    """An answer from the norms, the power of the mirror map, and which of the two is the centre."""

    def answer(a, b, rho):
        if swap:
            a, b = b, a
        a, b = (w / np.linalg.norm(w, norm(rho)) if one else w for w, one in zip((a, b), unit, strict=True))
        slope = _power(b, power(rho)) if sign else np.abs(b) ** power(rho)
        if short is not None:  # what is left where two terms cancel
            return float(short - slope @ a)
        psi = [np.sum(np.abs(w) ** rho) / rho for w in (a, b)]
        return float(factor(rho) * (psi[0] - psi[1] - slope @ (a - b)))

    return answer


_divergence = _divergence_by()


def _divergence_cases(rng):
    a = rng.normal(size=4)
    return [
        (np.array([3.0, -1.0]), np.array([1.0, 2.0]), 3.0),
        (a, 2.5 * a, 1.5),
        (a, -0.3 * a, 2.5),
        (rng.normal(size=5), rng.normal(size=5) * [7, 0, 7, 7, 7], float(rng.uniform(1.2, 1.8))),
        (
            20 * rng.normal(size=6),
            rng.normal(size=6) * np.array([1, 0, 1, 0, 1, 1]),
            float(rng.uniform(2.3, 4.0)),
        ),
        (np.array([-2.0]), np.array([5.0]), 1.7),
    ]


_unit_divergence = _divergence_by(unit=(False, False))


DIVERGENCE = Exercise(
    id="15.2",
    title="The directional divergence",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_divergence,
    cases=_divergence_cases,
    misconceptions=known(
        _divergence_by(swap=True),
        "The tangent plane touches at b: the slope is that of the *second* argument.",
        _divergence_by(unit=(False, False)),
        "Of the directions: divide both by their l_rho norm first.",
        _divergence_by(norm=lambda rho: 2.0),
        "Divide by the l_rho norm, not by the Euclidean one.",
        _divergence_by(factor=lambda rho: rho),
        "psi has the factor 1/rho, so its gradient has none.",
        _divergence_by(sign=False),
        "The gradient of |w|^rho / rho has w's sign: sign(w) |w|^(rho - 1).",
        _divergence_by(power=lambda rho: 1 / (rho - 1)),
        "The slope is the mirror map, the power rho - 1, not its inverse.",
        lambda a, b, rho: float(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)),
        "1 - cosine is the divergence at rho = 2 only.",
        _divergence_by(short=1.0, unit=(False, False)),
        "Two terms cancel for vectors of l_rho norm 1: divide both first.",
        _divergence_by(short=1.0, unit=(True, False)),
        "b is divided by its norm, too, before its slope is taken.",
        _divergence_by(short=1.0, unit=(False, True)),
        "a is divided by its norm, too.",
        _divergence_by(short=1.0, norm=lambda rho: 2.0),
        "Two terms cancel if the l_rho norms are 1. You divide by the Euclidean ones.",
        _divergence_by(short=1.0, power=lambda rho: 1.0),
        "The slope at b is its mirror image, sign(b) |b|^(rho - 1), not b itself.",
        _divergence_by(short=1.0, power=lambda rho: 1 / (rho - 1)),
        "The inverse of the mirror map: the slope of psi at b is the power rho - 1.",
        _divergence_by(short=1.0, power=lambda rho: rho),
        "The slope of |w|^rho / rho is a power lower: rho - 1.",
        _divergence_by(short=0.0),
        "A term is missing: <slope at b, b> is 1 for a b of norm 1.",
        lambda a, b, rho: 1 - _divergence(a, b, rho),
        "That is <slope at b, a>. The divergence is what it lacks to 1.",
        lambda a, b, rho: _divergence(a, b, rho) / rho,
        "psi has a factor 1/rho, but its slope has none, and the slope is all that is left.",
        lambda a, b, rho: _divergence(a, b, rho) - 1 + 1 / rho,
        "psi(a) and psi(b) are both 1/rho and cancel. What is left of the third term is <slope at b, b> = 1.",
        lambda a, b, rho: (_divergence(a, b, rho) + _divergence(b, a, rho)) / 2,
        "The divergence is not symmetric, and need not be made so.",
        _divergence_by(norm=lambda rho: rho / (rho - 1)),
        "Both are divided by their l_rho norm. The dual exponent belongs to gradients.",
        lambda a, b, rho: _unit_divergence(a / (np.abs(a) ** rho).sum(), b / (np.abs(b) ** rho).sum(), rho),
        "A norm has a root: (sum |w|^rho)^(1/rho). Without it the parts have not length 1.",
    ),
    withheld=("mini_attn.geometry.bregman",),
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

EXERCISES = [BOUNDS, DIVERGENCE, VISIBLE, HELD, QUOTED]
