"""`python -m course replicate`: the stored sweeps, and how to compute them anew."""

from __future__ import annotations

import argparse
import sys

from course import files
from course.replicate.stored import Measured, every, measured


def main(arguments: list[str]) -> int:
    """List the stored sweeps, or compute some of them."""
    parser = argparse.ArgumentParser(prog="python -m course replicate", description=__doc__)
    parser.add_argument("--fresh", nargs="*", metavar="ID", help="compute these anew, or all")
    options = parser.parse_args(arguments)
    if options.fresh is None:
        for one in every():
            state = f"{-(-one.path.stat().st_size // 1024)} KB" if one.path.exists() else "missing"
            print(f"{one.id:20} {one.trials:5} trials a cell, {one.minutes:4g} min, {state:>7}  {one.what}")
        return 0
    try:
        wanted = [measured(id) for id in options.fresh] or every()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    for one in wanted:
        print(f"{one.id}: {one.what} About {one.minutes:g} minutes of one core.", flush=True)
        _anew(one)
    return 0


def _anew(one: Measured) -> None:
    """Compute a sweep elsewhere; the stored file stays until the new one is whole."""
    beside = one.path.parent / ".fresh" / one.path.name  # an interrupted call is gone on with
    beside.parent.mkdir(exist_ok=True)
    one.compute(beside)
    files.write(one.path, beside.read_bytes())
    beside.unlink()
