"""What is said of a wrong answer: on which input, what is wrong, and the misconception if it is known."""

import dataclasses
import errno
import os

import numpy as np
import pytest
import torch

from course.check.checking import problem_with, recognise, verdict
from course.check.specification import PUBLIC_SEED, Compare, Exercise, Misconception
from course.check.trying import run, unheard


def mean_rows(X, w):
    return w @ X / w.sum()


def no_weights(X, w):
    return X.mean(axis=0)


def not_normalised(X, w):
    return w @ X


MEAN = Exercise(
    id="99.1",
    title="A weighted mean",
    points=2,
    minutes=5,
    difficulty=1,
    reference=mean_rows,
    cases=lambda rng: [
        (np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 0.5])),
        (np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 3.0])),
        (rng.standard_normal((5, 3)), rng.random(5)),
        (rng.standard_normal((6, 3)), rng.random(6)),
    ],
    misconceptions=[
        Misconception(no_weights, "The weights are not used."),
        Misconception(not_normalised, "Divide by the sum of the weights."),
    ],
)
DIRECTION = Exercise(
    id="99.2",
    title="A direction",
    points=1,
    minutes=5,
    difficulty=1,
    reference=lambda x: x,
    cases=lambda rng: [(rng.standard_normal(4),)],
    compare=Compare(up_to_scale=True),
)
PAIR = Exercise(
    id="99.3",
    title="Two values",
    points=1,
    minutes=5,
    difficulty=1,
    reference=lambda n, name: (n * n, name + "!"),
    cases=lambda rng: [(3, "a"), (4, "b")],
)


SPECS = {spec.id: spec for spec in (MEAN, DIRECTION, PAIR)}


def told(function, spec="99.1"):
    """What a check of exercise 99.1 (or another, or of a specification) says about a function."""
    return verdict(SPECS.get(spec, spec) if isinstance(spec, str) else spec, function).text


def test_known_misconception_on_the_input_that_shows_it():
    text = told(no_weights)
    assert text.startswith("✗ 99.1 A weighted mean: not right yet. On input 2 of 4:\n")
    assert "X = [[1., 2.], [3., 4.]]\n" in text
    assert "w = [1., 3.]\n" in text
    assert "Expected:    [2.5, 3.5]\n" in text
    assert "Your answer: [2., 3.]\n" in text
    assert text.endswith("Hint: The weights are not used.")
    assert told(not_normalised).endswith("Hint: Divide by the sum of the weights.")


def test_a_misconception_is_named_only_if_it_explains_every_wrong_input():
    def mostly_not_normalised(X, w):
        return no_weights(X, w) if w[0] == 1.0 else not_normalised(X, w)

    def sometimes_not_normalised(X, w):
        return mean_rows(X, w) if w[0] == 1.0 else not_normalised(X, w)

    text = told(mostly_not_normalised)
    assert not any(text.endswith(f"Hint: {known.message}") for known in MEAN.misconceptions)
    assert told(sometimes_not_normalised).endswith("Hint: Divide by the sum of the weights.")


def test_of_two_misconceptions_the_one_that_agrees_more_often_is_named():
    def only_long(X, w):
        return mean_rows(X, w) if len(w) == 2 else not_normalised(X, w)

    both = [Misconception(only_long, "Short ones."), *MEAN.misconceptions]
    for known in (both, both[::-1]):
        spec = dataclasses.replace(MEAN, misconceptions=known)
        assert told(only_long, spec).endswith("Hint: Short ones.")


def test_a_misconception_that_only_has_to_be_near_comes_last(monkeypatch):
    near = Misconception(lambda X, w: mean_rows(X, w) + 0.01, "Close.", Compare(rtol=0, atol=0.5))

    def only_long(X, w):
        return mean_rows(X, w) + 0.1 * (len(w) > 2)

    spec = dataclasses.replace(MEAN, misconceptions=[near, Misconception(only_long, "Long ones.")])
    assert told(only_long, spec).endswith("Hint: Long ones.")
    cases = spec.draw(1)
    expected, given = ([run(f, case, spec.parameters) for case in cases] for f in (spec.reference, only_long))
    problems = [problem_with(spec, *pair) for pair in zip(expected, given, strict=True)]
    assert recognise(spec, cases, given, problems) == "Long ones."
    assert told(lambda X, w: 1.01 * mean_rows(X, w), spec).endswith(
        "Hint: Your answer is 1.01 times the right one."
    )
    monkeypatch.setattr("course.check.checking.pattern", lambda *_: None)
    assert told(lambda X, w: 1.01 * mean_rows(X, w), spec).endswith("Hint: Close.")


def test_a_misconception_is_named_only_if_further_inputs_bear_it_out():
    spec = dataclasses.replace(
        MEAN,
        reference=lambda x: x if x > 1 else 0.0,
        cases=lambda rng: [(3.0,), (0.5 if rng.integers(10**6) == first else rng.uniform(0, 1),)],
        misconceptions=[Misconception(lambda x: x if x > 1 else 0.25, "Below 1 it is 0.")],
    )
    first = np.random.default_rng(PUBLIC_SEED).integers(10**6)
    assert told(lambda x: x if x > 1 else 0.25, spec).endswith("Hint: Below 1 it is 0.")
    assert "Below 1" not in told(lambda x: x if x > 1 else x / 2, spec)


def test_two_wrong_answers_to_a_yes_or_no_question_agree_by_themselves():
    spec = dataclasses.replace(
        MEAN,
        reference=lambda x: x > 2,
        cases=lambda rng: [(1.0,), (3.0,), (5.0,)],
        misconceptions=[Misconception(lambda x: False, "It can be true.")],
    )
    assert told(lambda x: x > 6, spec).endswith("Hint: It can be true.")
    assert "It can" not in told(lambda x: x > 4, spec)  # wrong on the second input only, where both say no


def test_a_misconception_that_differs_on_a_wrong_input_is_tried_no_further():
    calls = []

    def counted(X, w):
        calls.append(w)
        return no_weights(X, w)

    spec = dataclasses.replace(MEAN, misconceptions=[Misconception(counted, "The weights are not used.")])
    assert "The weights" not in told(not_normalised, spec)
    assert len(calls) == 1


def test_complex_answers_are_recognised_too():
    def rotated(X, w):
        return mean_rows(X, w) * 1j

    spec = dataclasses.replace(MEAN, misconceptions=[Misconception(rotated, "Leave out the 1j.")])
    assert told(rotated, spec).endswith("Hint: Leave out the 1j.")
    assert "Hint" not in told(lambda X, w: mean_rows(X, w) * 2j, spec)


def test_what_is_complex_by_rounding_is_told_like_its_real_part():
    def rounded(function):
        return lambda X, w: function(X, w) + 1e-12j

    assert told(rounded(mean_rows)) == told(mean_rows)
    assert told(rounded(no_weights)) == told(no_weights)
    assert "The weights" in told(no_weights)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda X, w: None, "None. Does your function end in `return ...`?"),
        (lambda X, w: X.sort(), "None. What your function returns has no value on this input."),
        (lambda X, w: print("here", 3), "It printed 'here 3', but a check reads what is returned."),
        (lambda X, w: mean_rows(X, w)[None], "it has shape (1, 2), expected (2,)"),
        (lambda X, w: 3.0, "it is a single number, expected an array of shape (2,)"),
        (lambda X, w: -mean_rows(X, w), "it has the opposite sign"),
        (lambda X, w: 5 * mean_rows(X, w), "every entry is 5 times what it should be"),
        (
            lambda X, w: mean_rows(X, w) + np.array([0, 1e-3]),
            "1 of 2 entries differ, most of all [1]: expected 3., got 3.001",
        ),
        (lambda X, w: mean_rows(X, w) * np.array([1, 0]), "most of all [1]: expected 3., got 0."),
        (lambda X, w: mean_rows(X, w) * np.nan, "it has a NaN"),
        (lambda X, w: mean_rows(X, w) / np.zeros(1), "it has an infinity"),
        (lambda X, w: mean_rows(X, w) / np.zeros(1), "warned: divide by zero"),
        (lambda X, w: {"mean": mean_rows(X, w)}, "it is an object of type dict, expected an array"),
        (lambda X, w: "2, 3", "it is a string, expected an array"),
        (lambda X, w: mean_rows, "it is a function, expected an array"),
        (lambda X, w: [[1.0], [2.0, 3.0]], "it is an object of type list, expected an array"),
        (lambda X, w: np.array([None, None]), "it is an array of objects, expected an array"),
        (lambda X, w: np.array(["2", "3"]), "it is an array of strings, expected an array"),
        (lambda X, w: mean_rows(X, w) + 1j, "it is an array of complex numbers, expected"),
        (lambda X, w: np.broadcast_to(0.0, (10**6, 10**6)), "it has shape (1000000, 1000000), expected (2,)"),
        (lambda X, w: 1 / 0, "none, it stopped with ZeroDivisionError: division by zero"),
        (lambda X, w: np.ones(3) @ X, "none, it stopped with ValueError: "),
        (lambda X, w: exit(), "none, it stopped with SystemExit"),
        (lambda X, w: unknown, "NameError: name 'unknown' is not defined"),
        (lambda X: X, "your function takes (X), it should take (X, w)."),
        (lambda X, w, n: X, "your function takes (X, w, n), it should take (X, w)."),
        (lambda X, *, w: X, "takes (X, *, w), it should take (X, w); what stands after the * can only be"),
        (np.ones(2), "check needs your function itself, without parentheses; it got an array of shape (2,)."),
    ],
)
def test_what_went_wrong_is_said(answer, sentence):
    text = told(answer)
    assert text.startswith("✗ 99.1 A weighted mean")
    assert sentence in text
    assert "0x" not in text
    assert "Traceback" not in text
    assert not text.endswith("..")


def test_the_line_that_failed_is_quoted():
    def mean(X, w):
        scaled = w / w.sum()
        return scaled @ X.undefined

    text = told(mean)
    assert "AttributeError: 'numpy.ndarray' object has no attribute 'undefined'" in text
    assert "in your line `return scaled @ X.undefined`" in text
    assert ".py" not in text


def test_changed_inputs_are_noticed_and_do_not_reach_the_next_function():
    def in_place(X, w):
        w /= w.sum()
        return w @ X

    text = told(in_place)
    assert "On input 2 of 4" in text  # the first input's weights already sum to one
    assert "it changes its input w in place" in text
    assert "w = [1., 3.]" in text
    assert told(mean_rows).startswith("✓")


def test_what_a_notebook_asked_of_numpys_errors_refuses_no_right_answer():
    steep = dataclasses.replace(DIRECTION, reference=lambda x: 1 / (1 + np.exp(1e4 * x)))

    def own(x):
        np.seterr(over="raise")
        return 1 / (1 + np.exp(1e4 * x))

    with np.errstate(all="raise"):
        assert verdict(steep, steep.reference).passed
        assert verdict(steep, own).passed is False  # asked for in the function itself, it counts there
        assert np.geterr()["under"] == "raise"
        assert verdict(steep, steep.reference).passed


def test_flood_of_output_is_cut():
    def chatty(X, w):
        for _ in range(1000):
            print("x" * 1000)

    assert len(told(chatty)) < 1000
    assert len(run(chatty, MEAN.draw(1)[0], MEAN.parameters).printed) == 400


def test_objects_that_pretend_are_not_believed():
    class Equal:
        shape, dtype, ndim = (2,), np.float64, 1

        def __eq__(self, other):
            return True

        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("no")

    assert "it is an object of type Equal" in told(lambda X, w: Equal())
    assert "it is an object of type Equal" in told(lambda n, name: Equal(), "99.3")


def test_direction_ignores_length_but_not_sense():
    assert told(lambda x: 3 * x, "99.2").startswith("✓")
    assert "opposite sign" in told(lambda x: -x, "99.2")
    assert told(lambda x: x + 0.1, "99.2").startswith("✗")
    assert told(lambda x: 0 * x, "99.2").startswith("✗")


def test_misconception_about_changed_inputs_needs_changed_inputs():
    def in_place(n, name):
        n *= 1
        n[0] = 0
        return n.sum(), name

    counted = Exercise(
        id="99.1",
        title="Sum",
        points=1,
        minutes=1,
        difficulty=1,
        reference=lambda n, name: (n.sum() - n[0], name),
        cases=lambda rng: [(np.array([0.0, 1.0]), "a"), (np.array([1.0, 1.0]), "b")],
        misconceptions=[Misconception(in_place, "Work on a copy.")],
    )
    assert "Hint: Work on a copy." in told(in_place, counted)
    assert "Hint" not in told(lambda n, name: (n.sum() - n[0], "a"), counted)
    assert "Hint" not in told(lambda n, name: (n[1], "c" if n[0] == 0 else "b"), counted)


def test_single_precision_gets_its_own_tolerance():
    single = np.float32(1 + 3e-6)
    assert told(lambda X, w: np.float32(mean_rows(X, w)) * single).startswith("✓")
    assert told(lambda X, w: torch.tensor(mean_rows(X, w)).float() * float(single)).startswith("✓")
    assert told(lambda X, w: mean_rows(X, w) * float(single)).startswith("✗")
    assert told(lambda X, w: np.float32(mean_rows(X, w)) * np.float32(1.001)).startswith("✗")


def test_several_values():
    assert told(lambda n, name: [n**2, f"{name}!"], "99.3").startswith("✓")
    assert told(lambda n, name: (float(n**2), f"{name}!"), "99.3").startswith("✓")
    assert "in value 1 of 2, the number differs" in told(lambda n, name: (n, name + "!"), "99.3")
    assert "in value 2 of 2, it differs" in told(lambda n, name: (n**2, name), "99.3")
    assert "in value 2 of 2, it is a number" in told(lambda n, name: (n**2, 1), "99.3")
    assert "it has 3 values, expected 2" in told(lambda n, name: (n**2, name, 1), "99.3")
    assert "it is a number, expected 2 values" in told(lambda n, name: n**2, "99.3")


def test_same_words_every_time():
    assert told(no_weights) == told(no_weights)


def test_no_hint_blames_a_formula_for_what_float32_cannot_hold():
    spec = dataclasses.replace(
        MEAN,
        cases=lambda rng: [(1e-60 * rng.random((2, 2)), np.ones(2))],
        misconceptions=[Misconception(lambda X, w: 0 * X[0], "It cancels.")],
        compare=Compare(atol=0),
    )
    assert "Hint: It cancels." in told(lambda X, w: 0 * X[0], spec)
    text = told(lambda X, w: np.float32(mean_rows(X, w)), spec)
    assert "float32, which cannot hold this answer well enough: compute in float64." in text
    assert "Hint" not in text


def test_what_lapack_writes_in_a_search_is_not_heard(capfd):
    """It complains of inf and nan on file descriptor 2, and numpy stays silent."""
    with unheard():
        os.write(2, b"** On entry to DLASCL")
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"
    spec = dataclasses.replace(
        MEAN,
        reference=lambda X, w: np.linalg.norm(X * np.log(w.sum()), "nuc"),
        cases=lambda rng: [(rng.normal(size=(3, 3)), np.arange(1.0, k)) for k in (4, 5, 6)],
        misconceptions=[],
    )
    assert not verdict(spec, lambda X, w: 3.3 * np.linalg.norm(X)).passed
    assert capfd.readouterr().err == ""


def test_descriptor_2_comes_back_whoever_is_unheard_beside():
    one, other, before = unheard(), unheard(), os.fstat(2)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    assert os.path.samestat(os.fstat(2), before)


def test_nothing_stays_open_where_descriptors_run_out(monkeypatch):
    def none_left(*_):
        raise OSError(errno.EMFILE, "too many open files")

    for name in ("open", "dup", "dup2"):
        opened = sorted(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as patch:
            patch.setattr(os, name, none_left)
            with unheard():
                pass
        assert sorted(os.listdir("/proc/self/fd")) == opened
