"""Packets captured before and after a router: they differ in their hop count and below IP, and have one ICRC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ibdissect.engine.datagram_copies import RoutedPackets
from ibdissect.wire.headers import ICRC

from .chunk_table import ChunkTable
from .locate import Int

MAX_RECENT = 4096
"""Packets before one that it is compared with."""


class Routed:
    """Finds the second and further sightings of routed packets. Feed chunks in order."""

    def __init__(self) -> None:
        self.packets = RoutedPackets(MAX_RECENT)

    def again(self, table: ChunkTable) -> tuple[Int, ...]:
        """Rows of packets seen before with more hops left, in order; how many frames and nanoseconds before; bytes that are equal; marks
        that they did not have then."""
        start = table.located.start
        if "bth" not in start or "icrc" not in start:
            return numbers([], 5)
        rows, behind, later, marks = numbers(self.packets.feed(table.chunk.first, table.chunk.data, columns_of(table, "icrc")), 4)
        return rows, behind, later, start["icrc"][rows] + ICRC.size - start["bth"][rows], marks


def columns_of(table: ChunkTable, *more: str) -> dict[str, Any]:
    """What the engine reads of a chunk: the time of each frame, where its BTH, headers with addresses and `more` start, -1 for none."""
    start, none = table.located.start, np.full(len(table), -1, np.int64)
    columns = {name: np.ascontiguousarray(start.get(name, none)) for name in ("bth", "lrh", "ip4", "ip6", "grh", *more)}
    return columns | {"times": np.ascontiguousarray(table.chunk.time_ns)}


def numbers(rows: Sequence[tuple[int, ...]], width: int) -> tuple[Int, ...]:
    """Columns of some numbers, `width` arrays int64[n]."""
    return tuple(np.array(rows, np.int64).reshape(-1, width).T)
