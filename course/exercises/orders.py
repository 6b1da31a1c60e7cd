"""Orders of tokens, for lesson 16's exercises: relations that data ask for, right and by misconception."""

import numpy as np


def relations_by(
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


relations = relations_by()


def closed(tokens, target, following):
    above = relations(tokens, target, following)
    for _ in following:
        above = above | ((above.astype(float) @ above) > 0)
    return above


def above_all_others(tokens, target, following):
    above = np.zeros((len(following),) * 3, dtype=bool)
    for sequence, y in zip(tokens, target, strict=True):
        for a in sequence[following[sequence] == y]:
            above[sequence[-1], a, sequence[sequence != a]] = True
    return above


def sequences(rng, n, T, V, targets=None, queries=2):
    """Realisable data, in which chains a > b > c occur."""
    following = rng.permutation(V) % (targets or V)
    rank = rng.permutation(V)
    tokens = rng.integers(0, V, size=(n, T))
    tokens[:, -1] = rng.integers(0, queries, size=n)
    nexts = following[tokens]
    return tokens, np.take_along_axis(nexts, rank[nexts].argmax(1)[:, None], 1)[:, 0], following


def reach(above):
    for _ in above:
        above = above | ((above.astype(float) @ above) > 0)
    return above


def squared(above, rounds):
    for _ in range(rounds):
        above = above | ((above.astype(float) @ above) > 0)
    return above


def decided_by(reach=reach, wins=lambda row, sequence, a: all(row[b] or b == a for b in sequence)):
    """An answer from the relations that are used, and when a token beats its sequence."""

    def answer(above, tokens):
        order = reach(np.asarray(above))
        found = []
        for sequence in tokens:
            winners = [a for a in sequence if wins(order[a], sequence, a)]
            found.append(int(winners[0]) if winners else -1)
        return np.array(found)

    return answer


decided = decided_by()
