"""Failures of code on a capture, with their frames. A check goes on and reports them; outside a check each is a warning."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar

from msgspec import Struct as Record

from ibdissect.plugin_timeout import Interrupted, NotCalled, patient
from ibdissect.shown_urls import without_secrets

NAMED = 8
"""Failures that an error message lists individually."""
MOST = 64
"""Most distinct failures that are kept; further ones are only counted."""
LONGEST = 1000
"""Characters of an exception's text that are reported."""
VALUE = r"""(?ix)
    b'(?:[^'\\]|\\.)*' | b"(?:[^"\\]|\\.)*" | (?:\\x[\da-f]{2})+ | \[\s*[\da-fx]+(?:[\s,]+[\da-fx]+)+\s*\] |
    \(\s*[\da-fx]+(?:[\s,]+[\da-fx]+){2,}\s*\) |
    \b0x[\da-f_]+\b | \b(?=[a-z]*\d)[\da-fx](?:[_,:]?[\da-fx]){4,}\b | \b[a-f]{8,}\b | \b[\da-f]{1,8}(?:[\s,:-]+[\da-f]{1,8}){3,}\b"""
"""Parts of an exception's text that may reveal a key from a packet: bytes, escapes, lists of numbers or at least four in a row, numbers of
five or more digits, and of eight or more that are all letters (`decade` is a word)."""


class Failure(Record, eq=False):
    who: str
    frames: str
    """Text that says where it happened first."""
    how: str
    count: int = 1

    def __str__(self) -> str:
        more = f" (and {self.count - 1} more times)" if self.count > 1 else ""
        return f"{self.who} failed{self.frames}{more}: {self.how}"


class Failures:
    """Failures in the check of one capture. If there are any, the report is incomplete and the exit status is 2."""

    def __init__(self, *, show_keys: bool = False) -> None:
        self.show_keys = show_keys
        self.window = (0, 0)
        """First and last frame of the current window; zeros before the first and after the last window."""
        self.ended = False
        """Whether the last window was checked."""
        self.found: dict[tuple[str, str], Failure] = {}
        self.others = 0

    def __bool__(self) -> bool:
        return bool(self.found)

    def add(self, who: str, error: Exception, frame: int | None = None) -> None:
        """Record an exception, raised on a frame or somewhere in the current window."""
        if isinstance(error, NotCalled):
            return
        how = error_text(error, show_keys=self.show_keys)
        if not isinstance(error, Interrupted):  # its text says where
            how += f" ({_place(error.__traceback__)})"
        known = self.found.get((who, _kind(error)))
        if known is not None:
            known.count += 1
        elif len(self.found) >= MOST:
            self.others += 1
        else:
            self.found[who, _kind(error)] = Failure(who, self._frames(frame), how)

    def text(self) -> str:
        """All failures in one line; the first ones in full."""
        failures = [str(failure) for failure in self.found.values()]
        left = len(failures) - NAMED + self.others
        return "; ".join(failures[:NAMED]) + (f"; and {left} more failures" if left > 0 else "")

    def _frames(self, frame: int | None) -> str:
        first, last = self.window
        if frame or first == last > 0:
            return f" in frame {frame or first}"
        return f" in frames {first} to {last}" if first else " at the end of the capture" * self.ended


def error_text(error: BaseException, *, show_keys: bool = False) -> str:
    """The kind and text of an exception in one line, unless keys are shown without what may be one."""
    try:
        text = without_secrets(" ".join(str(error).split()))
    except Exception:  # plugin code
        text = "its text cannot be read"
    text = text if show_keys else re.sub(VALUE, "#", text)
    return f"{type(error).__name__}: {text[:LONGEST]}"


def _kind(error: Exception) -> str:
    return f"{type(error).__name__} {_place(error.__traceback__)}"


def _place(trace: TracebackType | None) -> str:
    """File and line that raised the exception."""
    if trace is None:
        return "no place known"
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"


_COLLECTED: ContextVar[Failures | None] = ContextVar("failures", default=None)
"""Where failures of plugin functions go; None outside a check."""
_WARNED: set[tuple[object, type[Exception]]] = set()
T = TypeVar("T")


@contextmanager
def collected(failures: Failures) -> Iterator[Failures]:
    """Within this context, failures of plugin functions in this thread go to `failures`."""
    token = _COLLECTED.set(failures)
    try:
        yield failures
    finally:
        _COLLECTED.reset(token)


class PluginWarning(UserWarning):
    """A plugin function raised an exception on something in a capture."""


@contextmanager
def handed_over() -> Iterator[list[str]]:
    """Within this context, warnings about plugin functions go to the list instead: another process prints them (`tell`)."""
    found: list[str] = []
    show = warnings.showwarning

    def keep(message: Warning | str, category: type[Warning], *others: Any, **named: Any) -> None:
        if issubclass(category, PluginWarning):
            found.append(str(message))
        else:
            show(message, category, *others, **named)

    warnings.showwarning = keep
    try:
        yield found
    finally:
        warnings.showwarning = show


def tell(found: Iterable[str]) -> None:
    """Warn of failures of plugin functions in another process, of each once."""
    for text in found:
        warnings.warn(text, PluginWarning, stacklevel=2)


def guarded(function: Callable[..., Iterable[T] | None], *arguments: Any, limit: int) -> tuple[list[T], bool]:
    """Up to `limit` items that `function` yields, and whether these are all: it neither raised nor had more.

    A plugin's function that returns nothing, or gives more, is reported.
    """
    found: list[T] = []
    try:
        with patient(function):
            items = function(*arguments)
            if items is None:
                raise TypeError("it returned nothing; write `yield`, or return a list")
            for item in islice(items, limit + 1):
                found.append(item)
        if len(found) > limit and not function.__module__.startswith("ibdissect."):
            raise ValueError(f"it gave more than {limit} results, which were left out")
    except Exception as error:  # plugin code: an exception loses only its own result
        complain(function, error)
        return found[:limit], False
    return found[:limit], len(found) <= limit


def complain(function: Callable[..., Any], error: Exception) -> None:
    """Report a function that raised, by file and name: to the running check, else as a warning, once per exception type."""
    code = getattr(function, "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else getattr(function, "__module__", "?")
    who = f"plugin function {getattr(function, '__qualname__', repr(function))} ({where})"
    check = _COLLECTED.get()
    if isinstance(error, NotCalled):
        return
    if check is not None:
        check.add(who, error)
    elif (code or function, type(error)) not in _WARNED:
        _WARNED.add((code or function, type(error)))
        warnings.warn(f"{who} failed: {error_text(error)}", PluginWarning, stacklevel=3)
