"""A known misconception together with a slip, in one of several values, or on most inputs."""

from __future__ import annotations

from dataclasses import replace

from course.check.pattern.evidence import ENOUGH, Evidence, information
from course.check.pattern.factors import constant_factor
from course.check.pattern.forms import ARRANGED, applied
from course.check.specification import Exercise, Misconception

SLIPS = ("the transpose of the right one", "the right one, in reversed order")


def combined(spec: Exercise, evidence: Evidence) -> str | None:
    """A misconception that gives the learner's answer but for a slip, or gives it nearly always."""
    if len(evidence.failing()) < 2 or not evidence.telling:
        return None
    tried = []
    for known in spec.misconceptions:
        values = [evidence.call(known.wrong, case) for case in evidence.cases]
        tried.append((known, values))
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
    return _mostly(spec, evidence, tried)


def _mostly(spec: Exercise, evidence: Evidence, tried: list[tuple[Misconception, list]]) -> str | None:
    """A misconception that gives at least two thirds of the wrong answers, and spoils few right ones."""
    failing, passing = evidence.failing(), evidence.passing()
    for known, values in tried:
        hits = [index for index in failing if evidence.same(values[index], evidence.given[index])]
        if 3 * len(hits) < 2 * len(failing) or sum(information(evidence, index) for index in hits) < ENOUGH:
            continue
        spoilt = [index for index in passing if not evidence.accepts(evidence.right[index], values[index])]
        if 3 * len(spoilt) <= len(hits) and (evidence.part is None or _only_there(spec, known, evidence)):
            return f"on most of the inputs where your answer is wrong: {known.message}"
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
