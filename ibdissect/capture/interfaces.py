"""Which interfaces has a pcapng file described so far, and what do timestamps of each of them mean?"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

import numpy as np
import numpy.typing as npt

from ibdissect.capture.scan import Ints
from ibdissect.record import record

Ticks = npt.NDArray[np.uint64]

OPT_END, OPT_NAME, OPT_DESCRIPTION, OPT_TSRESOL, OPT_TSOFFSET = 0, 2, 3, 9, 14
KEPT = frozenset({1, OPT_NAME, OPT_DESCRIPTION, 4, 5, 6, 7, 11, 12, 13, 15})
"""Options that a copy of an interface has too: comment, name, description, addresses, filter, system, FCS length, hardware.
They are the same in either byte order."""
MAX_KEPT = 4096
"""Bytes of options kept of an interface."""
FAR = 9_200_000_000
"""Seconds that still fit into 63 bits of nanoseconds; a timestamp beyond is held there."""


@record(eq=True, frozen=False)
class Interfaces:
    """Interfaces by index over the whole file; sections number theirs from a base of their own."""

    link: list[int] = field(default_factory=list)
    snaplen: list[int] = field(default_factory=list)
    resolution: list[int] = field(default_factory=list)
    """The if_tsresol byte: negative power of ten, of two with bit 7 set."""
    offset: list[int] = field(default_factory=list)
    """if_tsoffset, seconds."""
    options: list[tuple[tuple[int, bytes], ...]] = field(default_factory=list)
    """Code and value of the options of KEPT, in their order."""

    def __len__(self) -> int:
        return len(self.link)

    def describe(self, body: bytes, order: Literal["little", "big"]) -> None:
        """Add the interface of one Interface Description Block; `body` starts behind type and length."""
        resolution, offset, room = 6, 0, MAX_KEPT
        kept: list[tuple[int, bytes]] = []
        at = 8
        while at + 4 <= len(body):
            code, size = int.from_bytes(body[at : at + 2], order), int.from_bytes(body[at + 2 : at + 4], order)
            value = body[at + 4 : at + 4 + size]
            at += 4 + (size + 3 & ~3)
            if code == OPT_END:
                break
            if code == OPT_TSRESOL and size == 1 and value:
                resolution = value[0]
            elif code == OPT_TSOFFSET and size == 8 and len(value) == 8:
                offset = int.from_bytes(value, order, signed=True)
            elif code in KEPT and len(value) == size <= room:
                kept.append((code, value))
                room -= size
        self.link.append(int.from_bytes(body[0:2], order))
        self.snaplen.append(int.from_bytes(body[4:8], order))
        self.resolution.append(resolution)
        self.offset.append(min(max(offset, -FAR), FAR))
        self.options.append(tuple(kept))

    def name(self, index: int) -> str:
        """What an interface is called, empty when the file does not say."""
        return next((value.rstrip(b"\0").decode("utf-8", "replace") for code, value in self.options[index] if code == OPT_NAME), "")

    def nanoseconds(self, index: Ints, ticks: Ticks) -> Ints:
        """Time of packets captured on interface `index`, `ticks` being their 64-bit timestamps; rounded down."""
        resolution = np.array(self.resolution, np.uint8)[index]
        seconds = np.zeros(len(index), np.int64)
        rest = np.zeros(len(index), np.int64)
        for value in np.flatnonzero(np.bincount(resolution)).tolist():
            rows = resolution == value
            seconds[rows], rest[rows] = _split(ticks[rows], value)
        seconds += np.array(self.offset, np.int64)[index]
        return np.clip(seconds, -FAR, FAR) * 1_000_000_000 + rest


def _split(ticks: Ticks, resolution: int) -> tuple[Ticks, Ticks]:
    """Whole seconds (at most FAR) and nanoseconds of `ticks`, exactly, without leaving 64 bits."""
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
        # fraction * 10^9 needs more than 64 bits: multiply the upper 32 bits of it and the rest on their own.
        seconds = ticks >> np.uint64(power) if power < 64 else np.zeros_like(ticks)
        fraction = ticks & np.uint64((1 << min(power, 64)) - 1)
        if power > 64:
            fraction = fraction >> np.uint64(power - 64)
        low_bits = np.uint64(min(power, 64) - 32)
        low = fraction & np.uint64((1 << int(low_bits)) - 1)
        nanoseconds = (fraction >> low_bits) * billion + (low * billion >> low_bits) >> np.uint64(32)
    return np.minimum(seconds, np.uint64(FAR)), nanoseconds
