from types import SimpleNamespace

import numpy as np
import pytest
import torch

from course.check.specification import Compare, Exercise, Misconception
from course.grade import feedback, marking, plain
from course.grade.marking import Mark
from course.grade.sandbox import Answer, Report

REFERENCE = {"99.1": lambda x: x**2, "99.2": lambda x: x.sum()}


def report(cases, **answers):
    """A report in which functions gave these answers; what is not named is right."""
    functions = REFERENCE | {id.replace("_", "."): function for id, function in answers.items()}
    return Report(
        found=set(functions),
        answers={
            id: [Answer(value=plain.decode(plain.encode(function(*case)))) for case in cases[id]]
            for id, function in functions.items()
        },
    )


def first(lesson, cases, function):
    return marking.mark(lesson, report(cases, **{"99.1": function}), cases)[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x,
        lambda x: (x * x).tolist(),
        lambda x: tuple((x * x).tolist()),
        lambda x: (x * x).astype(np.float32),
        lambda x: torch.tensor(x) ** 2,
        lambda x: torch.tensor(x, dtype=torch.float32, requires_grad=True) ** 2,
        lambda x: [np.float64(value) for value in x * x],
        lambda x: np.array(x * x, order="F")[::1],
    ],
)
def test_answers_that_a_person_would_accept_get_all_points(function, lesson, cases):
    mark = first(lesson, cases, function)
    assert (mark.state, mark.points) == ("right", 3)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: 2 * x, "You doubled; square instead."),
        (lambda x: x**2 + 1e-4, "entries differ."),
        (lambda x: (x**2).astype(np.float16), "float16, which cannot hold this answer well enough"),
        (lambda x: x[:1] ** 2, "it has shape"),
        (lambda x: None, "About your answer: it is None"),
        (lambda x: "x**2", "a string"),
        (lambda x: -(x**2), "it has the opposite sign"),
        (lambda x: x * np.nan, "NaN"),
    ],
)
def test_wrong_answers_get_none_and_a_reason(function, says, lesson, cases):
    mark = first(lesson, cases, function)
    assert (mark.state, mark.points) == ("wrong", 0)
    assert says in " ".join(mark.says)


def test_one_exercise_can_be_marked_alone(lesson, cases):
    (mark,) = marking.mark(lesson, report(cases), cases, only="99.2")
    assert (mark.id, mark.state) == ("99.2", "right")


def test_one_wrong_case_is_enough(lesson, cases):
    mark = first(lesson, cases, lambda x: x**2 if len(x) == 3 else x)
    assert mark.points == 0
    assert "Right on 1 of 2 inputs. The first that went wrong has x: an array of shape (5,)." in mark.says


def test_feedback_shows_no_secret_values(lesson, cases):
    for function in (lambda x: x**2 + 0.1, lambda x: 2 * x, lambda x: x**2 * (np.arange(len(x)) > 0)):
        text = " ".join(first(lesson, cases, function).says)
        for case in cases["99.1"]:
            for number in [*case[0], *case[0] ** 2]:
                assert f"{number:.3g}" not in text


def test_every_exercise_gets_its_mark(lesson, cases):
    assert marking.mark(lesson, report(cases, **{"99.1": lambda x: 2 * x}), cases) == [
        Mark(
            "99.1",
            "square",
            0,
            3,
            "wrong",
            [
                "Right on 0 of 2 inputs. The first that went wrong has x: an array of shape (3,).",
                "About your answer: 3 of 3 entries differ.",
                "Hint: You doubled; square instead.",
            ],
        ),
        Mark("99.2", "total", 3, 3, "right", ["Right on all 2 inputs."]),
    ]


def test_a_submission_that_could_not_be_read(lesson):
    assert marking.nothing(lesson, "The file is not a notebook.") == [
        Mark("99.1", "square", 0, 3, "missing", ["The file is not a notebook."]),
        Mark("99.2", "total", 0, 3, "missing", ["The file is not a notebook."]),
    ]


ZEROS = Answer(value=np.zeros(3))
BLANK = Answer(error="not attempted")
TOO_LONG = "Your function took too long, or ended the program that ran it."


@pytest.mark.parametrize(
    ("given", "state", "says"),
    [
        (Report(), "missing", "There was no function for this exercise."),
        (Report(answers={"99.1": [ZEROS, ZEROS]}), "missing", "There was no function for this exercise."),
        (Report(found={"99.1"}), "stopped", TOO_LONG),
        (Report(found={"99.1"}, answers={"99.1": [ZEROS]}), "stopped", TOO_LONG),
        (
            Report(found={"99.1"}, problems={"99.1": "it used too much memory"}),
            "stopped",
            "Your function was stopped: it used too much memory.",
        ),
        (
            Report(found={"99.1"}, answers={"99.1": [ZEROS, BLANK]}),
            "not attempted",
            "Not attempted: the function still says todo().",
        ),
        (
            Report(found={"99.1"}, answers={"99.1": [BLANK]}),
            "not attempted",
            "Not attempted: the function still says todo().",
        ),
    ],
)
def test_missing_blank_and_stopped_are_told_apart(given, state, says, lesson, cases):
    assert marking.mark(lesson, given, cases)[0] == Mark("99.1", "square", 0, 3, state, [says])


def _picky(x, y):
    if y < 0:
        raise ValueError("y: it must be positive")
    if y == 0:
        raise ZeroDivisionError
    return x * y


def _exercise(reference, *known, cases, compare):
    return Exercise(
        id="99.3",
        title="scale",
        points=2,
        minutes=5,
        difficulty=1,
        reference=reference,
        cases=lambda rng: cases,
        compare=compare,
        misconceptions=[Misconception(*pair) for pair in known],
    )


def marked(spec, *answers):
    given = Report(found={spec.id}, answers={spec.id: list(answers)})
    lesson = SimpleNamespace(specs=[spec])
    (mark,) = marking.mark(lesson, given, {spec.id: spec.draw(0)})
    return mark.state, mark.says


def test_an_error_is_told_by_its_type_and_recognised_by_its_words():
    inputs = [(np.ones(2), 2.0), (np.ones(2), -1.0), (np.ones(3), 0.0)]
    known = [(_picky, "Negative numbers are welcome."), (lambda x, y: x, "Multiply by y.")]
    spec = _exercise(lambda x, y: x * y, *known, cases=inputs, compare=Compare())
    right = Answer(value=2 * np.ones(2))
    own, division = Answer(error="ValueError: y: it must be positive"), Answer(error="ZeroDivisionError")
    first = "Right on 1 of 3 inputs. The first that went wrong has x: an array of shape (2,), y: a number."
    stopped = "Your function stopped with ValueError."
    assert marked(spec, right, own, division) == (
        "wrong",
        [first, stopped, "Hint: Negative numbers are welcome."],
    )
    assert marked(spec, right, Answer(error="KeyError: 'w'"), Answer(error="KeyError: 'w'")) == (
        "wrong",
        [first, "Your function stopped with KeyError."],
    )
    recognised_by_the_last_only = marked(spec, right, Answer(value=-np.ones(2)), division)
    assert recognised_by_the_last_only == (
        "wrong",
        [
            "Right on 2 of 3 inputs. The first that went wrong has x: an array of shape (3,), y: a number.",
            "Your function stopped with ZeroDivisionError.",
            "Hint: Negative numbers are welcome.",
        ],
    )


@pytest.mark.parametrize(
    ("wanted", "answer", "says"),
    [
        (np.ones((3, 2)), np.zeros((0, 371, 39, 267)), "it has 4 dimensions, expected (3, 2)"),
        (np.ones((3, 2)), np.zeros((371, 2)), "it has 2 dimensions, expected (3, 2)"),
        (np.ones((3, 2)), np.zeros((4, 3)), "it has 2 dimensions, expected (3, 2)"),
        (np.ones((3, 2)), np.zeros((2, 3)), "it has shape (2, 3), expected (3, 2), which is its transpose"),
        (np.ones((3, 2)), np.zeros((3, 1)), "it has shape (3, 1), expected (3, 2)"),
        (np.ones((3, 2)), np.zeros(3), "it has shape (3,), expected (3, 2)"),
        (np.ones((3, 2)), np.zeros((3, 3)), "it has shape (3, 3), expected (3, 2)"),
        (np.ones((5, 2)), np.zeros((4, 2)), "it has shape (4, 2), expected (5, 2)"),
        (np.ones((3, 2)), np.zeros([1, 3] * 8), "it has 16 dimensions, expected (3, 2)"),
        (1.0, np.zeros(37), "it is an array of 1 dimension, expected a single number"),
        ((1.0, 2.0), np.zeros(37), "it has another number of values, expected 2"),
        ((1.0, 2.0), np.zeros((1, 37)), "it has 1 values, expected 2"),
        ((1.0, 2.0), (1.0, 2.0, 3.0), "it has 3 values, expected 2"),
        (np.ones(2), tuple("x" * 37), "it is another number of values, expected an array of shape (2,)"),
        (1.0, np.complex128(1j), "it is an object of type complex128, expected a number"),
        (np.ones(2), np.ones(2) * 1j, "it is an array of complex numbers, expected an array of shape (2,)"),
        ("a", np.zeros((37, 4)), "it is an array of 2 dimensions"),
        (np.ones(3), np.full(3, 0.1234), "every entry is the same multiple of what it should be"),
        (np.ones(3), np.full(3, 0.25), "every entry is 0.25 times what it should be"),
        (np.ones(3), np.full(3, -2.0), "every entry is -2 times what it should be"),
        (np.ones(3), np.full(3, 16.0), "every entry is 16 times what it should be"),
    ],
)
def test_forms_and_factors_that_could_hold_inputs_are_not_told(wanted, answer, says):
    spec = _exercise(lambda x: wanted, cases=[(1.0,)], compare=Compare())
    _, (_, about) = marked(spec, Answer(value=answer))
    assert about == f"About your answer: {says}."


def test_a_hint_needs_a_misconception_that_explains_every_wrong_input():
    inputs = [(np.ones(2),), (2 * np.ones(3),)]
    spec = _exercise(lambda x: x**2, (lambda x: 2 * x + (x == 2), "Hm."), cases=inputs, compare=Compare())
    assert marked(spec, Answer(value=None), Answer(value=5 * np.ones(3))) == (
        "wrong",
        [
            "Right on 0 of 2 inputs. The first that went wrong has x: an array of shape (2,).",
            "About your answer: it is None, expected an array of shape (2,).",
        ],
    )
    assert marked(spec, Answer(value=np.ones(2)), Answer(value=5 * np.ones(3))) == (
        "wrong",
        [
            "Right on 1 of 2 inputs. The first that went wrong has x: an array of shape (3,).",
            "About your answer: every entry is the same multiple of what it should be.",
            "Hint: Hm.",
        ],
    )


def test_what_does_not_fit_together_is_no_students_fault(lesson, cases):
    too_many = report(cases)
    too_many.answers["99.1"].append(ZEROS)
    with pytest.raises(ValueError, match="argument 2 is longer"):
        marking.mark(lesson, too_many, cases)
    spec = _exercise(lambda x, y: x, cases=[(1.0,)], compare=Compare())
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        marked(spec, Answer(value=1.0))


def test_changing_an_input_is_wrong_as_it_is_in_check(lesson, cases):
    changed = report(cases)
    changed.answers["99.1"][1].changed.append(0)
    mark = marking.mark(lesson, changed, cases)[0]
    assert mark.points == 0
    assert "it changes its input x in place" in " ".join(mark.says)
    changed.answers["99.1"][1].changed[:] = [7, 1, -1, -3]  # no inputs of this function
    assert marking.mark(lesson, changed, cases)[0].points == 3


def test_feedback_is_one_page_without_script_or_network(lesson, cases):
    marks = marking.mark(lesson, report(cases, **{"99.1": lambda x: 2 * x}), cases)
    page = feedback.page("<b>eve</b>", "Lesson 99: squares", marks, ["cell <script>alert(1)</script>"])
    assert "3 of 6 points" in page
    assert "You doubled; square instead." in page
    assert "&lt;script&gt;" in page
    assert "&lt;b&gt;eve" in page
    for word in ("<script", "http", "src=", "@import"):
        assert word not in page
