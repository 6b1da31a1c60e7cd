"""What a learner has solved, kept in a file beside their lessons: `python -m course progress [NN]`.

The file is a list of verdicts, a line each, to which a check appends: many notebooks may do so at once, a
line that was cut off is skipped, and deleting the file forgets the past and nothing else. Standard
library only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from course import syllabus
from course.start.handing_out import MINE
from course.start.handing_out import RECORD as HANDED_OUT

FILE = ".progress"
STATES = ("solved", "wrong", "blank")
now: dict[str, str] = {}  # the verdicts of this process, wherever it runs


@dataclass
class Memory:
    """What was recorded: the latest verdict on each exercise that was tried, and the last exercise."""

    states: dict[str, str] = field(default_factory=dict)
    last: str | None = None

    @property
    def solved(self) -> set[str]:
        """The ids of the exercises whose latest answer was right."""
        return {id for id, state in self.states.items() if state == "solved"}


def folder() -> Path | None:
    """The learner's folder: where lessons were handed out, here or above, or where this process began.

    A notebook may go elsewhere (`os.chdir`, `%cd`). None if lessons were handed out in neither place.
    """
    found = None
    with contextlib.suppress(OSError):  # the folder was removed
        here = Path.cwd()
        found = next((place for place in (here, *here.parents) if (place / HANDED_OUT).is_file()), None)
    return found or _began


_began: Path | None = None
_began = folder()


def remember(id: str, state: str, place: Path | None = None) -> None:
    """Append a verdict, unless it is the one that stands there; whatever goes wrong, a check goes on.

    Args:
        id: the exercise, "06.2".
        state: "solved", "wrong" or "blank" (not attempted, which never takes back what was solved).
        place: the learner's folder; found by default. Where there is none, nothing is written.
    """
    now[id] = state
    try:
        place = place or folder()
        if place is None:
            return
        memory = recall(place)
        if memory.last == id and (state == "blank" or memory.states.get(id) == state):
            return
        when = datetime.now().astimezone().isoformat(timespec="seconds")
        line = json.dumps({"id": id, "state": state, "at": when})
        # a line break first: what a crash left unfinished ends there; one write: no other comes between
        with open(place / FILE, "ab", buffering=0) as file:
            file.write(f"\n{line}".encode())
    except Exception:  # a full disk, a folder without permission: an answer is checked all the same
        pass


def recall(place: Path | None) -> Memory:
    """What was recorded in a learner's folder; empty where there is nothing to read."""
    memory = Memory()
    try:
        lines = (place / FILE).read_bytes().splitlines() if place else []
    except OSError:
        return memory
    for line in lines:
        try:
            entry = json.loads(line)
            id, state = entry["id"], entry["state"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(id, str) and state in STATES:
            memory.last = id
            if state != "blank":
                memory.states[id] = state
    return memory


def left_off(memory: Memory) -> syllabus.Lesson:
    """The lesson to open: the one of the last check, or the next one if all of it is solved."""
    written = [lesson for lesson in syllabus.LESSONS if lesson.path]
    for lesson, following in zip(written, [*written[1:], None], strict=True):
        if memory.last in lesson.exercises:
            done = following is not None and set(lesson.exercises) <= memory.solved
            return following if done else lesson
    return written[0]


def next_exercise(lesson: syllabus.Lesson, solved: set[str]) -> str | None:
    """The first exercise of a lesson that is not solved, "06.2 Forces"; None if there is none."""
    return next((f"{id} {title}" for id, title in lesson.exercises.items() if id not in solved), None)


def of_lesson(lesson: syllabus.Lesson, solved: set[str]) -> str:
    """A sentence about one lesson."""
    if not lesson.exercises:
        return f"Lesson {lesson.number}, {lesson.title}, is being written."
    right = len(solved & set(lesson.exercises))
    line = f"Lesson {lesson.number}: {right} of {len(lesson.exercises)} exercises solved"
    following = next_exercise(lesson, solved)
    return f"{line}; next: {following}." if following else f"{line}. Well done."


def of_course(solved: set[str]) -> str:
    """The whole course in lines for a terminal."""
    lines = [_total(solved)]
    width = max(len(lesson.title) for lesson in syllabus.LESSONS)
    for lesson in syllabus.LESSONS:
        time = f"{lesson.minutes} min" if lesson.minutes else ""
        lines.append(
            f"  {lesson.number}  {lesson.title:{width}}  {time:>7}  {_share(lesson, solved)}".rstrip()
        )
    return "\n".join(lines)


def as_table(solved: set[str]) -> str:
    """The whole course as a Markdown table whose links open the lessons beside the notebook that shows it."""
    return f"**{_total(solved)}**\n\n" + syllabus.table("", "solved", lambda lesson: _share(lesson, solved))


def _share(lesson: syllabus.Lesson, solved: set[str]) -> str:
    if not lesson.exercises:
        return "being written"
    right = len(solved & set(lesson.exercises))
    return f"{right} of {len(lesson.exercises)}" + (" ✓" if right == len(lesson.exercises) else "")


def _total(solved: set[str]) -> str:
    every = {id for lesson in syllabus.LESSONS for id in lesson.exercises}
    return f"{len(solved & every)} of {len(every)} exercises solved"


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m course progress", description=(__doc__ or "").split(",")[0]
    )
    parser.add_argument("lesson", nargs="?", help="number of a lesson, such as 06 (all, if none is given)")
    parser.add_argument(
        "--in", dest="place", type=Path, default=MINE, help="the lessons' folder (my-lessons)"
    )
    options = parser.parse_args(arguments)
    solved = recall(options.place).solved
    try:
        print(of_lesson(syllabus.find(options.lesson), solved) if options.lesson else of_course(solved))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
