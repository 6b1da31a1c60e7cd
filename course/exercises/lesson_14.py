"""Exercises of lesson 14: sequences and causal masks."""

import numpy as np

from course.check.specification import Exercise, known
from course.exercises.pooled import POOLED


# --------------------------------------------------------------------------- 14.1 who sees whom
def _visible_by(
    real=lambda lengths, T: np.arange(T) < np.asarray(lengths)[:, None],
    half=lambda T: np.tril(np.ones((T, T), dtype=bool)),
    asks=True,
    seen=True,
):
    """An answer from who is real, which half causal attention keeps, and which ends of a pair are checked."""

    def answer(lengths, T, causal):
        own = real(lengths, T)
        sees = np.ones((len(own), T, T), dtype=bool)
        if asks:
            sees = sees & own[:, :, None]
        if seen:
            sees = sees & own[:, None, :]
        return sees & half(T) if causal else sees

    return answer


_visible = _visible_by()


def _visible_cases(rng):
    return [
        (np.array([3, 2]), 3, False),
        (rng.permutation([1, 2, 3, 4]), 4, True),
        (np.r_[5, rng.integers(2, 5, size=2)], 5, True),
        (rng.permutation([4, 1, 2]), 4, False),
        (np.array([1, 2]), 4, False),  # nobody is as long as T
        (np.array([2]), 3, True),
    ]


VISIBLE = Exercise(
    id="14.1",
    title="Who sees whom",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_visible,
    cases=_visible_cases,
    misconceptions=known(
        _visible_by(asks=False),
        "Padding must see nothing: the rows k of padding have to be False, too.",
        _visible_by(seen=False),
        "Padding is seen: the columns t of padding have to be False, too.",
        lambda lengths, T, causal: (
            _visible_by(asks=False)(lengths, T, causal) | _visible_by(seen=False)(lengths, T, causal)
        ),
        "Both ends of a pair have to be real: `&`, not `|`.",
        _visible_by(half=lambda T: np.triu(np.ones((T, T), dtype=bool))),
        "The other half: causal means that position k sees t <= k, the lower triangle.",
        _visible_by(half=lambda T: np.tril(np.ones((T, T), dtype=bool), -1)),
        "A position sees itself, too: keep the diagonal.",
        _visible_by(real=lambda lengths, T: np.arange(T) <= np.asarray(lengths)[:, None]),
        "One too many: of a sequence of length m the tokens 0, ..., m - 1 are real.",
        _visible_by(real=lambda lengths, T: np.arange(T)[::-1] < np.asarray(lengths)[:, None]),
        "The first tokens of a sequence are real, and the padding stands at its end.",
        lambda lengths, T, causal: _visible(lengths, T, True),
        "Look at `causal`: when it is False, a position sees the tokens after it, too.",
        lambda lengths, T, causal: _visible(lengths, T, False),
        "Look at `causal`: when it is True, a position sees no token after it.",
        lambda lengths, T, causal: ~_visible(lengths, T, causal),
        "The other way round: True where a position sees a token.",
        lambda lengths, T, causal: _visible(np.full(len(lengths), T), T, causal),
        "Look at `lengths`: padding is seen by nobody, and sees nothing.",
        lambda lengths, T, causal: _visible(np.full(len(lengths), lengths[0]), T, causal),
        "Each sequence has its own length.",
        lambda lengths, T, causal: _visible(lengths, T, causal) | np.eye(T, dtype=bool),
        "Padding sees nothing, not even itself.",
        _visible_by(half=lambda T: np.tri(T, k=1, dtype=bool)),
        "One token too many: position k sees up to t = k, itself, not the next one.",
        lambda lengths, T, causal: np.where(_visible(lengths, T, causal), 0.0, -np.inf),
        "That is what one adds to the logits. Return the mask itself: True where a position sees a token.",
    ),
    withheld=("mini_attn.data.every_position",),
)


# --------------------------------------------------------------------------- 14.2 the price of a mask
def _price_by(each, seen=lambda sees: sees.sum(axis=-1)):
    """An answer that adds up what each position pays, by the number m of tokens that it sees (from 1 on)."""

    def answer(sees):
        m = seen(sees)
        m = m[m > 0]
        return float(np.sum(each(m)))

    return answer


_price = _price_by(lambda m: 1 - 1 / m)


def _masks(rng):
    """The smallest that tells, a causal one with padding, and random ones that show no two the same."""
    causal = _visible(rng.permutation([2, 4, 6]), 6, True)
    cases = [(np.ones((1, 2, 2), dtype=bool),), (causal,)]
    for n, T in ((2, 5), (3, 7), (4, 6), (1, 8)):
        sees = rng.random((n, T, T)) < rng.uniform(0.35, 0.75)
        sees[:, 0] = False  # does not ask
        sees[:, 1] = np.arange(T) == 2  # has no choice, and does not see itself
        sees[:, 2] = np.arange(T) > 0
        sees[:, 3] = np.arange(T) < 2
        cases.append((sees,))
    return cases


PRICE = Exercise(
    id="14.2",
    title="The price of a mask",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_price,
    cases=_masks,
    misconceptions=known(
        lambda sees: _price(sees) ** 0.5,
        "That is the norm. Return its square.",
        _price_by(lambda m: m - 1.0),
        "That is the number of rows. Rows of one position are not orthogonal: all share x_alpha.",
        _price_by(lambda m: (m - 1) / 2),
        "1/2 for each row would be right if rows were orthogonal; those of one position share x_alpha.",
        _price_by(lambda m: 1.0 * (m > 1)),
        "a = x_alpha keeps the rows, but is not the shortest: the others may get something below 0.",
        _price_by(lambda m: np.where(m > 1, m / np.maximum(m - 1, 1), 0)),
        "The inverse: m / (m - 1) is the squared distance from x_alpha to the others' mean; take 1 over it.",
        _price_by(lambda m: 1 - 1 / m, lambda sees: sees.sum(axis=-2)),
        "Row k of the mask says what position k sees; you count by whom a token is seen.",
        _price_by(lambda m: 1 - 1 / m, lambda sees: np.full(sees.shape[:2], sees.shape[-1])),
        "Not every position sees T tokens: count in the mask.",
        _price_by(lambda m: 1 - 1 / (m + 1)),
        "m tokens are seen, the selected one among them: m - 1 rows.",
        _price_by(lambda m: np.where(m > 1, 1 - 1 / np.maximum(m - 1, 1), 0)),
        "m tokens are seen, the selected one among them, and a is x_alpha less the mean of all m.",
        lambda sees: _price(sees) / len(sees),
        "W is one for all sequences: their squared norms add up.",
        lambda sees: _price(sees) / max(1, int(sees.any(-1).sum())),
        "A sum over the positions, not their mean: each adds a term to W.",
        _price_by(lambda m: (1 - 1 / m) ** 2),
        "The square of x_alpha's part alone: the others' parts, -1/m each, count as well.",
        _price_by(lambda m: 1 + 1 / m),
        "The sign: a is x_alpha less a mean, and shorter than x_alpha.",
        lambda sees: float(np.sum(1 - 1 / np.maximum(sees.sum(axis=-1), 0.5))),
        "A position that sees nothing does not ask: it adds 0.",
        _price_by(lambda m: 1 / m),
        "1/m is what is taken off: x_alpha less the mean of all m has the squared length 1 - 1/m.",
        lambda sees: float(sees.any(axis=-1).sum() * (1 - 1 / sees.shape[-1])),
        "Not T tokens: each position that asks has its own number, the sum of its row of the mask.",
        lambda sees: _price(sees) + float((~sees.any(axis=-1)).sum()),
        "A position that sees nothing does not ask: it adds 0, not 1.",
        lambda sees: _price(sees) if sees.any(axis=-1).all() else -np.inf,
        "A position that sees nothing has m = 0, and 1/m is infinite: leave it out of the sum.",
    ),
    withheld=(
        "mini_attn.svm.dispatch.solve",
        "mini_attn.svm.rational.shortest",
        "mini_attn.svm.sequence.sequence_problem",
        "mini_attn.svm.problem.token_problem",
        "mini_attn.svm.problem.attention_problem",
    ),
)


# --------------------------------------------------------------------------- 14.4 the share of best choices
def _separable(T, d):
    count = np.full(d, 2)
    for _ in range(T - 1):
        count = count + np.r_[0, count[:-1]]
    return count[-1] / 2.0**T


def _table(T, d, more):
    """The share from another recursion, with S(1, d) = S(T, 1) = 2."""
    S = np.full((T + 1, d + 1), 2.0)
    for t in range(2, T + 1):
        for k in range(2, d + 1):
            S[t, k] = more(S, t, k)
    return S[T, d] / 2.0**T


def _binomial(N):
    row = np.ones(1)
    for _ in range(N):
        row = np.convolve(row, [1, 1])
    return row


SHARE = Exercise(
    id="14.4",
    title="How often can the best be chosen?",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_separable,
    cases=lambda rng: [
        (3, 2),
        (4, 1),
        (int(rng.integers(5, 9)), 2),
        (int(rng.integers(7, 10)), int(rng.integers(3, 5))),
        (int(rng.integers(3, 6)), int(rng.integers(6, 8))),
        (6, 3),
        (4, 4),
        (1, 2),
        (int(rng.integers(20, 40)), int(rng.integers(5, 10))),  # 100 pairs and more: no table holds them
        (int(rng.integers(35, 50)), int(rng.integers(17, 24))),
        (30, 5),
        (40, 20),
    ],
    misconceptions=known(
        lambda T, d: 2.0**T * _separable(T, d),
        "That is the number of labellings that can be separated. Divide by all, 2^T.",
        lambda T, d: _separable(T, d + 1),
        "One dimension too many. Is your plane one through the origin?",
        lambda T, d: _separable(T + 1, d),
        "One point too many: S(1, d) and S(T, 1) are 2, so T - 1 points are added (binomials of T - 1).",
        lambda T, d: _separable(T, d - 1) if d > 1 else 0.0,
        "One dimension too few: S(T, 1) is 2, not 0.",
        lambda T, d: float(d >= T),
        "Only 0 and 1? From d = T on every labelling can be separated; below, some still can. Divide with /.",
        lambda T, d: min(1.0, d / T),
        "Not in proportion to d: use S(T + 1, d) = S(T, d) + S(T, d - 1).",
        lambda T, d: _binomial(T - 1)[d - 1 if d <= T else T - 1] / 2.0 ** (T - 1),
        "Only the last term: S(T, d) adds both ways of going on, from S(T - 1, d) and from S(T - 1, d - 1).",
        lambda T, d: _separable(T, d) / 2,
        "A factor 2: S(1, d) = 2, one point can have both labels.",
        lambda T, d: 2 * _separable(T, d),
        "Twice too large: T points have 2^T labellings, and S(1, d) = 2 counts both of one point.",
        lambda T, d: 1 - _separable(T, d),
        "That is the share that cannot be separated.",
        lambda T, d: 2 * _separable(T + 1, d),
        "Binomials of T - 1, not of T: the first point is S(1, d) = 2, and T - 1 are added.",
        lambda T, d: _table(T, d, lambda S, t, k: S[t - 1, k] + S[t, k - 1]),
        "Both terms have one point less: S(T, d) = S(T - 1, d) + S(T - 1, d - 1).",
        lambda T, d: _table(T, d, lambda S, t, k: 2 * S[t - 1, k - 1]),
        "Not every old labelling can be continued in both ways: only S(T - 1, d - 1) of them.",
        lambda T, d: _table(T, d, lambda S, t, k: S[t - 1, k] + 2),
        "Two more for each point is right in the plane, d = 2, only.",
        lambda T, d: _separable(d, T) * 2.0 ** (d - T),
        "T and d are exchanged.",
        lambda T, d: _table(T, d, lambda S, t, k: 2 * S[t - 1, k] - S[t - 1, k - 1]),
        "Each old labelling goes on in one way, and S(T - 1, d - 1) of them in a second one: add, do "
        "not subtract.",
    ),
)


# --------------------------------------------------------------------------- 14.5 who falls for the padding
def _falls_by(
    scores=lambda values, y: y[..., None] * values[:, None],
    worse=lambda scores, real: np.where(real[:, None], scores, -np.inf).max(axis=-1) < 0,
    only_real=True,
    only_padded=True,
):
    """An answer from the scores, when padding beats them, and where this cannot happen."""

    def answer(values, y, lengths):
        real = np.arange(values.shape[1]) < np.asarray(lengths)[:, None]
        falls = worse(scores(values, y), real)
        if only_real:
            falls = falls & real
        if only_padded:
            falls = falls & ~real.all(axis=1, keepdims=True)
        return falls

    return answer


_falls = _falls_by()


def _padding_cases(rng):
    """One sequence of each kind: alone and worse than nothing, alone and good, without padding, and mixed."""
    cases = []
    for T in (4, 5):
        values, y = rng.normal(size=(7, T)), rng.choice([-1.0, 1.0], size=(7, T))
        lengths = np.array([1, 1, T, 2, 2, 3, 3])
        size = np.abs(values)
        y[0, 0] = -np.sign(values[0, 0])
        y[1, 0] = np.sign(values[1, 0])
        values[2], y[2, :2] = (
            size[2] + 0.1,
            (-1, 1),
        )  # all tokens are worse than nothing, but there is no padding
        values[3, :2], y[3, :2] = size[3, :2] + 0.1, (1, -1)
        values[4, :2], y[4, :2] = (-size[4, :2].sum() - 0.5, size[4, 1] + 0.1), (1, -1)
        values[5, :3], y[5, :3] = -size[5, :3] - 0.1, (1, -1, 1)
        values[6, :3], y[6, :3] = (size[6, 0] + 0.1, -size[6, 1] - 0.1, size[6, 2] + 3), (1, 1, -1)
        values[3:6, 3:] = 5.0  # whatever the padding holds
        values[[0, 1], 1:] = rng.choice([-5.0, 5.0], size=(2, T - 1))
        values[0, 1] = 5 * y[0, 0]  # a good score, if padding were read
        y[0, 1:], y[3, 2:], y[5, 3:] = y[0, 0], -1, 1
        order = rng.permutation(7)
        cases.append((values[order], y[order], lengths[order]))
    values, y = np.full((5, 6), np.inf), np.ones((5, 6))  # nobody is as long as T
    values[:, ::2] *= -1
    values[:2, 0] = -0.005, 0.005
    values[2, :2], y[2, :2] = -np.abs(rng.normal(size=2)) - 0.1, (1, -1)
    values[3, :3], y[3, :3] = (0.6, 0.2, 0.005), (-1, 1, -1)
    values[4, :4], y[4, :4] = (-0.005, -0.1, -2, -0.3), (1, -1, 1, -1)
    return [*cases, (values, y, np.array([1, 1, 2, 3, 4]))]


def _largest_value_first(values, y, lengths):
    real = np.arange(values.shape[1]) < np.asarray(lengths)[:, None]
    best = np.where(real, values, -np.inf).max(axis=1, keepdims=True)
    return (y * best < 0) & real & ~real.all(axis=1, keepdims=True)


FALLS = Exercise(
    id="14.5",
    title="Who falls for the padding?",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_falls,
    cases=_padding_cases,
    misconceptions=known(
        _falls_by(scores=lambda values, y: values[:, None] + 0 * y[..., None]),
        "The label is missing: the score is y v.x, so a position with label -1 wants the smallest value.",
        _falls_by(scores=lambda values, y: y[:, None] * values[:, None]),
        "The label is that of the position k that asks, not that of the token t.",
        _falls_by(only_padded=False),
        "A sequence as long as T has no padding to look at.",
        _falls_by(only_real=False),
        "Positions that are padding themselves answer False.",
        _falls_by(worse=lambda scores, real: np.where(real[:, None], scores, np.inf).min(axis=-1) < 0),
        "Padding has to beat the *best* real token, not the worst.",
        _falls_by(worse=lambda scores, real: np.diagonal(scores, axis1=1, axis2=2) < 0),
        "A position may select any real token of its sequence, not only its own.",
        _falls_by(worse=lambda scores, real: scores.max(axis=-1) < 0),
        "What `values` holds at padding means nothing: leave it out of the maximum.",
        _falls_by(
            worse=lambda scores, real: (
                np.where(real[:, None] & np.tri(real.shape[1], dtype=bool), scores, -np.inf).max(axis=-1) < 0
            )
        ),
        "The attention is full here: a position sees the real tokens after it, too.",
        _falls_by(worse=lambda scores, real: np.where(real[:, None], scores, 0).sum(axis=-1) < 0),
        "Not the mean score but the best one competes with the padding's 0.",
        _falls_by(scores=lambda values, y: -y[..., None] * values[:, None]),
        "The sign: padding wins where the best real score is *below* its 0.",
        _falls_by(worse=lambda scores, real: np.where(real[:, None], scores, -np.inf).max(axis=-1) > 0),
        "The other way round: where a real token has a positive score, the padding's 0 loses.",
        lambda values, y, lengths: _falls(values, y, lengths) & (lengths < max(lengths))[:, None],
        "All sequences are filled up to the width of `values`: the longest may be padded, too.",
        lambda values, y, lengths: _falls(values, y, lengths).any(axis=1),
        "Each position answers for itself, with its own label: (n, T).",
        lambda values, y, lengths: _falls(values, np.repeat(y[:, :1], y.shape[1], axis=1), lengths),
        "Each position has a label of its own, not that of the first one.",
        lambda values, y, lengths: _falls(values, y, lengths) & (y > 0),
        "A position with label -1 falls for padding, too: where all real values are positive.",
        _largest_value_first,
        "With y = -1 the best token is that of the *smallest* value: first times y, then the largest.",
    ),
)

EXERCISES = [VISIBLE, PRICE, POOLED, SHARE, FALLS]
