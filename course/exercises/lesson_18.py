"""Exercises of lesson 18: measuring real attention, and the controls of a measurement."""

from itertools import product

import numpy as np
from scipy.stats import rankdata

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


def _log_of_zero(s, number):
    with np.errstate(divide="ignore", invalid="ignore"):
        return _sharp_by(total=lambda s: -(s * np.log(s)).sum(-1))(s, number)


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
        lambda s, number: np.where(number > 1, s.max(-1) / np.log(np.maximum(number, 2)), 0.0),
        "The largest attention is no entropy: sum -s log s over the row.",
        lambda s, number: _sharp(s, np.maximum((s > 0).sum(1), 1)),
        "A token with attention 0 was seen, too: the row's number counts it.",
        lambda s, number: _sharp(s, number) * np.log(2),
        "Two kinds of logs: take the same one above and below.",
        lambda s, number: _sharp(s, number) / np.log(2),
        "Two kinds of logs: take the same one below and above.",
        _sharp_by(below=lambda number, T: np.log(number + 1)),
        "Even attention to m tokens has the entropy log m, not log(m + 1).",
        _sharp_by(below=lambda number, T: np.log(number.max())),
        "Each row has a number of its own, not the largest of all.",
        _sharp_by(below=lambda number, T: np.log(number.mean())),
        "Each row has a number of its own, not the mean.",
        lambda s, number: np.where(
            number > 1, np.exp(np.log(np.maximum(number, 1)) * _sharp(s, number)) / number, 0.0
        ),
        "That is exp(entropy) over the number. Compare the entropies themselves.",
        _sharp_by(total=lambda s: 1 - (s**2).sum(-1)),
        "1 minus the sum of squares is another measure than the entropy.",
        lambda s, number: np.where(number > 1, (1 - (s**2).sum(-1)) / (1 - 1 / np.maximum(number, 2)), 0.0),
        "That is 1 minus the sum of squares, scaled. The entropy is -sum s log s.",
        _sharp_by(total=lambda s: -(s * np.log(s + 1e-3)).sum(-1)),
        "A number added inside the log changes every entry: treat s = 0 apart.",
        _sharp_by(total=lambda s: -(s * np.log(np.where(s > 1e-2, s, 1))).sum(-1)),
        "Small attention counts, too: only where s is 0 its term is 0.",
        _sharp_by(total=lambda s: -np.log(np.where(s > 0, s, 1)).sum(-1)),
        "Each log is weighted by its s.",
        lambda s, number: np.where(number > 1, 1 - _sharp(s, number), 0.0),
        "The other way round: 1 is even attention, 0 one token.",
        _sharp_by(alone=np.nan),
        "For a row that sees one token that is 0 / 0, log 1 being 0: give it 0.",
        _log_of_zero,
        "0 times log 0 is not a number in NumPy: take the log only where s > 0.",
        _sharp_by(
            total=lambda s: np.exp(-(s * np.log(np.where(s > 0, s, 1))).sum(-1)),
            below=lambda number, T: number,
            alone=1.0,
        ),
        "That is exp(entropy) over the number. Compare entropies: of a row with a single token it is 0.",
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


def _first_choice(selected, real, place):
    pairs = zip(selected, real, strict=True)
    return np.array([(row[asks] == row[asks][place]).mean() for row, asks in pairs])


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
    selected = np.array([[a, a, a, b, a, c], [e, a, a, b, a, 5], [5, 5, 5, d, d, e], [a, a, b, b, c, c]])
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
        lambda selected, real: _agree(selected, np.sort(real, axis=1)[:, ::-1]),
        "Padding may stand anywhere: index with `real`, not with how many are real.",
        lambda selected, real: _counts(np.where(real, selected, 0), np.ones_like(real)).max(1) / real.sum(1),
        "A 0 put in the place of padding is a vote for token 0. Leave these positions out.",
        lambda selected, real: (
            _counts(np.where(real, selected, 0), np.ones_like(real)).max(1) / real.shape[1]
        ),
        "A 0 put in the place of padding is a vote for token 0, and T counts padding, too.",
        lambda selected, real: ((selected == np.arange(real.shape[1])) & real).sum(1) / real.sum(1),
        "That is who selects itself. Which share selects one and the same token?",
        _agree_by(share=lambda counts: counts.sum(1) - (counts > 0).sum(1) + 1),
        "How many different tokens there are does not say how many agree on one: count each.",
        _agree_by(share=lambda counts: counts.sum(1) / (counts > 0).sum(1)),
        "The largest count, not their mean.",
        _agree_by(share=lambda counts: (counts**2).sum(1) / counts.sum(1)),
        "That is how often two positions agree. Which share selects the most frequent token?",
        _agree_by(share=lambda counts: counts.max(1) - 1, below=lambda real: np.maximum(real.sum(1) - 1, 1)),
        "A position counts with those that it agrees with: no minus 1.",
        lambda selected, real: _first_choice(selected, real, 0),
        "The first real position need not select the most frequent token.",
        lambda selected, real: _first_choice(selected, real, -1),
        "The last real position need not select the most frequent token.",
        _agree_by(below=lambda real: real.sum(1).mean()),
        "Each sequence has its own number of real positions.",
        lambda selected, real: _counts(selected, real).argmax(1),
        "That is which token most positions select. Return their share.",
    ),
)


# --------------------------------------------------------------------------- 18.3 a bound for soft margins
def _bound_by(
    weights=lambda slack, C: slack,
    best=lambda one, two: one**2 / (2 * two),
    ridge=lambda C: 1 / C,
    slack=lambda lead: np.maximum(0, 1 - lead),
):
    """An answer from the direction of the weights, the best multiple of it, and the term of the slack."""

    def answer(A, w, C):
        lam = weights(slack(A @ w), C)
        one = lam.sum()
        two = (A.T @ lam) @ (A.T @ lam) + lam @ lam * ridge(C)
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


def _bound_of(two):
    """An answer from its own coefficient of the square of c."""

    def answer(A, w, C):
        lam = np.maximum(0, 1 - A @ w)
        return float(lam.sum() ** 2 / (2 * two(A, lam, C))) if lam.any() else 0.0

    return answer


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
        _bound_by(ridge=lambda C: 0.0),
        "The term of the slack is missing: minimising over xi leaves -lambda^2/(2C) for each row.",
        _bound_by(best=lambda one, two: one**2 / two),
        "A factor 2: c one - c^2 two/2 is largest at c = one/two.",
        _bound_by(best=lambda one, two: one / two),
        "That is the best c. Return the bound that it gives.",
        _bound_by(weights=lambda slack, C: (slack > 0).astype(float)),
        "The weights are in proportion to the slack, not equal.",
        lambda A, w, C: float(w @ w / 2 + C / 2 * (np.maximum(0, 1 - A @ w) ** 2).sum()),
        "That is the objective at w: an upper bound on the least one. Return a lower bound.",
        _bound_by(ridge=lambda C: C),
        "C is in the wrong place: where slack is expensive, C large, its term lambda^2/(2C) is small.",
        _bound_by(ridge=lambda C: 1.0),
        "The price C is forgotten: the term of the slack is lambda^2/(2C).",
        _bound_by(ridge=lambda C: 1 / (2 * C)),
        "Half of the slack's term is lost: with lambda = c xi it is c^2 |xi|^2/(2C), beside c^2 |v|^2/2.",
        _bound_by(ridge=lambda C: 2 / C),
        "Twice the slack's term: with lambda = c xi it is c^2 |xi|^2/(2C), beside c^2 |v|^2/2.",
        _bound_by(ridge=lambda C: 1 / C**2),
        "C counts once: the term of the slack is lambda^2/(2C).",
        _bound_by(best=lambda one, two: one**2 / (4 * two)),
        "A factor 2: at c = one/two the parabola c one - c^2 two/2 is one^2/(2 two).",
        _bound_by(best=lambda one, two: one / (2 * two)),
        "The sum of the slack is squared: c one with c = one/two.",
        _bound_by(slack=lambda lead: 1 - lead),
        "Slack is never negative: a row with a lead above 1 has none.",
        _bound_by(slack=lambda lead: np.maximum(0, lead - 1)),
        "Slack is what is missing to 1, not what is above it.",
        _bound_by(slack=lambda lead: np.maximum(0, -lead)),
        "The margin is 1: a lead between 0 and 1 has slack, too.",
        _bound_by(slack=lambda lead: np.maximum(0, 1 - np.abs(lead))),
        "A negative lead has a slack above 1: no absolute value.",
        _bound_by(weights=lambda slack, C: slack**2),
        "The weights are in proportion to the slack, not to its square.",
        _bound_by(weights=lambda slack, C: C * slack, best=lambda one, two: max(0.0, one - two / 2)),
        "lambda = C xi is one choice, c = C. Maximise over c instead of cutting off at 0.",
        _bound_of(lambda A, lam, C: ((A.T * lam) ** 2).sum() + lam @ lam / C),
        "The length of the sum of all lambda_j a_j, squared, not the sum of their squared lengths.",
        _bound_of(lambda A, lam, C: (lam @ A) @ (lam @ A) + lam.sum() ** 2 / C),
        "The last term is the sum of the squares of lambda_j, not the square of their sum.",
        lambda A, w, C: _bound(A, w, C) if (A @ w < 1).any() else np.nan,
        "Without slack that is 0 / 0: return 0 then.",
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
        seen = size(units.mean())
        return float(count(means > seen if slack is None else means >= seen - slack))

    return answer


_flip = _flip_by()


def _one_side(trained, control, seen):
    """The share of patterns whose mean, with its sign, reaches the observed one or its size."""
    units = (trained - control).mean(axis=1)
    means = np.array(list(product([1, -1], repeat=len(units)))) * units
    return float((means.mean(axis=1) >= seen(units.mean()) - 1e-12).mean())


def _by_medians(trained, control):
    units = (trained - control).mean(axis=1)
    medians = np.median(np.array(list(product([1, -1], repeat=len(units)))) * units, axis=1)
    return float((np.abs(medians) >= abs(np.median(units)) - 1e-12).mean())


def _flip_cases(rng):
    cases = [
        (np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])),  # a mean difference of 0
        (np.ones((2, 2)), np.ones((2, 2))),  # no difference at all
        # ranks would give .875, medians of the heads .125
        (np.array([[-10.0, 15, 25], [-21, 4, 14], [-22, 3, 13], [-23, 2, 12]]), np.zeros((4, 3))),
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


def _one_changed(trained, control):
    units = (trained - control).mean(axis=1)
    signs = np.vstack([np.ones(len(units)), 1 - 2 * np.eye(len(units))])
    return float((np.abs((signs * units).mean(axis=1)) >= np.abs(units.mean()) - 1e-12).mean())


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
        _flip_by(slack=None),
        "At least as large: the observed pattern itself counts, and so do ties, up to 1e-12.",
        lambda trained, control: _one_side(trained, control, np.abs),
        "The patterns' means need absolute values, too: compare size with size.",
        lambda trained, control: _one_side(-trained, -control, lambda mean: mean),
        "One side only, the lower one: take absolute values.",
        _flip_by(count=lambda hits: hits.mean() / 2),
        "Both sides count: do not halve.",
        _flip_by(count=lambda hits: 2 * hits.mean()),
        "With absolute values both sides are counted already: do not double.",
        lambda trained, control: 2 * _one_side(trained, control, lambda mean: mean),
        "Twice one side can exceed 1. Count the patterns by absolute value.",
        lambda trained, control: 2 * _one_side(trained, control, np.abs),
        "Twice one side counts a mean of 0 double. Count the patterns by absolute value.",
        _flip_by(count=lambda hits: (hits.sum() - 1) / len(hits)),
        "The observed pattern is one of all: count it.",
        _flip_by(count=lambda hits: (hits.sum() - 1) / (len(hits) - 1)),
        "The observed pattern is one of all: leave it in, above and below.",
        _flip_by(unit=lambda D: np.median(D, axis=1)),
        "The mean over a run's heads, not the median.",
        _flip_by(unit=lambda D: D.max(axis=1)),
        "The mean over a run's heads, not the largest.",
        _flip_by(unit=lambda D: np.abs(D).mean(axis=1)),
        "That is the smallest p there is. Average the heads' differences with their signs, not their sizes.",
        _flip_by(unit=lambda D: np.sign(D.mean(axis=1))),
        "How large the differences are counts, not only their signs.",
        _by_medians,
        "A pattern is judged by the mean of the runs' differences, not by their median.",
        _flip_by(unit=lambda D: np.sign(D.mean(axis=1)) * rankdata(np.abs(D.mean(axis=1)))),
        "Ranks forget how much larger one difference is than another.",
        _one_changed,
        "All 2^runs patterns, not only those in which one sign differs.",
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


def _centred(c, pairs, axis):
    return c - c.sum(axis, keepdims=True) / np.maximum(pairs.sum(axis, keepdims=True), 1)


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
        _untrained_by(pairs=lambda real: np.tril(real[:, :, None] & real[:, None])),
        "Not causal: a position sees all real tokens. `k` before `t` is the order of the indices of `c`.",
        lambda c, X, real: _untrained(c, X, real) / len(X),
        "Add up over the sequences; no mean.",
        _untrained_by(
            centre=lambda c, pairs: c - c.sum((1, 2), keepdims=True) / pairs.sum((1, 2), keepdims=True)
        ),
        "Each position has a mean of its own, not one for its sequence.",
        _untrained_by(centre=lambda c, pairs: c - c.sum() / pairs.sum()),
        "Each position has a mean of its own, not one for all.",
        _untrained_by(centre=lambda c, pairs: c - c.sum(2, keepdims=True)),
        "Subtract the mean, the sum over how many tokens it sees.",
        _untrained_by(centre=lambda c, pairs: _centred(_centred(c, pairs, 2), pairs, 1)),
        "Centre once, over the tokens t; not over the positions, too.",
        lambda c, X, real: _untrained_by(centre=lambda zeroed, pairs: _centred(c, pairs, 2))(c, X, real),
        "What c holds at padding enters your mean: set it to 0 before centring, too.",
        lambda c, X, real: _untrained_by(centre=lambda zeroed, pairs: c - c.mean(2, keepdims=True))(
            c, X, real
        ),
        "What c holds at padding enters your mean: the mean is over the tokens that the position sees.",
        lambda c, X, real: np.einsum(
            "ikt,itd,ike->de", _centred(c * (real[:, :, None] & real[:, None]), real[:, None], 2), X, X
        ),
        "After centring the coefficients at padding are not 0 any more: set them to 0 again.",
        lambda c, X, real: _untrained(c, X, np.sort(real, axis=1)[:, ::-1]),
        "Padding may stand anywhere: use the mask, not how many are real.",
        lambda c, X, real: _untrained(c[:1], X[:1], real[:1]),
        "Add up over all sequences, not the first only.",
        _untrained_by(total="ikt,itd,ite->de"),
        "Two different tokens: x_t that is looked at, and x_k that asks.",
        lambda c, X, real: _untrained(c, X, real) / real.sum(),
        "Add up; no mean over positions or pairs.",
        lambda c, X, real: _untrained(c, X - X.mean(1, keepdims=True), real),
        "The tokens stay as they are: only the coefficients are centred.",
    ),
)

EXERCISES = [SHARP, AGREE, BOUND, UNTRAINED, FLIP]
