"""The whole round on fifteen submissions: release, hand in, grade, mark by hand, feedback, export."""

import csv
import importlib.util
from pathlib import Path

import nbformat
import pytest
from nbgrader import api

from course.grade import grading, release, released
from course.make.build import ROOT

ANSWERS = Path(__file__).parents[1] / "answers" / "lesson_06.py"
NAME = "06_attention_as_svm"
KINDS = ("right", "other", "blank", "wrong", "broken", "missing")  # of an answer
FULL = {"right", "other"}


@pytest.fixture(scope="module")
def answers():
    description = importlib.util.spec_from_file_location("answers_06", ANSWERS)
    module = importlib.util.module_from_spec(description)
    description.loader.exec_module(module)
    return module.ANSWERS


def kind(student, place):
    """What student number 0, 1, ... answers to the exercise at a place; all kinds occur for each of them."""
    return KINDS[(student + place * (1 + student // len(KINDS))) % len(KINDS)]


def notebooks(lesson):
    """The exercises' cells as handed out, and solved."""
    solved = nbformat.read(ROOT / "solutions" / lesson.path.name, as_version=4)
    return [{c.id: c for c in notebook.cells} for notebook in (nbformat.read(lesson.path, 4), solved)]


def answer(kind, id, lesson, texts, student):
    """The code of one cell."""
    name, (blank, right) = lesson.functions[id], texts
    if kind == "right":
        return right
    if kind == "blank":
        return blank
    if kind == "broken":
        return blank.replace("todo()", "return (")
    which = '["also_right"]' if kind == "other" else f'["wrong"][{student % 3}]'
    return f'@exercise("{id}")\ndef {name}(*inputs):\n    return ANSWERS["{id}"]{which}(*inputs)'


def hand_in(folder, lesson, students):
    """Write a notebook for each student, with little more than the exercises' cells.

    Each fourth has lost the lesson's other cells, which are then restored; the rest are spared the second
    that torch takes to load.
    """
    handed_out, solved = notebooks(lesson)
    imports = "import numpy as np\nfrom course.exercise import check, exercise, progress, todo"
    helper = next(cell for cell in handed_out.values() if "def attention(" in cell.source)  # 06.2 calls it
    for number in range(students):
        cells = [nbformat.v4.new_code_cell(imports), nbformat.v4.new_code_cell(helper.source, id=helper.id)]
        if number % 4:
            cells += [
                nbformat.v4.new_code_cell("pass", id=id) for id, *_ in lesson.foundations if id != helper.id
            ]
        kinds = {spec.id: kind(number, place) for place, spec in enumerate(lesson.specs)}
        if {"other", "wrong"} & set(kinds.values()):
            cells.append(nbformat.v4.new_code_cell(ANSWERS.read_text()))
        for id, cell_id in lesson.cell_ids.items():
            if kinds[id] != "missing":
                texts = handed_out[cell_id].source, solved[cell_id].source
                code = answer(kinds[id], id, lesson, texts, number)
                cells.append(nbformat.v4.new_code_cell(code, id=cell_id))
        written = next(cell for cell in handed_out.values() if cell.metadata.get("exercise"))
        text = f"Because of {number}." if number % 2 else written.source
        cells.append(nbformat.v4.new_markdown_cell(text, id=written.id))
        student = f"student{number:02}"
        path = folder / (student, f"{student}/lesson_06/{NAME}", f"{student}/{NAME}")[number % 3]
        path = path.with_name(f"{path.name}.ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


def rows(path):
    with path.open(encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def mark_by_hand(url, student, points, comment):
    """What the formgrader does when a person marks the written question."""
    with api.Gradebook(url, "mini_attn") as book:
        grade = book.find_grade("written-06-5", NAME, "lesson_06", student)
        assert grade.needs_manual_grade
        grade.manual_score, grade.needs_manual_grade = points, False
        book.find_comment("written-06-5", NAME, "lesson_06", student).manual_comment = comment
        book.db.commit()


@pytest.mark.slow
def test_a_round_with_fifteen_students(walls, tmp_path, answers, monkeypatch):
    lesson, autumn = released.lesson("06"), tmp_path / "autumn"
    release.release("06", autumn)
    hand_in(autumn / "submitted", lesson, 13)
    (autumn / "submitted" / "student13.ipynb").write_text('{"cells": [')
    (autumn / "submitted" / "student14").mkdir()
    points = {spec.id: spec.points for spec in lesson.specs}

    def expected(number, id):
        place = list(points).index(id)
        return points[id] if number < 13 and kind(number, place) in FULL else 0

    marks = grading.grade(autumn / "submitted", "06", "secret", autumn)
    assert list(marks) == [f"student{number:02}" for number in range(15)]
    table = rows(autumn / "scores.csv")
    for number in range(15):
        row = table[f"student{number:02}"]
        assert {id: float(row[id]) for id in points} == {id: expected(number, id) for id in points}, number
        assert float(row["total"]) == sum(expected(number, id) for id in points)
        assert (row["out_of"], row["to_mark"]) == ("16", str(int(number < 13 and number % 2)))

    states = {mark.state for number in range(13) for mark in marks[f"student{number:02}"]}
    assert states == {"right", "wrong", "not attempted", "missing", "manual"}

    url = release.default_database(autumn)
    mark_by_hand(url, "student01", 2.5, "Which assumption gives the sign?")
    monkeypatch.setattr(grading, "Sandbox", None)  # nothing is graded twice
    again = grading.grade(autumn / "submitted", "06", "secret", autumn)
    assert {id: m[:-1] for id, m in again.items()} == {id: m[:-1] for id, m in marks.items()}
    after = rows(autumn / "scores.csv")
    assert after["student01"]["06.5"] == "2.5"
    assert after["student01"]["to_mark"] == "0"
    assert float(after["student01"]["total"]) == float(table["student01"]["total"]) + 2.5
    assert {name: row for name, row in after.items() if name != "student01"} == {
        name: row for name, row in table.items() if name != "student01"
    }

    with api.Gradebook(url, "mini_attn") as book:
        scores = {one.student.id: one.score for one in book.assignment_submissions("lesson_06")}
    assert scores == {name: float(row["total"]) for name, row in after.items()}
    page = (autumn / "feedback" / "student01.html").read_text(encoding="utf-8")
    assert "Which assumption gives the sign?" in page
    assert f"<strong>{after['student01']['total']} of 16 points</strong>" in page
    for number in range(15):
        student = f"student{number:02}"
        assert (autumn / "feedback" / f"{student}.html").is_file()
        copy = autumn / "autograded" / student / "lesson_06" / f"{NAME}.ipynb"
        assert (f"Because of {number}." in copy.read_text()) == (number < 13 and number % 2 == 1)


def test_every_kind_of_answer_occurs_in_every_exercise():
    for place in range(4):
        assert {kind(number, place) for number in range(13)} == set(KINDS)
