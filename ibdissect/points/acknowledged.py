"""Packets that answers prove to have arrived, and packets that a NAK proves lost, because it requests them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import Columns, by_value, groups, mix, places_in
from ibdissect.decode.identity import EndNumber
from ibdissect.wire import opcodes
from ibdissect.wire.convert import LATEST_NS
from ibdissect.wire.headers import NAK, PSNS, RNR
from ibdissect.wire.opcodes import FIRST_RESPONSE, LAST_RESPONSE, OPERATION, RELIABLE, SERVICE

from .flows import PointFlows
from .transmissions import Transmissions

SEQUENCE_ERROR = NAK << 5
SAMPLE = 64
"""PSNs of a stream of answers that are looked up to find its stream of requests."""
OPEN = 1 << 16
"""Maximum number of NAKs and repetitions whose first copy is looked for in earlier blocks."""
NEVER, ALWAYS = np.iinfo(np.int64).min, np.iinfo(np.int64).max
DATA = (*range(opcodes.READ_FIRST, opcodes.ACKNOWLEDGE), opcodes.ATOMIC_ACKNOWLEDGE)
"""Operations of answers with data: a requester asks again for what it lacks of it."""


class Places(Columns):
    """The position of transmissions in their connection: the requests of one queue pair, and their answers."""

    connection: npt.NDArray[np.int32]
    """Flow of the requests; -1: none."""
    position: Int
    """The PSN, continued beyond 2**24."""
    request: Bool
    repeated: Bool
    """Sent before, or perhaps sent before: it does not follow all requests of earlier blocks. Also set for MADs."""
    goes_back: Bool
    """A request that follows one with the same or a later PSN."""


class Proofs(Columns):
    """What answers prove about each transmission."""

    answered: Bool
    """Sent once, and acknowledged or responded to; data of a READ that the requester did not ask for again."""
    refused: Bool
    """The receiver did not have it: the last copy before a NAK of its PSN."""
    resent: Bool
    """The sender went back to it: it, or its answer, was lost."""


class PlaceFinder:
    """Finds the places of transmissions, block by block in order of time."""

    def __init__(self, flows: PointFlows) -> None:
        self.merged, n = flows.merged(), len(flows.known)
        """For each flow, a number shared by all flows to the same port on other paths."""
        self._ends = flows.ends()
        self._partner = np.full(n, -1, np.int64)
        self._psn, self._position = np.full(n, -1, np.int64), np.zeros(n, np.int64)  # the last ones of each connection
        self._asked, self._furthest = np.full(n, NEVER), np.full(n, NEVER)  # position of the last request, and of the furthest one
        self._mads = np.empty(0, np.uint32)
        self.late: list[npt.NDArray[np.int64]] = []
        """Connection and position, int64[2, n], of requests that earlier blocks may have, too."""

    def places(self, packets: Transmissions) -> Places:
        """The places in the next block."""
        flow = self.merged[packets.flow]
        low = packets.opcode & OPERATION
        connected = np.isin(packets.opcode & SERVICE, RELIABLE)
        response = connected & (low >= FIRST_RESPONSE) & (low <= LAST_RESPONSE)
        request = connected & ~response
        psn = packets.psn.astype(np.int64)
        self._find_partners(flow, psn, request, response)
        connection = np.where(request, flow, np.where(response, self._partner[flow], -1)).astype(np.int32)
        n = len(packets)
        found = Places(connection, np.zeros(n, np.int64), request, self._repeated_mads(packets), np.zeros(n, np.bool_))
        rows = np.flatnonzero(connection >= 0)
        rows = rows[np.argsort(connection[rows], kind="stable")]
        if len(rows):
            found.position[rows] = self._unwrapped(psn[rows], connection[rows].astype(np.int64))
            self._follow(found, rows[request[rows]])
        return found

    def _follow(self, found: Places, rows: Int) -> None:
        """Which requests repeat earlier ones. `rows`: the requests by connection, then in order of time."""
        if not len(rows):
            return
        connection, position = found.connection[rows], found.position[rows]
        new = np.diff(connection, prepend=-1) != 0
        before = np.concatenate(([NEVER], position[:-1]))
        before[new] = self._asked[connection[new]]
        found.goes_back[rows] = position <= before
        late = position <= self._furthest[connection]
        group = numbered(connection * np.int64(np.ptp(position) + 1) + position - position.min())
        found.repeated[rows] = late | (np.bincount(group)[group] > 1)
        if late.any():
            self.late.append(np.stack([connection[late].astype(np.int64), position[late]]))
        ends = np.append(np.flatnonzero(new)[1:] - 1, len(rows) - 1)
        self._asked[connection[ends]] = position[ends]
        np.maximum.at(self._furthest, connection, position)

    def _repeated_mads(self, packets: Transmissions) -> Bool:
        """MAD requests that were sent more than once, in this block or the one before."""
        found = np.zeros(len(packets), np.bool_)
        rows = np.flatnonzero(packets.asks == 1)
        names = packets.transaction[rows]
        group = numbered(names) if len(rows) else names
        found[rows] = np.isin(names, self._mads) | (np.bincount(group)[group] > 1 if len(rows) else False)
        self._mads = names
        return found

    def _unwrapped(self, psn: Int, connection: Int) -> Int:
        """PSNs that continue beyond 2**24, counted from each connection's first one."""
        starts = np.flatnonzero(np.diff(connection, prepend=-1))
        ends = np.append(starts[1:], len(psn)) - 1
        here = connection[starts]
        known = self._psn[here] >= 0
        step = np.diff(psn, prepend=0)
        step[starts] = np.where(known, psn[starts] - self._psn[here], 0)
        total = np.cumsum((step + PSNS // 2) % PSNS - PSNS // 2)
        base = np.where(known, self._position[here], psn[starts])
        found: Int = total + np.repeat(base - np.concatenate(([0], total[ends[:-1]])), ends - starts + 1)
        self._psn[here], self._position[here] = psn[ends], found[ends]
        return found

    def _find_partners(self, flow: Int, psn: Int, request: Bool, response: Bool) -> None:
        """For each flow of answers the flow of requests between the same ends that has most of its PSNs."""
        open_ = np.flatnonzero(response & (self._partner[flow] < 0))
        if not len(open_) or not request.any():
            return
        asked = np.unique(flow[request] * PSNS + psn[request])
        by_ends: dict[tuple[EndNumber, EndNumber], list[int]] = {}
        asking = np.unique(flow[request])
        for number, (source, destination) in zip(asking.tolist(), self._ends[asking].tolist(), strict=True):
            by_ends.setdefault((destination, source), []).append(number)
        for number, index in by_value(flow[open_]):
            rows = open_[index]
            some = psn[rows[:: max(1, len(rows) // SAMPLE)]]
            best = 0
            source, destination = self._ends[number].tolist()
            for other in by_ends.get((source, destination), ()):
                known = int(np.count_nonzero(places_in(asked, other * PSNS + some) >= 0))
                if known > best and 4 * known >= len(some):
                    best, self._partner[number] = known, other


class ProvenArrivals:
    """Finds what answers prove, block by block from the last one to the first."""

    def __init__(self, flows: PointFlows, late: list[npt.NDArray[np.int64]]) -> None:
        self._confirmed = np.full(len(flows.known), NEVER)  # the furthest position that later blocks confirm
        self._latest, self._asked_again = np.full(len(flows.known), NEVER), np.full(len(flows.known), ALWAYS)
        """Time of each connection's last request, and the lowest position that later blocks go back to."""
        self._open = np.zeros((3, 0), np.int64)
        """Connection, position and kind (NAK, repetition, RNR NAK) of those whose copy is in an earlier block."""
        self._asked, self._answered = np.empty(0, np.uint32), np.empty(0, np.uint32)  # MADs of the block after this one
        found = np.concatenate([np.zeros((2, 0), np.int64), *late], axis=1)
        self._late = np.sort(mix([found[0], found[1]]))

    def proofs(self, packets: Transmissions, places: Places) -> Proofs:
        """What is proved of the block before those seen so far."""
        found = Proofs(*np.zeros((3, len(packets)), np.bool_))
        self._answered_mads(found, packets, places)
        rows = np.flatnonzero(places.connection >= 0)
        rows = rows[np.argsort(places.connection[rows], kind="stable")]
        kind = packets.syndrome[rows] >> 5  # -1: none
        if len(rows):
            self._confirm(found, places, rows, (kind == NAK) | (kind == RNR))
            self._received(found, packets, places, rows)
        self._copies(found, places, rows, packets.syndrome[rows] == SEQUENCE_ERROR, kind == RNR)
        return found

    def _confirm(self, found: Proofs, places: Places, rows: Int, denied: Bool) -> None:
        """Mark requests that a later answer confirms. `rows`: by connection, then in order of time."""
        connection, position, asked = places.connection[rows].astype(np.int64), places.position[rows], places.request[rows]
        least, span = int(position.min()), int(np.ptp(position)) + 3
        confirmed = np.where(asked, np.int64(-2), position - least - denied)
        level = (int(connection[-1]) - connection) * span
        later = np.maximum.accumulate((confirmed + level)[::-1])[::-1] - level + least
        reached = np.maximum(later, self._confirmed[connection])
        once = asked & ~places.repeated[rows]
        once &= places_in(self._late, mix([connection, position])) < 0
        found.answered[rows] |= once & (reached >= position)
        np.maximum.at(self._confirmed, connection[~asked], (position - denied)[~asked])

    def _received(self, found: Proofs, packets: Transmissions, places: Places, rows: Int) -> None:
        """Mark data that the requester never asked for again, though it went on. `rows`: by connection, then in order of time."""
        connection, position, asked = places.connection[rows].astype(np.int64), places.position[rows], places.request[rows]
        back = asked & places.goes_back[rows]
        span = int(np.ptp(position)) + 2
        level = connection * span - int(position.min())
        later = np.minimum.accumulate((np.where(back, position, position.max() + 1) + level)[::-1])[::-1] - level
        again = np.minimum(later, self._asked_again[connection])
        np.maximum.at(self._latest, connection[asked], packets.time[rows[asked]])
        goes_on = self._latest[connection] > packets.time[rows] + LATEST_NS
        found.answered[rows] |= ~asked & np.isin(packets.opcode[rows] & OPERATION, DATA) & (again > position) & goes_on
        np.minimum.at(self._asked_again, connection[back], position[back])

    def _copies(self, found: Proofs, places: Places, rows: Int, nak: Bool, not_ready: Bool) -> None:
        """The last request of a PSN before its NAK, and before it was sent again. What has none here is looked for in the block before.

        One that an RNR NAK answers has arrived: it was sent again for want of a buffer.
        """
        connection = np.concatenate([places.connection[rows].astype(np.int64), self._open[0]])
        if not len(connection):
            return
        position = np.concatenate([places.position[rows], self._open[1]])
        asked = np.concatenate([places.request[rows], np.zeros(self._open.shape[1], np.bool_)])
        marks = found.refused, found.resent, np.zeros_like(found.answered)
        asks = [np.concatenate([one, self._open[2] == i]) for i, one in enumerate((nak, places.goes_back[rows], not_ready))]
        group = numbered(connection * (np.ptp(position) + 1) + position - position.min())
        order = np.argsort(group, kind="stable")
        last = np.maximum.accumulate(np.where(asked[order], np.arange(len(order)), -1))
        before = np.concatenate(([-1], last[:-1]))  # a NAK is not a request, so this is the last one before it, too
        left = []
        for which, mark in zip(asks, marks, strict=True):
            wanted = np.flatnonzero(which[order])
            copy = before[wanted]
            known = (copy >= 0) & (group[order[copy]] == group[order[wanted]])
            mark[rows[order[copy[known]]]] = True
            left.append(order[wanted[~known]])
        self._open = np.stack([
            np.concatenate([column[index] for index in left]) for column in (connection, position)
        ] + [np.repeat([0, 1, 2], [len(index) for index in left])])[:, -OPEN:]  # fmt: skip
        found.resent &= ~marks[2]
        found.answered |= marks[2]

    def _answered_mads(self, found: Proofs, packets: Transmissions, places: Places) -> None:
        """MADs that were sent once and answered in this block or the next one."""
        asks, answers = (packets.transaction[packets.asks == kind] for kind in (1, 2))
        rows = np.flatnonzero((packets.asks == 1) & ~places.repeated)
        names = packets.transaction[rows]
        found.answered[rows] = np.isin(names, np.concatenate([answers, self._answered])) & ~np.isin(names, self._asked)
        self._asked, self._answered = asks, answers


def numbered(values: npt.NDArray[Any]) -> Int:
    """Numbers for equal values."""
    return groups([values])[1]
