"""What the answers of an unknown mistake have in common, in a sentence that is true of every one of them.

Tried where no known misconception fits. The plainest explanation comes first, and none is given that holds
by chance: see `Evidence.telling`. The grader does not use this: it calls functions again, on other inputs.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from course.check.compare import mismatch
from course.check.pattern.changes import change
from course.check.pattern.combined import combined
from course.check.pattern.evidence import Evidence, OutOfTime
from course.check.pattern.factors import factor, proportional
from course.check.pattern.forms import exchanged_values, form
from course.check.pattern.inputs import of_inputs
from course.check.pattern.laws import fits, ignored, law
from course.check.pattern.places import constant, entries, near, one_sided
from course.check.pattern.special import special
from course.check.pattern.within import within
from course.check.specification import PUBLIC_SEED, Exercise
from course.check.trying import Outcome, run
from course.check.values import fresh

SECONDS = 0.4  # for all of the search
MORE = range(PUBLIC_SEED + 1, PUBLIC_SEED + 4)  # seeds of further inputs that an explanation has to hold on


def pattern(
    spec: Exercise, own: Callable, cases: list[tuple], expected: list[Outcome], outcomes: list[Outcome]
) -> str | None:
    """The sentence that explains a wrong answer, or None."""
    with np.errstate(all="ignore"):
        return within(10 * SECONDS, lambda: _quietly(spec, own, cases, expected, outcomes))


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


def _search(
    spec: Exercise, own: Callable, cases: list[tuple], expected: list[Outcome], outcomes: list[Outcome]
) -> str | None:
    whole = Evidence(
        names=spec.parameters,
        cases=list(cases),
        right=[outcome.value for outcome in expected],
        given=[outcome.value for outcome in outcomes],
        wrong=[outcome.error is not None for outcome in outcomes],
        reference=spec.reference,
        own=own,
        compare=spec.compare,
        deadline=time.thread_time() + SECONDS,
    )
    _draw_more(spec, whole)
    errors = _of_errors(whole) if any(whole.wrong) else None
    if all(whole.wrong) or (errors and _right_elsewhere(spec, whole)):
        return errors
    whole = whole.without_errors()
    if whole.is_unsteady():
        return "Called twice with the same input, your function gives two different answers."
    found = exchanged_values(whole)
    if found:
        return _sentence("", found)
    for where, evidence in _parts(whole):
        try:
            found = _explanation(spec, evidence)
        except OutOfTime:
            return None
        if found:
            return _sentence(where, found)
    return None


def _draw_more(spec: Exercise, whole: Evidence) -> None:
    """More inputs with their answers, for at most half of the time."""
    for seed in MORE:
        for case in spec.draw(seed):
            if time.thread_time() > whole.deadline - SECONDS / 2:
                return
            tried = run(whole.own, case, spec.parameters)
            whole.cases.append(case)
            whole.right.append(spec.reference(*fresh(case)))
            whole.given.append(tried.value)
            whole.wrong.append(tried.error is not None)


def _right_elsewhere(spec: Exercise, whole: Evidence) -> bool:
    """Whether the answer is right wherever it is not an error; if not, the errors are not what is shown."""
    rest = whole.without_errors()
    return all(mismatch(*pair, spec.compare) is None for pair in zip(rest.right, rest.given, strict=True))


def _of_errors(whole: Evidence) -> str | None:
    """The property of the inputs on which the learner's function stops with an error."""
    found = special(replace(whole, right=[None for _ in whole.right]))
    return found and f"Your function stops with an error {found}."


def _explanation(spec: Exercise, evidence: Evidence) -> str | None:
    """The plainest explanation of one answer: what it is, then what it leaves out, then where it is wrong."""
    found = constant(evidence)
    if found:
        return found
    found = factor(evidence) or form(evidence)
    if found:
        return f"wherever it is wrong, {found}" if evidence.passing() else found
    found = of_inputs(evidence)
    if found:
        return found
    left_out = ignored(evidence) if fits(evidence) else []
    found = change(evidence, left_out) if len(left_out) < 2 else None
    if len(left_out) == len(evidence.names):
        found = "your answer does not depend on the values of the inputs"
    elif found is None and left_out:
        found = f"your answer stays the same when {' or '.join(left_out)} changes, the right one does not"
    if found is None:
        found = combined(spec, evidence)
    if found is None:
        found = special(evidence)
        found = found and f"your answer is wrong {found}"
    return (
        found
        or entries(evidence)
        or proportional(evidence)
        or law(evidence)
        or near(evidence)
        or one_sided(evidence)
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
    lengths = {shape[0] if shape else 0 for shape in shapes if shape is not None}
    axes = {None if shape is None else len(shape) for shape in shapes}
    if axes in ({1}, {2}) and len(lengths) == 1 and 1 < (length := lengths.pop()) <= 4:
        entries_of = [whole.only(entry=entry) for entry in range(length)]
        if not all(any(evidence.wrong) for evidence in entries_of):
            for entry, evidence in enumerate(entries_of):
                if any(evidence.wrong):
                    yield f"{'entry' if axes == {1} else 'row'} [{entry}]: ", evidence
    yield "", one


def _sentence(where: str, found: str) -> str:
    text = f"{where}{found.removesuffix('.')}."
    return text[0].upper() + text[1:]
