"""Exercises of lesson 16: next-token prediction."""

import numpy as np
from scipy.optimize import brentq

from course.check.specification import Exercise, known


# --------------------------------------------------------------------------- 16.1 heights by pencil
def _levels(sizes):
    n = np.asarray(sizes, dtype=float)
    places = np.arange(len(n))
    return (n * places).sum() / n.sum() - places


def _fair(sizes):
    """Each token's height as the tokens below it less those above, as if only neighbours counted."""
    n = np.asarray(sizes, dtype=float)
    below, above = np.append(n[1:], 0), np.append(0, n[:-1])
    return (below - above) / n.sum()


def _apart_by_size(sizes):
    """As if each level stood below the one before by as much as that holds tokens."""
    n = np.asarray(sizes, dtype=float)
    places = np.append(0, np.cumsum(n)[:-1])
    return (n * places).sum() / n.sum() - places


LEVELS = Exercise(
    id="16.1",
    title="Heights with a pencil",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_levels,
    cases=lambda rng: [
        (np.array([1, 1]),),
        (np.array([1, 2, 3]),),
        (np.array([1, int(rng.integers(5, 20))]),),
        (np.array([int(rng.integers(3, 9)), 2, 1, 1]),),
        (rng.permutation([1, 2, 3, 5, 8]),),
        (np.ones(int(rng.integers(4, 8)), dtype=int),),
    ],
    misconceptions=known(
        lambda sizes: (len(sizes) - 1) / 2 - np.arange(len(sizes)),
        "Each *token's* height counts, not each level's: large levels weigh more.",
        lambda sizes: -_levels(sizes),
        "The first level is the highest.",
        lambda sizes: _levels(sizes) - _levels(sizes)[0],
        "All relations hold, but a common shift makes the sum of squares smaller.",
        lambda sizes: _levels(sizes) - _levels(sizes)[-1],
        "All relations hold, but with the lowest level at 0 the sum of squares is not the least.",
        lambda sizes: np.repeat(_levels(sizes), sizes),
        "One height a level, (K,), not one for each token.",
        lambda sizes: _levels(sizes) / np.sqrt((np.asarray(sizes) * _levels(sizes) ** 2).sum()),
        "Neighbouring levels stand exactly 1 apart: no unit length.",
        lambda sizes: 2 * _levels(sizes),
        "Neighbouring levels stand 2 apart; 1 is enough.",
        _fair,
        "Heights are no count of wins: each level has to be 1 above the next, and that is all.",
        lambda sizes: _levels(np.asarray(sizes)[::-1]),
        "The weights are the wrong way round: sizes[0] is the size of the highest level.",
        lambda sizes: _levels(np.asarray(sizes) ** 2),
        "A level of n tokens adds n squares of its height, not n squared of them.",
        lambda sizes: _levels(np.sqrt(sizes)),
        "A level of n tokens adds n squares of its height.",
        lambda sizes: _levels(1 / np.asarray(sizes)),
        "The heights of all tokens add up to 0: large levels pull the middle towards them.",
        lambda sizes: _levels(sizes) + 0.5,
        "Shift them: the heights of all tokens add up to 0.",
        lambda sizes: np.cumsum(np.asarray(sizes))[::-1] / sum(sizes),
        "Levels stand 1 apart, however many tokens they hold.",
        lambda sizes: (np.asarray(sizes) * np.arange(len(sizes))).mean() - np.arange(len(sizes)),
        "Divide by the number of tokens, the sum of all sizes, not by the number of levels.",
        lambda sizes: _levels(sizes) + 1,
        "All are 1 too high: count the levels from 0, l = 0, 1, ..., also in the mean.",
        _apart_by_size,
        "Neighbouring levels are 1 apart, however many tokens they hold.",
        lambda sizes: np.median(np.repeat(np.arange(len(sizes)), sizes)) - np.arange(len(sizes)),
        "Squares are least around the mean of all tokens' levels, not around their median.",
    ),
    withheld=(
        "mini_attn.svm.order.order_problem",
        "mini_attn.svm.dispatch.solve",
        "mini_attn.svm.rational.shortest",
    ),
)


# --------------------------------------------------------------------------- 16.2 the slope of a chain
def _squares(lengths):
    m = np.asarray(lengths, dtype=float)
    return m * (m**2 - 1) / 12


def _slope(lengths, eta):
    return float(-eta / np.sqrt(_squares(lengths).sum()))


def _slope_cases(rng):
    return [
        (np.array([2]), 0.1),
        (np.array([3, 3]), 0.1),
        (np.array([2, 4]), float(rng.uniform(0.05, 0.3))),
        (rng.integers(3, 7, size=3), float(rng.uniform(0.05, 0.3))),
        (np.array([1, rng.integers(4, 8), 1, rng.integers(2, 5)]), float(rng.uniform(0.3, 0.9))),
    ]


SLOPE = Exercise(
    id="16.2",
    title="The slope of a chain",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_slope,
    cases=_slope_cases,
    misconceptions=known(
        lambda lengths, eta: _slope(lengths, 1.0),
        "Steps are eta long: the slope is as much steeper as they are longer.",
        lambda lengths, eta: _slope(lengths, eta) * eta,
        "eta counts once: a step of length eta adds eta / |W| to the leads.",
        lambda lengths, eta: _slope([sum(lengths)], eta),
        "Each query has a chain of its own, in its own column: they are not one long chain.",
        lambda lengths, eta: float(-eta / np.sqrt(sum((np.arange(1, m + 1) ** 2).sum() for m in lengths))),
        "Heights 1, 2, 3, ... are not the shortest: shift them until their mean is 0.",
        lambda lengths, eta: float(-eta / np.sqrt(sum(m * (m - 1) / 2 for m in lengths))),
        "Not the number of pairs: a column holds a height for each token, and its square counts.",
        lambda lengths, eta: _slope(lengths, eta) * np.sqrt(len(lengths)),
        "Add the columns' squares, do not average them: |W|^2 is their sum.",
        lambda lengths, eta: float(-eta / np.sqrt(sum(m * (m**2 + 1) / 12 for m in lengths))),
        "A sign in the sum of squares: try m = 1, a single token has height 0, and m = 2, with 1/2 and -1/2.",
        lambda lengths, eta: float(
            -eta / np.sqrt(sum(((np.arange(m) - m // 2) ** 2).sum() for m in lengths))
        ),
        "The middle of m heights is (m - 1) / 2, also where that is no whole number.",
        lambda lengths, eta: -eta,
        "The lead grows by eta times the margin 1 / |W| a step, not by eta.",
        lambda lengths, eta: -_slope(lengths, eta),
        "The loss falls: the slope is negative.",
        lambda lengths, eta: float(-eta * np.sqrt(_squares(lengths).sum())),
        "Divide by |W|: the longer the shortest W with leads 1, the smaller the margin.",
        lambda lengths, eta: float(-eta / _squares(lengths).sum()),
        "Divide by the norm, not by its square.",
        lambda lengths, eta: float(-eta / np.sqrt(_squares(lengths)).sum()),
        "Columns add up in squares: |W|^2 is the sum, not |W|.",
        lambda lengths, eta: float(-eta / np.sqrt(_squares(lengths).max())),
        "All queries share one W, and one step's length: the columns' squares add up.",
        lambda lengths, eta: float(-eta / np.sqrt(sum((np.arange(m) ** 2).sum() for m in lengths))),
        "Heights 0, 1, 2, ... are not the shortest: shift them until their mean is 0.",
        lambda lengths, eta: float(-eta / np.sqrt(sum(m - 1 for m in lengths) / 2)),
        "The relations of a chain share tokens: a token in the middle is above one and below another.",
        lambda lengths, eta: float(-eta / np.sqrt(sum(m - 1 for m in lengths))),
        "Heights, not relations: a column holds a height for each token, and its square counts.",
        lambda lengths, eta: _slope(sorted(set(np.asarray(lengths).tolist())), eta),
        "Two chains of the same length are two columns: both count.",
        lambda lengths, eta: float(-eta / np.sqrt(max(_squares(lengths)[0], 1e-300))),
        "All queries share one W: the chains after the first count, too.",
        lambda lengths, eta: float(-eta / np.sqrt(sum((m**2 - 1) / 12 for m in lengths))),
        "In a column the squares of the heights are added up: that is their mean.",
        lambda lengths, eta: float(-eta / np.sqrt(sum(((np.arange(m) - m / 2) ** 2).sum() for m in lengths))),
        "The middle of 0, 1, ..., m - 1 is (m - 1) / 2, not m / 2.",
        lambda lengths, eta: _slope(lengths, eta) / 2,
        "Neighbours of a chain stand 1 apart, not 2.",
        lambda lengths, eta: _slope(lengths, eta) / np.sqrt(2),
        "That is twice the square of |W|: row k of a chain has the multiplier k (m - k) / 2.",
        lambda lengths, eta: float(-eta / np.sqrt(sum(m**3 / 12 for m in lengths))),
        "The exact sum: a single token has height 0, and m = 2 has 1/2 and -1/2.",
        lambda lengths, eta: sum(_slope([m], eta) for m in lengths if m > 1),
        "The queries do not add their slopes: they share one step's length.",
        lambda lengths, eta: _slope([m + 1 for m in lengths], eta),
        "A chain of m tokens has m heights and m - 1 gaps.",
        lambda lengths, eta: _slope(lengths, eta) / np.log(10),
        "The log is the natural one.",
        lambda lengths, eta: float(-eta / np.sqrt((1 - 1 / np.asarray(lengths)).sum())),
        "That is one token above m - 1 others that stand level. A chain has m levels.",
    ),
)


# --------------------------------------------------------------------------- 16.3 who wins a tie?
def _tie_by(
    weigh=lambda copies, queries: queries / copies, gather=None, votes=lambda N, new: N * new, last=True
):
    """Shares from what each sequence adds to its token, and what the new copies make of it."""

    def answer(which, copies, queries, new):
        which, copies, queries, new = (np.asarray(part) for part in (which, copies, queries, new))
        N = np.bincount(which, weights=weigh(copies * 1.0, queries * 1.0) + 0 * which, minlength=len(new))
        if gather is not None:
            N = gather(N, which, copies, queries, len(new))
        found = votes(N, new)
        return found / found.sum() if last else found

    return answer


_tie = _tie_by()


def _count(which, m):
    return np.bincount(which, minlength=m)


def _tie_cases(rng):
    cases = [
        ([0, 1], [1, 2], [1, 1], [1, 1]),
        ([0, 0, 1], [1, 1, 1], [1, 2, 1], [1, 2]),
        ([1, 0, 2, 1], [2, 1, 1, 3], [1, 1, 4, 2], [2, 0, 1]),
    ]
    for m, n in ((3, 8), (4, 11), (2, 6)):
        while True:
            which = rng.permutation(np.r_[np.arange(m), rng.integers(m, size=n - m)])
            copies, queries = rng.integers(1, 5, n), rng.integers(1, 6, n)
            new = rng.permutation(np.r_[rng.integers(1, 5, m - 1), 2])
            case = (which, copies, queries, new)
            right = _tie(*case)
            if (
                min(np.abs(one.wrong(*case) - right).max() for one in _TIE_RIVALS) > 0.02
                and len(set(new)) > 1
            ):
                break
        cases.append(case)
    return [tuple(np.array(part) for part in case) for case in cases]


_TIE_RIVALS = known(
    _tie_by(weigh=lambda copies, queries: 1.0 + 0 * copies),
    "A sequence does not just count: it pulls by the attention that it still lacks. How much is that?",
    lambda which, copies, queries, new: new / new.sum(),
    "Equal heights do not mean equal logits: a finite lead is left, and the training sequences set it.",
    lambda which, copies, queries, new: (new > 0) / (new > 0).sum(),
    "Equal heights do not mean equal attention: copies count, and so does a finite lead.",
    _tie_by(weigh=lambda copies, queries: queries * copies),
    "More copies of a token give its attention away sooner: they make the pull of the sequence weaker.",
    _tie_by(weigh=lambda copies, queries: 1 / copies),
    "The query's copies share the attention that is lacking: each adds to the pull.",
    _tie_by(weigh=lambda copies, queries: queries),
    "With more copies of its token a sequence lacks less: divide by them.",
    _tie_by(weigh=lambda copies, queries: copies),
    "A sequence pulls by the attention that it lacks, queries / copies of it, not by its copies.",
    _tie_by(weigh=lambda copies, queries: copies / queries),
    "Upside down: what a sequence lacks is the query's attention, queries / copies of its token's.",
    _tie_by(
        gather=lambda N, which, copies, queries, m: (
            np.bincount(which, queries, m) / np.bincount(which, copies, m)
        )
    ),
    "Each sequence has a softmax of its own: add up the ratios, do not divide the sums.",
    _tie_by(gather=lambda N, which, copies, queries, m: N / _count(which, m)),
    "Each sequence pulls: two alike pull twice as hard. Add them up, no mean.",
    _tie_by(votes=lambda N, new: new / N),
    "The other way round: a token that many sequences pull up is ahead until all pulls are equal.",
    _tie_by(votes=lambda N, new: N),
    "The new sentence has copies, too: each of them gets attention.",
    _tie_by(votes=lambda N, new: N * (new > 0)),
    "How many copies the new sentence has counts, not only which tokens.",
    _tie_by(votes=lambda N, new: np.sqrt(N) * new),
    "N e^-lead is alike for all tokens: e^lead is in proportion to N, not to its root.",
    _tie_by(votes=lambda N, new: new * np.exp(N - N.max())),
    "The logit is log N, not N: a softmax of it gives N back.",
    _tie_by(votes=lambda N, new: np.log1p(N) * new),
    "Attention is e to the logit: N times the copies, no log.",
    _tie_by(votes=lambda N, new: (new * N == (new * N).max()) * 1.0),
    "The lead is finite: none takes all.",
)

TIE = Exercise(
    id="16.3",
    title="Who wins a tie?",
    points=3,
    minutes=20,
    difficulty=3,
    reference=_tie,
    cases=_tie_cases,
    misconceptions=[
        *_TIE_RIVALS,
        *known(
            _tie_by(last=False),
            "Shares of attention: divide by their sum.",
            _tie_by(votes=lambda N, new: N + new),
            "The copies multiply e^lead: they are not added to it.",
            _tie_by(votes=lambda N, new: N**2 * new),
            "N counts once: the pulls are alike when N e^-lead is.",
            _tie_by(weigh=lambda copies, queries: queries / (copies + queries)),
            "That is at the start, with equal logits. Late, the query gets little beside its token.",
            _tie_by(votes=lambda N, new: N * new**2),
            "Copies of a token add up their attention: they count once.",
            _tie_by(weigh=lambda copies, queries: (queries / copies) ** 2),
            "A sequence pulls by what it lacks, not by the square of that.",
        ),
    ],
)


# --------------------------------------------------------------------------- 16.4 who pulls harder?
def _apart(sure, other, gap=lambda own, rival: 1 - own + rival):
    """The two values' difference over c, from pi of what the model is sure of and pi of each other token."""
    return gap(other, sure), gap(sure, other)  # the wrong sequence's, the right one's


def _harder_by(apart=_apart, last=lambda wrong, right, c: wrong / right, more=lambda V: V - 1):
    def answer(c, V):
        Z = np.exp(c) + more(V)
        wrong, right = apart(np.exp(c) / Z, 1 / Z)
        return float(last(wrong, right, c))

    return answer


_harder = _harder_by()

HARDER = Exercise(
    id="16.4",
    title="Who pulls harder?",
    points=2,
    minutes=12,
    difficulty=2,
    reference=_harder,
    cases=lambda rng: [
        (1.0, 2),
        (0.5, 20),
        (8.0, 20),
        (float(rng.uniform(0.1, 1)), int(rng.integers(3, 9))),
        (float(rng.uniform(1, 4)), int(rng.integers(9, 40))),
        (float(rng.uniform(4, 7)), int(rng.integers(40, 200))),
    ],
    misconceptions=known(
        lambda c, V: 2 * float(np.exp(c)) / V,
        "That holds for a large c only. Keep the softmax as it is, with its V - 1 other tokens.",
        lambda c, V: 2 * float(np.exp(c)) / V + 1,
        "Nearly: keep all ones. At c = 0 no token is preferred, and the two pull alike.",
        _harder_by(last=lambda wrong, right, c: right / wrong),
        "The other way round: the wrong sequence's pull over that of the right one.",
        _harder_by(last=lambda wrong, right, c: c * wrong),
        "That is how far the values differ in the wrong sequence. Divide by how far in the right one.",
        _harder_by(last=lambda wrong, right, c: c * right),
        "That is how far the values differ in the right sequence. It is the divisor.",
        _harder_by(last=lambda wrong, right, c: c * (wrong - right)),
        "A factor: divide the pulls, do not subtract them.",
        _harder_by(last=lambda wrong, right, c: np.log(wrong / right)),
        "That is the factor's log.",
        _harder_by(last=lambda wrong, right, c: (wrong / right) ** 2),
        "The values enter the slope once.",
        _harder_by(last=lambda wrong, right, c: c * wrong / right),
        "c is in both pulls, and cancels.",
        lambda c, V: 1.0,
        "The attentions' product is alike, the values are not: what is the model sure of in each?",
        lambda c, V: float(np.exp(c)),
        "That is the ratio of the two probabilities. Each pull has the difference of two values: subtract.",
        _harder_by(apart=lambda sure, other: _apart(sure, other, lambda own, rival: 1 - own)),
        "The loser has a value, too: -c times pi of the token that follows it.",
        _harder_by(apart=lambda sure, other: _apart(sure, other, lambda own, rival: 1 + rival)),
        "The optimal token has the value c (1 - pi), with pi of the answer, not c.",
        _harder_by(apart=lambda sure, other: (2.0, 1 - sure + other)),
        "In the wrong sequence the values differ by 2c only if the model is quite sure. How sure is it?",
        _harder_by(more=lambda V: V),
        "The softmax has V terms: e^c and V - 1 ones.",
        _harder_by(more=lambda V: V - 2),
        "One term is missing: the softmax has e^c and V - 1 ones.",
        _harder_by(apart=lambda sure, other: (1 - other + sure, 1 - sure)),
        "In the right sequence the loser has a value, too: -c times pi of the token that follows it.",
        _harder_by(apart=lambda sure, other: (1 - other, 1 - sure + other)),
        "In the wrong sequence the loser's value is -c times pi of what follows it, and that pi is large.",
        lambda c, V: float(1 + (np.exp(c) - 1) / V),
        "Two probabilities change places, that of the answer and that of what follows b: both count.",
        lambda c, V: float(2 * np.exp(c) + V - 2),
        "Divide by the right sequence's difference of values, V.",
        lambda c, V: float(1 + 2 * (np.exp(-c) - 1) / V),
        "The sign of c: with attention on a token, the logit of what follows it is c above the others.",
    ),
)


# --------------------------------------------------------------------------- 16.5 the finite lead
def _root(force):
    """Where force, which falls, is 0 between -60 and 60; the end that is nearer where it is not."""
    ends = force(-60.0), force(60.0)
    if ends[0] <= 0 or ends[1] >= 0:
        return -60.0 if ends[0] <= 0 else 60.0
    return brentq(force, -60.0, 60.0, xtol=1e-13)


def _lead_by(share=lambda lead, a, b: a / (a + b * np.exp(-lead)), wins=lambda won: won):
    """The lead where the attention on a, summed over sequences, is as much as a's answers."""

    def answer(won, copies_a, copies_b):
        won, a, b = (np.asarray(x, dtype=float) for x in (won, copies_a, copies_b))
        return _root(lambda lead: (wins(won) - share(lead, a, b)).sum())

    return answer


_lead = _lead_by()


def _odds(won, both=slice(None)):
    return np.log(won[both].sum() / (~won[both]).sum())


def _each_copy_wins(won, a, b):
    """As if each copy of a winner were an answer; by halving, as often there is no root."""
    low, high = -50.0, 50.0
    for _ in range(200):
        lead = (low + high) / 2
        few = (a / (a + b * np.exp(-lead))).sum() < (won * a).sum()
        low, high = (lead, high) if few else (low, lead)
    return lead


def _by_lacks(won, a, b):
    """16.3's law: each sequence counts by the other token's copies over those of its answer."""
    return float(np.log((b / np.maximum(a, 1))[won].sum() / (a / np.maximum(b, 1))[~won].sum()))


def _lead_cases(rng):
    cases = [
        ([True, True, False, True], [1, 1, 1, 1], [1, 1, 1, 1]),
        ([True, False], [2, 2], [1, 1]),
        ([True, False, False, True, False], [3, 1, 2, 1, 0], [1, 2, 1, 0, 2]),  # three of five are contested
        ([True, False], [1, 3], [20, 40]),
        ([True, False], [1, 1], [50_000, 200_000]),  # a lead above 10
    ]
    cases = [tuple(np.array(part) for part in case) for case in cases]
    for n in (6, 9):
        while True:
            won, a, b = rng.random(n) < 0.4, rng.integers(1, 5, n), rng.integers(1, 4, n)
            a[:2], b[:2] = (1, 4), (3, 1)  # so that copies differ
            right = _lead(won, a, b)
            if 1 < won.sum() < n - 1 and all(
                abs(rival.wrong(won, a, b) - right) > 0.05 for rival in _LEAD_RIVALS
            ):
                break
        cases.append((won, a, b))
    return cases


_LEAD_RIVALS = known(
    lambda won, a, b: float(_odds(won)),
    "Copies share a logit and add up their attention: two copies need a logit that is log 2 lower.",
    lambda won, a, b: -_lead(won, a, b),
    "The sign: a's logit minus b's.",
    lambda won, a, b: abs(_lead(won, a, b)),
    "The lead is negative where b wins: no absolute value.",
    lambda won, a, b: _lead(won, b, a),
    "The copies' places: the attention on a is k_a e^lead / (k_a e^lead + k_b).",
    lambda won, a, b: float(_odds(won) - np.log(a.sum() / max(b.sum(), 1))),
    "Copies may not be pooled: each sequence has a softmax of its own. Sum the attention over sequences.",
    lambda won, a, b: float(_odds(won) - np.log(a / np.maximum(b, 0.5)).mean()),
    "The mean of log-ratios is not the minimiser: sum the attention on a over sequences, and compare.",
    _lead_by(wins=lambda won: 0.5 + 0 * won),
    "How often each is the answer counts: the attention on a sums to the number of its answers.",
    lambda won, a, b: float(np.exp(np.clip(_lead(won, a, b), -20, 20))),
    "That is the ratio of the attention on one copy of each. The difference of logits is its log.",
    lambda won, a, b: float(1 / (1 + np.exp(-_lead(won, a, b)))),
    "That is an attention, between 0 and 1. Return the difference of logits that gives it.",
    lambda won, a, b: _lead(won, a, b) / np.log(2),
    "A logit is in natural logs, as the softmax is.",
    lambda won, a, b: float((won - a / (a + b)).sum()),
    "That is the slope of the loss where the lead is 0. Go to where it is 0.",
    lambda won, a, b: 0.0 if won.sum() * 2 == len(won) else 60.0 * float(np.sign(won.mean() - 0.5)),
    "Neither may take all: a logit far ahead has a boundless loss in sequences that the other answers.",
)

LEAD = Exercise(
    id="16.5",
    title="A finite lead",
    points=3,
    minutes=20,
    difficulty=3,
    reference=_lead,
    cases=_lead_cases,
    misconceptions=[
        *_LEAD_RIVALS,
        *known(
            lambda won, a, b: _lead(~won, a, b),
            "The attention on *a* sums to the number of a's answers, where won is True.",
            lambda won, a, b: _each_copy_wins(won, a, b),
            "A win counts once, not once for each copy of a: compare with the number of a's answers.",
            lambda won, a, b: _by_lacks(won, a, b),
            "That is 16.3's law, for leads that grow. Here the lead stays finite: use the whole softmax.",
            lambda won, a, b: _by_lacks(won, a, b) / 2,
            "As in 16.3 you take what a sequence lacks for small. Here it is not: use the whole softmax.",
            lambda won, a, b: float((won - a / (a + b)).sum() / (a * b / (a + b) ** 2).sum()),
            "That is one Newton step from 0. Repeat until the sum is right.",
            lambda won, a, b: _root(lambda lead: ((a + b) * (won - a / (a + b * np.exp(-lead)))).sum()),
            "Each sequence counts once in L, however many tokens it holds.",
            lambda won, a, b: _root(lambda lead: (won - 1 / (1 + np.exp(-lead - a + b))).sum()),
            "Copies multiply e^lead, they do not add to the lead: k_a e^lead / (k_a e^lead + k_b).",
            lambda won, a, b: _root(lambda lead: (won - (a + 1) / (a + 1 + (b + 1) * np.exp(-lead))).sum()),
            "The copies are given: add none.",
            lambda won, a, b: float(
                _odds(won, (a > 0) & (b > 0))
                - np.log(a[(a > 0) & (b > 0)].sum() / b[(a > 0) & (b > 0)].sum())
            ),
            "Copies cannot be pooled, not even those of the sequences that hold both: sum the attention.",
            lambda won, a, b: _root(
                lambda lead: won.mean() - (a / (a + b * np.exp(-lead)))[(a > 0) & (b > 0)].mean()
            ),
            "Who lacks a token is left out of both, wins and attention, or of neither.",
            lambda won, a, b: float(np.clip(_lead(won, a, b), -10, 10)),
            "The lead can lie beyond your interval: widen it until the sum changes sign.",
            lambda won, a, b: float(np.clip(_lead(won, a, b), -5, 5)),
            "The interval is too narrow: copies can differ by any factor.",
            lambda won, a, b: float(np.clip(_lead(won, a, b), -3, 3)),
            "The interval ends at 3: the lead can lie beyond.",
            lambda won, a, b: -50.0 * float(np.sign(_lead(won, a, b))),
            "That is an end of your interval: your halving goes the wrong way. The sum grows with the lead.",
            lambda won, a, b: max(_lead(won, a, b), 0.0),
            "The lead can be negative: start the interval below 0.",
            lambda won, a, b: _lead(won, np.minimum(a, 1), np.minimum(b, 1)),
            "How many copies there are counts, not only whether there are any.",
            lambda won, a, b: float(np.clip(_lead(won, a, b), -1, 1)),
            "Your interval is too narrow: the lead can be above 10.",
        ),
    ],
    withheld=("course.replicate.lesson_16.finite_part",),
)

EXERCISES = [LEVELS, SLOPE, TIE, HARDER, LEAD]
