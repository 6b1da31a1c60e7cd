"""Exercises of lesson 06: attention is an SVM over tokens."""

import numpy as np
import torch

from course.specification import Compare, Exercise, Misconception, Written
from mini_attn import svm

# --------------------------------------------------------------------------- inputs


def _tokens(rng, n, T, d):
    """Random keys and, per sequence, the token that a random p likes best: a feasible choice."""
    keys = rng.normal(size=(n, T, d))
    selected = (keys @ rng.normal(size=d)).argmax(axis=1)
    return keys, selected


# --------------------------------------------------------------------------- 06.1 the comparisons


def _comparisons(keys, selected):
    return svm.token_problem(torch.as_tensor(keys), torch.as_tensor(selected)).a.numpy()


def _comparison_cases(rng):
    small = np.array([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]), np.array([1])
    return [small, _tokens(rng, 3, 4, 2), _tokens(rng, 4, 3, 5), _tokens(rng, 2, 6, 3)]


def _with_itself(keys, selected):
    winners = keys[np.arange(len(keys)), selected]
    return (winners[:, None] - keys).reshape(-1, keys.shape[-1])


def _against_mean(keys, selected):
    n, T, _ = keys.shape
    winners = keys[np.arange(n), selected]
    return winners - (keys.sum(axis=1) - winners) / (T - 1)


COMPARISONS = Exercise(
    id="06.1",
    title="The comparisons",
    points=1,
    minutes=6,
    difficulty=1,
    reference=_comparisons,
    cases=_comparison_cases,
    misconceptions=[
        Misconception(
            lambda keys, selected: -_comparisons(keys, selected),
            "Your rows point from the selected token to the others. The selected token is to win, so its key "
            "comes first: k_alpha - k_t.",
        ),
        Misconception(
            _with_itself,
            "You kept t = alpha, where k_alpha - k_alpha = 0. The constraint p.0 >= 1 has no solution: leave "
            "that row out.",
        ),
        Misconception(
            _against_mean,
            "You compared each selected token with the mean of the others. It has to beat every single one: "
            "T - 1 rows a sequence.",
        ),
        Misconception(
            lambda keys, selected: _comparisons(keys, np.full_like(selected, selected[0])),
            "You used the first sequence's selected token in every sequence. Sequence i has its own, "
            "selected[i].",
        ),
    ],
)


# --------------------------------------------------------------------------- 06.2 the pushes


def _attention(p, keys):
    weights = np.exp(keys @ p - (keys @ p).max())
    return weights / weights.sum()


def _pushes(p, keys, scores, selected):
    s = _attention(p, keys)
    return s[selected] * s * (scores[selected] - scores)


def _pushes_other(coefficients):
    """A wrong answer from the attention s, the scores and the selected token."""

    def wrong(p, keys, scores, selected):
        return coefficients(_attention(p, keys), scores, selected)

    return wrong


PUSHES = Exercise(
    id="06.2",
    title="How hard each comparison pushes",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_pushes,
    cases=lambda rng: [
        (rng.normal(size=d), rng.normal(size=(T, d)), rng.uniform(-1, 1, size=T), int(rng.integers(T)))
        for T, d in ((3, 2), (4, 3), (6, 2))
    ],
    misconceptions=[
        Misconception(
            lambda *args: -_pushes(*args),
            "The sign is the other way round: a token with a lower score than the selected one pushes along "
            "+(k_alpha - k_t), so its number is positive.",
        ),
        Misconception(
            _pushes_other(lambda s, scores, a: scores[a] - scores),
            "You returned the score gaps alone. The softmax weighs them: a token that gets no attention "
            "exerts no force. Multiply by s_alpha s_t.",
        ),
        Misconception(
            _pushes_other(lambda s, scores, a: s * (scores[a] - scores)),
            "You left out the factor s_alpha. A pair of tokens acts through the product of both weights, "
            "s_alpha s_t.",
        ),
        Misconception(
            _pushes_other(lambda s, scores, a: s * (scores - s @ scores)),
            "That is the gradient of the output in the logits (lesson 05), one number a token. Here we want "
            "one number for each pair (alpha, t): s_alpha s_t (gamma_alpha - gamma_t).",
        ),
        Misconception(
            _pushes_other(lambda s, scores, a: s[a] * s * scores),
            "You used the score of token t itself. Only differences of scores matter: adding 1 to every "
            "score must not change your answer.",
        ),
    ],
)


# --------------------------------------------------------------------------- 06.3 steps to a norm


def _steps_needed(R, R0, t0, length):
    return t0 * np.exp((R - R0) / length)


STEPS = Exercise(
    id="06.3",
    title="How long until the norm is 100?",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_steps_needed,
    cases=lambda rng: [
        (*map(float, (R0 + rng.uniform(1.5, 6), R0, t0, length)),)
        for R0, t0, length in ((8.0, 1e4, 1.0), (5.0, 1e3, 0.7), (20.0, 5e4, 3.0))
    ],
    misconceptions=[
        Misconception(
            lambda R, R0, t0, length: t0 * R / R0,
            "You let the norm grow in proportion to the steps. That is normalised descent; under plain "
            "gradient descent the norm grows as ||p_mm|| log t.",
        ),
        Misconception(
            lambda R, R0, t0, length: t0 * np.exp((R - R0) * length),
            "You multiplied by the length of p_mm. The slope of the norm against log t is the length, so "
            "log t has to grow by (R - R0) / length.",
        ),
        Misconception(
            lambda R, R0, t0, length: np.exp((R - R0) / length),
            "That is the factor by which the number of steps grows. Multiply it by t0.",
        ),
        Misconception(
            lambda R, R0, t0, length: t0 + np.exp((R - R0) / length),
            "You added the factor to t0. A difference of logarithms is the logarithm of a ratio, "
            "log t - log t0 = log(t / t0), so multiply.",
        ),
        Misconception(
            lambda R, R0, t0, length: t0 * 10 ** ((R - R0) / length),
            "You undid the logarithm with powers of 10. The log in the law is the natural one: use exp.",
        ),
    ],
)


# --------------------------------------------------------------------------- 06.4 local optimality


def _beats_support(keys, scores, selected, p_mm):
    i = np.arange(len(keys))
    logits = keys @ p_mm
    margins = logits[i, selected][:, None] - logits
    support = np.isclose(margins, 1, atol=1e-6)
    return np.where(support, scores[i, selected][:, None] > scores, True).all(axis=1)


def _beats_other(over, better=np.greater):
    """A wrong answer: `over(margins, is_selected)` marks the tokens that the selected one has to beat."""

    def wrong(keys, scores, selected, p_mm):
        i = np.arange(len(keys))
        logits = keys @ p_mm
        margins = logits[i, selected][:, None] - logits
        mask = over(margins, np.arange(keys.shape[1]) == selected[:, None])
        return np.where(mask, better(scores[i, selected][:, None], scores), True).all(axis=1)

    return wrong


def _local_cases(rng):
    cases = []
    for n, T, d in ((1, 3, 2), (3, 4, 3), (5, 4, 4), (8, 5, 5)):
        keys, selected = _tokens(rng, n, T, d)
        p_mm = svm.solve(svm.token_problem(torch.as_tensor(keys), torch.as_tensor(selected))).value.numpy()
        i = np.arange(n)
        margins = (keys @ p_mm)[i, selected][:, None] - keys @ p_mm
        support = np.isclose(margins, 1, atol=1e-6)
        free = ~support & (np.arange(T) != selected[:, None])
        scores = rng.uniform(0, 1, size=(n, T))
        cases.append((keys, scores, selected, p_mm))
        beaten = np.where(support, scores - 1, np.where(free, scores + 1, scores))
        cases.append((keys, beaten, selected, p_mm))  # local, though tokens far away score more
        cases.append((keys, np.where(free, scores - 1, scores + 1 * support), selected, p_mm))  # the reverse
        tied = np.where(support, scores[i, selected][:, None], scores - 1)
        tied[i, selected] = scores[i, selected]
        cases.append((keys, tied, selected, p_mm))  # a tie with a support token
    return cases


LOCAL = Exercise(
    id="06.4",
    title="Who has to be beaten?",
    points=3,
    minutes=12,
    difficulty=3,
    reference=_beats_support,
    cases=_local_cases,
    misconceptions=[
        Misconception(
            _beats_other(lambda margins, own: ~own),
            "You compared with every token. That is global optimality; here only the support tokens count, "
            "those with p_mm.(k_alpha - k_t) = 1.",
        ),
        Misconception(
            _beats_other(lambda margins, own: np.isclose(margins, 1, atol=1e-6), np.greater_equal),
            "You accepted a tie. A support token with the same score exerts no force, so it does not hold p "
            "in place: the score of the selected token has to be strictly higher.",
        ),
        Misconception(
            _beats_other(lambda margins, own: ~own & ~np.isclose(margins, 1, atol=1e-6)),
            "You compared with the tokens that are not support tokens. Those are the ones whose force dies "
            "out exponentially faster.",
        ),
        Misconception(
            _beats_other(
                lambda margins, own: margins == np.where(own, np.inf, margins).min(1, keepdims=True)
            ),
            "You took the closest rival of each sequence as its support token. A sequence can have none: "
            "what counts is whether the margin is 1, not whether it is the sequence's smallest.",
        ),
        Misconception(
            lambda keys, scores, selected, p_mm: selected == scores.argmax(axis=1),
            "You asked whether the selected token has the best score. That is global optimality; a token can "
            "be locally optimal without it.",
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
        n, T, _ = X.shape
        pairs = [(i, t) for i in range(n) for t in range(T) if t != selected[i]]
        return np.array([row(X[i, selected[i]] - X[i, t], z[i], X[i, selected[i]]) for i, t in pairs])

    return wrong


def _matrix_cases(rng):
    cases = []
    for n, T, d in ((1, 3, 2), (2, 3, 3), (3, 4, 2)):
        X, selected = _tokens(rng, n, T, d)
        cases.append((X, rng.normal(size=(n, d)), selected))
    return cases


MATRIX = Exercise(
    id="06.5",
    title="The same comparisons for W",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_matrix_comparisons,
    cases=_matrix_cases,
    compare=Compare(rtol=1e-6, atol=1e-9),
    misconceptions=[
        Misconception(
            _matrix_other(lambda a, z, x: np.outer(z, a)),
            "Each matrix is transposed. In a^T W z the entry W[j, k] is multiplied by a_j z_k, which is "
            "therefore A[j, k].",
        ),
        Misconception(
            _matrix_other(lambda a, z, x: np.outer(a, a)),
            "You used the token difference twice. The right-hand factor is the query z_i.",
        ),
        Misconception(
            _matrix_other(lambda a, z, x: np.outer(x, z)),
            "You used the selected token alone. What has to be at least 1 is the difference of two logits: "
            "(x_alpha - x_t)^T W z.",
        ),
        Misconception(
            _matrix_other(lambda a, z, x: -np.outer(a, z)),
            "The sign is the other way round: the selected token comes first, x_alpha - x_t.",
        ),
        Misconception(
            _matrix_other(lambda a, z, x: a * z),
            "You multiplied entry by entry, which gives vectors. The unknown is a d x d matrix, so each row "
            "of the SVM is one too: np.outer(x_alpha - x_t, z_i).",
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
