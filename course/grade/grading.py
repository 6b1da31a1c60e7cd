"""`python -m course grade SUBMISSIONS/ --seed SECRET --lesson 06 --out results/`: from notebooks to marks.

Each student's result is one file, results/students/ID.json, written in one step. What is there and still
fits the submission, the seed and the exercises is not graded again, so an interrupted run goes on where it
stopped. Scores, feedback pages and the gradebook are made from these files.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path

from tqdm import tqdm

from course import compare, release, specification
from course.files import write
from course.grade import feedback, gradebook, marking, released, submission, written
from course.grade.marking import Mark
from course.grade.sandbox import GraderError, Limits, Report, Sandbox
from course.grade.submission import Submission

UNSAFE = """
########################################################################################
#  --unsafe: students' code runs WITHOUT A SANDBOX. It can read your files, the         #
#  solutions and other students' work, change its own marks, and reach the network.     #
########################################################################################
"""


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m course grade", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "submissions", type=Path, help="a folder with a folder or a notebook for each student"
    )
    secret = parser.add_mutually_exclusive_group(required=True)
    secret.add_argument("--seed", help="any text; keep it secret, and change it every time")
    secret.add_argument("--seed-file", type=Path, help="a file that holds it, unseen by others' `ps`")
    parser.add_argument("--lesson", required=True, help="number of the lesson, such as 06")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="submissions at a time")
    parser.add_argument("--gradebook", help="database URL (default: sqlite, gradebook.db in the results)")
    parser.add_argument("--unsafe", action="store_true", help="grade without a sandbox; read what this means")
    options = parser.parse_args(arguments)
    if options.unsafe:
        print(UNSAFE, file=sys.stderr)
    try:
        rows = grade(
            options.submissions,
            options.lesson,
            options.seed or options.seed_file.read_text(encoding="utf-8").strip(),
            options.out,
            options.jobs,
            options.gradebook,
            options.unsafe,
        )
    except (GraderError, ValueError, OSError) as error:
        print(f"Grading stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.", file=sys.stderr)
        return 130
    print(f"Graded {len(rows)} submissions; scores in {options.out / 'scores.csv'}.")
    return 0


def grade(
    folder: Path,
    number: str,
    seed: str,
    out: Path,
    jobs: int = 2,
    database: str | None = None,
    unsafe: bool = False,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> dict[str, list[Mark]]:
    """Grade every submission in a folder.

    Args:
        folder: of submissions (see `submission.find`).
        number: of the lesson, "06".
        seed: secret text from which the inputs are drawn.
        out: folder for scores.csv, feedback/, students/, the gradebook, and autograded/ for marking by hand.
        jobs: submissions at a time.
        database: URL of nbgrader's gradebook; out/gradebook.db by default.
        unsafe: without a sandbox.
        limits: what one submission may use.

    Returns:
        student -> marks that count, one for each exercise and written question; every submission has a row.

    Raises:
        GraderError: the grader itself failed. What was finished is kept.
        ValueError: no such lesson, no submissions, or no number of jobs.
    """
    lesson = released.lesson(number)
    if jobs < 1:
        raise ValueError(f"jobs = {jobs}; expected at least 1 submission at a time")
    handed_in = submission.find(folder, lesson)
    if not handed_in:
        raise ValueError(f"{folder} holds no folders or notebooks of students")
    cases = {spec.id: spec.draw(_number(seed, spec.id)) for spec in lesson.specs}
    students = out / "students"
    students.mkdir(parents=True, exist_ok=True)
    waiting, results = [], {}
    for one in handed_in:
        key = _key(one, lesson, seed, limits)
        known = _load(students / f"{one.student}.json", key)
        if known is None:
            waiting.append((one, key))
        else:
            results[one.student] = known
    if waiting:
        with Sandbox(lesson.withheld, limits, unsafe) as sandbox:
            for one, key, marks in _grade_all(waiting, lesson, cases, sandbox, jobs):
                results[one.student] = marks, one.notes
                record = {"key": key, "marks": [asdict(mark) for mark in marks], "notes": one.notes}
                write(students / f"{one.student}.json", json.dumps(record, indent=1))
    database = database or release.default_database(out)
    rows = {one.student: results[one.student][0] for one in handed_in}
    answers = {one.student: written.answers(lesson, one) for one in handed_in}
    gradebook.record(database, lesson, rows, answers)
    rows = gradebook.final(database, lesson, rows)
    gradebook.export(database, lesson, out / "scores.csv")
    title = f"Lesson {number}: {_title(lesson)}"
    for one in handed_in:
        page = feedback.page(one.student, title, rows[one.student], results[one.student][1])
        write(out / "feedback" / f"{one.student}.html", page)
        release.autograded(lesson, one, out)
    return rows


def _grade_all(waiting, lesson, cases, sandbox, jobs) -> Iterator[tuple[Submission, str, list[Mark]]]:
    """Grade several at once, each in a sandbox of its own."""
    # the threads only wait for sandboxes; marking, which runs the references, stays in this one
    with ThreadPoolExecutor(jobs) as pool, tqdm(total=len(waiting), unit="submission") as bar:
        running = {pool.submit(_run, one, lesson, cases, sandbox): (one, key) for one, key in waiting}
        try:
            for done in as_completed(running):
                one, key = running[done]
                report = done.result()
                if report is None:
                    marks = marking.nothing(lesson, f"Nothing could be graded: {one.problem}.")
                else:
                    _note(one, lesson, report)
                    marks = marking.mark(lesson, report, cases)
                    _forgive(one, lesson, cases, sandbox, marks)
                yield one, key, marks
                bar.update()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run(one: Submission, lesson: released.Lesson, cases: dict, sandbox: Sandbox) -> Report | None:
    if one.problem is not None:
        return None
    before = submission.prelude(one, lesson)
    if before:
        one.notes.append("cells of the lesson that others build on were missing; they were restored")
    exercises = {spec.id: (lesson.functions[spec.id], cases[spec.id]) for spec in lesson.specs}
    report = sandbox.call([*before, *(code for _, code in one.cells)], exercises)
    return _renumbered(report, len(before))


def _forgive(one: Submission, lesson: released.Lesson, cases: dict, sandbox: Sandbox, marks: list[Mark]):
    """Try an exercise again with the solutions of those it builds on, where the student's own are not right.

    The solution of the exercise itself is not in the sandbox.
    """
    state, codes = {mark.id: mark.state for mark in marks}, {code.strip() for _, code in one.cells}
    for place, mark in enumerate(marks):
        wrong = {id for id in lesson.needs.get(mark.id, ()) if state.get(id) != "right"}
        blank = lesson.blanks.get(mark.id, "").strip() in codes
        if mark.state in ("right", "missing") or blank or not wrong:
            continue
        cells = [*submission.prelude(one, lesson), *(code for _, code in one.cells)]
        cells += [lesson.solutions[id] for id in sorted(wrong)]
        exercise = {mark.id: (lesson.functions[mark.id], cases[mark.id])}
        (again,) = marking.mark(lesson, sandbox.call(cells, exercise), cases, only=mark.id)
        if again.state == "right":
            says = f"It builds on {' and '.join(sorted(wrong))}, for which it was given the solution."
            marks[place] = replace(again, says=[*again.says, says])


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


def _note(one: Submission, lesson: released.Lesson, report: Report) -> None:
    """Say what was found where, if it was not where it was handed out."""
    for name, says in report.problems.items():
        if name.startswith("cell "):
            one.notes.append(f"{name} was left out: {says}")
    for id, name in lesson.functions.items():
        marks = report.registered.get(id, [])
        if not marks and id in report.found:
            one.notes.append(f"{id}: @exercise was missing; the function {name} was used")
        if len(marks) > 1:
            one.notes.append(f"{id}: there were {len(marks)} functions for it; the last one counts")
        if marks:
            cell, actual = marks[-1]
            if actual != name:
                one.notes.append(f"{id}: the function is called {actual} instead of {name}; it was used")
            ids = [cell_id for cell_id, _ in one.cells]
            if 0 <= cell < len(ids) and ids[cell] != lesson.cell_ids[id]:
                one.notes.append(f"{id}: found in code cell {cell + 1}, not in the cell that was handed out")


def _number(seed: str, id: str) -> int:
    """The seed of an exercise's inputs: nobody who knows one learns another."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{id}".encode()).digest()[:8], "big")


def _key(one: Submission, lesson: released.Lesson, seed: str, limits: Limits) -> str:
    """What a result depends on, as a hash; the seed itself is written nowhere."""
    module = inspect.getmodule(lesson.specs[0].cases)
    parts = [repr(one.cells), str(one.problem), seed, repr(limits), repr(lesson.solutions)]
    parts.append(lesson.path.read_text(encoding="utf-8"))
    parts += [inspect.getsource(m) for m in (module, specification, compare, marking)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _load(path: Path, key: str) -> tuple[list[Mark], list[str]] | None:
    """A finished result, if it still holds."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["key"] != key:
            return None
        return [Mark(**mark) for mark in record["marks"]], record["notes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _title(lesson: released.Lesson) -> str:
    return lesson.path.stem.split("_", 1)[1].replace("_", " ")
