"""`python -m course start`: hand the lessons out, then open JupyterLab where the learner left off.

Standard library only, so that a second start is immediate.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from course.start import progress
from course.start.handing_out import LESSONS, MINE, hand_out

SETTINGS = Path(__file__).parent / "settings"


def command(mine: Path, lesson: str, arguments: list[str]) -> list[str]:
    """Return the command that opens JupyterLab on a lesson.

    JupyterLab's root is the folder above, so that a lesson's links to the library open; its file browser
    begins in the learner's folder.
    """
    words = [
        sys.executable,
        *("-m", "jupyterlab"),
        "--LabApp.extension_manager=readonly",  # the other one asks the package index at every start
        f"--LabApp.extra_labextensions_path={SETTINGS / 'labextensions'}",
        # A workspace of its own: tabs of the learner's other projects do not open here, nor these there.
        f"--LabApp.workspaces_dir={mine / '.tabs'}",
        f"--LabApp.default_url=/lab/tree/{quote(mine.name)}/{quote(lesson)}",
        f"--ServerApp.root_dir={mine.parent}",
        f"--ServerApp.preferred_dir={mine}",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        words.append("--allow-root")  # in a container root is often the only user
    return words + arguments


def environment() -> dict[str, str]:
    """Return the variables for that command: our settings and kernel, this environment before any other."""
    own = {
        "JUPYTER_CONFIG_PATH": str(SETTINGS),
        "JUPYTER_PATH": str(SETTINGS),
        "PATH": os.path.dirname(sys.executable),
    }
    found = {name: os.pathsep.join(filter(None, [path, os.environ.get(name)])) for name, path in own.items()}
    return {**os.environ, **found, "JUPYTER_PREFER_ENV_PATH": "1"}  # no kernel of another project for ours


def where_to(mine: Path) -> tuple[str, str]:
    """Return the notebook to open, and a sentence that says why this one."""
    memory = progress.recall(mine)
    lesson = progress.left_off(memory)
    if memory.last is None or lesson.notebook is None or not (mine / lesson.notebook).exists():
        first = min(path.name for path in mine.glob("[0-9][0-9]_*.ipynb"))
        return first, f"Opening {first}."
    following = progress.next_exercise(lesson, memory.solved)
    goal = f"next is exercise {following}" if following else "all its exercises are solved"
    return lesson.notebook, f"Opening lesson {lesson.number}, where you left off: {goal}."


def main(arguments: list[str]) -> int:
    """Hand out the lessons, then become JupyterLab; arguments are passed on to it."""
    try:
        for sentence in hand_out(LESSONS, MINE):
            print(sentence)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        print(f"The lessons could not be handed out: {error.strerror or error}{where}.", file=sys.stderr)
        return 1
    if importlib.util.find_spec("jupyterlab") is None:
        print(f"JupyterLab is missing in {sys.prefix}: run `make clean`, then `make learn`.", file=sys.stderr)
        return 1
    lesson, sentence = where_to(MINE)
    print(f"{sentence} Stop JupyterLab here with Ctrl-C, twice.", flush=True)
    words = command(MINE, lesson, arguments)
    if os.name == "nt":  # there execv returns to the prompt while JupyterLab still runs
        return subprocess.call(words, env=environment())
    os.execve(words[0], words, environment())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
