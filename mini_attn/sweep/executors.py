"""Where batches are computed: here, in processes of this machine, or on a Dask cluster."""

import os
import random
import sys
import threading
import time
import traceback
import warnings
from asyncio import CancelledError
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from inspect import signature
from queue import Empty, SimpleQueue

import numpy as np
import torch

from mini_attn.sweep.design import Batch
from mini_attn.sweep.fingerprint import is_own, versions
from mini_attn.sweep.result import outputs

WORTH_WORKERS = 20.0  # seconds of remaining work from which on the start of processes pays
GONE = "the Dask cluster is gone, and with it what was under way; start another one"
HEARTBEAT = 10.0  # seconds without news after which the cluster is looked at


@dataclass(frozen=True)
class Failure:
    """Why a batch has no result: one line, and all of it."""

    error: str
    traceback: str = ""


class Call:
    """The trial function, ready to travel: called with a batch, it returns its outputs or a Failure.

    It travels as code, not as a name, so that the other side needs no file of it.
    """

    def __init__(self, trial, device: torch.device):
        self.trial, self.device, self._packed = trial, device, None
        self.dtype = torch.get_default_dtype()  # a new process has torch's own

    def __getstate__(self):
        return {"packed": self.pack(), "device": self.device, "dtype": self.dtype, "versions": versions()}

    def __setstate__(self, state):
        import cloudpickle

        here = versions()
        if state["versions"] != here:
            said = [f"{k} {here[k]}, not {v}" for k, v in state["versions"].items() if v != here[k]]
            raise RuntimeError(f"this worker has other versions than who asks: {', '.join(said)}")
        self.device, self.dtype = state["device"], state["dtype"]
        self.trial, self._packed = cloudpickle.loads(state["packed"]), state["packed"]

    def pack(self) -> bytes:
        """The trial function, pickled.

        Raises:
            TypeError: it cannot be.
        """
        if self._packed is None:
            self._packed = self._pickled()
        return self._packed

    def _pickled(self) -> bytes:
        import cloudpickle

        module = sys.modules.get(getattr(self.trial, "__module__", None) or "")
        by_value = module is not None and module.__name__ != "__main__" and is_own(module.__name__)
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        try:
            return cloudpickle.dumps(self.trial)
        except Exception as error:
            raise TypeError(
                f"the trial function cannot be sent to another process ({error}); let it make what it needs "
                "itself, or use workers=1"
            ) from error
        finally:
            if by_value:
                cloudpickle.unregister_pickle_by_value(module)

    def __call__(self, batch: Batch) -> dict[str, np.ndarray] | Failure:
        more = {"device": self.device} if takes_device(self.trial) else {}
        try:
            with _alone(batch.seed, self.device, self.dtype):
                return outputs(self.trial(**batch.cell, trials=batch.trials, seed=batch.seed, **more), batch)
        except (Exception, SystemExit) as error:
            return Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


def takes_device(trial) -> bool:
    """Whether the trial function asks to be told the device."""
    parameters = signature(trial).parameters.values()
    return any(p.name == "device" or p.kind is p.VAR_KEYWORD for p in parameters)


@contextmanager
def _alone(seed: int, device: torch.device, dtype: torch.dtype):
    """One thread, the caller's default dtype, and global random numbers that depend on the seed alone."""
    threads, default, states = torch.get_num_threads(), torch.get_default_dtype(), random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002, as below: trial functions may use the old generator
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            torch.set_num_threads(1)
            torch.set_default_dtype(dtype)
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            yield
        finally:
            torch.set_num_threads(threads)
            torch.set_default_dtype(default)
            random.setstate(states)
            np.random.set_state(numpy_state)  # noqa: NPY002


def execute(
    call: Call, batches: list[Batch], workers: int | None, scheduler
) -> Iterator[tuple[Batch, object]]:
    """Compute the batches, in any order: (batch, what ``call`` returned)."""
    if scheduler is not None:
        yield from _cluster(call, batches, scheduler)
    elif workers == 1 or len(batches) < 2:
        yield from ((batch, call(batch)) for batch in batches)
    elif workers is not None:
        yield from _local(call, batches, workers)
    else:
        yield from _as_it_pays(call, batches)


def _as_it_pays(call: Call, batches: list[Batch]):
    """One after the other, until what remains would take so long that processes pay.

    The first batch says nothing: it loads and warms up what the others use.
    """
    from joblib import cpu_count

    for done, batch in enumerate(batches, start=1):
        start = time.perf_counter()
        yield batch, call(batch)
        rest = (time.perf_counter() - start) * (len(batches) - done)
        if done > 1 and rest > WORTH_WORKERS and call.device.type == "cpu" and cpu_count() > 1:
            yield from _local(call, batches[done:], -1)
            return


def _local(call: Call, batches: list[Batch], workers: int):
    """In ``workers`` processes of one thread each. One that dies costs the batch that kills it, no other."""
    from joblib import Parallel, delayed, parallel_config

    call.pack()
    sent: dict[int, Batch] = {}
    waiting = iter(batches)

    def tasks():
        for batch in waiting:
            sent[batch.index] = batch
            yield delayed(_numbered)(call, batch)

    options = {"batch_size": 1, "max_nbytes": None}
    while True:
        try:
            with parallel_config("loky", inner_max_num_threads=1):
                results = Parallel(workers, return_as="generator_unordered", **options)(tasks())
            try:
                for index, found in results:
                    yield sent.pop(index), found
            finally:
                with warnings.catch_warnings():  # who ends a sweep early knows that some work is lost
                    warnings.simplefilter("ignore")
                    results.close()
            return
        except BrokenProcessPool:  # one of those that were sent: find out which
            for batch in list(sent.values()):
                try:
                    with parallel_config("loky", inner_max_num_threads=1):
                        ((_, found),) = Parallel(2, **options)([delayed(_numbered)(call, batch)])
                except BrokenProcessPool:
                    found = Failure("its process was killed, perhaps for want of memory")
                yield sent.pop(batch.index), found


def _numbered(call: Call, batch: Batch):
    _end_with_the_caller()
    return batch.index, call(batch)


@cache
def _end_with_the_caller() -> None:
    """See to it that this process ends when its caller is killed, and not when its batch is done."""
    caller = os.getppid()

    def watch():
        while os.getppid() == caller:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _cluster(call: Call, batches: list[Batch], scheduler):
    """On a Dask cluster. What a dying worker had under way, Dask gives to another."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError('scheduler= needs Dask: pip install "mini_attn[cluster]"') from None

    call.pack()
    own = not isinstance(scheduler, Client)
    client = Client(scheduler, set_as_default=False) if own else scheduler
    futures, ended = {}, SimpleQueue()
    try:
        for batch in batches:
            future = client.submit(call, batch, pure=False)
            futures[future] = batch
            future.add_done_callback(ended.put)
        while futures:
            try:
                future = ended.get(timeout=HEARTBEAT)
            except Empty:
                if client.status == "running":
                    continue
                raise ConnectionError(GONE) from None  # Dask itself would wait for ever
            yield futures.pop(future), _arrived(future)
            future.release()
    finally:
        if client.status == "running":
            client.cancel(list(futures))
        if own:
            client.close()


def _arrived(future) -> dict[str, np.ndarray] | Failure:
    """What came of a batch. The call keeps its own errors; the rest is Dask's."""
    if future.status == "error":  # as when a worker could not read it, or several died of it
        error = future.exception()
        return Failure(f"{type(error).__name__}: {error}")
    try:
        return future.result()
    except (Exception, CancelledError) as error:
        raise ConnectionError(GONE) from error
