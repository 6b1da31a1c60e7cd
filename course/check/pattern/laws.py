"""What becomes of an answer when an input is changed: laws that the right one keeps and another breaks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from course.check.pattern.changes import changed
from course.check.pattern.evidence import Evidence
from course.check.values import as_array

TIMES = {2.0: "doubles", 0.5: "halves", 4.0: "becomes 4 times as large", 0.25: "becomes a quarter"}
TIMES |= {8.0: "becomes 8 times as large", 0.125: "becomes an eighth", -1.0: "changes its sign"}
TIMES |= {2**0.5: "becomes sqrt(2) times as large", 2**-0.5: "becomes 1/sqrt(2) times as large"}
TRIALS = 6  # inputs on which a law is tried, of those that are wrong; a few that are right come with them
ENOUGH = 4  # inputs on which the right answer has to keep a law
KINDS: list[tuple[str, Callable]] = [
    ("doubled", lambda x: 2 * x),
    ("negated", lambda x: -x),
]


def fits(evidence: Evidence) -> bool:
    """Whether some wrong answer has the shape of the right one."""
    return any(_of_one_shape(evidence.right[index], evidence.given[index]) for index in evidence.failing())


def ignored(evidence: Evidence) -> list[str]:
    """The inputs whose values do not count in the learner's answer, though they count in the right one."""
    return [name for place, name in enumerate(evidence.names) if _is_ignored(evidence, place)]


def _is_ignored(evidence: Evidence, place: int) -> bool:
    moves = 0
    for index in _tried(evidence):
        for case in _others(evidence, index, place):
            right = evidence.call(evidence.reference, case)
            if right is None or evidence.right[index] is None:
                continue
            if not _stays(evidence, evidence.given[index], evidence.call(evidence.own, case)):
                return False
            moves += not _stays(evidence, evidence.right[index], right)
    return moves >= 3


def _others(evidence: Evidence, index: int, place: int) -> Iterator[tuple]:
    """The input with others in one place: from other inputs of the check, or shifted, doubled, reordered."""
    case = evidence.cases[index]
    value = case[place]
    found = 0
    for other in evidence.cases:
        new = other[place]
        if type(new) is type(value) and np.shape(new) == np.shape(value) and not _equal(new, value):
            yield (*case[:place], new, *case[place + 1 :])
            found += 1
            if found == 2:
                break
    makers: list[Callable] = [lambda x: 2 * x, lambda x: x + 1, lambda x: -x, lambda x: x[::-1]]
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        rng = np.random.default_rng(0)
        makers.insert(0, lambda x: x * rng.uniform(0.5, 1.5, x.shape))
    if isinstance(value, bool | np.bool_) or (isinstance(value, np.ndarray) and value.dtype.kind == "b"):
        makers = [lambda x: ~x if isinstance(x, np.ndarray) else not x]
    for make in makers:
        case = changed(evidence.cases[index], place, make)
        if case is not None:
            yield case


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(np.array_equal(one, other))
    except (TypeError, ValueError):
        return False


def law(evidence: Evidence) -> str | None:
    """A change of an input to which the right answer always answers in one way, the learner's in another."""
    if all(value is None or value.dtype.kind in "bui" for value in evidence.right):
        return None
    if not fits(evidence):
        return None  # the shape is what is wrong
    weaker = None
    for words, make in _laws(evidence):
        right, given = set(), set()
        count = 0
        for index in _tried(evidence):
            case = make(evidence.cases[index])
            if case is None:
                continue
            count += 1
            right.add(_response(evidence, evidence.right[index], evidence.call(evidence.reference, case)))
            if len(right) != 1 or None in right:
                break
            if evidence.wrong[index]:
                given.add(_response(evidence, evidence.given[index], evidence.call(evidence.own, case)))
        if (
            count < ENOUGH
            or not given
            or len(right) != 1
            or None in right
            or right == given
            or "" in given | right
        ):
            continue
        (wanted,) = right
        if len(given) == 1 and None not in given:
            (got,) = given
            return f"with {words}, the right answer {wanted}, but yours {got}"
        if weaker is None and wanted not in given:
            weaker = f"with {words}, the right answer {wanted}, but yours does not"
    return weaker


def _tried(evidence: Evidence) -> list[int]:
    """Inputs on which the answer is wrong, and some on which it is right, all with numbers to compare."""
    finite = [value is not None and bool(np.isfinite(value.astype(float)).all()) for value in evidence.given]
    wrong = [index for index in evidence.failing() if finite[index]][:TRIALS]
    return [*wrong, *[index for index in evidence.passing() if finite[index]][: TRIALS - 2]]


def _laws(evidence: Evidence) -> Iterator[tuple[str, Callable]]:
    first = evidence.cases[_tried(evidence)[0]] if _tried(evidence) else ()
    for words, change in KINDS:
        for place, name in enumerate(evidence.names[: len(first)]):
            value = first[place]
            if isinstance(value, bool | np.bool_) or np.asarray(value).dtype.kind not in "iuf":
                continue
            if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and not _is_label(value):
                continue
            if words == "doubled" and (np.asarray(value).dtype.kind != "f" or _is_label(value)):
                continue
            if words == "negated" and not _may_be_negated(evidence, place):
                continue
            yield f"{name} {words}", lambda case, place=place, change=change: changed(case, place, change)
    signed = [place for place in range(len(first)) if _may_be_negated(evidence, place)]
    for one, other in itertools.combinations(signed, 2):
        yield (
            f"{evidence.names[one]} and {evidence.names[other]} negated",
            lambda case, one=one, other=other: _both_negated(case, one, other),
        )
    for place, name in enumerate(evidence.names[: len(first)]):
        value = first[place]
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not _is_label(value):
            yield f"1 added to all of {name}", lambda case, place=place: changed(case, place, lambda x: x + 1)
    rows = [
        place for place in range(len(first)) if isinstance(first[place], np.ndarray) and first[place].ndim
    ]
    for leading in rows:
        together = [place for place in rows if len(first[place]) == len(first[leading])]
        if together[0] == leading:
            names = [evidence.names[place] for place in together]
            said = " and ".join([*([", ".join(names[:-1])] if names[:-1] else []), names[-1]])
            yield (
                f"{said} in reversed order",
                lambda case, together=together: _reversed(case, together),
            )


def _may_be_negated(evidence: Evidence, place: int) -> bool:
    """Whether an input is a number of either sign, not a length, a positive matrix or a falling list."""
    values = [as_array(case[place]) for case in evidence.cases if not isinstance(case[place], str)]
    if any(value is None or value.dtype.kind not in "if" for value in values):
        return False
    if not any((value < 0).any() for value in values) or all(_is_sorted(value) for value in values):
        return False
    return not all(_is_positive(value) for value in values)


def _is_label(value: Any) -> bool:
    return isinstance(value, np.ndarray) and set(np.unique(value)) <= {-1, 1}


def _is_sorted(value: np.ndarray) -> bool:
    steps = np.diff(value, axis=0) if value.ndim == 1 and value.size > 1 else np.array([-1.0, 1.0])
    return bool((steps <= 0).all() or (steps >= 0).all())


def _is_positive(value: np.ndarray) -> bool:
    square = value.ndim == 2 and value.shape[0] == value.shape[1] and np.array_equal(value, value.T)
    return square and bool(np.linalg.eigvalsh(value).min() >= -1e-9 * np.abs(value).max())


def _both_negated(case: tuple, one: int, other: int) -> tuple | None:
    return tuple(-value if place in (one, other) else value for place, value in enumerate(case))


def _reversed(case: tuple, together: list[int]) -> tuple | None:
    if len({len(case[place]) for place in together}) > 1 or len(case[together[0]]) < 2:
        return None
    return tuple(value[::-1].copy() if place in together else value for place, value in enumerate(case))


def _of_one_shape(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one.shape == other.shape


def _stays(evidence: Evidence, before: Any, after: Any) -> bool:
    return before is not None and after is not None and evidence.same(before, after)


def _response(evidence: Evidence, before: Any, after: Any) -> str | None:
    """What became of an answer: a verb; None for nothing regular, "" if this says nothing."""
    if before is None or after is None or before.shape != after.shape or not before.size:
        return None
    before, after = before.astype(float), after.astype(float)
    if not np.isfinite(before).all() or not np.isfinite(after).all():
        return None
    if not before.any():
        return ""
    if evidence.same(before, after):
        return "stays the same"
    if evidence.compare.up_to_scale:
        return "changes its sign" if evidence.same(before, -after) else None
    if before.ndim and len(before) > 1 and evidence.same(before[::-1], after):
        return "comes in reversed order, else the same"
    for factor, verb in TIMES.items():
        if evidence.same(factor * before, after):
            return verb
    return None
