"""`python -m course build [NN ...]`: lesson sources -> executed notebooks in lessons/ and solutions/.

A lesson is written once, in course/source/NN_slug.py. This makes two notebooks of it, runs both, and stores
what they print and draw. All but the outputs follow from the source to the byte; `--check` (a test too) says
where a stored notebook no longer does.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from tqdm import tqdm

from course.files import write
from course.make import lint, readme
from course.make.notebook import METADATA, from_source, to_text, without_outputs

ROOT = Path(__file__).resolve().parents[2]
CELL_SECONDS = 120  # a whole lesson should take 20
WIDGET = "application/vnd.jupyter.widget-view+json"
LOOK = "__import__('course.make.colours', fromlist=['watch']).watch()"  # leaves no name behind
UNTIL_RUN = "Run this cell to get the interactive figure."


class BuildError(Exception):
    """A lesson that cannot be built; the message says which cell and why."""


@dataclass(frozen=True)
class Folders:
    """Where sources are read and notebooks are written."""

    source: Path = ROOT / "course" / "source"
    lessons: Path = ROOT / "lessons"
    solutions: Path = ROOT / "solutions"

    def sources(self, numbers: list[str] = ()) -> list[Path]:
        """The sources of the lessons with these numbers ("01"), or of all."""
        found = sorted(self.source.glob("[0-9][0-9]_*.py"))
        missing = set(numbers) - {path.name[:2] for path in found}
        if missing:
            raise BuildError(f"No source {self.source}/{min(missing)}_*.py; give lessons as 01 02 ...")
        return [path for path in found if not numbers or path.name[:2] in numbers]

    def targets(self, source: Path) -> list[tuple[Path, bool]]:
        """The two notebooks of a source, and whether each is solved."""
        name = f"{source.stem}.ipynb"
        return [(self.lessons / name, False), (self.solutions / name, True)]


def execute(notebook: NotebookNode, name: str, timeout: int = CELL_SECONDS) -> NotebookNode:
    """Run a notebook in a fresh kernel and an empty folder; returns it with its outputs.

    Figures that some readers could not read stop it (`course.make.colours`).

    Raises:
        BuildError: a cell raised, wrote to standard error, took more than `timeout` seconds, or drew a widget
            without being tagged as one.
    """
    notebook = copy.deepcopy(notebook)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=timeout,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=[
                "--log-level=ERROR",  # ipykernel warns about TCP at every start
                f"--IPKernelApp.exec_lines={[LOOK]}",
            ],
        )
        try:
            asyncio.run(client.async_execute())  # execute() would leave its event loop open
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise BuildError(f"{name} stopped:\n{_plain(str(error))}") from None
    notebook.metadata = nbformat.from_dict(METADATA)  # instead of Python's version and the widgets' state
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _settled(cell, name)
    return notebook


def _settled(cell: NotebookNode, name: str) -> list[NotebookNode]:
    """A cell's outputs, fit to be stored: no widget views, whose model ids die with the kernel."""
    outputs = []
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stderr":
            raise BuildError(f"{name}: this cell wrote to standard error:\n{cell.source}\n\n{output.text}")
        if WIDGET not in output.get("data", {}):
            outputs.append(output)
        elif "widget" not in cell.metadata.get("tags", []):
            raise BuildError(
                f"{name}: this cell draws a widget or a progress bar. Pass progress=False, or tag it "
                f'["nbval-ignore-output", "widget"]:\n{cell.source}'
            )
        else:
            outputs.append(nbformat.v4.new_output("display_data", {"text/plain": UNTIL_RUN}))
    return outputs


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def build(source: Path, target: Path, solved: bool) -> None:
    """Make, run and store one notebook; an existing one is replaced in one step or stays as it is."""
    problems = lint.source_problems(source)
    if problems:
        raise BuildError("\n".join(problems))
    notebook = execute(from_source(source, solved), f"{target.parent.name}/{target.name}")
    problems = lint.notebook_problems(notebook, f"{target.parent.name}/{target.name}")
    if problems:
        raise BuildError("\n".join(problems))
    write(target, to_text(notebook))


def stale(folders: Folders, numbers: list[str] = ()) -> list[str]:
    """What stored notebooks say that their sources no longer do (or the other way round), a sentence each."""
    sources, sentences = folders.sources(numbers), []
    for source in sources:
        for target, solved in folders.targets(source):
            name = f"{target.parent.name}/{target.name}"
            again = f"run `python -m course build {source.name[:2]}`"
            if not target.exists():
                sentences.append(f"{name} is missing: {again}.")
                continue
            stored = without_outputs(nbformat.read(target, as_version=4))
            if to_text(stored) != to_text(from_source(source, solved)):
                sentences.append(f"{name} differs from {source.name}: {again}.")
    if not numbers:
        known = {source.stem for source in sources}
        made = [*folders.lessons.glob("*.ipynb"), *folders.solutions.glob("*.ipynb")]
        orphans = sorted(path for path in made if path.stem not in known)
        sentences += [f"{path.parent.name}/{path.name} has no source: delete it." for path in orphans]
    return sentences


def main(arguments: list[str] | None = None, folders: Folders = Folders()) -> int:
    """The command line: build the named lessons, or all; or only compare. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m course build", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("lessons", nargs="*", help="lesson numbers, such as 01 06 (all, if none is given)")
    parser.add_argument(
        "--check", action="store_true", help="run nothing; say which notebooks are out of date"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many notebooks to run at once (1)")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            problems = stale(folders, options.lessons)
        else:
            problems = _build_all(folders.sources(options.lessons), folders, options.jobs)
            if folders == Folders() and readme.refresh() and "00" not in options.lessons:
                problems += _build_all(folders.sources(["00"]), folders, options.jobs)  # it shows the map too
    except (BuildError, ValueError) as error:  # ValueError: a source whose markers do not pair up
        problems = [str(error)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _build_all(sources: list[Path], folders: Folders, jobs: int) -> list[str]:
    """Build both notebooks of each source; returns what went wrong, after all were tried."""
    work = [(source, *target) for source in sources for target in folders.targets(source)]
    failures = []
    pool = ThreadPoolExecutor(max_workers=jobs)
    try:
        running = {pool.submit(build, *item): item[1] for item in work}
        for done in tqdm(as_completed(running), total=len(work), unit="notebook"):
            target = running[done]
            try:
                done.result()
                outcome = f"{target.stat().st_size / 1000:.0f} kB"
            except (BuildError, ValueError) as error:
                failures.append(str(error))
                outcome = "failed"
            tqdm.write(f"{target.parent.name}/{target.name}: {outcome}")
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C waits for the notebooks that run, not for those to come
    return failures
