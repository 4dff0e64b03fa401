"""The words of `cython` where Cython is not installed: types are names, decorators return what they get.

Only the words that the modules of this room use are here. The compiler never reads this module.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")
compiled = False


def _as_it_is(thing: T) -> T:
    return thing


cclass = final = cfunc = ccall = inline = nogil = _as_it_is


def exceptval(*_: object, **__: object) -> Any:
    """Which value says that a compiled function raised."""
    return _as_it_is


def declare(_: object, value: Any = None, **__: object) -> Any:
    """A variable of a type; its value."""
    return value


def cast(_: object, value: Any, **__: object) -> Any:
    """A value as a type."""
    return value


class _Type:
    """A type: `int`, `longlong[::1]`."""

    def __getitem__(self, _: object) -> _Type:
        return self


uchar = int = uint = bint = longlong = ulonglong = Py_ssize_t = size_t = const = _Type()
