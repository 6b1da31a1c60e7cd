"""`python -m course lint [NN ...]`: what every lesson must keep to, and the minutes that it takes.

Sources are read before they run, stored notebooks after.
"""

from __future__ import annotations

import argparse
import ast
import getpass
import re
import tempfile
from pathlib import Path

from nbformat import NotebookNode

from course import exercises
from course.check.specification import Exercise, Written
from course.make.house import DOOR, folding_problems, style_problems
from course.make.minutes import RANGE, minutes, stated, with_pencil
from course.make.notation import notation_problems
from course.make.notebook import ANSWER, from_source, is_written, to_text

ROOT = Path(__file__).resolve().parents[2]
MAX_BYTES = 400_000
WALL_TIME = re.compile(r"Wall time|CPU times|\b\d+(\.\d+)?\s*(ms|µs|us|it/s|s/it)\b|\d\d:\d\d<\d\d:\d\d")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # what is left of "\frac" in a string that was not raw
ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")


def source_problems(source: Path) -> list[str]:
    """What is wrong with a lesson's source, a sentence each."""
    cells = from_source(source, solved=True).cells
    unsolved = from_source(source, solved=False).cells
    problems = [] if cells[0].cell_type == "markdown" else ["the first cell must be the title, in markdown"]
    for number, line in enumerate(source.read_text().split("\n"), start=1):
        if lost := CONTROL.search(line):
            problems.append(f"line {number} has the control character {lost[0]!r}: a lost backslash")
    for position, cell in enumerate(cells):
        if cell.cell_type != "code":
            continue
        try:
            trees = [ast.parse(cell.source), ast.parse(unsolved[position].source)]
        except SyntaxError as error:
            problems.append(f"cell {position} is not Python ({error.msg}, line {error.lineno})")
            continue
        following = cells[position + 1] if position + 1 < len(cells) else None
        problems += [f"cell {position}: {problem}" for problem in _figure_problems(trees[0], following)]
        if cell.source.rstrip().endswith(";"):
            problems.append(f"cell {position} ends in ';'")
    if any("is not Python" in problem for problem in problems):
        return [f"{source.name}: {problem}." for problem in problems]  # nothing else can be read
    if source.stem[:2] in exercises.lessons():
        problems += _exercise_problems(exercises.exercises(source.stem[:2]), cells)
        problems += _written_problems(exercises.written(source.stem[:2]), unsolved, cells)
    elif any("@exercise(" in cell.source for cell in cells):
        problems.append(f"it has exercises, but there is no course/exercises/lesson_{source.stem[:2]}.py")
    return [f"{source.name}: {problem}." for problem in problems]


def house_problems(source: Path) -> dict[str, list[str]]:
    """Where a lesson departs from the house style: rule -> a sentence each."""
    lesson, cells = source.stem[:2], from_source(source, solved=False).cells
    return {
        "style": style_problems(cells, lesson),
        "notation": notation_problems(cells, lesson),
        "folding": folding_problems(from_source(source, solved=True).cells),
        "minutes": _minutes_problems(cells, lesson),
    }


def _minutes_problems(cells: list[NotebookNode], lesson: str) -> list[str]:
    takes, _ = minutes(cells)
    readme = re.search(rf"^\| {lesson} \|[^|]*\|[^|]*\| *(\d+) *\|", (ROOT / "README.md").read_text(), re.M)
    reading, pencil = stated(cells)
    promised = {"it": reading}
    if readme or lesson != DOOR:
        promised["README.md"] = int(readme[1]) if readme else None
    problems = [
        f"{where} says {said} minutes, the rule {takes}" for where, said in promised.items() if said != takes
    ]
    if lesson != DOOR and pencil != with_pencil(takes):
        problems.append(f"it says {pencil} minutes with a pencil, the rule {with_pencil(takes)}")
    if not RANGE[0] <= takes <= RANGE[1] and lesson != DOOR:
        problems.append(
            f"it takes {takes} minutes, not {RANGE[0]} to {RANGE[1]}: cut, or mark sections *(optional)*"
        )
    return problems


def main(arguments: list[str] | None = None) -> int:
    """The command line: the problems of the named lessons, or of all. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m course lint", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("lessons", nargs="*", help="lesson numbers, such as 01 06 (all, if none is given)")
    options, broken = parser.parse_args(arguments), False
    for source in sorted((ROOT / "course" / "source").glob("[0-9][0-9]_*.py")):
        lesson = source.stem[:2]
        if options.lessons and lesson not in options.lessons:
            continue
        takes, counted = minutes(from_source(source, solved=False).cells)
        parts = ", ".join(
            f"{number} {'minutes of ' if what == 'exercises' else ''}{what}"
            for what, number in counted.items()
        )
        print(f"{source.name}: {takes} minutes ({parts})")
        problems = source_problems(source)
        broken = broken or bool(problems)
        print(*(f"  {problem}" for problem in problems), sep="\n", end="\n" if problems else "")
        for rule, sentences in house_problems(source).items():
            broken = broken or bool(sentences)
            for sentence in sentences:
                print(f"  {rule}: {sentence}.")
    return int(broken)


def _calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """The calls of a plain name, such as `show(...)`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == name]


def _figure_problems(tree: ast.AST, following: NotebookNode | None) -> list[str]:
    problems = []
    # a function that draws is no figure yet: the cell that calls it is, unless it is a widget's
    shows = [call for statement in tree.body if not _defines(statement) for call in _calls(statement, "show")]
    if any(len(call.args) < 2 and "alt" not in {keyword.arg for keyword in call.keywords} for call in shows):
        problems.append("show(...) without alt text")
    caption = following is not None and following.cell_type == "markdown"
    if shows and not (caption and following.source.startswith("**Figure ")):
        problems.append("show(...) is not followed by a markdown cell that begins '**Figure N.**'")
    return problems


def _defines(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _exercise_problems(specs: list[Exercise], cells: list[NotebookNode]) -> list[str]:
    """Where a lesson and its specifications disagree."""
    problems, asked, last = [], [], max(len(cells) - 1, 0)
    for position, cell in enumerate(cells):
        found = re.findall(r'^@exercise\("([^"]+)"\)', cell.source, re.M) if cell.cell_type == "code" else []
        asked += found
        following = cells[min(position + 1, last)].source
        problems += [
            f'exercise {id} is not followed by a cell with check("{id}", ...)'
            for id in found
            if f'check("{id}",' not in following
        ]
    if asked != [spec.id for spec in specs]:
        problems.append(f"its exercises are {asked}, the specifications {[spec.id for spec in specs]}")
    prose = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    functions = _signatures(cells)
    for spec in specs:
        heading = f"### Exercise {spec.id}: {spec.title}"
        found = re.search(rf"^{re.escape(heading)}$(.*?)(?=^#{{1,3}} |\Z)", prose, re.M | re.S)
        if not found:
            problems.append(f"there is no heading '{heading}'")
        elif f"{spec.minutes} min" not in found.group(1) or "<details>" not in found.group(1):
            problems.append(
                f"exercise {spec.id} must say '{spec.minutes} minutes' and have a hint in <details>"
            )
        if spec.id in functions and functions[spec.id] != spec.parameters:
            problems.append(f"exercise {spec.id} takes {functions[spec.id]}, its reference {spec.parameters}")
    if not any(re.search(r"^progress\(", cell.source, re.M) for cell in cells if cell.cell_type == "code"):
        problems.append("no cell calls progress(...)")
    return problems


def _written_problems(
    specs: list[Written], unsolved: list[NotebookNode], solved: list[NotebookNode]
) -> list[str]:
    """Where a lesson and the specifications of its written questions disagree."""
    places = [position for position, cell in enumerate(unsolved) if is_written(cell)]
    asked = [unsolved[position].metadata.get("exercise") for position in places]
    if asked != [spec.id for spec in specs]:
        return [f"its written questions are {asked}, the specifications {[spec.id for spec in specs]}"]
    problems = []
    for spec, position in zip(specs, places, strict=True):
        question = unsolved[position - 1].source
        if f"### Exercise {spec.id}: {spec.title}\n" not in question or f"{spec.minutes} min" not in question:
            problems.append(
                f"the cell before the answer to {spec.id} must be headed "
                f"'### Exercise {spec.id}: {spec.title}' and say '{spec.minutes} minutes'"
            )
        if unsolved[position].source.strip() != ANSWER or solved[position].source.strip() == ANSWER:
            problems.append(f"the answer to {spec.id} must be a model answer between the solution's markers")
    return problems


def _signatures(cells: list[NotebookNode]) -> dict[str, list[str]]:
    """The parameters of each function that is marked `@exercise("...")`."""
    found = {}
    for cell in cells:
        if cell.cell_type != "code" or "@exercise(" not in cell.source:
            continue
        for node in ast.parse(cell.source).body:
            for mark in getattr(node, "decorator_list", []):
                for call in _calls(mark, "exercise"):
                    found[ast.literal_eval(call.args[0])] = [argument.arg for argument in node.args.args]
    return found


def notebook_problems(notebook: NotebookNode, name: str) -> list[str]:
    """What is wrong with an executed notebook, a sentence each."""
    problems, text = [], to_text(notebook)
    pictures = 0
    for position, cell in enumerate(cell for cell in notebook.cells if cell.cell_type == "code"):
        where = f"code cell {position}"
        if cell.execution_count != position + 1:
            problems.append(f"{where} was not run in order (execution count {cell.execution_count})")
        for output in cell.outputs:
            data = output.get("data", {})
            pictures += sum(map(len, re.findall(r'src="(data:[^"]*)"', data.get("text/html", ""))))
            printed = output.get("text", "") + data.get("text/plain", "")
            if output.output_type == "error" or output.get("name") == "stderr":
                problems.append(f"{where} ended in an error or wrote to standard error")
            if any(kind.startswith("image/") for kind in data):  # JupyterLab and nbconvert drop its text
                problems.append(f"{where} has a picture without alt text: draw it with show(figure, alt=...)")
            images = re.findall(r"<img\b[^>]*>", data.get("text/html", ""))
            texts = [re.search(r' alt="([^"]*)"', image) for image in images]
            if any(text is None or len(text[1].split()) < 2 for text in texts):
                problems.append(f"{where} has an HTML picture without alt text")
            if any(path in printed for path in _local_paths()) or ADDRESS.search(printed):
                problems.append(f"{where} prints a path or an address of this machine: {printed[:80]!r}")
            if WALL_TIME.search(printed) and "nbval-ignore-output" not in cell.metadata.get("tags", []):
                problems.append(f"{where} prints a wall time: {WALL_TIME.search(printed).group()!r}")
    if "widget-view+json" in text or "widgets" in notebook.metadata:
        problems.append("it stores widgets, whose models are gone when the kernel stops")
    if len(text.encode()) > MAX_BYTES:
        size = f"{len(text.encode()) / 1000:.0f} kB, of which pictures {pictures / 1000:.0f} kB"
        problems.append(f"it has {size}; the limit is {MAX_BYTES / 1000:.0f} kB")
    return [f"{name}: {problem}." for problem in problems]


def _local_paths() -> list[str]:
    """Beginnings of paths that must not be published."""
    here = [
        str(Path.home()),
        str(ROOT),
        tempfile.gettempdir(),
        "site-packages",
    ]
    return [path for path in [*here, f"/home/{getpass.getuser()}"] if path != "/"]
