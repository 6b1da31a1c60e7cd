"""Calling a function for a limited time: what it calls may never end on inputs it was not written for."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any


class _TimeIsUp(BaseException):
    """Raised inside the call, wherever it is; no `except Exception` catches it."""


def within(seconds: float, function: Callable[[], Any]) -> Any:
    """What a function returns, or None if it has not ended after so many seconds.

    A second thread raises an exception in this one. Code that catches everything goes on, and a call into
    compiled code ends first.
    """
    lock, state, caller = threading.Lock(), {"over": False, "raised": False}, threading.get_ident()

    def stop():
        with lock:
            if not state["over"]:
                state["raised"] = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(caller), ctypes.py_object(_TimeIsUp)
                )

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        result = function()
        with lock:
            state["over"] = True
        for _ in range(1000):  # an exception that was just raised arrives here
            pass
        return result
    except _TimeIsUp:
        return None
    finally:
        timer.cancel()
