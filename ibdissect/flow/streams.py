"""Do the packets of each RC, UC and XRC stream arrive in order? By columns for clean traffic; `recovery` for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import attrgetter
from typing import Any

import numpy as np

from ibdissect.capture.scattered import looked_up
from ibdissect.table import Bool, ChunkTable, Int
from ibdissect.table.crcs import wrong_icrcs
from ibdissect.table.rows import run_starts
from ibdissect.wire.headers import NAK, RNR
from ibdissect.wire.opcodes import ACKNOWLEDGE, OPERATION

from .events import LengthWrong, Repeated, StreamEvent, Wrapped
from .recovery import FAR, MAX_RETRIES, MTUS, PSNS, Packet, Stream
from .stream_packets import LEAVES_OPEN, STARTS_WRITE, UNKNOWN, Packets, packets
from .stream_slots import StreamSlots

_BY_FRAME = attrgetter("frame")
_SHARED = ("high", "cursor", "last_opcode", "last_frame", "last_ns", "sent", "dma_length", "mtu", "msn", "msn_psn", "msn_frame")
"""Columns that `recovery.Stream` has too."""


class Streams(StreamSlots):
    """State of all streams. One per capture; feed chunks in order."""

    def feed(self, table: ChunkTable) -> Iterator[StreamEvent]:
        """Process a chunk; yields its events in frame order."""
        if len(table):
            self.last_ns = int(table.chunk.time_ns[-1])
        found = table.once(packets)
        begun = self._begun(table)
        if found is not None:
            yield from self._packets(table, *(self._split(table, found, begun) if begun else (found, set())))
        for side, frame in begun:
            self._end(side, frame)

    def _packets(self, table: ChunkTable, found: Packets, anew: set[int]) -> Iterator[StreamEvent]:
        slots = self._slots(table, found, anew)
        group = np.repeat(np.arange(len(slots)), np.diff(np.append(found.starts, len(found.rows))))
        used, dirty = self._judge(found, slots, group)
        clean = sorted(self._advance(table, found, slots, group, used, ~dirty), key=_BY_FRAME) if not dirty.all() else []
        yield from merge(clean, self._recover(table, found, slots, group, dirty) if dirty.any() else (), key=_BY_FRAME)
        self._tally(table, found, slots, group)

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
            bad[some] = (length < 0) | ((mtu == 0) & (length > MTUS[0]))
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
        if (unknown := p.length < 0).any():
            np.add.at(state["unsized"], slots[group[unknown]], 1)
        if (cut := (p.syndrome < 0) & (p.opcode & OPERATION == ACKNOWLEDGE)).any():
            np.add.at(state["unread"], slots[group[cut]], 1)
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
            first = int(self.state["first_frame"][slot])
            allowed = self.connections.retry_count(ends.source, ends.destination, ends.dest_qp, first)
            stream.retries_allowed = MAX_RETRIES if allowed is None else allowed
        for name in _SHARED:
            setattr(stream, name, int(self.state[name][slot]))
        return stream


StreamEvent.source = Streams
