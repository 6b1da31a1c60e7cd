import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course.grade import plain

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats() | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=12,
)


def through(value):
    return plain.decode(json.loads(json.dumps(plain.encode(value))))


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


def test_strided_and_torch_arrays_are_copied_out():
    array = np.arange(12.0).reshape(3, 4)[::2, ::-1]
    np.testing.assert_array_equal(through(array), array)
    tensor = torch.arange(3.0, requires_grad=True)
    np.testing.assert_array_equal(through(tensor), [0, 1, 2])
    assert through(tensor).dtype == np.float32
    np.testing.assert_array_equal(through(torch.ones(2, dtype=torch.bfloat16)), [1, 1])


@pytest.mark.parametrize(
    "value", [object(), {"a": 1}, {1}, print, 1j, 10**30, np.array(["a"]), np.array([None])]
)
def test_other_things_are_only_named(value):
    back = through(value)
    assert type(back).__name__ == type(value).__name__
    assert vars(back) == {}


def test_a_list_that_holds_itself_ends():
    ring = []
    ring.append(ring)
    assert json.dumps(plain.encode(ring)).count("list") <= plain.DEPTH + 1


@pytest.mark.parametrize(
    "data",
    [
        {"array": "AAAA", "dtype": "|O", "shape": [1]},
        {"array": "AAAA", "dtype": "<f8", "shape": [1]},
        {"array": "****", "dtype": "|u1", "shape": [3]},
        {"array": "AAAA", "dtype": "|u1", "shape": [-3, -1]},
        {"array": "AAAA", "dtype": "|u1", "shape": [3.0]},
        {"array": "", "dtype": "<f8", "shape": [0, 10**30]},
        {"array": 3, "dtype": "<f8", "shape": []},
        {"array": "AAAA", "dtype": ["<f8"], "shape": [1]},
        {"list": 3},
        {"list": [], "tuple": []},
        {"float": "1e5"},
        {"py/object": "os.system"},
        [1, 2],
        10**40,
    ],
)
def test_malformed_data_is_refused(data):
    with pytest.raises(ValueError, match=r"."):
        plain.decode(data)


def test_deep_data_is_refused():
    data = 1
    for _ in range(20):
        data = {"list": [data]}
    with pytest.raises(ValueError, match="not plain"):
        plain.decode(data)
