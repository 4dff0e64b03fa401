"""Congestion marks and notifications (ECN, FECN, BECN, CNP), and source ports and fragments of RoCE flows."""

from __future__ import annotations

from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec import field

from ibdissect.bounded import KeptDict
from ibdissect.capture.gather import looked_up
from ibdissect.capture.records import ROWS
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import End, ends_hash, ends_of
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.equal_rows import SPREAD, by_value
from ibdissect.decode.header_cache import FieldReader
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import Code, QpNumber
from ibdissect.engine.datagram_copies import BECN, CE, FECN
from ibdissect.engine.seen_before import NewNumbers
from ibdissect.wire.encapsulation import IP6_FRAGMENT, UDP, IPv4, IPv6
from ibdissect.wire.headers import BTH
from ibdissect.wire.opcodes import ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, CNP_OPCODE, CONNECTED, OPERATION, SERVICE

PATIENCE_NS = SECOND_NS
"""Notifications follow within microseconds; after a second none is expected."""
MAX_PAIRS, MAX_PORTS = 32768, 64
SPECIAL_QP = 1
OF_CONNECTIONS = np.isin(np.arange(256) & SERVICE, CONNECTED)
"""OpCodes of RC, UC and XRC, bool[256]; without UD, as drivers derive its source port from the flow label alone."""
ANSWERED = OF_CONNECTIONS & ~np.isin(np.arange(256) & OPERATION, (ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE))
"""OpCodes whose marks cause a notification: acknowledgements are too short to be slowed down, datagrams have no rate to lower."""
UDP_PROTOCOL = 17


class PortPair(Record):
    """Traffic from one port to another."""

    source: End
    destination: End
    first_frame: int
    first_ns: int
    ce: int = 0
    """Packets marked by switches (ECN 11)."""
    fecn: int = 0
    becn: int = 0
    """Packets with BECN, without CNPs."""
    notifications: int = 0
    """CNPs."""
    fragments: int = 0
    """IP fragments of UDP datagrams."""
    ports: set[Code] = field(default_factory=set)
    """UDP source ports of connections, at most MAX_PORTS."""
    queue_pairs: set[QpNumber] = field(default_factory=set)
    """Destination queue pairs of these connections, at most MAX_PORTS."""
    open_frame: int = 0
    """The first marked packet since the last notification; 0 if there is none."""
    open_ns: int = 0
    ignored_frame: int = 0
    """The first marked packet without a notification in time."""
    ignored_ns: int = 0

    @property
    def texts(self) -> tuple[str, str]:
        """Both addresses as text."""
        return str(self.source), str(self.destination)


class Congestion:
    """All pairs of ports with marks, RoCE connections or fragments, bounded. Feed chunks in order."""

    after: ClassVar = (Scopes,)

    def __init__(self, scopes: Scopes | None = None) -> None:
        self.pairs = KeptDict[tuple[End, End], PortPair](MAX_PAIRS, "pairs of ports")
        self.scopes = scopes or Scopes()

    @cached_property
    def _known(self) -> NewNumbers:
        """Connections seen before, whose packets are skipped."""
        return NewNumbers(ROWS)

    def feed(self, table: ChunkTable) -> None:
        self.scopes.feed(table)
        bth = table.located.start.get("bth")
        rows = np.flatnonzero(bth >= 0) if bth is not None else np.empty(0, np.int64)
        if len(rows) or table.remarked is not None:
            self._marks(table, rows)
            self._ports(table, rows)
        self._fragments(table)

    def finish(self) -> None:
        """Call at the end of the capture: records marked packets without a notification."""
        for pair in self.pairs.values():
            if pair.open_frame and self.scopes.goes_on(pair.open_frame, pair.open_ns) >= PATIENCE_NS:
                self._ignored(pair)

    @staticmethod
    def _ignored(pair: PortPair) -> None:
        if not pair.ignored_frame:
            pair.ignored_frame, pair.ignored_ns = pair.open_frame, pair.open_ns
        pair.open_frame = 0

    def _pairs(self, table: ChunkTable, rows: Int) -> list[PortPair | None]:
        """The pair of each row, created if missing; None beyond the limit."""
        whens = zip((table.chunk.first + rows).tolist(), table.chunk.time_ns[rows].tolist(), strict=True)
        get = self.pairs.get_or_make
        return [get(way, partial(PortPair, *way, *when), *when) for way, when in zip(ends_of(table, rows), whens, strict=True)]

    def _marks(self, table: ChunkTable, rows: Int) -> None:
        """Count marked packets and notifications, each packet once, whichever of its copies shows the mark; usually there are none."""
        rows = rows[:0] if not _marked(table) else rows
        bits, is_cnp = marks(table, rows), table.located.opcode[rows] == CNP_OPCODE
        some = is_cnp | (bits != 0)
        rows, bits, is_cnp, ends = rows[some], bits[some], is_cnp[some], ends_hash(table, rows[some])
        again = table.remarked
        if again is not None:
            copies = np.flatnonzero(again.marks)
            order = np.argsort(np.concatenate((rows, copies)), kind="stable")
            rows, bits = np.concatenate((rows, copies))[order], np.concatenate((bits, again.marks[copies]))[order]
            is_cnp = np.concatenate((is_cnp, np.zeros(len(copies), np.bool_)))[order]
            ends = np.concatenate((ends, ends_hash(again.table, copies)))[order]
        if not len(rows):
            return
        ce = bits & CE != 0
        opcode = table.located.opcode[rows]
        times = table.chunk.time_ns[rows]
        by_pair = [mine for _, mine in by_value(ends)]
        none = rows[:0]
        seen: dict[tuple[End, End], Int] = {}
        for mine in by_pair:
            first = rows[mine[:1]]
            (pair,) = self._pairs(again.table if again is not None and again.marks[first[0]] else table, first)
            if pair is not None:
                pair.ce += int(np.count_nonzero(ce[mine]))
                pair.notifications += int(np.count_nonzero(is_cnp[mine]))
                pair.fecn += int(np.count_nonzero(bits[mine] & FECN))
                pair.becn += int(np.count_nonzero((bits[mine] & BECN != 0) & ~is_cnp[mine]))
                seen[pair.source, pair.destination] = mine
        for source, destination in dict.fromkeys((*seen, *((two, one) for one, two in seen))):
            pair = self.pairs.get((source, destination))
            if pair is not None:
                mine, back = seen.get((source, destination), none), seen.get((destination, source), none)
                marked = mine[ce[mine] & ANSWERED[opcode[mine]]]
                self._match(pair, table.chunk.first + rows[marked], times[marked], times[back[is_cnp[back]]])

    def _match(self, pair: PortPair, frames: Int, times: Int, notified: Int) -> None:
        """Match marked packets of a pair with the times `notified` of the notifications that came back, both in order of time."""
        if pair.open_frame:
            frames, times = np.concatenate(([pair.open_frame], frames)), np.concatenate(([pair.open_ns], times))
        if not len(frames):
            return
        after = np.searchsorted(notified, times)
        late = np.flatnonzero((after < len(notified)) & (np.append(notified, 0)[np.minimum(after, len(notified))] - times > PATIENCE_NS))
        if len(late):
            pair.open_frame, pair.open_ns = int(frames[late[0]]), int(times[late[0]])
            self._ignored(pair)
        open_ = np.flatnonzero(after == len(notified))
        pair.open_frame, pair.open_ns = (int(frames[open_[0]]), int(times[open_[0]])) if len(open_) else (0, 0)
        if len(open_) and int(times[-1]) - pair.open_ns > PATIENCE_NS:
            self._ignored(pair)
            pair.open_frame, pair.open_ns = int(frames[-1]), int(times[-1])

    def _ports(self, table: ChunkTable, rows: Int) -> None:
        """Record each source port and queue pair of RoCE connections once."""
        udp = table.located.start.get("udp")
        if udp is None:
            return
        rows = rows[(udp[rows] >= 0) & looked_up(table.located.opcode.take(rows), OF_CONNECTIONS)]
        if not len(rows):
            return
        ports, queue_pairs = (table.values_at(field, rows).astype(np.uint64) for field in (UDP.source_port, BTH.destqp))
        key = ends_hash(table, rows) ^ ((ports << np.uint64(24) | queue_pairs) * SPREAD)
        new = np.array(self._known.feed(key.view(np.int64), True), np.int64)
        new = new[queue_pairs[new] > SPECIAL_QP]
        rows, ports, queue_pairs = rows[new], ports[new], queue_pairs[new]
        for pair, one, number in zip(self._pairs(table, rows), ports.tolist(), queue_pairs.tolist(), strict=True):
            if pair is not None:
                if len(pair.ports) < MAX_PORTS:
                    pair.ports.add(one)
                if len(pair.queue_pairs) < MAX_PORTS:
                    pair.queue_pairs.add(number)

    def _fragments(self, table: ChunkTable) -> None:
        """Count IP fragments of UDP datagrams."""
        start = table.located.start
        for name, test in (("ip4", _is_ip4_fragment), ("ip6", lambda head: head.part(6, 1)[:, 0] == IP6_FRAGMENT)):
            if name not in start:
                continue
            rows = np.flatnonzero(start[name] >= 0)
            rows = rows[test(FieldReader(table.located.front, rows, start[name].take(rows)))]
            if len(rows):
                ends = ends_hash(table, rows)
                _, first, counts = np.unique(ends, return_index=True, return_counts=True)
                for pair, count in zip(self._pairs(table, rows[first]), counts.tolist(), strict=True):
                    if pair is not None:
                        pair.fragments += count


def _is_ip4_fragment(head: FieldReader) -> Bool:
    offset = head.part(6, 2)
    fragment: Bool = (offset[:, 0] & 0x3F != 0) | (offset[:, 1] != 0)
    return fragment & (head.part(9, 1)[:, 0] == UDP_PROTOCOL) if fragment.any() else fragment


def marks(table: ChunkTable, rows: Int) -> npt.NDArray[np.uint8]:
    """The marks of congestion of packets: FECN, BECN and CE, uint8[n]."""
    loc = table.located
    in_bth = loc.front.part(rows, loc.start["bth"][rows] + BTH.fecn.bit // 8, 1)[:, 0] & np.uint8(FECN | BECN)
    found: npt.NDArray[np.uint8] = in_bth | np.where(ecn(table, rows) == CE, np.uint8(CE), np.uint8(0))
    return found


def _marked(table: ChunkTable) -> bool:
    """Whether any packet is marked or is a notification."""
    in_bth = (table.values(BTH.opcode) == CNP_OPCODE).any() or table.values(BTH.fecn).any() or table.values(BTH.becn).any()
    return bool(in_bth or any((table.values(field) == CE).any() for field in (IPv4.ecn, IPv6.ecn)))


def traffic_class(table: ChunkTable, rows: Int, around: str = "") -> Int:
    """DSCP and ECN of the IP header of each row, int64[n]; -1 without IP. `around`: of that around a tunnel, as `.0`."""
    start = table.located.start
    found = np.full(len(rows), -1, np.int64)
    for name, declared in (("ip4" + around, IPv4.dsfield), ("ip6" + around, IPv6.traffic_class)):
        if name in start:
            index = np.flatnonzero(start[name][rows] >= 0)
            some = rows[index]
            found[index] = extract(table.located.front.part(some, start[name][some], 2), declared.bit, declared.bits)
    return found


def ecn(table: ChunkTable, rows: Int) -> Int:
    """The ECN bits of the IP header of each row, int64[n]; 0 without IP."""
    return np.maximum(traffic_class(table, rows), 0) & 3
