"""Which threads to compute on. Torch's own help with large tensors; on small ones they wait for each other,
and beside other work for the scheduler too. There whole blocks of problems go to threads of their own.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event

import torch

SMALL = 2**17  # entries of a tensor up to which one thread is fastest, and that fit a core's cache
LARGE = 2**22  # entries enough for torch's work on them to outweigh its calls, which threads take by turns
ALIKE = 2**14  # entries of a matrix whose products are alike, to the last bit, on any number of threads
PROC = Path("/proc")


@contextmanager
def one_thread():
    """Let torch compute on one thread, and give it back its own number, which this yields, afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield before
    finally:
        torch.set_num_threads(before)


@contextmanager
def threads_for(data):
    """Let torch compute on the data, in one piece, on as many of its threads as pay, and reset it after."""
    with one_thread() as threads:
        torch.set_num_threads(free_threads(data.entries, threads, data.X.shape[-2:].numel()))
        yield


def free_threads(entries: int, threads: int, matrix: int) -> int:
    """How many of so many threads torch should compute tensors of so many entries on.

    Two and more for SMALL entries and more, of the threads whose cores no other work holds; one where the
    system does not say (it does on Linux). Where digits hang on their number, in products of matrices of more
    entries than ALIKE, all.
    """
    if entries <= SMALL:
        return 1
    if matrix > ALIKE:
        return threads
    try:
        running = int((PROC / "loadavg").read_text().split()[3].split("/")[0])
        own = sum(") R " in task.read_text() for task in PROC.glob("self/task/*/stat"))  # torch's wait awake
    except (OSError, ValueError, IndexError):
        return 1
    return max(1, min(threads - max(0, running - own), 1 + entries // SMALL))


def blocks(count: int, entries: int, room: int = SMALL) -> list[slice]:
    """Cut ``count`` problems of so many entries each into blocks of up to about ``room`` entries, all alike.

    The cut does not depend on the machine, so that neither do the results.
    """
    pieces = max(1, min(count, -(-count * entries // room)))
    ends = [count * k // pieces for k in range(pieces + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]


def each(
    function: Callable,
    parts: Sequence,
    threads: int,
    waiting: Callable[[], None] | None = None,
    halt: Event | None = None,
) -> list:
    """Return [function(part) for part in parts]; to be called within :func:`one_thread`.

    Args:
        function: releases Python's lock most of the time, as torch does.
        threads: how many parts may be computed at once; what torch may use, ``one_thread`` says it.
        waiting: called ten times a second in the meantime, in the thread that called.
        halt: set once a part or the caller has failed; a function that takes long looks at it.

    Raises:
        Exception: the first one that a part raised; parts that had not begun are left out.
    """
    workers = min(len(parts), threads)
    if workers <= 1:
        return [function(part) for part in parts]
    grad = torch.is_grad_enabled()

    def run(part):
        with torch.set_grad_enabled(grad):
            return function(part)

    pool = ThreadPoolExecutor(workers, initializer=partial(torch.set_num_threads, 1))
    try:
        futures = [pool.submit(run, part) for part in parts]
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=0.1, return_when="FIRST_EXCEPTION")
            if waiting is not None:
                waiting()
            for future in done:
                future.result()
        return [future.result() for future in futures]
    except BaseException:
        if halt is not None:
            halt.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
