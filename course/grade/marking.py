"""From what came out of the sandbox to marks and the words that go with them.

The references run here, in a process where no student code ever ran. Nothing that is said shows a secret
input's values or its answer: of an error that a student's function raised only the type is told, if it is
one of Python's own, and of an odd answer no more than its rough form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from course.check.checking import problem_with, recognise
from course.check.specification import Exercise
from course.check.trying import Outcome, run
from course.check.wording import kind
from course.grade.protocol import ERRORS, NOT_ATTEMPTED, TOO_LARGE, Answer, Report
from course.grade.released import Lesson

FACTORS = (-1, -2, *range(2, 21))  # by which, or by whose inverses, answers are wrong by mistake
TYPES = {"Tensor", "ndarray", "dict", "set", "generator", "map", "zip", "range", "int", "object"}
TYPES |= {"complex64", "complex128"}
NOTHING = "Nothing could be graded"
FAILED = "Cells failed; what can be said of them is at the end of this page."
LOST = "Cells failed when the notebook was run again after a function had ended the program."


class Reported(Exception):
    """An error that a student's function raised in the sandbox, known by its words only."""

    def __repr__(self) -> str:  # as the error itself would show, to compare it with a known wrong answer's
        name, _, text = str(self).partition(": ")
        return f"{name}({text!r})" if text else f"{name}()"


@dataclass(frozen=True)
class Mark:
    """The result of one exercise.

    Attributes:
        id, title: the exercise.
        points, out_of: what it earned, and could have earned.
        state: "right", "wrong", "not attempted", "missing" or "stopped"; "failed" where the grader did.
        says: sentences for the student.
    """

    id: str
    title: str
    points: float
    out_of: float
    state: str
    says: list[str] = field(default_factory=list)


def mark(
    lesson: Lesson, report: Report, cases: dict[str, list[tuple]], only: str | None = None
) -> list[Mark]:
    """Mark every exercise of a lesson: all its points if every case is right, else none.

    Args:
        lesson: with its specifications.
        report: of the sandbox.
        cases: exercise -> the secret inputs that were tried.
        only: the one exercise to mark.
    """
    specs = [spec for spec in lesson.specs if only in (None, spec.id)]
    withheld = {name for spec in lesson.specs for name in spec.withheld}
    return [_mark(spec, report, cases[spec.id], withheld) for spec in specs]


def nothing(lesson: Lesson, problem: str, state: str = "missing") -> list[Mark]:
    """The marks of a submission of which nothing could be graded."""
    return [Mark(spec.id, spec.title, 0, spec.points, state, [problem]) for spec in lesson.specs]


def is_nothing(mark: Mark) -> bool:
    """Whether it says that nothing of its submission could be graded."""
    return any(sentence.startswith(f"{NOTHING}:") for sentence in mark.says)


def _mark(spec: Exercise, report: Report, cases: list[tuple], withheld: set[str]) -> Mark:
    def result(state: str, *says: str) -> Mark:
        points = spec.points if state == "right" else 0
        lost = [LOST] if spec.id in report.lost and state in ("wrong", "missing") else []
        return Mark(spec.id, spec.title, points, spec.points, state, [*says, *lost])

    answers = report.answers.get(spec.id, [])
    if spec.id in report.problems:
        return result("stopped", f"Your function was stopped: {report.problems[spec.id]}.")
    if spec.id not in report.found:
        failed = [FAILED] if report.cell_errors else []
        return result("missing", "There was no function for this exercise.", *failed)
    if any(answer.error == NOT_ATTEMPTED for answer in answers):
        return result("not attempted", "Not attempted: the function still says todo().")
    if len(answers) < len(cases):
        return result("stopped", "Your function took too long, or ended the program that ran it.")
    outcomes = [_outcome(spec, answer) for answer in answers]
    expected = [run(spec.reference, case, spec.parameters) for case in cases]
    problems = [problem_with(spec, *pair) for pair in zip(expected, outcomes, strict=True)]
    if not any(problems):
        return result("right", f"Right on all {len(cases)} inputs.")
    message = recognise(spec, cases, outcomes, problems)
    where = next(index for index, problem in enumerate(problems) if problem)
    right = sum(problem is None for problem in problems)
    first = _inputs(spec, cases[where])
    says = [f"Right on {right} of {len(cases)} inputs. The first that went wrong has {first}."]
    if outcomes[where].error is not None:
        says.append(_error(answers[where].error, withheld))
    else:
        says.append(f"About your answer: {_without_values(problems[where])}.")
    return result("wrong", *says, *([f"Hint: {message}"] if message else []))


def _outcome(spec: Exercise, answer: Answer) -> Outcome:
    names = spec.parameters
    return Outcome(
        value=answer.value,
        error=None if answer.error is None else Reported(answer.error),
        changed=[names[place] for place in answer.changed if 0 <= place < len(names)],
    )


def _inputs(spec: Exercise, case: tuple) -> str:
    """The kinds of the inputs, without their values."""
    kinds = [f"{name}: {kind(value)}" for name, value in zip(spec.parameters, case, strict=True)]
    return ", ".join(kinds)


def _error(text: str, withheld: set[str]) -> str:
    """What stopped a student's function, in words that are ours: theirs could hold the secret inputs."""
    name, _, words = text.partition(": ")
    if text == TOO_LARGE:
        return "Your answer is far too large."
    if name == "TimeIsUp":
        return "Your function took too long."
    if name == "NotImplementedError" and words.partition(" is withheld")[0] in withheld:
        return f"Your function called {words.partition(' ')[0]}, which is withheld here: write it yourself."
    return f"Your function stopped with {name if name in ERRORS else 'an error of its own kind'}."


def _without_values(problem: str) -> str:
    """A sentence of `mismatch` without numbers and names in which an answer could carry the inputs."""
    text = problem.partition(", most of all")[0]
    text = re.sub(r"(?<=of type )\w+", lambda match: match[0] if match[0] in TYPES else "its own", text)
    text = re.sub(r"every entry is (\S+) times", _factor, text)
    given, expected, wanted = text.partition(", expected")
    sizes = _sizes(wanted)
    given = re.sub(r"(of )?shape (\(.*?\))", lambda match: _shape(match, sizes), given)
    given = re.sub(r"\d+ values", lambda match: _values(match, sizes), given)
    return re.sub(r"\d{4,}", "...", given + expected + wanted)


def _factor(match: re.Match) -> str:
    """A factor in words if it is one that mistakes have; any other could hold an input."""
    factor = float(match[1])
    usual = [*FACTORS, *(1 / number for number in FACTORS)]
    near = [one for one in usual if abs(factor - one) < 1e-3 * abs(one)]
    return f"every entry is {near[0]:.3g} times" if near else "every entry is the same multiple of"


def _shape(match: re.Match, wanted: list[int]) -> str:
    sizes = _sizes(match[2])
    if _usual(sizes, wanted):
        return match[0]
    return f"{match[1] or ''}{len(sizes)} dimension{'s' * (len(sizes) != 1)}"


def _values(match: re.Match, wanted: list[int]) -> str:
    return match[0] if _usual(_sizes(match[0]), wanted) else "another number of values"


def _sizes(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _usual(sizes: list[int], wanted: list[int]) -> bool:
    """Whether a shape is near the wanted one; any other could hold the inputs."""
    if abs(len(sizes) - len(wanted)) <= 1 and {*sizes} <= {*wanted, 1}:
        return True
    apart = sorted(abs(one - other) for one, other in zip(sizes, wanted, strict=False))
    return len(sizes) == len(wanted) and apart[-1] == 1 and not any(apart[:-1])
