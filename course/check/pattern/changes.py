"""Changes of one input with which the right formula gives the learner's answer: w negated, p set to 0, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from course.check.pattern.evidence import Evidence

ANY: dict[str, Callable] = {  # of numbers and of arrays; {} is the input's name
    "-{}": lambda x: -x,
    "0 in place of {}": lambda x: 0 * x,
    "1 in place of {}": lambda x: 0 * x + 1,
    "2 * {}": lambda x: 2 * x,
    "{} / 2": lambda x: x / 2,
    "{} ** 2": lambda x: x**2,
    "sqrt({})": lambda x: np.sqrt(x),
    "abs({})": lambda x: abs(x),
    "1 / {}": lambda x: 1 / x,
    "1 - {}": lambda x: 1 - x,
    "{} + 1": lambda x: x + 1,
    "{} - 1": lambda x: x - 1,
    "exp({})": lambda x: np.exp(x),
    "log({})": lambda x: np.log(x),
    "sign({})": lambda x: np.sign(x),
    "{} cut to 0 and more": lambda x: np.maximum(x, 0),
    "{} cut to the range 0 to 1": lambda x: np.clip(x, 0, 1),
    "{} / 10": lambda x: x / 10,
    "10 * {}": lambda x: 10 * x,
}
POSITIVE = ("log({})", "sqrt({})")  # nobody means these where the input may be negative
VECTORS: dict[str, Callable] = {
    "{}[::-1]": lambda x: x[::-1],
    "{} sorted": lambda x: np.sort(x, axis=-1),
    "{} sorted from large to small": lambda x: -np.sort(-x, axis=-1),
    "np.roll({}, 1, axis=0)": lambda x: np.roll(x, 1, axis=0),
    "np.roll({}, -1, axis=0)": lambda x: np.roll(x, -1, axis=0),
    "{} / norm({})": lambda x: x / np.linalg.norm(x),
    "{} / norm({}) ** 2": lambda x: x / np.linalg.norm(x) ** 2,
    "{} / {}.sum()": lambda x: x / x.sum(),
    "{} / {}.max()": lambda x: x / x.max(),
    "{} - {}.mean()": lambda x: x - x.mean(),
    "{} - {}.max()": lambda x: x - x.max(),
    "{} - {}.min()": lambda x: x - x.min(),
    "{} / len({})": lambda x: x / len(x),
    "len({}) * {}": lambda x: x * len(x),
    "the first entry of {} for all": lambda x: np.repeat(x[:1], len(x), axis=0),
    "the last entry of {} for all": lambda x: np.repeat(x[-1:], len(x), axis=0),
    "the mean of {} for all": lambda x: np.repeat(x.mean(0, keepdims=True), len(x), axis=0),
    "the largest entry of {} for all": lambda x: np.full_like(x, x.max()),
    "the smallest entry of {} for all": lambda x: np.full_like(x, x.min()),
}
MATRICES: dict[str, Callable] = {
    "{} transposed": lambda x: np.swapaxes(x, -1, -2).copy(),
    "{}[:, ::-1]": lambda x: x[:, ::-1].copy(),
    "np.roll({}, 1, axis=1)": lambda x: np.roll(x, 1, axis=1),
    "np.roll({}, -1, axis=1)": lambda x: np.roll(x, -1, axis=1),
    "{} with each row divided by its length": lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True),
    "{} with each row divided by its sum": lambda x: x / x.sum(-1, keepdims=True),
    "{} with each column divided by its length": lambda x: x / np.linalg.norm(x, axis=0, keepdims=True),
    "{} with the mean of its rows taken off": lambda x: x - x.mean(0, keepdims=True),
    "{} with the mean of each row taken off": lambda x: x - x.mean(-1, keepdims=True),
    "the diagonal of {} alone": lambda x: x * np.eye(x.shape[-1]),
    "the symmetric part of {}": lambda x: (x + np.swapaxes(x, -1, -2)) / 2,
    "the first column of {} for all": lambda x: np.repeat(x[:, :1], x.shape[1], axis=1),
    "the last column of {} for all": lambda x: np.repeat(x[:, -1:], x.shape[1], axis=1),
    "the mean of the columns of {} for all": lambda x: np.repeat(x.mean(1, keepdims=True), x.shape[1], 1),
    "the largest of each row of {} for all of it": lambda x: np.broadcast_to(
        x.max(-1, keepdims=True), x.shape
    ).copy(),
    "{} with the rows of its first two axes exchanged": lambda x: np.swapaxes(x, 0, 1).copy(),
}
COUNTS: dict[str, Callable] = {
    "1 in place of {}": lambda x: 1,
    "{} + 1": lambda x: x + 1,
    "{} - 1": lambda x: x - 1,
    "2 * {}": lambda x: 2 * x,
}
JOINT: dict[str, Callable] = {
    "the first of {} alone": lambda x: x[:1],
    "the last of {} alone": lambda x: x[-1:],
    "{} without the first": lambda x: x[1:],
    "{} without the last": lambda x: x[:-1],
}
BOOLEAN: dict[str, Callable] = {
    "~{}": lambda x: ~x if isinstance(x, np.ndarray) else not x,
    "True in place of {}": lambda x: np.ones_like(x) if isinstance(x, np.ndarray) else True,
    "False in place of {}": lambda x: np.zeros_like(x) if isinstance(x, np.ndarray) else False,
}
ARRAYS_OF_BOOL = ("{}[::-1]", "the first entry of {} for all", "the last entry of {} for all")


def changes(value: Any) -> Iterator[tuple[str, Callable]]:
    """The changes that make sense for an input of this kind."""
    if isinstance(value, bool | np.bool_):
        yield from BOOLEAN.items()
    elif isinstance(value, int | np.integer):
        yield from COUNTS.items()
    elif isinstance(value, float | np.floating):
        yield from ANY.items()
    elif isinstance(value, np.ndarray) and value.dtype.kind == "b":
        yield from BOOLEAN.items()
        yield from ((words, VECTORS[words]) for words in ARRAYS_OF_BOOL)
        if value.ndim > 1:
            yield "{} transposed", MATRICES["{} transposed"]
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        yield from ANY.items()
        if value.ndim:
            yield from VECTORS.items()
        if value.ndim > 1:
            yield from MATRICES.items()


def changed(case: tuple, place: int, change: Callable) -> tuple | None:
    """A case with one input changed, of the kind it was; None where there is no such change.

    No array changes its shape, and no count comes to 0: compiled code may crash on inputs that are empty.
    """
    value = case[place]
    try:
        with np.errstate(all="ignore"):
            new = change(value)
    except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError, np.linalg.LinAlgError):
        return None
    if isinstance(value, np.ndarray):
        new = _as_before(value, np.asarray(new))
        if new is None or (new.shape == value.shape and np.array_equal(new, value)):
            return None
        if new.shape != value.shape:
            return None
    elif isinstance(value, int | np.integer) and not isinstance(value, bool):
        if new == value or new < min(1, value):
            return None
    elif isinstance(value, float | np.floating):
        new = float(new)
    numbers = np.asarray(new)
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        return None
    return (*case[:place], new, *case[place + 1 :])


def _as_before(value: np.ndarray, new: np.ndarray) -> np.ndarray | None:
    """Numbers in the type of the input they replace: half a token number is none."""
    half = new.dtype.kind == "f" and not np.array_equal(new, np.round(new))
    if value.dtype.kind in "iu" and (half or not np.isfinite(new).all()):
        return None
    return np.ascontiguousarray(new.astype(value.dtype))


def change(evidence: Evidence, ignored: Sequence[str] = ()) -> str | None:
    """The change of an input with which the right formula gives the learner's answer on all that are wrong.

    Where several do, all are named; for an input that the answer ignores only a constant can be meant.
    """
    failing = evidence.failing()
    if len(failing) < 2 or not evidence.telling:
        return None
    first, found = evidence.cases[failing[0]], []
    for place, name in enumerate(evidence.names):
        for words, make in changes(first[place]):
            if name in ignored and "in place of" not in words:
                continue
            if words in POSITIVE and any(np.min(case[place]) < 0 for case in evidence.cases):
                continue
            if _explains(evidence, lambda case, place=place, make=make: changed(case, place, make)):
                found.append(words.replace("{}", name) + _instead(words, name))
                break
    for one, other in _exchangeable(first):
        if _explains(evidence, lambda case, one=one, other=other: exchanged(case, one, other)):
            found.append(f"{evidence.names[one]} and {evidence.names[other]} exchanged")
    together = _together(evidence.cases)
    names = " and ".join(evidence.names[place] for place in together)
    for words, make in JOINT.items() if len(together) > 1 and not found else ():
        if _explains(evidence, lambda case, make=make: jointly(case, together, make)):
            found.append(f"{words.replace('{}', names)}")
    return f"your answer is the right one for {', or '.join(found)}" if 0 < len(found) < 4 else None


def _instead(words: str, name: str) -> str:
    return "" if "in place of" in words else f" in place of {name}"


def _explains(evidence: Evidence, make: Callable[[tuple], tuple | None]) -> bool:
    """Whether the reference, on changed inputs, gives the learner's answer wherever that is wrong.

    On the other inputs it has to give the learner's answer as well, which is the right one, if the change is
    possible there: a change that spoils what is right explains nothing.
    """
    for index in [*evidence.failing(), *evidence.passing()]:
        case = make(evidence.cases[index])
        if case is None:
            if evidence.wrong[index]:
                return False
            continue
        if not evidence.same(evidence.call(evidence.reference, case), evidence.given[index]):
            return False
    return True


def _together(cases: list[tuple]) -> list[int]:
    """The arrays whose first axis is as long as another's in every case: one entry for a point each."""
    lengths = [[len(value) if np.ndim(value) else 0 for value in case] for case in cases]
    columns = list(zip(*lengths, strict=True))
    return [place for place, column in enumerate(columns) if min(column) > 0 and columns.count(column) > 1]


def jointly(case: tuple, together: list[int], change: Callable) -> tuple | None:
    """A case with the same change along the first axis of some inputs."""
    if len({len(case[place]) for place in together}) > 1 or len(case[together[0]]) < 2:
        return None
    return tuple(change(value).copy() if place in together else value for place, value in enumerate(case))


def _exchangeable(case: tuple) -> Iterator[tuple[int, int]]:
    for other in range(len(case)):
        for one in range(other):
            if type(case[one]) is type(case[other]) and not isinstance(case[one], str):
                yield one, other


def exchanged(case: tuple, one: int, other: int) -> tuple | None:
    """A case with two inputs exchanged, if they have the same shape."""
    if np.shape(case[one]) != np.shape(case[other]):
        return None
    new = list(case)
    new[one], new[other] = case[other], case[one]
    return tuple(new)
