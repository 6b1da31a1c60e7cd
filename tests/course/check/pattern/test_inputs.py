"""Answers that are right for another input, that are an input, or that leave one out."""

import numpy as np
import pytest

from course.check.pattern.evidence import Evidence
from course.check.pattern.laws import law
from course.check.specification import Compare


def right(w, X, y):
    """A sum in which every input counts, in its own way."""
    return np.tanh(X @ w) * y - 0.1 * y * X[:, 0]


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (lambda w, X, y: right(-w, X, y), "-w in place of w"),
        (lambda w, X, y: right(2 * w, X, y), "2 * w in place of w"),
        (lambda w, X, y: right(w**2, X, y), "w ** 2 in place of w"),
        (lambda w, X, y: right(w / np.linalg.norm(w), X, y), "w / norm(w) in place of w"),
        (lambda w, X, y: right(w[::-1], X, y), "w[::-1] in place of w"),
        (lambda w, X, y: right(w, X - X.mean(0), y), "X with the mean of its rows taken off in place of X"),
        (lambda w, X, y: right(w, X[:, ::-1], y), "X[:, ::-1] in place of X"),
        (lambda w, X, y: right(w, np.abs(X), y), "abs(X) in place of X"),
        (
            lambda w, X, y: right(w, np.repeat(X[:1], len(X), 0), y),
            "the first entry of X for all in place of X",
        ),
        (lambda w, X, y: right(w, X, np.roll(y, 1)), "np.roll(y, 1, axis=0) in place of y"),
        (lambda w, X, y: right(0 * w, X, y), "0 in place of w"),
        (lambda w, X, y: right(w, X, 1 + 0 * y), "1 in place of y"),
    ],
)
def test_right_for_another_input(told, own, words):
    assert told(right, own) == f"Your answer is the right one for {words}."


def test_all_changes_that_explain_an_answer_are_named(told):
    sentence = told(lambda w, X, y: X.T @ (X @ w - y.sum()), lambda w, X, y: X.T @ (X @ w + y.sum()))
    assert sentence == "Your answer is the right one for -X in place of X, or -y in place of y."


def test_nobody_meant_the_logarithm_of_labels(told):
    """Wrong where all labels are 1, whose logarithm is 0."""

    def cases(rng):
        return [(rng.standard_normal(3), y) for y in (np.ones(3), np.array([1.0, -1.0, 1.0]), np.ones(3))]

    def own(w, y):
        return np.tanh(w @ y if (y < 0).any() else 0.0) + w.sum()

    assert "log" not in (told(lambda w, y: np.tanh(w @ y) + w.sum(), own, cases) or "")
    positive = lambda rng: [(rng.uniform(1, 2, n),) for n in (2, 3, 4)]  # noqa: E731
    sentence = told(lambda w: np.sin(w).sum(), lambda w: np.sin(np.log(w)).sum(), positive)
    assert sentence == "Your answer is the right one for log(w) in place of w."


def test_two_inputs_exchanged(told):
    def cases(rng):
        return [(rng.standard_normal(n), rng.standard_normal(n)) for n in (2, 3, 4)]

    sentence = told(lambda a, b: a / np.linalg.norm(b), lambda a, b: b / np.linalg.norm(a), cases)
    assert sentence == "Your answer is the right one for a and b exchanged."


def test_counts_stay_counts(told):
    def cases(rng):
        return [(rng.standard_normal(3), n) for n in (2, 3, 4, 5)]

    called = []

    def power(w, n):
        called.append(n)
        return w * np.sqrt(n + 0.3)

    assert (
        told(power, lambda w, n: w * np.sqrt(n - 0.7), cases)
        == "Your answer is the right one for n - 1 in place of n."
    )
    assert min(called) >= 1
    assert max(called) <= 10


def test_no_count_comes_to_0(told):
    called = []

    def power(w, n):
        called.append(n)
        return w * np.sqrt(n + 0.3)

    told(power, lambda w, n: np.sin(w) * n, lambda rng: [(rng.standard_normal(3), n) for n in (1, 2, 3)])
    assert min(called) >= 1


def test_no_array_changes_its_size_alone(told):
    sizes = set()

    def watched(w, X, y):
        sizes.add((len(X) == len(y), X.shape[1] == len(w), bool(len(y))))
        return right(w, X, y)

    def wide(rng):
        return [(rng.standard_normal(4), rng.standard_normal((n, 4)), np.ones(n)) for n in (2, 3, 5)]

    told(watched, lambda w, X, y: np.cos(right(w, X, y)) + X[:, 0] ** 3, wide)
    assert sizes == {(True, True, True)}


def test_only_some_of_the_points(told):
    def total(w, X, y):
        return (y * np.tanh(X @ w)).sum()

    sentence = told(total, lambda w, X, y: total(w, X[1:], y[1:]))
    assert sentence == "Your answer is the right one for X and y without the first."


def test_an_input_that_is_not_used(told):
    sentence = told(right, lambda w, X, y: np.tanh(X @ w) - 0.3 * X[:, 1])
    assert sentence == "Your answer stays the same when y changes, the right one does not."
    sentence = told(right, lambda w, X, y: np.sin(X[:, 0]))
    assert sentence == "Your answer stays the same when w or y changes, the right one does not."


def test_an_input_that_counts_where_the_answer_is_right_is_used(told):
    def cases(rng):
        return [(n, float(n)) for n in range(1, 9)]

    sentence = told(lambda n, size: n * size**1.5, lambda n, size: min(50.0, n * size**1.5), cases)
    assert "when" not in sentence


def test_infinite_answers_do_not_show_what_is_used(told):
    sentence = told(right, lambda w, X, y: right(w, X, y) / np.zeros(1))
    assert "stays the same" not in (sentence or "")


@pytest.mark.parametrize("count", [3, 4])
def test_a_law_has_to_hold_on_four_inputs(count):
    cases = [(np.array([number, 1.0, -2.0]),) for number in range(1, count + 1)]

    def turned(x):
        return x / np.linalg.norm(x)

    def longer(x):
        return np.sin(x) * np.linalg.norm(x)

    evidence = Evidence(
        names=["x"],
        cases=cases,
        right=[turned(*case) for case in cases],
        given=[longer(*case) for case in cases],
        wrong=[True] * count,
        reference=turned,
        own=longer,
        compare=Compare(),
        deadline=np.inf,
    )
    assert (law(evidence) is not None) == (count == 4)


def test_of_an_input_that_does_not_matter_nothing_is_said(told):
    def sums(w, X, y):
        return X @ w

    assert "y" not in told(sums, lambda w, X, y: -(X @ w))
    assert "when y" not in (told(sums, lambda w, X, y: np.sin(X @ w) + 2) or "")


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (lambda w, X, y: w, "w"),
        (lambda w, X, y: X[:, 0], "X[:, 0]"),
        (lambda w, X, y: X.mean(0), "the mean of each column of X"),
        (lambda w, X, y: np.linalg.norm(X), "norm(X)"),
        (lambda w, X, y: np.linalg.norm(X, 2), "the largest singular value of X"),
    ],
)
def test_an_answer_that_is_an_input(told, own, words):
    assert told(right, own) == f"Your answer is {words} on every input."


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (lambda w, X, y: X @ w, "With w doubled, the right answer stays the same, but yours doubles."),
        (
            lambda w, X, y: np.abs(X @ w) / np.linalg.norm(w),
            "With w negated, the right answer changes its sign, but yours stays the same.",
        ),
    ],
)
def test_a_law_that_the_right_answer_keeps(told, own, sentence):
    def cosine(w, X, y):
        return X @ w / np.linalg.norm(w) / np.linalg.norm(X, axis=1) / (1 + np.linalg.norm(X, axis=1))

    assert told(cosine, lambda w, X, y: own(w, X, y) * (1 + X[:, 0] ** 2)) == sentence


def test_lengths_are_not_negated(told):
    def cases(rng):
        return [(rng.random(), rng.random()) for _ in range(5)]

    sentence = told(lambda a, b: abs(a) * abs(b) ** 3 + 1, lambda a, b: a * b**2 + np.sin(a * b), cases)
    assert "negated" not in (sentence or "")


def test_a_vector_has_no_columns(told, vectors):
    """The sum of a vector is called its sum, not that of each of its columns."""
    assert (
        told(lambda x: np.sin(x).sum(), lambda x: x.sum(), vectors)
        == "Your answer is x.sum() on every input."
    )
    place = told(lambda x: np.sin(x).sum(), lambda x: x.argmax(), vectors)
    assert "row" not in (place or "")
