"""Run the unit tests and every lesson, and end in one line: what `make test` does.

With --slow, run only what this leaves out: the tests marked `slow`, `tests/theory`, `tests/browser`, and the
solved lessons.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest"]
# Once for all parts; and matplotlib's list of fonts, whose message would otherwise end up in some notebook.
COMPILE = """import compileall, matplotlib.font_manager
raise SystemExit(not all([compileall.compile_dir(room, quiet=1) for room in ("course", "mini_attn")]))"""
PREPARE = [sys.executable, "-c", COMPILE]
NOTEBOOKS = "lessons", "solutions"  # folders, and steps of the usual run and of the slow one
# What a notebook prints must not depend on the processor. With MINI_ATTN_OLD_PROCESSOR set, the lessons are
# computed as one without AVX would, the solutions, which share all their other cells, as this one does.
OLD_PROCESSOR = ["env", "ATEN_CPU_CAPABILITY=default", "MKL_CBWR=COMPATIBLE", "OPENBLAS_CORETYPE=Nehalem"]
OLD_PROCESSOR += ["NUMBA_CPU_NAME=nehalem"]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def steps(notebooks: list[str], slow: bool = False) -> dict[str, list[str]]:
    """Return the parts of the run, which run side by side: name -> command.

    The solutions have all their cells but the answers in common with the lessons, so the slow run takes them.
    Each worker of pytest would read all tests that its run may have, so on few cores the parts divide them
    instead; there are more parts than cores since many tests wait, for a browser, a sandbox or a time limit.
    """
    few = min(cores(), 4)
    strict = ["--nbval", "--nbval-sanitize-with", "tests/nbval_sanitize.cfg", "--nbval-current-env"]
    patient = ["--nbval-cell-timeout", "120"]
    notebook = [*PYTEST, *strict, *patient, "-n", str(few), "--dist", "loadscope"]
    processor = OLD_PROCESSOR if os.environ.get("MINI_ATTN_OLD_PROCESSOR") and not slow else []
    computing = {NOTEBOOKS[slow]: [*processor, *notebook, *notebooks]} if notebooks else {}
    own = [*PYTEST, "-p", "no:nbval"]  # which takes two seconds to load, in each worker
    spread = ["-n", str(few // 2), "--dist", "worksteal"] if few > 3 else []
    library = ["tests/mini_attn", "tests/benchmarks"]
    grader = ["tests/course/grade"]
    others = [*library, *grader, "tests/theory", "tests/browser"]
    rest = ["tests", *(f"--ignore={folder}" for folder in others)]
    parts = {"course": rest, "library": library, "grader": grader}
    if slow:  # theory outlasts all others, so it is two parts
        theory = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/theory").glob("test_*.py"))
        parts |= {"theory": theory[::2], "more theory": theory[1::2]}
    wanted = ["-m", "slow" if slow else "not slow"]
    tests = {name: [*own, *paths, *wanted, *spread] for name, paths in parts.items()}
    # Its driver leaves an event loop running in the process; other tests start one of their own.
    browser = {"browser": [*own, "tests/browser"]} if slow else {}
    return tests | browser | computing


def side_by_side(commands: dict[str, list[str]], folder: str, environment: dict[str, str]) -> dict[str, int]:
    """Run all commands at once and return their exit statuses, by name.

    The first one's output is shown as it comes, that of the others when all before them have ended.
    """
    logs = {step: Path(folder, f"{step}.log") for step in commands}
    statuses = {}
    with contextlib.ExitStack() as ending:
        running = {}
        for step, command in commands.items():
            output = ending.enter_context(logs[step].open("w")) if running else None
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
            running[step] = ending.enter_context(process)
            ending.callback(process.terminate)  # if this program is interrupted
        for step, process in running.items():
            print(f"\n=== {step} ===", flush=True)
            statuses[step] = process.wait()
            if len(statuses) > 1:
                print(logs[step].read_text(encoding="utf-8", errors="replace"), end="", flush=True)
    return statuses


def read(report: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[str]]:
    """Return from a JUnit report what passed and failed, as (file, test), and why the rest was skipped."""
    passed, failed, skipped = [], [], []
    for case in ElementTree.parse(report).iter("testcase"):
        name = (case.get("classname", ""), case.get("name", ""))
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif skip is not None:
            skipped.append(skip.get("message", "no reason given"))
        else:
            passed.append(name)
    return passed, failed, skipped


def count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def verdict(done: list[str], failures: list[str], skipped: list[str]) -> str:
    """Return the last line of the run."""
    if failures:
        shown = ", ".join(failures[:5]) + (f" and {len(failures) - 5} more" if len(failures) > 5 else "")
        return f"Something failed: {shown}. The reasons stand above."
    line = f"All is well: {' and '.join(done)} passed"
    if skipped:
        reasons = "; ".join(f"{skipped.count(reason)}: {reason}" for reason in sorted(set(skipped)))
        line += f", {len(skipped)} skipped ({reasons})"
    return line + "."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make test", description=__doc__.partition("\n")[0])
    parser.add_argument("--slow", action="store_true", help="run only the slow tests and the solutions")
    slow = parser.parse_args(arguments).slow
    start = time.monotonic()
    notebooks = [str(path.relative_to(ROOT)) for path in sorted((ROOT / NOTEBOOKS[slow]).glob("*.ipynb"))]
    tests, failures, skipped = 0, [] if notebooks else [f"no notebooks in {NOTEBOOKS[slow]}/"], []
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(
            os.environ,
            OMP_NUM_THREADS="1",  # the workers share the cores among them
            # The personal settings of whoever runs this must not change what a notebook prints.
            IPYTHONDIR=f"{folder}/ipython",
            JUPYTER_CONFIG_DIR=f"{folder}/jupyter",
            JUPYTER_PREFER_ENV_PATH="1",
        )
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # each worker and kernel would compile every module
        if subprocess.call(PREPARE, cwd=ROOT, env=environment):
            failures.append("the course cannot be compiled")
        commands = steps(notebooks, slow)
        reports = {step: Path(folder, f"{step}.xml") for step in commands}
        commands = {step: [*command, f"--junitxml={reports[step]}"] for step, command in commands.items()}
        for step, status in side_by_side(commands, folder, environment).items():
            report = reports[step]
            passed, failed, not_run = read(report) if report.exists() else ([], [], [])
            own = notebooks if step in NOTEBOOKS else []
            paths = {path.replace("/", "."): path for path in own}  # as the report names them
            failures += sorted({paths.get(file, file) if own else name for file, name in failed})
            if status and not failed:
                failures.append(f"the step '{step}' did not run to its end")
            if own:
                seen = {file for file, _ in passed + failed}
                failures += [f"{path} was not run" for name, path in paths.items() if name not in seen]
            else:
                tests += len(passed)
                skipped += not_run
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    left_out = "" if slow else ", without the slow tests and the solutions (make test ARGS=--slow)"
    print(f"\nDone in {minutes} min {seconds} s{left_out}.")
    done = [count(tests, "slow test" if slow else "test"), count(len(notebooks), "notebook")]
    print(verdict(done, failures, skipped), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Stopped before the end.")
