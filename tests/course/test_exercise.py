"""What learners are told, for every way in which an answer can be right or go wrong."""

import dataclasses
import functools
import warnings

import numpy as np
import pytest
import torch

from course import exercises
from course.check.specification import PUBLIC_SEED, Compare, Exercise, Misconception
from course.check.trying import run
from course.exercise import check, exercise, progress, todo


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


@pytest.fixture(autouse=True)
def lesson_99(monkeypatch):
    monkeypatch.setattr(exercises, "lessons", lambda: ["99"])
    monkeypatch.setattr(exercises, "exercises", lambda lesson: [MEAN, DIRECTION, PAIR])
    monkeypatch.setattr("course.exercise._latest", {})


@pytest.fixture
def told(capsys):
    """What a check of exercise 99.1 (or another) prints about a function."""

    def ask(function, id="99.1"):
        capsys.readouterr()
        check(id, function)
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out

    return ask


@pytest.mark.parametrize(
    "answer",
    [
        mean_rows,
        lambda X, w: torch.tensor(w) @ torch.tensor(X) / w.sum(),
        lambda X, w: (torch.tensor(w).float() @ torch.tensor(X).float() / w.sum()).requires_grad_(),
        lambda X, w: np.float32(w) @ np.float32(X) / np.float32(w.sum()),
        lambda X, w: list(mean_rows(X, w)),
        lambda X, w: tuple(torch.tensor(entry) for entry in mean_rows(X, w)),
        lambda X, w, unused=None: mean_rows(X, w),
        lambda *inputs: mean_rows(*inputs),
    ],
)
def test_right_in_any_form(told, answer):
    assert told(answer) == "✓ 99.1 A weighted mean: right on all 4 inputs.\n"


def test_blank(told, capsys):
    @exercise("99.1")
    def mean(X, w):
        """The weighted mean."""
        todo()

    assert capsys.readouterr().out == "99.1 not attempted yet: using the reference\n"
    X, w = MEAN.draw(PUBLIC_SEED)[2]
    np.testing.assert_array_equal(mean(X, w), mean_rows(X, w))
    assert mean.__doc__ == "The weighted mean."
    assert mean.__name__ == "mean"
    assert told(mean) == "99.1 A weighted mean: not attempted yet. Replace todo() by your own code.\n"


def test_attempted_is_silent_and_used(told, capsys):
    @exercise("99.1")
    def mean(X, w):
        return "mine"

    assert capsys.readouterr().out == ""
    assert mean(None, None) == "mine"
    assert "Your answer: 'mine'" in told(mean)


class Mean:
    def __call__(self, X, w):
        return mean_rows(X, w)


class Todo:
    def __call__(self, X, w):
        todo()


@pytest.mark.parametrize(
    "answer",
    [
        functools.partial(mean_rows),
        functools.partial(lambda k, X, w: mean_rows(X, w), 3),
        Mean(),
        Mean().__call__,
    ],
)
def test_anything_that_can_be_called_may_answer(told, capsys, answer):
    marked = exercise("99.1")(answer)
    assert capsys.readouterr().out == ""
    assert told(marked).startswith("✓")
    assert marked(np.eye(2), np.array([3.0, 1.0])).tolist() == [0.75, 0.25]


@pytest.mark.parametrize("blank", [functools.partial(lambda k, X, w: todo(), 3), Todo(), Todo().__call__])
def test_anything_that_can_be_called_may_be_blank(told, capsys, blank):
    marked = exercise("99.1")(blank)
    assert capsys.readouterr().out == "99.1 not attempted yet: using the reference\n"
    assert marked(np.eye(2), np.array([3.0, 1.0])).tolist() == [0.75, 0.25]


def test_functions_of_libraries_may_answer(told):
    assert told(exercise("99.2")(np.copy), "99.2").startswith("✓")
    assert told(exercise("99.2")(np.negative), "99.2").startswith("✗")


@pytest.mark.parametrize("form", [list, torch.tensor])
def test_later_cells_get_what_the_reference_would_return(form):
    @exercise("99.1")
    def mean(X, w):
        return form((w @ X / w.sum()).tolist())

    assert type(mean(np.eye(2), np.array([3.0, 1.0]))) is np.ndarray
    assert type(mean.own(np.eye(2), np.array([3.0, 1.0]))) is not np.ndarray


@pytest.mark.parametrize("single", [np.float32, lambda value: torch.tensor(value).float()])
def test_later_cells_get_all_digits_of_a_right_answer(told, single):
    @exercise("99.1")
    def mean(X, w):
        return single(w @ X / w.sum())

    X, w = np.array([[0.1, 0.2]]), np.array([0.3])
    assert told(mean).startswith("✓")
    assert mean(X, w).tolist() == mean_rows(X, w).tolist()
    assert mean(1e-60 * X, w).tolist() == mean_rows(1e-60 * X, w).tolist()
    wrong = exercise("99.1")(lambda X, w: np.float32(X[0] + w))
    np.testing.assert_array_equal(wrong(X, w), np.float32(X[0] + w))
    assert wrong(X, w).dtype == np.float64


def test_todo_left_below_the_answer_does_no_harm(told, capsys):
    @exercise("99.1")
    def mean(X, w):
        return w @ X / w.sum()
        todo()

    assert capsys.readouterr().out == ""
    assert told(mean).startswith("✓")


def test_half_written_falls_back_only_where_it_has_to(told, capsys):
    @exercise("99.1")
    def mean(X, w):
        if len(w) == 2:
            return "mine"
        return (lambda: todo())()

    assert "99.1 not attempted yet" in capsys.readouterr().out
    assert mean(np.ones((2, 2)), np.ones(2)) == "mine"
    assert mean(np.ones((3, 2)), np.ones(3)).tolist() == [1, 1]
    assert "not attempted yet" in told(mean)


def test_known_misconception_on_the_input_that_shows_it(told):
    text = told(no_weights)
    assert text.startswith("✗ 99.1 A weighted mean: not right yet. On input 2 of 4:\n")
    assert "X = [[1., 2.], [3., 4.]]\n" in text
    assert "w = [1., 3.]\n" in text
    assert "Expected:    [2.5, 3.5]\n" in text
    assert "Your answer: [2., 3.]\n" in text
    assert text.endswith("Hint: The weights are not used.\n")
    assert told(not_normalised).endswith("Hint: Divide by the sum of the weights.\n")


def test_a_misconception_is_named_only_if_it_explains_every_wrong_input(told):
    def mostly_not_normalised(X, w):
        return no_weights(X, w) if w[0] == 1.0 else not_normalised(X, w)

    def sometimes_not_normalised(X, w):
        return mean_rows(X, w) if w[0] == 1.0 else not_normalised(X, w)

    assert "Hint" not in told(mostly_not_normalised)
    assert told(sometimes_not_normalised).endswith("Hint: Divide by the sum of the weights.\n")


def test_of_two_misconceptions_the_one_that_agrees_more_often_is_named(monkeypatch, told):
    def only_long(X, w):
        return mean_rows(X, w) if len(w) == 2 else not_normalised(X, w)

    both = [Misconception(only_long, "Short ones."), *MEAN.misconceptions]
    for known in (both, both[::-1]):
        spec = dataclasses.replace(MEAN, misconceptions=known)
        monkeypatch.setattr(exercises, "exercises", lambda lesson, spec=spec: [spec])
        assert told(only_long).endswith("Hint: Short ones.\n")


def test_complex_answers_are_recognised_too(monkeypatch, told):
    def rotated(X, w):
        return mean_rows(X, w) * 1j

    spec = dataclasses.replace(MEAN, misconceptions=[Misconception(rotated, "Leave out the 1j.")])
    monkeypatch.setattr(exercises, "exercises", lambda lesson: [spec])
    assert told(rotated).endswith("Hint: Leave out the 1j.\n")
    assert "Hint" not in told(lambda X, w: mean_rows(X, w) * 2j)


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
        (lambda X, w: mean_rows(X, w) * np.nan, "it has a NaN"),
        (lambda X, w: mean_rows(X, w) / np.zeros(1), "it has an infinity"),
        (lambda X, w: mean_rows(X, w) / np.zeros(1), "warned: divide by zero"),
        (lambda X, w: {"mean": mean_rows(X, w)}, "it is an object of type dict, expected an array"),
        (lambda X, w: "2, 3", "it is a string, expected an array"),
        (lambda X, w: mean_rows, "it is a function, expected an array"),
        (lambda X, w: [[1.0], [2.0, 3.0]], "it is an object of type list, expected an array"),
        (lambda X, w: np.array([None, None]), "it is an array of objects, expected an array"),
        (lambda X, w: np.array(["2", "3"]), "it is an array of strings, expected an array"),
        (lambda X, w: mean_rows(X, w).astype(complex), "it is an array of complex numbers, expected"),
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
def test_what_went_wrong_is_said(told, answer, sentence):
    text = told(answer)
    assert text.startswith("✗ 99.1 A weighted mean")
    assert sentence in text
    assert "0x" not in text
    assert "Traceback" not in text


def test_the_line_that_failed_is_quoted(told):
    def mean(X, w):
        scaled = w / w.sum()
        return scaled @ X.undefined

    text = told(mean)
    assert "AttributeError: 'numpy.ndarray' object has no attribute 'undefined'" in text
    assert "in your line `return scaled @ X.undefined`" in text
    assert ".py" not in text


def test_changed_inputs_are_noticed_and_do_not_reach_the_next_function(told):
    def in_place(X, w):
        w /= w.sum()
        return w @ X

    text = told(in_place)
    assert "On input 2 of 4" in text  # the first input's weights already sum to one
    assert "it changes its input w in place" in text
    assert "w = [1., 3.]" in text
    assert told(mean_rows).startswith("✓")


def test_flood_of_output_is_cut(told):
    def chatty(X, w):
        for _ in range(1000):
            print("x" * 1000)

    assert len(told(chatty)) < 1000
    assert len(run(chatty, MEAN.draw(1)[0], MEAN.parameters).printed) == 400


def test_objects_that_pretend_are_not_believed(told):
    class Equal:
        shape, dtype, ndim = (2,), np.float64, 1

        def __eq__(self, other):
            return True

        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("no")

    assert "it is an object of type Equal" in told(lambda X, w: Equal())
    assert "it is an object of type Equal" in told(lambda n, name: Equal(), "99.3")


def test_stop_button_works(told):
    def interrupted(X, w):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        told(interrupted)


def test_direction_ignores_length_but_not_sense(told):
    assert told(lambda x: 3 * x, "99.2").startswith("✓")
    assert "opposite sign" in told(lambda x: -x, "99.2")
    assert told(lambda x: x + 0.1, "99.2").startswith("✗")
    assert told(lambda x: 0 * x, "99.2").startswith("✗")


def test_misconception_about_changed_inputs_needs_changed_inputs(monkeypatch, told):
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
    monkeypatch.setattr(exercises, "exercises", lambda lesson: [counted])
    assert "Hint: Work on a copy." in told(in_place)
    assert "Hint" not in told(lambda n, name: (n.sum() - n[0], "a"))
    assert "Hint" not in told(lambda n, name: (n[1], "c" if n[0] == 0 else "b"))


def test_single_precision_gets_its_own_tolerance(told):
    single = np.float32(1 + 3e-6)
    assert told(lambda X, w: np.float32(mean_rows(X, w)) * single).startswith("✓")
    assert told(lambda X, w: torch.tensor(mean_rows(X, w)).float() * float(single)).startswith("✓")
    assert told(lambda X, w: mean_rows(X, w) * float(single)).startswith("✗")
    assert told(lambda X, w: np.float32(mean_rows(X, w)) * np.float32(1.001)).startswith("✗")


def test_several_values(told):
    assert told(lambda n, name: [n**2, f"{name}!"], "99.3").startswith("✓")
    assert told(lambda n, name: (float(n**2), f"{name}!"), "99.3").startswith("✓")
    assert "in value 1 of 2, the number differs" in told(lambda n, name: (n, name + "!"), "99.3")
    assert "in value 2 of 2, it differs" in told(lambda n, name: (n**2, name), "99.3")
    assert "in value 2 of 2, it is a number" in told(lambda n, name: (n**2, 1), "99.3")
    assert "it has 3 values, expected 2" in told(lambda n, name: (n**2, name, 1), "99.3")
    assert "it is a number, expected 2 values" in told(lambda n, name: n**2, "99.3")


def test_unknown_or_mixed_up_ids(told):
    assert told(mean_rows, "99.7") == "There is no exercise '99.7'. Lesson 99 has 99.1, 99.2, 99.3.\n"
    assert told(mean_rows, "42.1") == "There is no exercise '42.1'. Lessons with exercises: 99.\n"
    assert "this function is marked @exercise('99.2')" in told(exercise("99.2")(lambda x: x))
    with pytest.raises(ValueError, match=r"There is no exercise '99\.7'"):
        exercise("99.7")


def test_progress(capsys):
    exercise("99.1")(lambda X, w: todo())
    check("99.2", lambda x: x)
    capsys.readouterr()
    progress("99")
    assert capsys.readouterr().out == "Lesson 99: 1 of 3 exercises solved; next: 99.1 A weighted mean.\n"
    exercise("99.1")(mean_rows)
    exercise("99.3")(PAIR.reference)
    progress("99")
    assert capsys.readouterr().out == "Lesson 99: 3 of 3 exercises solved. Well done.\n"
    exercise("99.2")(lambda x: -x)
    progress("99")
    assert capsys.readouterr().out == "Lesson 99: 2 of 3 exercises solved; next: 99.2 A direction.\n"


def test_warnings_of_a_right_answer_stay_out_of_the_notebook(told):
    def warns(X, w):
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        return mean_rows(X, w)

    assert told(warns).startswith("✓")


def test_same_words_every_time(told):
    assert told(no_weights) == told(no_weights)
