"""Exercises of lesson 14: sequences and causal masks."""

import numpy as np

from course.check.specification import Exercise, known


# --------------------------------------------------------------------------- 14.1 whose output moves
def _own(sees):
    return np.broadcast_to(np.eye(sees.shape[-1], dtype=bool), sees.shape)


def _number(sees):
    return sees.sum(axis=-1, keepdims=True)


def _moves(sees):
    return sees | (_own(sees) & (_number(sees) > 1))


def _visible(lengths, T):
    """A causal mask with padding at the end."""
    real = np.arange(T) < np.asarray(lengths)[:, None]
    return real[:, :, None] & real[:, None, :] & np.tri(T, dtype=bool)


def _moves_cases(rng):
    """Two usual masks, and random ones with rows that see nothing, one token, themselves, others only."""
    cases = [(np.tri(3, dtype=bool)[None],), (_visible(rng.permutation([2, 4, 5]), 5),)]
    for n, T in ((1, 6), (2, 7), (3, 8)):
        sees = rng.random((n, T, T)) < rng.uniform(0.3, 0.5)
        for own in sees:
            nothing, one, itself, others, two = rng.permutation(T)[:5]
            own[[nothing, one, itself, others, two]] = False
            own[one, others] = own[itself, itself] = True
            own[others, [one, two, nothing]] = True
            own[two, [nothing, itself]] = True
        cases.append((sees,))
    return cases


MOVES = Exercise(
    id="14.1",
    title="Whose output moves?",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_moves,
    cases=_moves_cases,
    misconceptions=known(
        lambda sees: sees,
        "A token also stands in the logits as the query of its own position, seen or not.",
        lambda sees: sees | _own(sees),
        "The query changes something only where there is a choice: with one visible token s = 1 whatever it "
        "is, with none the output stays 0.",
        lambda sees: sees | (_own(sees) & (_number(sees) > 0)),
        "With one visible token s = 1, whatever the query.",
        lambda sees: sees & (_number(sees) > 1),
        "Where one token alone is seen, s = 1 stays, but the output is its value v.x, which changes. Where "
        "several are seen, the query matters, too.",
        lambda sees: _moves(sees) & (_number(sees) > 1),
        "With one visible token s = 1 stays, but the output is v.x of that token and moves with it.",
        lambda sees: _moves(sees).swapaxes(-1, -2),
        "Row k is the position whose output it is, column t the token that changes.",
        lambda sees: sees & ~_own(sees) | (_own(sees) & (_number(sees) > 1)),
        "A position that sees itself alone has the output v.x_k, which moves with the token.",
        lambda sees: _own(sees) & (_number(sees) > 1),
        "That is the query's part. The tokens that are seen are keys and values: with them the output moves.",
        lambda sees: sees | (sees.astype(int) @ sees.astype(int) > 0),
        "There is one layer: what a visible token itself sees does not enter.",
        lambda sees: sees | sees.swapaxes(-1, -2),
        "To be seen by a token is not to see it: position k's output needs what k sees, and its own query.",
        lambda sees: sees & ~_own(sees),
        "A position's own token moves it, too: as its query, or as a token that it sees.",
        lambda sees: ~_moves(sees),
        "The other way round: True where the output moves.",
        lambda sees: np.repeat(sees.any(axis=-1, keepdims=True), sees.shape[-1], axis=-1),
        "A hidden token has the attention 0, exactly, and moves nothing.",
        lambda sees: sees | (_own(sees) & (_number(sees) > 2)),
        "Two visible tokens are enough for a choice: the query decides between them.",
    ),
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
    causal = _visible(rng.permutation([2, 4, 6]), 6)
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
    minutes=10,
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
        _price_by(lambda m: 1 + 1 / np.maximum(m - 1, 1)),
        "a is x_alpha less the mean of all m tokens, not of the others: leads of exactly 1 need no more.",
        _price_by(lambda m: np.where(m > 1, m / np.maximum(m - 1, 1), 1)),
        "a is x_alpha less the mean of all m tokens, not of the others; who sees one token adds 0.",
        _price_by(lambda m: (1 - 1 / m) ** 0.5),
        "The terms are orthogonal: their squared lengths add up, not their lengths.",
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


# --------------------------------------------------------------------------- 14.3 the crowd, first and last
def _share(lengths, seen):
    """What the positions' squared lengths add up to, over those of full attention."""
    return float(np.sum(lengths(seen)) / np.sum(lengths(np.full(len(seen), len(seen)))))


def _first_length(m):
    return (1 - 1 / m) / m


def _last_length(m):
    return 1 - 1 / m


def _forecast_by(
    first=lambda seen: _share(_first_length, seen),
    last=lambda seen: _share(_last_length, seen),
):
    """An answer from its two parts."""

    def answer(seen):
        seen = np.asarray(seen)
        return first(seen), last(seen)

    return answer


_forecast = _forecast_by()


def _first_by(lengths):
    return _forecast_by(first=lambda seen: _share(lengths, seen))


def _last_by(lengths):
    return _forecast_by(last=lambda seen: _share(lengths, seen))


def _forecast_cases(rng):
    """A causal mask, and others in which several see all or none does, and some have no choice."""
    cases = [(np.arange(1, 5),), (np.array([1, 3, 2, 2, 4]),)]
    for T, wide in ((4, 2), (6, 2), (8, 3)):
        narrow = rng.integers(2, T, size=T - wide)
        narrow[0] = 1
        cases.append((rng.permutation(np.concatenate([np.full(wide, T), narrow])),))
    return cases


FORECAST = Exercise(
    id="14.3",
    title="The crowd, first and last",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_forecast,
    cases=_forecast_cases,
    misconceptions=known(
        lambda seen: _forecast(seen)[::-1],
        "First and last have changed places.",
        _first_by(_last_length),
        "First: a is not yet x_alpha less the mean. Differentiate f where all attention is 1/m.",
        _first_by(lambda m: (1 - 1 / m) / m**2),
        "First: each of the m entries of a has the variance (1 - 1/m) / m^2. There are m of them.",
        _first_by(lambda m: 1 / m),
        "First: the derivative takes off the mean score, which costs the factor 1 - 1/m.",
        _first_by(lambda m: (m > 1) / m),
        "First: the derivative takes off the mean score: 1/m is still to be multiplied by 1 - 1/m.",
        _first_by(lambda m: 1 / m**2),
        "First: a has m entries (score less mean) / m, each of the mean square (1 - 1/m) / m^2.",
        _first_by(lambda m: m - 1.0),
        "First: the derivative has the attention, 1/m, as a factor; it counts squared.",
        _first_by(lambda m: (1 - 1 / m) ** 2 / m),
        "First: a score less the mean of m has the mean square 1 - 1/m; that is not squared again.",
        _first_by(lambda m: (m > 1) * 1.0),
        "First: not all who choose count alike: the attention 1/m is a factor of the derivative.",
        _first_by(lambda m: ((1 - 1 / m) / m) ** 0.5),
        "First: the sum of |a|^2, not of |a|.",
        _last_by(lambda m: m - 1.0),
        "Last: those are the rows, m - 1 a position. But they share one term: how long is its a?",
        _last_by(lambda m: 1.0 * m),
        "Last: not tokens count but terms, one a position: how long is a where m tokens are seen?",
        _last_by(lambda m: 1.0 * (m > 1)),
        "Last: those who choose do not count alike: |a|^2 is 1 - 1/m (exercise 14.2), a half with two.",
        _last_by(lambda m: (1 - 1 / m) ** 0.5),
        "Last: the sum of |a|^2, not of |a|.",
        _last_by(lambda m: (1 - 1 / m) ** 2),
        "Last: |a|^2 itself is 1 - 1/m (exercise 14.2): it is not squared again.",
        _last_by(lambda m: 1 / m),
        "Last: |a|^2 is 1 - 1/m (exercise 14.2): a is x_alpha less the mean of the m tokens.",
        _forecast_by(
            first=lambda seen: float(np.mean(_first_length(seen))),
            last=lambda seen: float(np.mean(_last_length(seen))),
        ),
        "Over what it is with full attention, where every position sees T tokens.",
        _forecast_by(
            first=lambda seen: float(np.sum(_first_length(seen))),
            last=lambda seen: float(np.sum(_last_length(seen))),
        ),
        "Over what it is with full attention, where T positions see T tokens each.",
        _forecast_by(
            first=lambda seen: _share(_first_length, seen) ** 0.5,
            last=lambda seen: _share(_last_length, seen) ** 0.5,
        ),
        "The factor of S, the sum of squares, not its root.",
        lambda seen: tuple(1 / one for one in _forecast(seen)),
        "The other way round: the mask's sum over that of full attention.",
        lambda seen: tuple(1 - one for one in _forecast(seen)),
        "A factor by which S changes, not the part it loses.",
        lambda seen: tuple(
            _share(one, np.append(seen[seen < len(seen)], len(seen))) for one in (_first_length, _last_length)
        ),
        "Count the terms of all positions.",
    ),
)


# --------------------------------------------------------------------------- 14.4 who falls for the padding
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
    values, y = np.full((5, 6), 50.0), np.ones((5, 6))  # nobody is as long as T
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
    id="14.4",
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

EXERCISES = [MOVES, PRICE, FORECAST, FALLS]
