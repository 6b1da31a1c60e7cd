"""A sweep that the course keeps: how it is made, where it lies, and a part of it computed again."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Measured:
    """One sweep of a lesson, see :func:`mini_attn.sweep.sweep`.

    Args:
        id: the lesson and a name, "12.shares".
        what: what it measures, in a sentence.
        trial: the trial function, one of the lesson's module.
        grid: parameter -> values.
        trials: how many in each cell.
        batch: trials a call; a lesson computes one batch of a cell again, so keep it small.
        seed: of the sweep.
        paired: parameters whose values share their random numbers.
        minutes: of one core, to compute all of it.
    """

    id: str
    what: str
    trial: Callable[..., Mapping]
    grid: Mapping[str, Iterable]
    trials: int
    batch: int
    seed: int = 0
    paired: tuple[str, ...] = ()
    minutes: float = 1.0

    @property
    def path(self) -> Path:
        """The stored result."""
        return RESULTS / f"{self.id.replace('.', '_')}.nc"

    def load(self):
        """The stored result, an ``xarray.Dataset`` with a dimension for each parameter, and "trial".

        Raises:
            FileNotFoundError: it has not been computed.
        """
        import xarray as xr  # here: it takes a second to load

        if not self.path.exists():
            raise FileNotFoundError(
                f"{self.path} is missing; `python -m course replicate --fresh {self.id}` computes it, "
                f"in about {self.minutes:g} minutes of one core"
            )
        return xr.load_dataset(self.path, engine="scipy")

    def part(self, trials: int | None = None, **values: Iterable):
        """Compute the first trials of some cells again, here and now.

        On the same kind of processor whole batches come out as they are stored, to the last bit; on others,
        rounding differs. A batch that is not whole may hold other trials: they are drawn together.

        Args:
            trials: how many in each cell; by default one batch.
            values: parameter -> those of its values that are wanted; of the others, all.

        Raises:
            ValueError: the grid has no such parameter or value.
        """
        from mini_attn.sweep import sweep

        grid = {name: list(all_values) for name, all_values in self.grid.items()}
        for name, wanted in values.items():
            if name not in grid or not (wanted := list(wanted)) or not set(wanted) <= set(grid[name]):
                raise ValueError(f"{name} = {wanted} is not in the grid of {self.id}: {grid}")
            grid[name] = wanted
        how = {"seed": self.seed, "batch": self.batch, "paired": self.paired}
        return sweep(self.trial, grid, trials or self.batch, **how, workers=1, progress=False)

    def compute(self, out: Path | None = None, progress: bool = True):
        """Compute all of it and store it; what an interrupted call did is kept and gone on with."""
        from mini_attn.sweep import sweep

        how = {"seed": self.seed, "batch": self.batch, "paired": self.paired}
        return sweep(self.trial, self.grid, self.trials, **how, out=out or self.path, progress=progress)


def every() -> list[Measured]:
    """All stored sweeps, in the order of the lessons."""
    return listed("lesson", "MEASURED")


def listed(kind: str, name: str) -> list:
    """What the lists of this name hold in the modules `kind_NN`, in the order of the lessons."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob(f"{kind}_[0-9][0-9].py"))
    return [
        one
        for module in modules
        for one in getattr(importlib.import_module(f"course.replicate.{module}"), name)
    ]


def measured(id: str) -> Measured:
    """The stored sweep "12.shares".

    Raises:
        ValueError: there is none.
    """
    found = {one.id: one for one in every()}
    if id not in found:
        raise ValueError(f"There is no stored sweep {id!r}; there are: {', '.join(found) or 'none'}.")
    return found[id]
