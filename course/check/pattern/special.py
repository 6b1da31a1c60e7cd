"""What the inputs have in common on which an answer is wrong, and those lack on which it is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from course.check.pattern.evidence import Evidence
from course.check.values import as_array

_BY_SIZE = " than "  # in what is said of rows and columns: one pair of numbers is no pattern


def special(evidence: Evidence) -> str | None:
    """The property that tells the wrong inputs from the others exactly, if there is one and no other.

    A property of the right answer counts more than one of the inputs. Of the inputs only what is rare there
    is looked at: many inputs have a zero somewhere, and that seldom is what goes wrong. An answer that is
    right on one input alone, whatever the seed, is right there by chance: what is special there says nothing.
    """
    wrong, count = evidence.wrong, sum(evidence.wrong)
    if len(wrong) < 6 or not 1 < count < len(wrong) - 1:
        return None
    mostly = count > len(wrong) / 2  # then say where it is right
    passing = [evidence.cases[index] for index in evidence.passing()]
    if mostly and len({_fingerprint(case) for case in passing}) < 2:
        return None
    drawn = [dict(_of_right(right)) for right in evidence.right]
    found = _telling(drawn, wrong)[:1] if _has_numbers(evidence) else []
    if not found:
        texts = {value for case in evidence.cases for value in case if isinstance(value, str)}
        drawn = [dict(_of_inputs(evidence.names, case, sorted(texts))) for case in evidence.cases]
        found = _telling(drawn, wrong)
    if len(found) != 1:
        return None
    if mostly and _BY_SIZE in found[0][0] and not _of_errors(evidence) and _of_one_size(passing):
        return None
    where, others = found[0]
    if mostly and (_is_negated(where) or not _is_negated(others)):
        return f"on all inputs but those where {others}"
    return f"exactly on the inputs where {where}"


def _telling(drawn: list[dict], wrong: list[bool]) -> list[tuple[str, str]]:
    """What all wrong inputs are and no other, and what the others are, one pair for each input."""
    found = {}
    for about, words, against in drawn[0]:
        held = [one.get((about, words, against)) for one in drawn]
        if None in held:
            continue
        if held == wrong:
            found.setdefault(about, (words, against))
        elif held == [not one for one in wrong]:
            found.setdefault(about, (against, words))
    return list(found.values())


def _is_negated(words: str) -> bool:
    return " not " in words or words.startswith("no ") or " no " in words


def _fingerprint(case: tuple) -> tuple:
    """What tells one input from another."""
    return tuple(value if isinstance(value, str) else repr(np.asarray(value).tolist()) for value in case)


def _has_numbers(evidence: Evidence) -> bool:
    """Whether some wrong answer is finite: of infinities and NaN it is known what is wrong with them."""
    wrong = [evidence.given[index] for index in evidence.failing()]
    return any(given is None or bool(np.isfinite(given.astype(float)).all()) for given in wrong)


def _of_errors(evidence: Evidence) -> bool:
    """Whether an error is what is wrong: it has a reason, also where it spares one pair of sizes only."""
    return all(right is None for right in evidence.right)


def _of_one_size(cases: list[tuple]) -> bool:
    return len({tuple(map(np.shape, case)) for case in cases}) < 2


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


def _of_inputs(names: list[str], case: tuple, texts: list[str]) -> Iterator[Property]:
    for name, value in zip(names, case, strict=True):
        if isinstance(value, str):
            for text in texts:
                yield (name, f"{name} is {text!r}", f"{name} is not {text!r}"), value == text
            continue
        array = as_array(value)
        if array is None:
            continue
        if array.dtype.kind == "b" and array.ndim == 0:
            yield (name, f"{name} is True", f"{name} is False"), bool(array)
        elif array.ndim == 0:
            yield from _of_number(name, float(array))
        elif array.size:
            yield from _of_array(name, array)


def _of_number(name: str, number: float) -> Iterator[Property]:
    yield (name, f"{name} is 0", f"{name} is not 0"), number == 0
    yield (name, f"{name} is negative", f"{name} is not negative"), number < 0
    yield (name, f"{name} is 1", f"{name} is not 1"), number == 1
    yield (name, f"{name} is above 1", f"{name} is at most 1"), number > 1
    yield (name, f"{name} is infinite", f"{name} is finite"), bool(np.isinf(number))


def _of_array(name: str, array: np.ndarray) -> Iterator[Property]:
    numbers = array.astype(float)
    yield (name, f"len({name}) is 1", f"len({name}) is above 1"), len(array) == 1
    yield (name, f"{name} has more than one axis", f"{name} has one axis"), array.ndim > 1
    if array.dtype.kind != "f":
        return
    if set(np.unique(numbers)) <= {-1, 1}:
        yield (name, f"{name} holds a -1", f"{name} holds no -1"), bool((numbers == -1).any())
        yield (name, f"{name} holds a 1", f"{name} holds no 1"), bool((numbers == 1).any())
        return
    size = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0))
    yield (name, f"{name} has entries beyond 100", f"no entry of {name} is beyond 100"), size > 100
    yield (name, f"{name} has only entries below 1e-6", f"{name} has entries above 1e-6"), size < 1e-6
    if array.ndim == 2:
        empty = bool((~numbers.any(axis=1)).any())
        yield (name, f"{name} has a row of zeros", f"{name} has no row of zeros"), empty
        tall = array.shape[0] > array.shape[1]
        yield (name, f"{name} has more rows than columns", f"{name} has no more rows than columns"), tall
        wide = array.shape[0] < array.shape[1]
        yield (name, f"{name} has more columns than rows", f"{name} has no more columns than rows"), wide
        twice = len(np.unique(numbers, axis=0)) < len(numbers)
        yield (name, f"{name} has equal rows", f"no rows of {name} are equal"), twice
