"""Values in words: short, the same on every run, without addresses or paths."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from course.check.values import as_array

SMALL = 12  # entries of an array that are printed in full


def kind(value: Any) -> str:
    """What sort of thing a value is: "a number", "an array of shape (3, 2)", "None"."""
    if value is None:
        return "None"
    if isinstance(value, bool | np.bool_):
        return "True or False"
    if isinstance(value, str):
        return "a string"
    array = as_array(value)
    if array is None and isinstance(value, np.ndarray):
        of = {"c": "complex numbers", "U": "strings", "S": "strings"}.get(value.dtype.kind, "objects")
        return f"an array of {of}"
    if isinstance(value, tuple) and len(value) > 1:
        return f"{len(value)} values"
    if array is None:
        return "a function" if callable(value) else f"an object of type {type(value).__name__}"
    return "a number" if array.ndim == 0 else f"an array of shape {array.shape}"


def brief(value: Any) -> str:
    """A value as a learner would write it down, shortened when it is long."""
    if isinstance(value, str):
        return repr(str(value)) if len(value) <= 60 else repr(value[:57]) + "..."
    if isinstance(value, tuple) and 1 < len(value) <= SMALL:
        return "(" + ", ".join(brief(part) for part in value) + ")"
    array = as_array(value)
    if array is not None and array.size <= SMALL:
        return _entries(array)
    if array is not None:
        first = ", ".join(_number(entry) for entry in array.flat[:4])
        return f"an array of shape {array.shape}: {first}, ..."
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(f'{name}: {kind(part)}' for name, part in parts)})"
    return getattr(value, "__name__", None) or kind(value)


def _entries(array: np.ndarray) -> str:
    return _number(array[()]) if array.ndim == 0 else "[" + ", ".join(_entries(part) for part in array) + "]"


def _number(entry: Any) -> str:
    if isinstance(entry, bool | np.bool_):
        return str(bool(entry))
    if isinstance(entry, int | np.integer):
        return str(int(entry))
    text = f"{float(entry):.6g}"
    return text if any(character in text for character in ".en") else text + "."
