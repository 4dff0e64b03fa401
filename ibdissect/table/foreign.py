"""What happens when a function of a plugin fails on a packet? It is named once, on standard error, and the work goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")
_TOLD: set[tuple[object, type[Exception]]] = set()


class PluginWarning(UserWarning):
    """A function of a plugin raised on something in a capture."""


def guarded(function: Callable[..., Iterable[T] | None], *arguments: Any, limit: int | None = None) -> list[T]:
    """Everything that `function` yields, at most `limit` of it; what it yielded before it failed, if it fails."""
    found: list[T] = []
    try:
        for item in islice(function(*arguments) or (), limit):
            found.append(item)
    except Exception as error:  # foreign code: whatever it raises costs its own result only
        complain(function, error)
    return found


def complain(function: Callable[..., Any], error: Exception) -> None:
    """Warn about a function that raised: by file and name, once for each kind of error."""
    code = getattr(function, "__code__", None)
    if (code or function, type(error)) in _TOLD:
        return
    _TOLD.add((code or function, type(error)))
    where = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else getattr(function, "__module__", "?")
    name = getattr(function, "__qualname__", repr(function))
    warnings.warn(f"plugin function {name} ({where}) failed: {type(error).__name__}: {error}", PluginWarning, stacklevel=3)
