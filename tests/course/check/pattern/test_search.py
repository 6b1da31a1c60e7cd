"""The search as a whole: nothing by chance, no crash on junk, an end in time, known misconceptions first."""

import contextlib
import time
import weakref

import numpy as np
import pytest
import torch

from course.check.checking import verdict
from course.check.pattern.within import within
from course.check.specification import Exercise, Misconception


def right(w, X, y):
    return y * np.tanh(X @ w)


def other(w, X, y):
    return y * np.tanh(X @ w + 0.2) * X[:, 0] ** 2


@pytest.mark.parametrize(
    "junk",
    [
        lambda w, X, y: None,
        lambda w, X, y: "three",
        lambda w, X, y: {},
        lambda w, X, y: [],
        lambda w, X, y: [[1.0], [2.0, 3.0]],
        lambda w, X, y: np.array([]),
        lambda w, X, y: np.array(["a", "b"]),
        lambda w, X, y: np.array([None, 1.0]),
        lambda w, X, y: right(w, X, y) * 1j,
        lambda w, X, y: right(w, X, y) * np.nan,
        lambda w, X, y: right(w, X, y) / np.zeros(len(y)),
        lambda w, X, y: 1e308 * right(w, X, y) * 10,
        lambda w, X, y: 1e-320 * right(w, X, y),
        lambda w, X, y: right,
        lambda w, X, y: (right(w, X, y), 1),
        lambda w, X, y: torch.tensor(other(w, X, y)),
        lambda w, X, y: torch.tensor(other(w, X, y)).float(),
        lambda w, X, y: np.ones((3,) * 12),
        lambda w, X, y: exit(),
        lambda w, X, y: X.sort(),
        lambda w, X, y: 10**400,
        lambda w, X, y: np.broadcast_to(0.0, (10**5, 10**5)),
    ],
)
def test_junk_does_no_harm(told, junk):
    sentence = told(right, junk)
    assert sentence is None or sentence.endswith(".")
    several = told(lambda w, X, y: (right(w, X, y), 1.0, "left"), junk)
    assert several is None or several.endswith(".")


def test_of_a_new_formula_nothing_false_is_said(told):
    sentence = told(right, lambda w, X, y: other(w, X, y) - y)
    assert sentence == "With w negated, the right answer changes its sign, but yours does not."


@pytest.mark.parametrize("seed", range(40))
def test_noise_has_no_pattern(told, seed):
    """Answers of whole numbers, of yes or no, or with digits, that depend on everything in no way."""

    def noise(w, X, y):
        size = [(), (2,), (len(y),)][seed % 3]
        rng = np.random.default_rng([seed, *np.float64([w[0], X[0, 0], X[-1, -1], y.sum()]).view(np.uint32)])
        draws = (rng.standard_normal(size), rng.integers(0, 4, size), rng.random(size) < 0.5)
        return draws[seed // 3 % 3]

    def another(w, X, y):
        return noise(np.cos(w + seed), X, y)

    said = told(noise, another)
    assert said is None or said.startswith(("Wherever", "With ")), said


def test_a_known_misconception_comes_first():
    spec = Exercise(
        id="99.1",
        title="Sum",
        points=1,
        minutes=1,
        difficulty=1,
        reference=lambda x: x.sum(),
        cases=lambda rng: [(rng.standard_normal(n),) for n in (2, 3, 4)],
        misconceptions=[Misconception(lambda x: -x.sum(), "Mind the sign.")],
    )
    assert verdict(spec, lambda x: -x.sum()).text.endswith("Hint: Mind the sign.")
    assert verdict(spec, lambda x: x.sum() ** 2).text.endswith(
        "Hint: Your answer is the square of the right one."
    )
    both = verdict(spec, lambda x: -3 * x.sum()).text
    assert both.endswith("Hint: Your answer is minus 3 times the right one.")


def test_a_misconception_with_a_slip(told):
    known = [Misconception(lambda w, X, y: right(w, X, y) * np.exp(X[:, 0]), "Leave out the exponential.")]
    sentence = told(right, lambda w, X, y: -right(w, X, y) * np.exp(X[:, 0]), misconceptions=known)
    assert sentence == "Two things at once. Leave out the exponential. Then you return minus that."


def test_a_misconception_on_most_inputs(told):
    def linear(w, X, y):
        return y * (X @ w)

    def on(fits):
        return lambda w, X, y: linear(w, X, y) if fits(len(w)) else other(w, X, y)

    known = [Misconception(linear, "Take tanh.")]
    said = "On most of the inputs where your answer is wrong: Take tanh."
    assert told(right, on(lambda d: d < 4), misconceptions=known) == said
    assert "Take tanh" not in (told(right, on(lambda d: d == 3), misconceptions=known) or "")


def test_a_misconception_about_one_value(told):
    known = [Misconception(lambda w, X, y: (right(w, X, y) ** 3 + X[:, 0], w), "No cubes.")]

    def own(w, X, y):
        return right(w, X, y) ** 3 + X[:, 0], np.sin(w + 1)

    assert told(lambda w, X, y: (right(w, X, y), w), own, misconceptions=known) == "Value 1 of 2: No cubes."


def test_what_is_printed_and_warned_stays_away(told, capsys, recwarn):
    def loud(w, X, y):
        print("here")
        return -right(w, X, y) + np.log(np.zeros(1)) * 0 if w[0] > 9 else -right(w, X, y)

    assert told(right, loud) == "Your answer is minus the right one."
    assert capsys.readouterr().out == ""
    assert not recwarn.list


def test_inputs_are_not_changed(told):
    kept = []

    def cases(rng):
        if not kept:
            kept.extend((rng.standard_normal(3),) for _ in range(4))
        return kept

    before = None

    def spoils(x):
        x *= 2
        return np.sin(x)

    before = [case[0].copy() for case in cases(np.random.default_rng(0))]
    told(lambda x: x / 2, spoils, cases)
    assert all(np.array_equal(one, case[0]) for one, case in zip(before, kept, strict=True))


def test_slow_functions_are_not_called_long(told):
    def slow(w, X, y):
        time.sleep(0.02)
        sum(range(200_000))
        return other(w, X, y)

    start = time.thread_time()
    told(right, slow)
    assert time.thread_time() - start < 2


def test_a_function_that_never_ends_is_left():
    def endless():
        while True:
            pass

    start = time.monotonic()
    assert within(0.2, endless) is None
    assert time.monotonic() - start < 5


def test_time_is_up_again_where_python_ignored_it(capfd):
    class Held:
        pass

    def spin(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    def call():
        held = Held()
        watched = weakref.ref(held, lambda gone: spin(0.4))
        del held  # the callback runs, and the exception arrives in it
        spin(20)
        return watched

    start = time.monotonic()
    assert within(0.1, call) is None
    assert time.monotonic() - start < 5
    spin(0.7)  # nothing arrives later
    assert "ignored" not in capfd.readouterr().err


def test_within_returns_and_raises_as_the_function_does():
    assert within(5, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)


def test_a_function_may_catch_even_the_end_of_time():
    def stubborn():
        start = time.monotonic()
        while time.monotonic() - start < 0.5:
            with contextlib.suppress(BaseException):
                sum(range(1000))
        return "done"

    assert within(0.1, stubborn) in ("done", None)


def test_a_wrong_yes_is_not_called_the_opposite_of_the_right_answer(told):
    cases = lambda rng: [(rng.standard_normal(), rng.standard_normal()) for _ in range(60)]  # noqa: E731
    found = told(lambda a, b: bool(a > 0), lambda a, b: bool(a + b > 0), cases=cases)
    assert found is None or "1 minus" not in found


def test_of_an_answer_with_a_wrong_shape_no_input_is_blamed(told):
    found = told(lambda w, X, y: X @ w > 0, lambda w, X, y: np.r_[X.sum(0), X[0]] > 0)
    assert found is None or "stays the same" not in found
