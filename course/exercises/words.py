"""Exercise 10.5: may the words that are to be selected be put in order, under each query?"""

import numpy as np


def _arrows(row, alpha):
    return {(row[alpha], word) for t, word in enumerate(row) if t != alpha}


def no_loop(arrows):
    """Whether arrows (word, word it has to beat) have no closed loop."""
    while arrows:
        winners = {word for word, _ in arrows}
        left = {(word, loser) for word, loser in arrows if loser in winners}
        if left == arrows:
            return False
        arrows = left
    return True


def _consistent_by(
    query=lambda row, alpha: row[0],  # what groups the sequences
    arrows=_arrows,  # of one sequence
    groups=lambda of: of.values(),  # those that are looked at
    test=no_loop,  # of one group
):
    """An answer from its parts."""

    def answer(words, selected):
        of = {}
        for row, alpha in zip(np.asarray(words).tolist(), np.asarray(selected).tolist(), strict=True):
            of.setdefault(query(row, alpha), set()).update(arrows(row, alpha))
        return all(test(group) for group in groups(of))

    return answer


def consistent(words, selected):
    """Whether some W selects these tokens, for independent embeddings and the first word as query."""
    return _consistent_by()(words, selected)


def no_pair(arrows):
    """No two words beat each other, and none beats itself."""
    return not any((loser, word) in arrows for word, loser in arrows)


def _undirected(arrows):
    """No ring, whatever way its arrows point."""
    parent = {}

    def root(word):
        while parent.setdefault(word, word) != word:
            word = parent[word]
        return word

    for pair in {frozenset(arrow) for arrow in arrows}:
        first, last = (*pair, *pair)[:2]
        if root(first) == root(last):
            return False
        parent[root(first)] = root(last)
    return True


def no_loop_up_to(longest):
    """Finds loops of so many words or fewer."""

    def test(arrows):
        reach = arrows
        for _ in range(longest):
            if any(a == b for a, b in reach):
                return False
            reach = {(a, d) for a, b in reach for c, d in arrows if b == c}
        return True

    return test


def _overwriting(words, selected):
    """Keeps only the last sequence with the same query and winner."""
    of = {}
    for row, alpha in zip(words.tolist(), selected.tolist(), strict=True):
        of.setdefault(row[0], {})[row[alpha]] = _arrows(row, alpha)
    return all(no_loop(set().union(*group.values())) for group in of.values())


def _last_rows(words, selected):
    """Only the last sequence of each query."""
    last = list({row[0]: i for i, row in enumerate(words.tolist())}.values())
    return words[last], selected[last]


def _neighbouring_rows(words, selected):
    """Groups sequences with the same query only where they follow each other."""
    groups, before = [], None
    for row, alpha in zip(words.tolist(), selected.tolist(), strict=True):
        groups += [set()] if row[0] != before else []
        groups[-1] |= _arrows(row, alpha)
        before = row[0]
    return all(map(no_loop, groups))


def _next_to(row, alpha):
    return {(row[alpha], row[t]) for t in (alpha - 1, alpha + 1) if 0 <= t < len(row)}


def _first(of):
    return [next(iter(of.values()))]


def _last(of):
    return [list(of.values())[-1]]


def same_words(words, selected):
    """Compares only sequences with the same words."""
    chosen = {}
    for row, alpha in zip(words.tolist(), selected.tolist(), strict=True):
        if row[alpha] in row[:alpha] + row[alpha + 1 :]:
            return False
        if chosen.setdefault((row[0], tuple(sorted(row))), row[alpha]) != row[alpha]:
            return False
    return True


def _positions(words, selected):
    """Arrows between positions instead of words."""
    of = {}
    for row, alpha in zip(words.tolist(), selected.tolist(), strict=True):
        of.setdefault(row[0], set()).update(_arrows(range(len(row)), alpha))
    return all(map(no_loop, of.values()))


def _one_winner(words, selected):
    """All sequences with the same query select the same word."""
    of = {}
    pairs = zip(words.tolist(), selected.tolist(), strict=True)
    return all(of.setdefault(row[0], row[alpha]) == row[alpha] for row, alpha in pairs)


def _one_pass(words, selected):
    """Strips words once, in the order of their numbers, instead of until nothing changes."""

    def test(arrows):
        for word in sorted({a for a, _ in arrows}):
            if not {b for a, b in arrows if a == word} & {a for a, _ in arrows}:
                arrows = {(a, b) for a, b in arrows if a != word}
        return not arrows

    return _consistent_by(test=test)(words, selected)


def _no_second_way(arrows):
    """Follows the arrows from each word, and takes a word that it meets again for a loop."""
    for start in {word for word, _ in arrows}:
        met, waiting = {start}, [start]
        while waiting:
            word = waiting.pop()
            for loser in {b for a, b in arrows if a == word}:
                if loser in met:
                    return False
                met.add(loser)
                waiting.append(loser)
    return True


def _strips(words, selected):
    """Strips as many times as a sequence has words."""

    def test(arrows):
        for _ in range(words.shape[1]):
            winners = {a for a, _ in arrows}
            arrows = {(a, b) for a, b in arrows if b in winners}
        return not arrows

    return _consistent_by(test=test)(words, selected)


MISTAKES = (
    lambda *args: not consistent(*args),
    "The other way round: return True where a solution exists.",
    lambda words, selected: True,
    "Independent embeddings do not make every choice feasible: two sequences with the same query can ask "
    "for opposite things.",
    lambda words, selected: False,
    "Some of these are feasible: without a loop of arrows the words can be put in order.",
    _consistent_by(query=lambda row, alpha: 0),
    "Words under different queries do not meet: W z and W z' may be anything. Keep a list for each.",
    _consistent_by(test=no_pair),
    "You look for two words that beat each other. Three or more can beat each other in a loop.",
    *(
        part
        for longest in (3, 4, 5)
        for part in (
            _consistent_by(test=no_loop_up_to(longest)),
            f"You look for loops of up to {longest} words. There are longer ones.",
        )
    ),
    _consistent_by(test=lambda arrows: no_loop({(a, b) for a, b in arrows if a != b})),
    "If the selected word stands in its sequence a second time, its token has to beat an equal one: "
    "infeasible.",
    _consistent_by(test=lambda arrows: not {a for a, _ in arrows} & {b for _, b in arrows}),
    "A word may win in one sequence and lose in another one: only a loop is a contradiction.",
    _consistent_by(test=_no_second_way),
    "A word that is met on two ways is no loop yet: only one that is met on the way from itself.",
    lambda words, selected: consistent(words, selected) and all(len({*row}) == len(row) for row in words),
    "A word may stand in a sequence twice, as long as it is not the selected one.",
    lambda words, selected: any(
        consistent(words[words[:, 0] == query], selected[words[:, 0] == query]) for query in words[:, 0]
    ),
    "One query without a loop is not enough: every query has to be free of loops.",
    _positions,
    "Arrows go from word to word. You drew them between positions, which hold other words in each sequence.",
    _one_winner,
    "Sequences with the same query may select different words.",
    _consistent_by(test=lambda arrows: len({a for a, _ in arrows}) < 2 and no_loop(arrows)),
    "Sequences with the same query may select different words, as long as the arrows make no loop.",
    same_words,
    "A contradiction can also come from sequences with different words: follow the arrows through all "
    "sequences with the same query.",
    _overwriting,
    "Two sequences may share query and winner: join what they have to beat, do not overwrite it.",
    lambda words, selected: consistent(*_last_rows(words, selected)),
    "Join what all sequences with the same query ask for: you kept the last one only.",
    _neighbouring_rows,
    "Sequences with the same query need not follow each other: collect them from all rows.",
    _consistent_by(groups=_first),
    "You looked at the first query only. Every query has to be free of loops.",
    _consistent_by(groups=_last),
    "You looked at the last query only. Every query has to be free of loops.",
    _consistent_by(arrows=_next_to),
    "The selected word has to beat all others of its sequence, not only its neighbours.",
    _consistent_by(arrows=lambda row, alpha: {(row[alpha], word) for word in row[alpha + 1 :]}),
    "The selected word has to beat the words before it too.",
    _consistent_by(arrows=lambda row, alpha: {(row[alpha], row[0])} if alpha else set()),
    "The selected word has to beat all others of its sequence, not only the query's word.",
    _consistent_by(
        arrows=lambda row, alpha: {(row[alpha], w) for t, w in enumerate(row) if t not in (0, alpha)}
    ),
    "The query's word stands in the sequence and competes with the others: it has to be beaten too.",
    _consistent_by(query=lambda row, alpha: row[-1]),
    "The query is the first word of the sequence.",
    _consistent_by(query=lambda row, alpha: row[alpha]),
    "You find only a word that has to beat itself. Sequences with the same query, the first word, meet as "
    "well (those with the same selected word need not): together their arrows can form a loop.",
    lambda words, selected: consistent(words, selected - 1) and bool(np.all(selected)),
    "Do not subtract 1: `selected` counts positions from 0.",
    lambda words, selected: consistent(words, (selected - 1) % words.shape[1]),
    "`selected` counts positions from 0.",
    _one_pass,
    "Strip words until nothing changes: one pass in some order is not enough.",
    _strips,
    "Strip again and again until nothing changes: a chain can be longer than a sequence.",
    _consistent_by(test=_undirected),
    "A ring whose arrows do not all point the same way round is no loop, and no contradiction.",
)


def _shuffled(rng, problem):
    """Words renamed, positions and sequences in random order: rows (query, the others, which is selected)."""
    names = rng.permutation(12)
    words, selected = [], []
    for *row, alpha in problem:
        order = np.r_[0, 1 + rng.permutation(len(row) - 1)]
        words.append(names[np.array(row)[order]])
        selected.append(int(np.flatnonzero(order == alpha)[0]))
    shuffle = rng.permutation(len(problem))
    return np.array(words)[shuffle], np.array(selected)[shuffle]


def _in_order(rng, problem, names=None):
    """The same with words renamed only."""
    names = rng.permutation(12) if names is None else names
    *rows, selected = zip(*problem, strict=True)
    return names[np.array(rows).T], np.array(selected)


def cases(rng):
    """Shuffled problems, and others whose order of rows or positions is what a mistake stumbles over."""
    shuffled = [
        [(0, 1, 2, 1), (0, 2, 1, 1)],  # no: 1 over 2, 2 over 1
        [(0, 1, 2, 1), (3, 2, 1, 1)],  # feasible: the queries differ
        [(0, 1, 2, 1), (0, 2, 3, 1), (0, 3, 1, 1), (4, 1, 2, 2)],  # no: a loop of three words
        [(0, 1, 2, 1), (0, 2, 3, 1), (0, 1, 3, 1), (4, 3, 1, 1)],  # feasible: a chain under one query
        [(0, 1, 1, 1), (2, 0, 1, 1)],  # no: the selected word stands there twice
        [(0, 1, 1, 0), (2, 0, 0, 0)],  # feasible: another word stands there twice
        [(0, 1, 2, 0), (0, 3, 4, 1), (5, 1, 0, 1)],  # feasible: 3 over 0 over 1
        [(0, 1, 2, 0), (0, 3, 4, 1), (0, 3, 1, 2)],  # no: 3 over 0 over 1 over 3
        [(0, 1, 2, 1), (0, 2, 3, 1), (0, 3, 4, 1), (0, 4, 5, 1), (0, 5, 1, 1)],  # no: a loop of five words
        [(0, 1, 2, 1), (0, 2, 3, 1), (0, 3, 4, 1), (0, 4, 1, 1)],  # no: a loop of four
        [(0, 0, 1, 1)],  # no: the query's word stands there twice, and the second one is selected
        [(0, 1, 2, 1), (0, 3, 2, 1), (0, 3, 4, 1), (0, 1, 4, 1)],  # feasible: a ring, but no loop
        [(0, word, word % 7 + 1, 1) for word in range(1, 8)],  # no: a loop of seven
        [(0, 1, 1), (0, 1, 0)],  # no: sequences of two words
        [(0, 1, 1), (1, 0, 1)],  # feasible
    ]
    good, bad = [(0, 1, 2, 1), (0, 2, 3, 1), (0, 1, 3, 1)], [(5, 1, 2, 1), (5, 2, 1, 1)]
    twice = [(0, 1, 2, 1), (0, 1, 3, 1), (0, 2, 1, 1)]  # the first of two sequences with one winner counts
    wide = [(5, 0, 1, 2, 1), (5, 2, 3, 0, 1)]  # no: 0 over 2, 2 over 0; they are not neighbours
    in_order = [
        good + bad,
        [(5, 1, 1, 1), (5, 1, 2, 1), *good],  # no: the first sequence by itself
        [bad[0], good[0], bad[1], good[1]],  # no: one query in rows apart
        twice,
        [twice[1], twice[0], twice[2]],
        wide,
        [(5, 1, 2, 0, 3), (5, 0, 1, 2, 3)],  # no: the winner stands last
    ]
    chain = [(0, word, word + 1, 1) for word in range(1, 7)]  # feasible: seven words in a row
    names = np.sort(rng.permutation(12)[:8])
    return [
        *(_shuffled(rng, problem) for problem in shuffled),
        *(_in_order(rng, problem) for problem in in_order),
        _in_order(rng, chain, names),
        _in_order(rng, chain, names[::-1]),
    ]
