"""What a sandbox tells, and what of it is believed: each line of its output may have been forged.

A life of a sandbox has two stages. While the cells run, it has none of the secret inputs, and of what it says
(errors of cells, names of functions) only words that the notebook itself has are kept: others could come
from a neighbour, who is further on. Then it asks for the inputs; from there on nothing but answers is taken.
"""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass, field
from typing import Any

from course.grade import plain

LINE = 2**20  # bytes of an event; `plain.SIZE` fits into it
PARTS = 100_000  # lists and entries in it
TIMEOUT = "it took too long"
UNEXPECTED = "it wrote into the program that ran it"
TOO_LARGE = "too large"  # for an answer, and
NOT_ATTEMPTED = "not attempted"  # as the runner says it
ERRORS = {
    *(n for n in vars(builtins) if n.endswith(("Error", "Exception", "Iteration", "Exit", "Interrupt"))),
    "LinAlgError",
}
WORDLESS = ("NotAttempted", "TimeIsUp")  # the runner's own
THREADS = "RuntimeError: can't start new thread"
# errors that neighbours can cause too: by keeping the machine busy, or by what the kernel counts for a user
CROWDED = re.compile(
    r"(TimeIsUp|OSError|BlockingIOError|BrokenPipeError|Connection(Reset|Refused)Error|EOFError|BrokenProcessPool)\b"
    rf"|{THREADS}|RuntimeError: (received \d+ items of ancdata|DataLoader worker)"
)
# errors of cells that are told with a name, if it stands in the cell
NAMED = {
    r"NameError: name '(\w+)' is not defined": "NameError: name '{}' is not defined",
    r"ModuleNotFoundError: No module named '([\w.]+)'": "ModuleNotFoundError: No module named '{}'",
    r"ImportError: cannot import name '(\w+)'": "ImportError: cannot import name '{}'",
    r"NotImplementedError: [\w.]*?(\w+) is withheld": "NotImplementedError: {} is withheld here",
}


@dataclass
class Answer:
    """What a student's function gave on one case: a plain value, or an error in words.

    `changed` holds the positions of the arguments that it changed in place.
    """

    value: Any = None
    error: str | None = None
    changed: list[int] = field(default_factory=list)


@dataclass
class Report:
    """What came out of the sandbox for one notebook.

    Attributes:
        cell_errors: cell number -> the error in a line; such a cell costs only what it defines.
        registered: exercise -> (cell number, function name) for each time a function was marked as its
        answer. answers: exercise -> an answer for each case, as far as it got.
        found: exercises for which there was a function.
        problems: "cell 3" or an exercise -> why it was stopped (time, memory, crash, output).
        lost: exercises that were tried after cells failed which had not failed before: in a later life, after
        one that had the inputs, so that nothing else is told of them.
        crowded: cells failed so, or ended, in a way that neighbours can cause.
    """

    cell_errors: dict[int, str] = field(default_factory=dict)
    registered: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    problems: dict[str, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    crowded: bool = False

    @property
    def disturbed(self) -> bool:
        """Whether something was stopped by the clock or failed in a way that neighbours can cause."""
        errors = [answer.error or "" for answers in self.answers.values() for answer in answers]
        failed = any(map(CROWDED.match, [*errors, *self.cell_errors.values()]))
        return self.crowded or failed or TIMEOUT in self.problems.values()


class Listener:
    """Puts the events of one life of a sandbox into a report.

    Args:
        report: to fill.
        cells: the code of each cell.
        exercises: exercise -> number of its cases.

    Attributes:
        stage: "starting", "cells", "exercises" (the inputs are asked for) or "done".
        place: the cell or exercise that runs now.
    """

    def __init__(self, report: Report, cells: list[str], exercises: dict[str, int]):
        self.report, self.cells, self.exercises = report, cells, exercises
        self.stage: str = "starting"
        self.place: int | str | None = None
        self._begun: set[str] = set()
        self._names = {"<lambda>"}.union(*map(_names, cells))

    def hear(self, line: bytes) -> bool:
        """Take one line; False if it is not an event at all. What is not possible now is ignored."""
        try:
            event = plain.parse(line, PARTS)
        except (ValueError, RecursionError):
            return False
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            return False
        kind, id, index = event["event"], event.get("id"), event.get("index")
        if self.stage == "starting":
            self.stage = "cells"
        if kind == "done" or self.stage == "done":
            self.stage = "done"
        elif kind == "cells-done" and self.stage == "cells":
            # a cell that asked for the inputs itself has them from here on: its end is not told as its own
            self.stage, self.place = "exercises", None
        elif self.stage == "cells" and type(index) is int and 0 <= index < len(self.cells):
            self._cell(kind, index, event)
        elif isinstance(id, str) and id in self.exercises:
            if self.stage == "cells":
                self._registered(kind, id, event)
            elif self.stage == "exercises":
                self._exercise(kind, id, event)
        return True

    def _cell(self, kind: str, index: int, event: dict) -> None:
        if kind == "cell" and (self.place is None or index > self.place):
            self.place = index
        elif kind == "cell-error":
            self.report.cell_errors[index] = _told(str(event.get("error"))[:300], self.cells[index])

    def _registered(self, kind: str, id: str, event: dict) -> None:
        cell = event.get("cell")
        if kind != "registered" or type(cell) is not int or not 0 <= cell < len(self.cells):
            return
        name = event.get("name")
        name = name[:60] if isinstance(name, str) and name in self._names else "something else"
        marks, mark = self.report.registered.setdefault(id, []), (cell, name)
        if len(marks) < 100 and mark not in marks:
            marks.append(mark)

    def _exercise(self, kind: str, id: str, event: dict) -> None:
        if kind == "exercise" and id not in self._begun:
            self._begun.add(id)
            self.place, self.report.answers[id] = id, []
            if event.get("found") is True:
                self.report.found.add(id)
        answers = self.report.answers.get(id, [])
        if kind == "answer" and id == self.place and event.get("case") == len(answers) < self.exercises[id]:
            answers.append(_answer(event))


def _names(code: str) -> set[str]:
    return set(re.findall(r"[^\W\d]\w*", code))


def _told(error: str, code: str) -> str:
    """A cell's error in words that its own code has."""
    kind, names = error.partition(":")[0], _names(code)
    for pattern, says in NAMED.items():
        match = re.match(pattern, error)
        if match and names.issuperset(match[1].split(".")):
            return says.format(match[1])
    if kind in WORDLESS:
        return kind
    if error == THREADS:
        return error
    line = re.match(r"(SyntaxError|IndentationError|TabError): .*, line (\d{1,5})\)$", error)
    if line and 1 <= int(line[2]) <= code.count("\n") + 1:
        return f"{kind} in line {int(line[2])}"
    return f"{kind if kind in ERRORS else 'an error of its own kind'}; its words are not shown"


def _answer(event: dict) -> Answer:
    if "error" in event:
        return Answer(error=plain.readable(event["error"], 300))
    changed = event.get("changed")
    changed = [place for place in changed if type(place) is int] if isinstance(changed, list) else []
    try:
        return Answer(value=plain.decode(event.get("value")), changed=changed)
    except plain.TooLarge:  # forged: inside it would have been refused
        return Answer(error=TOO_LARGE)
    except (ValueError, RecursionError):
        return Answer(error="its answer could not be read")
