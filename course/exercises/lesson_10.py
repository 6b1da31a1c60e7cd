"""Exercises of lesson 10: cross- and self-attention."""

import numpy as np

from course.check.specification import Compare, Exercise, known


# --------------------------------------------------------------------------- 10.1 the gradient in W
def _softmax(h):
    e = np.exp(h - h.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _slopes(h, scores):
    s = _softmax(h)
    pull = s * (scores - np.take_along_axis(scores, h.argmax(axis=1)[:, None], axis=1))
    return pull - s * pull.sum(axis=1, keepdims=True)


def _textbook(h, scores):
    s = _softmax(h)
    return s * (scores - (s * scores).sum(axis=1, keepdims=True))


def _gradient_by(
    logits=lambda W, X, z: np.einsum("itd,de,ie->it", X, W, z),
    slopes=_slopes,
    steep=lambda u: 1 / (1 + np.exp(u)),  # |l'(u)|
    outer=lambda pull, z: pull.T @ z,
    mean=len,
):
    """An answer from the logits, their slopes, the slope of the loss and the outer products."""

    def answer(W, X, z, scores):
        h = logits(W, X, z)
        u = (_softmax(h) * scores).sum(axis=1)
        pull = np.einsum("it,itd->id", slopes(h, scores), X)
        return -outer(pull * np.reshape(steep(u), (-1, 1)), z) / mean(z)

    return answer


_gradient = _gradient_by()


def _one_mean_query(pull, z):
    return np.outer(pull.sum(axis=0), z.mean(axis=0))


def _gradient_cases(rng):
    """Two of everyday size, and one in which every winner leads by 40 to 60."""
    cases = []
    for n, T, d, lead in ((2, 3, 2, 0), (4, 3, 5, 0), (3, 4, 6, 1)):
        X, z = rng.normal(size=(n, T, d)), rng.normal(size=(n, d))
        W, scores = rng.normal(size=(d, d)), rng.normal(size=(n, T)) * 1.5
        if lead:  # set the logits of every token: the queries are independent
            h = rng.uniform(-1, 1, size=(n, T))
            h[np.arange(n), rng.integers(0, T, size=n)] += rng.uniform(41, 60, size=n)
            p = np.stack([np.linalg.lstsq(X[i], h[i], rcond=None)[0] for i in range(n)])
            W = (np.linalg.pinv(z) @ p).T
        cases.append((W, X, z, scores))
    return cases


GRADIENT = Exercise(
    id="10.1",
    title="The gradient is a sum of outer products",
    points=2,
    minutes=7,
    difficulty=2,
    reference=_gradient,
    cases=_gradient_cases,
    compare=Compare(atol=0),  # far out gradients are tiny, and have a direction
    misconceptions=known(
        lambda *args: -_gradient(*args),
        "That is the direction of descent. The loss has a negative slope, so the gradient has a minus sign.",
        lambda *args: _gradient(*args).T,
        "Transposed: the derivative of x^T W z in W is x z^T, tokens on the left, the query on the right.",
        _gradient_by(mean=lambda z: 1),
        "You summed over the sequences. L is their mean: divide by n.",
        _gradient_by(steep=np.ones_like),
        "The slope of the loss is missing: sequence i counts with |l'(u_i)| = 1 / (1 + exp(u_i)).",
        _gradient_by(steep=lambda u: np.exp(-u)),
        "exp(-u) is the slope of the exponential loss. The logistic loss has 1 / (1 + exp(u)).",
        _gradient_by(steep=lambda u: 1 / (1 + np.exp(-u))),
        "Wrong sign in the exponent: |l'(u)| = 1 / (1 + exp(u)) is small where u is large.",
        _gradient_by(outer=_one_mean_query),
        "Each sequence has its own query: make the outer product first, then sum over the sequences.",
        _gradient_by(outer=lambda pull, z: pull.T @ pull),
        "The right factor is the query z_i.",
        _gradient_by(logits=lambda W, X, z: np.einsum("itd,ed,ie->it", X, W, z)),
        "The logits use W transposed: h_it = x_it^T W z_i, that is X[i] @ W @ z[i].",
        _gradient_by(slopes=lambda h, g: _softmax(h) * g),
        "The slope in a logit is s (score - mean score), not s times the score: use `slopes`.",
        _gradient_by(slopes=_textbook),
        "Where a winner leads by 40, s (score - mean) rounds its entry away. `slopes` measures scores from "
        "the winner's.",
    ),
)


# --------------------------------------------------------------------------- 10.2 inner products
def _gram_by(queries=lambda z, times: np.repeat(z, times, axis=0), join=np.multiply):
    def answer(a, z):
        q = queries(z, len(a) // len(z))
        return join(a @ a.T, q @ q.T)

    return answer


_gram = _gram_by()


def _cosines(m):
    length = np.sqrt(np.diag(m))
    return m / np.outer(length, length)


GRAM = Exercise(
    id="10.2",
    title="No matrices",
    points=1,
    minutes=5,
    difficulty=2,
    reference=_gram,
    cases=lambda rng: [
        (rng.normal(size=(n * (T - 1), d)), rng.normal(size=(n, d)))
        for n, T, d in ((2, 3, 2), (3, 4, 3), (4, 3, 5), (3, 2, 4))
    ],
    misconceptions=known(
        _gram_by(lambda z, times: np.tile(z, (times, 1))),
        "The queries are in the wrong order: rows are ordered by sequence, so each query serves T - 1 rows "
        "in a row (np.repeat).",
        _gram_by(join=np.add),
        "The sum over j and k of a_j z_k a'_j z'_k is a product of two sums: (a.a') (z.z').",
        _gram_by(join=np.matmul),
        "Multiply the two matrices of inner products entry by entry (*), not as matrices (@).",
        lambda a, z: a @ a.T,
        "The queries are missing: the inner product is (a.a') (z.z').",
        lambda a, z: np.repeat(np.repeat(z @ z.T, len(a) // len(z), 0), len(a) // len(z), 1),
        "The comparisons are missing: the inner product is (a.a') (z.z').",
        _gram_by(join=lambda left, right: left * _cosines(right)),
        "Do not divide by the lengths of the queries: it is the inner product that is asked, not a cosine.",
        lambda a, z: z @ z.T * np.sum(a, axis=1).mean(),
        "One row and one column for each comparison: n (T - 1) of them, not n.",
        lambda a, z: np.sum(a * np.repeat(z, len(a) // len(z), axis=0), axis=1),
        "a.z is a number for each comparison. Here two comparisons meet: a with a', z with z'.",
    ),
)


# --------------------------------------------------------------------------- 10.3 the price of a conflict
def _price(c, angle, agree):
    return 1 / (c * (np.cos(angle / 2) if agree else np.sin(angle / 2)))


def _price_cases(rng):
    cases = []
    for low, high in ((0.4, 1.2), (1.9, 2.8)):
        for agree in (True, False):
            cases.append((rng.uniform(0.5, 0.8), rng.uniform(low, high), agree))
    return [*cases, (rng.uniform(1.3, 2), rng.uniform(0.1, 0.3), False)]


PRICE = Exercise(
    id="10.3",
    title="The price of a conflict",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_price,
    cases=_price_cases,
    misconceptions=known(
        lambda c, angle, agree: 1 / _price(c, angle, agree),
        "That is the margin. The norm of W_mm is one over it.",
        lambda c, angle, agree: _price(c, angle, not agree),
        "The other way round: queries close to each other make agreement cheap and a conflict dear.",
        lambda c, angle, agree: 1 / (c * (np.cos(angle) if agree else np.sin(angle))),
        "The nearest point of the segment between z_1 and z_2 to the origin is its midpoint: half the angle.",
        lambda c, angle, agree: c * c * _price(c, angle, agree),
        "A longer distance between the tokens makes it easier: W is a column along x_1 - x_2, over c.",
        lambda c, angle, agree: _price(c, angle, agree) / c,
        "The lead is c times what W does along the unit vector of x_1 - x_2: one power of c, not two.",
        lambda c, angle, agree: c * _price(c, angle, agree),
        "The distance c of the tokens is missing: tokens that are nearer to each other need a longer W.",
        lambda c, angle, agree: 2 * _price(c, angle, agree),
        "Leads have to reach 1, not 2: the midpoint (z_1 +- z_2) / 2 is cos or sin of half the angle away.",
        lambda c, angle, agree: _price(c, angle, agree) / 2,
        "The sum z_1 +- z_2 is twice as long as the nearest point, the midpoint.",
        lambda c, angle, agree: _price(c, angle, agree) ** 2,
        "That is the squared norm.",
        lambda c, angle, agree: np.sqrt(2) / c,
        "The two sequences are independent only if their queries are orthogonal.",
        lambda c, angle, agree: 1 / c,
        "That is one sequence alone, or two that share query and answer. The angle counts.",
        lambda c, angle, agree: _price(c, angle, True),
        "A conflict costs something else than agreement: the second comparison has the opposite sign.",
    ),
)


# --------------------------------------------------------------------------- 10.4 what the start leaves
def _differences(X, z):
    a = X[:, 1:] - X[:, :1]
    return (a[..., :, None] * z[:, None, None, :]).reshape(-1, X.shape[-1] ** 2)


def _kept(W_0, rows):
    return W_0.ravel() - np.linalg.pinv(rows) @ (rows @ W_0.ravel())


def _best_cosine_by(rows=_differences, kept=_kept, final=lambda part, R: np.sqrt(1 - part @ part / R**2)):
    return lambda W_0, X, z, R: final(np.ravel(kept(W_0, rows(X, z))), R)


_best_cosine = _best_cosine_by()


def _off_each(W_0, rows):
    """Subtracts the projection on each row from W_0, as if the rows were orthogonal."""
    w = W_0.ravel().copy()
    for row in rows:
        w = w - (row @ W_0.ravel()) / (row @ row) * row
    return w


def _start_cases(rng):
    """Few comparisons; queries that fill the space; more tokens than dimensions; a repeated query."""
    cases = []
    for n, T, d, kind in ((2, 3, 3, ""), (4, 2, 3, ""), (2, 6, 3, ""), (3, 3, 4, "repeated"), (3, 2, 4, "")):
        X, z = rng.normal(size=(n, T, d)), rng.normal(size=(n, d))
        if kind:
            z[1] = 2 * z[0]
            X[1, 1:] = X[1, 0] + (X[0, 1:] - X[0, 0])  # the same comparisons: dependent rows
        W_0 = rng.normal(size=(d, d))
        part = _kept(W_0, _differences(X, z))
        W_0 *= rng.uniform(1, 2) / np.linalg.norm(part)  # the part that stays is 1 to 2 long
        cases.append((W_0, X, z, max(1.05 * np.linalg.norm(W_0), 2) * rng.uniform(1.1, 1.5)))
    return cases


START = Exercise(
    id="10.4",
    title="What the start leaves behind",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_best_cosine,
    cases=_start_cases,
    misconceptions=known(
        _best_cosine_by(kept=lambda W_0, rows: np.linalg.pinv(rows) @ (rows @ W_0.ravel())),
        "That uses the part inside the span. What stays is the other part: W_0 minus its projection.",
        _best_cosine_by(kept=lambda W_0, rows: W_0),
        "Not all of W_0 stays: training moves its part inside the span. Subtract the projection.",
        lambda W_0, X, z, R: np.sqrt(1 - np.linalg.norm(W_0 - W_0 @ np.linalg.pinv(z) @ z) ** 2 / R**2),
        "You removed everything that acts on the queries. Of W z, only the part along differences of tokens "
        "is trained: span the rows (x_t - x_1) z^T.",
        _best_cosine_by(
            rows=lambda X, z: (X[..., :, None] * z[:, None, None, :]).reshape(-1, X.shape[-1] ** 2)
        ),
        "The rows are built from tokens. Only differences of tokens of one sequence count: softmax ignores "
        "what all logits of a sequence have in common.",
        _best_cosine_by(
            rows=lambda X, z: ((X[:, 1:] - X[:, :1])[..., None, :] * z[:, None, :, None]).reshape(
                -1, X.shape[-1] ** 2
            )
        ),
        "Transposed: tokens on the left, x z^T, as in the gradient.",
        _best_cosine_by(kept=_off_each),
        "The rows are not orthogonal to each other: subtract the projection on their span, by np.linalg.pinv "
        "or lstsq, not row by row.",
        _best_cosine_by(final=lambda part, R: 1 - part @ part / R**2),
        "That is the cosine squared. Pythagoras: the part in the span has length sqrt(R^2 - kept^2).",
        _best_cosine_by(final=lambda part, R: np.linalg.norm(part) / R),
        "That is the sine of the angle between W and the span.",
        _best_cosine_by(final=lambda part, R: np.sqrt(part @ part) / R - 1),
        "A cosine of a W that has come far is near 1: sqrt(1 - kept^2 / R^2).",
        _best_cosine_by(final=lambda part, R: R / np.sqrt(R**2 + part @ part)),
        "R is the norm of all of W, the part that stays included: it is the hypotenuse.",
        _best_cosine_by(final=lambda part, R: 1 - np.sqrt(part @ part) / R),
        "1 minus the sine is not the cosine: sqrt(1 - sine^2).",
    ),
)


# --------------------------------------------------------------------------- 10.5 words that contradict
def _orders(words, selected):
    """query -> word -> the set of words it has to beat."""
    beats = {}
    for row, alpha in zip(words.tolist(), selected.tolist(), strict=True):
        of_query = beats.setdefault(row[0], {})
        of_query.setdefault(row[alpha], set()).update(word for t, word in enumerate(row) if t != alpha)
    return beats


def _no_loop(left):
    left = {word: set(losers) for word, losers in left.items()}
    while left:
        free = [word for word in left if not left[word] & left.keys()]
        if not free:
            return False
        for word in free:
            del left[word]
    return True


def _consistent(words, selected):
    return all(map(_no_loop, _orders(words, selected).values()))


def _one_query(words, selected):
    together = {}
    for order in _orders(words, selected).values():
        for word, losers in order.items():
            together.setdefault(word, set()).update(losers)
    return _no_loop(together)


def _no_pair(words, selected):
    """Looks for two words that beat each other, and for words that beat themselves."""
    return not any(
        word in order.get(loser, ())
        for order in _orders(words, selected).values()
        for word, losers in order.items()
        for loser in losers
    )


def _no_repeats(words, selected):
    """Forgets that a selected word may stand in its sequence twice."""
    orders = _orders(words, selected)
    return all(_no_loop({w: losers - {w} for w, losers in order.items()}) for order in orders.values())


def _never_both(words, selected):
    """Takes for a contradiction that a word wins in one sequence and loses in another."""
    return not any(order.keys() & set().union(*order.values()) for order in _orders(words, selected).values())


def _one_winner(words, selected):
    """Wants the same word selected by all sequences with the same query."""
    same = all(len(order) == 1 for order in _orders(words, selected).values())
    return same and _no_loop({k: v for order in _orders(words, selected).values() for k, v in order.items()})


def _same_words(words, selected):
    """Compares only sequences with the same words."""
    chosen = {}
    for row, alpha in zip(words.tolist(), selected.tolist(), strict=True):
        if row[alpha] in row[:alpha] + row[alpha + 1 :]:
            return False
        if chosen.setdefault((row[0], tuple(sorted(row))), row[alpha]) != row[alpha]:
            return False
    return True


def _word_cases(rng):
    """By word: (query, the other words, which of all is selected), renamed and shuffled for each seed."""
    problems = [
        [(0, 1, 2, 1), (0, 2, 1, 1)],  # no: 1 over 2, 2 over 1
        [(0, 1, 2, 1), (3, 2, 1, 1)],  # feasible: the queries differ
        [(0, 1, 2, 1), (0, 2, 3, 1), (0, 3, 1, 1), (4, 1, 2, 2)],  # no: a loop of three words
        [(0, 1, 2, 1), (0, 2, 3, 1), (0, 1, 3, 1), (4, 3, 1, 1)],  # feasible: a chain under one query
        [(0, 1, 1, 1), (2, 0, 1, 1)],  # no: the selected word stands there twice
        [(0, 1, 1, 0), (2, 0, 0, 0)],  # feasible: another word stands there twice
        [(0, 1, 2, 0), (0, 3, 4, 1), (5, 1, 0, 1)],  # feasible: 3 over 0 over 1
        [(0, 1, 2, 0), (0, 3, 4, 1), (0, 3, 1, 2)],  # no: 3 over 0 over 1 over 3
        [(0, 1, 2, 1), (0, 2, 3, 1), (0, 3, 4, 1), (0, 4, 5, 1), (0, 5, 1, 1)],  # no: a loop of five words
        [(0, 1, 2, 1), (0, 3, 2, 1), (0, 3, 4, 1), (0, 1, 4, 1)],  # feasible: a ring, but no loop
    ]
    cases = []
    for problem in problems:
        names = rng.permutation(12)
        words, selected = [], []
        for *row, alpha in problem:
            order = np.r_[0, 1 + rng.permutation(len(row) - 1)]
            words.append(names[np.array(row)[order]])
            selected.append(int(np.flatnonzero(order == alpha)[0]))
        shuffle = rng.permutation(len(problem))
        cases.append((np.array(words)[shuffle], np.array(selected)[shuffle]))
    return cases


WORDS = Exercise(
    id="10.5",
    title="Do the words contradict each other?",
    points=3,
    minutes=12,
    difficulty=3,
    reference=_consistent,
    cases=_word_cases,
    misconceptions=known(
        lambda *args: not _consistent(*args),
        "The other way round: return True where a solution exists.",
        lambda words, selected: True,
        "Independent embeddings do not make every choice feasible: two sequences with the same query can ask "
        "for opposite things.",
        lambda words, selected: False,
        "Some of these are feasible: without a loop of arrows the words can be put in order.",
        _one_query,
        "Words under different queries do not meet: W z and W z' may be anything. Keep a list for each.",
        _no_pair,
        "You look for two words that beat each other. Three or more can beat each other in a loop.",
        _no_repeats,
        "If the selected word stands in its sequence a second time, its token has to beat an equal one: "
        "infeasible.",
        _never_both,
        "A word may win in one sequence and lose in another one: only a loop is a contradiction.",
        _one_winner,
        "Sequences with the same query may select different words, as long as the arrows make no loop.",
        _same_words,
        "A contradiction can also come from sequences with different words: follow the arrows through all "
        "sequences with the same query.",
    ),
)

EXERCISES = [GRADIENT, GRAM, PRICE, START, WORDS]
