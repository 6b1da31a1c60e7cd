"""What a sweep leaves on the disk, and how the next one goes on from there."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from mini_attn.sweep import store as module
from mini_attn.sweep import sweep
from mini_attn.sweep.store import Store


def halting(folder: Path):
    """A trial function that writes down its calls, and is interrupted while there is a file `stop`."""
    stop, calls = folder / "stop", folder / "calls"

    def trial(n, *, trials, seed):
        if n == 3 and stop.exists():
            raise KeyboardInterrupt
        with calls.open("a") as file:
            file.write(f"{n}\n")
        return {"x": torch.randn(trials, n), "word": ["yes"] * trials}

    return trial, stop, lambda: calls.read_text().split()


OPTIONS = {"grid": {"n": [1, 2, 3, 4]}, "trials": 10, "batch": 5, "progress": False}


def begun(folder: Path):
    """A sweep that was interrupted after 4 of 8 batches."""
    trial, stop, calls = halting(folder)
    stop.touch()
    with pytest.raises(KeyboardInterrupt) as stopped:
        sweep(trial, out=folder / "a.nc", **OPTIONS)
    stop.unlink()
    return trial, calls, stopped.value


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path):
    trial, calls, error = begun(tmp_path)
    kept = tmp_path / "a.nc.parts"
    assert error.__notes__ == [f"What was done is kept in {kept}; the same call goes on there."]
    assert not (tmp_path / "a.nc").exists()
    result = sweep(trial, out=tmp_path / "a.nc", **OPTIONS)
    assert calls() == ["1", "1", "2", "2", "3", "3", "4", "4"]
    assert result.identical(sweep(trial, **OPTIONS))
    assert not (tmp_path / "a.nc.parts").exists()
    assert sweep(trial, out=tmp_path / "a.nc", **OPTIONS).identical(result)
    assert len(calls()) == 16  # the first call and the one without a file


def test_damaged_and_half_written_batches_are_done_again(tmp_path):
    trial, calls, _ = begun(tmp_path)
    parts = tmp_path / "a.nc.parts"
    whole = (parts / "0.npz").read_bytes()
    (parts / "0.npz").write_bytes(whole[: len(whole) // 2])
    (parts / "1.npz").write_bytes(b"")
    middle = (parts / "2.npz").read_bytes()
    at = middle.index(b"NUMPY") + 130
    (parts / "2.npz").write_bytes(middle[:at] + bytes([middle[at] ^ 255]) + middle[at + 1 :])
    (parts / "3.npz.part").write_bytes(whole)
    result = sweep(trial, out=tmp_path / "a.nc", **OPTIONS)
    assert calls()[4:] == ["1", "1", "2", "3", "3", "4", "4"]
    assert result.identical(sweep(trial, **OPTIONS))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.nc", "calls"]


def other(n, *, trials, seed):
    return {"x": torch.zeros(trials, n)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trial": other}, "the trial function is another, in its code"),
        ({"grid": {"n": [1, 2, 3]}}, r"grid of n was \[1, 2, 3, 4\], is \[1, 2, 3\]"),
        ({"grid": {"n": [1.0, 2, 3, 4]}}, r"is \[1.0, 2, 3, 4\]"),
        ({"grid": {"m": [1], "n": [1]}, "trial": lambda n, m, *, trials, seed: {}}, "grid was .* is .*'m'"),
        ({"trials": 20}, "trials was 10, is 20"),
        ({"seed": 1}, "seed was 0, is 1"),
        ({"batch": 10}, "batch was 5, is 10"),
        ({"batch": None}, "batch was 5, is None"),
        ({"paired": "n"}, r"paired was \[\], is \['n'\]"),
        ({"device": "meta"}, "device was cpu, is meta"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_a_sweep_that_was_made_otherwise_is_refused(tmp_path, change, message, finished):
    trial, _, _ = begun(tmp_path)
    if finished:
        sweep(trial, out=tmp_path / "a.nc", **OPTIONS)
    before = contents(tmp_path)
    holds = rf"{'a.nc' if finished else 'a.nc.parts'} holds a sweep that was made otherwise: (.|\n)*"
    with pytest.raises(ValueError, match=f"{holds}{message}(.|\n)*give another out"):
        sweep(**{"trial": trial, **OPTIONS, **change}, out=tmp_path / "a.nc")
    assert contents(tmp_path) == before


def contents(folder: Path):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_other_versions_and_dtypes_are_refused(tmp_path, monkeypatch):
    trial, _, _ = begun(tmp_path)
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(ValueError, match=r"dtype was torch.float32, is torch.float64"):
            sweep(trial, out=tmp_path / "a.nc", **OPTIONS)
    finally:
        torch.set_default_dtype(torch.float32)
    newer = {**module_versions(), "torch": "9.9", "mini_attn": "2.0+ab"}
    monkeypatch.setattr("mini_attn.sweep.run.versions", lambda: newer)
    with pytest.raises(ValueError, match=r"torch was .*, is 9.9; mini_attn was .*, is 2.0\+ab"):
        sweep(trial, out=tmp_path / "a.nc", **OPTIONS)


def module_versions():
    from mini_attn.sweep.fingerprint import versions

    return versions()


def test_what_is_there_and_is_no_sweep_is_left_alone(tmp_path):
    def asked(name):
        before = contents(tmp_path)
        with pytest.raises(FileExistsError, match="give another out"):
            sweep(other, out=tmp_path / name, **OPTIONS)
        assert contents(tmp_path) == before

    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "empty.nc").touch()
    (tmp_path / "folder").mkdir()
    xr.Dataset({"x": ("t", [1, 2])}).to_netcdf(tmp_path / "weather.nc", engine="scipy")
    (tmp_path / "cut.nc").write_bytes((tmp_path / "weather.nc").read_bytes()[:40])
    (tmp_path / "a.nc.parts").mkdir()
    (tmp_path / "a.nc.parts" / "letter.txt").write_text("mine")
    (tmp_path / "b.nc.parts").write_text("mine")
    for name in ("notes.txt", "empty.nc", "folder", "weather.nc", "cut.nc", "a.nc", "b.nc"):
        asked(name)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*missing"):
        sweep(other, out=tmp_path / "missing" / "a.nc", **OPTIONS)


def test_an_empty_folder_of_parts_is_taken_over(tmp_path):
    (tmp_path / "a.nc.parts").mkdir()
    (tmp_path / "a.nc.parts" / "lock").touch()
    (tmp_path / "a.nc.parts" / "plan.json.part").touch()
    sweep(other, out=tmp_path / "a.nc", **OPTIONS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


def test_a_damaged_plan_is_named(tmp_path):
    trial, _, _ = begun(tmp_path)
    (tmp_path / "a.nc.parts" / "plan.json").write_text("{")
    with pytest.raises(ValueError, match=r"plan.json is damaged; remove"):
        sweep(trial, out=tmp_path / "a.nc", **OPTIONS)


def test_one_sweep_at_a_time_writes_to_a_file(tmp_path):
    def trial(n, *, trials, seed):
        with pytest.raises(RuntimeError, match=r"another sweep is writing to .*a.nc.parts"):
            sweep(trial, out=tmp_path / "a.nc", **OPTIONS)
        sweep(other, out=tmp_path / f"{n}-{seed}.nc", **OPTIONS)
        return other(n, trials=trials, seed=seed)

    sweep(trial, out=tmp_path / "a.nc", **OPTIONS)
    assert not list(tmp_path.glob("*.parts"))


def test_who_waited_for_the_lock_finds_what_the_other_wrote(tmp_path, monkeypatch):
    expected = sweep(other, out=tmp_path / "a.nc", **OPTIONS)
    hidden = (tmp_path / "a.nc").rename(tmp_path / "b.nc")
    enter = Store.__enter__

    def late(self):
        hidden.rename(tmp_path / "a.nc")
        return enter(self)

    monkeypatch.setattr(Store, "__enter__", late)
    monkeypatch.setattr(Store, "put", None)  # nothing is computed
    assert sweep(other, out=tmp_path / "a.nc", **OPTIONS).identical(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


def test_a_folder_that_goes_away_while_it_is_locked_is_made_again(tmp_path, monkeypatch):
    locked, gone = module._locked, []

    def lock(file):
        if not gone:
            gone.append(os.rename(tmp_path / "a.nc.parts", tmp_path / "gone"))
        return locked(file)

    monkeypatch.setattr(module, "_locked", lock)
    sweep(other, out=tmp_path / "a.nc", **OPTIONS)
    assert (tmp_path / "a.nc").exists()
    assert gone


@pytest.mark.skipif(os.name != "posix", reason="limits of files are POSIX's")
@pytest.mark.parametrize("at", ["batch", "result"])
def test_a_full_disk_ends_the_sweep_and_harms_nothing(tmp_path, at):
    import resource

    def trial(n, *, trials, seed):
        return {"x": torch.randn(trials, 40, dtype=torch.float64)}

    options = {**OPTIONS, "grid": {"n": list(range(8))}}
    expected = sweep(trial, **options)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # a batch takes 1.9 kB, the plan 1 kB, the result 27 kB
    resource.setrlimit(resource.RLIMIT_FSIZE, ({"batch": 1500, "result": 20_000}[at], before[1]))
    try:
        with pytest.raises(OSError, match="too large") as full:
            sweep(trial, out=tmp_path / "a.nc", **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    if at == "batch":
        assert "the same call goes on there" in full.value.__notes__[0]
    kept = sorted(path.name for path in (tmp_path / "a.nc.parts").iterdir())
    assert kept == sorted(["lock", "plan.json", *(f"{i}.npz" for i in range(16 if at == "result" else 0))])
    assert sweep(trial, out=tmp_path / "a.nc", **options).identical(expected)


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        module.write(tmp_path / "x", b"new", tmp_path / "x.part")
    assert (tmp_path / "x").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


EXPERIMENT = """
import time
import torch

def trial(n, p, *, trials, seed):
    time.sleep(0.002)
    return {"x": torch.randn(trials, n) ** p, "word": ["even" if n in {2, 4} else "odd"] * trials}

OPTIONS = {"grid": {"n": [1, 2, 3], "p": [1, 2]}, "trials": 8, "batch": 2, "progress": False}
"""

KILLER = """
import os, random, signal, sys, time
from pathlib import Path
from mini_attn.sweep import sweep
unused = {"xarray", "pandas", "joblib", "cloudpickle", "dask", "distributed"} & set(sys.modules)
assert not unused, unused
import xarray
exec(Path(sys.argv[1]).read_text())

out, draw = Path(sys.argv[2]), random.Random(5)
for name in ("expected.nc", "timed.nc"):
    start = time.perf_counter()
    sweep(trial, out=out.with_name(name), **OPTIONS)
whole = time.perf_counter() - start
expected = out.with_name("expected.nc").read_bytes()
for kill in range(20):
    child = os.fork()
    if not child:
        sweep(trial, out=out, **OPTIONS)
        os._exit(0)
    time.sleep(draw.uniform(0, 0.4 * whole))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    print(os.WIFSIGNALED(status), len(list(Path(f"{out}.parts").glob("*.npz"))), flush=True)
    if out.exists():
        assert out.read_bytes() == expected
        out.unlink()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs fork")
def test_twenty_kills_change_no_bit(tmp_path):
    (tmp_path / "experiment.py").write_text(EXPERIMENT)
    scope = {"__name__": "experiment"}
    exec(EXPERIMENT, scope)
    done = subprocess.run(
        [sys.executable, "-c", KILLER, tmp_path / "experiment.py", tmp_path / "a.nc"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )
    assert done.returncode == 0, done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    assert len(said) == 20
    assert sum(killed == "True" for killed, _ in said) >= 10  # these were under way
    assert len({kept for _, kept in said}) >= 4  # and not all at one place
    result = sweep(scope["trial"], out=tmp_path / "a.nc", **scope["OPTIONS"])  # another process goes on
    assert result.identical(sweep(scope["trial"], **scope["OPTIONS"]))
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "expected.nc").read_bytes()
    assert not list(tmp_path.glob("*.parts"))


@pytest.mark.parametrize("at", range(12))
def test_a_sweep_that_dies_while_it_tidies_up_is_done(tmp_path, monkeypatch, at):
    class Killed(BaseException):
        pass

    calls, unlink = iter(range(100)), Path.unlink

    def killing(path, missing_ok=False):
        if path.suffix != ".part" and next(calls) == at:
            raise Killed
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killing)
        try:
            sweep(other, out=tmp_path / "a.nc", **OPTIONS)
        except Killed:
            assert at < 9  # 8 batches and the plan
    monkeypatch.setattr(Store, "put", None)
    sweep(other, out=tmp_path / "a.nc", **OPTIONS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


def test_arrays_beyond_what_a_file_holds_are_refused(monkeypatch):
    monkeypatch.setattr("mini_attn.sweep.result.INT32", 300)
    with pytest.raises(ValueError, match="a netCDF file holds arrays up to 2 GiB"):
        sweep(other, **OPTIONS)
    assert np.float32(0).nbytes * 40 < 300 < np.float32(0).nbytes * 160
