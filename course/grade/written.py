"""Finding the answers to written questions in what a student handed in."""

from __future__ import annotations

import nbformat
from nbformat import NotebookNode

from course import exercises
from course.grade.released import Lesson
from course.grade.submission import Submission
from course.make.notebook import ANSWER, is_written


def places(notebook: NotebookNode) -> dict[str, int]:
    """Written question -> position of the cell for its answer; the cell before asks it."""
    cells = enumerate(notebook.cells)
    return {cell.metadata.get("exercise"): position for position, cell in cells if is_written(cell)}


def answers(lesson: Lesson, submission: Submission) -> dict[str, str]:
    """What a student wrote to each written question; "" where there is nothing.

    An answer may stand in its cell, below the question, or in new cells that follow either.
    """
    notebook = nbformat.read(lesson.path, as_version=4)
    found, own = places(notebook), {cell.id: cell.source.strip() for cell in notebook.cells}
    handed_in = [(id, text.strip()) for id, text in submission.written.items()]
    result = {}
    for spec in exercises.written(lesson.number):
        answer = notebook.cells[found[spec.id]]
        question = own[notebook.cells[found[spec.id] - 1].id]
        parts, collecting = [], False
        for id, text in handed_in:
            heading = f"### Exercise {spec.id}:" in text
            if id == answer.id:
                collecting = True
            elif heading:
                collecting, text = True, text.removeprefix(question)
            elif id in own or text in own.values():  # the lesson goes on
                collecting = False
            if collecting:
                parts.append(text.replace(ANSWER, "").strip())
        result[spec.id] = "\n\n".join(part for part in parts if part and part != question)
    return result
