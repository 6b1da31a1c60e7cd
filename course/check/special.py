"""What the inputs have in common on which an answer is wrong, and those lack on which it is right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from course.check.evidence import Evidence
from course.check.values import as_array


def special(evidence: Evidence) -> str | None:
    """The property that tells the wrong inputs from the right ones exactly, if there is one and no other."""
    wrong, count = evidence.wrong, sum(evidence.wrong)
    if len(wrong) < 6 or not 1 < count < len(wrong) - 1:
        return None
    drawn = [
        dict([*_of_right(right), *_of_inputs(evidence.names, case)])
        for right, case in zip(evidence.right, evidence.cases, strict=True)
    ]
    mostly = count > len(wrong) / 2  # then say where it is right
    found = {}
    for about, words, against in drawn[0]:
        held = [one.get((about, words, against)) for one in drawn]
        if None in held:
            continue
        if held == wrong:
            found.setdefault(about, against if mostly else words)
        elif held == [not one for one in wrong]:
            found.setdefault(about, words if mostly else against)
    if not 0 < len(found) <= 2:
        return None
    where = ", or ".join(found.values())
    return f"your answer is {'right' if mostly else 'wrong'} exactly on the inputs where {where}"


Property = tuple[tuple[str, str, str], bool]  # of what, how it is said, how its opposite; whether it holds


def _of_right(right: Any) -> Iterator[Property]:
    """Properties of the right answer: what to say if it holds and if it does not."""
    if right is None or right.size != 1:
        return
    entry = right.reshape(-1)[0]
    if right.dtype.kind == "b":
        yield ("", "True is right", "False is right"), bool(entry)
        return
    yield ("", "the right answer is 0", "the right answer is not 0"), bool(entry == 0)
    yield ("", "the right answer is negative", "the right answer is not negative"), bool(entry < 0)
    yield ("", "the right answer is infinite", "the right answer is finite"), bool(np.isinf(entry))
    yield ("", "the right answer is above 1", "the right answer is not above 1"), bool(entry > 1)
    yield ("", "the right answer is 1", "the right answer is not 1"), bool(entry == 1)


def _of_inputs(names: list[str], case: tuple) -> Iterator[Property]:
    counted = []
    for name, value in zip(names, case, strict=True):
        if isinstance(value, str):
            yield (name, f"{name} is {value!r}", f"{name} is not {value!r}"), True
            continue
        array = as_array(value)
        if array is None:
            continue
        if array.dtype.kind == "b" and array.ndim == 0:
            yield (name, f"{name} is True", f"{name} is False"), bool(array)
        elif array.ndim == 0:
            counted.append((name, float(array)))
            yield from _of_number(name, float(array))
        else:
            counted += [(f"{name}.shape[{axis}]", size) for axis, size in enumerate(array.shape)]
            yield from _of_array(name, array)
    for (one, size), (other, against) in itertools.combinations(counted, 2):
        yield (f"{one} {other}", f"{one} is above {other}", f"{one} is not above {other}"), size > against
        yield (f"{one} {other}", f"{one} is below {other}", f"{one} is not below {other}"), size < against


def _of_number(name: str, number: float) -> Iterator[Property]:
    yield (name, f"{name} is 0", f"{name} is not 0"), number == 0
    yield (name, f"{name} is negative", f"{name} is not negative"), number < 0
    yield (name, f"{name} is 1", f"{name} is not 1"), number == 1
    yield (name, f"{name} is above 1", f"{name} is at most 1"), number > 1


def _of_array(name: str, array: np.ndarray) -> Iterator[Property]:
    numbers = array.astype(float)
    with np.errstate(all="ignore"):
        yield (name, f"len({name}) is 1", f"len({name}) is above 1"), len(array) == 1
        yield (name, f"{name} has more than one axis", f"{name} has one axis"), array.ndim > 1
        if not numbers.size:
            return
        yield (name, f"{name} has a 0 in it", f"{name} has no 0 in it"), bool((numbers == 0).any())
        if array.dtype.kind != "b":
            negative = bool((numbers < 0).any())
            yield (name, f"{name} has a negative entry", f"{name} has no negative entry"), negative
            positive = bool((numbers > 0).any())
            yield (name, f"{name} has a positive entry", f"{name} has no positive entry"), positive
            beyond = bool(np.abs(numbers).max() > 1)
            yield (name, f"{name} has entries beyond 1", f"no entry of {name} is beyond 1"), beyond
            many = bool(np.abs(numbers).max() > 100)
            yield (name, f"{name} has entries beyond 100", f"no entry of {name} is beyond 100"), many
            same = len(np.unique(numbers)) < numbers.size
            yield (name, f"{name} has equal entries", f"no entries of {name} are equal"), same
        if array.ndim == 1:
            first = bool(numbers.argmax() == 0)
            yield (
                (
                    name,
                    f"the first entry of {name} is its largest",
                    f"another than the first of {name} is its largest",
                ),
                first,
            )
        if array.ndim == 2:
            empty = bool((~numbers.any(axis=1)).any())
            yield (name, f"{name} has a row of zeros", f"{name} has no row of zeros"), empty
            tall = array.shape[0] > array.shape[1]
            yield (name, f"{name} has more rows than columns", f"{name} has no more rows than columns"), tall
            twice = len(np.unique(numbers, axis=0)) < len(numbers)
            yield (name, f"{name} has equal rows", f"no rows of {name} are equal"), twice
            if numbers.size <= 400 and np.isfinite(numbers).all():
                full = bool(np.linalg.matrix_rank(numbers) == min(array.shape))
                yield (name, f"{name} has full rank", f"{name} lacks full rank"), full
