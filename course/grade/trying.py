"""One submission: run it, mark it, and say what was found where."""

from __future__ import annotations

import errno
import re
import threading
import time
from dataclasses import dataclass, field, replace

from course.grade import marking, released, submission
from course.grade.marking import Mark
from course.grade.protocol import Report
from course.grade.sandbox import GraderError, Sandbox
from course.grade.submission import Submission
from course.grade.walls import NotStarted

NOTED = 10  # failed cells that are told
RESTORED = "cells of the lesson that others build on were missing; they were restored"
ALONE = "these notes are of the first try; the marks are of one more, alone, in which cells did otherwise"
_MARKING = threading.Lock()  # the references' warnings and prints are caught for the whole process


@dataclass
class Result:
    """What grading a submission came to, so far.

    Attributes:
        marks, notes: for the student; the notes are about the notebook as a whole.
        again: exercise -> those it builds on that are not right: to be tried with their solutions.
        spent: seconds that its sandboxes took beside others, and alone.
        disturbed: something failed in a way that neighbours can cause.
        kept: the result is worth keeping: the grader itself did not fail.
        blind: it failed before a sandbox had the inputs.
        stays: an earlier result, which nothing is to change now.
    """

    marks: list[Mark]
    notes: list[str] = field(default_factory=list)
    again: dict[str, list[str]] = field(default_factory=dict)
    spent: list[float] = field(default_factory=lambda: [0.0, 0.0])
    disturbed: bool = False
    kept: bool = True
    blind: bool = False
    stays: bool = False


def attempt(
    one: Submission,
    lesson: released.Lesson,
    cases: dict[str, list],
    sandbox: Sandbox,
    before: Result | None = None,
) -> Result:
    """Grade one submission in a sandbox of its own, without any solution. May run in several threads at once.

    All its sandboxes together get `total_seconds`, and as much again alone. Whatever goes wrong is this
    submission's result.

    Args:
        one: the submission.
        lesson: as it was handed out.
        cases: exercise -> the secret inputs.
        sandbox: for the lesson's submissions.
        before: what came of it beside others, where that was disturbed. Of this try, alone, only the marks
            count, unless the one before was blind: it had the inputs, and could have left them where the
            cells of this one find them and tell them.

    Raises:
        GraderError: there is no sandbox, or no room on the disk, for nobody.
    """
    if one.problem is not None:
        marks = marking.nothing(lesson, f"{marking.NOTHING}: {one.problem}.")
        return Result(marks, list(one.notes))
    try:
        return _attempt(one, lesson, cases, sandbox, before)
    except Exception as error:
        _raise_unless_theirs(error, alone=before is not None)
        blind, notes = getattr(error, "blind", False), list(one.notes)
        return Result(failure(lesson, error), notes, disturbed=_is_crowded(error), kept=False, blind=blind)


def again(
    one: Submission,
    lesson: released.Lesson,
    cases: dict[str, list],
    sandbox: Sandbox,
    id: str,
    result: Result,
    before: Result | None = None,
) -> Result:
    """Try one exercise with the solutions of those it builds on: the result, with its mark if that is right.

    The solutions are in the student's process, which may keep them where another of the same machine finds
    them. Whatever they could change has to be final: all submissions' marks but those of this exercise and
    of later ones. Its own solution is in no sandbox.

    Args:
        one, lesson, cases, sandbox: as for `attempt`.
        id: the exercise.
        result: so far.
        before: what came of this beside others, where it was disturbed.

    Raises:
        GraderError: there is no sandbox, or no room on the disk, for nobody.
    """
    rest = dict(result.again)
    wrong, place = rest.pop(id), [mark.id for mark in result.marks].index(id)
    spent = (before or result).spent
    result = replace(result, marks=[*result.marks], again=rest, disturbed=False)
    try:
        cells = [*submission.prelude(one, lesson), *(code for _, code in one.cells)]
        cells += [lesson.solutions[needed] for needed in wrong]
        exercise = {id: (lesson.functions[id], cases[id])}
        report, result.spent = _call(sandbox, cells, exercise, spent, alone=before is not None)
        with _MARKING:
            (second,) = marking.mark(lesson, report, cases, only=id)
    except Exception as error:
        _raise_unless_theirs(error, alone=before is not None)
        (result.marks[place],) = [mark for mark in failure(lesson, error) if mark.id == id]
        return replace(result, disturbed=_is_crowded(error), kept=False)
    if second.state == "right":
        says = f"It builds on {' and '.join(wrong)}, for which it was given the solution."
        result.marks[place] = replace(second, says=[*second.says, says])
    else:
        result.disturbed = report.disturbed
    return result


def _raise_unless_theirs(error: Exception, alone: bool) -> None:
    """Raise what is the machine's failure, not that of one submission or of its neighbours."""
    if isinstance(error, GraderError) and (alone or not isinstance(error, NotStarted)):
        raise error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise error


def _is_crowded(error: Exception) -> bool:
    """Whether there was no process or thread left to start with: neighbours may have them."""
    if isinstance(error, NotStarted):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.EAGAIN
    return isinstance(error, RuntimeError) and "can't start new thread" in str(error)


def failure(lesson: released.Lesson, error: Exception) -> list[Mark]:
    """The marks of a submission on which the grader itself failed."""
    says = f"The grader failed on this notebook ({type(error).__name__}); a person will look at it."
    return marking.nothing(lesson, says, "failed")


def _attempt(
    one: Submission,
    lesson: released.Lesson,
    cases: dict[str, list],
    sandbox: Sandbox,
    before: Result | None,
) -> Result:
    restored, own = submission.prelude(one, lesson), [code for _, code in one.cells]
    exercises = {spec.id: (lesson.functions[spec.id], cases[spec.id]) for spec in lesson.specs}
    spent = before.spent if before else [0.0, 0.0]
    report, spent = _call(sandbox, [*restored, *own], exercises, spent, alone=before is not None)
    report = _renumbered(report, len(restored))
    for number, code in enumerate(own):
        if code.strip() in lesson.codes and report.cell_errors.get(number) != "TimeIsUp":
            report.cell_errors.pop(number, None)  # not the student's: a drawing of what is withheld, perhaps
    with _MARKING:
        marks = marking.mark(lesson, report, cases)
    blanks, right = {code.strip() for code in own}, {mark.id for mark in marks if mark.state == "right"}
    again = {
        mark.id: sorted(lesson.needs.get(mark.id, set()) - right)
        for mark in marks
        if mark.state not in ("right", "missing") and lesson.blanks.get(mark.id, "").strip() not in blanks
    }
    again = {id: wrong for id, wrong in again.items() if wrong}
    notes = [*one.notes, *[RESTORED] * bool(restored), *_notes(one, lesson, report)]
    if before and not before.blind:
        notes = before.notes + [ALONE] * (notes != before.notes)
    return Result(marks, notes, again, spent, report.disturbed)


def _call(
    sandbox: Sandbox, cells: list[str], exercises: dict, spent: list[float], alone: bool
) -> tuple[Report, list[float]]:
    """Run cells in a sandbox for the time that is left; what came out, and the seconds spent since."""
    start = time.monotonic()
    report = sandbox.call(cells, exercises, seconds=sandbox.limits.total_seconds - spent[alone])
    took = time.monotonic() - start
    return report, [seconds + took * (place == alone) for place, seconds in enumerate(spent)]


def _renumbered(report: Report, before: int) -> Report:
    """Count cells as the student does, without those that were put in front."""

    def place(name: str) -> str:
        number = re.fullmatch(r"cell (\d+)", name)
        return f"cell {int(number[1]) - before}" if number else name

    report.problems = {place(name): says for name, says in report.problems.items()}
    report.cell_errors = {n - before: says for n, says in report.cell_errors.items() if n >= before}
    report.registered = {
        id: [(cell - before, name) for cell, name in marks] for id, marks in report.registered.items()
    }
    return report


def _notes(one: Submission, lesson: released.Lesson, report: Report) -> list[str]:
    """What failed; and what was found where, if it was not where it was handed out."""
    stopped = [item for item in report.problems.items() if item[0].startswith("cell ")]
    notes = [f"{name} was left out: {says}" for name, says in stopped[:NOTED]]
    # a function that still says todo() fails wherever it is called
    failed = [item for item in sorted(report.cell_errors.items()) if not item[1].startswith("NotAttempted")]
    notes += [f"cell {number + 1} failed: {says}" for number, says in failed[:NOTED]]
    if len(failed) > NOTED or len(stopped) > NOTED:
        notes.append(f"so did others: {len(failed)} cells failed, {len(stopped)} were left out")
    for number, (_, code) in enumerate(one.cells):
        if re.search(r"^[ \t]*%reset\b", code, re.M) and len(notes) <= 2 * NOTED:
            notes.append(f"cell {number + 1} has %reset, which removes what the cells before it made")
    ids = [cell_id for cell_id, _ in one.cells]
    for id, name in lesson.functions.items():
        marks = report.registered.get(id, [])
        if id not in report.found:  # a later life may have lost it
            continue
        if not marks:
            notes.append(f"{id}: @exercise was missing; the function {name} was used")
        if len(marks) > 1:
            notes.append(f"{id}: there were {len(marks)} functions for it; the last one counts")
        if marks:
            cell, actual = marks[-1]
            if actual != name:
                notes.append(f"{id}: the function is called {actual} instead of {name}; it was used")
            if 0 <= cell < len(ids) and ids[cell] != lesson.cell_ids[id]:
                notes.append(f"{id}: found in code cell {cell + 1}, not in the cell that was handed out")
    return notes
