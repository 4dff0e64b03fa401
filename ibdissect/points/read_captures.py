"""Captures of any size, read as columns in a temporary file, and as a sample of which the points share every packet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec import field

from ibdissect.capture.chunk import LINK_ERF, LINK_INFINIBAND, Damage
from ibdissect.capture.times import near
from ibdissect.decode import Int
from ibdissect.errors import CaptureError
from ibdissect.python_interface import Capture

from .flows import PointFlows
from .packet_identity import HOP, Sightings, seen_in
from .temporary_files import Spool

LINK_HEADER = 22
"""The longest link header before IP or a GRH: Ethernet with two VLAN tags."""
LEAST = 60
"""Snap length with which the BTH fits after any network header."""
STAMPS = 10
"""Number of stamps that suffice to determine their resolution."""
BLOCK = 1 << 15
"""Packets written to a temporary file at once."""
SAMPLE = 1 << 19
"""Packets of all points from which clocks and directions are learnt; of more, every second, fourth, ... by key."""


class Point(Record):
    """The RDMA packets of one capture in file order."""

    name: str
    path: str
    number: int
    """Its place on the command line, from 0."""
    every: Spool[Sightings] = field(default_factory=lambda: Spool(Sightings))
    """All packets, as stamped."""
    sample: Sightings | None = None
    """All packets, or those of a sample that all points share, by the point's own clock."""
    frames: int = 0
    """Records in the file, RDMA or not."""
    packets: int = 0
    damage: list[Damage] = field(default_factory=list)
    """Where the file is damaged."""
    resolution: int = 1
    """Smallest difference of two stamps in the file, in nanoseconds."""

    @property
    def seen(self) -> Sightings:
        """The sample."""
        assert self.sample is not None
        return self.sample

    def blocks(self) -> Iterator[Sightings]:
        """All packets, by the point's own clock."""
        for block in self.every:
            block.time += self.resolution // 2
            yield block

    def times(self, first: int, last: int) -> tuple[npt.NDArray[np.int32], Int]:
        """Frames and times of all packets from one frame to another."""
        parts = [block.take((block.frame >= first) & (block.frame <= last)) for block in self.blocks()]
        return np.concatenate([part.frame for part in parts]), np.concatenate([part.time for part in parts])


def point_names(paths: Sequence[str]) -> list[str]:
    """A point is named after its file up to the first dot; equal names get numbers."""
    names = [os.path.basename(path).split(".")[0] or os.path.basename(path) for path in paths]
    return [name if names.count(name) == 1 else f"{name}#{i + 1}" for i, name in enumerate(names)]


def read_points(paths: Sequence[str], sample: int = SAMPLE) -> tuple[list[Point], PointFlows]:
    """All captures as columns. Raises CaptureError for a capture that cannot be read twice or holds no RDMA packets."""
    points = [Point(name, path, number) for number, (name, path) in enumerate(zip(point_names(paths), paths, strict=True))]
    shortest = min(_shortest(point) for point in points)
    flows, chosen = PointFlows(), _Sample(sample)
    for point in points:
        _read(point, flows, shortest, chosen)
        if not point.packets:
            cut = "; what all captures have of each packet ends before its BTH does, as the shortest snap length of them is too short"
            raise CaptureError(point.path, "holds no RDMA packets" + cut * (shortest < LEAST))
    every = clarified(Sightings.joined(*chosen.parts), flows)
    for point in points:
        point.sample = every.take(every.point == point.number)
        point.sample.time += point.resolution // 2
    return points, flows


class _Sample:
    """Packets with keys below a bound that falls as more come: all sightings of a packet are in it, or none."""

    def __init__(self, limit: int) -> None:
        self.parts: list[Sightings] = []
        self._limit, self._size, self._shift = limit, 0, 0
        self._origin: int | None = None

    def near(self, times: Int) -> Int:
        """Times that all points can be compared by: within decades of the first one."""
        if self._origin is None and len(times):
            self._origin = int(times[0])
        return near(times, self._origin or 0)

    def add(self, block: Sightings) -> None:
        self.parts.append(self._chosen(block))
        self._size += len(self.parts[-1])
        while self._size > self._limit and self._shift < 63:
            self._shift += 1
            self.parts = [self._chosen(part) for part in self.parts]
            self._size = sum(map(len, self.parts))

    def _chosen(self, block: Sightings) -> Sightings:
        return block.take(block.key >> np.uint64(64 - self._shift) == 0) if self._shift else block


def clarified(seen: Sightings, flows: PointFlows) -> Sightings:
    """Complete truncated directed routes from the same packet at another point, or from its transaction in either direction."""
    vague = np.array([flow.vague for flow in flows.known])
    if not vague.any():
        return seen
    numbers = {(flow.source, flow.destination, flow.dest_qp): i for i, flow in enumerate(flows.known)}
    back = np.array([numbers.get((flow.destination, flow.source, flow.dest_qp), i) for i, flow in enumerate(flows.known)])
    for column in (seen.key, seen.transaction):
        rows = np.flatnonzero(vague[seen.flow])
        known = np.flatnonzero((seen.fields[:, HOP] >= 0) & ~vague[seen.flow])
        if len(rows) and len(known):
            order = known[np.argsort(column[known], kind="stable")]
            place = order[np.minimum(np.searchsorted(column[order], column[rows]), len(known) - 1)]
            found = (column[place] == column[rows]) & (column[rows] != 0)
            rows, place = rows[found], place[found]
            seen.flow[rows] = np.where(seen.asks[rows] == seen.asks[place], seen.flow[place], back[seen.flow[place]])
    return seen


def _shortest(point: Point) -> int:
    """Bytes from the network header on in the shortest truncated packet of a capture; a large number without a snap length."""
    shortest = 1 << 30
    once = CaptureError(point.path, "must be read twice, and a pipe can be read only once", hint="save it as a file first")
    if point.path == "-":
        raise once
    with Capture(point.path) as reading:
        if not reading.reader.rereadable:
            raise once
        for chunk in reading.chunks():
            point.frames += len(chunk)
            located = reading.table_of(chunk).located
            cut = np.flatnonzero(located.snapped)
            if len(cut):
                native, inner = (chunk.link[cut] == LINK_INFINIBAND) | (chunk.link[cut] == LINK_ERF), located.at("inner")[cut]
                start = np.maximum(chunk.offset[cut], inner) + np.where(native, 0, LINK_HEADER)
                room = np.where(located.in_tunnel[cut] & (inner < 0), 0, located.end[cut] - start)
                shortest = min(shortest, int(room.min()))
        point.damage = list(reading.damage)
    return shortest


def _read(point: Point, flows: PointFlows, shortest: int, sample: _Sample) -> None:
    coarse = [1_000_000, 1000]  # resolutions that all stamps have
    waiting: Sightings | None = None  # a block whose last stamp may be that of the next packet, too

    def keep(block: Sightings) -> None:
        point.every.append(block)
        sample.add(block)

    with Capture(point.path) as reading:
        for chunk in reading.chunks():
            part = seen_in(reading.table_of(chunk), point.number, flows, shortest)
            part.time = sample.near(part.time)
            coarse = [unit for unit in coarse if not (part.time % unit).any()]
            point.packets += len(part)
            for at in range(0, len(part), BLOCK):
                block = part.take(np.arange(at, min(at + BLOCK, len(part))))
                if waiting is not None:
                    if waiting.time[-1] == block.time[0]:
                        waiting.own_stamp[-1] = block.own_stamp[0] = False
                    keep(waiting)
                waiting = block
    if waiting is not None:
        keep(waiting)
    if point.packets >= STAMPS:
        point.resolution = max([*coarse, 1])
