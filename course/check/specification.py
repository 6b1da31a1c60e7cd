"""What an exercise is: one specification serves the learner's `check`, the tests and the grader."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

PUBLIC_SEED = 20240601  # the seed of `check`; the grader brings its own, which nobody publishes


@dataclass(frozen=True)
class Compare:
    """When an answer counts as equal to the reference: |answer - reference| <= atol + rtol * max |reference|.

    With `up_to_scale`, both are first divided by their Euclidean norm, so that only directions matter.
    Answers in float32 are compared no more strictly than float32 can carry; but with `atol=0` tiny entries
    count in float32 too, so that an answer that lost them does not pass by being rounded.
    """

    rtol: float = 1e-6
    atol: float = 1e-9
    up_to_scale: bool = False


@dataclass(frozen=True)
class Misconception:
    """A wrong answer that we know, as code, and the sentence that helps whoever gave it.

    With `compare` every wrong answer that is this near is taken for it: a mean over other random draws.
    """

    wrong: Callable[..., Any]
    message: str
    compare: Compare | None = None


def known(*pairs: Callable | str) -> list[Misconception]:
    """Misconceptions from a wrong answer, its message, the next wrong answer, its message, and so on."""
    return [Misconception(*pair) for pair in zip(pairs[::2], pairs[1::2], strict=True)]


@dataclass(frozen=True)
class Exercise:
    """One exercise: its text data, its reference solution, the inputs to try and how to compare answers.

    Args:
        id: lesson and number, "01.2".
        title: a few words, the same as in the lesson's heading.
        points: what it is worth when graded.
        minutes: how long a learner should expect to need.
        difficulty: 1 (warm-up), 2 (needs thought), 3 (hard).
        reference: the solution, usually a function of mini_attn; its parameters name the inputs in messages.
        cases: draws inputs, `cases(rng) -> list of argument tuples`; put the simplest first, since the first
            failing case is the one that learners are shown.
        compare: tolerances.
        misconceptions: known wrong answers, at least three.
        withheld: functions of mini_attn that would answer the exercise, "mini_attn.softmax.softmax"; a graded
            notebook cannot call them.
    """

    id: str
    title: str
    points: int
    minutes: int
    difficulty: int
    reference: Callable[..., Any]
    cases: Callable[[np.random.Generator], list[tuple]]
    compare: Compare = field(default_factory=Compare)
    misconceptions: list[Misconception] = field(default_factory=list)
    withheld: tuple[str, ...] = ()

    @property
    def lesson(self) -> str:
        """The lesson's two digits, "01"."""
        return self.id.split(".")[0]

    @cached_property
    def parameters(self) -> list[str]:
        """The names of the inputs."""
        return list(inspect.signature(self.reference).parameters)

    def draw(self, seed: int) -> list[tuple]:
        """The argument tuples for a seed: the same seed gives the same inputs."""
        return self.cases(np.random.default_rng(seed))


@dataclass(frozen=True)
class Written:
    """A question that is answered in words, and marked by a person with a rubric.

    Args:
        id: lesson and number, "06.6"; written questions are numbered after the lesson's exercises.
        title: a few words, the same as in the lesson's heading.
        points: what it is worth when graded.
        minutes: how long a learner should expect to need.
        rubric: (points, what earns them), in the order of a full answer; their sum is `points`.
    """

    id: str
    title: str
    points: float
    minutes: int
    rubric: list[tuple[float, str]]

    def __post_init__(self):
        total = sum(points for points, _ in self.rubric)
        if total != self.points:
            raise ValueError(
                f"{self.id} is worth {self.points:g} points, but its rubric adds up to {total:g}"
            )
