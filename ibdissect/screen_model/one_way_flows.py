"""One-way flows to queue pairs with their time lines, fed chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import gather
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import End, ends_bytes, ends_of
from ibdissect.decode.equal_rows import U64, groups, mix
from ibdissect.decode.locate import EXTENDED_AT
from ibdissect.mad.response_times import Name
from ibdissect.wire.headers import BTH, DETH
from ibdissect.wire.opcodes import SERVICES

from .traffic_counts import TimeLines

MAX_FLOWS = 65536
"""Flows kept; packets of later ones are counted together."""
KEPT = 16384
"""The busiest flows that a snapshot shows."""
SPARK = 64
"""Points of a flow's time line."""
DETH_AT, QP_SIZE = EXTENDED_AT["DETH"], BTH.destqp.bits // 8


@dataclass(slots=True)
class Flow:
    """Packets from one address to a queue pair at another."""

    source: Name
    destination: Name
    qp: int
    service: str
    source_qp: int = -1
    """-1 where the packets do not name it."""
    packets: int = 0
    octets: int = 0
    first_frame: int = 0
    lane: int = 0
    """The number by which its packets are found (`lane_numbers`); 0: none."""
    place: int = 0
    """Row of its time line."""
    spark: tuple[int, ...] = ()
    """Packets over time, over the whole capture so far; only in a snapshot."""


def lanes(table: ChunkTable) -> tuple[Int, npt.NDArray[np.uint8]]:
    """Rows with data of queue pairs, and what tells their one-way flows apart, uint8[n, a multiple of 8]: ends, queue pairs, service."""
    located, chunk = table.located, table.chunk
    rows = np.flatnonzero((located.at("bth") >= 0) & (located.at("mad") < 0))
    keys = ends_bytes(table, rows)
    bth = located.at("bth")[rows]
    code = located.opcode[rows]
    sender = np.zeros((len(rows), 4), np.uint8)
    named = np.flatnonzero((DETH_AT[code] >= 0) & (bth + BTH.size + DETH_AT[code] + DETH.size <= located.limit[rows]))
    sender[named, 0] = 1
    sender[named, 1:] = gather(chunk.data, bth[named] + BTH.size + DETH_AT[code[named]] + DETH.srcqp.span[0], QP_SIZE)
    keys = np.concatenate([keys, sender, gather(chunk.data, bth + BTH.destqp.span[0], QP_SIZE), (code >> 5)[:, None]], axis=1)
    return rows, np.pad(keys, ((0, 0), (-keys.shape[1] % 8, 0)))


def lane_numbers(keys: npt.NDArray[np.uint8]) -> U64:
    """A number of each flow, the same in every chunk, uint64[n]. `keys`: from `lanes`."""
    return mix(list(keys.view(np.uint64).T))


class Flows:
    def __init__(self) -> None:
        self.flows: dict[bytes, Flow] = {}
        self._sparks = TimeLines(64, SPARK)

    def feed(self, table: ChunkTable) -> None:
        if not len(table):
            return
        chunk = table.chunk
        points = self._sparks.place(chunk.time_ns)
        rows, keys = lanes(table)
        if not len(rows):
            return
        first, group = groups(list(keys.view(np.uint64).T))
        packets, octets = np.bincount(group).tolist(), np.bincount(group, chunk.length[rows]).astype(np.int64).tolist()
        names = [key.tobytes() for key in keys[first]]
        new = rows[first[[name not in self.flows for name in names]]]
        ends = dict(zip(new.tolist(), ends_of(table, new), strict=True))
        numbers = lane_numbers(keys[first]).tolist()
        every = zip(names, rows[first].tolist(), numbers, strict=True)
        flows = [self._flow(name, table, row, lane, ends) for name, row, lane in every]
        for flow, count, size in zip(flows, packets, octets, strict=True):
            flow.packets += count
            flow.octets += size
        place = np.array([flow.place for flow in flows])[group] * SPARK + points[rows]
        used, counts_ = np.unique(place, return_counts=True)
        self._sparks.sums.reshape(-1)[used] += counts_

    def _flow(self, key: bytes, table: ChunkTable, row: int, lane: int, ends: dict[int, tuple[End, End]]) -> Flow:
        """The flow of a key, made when missing; beyond MAX_FLOWS all share one. `ends` of the rows of new flows."""
        flow = self.flows.get(key)
        if flow is not None:
            return flow
        place, frame = len(self.flows), table.chunk.first + row
        if place >= len(self._sparks.sums):
            self._sparks.sums = np.concatenate([self._sparks.sums, np.zeros_like(self._sparks.sums)])
        if place < MAX_FLOWS:
            source, destination = ends[row]
            service = SERVICES.get(key[-1] << 5, f"0x{key[-1]:x}")
            sender = int.from_bytes(key[-7:-4], "big") if key[-8] else -1
            flow = Flow(source, destination, int.from_bytes(key[-4:-1], "big"), service, sender, 0, 0, frame, lane, place)
        else:
            key = b""
            flow = self.flows.get(key) or Flow("further flows", "?", 0, "", place=place, first_frame=frame)
        self.flows[key] = flow
        return flow

    def snapshot(self) -> list[Flow]:
        """Copies that no longer change: busiest first."""
        flows = sorted(self.flows.values(), key=lambda flow: -flow.packets)
        return [replace(flow, spark=tuple(self._sparks.sums[flow.place].tolist())) for flow in flows[:KEPT]]
