"""What counts as numbers, and whether a function left its inputs alone."""

import dataclasses
import sys

import numpy as np
import pytest
import torch

from course.check.values import as_array, fresh, in_single, shaped_like, unchanged


class LooksLikeAnArray:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("not really")


@dataclasses.dataclass
class Data:
    X: np.ndarray
    name: str = "data"


@dataclasses.dataclass
class Bare:
    X: np.ndarray


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (True, "bool", ()),
        (3, "int64", ()),
        (3.5, "float64", ()),
        (np.float32(3.5), "float32", ()),
        (np.uint8(3), "uint8", ()),
        (np.arange(6).reshape(2, 3), "int64", (2, 3)),
        ([1, 2.5], "float64", (2,)),
        ([], "float64", (0,)),
        ((np.ones(2), [3, 4]), "float64", (2, 2)),
        ([torch.ones(2), torch.zeros(2)], "float32", (2, 2)),
        (torch.ones(2, 3, dtype=torch.float64, requires_grad=True), "float64", (2, 3)),
        (torch.ones(2, dtype=torch.bfloat16), "float32", (2,)),
        (torch.ones(2, dtype=torch.float16), "float16", (2,)),
        (torch.eye(2).to_sparse(), "float32", (2, 2)),
        (complex(3), "float64", ()),
        (0j, "float64", ()),
        (np.array([2, 1e-9j]), "float64", (2,)),
        (np.array([-2e9, 1 + 1j]), "float64", (2,)),
        (np.ones((0, 2), dtype=complex), "float64", (0, 2)),
        (np.complex64(3 + 2.9e-5j), "float32", ()),
        ([np.complex128(1), 1e-10j, 2], "float64", (3,)),
        (np.linalg.eigvals(np.array([[1.0, 1e-20], [-1e-20, 1.0]])), "float64", (2,)),
        (torch.ones(2, dtype=torch.complex128), "float64", (2,)),
    ],
)
def test_numbers_lists_arrays_and_tensors_are_arrays(value, dtype, shape):
    array = as_array(value)
    assert type(array) is np.ndarray
    assert (array.dtype, array.shape) == (dtype, shape)


def test_what_is_complex_by_rounding_is_its_real_part():
    np.testing.assert_array_equal(as_array(np.array([-2 + 1e-9j, 1 - 1e-9j, -0j])), [-2, 1, 0])


@pytest.mark.parametrize(
    "value",
    [
        None,
        "1.0",
        ["1.0"],
        [1.0, None],
        [None],
        [np.ones(2), None],
        [np.ones(2), np.ones(3)],
        {"a": 1},
        1j,
        1 + 2e-9j,
        np.complex64(3 + 3.1e-5j),
        np.array([1, -2e-9j]),
        np.array([np.inf, 1 + 1j]),
        np.array([1, complex(0, np.nan)]),
        [1.0, 1j],
        torch.ones(2) * 1j,
        10**30,
        range(3),
        np.array(["a"]),
        np.array([None]),
        np.float64,
        np.ndarray,
        torch.Tensor,
        LooksLikeAnArray,
        LooksLikeAnArray(),
        object(),
    ],
)
def test_anything_else_is_not(value):
    assert as_array(value) is None


def test_nothing_needs_torch(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    np.testing.assert_array_equal(as_array([1.0, np.float64(2)]), [1, 2])


def test_fresh_copies_share_nothing():
    before = (np.ones(2), [torch.ones(2)])
    after = fresh(before)
    after[0][0], after[1][0][1] = 5, 5
    assert unchanged(before, (np.ones(2), [torch.ones(2)]))
    assert not unchanged(before, after)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "left",
        3,
        np.array([np.nan, 1.0]),
        np.array([True, False]),
        np.array([1, 2]),
        torch.tensor([np.nan, 1.0]),
        [np.ones(2), np.ones(3)],
        ("left", [np.ones(2), "right"]),
        {"a": np.ones(2), "b": {"c": "left"}},
        Data(np.ones(2)),
        Bare,
        Data,
        len,
        object(),
    ],
)
def test_what_nobody_touched_is_unchanged(value):
    assert unchanged(value, value)
    assert unchanged(value, fresh((value,))[0])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1.0, 2.0),
        ("left", "right"),
        (np.ones(2), np.array([1.0, 2.0])),
        (np.ones(2), np.ones(3)),
        (np.array([np.nan]), np.array([1.0])),
        (torch.ones(2), torch.zeros(2)),
        ([1.0, 2.0], [1.0, None]),
        ([1.0, 2.0], [1.0, 2.0, 3.0]),
        (["left", "left"], ["left", "right"]),
        (["left"], ["left", "left"]),
        ([["left"], "right"], [None, "right"]),
        ([np.ones(2), np.ones(3)], [np.ones(2), np.zeros(3)]),
        ([np.ones(2), np.ones(3)], [np.ones(2)]),
        (("left", [1.0]), ("left", [2.0])),
        ({"a": 1.0}, {"a": 2.0}),
        ({"a": 1.0}, {"b": 1.0}),
        ({"a": 1.0}, {"a": 1.0, "b": 1.0}),
        ({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 2.0}),
        ({"a": {"b": 1.0}}, {"a": None}),
        (Data(np.ones(2)), Data(np.zeros(2))),
        (Data(np.ones(2), "train"), Data(np.ones(2), "test")),
        ([Data(np.ones(2)), "left"], [None, "left"]),
    ],
)
def test_every_change_is_noticed(before, after):
    assert not unchanged(before, after)


ARRAY = np.ones(2)


@pytest.mark.parametrize(
    ("example", "value", "expected"),
    [
        (ARRAY, [1, 2], np.array([1.0, 2.0])),
        (ARRAY, np.float32([1.5, 2]), np.array([1.5, 2.0])),
        (ARRAY, np.longdouble([1, 2]) / 3, np.array([1, 2]) / 3),
        (ARRAY, ARRAY + 1e-12j, ARRAY),
        (1.0, 2 + 1e-12j, 2.0),
        (ARRAY, 2.0, np.array([2.0])),
        (np.arange(3), np.array([0.0, 2.0, 1.0]), np.array([0, 2, 1])),
        (np.arange(3), np.array([0.5, 2.0]), np.array([0.5, 2.0])),
        (np.arange(3), np.array([np.nan, 2.0]), np.array([np.nan, 2.0])),
        (ARRAY > 0, np.array([0.0, 1.0]), np.array([False, True])),
        (ARRAY > 0, np.array([0.0, 2.0]), np.array([0.0, 2.0])),
        ((ARRAY, 3), (ARRAY, 5.0), (ARRAY, 5)),
        ((1.0, 2.0), np.array([3, 4]), (3.0, 4.0)),
        (ARRAY, torch.tensor([1.0, 2.0]), np.array([1.0, 2.0])),
        ((ARRAY, 1.0), [[[1, 2], [3, 4]], torch.tensor(5.0)], (np.array([[1.0, 2], [3, 4]]), 5.0)),
        (1.0, np.array([[2.5]]), 2.5),
        (np.float64(1.0), torch.tensor([2.5]), 2.5),
        (True, np.array([False]), False),
    ],
)
def test_answers_take_the_form_of_the_reference(example, value, expected):
    found = shaped_like(example, value)
    assert type(found) is type(expected)
    parts = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for one, other in parts:
        assert type(one) is type(other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("example", "value"),
    [
        (ARRAY, "left"),
        (ARRAY, [[1], [1, 2]]),
        ((ARRAY, 1.0), [1.0]),
        (1.0, [1.0, 2.0]),
        ("left", [1.0]),
        (1.0, None),
    ],
)
def test_what_has_no_such_form_comes_back_as_it_is(example, value):
    assert shaped_like(example, value) is value


@pytest.mark.parametrize(
    ("value", "single"),
    [
        (np.float32(1), True),
        (np.ones(2, dtype=np.float16), True),
        (torch.ones(2), True),
        (torch.ones(2, dtype=torch.bfloat16), True),
        ((1.0, [np.ones(2), np.float32(2)]), True),
        (1.0, False),
        (np.ones(2), False),
        (torch.ones(2, dtype=torch.float64), False),
        (np.int32(1), False),
        ((1.0, "float32"), False),
        (None, False),
    ],
)
def test_values_with_few_digits(value, single):
    assert in_single(value) is single
