import ast
import builtins
import dataclasses
import json
import os
import re
import time

import nbformat
import pytest

from course import exercises
from course.grade import plain, released, sealed, submission


def notebook(*cells, ids=None):
    ids = ids or [f"id{n}" for n in range(len(cells))]
    return json.dumps(
        {
            "cells": [
                {"cell_type": "code", "id": id, "source": cell, "outputs": [], "metadata": {}}
                for id, cell in zip(ids, cells, strict=True)
            ],
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {},
        }
    )


def found(folder, lesson):
    return {one.student: one for one in submission.find(folder, lesson)}


def test_three_ways_to_hand_in(tmp_path, lesson):
    (tmp_path / "ada" / "lesson_99").mkdir(parents=True)
    (tmp_path / "ada" / "lesson_99" / "99_squares.ipynb").write_text(notebook("a = 1"))
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "99 (copy).ipynb").write_text(notebook("b = 1"))
    (tmp_path / "cy.ipynb").write_text(notebook("c = 1"))
    (tmp_path / ".DS_Store").write_text("not a submission")
    (tmp_path / ".ipynb_checkpoints").mkdir()
    students = found(tmp_path, lesson)
    assert {name: one.cells for name, one in students.items()} == {
        "ada": [("id0", "a = 1")],
        "bob": [("id0", "b = 1")],
        "cy": [("id0", "c = 1")],
    }
    assert all(one.problem is None for one in students.values())


def test_the_lessons_own_notebook_counts_among_several(tmp_path, lesson):
    (tmp_path / "ada").mkdir()
    for name in ("06_other.ipynb", "99_old.ipynb", "99_squares.ipynb"):
        (tmp_path / "ada" / name).write_text(notebook(name))
    one = found(tmp_path, lesson)["ada"]
    assert one.cells == [("id0", "99_squares.ipynb")]
    assert one.notes == ["2 notebooks could be meant; 99_squares.ipynb was graded"]
    (tmp_path / "ada" / "99_squares.ipynb").unlink()
    assert found(tmp_path, lesson)["ada"].cells == [("id0", "99_old.ipynb")]
    (tmp_path / "ada" / "99_old.ipynb").unlink()
    assert "none of its notebooks is lesson 99" in found(tmp_path, lesson)["ada"].problem


def test_who_worked_in_a_copy_is_graded_by_the_copy(tmp_path, lesson, monkeypatch):
    handed_out = tmp_path / "99_squares.ipynb"
    handed_out.write_text(notebook("todo()"))
    lesson = dataclasses.replace(lesson, path=handed_out)
    ada = tmp_path / "students" / "ada"
    ada.mkdir(parents=True)
    for name, code in (
        ("99_squares", "todo()"),
        ("99_squares-Copy1", "todo()"),
        ("99_squares-Copy2", "a = 1"),
    ):
        (ada / f"{name}.ipynb").write_text(notebook(code))
    one = found(ada.parent, lesson)["ada"]
    assert one.cells == [("id0", "a = 1")]
    assert one.notes == ["3 notebooks could be meant; 99_squares-Copy2.ipynb was graded"]
    monkeypatch.setattr(submission, "COPIES", 1)  # no more are read
    assert found(ada.parent, lesson)["ada"].path.name == "99_squares-Copy1.ipynb"
    monkeypatch.undo()
    (ada / "99_squares-Copy2.ipynb").unlink()
    assert found(ada.parent, lesson)["ada"].path.name == handed_out.name
    handed_out.write_text("{")  # two that cannot be read are not alike
    (ada / "99_squares.ipynb").write_text("[")
    assert "JSON breaks off" in found(ada.parent, lesson)["ada"].problem


def test_every_folder_has_a_row(tmp_path, lesson):
    (tmp_path / "empty").mkdir()
    assert found(tmp_path, lesson)["empty"].problem == "there is no notebook (.ipynb) in the folder"


def test_names_cannot_leave_the_results(tmp_path, lesson):
    for name in ("..hidden", "a b", "=cmd()", "über", "<script>", "x" * 200):
        (tmp_path / name).mkdir()
    students = found(tmp_path, lesson)
    assert len(students) == 6
    assert all(submission.STUDENT.fullmatch(name) for name in students)


def test_everything_that_was_handed_in_has_a_row(tmp_path, lesson):
    for name in ("ada.zip", "bob.py", ".cy", "dan"):
        (tmp_path / name).write_text("x")
    (tmp_path / "eve.IPYNB").write_text(notebook("a = 1"))
    students = {one.name: one for one in submission.find(tmp_path, lesson)}
    assert students.pop("eve").student == "eve"
    assert {name: one.problem for name, one in students.items()} == {
        name: f"{name} is neither a notebook (.ipynb) nor a folder with one"
        for name in ("ada.zip", "bob.py", ".cy", "dan")
    }
    (tmp_path / "dan").unlink()
    (tmp_path / "dan").mkdir()  # the folder that was meant: another row than the file's
    assert found(tmp_path, lesson)["dan"].problem == "there is no notebook (.ipynb) in the folder"


def test_an_id_comes_from_the_name_and_nothing_else(tmp_path, lesson):
    names = ["Müller", "Möller", "M_ller", "a b", "a?b", "a_b", "王芳", "李娜", "x" * 250, "y" * 250]
    hashed = [name for name in names if name not in ("M_ller", "a_b")]
    alone = {name: submission.identity(name) for name in names}
    assert alone["M_ller"] == "M_ller"
    assert alone["Müller"] == "M_ller-a78429899bb825ce"
    assert submission.identity("M_ller-a7842989") != "M_ller-a7842989"  # what others' ids once were
    assert all(submission.HASHED.fullmatch(alone[name]) for name in hashed)
    for name in [*names, alone["Müller"], "\udcfc"]:  # an id of another's for a name
        (tmp_path / name).mkdir()
    together = {one.name: one.student for one in submission.find(tmp_path, lesson)}
    assert {name: together[name] for name in names} == alone
    assert len(set(together.values())) == len(names) + 2
    assert all(len(os.fsencode(student)) < 120 for student in together.values())


def test_who_handed_in_two_things_is_asked_to_leave_one(tmp_path, lesson):
    (tmp_path / "ada.ipynb").write_text(notebook("a = 1"))
    assert found(tmp_path, lesson)["ada"].cells
    (tmp_path / "ada").mkdir()
    ada = found(tmp_path, lesson)["ada"]
    assert ada.unclear
    assert ada.problem == "this student has several files or folders here; leave one of them"


def test_names_in_any_encoding_can_be_written_down(tmp_path, lesson):
    folder = os.fsencode(tmp_path) + b"/mallory"
    os.mkdir(folder)
    for name in (b"/\xfc.ipynb", b"/\xe4.ipynb"):
        with open(folder + name, "w") as file:
            file.write("{")
    mallory = found(tmp_path, lesson)["mallory"]
    "".join([mallory.problem, *mallory.notes]).encode()
    assert (
        mallory.problem == "\N{REPLACEMENT CHARACTER}.ipynb: it is not a notebook: JSON breaks off in line 1"
    )


def test_what_is_read_stays_small(tmp_path, lesson, monkeypatch):
    (tmp_path / "eve.ipynb").write_text(notebook("x = 1\n" * 200_000))
    (tmp_path / "bob.ipynb").write_text('{"cells": [' + "[], " * 600_000 + "[]]}")
    rows = found(tmp_path, lesson)
    assert rows["eve"].problem == "eve.ipynb: its cells hold more than 1 MB of text"
    assert rows["bob"].problem == "bob.ipynb: it has more than 1,000,000 parts"
    monkeypatch.setattr(submission, "FILES", 3)
    (tmp_path / "cy").mkdir()
    for number in range(4):
        (tmp_path / "cy" / f"{number}.ipynb").write_text("")
    assert found(tmp_path, lesson)["cy"].problem == "there are too many files in the folder"


HOSTILE = {
    "nothing": (b"", "the file is empty"),
    "not JSON": (b"{'cells': []}", "JSON breaks off in line 1"),
    "cut off": (b'{"cells": [{"cell_type": "code",', "JSON breaks off"),
    "not text": (b"\xff\xfe\x00", "not a text in UTF-8"),
    "nested": (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    "a list": (b"[]", "no list of cells"),
    "no cells": (b"{}", "no list of cells"),
    "odd cells": (b'{"cells": [1]}', "one of its cells is not a cell"),
    "odd source": (b'{"cells": [{"cell_type": "code", "source": 5}]}', "a cell's text is not text"),
    "odd lines": (b'{"cells": [{"cell_type": "code", "source": [5]}]}', "a cell's text is not text"),
    "odd id": (b'{"cells": [{"cell_type": "code", "id": [], "source": ""}]}', "a cell's text is not text"),
    "format 3": (b'{"worksheets": []}', "format 3"),
    "huge number": (
        b'{"cells": ' + b"9" * 10_000 + b"}",
        "^eve.ipynb: it holds a number of thousands of digits$",
    ),
    "many cells": (b'{"cells": [' + b"{}," * 2000 + b"{}]}", "more than 2000 cells"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_notebooks_are_described(name, tmp_path, lesson):
    content, says = HOSTILE[name]
    (tmp_path / "eve.ipynb").write_bytes(content)
    one = found(tmp_path, lesson)["eve"]
    assert one.cells == []
    assert re.search(says, one.problem), one.problem


def test_a_large_file_is_refused_without_reading_it_all(tmp_path, lesson):
    with (tmp_path / "eve.ipynb").open("wb") as file:
        file.truncate(submission.LARGEST + 1)
    assert "clear its outputs" in found(tmp_path, lesson)["eve"].problem


def test_links_and_pipes_are_refused(tmp_path, lesson):
    secret = tmp_path / "secret.ipynb"
    secret.write_text(notebook("the_answer = 42"))
    students = tmp_path / "students"
    (students / "eve").mkdir(parents=True)
    (students / "eve" / "99_squares.ipynb").symlink_to(secret)
    (students / "mal.ipynb").symlink_to(secret)
    (students / "dir").symlink_to(tmp_path, target_is_directory=True)
    (students / "pip").mkdir()
    os.mkfifo(students / "pip" / "99_squares.ipynb")
    rows = found(students, lesson)
    assert all(one.problem for one in rows.values())
    assert not any(one.cells for one in rows.values())
    assert rows["mal"].problem == "it is a link, not a file or folder; hand in the notebook itself"
    assert rows["eve"].problem == "99_squares.ipynb: it is a link; hand in the notebook itself"
    assert len(rows) == 4


def test_a_folder_that_was_not_looked_into_is_named(tmp_path, lesson, monkeypatch):
    (tmp_path / "ada" / "a" / "b" / "c" / "d").mkdir(parents=True)
    (tmp_path / "ada" / "a" / "b" / "c" / "99_squares.ipynb").write_text(notebook("a = 1"))
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "work").symlink_to(tmp_path / "ada" / "a" / "b" / "c")
    (tmp_path / "cy" / "locked").mkdir(parents=True)
    (tmp_path / "dan").mkdir()
    look = os.scandir

    def refused(path):  # a folder of mode 000 stops everybody but root
        if os.path.basename(path) in ("locked", "dan"):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", refused)
    none = "there is no notebook (.ipynb) in the folder"
    assert {name: one.problem for name, one in found(tmp_path, lesson).items()} == {
        "ada": f"{none}; c lies deeper than 2 folders",
        "bob": f"{none}; work is a link",
        "cy": f"{none}; locked may not be read by the grader",
        "dan": f"{none}; dan may not be read by the grader",
    }
    (tmp_path / "ada" / "a" / "b" / "99_squares.ipynb").write_text(notebook("b = 1"))
    assert found(tmp_path, lesson)["ada"].cells == [("id0", "b = 1")]


def test_commas_in_outputs_are_no_parts(tmp_path, lesson):
    text = json.loads(notebook("a = 1"))
    text["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": '[",\\"' * 10**6}]
    (tmp_path / "ada.ipynb").write_text(json.dumps(text))
    assert found(tmp_path, lesson)["ada"].cells == [("id0", "a = 1")]


@pytest.mark.parametrize(
    "raw", [b'"' + b'\\"' * 10**6 + b"\\", b'"\\' * 10**6, b'"' + b"a" * 10**6, b'"' * 999_999]
)
def test_texts_that_never_end_cost_no_time(raw):
    start = time.monotonic()
    with pytest.raises(ValueError, match=r"."):
        plain.parse(raw, 10)
    assert time.monotonic() - start < 5


def test_line_ends_of_another_system_and_missing_ids_change_nothing(tmp_path, lesson):
    text = json.loads(notebook("a = 1\r\nb = 2\rb", ["c = 1\r\n", "d = 2\r\n"]))
    text["cells"][0]["id"] = None
    text["cells"].append({"cell_type": "markdown", "id": "m", "source": "one\r\ntwo"})
    (tmp_path / "ada.ipynb").write_text(json.dumps(text))
    ada = found(tmp_path, lesson)["ada"]
    assert ada.problem is None
    assert ada.cells == [("", "a = 1\nb = 2\nb"), ("id1", "c = 1\nd = 2\n")]
    assert ada.written == {"m": "one\ntwo"}


def test_duplicate_ids_and_lone_surrogates_do_no_harm(tmp_path, lesson):
    (tmp_path / "eve.ipynb").write_text(notebook("a = 1", "b = '\\ud800'", ids=["same", "same"]))
    one = found(tmp_path, lesson)["eve"]
    assert one.problem is None
    assert [id for id, _ in one.cells] == ["same", "same"]
    "".join(code for _, code in one.cells).encode()


def test_what_others_build_on_is_restored(tmp_path, lesson):
    (tmp_path / "ada.ipynb").write_text(notebook("x = 1"))
    (tmp_path / "bob.ipynb").write_text(notebook("import numpy as np"))
    (tmp_path / "cy.ipynb").write_text(notebook("import numpy", ids=["cell-zero"]))
    rows = found(tmp_path, lesson)
    assert submission.prelude(rows["ada"], lesson) == ["import numpy as np"]
    assert submission.prelude(rows["bob"], lesson) == []
    assert submission.prelude(rows["cy"], lesson) == []


@pytest.mark.parametrize("number", exercises.lessons())
def test_who_hands_in_nothing_but_answers_gets_what_they_build_on(number):
    lesson = released.lesson(number)
    answers = list(lesson.solutions.values())
    ada = submission.Submission("ada", "ada", cells=[("", code) for code in answers])
    restored = [node for code in submission.prelude(ada, lesson) for node in ast.parse(code).body]
    answering = [node for code in answers for node in ast.parse(code).body]
    waiting, needed = set().union(*map(_free, answering)), set()
    while waiting:  # and what the functions use that the answers call
        needed |= waiting
        called = [node for node in restored if getattr(node, "name", "") in waiting]
        waiting = set().union(*map(_free, called)) - needed
    assert needed <= {*dir(builtins)}.union(*map(sealed._binds, restored + answering))
    defined = {node.name for node in restored if hasattr(node, "name")}
    assert not defined & {*lesson.functions.values()}  # it would be taken for the answer


def _free(statement):
    """The names that a statement uses and does not give a meaning itself."""
    nodes = list(ast.walk(statement))
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}.union(*map(sealed._binds, nodes))
    return {node.id for node in nodes if isinstance(node, ast.Name)} - own


def test_of_a_cell_that_measures_the_definitions_are_restored(small):
    path = small.path
    handed_out = nbformat.read(path, as_version=4)
    measures = (
        "import math\n\nSIZE, total = 3, math.sqrt(2)\nnames = ['a', 'b']\n\n"
        "def half(x):\n    return x / 2\n\n"
        "for n in range(SIZE):\n    total += half(n)\nassert total"
    )
    for code in (measures, "found = []\nfor n in range(3): found.append(n)"):
        handed_out.cells.insert(1, nbformat.v4.new_code_cell(code))
    nbformat.write(handed_out, path)
    lesson = released.lesson("99")
    whole = submission.Submission("ada", "ada", cells=[("", measures), ("", lesson.foundations[0][1])])
    assert submission.prelude(whole, lesson) == []
    imports = submission.Submission("bob", "bob", cells=[("cell-zero", "")])
    *_, restored = submission.prelude(imports, lesson)
    assert restored == "import math\n\nnames = ['a', 'b']\n\ndef half(x):\n    return x / 2"


def test_a_missing_folder_is_an_error(tmp_path, lesson):
    with pytest.raises(NotADirectoryError, match="not a folder of submissions"):
        submission.find(tmp_path / "nowhere", lesson)
