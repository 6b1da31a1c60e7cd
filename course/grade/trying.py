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

NOTED = 10  # failed cells that are told
_MARKING = threading.Lock()  # the references' warnings and prints are caught for the whole process


@dataclass
class Result:
    """What grading a submission came to.

    Attributes:
        marks, notes: for the student; the notes are about the notebook as a whole.
        disturbed: something failed in a way that neighbours can cause.
        kept: the result is worth keeping: the grader itself did not fail.
        stays: an earlier result, which nothing is to change now.
    """

    marks: list[Mark]
    notes: list[str] = field(default_factory=list)
    disturbed: bool = False
    kept: bool = True
    stays: bool = False


def attempt(one: Submission, lesson: released.Lesson, cases: dict[str, list], sandbox: Sandbox) -> Result:
    """Grade one submission in a sandbox of its own. May run in several threads at once.

    All its sandboxes together get `total_seconds`. Whatever goes wrong is this submission's result.

    Raises:
        GraderError: there is no sandbox, or no room on the disk, for nobody.
    """
    if one.problem is not None:
        marks = marking.nothing(lesson, f"{marking.NOTHING}: {one.problem}.")
        return Result(marks, list(one.notes))
    try:
        return _attempt(one, lesson, cases, sandbox)
    except GraderError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # the machine's failure, not that of one submission
        return Result(failure(lesson, error), list(one.notes), kept=False)


def failure(lesson: released.Lesson, error: Exception) -> list[Mark]:
    """The marks of a submission on which the grader itself failed."""
    says = f"The grader failed on this notebook ({type(error).__name__}); a person will look at it."
    return marking.nothing(lesson, says, "failed")


def _attempt(one: Submission, lesson: released.Lesson, cases: dict[str, list], sandbox: Sandbox) -> Result:
    end = time.monotonic() + sandbox.limits.total_seconds
    before, own = submission.prelude(one, lesson), [code for _, code in one.cells]
    exercises = {spec.id: (lesson.functions[spec.id], cases[spec.id]) for spec in lesson.specs}
    report = _renumbered(sandbox.call([*before, *own], exercises), len(before))
    for number, code in enumerate(own):
        if code.strip() in lesson.codes and report.cell_errors.get(number) != "TimeIsUp":
            report.cell_errors.pop(number, None)  # not the student's: a drawing of what is withheld, perhaps
    with _MARKING:
        marks = marking.mark(lesson, report, cases)
    disturbed, blanks = report.disturbed, {code.strip() for code in own}
    state = {mark.id: mark.state for mark in marks}
    for place, mark in enumerate(marks):
        wrong = sorted(id for id in lesson.needs.get(mark.id, ()) if state.get(id) != "right")
        blank = lesson.blanks.get(mark.id, "").strip() in blanks
        if mark.state in ("right", "missing") or blank or not wrong:
            continue
        # again with the solutions of those it builds on; its own solution is not in the sandbox
        cells = [*before, *own, *(lesson.solutions[id] for id in wrong)]
        exercise = {mark.id: exercises[mark.id]}
        again = sandbox.call(cells, exercise, seconds=end - time.monotonic())
        disturbed = disturbed or again.disturbed
        with _MARKING:
            (second,) = marking.mark(lesson, again, cases, only=mark.id)
        if second.state == "right":
            says = f"It builds on {' and '.join(wrong)}, for which it was given the solution."
            marks[place] = replace(second, says=[*second.says, says])
    restored = ["cells of the lesson that others build on were missing; they were restored"] if before else []
    return Result(marks, [*one.notes, *restored, *_notes(one, lesson, report)], disturbed)


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
        if not marks and id in report.found:
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
