"""Packets of a capture counted by layers, datagrams, OpCodes, partitions, addresses, and who sends to whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import LINK_NAMES
from ibdissect.capture.gather import gather
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import GID_SIZE, IP4_SIZE, LID_SIZE, SHOWN, address_text, by_header
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.identity import Code, Content
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.mad import MAD, class_name
from ibdissect.wire.opcodes import OPCODE_NAMES, SERVICES

LAYERS = (
    ("erf", "ERF"), ("mpls.0", "MPLS"), ("gre.0", "GRE"), ("erspan2.0", "ERSPAN II"), ("erspan3.0", "ERSPAN III"), ("vxlan.0", "VXLAN"),
    ("vxlan_gpe.0", "VXLAN-GPE"), ("geneve.0", "GENEVE"), ("eth", "Ethernet"), ("vlan", "VLAN"), ("sll", "Linux cooked v1"),
    ("sll2", "Linux cooked v2"), ("null", "BSD loopback"), ("ppp", "PPP"), ("pause", "Pause"), ("pfc", "PFC"), ("lrh", "LRH"),
    ("link", "Flow control"), ("rwh", "Raw"), ("grh", "GRH"), ("ip4", "IPv4"), ("ip6", "IPv6"), ("ip6_routing", "IPv6 routing header"),
    ("udp", "UDP"), ("bth", "BTH"),
)  # fmt: skip
"""Headers of the hierarchy from the outside in, of tunnels only their own; service and management class follow the BTH."""
SERVICE = len(LAYERS)
CLASS = SERVICE + 4
"""Where the number of a hierarchy has its service and management class, after a bit for each header."""
MAX_VALUES = 65536
"""Most distinct values counted of each kind; further ones are counted together."""
WIDTHS = {"lid": LID_SIZE, "ipv4": IP4_SIZE, "gid": GID_SIZE}
"""Kinds of addresses, and their bytes."""


V = TypeVar("V", Code, Code | Content)


class BoundedTally(Generic[V]):
    """Frames and bytes by value, bounded."""

    def __init__(self) -> None:
        self.frames: Counter[V] = Counter()
        self.bytes: Counter[V] = Counter()
        self.others: list[int] = [0, 0]
        """Frames and bytes of values beyond MAX_VALUES."""

    def add(self, values: npt.NDArray[Any], sizes: Int) -> None:
        """Count values; `sizes` are the frames' bytes."""
        if not len(values):
            return
        found, inverse = np.unique(values, return_inverse=True)
        counts = np.bincount(inverse.ravel(), minlength=len(found))
        total = np.bincount(inverse.ravel(), weights=sizes, minlength=len(found)).astype(np.int64)
        for value, count, size in zip(found.tolist(), counts.tolist(), total.tolist(), strict=True):
            if value in self.frames or len(self.frames) < MAX_VALUES:
                self.frames[value] += count
                self.bytes[value] += size
            else:
                self.others[0] += count
                self.others[1] += size

    def top(self, number: int | None = None) -> Iterator[tuple[V, int, int]]:
        """Value, frames, bytes; most frames first, then by value."""
        for value, count in sorted(self.frames.items(), key=lambda item: (-item[1], item[0]))[:number]:
            yield value, count, self.bytes[value]


class Traffic:
    """Counts frames and bytes."""

    def __init__(self) -> None:
        self.frames = self.bytes = self.malformed = self.first_ns = self.last_ns = 0
        self.captured = self.cut = 0
        self.set_back = self.set_back_ns = 0
        """Frames whose time is before that of the frame before; by how much at most."""
        self._before: int | None = None
        self.links, self.layers, self.opcodes, self.p_keys, self.mads = (
            BoundedTally[Code](),
            BoundedTally[Code](),
            BoundedTally[Code](),
            BoundedTally[Code](),
            BoundedTally[Code](),
        )
        self.lids, self.queue_pairs = {"source": BoundedTally[Code](), "destination": BoundedTally[Code]()}, BoundedTally[Code]()
        self.talks = {kind: BoundedTally[Code | Content]() for kind in WIDTHS}

    def feed(self, table: ChunkTable, rows: Int) -> None:
        if not len(rows):
            return
        sizes, times = table.chunk.length[rows], table.chunk.time_ns[rows]
        self.frames += len(rows)
        self.bytes += int(sizes.sum())
        self.captured += int(table.chunk.caplen[rows].sum())
        self.cut += int(np.count_nonzero(table.chunk.caplen[rows] < sizes))
        earliest, latest = int(times.min()), int(times.max())
        self.first_ns = earliest if self._before is None else min(self.first_ns, earliest)
        self.last_ns = latest if self._before is None else max(self.last_ns, latest)
        steps = np.diff(times, prepend=times[0] if self._before is None else self._before)
        self.set_back += int(np.count_nonzero(steps < 0))
        self.set_back_ns = max(self.set_back_ns, -int(steps.min()))
        self._before = int(times[-1])
        self.malformed += int(np.count_nonzero(table.located.malformed[rows]))
        self.links.add(table.chunk.link[rows], sizes)
        self._layers(table, rows, sizes)
        self._transport(table, rows, sizes)
        self._talks(table, rows, sizes)

    def _layers(self, table: ChunkTable, rows: Int, sizes: Int) -> None:
        """Count frames by a number with a bit per header, the service and the management class."""
        start, data = table.located.start, table.chunk.data
        code = np.zeros(len(rows), np.int64)
        for bit, (name, _) in enumerate(LAYERS):
            if name in start:
                code |= (start[name][rows] >= 0).astype(np.int64) << bit
        if "bth" in start:
            has = start["bth"][rows] >= 0
            code[has] |= ((table.located.opcode[rows[has]] >> 5).astype(np.int64) + 1) << SERVICE
        if "mad" in start:
            has = start["mad"][rows] >= 0
            code[has] |= (value_at(data, start["mad"][rows[has]], MAD.mgmt_class).astype(np.int64) | 0x100) << CLASS
        self.layers.add(code, sizes)

    def _transport(self, table: ChunkTable, rows: Int, sizes: Int) -> None:
        there = table.located.at("bth")[rows] >= 0
        some, size = rows[there], sizes[there]
        self.opcodes.add(table.located.opcode[some], size)
        self.p_keys.add(table.of_rows(BTH.p_key)[0][some], size)
        self.queue_pairs.add(table.of_rows(BTH.destqp)[0][some], size)
        there = table.located.at("lrh")[rows] >= 0
        for side, field in (("source", LRH.slid), ("destination", LRH.dlid)):
            self.lids[side].add(table.of_rows(field)[0][rows[there]], sizes[there])
        there = table.located.at("mad")[rows] >= 0
        at = table.located.at("mad")[rows[there]]
        data = table.chunk.data
        mgmt_class, method, attribute = (value_at(data, at, field) for field in (MAD.mgmt_class, MAD.method, MAD.attribute_id))
        key = (mgmt_class << 24) | (method << 16) | attribute
        self.mads.add(key, sizes[there])

    def _talks(self, table: ChunkTable, rows: Int, sizes: Int) -> None:
        """Count conversations by the addresses that `show` prints."""
        for header, index, at in by_header(table, rows, SHOWN):
            both = [gather(table.chunk.data, at + offset, header.size) for offset in (header.source, header.destination)]
            found = np.concatenate(both, axis=1)
            if header.size == GID_SIZE:
                self.talks["gid"].add(found.view(f"S{found.shape[1]}").ravel(), sizes[index])
            else:
                self.talks["lid" if header.size == LID_SIZE else "ipv4"].add(_numbers(found), sizes[index])

    @property
    def infiniband(self) -> int:
        """Frames with InfiniBand or RoCE headers."""
        ours = sum(1 << bit for bit, (name, _) in enumerate(LAYERS) if name in ("lrh", "bth"))
        return sum(count for code, count in self.layers.frames.items() if code & ours)

    def pairs(self, kind: str, top: int | None = None) -> Iterator[tuple[str, str, int, int]]:
        """Sender, receiver, frames and bytes of a kind of addresses; most frames first."""
        width = WIDTHS[kind]
        for value, frames, size in self.talks[kind].top(top):
            both = value.ljust(2 * width, b"\0") if isinstance(value, bytes) else value.to_bytes(2 * width, "big")
            yield address_text(both[:width]), address_text(both[width:]), frames, size

    def result(self, top: int | None, kind: Callable[[int, int, int], dict[str, Any]]) -> dict[str, Any]:
        """The counts as plain data; `top` limits the long lists, `kind` describes a class, method and attribute."""
        return {
            "frames": self.frames,
            "bytes": self.bytes,
            "captured_bytes": self.captured,
            "cut_frames": self.cut,
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "set_back": self.set_back,
            "set_back_ns": self.set_back_ns,
            "malformed": self.malformed,
            "link_types": [traffic_row(n, s, link=LINK_NAMES.get(v, f"link type {v}")) for v, n, s in self.links.top()],
            "hierarchy": self._hierarchy(),
            "mads": [traffic_row(n, s, **kind(v >> 24, v >> 16 & 0xFF, v & 0xFFFF)) for v, n, s in self.mads.top(top)],
            "opcodes": [traffic_row(n, s, opcode=v, name=OPCODE_NAMES.get(v, "reserved")) for v, n, s in self.opcodes.top(top)],
            "p_keys": [traffic_row(n, s, p_key=v) for v, n, s in self.p_keys.top(top)],
            "lids": {side: [traffic_row(n, s, lid=v) for v, n, s in tally.top(top)] for side, tally in self.lids.items()},
            "queue_pairs": [traffic_row(n, s, dest_qp=v) for v, n, s in self.queue_pairs.top(top)],
            "conversations": self._conversations(top),
        }  # fmt: skip

    def _hierarchy(self) -> list[dict[str, Any]]:
        """Every path of layers, with the number of frames that have at least these layers."""
        total: dict[tuple[str, ...], list[int]] = {}
        for code, frames, size in self.layers.top():
            path = [name for bit, (_, name) in enumerate(LAYERS) if code >> bit & 1]
            if code >> SERVICE & 15:
                service = ((code >> SERVICE & 15) - 1) << 5
                path.append(SERVICES.get(service, f"service 0x{service:02x}"))
            if code >> CLASS + 8 & 1:
                path.append(class_name(code >> CLASS & 0xFF))
            for depth in range(1, len(path) + 1):
                entry = total.setdefault(tuple(path[:depth]), [0, 0])
                entry[0] += frames
                entry[1] += size
        return [traffic_row(frames, size, path=list(path)) for path, (frames, size) in sorted(total.items())]

    def _conversations(self, top: int | None) -> list[dict[str, Any]]:
        found = [traffic_row(n, s, source=one, destination=two) for kind in WIDTHS for one, two, n, s in self.pairs(kind, top)]
        found.sort(key=lambda entry: (-entry["frames"], entry["source"], entry["destination"]))
        return found[:top]


def _numbers(rows: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Rows of 4 or 8 bytes as big-endian integers."""
    return rows.view(f">u{rows.shape[1]}").ravel()


def traffic_row(frames: int, size: int, **what: Any) -> dict[str, Any]:
    """An entry of a list."""
    return {**what, "frames": frames, "bytes": size}
