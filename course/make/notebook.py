"""From one lesson source to its two notebooks, without running them."""

from __future__ import annotations

import copy
import functools
import hashlib
import re
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
TODO, ANSWER = (
    "todo()",
    "*Write your answer here.*",
)  # in a lesson, where its solution has code or words
_FORMULA_OR_CODE = re.compile(
    r"```.*?```|`[^`\n]*`|\$\$.+?\$\$|(?<![\\$])\$(?!\$)(?:[^$\n]|\n(?![ >]*\n))+\$", re.DOTALL
)
METADATA = {  # no version of Python or of a tool: those would differ between machines
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}


def from_source(source: Path, solved: bool) -> NotebookNode:
    """The notebook that a lesson's source describes, not executed.

    Args:
        source: `NN_slug.py` in jupytext's percent format.
        solved: keep the solutions (without their markers), or put `todo()` in their place; in a markdown cell
            tagged "written" the solution is a model answer, and its place says where to write.

    Raises:
        ValueError: solution markers that do not pair up.
    """
    return copy.deepcopy(_notebook(source, source.read_text(encoding="utf-8"), solved))


@functools.cache  # builder, lint and release ask several times
def _notebook(source: Path, content: str, solved: bool) -> NotebookNode:
    notebook = nbformat.v4.new_notebook(metadata=METADATA)
    for position, cell in enumerate(_cells(content)):
        where = f"{source.name}, cell {position}"
        text = cell.source
        if cell.cell_type == "code":
            text = _solutions(text, solved, where, TODO)
        elif is_written(cell):
            text = _solutions(text, solved, where, ANSWER)
        if cell.cell_type == "markdown":
            text = formulas_on_one_line(text)
        metadata = {key: value for key, value in cell.metadata.items() if key != "lines_to_next_cell"}
        new = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
        if cell.cell_type not in new or not text.strip():
            raise ValueError(
                f"{where} is {'empty' if cell.cell_type in new else 'neither code nor markdown'}."
            )
        # the same id in lesson and solution, so that a grader can put the two side by side
        identity = hashlib.sha256(f"{source.stem}:{position}".encode()).hexdigest()[:12]
        notebook.cells.append(new[cell.cell_type](text, metadata=metadata, id=identity))
    return notebook


@functools.cache
def _cells(content: str) -> list[NotebookNode]:
    return jupytext.reads(content, fmt="py:percent").cells


def is_written(cell: NotebookNode) -> bool:
    """Whether a cell is the place for a written answer."""
    return cell.cell_type == "markdown" and "written" in cell.metadata.get("tags", [])


def _solutions(text: str, solved: bool, where: str, instead: str) -> str:
    """A cell's text with its solution blocks opened (solved) or replaced by other words."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.strip() in (BEGIN, END):
            if inside is (line.strip() == BEGIN):
                raise ValueError(f"{where}: '{line.strip()}' without its partner.")
            inside = not inside
            if inside and not solved:
                lines.append(re.match(r"\s*", line).group() + instead)
        elif solved or not inside:
            lines.append(line)
    if inside:
        raise ValueError(f"{where}: '{BEGIN}' without '{END}'.")
    return "\n".join(lines)


def formulas_on_one_line(text: str) -> str:
    """Markdown with each formula on one line, whatever its source wraps.

    JupyterLab takes a formula out as it stands: in a quotation the mark of its next line, >, would be read as
    mathematics. Elsewhere a line that begins with a minus would begin a list.
    """

    def joined(found: re.Match) -> str:
        if not found[0].startswith("$"):  # code
            return found[0]
        first = text[text.rfind("\n", 0, found.start()) + 1 :]
        return re.sub(r"\s*\n> ?\s*" if first.startswith(">") else r"\s*\n\s*", " ", found[0])

    return _FORMULA_OR_CODE.sub(joined, text)


def without_outputs(notebook: NotebookNode) -> NotebookNode:
    """A copy of a notebook as it was before it ran: what a source determines, and nothing else."""
    bare = nbformat.from_dict(notebook)
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return bare


def to_text(notebook: NotebookNode) -> str:
    """A notebook as it is written to a file."""
    return nbformat.writes(notebook, version=4) + "\n"
