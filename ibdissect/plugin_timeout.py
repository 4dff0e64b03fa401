"""Plugin functions that do not end by themselves: stopped after a time, or by Ctrl+C, and not called again."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from msgspec import Struct as Record

PATIENCE_S, PATIENCE_OF_RULES_S = 20, 300
"""Seconds that a plugin's function may take for one packet, and a handler of a rule for one event or window."""


class TookTooLong(Exception):
    """A plugin's function did not end."""


class Interrupted(Exception):
    """Ctrl+C ended a plugin's function."""


class NotCalled(Interrupted):
    """A plugin's function is not called any more after Ctrl+C, which is no failure of it."""


class _Stop(BaseException):
    """Raised in a function that does not end, or that Ctrl+C ends; no `except Exception` of its own keeps it."""


class _Call(Record, eq=False):
    """A running function of a plugin."""

    most: int
    seconds: int = 0
    stopped: bool = False


_CALLS: dict[int, _Call] = {}
"""By thread."""
_LOCK = threading.Lock()
_WATCHERS: dict[int, threading.Thread] = {}
"""By process: a fork has none."""
_ENDLESS = set[object]()
"""Functions that did not end, which are not called again."""
_INTERRUPTED = threading.Event()


def end_plugins() -> None:
    """End the plugin's function that runs in this thread, and call none from now on; for signal handlers."""
    _INTERRUPTED.set()
    if threading.get_ident() in _CALLS:
        raise _Stop


def allow_plugins() -> None:
    """Call functions of plugins again after `end_plugins`."""
    _INTERRUPTED.clear()


@contextmanager
def patient(function: Callable[..., Any], most: int | None = None) -> Iterator[None]:
    """Stop a plugin's function that runs for more than `most` seconds, and raise TookTooLong; one that was stopped before is not called.

    Raises Interrupted if `end_plugins` ended it, NotCalled after that.
    """
    thread = threading.get_ident()
    if thread in _CALLS or (getattr(function, "__module__", None) or "").startswith("ibdissect."):
        yield
        return
    seconds = most if most is not None else PATIENCE_S
    code = getattr(function, "__code__", function)
    if _INTERRUPTED.is_set():
        raise NotCalled
    if code in _ENDLESS:
        raise TookTooLong("it did not end on an earlier packet, so it was not called again")
    if os.getpid() not in _WATCHERS:
        _WATCHERS[os.getpid()] = watcher = threading.Thread(target=_watch, name="patience", daemon=True)
        watcher.start()
    call, where = _Call(seconds), ""
    try:
        _CALLS[thread] = call
        yield
    except _Stop as stop:
        where = _line_of(code, stop.__traceback__)
    finally:
        _over(thread)
    if call.stopped:
        _ENDLESS.add(code)
        raise TookTooLong(f"it did not end within {seconds} s")
    if where:
        raise Interrupted(f"Ctrl+C ended it at {where}")


def _over(thread: int) -> None:
    """A call has ended; a _Stop that is under way is raised here, at the latest.

    It is not taken back: PyThreadState_SetAsyncExc(thread, NULL) leaves CPython 3.11 looking for it at each call, and in an endless loop
    if a trace or profile function is set.
    """
    while True:
        try:
            with _LOCK:
                _CALLS.pop(thread, None)
            for _ in range(64):
                pass
            return
        except _Stop:
            continue


def _line_of(code: Any, trace: TracebackType | None) -> str:
    """The file and the line of it that a plugin's function had reached."""
    file, line = getattr(code, "co_filename", "?"), getattr(code, "co_firstlineno", 0)
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == file else line
        trace = trace.tb_next
    return f"{os.path.basename(file)}:{line}"


def _watch() -> None:
    """Count the seconds of running functions. A machine that was suspended does not count, so the clock is not asked."""
    while True:
        time.sleep(1)
        with _LOCK:
            for thread, call in _CALLS.items():
                call.seconds += 1
                if call.seconds >= call.most and not call.stopped:
                    call.stopped = True
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Stop))
