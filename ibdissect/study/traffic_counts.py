"""What is in the capture, in numbers: over time, by OpCode, by management class, by talker? Fed chunk by chunk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ibdissect.capture.scattered import gather, u16
from ibdissect.table.addresses import SHOWN, address_text, by_header
from ibdissect.table.table import ChunkTable
from ibdissect.wire.opcodes import OPCODES

BUCKETS = 4096
"""Points of the time line; when time goes beyond them, neighbours are joined and each lasts twice as long."""
TALKERS = 4096
"""Addresses counted; further ones are counted as `others`."""

Counts = npt.NDArray[np.int64]

CLASSES = {
    0x01: "SM (LID routed)", 0x03: "SA", 0x04: "PM", 0x05: "BM", 0x06: "DM", 0x07: "CM", 0x08: "SNMP", 0x10: "DevAdm", 0x11: "BootMgt",
    0x12: "BIS", 0x21: "CC", 0x81: "SM (directed)",
}  # fmt: skip
"""Management classes as short names."""


def class_name(mgmt_class: int) -> str:
    """A management class as a person calls it."""
    name = CLASSES.get(mgmt_class)
    if name is None:
        name = "vendor" if 0x09 <= mgmt_class <= 0x0F or 0x30 <= mgmt_class <= 0x4F else "application" if mgmt_class < 0x30 else "class"
        return f"{name} 0x{mgmt_class:02x}"
    return name


@dataclass(slots=True)
class TimeLine:
    """Packets, bytes and findings over time."""

    start_ns: int = 0
    step_ns: int = 1_000_000
    packets: Counts = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))
    octets: Counts = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))
    used: int = 0

    def feed(self, time_ns: Counts, length: Counts) -> None:
        """Count packets; time that runs backwards counts for the start."""
        if not len(time_ns):
            return
        if not self.used:
            self.start_ns, self.used = int(time_ns[0]), 1
        since = np.maximum(time_ns - self.start_ns, 0)
        last = int(since.max())
        while last // self.step_ns >= BUCKETS:
            for array in (self.packets, self.octets):
                array[: BUCKETS // 2] = array.reshape(-1, 2).sum(axis=1)
                array[BUCKETS // 2 :] = 0
            self.step_ns *= 2
            self.used = (self.used + 1) // 2
        bucket = since // self.step_ns
        self.packets += np.bincount(bucket, minlength=BUCKETS)
        self.octets += np.bincount(bucket, length, minlength=BUCKETS).astype(np.int64)
        self.used = max(self.used, last // self.step_ns + 1)

    def bucket(self, time_ns: int) -> int:
        """The point of a time."""
        return min(max(time_ns - self.start_ns, 0) // self.step_ns, BUCKETS - 1)

    def copy(self) -> TimeLine:
        """A copy that no longer changes."""
        return TimeLine(self.start_ns, self.step_ns, self.packets.copy(), self.octets.copy(), self.used)


@dataclass(slots=True)
class TrafficCounts:
    """The numbers so far."""

    line: TimeLine = field(default_factory=TimeLine)
    frames: int = 0
    octets: int = 0
    opcodes: Counts = field(default_factory=lambda: np.zeros(256, np.int64))
    classes: Counts = field(default_factory=lambda: np.zeros(256, np.int64))
    p_keys: Counts = field(default_factory=lambda: np.zeros(1 << 16, np.int64))
    """Packets by BTH.P_Key."""
    talkers: Counter[str] = field(default_factory=Counter)
    """Packets by sender."""
    others: int = 0
    """Frames without InfiniBand transport: link packets, other protocols."""

    def feed(self, table: ChunkTable) -> None:
        """Count a chunk."""
        chunk, located = table.chunk, table.located
        self.line.feed(chunk.time_ns, chunk.length)
        self.frames += len(table)
        self.octets += int(chunk.length.sum())
        bth = located.at("bth") >= 0
        self.opcodes += np.bincount(located.opcode[bth], minlength=256)[:256]
        self.others += int(np.count_nonzero(~bth))
        keys, counts = np.unique(u16(chunk.data, located.at("bth")[bth] + 2), return_counts=True)
        self.p_keys[keys] += counts
        mad = located.at("mad")
        self.classes += np.bincount(chunk.data[mad[mad >= 0] + 1], minlength=256)
        for header, _, at in by_header(table, np.arange(len(table)), SHOWN):
            found = gather(chunk.data, at + header.source, header.size)
            addresses, counts = np.unique(found.view(f"V{header.size}").ravel(), return_counts=True)
            self._talk([address_text(address.tobytes()) for address in addresses], counts.tolist())

    def _talk(self, names: list[str], counts: list[int]) -> None:
        for name, count in zip(names, counts, strict=True):
            self.talkers[name if name in self.talkers or len(self.talkers) < TALKERS else "others"] += count

    def copy(self) -> TrafficCounts:
        """A copy that no longer changes."""
        return TrafficCounts(
            self.line.copy(), self.frames, self.octets, self.opcodes.copy(), self.classes.copy(), self.p_keys.copy(),
            Counter(self.talkers), self.others,
        )  # fmt: skip

    def opcode_mix(self) -> list[tuple[str, int]]:
        """Packets by OpCode, most first."""
        found = [(opcode_name(code), count) for code, count in enumerate(self.opcodes.tolist()) if count]
        return sorted(found, key=lambda entry: (-entry[1], entry[0]))

    def p_key_mix(self) -> list[tuple[str, int]]:
        """Packets by P_Key, most first; a limited member's key says so."""
        keys = np.flatnonzero(self.p_keys)
        found = [(f"0x{key:04x}" + ("" if key & 0x8000 else " limited"), count)
                 for key, count in zip(keys.tolist(), self.p_keys[keys].tolist(), strict=True)]  # fmt: skip
        return sorted(found, key=lambda entry: (-entry[1], entry[0]))

    def class_mix(self) -> list[tuple[str, int]]:
        """Datagrams by management class, most first."""
        found = [(class_name(code), count) for code, count in enumerate(self.classes.tolist()) if count]
        return sorted(found, key=lambda entry: (-entry[1], entry[0]))


def opcode_name(code: int) -> str:
    """`RC SEND Only`."""
    opcode = OPCODES.get(code)
    return f"{opcode.service} {opcode.operation}" if opcode is not None else f"OpCode 0x{code:02x}"
