"""Where the work is done changes nothing, and workers that die cost nothing."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
import torch

from mini_attn.sweep import executors, sweep
from mini_attn.sweep.executors import Call
from mini_attn.sweep.fingerprint import versions
from mini_attn.sweep.store import Store

SCALE = 3.0


def drawn(n, *, trials, seed):
    torch.set_num_threads(1)
    x = torch.randn(trials, 20, n)
    return {"x": SCALE * (x @ x.mT).exp().sum((1, 2)), "process": [os.getpid()] * trials}


def deadly(n, *, trials, seed):
    if n == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return drawn(n, trials=trials, seed=seed)


def processes(result):
    return set(result.process.values.ravel().tolist()) - {""}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # loky's, at a death
def test_processes_give_what_this_one_gives_and_may_die(tmp_path, monkeypatch):
    options = {"grid": {"n": [1, 2, 3]}, "trials": 20, "batch": 5, "progress": False}
    here = sweep(drawn, workers=1, out=tmp_path / "here.nc", **options)
    assert processes(here) == {os.getpid()}
    monkeypatch.setattr(executors, "WORTH_WORKERS", -1.0)  # as if much remained after the second batch
    there = sweep(drawn, workers=None, **options)
    assert os.getpid() in processes(there)
    assert len(processes(there)) >= 2
    assert there.x.equals(here.x)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError, match="no space"):  # what is under way is dropped without a word
            sweep(drawn, workers=2, **options)
    options["trials"] = 5
    with pytest.warns(RuntimeWarning, match="1 of 3 batches failed(.|\n)*n=3(.|\n)*process was killed"):
        left = sweep(deadly, workers=2, **options)
    here = here.isel(trial=slice(5))
    assert os.getpid() not in processes(left)
    assert left.x.sel(n=[1, 2]).equals(here.x.sel(n=[1, 2]))
    assert left.x.sel(n=3).isnull().all()


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.mark.slow
def test_a_cluster_gives_what_this_process_gives_though_a_worker_dies(cluster, tmp_path):
    victim, calls = tmp_path / "victim", tmp_path / "calls"

    def trial(n, *, trials, seed):
        import time

        with calls.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if n == 2 and not victim.exists():  # the first to come here waits for its end
            with (tmp_path / "part").open("w") as file:
                file.write(str(os.getpid()))
            os.replace(tmp_path / "part", victim)
            time.sleep(600)
        return {"x": drawn(n, trials=trials, seed=seed)["x"]}

    def kill():
        while not victim.exists():
            ended.wait(0.01)
        os.kill(int(victim.read_text()), signal.SIGKILL)

    ended = threading.Event()
    killer = threading.Thread(target=kill)
    killer.start()
    options = {"grid": {"n": [1, 2, 3]}, "trials": 20, "batch": 5, "progress": False}
    there = sweep(trial, scheduler=cluster.scheduler_address, **options)
    killer.join()
    pids = calls.read_text().split()
    assert len(pids) > 12  # what the dead one had under way was done again
    assert str(os.getpid()) not in pids
    assert there.equals(sweep(trial, workers=1, **options))


@pytest.mark.slow
def test_a_client_serves_as_well_and_is_left_open(cluster):
    from distributed import Client

    def trial(n, *, trials, seed):
        if n == 2:
            raise ValueError("no such n")
        return drawn(n, trials=trials, seed=seed)

    with Client(cluster, set_as_default=False) as client:
        with pytest.warns(RuntimeWarning, match="ValueError: no such n"):
            result = sweep(trial, {"n": [1, 2]}, trials=5, scheduler=client, progress=False)
        assert client.status == "running"
    assert result.x.notnull().sum() == 5


@pytest.mark.slow
def test_a_cluster_that_goes_away_ends_the_sweep(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "HEARTBEAT", 0.2)
    begun = tmp_path / "begun"

    def trial(n, *, trials, seed):
        import time

        begun.touch()
        time.sleep(30)

    def leave():
        while not begun.exists():
            ended.wait(0.01)
        cluster.close()

    ended = threading.Event()
    leaver = threading.Thread(target=leave)
    leaver.start()
    options = {"trials": 5, "scheduler": cluster.scheduler_address, "progress": False}
    with pytest.raises(OSError, match="the Dask cluster is gone") as gone:
        sweep(trial, {"n": [1, 2, 3]}, out=tmp_path / "a.nc", **options)
    leaver.join()
    assert "the same call goes on there" in gone.value.__notes__[0]


def test_what_cannot_travel_is_named(tmp_path):
    with (
        (tmp_path / "x").open("w") as file,
        pytest.raises(TypeError, match="cannot be sent to another process"),
    ):
        sweep(lambda n, *, trials, seed: file, {"n": [1, 2]}, trials=1, workers=2, progress=False)


def test_a_worker_of_another_version_says_so(monkeypatch):
    packed = pickle.dumps(Call(drawn, torch.device("cpu")))
    monkeypatch.setattr(executors, "versions", lambda: {**versions(), "torch": "1.0"})
    with pytest.raises(RuntimeError, match=r"this worker has other versions than who asks: torch 1.0, not 2"):
        pickle.loads(packed)


def test_a_call_travels_with_what_its_module_holds_and_the_default_dtype(monkeypatch):
    torch.set_default_dtype(torch.float64)
    try:
        packed = pickle.dumps(Call(drawn, torch.device("cpu")))
    finally:
        torch.set_default_dtype(torch.float32)
    monkeypatch.setitem(globals(), "SCALE", 0.0)  # there, this module may be another, or missing
    call = pickle.loads(packed)
    from mini_attn.sweep.design import Batch

    found = call(Batch(0, {"n": 2}, (0,), 0, 4, 1))
    assert found["x"].dtype == "float64"
    assert (found["x"] > 0).all()
    assert torch.get_default_dtype() == torch.float32
    assert pickle.loads(pickle.dumps(call)).dtype == torch.float64


@pytest.mark.slow
def test_workers_end_when_their_caller_is_killed(tmp_path):
    """Also in the midst of a batch: nobody is left to wait for it."""
    script = tmp_path / "caller.py"
    script.write_text(
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from mini_attn.sweep import sweep\n"
        "def trial(n, *, trials, seed):\n"
        "    Path(sys.argv[1], str(os.getpid())).touch()\n"
        "    time.sleep(300)\n"
        "sweep(trial, {'n': [1, 2, 3]}, trials=1, workers=2, progress=False)\n".replace(
            "sys.argv[1]", repr(str(tmp_path / "pids"))
        )
    )
    (tmp_path / "pids").mkdir()
    caller = subprocess.Popen([sys.executable, str(script)])
    until(lambda: len(list((tmp_path / "pids").iterdir())) == 2)
    caller.kill()
    caller.wait()
    workers = [int(path.name) for path in (tmp_path / "pids").iterdir()]
    until(lambda: not any(map(psutil.pid_exists, workers)))


def until(done, seconds=60):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)
