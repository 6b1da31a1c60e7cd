"""Trying a function on one input: its value or its error, and whatever else happened on the way."""

from __future__ import annotations

import contextlib
import io
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from course.check.values import fresh, unchanged

ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}  # as numpy begins

_UNHEARD = threading.Lock()


class NotAttempted(Exception):
    """Raised by `todo()`: the learner has not written this function yet."""


@dataclass
class Outcome:
    """What came of one call: a value or an error, and what else happened on the way."""

    value: Any = None
    error: BaseException | None = None
    changed: list[str] = field(default_factory=list)
    printed: str = ""
    warned: str = ""


class _FirstLines(io.StringIO):
    """What a checked function prints: its beginning is kept, a flood costs no memory."""

    def write(self, text: str) -> int:
        super().write(text[: max(0, 400 - self.tell())])
        return len(text)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Without what compiled code writes to file descriptor 2, past Python: LAPACK complains there of inf and
    nan, which a search for a pattern brings about."""
    if not _UNHEARD.acquire(blocking=False):  # another thread put descriptor 2 away, and puts it back
        yield
        return
    with contextlib.ExitStack() as back:
        back.callback(_UNHEARD.release)
        with contextlib.suppress(OSError):  # there is no descriptor 2, or none left
            nowhere = os.open(os.devnull, os.O_WRONLY)
            back.callback(os.close, nowhere)
            kept = os.dup(2)
            back.callback(os.close, kept)
            os.dup2(nowhere, 2)
            back.callback(os.dup2, kept, 2)
        yield


def run(function: Callable, arguments: tuple, names: list[str]) -> Outcome:
    """Call a function on copies of the inputs and note everything that a learner may want to know."""
    mine, outcome, output = fresh(arguments), Outcome(), _FirstLines()
    with (
        np.errstate(**ERRORS),  # a notebook may have set others, with which a reference would stop too
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(_FirstLines()),
    ):
        warnings.simplefilter("always")
        try:
            outcome.value = function(*mine)
        except (Exception, SystemExit) as error:
            outcome.error = error
    pairs = zip(names, arguments, mine, strict=False)
    outcome.changed = [name for name, before, after in pairs if not unchanged(before, after)]
    outcome.printed = output.getvalue().strip()
    outcome.warned = str(caught[0].message) if caught else ""
    return outcome
