"""Exercises of lesson 18: measuring real attention, and the controls of a measurement."""

from itertools import product

import numpy as np

from course.check.specification import Compare, Exercise, known


# --------------------------------------------------------------------------- 18.1 how sharp
def _sharp_by(
    below=lambda number, T: np.log(np.maximum(number, 2)),
    total=lambda s: -(s * np.log(np.where(s > 0, s, 1))).sum(-1),
    alone=0.0,
):
    """An answer from what the entropy is divided by, the entropy, and what a single token gives."""

    def answer(s, number):
        return np.where(number > 1, total(s) / below(np.asarray(number), s.shape[-1]), alone)

    return answer


_sharp = _sharp_by()


def _attention(rng, number, T, scale):
    h = scale * rng.normal(size=(len(number), T))
    h[np.arange(T) >= number[:, None]] = -np.inf
    e = np.exp(h - h.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _sharp_cases(rng):
    """Saturated rows with zeros at real tokens, even ones, rows of one token, and none as wide as T."""
    cases = []
    for T, number in ((3, [3, 2]), (6, [1, 2, 4, 6, 5]), (5, [1, 3, 2, 4])):
        number = np.array(number)
        s = _attention(rng, number, T, 1.5)
        if T > 3:
            s[-1] = 0.0
            s[-1, int(rng.integers(number[-1]))] = 1.0
            s[-2, :] = np.where(np.arange(T) < number[-2], 1 / number[-2], 0)
        cases.append((s, number))
    s = _attention(rng, np.full(4, 8), 8, 3.0)
    s[0, 1:] = 0
    s[0, 0] = 1
    s[1] = [0.5, 0, 0, 0.5, 0, 0, 0, 0]
    return [*cases, (s, np.array([8, 8, 8, 8]))]


SHARP = Exercise(
    id="18.1",
    title="How sharp is attention?",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_sharp,
    cases=_sharp_cases,
    misconceptions=known(
        _sharp_by(below=lambda number, T: np.log(T)),
        "Divide by the log of the number of tokens that the row sees, not by log T: padding is no choice.",
        _sharp_by(below=lambda number, T: 1.0),
        "Divide by the largest possible entropy, log(number).",
        _sharp_by(below=lambda number, T: np.maximum(number, 2)),
        "The largest possible entropy is log(number), not the number itself.",
        lambda s, number: -_sharp(s, number),
        "The sign: entropy is -sum s log s, never negative.",
        lambda s, number: 1 - _sharp(s, number),
        "Upside down: 1 is for even attention, 0 for a single token.",
        lambda s, number: np.exp(np.log(np.maximum(number, 1)) * _sharp(s, number)),
        "That is exp(entropy), a number of tokens. Return the entropy over its largest value.",
        _sharp_by(alone=1.0),
        "A row that sees one token has nothing to choose: return 0 for it.",
        lambda s, number: np.full(len(s), _sharp(s, number).mean()),
        "Return one number for each row, not their mean.",
        lambda s, number: s.max(-1),
        "That is the largest attention. The question is the entropy.",
    ),
)


# --------------------------------------------------------------------------- 18.2 do queries agree
def _counts(selected, asks):
    n, T = selected.shape
    counts = np.zeros((n, T))
    i, k = np.nonzero(asks)
    np.add.at(counts, (i, selected[i, k]), 1)
    return counts


def _agree_by(asks=lambda real: real, below=lambda real: real.sum(1), share=lambda counts: counts.max(1)):
    """An answer from who asks, what is divided by, and what is read off the counts."""
    return lambda selected, real: share(_counts(selected, asks(real))) / below(real)


_agree = _agree_by()


def _agree_cases(rng):
    cases = []
    for n, T in ((2, 3), (5, 6), (6, 9), (3, 4)):
        number = rng.integers(2, T, size=n)
        number[0], number[-1] = T - 1, 1 if n > 2 else T - 1
        real = np.arange(T) < number[:, None]
        selected = rng.integers(0, number[:, None], size=(n, T))
        selected[0, : number[0]] = np.arange(number[0])  # nobody agrees
        selected[~real] = (n * T) % 2  # what stands at padding, often
        if n > 2:
            selected[1, : number[1]] = number[1] - 1  # all agree
            selected[1, number[1] :] = 0
            real[2] = np.roll(real[2], 1)  # padding in front
            selected[2] = np.flatnonzero(real[2])[selected[2] % real[2].sum()]
        cases.append((selected, real))
    a, b, c, d, e = rng.permutation(5)
    selected = np.array([[a, a, a, b, a, c], [e, a, a, b, a, 5], [5, 5, 5, c, d, e], [a, a, b, b, c, c]])
    real = np.array(
        [[0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 1]], dtype=bool
    )
    away, rest = np.split(rng.permutation(4), [1])  # padding, and yet what most of the real ones select
    sink = np.where(np.arange(4) == rest[0], rest[1], away)[None]
    return [*cases, (selected, real), (sink, np.arange(4)[None] != away)]


AGREE = Exercise(
    id="18.2",
    title="Do queries agree?",
    points=1,
    minutes=6,
    difficulty=2,
    reference=_agree,
    cases=_agree_cases,
    misconceptions=known(
        _agree_by(asks=np.ones_like, below=lambda real: real.shape[1]),
        "Positions that are padding do not ask: leave their rows out.",
        _agree_by(below=lambda real: real.shape[1]),
        "Divide by the number of positions that ask, not by T.",
        _agree_by(asks=np.ones_like),
        "You divide by the real positions, but count what stands at padding too.",
        _agree_by(below=lambda real: 1),
        "Return a share: divide by the number of positions that ask.",
        lambda selected, real: (_counts(selected, real) * real).max(1) / real.sum(1),
        "What a real position selects counts, also where that is padding: only who asks is limited.",
        lambda selected, real: np.full(len(real), _counts(selected, real).sum(0).max() / real.sum()),
        "Each sequence has a favourite of its own. Count within a sequence.",
        _agree_by(share=lambda counts: (counts > 0).sum(1)),
        "That is how many different tokens are selected. Which share selects the most frequent one?",
        lambda selected, real: np.full(len(real), _agree(selected, real).mean()),
        "Return one number for each sequence, not their mean.",
        _agree_by(share=lambda counts: counts.argmax(1)),
        "That is which token it is. Return the share that selects it.",
    ),
)


# --------------------------------------------------------------------------- 18.3 a bound for soft margins
def _bound_by(weights=lambda slack, C: slack, best=lambda one, two: one**2 / (2 * two), ridge=True):
    """An answer from the direction of the weights, the best multiple of it, and the term of the slack."""

    def answer(A, w, C):
        lam = weights(np.maximum(0, 1 - A @ w), C)
        one = lam.sum()
        two = (A.T @ lam) @ (A.T @ lam) + (lam @ lam / C if ridge else 0)
        return float(best(one, two)) if one > 0 else 0.0

    return answer


_bound = _bound_by()


def _bound_cases(rng):
    """Far from and near the best w, more rows than entries and fewer, contradictions, no slack at all."""
    cases = []
    sizes = (3, 2, 1.0, 0.0), (5, 3, 0.5, 0.4), (12, 2, 4.0, 0.3), (2, 4, 0.1, 0.2), (1, 1, 2.0, 0.1)
    for rows, d, C, scale in sizes:
        A, w = rng.normal(size=(rows, d)), scale * rng.normal(size=d)
        if rows > 4:
            A[1] = -A[0]
            w -= A[2] * (A[2] @ w - 3) / (A[2] @ A[2])  # row 2 has no slack
        cases.append((A, w, C))
    A = rng.normal(size=(3, 5)) + 0.1
    cases.append((A, np.linalg.lstsq(A, np.array([1.5, 2.0, 1.1]), rcond=None)[0], 1.0))
    cases.append((np.abs(rng.normal(size=(20, 2))) * [1, 0.01], np.array([0.05, 0.0]), 100.0))
    a = rng.uniform(0.5, 1.5)
    cases += [(np.array([[1.0]]), np.array([1 - slack]), 1.0) for slack in (5e-4, 1e-7)]  # .25, at any slack
    return [*cases, (np.array([[a]]), np.array([0.98 / a]), 0.1)]  # little slack, cheap: the best c is large


BOUND = Exercise(
    id="18.3",
    title="A bound for soft margins",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_bound,
    cases=_bound_cases,
    compare=Compare(rtol=1e-6, atol=0),
    misconceptions=known(
        _bound_by(weights=lambda slack, C: C * slack, best=lambda one, two: one - two / 2),
        "That is the bound of the weights lambda = C xi, c = C. Which c gives the largest?",
        _bound_by(weights=lambda slack, C: slack, best=lambda one, two: one - two / 2),
        "That is the bound of c = 1. Which c gives the largest?",
        _bound_by(best=lambda one, two: min(1, one / two) * one - min(1, one / two) ** 2 * two / 2),
        "c may be any number from 0 on: do not hold it below 1.",
        _bound_by(ridge=False),
        "The term of the slack is missing: minimising over xi leaves -lambda^2/(2C) for each row.",
        _bound_by(best=lambda one, two: one**2 / two),
        "A factor 2: c one - c^2 two/2 is largest at c = one/two.",
        _bound_by(best=lambda one, two: one / two),
        "That is the best c. Return the bound that it gives.",
        _bound_by(weights=lambda slack, C: (slack > 0).astype(float)),
        "The weights are in proportion to the slack, not equal.",
        lambda A, w, C: float(w @ w / 2 + C / 2 * (np.maximum(0, 1 - A @ w) ** 2).sum()),
        "That is the objective at w: an upper bound on the least one. Return a lower bound.",
        lambda A, w, C: float(_bound_by(weights=lambda slack, C: slack)(A, w, 1 / C)),
        "C is in the wrong place: where slack is expensive, C large, its term lambda^2/(2C) is small.",
    ),
    withheld=("mini_attn.svm.soft.solve_soft",),
)


# --------------------------------------------------------------------------- 18.5 a p-value
def _flip_by(unit=lambda D: D.mean(1), size=np.abs, count=lambda hits: hits.mean(), slack=1e-12):
    """An answer from the independent units, one side or two, and how the patterns are counted."""

    def answer(trained, control):
        units = np.asarray(unit(trained - control), dtype=float)
        signs = np.array(list(product([1, -1], repeat=len(units))))
        means = size((signs * units).mean(1))
        return float(count(means >= size(units.mean()) - slack))

    return answer


_flip = _flip_by()


def _flip_cases(rng):
    cases = [
        (np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])),  # a mean difference of 0
        (np.array([[10.0], [-1.0], [-2.0], [-3.0]]), np.zeros((4, 1))),  # ranks would give .875
    ]
    for runs, heads, shift in ((3, 2, 1.0), (6, 4, 0.4), (8, 3, -0.3), (5, 1, 0.2), (1, 4, 1.0)):
        common = rng.normal(size=(runs, 1))
        trained = common + 0.3 * rng.normal(size=(runs, heads)) + shift
        cases.append((trained, rng.normal(size=(runs, heads)) * 0.5))
    control = np.round(rng.normal(size=(7, 2)), 1)
    cases.append((control + rng.choice([-0.5, 0.5], size=(7, 1)), control))  # all differences of one size
    for unit in (0.3, 0.7, 0.3, 0.7):  # ties that are hurt by rounding
        signed = rng.permutation([-1, 2, -3, 4, -5, 6, -7])[:, None]
        cases.append((unit * signed, np.zeros((7, 1))))
    return [*cases, (rng.uniform(0.5, 1) * np.array([[1.0], [1e-9]]), np.zeros((2, 1)))]  # nearly ties


FLIP = Exercise(
    id="18.5",
    title="A difference by chance?",
    points=2,
    minutes=9,
    difficulty=2,
    reference=_flip,
    cases=_flip_cases,
    misconceptions=known(
        _flip_by(size=lambda x: x),
        "One side only: a difference as large with the other sign counts, too. Compare absolute values.",
        _flip_by(slack=-1e-12),
        "At least as large: the observed pattern itself counts, and so do ties.",
        _flip_by(slack=0.0),
        "Sums that tie come out a last digit apart: let 1e-12 be a tie.",
        _flip_by(slack=1e-8),
        "Ties are differences below 1e-12; your tolerance is wider.",
        _flip_by(count=lambda hits: hits.sum()),
        "Return a share: divide by the number of sign patterns.",
        _flip_by(count=lambda hits: 1 - hits.mean()),
        "The other share: a small p says that few patterns reach the observed difference.",
        _flip_by(count=lambda hits: (hits.sum() + 1) / (len(hits) + 1)),
        "All patterns are tried, the observed one among them: do not add 1. (That is for random draws.)",
        _flip_by(unit=lambda D: D[:, 0]),
        "Average over the heads of a run.",
        _flip_by(unit=lambda D: D.mean(0)),
        "The independent units are the runs, axis 0. Average over the heads, axis 1.",
    ),
)


# --------------------------------------------------------------------------- 18.4 a W that nobody trained
def _untrained_by(
    pairs=lambda real: real[:, :, None] & real[:, None],
    centre=lambda c, pairs: c - c.sum(2, keepdims=True) / np.maximum(pairs.sum(2, keepdims=True), 1),
    total="ikt,itd,ike->de",
):
    """An answer from which pairs count, how coefficients are centred, and the sum."""

    def answer(c, X, real):
        two = pairs(real)
        c = np.where(two, c, 0)
        c = np.where(two, centre(c, two), 0)
        return np.einsum(total, c, X, X)

    return answer


_untrained = _untrained_by()


def _untrained_cases(rng):
    cases = []
    for n, T, d, number in ((1, 3, 2, [3]), (3, 4, 3, [2, 4, 3]), (2, 5, 1, [1, 4]), (4, 2, 5, [2, 1, 2, 2])):
        real = np.arange(T) < np.array(number)[:, None]
        if n == 3:
            real[0] = real[0, ::-1]
        X = rng.normal(size=(n, T, d)) + 0.5
        cases.append((rng.normal(size=(n, T, T)) + 0.3, np.where(real[..., None], X, 9.0), real))
    return cases


UNTRAINED = Exercise(
    id="18.4",
    title="A W that nobody trained",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_untrained,
    cases=_untrained_cases,
    misconceptions=known(
        _untrained_by(total="ikt,itd,ike->ed"),
        "Transposed: the token that is looked at, x_t, comes first, and the one that asks, x_k, second.",
        lambda c, X, real: _untrained(c.swapaxes(1, 2), X, real),
        "The roles are exchanged: c[i, k, t] belongs to position k that asks and token t.",
        _untrained_by(centre=lambda c, pairs: c),
        "The coefficients of a position must add up to 0 over the tokens, as the slopes of a softmax do.",
        _untrained_by(centre=lambda c, pairs: c - c.sum(2, keepdims=True) / c.shape[2]),
        "Subtract the mean over the real tokens, not over all T.",
        _untrained_by(
            centre=lambda c, pairs: c - c.sum(1, keepdims=True) / np.maximum(pairs.sum(1, keepdims=True), 1)
        ),
        "Centre over the tokens t, the last axis, for each position k.",
        _untrained_by(pairs=lambda real: real[:, None] & np.ones_like(real)[:, :, None]),
        "Padding must not ask: leave its positions k out.",
        _untrained_by(pairs=lambda real: real[:, :, None] & np.ones_like(real)[:, None]),
        "Padding must not be looked at: leave its tokens t out.",
        lambda c, X, real: _untrained(c, X, real) / len(X),
        "Add up over the sequences; no mean.",
    ),
)

EXERCISES = [SHARP, AGREE, BOUND, UNTRAINED, FLIP]
