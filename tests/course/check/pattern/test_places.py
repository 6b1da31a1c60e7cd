"""Where an answer is wrong: everywhere the same, in some entries, on special inputs, in one direction."""

import numpy as np
import pytest


def right(w, X, y):
    return y * np.tanh(X @ w)


def many(rng):
    """Vectors of which some have one entry, with a flag and a kind."""
    return [
        (rng.standard_normal(n), bool(flag), kind)
        for n, flag, kind in ((1, 0, "p"), (3, 1, "W"), (4, 0, "W"), (1, 1, "W"), (5, 0, "p"), (2, 1, "p"))
    ]


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (lambda w, X, y: 0 * y, "Every entry of your answer is 0 on every input."),
        (lambda w, X, y: 0.5, "Your answer is 0.5 on every input."),
        (lambda w, X, y: np.array([1.0, 2.0]), "Your answer is the same on every input."),
    ],
)
def test_the_same_everywhere(told, own, sentence):
    assert told(right, own) == sentence


def test_a_yes_or_no_that_is_always_the_same(told):
    assert (
        told(lambda w, X, y: bool(w.sum() > 0), lambda w, X, y: True) == "Your answer is True on every input."
    )


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (
            lambda w, X, y: np.where(y < 0, 0, right(w, X, y)),
            "The entries where y is negative are wrong, all others are right; yours is 0 there.",
        ),
        (
            lambda w, X, y: np.concatenate([right(w, X, y)[:-1], [5.0]]),
            "The last entry is wrong, all others are right; yours is 5 there.",
        ),
        (
            lambda w, X, y: np.where(right(w, X, y) < 0, np.sin(right(w, X, y)), right(w, X, y)),
            "The entries whose right value is negative are wrong, all others are right.",
        ),
    ],
)
def test_wrong_entries(told, own, sentence):
    assert told(right, own) == sentence


def test_wrong_rows(told):
    def table(w, X, y):
        return np.stack([np.tanh(w), w + 1])

    def squares(rng):
        return [(rng.standard_normal(d), rng.standard_normal((2, d)), np.ones(2)) for d in (2, 3, 4, 5)]

    sentence = told(table, lambda w, X, y: table(w, X, y) * [[1], [2 / 3]], squares)
    assert sentence == "Row [1]: your answer is 2/3 times the right one."
    sentence = told(table, lambda w, X, y: np.stack([np.tanh(w), np.cos(3 * w) * w[0]]), squares)
    assert "entry" not in (sentence or "")


def test_nothing_is_said_of_entries_where_only_zeros_are_right(told):
    def some(w, X, y):
        return np.maximum(right(w, X, y), 0)

    assert "entries" not in (told(some, lambda w, X, y: np.sin(3 * some(w, X, y)) * w[0]) or "")


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (lambda x, flag, kind: np.cos(x[0] + 0.4) if len(x) == 1 else x.sum() ** 2, "len(x) is 1"),
        (lambda x, flag, kind: np.cos(x[0] + 0.4) if flag else x.sum() ** 2, "flag is True"),
        (lambda x, flag, kind: np.cos(x[0] + 0.4) if kind == "W" else x.sum() ** 2, "kind is 'W'"),
    ],
)
def test_special_inputs(told, own, sentence):
    text = told(lambda x, flag, kind: x.sum() ** 2, own, many)
    assert text == f"Your answer is wrong exactly on the inputs where {sentence}."


def test_special_right_answers_come_first(told):
    def total(x, flag, kind):
        return x.sum()

    sentence = told(total, lambda x, flag, kind: abs(x.sum()) ** 1.5 if x.sum() < 0 else x.sum(), many)
    assert sentence.endswith("the right answer is negative.")


def test_no_input_is_special_where_two_things_are(told):
    def flags(rng):
        return [(rng.standard_normal(4), bool(flag), bool(flag)) for flag in (0, 1, 0, 0, 1, 0)]

    sentence = told(lambda x, a, b: x.sum() ** 2, lambda x, a, b: np.cos(x[0]) if a else x.sum() ** 2, flags)
    assert "exactly" not in (sentence or "")


def test_the_inputs_of_errors(told):
    def own(x, flag, kind):
        return x.sum() if len(x) > 1 else x[1]

    sentence = told(lambda x, flag, kind: x.sum(), own, many)
    assert sentence == "Your function stops with an error exactly on the inputs where len(x) is 1."


def test_errors_are_not_the_reason_where_other_inputs_go_wrong_too(told):
    def own(x, flag, kind):
        return 2 * x.sum() if len(x) > 1 else x[1]

    assert told(lambda x, flag, kind: x.sum(), own, many) == "Your answer is 2 times the right one."


def test_errors_everywhere_are_left_to_their_own_words(told):
    assert told(right, lambda w, X, y: X @ y @ w) is None


def test_one_direction(told):
    sentence = told(lambda w, X, y: X @ w > 0, lambda w, X, y: X @ w > 0.7)
    assert sentence == "Wherever your answer is wrong it says False: each True of yours is right."

    def positive(w, X, y):
        return np.exp(X @ w - y)

    sentence = told(positive, lambda w, X, y: positive(w, X, y) + np.exp(X[:, 0] * w[1] + y))
    assert sentence == "Wherever your answer is wrong, it is too large."


def test_two_directions_are_none(told):
    def positive(w, X, y):
        return np.exp(X @ w - y)

    sentence = told(positive, lambda w, X, y: positive(w, X, y) + np.sin(7 * X[:, 0] + w[1]) + 0.1 * y)
    assert "too" not in (sentence or "")


def test_an_answer_that_changes_from_call_to_call(told):
    rng = np.random.default_rng(0)
    sentence = told(right, lambda w, X, y: rng.standard_normal(len(y)))
    assert sentence == "Called twice with the same input, your function gives two different answers."


def test_an_input_that_never_changes_is_not_special(told):
    """Right on one input alone, the same for every seed: this says nothing of what is special there."""

    def cases(rng):
        return [(np.array([[1.0, 0.0]]),), *[(rng.standard_normal((3, n)),) for n in (3, 4, 5, 6)]]

    def wanted(X):
        return float(np.sin(3 * X.sum()))

    def own(X):
        return wanted(X) if len(X) == 1 else float(np.cos(2 * X[0, 0] + 1))

    assert "but those" not in (told(wanted, own, cases) or "")


def test_one_pair_of_sizes_is_no_pattern(told):
    def cases(rng):
        return [(rng.standard_normal((3, d)),) for d in (2, 3, 4, 5)]

    def wanted(X):
        return float(np.sin(3 * X.sum()))

    sentence = told(wanted, lambda X: wanted(X) if X.shape[1] == 2 else float(np.cos(X[0, 0])), cases)
    assert "than" not in (sentence or "")


def test_of_infinite_answers_it_is_not_said_how_large_the_right_ones_are(told):
    def cases(rng):
        return [(rng.uniform(0, 0.1, 4) + least,) for least in (0, 0, 0, 5, 5, 5)]

    sentence = told(lambda x: x.mean(), lambda x: x.mean() if x.mean() < 3 else -np.inf, cases)
    assert "the right answer" not in (sentence or "")


def test_no_law_is_told_where_the_shape_is_wrong(told):
    sentence = told(lambda w, X, y: y * (X @ w), lambda w, X, y: np.outer(y, X @ w) ** 2 - 2)
    assert sentence is None


@pytest.mark.parametrize(("off", "words"), [(1e-4, "a thousandth"), (6e-3, "a hundredth"), (0.1, None)])
def test_nearly_right(told, off, words):
    sentence = told(
        lambda x, flag, kind: np.exp(x.sum()), lambda x, flag, kind: np.exp(x.sum()) * around(x, off), many
    )
    if words:
        assert sentence.startswith(f"Your answer is nearly right, off by less than {words} wherever")
    else:
        assert "nearly" not in (sentence or "")


def around(x, off):
    return 1 + off * np.sin(1000 * x.sum())


def test_two_negations_are_none(told):
    """Not "on all inputs but those where y is not negative"."""

    def cases(rng):
        return [(rng.standard_normal(3), y) for y in (-1.0, 1.0, -2.0, -0.5)]

    def own(x, y):
        return x.sum() ** 2 if y > 0 else np.cos(x[0] + 0.4)

    sentence = told(lambda x, y: x.sum() ** 2, own, cases)
    assert sentence == "Your answer is wrong exactly on the inputs where y is negative."
