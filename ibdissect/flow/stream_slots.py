"""Which stream does a packet belong to, when does it begin anew, and which one is its opposite direction?"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from ibdissect.bounded import Dropped
from ibdissect.table import ChunkTable, Int
from ibdissect.table.addresses import End, ends_of, same_side
from ibdissect.table.connection_events import Connection
from ibdissect.table.connections import Connections
from ibdissect.table.crcs import wrong_icrcs
from ibdissect.table.history import AFTER_ALL
from ibdissect.table.rows import is_in
from ibdissect.wire.opcodes import SERVICE, SERVICES

from .events import StreamEnds
from .recovery import FAR, PSNS, GapTotal, Stream, distance
from .stream_packets import UNKNOWN, Packets

MAX_STREAMS = 65536
"""Streams remembered; the oldest is evicted first."""
_STATE: dict[str, tuple[Any, int]] = {
    "high": (np.int64, -1), "last_opcode": (np.uint8, UNKNOWN), "last_frame": (np.int64, 0), "last_ns": (np.int64, 0),
    "sent": (np.int64, -1),
    "dma_length": (np.int64, -1), "mtu": (np.int64, 0), "msn": (np.int64, -1), "msn_psn": (np.int64, -1), "msn_frame": (np.int64, 0),
    "cursor": (np.int64, -1), "read_psn": (np.int64, -1), "read_length": (np.int64, 0), "read_frame": (np.int64, 0),
    "read_ns": (np.int64, 0),
    "sealed": (np.bool_, False),
    "packets": (np.int64, 0), "bytes": (np.int64, 0), "unsized": (np.int64, 0), "unread": (np.int64, 0),
    "first_frame": (np.int64, 0), "first_ns": (np.int64, 0),
    "dest_qp": (np.int64, -1), "first_psn": (np.int64, -1), "first_msn": (np.int64, -1),
    "first_opcode": (np.uint8, UNKNOWN), "gaps": (np.int64, 0),
    "largest": (np.int64, -1), "largest_frame": (np.int64, 0),
}  # fmt: skip
"""Columns with the state of every stream: type, and value if unknown. `read_*` describe the latest READ; `sealed`: the first packet had a
correct ICRC, so a wrong one later means damage; `first_msn`: the MSN of the first packet, if that acknowledges; `largest`: the longest
payload, `largest_frame`: its first frame; `unsized`: packets whose payload no header tells, which `bytes` lacks; `unread`: acknowledgements
whose AETH is cut off, so that they may be NAKs."""

_NO_SLOTS = np.zeros(0, np.int64)


def _way(ends: StreamEnds) -> tuple[str, End, End, bool]:
    """Key shared by streams between the same ports in the same direction."""
    return ends.service, ends.source, ends.destination, ends.response


def _facing(one: StreamEnds, other: StreamEnds) -> bool:
    """Whether two streams in opposite directions may have the same ports: not if their GIDs differ."""
    return same_side(one.source, other.destination) and same_side(one.destination, other.source)


class StreamSlots:
    """The streams of a capture: who sends to which queue pair, from one set-up of a connection to the next."""

    after: ClassVar = (Connections,)

    def __init__(self, connections: Connections | None = None) -> None:
        self.connections = connections or Connections()
        self.slots = OrderedDict[int, int]()
        """Key to slot."""
        self.ends: list[StreamEnds] = []
        """By slot."""
        self.keys: list[int] = []
        """Key by slot; of streams that are over, a number below 0 that no packet has."""
        self.between: dict[tuple[str, End, End, bool], list[int]] = {}
        """Slots by service, source, destination and whether responses."""
        self._peers: dict[tuple[str, End, End, bool], Int] = {}
        """The same as arrays, made on demand."""
        self.troubled: dict[int, Stream] = {}
        """Streams that were not clean at least once, by slot."""
        self.state = {name: np.full(1024, empty, kind) for name, (kind, empty) in _STATE.items()}
        self.last_ns = 0
        self.gap_total = GapTotal()
        self.dropped = Dropped("streams of packets"), self.gap_total.dropped

    def _begun(self, table: ChunkTable) -> list[tuple[tuple[End, End, int], int]]:
        """Connections that were set up in a chunk: source, destination and its queue pair of either direction, and the frame of the REP."""
        first, last = table.chunk.first, table.chunk.first + len(table)
        begun = [one for one in self.connections.begun if first <= one.rep_frame < last]
        ways = ((one.sides, one.rep_frame) for one in begun)
        return [((far[0], *near), frame) for sides, frame in ways for near, far in (sides, sides[::-1])]

    def _split(self, table: ChunkTable, found: Packets, begun: list[tuple[tuple[End, End, int], int]]) -> tuple[Packets, set[int]]:
        """The packets with a start at each set-up of a connection that has their queue pair from then on, and these starts."""
        borders: dict[tuple[End, End, int], list[int]] = {}
        for side, frame in begun:
            borders.setdefault(side, []).append(frame - table.chunk.first)
        index = np.flatnonzero(is_in(found.dest_qp, np.array([qp for *_, qp in borders], np.int64)))
        stops = np.append(found.starts, len(found.rows))
        cuts: list[int] = []
        for i, way in zip(index.tolist(), ends_of(table, found.rows[found.starts[index]]), strict=True):
            rows = found.rows[stops[i] : stops[i + 1]]
            cuts += (stops[i] + np.searchsorted(rows, borders.get((*way, int(found.dest_qp[i])), ()))).tolist()
        starts = np.array(sorted({*found.starts.tolist(), *cuts} - {len(found.rows)}), np.int64)
        of = np.searchsorted(found.starts, starts, "right") - 1
        return replace(found, starts=starts, dest_qp=found.dest_qp[of]), set(cuts)

    def _end(self, side: tuple[End, End, int], frame: int) -> None:
        """The streams of a queue pair that were sent before a frame are over: later packets begin others."""
        for service in SERVICES.values():
            for response in (False, True):
                for slot in self._of_queue_pair((service, *side[:2], response), side[2]).tolist():
                    if self.state["last_frame"][slot] <= frame and self.keys[slot] >= 0:
                        self._retire(slot)

    def _retire(self, slot: int) -> None:
        self.slots.pop(self.keys[slot])
        self.keys[slot] = -1 - slot
        self.slots[-1 - slot] = slot
        self.slots.move_to_end(-1 - slot, last=False)  # forgotten first

    def _slots(self, table: ChunkTable, found: Packets, anew: set[int]) -> Int:
        """The slot of each stream of the chunk, int64[streams]; new streams, and those that start in `anew`, get one."""
        get = self.slots.get
        keys = found.key[found.starts].tolist()
        slots = [get(key, -1) for key in keys]
        for i, start in enumerate(found.starts.tolist()) if anew else ():
            slots[i] = -1 if start in anew else slots[i]
        if -1 in slots:
            fresh = [i for i, slot in enumerate(slots) if slot < 0]
            at = found.starts[fresh]
            rows = found.rows[at]
            numbers = rows.tolist(), found.opcode[at].tolist(), found.dest_qp[fresh].tolist(), found.response[at].tolist()
            for i, row, opcode, dest_qp, response, way in zip(fresh, *numbers, ends_of(table, rows), strict=True):
                ends = StreamEnds(SERVICES[opcode & SERVICE], way[0], way[1], dest_qp, response)
                if keys[i] in self.slots:  # a connection that is over
                    self._retire(self.slots[keys[i]])
                slots[i] = self.slots[keys[i]] = self._new(keys[i], ends, table.chunk.first + row)
            index = [slots[i] for i in fresh]
            self.state["first_frame"][index], self.state["first_psn"][index] = table.chunk.first + rows, found.psn[at]
            self.state["first_msn"][index] = found.msn[at]
            self.state["first_opcode"][index], self.state["first_ns"][index] = found.opcode[at], table.chunk.time_ns[rows]
            self.state["dest_qp"][index] = found.dest_qp[fresh]
            self.state["sealed"][index] = ~wrong_icrcs(table, rows)
        return np.array(slots, np.int64)

    def _new(self, key: int, ends: StreamEnds, frame: int) -> int:
        """A slot for a new stream; evicts the oldest stream if there are too many."""
        if len(self.slots) >= MAX_STREAMS:
            _, slot = self.slots.popitem(last=False)
            siblings = self.between[_way(self.ends[slot])]
            self._peers.pop(_way(self.ends[slot]), None)
            siblings.remove(slot)
            if not siblings:
                del self.between[_way(self.ends[slot])]
            troubled = self.troubled.pop(slot, None)
            if troubled is not None:
                troubled.forget()
            self.ends[slot], self.keys[slot] = ends, key
            self.dropped[0].add(frame, self.last_ns)
            for name, (_, empty) in _STATE.items():
                self.state[name][slot] = empty
        else:
            slot = len(self.ends)
            self.ends.append(ends)
            self.keys.append(key)
            if slot >= len(self.state["high"]):
                for name, (kind, empty) in _STATE.items():
                    self.state[name] = np.concatenate((self.state[name], np.full(slot, empty, kind)))
        self.between.setdefault(_way(ends), []).append(slot)
        self._peers.pop(_way(ends), None)
        return slot

    def other(self, slot: int) -> int | None:
        """Slot of the opposite stream of the same queue pairs; None if unknown. See `_other`."""
        return self._other(slot, AFTER_ALL)[0]

    def _other(self, slot: int, frame: int) -> tuple[int | None, int]:
        """The opposite stream among those that began before a frame, and the frame from which on another answer is possible.

        Found by connection management, otherwise by near PSNs: the only stream in that direction with PSNs near these, whose own PSNs are
        near to no other stream's in this direction.
        """
        found, again = self._near(slot, frame)
        if len(found) != 1:
            return None, again
        back = self._near(found[0], frame)[0]
        return (found[0] if back == [slot] else None), again

    def _near(self, slot: int, frame: int) -> tuple[list[int], int]:
        """The streams that may be the opposite one, and the frame from which on another answer is possible."""
        ends, high, since = self.ends[slot], int(self.state["high"][slot]), self.state["first_frame"]
        way = ends.service, ends.destination, ends.source, not ends.response
        agreed = self._agreed(slot) if self.connections.by_side else None
        if agreed is not None:
            connection, qpn = agreed
            peers = self._of_queue_pair(way, qpn)
            peers = peers[(since[peers] > connection.rep_frame) & (since[peers] < connection.ended)]
            return [peer for peer in peers.tolist() if since[peer] < frame][:1], frame + 1
        peers = self._array(way)
        theirs = self.state["high"][peers]
        ahead = ((theirs - high if ends.response else high - theirs) + (PSNS >> 1) & (PSNS - 1)) - (PSNS >> 1)
        good, again = theirs >= 0, AFTER_ALL
        if frame < AFTER_ALL:
            later = since[peers] >= frame
            if high < 0 or (~good & ~later).any():
                again = frame + 1
            elif later.any():
                again = int(since[peers[later]].min()) + 1
            good &= ~later
        near = peers[good & (ahead > -FAR) & (ahead <= FAR)].tolist() if high >= 0 else []
        if ends.source.gid or ends.destination.gid:
            near = [peer for peer in near if _facing(ends, self.ends[peer])]
        if self.connections.by_side:
            near = [peer for peer in near if self._agreed(peer) is None]
        return near, again

    def _agreed(self, slot: int) -> tuple[Connection, int] | None:
        """The connection of a stream and the queue pair that it comes from, as connection management says; None if it does not."""
        ends = self.ends[slot]
        return self.connections.facing(ends.source, ends.destination, ends.dest_qp, int(self.state["first_frame"][slot]))

    def _array(self, way: tuple[str, End, End, bool]) -> Int:
        """Slots of the streams between two ports in one direction."""
        found = self._peers.get(way)
        if found is None:
            if way not in self.between:
                return _NO_SLOTS
            found = self._peers[way] = np.array(self.between[way], np.int64)
        return found

    def silent(self, slot: int, frame: int) -> bool:
        """Whether the other side did not respond to this stream before a frame, although the capture shows packets of that side."""
        ends, high, since = self.ends[slot], int(self.state["high"][slot]), self.state["first_frame"]
        back = (self.between.get((ends.service, ends.destination, ends.source, response), ()) for response in (True, False))
        answers, requests = ([peer for peer in peers if since[peer] < frame and _facing(ends, self.ends[peer])] for peers in back)
        for peer in answers:
            theirs = int(self.state["high"][peer])
            if theirs < 0 or abs(distance(theirs, high)) <= FAR:
                return False  # it sent only NAKs, or acknowledges PSNs near these: it may respond to this stream
        return bool(answers or requests) or self.connections.speakers.get(ends.destination, frame) < frame

    def _of_queue_pair(self, way: tuple[str, End, End, bool], qpn: int) -> Int:
        """Slots of the streams between two ports in one direction that go to a queue pair."""
        peers = self._array(way)
        found: Int = peers[self.state["dest_qp"][peers] == qpn]
        return found

    def requests(self, service: str, source: End, destination: End, dest_qp: int) -> list[int]:
        """Slots of the requests of one service to a queue pair, in order of their first packets."""
        mine = self._of_queue_pair((service, source, destination, False), dest_qp).tolist()
        found = [slot for slot in mine if same_side(self.ends[slot].source, source) and same_side(self.ends[slot].destination, destination)]
        return sorted(found, key=lambda slot: int(self.state["first_frame"][slot]))

    def moved(self, slot: int, psn: int, frame: int) -> bool:
        """Whether requests to the same queue pair went on over another path after a frame, up to a PSN at least: a migrated connection."""
        ends, state = self.ends[slot], self.state
        there = (state["dest_qp"] == ends.dest_qp) & (state["first_frame"] > frame) & (state["high"] >= 0)
        ahead = (state["high"] - psn + (PSNS >> 1) & (PSNS - 1)) - (PSNS >> 1)
        back = (state["first_psn"] - psn + (PSNS >> 1) & (PSNS - 1)) - (PSNS >> 1)
        others = np.flatnonzero(there & (ahead > 0) & (ahead <= FAR) & (np.abs(back) <= FAR)).tolist()
        mine = int(state["last_frame"][slot])
        alike = [other for other in others if self.ends[other].service == ends.service and self.ends[other].response == ends.response]
        return any(self.ends[other].source != ends.source and mine < state["first_frame"][other] for other in alike)
