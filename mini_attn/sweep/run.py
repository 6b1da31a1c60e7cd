"""A grid of experiments in one call, which nothing that interrupts it can spoil."""

import inspect
import json
import os
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from numbers import Integral
from pathlib import Path

import torch
from tqdm.auto import tqdm

from mini_attn.sweep import executors, result
from mini_attn.sweep.design import Batch, Design, design
from mini_attn.sweep.executors import Call, Failure
from mini_attn.sweep.fingerprint import fingerprint, versions
from mini_attn.sweep.memory import fitting
from mini_attn.sweep.store import Store


def sweep(
    trial: Callable[..., Mapping],
    grid: Mapping[str, Iterable],
    trials: int,
    *,
    seed: int = 0,
    out: str | os.PathLike | None = None,
    batch: int | None = 500,
    paired: Iterable[str] = (),
    memory: int | None = None,
    device: str | torch.device | None = None,
    workers: int | None = None,
    scheduler=None,
    progress: bool = True,
):
    """Run ``trials`` independent trials of an experiment in each cell of a grid.

        def trial(n, T, d, *, trials, seed):
            tokens = data.random_tokens(n, T, d, trials=trials, seed=seed)
            model = models.CrossAttention(d, trials=trials)
            optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
            train.fit(model, tokens, optimizer, steps=2000, progress=False)
            return {"outcome": geometry.outcome(model.attention(tokens), tokens)}

        result = sweep(trial, {"n": [2, 4, 8], "T": [4, 8], "d": range(2, 17)}, trials=500, out="phase.nc")
        share = (result.outcome == "global").mean("trial")  # (n, T, d)
        share.sel(T=8).plot()                               # a heat map

    Each cell is cut into batches of ``batch`` trials; a batch is one call of the trial function. Its seed is
    a hash of the sweep's seed, the cell's values and the number of its first trial. So a batch depends
    neither on the rest of the grid, nor on the order of the work, nor on where it is done: one cell alone
    gives, to the last bit, what it gives within the grid, and more trials keep the earlier full batches. It
    does depend on ``batch``, which is part of the experiment like the seed. (A seed for each trial would not
    change that: how products are rounded depends on how many are computed at once.)

    With ``out``, a batch is stored when it is done, in the folder ``out + ".parts"``. The same call goes on
    from there, whatever ended the first, and comes to the same file, byte for byte. When all is done the
    folder goes, and the same call reads the file.

    Args:
        trial: computes a batch. It is called with the cell's values, ``trials``, ``seed``, and ``device`` if
            it has such an argument, all by name, and returns a dict name -> array (trials, ...) of numbers,
            truth values or words: tensors, numpy arrays or lists. Global random numbers (torch's, numpy's,
            Python's) are seeded for it, and it computes on one thread.
        grid: parameter -> values: numbers, words or truth values. An empty one is a single cell.
        trials: how many in each cell.
        seed: of the whole sweep.
        out: the result's file, netCDF. None keeps nothing.
        batch: trials a call. None: in each cell as many as fit into ``memory``, measured by a probe and
            rounded down to a power of two. ``result.attrs["batch"]`` says how many; give it to repeat them
            elsewhere.
        paired: parameters whose values share their random numbers, for comparisons on the same data.
        memory: bytes of tensors in a batch, where ``batch`` is None; None for half of what is free on a GPU,
            and 1 GiB on the CPU (for each worker).
        device: where to compute; None for the GPU if there is one, and else the CPU.
        workers: processes, with one thread each; -1 for one a core. None: this process alone, and one a core
            as soon as more than twenty seconds of work remain.
        scheduler: a Dask scheduler's address, or a ``distributed.Client``: the batches are computed there.
            ``mini_attn/sweep/README.md`` says how to start one on SLURM, on Kubernetes or by SSH.
        progress: show one progress bar.

    Returns:
        xarray.Dataset, as ``xarray.load_dataset(out)`` reads it: a variable for each quantity, with a
        dimension for each parameter, "trial", and ``name_0``, ``name_1``, ... for the quantity's own
        dimensions. Where their sizes differ between cells, the smaller are filled up at the end. What is
        missing is "" among words, and NaN among numbers (so integers with gaps become floats). Integers are
        int32. Attributes say how it was made.

    Raises:
        ValueError: arguments that do not fit; or ``out`` holds a sweep that was made otherwise: by another
            trial function, grid, number, device or version (``mini_attn/sweep/fingerprint.py`` says what is
            noticed).
        FileExistsError: ``out`` is no result of a sweep.
        RuntimeError: another sweep is writing to ``out``; or every batch failed.
        OSError: something cannot be written. What was stored stays.

    Warns:
        RuntimeWarning: batches failed. It shows each call that failed and its error, as does
            ``result.attrs["failed"]``. The others are there, and the same call tries these again.

    Introduced in lesson 12.
    """
    plan = design(grid, trials, seed, paired)
    for name, value in (("batch", batch), ("memory", memory)):
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 1):
            raise ValueError(f"{name} = {value!r}; expected a whole number, 1 or more, or None")
    if workers is not None and (not isinstance(workers, Integral) or not (workers >= 1 or workers == -1)):
        raise ValueError(f"workers = {workers!r}; expected a number of processes, -1 for one a core, or None")
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    _check_signature(trial, plan)
    call = Call(trial, device)
    how = {"workers": workers, "scheduler": scheduler, "progress": progress}
    made = {
        "trial": fingerprint(trial),
        "grid": plan.grid,
        "trials": plan.trials,
        "seed": plan.seed,
        "batch": batch and int(batch),
        "paired": sorted(plan.paired),
        "device": device.type,
        "dtype": str(call.dtype),
        "versions": versions(),
    }
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            return _sweep(call, plan, made, memory, Path(folder, "sweep.nc"), False, **how)
    return _sweep(call, plan, made, memory, Path(out), True, **how)


def _check_signature(trial, plan: Design):
    if not callable(trial):
        raise ValueError(f"trial is {type(trial).__name__}; expected a function")
    takes = inspect.signature(trial)
    given = [*plan.grid, "trials", "seed", *(["device"] if executors.takes_device(trial) else [])]
    try:
        takes.bind(**dict.fromkeys(given))
    except TypeError as error:
        raise ValueError(
            f"the trial function takes {takes}, and is called with ({', '.join(given)}), by name: {error}"
        ) from None


def _sweep(call: Call, plan: Design, made: dict, memory, out: Path, keep: bool, workers, scheduler, progress):
    found = _finished(out, made)
    if found is not None:
        _tidy(out)
        return found
    with Store(out) as store:
        found = _finished(out, made)  # another sweep may have ended while this one waited for the lock
        if found is not None:
            store.remove()
            return found
        sizes = _begin(store, plan, made, call, memory)
        batches = plan.batches(sizes)
        waiting = [b for b in batches if store.get(b) is None]
        failures: dict[int, Failure] = {}
        try:
            with (
                tqdm(
                    total=plan.trials * len(sizes),
                    initial=sum(b.trials for b in batches) - sum(b.trials for b in waiting),
                    disable=not progress,
                    unit="trial",
                ) as bar,
                closing(executors.execute(call, waiting, workers, scheduler)) as work,
            ):
                for done, returned in work:
                    if isinstance(returned, Failure):
                        failures[done.index] = returned
                        bar.set_postfix(failed=len(failures))
                        if progress:
                            bar.write(f"failed: {done}: {returned.error}", file=sys.stderr)
                    else:
                        store.put(done, returned)
                    bar.update(done.trials)
        except BaseException as error:
            if keep:
                error.add_note(f"What was done is kept in {store.folder}; the same call goes on there.")
            raise
        arrays = _join(store, plan, batches, failures)
        failed = [
            {"call": str(b), "first": b.first, "error": failures[b.index].error}
            for b in batches
            if b.index in failures
        ]
        content = result.encode(plan, arrays, _attributes(call, made, sizes, failed))
        store.save(out, content)
        if not failed:
            store.remove()
    if failed:
        _warn(failed, len(batches), keep)
    return result.decode(content)


def _begin(store: Store, plan: Design, made: dict, call: Call, memory: int | None) -> list[int]:
    """The batch size of each cell: from the plan that is stored, or a new one, which is stored."""
    begun = store.plan()
    if begun is not None:
        _refuse(changes(begun, made), store.folder)
        return begun["sizes"]
    size = made["batch"]
    sizes = fitting(call, plan, memory, call.device) if size is None else [size] * len(plan.cells)
    store.begin({**made, "sizes": sizes})
    return sizes


def _finished(out: Path, made: dict):
    """The result in the file, if there is one and nothing in it failed."""
    if not out.exists():
        return None
    found = result.read(out) if out.is_file() else None
    if found is None:
        raise FileExistsError(f"{out} is no result of a sweep; move it away, or give another out")
    _refuse(changes(json.loads(found.attrs["made"]), made), out)
    return None if json.loads(found.attrs["failed"]) else found


def _tidy(out: Path):
    """Remove what a sweep left that was killed between its result and the end."""
    if out.with_name(f"{out.name}.parts").exists():
        with Store(out) as store:
            store.remove()


def changes(then: dict, now: dict) -> list[str]:
    """What differs between two sweeps, a phrase each."""
    found = []
    for name in now:
        before, after = then.get(name), json.loads(json.dumps(now[name]))
        if json.dumps(before) == json.dumps(after):
            continue
        if name == "trial":
            parts = [part for part in {**before, **after} if before.get(part) != after.get(part)]
            found.append(f"the trial function is another, in {' and '.join(parts)}")
        elif isinstance(after, dict) and list(before) == list(after):
            found += [
                f"{'grid of ' if name == 'grid' else ''}{key} was {before[key]}, is {after[key]}"
                for key in after
                if json.dumps(before[key]) != json.dumps(after[key])
            ]
        else:
            found.append(f"{name} was {before}, is {after}")
    return found


def _refuse(differences: list[str], path: Path):
    if differences:
        raise ValueError(
            f"{path} holds a sweep that was made otherwise: {'; '.join(differences)}. Take the change back "
            "to go on with it, give another out for a new one, or remove it"
        )


def _join(store: Store, plan: Design, batches: list[Batch], failures: dict[int, Failure]) -> dict:
    done = [(b, found) for b in batches if b.index not in failures and (found := store.get(b)) is not None]
    for b, found in done[1:]:
        why = result.clash(found, done[0][1])
        if why is not None:
            failures[b.index] = Failure(f"ValueError: {why}")
            store.drop(b)
    if not done:
        index, first = min(failures.items())
        raise RuntimeError(
            f"every batch failed. The first, {batches[index]}: {first.error}\n{first.traceback}"
        )
    return result.joined(plan, [(b, found) for b, found in done if b.index not in failures])


def _attributes(call: Call, made: dict, sizes: list[int], failed: list[dict]) -> dict[str, str]:
    """How the result was made, as text: for readers, and in "made" for the next call of sweep."""
    gpu = call.device.type == "cuda" and torch.cuda.is_available()
    try:
        source = textwrap.dedent(inspect.getsource(call.trial))
    except (OSError, TypeError):  # typed in, or no plain function
        source = ""
    return {
        "sweep": "made by mini_attn.sweep",
        "trial": getattr(call.trial, "__name__", type(call.trial).__name__),
        "source": source,
        "trials": str(made["trials"]),
        "seed": str(made["seed"]),
        "batch": str(sizes[0]) if len(set(sizes)) == 1 else json.dumps(sizes),
        "paired": ", ".join(made["paired"]),
        "device": torch.cuda.get_device_name(call.device) if gpu else call.device.type,
        "versions": ", ".join(f"{name} {version}" for name, version in made["versions"].items()),
        "failed": json.dumps(failed),
        "made": json.dumps(made),
    }


def _warn(failed: list[dict], total: int, keep: bool):
    shown = "\n".join(f"  {f['call']}: {f['error']}" for f in failed[:5])
    more = f"\n  and {len(failed) - 5} more, in attrs['failed']" if len(failed) > 5 else ""
    again = "; the same call tries them again" if keep else ""
    warnings.warn(
        f"{len(failed)} of {total} batches failed, and their results are missing{again}:\n{shown}{more}",
        RuntimeWarning,
        stacklevel=4,
    )
