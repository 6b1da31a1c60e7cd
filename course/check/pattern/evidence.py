"""What is known of a wrong answer: inputs, right answers, the learner's, and what more calls would give."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from course.check.compare import mismatch
from course.check.specification import Compare
from course.check.values import as_array, fresh

GENERIC = 16.0  # bits in the agreement of a number with digits after the point; whole numbers have few
SAME = 2e-6  # the difference, in parts of the largest entry, up to which two arrays are the same
LARGEST = 100_000  # entries of an answer that is looked at
ENOUGH = 30.0  # bits that no accident among some thousand candidates brings together


class OutOfTime(Exception):
    """The search for a pattern has used up its time."""


@dataclass
class Evidence:
    """Inputs with the right answers and the learner's.

    Args:
        names: the inputs' names.
        cases: the inputs, a tuple each.
        right, given: the right answers and the learner's, as they came or as arrays; None for no numbers.
        wrong: on which inputs the answer is wrong.
        reference, own: the functions, for further calls.
        compare: when two answers are equal.
        deadline: the moment (of `time.thread_time`) after which no further call is made.
        part: which value of a tuple this is about, counted from 0; None for the whole answer.
        entry: which entry of an array, or row of a matrix, this is about.
    """

    names: list[str]
    cases: list[tuple]
    right: list[Any]
    given: list[Any]
    wrong: list[bool]
    reference: Callable
    own: Callable
    compare: Compare
    deadline: float
    part: int | None = None
    entry: int | None = None

    def call(self, function: Callable, case: tuple) -> np.ndarray | None:
        """The numbers that a function returns, or None; raises OutOfTime after the deadline."""
        if time.thread_time() > self.deadline:
            raise OutOfTime
        try:
            value = function(*fresh(case))
        except (Exception, SystemExit):
            return None
        return self.take(value)

    def take(self, value: Any) -> np.ndarray | None:
        """The numbers of a value that this is about."""
        if self.part is not None:
            if not isinstance(value, tuple | list) or len(value) <= self.part:
                return None
            value = value[self.part]
        array = as_array(value)
        if array is not None and array.size > LARGEST:
            return None
        if self.entry is None or array is None:
            return array
        return array[self.entry] if array.ndim in (1, 2) and len(array) > self.entry else None

    def accepts(self, right: Any, given: Any) -> bool:
        """Whether an answer counts as right."""
        return right is not None and given is not None and mismatch(right, given, self.compare) is None

    def same(self, one: Any, other: Any) -> bool:
        """Whether two arrays are the same numbers, whatever an exercise would let pass."""
        if one is None or other is None or (one.shape != other.shape and not one.size == other.size == 1):
            return False
        one, other = one.astype(float).reshape(other.shape), other.astype(float)
        finite = np.isfinite(one)
        if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
            return False
        one, other = one[finite], other[finite]
        if self.compare.up_to_scale and one.any() and other.any():
            one, other = one / np.linalg.norm(one), other / np.linalg.norm(other)
        return not one.size or bool(np.abs(one - other).max() <= SAME * np.abs(one).max())

    def failing(self) -> list[int]:
        """The inputs on which the answer is wrong."""
        return [index for index, wrong in enumerate(self.wrong) if wrong]

    def without_errors(self) -> Evidence:
        """The same for the inputs on which the learner's function does not stop with an error."""
        kept = [index for index, wrong in enumerate(self.wrong) if not wrong]
        lists = {name: [getattr(self, name)[index] for index in kept] for name in ("cases", "right", "given")}
        return replace(self, **lists, wrong=[False for _ in kept])

    def is_unsteady(self) -> bool:
        """Whether the learner's function gives another answer when it is called again."""
        one = self.only()
        for index in range(min(2, len(self.cases))):
            again = self.call(self.own, self.cases[index])
            before = one.given[index]
            if before is not None and again is not None and not np.array_equal(before, again, equal_nan=True):
                return True
        return False

    def passing(self) -> list[int]:
        """The inputs on which it is right."""
        return [index for index, wrong in enumerate(self.wrong) if not wrong]

    def only(self, part: int | None = None, entry: int | None = None) -> Evidence:
        """The same for one value of a tuple, or one entry of an array."""
        one = replace(self, part=part, entry=entry)
        right, given = ([one.take(value) for value in values] for values in (self.right, self.given))
        wrong = [not one.accepts(*pair) for pair in zip(right, given, strict=True)]
        return replace(one, right=right, given=given, wrong=wrong)

    def holds(self, predict: Callable[[int], Any], every: bool = False) -> bool:
        """Whether predictions agree with the learner's answers wherever these are wrong (or everywhere).

        Enough of the answers have to be numbers that nobody hits by chance: an answer that is the same on
        every input, a yes or no, or a count agrees with many things.
        """
        places = list(range(len(self.cases))) if every else self.failing()
        return self.telling and all(self.same(predict(index), self.given[index]) for index in places)

    @cached_property
    def telling(self) -> bool:
        """Whether agreement with all answers that are wrong can hardly be by chance."""
        places = self.failing()
        known = {value.tobytes() for index in places if (value := self.given[index]) is not None}
        return len(known) > 1 and sum(information(self, index) for index in places) >= ENOUGH


def information(evidence: Evidence, index: int) -> float:
    """How many bits it takes to hit the learner's wrong answer on one input."""
    right, given = evidence.right[index], evidence.given[index]
    if given is None or not given.size:
        return 0.0
    if given.dtype.kind == "b":
        wrong = int((right != given).sum()) if right is not None and right.shape == given.shape else 0
        return float(wrong)
    numbers = given.astype(float)
    different = np.unique(numbers[np.isfinite(numbers)])
    whole = different == np.round(different)
    if right is not None and right.shape == given.shape:
        different = np.unique(numbers[np.isfinite(numbers) & (numbers != right)])
        whole = different == np.round(different)
    many = 1 + np.log2(1 + np.abs(different[whole]).max(initial=0)) if whole.any() else 0.0
    return float(min(3, (~whole).sum()) * GENERIC + min(8, whole.sum()) * min(many, 6.0))
