"""Answers that are a form of the right one: minus it, its sum, its order reversed, a factor times it."""

import numpy as np
import pytest


def right(w, X, y):
    return y * (X @ w)


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        (lambda x: -x, "Your answer is minus the right one."),
        (lambda x: x**2, "Your answer is the square of the right one."),
        (lambda x: 1 / x, "Your answer is 1 divided by the right one."),
        (lambda x: 1 - x, "Your answer is 1 minus the right one."),
        (lambda x: np.exp(x), "Your answer is e to the power of the right one."),
        (lambda x: np.abs(x), "Wherever it is wrong, your answer is the right one without its sign."),
        (lambda x: 3 * x, "Your answer is 3 times the right one."),
        (lambda x: x / 2, "Your answer is 1/2 times the right one."),
        (lambda x: 1.234 * x, "Your answer is 1.234 times the right one."),
        (
            lambda x: x / np.log(10),
            "Your answer is 1/log(10) (base 10 in place of e) times the right one.",
        ),
        (lambda x: x + 1, "Your answer is the right one plus 1."),
        (lambda x: x - 2, "Your answer is the right one minus 2."),
        (lambda x: x[::-1], "Your answer is the right one, in reversed order."),
        (lambda x: np.roll(x, 1), "Your answer is the right one, moved on by one place."),
        (lambda x: x / np.linalg.norm(x), "Your answer is the right one divided by its length."),
        (lambda x: x - x.mean(), "Your answer is the right one minus its mean."),
        (lambda x: x.sum(), "Your answer is the sum of the entries of the right one."),
        (lambda x: x.max(), "Your answer is the largest of the entries of the right one."),
        (
            lambda x: np.full_like(x, x.mean()),
            "Your answer is the mean of the entries of the right one, repeated.",
        ),
        (lambda x: np.cumsum(x), "Your answer is the running sum of the right one."),
        (lambda x: x[1:], "Your answer is the right one without its first entry."),
        (lambda x: np.round(x), "Your answer is the right one rounded to a whole number."),
    ],
)
def test_a_form_of_the_right_answer(told, form, sentence):
    assert told(right, lambda w, X, y: form(right(w, X, y))) == sentence


def test_a_form_of_a_number(told):
    assert (
        told(lambda w, X, y: X[0] @ w, lambda w, X, y: -(X[0] @ w)) == "Your answer is minus the right one."
    )
    assert told(lambda w, X, y: X[0] @ w, lambda w, X, y: np.exp(X[0] @ w)).startswith("Your answer is e to")


def test_a_form_of_a_matrix(told):
    def square(rng):
        return [(rng.standard_normal((n, n)),) for n in (2, 3, 4)]

    assert (
        told(lambda A: A @ A, lambda A: (A @ A).T, square) == "Your answer is the transpose of the right one."
    )
    sums = told(lambda A: A @ A, lambda A: (A @ A).sum(0), square)
    assert sums == "Your answer is the sum of each column of the right one."


def test_true_and_false_exchanged(told):
    sentence = told(lambda w, X, y: X @ w > 0, lambda w, X, y: X @ w <= 0)
    assert sentence == "Your answer says True where False is right, and False where True is."


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (lambda w, X, y: len(y), "len(X)"),
        (lambda w, X, y: 1 / len(y), "1 / len(X)"),
        (lambda w, X, y: np.linalg.norm(w), "norm(w)"),
        (lambda w, X, y: 1 / (w @ w), "1 / norm(w) ** 2"),
        (lambda w, X, y: -2 * np.linalg.norm(w), "minus 2 * norm(w)"),
        (lambda w, X, y: np.linalg.norm(w) / np.abs(w).sum(), "norm(w) / abs(w).sum()"),
        (lambda w, X, y: np.linalg.norm(w) * np.linalg.norm(X), "norm(w) * norm(X)"),
    ],
)
def test_a_factor_from_the_inputs(told, factor, words):
    sentence = told(right, lambda w, X, y: factor(w, X, y) * right(w, X, y))
    assert sentence == f"Your answer is {words} times the right one."


def test_a_number_added_from_the_inputs(told):
    sentence = told(right, lambda w, X, y: right(w, X, y) + np.linalg.norm(w))
    assert sentence == "Your answer is the right one plus norm(w)."


def test_a_factor_that_nothing_explains(told):
    def off(w, X, y):
        return right(w, X, y) * np.cosh(w[0] + 3 * w[1])

    assert told(right, off).startswith("Your answer has the right direction, but not the right length")


def test_where_only_the_direction_counts_a_length_is_no_form(told):
    turned = told(right, lambda w, X, y: -3 * right(w, X, y), up_to_scale=True)
    assert turned == "Your answer is minus the right one."


def test_values_exchanged(told):
    sentence = told(lambda w, X, y: (w.sum(), X.sum()), lambda w, X, y: (X.sum(), w.sum()))
    assert sentence == "Values 1 and 2 of your answer are exchanged."


def test_one_value_of_a_tuple(told):
    sentence = told(lambda w, X, y: (w.sum(), X.sum()), lambda w, X, y: (w.sum(), -X.sum()))
    assert sentence == "Value 2 of 2: your answer is minus the right one."


def test_one_entry_of_a_short_array(told):
    sentence = told(
        lambda w, X, y: np.array([w.sum(), X.sum(), X.max()]),
        lambda w, X, y: np.array([w.sum(), 2 * X.sum(), X.max()]),
    )
    assert sentence == "Entry [1]: your answer is 2 times the right one."
