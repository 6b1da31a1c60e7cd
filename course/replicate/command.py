"""`python -m course replicate`: published figures beside ours, and the stored sweeps behind them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from course import files
from course.replicate import rows, stored, table
from course.replicate.stored import Measured

README = Path(__file__).parents[2] / "README.md"
BEGIN = "<!-- The replication table: `python -m course replicate --readme` writes it. -->\n"
END = "<!-- End of the replication table. -->\n"


def main(arguments: list[str]) -> int:
    """Print the table, one row of it, or the stored sweeps; or compute sweeps anew."""
    parser = argparse.ArgumentParser(prog="python -m course replicate", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--row", metavar="ID", help="all about one row")
    what.add_argument("--readme", action="store_true", help="write the table into README.md")
    what.add_argument("--sweeps", action="store_true", help="list the stored sweeps")
    what.add_argument("--fresh", nargs="*", metavar="ID", help="compute these sweeps, or rows, anew; or all")
    options = parser.parse_args(arguments)
    try:
        if options.row is not None:
            print(table.whole(rows.find(options.row)))
        elif options.readme:
            content = table.markdown(rows.every())
            files.write(README, files.between(README.read_text(encoding="utf-8"), BEGIN, END, content))
        elif options.sweeps:
            print("\n".join(map(_listed, stored.every())))
        elif options.fresh is None:
            print(table.text(rows.every()))
        else:
            _compute([_sweep(id) for id in options.fresh] or stored.every())
    except ValueError as error:  # an unknown name
        print(error, file=sys.stderr)
        return 1
    return 0


def _listed(one: Measured) -> str:
    state = f"{-(-one.path.stat().st_size // 1024)} KB" if one.path.exists() else "missing"
    return f"{one.id:20} {one.trials:5} trials a cell, {one.minutes:4g} min, {state:>7}  {one.what}"


def _sweep(id: str) -> Measured | None:
    """The sweep of this name, or that of the row of this name."""
    known = {row.id: row.sweep for row in rows.every()}
    if id in known and known[id] is None:
        raise ValueError(f"Row {id!r} needs no stored sweep: it is computed whenever it is shown.")
    return stored.measured(known.get(id, id))


def _compute(sweeps: list[Measured]) -> None:
    for one in sweeps:
        print(f"{one.id}: {one.what} About {one.minutes:g} minutes of one core.", flush=True)
        beside = one.path.parent / ".fresh" / one.path.name  # an interrupted call is gone on with
        beside.parent.mkdir(exist_ok=True)
        one.compute(beside)
        files.write(one.path, beside.read_bytes())  # the old one stays until the new one is whole
        beside.unlink()
