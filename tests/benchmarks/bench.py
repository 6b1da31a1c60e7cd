"""Run every benchmark, print tables, save a JSON:  make bench,  or  python tests/benchmarks/bench.py --help.

Each ratio comes from one run: ours and the baseline alternate, same data, same number of threads, and the
accuracy of both is printed. Slow baselines run on a part of the problems; all times are per problem, and the
tables say how many each side solved.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--date", default=None, help="to write into the results, for example 2026-01-31")
    parser.add_argument("--threads", type=int, default=1, help="for all libraries; section threads takes all")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything run?")
    parser.add_argument("--only", nargs="*", default=None, help="sections by name")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the JSON")
    return parser.parse_args()


def main():
    options = arguments()
    for name in ("OMP", "MKL", "OPENBLAS", "RAYON"):  # read once, when numpy and torch are loaded
        os.environ[f"{name}_NUM_THREADS"] = str(options.threads)
    sys.path.insert(0, str(HERE))
    import gpu
    import large
    import published
    import solvers
    import sweeps
    import threads
    import torch
    import torture
    import training
    from measure import machine, seconds, table

    torch.set_num_threads(options.threads)
    sections = {
        "frobenius": solvers.frobenius,
        "nuclear": solvers.nuclear,
        "entrywise": solvers.entrywise,
        "large": large.large,
        "experiment": training.experiment,
        "schedules": training.schedules,
        "growth": training.growth,
        "published": published.published,
        "threads": threads.threads,
        "sweeps": sweeps.sweeps,
        "torture": torture.torture,
    }
    if torch.cuda.is_available():
        sections["gpu"] = gpu.gpu
    unknown = set(options.only or ()) - set(sections)
    if unknown:
        sys.exit(f"no section {sorted(unknown)}; there are {sorted(sections)}")

    about = {**machine(options.threads), "date": options.date, "quick": options.quick}
    print(f"{about['cpu']}, {about['threads']} threads, GPU: {about['gpu']}, {about['versions']}")
    where = about["gpu"] or about["cpu"]
    slug = re.sub(r"[^a-z0-9]+", "-", f"{where} {about['threads']} threads".lower()).strip("-")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{slug}.json"
    results = {"machine": about, "sections": {}}
    if options.only is not None and path.exists():  # the other sections stay as they were
        results["sections"] = json.loads(path.read_text())["sections"]
    for name, section in sections.items():
        if options.only is not None and name not in options.only:
            continue
        took, (title, rows) = seconds(section, options.quick)
        table(f"{title}  [{took:.0f} s]", rows)
        results["sections"][name] = {"title": title, "date": options.date, "rows": rows}
        path.write_text(json.dumps(results, indent=1) + "\n")  # whatever happens to the next one
    print(f"\nSaved to {path}")


if __name__ == "__main__":
    main()
