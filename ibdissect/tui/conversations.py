"""Who sends to which queue pair? One-way flows with their time lines, and packets that were sent before. Fed chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ibdissect.table.locate import EXTENDED_AT, Int, u24
from ibdissect.table.table import ChunkTable, gather
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.text import gid_text

MAX_FLOWS = 65536
"""Flows kept; packets of later ones are counted together."""
KEPT = 16384
"""The busiest flows that a snapshot shows."""
SPARK = 64
"""Points of a flow's time line."""
REQUESTS = np.array([code in OPCODES and OPCODES[code].request for code in range(256)])
SERVICES = {0: "RC", 1: "UC", 2: "RD", 3: "UD", 4: "CNP", 5: "XRC"}
RETRYING = (0, 1, 5)
"""Services whose requests carry consecutive PSNs."""
HALF = 1 << 23
MAX_REPEATED = 100_000
"""Repeated requests remembered by frame."""
DETH_AT = EXTENDED_AT["DETH"]
PLACES = (("ip6", 8, 24, 16), ("ip4", 12, 16, 4), ("grh", 8, 24, 16), ("lrh", 6, 2, 2))
"""Header, offset of source and destination, size; the last one present counts."""


@dataclass(slots=True)
class Flow:
    """Packets from one address to a queue pair at another."""

    source: str
    destination: str
    qp: int
    service: str
    source_qp: int = -1
    """-1 where the packets do not name it."""
    packets: int = 0
    octets: int = 0
    first_frame: int = 0
    last_psn: int = -1
    """Highest PSN of a request so far, -1 before the first."""
    place: int = 0
    """Row of its time line."""
    spark: tuple[int, ...] = ()
    """Packets over time, over the whole capture so far; only in a snapshot."""


class Conversations:
    """Flows so far."""

    def __init__(self) -> None:
        self.flows: dict[bytes, Flow] = {}
        self.repeated: set[int] = set()
        """Frames of requests that were sent before."""
        self.start_ns = 0
        self.step_ns = 1_000_000
        self._sparks: npt.NDArray[np.int64] = np.zeros((64, SPARK), np.int64)

    def feed(self, table: ChunkTable) -> None:
        """Count a chunk."""
        if not len(table):
            return
        if not self.start_ns:
            self.start_ns = int(table.chunk.time_ns[0])
        self._stretch(int(table.chunk.time_ns.max()) - self.start_ns)
        self._flows(table)

    def _stretch(self, last: int) -> None:
        while last // self.step_ns >= SPARK:
            self.step_ns *= 2
            self._sparks[:, : SPARK // 2] = self._sparks.reshape(len(self._sparks), -1, 2).sum(axis=2)
            self._sparks[:, SPARK // 2 :] = 0

    def _flows(self, table: ChunkTable) -> None:
        located, chunk = table.located, table.chunk
        rows = np.flatnonzero((located.at("bth") >= 0) & (located.at("mad") < 0))
        if not len(rows):
            return
        keys, names = addresses(table, rows)
        bth = located.at("bth")[rows]
        code = located.opcode[rows]
        sender = np.zeros((len(rows), 4), np.uint8)
        named = np.flatnonzero((DETH_AT[code] >= 0) & (bth + 12 + DETH_AT[code] + 8 <= located.limit[rows]))
        sender[named, 0] = 1
        sender[named, 1:] = gather(chunk.data, bth[named] + 12 + DETH_AT[code[named]] + 5, 3)
        keys = np.concatenate([keys, sender, gather(chunk.data, bth + 5, 3), (code >> 5)[:, None]], axis=1)
        packed = np.ascontiguousarray(keys).view(f"V{keys.shape[1]}").ravel()
        order = np.argsort(_hash(keys), kind="stable")
        rows, bth, ordered = rows[order], bth[order], packed[order]
        edge = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        opcode, psn = located.opcode[rows], u24(chunk.data, bth + 9)
        packets = np.diff(np.append(edge, len(rows))).tolist()
        octets = np.add.reduceat(chunk.length[rows], edge).tolist()
        group = np.repeat(np.arange(len(edge)), packets)
        flows = [self._flow(ordered[i].tobytes(), names, int(order[i]), chunk.first + int(rows[i])) for i in edge.tolist()]
        # Requests carry consecutive PSNs: one that is not beyond the highest of its flow was sent before.
        asked = np.flatnonzero(REQUESTS[opcode] & np.isin(opcode >> 5, RETRYING))
        numbers, of = psn[asked], group[asked]
        if len(asked):
            first = np.flatnonzero(np.concatenate([[True], of[1:] != of[:-1]]))
            for i, number in zip(of[first].tolist(), numbers[first].tolist(), strict=True):
                if flows[i].last_psn < 0:
                    flows[i].last_psn = (number - 1) & 0xFFFFFF
            highest = np.array([flow.last_psn for flow in flows])
            # How far ahead of what the chunk started with; groups are lifted apart, so that one running maximum serves all.
            ahead = ((numbers - highest[of] + HALF) & 0xFFFFFF) - HALF + (of << 26)
            top = np.maximum.accumulate(np.maximum(ahead, of << 26))
            before = np.maximum(np.concatenate([[0], top[:-1]]), of << 26)
            again = ahead <= before
            if again.any() and len(self.repeated) < MAX_REPEATED:
                self.repeated.update((rows[asked[again]] + chunk.first).tolist())
            last = np.append(first[1:], len(asked)) - 1
            for i, step in zip(of[last].tolist(), (top[last] - (of[last] << 26)).tolist(), strict=True):
                flows[i].last_psn = (flows[i].last_psn + step) & 0xFFFFFF
        for flow, count, size in zip(flows, packets, octets, strict=True):
            flow.packets += count
            flow.octets += size
        bucket = np.clip((chunk.time_ns[rows] - self.start_ns) // self.step_ns, 0, SPARK - 1)
        place = np.array([flow.place for flow in flows])[group] * SPARK + bucket
        used, counts_ = np.unique(place, return_counts=True)
        self._sparks.reshape(-1)[used] += counts_

    def _flow(self, key: bytes, names: Names, row: int, frame: int) -> Flow:
        """The flow of a key, made when missing; beyond MAX_FLOWS all share one."""
        flow = self.flows.get(key)
        if flow is not None:
            return flow
        place = len(self.flows)
        if place >= len(self._sparks):
            self._sparks = np.concatenate([self._sparks, np.zeros_like(self._sparks)])
        if place < MAX_FLOWS:
            source, destination = names(row)
            service = SERVICES.get(key[-1], f"0x{key[-1]:x}")
            sender = int.from_bytes(key[-7:-4], "big") if key[-8] else -1
            flow = Flow(source, destination, int.from_bytes(key[-4:-1], "big"), service, sender, place=place, first_frame=frame)
        else:
            key = b""
            flow = self.flows.get(key) or Flow("further flows", "?", 0, "", place=place, first_frame=frame)
        self.flows[key] = flow
        return flow

    def snapshot(self) -> list[Flow]:
        """Copies that no longer change: busiest first."""
        flows = sorted(self.flows.values(), key=lambda flow: -flow.packets)
        return [replace(flow, spark=tuple(self._sparks[flow.place].tolist())) for flow in flows[:KEPT]]


def addresses(table: ChunkTable, rows: Int) -> tuple[npt.NDArray[np.uint8], Names]:
    """Source and destination of rows, as comparable bytes uint8[n, 33] and as a function that names those of row i."""
    located, data = table.located, table.chunk.data
    key = np.zeros((len(rows), 33), np.uint8)
    for kind, (name, source, destination, size) in enumerate(PLACES, start=1):
        start = located.at(name)[rows]
        there = np.flatnonzero(start >= 0)
        if len(there):
            key[there] = 0
            key[there, 0] = kind
            key[there, 1 : 1 + size] = gather(data, start[there] + source, size)
            key[there, 17 : 17 + size] = gather(data, start[there] + destination, size)
    return key, Names(key)


class Names:
    """The addresses in keys, spelled when asked for."""

    def __init__(self, key: npt.NDArray[np.uint8]) -> None:
        self.key = key
        self._known: dict[bytes, tuple[str, str]] = {}

    def __call__(self, i: int) -> tuple[str, str]:
        """Source and destination of a row."""
        raw = self.key[i].tobytes()
        found = self._known.get(raw)
        if found is None:
            found = self._known[raw] = (_name(raw[0], raw[1:17]), _name(raw[0], raw[17:33]))
        return found


def _name(kind: int, value: bytes) -> str:
    if kind == 4:
        return f"LID {int.from_bytes(value[:2], 'big')}"
    if kind == 2:
        return ".".join(map(str, value[:4]))
    return gid_text(value) if kind in (1, 3) else "?"


def _hash(keys: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """One number a key, so that equal keys come together when sorted; a clash only splits a flow's rows within the chunk."""
    wide = np.zeros((len(keys), -(-keys.shape[1] // 8) * 8), np.uint8)
    wide[:, : keys.shape[1]] = keys
    total = np.zeros(len(keys), np.uint64)
    for column in wide.view(np.uint64).T:
        total = (total ^ column) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total
