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


# --------------------------------------------------------------------------- 14.2 the rows
def _rows_by(
    pairs=lambda sees, selected: sees & (np.arange(sees.shape[-1]) != selected[..., None]),
    ahead=lambda X, i, k, t, chosen: X[i, chosen] - X[i, t],
    query=lambda X, i, k, chosen: X[i, k],
    combine=lambda a, b: np.einsum("rd,re->rde", a, b),
):
    """An answer from which comparisons count, their vector, the query, and how the two are combined."""

    def answer(X, sees, selected):
        i, k, t = np.nonzero(pairs(sees, selected))
        chosen = selected[i, k]
        return combine(ahead(X, i, k, t, chosen), query(X, i, k, chosen))

    return answer


_rows = _rows_by()


def _by_token(X, sees, selected):
    """Ordered by i, then by t, then by k."""
    i, t, k = np.nonzero((sees & (np.arange(X.shape[1]) != selected[..., None])).swapaxes(1, 2))
    return np.einsum("rd,re->rde", X[i, selected[i, k]] - X[i, t], X[i, k])


def _by_position(X, sees, selected):
    """Ordered by k, then by i, then by t."""
    k, i, t = np.nonzero((sees & (np.arange(X.shape[1]) != selected[..., None])).swapaxes(0, 1))
    return np.einsum("rd,re->rde", X[i, selected[i, k]] - X[i, t], X[i, k])


def _by_other(X, sees, selected):
    """Asks with the token that is compared."""
    i, k, t = np.nonzero(sees & (np.arange(X.shape[1]) != selected[..., None]))
    return np.einsum("rd,re->rde", X[i, selected[i, k]] - X[i, t], X[i, t])


def _row_cases(rng):
    """Full, causal with padding, and a mask of no particular form; some position sees one token, or none."""
    cases = []
    for n, T, d, kind in ((1, 3, 2, "full"), (3, 4, 3, "causal"), (2, 5, 2, "any")):
        X = rng.normal(size=(n, T, d))
        if kind == "full":
            sees = _visible(np.full(n, T), T, False)
        elif kind == "causal":
            sees = _visible(rng.permutation([2, 4, 3]), T, True)
        else:
            sees = rng.random((n, T, T)) < 0.6
            sees[0, 1], sees[1, 0] = False, True
            sees[1, 3] = np.arange(T) == 2
            sees[0, 0] = [False, True, True, True, False]  # does not see itself
        chance = np.where(sees, rng.random(sees.shape), -1)
        selected = np.where(sees.any(-1), chance.argmax(-1), rng.integers(0, T, size=(n, T)))
        if kind == "any":
            selected[0, 0] = 2  # the second of the three that it sees
            X[0, 1] = X[0, 2]  # one of them is equal to it: a row of zeros
        while kind == "full" and (selected == np.arange(T)).any():  # nobody selects itself in the simplest
            selected = rng.integers(0, T, size=(n, T))
        cases.append((X, sees, selected))
    return cases


ROWS = Exercise(
    id="14.2",
    title="The rows",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_rows,
    cases=_row_cases,
    misconceptions=known(
        _rows_by(combine=lambda a, b: np.einsum("re,rd->rde", a, b)),
        "Transposed: a^T W b is the inner product of W with a b^T, so the comparison's index comes first.",
        _rows_by(ahead=lambda X, i, k, t, chosen: X[i, t] - X[i, chosen]),
        "The sign: the selected token minus the other one.",
        _rows_by(query=lambda X, i, k, chosen: X[i, chosen]),
        "The query is the token of the position that asks, x_ik, not the one that it selects.",
        _rows_by(query=lambda X, i, k, chosen: X[i, 0]),
        "Each position asks with its own token x_ik, not with the first one.",
        _rows_by(ahead=lambda X, i, k, t, chosen: X[i, k] - X[i, t]),
        "The comparison starts at the selected token, not at the position that asks.",
        _rows_by(pairs=lambda sees, selected: sees),
        "The selected token is compared with itself: such rows are 0. Leave them out.",
        _rows_by(pairs=lambda sees, selected: np.arange(sees.shape[-1]) != selected[..., None] + 0 * sees),
        "There are rows for tokens that are not seen. Only visible tokens compete.",
        _by_token,
        "The rows are there, but ordered by sequence, token, position. Let t run fastest.",
        _rows_by(combine=lambda a, b: np.einsum("rd,re->rde", a, b).reshape(len(a), -1)),
        "Keep the matrices: (rows, d, d), not flattened.",
        _rows_by(pairs=lambda sees, selected: sees & ~np.eye(sees.shape[-1], dtype=bool)),
        "What is left out is the selected token, t = alpha_ik, not the position that asks.",
        lambda X, sees, selected: (rows := _rows(X, sees, selected))[rows.any(axis=(1, 2))],
        "A row may be 0, where two tokens are equal: it stays. Leave out the selected token by its number.",
        _rows_by(
            pairs=lambda sees, selected: (
                sees.swapaxes(1, 2) & (np.arange(sees.shape[-1]) != selected[..., None])
            )
        ),
        "sees[i, k, t] has the position that asks first: row k of the mask.",
        lambda X, sees, selected: (
            _rows(X, np.ones_like(sees), selected)
            * (sees[np.arange(sees.shape[-1]) != selected[..., None] + 0 * sees])[:, None, None]
        ),
        "Tokens that are not seen have no row at all, not one of zeros.",
        _by_other,
        "The query is the token of the position that asks, x_ik, not the one that is compared.",
        _by_position,
        "The rows are there, but ordered by position first. Let i be the slowest.",
    ),
    withheld=(
        "mini_attn.svm.sequence.sequence_problem",
        "mini_attn.svm.problem.attention_problem",
        "mini_attn.svm.problem.token_problem",
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
    ),
)

EXERCISES = [VISIBLE, ROWS, POOLED, SHARE, FALLS]
