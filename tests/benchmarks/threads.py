"""Threads and blocks: what `fit` chooses for itself, against the best of four settings made by hand."""

import itertools
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from statistics import median
from unittest.mock import patch

import torch
from measure import seconds
from training import LR, _model

from mini_attn import data, optim, train

BY_HAND = ("1 thread", "all threads", "1 thread, one block", "all threads, one block")


@contextmanager
def _beside(processes):
    """Other work: so many processes that never rest, one to a core where the system can bind them.

    Unbound, three on two cores share them by turns of a fifth of a second, and a timing by luck.
    """
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    if hasattr(os, "sched_setaffinity"):
        for process, core in zip(running, itertools.cycle(sorted(os.sched_getaffinity(0))), strict=False):
            os.sched_setaffinity(process.pid, {core})
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextmanager
def _setting(name):
    """Compute as `fit` chooses, or as a user would set it by hand."""
    before = torch.get_num_threads()
    with ExitStack() as stack:
        if name.startswith("1 thread"):
            torch.set_num_threads(1)
        if name.endswith("one block"):
            stack.enter_context(
                patch("mini_attn.steps.trial_blocks", lambda model, data, room=0: [slice(None)])
            )
            stack.enter_context(patch("mini_attn.train.SMALL", 2**62 if name.startswith("1 thread") else 0))
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _step(kind, tokens, steps):
    model = _model(kind, tokens.X.shape[-1], tokens.trials[0])
    optimizer = optim.NormalizedGD(model.parameters(), LR[kind], batch_dims=1)
    return seconds(lambda: train.fit(model, tokens, optimizer, steps, every=steps, progress=False))[0] / steps


def threads(quick):
    repeats, rows = (1, []) if quick else (7, [])
    for busy in (0, os.cpu_count()):
        for kind in LR:
            for trials in (1,) if quick else (1, 10, 100, 400, 1000, 10_000):
                tokens = data.random_tokens(n=6, T=8, d=10, trials=trials, seed=0)
                steps = 3 if quick else max(100, 300_000 // (trials + 100))  # long enough to be timed
                times = {name: [] for name in ("chosen", *BY_HAND)}
                with _beside(busy):
                    for _ in range(repeats):
                        for name, taken in times.items():
                            with _setting(name):
                                taken.append(_step(kind, tokens, steps))
                best = min(BY_HAND, key=lambda name: median(times[name]))
                row = {"weights": kind, "busy": busy, "trials": trials}
                row["chosen_us_a_trial"] = 1e6 * median(times["chosen"]) / trials
                row["best_us_a_trial"] = 1e6 * median(times[best]) / trials
                row["chosen_by_best"] = median(
                    a / b for a, b in zip(times["chosen"], times[best], strict=True)
                )
                rows.append(row | {"best": best, "repeats": repeats})
    return (
        "Threads and blocks: a training step, as chosen and by the best of four settings; busy processes",
        rows,
    )
