"""Exercises of lesson 14: sequences and causal masks."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from course.check.specification import Compare, Exercise, known


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
    minutes=7,
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
        lambda sees: 2 * _price(sees),
        "Twice too much: x_alpha less the mean of all m tokens has the squared length 1 - 1/m.",
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
        lambda sees: float(np.sum(1 - 1 / np.maximum(sees.sum(axis=-1), 1e-9))),
        "A position that sees nothing has m = 0, and 1/m is huge: it does not ask, leave it out.",
        lambda sees: float((sees.sum(axis=-1) - 1.0).sum()),
        "m - 1 is the number of rows, which all share x_alpha; and who sees nothing has none.",
    ),
    withheld=(
        "mini_attn.svm.dispatch.solve",
        "mini_attn.svm.rational.shortest",
        "mini_attn.svm.sequence.sequence_problem",
        "mini_attn.svm.problem.token_problem",
        "mini_attn.svm.problem.attention_problem",
    ),
)


# --------------------------------------------------------------------------- 14.3 the tie level
def _excess(a):
    """The mean of max(x - a, 0) for x from N(0, 1)."""
    return np.exp(-a * a / 2) / (2 * np.pi) ** 0.5 - a * ndtr(-a)


def _level_by(
    others=lambda m: m - 1,
    given=_excess,
    climbed=lambda a: a,
    count=lambda m, a: (m - 1) * ndtr(-a),
):
    """An answer from the balance others * given = climbed, and how it counts at this level."""

    def answer(m):
        level = brentq(lambda a: others(m) * given(a) - climbed(a), 0, 10, xtol=1e-13)
        return level, count(m, level)

    return answer


_level = _level_by()


def _level_cases(rng):
    """From a few tokens to very many."""
    return [(int(m),) for m in (4, 10, rng.integers(20, 200), rng.integers(1000, 30_000))]


LEVEL = Exercise(
    id="14.3",
    title="The tie level",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_level,
    cases=_level_cases,
    compare=Compare(rtol=1e-4),
    misconceptions=known(
        lambda m: _level(m)[::-1],
        "Level and number have changed places.",
        _level_by(others=lambda m: m, count=lambda m, a: m * ndtr(-a)),
        "m tokens are seen, the selected one among them: m - 1 others.",
        _level_by(count=lambda m, a: m * ndtr(-a)),
        "The number: the selected one is not among those above the level; count m - 1 others.",
        _level_by(others=lambda m: m),
        "The balance: m - 1 others give, not m.",
        _level_by(count=lambda m, a: 1 + (m - 1) * ndtr(-a)),
        "The number: the selected token is no tie. Count the others alone.",
        _level_by(count=lambda m, a: ndtr(-a)),
        "The number, not the share: m - 1 others, each above the level with the chance Q.",
        _level_by(count=lambda m, a: a * a),
        "The square of the level is what the number comes near to for very large m. Count: (m - 1) Q.",
        _level_by(given=lambda a: np.exp(-a * a / 2) / (2 * np.pi) ** 0.5),
        "A tied token comes down by x - theta, not by x: its mean part is phi - theta Q.",
        _level_by(given=lambda a: np.exp(-a * a / 2) / (2 * np.pi) ** 0.5 - a),
        "A tied token comes down by x - theta, but most others stay: the mean part is phi - theta Q.",
        lambda m: (m * ndtr(-_level(m)[0]), _level(m)[0]),
        "Return the level first, then the number; and count m - 1 others, not m.",
        _level_by(given=lambda a: ndtr(-a)),
        "Balance what the tied tokens come down by, x - theta each, not how many they are.",
        _level_by(given=lambda a: _excess(a) / ndtr(-a), others=lambda m: 1),
        "That is what *one* tied token comes down by, and the selected one climbs by all of them together.",
        _level_by(given=lambda a: _excess(a) / ndtr(-a)),
        "That is the mean of a token *given* that it is tied. One other token comes down by phi - theta Q on "
        "average: most of them stay, and give 0.",
        _level_by(others=lambda m: 1),
        "The balance: that is what one other token gives. All m - 1 of them balance the climb.",
        _level_by(climbed=lambda a: 2 * a),
        "The selected token climbs from its mean, 0, to theta: by theta.",
        _level_by(others=lambda m: m, given=lambda a: ndtr(-a), climbed=lambda a: 1),
        "That is the level which one of m tokens passes on the mean. They have to balance the climb.",
        _level_by(given=lambda a: ndtr(-a), climbed=lambda a: 1),
        "That is the level which one of the others passes on the mean. They have to balance the climb.",
        lambda m: ((2 * np.log(m)) ** 0.5, 2 * np.log(m)),
        "That is an upper end for theta. Solve the balance.",
        lambda m: (_level(m)[0], 2 * np.log(m)),
        "The number: 2 ln m is far too large at any m that we can reach. Count: (m - 1) Q.",
        lambda m: _level(m)[0],
        "That is the level. Return the number of others above it, too.",
        lambda m: _level(m)[1],
        "That is the number. Return the level, too, in front of it.",
    ),
)


# --------------------------------------------------------------------------- 14.4 the first step
def _wrong_by(spreads):
    """An answer: a normal number is beyond so many of its standard deviations."""
    return lambda T, d: float(ndtr(-spreads(T, d)))


_wrong = _wrong_by(lambda T, d: (d / (T - 1)) ** 0.5)


def _size_cases(rng):
    """Some sizes at which a share is pulled the wrong way that is not too small to tell apart."""
    cases = [(3, 5), (16, 16)]
    for T in rng.permutation(np.arange(4, 40))[:4]:
        cases.append((int(T), int(rng.integers(max(2, T // 2), 4 * T))))
    return cases


FIRST = Exercise(
    id="14.4",
    title="The first step",
    points=2,
    minutes=12,
    difficulty=2,
    reference=_wrong,
    cases=_size_cases,
    compare=Compare(rtol=1e-6, atol=1e-9),
    misconceptions=known(
        _wrong_by(lambda T, d: (d / T) ** 0.5),
        "T - 1 terms are chance: the position's own, y_k y_k x_k.x_k, is always 1.",
        _wrong_by(lambda T, d: (d / max(T - 2, 0.5)) ** 0.5),
        "With full attention all T - 1 others pull.",
        _wrong_by(lambda T, d: ((T - 1) / d) ** 0.5),
        "That is the standard deviation of the sum. How many of these is it from 0 to -1?",
        _wrong_by(lambda T, d: d / (T - 1)),
        "That is 1 over the variance of the sum; a chance needs its standard deviation.",
        _wrong_by(lambda T, d: d**0.5 / (T - 1)),
        "Standard deviations do not add up, variances do: (T - 1)/d.",
        _wrong_by(lambda T, d: d / (T - 1) ** 0.5),
        "1/d is the variance of one inner product, not its standard deviation.",
        _wrong_by(lambda T, d: d**0.5),
        "That is one other token. There are T - 1.",
        _wrong_by(lambda T, d: (T - 1) ** -0.5),
        "The others' labels do not count in full: an inner product of two tokens has the variance 1/d.",
        _wrong_by(lambda T, d: (d / (2 * (T - 1))) ** 0.5),
        "The labels are only signs: a term's variance is 1/d, not 2/d.",
        _wrong_by(lambda T, d: (2 * d / (T - 1)) ** 0.5),
        "A term's variance is 1/d, whatever its sign; nothing halves it.",
        _wrong_by(lambda T, d: 2 * (d / (T - 1)) ** 0.5),
        "The position's own term is 1, not 2: the others need to be below -1.",
        _wrong_by(lambda T, d: ((d - 1) / (T - 1)) ** 0.5),
        "The variance is 1/d: the d squared coordinates of a direction add up to 1.",
        _wrong_by(lambda T, d: -((d / (T - 1)) ** 0.5)),
        "Those are pulled the right way; return the share of the others.",
        lambda T, d: 2 * _wrong(T, d),
        "One side only: the sum must be below -1. Above 1 it pulls the right way all the more.",
        lambda T, d: _wrong(T, d) / 2,
        "The label is no factor more: the signs are already in the sum.",
        lambda T, d: 0.5,
        "The position's own label pulls, too: with 1, and the right way.",
        lambda T, d: 0.0,
        "The others' pull has mean 0, but it varies: now and then it is below -1.",
        lambda T, d: T * _wrong(T, d),
        "That is how many of T positions; return the share.",
        lambda T, d: 100 * _wrong(T, d),
        "A share between 0 and 1, not per cent.",
    ),
)

EXERCISES = [MOVES, PRICE, LEVEL, FIRST]
