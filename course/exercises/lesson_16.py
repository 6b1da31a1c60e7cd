"""Exercises of lesson 16: next-token prediction."""

import numpy as np

from course.check.specification import Exercise, known
from course.exercises import orders


# --------------------------------------------------------------------------- 16.1 what data ask for
def _relation_cases(rng):
    cases = [
        (np.array([[2, 1, 0], [1, 3, 0]]), np.array([3, 0]), np.array([1, 0, 3, 2])),
        (np.array([[0, 3, 1, 2], [0, 3, 1, 2]]), np.array([1, 2]), np.array([1, 2, 0, 3])),  # 0 > 1 and 1 > 0
        (np.array([[0, 1], [0, 1]]), np.array([1, 2]), np.array([1, 2, 1])),  # the query wins; 2 is nowhere
    ]
    for n, T, V, targets in ((12, 4, 5, None), (16, 5, 6, 3), (20, 4, 6, None)):
        tokens, target, following = orders.sequences(rng, n, T, V, targets)
        one_only = orders.relations_by(
            place=lambda above, q, a, b: above.__setitem__((q, a[:1, None], b), True)
        )
        while (
            (orders.closed(tokens, target, following) == orders.relations(tokens, target, following)).all()
            or (following[tokens[:, -1]] == target).sum() in (0, n)
            or (
                targets
                and (one_only(tokens, target, following) == orders.relations(tokens, target, following)).all()
            )
        ):
            tokens, target, following = orders.sequences(rng, n, T, V, targets)
        cases.append((tokens, target, following))
    return cases


RELATIONS = Exercise(
    id="16.1",
    title="What data ask for",
    points=1,
    minutes=6,
    difficulty=1,
    reference=orders.relations,
    cases=_relation_cases,
    misconceptions=known(
        lambda tokens, target, following: orders.relations(tokens, target, following).swapaxes(1, 2),
        "The other way round: [q, a, b] with a, the optimal token, before b.",
        orders.relations_by(query=lambda sequence: sequence[0]),
        "The query is the last token of a sequence, not the first.",
        orders.relations_by(optimal=lambda sequence, y, following: sequence == y),
        "A token is optimal if it is *followed* by the answer: following[token] == target.",
        orders.relations_by(optimal=lambda sequence, y, following: following[y] == sequence),
        "The collocation the wrong way: the optimal token comes before the answer, not after it.",
        orders.relations_by(seen=lambda sequence: sequence[:-1]),
        "The query is a token of its sequence like the others, and can be above or below.",
        orders.closed,
        "Only what the sequences say themselves: leave out what follows from a > b > c.",
        lambda tokens, target, following: (
            orders.relations(tokens, target, following).any(axis=0)
            + np.zeros((len(following), 1, 1), dtype=bool)
        ),
        "Each query has an order of its own: do not mix them.",
        lambda tokens, target, following: orders.relations(tokens, target, following).transpose(1, 2, 0),
        "The query is the first index: [q, a, b].",
        lambda tokens, target, following: (
            orders.relations(tokens, target, following)
            & ~orders.relations(tokens, target, following).swapaxes(1, 2)
        ),
        "Data may contradict themselves: if one sequence says a > b and another b > a, both relations stand.",
        orders.above_all_others,
        "Of two optimal tokens neither is above the other: b has to be one that is not optimal.",
        orders.relations_by(
            place=lambda above, q, a, b: above.__setitem__(
                (q, a[: min(len(a), len(b))], b[: min(len(a), len(b))]), True
            )
        ),
        "Each optimal token is above each one that is not: all pairs, not the first with the first only. "
        "Two arrays as indices are paired; write a[:, None] for one of them.",
        orders.relations_by(place=lambda above, q, a, b: above.__setitem__((q, a[:1, None], b), True)),
        "Several different tokens of a sequence may be optimal: each is above all that are not.",
        orders.relations_by(place=lambda above, q, a, b: above.__setitem__((q, a[:, None], b[:1]), True)),
        "An optimal token is above each one that is not, not above the first of them only.",
        lambda tokens, target, following: (
            orders.relations(tokens, target, following)
            | orders.relations(tokens, target, following).swapaxes(1, 2)
        ),
        "a > b does not say b > a: one direction for each pair.",
        lambda tokens, target, following: (
            orders.relations(tokens, target, following)
            | orders.relations(tokens, target, following).any(2)[:, :, None]
            & np.eye(len(following), dtype=bool)
        ),
        "No token is above itself.",
        lambda tokens, target, following: (
            orders.relations(tokens, target, following) | np.eye(len(following), dtype=bool)
        ),
        "No token is above itself: the diagonals stay False.",
    ),
    withheld=("mini_attn.vocabulary.priorities",),
)


# --------------------------------------------------------------------------- 16.2 the values by hand
def _values_by(high, low, rows=True):
    """Entry next(a) of column a is high(V), the others low(V)."""

    def answer(following):
        V = len(following)
        W = np.full((V, V), low(V), dtype=float)
        W[(following, np.arange(V)) if rows else (np.arange(V), following)] = high(V)
        return W

    return answer


_values = _values_by(lambda V: 1 - 1 / V, lambda V: -1 / V)


def _centred_rows(following):
    W = np.zeros((len(following), len(following)))
    W[following, np.arange(len(following))] = 1
    return W - W.mean(axis=1, keepdims=True)


VALUES = Exercise(
    id="16.2",
    title="By hand",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_values,
    cases=lambda rng: [
        (np.array([1, 2, 3, 0]),),
        (rng.permutation(np.r_[0, 0, 1, 3, 4]),),
        (np.roll(np.arange(6), 1 + int(rng.integers(0, 3))),),
        (rng.permutation(np.r_[0, 0, 1, 1, 2, 5, 6]),),
    ],
    misconceptions=known(
        _values_by(lambda V: 1.0, lambda V: 0.0),
        "It satisfies the constraints, but a shorter one does, too: take the same number off each entry of a "
        "column.",
        _values_by(lambda V: 0.5, lambda V: -0.5),
        "That is right for two next tokens. With V entries in a column, the V - 1 low ones cost more.",
        _values_by(lambda V: 1 - 1 / V, lambda V: -1 / V, rows=False),
        "Transposed: column a is the token that is read, row u the one that may follow.",
        _values_by(lambda V: 1.0, lambda V: -1 / (V - 1)),
        "The lead of next(a) has to be exactly 1; here it is V / (V - 1).",
        _values_by(lambda V: (1 - 1 / V) / (1 - 1 / V) ** 0.5, lambda V: -1 / V / (1 - 1 / V) ** 0.5),
        "Not the unit direction: the shortest W with all leads at least 1.",
        _centred_rows,
        "Each *column* has its own problem: its mean is taken off, not that of the row.",
        _values_by(lambda V: 1 - 1 / V, lambda V: 0.0),
        "The lead of next(a) over each other entry has to be 1.",
        lambda following: -_values(following),
        "The sign: entry next(a) of column a is the large one.",
        _values_by(lambda V: 1 - 1 / (V - 1), lambda V: -1 / (V - 1)),
        "The mean of *all* V entries of a column is taken off: 1 / V, the large entry is one of them.",
        lambda following: _values(following) + 1 / len(following) - 1 / len(np.unique(following)),
        "All V tokens stand in a column, also those that follow nothing: the low entries are -1 / V.",
        _values_by(lambda V: 1 / V, lambda V: 1 / V - 1),
        "The lead is right, but the low entries are many: they should be near 0, and the high one near 1.",
        _values_by(lambda V: 0.0, lambda V: -1.0),
        "The lead is right. Shift the entries of a column to where their squares add up to least.",
        _values_by(lambda V: 1.0, lambda V: -1.0),
        "The lead has to be 1, here it is 2, and the low entries are many.",
        _values_by(lambda V: 1.0, lambda V: -1 / V),
        "The lead has to be 1: 1 / V comes off the large entry of a column, too.",
        lambda following: _values(np.arange(len(following))),
        "The large entry of column a is that of next(a), not of a itself.",
    ),
    withheld=(
        "mini_attn.svm.order.next_problem",
        "mini_attn.svm.dispatch.solve",
        "mini_attn.svm.rational.shortest",
    ),
)


# --------------------------------------------------------------------------- 16.3 the slope of a chain
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
    id="16.3",
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
    ),
)


# --------------------------------------------------------------------------- 16.4 is it decided?
def _decided_cases(rng):
    """Orders with long chains; decided sequences, undecided ones, and such with copies."""
    order = rng.permutation(10)
    chain = np.zeros((10, 10), dtype=bool)
    chain[order[:-2], order[1:-1]] = True  # nine tokens; the tenth is compared with none
    tokens = order[[[0, 8], [8, 0], [0, 5], [1, 9], [9, 9], [7, 1], [6, 0]]]
    fan = np.zeros((6, 6), dtype=bool)
    fan[[0, 0, 1], [1, 2, 3]] = True  # 2 and 3 are not comparable
    cases = [
        (chain, tokens),
        (chain, order[[[3], [9]]]),  # sequences of one token
        (np.eye(18, k=1, dtype=bool), np.array([[0, 17], [16, 2]])),
        (fan, np.array([[2, 3, 0], [2, 3, 2], [1, 3, 3], [4, 3, 0], [3, 0, 2], [1, 3, 2]])),
    ]
    for V, edges, n in ((4, 3, 4), (7, 9, 14), (8, 11, 16), (9, 13, 20)):
        for _ in range(100):
            above = np.zeros((V, V), dtype=bool)
            order = rng.permutation(V)
            pairs = [(i, j) for i in range(V) for j in range(i + 1, V)]
            near = [(i, i + 1) for i in range(min(4, V - 1))]  # a chain, so that there is something to follow
            chosen = near + [pairs[k] for k in rng.permutation(len(pairs))[: edges - len(near)]]
            for i, j in chosen:
                above[order[i], order[j]] = True
            tokens = rng.integers(0, V, size=(n, 4))
            tokens[0] = order[[3, 0, 0, 3]]  # a winner with a copy, by a chain
            tokens[1] = order[[2, 1, 0, 1]]
            lonely = [c for c in range(V) if not above[c].any() and not above[:, c].any()]
            tokens[2] = lonely[0] if lonely else order[-1]  # one token alone
            right = orders.decided(above, tokens)
            rivals = [rival.wrong(above, tokens) for rival in _DECIDED_RIVALS if rival is not _TWO_ROUNDS]
            if V == 4 or (-1 in right and all((right != one).any() for one in rivals)):
                break
        cases.append((above, tokens))
    return cases


_DECIDED_RIVALS = known(
    orders.decided_by(reach=lambda above: above),
    "Use what follows, too: a > b and b > c put a above c, though no sequence held a and c.",
    orders.decided_by(reach=lambda above: above | ((above.astype(float) @ above) > 0)),
    "Chains can be longer than two relations: go on until nothing new follows.",
    orders.decided_by(reach=lambda above: orders.squared(above, 2)),
    "Chains may be longer: go on until a round adds nothing.",
    orders.decided_by(
        wins=lambda row, sequence, a: (
            all(row[b] or b == a for b in sequence) and len(set(sequence.tolist())) > 1
        )
    ),
    "A sequence of one token, or of its copies, is decided by it: there is no other token to be above.",
    orders.decided_by(wins=lambda row, sequence, a: row.sum() == len(row) - 1),
    "A winner has to be above the other tokens *of its sequence*, not above the whole vocabulary.",
    orders.decided_by(wins=lambda row, sequence, a: sum(bool(row[b]) for b in sequence) == len(sequence) - 1),
    "Compare with the *different* tokens, not with the other places: a copy of the winner does not harm it.",
    orders.decided_by(wins=lambda row, sequence, a: all(row[b] for b in sequence)),
    "A token is not above itself or a copy of itself, and need not be: compare it with the *other* tokens.",
    lambda above, tokens: np.array(
        [next((int(a) for a in s if not orders.reach(above)[s, a].any()), -1) for s in tokens]
    ),
    "Not to be below any other token is not enough: two that nobody compared are both maximal. A winner has "
    "to be above each other token.",
    orders.decided_by(wins=lambda row, sequence, a: any(row[b] for b in sequence)),
    "To be above *one* of the others is not enough: above each of them.",
    orders.decided_by(reach=lambda above: orders.reach(above).T),
    "You found the token that is below all others. above[a, b] means a > b.",
    lambda above, tokens: np.array(
        [
            -1 if a < 0 else list(s).index(a)
            for a, s in zip(orders.decided(above, tokens), tokens, strict=True)
        ]
    ),
    "Return the token's number in the vocabulary, not its place in the sequence.",
    lambda above, tokens: np.array([int(s[orders.reach(above)[s].sum(1).argmax()]) for s in tokens]),
    "The token that is above most others of the vocabulary need not be comparable with those beside it: "
    "-1 where the order does not decide.",
)

_TWO_ROUNDS = _DECIDED_RIVALS[2]  # only the chain of nine shows it

DECIDED = Exercise(
    id="16.4",
    title="Is it decided?",
    points=2,
    minutes=9,
    difficulty=2,
    reference=orders.decided,
    cases=_decided_cases,
    misconceptions=[
        *_DECIDED_RIVALS,
        *known(
            lambda above, tokens: np.array(
                [next((int(a) for a in s[::-1] if not orders.reach(above)[s, a].any()), -1) for s in tokens]
            ),
            "Not to be below any is not enough: of two that nobody compared neither is above the other.",
            orders.decided_by(reach=lambda above: above.astype(float) @ above > 0),
            "That finds chains of exactly two relations: keep the relations themselves, and longer chains.",
            lambda above, tokens: orders.decided(above, tokens[:, :-1] if tokens.shape[1] > 1 else tokens),
            "The last token is one of the sequence's tokens: it can win, and has to be beaten.",
            lambda above, tokens: np.array(
                [
                    orders.decided(above & np.outer(*2 * (np.isin(np.arange(len(above)), s),)), s[None])[0]
                    for s in tokens
                ]
            ),
            "A chain may lead over tokens that the sequence does not hold.",
            lambda above, tokens: np.array([s[orders.reach(above)[s][:, s].sum(1).argmax()] for s in tokens]),
            "To be above most tokens of its sequence is not enough: -1 unless it is above all others.",
            lambda above, tokens: np.maximum(orders.decided(above, tokens), 0),
            "Where there is none return -1: 0 is a token.",
            lambda above, tokens: np.where(
                orders.decided(above, tokens) == 0, -1, orders.decided(above, tokens)
            ),
            "0 is a token like the others: ask whether there is a winner, not whether its number is truthy.",
            lambda above, tokens: orders.decided(above, tokens) >= 0,
            "Return the token that decides, not whether there is one.",
            lambda above, tokens: np.where(orders.decided(above, tokens) == tokens[:, 0], tokens[:, 0], -1),
            "Any token of the sequence may win, not the first only.",
        ),
    ],
    withheld=("mini_attn.vocabulary.closure",),
)


# --------------------------------------------------------------------------- 16.5 the finite lead
def _root(force):
    low, high = -60.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if force(middle) > 0 else (low, middle)
    return (low + high) / 2


def _lead_by(share=lambda h, a, b: a / (a + b * np.exp(-h)), wins=lambda won: won):
    """The h where the attention on a, summed over sequences, is as much as a's answers."""

    def answer(won, copies_a, copies_b):
        won, a, b = (np.asarray(x, dtype=float) for x in (won, copies_a, copies_b))
        return _root(lambda h: (wins(won) - share(h, a, b)).sum())

    return answer


_lead = _lead_by()


def _odds(won, both=slice(None)):
    return np.log(won[both].sum() / (~won[both]).sum())


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
    "The copies' places: the attention on a is k_a e^h / (k_a e^h + k_b).",
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
    "That is the slope of the loss at h = 0. Go to where it is 0.",
    lambda won, a, b: 0.0 if won.sum() * 2 == len(won) else 60.0 * float(np.sign(won.mean() - 0.5)),
    "Neither may take all: a logit far ahead has a boundless loss in sequences that the other answers.",
)

LEAD = Exercise(
    id="16.5",
    title="A finite lead",
    points=3,
    minutes=11,
    difficulty=3,
    reference=_lead,
    cases=_lead_cases,
    misconceptions=[
        *_LEAD_RIVALS,
        *known(
            lambda won, a, b: _lead(~won, a, b),
            "The attention on *a* sums to the number of a's answers, where won is True.",
            lambda won, a, b: float((won - a / (a + b)).sum() / (a * b / (a + b) ** 2).sum()),
            "That is one Newton step from 0. Repeat until the sum is right.",
            lambda won, a, b: _root(lambda h: ((a + b) * (won - a / (a + b * np.exp(-h)))).sum()),
            "Each sequence counts once in L, however many tokens it holds.",
            lambda won, a, b: _root(lambda h: (won - 1 / (1 + np.exp(-h - a + b))).sum()),
            "Copies multiply e^h, they do not add to h: k_a e^h / (k_a e^h + k_b).",
            lambda won, a, b: _root(lambda h: (won - (a + 1) / (a + 1 + (b + 1) * np.exp(-h))).sum()),
            "The copies are given: add none.",
            lambda won, a, b: float(
                _odds(won, (a > 0) & (b > 0))
                - np.log(a[(a > 0) & (b > 0)].sum() / b[(a > 0) & (b > 0)].sum())
            ),
            "Copies cannot be pooled, not even those of the sequences that hold both: sum the attention.",
            lambda won, a, b: _root(
                lambda h: won.mean() - (a / (a + b * np.exp(-h)))[(a > 0) & (b > 0)].mean()
            ),
            "Who lacks a token is left out of both, wins and attention, or of neither.",
            lambda won, a, b: float(np.clip(_lead(won, a, b), -10, 10)),
            "The lead can lie beyond your interval: widen it until the sum changes sign.",
            lambda won, a, b: float(np.clip(_lead(won, a, b), -5, 5)),
            "The interval is too narrow: copies can differ by any factor.",
            lambda won, a, b: max(_lead(won, a, b), 0.0),
            "The lead can be negative: start the interval below 0.",
            lambda won, a, b: _lead(won, np.minimum(a, 1), np.minimum(b, 1)),
            "How many copies there are counts, not only whether there are any.",
        ),
    ],
    withheld=("course.replicate.lesson_16.finite_part",),
)

EXERCISES = [RELATIONS, VALUES, SLOPE, DECIDED, LEAD]
