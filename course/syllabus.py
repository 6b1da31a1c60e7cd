"""The course at a glance: its lessons in order, what each needs, and how long it takes.

What a finished lesson says of itself (title, minutes, exercises) is read from its source, so that README.md,
lesson 00 and `progress` cannot disagree with it. Standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "course" / "source"
PARTS = {
    "": "First of all",
    "I": "Where gradient descent goes",
    "II": "One softmax",
    "III": "Transformers as SVMs",
    "IV": "Beyond gradient descent",
}


@dataclass(frozen=True)
class Lesson:
    """One lesson, finished or not.

    Args:
        part: its part of the course, "II".
        number: its two digits, "05".
        planned: the title it will have; a finished lesson's own heading counts.
        shows: what one will see, in a sentence.
        needs: the numbers of the lessons it builds on.
        source: folder of the lessons' sources.
    """

    part: str
    number: str
    planned: str
    shows: str = ""
    needs: tuple[str, ...] = ()
    source: Path = SOURCE

    @cached_property
    def path(self) -> Path | None:
        """Its source; None while it is being written."""
        return next(iter(sorted(self.source.glob(f"{self.number}_*.py"))), None)

    @cached_property
    def _text(self) -> str:
        return self.path.read_text(encoding="utf-8") if self.path else ""

    @property
    def notebook(self) -> str | None:
        """The file name of its notebook."""
        return f"{self.path.stem}.ipynb" if self.path else None

    @property
    def title(self) -> str:
        """What its first line says, without the number."""
        heading = re.search(rf"^# # (?:{self.number} · )?(.+)$", self._text, re.M)
        return heading[1] if heading else self.planned

    @property
    def minutes(self) -> int | None:
        """How long it takes, by its own words: the first number of minutes after "You need"."""
        said = re.search(r"\*\*You need\*\*.*?\b(\d+)[\s#]+minutes", self._text, re.S)
        return int(said[1]) if said else None

    @cached_property
    def exercises(self) -> dict[str, str]:
        """The titles of the exercises that `check` can check, by id."""
        coded = re.findall(r'^@exercise\("([^"]+)"\)', self._text, re.M)
        titles = dict(re.findall(r"^# ### Exercise (\d\d\.\d+): (.+)$", self._text, re.M))
        return {id: titles.get(id, "") for id in coded}


LESSONS = [
    Lesson(
        "",
        "00",
        "Start here",
        "How a notebook works, the map, and five questions on what you need to know.",
    ),
    Lesson(
        "I",
        "01",
        "Logistic regression chooses a margin",
        "The loss has no minimum, yet the direction of the weights has a limit: the max-margin line.",
    ),
    Lesson(
        "I",
        "02",
        "The hard-margin SVM and its certificate",
        "The dual problem proves how good any direction is, and that some data have none.",
        ("01",),
    ),
    Lesson(
        "I",
        "03",
        "The optimiser picks the norm",
        "Steepest descent maximises the margin of its own norm: one data set, six optimisers, five limits.",
        ("01", "02"),
    ),
    Lesson(
        "I",
        "04",
        "Factored weights and the nuclear norm",
        "Train two factors instead of their product: descent is greedy in rank and slow, more so from a "
        "smaller start; a small penalty lets it rest.",
        ("01", "02", "03"),
    ),
    Lesson(
        "II",
        "05",
        "Softmax attention from scratch",
        "Attention selects softly, its gradient vanishes; where the usual formula fails, and where it leads.",
        ("01", "02"),
    ),
    Lesson(
        "II",
        "06",
        "Attention is an SVM over tokens",
        "The weights grow without bound and their direction settles on a hard-margin SVM over tokens.",
        ("01", "02", "05"),
    ),
    Lesson(
        "II",
        "07",
        "Local and global winners",
        "Which of several locally optimal choices wins: cones, basins, and every choice of small problems "
        "tried in one batch.",
        ("02", "06"),
    ),
    Lesson(
        "II",
        "08",
        "Regularisation paths",
        "The best weights of each length go to the global winner, where descent may not; on the way they can "
        "jump.",
        ("06", "07"),
    ),
    Lesson(
        "II",
        "09",
        "Training the head too",
        "Head and attention train together: the head's support vectors, and how fast it grows, decide which "
        "tokens must be separated.",
        ("01", "02", "05", "06", "08"),
    ),
    Lesson(
        "III",
        "10",
        "Cross- and self-attention",
        "The matrix W is a p for other keys, and the queries bound its rank. Where queries carry the "
        "answer, W learns a rule for new sequences.",
        ("02", "03", "04", "05", "06", "07"),
    ),
    Lesson(
        "III",
        "11",
        "Keys, queries and the nuclear norm",
        "Keys and queries head for another SVM, slowly; a ridge of one machine epsilon makes the published "
        "figure.",
        ("04", "05", "06", "08", "10"),
    ),
    Lesson(
        "III",
        "12",
        "Over-parameterisation",
        "How many dimensions make every choice of tokens possible, and when training finds the best one: "
        "72,000 runs accounted for.",
        ("07", "10"),
    ),
    Lesson(
        "III",
        "13",
        "Nonlinear heads",
        "A head that bends keeps mixtures of tokens: W has a finite part and a direction, and what it drops "
        "can come back.",
        ("06", "07", "08", "10"),
    ),
    Lesson(
        "III",
        "14",
        "Sequences and causal masks",
        "Every position asks and one W answers them all: what that costs, how little of the room a longer "
        "context uses up, where training misses the best tokens, and what a forgotten mask does.",
        ("06", "07", "10", "12"),
    ),
    Lesson(
        "IV",
        "15",
        "Mirror descent for attention",
        "Another norm moves W; which tokens win is another matter, and a distance between two runs may be "
        "either. On real data we cannot tell whether the sparse norm is better.",
        ("03", "07", "09", "10"),
    ),
    Lesson(
        "IV",
        "16",
        "Next-token prediction",
        "Two matrices, two SVMs: what follows what, and an order of the vocabulary that says where to look, "
        "also in sentences never seen.",
        ("02", "07", "10"),
    ),
    Lesson(
        "IV",
        "17",
        "How fast?",
        "One curve of error against length, many clocks: which optimisers' rates two laws predict, and every "
        "rate measured, with intervals.",
        ("01", "02", "03", "06", "08", "10", "11"),
    ),
    Lesson(
        "IV",
        "18",
        "Capstone: real tokens",
        "A small transformer on digits and film reviews, head by head: what sharpens when, why an SVM that "
        "fits may explain nothing, which ingredients end the theory, and a project of your own.",
        ("02", "04", "06", "10", "11", "13", "14"),
    ),
]


def find(number: str) -> Lesson:
    """The lesson "06".

    Raises:
        ValueError: there is none.
    """
    for lesson in LESSONS:
        if lesson.number == number:
            return lesson
    raise ValueError(f"There is no lesson {number!r}; the lessons are 00 to {LESSONS[-1].number}.")


def table(folder: str, last: str = "what you will see", fill=lambda lesson: lesson.shows) -> str:
    """The map of the course as a Markdown table.

    Args:
        folder: put before the notebooks' names in links, "lessons/".
        last: heading of the last column.
        fill: what stands there for a lesson.
    """
    rows = [f"| | lesson | needs | minutes | {last} |", "|---|---|---|---|---|"]
    part = None
    for lesson in LESSONS:
        if lesson.part != part:
            part = lesson.part
            rows.append(f"| **{part}** | **{PARTS[part]}** | | | |" if part else "")
        title = f"[{lesson.title}]({folder}{lesson.notebook})" if lesson.path else lesson.title
        shown = fill(lesson) if lesson.path else ""
        cells = (lesson.number, title, ", ".join(lesson.needs), lesson.minutes or "", shown)
        rows.append(re.sub(r" +", " ", f"| {' | '.join(map(str, cells))} |"))
    return "\n".join(filter(None, rows)) + "\n"
