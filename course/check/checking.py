"""Checking a function on an exercise's inputs, and saying in words what came of it.

What a check prints may show an expected value: the public inputs are there to learn from, one value gives no
function away, and the solutions are in the repository. The grader draws other inputs and shows no values.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import inspect
import itertools
import linecache
import time
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

from course.check.compare import TOO_COARSE, mismatch
from course.check.pattern.search import MORE, pattern
from course.check.pattern.within import within
from course.check.specification import PUBLIC_SEED, Compare, Exercise, Misconception
from course.check.trying import NotAttempted, Outcome, run, unheard
from course.check.values import as_array
from course.check.wording import brief, kind

SECONDS = 0.3  # of the processor's time, to try a misconception on further inputs


@dataclasses.dataclass
class Verdict:
    """The result of checking one function: solved or not, and the text that `check` prints."""

    passed: bool
    text: str
    attempted: bool = True  # False while the function still says todo()


def verdict(spec: Exercise, function: Callable, seed: int = PUBLIC_SEED) -> Verdict:
    """Check one function against a specification, on the inputs that a seed gives."""
    label = f"{spec.id} {spec.title}"
    problem = _unusable(spec, function)
    if problem:
        return Verdict(False, f"✗ {label}: {problem}")
    own, cases = getattr(function, "own", function), spec.draw(seed)
    outcomes = []
    for case in cases:
        outcomes.append(run(own, case, spec.parameters))
        if isinstance(outcomes[-1].error, NotAttempted):
            return Verdict(False, f"{label}: not attempted yet. Replace todo() by your own code.", False)
    expected = [run(spec.reference, case, spec.parameters) for case in cases]
    problems = [problem_with(spec, *pair) for pair in zip(expected, outcomes, strict=True)]
    if not any(problems):
        return Verdict(True, f"✓ {label}: right on all {len(cases)} inputs.")
    with unheard():
        exact, loose = (_with(spec, near) for near in (False, True))
        message = recognise(exact, cases, outcomes, problems, own)
        if message is None and not any(TOO_COARSE in problem for problem in problems if problem):
            message = pattern(exact, own, cases, expected, outcomes)
        message = message or recognise(loose, cases, outcomes, problems, own)
    where = next(index for index, problem in enumerate(problems) if problem)
    lines = [f"✗ {label}: not right yet. On input {where + 1} of {len(cases)}:"]
    lines += _inputs(spec, cases[where])
    lines += _answers(expected[where], outcomes[where], own, problems[where])
    return Verdict(False, "\n".join([*lines, *([f"  Hint: {message}"] if message else [])]))


def _unusable(spec: Exercise, function: Callable) -> str | None:
    """Why this cannot be an answer at all, before trying it on any input."""
    if not callable(function):
        return f"check needs your function itself, without parentheses; it got {kind(function)}."
    other = getattr(function, "exercise_id", spec.id)
    if other != spec.id:
        return f"this function is marked @exercise({other!r}); check({other!r}, ...) tests it."
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none: let them try
        return None
    try:
        signature.bind(*spec.parameters)
    except TypeError:
        bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
        takes, wanted = inspect.Signature(bare), ", ".join(spec.parameters)
        named = any(one.kind is one.KEYWORD_ONLY for one in bare)
        hint = "; what stands after the * can only be given by name" if named else ""
        return f"your function takes {takes}, it should take ({wanted}){hint}."
    return None


def code_of(function: Callable) -> CodeType | None:
    """The code that a call of a function, method, partial or callable object runs; None if not Python's."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    if not hasattr(function, "__code__"):
        function = type(function).__call__
    return getattr(function, "__code__", None)


def problem_with(spec: Exercise, expected: Outcome, outcome: Outcome) -> str | None:
    """What is wrong with an outcome, or None when it is right."""
    if outcome.error is not None:
        return "it stopped with an error"
    problem = mismatch(expected.value, outcome.value, spec.compare)
    extra = [name for name in outcome.changed if name not in expected.changed]
    if problem is None and extra:
        return f"it changes its input {extra[0]} in place"
    return problem


def _with(spec: Exercise, near: bool) -> Exercise:
    """An exercise with those misconceptions alone for which it is enough to be near, or with the others."""
    chosen = [known for known in spec.misconceptions if (known.compare is not None) == near]
    return dataclasses.replace(spec, misconceptions=chosen)


def recognise(
    spec: Exercise,
    cases: list[tuple],
    outcomes: list[Outcome],
    problems: list[str | None],
    own: Callable | None = None,
) -> str | None:
    """The sentence for a known misconception, or None if this is a new one.

    A misconception is recognised only if it gives the learner's answer on *every* input on which that answer
    is wrong; of several, the one that gives it most often on the others too, and one that only has to be near
    comes last. Two wrong answers to a yes-or-no question are always the same, so there it has to give the
    learner's answer on every input. With the learner's function at hand, further inputs have to bear it out:
    one or two agree by chance too easily, above all where an answer is 0.
    """
    if any(TOO_COARSE in problem for problem in problems if problem):  # the formula may well be right
        return None
    tried = list(zip(cases, outcomes, problems, strict=True))
    tried.sort(key=lambda one: one[2] is None)  # most misconceptions differ on the first input that is wrong
    found = [(count, known) for known in spec.misconceptions if (count := _agreement(spec, known, tried))]
    found.sort(key=lambda pair: (pair[1].compare is not None, -pair[0]))
    more = _further(spec, own) if found and own is not None else []
    return next((known.message for _, known in found if _borne_out(spec, known, more)), None)


def _agreement(spec: Exercise, known: Misconception, tried: list[tuple]) -> int:
    """On how many inputs a misconception gives the learner's answer; 0 if not on all where it has to."""
    count, yes_or_no = 0, True
    for case, outcome, problem in tried:
        wrong = run(known.wrong, case, spec.parameters)
        same = _same(known.compare or spec.compare, wrong, outcome)
        if problem and not same:
            return 0
        count, yes_or_no = count + same, yes_or_no and isinstance(wrong.value, bool | np.bool_)
    return 0 if yes_or_no and count < len(tried) else count


def _further(spec: Exercise, own: Callable) -> list[tuple[tuple, Outcome]]:
    """Inputs of other seeds on which the learner's function is wrong, with what it gives there."""
    more, deadline = [], time.thread_time() + SECONDS

    def look():
        for seed in MORE:
            for case in spec.draw(seed):
                if time.thread_time() > deadline:
                    return
                outcome = run(own, case, spec.parameters)
                if problem_with(spec, run(spec.reference, case, spec.parameters), outcome):
                    more.append((case, outcome))

    within(10 * SECONDS, look)
    return more


def _borne_out(spec: Exercise, known: Misconception, more: list[tuple[tuple, Outcome]]) -> bool:
    """Whether a misconception gives two thirds of the further wrong answers; rounding may change some."""
    how = known.compare or spec.compare
    agrees = [_same(how, run(known.wrong, case, spec.parameters), outcome) for case, outcome in more]
    return 3 * sum(agrees) >= 2 * len(agrees)


def _same(how: Compare, one: Outcome, other: Outcome) -> bool:
    """Whether two calls came to the same, errors and changed inputs included."""
    if one.error is not None or other.error is not None:
        return repr(one.error) == repr(other.error)
    if one.changed != other.changed:
        return False
    return mismatch(_real(one.value), _real(other.value), how) is None


def _real(value: Any) -> Any:
    """Complex numbers, which no reference returns but some mistakes do, as pairs."""
    is_complex = isinstance(value, np.ndarray | np.number) and np.iscomplexobj(value)
    return np.stack([value.real, value.imag]) if is_complex and as_array(value) is None else value


def _inputs(spec: Exercise, case: tuple) -> list[str]:
    return [f"    {name} = {brief(value)}" for name, value in zip(spec.parameters, case, strict=True)]


def _answers(expected: Outcome, outcome: Outcome, own: Callable, problem: str | None) -> list[str]:
    """The lines that set the expected answer against the learner's."""
    lines = [f"  Expected:    {brief(expected.value)}"]
    if outcome.error is not None:
        lines.append(f"  Your answer: none, it stopped with {_error(outcome.error, own)}")
    elif outcome.value is None and expected.value is not None:
        lines.append(f"  Your answer: None. {_why_none(own)}")
    else:
        lines.append(f"  Your answer: {brief(outcome.value)}")
        lines.append(f"  What is wrong: {problem.removesuffix('.')}.")  # a number may end in a point
    if outcome.printed and outcome.value is None:
        lines.append(f"  It printed {brief(outcome.printed)}, but a check reads what is returned.")
    elif outcome.printed:
        lines.append(f"  It printed: {brief(outcome.printed)}")
    return [*lines, *([f"  numpy or torch warned: {outcome.warned}"] if outcome.warned else [])]


def _why_none(own: Callable) -> str:
    code = code_of(own)
    steps = list(dis.get_instructions(code)) if code else []
    returns = [pair for pair in itertools.pairwise(steps) if pair[1].opname == "RETURN_VALUE"]
    if any(before.opname != "LOAD_CONST" or before.argval is not None for before, _ in returns):
        return "What your function returns has no value on this input."
    return "Does your function end in `return ...`?"


def _error(error: BaseException, own: Callable) -> str:
    """An error in one sentence: its type, its words, and the learner's line that raised it."""
    words = " ".join(str(error).split())
    text = f"{type(error).__name__}: {words[:300]}" if words else type(error).__name__
    code, line = code_of(own), ""
    step = error.__traceback__
    while step is not None and code is not None:
        if step.tb_frame.f_code.co_filename == code.co_filename:
            line = linecache.getline(code.co_filename, step.tb_lineno).strip()
        step = step.tb_next
    return f"{text}\n               in your line `{line}`" if line else text
