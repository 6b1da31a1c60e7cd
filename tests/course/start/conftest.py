"""A course of two lessons, and a learner's folder that is not there yet."""

import pytest


@pytest.fixture
def lessons(tmp_path):
    folder = tmp_path / "lessons"
    folder.mkdir()
    (folder / "01_lesson.ipynb").write_text("upstream 1")
    (folder / "02_lesson.ipynb").write_text("another")
    return folder


@pytest.fixture
def mine(tmp_path):
    return tmp_path / "my-lessons"
