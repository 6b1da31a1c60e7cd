"""Exercises of lesson 06: attention is an SVM over tokens."""

import numpy as np
import torch

from course.check.specification import Exercise, Misconception, Written
from mini_attn import svm


def _tokens(rng, n, T, d):
    """Random keys and, per sequence, the token that a random p likes best: a feasible choice."""
    keys = rng.normal(size=(n, T, d))
    selected = (keys @ rng.normal(size=d)).argmax(axis=1)
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
    ],
    misconceptions=[
        Misconception(
            lambda keys, selected: -_comparisons(keys, selected),
            "Your rows have the opposite sign. The selected token is to win: k_alpha - k_t, its key first.",
        ),
        Misconception(
            _with_itself,
            "Leave out t = alpha: k_alpha - k_alpha = 0, and the constraint p.0 >= 1 has no solution.",
        ),
        Misconception(
            _against_mean,
            "Each selected token has to beat every single other one, not their mean: T - 1 rows a sequence.",
        ),
        Misconception(
            lambda keys, selected: _comparisons(keys, np.full_like(selected, selected[0])),
            "You used the first sequence's selected token throughout. Sequence i has its own, selected[i].",
        ),
        Misconception(
            _token_by_token,
            "These are the right rows in another order. Let i be the outer loop and t the inner one.",
        ),
    ],
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
    cases = []
    for T, d in ((3, 2), (4, 3), (6, 2)):
        p, keys, scores = rng.normal(size=d), rng.normal(size=(T, d)), rng.uniform(-1, 1, size=T)
        cases.append((p, keys, scores, int(rng.integers(T))))
    return [*cases, (p, keys, scores, int((keys @ p).argmin()))]  # at last not the one of most attention


PUSHES = Exercise(
    id="06.2",
    title="How hard each comparison pushes",
    points=2,
    minutes=6,
    difficulty=1,
    reference=_pushes,
    cases=_push_cases,
    misconceptions=[
        Misconception(
            lambda *args: -_pushes(*args),
            "The sign is the other way round: a token that scores lower pushes along +(k_alpha - k_t).",
        ),
        Misconception(
            _pushes_by(lambda s, scores, a: scores[a] - scores),
            "You returned the score gaps alone. The softmax weighs them: multiply by s_alpha s_t.",
        ),
        Misconception(
            _pushes_by(lambda s, scores, a: s * (scores[a] - scores)),
            "You left out the factor s_alpha. A pair acts through the product of both weights, s_alpha s_t.",
        ),
        Misconception(
            _pushes_by(lambda s, scores, a: s * (scores - s @ scores)),
            "That is the gradient in the logits (lesson 05). Here only the pairs (alpha, t) are wanted.",
        ),
        Misconception(
            _pushes_by(lambda s, scores, a: s[a] * s * scores),
            "Only differences of scores matter: adding 1 to every score must not change your answer.",
        ),
        Misconception(
            _pushes_by(lambda s, scores, a: s / s[a] * (scores[a] - scores)),
            "That is the late-time approximation; the exact strength has s_alpha s_t.",
        ),
        Misconception(
            _pushes_by(lambda s, scores, a: s.max() * s * (scores[s.argmax()] - scores)),
            "You took the token with most attention for alpha; `selected` need not be that one.",
        ),
    ],
)


# --------------------------------------------------------------------------- 06.3 steps to a norm
def _steps_needed(R, R0, j0, length):
    return j0 * np.exp((R - R0) / length)


STEPS = Exercise(
    id="06.3",
    title="How long until the norm is R?",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_steps_needed,
    cases=lambda rng: [
        (*map(float, (R0 + rng.uniform(1.5, 6), R0, j0, length)),)
        for R0, j0, length in ((8.0, 1e4, 1.0), (5.0, 1e3, 0.7), (20.0, 5e4, 3.0))
    ],
    misconceptions=[
        Misconception(
            lambda R, R0, j0, length: j0 * R / R0,
            "That is normalised descent. Under plain descent the norm grows with the logarithm of the steps.",
        ),
        Misconception(
            lambda R, R0, j0, length: j0 * np.exp((R - R0) * length),
            "The length is the slope of the norm against log j: log j has to grow by (R - R0) / length.",
        ),
        Misconception(
            lambda R, R0, j0, length: np.exp((R - R0) / length),
            "That is the factor by which the number of steps grows. Multiply it by j0.",
        ),
        Misconception(
            lambda R, R0, j0, length: np.exp(R / length),
            "You forgot the start: the constant in the law is not 0, it follows from norm R0 at step j0.",
        ),
        Misconception(
            lambda R, R0, j0, length: j0 * (np.exp((R - R0) / length) - 1),
            "You returned the number of further steps. Return the step itself, counted from the beginning.",
        ),
        Misconception(
            lambda R, R0, j0, length: j0 + np.exp((R - R0) / length),
            "You added the factor to j0. log j - log j0 = log(j / j0) is the logarithm of a ratio: multiply.",
        ),
        Misconception(
            lambda R, R0, j0, length: j0 * 10 ** ((R - R0) / length),
            "You undid the logarithm with powers of 10. The log in the law is the natural one: use exp.",
        ),
    ],
)


# --------------------------------------------------------------------------- 06.4 local optimality
def _margins(keys, selected, p_mm):
    h = keys @ p_mm
    return h[np.arange(len(h)), selected][:, None] - h


def _near_one(margins, own):
    return np.isclose(margins, 1, atol=1e-6)


def _beats(over, better=np.greater, count=np.all):
    """An answer: `over(margins, own)` marks the tokens that the selected one has to beat."""

    def answer(keys, scores, selected, p_mm):
        mask = over(_margins(keys, selected, p_mm), np.arange(keys.shape[1]) == selected[:, None])
        wins = better(scores[np.arange(len(keys)), selected][:, None], scores)
        return count(np.where(mask, wins, count is np.all), axis=1)

    return answer


def _local_cases(rng):
    cases = []
    for n, T, d in ((1, 3, 2), (3, 4, 3), (5, 4, 4), (8, 5, 5)):
        keys, selected = _tokens(rng, n, T, d)
        p_mm = svm.solve(svm.token_problem(torch.as_tensor(keys), torch.as_tensor(selected))).value.numpy()
        p_mm = p_mm * (1 + 1e-12)  # so that no way to compute a margin gives exactly 1
        support = _near_one(_margins(keys, selected, p_mm), None)
        own = np.arange(T) == selected[:, None]
        scores = rng.uniform(0, 1, size=(n, T))
        best = scores[own][:, None]
        for given in (
            scores,
            np.where(support, scores - 1, np.where(own, scores, scores + 1)),  # local, not global
            np.where(support, scores + 1, np.where(own, scores, scores - 1)),  # the reverse
            np.where(support | own, best, scores - 1),  # a tie with each support token
        ):
            cases.append((keys, given, selected, p_mm))
    return cases


LOCAL = Exercise(
    id="06.4",
    title="Who has to be beaten?",
    points=3,
    minutes=12,
    difficulty=3,
    reference=_beats(_near_one),
    withheld=("mini_attn.geometry.locally_optimal", "mini_attn.geometry.support_tokens"),
    cases=_local_cases,
    misconceptions=[
        Misconception(
            _beats(lambda margins, own: ~own),
            "That is global optimality. Only support tokens count, those with p_mm.(k_alpha - k_t) = 1.",
        ),
        Misconception(
            _beats(lambda margins, own: margins == 1),
            "Margins of support tokens are 1 only up to rounding; use np.isclose(margins, 1, atol=1e-6).",
        ),
        Misconception(
            _beats(_near_one, np.greater_equal),
            "A tie is not enough: a support token with the same score exerts no force, so nothing holds p.",
        ),
        Misconception(
            _beats(_near_one, count=np.any),
            "You asked for some support token that is beaten. All have to be; a sequence without any passes.",
        ),
        Misconception(
            _beats(lambda margins, own: ~own & ~_near_one(margins, own)),
            "Those are the tokens that are not support tokens; their force dies out exponentially faster.",
        ),
        Misconception(
            _beats(lambda margins, own: margins == np.where(own, np.inf, margins).min(1, keepdims=True)),
            "The closest rival need not be a support token, whose margin is 1. A sequence can have none.",
        ),
        Misconception(
            lambda keys, scores, selected, p_mm: selected == scores.argmax(axis=1),
            "The best score of all is global optimality; a token can be locally optimal without it.",
        ),
    ],
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


def _matrix_cases(rng):
    drawn = [_tokens(rng, *shape) for shape in ((1, 3, 2), (2, 3, 3), (3, 4, 2))]
    return [(X, rng.normal(size=X[:, 0].shape), selected) for X, selected in drawn]


MATRIX = Exercise(
    id="06.5",
    title="The same comparisons for W",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_matrix_comparisons,
    withheld=("mini_attn.svm.problem.attention_problem",),
    cases=_matrix_cases,
    misconceptions=[
        Misconception(
            _matrix_other(lambda a, z, x: np.outer(z, a)),
            "Each matrix is transposed: in a^T W z the entry W[j, k] is multiplied by a_j z_k = A[j, k].",
        ),
        Misconception(
            _matrix_other(lambda a, z, x: np.outer(a, a)),
            "You used the token difference twice. The right-hand factor is the query z_i.",
        ),
        Misconception(
            _matrix_other(lambda a, z, x: np.outer(x, z)),
            "What has to be at least 1 is the difference of two logits: (x_alpha - x_t)^T W z.",
        ),
        Misconception(
            _matrix_other(lambda a, z, x: -np.outer(a, z)),
            "The sign is the other way round: the selected token comes first, x_alpha - x_t.",
        ),
        Misconception(
            _matrix_other(lambda a, z, x: a * z),
            "W is a d x d matrix, so each row of the SVM is one too: np.outer(x_alpha - x_t, z_i).",
        ),
        Misconception(
            lambda X, z, selected: (
                _comparisons(X, selected)[:, :, None] * np.tile(z, (X.shape[1] - 1, 1))[:, None]
            ),
            "Rows are ordered by sequence: each query serves T-1 consecutive rows (np.repeat, not np.tile).",
        ),
    ],
)


EXERCISES = [COMPARISONS, PUSHES, STEPS, LOCAL, MATRIX]


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
