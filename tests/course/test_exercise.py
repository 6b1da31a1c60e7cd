"""What learners are told, for every way in which an answer can be right or go wrong."""

import functools
import warnings

import numpy as np
import pytest
import torch

from course import exercises
from course.check.specification import PUBLIC_SEED, Compare, Exercise
from course.exercise import check, exercise, progress, todo


def mean_rows(X, w):
    return w @ X / w.sum()


def exercise_99(number, title, reference, cases):
    return Exercise(f"99.{number}", title, 1, 5, 1, reference, cases, Compare(up_to_scale=number == 2))


def weighted_rows(rng):
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    larger = [(rng.standard_normal((n, 3)), rng.random(n)) for n in (5, 6)]
    return [(X, np.array([0.5, 0.5])), (X, np.array([1.0, 3.0])), *larger]


MEAN = exercise_99(1, "A weighted mean", mean_rows, weighted_rows)
DIRECTION = exercise_99(2, "A direction", lambda x: x, lambda rng: [(rng.standard_normal(4),)])
PAIR = exercise_99(3, "Two values", lambda n, name: (n * n, name + "!"), lambda rng: [(3, "a"), (4, "b")])


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


def test_stop_button_works(told):
    def interrupted(X, w):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        told(interrupted)


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
