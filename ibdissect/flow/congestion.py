"""Where was congestion marked and told of (ECN, FECN, BECN, CNP), and how do RoCE flows use their path: source ports, fragments?"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.record import record
from ibdissect.table.addresses import PLACES, address_text, ways_of
from ibdissect.table.front import Place
from ibdissect.table.locate import Bool, Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.around import UDP, IPv4, IPv6
from ibdissect.wire.opcodes import CNP_OPCODE
from ibdissect.wire.transport import BTH

from .asked import mixed
from .columns import U64, by_opcode

FECN, BECN, CE = 0x80, 0x40, 3
PATIENCE_NS = 1_000_000_000
"""A notification follows within microseconds; after a second there is none."""
MAX_PAIRS, MAX_PORTS = 65536, 64
SPECIAL_QP = 1
CONNECTED = np.isin(np.arange(256) >> 5, (0, 1, 5))
"""OpCodes of RC, UC and XRC, bool[256]. Datagrams to many queue pairs may share a port: drivers take it from the flow label alone."""
SLOTS = 1 << 16
ANSWERED = CONNECTED & ~np.isin(np.arange(256) & 0x1F, (0x11, 0x12))
"""OpCodes whose marks a notification follows: acknowledgements are too short to be slowed down, and datagrams have no rate to lower."""
UDP_PROTOCOL, IP6_FRAGMENT = 17, 44
NETWORK_FIRST = PLACES[::-1]
"""A packet with a network header is between the addresses of that."""


@record(eq=True, frozen=False)
class Pair:
    """What one port sends to another."""

    source: bytes
    """Two bytes are a LID, four an IPv4 address, sixteen a GID or IPv6 address."""
    destination: bytes
    first_frame: int
    first_ns: int
    ce: int = 0
    """Packets that switches marked (ECN 11)."""
    fecn: int = 0
    becn: int = 0
    """Without notifications of their own (CNP)."""
    notifications: int = 0
    """CNPs."""
    fragments: int = 0
    """Pieces of fragmented UDP datagrams."""
    ports: set[int] = field(default_factory=set)
    """UDP source ports of connections, at most MAX_PORTS."""
    queue_pairs: set[int] = field(default_factory=set)
    """Their destination queue pairs, at most MAX_PORTS."""
    open_frame: int = 0
    """The first marked packet since the last notification came back; 0 when there is none."""
    open_ns: int = 0
    ignored_frame: int = 0
    """The first marked packet that no notification followed in time."""
    ignored_ns: int = 0

    @property
    def texts(self) -> tuple[str, str]:
        """Both addresses as people write them."""
        return address_text(self.source), address_text(self.destination)


class Congestion:
    """All pairs of ports with marks, RoCE connections or fragments; bounded. `of` every chunk in order, by whoever asks first."""

    def __init__(self) -> None:
        self._of: ChunkTable | None = None
        self.pairs: dict[tuple[bytes, bytes], Pair] = {}
        self.dropped = Dropped("pairs of ports")
        self.last_ns = 0
        self._known = np.zeros(SLOTS, np.uint64)
        """Connections met lately, by their slot: most packets are of one of them and need no second look."""

    def of(self, table: ChunkTable) -> Congestion:
        """Take in a chunk."""
        if self._of is not table:
            self._of = table
            if len(table):
                self.last_ns = int(table.chunk.time_ns[-1])
            bth = table.located.start.get("bth")
            rows = np.flatnonzero(bth >= 0) if bth is not None else np.empty(0, np.int64)
            if len(rows):
                self._marks(table, rows)
                self._ports(table, rows)
            self._fragments(table)
        return self

    def finish(self) -> None:
        """At the end of the capture: marks that were left without notification for long enough."""
        for pair in self.pairs.values():
            if pair.open_frame and self.last_ns - pair.open_ns >= PATIENCE_NS:
                self._ignored(pair)

    @staticmethod
    def _ignored(pair: Pair) -> None:
        if not pair.ignored_frame:
            pair.ignored_frame, pair.ignored_ns = pair.open_frame, pair.open_ns
        pair.open_frame = 0

    def _pairs(self, table: ChunkTable, rows: Int) -> list[Pair | None]:
        """The pair that each row belongs to, made when missing; None beyond the bound."""
        found, ways = self.pairs, ways_of(table, rows, NETWORK_FIRST)
        for way, frame, time_ns in zip(ways, (table.chunk.first + rows).tolist(), table.chunk.time_ns[rows].tolist(), strict=True):
            if way not in found:
                if len(found) < MAX_PAIRS:
                    found[way] = Pair(*way, frame, time_ns)
                else:
                    self.dropped.add(frame, time_ns)
        return [found.get(way) for way in ways]

    def _marks(self, table: ChunkTable, rows: Int) -> None:
        """Packets with a mark, and notifications: usually none."""
        if not _marked(table):
            return
        loc = table.located
        bits = loc.front.part(rows, loc.start["bth"][rows] + BTH.fecn.bit // 8, 1)[:, 0] & (FECN | BECN)
        told = loc.opcode[rows] == CNP_OPCODE
        ce = ecn(table, rows) == CE
        some = np.flatnonzero(ce | told | (bits != 0))
        if not len(some):
            return
        rows, bits, told, ce = rows[some], bits[some], told[some], ce[some]
        opcode = loc.opcode[rows]
        ends = ends_hash(table, rows)
        times = table.chunk.time_ns[rows]
        order = np.argsort(ends, kind="stable")
        starts = np.flatnonzero(np.concatenate(([True], ends[order][1:] != ends[order][:-1])))
        none = order[:0]
        seen: dict[tuple[bytes, bytes], Int] = {}
        for mine, pair in zip(np.split(order, starts[1:]), self._pairs(table, rows[order[starts]]), strict=True):
            if pair is not None:
                pair.ce += int(np.count_nonzero(ce[mine]))
                pair.notifications += int(np.count_nonzero(told[mine]))
                pair.fecn += int(np.count_nonzero(bits[mine] & FECN))
                pair.becn += int(np.count_nonzero((bits[mine] & BECN != 0) & ~told[mine]))
                seen[pair.source, pair.destination] = mine
        for near, far in dict.fromkeys((*seen, *((far, near) for near, far in seen))):
            pair = self.pairs.get((near, far))
            if pair is not None:
                mine, back = seen.get((near, far), none), seen.get((far, near), none)
                marked = mine[ce[mine] & ANSWERED[opcode[mine]]]
                self._match(pair, table.chunk.first + rows[marked], times[marked], times[back[told[back]]])

    def _match(self, pair: Pair, frames: Int, times: Int, told: Int) -> None:
        """Marked packets of a pair, and the notifications that came back, both in order of time."""
        if pair.open_frame:
            frames, times = np.concatenate(([pair.open_frame], frames)), np.concatenate(([pair.open_ns], times))
        if not len(frames):
            return
        after = np.searchsorted(told, times)
        late = np.flatnonzero((after < len(told)) & (np.append(told, 0)[np.minimum(after, len(told))] - times > PATIENCE_NS))
        if len(late):
            pair.open_frame, pair.open_ns = int(frames[late[0]]), int(times[late[0]])
            self._ignored(pair)
        open_ = np.flatnonzero(after == len(told))
        pair.open_frame, pair.open_ns = (int(frames[open_[0]]), int(times[open_[0]])) if len(open_) else (0, 0)
        if len(open_) and int(times[-1]) - pair.open_ns > PATIENCE_NS:
            self._ignored(pair)
            pair.open_frame, pair.open_ns = int(frames[-1]), int(times[-1])

    def _ports(self, table: ChunkTable, rows: Int) -> None:
        """Each distinct source port and queue pair of RoCE connections once."""
        loc = table.located
        udp = loc.start.get("udp")
        if udp is None:
            return
        rows = rows[udp[rows] >= 0]
        if not len(rows):
            return
        port, queue_pair = (table.values_at(field, rows).astype(np.int64) for field in (UDP.source_port, BTH.destqp))
        connected = (queue_pair > SPECIAL_QP) & by_opcode(CONNECTED, loc.opcode.take(rows))
        if not connected.all():
            rows, port, queue_pair = rows[connected], port[connected], queue_pair[connected]
        if not len(rows):
            return
        key = ends_hash(table, rows) ^ ((port << 24 | queue_pair).astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F))
        place = key >> np.uint64(48)
        fresh = np.flatnonzero(self._known[place] != key)
        self._known[place[fresh]] = key[fresh]
        if not len(fresh):
            return
        fresh = fresh[distinct(key[fresh])]
        for pair, one, number in zip(self._pairs(table, rows[fresh]), port[fresh].tolist(), queue_pair[fresh].tolist(), strict=True):
            if pair is not None:
                if len(pair.ports) < MAX_PORTS:
                    pair.ports.add(one)
                if len(pair.queue_pairs) < MAX_PORTS:
                    pair.queue_pairs.add(number)

    def _fragments(self, table: ChunkTable) -> None:
        """Pieces of UDP datagrams; all but the first have no port."""
        start = table.located.start
        for name, test in (("ip4", _split_4), ("ip6", _split_6)):
            if name not in start:
                continue
            rows = np.flatnonzero(start[name] >= 0)
            rows = rows[test(Place(table.located.front, rows, start[name].take(rows)))]
            if len(rows):
                ends = ends_hash(table, rows)
                _, first, counts = np.unique(ends, return_index=True, return_counts=True)
                for pair, count in zip(self._pairs(table, rows[first]), counts.tolist(), strict=True):
                    if pair is not None:
                        pair.fragments += count


def _split_4(head: Place) -> Bool:
    offset = head.part(6, 2)
    split: Bool = (offset[:, 0] & 0x3F != 0) | (offset[:, 1] != 0)
    return split & (head.part(9, 1)[:, 0] == UDP_PROTOCOL) if split.any() else split


def _split_6(head: Place) -> Bool:
    split: Bool = head.part(6, 1)[:, 0] == IP6_FRAGMENT
    return split


def _marked(table: ChunkTable) -> bool:
    """Whether any packet has a mark or is a notification."""
    told = (table.values(BTH.opcode) == CNP_OPCODE).any() or table.values(BTH.fecn).any() or table.values(BTH.becn).any()
    return bool(told or any((table.values(field) == CE).any() for field in (IPv4.ecn, IPv6.ecn)))


def ecn(table: ChunkTable, rows: Int) -> Int:
    """The ECN bits of IP of each row; 0 without IP."""
    start = table.located.start
    found = np.zeros(len(rows), np.int64)
    for name, offset, shift in (("ip4", 1, 0), ("ip6", 1, 4)):
        if name in start:
            index = np.flatnonzero(start[name][rows] >= 0)
            some = rows[index]
            found[index] = table.located.front.part(some, start[name][some] + offset, 1)[:, 0] >> shift & 3
    return found


def ends_hash(table: ChunkTable, rows: Int) -> U64:
    """A number for source and destination of each row."""
    out = np.zeros(len(rows), np.uint64)
    for name, source, destination, size in PLACES:  # a later one that is present counts
        if name not in table.located.start:
            continue
        at = table.located.start[name].take(rows)
        there = at >= 0
        index: slice | Int = slice(None)
        if not there.all():
            index = np.flatnonzero(there)
        place = Place(table.located.front, rows[index], at[index])
        if destination == source + size:
            both = place.part(source, 2 * size)
        else:
            both = np.zeros((len(place.at), 8), np.uint8)
            both[:, :size] = place.part(source, size)
            both[:, -size:] = place.part(destination, size)
        out[index] = mixed(both)
    return out


def distinct(key: U64) -> list[int]:
    """Where each distinct value occurs first, in order; sorts only what shares a slot with another value."""
    place = (key >> np.uint64(48)).astype(np.int64)
    holder = np.full(SLOTS, -1, np.int64)
    holder[place[::-1]] = np.arange(len(key))[::-1]
    crowded = np.flatnonzero(key[holder[place]] != key)
    found: list[int] = holder[holder >= 0].tolist()
    if len(crowded):
        found += crowded[np.unique(key[crowded], return_index=True)[1]].tolist()
    return sorted(found)
