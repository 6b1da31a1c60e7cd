"""Threads and blocks: what the library chooses for itself, against the best of four settings made by hand."""

import itertools
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from statistics import median
from unittest.mock import patch

import torch
from measure import seconds
from training import LR, _model

from mini_attn import data, models, optim, paths, svm, train

ROW = 8.0  # seconds for a row of the table, whose settings are timed by turns: three times each,
MOST = 9  # up to nine, and beside other work always nine: there the median of five was a matter of luck
ONE = 0.1  # seconds for one timing, of several calls where they are short: beside other work, one may wait
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
            alone = name.startswith("1 thread")
            stack.enter_context(patch("mini_attn.svm.dispatch.blocks", lambda *_: [slice(None)]))
            for room in ("steps", "tracing"):
                stack.enter_context(patch(f"mini_attn.{room}.trial_blocks", lambda *_: [slice(None)]))
            for room in ("train", "tracing"):
                stack.enter_context(patch(f"mini_attn.{room}.threads_for", nullcontext))
            stack.enter_context(patch("mini_attn.train.SMALL", 2**62 if alone else 0))
            stack.enter_context(patch("mini_attn.train.free_threads", lambda _, threads, __: threads))
            if not alone:
                stack.enter_context(patch("mini_attn.svm.dispatch.one_thread", nullcontext))
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _step(kind, tokens, steps, ridge=0.0):
    model = _model(kind, tokens.X.shape[-1], tokens.trials[0])
    optimizer = optim.NormalizedGD(model.parameters(), LR[kind], batch_dims=1)
    train.fit(model, tokens, optimizer, steps, every=steps, progress=False, ridge=ridge)


def _path(tokens):
    model = models.CrossAttention(tokens.X.shape[-1], trials=tokens.trials)
    paths.regularization_path(model, tokens, (0.5, 1.0, 2.0, 4.0))


def _work(quick):
    """What is timed: its name, the sizes of its data, how many trials, and a function of what is given."""
    usual, large = {"n": 6, "T": 8, "d": 10}, {"n": 16, "T": 32, "d": 64}
    for kind in LR:
        for trials in (1,) if quick else (1, 10, 100, 400, 10_000):
            steps = 3 if quick else max(100, 300_000 // (trials + 100))  # long enough to be timed
            yield f"{kind}, compiled", usual, trials, steps, partial(_step, kind, steps=steps)
    for trials in (1,) if quick else (1, 10, 100, 400, 10_000):
        steps = 3 if quick else max(50, 100_000 // (trials + 500))
        yield "W, ridge", usual, trials, steps, partial(_step, "W", steps=steps, ridge=1e-9)
    for trials in (1,) if quick else (1, 8, 64):
        steps = 3 if quick else max(20, 2000 // (trials + 5))
        yield "W, large", large, trials, steps, partial(_step, "W", steps=steps)
    for trials in (1,) if quick else (1, 10, 100):
        yield "path of W", usual, trials, 1, _path
    for norm in ("fro", "nuc"):
        for trials in (1,) if quick else (1, 10, 100, 1000):
            yield f"SVM, {norm}", usual, trials, 1, partial(svm.solve, norm=norm, throw=False)


def _given(name, tokens):
    """What the timed function is given."""
    return svm.attention_problem(tokens.X, tokens.z, tokens.optimal) if name.startswith("SVM") else tokens


def _several(function, given, calls):
    for _ in range(calls):
        function(given)


def threads(quick):
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count())
    try:
        return _rows(quick)
    finally:
        torch.set_num_threads(before)


def _rows(quick):
    rows = []
    for busy in (1,) if quick else (0, os.cpu_count()):
        for name, sizes, trials, steps, function in _work(quick):
            given = _given(name, data.random_tokens(**sizes, trials=trials, seed=0))
            times = {setting: [] for setting in ("chosen", *BY_HAND)}
            function(given)  # what is loaded once
            with _beside(busy):
                first = seconds(function, given)[0]
                calls = 1 if quick else max(1, round(ONE / first))
                fit = MOST if busy else round(ROW / (first * calls * len(times)))
                repeats = 1 if quick else min(max(3, fit), MOST)
                for _ in range(repeats):
                    for setting, taken in times.items():
                        with _setting(setting):
                            taken.append(seconds(_several, function, given, calls)[0] / calls / steps)
            best = min(BY_HAND, key=lambda setting: median(times[setting]))
            row = {"work": name, "busy": busy, "trials": trials}
            row["chosen_us_a_trial"] = 1e6 * median(times["chosen"]) / trials
            row["best_us_a_trial"] = 1e6 * median(times[best]) / trials
            row["chosen_by_best"] = median(a / b for a, b in zip(times["chosen"], times[best], strict=True))
            rows.append(row | {"best": best, "repeats": repeats})
    return (
        "Threads and blocks: a training step, a path of four radii, an SVM, as chosen and by the best of "
        "four settings; busy processes",
        rows,
    )
