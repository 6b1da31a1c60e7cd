"""Exercises of lesson 06: attention is an SVM over tokens."""

import numpy as np
from scipy.optimize import nnls

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
    minutes=10,
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
    points=3,
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
        _at(lambda a, b: a / (a @ a)),
        "You took the SVM of the comparison a alone. Which of the two asks for the longer p, and does that p "
        "satisfy the other constraint, too?",
        _at(lambda a, b: b / (b @ b)),
        "You took the SVM of the comparison b alone. Which of the two asks for the longer p, and does that p "
        "satisfy the other constraint, too?",
        _at(lambda a, b: (a + b) / min((a + b) @ a, (a + b) @ b)),
        "p_mm is a mixture of the comparisons, but not in equal parts: a rival that is far enough behind has "
        "no part in it.",
        lambda a, b: np.array([a @ b / (b @ b), a @ b / (a @ a)]),
        "You took each lead at the SVM of the other rival alone. There is one p_mm, and at least one of its "
        "leads is 1.",
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


# --------------------------------------------------------------------------- 06.3 the score to beat
def _beat_by(counts, what=lambda keys, scores, selected, p_mm: scores, none=-np.inf):
    """An answer: the greatest `what` among the tokens that count, from leads (n, T) and inputs; else none."""

    def answer(keys, scores, selected, p_mm):
        keys, scores, i = np.asarray(keys), np.asarray(scores), np.arange(len(keys))
        h = keys @ p_mm
        own = np.arange(scores.shape[1]) == np.asarray(selected)[:, None]  # (n, T)
        counted = counts(h[i, selected][:, None] - h, own, keys, scores, selected, p_mm)
        best = np.where(counted, what(keys, scores, selected, p_mm), -np.inf).max(axis=1)
        return np.where(counted.any(axis=1), best, none)

    return answer


def _support(lead, *_):
    return np.isclose(lead, 1, atol=1e-6)


_beat = _beat_by(_support)


def _own(scores, selected):
    return scores[np.arange(len(scores)), selected]


def _short_of(mean):
    """An answer: the reference's, but the selected token's score is returned or subtracted."""
    return lambda *args: mean(_own(args[1], args[2]), _beat(*args))


def _lowest(keys, scores, selected, p_mm):
    lowest = -_beat(keys, -np.asarray(scores), selected, p_mm)
    return np.where(np.isinf(lowest), -np.inf, lowest)


def _choice(rng, n, T, d):
    """Random keys and scores, a feasible choice and its p_mm."""
    keys, scores = rng.normal(size=(n, T, d)), rng.uniform(-1, 1, size=(n, T))
    selected = (keys @ rng.normal(size=d)).argmax(axis=1)
    own = np.arange(T) == selected[:, None]
    A = (keys[own][:, None] - keys)[~own]
    lam, _ = nnls(np.vstack([A.T, np.ones(len(A))]), np.r_[np.zeros(d), 1.0])
    return keys, scores, selected, A.T @ lam / (1 - lam.sum())


def _beat_cases(rng):
    """Support tokens of both sides of the selected score, better tokens behind, sequences without support."""

    def telling(keys, scores, selected, p_mm, bare):
        h = keys @ p_mm
        lead = h[np.arange(len(keys)), selected][:, None] - h
        support, own = _support(lead), _own(scores, selected)
        rest = ~support & (lead > 0.5)
        return (
            (~support.any(axis=1)).any() == bare
            and (support.sum(axis=1) > 1).any()
            and not (rest & (lead < 1.05)).any()
            and (support & (scores > own[:, None])).any()
            and (np.where(rest, scores, -9).max(axis=1) > _beat(keys, scores, selected, p_mm))[
                support.any(axis=1)
            ].any()
            and selected.any()
            and np.linalg.norm(p_mm) < 5
        )

    cases = []
    for n, T, d, bare in ((1, 5, 3, False), (3, 4, 6, False), (4, 5, 6, True)):
        case = _choice(rng, n, T, d)
        while not telling(*case, bare):
            case = _choice(rng, n, T, d)
        cases.append(case)
    return cases


BEAT = Exercise(
    id="06.3",
    title="The score to beat",
    points=3,
    minutes=6,
    difficulty=2,
    reference=_beat,
    withheld=("mini_attn.geometry.locally_optimal", "mini_attn.geometry.support_tokens"),
    cases=_beat_cases,
    misconceptions=known(
        _beat_by(lambda lead, own, *_: ~own),
        "You took the best score of all others: that decides *global* optimality. Only support tokens count, "
        "those with a lead of exactly 1 at p_mm.",
        _beat_by(lambda lead, own, *_: ~own & ~_support(lead)),
        "You took the tokens that are not tight. Support tokens have a lead of exactly 1 at p_mm.",
        _beat_by(lambda lead, own, *_: _support(lead) | own),
        "You counted the selected token itself among its rivals.",
        _beat_by(lambda lead, own, *_: ~own & (lead <= np.where(own, np.inf, lead).min(1, keepdims=True))),
        "You took the token that is closest behind in each sequence. Two can be tight at once; and where the "
        "closest is further behind than 1, there is no support token.",
        _beat_by(
            lambda lead, own, *_: (
                ~own & np.isclose(lead, np.where(own, np.inf, lead).min(1, keepdims=True), atol=1e-6)
            )
        ),
        "In each sequence you took the tokens closest behind. Where these are further behind than 1 the "
        "sequence has no support token: -inf.",
        _beat_by(lambda lead, *_: lead < 0),
        "You found no support token at all. The *leads* p_mm . (k_alpha - k_t) have to be 1, at p_mm itself, "
        "and computed ones are seldom exactly 1: np.isclose(lead, 1, atol=1e-6).",
        _lowest,
        "You took the lowest score among the support tokens. The selected one has to beat them all.",
        _beat_by(_support, none=0.0),
        "A sequence without support tokens has nothing to beat: -inf, not 0.",
        _beat_by(_support, none=np.nan),
        "A sequence without support tokens has nothing to beat: -inf, not NaN.",
        _short_of(lambda own, bar: own - bar),
        "You returned by how much the selected token is better. Return the score that it has to beat.",
        _short_of(lambda own, bar: own > bar),
        "You answered whether each sequence's token beats its support tokens. Return the score to beat.",
        _beat_by(_support, what=lambda keys, scores, selected, p_mm: keys @ p_mm),
        "You returned logits k_t . p_mm. What a token has to beat is the *score* of its support tokens.",
        _beat_by(_support, what=lambda keys, scores, selected, p_mm: np.arange(scores.shape[1])),
        "You returned token numbers. Return the support token's score.",
        lambda *args: np.max(_beat(*args)),
        "You returned one number. Each sequence has its own score to beat.",
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
    points=4,
    minutes=25,
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
        "That is the line of equal leads, E = 0, through the origin. At E = 0 it does not stand "
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
        _border_by(lambda p1, b, D, B: b * p1 + np.log(b * B / (D * ((1 + b) ** 2 + 1)))),
        "That is how the pair (2, 1) changes the lead over token 1, by (1 + b)^2 + 1. From E the lead over "
        "token 3 is subtracted: E = b p_1 - p_2.",
        _border_by(lambda p1, b, D, B: b * p1 + np.log(B / (D * (1 + b)))),
        "That is where p_1 stands still. On the border E = b p_1 - p_2 stands still.",
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


EXERCISES = [PUSHES, RIVALS, BEAT, BORDER]


# --------------------------------------------------------------------------- 06.5 in words

EVERY_START = Written(
    id="06.5",
    title="Every start, several sequences",
    points=4,
    minutes=15,
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
