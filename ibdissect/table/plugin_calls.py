"""What happens when a plugin function fails on a packet? Processing continues: a check reports the failure, anything else warns once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

from ibdissect.failures import collector, error_text

T = TypeVar("T")
_WARNED: set[tuple[object, type[Exception]]] = set()


class PluginWarning(UserWarning):
    """A plugin function raised an exception on something in a capture."""


def guarded(function: Callable[..., Iterable[T] | None], *arguments: Any, limit: int | None = None) -> list[T]:
    """Up to `limit` items that `function` yields; if it raises, those it yielded before."""
    found: list[T] = []
    try:
        for item in islice(function(*arguments) or (), limit):
            found.append(item)
    except Exception as error:  # plugin code: an exception loses only its own result
        complain(function, error)
    return found


def complain(function: Callable[..., Any], error: Exception) -> None:
    """Report a function that raised, by file and name: to the running check, else as a warning, once per exception type."""
    code = getattr(function, "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else getattr(function, "__module__", "?")
    who = f"plugin function {getattr(function, '__qualname__', repr(function))} ({where})"
    check = collector()
    if check is not None:
        check.add(who, error)
    elif (code or function, type(error)) not in _WARNED:
        _WARNED.add((code or function, type(error)))
        warnings.warn(f"{who} failed: {error_text(error)}", PluginWarning, stacklevel=3)
