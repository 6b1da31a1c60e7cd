import enum
import json
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course.check.values import as_array
from course.grade import plain

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats() | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=12,
)


def through(value):
    return plain.decode(json.loads(json.dumps(plain.encode(value))))


@pytest.mark.slow
@given(VALUES)
@settings(derandomize=True, max_examples=150, deadline=None)
def test_plain_values_come_back_as_they_were(value):
    np.testing.assert_equal(through(value), value)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8", "bool", ">f8"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_arrays_keep_values_shape_and_precision(dtype, shape):
    array = np.ones(shape, dtype=dtype)
    back = through(array)
    np.testing.assert_array_equal(back, array)
    assert np.asarray(back).shape == shape
    assert np.asarray(back).dtype.itemsize == array.dtype.itemsize


@pytest.mark.parametrize(
    "value", [np.float64(0.1), np.float32(0.1), np.int64(-3), np.uint8(3), np.bool_(True)]
)
def test_numpy_scalars_stay_scalars(value):
    back = through(value)
    assert type(back) is type(value)
    assert back == value


def test_an_array_that_came_through_may_be_written_to():
    back = through(np.zeros(2))
    back[0] = 1
    assert back.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        (float("nan"), {"float": "nan"}),
        (float("-inf"), {"float": "-inf"}),
        (10**18, 10**18),
        (-(10**18), -(10**18)),
        (10**18 + 1, {"other": "int"}),
        ((1, [2]), {"tuple": [1, {"list": [2]}]}),
        (np.array([1, 2], dtype=">i2"), {"array": "AQACAA==", "dtype": "<i2", "shape": [2]}),
        (np.array([[True], [False]]), {"array": "AQA=", "dtype": "|b1", "shape": [2, 1]}),
        (np.longdouble(1), {"array": "AAAAAAAA8D8=", "dtype": "<f8", "shape": []}),
        (np.array(["a"]), {"other": "ndarray"}),
        (type("a" * 61, (), {})(), {"other": "a" * 60}),
    ],
)
def test_the_data_that_crosses_the_wall(value, data):
    assert plain.encode(value) == data


class Own(float):
    """A number of a student's own class."""


class Colour(enum.IntEnum):
    RED = 3


@pytest.mark.parametrize(
    "value",
    [
        *(True, 3, 0.5, float("nan"), Own(0.5), Own("inf"), Colour.RED),
        *([Own(0.5), Colour.RED], (1, np.float64(2)), [[1, 2], [3, 4]], [np.ones(2)], [True, False]),
        *(np.longdouble("0.1"), np.ones((2, 2), np.longdouble), np.float16(0.5), np.bool_(True)),
        *(np.ones(2, ">i4"), np.uint8(3), np.ones(2).view(np.matrix), np.ma.array([1.0, 2.0])),
        *(torch.ones(2), torch.tensor(3), torch.ones(2, dtype=torch.bfloat16), torch.ones(1).to_sparse()),
        torch.nn.Parameter(torch.ones(2)),
        *(complex(3), np.complex128(3 + 1e-12j), np.ones(2, np.complex64), [np.complex128(1), 2 + 1e-12j]),
        *(np.ones(2, np.clongdouble), torch.ones(2, dtype=torch.complex128)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_check_takes_for_numbers_arrives_as_those(value):
    np.testing.assert_allclose(as_array(through(value)), as_array(value).astype(float))


@pytest.mark.parametrize("value", [1j, np.complex128(1j), np.array([1, 1j])])
def test_complex_numbers_stay_complex(value):
    np.testing.assert_array_equal(through(value), value)
    assert as_array(through(value)) is None


def test_infinities_and_names_come_back():
    assert plain.decode({"float": "inf"}) == float("inf")
    assert plain.decode({"float": "-inf"}) == -float("inf")
    assert np.isnan(plain.decode({"float": "nan"}))
    assert type(plain.decode({"other": "a_1 <b>"})).__name__ == "a_1b"
    assert type(plain.decode({"other": "<>"})).__name__ == "object"
    assert type(plain.decode({"other": "a" * 61})).__name__ == "a" * 60
    assert plain.decode({"array": "AA==", "dtype": "|u1", "shape": [1] * 32}).ndim == 32


def test_long_strings_are_cut_on_both_sides():
    assert plain.encode("a" * (plain.TEXT + 1)) == "a" * plain.TEXT
    assert plain.decode("a" * (plain.TEXT + 1)) == "a" * plain.TEXT


def test_nothing_needs_torch(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    np.testing.assert_array_equal(through(np.ones(2)), [1, 1])


def test_strided_and_torch_arrays_are_copied_out():
    array = np.arange(12.0).reshape(3, 4)[::2, ::-1]
    np.testing.assert_array_equal(through(array), array)
    tensor = torch.arange(3.0, requires_grad=True)
    np.testing.assert_array_equal(through(tensor), [0, 1, 2])
    assert through(tensor).dtype == np.float32
    assert through(torch.ones(2, dtype=torch.float64)).dtype == np.float64
    assert through(torch.ones(2, dtype=torch.int64)).dtype == np.int64
    np.testing.assert_array_equal(through(torch.ones(2, dtype=torch.bfloat16)), [1, 1])


@pytest.mark.parametrize("value", [object(), {"a": 1}, {1}, print, 10**30, np.array(["a"]), np.array([None])])
def test_other_things_are_only_named(value):
    back = through(value)
    assert type(back).__name__ == type(value).__name__
    assert vars(back) == {}


def test_a_list_that_holds_itself_ends():
    ring = []
    ring.append(ring)
    assert json.dumps(plain.encode(ring)).count("list") <= plain.DEPTH + 1


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"array": "AAAA", "dtype": "|O", "shape": [1]}, "not an array of numbers"),
        ({"array": "AAAA", "dtype": ["<f8"], "shape": [1]}, "not an array of numbers"),
        ({"array": "AAAA", "dtype": None, "shape": [1]}, "not an array of numbers"),
        ({"array": 3, "dtype": "<f8", "shape": []}, "not an array of numbers"),
        ({"array": "AAAA", "dtype": "|u1", "shape": [-3, -1]}, "not a shape"),
        ({"array": "AAAA", "dtype": "|u1", "shape": [3.0]}, "not a shape"),
        ({"array": "AA==", "dtype": "|u1", "shape": [True]}, "not a shape"),
        ({"array": "AA==", "dtype": "|u1", "shape": [1] * 33}, "not a shape"),
        ({"array": "AA==", "dtype": "|u1", "shape": {}}, "not a shape"),
        ({"array": "AA==", "dtype": "|u1", "shape": None}, "not a shape"),
        ({"array": "****", "dtype": "|u1", "shape": [3]}, "not base64"),
        ({"array": "A*A*A*A*", "dtype": "|u1", "shape": [3]}, "not base64"),
        ({"array": "AAAA", "dtype": "<f8", "shape": [1]}, "the shape does not fit the data"),
        ({"array": "AAAA", "dtype": "|u1", "shape": [2]}, "the shape does not fit the data"),
        ({"array": "", "dtype": "<f8", "shape": [10**30]}, "the shape does not fit the data"),
        ({"array": "AAAA", "dtype": "|u1"}, "not plain data"),
        ({"list": 3}, "not a list"),
        ({"tuple": {}}, "not a list"),
        ({"list": [], "tuple": []}, "not plain data"),
        ({"float": "1e5"}, "not plain data"),
        ({"float": ["nan"]}, "not plain data"),
        ({"other": 3}, "not plain data"),
        ({"py/object": "os.system"}, "not plain data"),
        ({}, "not plain data"),
        ([1, 2], "not plain data"),
        (10**18 + 1, "not plain data"),
        (-(10**40), "not plain data"),
    ],
)
def test_malformed_data_is_refused(data, says):
    with pytest.raises(ValueError, match=f"^{says}$"):
        plain.decode(data)


def test_an_empty_array_of_no_size_at_all_is_refused():
    with pytest.raises(ValueError, match=r"."):
        plain.decode({"array": "", "dtype": "<f8", "shape": [0, 10**30]})


def nested(value, times):
    for _ in range(times):
        value = [value]
    return value


def test_lists_go_as_deep_as_promised_and_no_deeper():
    deepest = nested(np.ones(2), plain.DEPTH)
    np.testing.assert_equal(through(deepest), deepest)
    np.testing.assert_equal(through(nested((1.5, "a"), plain.DEPTH - 1)), nested((1.5, "a"), plain.DEPTH - 1))
    back = through(nested(1.5, plain.DEPTH + 1))
    for _ in range(plain.DEPTH):
        (back,) = back
    assert type(back).__name__ == "list"
    assert vars(back) == {}


def test_deep_data_is_refused():
    data = 1
    for _ in range(plain.DEPTH + 1):
        data = {"list": [data]}
    plain.decode(data)
    with pytest.raises(ValueError, match=r"^not plain data$"):
        plain.decode({"list": [data]})


def test_lists_and_tuples_are_not_confused():
    assert through((1, [2, (3,)], [])) == (1, [2, (3,)], [])
