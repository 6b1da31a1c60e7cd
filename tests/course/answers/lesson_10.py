"""Answers to lesson 10's exercises: a second right one each, and wrong ones that the checks have to catch."""

import functools

import numpy as np


def first_by_outer_products(X, z, scores, lr):
    """Forms the gradient at W = 0 from pairs of tokens, steps, and reads the logits."""
    n, T, d = X.shape
    W = np.zeros((d, d))
    for x, query, gamma in zip(X, z, scores, strict=True):
        pull = sum((gamma[t] - gamma[r]) * (x[t] - x[r]) for t in range(T) for r in range(t)) / T**2
        W = W + lr / n * np.outer(pull, query) / (1 + np.exp(gamma.mean()))
    return np.stack([x @ W @ query for x, query in zip(X, z, strict=True)])


def first_of_a_trained_p(X, z, scores, lr):
    """A step of one p for all sequences, compared with the tokens."""
    pull = np.einsum("kt,ktd->kd", scores - scores.mean(axis=1, keepdims=True), X) / X.shape[1]
    return X @ (lr * (pull / (1 + np.exp(scores.mean(axis=1)))[:, None]).mean(axis=0))


def first_by_one_outer_product(X, z, scores, lr):
    """Multiplies the mean pull by the mean query."""
    pull = np.einsum("kt,ktd->kd", scores - scores.mean(axis=1, keepdims=True), X) / X.shape[1]
    W = lr * np.outer((pull / (1 + np.exp(scores.mean(axis=1)))[:, None]).mean(axis=0), z.mean(axis=0))
    return np.einsum("itd,de,ie->it", X, W, z)


def first_normalised(X, z, scores, lr):
    """A step of length lr, whatever the gradient's."""
    n, T, _ = X.shape
    unit = first_by_outer_products(X, z, scores, 1.0)
    pull = np.einsum("kt,ktd->kd", scores - scores.mean(axis=1, keepdims=True), X) / T
    G = (pull / (1 + np.exp(scores.mean(axis=1)))[:, None]).T @ z / n
    return lr * unit / np.linalg.norm(G)


def price_by_projection(distance, angle, agree):
    """Nearest point of the segment from z_1 to +-z_2 to the origin, on a fine grid and by calculus."""
    first, second = np.array([1.0, 0.0]), np.array([np.cos(angle), np.sin(angle)]) * (1 if agree else -1)
    way = second - first
    share = np.clip(-(first @ way) / (way @ way), 0, 1)
    return float(1 / (distance * np.linalg.norm(first + share * way)))


def words_by_search(words, selected):
    """Depth first: no word reaches itself along the arrows of one query."""
    for query in set(words[:, 0].tolist()):
        arrows = {}
        for row, alpha in zip(words, selected, strict=True):
            if row[0] == query:
                others = [word for t, word in enumerate(row) if t != alpha]
                arrows.setdefault(int(row[alpha]), []).extend(map(int, others))

        def reaches(word, goal, arrows, seen=()):
            return any(
                to == goal or (to not in seen and reaches(to, goal, arrows, (*seen, to)))
                for to in arrows.get(word, [])
            )

        if any(reaches(word, word, arrows) for word in arrows):
            return False
    return True


def words_by_query_of_winner(words, selected):
    """Takes the selected word for the query."""
    turned = words.copy()
    turned[:, 0] = words[np.arange(len(words)), selected]
    return words_by_search(turned, selected)


def loops_up_to(words, selected, longest):
    """Finds loops of so many words or fewer, by powers of the matrix of arrows."""
    for query in set(words[:, 0].tolist()):
        size = words.max() + 1
        A = np.zeros((size, size), dtype=int)
        for row, alpha in zip(words, selected, strict=True):
            if row[0] == query:
                for t, word in enumerate(row):
                    A[row[alpha], word] += t != alpha
        power = np.eye(size, dtype=int)
        for _ in range(longest):
            power = np.minimum(power @ A, 1)
            if np.trace(power):
                return False
    return True


def ring(words, selected):
    """Takes any ring of comparisons for a loop, whatever way its arrows point."""
    for query in set(words[:, 0].tolist()):
        parent = {}

        def root(word, parent):
            while parent.setdefault(word, word) != word:
                word = parent[word]
            return word

        pairs = set()
        for row, alpha in zip(words.tolist(), selected, strict=True):
            if row[0] == query:
                pairs |= {frozenset((row[alpha], word)) for t, word in enumerate(row) if t != alpha}
        for pair in pairs:
            ends = [root(word, parent) for word in (*pair, *pair)[:2]]
            if ends[0] == ends[1]:
                return False
            parent[ends[0]] = ends[1]
    return True


def by_groups(words, selected, queries=None, against=None):
    """Strips words until nothing changes: for these queries only, against these places only."""
    for query in set(words[:, 0].tolist()) if queries is None else queries:
        arrows = set()
        for row, alpha in zip(words.tolist(), selected.tolist(), strict=True):
            if row[0] == query:
                places = range(len(row)) if against is None else against(len(row))
                arrows |= {(row[alpha], row[t]) for t in places if t != alpha}
        while arrows:
            left = {(a, b) for a, b in arrows if b in {c for c, _ in arrows}}
            if left == arrows:
                return False
            arrows = left
    return True


def commonest(words):
    """The query of most sequences."""
    queries = words[:, 0].tolist()
    return max(queries, key=queries.count)


def between_positions(words, selected):
    """Arrows between positions instead of words."""
    places = np.tile(np.arange(words.shape[1]), (len(words), 1))
    rows = [words[:, 0] == query for query in set(words[:, 0].tolist())]
    return all(by_groups(places[row], selected[row]) for row in rows)


def visited_once(words, selected):
    """Takes a word that is reached by two ways for a loop."""
    for query in set(words[:, 0].tolist()):
        beaten = {}
        for row, alpha in zip(words.tolist(), selected.tolist(), strict=True):
            if row[0] == query:
                beaten.setdefault(row[alpha], set()).update(w for t, w in enumerate(row) if t != alpha)
        for start in beaten:
            seen, stack = set(), [start]
            while stack:
                word = stack.pop()
                if word in seen:
                    return False
                seen.add(word)
                stack += beaten.get(word, ())
    return True


def overwrites(words, selected):
    """Keeps what a word has to beat in its last sequence only, whatever the query's other rows say."""
    kept = {}
    for place, (row, alpha) in enumerate(zip(words, selected, strict=True)):
        kept[row[0], row[alpha]] = place
    rows = sorted(kept.values())
    return words_by_search(words[rows], selected[rows])


def keeps_first(words, selected):
    """Keeps what a word has to beat in its first sequence only."""
    kept = {}
    for place, (row, alpha) in enumerate(zip(words, selected, strict=True)):
        kept.setdefault((row[0], row[alpha]), place)
    rows = sorted(kept.values())
    return words_by_search(words[rows], selected[rows])


def symmetry_by_basis(W, v):
    """In a basis whose first vector is along v, W keeps its first entry and the mean of the others."""
    basis = np.linalg.qr(np.column_stack([v, np.eye(len(v))]))[0]
    turned = np.diag(basis.T @ W @ basis)
    return basis @ np.diag(np.r_[turned[0], np.full(len(v) - 1, turned[1:].mean())]) @ basis.T


def symmetry_by_projection(W, v):
    """The nearest matrix to W in the span of I and vv^T."""
    rows = np.stack([np.eye(len(v)).ravel(), np.outer(v, v).ravel()], axis=1)
    return (rows @ np.linalg.lstsq(rows, W.ravel(), rcond=None)[0]).reshape(W.shape)


def pairs(d, v, positive, near, rng):
    """20,000 best tokens and rivals of length one, at any angle or at small ones; both labels, or one."""

    def unit(x):
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    x = unit(rng.normal(size=(20_000, d)))
    rival = unit(rng.normal(size=(20_000, d)))
    if near:
        rival = unit(x + 10 ** rng.uniform(-3, 0, size=(20_000, 1)) * rival)
    better = (x - rival) @ v > 0
    x, rival = np.where(better[:, None], x, rival), np.where(better[:, None], rival, x)  # y = 1
    if not positive:
        return np.r_[x, rival], np.r_[rival, x]  # and y = -1
    return (array[x @ v > 0] for array in (x, rival))


def survives_by_trying(W, v, positive, near=True):
    """No pair of 20,000 is the wrong way round."""
    x, rival = pairs(len(v), v, positive, near, np.random.default_rng(0))
    return bool((((x - rival) @ W) * x).sum(axis=1).min() > -1e-9)


def survives_by_eigenvalues(W, v, positive):
    """W is symmetric, v an eigenvector, and the others share one value."""
    if not np.allclose(W, W.T):
        return False
    e = v / np.linalg.norm(v)
    basis = np.linalg.qr(np.column_stack([e, np.eye(len(v))]))[0]
    inside = basis.T @ W @ basis
    values = np.diag(inside)
    if not np.allclose(inside, np.diag(values)) or not np.allclose(values[1:], values[1]):
        return False
    if positive:
        return bool(values[1] >= 0 and values[0] >= values[1] - 1e-9)
    return bool(values[1] >= 0 and np.isclose(values[0], values[1]))


ANSWERS = {
    "10.1": {
        "also_right": first_by_outer_products,
        "wrong": [
            first_of_a_trained_p,
            first_by_one_outer_product,
            first_normalised,
            lambda X, z, scores, lr: first_by_outer_products(X[:1], z[:1], scores[:1], lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z, -scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z, scores, 2 * lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z, 0 * scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, X[:, 0], scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z[::-1], scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, np.abs(z), scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z, np.sign(scores), lr),
            lambda X, z, scores, lr: first_by_outer_products(X[:, ::-1], z, scores, lr),
            lambda X, z, scores, lr: first_by_outer_products(X, z, scores, lr).T,
            lambda X, z, scores, lr: first_by_outer_products(X, z, scores, lr).argmax(axis=1),
        ],
    },
    "10.2": {
        "also_right": price_by_projection,
        "wrong": [
            lambda distance, angle, agree: price_by_projection(distance, angle / 2, agree),
            lambda distance, angle, agree: price_by_projection(distance, np.pi - angle, agree),
            lambda distance, angle, agree: price_by_projection(distance, angle, False),
            lambda distance, angle, agree: price_by_projection(distance, np.radians(angle), agree),
            lambda distance, angle, agree: price_by_projection(distance / 2, angle, agree),
            lambda distance, angle, agree: price_by_projection(np.sqrt(distance), angle, agree),
            lambda distance, angle, agree: -price_by_projection(distance, angle, agree),
            lambda distance, angle, agree: price_by_projection(distance, angle, agree) if agree else np.inf,
            lambda distance, angle, agree: max(
                1 / distance, price_by_projection(distance, angle, agree) * np.sqrt(0.5)
            ),
            lambda distance, angle, agree: price_by_projection(distance, np.pi / 2, agree),
        ],
    },
    "10.3": {
        "also_right": symmetry_by_projection,
        "wrong": [
            lambda W, v: symmetry_by_basis(W, np.eye(len(v))[0]),
            lambda W, v: symmetry_by_basis(W, v) / 2,
            lambda W, v: symmetry_by_basis(W, v).sum(axis=0),
            lambda W, v: symmetry_by_basis(-W, v),
            lambda W, v: symmetry_by_basis(W @ W.T, v),
            lambda W, v: symmetry_by_basis(W, W @ v),
            lambda W, v: np.diag(np.diag(W)),
            lambda W, v: np.outer(v, v) @ W @ np.outer(v, v) / (v @ v) ** 2,
            lambda W, v: np.outer(W @ v, v) / (v @ v),
            lambda W, v: W,
            lambda W, v: W[0, 0] * np.eye(len(v)),
            lambda W, v: symmetry_by_basis(W, v) - np.trace(W) / len(v) * np.eye(len(v)),
            lambda W, v: np.median(np.diag(W)) * np.eye(len(v)) + (v @ W @ v) * np.outer(v, v) / (v @ v) ** 2,
        ],
    },
    "10.4": {
        "also_right": survives_by_trying,
        "wrong": [
            lambda W, v, positive: not survives_by_eigenvalues(W, v, positive),
            lambda W, v, positive: survives_by_eigenvalues(W, v, not positive),
            lambda W, v, positive: survives_by_eigenvalues(W, v, True),
            lambda W, v, positive: survives_by_eigenvalues(W, v, False),
            lambda W, v, positive: survives_by_eigenvalues(-W, v, positive),
            lambda W, v, positive: survives_by_eigenvalues((W + W.T) / 2, v, positive),
            lambda W, v, positive: survives_by_eigenvalues(W @ W.T, v, positive),
            lambda W, v, positive: survives_by_eigenvalues(W, np.eye(len(v))[0], positive),
            lambda W, v, positive: positive,
            lambda W, v, positive: not positive,
            lambda W, v, positive: bool(np.allclose(W, W.T)),
            lambda W, v, positive: bool(np.linalg.eigvalsh(W + W.T).min() > 0),
            lambda W, v, positive: bool(np.trace(W) > 0),
            lambda W, v, positive: bool(v @ W @ v > 0),
            lambda W, v, positive: bool(np.allclose(W, W[0, 0] * np.eye(len(v)))),
            lambda W, v, positive: bool(np.allclose(W @ v, (v @ W @ v) / (v @ v) * v)),
        ],
    },
    "10.5": {
        "also_right": by_groups,
        "wrong": [
            words_by_query_of_winner,
            ring,
            *(functools.partial(loops_up_to, longest=longest) for longest in (2, 3, 4, 5)),
            lambda words, selected: words_by_search(words[:, ::-1], words.shape[1] - 1 - selected),
            lambda words, selected: words_by_search(words, 0 * selected),
            lambda words, selected: len(set(words[:, 0].tolist())) == len(words),
            lambda words, selected: all(len(set(row)) == len(row) for row in words.tolist()),
            lambda words, selected: by_groups(words, selected, [words[0, 0]]),
            lambda words, selected: by_groups(words, selected, [words[-1, 0]]),
            lambda words, selected: by_groups(words, selected, [commonest(words)]),
            lambda words, selected: any(by_groups(words, selected, [q]) for q in set(words[:, 0].tolist())),
            lambda words, selected: by_groups(words, selected, against=lambda T: range(1, T)),
            lambda words, selected: by_groups(words, selected, against=lambda T: range(min(T, 3))),
            lambda words, selected: by_groups(words, selected, against=lambda T: (0, 1, 2)),
            lambda words, selected: by_groups(words[:, :3], np.minimum(selected, 2)),
            lambda words, selected: by_groups(words[1:], selected[1:]),
            overwrites,
            keeps_first,
            between_positions,
            visited_once,
        ],
    },
}
