"""Lines of subnet files: numbered, limited, and counted if unreadable."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from ibdissect.subnet import CA, ROUTER, SWITCH
from ibdissect.wire.numbers import LAST_UNICAST

MOST_LINE = 8192
"""Longest line in bytes; no tool writes longer ones."""
KIND_WORDS = {"ca": CA, "channel adapter": CA, "sw": SWITCH, "switch": SWITCH, "rt": ROUTER, "router": ROUTER}
GUIDS, UNICAST_LIDS = range(1, 1 << 64), range(1, LAST_UNICAST + 1)
NODE_PORTS = range(256)


class Lines:
    """The lines of a file. Parsers iterate over it, and call `unknown` for a line that they cannot read."""

    def __init__(self, path: str, lines: Iterable[str]) -> None:
        self.path = path
        self.number = 0
        """Number of the current line, from 1."""
        self.strange = 0
        """Number of lines that no parser could read."""
        self.first_strange = 0
        self.why = ""
        """What was expected in the first of them."""
        self._lines = iter(lines)
        self._again = False
        self._last = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._again:
            self._again = False
            return self._last
        self._last = next(self._lines)
        self.number += 1
        return self._last

    def content(self) -> Iterator[str]:
        """The lines without surrounding blanks, empty lines and comments."""
        return (text for line in self if (text := line.strip()) and text[0] != "#")

    def back(self) -> None:
        """Yield the current line once more."""
        self._again = True

    def unknown(self, expected: str) -> None:
        """Count the current line as one that could not be read."""
        if not self.strange:
            self.first_strange, self.why = self.number, expected
        self.strange += 1


def number(text: str, allowed: range, base: int = 0) -> int | None:
    """A number in a range; None if invalid. `base` 0 reads 0x1f and 31."""
    text = text.strip()
    try:
        value = int(text, base)
    except ValueError:
        if base != 0 or not re.fullmatch("0[0-7]*", text):  # C reads a leading zero as octal, Python refuses it
            return None
        value = int(text, 8)
    return value if value in allowed else None


def guid(text: str) -> int | None:
    """A GUID in any of its spellings: 0x0002c9.., 2c9.., 0002:c903:0087:ee11; None if invalid, as in `<redacted>`."""
    text = text.strip().replace(":", "")
    return number(text.removeprefix("0x") or "-", GUIDS, 16)


def lmc_of(lids: Collection[int]) -> int:
    """The LMC of a port that has exactly these LIDs; -1 if no port can."""
    count = len(lids)
    fits = count in (1, 2, 4, 8, 16, 32, 64, 128) and max(lids) - min(lids) + 1 == count
    return count.bit_length() - 1 if fits else -1


def port_guid(text: str) -> int:
    """The port GUID in a GID, its lower half; 0 if invalid."""
    return int.from_bytes((gid(text) or b"")[8:], "big")


def gid(text: str) -> bytes | None:
    """The 16 bytes of a GID; None if invalid."""
    from ipaddress import AddressValueError, IPv6Address

    try:
        return IPv6Address(text.strip()).packed
    except AddressValueError:
        return None
