"""A lesson as an nbgrader assignment, and the notebooks in which people mark."""

import json
import os
import re
import stat
import subprocess
import sys

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbgrader import api
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.utils import compute_checksum

from course.grade import gradebook, release, released, submission, written
from course.make.notebook import ANSWER

NAME = "lesson_06/06_attention_as_svm.ipynb"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def lesson():
    return released.lesson("06")


@pytest.fixture
def made(tmp_path):
    assert release.main(["06", "--out", str(tmp_path / "autumn")]) == 0
    return tmp_path / "autumn"


def read(path):
    return nbformat.read(path, as_version=4)


def graded(notebook):
    return {c.metadata.nbgrader.grade_id: c for c in notebook.cells if "nbgrader" in c.metadata}


@pytest.fixture(scope="module")
def hand_in(lesson, tmp_path_factory):
    """A submission made of a change to the lesson's notebook."""

    def make(change, student="ada"):
        notebook = read(lesson.path)
        change(notebook.cells)
        folder = tmp_path_factory.mktemp("submitted")
        (folder / f"{student}.ipynb").write_text(json.dumps(notebook))
        (found,) = submission.find(folder, lesson)
        return found

    return make


def answer_cell(cells):
    return next(n for n, cell in enumerate(cells) if cell.metadata.get("exercise") == "06.5")


def cell_with(cells, text):
    return next(n for n, cell in enumerate(cells) if text in cell.source)


def test_assignment_is_what_nbgrader_expects(made, lesson):
    for step in ("source", "release"):
        notebook = read(made / step / NAME)
        nbformat.validate(notebook)
        MetadataValidator().validate_nb(notebook)
        cells = graded(notebook)
        assert len(cells) == 2 * len(lesson.specs) + 1
        for spec in lesson.specs:
            number = spec.id.replace(".", "-")
            answer, check = cells[f"answer-{number}"], cells[f"exercise-{number}"]
            assert f'@exercise("{spec.id}")' in answer.source
            assert f'check("{spec.id}"' in check.source
            assert (answer.metadata.nbgrader.solution, answer.metadata.nbgrader.grade) == (True, False)
            assert (check.metadata.nbgrader.grade, check.metadata.nbgrader.locked) == (True, True)
            assert check.metadata.nbgrader.points == spec.points
            assert answer.metadata.nbgrader.locked is False
        proof = cells["written-06-5"].metadata.nbgrader
        assert (proof.grade, proof.solution, proof.locked, proof.points) == (True, True, False, 4)
    with api.Gradebook(f"sqlite:///{made / 'gradebook.db'}", gradebook.COURSE) as book:
        assert book.find_assignment("lesson_06").max_score == 16
        assert book.find_notebook("06_attention_as_svm", "lesson_06").max_written_score == 4


def test_students_get_no_solutions(made, lesson):
    source, handed_out = ((made / step / NAME).read_text() for step in ("source", "release"))
    for text in ("### BEGIN SOLUTION", "excess = np.log((1 + b + b**2)", "The gradient of an average"):
        assert json.dumps(text)[1:-1] in source
        assert json.dumps(text)[1:-1] not in handed_out
    assert "Writes the gradient" not in handed_out  # nor the rubric
    cells = graded(read(made / "release" / NAME))
    assert cells["written-06-5"].source == ANSWER
    for cell in cells.values():
        assert cell.metadata.nbgrader.checksum == compute_checksum(cell)


def nbgrader(folder, *arguments):
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "JUPYTER_CONFIG_DIR": str(folder / "config")}
    # what jsonschema takes a second to load, for addresses that no notebook has, is left out
    start = (
        "import sys; sys.modules['rfc3987_syntax'] = None; from nbgrader.apps.nbgraderapp import main; main()"
    )
    command = [sys.executable, "-c", start, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_nbgrader_releases_an_edited_source_and_never_runs_students_code(made, tmp_path):
    handed_out = {id: cell.source for id, cell in graded(read(made / "release" / NAME)).items()}
    nbgrader(made, "generate_assignment", "lesson_06", "--force")
    assert {id: cell.source for id, cell in graded(read(made / "release" / NAME)).items()} == handed_out
    notebook = read(made / "release" / NAME)
    ran = tmp_path / "ran"
    notebook.cells = [nbformat.v4.new_code_cell(f"open({str(ran)!r}, 'w')"), *graded(notebook).values()]
    path = made / "submitted" / "ada" / NAME
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    nbgrader(made, "autograde", "lesson_06")
    assert (made / "autograded" / "ada" / NAME).exists()
    assert not ran.exists()


def test_released_again_nothing_changes(made, capsys):
    before = {path: path.read_bytes() for path in made.rglob("*") if path.suffix in (".ipynb", ".py")}
    assert release.main(["06", "--out", str(made)]) == 0
    assert {path: path.read_bytes() for path in before} == before
    assert release.main(["05", "--out", str(made)]) == 0  # a second lesson joins the first
    assert len(list((made / "release").iterdir())) == 2


def test_an_edited_configuration_stays(made, tmp_path, capsys):
    config = made / "nbgrader_config.py"
    config.write_text(config.read_text() + "c.Exchange.root = '/srv'\n")
    assert release.main(["06", "--out", str(made)]) == 0
    assert config.read_text().endswith("c.Exchange.root = '/srv'\n")
    other = ["--gradebook", f"sqlite:///{tmp_path / 'other.db'}"]
    assert release.main(["06", "--out", str(made), *other]) == 1
    assert "nbgrader_config.py would change" in capsys.readouterr().err
    assert not (tmp_path / "other.db").exists()


def test_an_edited_assignment_is_not_lost(made, capsys):
    edited = made / "source" / NAME
    edited.write_text("mine")
    (made / "release" / NAME).unlink()
    assert release.main(["06", "--out", str(made)]) == 1
    error = capsys.readouterr().err
    assert "Nothing was released" in error
    assert str(edited) in error
    assert not (made / "release" / NAME).exists()
    assert edited.read_text() == "mine"
    for _ in range(2):
        assert release.main(["06", "--out", str(made), "--force"]) == 0
        assert (made / "release" / NAME).exists()
        edited.write_text("mine again")
    kept = sorted(path for path in edited.parent.iterdir() if path != edited)
    assert [path.read_text() for path in kept] == ["mine", "mine again"]
    assert not any(path.suffix == ".ipynb" for path in kept)  # nbgrader would take it for a second notebook


@pytest.mark.parametrize(("number", "words"), [("100", "no lesson '100'"), ("../06", "no lesson")])
def test_no_such_lesson(tmp_path, capsys, number, words):
    assert release.main([number, "--out", str(tmp_path / "autumn")]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "autumn").exists()


def test_a_path_that_no_database_url_can_hold_is_refused(tmp_path, capsys):
    assert release.main(["06", "--out", str(tmp_path / "why?")]) == 1
    assert "choose a path without a question mark" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_another_database(tmp_path):
    url = f"sqlite:///{tmp_path / 'term.db'}"
    release.release("06", tmp_path / "autumn", url)
    assert (tmp_path / "term.db").exists()
    assert not (tmp_path / "autumn" / "gradebook.db").exists()
    config = tmp_path / "autumn" / "nbgrader_config.py"
    assert f"db_url = '{url}'" in config.read_text()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600


def test_a_lesson_that_lost_an_exercise(lesson, tmp_path, monkeypatch):
    monkeypatch.setattr(released, "lesson", lambda number: lesson)
    monkeypatch.setitem(lesson.cell_ids, "06.3", "gone")
    with pytest.raises(ValueError, match=r"lacks exercise 06\.3; run `python -m course build 06`"):
        release.release("06", tmp_path)
    assert list(tmp_path.iterdir()) == []


def write_answer(cells):
    cells[answer_cell(cells)].source = "Feasible, so $a<b$."


def write_below_the_question(cells):
    cells[answer_cell(cells) - 1].source += "\n\nBelow."
    del cells[answer_cell(cells)]


def write_in_new_cells(cells):
    place = answer_cell(cells)
    new = [nbformat.v4.new_markdown_cell(text) for text in ("First.", "Second.")]
    cells[place + 1 : place + 1] = new


def without_ids(cells):
    write_answer(cells)
    for cell in cells:
        del cell["id"]


def copy_the_cell(cells):
    place = answer_cell(cells)
    cells.insert(place + 1, nbformat.from_dict(cells[place]))
    cells[place + 1].source = "In the copy."


def move_the_cell(cells):
    write_answer(cells)
    cells.append(cells.pop(answer_cell(cells)))


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (write_answer, "Feasible, so $a<b$."),
        (lambda cells: None, ""),
        (lambda cells: cells.pop(answer_cell(cells)), ""),
        (write_below_the_question, "Below."),
        (write_in_new_cells, "First.\n\nSecond."),
        (without_ids, "Feasible, so $a<b$."),
        (copy_the_cell, "In the copy."),
        (move_the_cell, "Feasible, so $a<b$."),
    ],
)
def test_written_answers_are_found(lesson, hand_in, change, answer):
    assert written.answers(lesson, hand_in(change)) == {"06.5": answer}


def test_people_mark_the_students_work(lesson, hand_in, tmp_path):
    def work(cells):
        write_answer(cells)
        cells[cell_with(cells, '@exercise("06.1")')].source = "def comparisons(keys, selected):\n    return 1"
        moved = cells.pop(cell_with(cells, '@exercise("06.2")'))
        cells.append(nbformat.v4.new_code_cell(moved.source.replace("todo()", "return 2")))
        del cells[cell_with(cells, '@exercise("06.3")')]
        copied = cells[cell_with(cells, '@exercise("06.4")')].source
        cells.append(nbformat.v4.new_code_cell(copied.replace("todo()", "return 4")))
        cells.append(nbformat.v4.new_code_cell("def helper():\n    return 'mine'"))

    path = release.autograded(lesson, hand_in(work), tmp_path)
    assert path == tmp_path / "autograded" / "ada" / NAME
    notebook = read(path)
    nbformat.validate(notebook)
    MetadataValidator().validate_nb(notebook)
    cells = graded(notebook)
    assert cells["answer-06-1"].source.endswith("return 1")
    assert cells["answer-06-2"].source.endswith("return 2")
    assert cells["answer-06-4"].source.endswith("return 4")
    assert cells["answer-06-3"].source == "# 06.3: nothing was found"
    assert cells["written-06-5"].source == "Feasible, so $a< b$."
    place = notebook.cells.index(cells["written-06-5"])
    assert notebook.cells[place - 1].source.startswith("**Rubric for 06.5** (4 points)\n\n- 1: Writes")
    assert notebook.cells[-2].source.startswith("## Other cells")
    assert notebook.cells[-1].source == "def helper():\n    return 'mine'"
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_a_submission_that_cannot_be_read(lesson, tmp_path):
    (tmp_path / "ada.ipynb").write_text("[")
    (broken,) = submission.find(tmp_path, lesson)
    cells = graded(read(release.autograded(lesson, broken, tmp_path)))
    assert cells["answer-06-1"].source == "# 06.1: nothing was found"
    assert cells["written-06-5"].source == "*No answer.*"


LINKS = r"""
https://evil.example/x, www.evil.example, a@evil.example and HTTP://EVIL.EXAMPLE <https://evil.example>

$\href{javascript:alert(1)}{x}$ $\&#104;ref{javascript:alert(1)}{x}$
$\mmlToken{mi}[href="javascript:alert(1)"]{x}$ $\def\x{\href}\let\y\href\require{html}\cssId{a}{b}$
&#36;\h&#114;ef{javascript:alert(1)}{x}&#36; $$\\href{a}{b}$$

```mermaid
graph TD; click A "javascript:alert(1)"
```

- ~~~ Mermai&#100;

| a | b |
|---|---|
| https://evil.example | $\frac{a}{b} &\le c$ |
"""


def test_no_address_formula_or_diagram_of_a_student_is_a_link(lesson, hand_in, tmp_path):
    def work(cells):
        cells[answer_cell(cells)].source = LINKS

    notebook = read(release.autograded(lesson, hand_in(work), tmp_path))
    answer = graded(notebook)["written-06-5"]
    notebook.cells = [answer]
    page, _ = HTMLExporter().from_notebook_node(notebook)
    page = page[page.index("<main") :]
    assert not re.findall(r"<a |<img |mermaid|\\(href|mmlToken|def|let|require|cssId)\b|&#", page, re.I)
    assert r"$\frac{a}{b} &amp;\le c$" in page  # a formula stays one


@pytest.mark.slow
def test_no_script_of_a_student_runs_in_the_formgrader(lesson, hand_in, tmp_path):
    def work(cells):
        cells[answer_cell(cells)].source = (
            f"{SCRIPT} `{SCRIPT}` ${SCRIPT}$ ![x](attachment:a.png) <img src=x onerror=alert(1)>\n\n"
            f"<!-- --><svg/onload=alert(1)>\n\n    {SCRIPT}\n\n"
            "[x](javascript:alert(1)) [y](java&#115;cript:alert(1)) [r] "
            "[r][r] [r][]\n\n[r]: javascript:alert(1)\n\n$\\href{javascript:alert(1)}{x}$"
        )
        cells[cell_with(cells, '@exercise("06.1")')].source = f"comparisons = '{SCRIPT}'"

    path = release.autograded(lesson, hand_in(work), tmp_path)
    page, _ = HTMLExporter().from_filename(str(path))
    for attack in (
        "<script>alert",
        "<img src=x",
        "<svg/onload",
        'href="javascript:alert',
        r"\href{",
        '<img src="attachment',
    ):
        assert attack not in page
    assert "alert(1)" in page  # shown as text
