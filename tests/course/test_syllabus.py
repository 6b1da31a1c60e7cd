"""The course at a glance agrees with the lessons."""

import re

import pytest

from course import exercises, syllabus
from course.make.build import Folders
from course.make.notebook import from_source


def test_finished_lessons_are_those_that_have_a_source():
    finished = [lesson for lesson in syllabus.LESSONS if lesson.path]
    assert [lesson.path for lesson in finished] == Folders().sources()
    assert [lesson.number for lesson in syllabus.LESSONS] == [f"{n:02}" for n in range(19)]


@pytest.mark.parametrize(
    "lesson", [lesson for lesson in syllabus.LESSONS if lesson.path], ids=lambda lesson: lesson.number
)
def test_what_a_lesson_says_of_itself_is_found(lesson):
    assert lesson.title == lesson.planned
    assert 10 <= lesson.minutes <= 100
    specs = exercises.exercises(lesson.number)
    assert lesson.exercises == {spec.id: spec.title for spec in specs}
    assert lesson.shows.endswith(".")
    first = from_source(lesson.path, solved=False).cells[0].source
    assert first.startswith(f"# {lesson.number} · {lesson.title}\n")


@pytest.mark.parametrize(
    "lesson", [lesson for lesson in syllabus.LESSONS if lesson.path], ids=lambda lesson: lesson.number
)
def test_the_lessons_that_one_builds_on_are_those_that_it_names(lesson):
    said = re.search(r"\*\*You need\*\*(.*?)\b\d+[\s#]+minutes", lesson.path.read_text(), re.S)[1]
    named = re.findall(r"(?<![\w.$])\d{1,2}(?![\w.])", said)  # whole numbers, not sections or file names
    assert {number.zfill(2) for number in named} == set(lesson.needs)
    assert all(number < lesson.number for number in lesson.needs)


def test_the_table_links_what_is_finished():
    rows = syllabus.table("lessons/").splitlines()
    assert all(row.count("|") == 6 for row in rows)
    assert any(
        row.startswith("| 06 | [Attention is an SVM over tokens](lessons/06_attention_as_svm.ipynb) |")
        for row in rows
    )
    assert any(
        row.startswith("| 18 | [Capstone: real tokens](lessons/18_capstone_real_data.ipynb) |")
        for row in rows
    )


def test_unknown_lessons_are_refused():
    with pytest.raises(ValueError, match="There is no lesson '19'; the lessons are 00 to 18"):
        syllabus.find("19")
