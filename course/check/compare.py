"""Is this answer the same as that one? If not, why, in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from course.check.specification import Compare
from course.check.values import as_array, in_single
from course.check.wording import brief, kind

TOO_COARSE = "which cannot hold this answer well enough"
SINGLE = Compare(rtol=1e-5, atol=1e-6)  # what an answer computed in float32 can be held to


def mismatch(reference: Any, answer: Any, how: Compare) -> str | None:
    """None if `answer` equals `reference`, else what is wrong, to stand after "Your answer: "."""
    if reference is None or isinstance(reference, str):
        same = answer is None if reference is None else isinstance(answer, str) and answer == reference
        return None if same else "it differs" if isinstance(answer, str) else f"it is {kind(answer)}"
    if isinstance(reference, tuple) and len(reference) > 1:
        return _mismatch_parts(reference, answer, how)
    wanted, given = as_array(reference), as_array(answer)
    if wanted is None:
        if isinstance(reference, list):
            return _mismatch_parts(reference, answer, how)
        return f"there is no way to compare with {kind(reference)}"
    if given is None:
        return f"it is {kind(answer)}, expected {kind(reference)}"
    if wanted.shape != given.shape and not wanted.size == given.size == 1:
        return _mismatch_shapes(wanted.shape, given.shape)
    with np.errstate(all="ignore"):  # a wrong answer may hold anything
        return _mismatch_numbers(wanted, given.reshape(wanted.shape), how)


def _mismatch_parts(reference: tuple | list, answer: Any, how: Compare) -> str | None:
    if not isinstance(answer, tuple | list):
        array = as_array(answer)
        if array is None or array.ndim == 0:
            return f"it is {kind(answer)}, expected {len(reference)} values"
        answer = list(array)
    if len(answer) != len(reference):
        return f"it has {len(answer)} values, expected {len(reference)}"
    for number, (wanted, given) in enumerate(zip(reference, answer, strict=True), start=1):
        problem = mismatch(wanted, given, how)
        if problem:
            return f"in value {number} of {len(reference)}, {problem}"
    return None


def _mismatch_shapes(wanted: tuple, given: tuple) -> str:
    if wanted == ():
        return f"it is an array of shape {given}, expected a single number"
    if given == ():
        return f"it is a single number, expected an array of shape {wanted}"
    transposed = ", which is its transpose" if len(wanted) == 2 and wanted == given[::-1] else ""
    return f"it has shape {given}, expected {wanted}{transposed}"


def _mismatch_numbers(wanted: np.ndarray, given: np.ndarray, how: Compare) -> str | None:
    rtol, atol = how.rtol, how.atol
    single = in_single(given)
    if single:  # where a specification says atol=0, tiny answers have to be right, in float32 too
        rtol, atol = max(rtol, SINGLE.rtol), max(atol, SINGLE.atol) if atol else 0.0
        lost = wanted.astype(given.dtype)
    kinds = [bool if array.dtype.kind == "b" else float for array in (wanted, given)]
    wanted, given = wanted.astype(np.float64), given.astype(np.float64)
    if how.up_to_scale:
        wanted, given = _direction(wanted), _direction(given)
    if _close(wanted, given, rtol, atol):
        return None
    if single and not _close(wanted, _direction(lost) if how.up_to_scale else lost, rtol, atol):
        return f"it is in {lost.dtype}, {TOO_COARSE}: compute in float64"
    if np.isnan(given).any() and not np.isnan(wanted).any():
        return "it has a NaN (not a number) in it"
    if np.isinf(given).any() and not np.isinf(wanted).any():
        return "it has an infinity in it"
    if _close(wanted, -given, rtol, atol):
        return "it has the opposite sign"
    if wanted.ndim == 2 and wanted.shape[0] == wanted.shape[1] and _close(wanted, given.T, rtol, atol):
        return "it is transposed"
    if wanted.size == 1:
        return "it differs" if kinds[0] is bool else "the number differs"
    factor = (wanted * given).sum() / (wanted * wanted).sum()
    # of two entries with a fixed sum any two are in proportion: then only a round factor says something
    if (
        np.isfinite(factor)
        and (wanted.size > 2 or _is_round(factor))
        and _close(wanted, given / factor, rtol, atol)
    ):
        return f"every entry is {_in_digits(factor)} times what it should be"
    return _differing_entries(wanted, given, rtol, atol, kinds)


def _differing_entries(
    wanted: np.ndarray, given: np.ndarray, rtol: float, atol: float, kinds: list[type]
) -> str:
    """How many entries differ, and the one that differs most."""
    alike = (wanted == given) | (np.isnan(wanted) & np.isnan(given))
    distance = np.where(alike, 0, np.nan_to_num(np.abs(given - wanted), nan=np.inf))
    allowed = atol + rtol * np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    number = int((distance > allowed).sum())
    worst = np.unravel_index(distance.argmax(), distance.shape)
    place = "][".join(str(int(index)) for index in worst)
    expected, got = brief(kinds[0](wanted[worst])), brief(kinds[1](given[worst]))
    return f"{number} of {wanted.size} entries differ, most of all [{place}]: expected {expected}, got {got}"


def _close(wanted: np.ndarray, given: np.ndarray, rtol: float, atol: float) -> bool:
    """Within atol + rtol * max |wanted|; infinities and NaNs must stand in the same places."""
    finite = np.isfinite(wanted)
    if finite.all():
        return bool(np.abs(given - wanted).max(initial=0) <= atol + rtol * np.abs(wanted).max(initial=0))
    if not np.array_equal(wanted[~finite], given[~finite], equal_nan=True):
        return False
    wanted, given = wanted[finite], given[finite]
    return wanted.size == 0 or bool(np.abs(given - wanted).max() <= atol + rtol * np.abs(wanted).max())


def _is_round(factor: float) -> bool:
    """Whether an answer may be off by this factor through a slip: a small whole number, or one over it."""
    return any(abs(number - round(number)) < 1e-6 for number in (factor, 1 / factor if factor else 0.5))


def _in_digits(factor: float) -> str:
    """A factor in four digits, or in as many as tell it from 1."""
    return next(text for digits in range(4, 18) if (text := f"{factor:.{digits}g}") not in ("1", "-1"))


def _direction(array: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(array)
    return array / length if 0 < length < np.inf else array
