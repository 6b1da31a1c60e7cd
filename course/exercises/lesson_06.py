"""Exercises of lesson 06: attention is an SVM over tokens."""

import numpy as np
import torch

from course.check.specification import Exercise, Written, known
from mini_attn import svm


def _tokens(rng, n, T, d):
    """Random keys and, per sequence, the token that a random p likes best: a feasible choice."""
    keys = rng.normal(size=(n, T, d))
    selected = (keys @ rng.normal(size=d)).argmax(axis=1)
    return keys, selected


def _with_twins(rng, n, T, d):
    """The same, where in the last sequence the token after the selected one has the same key."""
    keys, selected = _tokens(rng, n, T, d)
    keys[-1, (selected[-1] + 1) % T] = keys[-1, selected[-1]]
    return keys, selected


# --------------------------------------------------------------------------- 06.1 the comparisons
def _comparisons(keys, selected):
    return svm.token_problem(torch.as_tensor(keys), torch.as_tensor(selected)).a.numpy()


def _with_itself(keys, selected):
    winners = keys[np.arange(len(keys)), selected]
    return (winners[:, None] - keys).reshape(-1, keys.shape[-1])


def _against_mean(keys, selected):
    winners = keys[np.arange(len(keys)), selected]
    return winners - (keys.sum(axis=1) - winners) / (keys.shape[1] - 1)


def _token_by_token(keys, selected):
    n, T, _ = keys.shape
    return [keys[i, selected[i]] - keys[i, t] for t in range(T) for i in range(n) if t != selected[i]]


def _without_zeros(keys, selected):
    rows = _comparisons(keys, selected)
    return rows[(rows != 0).any(axis=1)]


COMPARISONS = Exercise(
    id="06.1",
    title="The comparisons",
    points=1,
    minutes=6,
    difficulty=1,
    reference=_comparisons,
    withheld=("mini_attn.svm.problem.token_problem",),
    cases=lambda rng: [
        (np.array([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]), np.array([1])),
        *(_tokens(rng, *shape) for shape in ((3, 4, 2), (4, 3, 5), (2, 6, 3))),
        _with_twins(rng, 2, 4, 3),
    ],
    misconceptions=known(
        lambda keys, selected: -_comparisons(keys, selected),
        "Your rows have the opposite sign. The selected token is to win: k_alpha - k_t, its key first.",
        _with_itself,
        "Leave out t = alpha: k_alpha - k_alpha = 0, and the constraint p.0 >= 1 has no solution.",
        _against_mean,
        "Each selected token has to beat every single other one, not their mean: T - 1 rows a sequence.",
        lambda keys, selected: _comparisons(keys, np.full_like(selected, selected[0])),
        "You used the first sequence's selected token throughout. Sequence i has its own, selected[i].",
        _token_by_token,
        "These are the right rows in another order. Let i be the outer loop and t the inner one.",
        _without_zeros,
        "You dropped a row of zeros. Leave out t = alpha by its number: another token with the same key "
        "keeps its row (and says that no p can tell the two apart).",
    ),
)


# --------------------------------------------------------------------------- 06.2 the pushes
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
        middle = int(np.argsort(scores)[T // 2])
        scores[[selected, middle]] = scores[[middle, selected]]
        cases.append((p, keys, scores, selected))
    return cases


PUSHES = Exercise(
    id="06.2",
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
        _pushes_by(lambda s, scores, a: s.max() * s * (scores[s.argmax()] - scores)),
        "You took the token with most attention for alpha; `selected` need not be that one.",
    ),
)


# --------------------------------------------------------------------------- 06.3 how far beside the ray
def _beside_by(formula, norm=lambda c: np.sqrt(1 + c**2)):
    """An answer: formula(p1, p2, exp(p1), c) over the norm."""

    def answer(p, c):
        return float(formula(p[0], p[1], np.exp(p[0]), c) / norm(c))

    return answer


def _exact(x, y, e, c):
    return x + c * y - np.log(1 + (1 + c) * e / c) / (1 + c)


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
        *(
            (rng.uniform(-1.5, 1.5, size=2), float(rng.uniform(*c)))
            for c in ((0.2, 0.4), (0.5, 0.9), (1.5, 2.5))
        ),
    ],
    misconceptions=known(
        lambda p, c: -_beside_ray(p, c),
        "The sign is the other way round: count the distance positive on the side of (1, c).",
        _beside_by(lambda x, y, e, c: x + c * y),
        "That is the distance at the start. On its way the path moves sideways: the pair (1, 2) pushes along "
        "(-1 - c, 1), which is not parallel to the ray.",
        _beside_by(lambda x, y, e, c: x + c * y - np.log(c + (1 + c) * e) / (1 + c)),
        "The conserved expression is right, its limit is not yet used: at the end the logarithm is log c.",
        _beside_by(_exact, lambda c: 1),
        "Divide by the length of (1, c): p_1 + c p_2 is the distance times sqrt(1 + c^2).",
        _beside_by(_exact, lambda c: 1 + c**2),
        "Divide by the length of (1, c), which is sqrt(1 + c^2), not by its square.",
        _beside_by(lambda x, y, e, c: x + c * y - np.log(1 + (1 + c) * e / c)),
        "The integral has a factor 1 / (1 + c) before the logarithm.",
        _beside_by(lambda x, y, e, c: x + c * y + np.log(1 + (1 + c) * e / c) / (1 + c)),
        "The path moves to the left of where it started: mind the sign before the logarithm.",
        _beside_by(lambda x, y, e, c: x + c * y - np.log(1 + (1 + c) / (c * e)) / (1 + c)),
        "The pair (1, 2) is weighed by s_2 : s_3 = exp(+p_1), since h_2 = p_1 and h_3 = 0.",
        _beside_by(lambda x, y, e, c: x + c * y - np.log(1 + (1 + c) * np.exp(y) / c) / (1 + c)),
        "The logit of token 2, whose key is (1, 0), is p_1, not p_2.",
        _beside_by(lambda x, y, e, c: x / c + y - np.log(1 + (1 + c) * e / c) / (c * (1 + c))),
        "p_2 + p_1 / c has the right limit, but it is sqrt(1 + c^2) / c times the distance.",
    ),
)


# --------------------------------------------------------------------------- 06.4 local optimality
def _leads(keys, selected, p_mm):
    h = keys @ p_mm
    return h[np.arange(len(h)), selected][:, None] - h


def _near_one(leads, own):
    return np.isclose(leads, 1, atol=1e-6)


def _within(tolerance):
    return lambda leads, own: np.abs(leads - 1) < tolerance


def _beats(over, better=np.greater, count=np.all):
    """An answer: `over(leads, own)` marks the tokens that the selected one has to beat."""

    def answer(keys, scores, selected, p_mm):
        mask = over(_leads(keys, selected, p_mm), np.arange(keys.shape[1]) == selected[:, None])
        wins = better(scores[np.arange(len(keys)), selected][:, None], scores)
        return count(np.where(mask, wins, count is np.all), axis=1)

    return answer


_beats_support = _beats(_near_one)


def _against_one(pick):
    """An answer: only one number, picked from the scores of a sequence's support tokens, is to be beaten."""

    def answer(keys, scores, selected, p_mm):
        near = _near_one(_leads(keys, selected, p_mm), None)
        own = scores[np.arange(len(keys)), selected]
        return np.array([not s.any() or o > pick(g[s]) for s, g, o in zip(near, scores, own, strict=True)])

    return answer


SITUATIONS = [  # leads at p_mm, and scores relative to the selected token's, of four rivals
    ((1, 1, 1.05, 2), (0.4, -0.7, -0.3, -0.2)),  # one of two support tokens is better, but not their mean
    ((1, 1, 1.05, 3), (-0.7, 0.4, -0.3, -0.2)),
    ((1, 1, 1.05, 2), (-0.2, -0.4, 0.3, 0.5)),  # both are beaten; better ones are further behind
    ((1, 1.05, 2, 3), (0.2, -0.4, -0.3, -0.5)),  # the only support token is the only better one
    ((1, 1.01, 2, 3), (-0.2, 0.4, -0.3, -0.5)),  # a better one is close to being tight
    ((1, 1.1, 2, 3), (-0.2, -0.4, -0.3, -0.5)),  # the best of all
    ((1, 1, 1.1, 3), (0.7, -0.2, -0.3, -0.5)),  # one of two is better, and their mean too
    ((1, 1, 2, 3), (0.0, -0.3, -0.2, -0.4)),  # a tie
    ((1.3, 1.5, 2, 3), (0.3, 0.4, -0.2, 0.1)),  # no support token at all
]


def _sequence(rng, ray, across, situation, rivals):
    """Keys, scores and the selected token of one sequence, whose leads at p_mm are those of the situation.

    `across` is orthogonal to p_mm. Two tight comparisons lean to opposite sides of it: p_mm is between them.
    """
    leads, relative = (np.array(part[:rivals], dtype=float) for part in situation)
    lean = np.where(np.arange(rivals) % 2, -1, 1) * rng.uniform(0.3, 1.0, size=rivals)
    rows = np.concatenate([np.zeros((1, len(ray))), np.outer(leads, ray) + np.outer(lean, across)])
    scores = rng.uniform(-0.3, 0.3) + np.concatenate([[0.0], relative * rng.uniform(0.9, 1.1)])
    order = rng.permutation(rivals + 1)
    return (rng.normal(size=len(ray)) - rows)[order], scores[order], int(order.argmin())


def _local_cases(rng):
    """All situations in each case but the first two, in an order of their own; p_mm right to 3e-8.

    In the first case all sequences pass, in the second none.
    """
    cases = []
    for chosen, d in (((2, 4), 2), ((1, 3), 2), (range(9), 3), (range(9), 5)):
        p_mm = rng.normal(size=d)
        ray = p_mm / (p_mm @ p_mm)  # the shortest vector ahead by 1
        across = rng.normal(size=d)
        across -= across @ p_mm * ray
        rivals = 2 if d == 2 else 4
        drawn = [_sequence(rng, ray, across, SITUATIONS[k], rivals) for k in rng.permutation(list(chosen))]
        keys, scores, selected = (np.array(part) for part in zip(*drawn, strict=True))
        cases.append((keys, scores, selected, p_mm * (1 + 3e-8)))
    return cases


LOCAL = Exercise(
    id="06.4",
    title="Who has to be beaten?",
    points=2,
    minutes=8,
    difficulty=1,
    reference=_beats_support,
    withheld=("mini_attn.geometry.locally_optimal", "mini_attn.geometry.support_tokens"),
    cases=_local_cases,
    misconceptions=known(
        _beats(lambda leads, own: ~own),
        "That is global optimality. Only support tokens count, those with p_mm.(k_alpha - k_t) = 1.",
        lambda keys, scores, selected, p_mm: np.ones(len(keys), dtype=bool),
        "Every sequence passes: your function finds no support token, or compares what alpha always wins. "
        "Leads are h_alpha - h_t at p_mm as given; support tokens have the lead 1 up to rounding, so use "
        "np.isclose(leads, 1, atol=1e-6); and compare scores.",
        lambda keys, scores, selected, p_mm: np.zeros(len(keys), dtype=bool),
        "No sequence passes. Does your function count alpha itself, whose lead is 0, or lead <= 1? No score "
        "beats itself. Support tokens are those with the lead 1, up to rounding.",
        _beats(_within(0.1)),
        "Your tolerance is too wide: a lead of 1.05 is not tight. Use 1e-6.",
        _beats(_within(0.02)),
        "Your tolerance is too wide: a lead of 1.01 is not tight. Use 1e-6.",
        _beats(_near_one, np.greater_equal),
        "A tie is not enough: a support token with the same score exerts no force, so nothing holds p.",
        _beats(_near_one, count=np.any),
        "You asked for some support token that is beaten. All have to be; a sequence without any passes.",
        _against_one(np.min),
        "One support token that is beaten is not enough: the best of them decides.",
        _against_one(np.mean),
        "You compared with the mean score of the support tokens. Each of them has to be beaten.",
        lambda *args: ~_beats_support(*args),
        "You return the opposite: True where a support token is at least as good.",
        _beats(lambda leads, own: ~own & ~_near_one(leads, own)),
        "Those are the tokens that are not support tokens; their force dies out exponentially faster.",
        _beats(lambda leads, own: leads == np.where(own, np.inf, leads).min(1, keepdims=True)),
        "You compared with one rival, the closest. There may be several support tokens, or none: those with "
        "the lead 1.",
        lambda keys, scores, selected, p_mm: np.full(
            len(keys), _beats_support(keys, scores, selected, p_mm).all()
        ),
        "One answer for each sequence: do not combine them.",
    ),
)


# --------------------------------------------------------------------------- 06.5 the comparisons for W
def _matrix_comparisons(X, z, selected):
    problem = svm.attention_problem(torch.as_tensor(X), torch.as_tensor(z), torch.as_tensor(selected))
    return (problem.a[:, :, None] * problem.b[:, None, :]).numpy()


def _matrix_other(row):
    """A wrong answer that builds each row from a = x_alpha - x_t, z_i and x_alpha."""

    def wrong(X, z, selected):
        pairs = [(i, t) for i in range(len(X)) for t in range(X.shape[1]) if t != selected[i]]
        return np.array([row(X[i, selected[i]] - X[i, t], z[i], X[i, selected[i]]) for i, t in pairs])

    return wrong


def _matrix_without_zeros(X, z, selected):
    A = _matrix_comparisons(X, z, selected)
    return A[(A != 0).any(axis=(1, 2))]


def _matrix_cases(rng):
    drawn = [_tokens(rng, *shape) for shape in ((1, 3, 2), (2, 3, 3), (3, 4, 2))]
    drawn.append(_with_twins(rng, 2, 3, 3))
    return [(X, rng.normal(size=X[:, 0].shape), selected) for X, selected in drawn]


MATRIX = Exercise(
    id="06.5",
    title="The same comparisons for W",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_matrix_comparisons,
    withheld=("mini_attn.svm.problem.attention_problem", "mini_attn.svm.sequence.sequence_problem"),
    cases=_matrix_cases,
    misconceptions=known(
        _matrix_other(lambda a, z, x: np.outer(z, a)),
        "Each matrix is transposed: in a^T W z the entry W[j, k] is multiplied by a_j z_k = A[j, k].",
        _matrix_other(lambda a, z, x: np.outer(a, a)),
        "You used the token difference twice. The right-hand factor is the query z_i.",
        _matrix_other(lambda a, z, x: np.outer(x, z)),
        "What has to be at least 1 is the difference of two logits: (x_alpha - x_t)^T W z.",
        _matrix_other(lambda a, z, x: -np.outer(a, z)),
        "The sign is the other way round: the selected token comes first, x_alpha - x_t.",
        _matrix_other(lambda a, z, x: a * z),
        "W is a d x d matrix, so each row of the SVM is one too: np.outer(x_alpha - x_t, z_i).",
        lambda X, z, selected: (
            _comparisons(X, selected)[:, :, None] * np.tile(z, (X.shape[1] - 1, 1))[:, None]
        ),
        "Rows are ordered by sequence: each query serves T-1 consecutive rows (np.repeat, not np.tile).",
        _matrix_without_zeros,
        "You dropped a matrix of zeros. Leave out t = alpha by its number: an equal token keeps its row.",
    ),
)


EXERCISES = [COMPARISONS, PUSHES, BESIDE, LOCAL, MATRIX]


# --------------------------------------------------------------------------- 06.6 in words

EVERY_START = Written(
    id="06.6",
    title="Every start, several sequences",
    points=4,
    minutes=12,
    rubric=[
        (1, "Writes the gradient as an average over sequences of forces between pairs of tokens."),
        (1, "Equal lower scores: pairs without the best token exert no force and drop out."),
        (
            1,
            "Feasibility: p_mm . (k_alpha - k_t) >= 1 in every sequence; with positive slopes, attentions "
            "and gaps the sum is positive.",
        ),
        (1, "Unequal lower scores leave pairs of losers, about whose sign the Att-SVM says nothing."),
    ],
)

WRITTEN = [EVERY_START]
