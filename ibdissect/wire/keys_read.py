"""Keys that the code of a plugin reads, noted so that what it says can hide them.

A plugin's handler may compare keys and remember them, so it gets the real values; in texts they are hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

MAX_KEYS = 16384
"""Latest keys that are known of a rule."""
LEAST = 0xFFFF
"""Numbers up to this one are no keys unless a view gave them: a count may be equal by chance."""
HIDDEN = "(hidden)"
_NUMBER = re.compile(r"(?i)(?<![0-9a-z])(?:0x)?[0-9a-f]{5,}(?![0-9a-z])")
_now = local()


class KeyNumber(int):
    """A key as a plugin's handler reads it: a number whose text is hidden."""

    kind: str
    bits: int

    def __repr__(self) -> str:
        return f"{self.kind} {HIDDEN}"

    def __format__(self, _: str) -> str:
        return repr(self)

    __str__ = __repr__


class KeysRead:
    """The keys that the handlers of a rule read, the latest ones."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[str, int]] = {}

    def note(self, kind: str, bits: int, values: Iterable[int]) -> None:
        """Remember keys of a kind."""
        for value in values:
            if len(self.known) >= MAX_KEYS and value not in self.known:
                del self.known[next(iter(self.known))]
            self.known[value] = kind, bits

    def kind_of(self, value: object) -> tuple[str, int] | None:
        """Kind and bits if a value is a key; None for other values."""
        if isinstance(value, KeyNumber):
            return value.kind, value.bits
        try:
            number = value.__index__() if not isinstance(value, bool) else 0  # type: ignore[attr-defined]
        except AttributeError:
            return None
        return self.known.get(number) if number > LEAST else None

    def without_keys(self, text: str) -> str:
        """A text without the keys in it, in decimal or hexadecimal."""
        return _NUMBER.sub(self._hidden, text) if self.known else text

    def _hidden(self, found: re.Match[str]) -> str:
        text = found[0].lower()
        readings = {int(text.removeprefix("0x"), 16)} | ({int(text)} if text.isdecimal() and len(text) < 40 else set())
        return HIDDEN if any(value > LEAST and value in self.known for value in readings) else found[0]


def key_read(kind: str, bits: int, value: Any) -> Any:
    """What a view gives as the value of a key: to a plugin's handler, one whose text is hidden."""
    watch: KeysRead | None = getattr(_now, "watch", None)
    if watch is None or not isinstance(value, int):
        return value
    watch.note(kind, bits, (int(value),))
    found = KeyNumber(value)
    found.kind, found.bits = kind, bits
    return found


def column_read(kind: str, bits: int, values: Any) -> None:
    """Tells that somebody reads a column of keys, an array of numbers."""
    watch: KeysRead | None = getattr(_now, "watch", None)
    if watch is not None:
        watch.note(kind, bits, values.ravel()[:MAX_KEYS].tolist())


@contextmanager
def watching(keys: KeysRead, hidden: bool = True) -> Iterator[None]:
    """While a plugin's handler runs in this thread. Not `hidden`: keys are shown."""
    _now.watch = keys if hidden else None
    try:
        yield
    finally:
        _now.watch = None
