"""What does a capture contain: layers, datagrams, OpCodes, partitions, addresses, conversations, response times?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.chunk import LINK_NAMES
from ibdissect.capture.scattered import gather, u16
from ibdissect.dissect.summary_mad import attribute_name
from ibdissect.dropped import Dropped
from ibdissect.table.addresses import GID_SIZE, IP4_SIZE, LID_SIZE, SHOWN, address_text, by_header
from ibdissect.table.connections import Connections
from ibdissect.table.locate import MALFORMED, Bool, Int
from ibdissect.table.rows import by_value
from ibdissect.table.table import ChunkTable
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.catalog import builtin as builtin_catalog
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD, class_name, method_name
from ibdissect.wire.opcodes import OPCODE_NAMES, SERVICES
from ibdissect.wire.transport import BTH

from . import summaries
from .congestion import Congestion
from .credits import Credits
from .events import Ends
from .multicast import Multicast
from .recovery import Counts
from .reliable import Streams
from .transactions import AnsweredMany, Transactions, Unanswered

LAYERS = (
    ("erf", "ERF"), ("eth", "Ethernet"), ("vlan", "VLAN"), ("sll", "Linux cooked v1"), ("sll2", "Linux cooked v2"), ("lrh", "LRH"),
    ("link", "Flow control"), ("rwh", "Raw"), ("grh", "GRH"), ("ip4", "IPv4"), ("ip6", "IPv6"), ("udp", "UDP"), ("bth", "BTH"),
)  # fmt: skip
"""Headers of the hierarchy from the outside in; service and management class follow the BTH."""
MAX_KEYS = 65536
"""Most distinct values counted of each kind; further ones are counted together."""
BUCKETS_PER_OCTAVE = 16
"""Buckets of the response-time histogram are 4.4 % wide."""
Pair = tuple[int, int]
"""Frames and bytes."""


class Times(Record):
    """Response times as a histogram."""

    buckets: Counter[int]
    count: int = 0
    least: int = 0
    most: int = 0

    def add(self, ns: int) -> None:
        """Add one response time."""
        self.add_many(np.array([ns]))

    def add_many(self, ns: Int) -> None:
        """Add response times, int64[n], not empty."""
        ns = np.maximum(ns, 0)
        least, most = int(ns.min()), int(ns.max())
        self.least = least if not self.count else min(self.least, least)
        self.most = max(self.most, most)
        self.count += len(ns)
        buckets, counts = np.unique((np.log2(ns + 1.0) * BUCKETS_PER_OCTAVE).astype(np.int64), return_counts=True)
        for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
            self.buckets[bucket] += count

    def percentile(self, share: float) -> int:
        """Nanoseconds that a share of the answers did not exceed, to bucket precision, within the seen minimum and maximum."""
        wanted, seen = share * self.count, 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return int(min(max(2 ** ((bucket + 1) / BUCKETS_PER_OCTAVE), self.least), self.most))
        return self.most


class Tally:
    """Frames and bytes by value, bounded."""

    def __init__(self) -> None:
        self.frames: Counter[Any] = Counter()
        self.bytes: Counter[Any] = Counter()
        self.others: list[int] = [0, 0]
        """Frames and bytes of values beyond MAX_KEYS."""

    def add(self, values: npt.NDArray[Any], sizes: Int) -> None:
        """Count values; `sizes` are the frames' bytes."""
        if not len(values):
            return
        found, inverse = np.unique(values, return_inverse=True)
        counts = np.bincount(inverse.ravel(), minlength=len(found))
        total = np.bincount(inverse.ravel(), weights=sizes, minlength=len(found)).astype(np.int64)
        for value, count, size in zip(found.tolist(), counts.tolist(), total.tolist(), strict=True):
            if value in self.frames or len(self.frames) < MAX_KEYS:
                self.frames[value] += count
                self.bytes[value] += size
            else:
                self.others[0] += count
                self.others[1] += size

    def top(self, number: int | None = None) -> Iterator[tuple[Any, int, int]]:
        """Value, frames, bytes; most frames first, then by value."""
        for value, count in sorted(self.frames.items(), key=lambda item: (-item[1], item[0]))[:number]:
            yield value, count, self.bytes[value]


class Statistics:
    """Statistics of a capture; feed chunks in order. `shown` limits what is counted, but conversations are followed in all frames."""

    def __init__(self, catalog: Catalog | None = None) -> None:
        self.catalog = catalog if catalog is not None else builtin_catalog()
        self.frames = self.bytes = self.malformed = self.first_ns = self.last_ns = 0
        self.links, self.layers, self.opcodes, self.p_keys, self.mads = Tally(), Tally(), Tally(), Tally(), Tally()
        self.lids, self.queue_pairs = {"source": Tally(), "destination": Tally()}, Tally()
        self.talks = {"lid": Tally(), "ipv4": Tally(), "gid": Tally()}
        self.times: dict[tuple[int, int, int], Times] = {}
        self.unanswered: Counter[tuple[int, int, int]] = Counter()
        self.dropped = Dropped("kinds of requests")
        self.transactions, self.streams, self.connections = Transactions(), Streams(), Connections()
        self.multicast, self.congestion, self.credits = Multicast(), Congestion(), Credits()

    def feed(self, table: ChunkTable, shown: Bool | None = None) -> None:
        """Count a chunk."""
        self._follow(table)
        rows = np.arange(len(table)) if shown is None else np.flatnonzero(shown)
        if not len(rows):
            return
        sizes, times = table.chunk.length[rows], table.chunk.time_ns[rows]
        self.frames += len(rows)
        self.bytes += int(sizes.sum())
        self.first_ns = self.first_ns or int(times[0])
        self.last_ns = int(times[-1])
        self.malformed += int(np.count_nonzero(table.located.malformed[rows]))
        assert MALFORMED[0] == ""
        self.links.add(table.chunk.link[rows], sizes)
        self._layers(table, rows, sizes)
        self._transport(table, rows, sizes)
        self._talks(table, rows, sizes)

    def _follow(self, table: ChunkTable) -> None:
        for event in self.transactions.feed(table):
            if isinstance(event, AnsweredMany):
                self._answered(event)
            elif isinstance(event, Unanswered):
                key = (event.request.mgmt_class, event.request.method, event.request.attribute)
                if key in self.unanswered or len(self.unanswered) < MAX_KEYS:
                    self.unanswered[key] += 1
                else:
                    self.dropped.add(event.frame, event.time_ns)
        for source in (self.streams, self.connections):
            for _ in source.feed(table):
                pass  # the counts are in the follower's state
        self.multicast.of(table)
        self.congestion.of(table)
        self.credits.feed(table)

    def _answered(self, event: AnsweredMany) -> None:
        kinds = event.mgmt_class.astype(np.int64) << 24 | event.request_method.astype(np.int64) << 16 | event.attribute
        for kind, index in by_value(kinds):
            key = (kind >> 24, kind >> 16 & 0xFF, kind & 0xFFFF)
            if key in self.times or len(self.times) < MAX_KEYS:
                self.times.setdefault(key, Times(Counter())).add_many(event.latency_ns[index])
            else:
                self.dropped.add(int(event.frames[index[0]]), int(event.times_ns[index[0]]), len(index))

    def _layers(self, table: ChunkTable, rows: Int, sizes: Int) -> None:
        """Count frames by a number with a bit per header, the service and the management class."""
        start, data = table.located.start, table.chunk.data
        code = np.zeros(len(rows), np.int64)
        for bit, (name, _) in enumerate(LAYERS):
            if name in start:
                code |= (start[name][rows] >= 0).astype(np.int64) << bit
        if "bth" in start:
            has = start["bth"][rows] >= 0
            code[has] |= ((table.located.opcode[rows[has]] >> 5).astype(np.int64) + 1) << 16
        if "mad" in start:
            has = start["mad"][rows] >= 0
            code[has] |= (data[start["mad"][rows[has]] + 1].astype(np.int64) | 0x100) << 20
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
        key = (data[at + 1].astype(np.int64) << 24) | (data[at + 3].astype(np.int64) << 16) | u16(data, at + MAD.attribute_id.bit // 8)
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

    # -- the result

    def result(self, top: int | None = None) -> dict[str, Any]:
        """All statistics as plain data; `top` limits the long lists."""
        for request in self.transactions.open_requests():
            self.unanswered[request.mgmt_class, request.method, request.attribute] += 1
        self.transactions.give_up()
        return {
            "frames": self.frames,
            "bytes": self.bytes,
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "malformed": self.malformed,
            "link_types": [_counted(n, s, link=LINK_NAMES.get(v, f"link type {v}")) for v, n, s in self.links.top()],
            "hierarchy": self._hierarchy(),
            "mads": [_counted(n, s, **self._kind(v >> 24, v >> 16 & 0xFF, v & 0xFFFF)) for v, n, s in self.mads.top(top)],
            "opcodes": [_counted(n, s, opcode=v, name=OPCODE_NAMES.get(v, "reserved")) for v, n, s in self.opcodes.top(top)],
            "p_keys": [_counted(n, s, p_key=v) for v, n, s in self.p_keys.top(top)],
            "lids": {side: [_counted(n, s, lid=v) for v, n, s in tally.top(top)] for side, tally in self.lids.items()},
            "queue_pairs": [_counted(n, s, dest_qp=v) for v, n, s in self.queue_pairs.top(top)],
            "conversations": self._conversations(top),
            "response_times": self._response_times(),
            "connections": self._connections(),
            "connection_list": summaries.connections(self.connections, top),
            "datagram_services": summaries.resolutions(self.connections, top),
            "streams": self._streams(top),
            "multicast": summaries.multicast(self.multicast, top),
            "congestion": summaries.congestion(self.congestion, top),
        }  # fmt: skip

    def _kind(self, mgmt_class: int, method: int, attribute: int) -> dict[str, Any]:
        """A kind of management datagram, as numbers and names."""
        return {
            "mgmt_class": mgmt_class, "class_name": class_name(mgmt_class), "method": method_name(mgmt_class, method),
            "attribute": attribute, "attribute_name": attribute_name(self.catalog, mgmt_class, attribute, method),
        }  # fmt: skip

    def _hierarchy(self) -> list[dict[str, Any]]:
        """Every path of layers, with the number of frames that have at least these layers."""
        total: dict[tuple[str, ...], list[int]] = {}
        for code, frames, size in self.layers.top():
            path = [name for bit, (_, name) in enumerate(LAYERS) if code >> bit & 1]
            if code >> 16 & 15:
                service = ((code >> 16 & 15) - 1) << 5
                path.append(SERVICES.get(service, f"service 0x{service:02x}"))
            if code >> 28 & 1:
                path.append(class_name(code >> 20 & 0xFF))
            for depth in range(1, len(path) + 1):
                entry = total.setdefault(tuple(path[:depth]), [0, 0])
                entry[0] += frames
                entry[1] += size
        return [_counted(frames, size, path=list(path)) for path, (frames, size) in sorted(total.items())]

    def _conversations(self, top: int | None) -> list[dict[str, Any]]:
        found = []
        for kind, tally in self.talks.items():
            width = {"lid": LID_SIZE, "ipv4": IP4_SIZE, "gid": GID_SIZE}[kind]
            for value, frames, size in tally.top(top):
                whole = value.ljust(2 * width, b"\0") if isinstance(value, bytes) else value.to_bytes(2 * width, "big")
                found.append(_counted(frames, size, source=address_text(whole[:width]), destination=address_text(whole[width:])))
        found.sort(key=lambda entry: (-entry["frames"], entry["source"], entry["destination"]))
        return found[:top]

    def _response_times(self) -> list[dict[str, Any]]:
        result = []
        for key in sorted(self.times.keys() | self.unanswered.keys()):
            entry = self._kind(*key) | {"answered": 0, "unanswered": self.unanswered[key]}
            times = self.times.get(key)
            if times is not None:
                entry |= {"answered": times.count, "min_ns": times.least, "max_ns": times.most}
                entry |= {f"p{share}_ns": times.percentile(share / 100) for share in (50, 90, 99)}
            result.append(entry)
        return result

    def _connections(self) -> dict[str, int]:
        every = self.connections.all
        return {
            "requested": len(every), "established": sum(c.rtu_frame > 0 for c in every), "rejected": sum(c.rej_frame > 0 for c in every),
            "disconnected": sum(c.drep_frame > 0 for c in every),
        }  # fmt: skip

    def _streams(self, top: int | None) -> list[dict[str, Any]]:
        """Streams, most packets first, with their error counts."""
        state, quiet = self.streams.state, Counts()
        order = sorted(range(len(self.streams.ends)), key=lambda slot: (-int(state["packets"][slot]), slot))[:top]
        result = []
        for slot in order:
            ends, stream = self.streams.ends[slot], self.streams.troubled.get(slot)
            counts = stream.counts if stream is not None else quiet
            result.append({
                "service": ends.service, "source": str(ends.source), "destination": str(ends.destination), "dest_qp": ends.dest_qp,
                "responses": ends.response, "packets": int(state["packets"][slot]), "payload_bytes": int(state["bytes"][slot]),
                "repeated": counts.repeated, "missing": counts.missing, "naks": sum(counts.naks.values()), "rnr_naks": counts.rnr,
                "restarts": counts.restarts, "middle_restarts": counts.middle_restarts, "repeated_reads": counts.repeated_reads,
                "nak_codes": {str(code): number for code, number in sorted(counts.naks.items())},
                "repeated_responses": counts.repeated_responses, "missing_responses": counts.missing_responses,
                **self._room(ends),
            })  # fmt: skip
        return result

    def _room(self, ends: Ends) -> dict[str, int | None]:
        """End-to-end credits that a responder granted."""
        room = self.credits.by_way.get((ends.source, ends.destination, ends.dest_qp)) if ends.response else None
        return {"least_credits": room.least if room is not None else None, "no_credits": room.none if room is not None else None}


def _numbers(rows: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Rows of 4 or 8 bytes as big-endian integers."""
    return rows.view(f">u{rows.shape[1]}").ravel()


def _counted(frames: int, size: int, **what: Any) -> dict[str, Any]:
    return {**what, "frames": frames, "bytes": size}
