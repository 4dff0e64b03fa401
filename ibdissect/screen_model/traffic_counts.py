"""Packets over time, by OpCode, by management class, by talker. Fed chunk by chunk."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibdissect.decode import Bool, ChunkTable
from ibdissect.traffic.packet_counts import WIDTHS, Traffic
from ibdissect.wire.mad import short_class_name
from ibdissect.wire.opcodes import OPCODE_NAMES

BUCKETS = 4096
"""Points of the time line."""
TALKERS = 4096
"""Pairs of addresses shown; further ones are counted as OTHERS."""
OTHERS = "others", ""

Counts = npt.NDArray[np.int64]
Mix = list[tuple[str, int]]
"""Packets by name, most first."""


class TimeLines:
    """Several lines of sums over time. If time exceeds the last point, neighbouring points are joined, so that each lasts twice as long."""

    def __init__(self, lines: int, points: int) -> None:
        self.sums: Counts = np.zeros((lines, points), np.int64)
        self.start_ns, self.step_ns, self.used = 0, 1_000_000, 0

    def place(self, time_ns: Counts) -> Counts:
        """The point of each time, at least one, after making room for it; times before the first one belong to the start."""
        if not self.used:
            self.start_ns, self.used = int(time_ns[0]), 1
        since, points = np.maximum(time_ns - self.start_ns, 0), self.sums.shape[1]
        last = int(since.max())
        while last // self.step_ns >= points:
            self.sums[:, : points // 2] = self.sums.reshape(len(self.sums), -1, 2).sum(axis=2)
            self.sums[:, points // 2 :] = 0
            self.step_ns, self.used = 2 * self.step_ns, (self.used + 1) // 2
        self.used = max(self.used, last // self.step_ns + 1)
        return since // self.step_ns


class TimeLine(TimeLines):
    """Packets, bytes and findings over time."""

    def __init__(self) -> None:
        super().__init__(2, BUCKETS)
        self.packets: Counts = self.sums[0]
        self.octets: Counts = self.sums[1]

    def feed(self, time_ns: Counts, length: Counts) -> None:
        if len(time_ns):
            point = self.place(time_ns)
            self.packets += np.bincount(point, minlength=BUCKETS)
            self.octets += np.bincount(point, length, minlength=BUCKETS).astype(np.int64)

    def worst(self, frames: Counts, ranks: Counts) -> list[int]:
        """The highest rank in each point, 0 for none: of frames in order of time, ranks[i] of frames[i]."""
        marks = np.zeros(max(self.used, 1), np.int64)
        place = np.searchsorted(np.cumsum(self.packets[: self.used]), frames, "left")
        np.maximum.at(marks, np.minimum(place, len(marks) - 1), ranks)
        worst: list[int] = marks.tolist()
        return worst


@dataclass(frozen=True, slots=True)
class TrafficView:
    line: TimeLine
    frames: int
    octets: int
    opcodes: Mix
    p_keys: Mix
    """A limited member's key says so."""
    classes: Mix
    """Management datagrams by class."""
    talkers: list[tuple[tuple[str, str], int]]
    """Packets between two addresses, both ways."""


class TrafficCounts:
    """The traffic so far, and its time line."""

    def __init__(self) -> None:
        self.traffic, self.line = Traffic(), TimeLine()

    def feed(self, table: ChunkTable, selected: Bool | None = None) -> None:
        """Count a chunk's packets; of the parts of the time line always all."""
        self.line.feed(table.chunk.time_ns, table.chunk.length)
        self.traffic.feed(table, np.arange(len(table)) if selected is None else np.flatnonzero(selected))

    def view(self) -> TrafficView:
        traffic, classes, talkers = self.traffic, Counter[str](), Counter[tuple[str, str]]()
        for kind, count in traffic.mads.frames.items():
            classes[short_class_name(kind >> 24)] += count
        for address in WIDTHS:
            for sender, receiver, count, _ in traffic.pairs(address):
                pair = (sender, receiver) if (sender, receiver) in talkers or (receiver, sender) not in talkers else (receiver, sender)
                talkers[pair if pair in talkers or len(talkers) < TALKERS else OTHERS] += count
        p_keys = {f"0x{key:04x}" + ("" if key & 0x8000 else " limited"): count for key, count in traffic.p_keys.frames.items()}
        opcodes = {OPCODE_NAMES.get(code, f"OpCode 0x{code:02x}"): count for code, count in traffic.opcodes.frames.items()}
        return TrafficView(
            deepcopy(self.line), traffic.frames, traffic.bytes, _mix(opcodes),
            _mix(p_keys), _mix(classes), sorted(talkers.items(), key=lambda entry: (-entry[1], entry[0])),
        )  # fmt: skip


def _mix(counts: dict[str, int]) -> Mix:
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
