"""Exercises of lesson 06: attention is an SVM over tokens."""

import numpy as np

from course.check.specification import Exercise, Written, known


# --------------------------------------------------------------------------- 06.1 the pushes
def _pushes_by(coefficients):
    """An answer from the attention s, the scores and the selected token."""

    def answer(p, keys, scores, selected):
        weights = np.exp(keys @ p - (keys @ p).max())
        return coefficients(weights / weights.sum(), scores, selected)

    return answer


_pushes = _pushes_by(lambda s, scores, a: s[a] * s * (scores[a] - scores))


def _push_cases(rng):
    """The selected token has better and worse rivals in each case; at last it has the least attention."""
    cases = []
    for T, d in ((3, 2), (4, 3), (6, 2), (5, 3)):
        p, keys, scores = rng.normal(size=d), rng.normal(size=(T, d)), rng.uniform(-1, 1, size=T)
        selected = int((keys @ p).argmin()) if len(cases) == 3 else int(rng.integers(len(cases) == 1, T))
        selected = 0 if len(cases) == 2 else selected
        middle = int(np.argsort(scores)[T // 2])
        scores[[selected, middle]] = scores[[middle, selected]]
        cases.append((p, keys, scores, selected))
    return cases


PUSHES = Exercise(
    id="06.1",
    title="How hard each comparison pushes",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_pushes,
    cases=_push_cases,
    misconceptions=known(
        lambda *args: -_pushes(*args),
        "The sign is the other way round: a token that scores lower pushes along +(k_alpha - k_t).",
        _pushes_by(lambda s, scores, a: scores[a] - scores),
        "You returned the differences of scores alone. The softmax weighs them: multiply by s_alpha s_t.",
        _pushes_by(lambda s, scores, a: s * (scores[a] - scores)),
        "You left out the factor s_alpha. A pair acts through the product of both weights, s_alpha s_t.",
        _pushes_by(lambda s, scores, a: s[a] * (scores[a] - scores)),
        "You left out the factor s_t. A pair acts through the product of both weights, s_alpha s_t.",
        _pushes_by(lambda s, scores, a: s * (scores - s @ scores)),
        "That is the gradient in the logits (lesson 05). Here only the pairs (alpha, t) are wanted.",
        _pushes_by(lambda s, scores, a: s[a] * s * scores),
        "Only differences of scores matter: adding 1 to every score must not change your answer.",
        _pushes_by(lambda s, scores, a: s / s[a] * (scores[a] - scores)),
        "That is the late-time approximation; the exact strength has s_alpha s_t.",
        _pushes_by(lambda s, scores, a: s[a] * s / s.max() ** 2 * (scores[a] - scores)),
        "Your weights do not sum to one: divide exp(h) by its sum, as `attention(p, keys)` does.",
        _pushes_by(lambda s, scores, a: s[a] * s * abs(scores[a] - scores)),
        "Keep the sign of the difference: a token that scores higher pulls the other way.",
        _pushes_by(lambda s, scores, a: s[a] * s * np.clip(scores[a] - scores, 0, None)),
        "A token that scores higher exerts a force too, the other way: its strength is negative, not 0.",
        _pushes_by(lambda s, scores, a: 2 * s[a] * s * (scores[a] - scores)),
        "The double sum contains each pair twice, each time with a weight of its own key: per pair the "
        "strength is s_alpha s_t times the difference, not twice that.",
        _pushes_by(lambda s, scores, a: s[a] * s * (scores[a] - scores) / (1 + np.exp(s @ scores))),
        "Leave out the factor |l'|: it is common to all pairs.",
        _pushes_by(lambda s, scores, a: s[0] * s * (scores[0] - scores)),
        "You took the first token for alpha: it is number `selected`.",
        _pushes_by(lambda s, scores, a: s[scores.argmax()] * s * (scores.max() - scores)),
        "You took the token of best score for alpha; `selected` need not be that one.",
        _pushes_by(lambda s, scores, a: s.max() * s * (scores[s.argmax()] - scores)),
        "You took the token with most attention for alpha; `selected` need not be that one.",
        _pushes_by(lambda s, scores, a: s[a] * s * (scores[a] - s @ scores)),
        "You compared the score of alpha with the mean f of all. A pair (alpha, t) compares it with gamma_t.",
        _pushes_by(lambda s, scores, a: s[a] * s * (s @ scores - scores)),
        "You compared gamma_t with the mean f of all. A pair (alpha, t) compares it with gamma_alpha.",
        _pushes_by(lambda s, scores, a: (1 - s[a]) * s * (scores[a] - scores)),
        "A pair has the product of both attention weights, s_alpha s_t, not (1 - s_alpha) s_t.",
        lambda p, keys, scores, a: _pushes(p, keys, scores, a)[:, None] * (keys[a] - keys),
        "These are the forces, vectors. Only their strengths are wanted: do not multiply by k_alpha - k_t.",
        lambda p, keys, scores, a: np.exp(keys @ p) * (scores[a] - scores) * np.exp(keys[a] @ p),
        "You took exp(h) for the attention. It is exp(h) divided by its sum, as in `attention(p, keys)`.",
    ),
)


# --------------------------------------------------------------------------- 06.2 two rivals
def _leads_of_two(a, b):
    shorter = a if a @ a <= b @ b else b
    lead = max(1.0, float(a @ b / (shorter @ shorter)))
    return np.array([1.0, lead]) if shorter is a else np.array([lead, 1.0])


def _at(direction):
    """An answer: the leads at another p, a function of both comparisons."""

    def answer(a, b):
        p = direction(a, b)
        return np.array([p @ a, p @ b])

    return answer


def _shorter(a, b):
    return a if a @ a <= b @ b else b


def _rival_cases(rng):
    """The shorter comparison first and last, and neither; one rival is tight in two pairs, both in three."""
    cases = []
    for d, along, low, high in (
        (2, 1.6, 0.5, 0.7),  # one tight, but a . b below 1
        (3, 2.5, 0.5, 2),
        (2, 0.5, 1.5, 2),  # both tight, but a . b above 1
        (4, -0.4, 0.5, 2),
        (3, -2.5, 0.5, 2),
    ):
        a = rng.normal(size=d)
        a *= rng.uniform(low, high) / np.linalg.norm(a)
        across = rng.normal(size=d)
        across -= across @ a / (a @ a) * a
        across *= rng.uniform(1.1, 1.6) * np.linalg.norm(a) / np.linalg.norm(across)
        b = along * rng.uniform(0.9, 1.1) * a + across
        cases += [(a, b), (b, a)]
    return [*cases[:-1], (np.array([3.0, 4.0]), np.array([4.0, 3.0]))]  # neither is the shorter


RIVALS = Exercise(
    id="06.2",
    title="Two rivals",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_leads_of_two,
    withheld=(
        "mini_attn.svm.problem.token_problem",
        "mini_attn.svm.problem.attention_problem",
        "mini_attn.svm.sequence.sequence_problem",
        "mini_attn.geometry.locally_optimal",
        "mini_attn.geometry.support_tokens",
    ),
    cases=_rival_cases,
    misconceptions=known(
        lambda a, b: np.array([1, max(1, a @ b / (a @ a))]),
        "You begin with a always. Begin with the rival that asks for the longer p: the shorter comparison.",
        lambda a, b: np.array([max(1, a @ b / (b @ b)), 1]),
        "You begin with b always. Begin with the rival that asks for the longer p: the shorter comparison.",
        lambda a, b: np.ones(2),
        "Both your leads are 1 on every input. The shorter comparison asks for the longer p; that p may be "
        "ahead of the other rival by more than 1.",
        _at(lambda a, b: _shorter(a, b) / (_shorter(a, b) @ _shorter(a, b))),
        "You stop at the SVM of the rival that asks for the longer p. Where it is ahead of the other by less "
        "than 1, it breaks that constraint, and both become tight.",
        lambda a, b: _leads_of_two(a, b)[::-1],
        "The right numbers in the wrong order: the shorter comparison is the one that is surely tight.",
        _at(lambda a, b: max((a, b), key=lambda c: c @ c) / max(a @ a, b @ b)),
        "You began with the longer comparison. The *shorter* one asks for the longer p: 1 / ||a||.",
        lambda a, b: np.array([max(1, abs(a @ b) / (b @ b)), max(1, abs(a @ b) / (a @ a))]),
        "You took |a . b|. Where a . b is negative, the SVM of one rival is *behind* the other: both tight.",
        _at(lambda a, b: (a + b) / 2),
        "That is the mean of the comparisons, not the shortest p with both leads at least 1.",
        lambda a, b: _leads_of_two(a, b) / np.sqrt(_shorter(a, b) @ _shorter(a, b)),
        "Leads are not divided by a norm: p_mm . a, not the distance from a plane.",
        lambda a, b: (
            np.linalg.pinv(np.stack([a, b])) @ np.ones(2)
            if _leads_of_two(a, b).max() == 1
            else _shorter(a, b) / (_shorter(a, b) @ _shorter(a, b))
        ),
        "That is p_mm. Return its leads p_mm.a and p_mm.b.",
        _at(lambda a, b: a / (a @ a) if a @ a > b @ b else b / (b @ b)),
        "You began with the longer comparison. The shorter one asks for the longer p: 1 / ||a|| is large "
        "where a is short.",
        lambda a, b: np.array([np.linalg.norm(a), np.linalg.norm(b)]) / np.linalg.norm(_shorter(a, b)),
        "That is the ratio of the lengths. A lead is an inner product: the angle counts as well.",
        lambda a, b: (
            1 + (_leads_of_two(a, b) > 1) * (_leads_of_two(a, b) * np.linalg.norm(_shorter(a, b)) - 1)
        ),
        "p_mm is a / ||a||^2: divide a.b by the square of the length of the shorter comparison.",
    ),
)


# --------------------------------------------------------------------------- 06.3 how far beside the ray
def _beside_by(formula, norm=lambda b: np.sqrt(1 + b**2)):
    """An answer: formula(p1, p2, exp(p1), b) over the norm."""

    def answer(p, b):
        return float(formula(p[0], p[1], np.exp(p[0]), b) / norm(b))

    return answer


def _exact(x, y, e, b):
    return x + b * y - np.log(1 + (1 + b) * e / b) / (1 + b)


_beside_ray = _beside_by(_exact)

BESIDE = Exercise(
    id="06.3",
    title="How far beside the ray?",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_beside_ray,
    cases=lambda rng: [
        (np.zeros(2), 0.1),
        *((rng.uniform(-1.5, 1.5, size=2), float(rng.uniform(*b))) for b in ((0.2, 0.4), (0.5, 0.9))),
        (rng.uniform(0.4, 1.5, size=2), float(rng.uniform(1.5, 2.5))),  # this one ends on the right
    ],
    misconceptions=known(
        lambda p, b: abs(_beside_ray(p, b)),
        "Paths end on either side of the ray: keep the sign, negative on the left.",
        lambda p, b: -abs(_beside_ray(p, b)),
        "Paths end on either side of the ray: one that ends on its right has a positive distance.",
        lambda p, b: -_beside_ray(p, b),
        "The sign is the other way round: count the distance positive on the side of (1, b).",
        _beside_by(lambda x, y, e, b: x + b * y),
        "That is the distance at the start. On its way the path moves sideways: the pair (1, 2) pushes along "
        "(-1 - b, 1), which is not parallel to the ray.",
        _beside_by(lambda x, y, e, b: x + b * y - np.log(b + (1 + b) * e) / (1 + b)),
        "The conserved expression is right, its limit is not yet used: at the end the logarithm is log b.",
        _beside_by(_exact, lambda b: 1),
        "Divide by the length of (1, b): p_1 + b p_2 is the distance times sqrt(1 + b^2).",
        lambda p, b: _beside_ray(p, 0.1),
        "You took b = 0.1, the toy's: use the argument b.",
        lambda p, b: _beside_ray(np.zeros(2), b),
        "That is the distance for a path from 0: the start p matters for ever.",
        _beside_by(lambda x, y, e, b: x - b * y - np.log(1 + (1 + b) * e / b) / (1 + b)),
        "Mind the sign of b p_2: the distance to the right of the ray is along (1, b), p_1 + b p_2.",
        _beside_by(_exact, lambda b: 1 + b**2),
        "Divide by the length of (1, b), which is sqrt(1 + b^2), not by its square.",
        _beside_by(lambda x, y, e, b: x + b * y - np.log(1 + (1 + b) * e / b)),
        "The integral has a factor 1 / (1 + b) before the logarithm.",
        _beside_by(lambda x, y, e, b: x + b * y + np.log(1 + (1 + b) * e / b) / (1 + b)),
        "The path moves to the left of where it started: mind the sign before the logarithm.",
        _beside_by(lambda x, y, e, b: x + b * y - np.log(1 + (1 + b) / (b * e)) / (1 + b)),
        "The pair (1, 2) is weighed by s_2 : s_3 = exp(+p_1), since h_2 = p_1 and h_3 = 0.",
        _beside_by(lambda x, y, e, b: x + b * y - np.log(1 + (1 + b) * np.exp(y) / b) / (1 + b)),
        "The logit of token 2, whose key is (1, 0), is p_1, not p_2.",
        _beside_by(lambda x, y, e, b: x / b + y - np.log(1 + (1 + b) * e / b) / (b * (1 + b))),
        "p_2 + p_1 / b has the right limit, but it is sqrt(1 + b^2) / b times the distance.",
        _beside_by(lambda x, y, e, b: x + b * y - np.log(b * (b + (1 + b) * e)) / (1 + b)),
        "The expression is conserved: at the end p_1 + b p_2 - log(b) / (1 + b) is what it was at the start, "
        "so log(b) / (1 + b) is added to it.",
        _beside_by(lambda x, y, e, b: x + b * y - np.log(b + (1 + b) * e) / (1 + b) + np.log(b)),
        "At the end, too, the logarithm is divided by 1 + b: add log(b) / (1 + b).",
        _beside_by(lambda x, y, e, b: x + b * y - np.log(1 + e / b) / (1 + b)),
        "In the logarithm e^p_1 has the factor 1 + b: the pair (1, 2) pushes along (-1 - b, 1).",
    ),
)


# --------------------------------------------------------------------------- 06.4 the border
def _border_by(formula):
    """An answer: formula(p1, b, D, B), D and B the differences of scores of tokens 1 and 2, 2 and 3."""

    def answer(p1, b, scores):
        return float(formula(p1, b, scores[0] - scores[1], scores[1] - scores[2]))

    return answer


_border = _border_by(lambda p1, b, D, B: b * p1 + np.log(b * B / (D * (1 + b + b**2))))

BORDER = Exercise(
    id="06.4",
    title="Where is the border?",
    points=2,
    minutes=15,
    difficulty=3,
    reference=_border,
    cases=lambda rng: [
        (10.0, 0.1, np.array([1.0, 0.9, 0.85])),  # its height is negative
        *(
            (float(rng.uniform(10, 50)), float(rng.uniform(*b)), first - np.array([0, 1, 1]) * D - [0, 0, B])
            for b, D, B, first in zip(
                ((0.2, 0.4), (0.5, 0.9), (1.5, 2.5)),
                rng.uniform(0.1, 0.3, size=3),
                rng.uniform(0.5, 0.9, size=3),
                rng.uniform(-1, 1, size=3),
                strict=True,
            )
        ),
    ],
    misconceptions=known(
        _border_by(lambda p1, b, D, B: b * p1),
        "That is the line of equal leads, E = 0, through the origin. At E = 0 the excess does not stand "
        "still: set dE = 0 and solve for E.",
        _border_by(lambda p1, b, D, B: b * p1 - np.log(b * B / (D * (1 + b + b**2)))),
        "Mind the sign: E = b p_1 - p_2, so the line is p_2 = b p_1 - E.",
        _border_by(lambda p1, b, D, B: b * p1 + np.log(B / (D * (1 + b + b**2)))),
        "A factor b is missing: the pair (2, 3) pushes along (1, 0), and E = b p_1 - p_2 changes by b times "
        "that.",
        _border_by(lambda p1, b, D, B: b * p1 + np.log(b * B / (D * b))),
        "Each pair changes E = b p_1 - p_2 by its own amount: (1, 0) by b, (-1 - b, 1) by -(1 + b + b^2).",
        _border_by(lambda p1, b, D, B: b * p1 + np.log(b * B / D)),
        "The pair (2, 1) pushes along (-1 - b, 1): E = b p_1 - p_2 falls by b (1 + b) + 1, not by 1.",
        _border_by(lambda p1, b, D, B: b * p1 + np.log(b * B / (D * (1 + b)))),
        "Along (-1 - b, 1) both p_1 and p_2 change: E = b p_1 - p_2 falls by b (1 + b) + 1.",
        _border_by(lambda p1, b, D, B: b * p1 + np.log(b / (1 + b + b**2))),
        "Each pair pushes in proportion to its difference of scores, too.",
        _border_by(lambda p1, b, D, B: b * p1 + np.log(b * D / (B * (1 + b + b**2)))),
        "You have the two differences of scores the wrong way round: the pair (2, 1) has gamma_1 - gamma_2.",
        _border_by(lambda p1, b, D, B: b * p1 + np.log(b * B / ((D + B) * (1 + b + b**2)))),
        "Which tokens push? The pair (2, 1) has gamma_1 - gamma_2; gamma_1 - gamma_3 belongs to (1, 3), "
        "whose force is negligible here.",
        _border_by(lambda p1, b, D, B: b * p1 + np.log(b * (D + B) / (D * (1 + b + b**2)))),
        "The pair (2, 3) has gamma_2 - gamma_3; gamma_1 - gamma_3 belongs to the pair (1, 3).",
        _border_by(lambda p1, b, D, B: (1 + b) * p1 + np.log(b * B / (D * (1 + b + b**2)))),
        "E is a *difference* of leads: (1 + b) p_1 - p_2 over token 1 minus p_1 over token 3.",
        _border_by(lambda p1, b, D, B: np.log(b * B / (D * (1 + b + b**2)))),
        "You returned -E. The height is p_2 = b p_1 - E.",
        _border_by(lambda p1, b, D, B: b * p1 + b * B / (D * (1 + b + b**2))),
        "The forces are in the proportion of exp(-E): the border's E is a logarithm.",
        _border_by(lambda p1, b, D, B: b * p1 + np.log10(b * B / (D * (1 + b + b**2)))),
        "The weights are powers of e: np.log, not np.log10.",
    ),
)


# --------------------------------------------------------------------------- 06.5 the slow loss
def _falls_short(A, row):
    rest = np.delete(A, row, axis=0)
    return float(1 - A[row] @ np.linalg.pinv(rest) @ np.ones(len(rest)))


def _weights(A):
    return np.linalg.solve(A @ A.T, np.ones(len(A)))


def _tight_rows(rng, m, d, place):
    """Comparisons, all tight at their SVM, also without one; its weight has that place (0: the least)."""
    while True:
        axis = np.ones(d) / np.sqrt(d)
        A = axis * rng.uniform(0.8, 1.4, size=(m, 1)) + 0.8 * rng.normal(size=(m, d))
        lam = _weights(A)
        k, F = int(lam.argsort()[place]), [_falls_short(A, row) for row in range(m)]
        if (
            lam.min() > 0.02
            and _weights(np.delete(A, k, axis=0)).min() > 0
            and 0.02 < F[k] < 0.4
            and (min(F) < 0.9 * F[k] if place else True)
        ):
            return A, k


SLOW = Exercise(
    id="06.5",
    title="How slowly does it lose?",
    points=1,
    minutes=10,
    difficulty=2,
    reference=_falls_short,
    cases=lambda rng: [
        (np.array([[1.0, 0.0], [0.9, -1.0]]), 1),
        *(_tight_rows(rng, *size) for size in ((3, 3, 0), (3, 5, 1), (4, 4, 0), (4, 6, 1))),
    ],
    misconceptions=known(
        lambda A, k: 1 - _falls_short(A, k),
        "That is the lead itself. F is what it lacks of 1.",
        lambda A, k: -_falls_short(A, k),
        "The sign is the other way round: F = 1 - lead, and the lead without that row is below 1.",
        lambda A, k: _weights(A)[k],
        "You returned the row's weight. It is still to be multiplied by the squared length of that part of "
        "the row that is orthogonal to the other rows.",
        lambda A, k: _weights(A)[k] * A[k] @ A[k],
        "Only the part of the row that is *orthogonal to the other rows* is taken out: they keep their leads "
        "of 1.",
        lambda A, k: 1 - A[k] @ np.linalg.pinv(A) @ np.ones(len(A)),
        "You left the row in the SVM, where its lead is exactly 1.",
        lambda A, k: np.sqrt(max(_falls_short(A, k) * _weights(A)[k], 0)),
        "That is the weight times the length of the orthogonal part; the square of the length is needed.",
        lambda A, k: _weights(A)[k] / _weights(A).sum(),
        "That is the weight's share of the sum: a small share means a small F, but it is not F.",
        lambda A, k: _falls_short(A, 0) if k else _falls_short(A, len(A) - 1),
        "You left out another row. It is the row with number `row` whose pull is not felt.",
        lambda A, k: 1 - A[k] @ np.delete(A, k, axis=0).mean(axis=0),
        "The mean of the other rows is not their SVM: solve a . p = 1 for all of them, with the shortest p.",
    ),
)


EXERCISES = [PUSHES, RIVALS, BESIDE, BORDER, SLOW]


# --------------------------------------------------------------------------- 06.6 in words

EVERY_START = Written(
    id="06.6",
    title="Every start, several sequences",
    points=4,
    minutes=12,
    rubric=[
        (1, "Writes the gradient as an average over sequences of forces between pairs of tokens."),
        (
            1,
            "Equal lower scores: only comparisons with the best token are left, with positive weights; "
            "feasible: p_mm . a >= 1 for each.",
        ),
        (
            1,
            "Compares sum of weights (below the force's part along p_mm) with its length (at most the sum "
            "times max ||a||): at least eta / max ||a|| a step, so ||p|| grows linearly.",
        ),
        (1, "Unequal lower scores leave pairs of losers, about whose sign the Att-SVM says nothing."),
    ],
)

WRITTEN = [EVERY_START]
