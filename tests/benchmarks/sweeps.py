"""Sweeps: two processes of one thread each against one, on the same batches, in one run."""

import os
import time

import numpy as np
from measure import seconds

from mini_attn import data, geometry, models, optim, train
from mini_attn.sweep import sweep


def trial(T, steps, *, trials, seed):
    """An experiment, the processor time it took, and who ran it."""
    start = time.process_time()
    tokens = data.random_tokens(6, T, 10, trials=trials, seed=seed)
    model = models.CrossAttention(10, trials=trials)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, progress=False)
    found = geometry.outcome(model.attention(tokens), tokens)
    took = np.full(trials, (time.process_time() - start) / trials)
    return {"outcome": found, "cpu": took, "process": np.full(trials, os.getpid())}


def sweeps(quick):
    """The wall ratio says what this machine gave now; the processor ratio, what two idle cores would.

    On idle cores a process takes as long as its processor time says. So one process needs the sum of its
    batches; two need the larger of their sums, or half of all work together with the caller's, which shares
    the two cores.
    """
    T, steps, trials, batches, repeats = ([8], 20, 20, 4, 1) if quick else ([4, 8], 1000, 500, 6, 3)
    options = {
        "grid": {"T": T, "steps": [steps]},
        "trials": trials * batches,
        "batch": trials,
        "progress": False,
    }
    rows = []
    for workers in (1, 2, 2):  # first calls: imports, and the processes, which stay for the next call
        sweep(trial, **{**options, "grid": {"T": T, "steps": [5]}}, workers=workers)
    for repeat in range(repeats):
        one_wall, one = seconds(lambda: sweep(trial, workers=1, **options))
        before = time.process_time()
        two_wall, two = seconds(lambda: sweep(trial, workers=2, **options))
        caller = time.process_time() - before
        assert (one.outcome == two.outcome).all()
        alone = float(one.cpu.sum())
        shares = [float(two.cpu.where(two.process == p).sum()) for p in np.unique(two.process)]
        both = max(*shares, (sum(shares) + caller) / 2) if len(shares) > 1 else sum(shares) + caller
        rows.append(
            {
                "repeat": repeat,
                "trials": one.outcome.size,
                "one_process_seconds": one_wall,
                "two_processes_seconds": two_wall,
                "times_faster_by_the_clock": one_wall / two_wall,
                "one_process_cpu_seconds": alone,
                "larger_of_two_cpu_seconds": max(shares),
                "caller_cpu_seconds": caller,
                "times_faster_on_idle_cores": alone / both,
            }
        )
    return "Sweeps: two worker processes against one process, same batches, same results", rows
