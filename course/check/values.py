"""Reading what functions take and give: numbers, lists, numpy arrays and torch tensors alike."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

DOUBLE = np.dtype(np.float64)
ROUNDING, SINGLE = 1e-9, 1e-5  # of the largest entry: imaginary parts as np.linalg.eigvals leaves them


def as_array(value: Any) -> np.ndarray | None:
    """A number, list, numpy array or torch tensor as a numpy array of numbers; None for anything else.

    What is complex by rounding only counts as its real part.
    """
    array = _array(value)
    if array is not None and array.dtype.kind == "c":
        size = np.abs(array.real[np.isfinite(array)]).max(initial=0)
        most = size * (SINGLE if array.dtype == np.complex64 else ROUNDING)
        array = array.real if np.abs(array.imag).max(initial=0) <= most else None
    return array


def _array(value: Any) -> np.ndarray | None:
    torch = sys.modules.get("torch")  # never imported just to look at an answer
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            value = value.detach().cpu().to_dense()
            array = (value.float() if value.dtype is torch.bfloat16 else value).numpy()
        elif isinstance(value, list | tuple):
            array = np.array([_array(part) for part in value])
        elif isinstance(value, bool | int | float | complex) or hasattr(value, "__array__"):
            array = np.asarray(value)
        else:
            return None
    except Exception:  # a ragged list, or an object that only looks like an array
        return None
    return array if array.dtype.kind in "biufc" else None


def shaped_like(example: Any, value: Any) -> Any:
    """A value in the form of an example, so that what counts as equal to it can also be used in its place.

    A list or tensor becomes an array, an array that holds one number a number (or the other way round), and
    token numbers that were collected as floats become integers. Tuples are taken part by part; what has no
    such form comes back as it is.
    """
    if isinstance(example, tuple):
        parts = as_array(value) if not isinstance(value, tuple | list) else value
        if parts is None or (isinstance(parts, np.ndarray) and parts.ndim == 0) or len(parts) != len(example):
            return value
        return tuple(map(shaped_like, example, parts))
    if not isinstance(example, np.ndarray | np.number | np.bool | int | float):
        return value
    array, wanted = as_array(value), np.asarray(example)
    if array is None or (type(value) is type(example) and np.asarray(value).dtype == wanted.dtype):
        return value
    array = _with_type(array, wanted.dtype)
    if isinstance(example, np.ndarray):
        return array.reshape((1,) * wanted.ndim) if array.ndim == 0 else array
    return array.item() if array.size == 1 else value


def in_single(value: Any) -> bool:
    """Whether a value, or a part of it, has fewer digits than a float of Python."""
    if isinstance(value, tuple | list):
        return any(map(in_single, value))
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype is DOUBLE:
        return False
    return str(dtype).removeprefix("torch.") in ("float32", "float16", "bfloat16")


def _with_type(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array with another type of numbers, unless that would change them by more than rounding."""
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        same = np.array_equal(converted.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
    return converted if same or array.dtype.kind == dtype.kind == "f" else array


def fresh(arguments: tuple) -> tuple:
    """A copy of the inputs that a function may do with as it likes."""
    return copy.deepcopy(arguments)


def unchanged(before: Any, after: Any) -> bool:
    """Whether an input is still what it was, looking into tuples, lists, dictionaries and dataclasses."""
    if type(before) is not type(after):
        return False
    if isinstance(before, int | float | str):
        return before == after or before != before  # NaN is not
    if dataclasses.is_dataclass(before) and not isinstance(before, type):
        names = [field.name for field in dataclasses.fields(before)]
        return all(unchanged(getattr(before, name), getattr(after, name)) for name in names)
    if isinstance(before, Mapping):
        return before.keys() == after.keys() and all(unchanged(before[key], after[key]) for key in before)
    array = as_array(before)
    if array is not None:
        now = as_array(after)
        return now is not None and (np.array_equal(array, now) or np.array_equal(array, now, equal_nan=True))
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(unchanged, before, after))
    return True
