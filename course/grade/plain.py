"""Plain data across the sandbox's wall: numbers, strings, arrays and lists of these, as JSON.

This file is used on both sides. `encode` runs among student code and makes data of whatever a student's
function returned. `decode` runs outside, trusts nothing, and never builds anything but plain values.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import sys
from typing import Any

import numpy as np

DTYPES = {f"<{kind}{size}" for kind in "iuf" for size in (2, 4, 8)} | {"|b1", "|i1", "|u1", "<c8", "<c16"}
DEPTH = 8  # lists in lists
TEXT = 2000  # characters of a string
BIGGEST = 10**18  # of an integer
SIZE = 2**17  # bytes of a whole value, where an entry of a list counts ENTRY; a lesson's answer has 2,000
ENTRY = 32
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)  # each byte is read once


class TooLarge(ValueError):
    """A value that takes more than `SIZE`."""


def encode(
    value: Any, depth: int = 0, room: list[int] | None = None
) -> dict | str | int | float | bool | None:
    """Turn a value into JSON-able data; what is not plain becomes the name of its type.

    Raises:
        TooLarge: it would take too long to read outside.
    """
    room = [SIZE] if room is None else room  # what is left, for all parts together
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        _take(room, len(value[:TEXT]))
        return value[:TEXT]
    if isinstance(value, int | float) and not hasattr(value, "__array__"):
        value = int.__int__(value) if isinstance(value, int) else float.__float__(value)  # of subclasses
        if isinstance(value, int) and abs(value) > BIGGEST:
            return {"other": "int"}
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, list | tuple) and depth < DEPTH:
        _take(room, ENTRY * len(value))
        parts = [encode(part, depth + 1, room) for part in value]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu().to_dense()
        value = (value.float() if value.dtype is torch.bfloat16 else value).numpy()
    if isinstance(value, complex) or hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.char in "gG":  # numpy's long doubles
            array = array.astype(np.float64 if array.dtype.kind == "f" else np.complex128)
        dtype = array.dtype.newbyteorder("<")
        if dtype.str in DTYPES:
            _take(room, array.nbytes)
            data = base64.b64encode(array.astype(dtype).tobytes()).decode()
            return {"array": data, "dtype": dtype.str, "shape": list(array.shape)}
    return {"other": str(type(value).__name__)[:60]}


def _take(room: list[int], size: int) -> None:
    room[0] -= size
    if room[0] < 0:
        raise TooLarge(f"it takes more than {SIZE} bytes")


def parse(raw: bytes, parts: int) -> Any:
    """JSON from a stranger, which may be small as text and still take gigabytes as lists of lists.

    Raises:
        ValueError: not JSON in UTF-8, more lists, objects and entries than `parts`, or a number too long.
        RecursionError: nested too deeply.
    """
    bare = STRING.sub(b"", raw)  # commas in texts are no parts
    if sum(map(bare.count, (b"[", b"{", b","))) > parts:
        raise ValueError(f"it has more than {parts:,} parts")
    text = raw.decode("utf-8-sig")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # Python reads no longer ones
        raise ValueError("it holds a number of thousands of digits") from error


def readable(text: Any, length: int) -> str:
    """The beginning of a stranger's text for people and databases: no NUL, no half characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text)[:length])


def decode(data: Any, depth: int = 0, room: list[int] | None = None) -> Any:
    """Rebuild a value from what `encode` made; anything malformed is a ValueError.

    Something that was not plain comes back as an empty object whose type has the same name.

    Raises:
        TooLarge: `encode` would not have made it.
    """
    room = [SIZE] if room is None else room
    if data is None or isinstance(data, bool | float):
        return data
    if isinstance(data, str):
        _take(room, len(data[:TEXT]))
        return data[:TEXT]
    if isinstance(data, int) and abs(data) <= BIGGEST:
        return data
    if not isinstance(data, dict) or depth > DEPTH:
        raise ValueError("not plain data")
    keys = set(data)
    if keys == {"float"} and data["float"] in ("nan", "inf", "-inf"):
        return float(data["float"])
    if keys in ({"list"}, {"tuple"}):
        ((name, parts),) = data.items()
        if not isinstance(parts, list):
            raise ValueError("not a list")
        _take(room, ENTRY * len(parts))
        decoded = [decode(part, depth + 1, room) for part in parts]
        return tuple(decoded) if name == "tuple" else decoded
    if keys == {"other"} and isinstance(data["other"], str):
        name = "".join(c for c in data["other"] if c.isalnum() or c == "_")[:60]
        return type(name or "object", (), {})()
    if keys == {"array", "dtype", "shape"}:
        array = _array(data["array"], data["dtype"], data["shape"])
        _take(room, array.nbytes)
        return array
    raise ValueError("not plain data")


def _array(text: Any, dtype: Any, shape: Any) -> np.ndarray:
    if not isinstance(dtype, str) or dtype not in DTYPES or not isinstance(text, str):
        raise ValueError("not an array of numbers")
    if not isinstance(shape, list) or len(shape) > 32 or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("not a shape")
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    if len(raw) != math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError("the shape does not fit the data")
    return np.frombuffer(raw, dtype=dtype).reshape(shape).copy()[()]  # a scalar where there is no dimension
