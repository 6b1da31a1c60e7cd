"""Where an answer is wrong: on which inputs, in which entries, and what it holds there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from course.check.pattern.evidence import Evidence
from course.check.values import as_array
from course.check.wording import brief

NEAR = 0.01  # in parts of each right entry, how far off an answer is that is nearly right


def constant(evidence: Evidence) -> str | None:
    """An answer that is the same on every input: one number, True or False, or one array."""
    given = [value for value in evidence.given if value is not None]
    right = [value for value in evidence.right if value is not None]
    if len(given) < max(3, len(evidence.given)) or len({str(value) for value in right}) < 2:
        return None
    held = {entry for value in given for entry in np.unique(value).tolist()}
    if len(held) == 1:
        (entry,) = held
        kind = bool if all(value.dtype.kind == "b" for value in given) else float
        entries = "every entry of your answer" if any(value.size > 1 for value in given) else "your answer"
        return f"{entries} is {brief(kind(entry + 0)).removesuffix('.')} on every input"
    if all(np.array_equal(given[0], value, equal_nan=value.dtype.kind == "f") for value in given):
        return "your answer is the same on every input"
    return None


def entries(evidence: Evidence) -> str | None:
    """What the wrong entries have in common, and no right one has."""
    marked = _wrong_entries(evidence)
    if marked is None:
        return None
    wrong = sum(int(mask.sum()) for _, mask in marked)
    fine = sum(int((~mask).sum()) for _, mask in marked)
    if wrong < 4 or fine < 4 or _only_zeros_are_right(evidence, marked):
        return None
    there = _held_there(evidence, marked)
    rows = any(evidence.right[index].ndim > 1 for index, _ in marked)
    for words in _names_of_entries(evidence, "row" if rows else "entry"):
        if all(np.array_equal(mask, _entries_where(evidence, index, words)) for index, mask in marked):
            return f"{words[1]} wrong, all others are right{there}"
    return None


def _wrong_entries(evidence: Evidence) -> list[tuple[int, np.ndarray]] | None:
    """For each input, which entries are wrong; None if that cannot be told."""
    marked = []
    for index, (right, given) in enumerate(zip(evidence.right, evidence.given, strict=True)):
        if right is None or given is None or right.shape != given.shape or right.size < 2:
            return None
        with np.errstate(all="ignore"):
            scale = np.abs(right.astype(float)[np.isfinite(right.astype(float))]).max(initial=0)
            apart = np.abs(right.astype(float) - given.astype(float))
            how = evidence.compare
            marked.append((index, ~((right == given) | (apart <= how.atol + how.rtol * scale))))
    return marked


def _only_zeros_are_right(evidence: Evidence, marked: list[tuple[int, np.ndarray]]) -> bool:
    """Whether no right entry says much: a zero survives most mistakes."""
    return not any(evidence.right[index][~mask].any() for index, mask in marked)


Named = tuple[Any, str]


def _names_of_entries(evidence: Evidence, one: str) -> Iterator[Named]:
    yield "right < 0", "the entries whose right value is negative are"
    yield "right > 0", "the entries whose right value is positive are"
    yield "right == 0", "the entries whose right value is 0 are"
    yield "right != 0", "the entries whose right value is not 0 are"
    every = {"row": "rows", "entry": "entries"}[one]
    yield "first", f"the first {one} is"
    yield "last", f"the last {one} is"
    yield "not first", f"all {every} but the first are"
    yield "not last", f"all {every} but the last are"
    yield "diagonal", "the entries on the diagonal are"
    yield "off diagonal", "the entries off the diagonal are"
    yield "above", "the entries above the diagonal are"
    yield "below", "the entries below the diagonal are"
    yield "first column", "the first column is"
    yield "last column", "the last column is"
    yield "largest", "the largest entry is"
    yield "smallest", "the smallest entry is"
    for place, name in enumerate(evidence.names):
        yield (place, "< 0"), f"the entries where {name} is negative are"
        yield (place, "> 0"), f"the entries where {name} is positive are"
        yield (place, "== 0"), f"the entries where {name} is 0 are"
        yield (place, "!= 0"), f"the entries where {name} is not 0 are"
        yield (place, "> 1"), f"the entries where {name} is above 1 are"
        yield (place, "< 1"), f"the entries where {name} is below 1 are"
        yield (place, "== max"), f"the entry where {name} is largest is"
        yield (place, "== min"), f"the entry where {name} is smallest is"


def _entries_where(evidence: Evidence, index: int, words: Named) -> np.ndarray | None:
    key, right = words[0], evidence.right[index]
    if isinstance(key, tuple):
        value = as_array(evidence.cases[index][key[0]])
        if value is None or value.ndim == 0 or value.shape != right.shape[: value.ndim]:
            return None
        mask = _test(value, key[1])
        return np.broadcast_to(mask.reshape(mask.shape + (1,) * (right.ndim - mask.ndim)), right.shape)
    if key.startswith("right"):
        return _test(right, key.removeprefix("right "))
    if key in ("largest", "smallest"):
        return _test(right, "== max" if key == "largest" else "== min")
    grid = np.indices(right.shape)
    if key in ("first", "not first"):
        return (grid[0] == 0) ^ (key == "not first")
    if key in ("last", "not last"):
        return (grid[0] == len(right) - 1) ^ (key == "not last")
    if right.ndim < 2:
        return None
    row, column = grid[-2], grid[-1]
    return {
        "diagonal": row == column,
        "off diagonal": row != column,
        "above": row < column,
        "below": row > column,
        "first column": column == 0,
        "last column": column == right.shape[-1] - 1,
    }[key]


def _test(value: np.ndarray, relation: str) -> np.ndarray:
    tests = {
        "< 0": lambda x: x < 0,
        "> 0": lambda x: x > 0,
        "== 0": lambda x: x == 0,
        "!= 0": lambda x: x != 0,
        "> 1": lambda x: x > 1,
        "< 1": lambda x: x < 1,
        "== max": lambda x: x == x.max(),
        "== min": lambda x: x == x.min(),
    }
    return tests[relation](value.astype(float))


def _held_there(evidence: Evidence, marked: list[tuple[int, np.ndarray]]) -> str:
    """What the wrong entries hold, if it is one number."""
    held = {entry for index, mask in marked for entry in np.unique(evidence.given[index][mask]).tolist()}
    if len(held) != 1:
        return ""
    (entry,) = held
    return f"; yours is {brief(entry + 0).removesuffix('.')} there"


def one_sided(evidence: Evidence) -> str | None:
    """An answer that errs in one direction only: too large, or True where False is right."""
    pairs = list(zip(evidence.right, evidence.given, strict=True))
    if any(right is None or given is None or right.shape != given.shape for right, given in pairs):
        return None
    if all(right.dtype.kind == given.dtype.kind == "b" for right, given in pairs):
        said = [entry for right, given in pairs for entry in given[right != given].tolist()]
        if len(said) < 5 or len(set(said)) > 1:
            return None
        words, other = ("True", "False") if said[0] else ("False", "True")
        return f"wherever your answer is wrong it says {words}: each {other} of yours is right"
    signs = []
    for index in evidence.failing():
        right, given = (value.astype(float) for value in pairs[index])
        if not np.isfinite(right).all() or not np.isfinite(given).all():
            return None
        apart = given - right
        signs += np.sign(apart[np.abs(apart) > 1e-6 * np.abs(right).max(initial=0)]).tolist()
    if len(signs) < 8 or len(set(signs)) > 1:
        return None
    return f"wherever your answer is wrong, it is too {'large' if signs[0] > 0 else 'small'}"


def near(evidence: Evidence) -> str | None:
    """An answer that is wrong by little everywhere: what a loop leaves that ends early, or a small term."""
    most = 0.0
    for index in evidence.failing():
        right, given = evidence.right[index], evidence.given[index]
        if right is None or given is None or right.shape != given.shape or "f" not in right.dtype.kind:
            return None
        right, given = right.astype(float), given.astype(float)
        if not right.all() or not np.isfinite(right).all() or not np.isfinite(given).all():
            return None
        most = max(most, float(np.abs(given / right - 1).max(initial=0)))
    if len(evidence.failing()) < 4 or not 0 < most < NEAR:
        return None
    size = "a thousandth" if most < NEAR / 10 else "a hundredth"
    return (
        f"your answer is nearly right, off by less than {size} wherever it is wrong: a loop that ends "
        "too early, a tolerance that is too wide, or a small term too many or too few"
    )
