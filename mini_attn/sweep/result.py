"""From what a batch returned to arrays that a file can hold, and from all batches to one data set."""

from collections.abc import Mapping

import numpy as np
import torch

from mini_attn.sweep.design import INT32, Batch, Design


def outputs(returned, batch: Batch) -> dict[str, np.ndarray]:
    """Check what the trial function returned, and bring it to numpy arrays of a result file's dtypes.

    Raises:
        TypeError, ValueError: what was returned, what was expected.
    """
    if not isinstance(returned, Mapping):
        raise TypeError(
            f"the trial function returned {type(returned).__name__}; expected a dict of arrays, "
            'name -> (trials, ...): return {"loss": ...}'
        )
    if not returned:
        raise ValueError("the trial function returned an empty dict; expected name -> (trials, ...)")
    found = {}
    for name, value in returned.items():
        if not isinstance(name, str) or not name.isidentifier() or name in (*batch.cell, "trial"):
            taken = ", ".join(["trial", *batch.cell])
            raise ValueError(f"a quantity is called {name!r}; expected a plain name other than {taken}")
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu()
            value = (value.float() if value.dtype in (torch.float16, torch.bfloat16) else value).numpy()
        array = _storable(name, np.asarray(value))
        if array.ndim == 0 or len(array) != batch.trials:
            raise ValueError(
                f"{name!r} has shape {array.shape}; expected (trials, ...), here with trials = {batch.trials}"
            )
        if not array.size:
            raise ValueError(f"{name!r} has shape {array.shape}: it is empty, and a file cannot hold that")
        found[name] = array
    return found


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    kind = array.dtype.kind
    if kind == "T":  # numpy's strings of any length
        return array.astype(str)
    if kind in "bU" or array.dtype in (np.float32, np.float64):
        return array
    if kind == "f":
        return array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    if kind in "iu":
        if not array.size or (array.min() >= -INT32 and array.max() < INT32):
            return array.astype(np.int32)
        if (array.astype(np.float64).astype(array.dtype) == array).all():
            return array.astype(np.float64)
        raise ValueError(f"{name!r} holds whole numbers beyond 2^53, which the file cannot; return words")
    if kind == "O" and array.size and all(isinstance(x, str) for x in array.flat):
        return array.astype(str)
    raise TypeError(
        f"{name!r} holds {array.dtype}; expected numbers, truth values or words in arrays of one shape "
        "(of complex numbers, return the parts)"
    )


def clash(outputs: dict[str, np.ndarray], first: dict[str, np.ndarray]) -> str | None:
    """Why what a batch returned cannot stand in one array with what the first did; None if it can."""
    if set(outputs) != set(first):
        return f"returned {sorted(outputs)}, and the first batch {sorted(first)}; return the same everywhere"
    for name, array in outputs.items():
        words, others = (("words" if a.dtype.kind == "U" else "numbers") for a in (array, first[name]))
        if words != others:
            return f"{name!r} holds {words}, and {others} in the first batch; return one kind everywhere"
        if array.ndim != first[name].ndim:
            return (
                f"{name!r} has {array.ndim - 1} dimensions beside the trials, and {first[name].ndim - 1} in "
                "the first batch; only their sizes may differ between cells"
            )
    return None


def joined(design: Design, done: list[tuple[Batch, dict[str, np.ndarray]]]) -> dict[str, np.ndarray]:
    """All batches in arrays (*grid, trials, ...), filled up where there is nothing.

    Nothing is "" among words, and NaN among numbers: integers and truth values with gaps become floats.
    """
    joined = {}
    for name, sample in done[0][1].items():
        parts = [(batch, found[name]) for batch, found in done]
        size = np.max([a.shape[1:] for _, a in parts], axis=0).astype(int)
        shape = (*design.shape, design.trials, *size)
        dtype = np.result_type(*{a.dtype for _, a in parts})
        whole = sum(a.size for _, a in parts) == np.prod(shape, dtype=object)
        if not whole and sample.dtype.kind != "U":
            dtype = np.result_type(dtype, np.float32 if dtype.kind in "bf" else np.float64)
        joined[name] = (
            np.full(shape, "" if sample.dtype.kind == "U" else np.nan, dtype)
            if not whole
            else (np.empty(shape, dtype))
        )
        for batch, a in parts:
            inner = tuple(slice(n) for n in a.shape[1:])
            joined[name][(*batch.place, slice(batch.first, batch.first + batch.trials), *inner)] = a
    return joined


def encode(design: Design, arrays: dict[str, np.ndarray], attributes: dict[str, str]) -> memoryview:
    """The data set as the bytes of a netCDF file.

    Raises:
        ValueError: it is too large for one.
    """
    import xarray as xr  # here, as below: it takes a second to load

    dims = (*design.grid, "trial")
    variables = {
        name: ((*dims, *(f"{name}_{axis}" for axis in range(a.ndim - len(dims)))), a)
        for name, a in arrays.items()
    }
    coordinates = {name: np.asarray(values) for name, values in design.grid.items()}
    for name, a in arrays.items():
        if a.nbytes >= INT32:
            raise ValueError(
                f"{name!r} takes {a.nbytes / 2**30:.1f} GiB, and a netCDF file holds arrays up to 2 GiB; "
                "return less, float32, or cut the grid into several sweeps"
            )
    dataset = xr.Dataset(variables, {**coordinates, "trial": np.arange(design.trials)}, attributes)
    return dataset.to_netcdf(engine="scipy")


def decode(content: memoryview):
    """What :func:`encode` wrote, as a reader of the file will find it."""
    import xarray as xr

    return xr.load_dataset(content, engine="scipy")


def read(path):
    """The data set in a file that a sweep wrote; None if the file holds something else."""
    import xarray as xr

    try:
        dataset = xr.load_dataset(path, engine="scipy")
    except (TypeError, ValueError, IndexError, EOFError):  # what scipy raises for a file of another kind
        return None
    return dataset if "sweep" in dataset.attrs else None
