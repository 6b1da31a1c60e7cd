"""Calling a function for a limited time: what it calls may never end on inputs it was not written for."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

AGAIN = 0.5  # seconds until the call is told once more that its time is up


class _TimeIsUp(BaseException):
    """Raised inside the call, wherever it is; no `except Exception` catches it."""


def within(seconds: float, function: Callable[[], Any]) -> Any:
    """What a function returns, or None if it has not ended after so many seconds.

    A second thread raises an exception in this one, again and again until the call ends: Python ignores an
    exception that arrives in the callback of a weak reference or in a finaliser. Code that catches
    everything goes on, and a call into compiled code ends first.
    """
    caller, calling = threading.get_ident(), threading.Lock()

    def watch():
        wait = seconds
        while not calling.acquire(timeout=wait):
            _raise_in(caller, ctypes.py_object(_TimeIsUp))
            wait = AGAIN

    calling.acquire()
    watcher = threading.Thread(target=watch, daemon=True)
    calls, returned = [watcher.start, function], []
    with _unheard():
        while True:  # once, and once more for each exception that arrives
            try:
                try:
                    returned += [call() for call in calls]
                finally:
                    if calling.locked():
                        calling.release()
                    watcher.join()
                    _raise_in(caller, None)
                return returned[-1] if returned else None
            except _TimeIsUp:
                calls = []


def _raise_in(thread: int, exception: Any) -> None:
    """Has a thread raise an exception where it is, or takes back one that has not arrived yet (None)."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Python reports each exception that it ignores; this one is no one's fault."""
    heard = sys.unraisablehook
    sys.unraisablehook = lambda told: None if told.exc_type is _TimeIsUp else heard(told)
    try:
        yield
    finally:
        sys.unraisablehook = heard
