"""A known misconception together with a slip, or in one of several values."""

from __future__ import annotations

from dataclasses import replace

from course.check.pattern.evidence import Evidence
from course.check.pattern.factors import constant_factor
from course.check.pattern.forms import ARRANGED, applied
from course.check.specification import Exercise, Misconception

SLIPS = ("the transpose of the right one", "the right one, in reversed order")


def combined(spec: Exercise, evidence: Evidence) -> str | None:
    """A misconception that gives the learner's answer but for a factor, a sign or the like."""
    if len(evidence.failing()) < 2 or not evidence.telling:
        return None
    for known in spec.misconceptions:
        values = [evidence.call(known.wrong, case) for case in evidence.cases]
        as_if = replace(evidence, right=values)
        if any(values[index] is None for index in evidence.failing()):
            continue
        if evidence.part is not None and evidence.holds(lambda index, values=values: values[index]):
            if _only_there(spec, known, evidence):
                return known.message
            continue
        said = constant_factor(as_if)
        for words in SLIPS:
            if said is None and evidence.holds(
                lambda index, w=words, v=values: applied(ARRANGED[w], v[index])
            ):
                said = words
        if said:
            return (
                f"two things at once. {known.message} Then you return {said.replace('the right one', 'that')}"
            )
    return None


def _only_there(spec: Exercise, known: Misconception, evidence: Evidence) -> bool:
    """Whether a misconception about a tuple is about this value alone."""
    first = evidence.cases[evidence.failing()[0]]
    right = spec.reference(*first)
    for part in range(len(right)):
        one = replace(evidence, part=part, entry=None)
        if part != evidence.part and not one.accepts(
            one.call(spec.reference, first), one.call(known.wrong, first)
        ):
            return False
    return True
