"""The interfaces that a pcapng file has described so far, and the conversion of each one's timestamps."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import Ints
from ibdissect.capture.times import FAR, nanoseconds

Ticks = npt.NDArray[np.uint64]

OPT_END, OPT_NAME, OPT_DESCRIPTION, OPT_TSRESOL, OPT_TSOFFSET = 0, 2, 3, 9, 14
NANOSECONDS = 9
"""The value of OPT_TSRESOL for times in nanoseconds."""
KEPT = frozenset({1, OPT_NAME, OPT_DESCRIPTION, 4, 5, 6, 7, 11, 12, 13, 15})
"""Options copied with an interface: comment, name, description, addresses, filter, OS, FCS length, hardware.
They are the same in either byte order."""
MAX_OPTIONS = 1000
"""Options read per interface."""
MAX_KEPT, OPTION = 1 << 24, 100
"""Bytes of options kept for all interfaces together, and the overhead counted per option."""
_COLUMNS = [("link", np.int64), ("snaplen", np.int64), ("resolution", np.int64), ("offset", np.int64)]


class Interfaces:
    """Interfaces by index over the whole file; each section numbers its own from a base."""

    def __init__(self) -> None:
        self.options: list[tuple[tuple[int, bytes], ...]] = []
        """Code and value of each interface's options in KEPT, in order, within MAX_KEPT."""
        self._room = MAX_KEPT
        self._columns = np.zeros(16, _COLUMNS)

    def __len__(self) -> int:
        return len(self.options)

    @property
    def columns(self) -> npt.NDArray[np.void]:
        """Of each interface, int64 each: `link`; `snaplen`, 0 for none; `offset`, if_tsoffset in seconds; and `resolution`, the if_tsresol
        byte: negative power of ten, or of two if bit 7 is set."""
        return self._columns[: len(self)]

    def describe(self, body: bytes, order: Literal["little", "big"]) -> None:
        """Add the interface of one Interface Description Block; `body` starts after type and length."""
        resolution, offset = 6, 0
        kept: list[tuple[int, bytes]] = []
        at = 8
        for _ in range(MAX_OPTIONS):
            if at + 4 > len(body):
                break
            code, size = int.from_bytes(body[at : at + 2], order), int.from_bytes(body[at + 2 : at + 4], order)
            value = body[at + 4 : at + 4 + size]
            at += 4 + (size + 3 & ~3)
            if code == OPT_END:
                break
            if code == OPT_TSRESOL and size == 1 and value:
                resolution = value[0]
            elif code == OPT_TSOFFSET and size == 8 and len(value) == 8:
                offset = int.from_bytes(value, order, signed=True)
            elif code in KEPT and len(value) == size and size + OPTION <= self._room:
                kept.append((code, value))
                self._room -= size + OPTION
        link, snaplen = int.from_bytes(body[0:2], order), int.from_bytes(body[4:8], order)
        self._append((link, snaplen, resolution, min(max(offset, -FAR), FAR)), tuple(kept))

    def add(self, other: Interfaces, index: int) -> int:
        """Add an interface of another file; returns its index here. Options beyond MAX_KEPT are left out."""
        size = sum(len(value) + OPTION for _, value in other.options[index])
        kept = other.options[index] if size <= self._room else ()
        self._room -= size if kept else 0
        self._append(tuple(other._columns[index]), kept)
        return len(self) - 1

    def _append(self, columns: tuple[int, ...], kept: tuple[tuple[int, bytes], ...]) -> None:
        if len(self) == len(self._columns):
            self._columns = np.concatenate((self._columns, np.zeros(len(self) + 16, _COLUMNS)))
        self._columns[len(self)] = columns
        self.options.append(kept)

    def without_options(self) -> Interfaces:
        bare = Interfaces()
        bare.options, bare._columns = [()] * len(self), self.columns.copy()
        return bare

    def name(self, index: int) -> str:
        """Name of an interface; empty if the file does not give it."""
        return next((value.rstrip(b"\0").decode("utf-8", "replace") for code, value in self.options[index] if code == OPT_NAME), "")

    def ticks_ns(self) -> Ints:
        """How long a tick of each interface's timestamps lasts, in nanoseconds, rounded down; int64[n]."""
        every, none = np.arange(len(self)), np.zeros(len(self), np.uint64)
        return self.nanoseconds(every, none + np.uint64(1)) - self.nanoseconds(every, none)

    def nanoseconds(self, index: Ints, ticks: Ticks) -> Ints:
        """Time of packets captured on interface `index` with 64-bit timestamps `ticks`; rounded down."""
        resolution = self.columns["resolution"][index]
        seconds = np.zeros(len(index), np.int64)
        rest = np.zeros(len(index), np.int64)
        for value in np.flatnonzero(np.bincount(resolution)).tolist():
            rows = resolution == value
            seconds[rows], rest[rows] = _split(ticks[rows], value)
        seconds += self.columns["offset"][index]
        return nanoseconds(seconds, rest)


def _split(ticks: Ticks, resolution: int) -> tuple[Ticks, Ticks]:
    """Whole seconds (at most FAR) and nanoseconds of `ticks`, computed exactly in 64 bits."""
    power, billion = resolution & 0x7F, np.uint64(1_000_000_000)
    if not resolution & 0x80:
        if power <= 9:
            unit = np.uint64(10**power)
            seconds, nanoseconds = ticks // unit, ticks % unit * np.uint64(10 ** (9 - power))
        else:
            total = ticks // np.uint64(10 ** (power - 9)) if power <= 28 else np.zeros_like(ticks)
            seconds, nanoseconds = total // billion, total % billion
    elif power <= 32:
        fraction = ticks & np.uint64((1 << power) - 1)
        seconds, nanoseconds = ticks >> np.uint64(power), fraction * billion >> np.uint64(power)
    else:
        # fraction * 10^9 needs more than 64 bits: multiply the upper 32 bits and the rest separately.
        seconds = ticks >> np.uint64(power) if power < 64 else np.zeros_like(ticks)
        fraction = ticks & np.uint64((1 << min(power, 64)) - 1)
        if power > 64:
            fraction = fraction >> np.uint64(power - 64)
        low_bits = np.uint64(min(power, 64) - 32)
        low = fraction & np.uint64((1 << int(low_bits)) - 1)
        nanoseconds = (fraction >> low_bits) * billion + (low * billion >> low_bits) >> np.uint64(32)
    return np.minimum(seconds, np.uint64(FAR)), nanoseconds
