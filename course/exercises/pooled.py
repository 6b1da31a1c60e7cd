"""Exercise 14.3: the nearest point in which no token is ahead of the first, and what is tied there."""

import numpy as np

from course.check.specification import Exercise, known


def _pooled(targets):
    others = -np.sort(-targets[:, 1:], axis=1)
    sums = np.cumsum(np.concatenate([targets[:, :1], others], axis=1), axis=1)[:, :-1]
    return np.cumprod(others > sums / np.arange(1, targets.shape[1]), axis=1).sum(axis=1)


def _halves(pool):
    """The height, if each next token counted as much as all before."""
    height = pool[0]
    for one in pool[1:]:
        height = (height + one) / 2
    return height


def _pooled_in_order(order, mean=np.mean, skip=False):
    """Tokens are added in some other order: as long as they are above the mean reached, or all that are."""

    def answer(g):
        counts = []
        for row in g:
            pool = [row[0]]
            for other in order(row[1:]):
                if other > mean(pool):
                    pool.append(other)
                elif not skip:
                    break
            counts.append(len(pool) - 1)
        return np.array(counts)

    return answer


def _rounds(number):
    """Pools all that are ahead of the height reached so far, a few times."""

    def answer(g):
        height = g[:, :1]
        for _ in range(number):
            ahead = g[:, 1:] > height
            height = (g[:, :1] + (g[:, 1:] * ahead).sum(1, keepdims=True)) / (1 + ahead.sum(1, keepdims=True))
        return (g[:, 1:] > height).sum(axis=1)

    return answer


def _common_height(targets):
    """The height at which the first token ends."""
    pairs = zip(targets, _pooled(targets), strict=True)
    return np.array([np.append(row[0], np.sort(row[1:])[::-1][:tied]).mean() for row, tied in pairs])


def _pool_cases(rng):
    """Enough rows that all ways to stop early or late differ somewhere."""
    cases = [(rng.normal(size=(6, 2)),)]
    for draws, m in ((60, 3), (80, 5), (80, 8)):
        g = rng.normal(size=(draws, m))
        g[::4, 0] -= 1.5  # more ties
        cases.append((g,))
    g = np.tile([0.0, 4.0, 3.0, 0.5, 1.5], (3, 1))  # 4, 3 are tied with 0 at 7/3; 1.5 and 0.5 are not
    g[1] += rng.normal()
    g[2, 1:] = rng.permutation(g[2, 1:])
    cases.insert(1, (g,))
    hard = [
        np.r_[-50.0, np.arange(7) / 10],  # all tied
        [0, 100, 49, 46, 34, 3, 2, 1],  # one: all begin ahead, and the mean passes few at a time
        [0, 1, 0.505, -1, -2, -3, -4, -5],  # just above the mean 0.5, and just below
        [0, 1, 0.495, -1, -2, -3, -4, -5],
    ]
    hard = np.array(hard)
    hard[:, 1:] = rng.permuted(hard[:, 1:], axis=1)
    return [*cases, (hard,)]


POOLED = Exercise(
    id="14.3",
    title="Pooled",
    points=3,
    minutes=12,
    difficulty=3,
    reference=_pooled,
    cases=_pool_cases,
    misconceptions=known(
        lambda g: (g[:, 1:] > g[:, :1]).sum(axis=1),
        "You counted all tokens ahead of the first. The first is pulled up on the way: a token that the "
        "common mean has passed is not tied any more.",
        _rounds(1),
        "The mean over all tokens that are ahead is only a beginning: without those below it the mean is "
        "higher, and may pass more.",
        _rounds(2),
        "Twice is not enough: let go of the tokens below the mean until none is.",
        lambda g: np.minimum(_pooled(g), 2),
        "More than two tokens may be tied with the first.",
        lambda g: (g[:, 1:] > g.mean(axis=1, keepdims=True)).sum(axis=1),
        "The common height is the mean over the tied tokens, not over all.",
        lambda g: (g[:, 1:].max(axis=1) > g[:, 0]).astype(int),
        "Too few: more than one token can be tied with the first, and the first counts in their mean.",
        lambda g: _pooled(g) + 1,
        "Do not count the first token itself.",
        _pooled_in_order(np.sort),
        "Begin with the largest of the others: it needs the tie most.",
        _pooled_in_order(lambda others: others),
        "The order of the tokens in the row means nothing: begin with the largest of the others.",
        _pooled_in_order(lambda others: others, skip=True),
        "You asked each token once, in the order of the row. Begin with the largest: it lifts the mean most.",
        _pooled_in_order(lambda others: -np.sort(-others), mean=_halves),
        "(height + next) / 2 is no mean of three tokens: divide the sum of those tied by their number.",
        lambda g: (g[:, 1:] > g.mean(axis=1, keepdims=True)).sum(axis=1) * (g[:, 1:].max(axis=1) > g[:, 0]),
        "Tokens that are not tied have no part in the common height: do not take the mean of the whole row.",
        lambda g: (g.shape[1] - 1) * (g[:, 1:].max(axis=1) > g[:, 0]),
        "Not all others are pulled along: those below the common height stay where they are.",
        lambda g: g.shape[1] - 1 - _pooled(g),
        "Those are the tokens that stay below the first. Count the tied ones.",
        lambda g: _pooled(np.concatenate([g[:, :1], -g[:, 1:]], axis=1)),
        "The other way round: tokens *ahead* of the first break its constraint.",
        lambda g: np.full(len(g), _pooled(g).mean()),
        "Return one number for each row, not their mean.",
        lambda g: (
            g[:, 1:] > np.maximum(g[:, 1:].max(axis=1, keepdims=True), g[:, :1]) / 2 + g[:, :1] / 2
        ).sum(axis=1),
        "The mean of the first and the largest is the height after one tie. Each further tie moves it.",
        _common_height,
        "Return how many are tied, not the height that they share.",
    ),
)
