import numpy as np
import pytest
import torch

from course.grade import feedback, marking, plain
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
        (lambda x: (x**2).astype(np.float16), "entries differ."),
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


def test_missing_blank_stopped_and_raising_are_told_apart(lesson, cases):
    empty = Report()
    assert marking.mark(lesson, empty, cases)[0].state == "missing"
    blank = Report(found={"99.1"}, answers={"99.1": [Answer(error="not attempted")] * 2})
    assert marking.mark(lesson, blank, cases)[0].state == "not attempted"
    stopped = Report(found={"99.1"}, problems={"99.1": "it used too much memory"})
    mark = marking.mark(lesson, stopped, cases)[0]
    assert (mark.state, mark.says) == ("stopped", ["Your function was stopped: it used too much memory."])
    raising = Report(found={"99.1"}, answers={"99.1": [Answer(error="KeyError: 'w'")] * 2})
    mark = marking.mark(lesson, raising, cases)[0]
    assert (mark.state, mark.says[1]) == ("wrong", "Your function stopped with KeyError: 'w'.")
    short = Report(found={"99.1"}, answers={"99.1": [Answer(value=cases["99.1"][0][0] ** 2)]})
    assert marking.mark(lesson, short, cases)[0].points == 0


def test_changing_an_input_is_wrong_as_it_is_in_check(lesson, cases):
    changed = report(cases)
    changed.answers["99.1"][1].changed.append(0)
    mark = marking.mark(lesson, changed, cases)[0]
    assert mark.points == 0
    assert "it changes its input x in place" in " ".join(mark.says)
    changed.answers["99.1"][1].changed[:] = [7, -3]
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
