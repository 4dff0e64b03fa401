"""Do the packets of each RC, UC and XRC stream arrive in order? By columns for clean traffic; `recovery` for the rest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import merge
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from ibdissect.bounded import Dropped
from ibdissect.capture.scattered import looked_up
from ibdissect.table import Bool, ChunkTable, Int
from ibdissect.table.addresses import End, ends_of, same_side
from ibdissect.table.connections import Connections
from ibdissect.table.crcs import wrong_icrcs
from ibdissect.table.history import AFTER_ALL
from ibdissect.table.rows import is_in, run_starts
from ibdissect.wire.headers import NAK, RNR
from ibdissect.wire.opcodes import SERVICES

from .events import LengthWrong, Repeated, StreamEnds, StreamEvent, Wrapped
from .recovery import FAR, MAX_RETRIES, MTUS, PSNS, GapTotal, Packet, Stream, distance
from .stream_packets import LEAVES_OPEN, SERVICE, STARTS_WRITE, UNKNOWN, Packets, packets

MAX_STREAMS = 65536
"""Streams remembered; the oldest is evicted first."""
_BY_FRAME = attrgetter("frame")
_STATE: dict[str, tuple[Any, int]] = {
    "high": (np.int64, -1), "last_opcode": (np.uint8, UNKNOWN), "last_frame": (np.int64, 0), "last_ns": (np.int64, 0),
    "sent": (np.int64, -1),
    "dma_length": (np.int64, -1), "mtu": (np.int64, 0), "msn": (np.int64, -1), "msn_psn": (np.int64, -1), "msn_frame": (np.int64, 0),
    "cursor": (np.int64, -1), "read_psn": (np.int64, -1), "read_length": (np.int64, 0), "read_frame": (np.int64, 0),
    "read_ns": (np.int64, 0),
    "sealed": (np.bool_, False),
    "packets": (np.int64, 0), "bytes": (np.int64, 0), "first_frame": (np.int64, 0), "first_ns": (np.int64, 0),
    "dest_qp": (np.int64, -1), "first_psn": (np.int64, -1), "first_opcode": (np.uint8, UNKNOWN), "gaps": (np.int64, 0),
    "largest": (np.int64, -1), "largest_frame": (np.int64, 0),
}  # fmt: skip
"""Columns with the state of every stream: type, and value if unknown. `read_*` describe the latest READ; `sealed`: the first
packet had a correct ICRC, so a wrong one later means damage; `largest`: the longest payload, `largest_frame`: its first frame."""
_SHARED = ("high", "cursor", "last_opcode", "last_frame", "last_ns", "sent", "dma_length", "mtu", "msn", "msn_psn", "msn_frame")
"""Columns that `recovery.Stream` has too."""


def _way(ends: StreamEnds) -> tuple[str, End, End, bool]:
    """Key shared by streams between the same ports in the same direction."""
    return ends.service, ends.source, ends.destination, ends.response


def _facing(one: StreamEnds, other: StreamEnds) -> bool:
    """Whether two streams in opposite directions may have the same ports: not if their GIDs differ."""
    return same_side(one.source, other.destination) and same_side(one.destination, other.source)


class Streams:
    """State of all streams. One per capture; feed chunks in order."""

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

    def feed(self, table: ChunkTable) -> Iterator[StreamEvent]:
        """Process a chunk; yields its events in frame order."""
        if len(table):
            self.last_ns = int(table.chunk.time_ns[-1])
        found = table.once(packets)
        if found is None:
            return
        begun = self._begun(table)
        found, anew = self._split(table, found, begun) if begun else (found, set())
        slots = self._slots(table, found, anew)
        group = np.repeat(np.arange(len(slots)), np.diff(np.append(found.starts, len(found.rows))))
        used, dirty = self._judge(found, slots, group)
        clean = sorted(self._advance(table, found, slots, group, used, ~dirty), key=_BY_FRAME) if not dirty.all() else []
        yield from merge(clean, self._recover(table, found, slots, group, dirty) if dirty.any() else (), key=_BY_FRAME)
        self._tally(table, found, slots, group)
        for side, frame in begun:
            self._end(side, frame)

    # -- which stream

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
        starts = np.unique(np.append(found.starts, [cut for cut in cuts if cut < len(found.rows)]), return_index=True)[0]
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
        agreed = self.connections.facing(ends.source, ends.destination, ends.dest_qp, int(since[slot]))
        if agreed is not None:
            connection, qpn = agreed
            peers = self._of_queue_pair(way, qpn)
            peers = peers[(since[peers] > connection.rep_frame) & (since[peers] < connection.ended)]
            return [peer for peer in peers.tolist() if since[peer] < frame][:1], frame + 1
        peers = self._array(way)
        theirs = self.state["high"][peers]
        ahead = ((theirs - high if ends.response else high - theirs) + (PSNS >> 1) & (PSNS - 1)) - (PSNS >> 1)
        later, unknown = since[peers] >= frame, theirs < 0
        again = AFTER_ALL if high >= 0 else frame + 1
        if (unknown & ~later).any():
            again = frame + 1
        elif later.any():
            again = min(again, int(since[peers[later]].min()) + 1)
        near = peers[~later & ~unknown & (ahead > -FAR) & (ahead <= FAR)].tolist() if high >= 0 else []
        return [peer for peer in near if _facing(ends, self.ends[peer]) and not self._is_bound(peer)], again

    def _is_bound(self, slot: int) -> bool:
        """Whether connection management says which queue pair a stream comes from."""
        ends = self.ends[slot]
        return self.connections.facing(ends.source, ends.destination, ends.dest_qp, int(self.state["first_frame"][slot])) is not None

    def _array(self, way: tuple[str, End, End, bool]) -> Int:
        """Slots of the streams between two ports in one direction."""
        found = self._peers.get(way)
        if found is None:
            found = np.array(self.between.get(way, ()), np.int64)
            if len(found):
                self._peers[way] = found
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

    # -- clean traffic

    def _judge(self, p: Packets, slots: Int, group: Int) -> tuple[Int, Bool]:
        """Number of PSNs that each packet uses, int64[n], and which streams are not clean, bool[streams]."""
        state, first = self.state, p.starts
        bad = np.zeros(len(p.rows), np.bool_)
        self._learn_mtu(p, slots, group)
        used = np.ones(len(p.rows), np.int64)
        some = p.reads
        if len(some):
            mtu, length = state["mtu"][slots[group[some]]], p.dma_length[some]
            bad[some] = (mtu == 0) & (length > MTUS[0])
            used[some] = np.maximum(1, -(-length // np.maximum(mtu, MTUS[0])))
        psn, goes_on = p.psn, p.goes_on
        high = state["high"][slots]
        expected = np.empty_like(psn)
        np.add(psn[:-1], used[:-1], out=expected[1:])
        expected[first] = state["cursor"][slots]
        step = (psn - expected) & (PSNS - 1)
        fresh = high < 0
        step[first[fresh]] = 0
        loose = p.response & (goes_on == 0)
        bad |= (step != 0) & (~loose | (step >= FAR))
        before = np.empty_like(p.leaves_open)
        before[1:] = p.leaves_open[:-1]
        last_opcode = state["last_opcode"][slots]
        before[first] = np.where(last_opcode == UNKNOWN, goes_on[first], LEAVES_OPEN[last_opcode])
        bad |= before != goes_on
        bad[p.with_aeth] |= p.syndrome[p.with_aeth] >= RNR << 5
        dirty = np.zeros(len(slots), np.bool_)
        dirty[group[np.flatnonzero(bad)]] = True
        dirty |= self._repeating(slots, p.response[first]) & (state["gaps"][slots] > 0)
        dirty[group[self._wrong_msn(p, slots, group)]] = True
        return used, dirty

    def _learn_mtu(self, p: Packets, slots: Int, group: Int) -> None:
        """Learn path MTUs: a packet that is not the last of its message is as long as the MTU."""
        length = p.length
        power = (p.leaves_open > 0) & (length >= MTUS[0]) & (length <= MTUS[-1]) & ((length & (length - 1)) == 0)
        index = np.flatnonzero(power)
        self.state["mtu"][slots[group.take(index)]] = length.take(index)

    def _wrong_msn(self, p: Packets, slots: Int, group: Int) -> Int:
        """Indices of packets whose MSN fell, or rose by more than the PSN."""
        index = p.with_aeth
        if not len(index):
            return index
        g, psn, msn = group[index], p.psn[index], p.msn[index]
        first = run_starts(g)
        psn_before, msn_before = np.empty_like(psn), np.empty_like(msn)
        psn_before[1:], msn_before[1:] = psn[:-1], msn[:-1]
        at = slots[g[first]]
        psn_before[first], msn_before[first] = self.state["msn_psn"][at], self.state["msn"][at]
        more, ahead = (msn - msn_before) & (PSNS - 1), (psn - psn_before) & (PSNS - 1)
        return index[(msn_before >= 0) & (more > ahead + 1)]

    def _tally(self, table: ChunkTable, p: Packets, slots: Int, group: Int) -> None:
        """Update the counts and the latest READ of each stream."""
        state = self.state
        last = np.append(p.starts[1:], len(p.rows)) - 1
        state["packets"][slots] += last - p.starts + 1
        state["bytes"][slots] += p.total[last + 1] - p.total[p.starts]
        longest = np.maximum.reduceat(p.length, p.starts)
        grown = np.flatnonzero(longest > state["largest"][slots])
        if len(grown):
            there = np.flatnonzero(p.length == longest[group])
            there = there[np.searchsorted(group[there], grown)]
            state["largest"][slots[grown]], state["largest_frame"][slots[grown]] = longest[grown], table.chunk.first + p.rows[there]
        at, rows = slots[group[p.reads]], p.rows[p.reads]  # of several READs, the last one is kept
        state["read_psn"][at], state["read_length"][at] = p.psn[p.reads], p.dma_length[p.reads]
        state["read_frame"][at], state["read_ns"][at] = table.chunk.first + rows, table.chunk.time_ns[rows]

    def _advance(self, table: ChunkTable, p: Packets, slots: Int, group: Int, used: Int, clean: Bool) -> Iterator[StreamEvent]:
        """Advance the state of clean streams to the end of the chunk."""
        state, frame = self.state, table.chunk.first + p.rows
        last = np.append(p.starts[1:], len(p.rows)) - 1
        yield from self._clean_messages(table, p, slots, group, clean)
        response = p.response[last]
        wraps = np.flatnonzero(p.psn + used >= PSNS)
        wraps = wraps[~p.response[wraps] & clean[group[wraps]]]
        for i in wraps.tolist():
            slot = int(slots[group[i]])
            yield Wrapped(int(frame[i]), int(table.chunk.time_ns[p.rows[i]]), self.ends[slot], slot, int(p.psn[i]))
        at, end, response = slots[clean], last[clean], response[clean]
        after = (p.psn[end] + used[end]) % PSNS
        repeating = self._repeating(at, response)
        if repeating.any():
            yield from self._repetitions(table, p, at[repeating], p.starts[clean][repeating], end[repeating])
        reached, high = np.where(response, p.psn[end], after), state["high"][at]
        farther = (((reached - high + (PSNS >> 1)) & (PSNS - 1)) > PSNS >> 1) | (high < 0)
        state["high"][at] = np.where(farther, reached, high)
        state["cursor"][at] = after
        state["last_opcode"][at], state["last_frame"][at] = p.opcode[end], frame[end]
        state["last_ns"][at] = table.chunk.time_ns[p.rows[end]]
        acks = p.with_aeth[clean[group[p.with_aeth]]]
        at = slots[group[acks]]
        state["msn"][at], state["msn_psn"][at], state["msn_frame"][at] = p.msn[acks], p.psn[acks], frame[acks]

    def _repeating(self, slots: Int, response: Bool) -> Bool:
        """Streams that repeat: they have not yet reached their highest PSN again; bool[n]."""
        high = self.state["high"][slots]
        repeating: Bool = (high >= 0) & (self.state["cursor"][slots] != np.where(response, (high + 1) % PSNS, high))
        return repeating

    def _repetitions(self, table: ChunkTable, p: Packets, slots: Int, first: Int, last: Int) -> Iterator[StreamEvent]:
        """Count retransmissions that replay without another PSN jump."""
        for slot, start, end in zip(slots.tolist(), first.tolist(), last.tolist(), strict=True):
            stream, high = self._load(slot), int(self.state["high"][slot])
            psn = p.psn[start : end + 1]
            old = ((psn - high + (PSNS >> 1)) & (PSNS - 1)) < (PSNS >> 1) + stream.ends.response
            count = int(np.count_nonzero(old))
            if stream.ends.response:
                stream.counts.repeated_responses += count
            elif count:
                reads = p.reads[np.searchsorted(p.reads, start) : np.searchsorted(p.reads, end + 1)]
                stream.counts.repeated += count
                stream.counts.repeated_reads += int(np.count_nonzero(old[reads - start]))
                row = int(p.rows[start])
                frame, time_ns = table.chunk.first + row, int(table.chunk.time_ns[row])
                frames = tuple((table.chunk.first + p.rows[start : end + 1][old]).tolist())
                yield Repeated(frame, time_ns, stream.ends, slot, int(p.psn[start]), False, False, frames)

    def _clean_messages(self, table: ChunkTable, p: Packets, slots: Int, group: Int, clean: Bool) -> Iterator[StreamEvent]:
        """Check the payload of each WRITE of clean streams against its DMALen, and keep the state of messages still open."""
        state, n = self.state, len(p.rows)
        begin = np.maximum.accumulate(np.where(p.goes_on == 0, np.arange(n), -1))
        unknown = None if p.length.min() >= 0 else np.concatenate(([0], np.cumsum(p.length < 0)))
        starts_write = looked_up(p.opcode, STARTS_WRITE)

        def carry(index: Int) -> tuple[Int, Int, Bool]:
            """For each packet's message: DMALen (-1: none), payload up to this packet inclusive, whether some is missing."""
            of = group[index]
            start = np.maximum(begin[index], p.starts[of])
            carried = np.flatnonzero(begin[index] < p.starts[of])
            size = p.total[index + 1] - p.total[start]
            lost = unknown[index + 1] != unknown[start] if unknown is not None else np.zeros(len(index), np.bool_)
            claimed = np.where(starts_write[start], p.dma_length[start], -1)
            slot = slots[of[carried]]
            claimed[carried] = state["dma_length"][slot]
            size[carried] += state["sent"][slot]
            lost[carried] |= state["sent"][slot] < 0
            return claimed, size, lost

        ends = np.flatnonzero((p.leaves_open == 0) & (p.goes_on != 0))
        claimed, size, lost = carry(ends)
        bad = np.flatnonzero((claimed > 0) & ~lost & (size != claimed))
        wrong = ends[bad]
        bad, wrong = (column[clean[group[wrong]]] for column in (bad, wrong))
        if len(wrong):
            of = group[wrong]
            one = run_starts(of)
            first, rows = wrong[one], p.rows[wrong[one]]
            columns = (
                table.chunk.first + rows, table.chunk.time_ns[rows], slots[of[one]], p.psn[first], claimed[bad[one]], size[bad[one]],
                np.diff(one, append=len(wrong)),
            )  # fmt: skip
            for frame, time_ns, slot, psn, length, found, count in zip(*(column.tolist() for column in columns), strict=True):
                yield LengthWrong(frame, time_ns, self.ends[slot], slot, psn, length, found, count)
        last = (np.append(p.starts[1:], n) - 1)[clean]
        claimed, size, lost = carry(last)
        open_ = (p.leaves_open[last] != 0) & ~lost
        state["sent"][slots[clean]] = np.where(open_, size, -1)
        state["dma_length"][slots[clean]] = np.where(open_, claimed, -1)

    # -- the rest

    def _recover(self, table: ChunkTable, p: Packets, slots: Int, group: Int, dirty: Bool) -> Iterator[StreamEvent]:
        """Process streams that are not clean packet by packet, in frame order.

        Skips packets with a wrong ICRC unless they are in step, as clean streams are not checked for it either.
        """
        index = np.flatnonzero(dirty[group])
        index = index[np.argsort(p.rows[index], kind="stable")]
        damaged = (wrong_icrcs(table, p.rows[index]) & self.state["sealed"][slots[group[index]]]).tolist()
        of = slots[group[index]].tolist()
        streams = {slot: self._load(slot) for slot in set(of)}
        columns = (
            table.chunk.first + p.rows, table.chunk.time_ns[p.rows], p.psn, p.opcode, p.length, p.dma_length, p.syndrome, p.msn,
        )  # fmt: skip
        rows: Iterator[tuple[Any, ...]] = zip(*(column[index].tolist() for column in columns), strict=True)
        pairs: dict[int, tuple[Stream | None, int]] = {}
        """The opposite stream of each, and the frame from which on to search it again."""
        for slot, values, wrong in zip(of, rows, damaged, strict=True):
            stream, packet = streams[slot], Packet(*values)
            if wrong and not stream.in_step(packet):
                continue
            back, again = pairs.get(slot, (None, 0))
            if packet.frame >= again:
                peer, again = self._other(slot, packet.frame)
                back = (streams.get(peer) or self._load(peer)) if peer is not None else None
                pairs[slot] = back, again
            if stream.ends.response:
                yield from stream.response(packet, back is None)
                if packet.syndrome >> 5 in (RNR, NAK) and back is not None:
                    back.requested(packet.psn, packet.time_ns)
            else:
                judged = back is not None or (packet.psn == stream.retry_psn and self.silent(slot, packet.frame))
                yield from stream.request(packet, back, judged)
                if back is not None and back.msn < 0:
                    self.state["msn"][back.slot] = -1
            self.state["high"][slot] = stream.high
        for slot, stream in streams.items():
            for name in _SHARED:
                self.state[name][slot] = getattr(stream, name)
            self.state["gaps"][slot] = len(stream.gaps)
            if stream.ends.response and stream.cursor != (stream.high + 1) % PSNS:
                self.state["msn"][slot] = -1  # unknown: it belongs to a later PSN than the next response may have

    def _load(self, slot: int) -> Stream:
        """The state of one stream as an object."""
        stream = self.troubled.get(slot)
        if stream is None:
            ends = self.ends[slot]
            stream = self.troubled[slot] = Stream(slot, ends, gap_total=self.gap_total)
            way = ends.source, ends.destination, ends.dest_qp
            stream.retries_allowed = self.connections.retry_counts.get(way, MAX_RETRIES)
        for name in _SHARED:
            setattr(stream, name, int(self.state[name][slot]))
        return stream


StreamEvent.source = Streams
