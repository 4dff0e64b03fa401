"""Streams of packets that carry messages, the PSN of each packet in its stream, and the requests that responses belong to."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct as Record

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import End, ends_of, same_side
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.crcs import wrong_icrcs
from ibdissect.decode.equal_rows import run_starts
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import Index, Mark, QpNumber, StreamNumber
from ibdissect.engine.psn_gaps import FAR, distance
from ibdissect.wire.headers import PSNS
from ibdissect.wire.opcodes import SERVICE, SERVICES

from .events import StreamEnds
from .message_parts import PLACE_BITS
from .stream_packets import IS_RESPONSE, Packets

UNKNOWN = -1
_STATE: dict[str, int] = {
    "seen": UNKNOWN, "psn": UNKNOWN, "unwrapped": 0, "first": 0, "newest": 0, "reach": 0, "acknowledged": 0, "ended": 0, "floor": 0,
    "reads": 0, "partner": UNKNOWN, "paired": AFTER_ALL, "shift": 0, "packets": 0, "sealed": 0,
}  # fmt: skip
"""Columns with the state of every stream, and the value if unknown. `seen`: the latest PSN, even of a damaged packet; `sealed`: the first
packet had a correct ICRC. Of requests, as places: `newest` sent, `reach` the end of what was sent; `acknowledged`; below `ended` all
messages have ended, below `floor` incomplete ones, too. `paired`: the frame from which on the stream of responses is known. Of responses:
`shift` from their unwrapped PSN to the place."""


class PsnRun(Record):
    """Packets of one stream in a chunk, in order: indices first to stop of the arrays."""

    stream: int
    first: int
    stop: int


class MessageStreams:
    """The streams of requests and responses of a capture, numbered from 1 in the order in which they begin."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.base, self.ends = 1, list[StreamEnds]()
        """Number of the first stream that is followed; source and destination of all of them, by index."""
        self.forget()

    def forget(self) -> None:
        """Forget all streams; further ones get numbers of their own."""
        self.base += len(self.ends)
        self.ends = []
        self.by_key: dict[Mark, Index] = {}
        """Stream by hash of its addresses, queue pair, service and direction: its index, which `base` makes its number."""
        self.asking: dict[StreamNumber, StreamEnds] = {}
        """Streams of requests by number."""
        self._between: dict[tuple[str, End, End], list[int]] = {}
        """Streams of requests whose responses are not known yet, by service and addresses."""
        self.state = {name: np.full(1024, empty, np.int64) for name, empty in _STATE.items()}

    def requester(self, number: int) -> int | None:
        """The queue pair that sends a stream of requests: its responses go there. None if no response was seen."""
        found = np.flatnonzero(self.state["partner"][: len(self.ends)] == number - self.base)
        return self.ends[found[0]].dest_qp if len(found) else None

    def opposite(self) -> dict[tuple[str, End, End, QpNumber], int]:
        """(service, source, destination, queue pair): the queue pair of the other end. Only of services whose requests have responses."""
        found: dict[tuple[str, End, End, QpNumber], int] = {}
        for number in np.flatnonzero(self.state["partner"][: len(self.ends)] >= 0).tolist():
            answers, asks = self.ends[number], self.ends[int(self.state["partner"][number])]
            for one, other in ((answers, asks), (asks, answers)):
                found[one.service, one.source, one.destination, one.dest_qp] = other.dest_qp
        return found

    def is_damaged(self, table: ChunkTable, p: Packets, group: Int) -> Bool:
        """Packets with an unexpected PSN and a wrong ICRC, in streams whose first ICRC was right: their PSN says nothing."""
        state, found = self.state, np.zeros(len(p.rows), np.bool_)
        slots = np.array([self.by_key.get(key, UNKNOWN) for key in p.key[p.starts].tolist()], np.int64)
        before = np.empty_like(p.psn)
        before[1:] = p.psn[:-1]
        before[p.starts] = np.where(slots < 0, p.psn[p.starts], state["seen"][slots])
        step = p.psn - before
        odd = np.flatnonzero((step < 0) | (step > 1))
        if len(odd):
            fresh = np.flatnonzero(slots < 0)
            sealed = state["sealed"][slots] > 0
            sealed[fresh] = ~wrong_icrcs(table, p.rows[p.starts[fresh]])
            odd = odd[sealed[group[odd]]]
        if len(odd):
            found[odd] = wrong_icrcs(table, p.rows[odd])
        return found

    def unwrap(self, table: ChunkTable, p: Packets, index: Int, group: Int) -> tuple[list[PsnRun], Int]:
        """Runs of packets by stream, and each packet's unwrapped PSN. A PSN far from the one before begins another stream."""
        state, psn, group = self.state, p.psn[index], group[index]
        starts = run_starts(group)
        keys = p.key[index[starts]].tolist()
        slots = np.array([self.by_key.get(key, UNKNOWN) for key in keys], np.int64)
        before = np.empty_like(psn)
        before[1:] = psn[:-1]
        before[starts] = np.where(slots < 0, psn[starts], state["psn"][slots])
        step = ((psn - before + (PSNS >> 1)) & (PSNS - 1)) - (PSNS >> 1)
        far = np.abs(step) > FAR
        far[starts[slots < 0]] = True
        heads = np.flatnonzero(far)
        fresh: dict[Index, Index] = {}
        if len(heads):
            rows = p.rows[index[heads]]
            sealed = ~wrong_icrcs(table, rows)
            of_key = np.searchsorted(starts, heads, side="right") - 1
            for head, at, way, good in zip(heads.tolist(), of_key.tolist(), ends_of(table, rows), sealed.tolist(), strict=True):
                opcode = int(p.opcode[index[head]])
                ends = StreamEnds(SERVICES[opcode & SERVICE], *way, int(p.dest_qp[group[head]]), bool(IS_RESPONSE[opcode]))
                fresh[head] = self.begin(keys[at], ends, int(psn[head]), good)
        bounds = sorted({*starts.tolist(), *heads.tolist(), len(psn)})
        slot_at: dict[Index, Index] = dict(zip(starts.tolist(), slots.tolist(), strict=True))
        runs = [PsnRun(fresh.get(a, slot_at.get(a, UNKNOWN)), a, b) for a, b in pairwise(bounds)]
        state = self.state
        step[heads] = 0
        total = np.cumsum(step)
        firsts, lasts = np.array(bounds[:-1]), np.array(bounds[1:]) - 1
        of = np.array([run.stream for run in runs])
        begin = state["unwrapped"][of] + step[firsts]
        unwrapped = total + np.repeat(begin - total[firsts], lasts - firsts + 1)
        state["unwrapped"][of], state["psn"][of] = unwrapped[lasts], psn[lasts]
        return runs, unwrapped

    def begin(self, key: Mark, ends: StreamEnds, psn: int, sealed: bool) -> int:
        """Index of a new stream."""
        number = len(self.ends)
        if number >= len(self.state["psn"]):
            for name, empty in _STATE.items():
                self.state[name] = np.concatenate((self.state[name], np.full(number, empty, np.int64)))
        self.ends.append(ends)
        self.by_key[key] = number
        state, base = self.state, (number + self.base) << PLACE_BITS
        # One turn of the PSNs is added, so that packets from before the first one have places, too.
        state["seen"][number] = state["psn"][number] = psn
        state["unwrapped"][number], state["sealed"][number] = psn + PSNS, sealed
        for name in ("first", "newest", "reach", "ended"):
            state[name][number] = base + psn + PSNS
        state["acknowledged"][number] = state["floor"][number] = state["reads"][number] = base
        if not ends.response:
            self.asking[StreamNumber(number + self.base)] = ends
            self._between.setdefault((ends.service, ends.source, ends.destination), []).append(number)
        return number

    def begin_earlier(self, streams: Int, places: Int) -> None:
        """A request from before the first one that was seen, which was lost or overtaken, is the first one."""
        state, some = self.state, np.unique(streams)
        fresh = some[state["ended"][some] == state["first"][some]]  # no message of theirs has ended
        np.minimum.at(state["first"], streams, places)
        state["ended"][fresh] = state["first"][fresh]

    def pair(self, table: ChunkTable, runs: list[PsnRun], rows: Int, psn: Int, unwrapped: Int, reach: Int, responses: Bool) -> Bool:
        """Find the requests that streams of responses answer; which packets belong to a known stream of requests, bool[n]."""
        state, first = self.state, np.array([run.first for run in runs])
        of = np.array([run.stream for run in runs])
        sizes, answers = np.diff(np.append(first, len(rows))), responses[first]
        known = np.repeat(~answers | (state["partner"][of] >= 0), sizes)
        there = {run.stream: run for run in runs}
        tries: list[tuple[int, int]] = []
        for number in np.flatnonzero(answers & (state["partner"][of] < 0)).tolist():
            # Looking is slow: at the first packet, the second, the fourth ...
            run, before = runs[number], int(state["packets"][of[number]])
            ordinals = [1 << k for k in range(before.bit_length(), (before + run.stop - run.first).bit_length())]
            tries += [(run.first + ordinal - before - 1, number) for ordinal in ordinals]
        state["packets"][of] += sizes
        for i, number in sorted(tries, key=lambda one: rows[one[0]]):
            run = runs[number]
            if state["partner"][run.stream] >= 0:
                continue
            found = self._partner(self.ends[run.stream], table.chunk.first + int(rows[i]), int(rows[i]), int(psn[i]), there, rows, reach)
            if found is not None:
                stream, place = found
                state["partner"][run.stream], state["shift"][run.stream] = stream, place - unwrapped[i]
                state["paired"][stream] = table.chunk.first + rows[i]
                ends = self.ends[stream]
                self._between[ends.service, ends.source, ends.destination].remove(stream)
                known[i : run.stop] = True
        asks = of[~answers]
        state["reach"][asks] = np.maximum(state["reach"][asks], np.maximum.reduceat(reach, first)[~answers])
        return known

    def _partner(
        self, ends: StreamEnds, frame: int, row: int, psn: int, there: dict[Index, PsnRun], rows: Int, reach: Int
    ) -> tuple[int, int] | None:
        """The stream of requests that contains the PSN of a response, and where; None if no stream or several streams contain it."""
        state, found = self.state, []
        peer = self._connected(ends, frame)
        for stream in self._between.get((ends.service, ends.destination, ends.source), ()):
            asks = self.ends[stream]
            same = same_side(asks.source, ends.destination) and same_side(asks.destination, ends.source)
            if not same or peer not in (None, asks.dest_qp):
                continue
            sent = int(state["reach"][stream])
            run = there.get(stream)
            if run is not None:
                before = int(np.searchsorted(rows[run.first : run.stop], row))
                if before:
                    sent = max(sent, int(reach[run.first : run.first + before].max()))
                elif state["packets"][stream] == run.stop - run.first:
                    continue  # its first packet comes later
            place = sent + distance(psn, sent % PSNS)
            if (state["first"][stream] <= place or peer is not None) and place < sent:
                found.append((stream, place))
        return found[0] if len(found) == 1 else None

    def _connected(self, ends: StreamEnds, frame: int) -> int | None:
        """The queue pair that connection management says responses to `ends` come from; None if it does not."""
        for one in reversed(self._connections.all):
            if 0 < one.rep_frame < frame:
                if (one.active, one.passive, one.active_qpn) == (ends.destination, ends.source, ends.dest_qp):
                    return one.passive_qpn
                if (one.passive, one.active, one.passive_qpn) == (ends.destination, ends.source, ends.dest_qp):
                    return one.active_qpn
        return None
