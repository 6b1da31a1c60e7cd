"""A grid cut into batches, each with a seed of its own."""

import hashlib
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

import numpy as np
import torch

RESERVED = {"trial", "trials", "seed", "device"}  # what the trial function is given beside the grid's values
INT32 = 2**31


@dataclass(frozen=True)
class Batch:
    """Trials that are computed in one call.

    Args:
        index: its number in the sweep.
        cell: the grid's values, name -> value.
        place: the cell's position along each dimension.
        first: the number of its first trial within the cell.
        trials: how many trials it has.
        seed: of its random numbers.
    """

    index: int
    cell: dict
    place: tuple[int, ...]
    first: int
    trials: int
    seed: int

    def __str__(self):
        values = [f"{name}={value!r}" for name, value in self.cell.items()]
        return f"trial({', '.join([*values, f'trials={self.trials}', f'seed={self.seed}'])})"


@dataclass(frozen=True)
class Design:
    """What is to be computed: the grid, how many trials a cell, in batches of how many, from which seed."""

    grid: dict[str, list]
    trials: int
    seed: int
    paired: tuple[str, ...]

    @cached_property
    def cells(self) -> list[dict]:
        """All combinations of the grid's values; the last parameter changes fastest."""
        return [
            dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())
        ]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.grid.values()))

    def batches(self, sizes: list[int]) -> list[Batch]:
        """Cut each cell into batches of its size; the last takes what remains."""
        found = []
        for cell, place, size in zip(self.cells, np.ndindex(*self.shape), sizes, strict=True):
            for first in range(0, self.trials, size):
                trials = min(size, self.trials - first)
                seed = batch_seed(self.seed, {k: v for k, v in cell.items() if k not in self.paired}, first)
                found.append(Batch(len(found), cell, place, first, trials, seed))
        return found


def design(grid: Mapping[str, Iterable], trials: int, seed: int, paired: Iterable[str]) -> Design:
    """Check what a sweep was asked for, and bring the grid's values to plain Python's.

    Raises:
        ValueError: what was given, what was expected, what to do.
    """
    if not isinstance(grid, Mapping):
        raise ValueError(
            f'grid is {type(grid).__name__}; expected name -> values, as in {{"n": [2, 4], "d": [8]}}'
        )
    for name, smallest, value in (("trials", 1, trials), ("seed", 0, seed)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < smallest:
            raise ValueError(f"{name} = {value!r}; expected a whole number, {smallest} or more")
    paired = (paired,) if isinstance(paired, str) else tuple(paired)
    values = {name: _values(name, given) for name, given in grid.items()}
    if not set(paired) <= set(values):
        raise ValueError(f"paired names {sorted(set(paired) - set(values))}; the grid has {list(values)}")
    if trials >= INT32:
        raise ValueError(f"trials = {trials}; a result file numbers them up to {INT32 - 1}")
    return Design(values, int(trials), int(seed), paired)


def _values(name: str, given) -> list:
    if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
        raise ValueError(
            f"grid has a parameter {name!r}; expected the name of one of the trial function's arguments, "
            f"other than {sorted(RESERVED)}"
        )
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ValueError(f"grid[{name!r}] = {given!r}; expected a list of values: [{given!r}]")
    if isinstance(given, torch.Tensor | np.ndarray) and given.ndim != 1:
        raise ValueError(f"grid[{name!r}] has shape {tuple(given.shape)}; expected a list of values")
    values = [v.item() if _is_scalar(v) else v for v in given]
    kinds = {str: "words", bool: "truth values", int: "numbers", float: "numbers"}
    for v in values:
        if type(v) not in kinds or v != v or (type(v) is int and abs(v) >= INT32):
            raise ValueError(
                f"grid[{name!r}] holds {v!r} ({type(v).__name__}); expected numbers, words or truth values, "
                "which a file can hold as coordinates (whole numbers below 2^31). For anything else, give "
                "words, and let the trial function look them up"
            )
    found = {kinds[type(v)] for v in values}
    if len(found) > 1:
        raise ValueError(f"grid[{name!r}] mixes {' and '.join(sorted(found))}; expected values of one kind")
    if not values or len(set(values)) < len(values):
        raise ValueError(f"grid[{name!r}] = {values}; expected at least one value, and none of them twice")
    return values


def _is_scalar(v) -> bool:
    return isinstance(v, np.generic) or (isinstance(v, torch.Tensor | np.ndarray) and v.ndim == 0)


def batch_seed(seed: int, cell: Mapping, first: int) -> int:
    """The seed of a batch, below 2^63: a hash of the sweep's seed, the cell's values, and the first trial.

    It depends neither on the rest of the grid nor on the parameters' order, and 1 and 1.0 are the same.

    Introduced in lesson 17.
    """
    said = [f"{name}={_canonical(value)}" for name, value in sorted(cell.items())]
    key = hashlib.sha256("\0".join([str(seed), str(first), *said]).encode("utf-8", "surrogatepass"))
    return int.from_bytes(key.digest()[:8], "big") >> 1


def _canonical(value) -> str:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    return f"{type(value).__name__} {value!r}"
