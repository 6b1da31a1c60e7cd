"""Every way in which an answer can agree with the reference or differ from it, and the words for it."""

import numpy as np
import pytest
import torch

from course.check.compare import mismatch
from course.check.specification import Compare

EXACT = Compare(rtol=0, atol=0)
SQUARE = np.array([[1.0, 2.0], [3.0, 4.0]])
CUBE = np.arange(8.0).reshape(2, 2, 2)
NAN, INF = np.nan, np.inf


class AlwaysEqual:
    def __eq__(self, other):
        return True

    __hash__ = None


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        (None, None),
        ("inside", "inside"),
        (2.0, 2),
        (2, np.float64(2)),
        (2.0, [[2.0]]),
        ([[2.0]], 2.0),
        ((2.0,), 2.0),
        (SQUARE, SQUARE.tolist()),
        (SQUARE, torch.tensor(SQUARE, requires_grad=True)),
        ((1.0, 2.0), [1.0, 2.0]),
        ((1.0, 2.0), np.array([1.0, 2.0])),
        ((1.0, 2.0), torch.tensor([1.0, 2.0])),
        ((np.ones(2), "left"), [np.ones(2), "left"]),
        ([np.ones(2), np.ones(3)], (np.ones(2), np.ones(3))),
        (np.zeros(0), []),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        ([NAN, INF, -INF, 1.0], [NAN, INF, -INF, 1.0]),
        ([NAN, INF], [NAN, INF]),
        (True, np.bool_(True)),
        ([True, False], [1, 0]),
    ],
)
def test_the_same_in_another_dress(reference, answer):
    assert mismatch(reference, answer, EXACT) is None


@pytest.mark.parametrize(
    ("reference", "answer", "says"),
    [
        (None, "nothing", "it differs"),
        (None, 0.0, "it is a number"),
        ("left", "right", "it differs"),
        ("left", 1.0, "it is a number"),
        ("left", None, "it is None"),
        ("left", AlwaysEqual(), "it is an object of type AlwaysEqual"),
        (None, AlwaysEqual(), "it is an object of type AlwaysEqual"),
        (1.0, AlwaysEqual(), "it is an object of type AlwaysEqual, expected a number"),
        (1.0, "one", "it is a string, expected a number"),
        (SQUARE, None, "it is None, expected an array of shape (2, 2)"),
        ({"a": 1}, {"a": 1}, "there is no way to compare with an object of type dict"),
    ],
)
def test_other_kinds_of_things(reference, answer, says):
    assert mismatch(reference, answer, Compare()) == says


@pytest.mark.parametrize(
    ("reference", "answer", "says"),
    [
        ((1.0, 2.0), 1.0, "it is a number, expected 2 values"),
        ((1.0, 2.0), {"a": 1}, "it is an object of type dict, expected 2 values"),
        ((1.0, 2.0), None, "it is None, expected 2 values"),
        ((1.0, 2.0), (1.0, 2.0, 3.0), "it has 3 values, expected 2"),
        ((1.0, 2.0, 4.0), np.ones(2), "it has 2 values, expected 3"),
        ((1.0, 2.0), (1.0, 3.0), "in value 2 of 2, the number differs"),
        ((1.0, 2.0), (3.0, 3.0), "in value 1 of 2, the number differs"),
        ((SQUARE, "left"), (SQUARE, "right"), "in value 2 of 2, it differs"),
        (
            [np.ones(2), np.ones(3)],
            [np.ones(2), np.ones(2)],
            "in value 2 of 2, it has shape (2,), expected (3,)",
        ),
        ((1.0, (2.0, 3.0)), (1.0, (2.0, -3.0)), "in value 2 of 2, in value 2 of 2, it has the opposite sign"),
    ],
)
def test_several_values_are_compared_one_by_one(reference, answer, says):
    assert mismatch(reference, answer, Compare()) == says


def test_parts_are_compared_as_the_exercise_asks():
    up_to_scale = Compare(up_to_scale=True)
    assert mismatch((SQUARE, SQUARE), (3 * SQUARE, 0.1 * SQUARE), up_to_scale) is None
    assert mismatch([np.ones(2), np.ones(3)], [5 * np.ones(2), np.ones(3)], up_to_scale) is None


@pytest.mark.parametrize(
    ("wanted", "given", "says"),
    [
        ((), (2,), "it is an array of shape (2,), expected a single number"),
        ((3,), (), "it is a single number, expected an array of shape (3,)"),
        ((2, 1), (), "it is a single number, expected an array of shape (2, 1)"),
        ((1,), (2,), "it has shape (2,), expected (1,)"),
        ((2,), (1,), "it has shape (1,), expected (2,)"),
        ((2, 3), (3, 2), "it has shape (3, 2), expected (2, 3), which is its transpose"),
        ((2, 3), (2, 4), "it has shape (2, 4), expected (2, 3)"),
        ((2, 3, 4), (4, 3, 2), "it has shape (4, 3, 2), expected (2, 3, 4)"),
        ((2, 3), (6,), "it has shape (6,), expected (2, 3)"),
        ((0,), (0, 1), "it has shape (0, 1), expected (0,)"),
    ],
)
def test_wrong_shapes(wanted, given, says):
    assert mismatch(np.ones(wanted), np.ones(given), Compare()) == says


@pytest.mark.parametrize(
    ("reference", "answer", "says"),
    [
        (1.0, 0.5, "the number differs"),
        (2.0, 4.0, "the number differs"),
        (0.0, 1.0, "the number differs"),
        (2.0, -2.0, "it has the opposite sign"),
        (SQUARE, -SQUARE, "it has the opposite sign"),
        (SQUARE, SQUARE.T, "it is transposed"),
        (SQUARE, 2 * SQUARE, "every entry is 2 times what it should be"),
        (SQUARE, -SQUARE / 3, "every entry is -0.3333 times what it should be"),
        (2.0, NAN, "it has a NaN (not a number) in it"),
        ([1.0, 2.0], [1.0, NAN], "it has a NaN (not a number) in it"),
        ([1.0, 2.0], [INF, 2.0], "it has an infinity in it"),
        ([1.0, 2.0], [-INF, NAN], "it has a NaN (not a number) in it"),
        (INF, -INF, "it has the opposite sign"),
        (INF, 1.0, "the number differs"),
        ([INF, 1.0], [INF, 2.0], "1 of 2 entries differ, most of all [1]: expected 1., got 2."),
        ([INF, 1.0], [1.0, 1.0], "1 of 2 entries differ, most of all [0]: expected inf, got 1."),
        ([NAN, NAN], [1.0, 2.0], "2 of 2 entries differ, most of all [0]: expected nan, got 1."),
        ([NAN, 1.0], [5.0, 1.0], "1 of 2 entries differ, most of all [0]: expected nan, got 5."),
        ([NAN, 1.0, 2.0], [NAN, NAN, 2.0], "1 of 3 entries differ, most of all [1]: expected 1., got nan"),
        (
            [NAN, INF, 1.0, 2.0],
            [NAN, INF, 1.0, 5.0],
            "1 of 4 entries differ, most of all [3]: expected 2., got 5.",
        ),
        ([0.0, 0.0], [0.0, 3.0], "1 of 2 entries differ, most of all [1]: expected 0., got 3."),
        ([1.0, 0.0], [0.0, 1.0], "2 of 2 entries differ, most of all [0]: expected 1., got 0."),
        (
            [-1.0, -4.0, 5.0],
            [-1.0, -1.0, 7.0],
            "2 of 3 entries differ, most of all [1]: expected -4., got -1.",
        ),
        ([1, 2, 3], [1, 2, 4], "1 of 3 entries differ, most of all [2]: expected 3., got 4."),
        (SQUARE, [[1.0, 2.0], [4.0, 4.0]], "1 of 4 entries differ, most of all [1][0]: expected 3., got 4."),
        (
            np.ones((2, 3)),
            np.arange(6.0).reshape(2, 3),
            "5 of 6 entries differ, most of all [1][2]: expected 1., got 5.",
        ),
        (CUBE, CUBE.T, "4 of 8 entries differ, most of all [0][0][1]: expected 1., got 4."),
    ],
)
def test_wrong_numbers(reference, answer, says):
    assert mismatch(np.asarray(reference), np.asarray(answer), Compare()) == says


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308, -1e-320])
def test_strange_numbers_are_compared_in_silence(value):
    strange = np.array([value, 1.0])
    assert mismatch(strange, strange.copy(), Compare()) is None
    assert mismatch(np.array([2.0, 3.0]), strange, Compare()) is not None
    assert mismatch(np.array([value, value]), np.array([2.0, 1.0]), Compare()) is not None
    words = {np.inf: "inf", 1e308: "1e+308", -1e-320: "-9.99989e-321"}.get(value, "nan")
    assert mismatch(strange, np.array([1.0, value]), Compare()) == (
        f"2 of 2 entries differ, most of all [0]: expected {words}, got 1."
    )


def test_true_and_false_are_not_called_numbers():
    wanted = np.array([True, False, True])
    assert mismatch(wanted, [True, True, True], Compare()) == (
        "1 of 3 entries differ, most of all [1]: expected False, got True"
    )
    assert mismatch(wanted, [1.0, 0.0, 0.0], Compare()) == (
        "1 of 3 entries differ, most of all [2]: expected True, got 0."
    )
    assert mismatch([1.0, 0.0, 0.0], wanted, Compare()) == (
        "1 of 3 entries differ, most of all [2]: expected 0., got True"
    )
    assert mismatch(wanted, [1.0, 0.0, 1.0], Compare()) is None
    assert mismatch(True, np.bool_(False), Compare()) == "it differs"
    assert mismatch(True, 0.0, Compare()) == "it differs"
    assert mismatch(1.0, False, Compare()) == "the number differs"
    assert mismatch(1.0, 0.5, Compare()) == "the number differs"


def test_the_tolerance_is_relative_to_the_largest_entry_and_includes_its_edge():
    assert mismatch([1.0, 2.0], [1.5, 2.0], Compare(rtol=0, atol=0.5)) is None
    assert mismatch([1.0, -2.0], [1.5, -2.0], Compare(rtol=0.25, atol=0)) is None
    assert mismatch([1.0, -2.0], [1.75, -2.0], Compare(rtol=0.25, atol=0.25)) is None
    assert mismatch([1.0, -2.0], [1.76, -2.0], Compare(rtol=0.25, atol=0.25)) is not None
    assert mismatch([1.0, INF], [1.5, INF], Compare(rtol=0.25, atol=0)) is not None


def test_entries_within_the_tolerance_are_not_counted():
    says = "1 of 3 entries differ, most of all [2]: expected 0., got 4."
    assert mismatch([1.0, 2.0, 0.0], [1.5, 2.0, 4.0], Compare(rtol=0, atol=0.5)) == says
    assert mismatch([1.0, -2.0, 0.0], [1.5, -2.0, 4.0], Compare(rtol=0.25, atol=0)) == says
    says = "2 of 3 entries differ, most of all [2]: expected 0., got 4."
    assert mismatch([0.5, 0.1, 0.0], [0.57, 0.1, 4.0], Compare(rtol=0.1, atol=0)) == says
    assert mismatch([1.0, 2.0, 0.0], [1.8, 2.0, 4.0], Compare(rtol=0.25, atol=0.25)) == says
    says = "1 of 3 entries differ, most of all [2]: expected 0., got 4."
    assert mismatch([1.0, 2.0, 0.0], [1.7, 2.0, 4.0], Compare(rtol=0.25, atol=0.25)) == says


@pytest.mark.parametrize(
    ("factor", "says"),
    [
        (0.99999, "0.99999"),
        (1.00004, "1.00004"),
        (1 + 2e-6, "1.000002"),
        (-0.99999, "-0.99999"),
        (0.9999, "0.9999"),
    ],
)
def test_a_factor_near_one_is_not_called_one(factor, says):
    problem = mismatch(SQUARE, factor * SQUARE, Compare(rtol=1e-6))
    assert problem == f"every entry is {says} times what it should be"


def test_the_other_sentences_allow_the_same_tolerance():
    loose = Compare(rtol=0.1, atol=0)
    assert mismatch([1.0, 2.0], [-1.1, -2.0], loose) == "it has the opposite sign"
    assert mismatch(SQUARE, SQUARE.T + 0.1, loose) == "it is transposed"
    assert mismatch([1.0, 1.0], [5.2, 4.8], loose) == "every entry is 5 times what it should be"
    loose = Compare(rtol=0, atol=0.25)
    assert mismatch([1.0, 2.0], [-1.25, -2.0], loose) == "it has the opposite sign"
    assert mismatch(SQUARE, SQUARE.T + 0.2, loose) == "it is transposed"
    assert mismatch([1.0, 1.0], [5.5, 4.5], loose) == "every entry is 5 times what it should be"


@pytest.mark.parametrize("half", [np.float32, np.float16])
def test_single_precision_is_held_to_what_it_can_carry(half):
    assert mismatch(1.0, half(1.000005), Compare()) is None
    assert mismatch([100.0, 0.0], np.array([100, 0.0005], dtype=half), Compare()) is None
    assert mismatch([100.0, 0.0], np.array([100, 0.002], dtype=half), Compare()) is not None
    assert mismatch([0.0, 0.0], np.array([5e-7, 0], dtype=half), Compare()) is None
    assert mismatch([0.0, 0.0], np.array([5e-6, 0], dtype=half), Compare()) is not None
    assert mismatch(1.0, half(1.25), Compare(rtol=0.5)) is None
    assert mismatch(0.0, half(0.25), Compare(atol=0.5)) is None


def test_single_precision_is_no_excuse_where_tiny_answers_count():
    tiny = np.array([1e-12, -1e-12])
    assert mismatch(tiny, tiny.astype(np.float32), Compare(atol=0)) is None
    assert mismatch(tiny, np.float32([1e-12, 0]), Compare(atol=0)) is not None
    assert mismatch(tiny, np.float32([0, 0]), Compare()) is None
    lost = mismatch(1e-30 * tiny, np.float32([0, 0]), Compare(atol=0))
    assert lost == "it is in float32, which cannot hold this answer well enough: compute in float64"
    assert "float16, which cannot hold" in mismatch(1.001, np.float16(1.001), Compare())


def test_two_entries_are_not_called_proportional_unless_by_a_round_factor():
    assert mismatch([1.0, -1.0], [0.3337, -0.3337], Compare()).startswith("2 of 2 entries differ")
    assert mismatch([1.0, -1.0], [1 / 3, -1 / 3], Compare()).startswith("every entry is 0.3333 times")
    assert mismatch([1.0, -1.0, 0.5], [0.3337, -0.3337, 0.3337 / 2], Compare()).startswith("every entry is")


def test_other_types_have_no_such_excuse():
    assert mismatch(1.0, 1.00005, Compare()) == "the number differs"
    assert mismatch(0.0, 5e-7, Compare()) == "the number differs"
    assert mismatch(np.float32(1.0), 1.00005, Compare()) == "the number differs"
    assert mismatch(100000, np.int32(100001), Compare()) == "the number differs"


def test_directions_are_compared_without_their_length():
    how = Compare(up_to_scale=True)
    assert mismatch([0.3, 0.4], [6.0, 8.0], how) is None
    assert mismatch([0.3, 0.4], [6.0, 8.0], Compare()) == "every entry is 20 times what it should be"
    assert mismatch([3.0, 4.0], [-6.0, -8.0], how) == "it has the opposite sign"
    assert mismatch([3.0, 4.0], [0.0, 0.0], how) == (
        "2 of 2 entries differ, most of all [1]: expected 0.8, got 0."
    )
    assert mismatch([0.0, 0.0], [0.0, 0.0], how) is None
    assert mismatch([0.0, 0.0], [0.0, 2.0], how) == (
        "1 of 2 entries differ, most of all [1]: expected 0., got 1."
    )
    assert mismatch([INF, 1.0], [INF, 1.0], how) is None
    assert mismatch([INF, 1.0], [INF, 2.0], how) == (
        "1 of 2 entries differ, most of all [1]: expected 1., got 2."
    )
