"""What the answers of an unknown mistake have in common, in a sentence that is true of every one of them.

Tried where no known misconception fits. The plainest explanation comes first, and none is given that holds
by chance: see `Evidence.tells`. The grader does not use this: it calls functions again, on other inputs.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from course.check.changes import change
from course.check.combined import combined
from course.check.evidence import Evidence, OutOfTime
from course.check.factors import factor, proportional
from course.check.forms import exchanged_values, form
from course.check.inputs import of_inputs
from course.check.laws import ignored, law
from course.check.places import constant, entries, one_sided
from course.check.special import special
from course.check.specification import PUBLIC_SEED, Exercise
from course.check.trying import Outcome
from course.check.values import fresh
from course.check.within import within

SECONDS = 0.4  # for all of the search
MORE = (
    PUBLIC_SEED + 1,
    PUBLIC_SEED + 2,
    PUBLIC_SEED + 3,
)  # seeds of further inputs that an explanation has to hold on


def pattern(
    spec: Exercise, own: Callable, cases: list[tuple], expected: list[Outcome], outcomes: list[Outcome]
) -> str | None:
    """The sentence that explains a wrong answer, or None."""
    with np.errstate(all="ignore"):
        return within(4 * SECONDS, lambda: _quietly(spec, own, cases, expected, outcomes))


def _quietly(*arguments: Any) -> str | None:
    """The search, without what the functions print and warn; an error of theirs on new inputs ends it."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            return _search(*arguments)
        except (Exception, SystemExit):
            return None


def _search(spec, own, cases, expected, outcomes) -> str | None:
    if any(outcome.error for outcome in outcomes):
        return None
    deadline = time.thread_time() + SECONDS
    whole = Evidence(
        names=spec.parameters,
        cases=list(cases),
        right=[outcome.value for outcome in expected],
        given=[outcome.value for outcome in outcomes],
        wrong=[],
        reference=spec.reference,
        own=own,
        compare=spec.compare,
        deadline=deadline,
    )
    for seed in MORE:
        for case in spec.draw(seed):
            if time.thread_time() > deadline - SECONDS / 2:
                break
            whole.cases.append(case)
            whole.right.append(spec.reference(*fresh(case)))
            whole.given.append(own(*fresh(case)))
    swapped = exchanged_values(whole)
    if swapped:
        return _sentence("", swapped)
    for where, evidence in _parts(whole):
        try:
            found = _explanation(spec, evidence)
        except OutOfTime:
            return None
        if found:
            return _sentence(where, found)
    return None


def _explanation(spec: Exercise, evidence: Evidence) -> str | None:
    """The plainest explanation of one answer: what it is, then what it leaves out, then where it is wrong."""
    found = constant(evidence) or factor(evidence) or form(evidence) or of_inputs(evidence)
    if found:
        return found
    left_out = ignored(evidence)
    found = change(evidence, left_out) if len(left_out) < 2 else None
    if found is None and left_out:
        found = f"your answer stays the same when {' or '.join(left_out)} changes, the right one does not"
    return (
        found
        or combined(spec, evidence)
        or special(evidence)
        or entries(evidence)
        or proportional(evidence)
        or one_sided(evidence)
        or law(evidence)
    )


def _parts(whole: Evidence):
    """The answer, or those values of a tuple that are wrong, each as evidence of its own."""
    right = whole.right[0]
    if isinstance(right, tuple) and len(right) > 1:
        if all(isinstance(given, tuple | list) and len(given) == len(right) for given in whole.given):
            for part in range(len(right)):
                evidence = whole.only(part)
                if any(evidence.wrong):
                    yield f"value {part + 1} of {len(right)}: ", evidence
        return
    one = whole.only()
    shapes = {None if value is None else value.shape for value in [*one.right, *one.given]}
    shape = shapes.pop()
    if not shapes and shape and len(shape) == 1 and 1 < shape[0] <= 4:
        entries_of = [whole.only(entry=entry) for entry in range(shape[0])]
        if not all(any(evidence.wrong) for evidence in entries_of):
            for entry, evidence in enumerate(entries_of):
                if any(evidence.wrong):
                    yield f"entry [{entry}]: ", evidence
    yield "", one


def _sentence(where: str, found: str) -> str:
    text = f"{where}{found}."
    return text[0].upper() + text[1:]
