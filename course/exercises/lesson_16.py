"""Exercises of lesson 16: next-token prediction."""

import numpy as np

from course.check.specification import Exercise, known


# --------------------------------------------------------------------------- 16.1 what data ask for
def _relations_by(
    query=lambda sequence: sequence[-1],
    optimal=lambda sequence, answer, following: following[sequence] == answer,
    place=lambda above, q, a, b: above.__setitem__((q, a[:, None], b), True),
    seen=lambda sequence: sequence,
):
    """An answer from where the query stands, who is optimal, how a pair is noted, which tokens count."""

    def answer(tokens, target, following):
        V = len(following)
        above = np.zeros((V, V, V), dtype=bool)
        for sequence, y in zip(tokens, target, strict=True):
            counted = seen(sequence)
            best = optimal(counted, y, following)
            place(above, query(sequence), counted[best], counted[~best])
        return above

    return answer


_relations = _relations_by()


def _closed(tokens, target, following):
    above = _relations(tokens, target, following)
    for _ in following:
        above = above | ((above.astype(float) @ above) > 0)
    return above


def _sequences(rng, n, T, V, targets=None, queries=2):
    """Realisable data, in which chains a > b > c occur."""
    following = rng.permutation(V) % (targets or V)
    rank = rng.permutation(V)
    tokens = rng.integers(0, V, size=(n, T))
    tokens[:, -1] = rng.integers(0, queries, size=n)
    nexts = following[tokens]
    return tokens, np.take_along_axis(nexts, rank[nexts].argmax(1)[:, None], 1)[:, 0], following


def _relation_cases(rng):
    cases = [(np.array([[2, 1, 0], [1, 3, 0]]), np.array([3, 0]), np.array([1, 0, 3, 2]))]
    for n, T, V, targets in ((12, 4, 5, None), (16, 5, 6, 3), (20, 4, 6, None)):
        tokens, target, following = _sequences(rng, n, T, V, targets)
        one_only = _relations_by(place=lambda above, q, a, b: above.__setitem__((q, a[:1, None], b), True))
        while (
            (_closed(tokens, target, following) == _relations(tokens, target, following)).all()
            or (following[tokens[:, -1]] == target).sum() in (0, n)
            or (
                targets
                and (one_only(tokens, target, following) == _relations(tokens, target, following)).all()
            )
        ):
            tokens, target, following = _sequences(rng, n, T, V, targets)
        cases.append((tokens, target, following))
    return cases


RELATIONS = Exercise(
    id="16.1",
    title="What data ask for",
    points=1,
    minutes=6,
    difficulty=1,
    reference=_relations,
    cases=_relation_cases,
    misconceptions=known(
        lambda tokens, target, following: _relations(tokens, target, following).swapaxes(1, 2),
        "The other way round: [q, a, b] with a, the optimal token, before b.",
        _relations_by(query=lambda sequence: sequence[0]),
        "The query is the last token of a sequence, not the first.",
        _relations_by(optimal=lambda sequence, y, following: sequence == y),
        "A token is optimal if it is *followed* by the answer: following[token] == target.",
        _relations_by(optimal=lambda sequence, y, following: following[y] == sequence),
        "The collocation the wrong way: the optimal token comes before the answer, not after it.",
        _relations_by(seen=lambda sequence: sequence[:-1]),
        "The query is a token of its sequence like the others, and can be above or below.",
        _closed,
        "Only what the sequences say themselves: leave out what follows from a > b > c.",
        lambda tokens, target, following: (
            _relations(tokens, target, following).any(axis=0) + np.zeros((len(following), 1, 1), dtype=bool)
        ),
        "Each query has an order of its own: do not mix them.",
        lambda tokens, target, following: _relations(tokens, target, following).transpose(1, 2, 0),
        "The query is the first index: [q, a, b].",
        _relations_by(place=lambda above, q, a, b: above.__setitem__((q, a[:1, None], b), True)),
        "Several different tokens of a sequence may be optimal: each is above all that are not.",
    ),
    withheld=("mini_attn.vocabulary.priorities",),
)


# --------------------------------------------------------------------------- 16.2 the values by hand
def _values_by(high, low, rows=True):
    """Entry next(c) of column c is high(V), the others low(V)."""

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
        (np.array([1, 2, 0]),),
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
        "Transposed: column c is the token that is read, row u the one that may follow.",
        _values_by(lambda V: 1.0, lambda V: -1 / (V - 1)),
        "The lead of next(c) has to be exactly 1; here it is V / (V - 1).",
        _values_by(lambda V: (1 - 1 / V) / (1 - 1 / V) ** 0.5, lambda V: -1 / V / (1 - 1 / V) ** 0.5),
        "Not the unit direction: the shortest W with all leads at least 1.",
        _centred_rows,
        "Each *column* has its own problem: its mean is taken off, not that of the row.",
        _values_by(lambda V: 1 - 1 / V, lambda V: 0.0),
        "The lead of next(c) over each other entry has to be 1.",
        lambda following: -_values(following),
        "The sign: entry next(c) of column c is the large one.",
        _values_by(lambda V: 1 / V, lambda V: 1 / V - 1),
        "The lead is right, but the low entries are many: they should be near 0, and the high one near 1.",
    ),
    withheld=("mini_attn.svm.order.next_problem", "mini_attn.svm.dispatch.solve"),
)


# --------------------------------------------------------------------------- 16.3 the slope of a chain
def _squares(lengths):
    m = np.asarray(lengths, dtype=float)
    return m * (m**2 - 1) / 12


def _slope(lengths, eta):
    return float(-eta / np.sqrt(_squares(lengths).sum()))


def _slope_cases(rng):
    return [
        ([2], 0.1),
        ([3], 0.1),
        ([2, 4], float(rng.uniform(0.05, 0.3))),
        ([int(m) for m in rng.integers(3, 7, size=3)], float(rng.uniform(0.05, 0.3))),
        ([1, int(rng.integers(4, 8)), 1, int(rng.integers(2, 5))], float(rng.uniform(0.3, 0.9))),
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
    ),
)


# --------------------------------------------------------------------------- 16.4 is it decided?
def _reach(above):
    for _ in above:
        above = above | ((above.astype(float) @ above) > 0)
    return above


def _decided_by(reach=_reach, wins=lambda row, sequence, a: all(row[b] or b == a for b in sequence)):
    """An answer from the relations that are used, and when a token beats its sequence."""

    def answer(above, tokens):
        order = reach(np.asarray(above))
        found = []
        for sequence in tokens:
            winners = [a for a in sequence if wins(order[a], sequence, a)]
            found.append(int(winners[0]) if winners else -1)
        return np.array(found)

    return answer


_decided = _decided_by()


def _decided_cases(rng):
    """Orders with long chains; decided sequences, undecided ones, and such with copies."""
    cases = []
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
            right = _decided(above, tokens)
            rivals = [rival.wrong(above, tokens) for rival in _DECIDED_RIVALS]
            if V == 4 or (-1 in right and all((right != one).any() for one in rivals)):
                break
        cases.append((above, tokens))
    return cases


_DECIDED_RIVALS = known(
    _decided_by(reach=lambda above: above),
    "Use what follows, too: a > b and b > c put a above c, though no sequence held a and c.",
    _decided_by(reach=lambda above: above | ((above.astype(float) @ above) > 0)),
    "Chains can be longer than two relations: go on until nothing new follows.",
    _decided_by(wins=lambda row, sequence, a: all(row[b] for b in sequence)),
    "A token is not above itself or a copy of itself, and need not be: compare it with the *other* tokens.",
    lambda above, tokens: np.array(
        [next((int(a) for a in s if not _reach(above)[s, a].any()), -1) for s in tokens]
    ),
    "Not to be below any other token is not enough: two that nobody compared are both maximal. A winner has "
    "to be above each other token.",
    _decided_by(wins=lambda row, sequence, a: any(row[b] for b in sequence)),
    "To be above *one* of the others is not enough: above each of them.",
    _decided_by(reach=lambda above: _reach(above).T),
    "You found the token that is below all others. above[a, b] means a > b.",
    lambda above, tokens: np.array(
        [-1 if a < 0 else list(s).index(a) for a, s in zip(_decided(above, tokens), tokens, strict=True)]
    ),
    "Return the token's number in the vocabulary, not its place in the sequence.",
    lambda above, tokens: np.array([int(s[_reach(above)[s].sum(1).argmax()]) for s in tokens]),
    "The token that is above most others of the vocabulary need not be comparable with those beside it: "
    "-1 where the order does not decide.",
)

DECIDED = Exercise(
    id="16.4",
    title="Is it decided?",
    points=3,
    minutes=14,
    difficulty=3,
    reference=_decided,
    cases=_decided_cases,
    misconceptions=_DECIDED_RIVALS,
    withheld=("mini_attn.vocabulary.closure",),
)


# --------------------------------------------------------------------------- 16.5 the finite lead
def _lead(wins_a, wins_b, copies_a, copies_b):
    return float(np.log(wins_a / wins_b) - np.log(copies_a / copies_b))


LEAD = Exercise(
    id="16.5",
    title="A finite lead",
    points=2,
    minutes=7,
    difficulty=2,
    reference=_lead,
    cases=lambda rng: [
        (3, 1, 1, 1),
        (4, 4, 2, 1),
        tuple(int(k) for k in (*rng.permutation(np.arange(2, 8))[:2], 1, 3)),
        tuple(
            int(k) for k in (*rng.permutation(np.arange(3, 12))[:2], *rng.permutation(np.arange(1, 5))[:2])
        ),
    ],
    misconceptions=known(
        lambda wa, wb, ca, cb: float(np.log(wa / wb)),
        "Copies share a logit and add up their attention: two copies need a logit that is log 2 lower.",
        lambda wa, wb, ca, cb: float(np.log(wa / wb) + np.log(ca / cb)),
        "The copies' sign: more copies of a need a *lower* logit of a.",
        lambda wa, wb, ca, cb: -_lead(wa, wb, ca, cb),
        "The sign: a's logit minus b's.",
        lambda wa, wb, ca, cb: float(np.log(wa / (wa + wb)) - np.log(ca / (ca + cb))),
        "A ratio of attentions belongs to a difference of logits: a against b, not a against all.",
        lambda wa, wb, ca, cb: wa / wb * cb / ca,
        "That is the ratio of the attention on one copy of each. The difference of logits is its log.",
        lambda wa, wb, ca, cb: float(wa / (wa + wb) - ca / (ca + cb)),
        "Attention is exponential in the logits: take the log of the ratio.",
        lambda wa, wb, ca, cb: float(np.log(ca / cb)),
        "How often each is the answer counts: at the minimum the attention on a is the share of its answers.",
        lambda wa, wb, ca, cb: 0.0 if wa == wb else float("inf") * np.sign(wa - wb),
        "Neither may take all: a logit far ahead has a boundless loss in sequences that the other answers.",
        lambda wa, wb, ca, cb: float(np.log((wa * ca) / (wb * cb))) / 2,
        "The attention on a is c_a e^h / (c_a e^h + c_b). Set it to the share of a's answers, solve for h.",
    ),
)

EXERCISES = [RELATIONS, VALUES, SLOPE, DECIDED, LEAD]
