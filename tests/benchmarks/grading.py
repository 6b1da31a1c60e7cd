"""Grade many whole notebooks of a lesson:  python tests/benchmarks/grading.py --students 100 --jobs 2

Prints and saves the time per submission and the peak memory of the grader and its sandboxes together. A third
of the submissions is solved, a third blank, and a third has one exercise wrong.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import nbformat
import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from measure import machine  # noqa: E402

from course.grade import grading, released  # noqa: E402


def hand_in(folder: Path, lesson: released.Lesson, students: int) -> None:
    blank = nbformat.read(lesson.path, as_version=4)
    solved = nbformat.read(ROOT / "solutions" / lesson.path.name, as_version=4)
    for number in range(students):
        notebook = nbformat.from_dict((solved, blank, solved)[number % 3])
        if number % 3 == 2:  # one function returns twice what it should
            id = lesson.specs[number % len(lesson.specs)].id
            cell = next(cell for cell in notebook.cells if cell.id == lesson.cell_ids[id])
            cell.source += f"\n\nright = {lesson.functions[id]}\n"
            cell.source += f"exercise('{id}')(lambda *inputs: 2 * np.asarray(right(*inputs)))"
        path = folder / f"student{number:03}" / lesson.path.name
        path.parent.mkdir()
        nbformat.write(notebook, path)


def peak_memory(stop: threading.Event) -> list[int]:
    """Sample the resident memory of this process and all below it until told to stop."""
    seen, me = [0], psutil.Process()

    def watch():
        while not stop.wait(0.2):
            total = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            seen[0] = max(seen[0], total)

    threading.Thread(target=watch, daemon=True).start()
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--lesson", default="06")
    parser.add_argument("--date", default=None)
    options = parser.parse_args()
    lesson = released.lesson(options.lesson)
    with tempfile.TemporaryDirectory() as folder:
        submissions = Path(folder, "submissions")
        submissions.mkdir()
        hand_in(submissions, lesson, options.students)
        stop = threading.Event()
        memory, start = peak_memory(stop), time.perf_counter()
        rows = grading.grade(submissions, options.lesson, "a seed", Path(folder, "out"), options.jobs)
        took = time.perf_counter() - start
        stop.set()
    full = sum(all(mark.state in ("right", "manual") for mark in marks) for marks in rows.values())
    result = {
        **machine(1),
        "date": options.date,
        "lesson": options.lesson,
        "submissions": len(rows),
        "with full marks": full,
        "jobs": options.jobs,
        "seconds per submission": round(took / len(rows), 2),
        "peak memory in MB": round(memory[0] / 1e6),
    }
    print(json.dumps(result, indent=1))
    target = Path(__file__).parent / "results" / f"grading-{options.lesson}.json"
    target.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
