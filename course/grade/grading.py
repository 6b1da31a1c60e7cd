"""`python -m course grade SUBMISSIONS --lesson 06 --seed-file FILE --out COURSE`: from notebooks to marks.

Each student's result is one file, COURSE/students/ID.json, written in one step. What is there and still
fits the submission, the seed and the exercises is not graded again, so an interrupted run goes on where it
stopped. Scores, feedback pages and the gradebook are made from these files.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from course.check.specification import Exercise
from course.files import write
from course.grade import (
    feedback,
    former,
    gradebook,
    marking,
    release,
    released,
    submission,
    trying,
    written,
)
from course.grade.leftovers import claim
from course.grade.marking import Mark
from course.grade.sandbox import GraderError, Limits, Sandbox, lower_limits
from course.grade.submission import Submission
from course.grade.trying import Result

UNSAFE = """
########################################################################################
#  --unsafe: students' code runs WITHOUT A SANDBOX. It can read your files, the         #
#  solutions and other students' work, change its own marks, and reach the network.     #
########################################################################################
"""


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m course grade", description=(__doc__ or "").split("\n\n")[0]
    )
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
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C
    try:
        rows = grade(
            options.submissions,
            options.lesson,
            _seed(options.seed_file) if options.seed is None else options.seed,
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
    finally:
        signal.signal(signal.SIGTERM, before)
    print(f"Graded {len(rows)} submissions; scores in {options.out / 'scores.csv'}.")
    unread = [student for student, marks in rows.items() if any(map(marking.is_nothing, marks))]
    if unread:
        print(f"Nothing could be graded of {', '.join(unread)}; their pages say why.")
    failed = [student for student, marks in rows.items() if any(mark.state == "failed" for mark in marks)]
    if failed:
        print(f"The grader failed on {', '.join(failed)}; they wait for a person, or for another run.")
    return 1 if failed else 0


def _seed(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text; draw a seed as the instructor's guide says") from error


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
    lesson, seed = released.lesson(number), seed.strip()
    if not seed:
        raise ValueError("the seed is empty; draw one as the instructor's guide says")
    if jobs < 1:
        raise ValueError(f"jobs = {jobs}; expected at least 1 submission at a time")
    if folder.resolve() in (out.resolve(), *out.resolve().parents):
        raise ValueError(f"--out {out} lies among the submissions: results would be taken for students")
    handed_in = submission.find(folder, lesson)
    if not handed_in:
        raise ValueError(f"{folder} holds no folders or notebooks of students")
    database = database or release.default_database(out)
    with claim(out):
        former.rename(out / "students", handed_in, database)
        results = _results(handed_in, lesson, seed, out / "students", jobs, unsafe, limits)
        return _publish(handed_in, lesson, results, out, database)


def _results(
    handed_in: list[Submission],
    lesson: released.Lesson,
    seed: str,
    students: Path,
    jobs: int,
    unsafe: bool,
    limits: Limits,
) -> dict[str, Result]:
    """Each student's result: what was kept and still holds, or else from the sandbox."""
    cases = {spec.id: _inputs(seed, spec) for spec in lesson.specs}
    keys, results = {}, {}
    for one in handed_in:
        keys[one.student] = _key(one, lesson, seed, limits)
        known = _load(students / f"{one.student}.json", None if one.unclear else keys[one.student])
        if known is not None:
            results[one.student] = replace(known, stays=one.unclear)
    unfinished = [one for one in handed_in if _is_unfinished(results.get(one.student))]
    if unfinished:
        if says := lower_limits(limits, jobs):
            print(says, file=sys.stderr)
        codes = [*lesson.codes, *lesson.solutions.values()]
        with Sandbox(lesson.withheld, limits, unsafe, codes) as sandbox:
            for one, result in _tries(unfinished, lesson, cases, sandbox, jobs, results):
                results[one.student] = result
                if result.kept and not one.unclear:
                    record = {"key": keys[one.student], "marks": [asdict(m) for m in result.marks]}
                    record |= {"notes": result.notes, "again": result.again, "spent": result.spent}
                    write(students / f"{one.student}.json", json.dumps(record, indent=1))
    return results


def _publish(
    handed_in: list[Submission],
    lesson: released.Lesson,
    results: dict[str, Result],
    out: Path,
    database: str,
) -> dict[str, list[Mark]]:
    """Write the gradebook, the scores, and each student's page and notebook for marking."""
    rows, answers = {one.student: results[one.student].marks for one in handed_in}, {}
    for one in handed_in:
        with _alone(one, rows, lesson):
            answers[one.student] = written.answers(lesson, one)
    changed = {student: marks for student, marks in rows.items() if not results[student].stays}
    gradebook.record(database, lesson, changed, answers)
    rows = gradebook.final(database, lesson, rows)
    title = f"Lesson {lesson.number}: {_title(lesson)}"
    for one in handed_in:
        result = results[one.student]
        with _alone(one, rows, lesson):
            notes = result.notes + ([f"not graded again: {one.problem}"] if result.stays else [])
            page = feedback.page(one.student, title, rows[one.student], notes)
            write(out / "feedback" / f"{one.student}.html", page)
            if not result.stays:
                release.autograded(lesson, one, out)
    gradebook.export(database, lesson, out / "scores.csv")
    return rows


@contextlib.contextmanager
def _alone(one: Submission, rows: dict[str, list[Mark]], lesson: released.Lesson) -> Iterator[None]:
    """Keep to one student what fails because of their submission."""
    try:
        yield
    except (OSError, GraderError):
        raise
    except Exception as error:
        rows[one.student] = trying.failure(lesson, error)


def _is_unfinished(result: Result | None) -> bool:
    return result is None or (bool(result.again) and not result.stays)


def _tries(
    unfinished: list[Submission],
    lesson: released.Lesson,
    cases: dict[str, list],
    sandbox: Sandbox,
    jobs: int,
    results: dict[str, Result],
) -> Iterator[tuple[Submission, Result]]:
    """Each submission with its result, whenever there is one or it has changed.

    All first tries come before any in which a student's process holds a solution, and of those all for one
    exercise before any for the next, which may hold that one's: what a process leaves for others to find
    (see the instructor's guide) comes too late to be an answer.

    Args:
        unfinished: submissions without a result, or whose result says that they are to be tried again.
        lesson, cases, sandbox, jobs: as elsewhere.
        results: student -> result so far; the caller keeps what this gives there.
    """

    def first(one: Submission, before: Result | None = None) -> Result:
        return trying.attempt(one, lesson, cases, sandbox, before)

    waiting = [one for one in unfinished if one.student not in results]
    yield from _each(first, waiting, jobs, sandbox)
    for spec in lesson.specs:

        def second(one: Submission, before: Result | None = None, id: str = spec.id) -> Result:
            return trying.again(one, lesson, cases, sandbox, id, results[one.student], before)

        waiting = [one for one in unfinished if spec.id in results[one.student].again]
        yield from _each(second, waiting, jobs, sandbox, f"{spec.id} with solutions of others")


def _each(
    work: Callable[..., Result],
    waiting: list[Submission],
    jobs: int,
    sandbox: Sandbox,
    title: str | None = None,
) -> Iterator[tuple[Submission, Result]]:
    """Each submission with its result, as they are done; several at once.

    Whoever ran out of time beside others, or of what the kernel counts for a user, is tried once more alone:
    neighbours may have used it up, or other programs what the grader itself needs.
    """
    late = []
    with (
        ThreadPoolExecutor(jobs) as pool,
        contextlib.ExitStack() as interrupted,
        tqdm(total=len(waiting), unit="submission", desc=title, disable=not waiting) as bar,
    ):
        interrupted.callback(pool.shutdown, wait=False, cancel_futures=True)
        interrupted.callback(sandbox.ended.set)  # before the pool waits for what runs in it
        running = {pool.submit(work, one): one for one in waiting}
        for done in as_completed(running):
            result = done.result()
            if result.disturbed and (min(jobs, len(waiting)) > 1 or not result.kept):
                late.append((running[done], result))
                continue
            yield running[done], result
            bar.update()
        for one, before in late:
            yield one, work(one, before)
            bar.update()
        interrupted.pop_all()  # it was not: the sandbox goes on


def _inputs(seed: str, spec: Exercise) -> list[tuple]:
    """The inputs of an exercise: nobody who knows those of one learns another's.

    In an order of the seed's own. Where an exercise asks yes or no, or for a small number, its answers may
    follow each other alike for every seed, and whoever counts calls could tell them by heart.
    """
    number = int.from_bytes(hashlib.sha256(f"{seed}\0{spec.id}".encode()).digest()[:8], "big")
    cases = spec.draw(number)
    return [cases[k] for k in np.random.default_rng([number, len(cases)]).permutation(len(cases))]


def _key(one: Submission, lesson: released.Lesson, seed: str, limits: Limits) -> str:
    """What a result depends on, as a hash; the seed itself is written nowhere."""
    parts = [repr(one.cells), str(one.problem), seed, repr(limits), repr(lesson.solutions)]
    texts = [lesson.path, Path(inspect.getfile(lesson.specs[0].cases))]
    for which in ("check/*.py", "grade/*.py", "exercises/points.py"):  # what runs and marks an answer
        texts += sorted(Path(__file__).parents[1].glob(which))
    parts += [path.read_text(encoding="utf-8") for path in texts]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _load(path: Path, key: str | None) -> Result | None:
    """A finished result, if it still holds; without a key, whatever there is."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if key is not None and record["key"] != key:
            return None
        marks = [Mark(**mark) for mark in record["marks"]]
        return Result(marks, record["notes"], record.get("again", {}), record.get("spent", [0.0, 0.0]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _title(lesson: released.Lesson) -> str:
    return lesson.path.stem.split("_", 1)[1].replace("_", " ")
