"""The service of each message. Connection management names the queue pairs of each service; for SMC-R, TCP does."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.capture.gather import gather
from ibdissect.wire import cm, dm
from ibdissect.wire.cm import SIDRRep
from ibdissect.wire.headers import BTH
from ibdissect.wire.numbers import CM_CLASS, DM_CLASS, SERVICE_ENTRIES
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.ulp import smc_llc

from .addresses import ENDS, LID_SIZE, End, by_header, ends_at
from .cm_connections import Connections
from .connection_events import ConnectionSetUp, Disconnecting, Replied, RepliedAlone, Requested, Resolution, Resolved
from .conversation_values import KeptValues
from .equal_rows import parts
from .locate import Bool, Int
from .queue_pairs_with_keys import UNKNOWN, KeyedPairs, Named, requested
from .rmpp_places import PlacedSegments

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

MAX_ENDS = 65536
"""Ends of set-ups that are remembered; the oldest is dropped first."""
PASSIVE, ACTIVE, NO_SERVICE = 1, 2, 0
"""The side that a message goes to: PASSIVE listened, ACTIVE requested."""
BY_CONNECTION = (cm.MRA, cm.REJ, cm.REP, cm.RTU, cm.DREQ, cm.DREP)
"""Messages that carry both communication ids."""
HAS_PAYLOAD = np.array([code not in OPCODES or OPCODES[code].payload for code in range(256)])
FIRST, MIDDLE, LAST, ONLY = range(4)
PART: dict[int, int] = {
    code: part
    for code, opcode in OPCODES.items()
    for part, word in enumerate(("first", "middle", "last", "only"))
    if opcode.operation.casefold().startswith("send") and word in opcode.operation.casefold()
}
"""Which part of a SEND an OpCode is."""
STARTS_MESSAGE = np.isin(np.arange(256), [code for code, part in PART.items() if part in (FIRST, ONLY)])
"""Whether an OpCode is a SEND that starts a message, of any transport service."""
IN_PARTS = np.isin(np.arange(256), [code for code, part in PART.items() if part != ONLY])
"""Whether an OpCode is part of a SEND of several packets."""


IS_SEND = IN_PARTS | STARTS_MESSAGE
"""Whether an OpCode is a SEND, of any part."""


class Services:
    """Which service each queue pair serves, since when. `feed` the chunks of one capture in order, then query any of them."""

    def __init__(self) -> None:
        self.dropped = Dropped("connections and their services")
        self.names = KeptDict[int, str](MAX_ENDS, self.dropped)
        """Service id -> name, from the ServiceEntries of I/O controllers."""
        self.connections = Connections(self.dropped)
        """The state after the last chunk fed. Rules use their own followers, whose events show the state at a frame."""
        self._ends = OrderedDict[int, dict[bytes, list[tuple[int, int, int]]]]()
        """Queue pair -> address -> (start time, service, side) in order of time."""
        self._count = 0
        self.keyed = KeyedPairs(self.dropped)
        """To which queue pairs messages with keys may go, whatever `messages` says of a packet: that is for what is hidden."""
        self._named: list[Named] = []
        """What the present chunk says about queue pairs."""
        self._smc = False
        """A handshake of SMC-R was seen."""
        self.kept = KeptValues()
        """What conversations have shown that decides how structures are read."""
        self.placed = PlacedSegments()
        """Which segments of tables with keys are in their place."""
        self.fed = 0
        """The last frame fed."""

    def feed(self, table: ChunkTable) -> None:
        """Learn from a chunk; chunks fed before are skipped."""
        if not len(table) or table.chunk.first <= self.fed:
            return
        self.fed = table.chunk.first + len(table) - 1
        self._learn_smc(table)
        kinds = {key for key in table.attributes() if key[0] in (CM_CLASS, DM_CLASS)}
        if kinds:
            self._learn_management(table, kinds)
        self.keyed.feed(table, self._named)
        self._named = []

    def _learn_management(self, table: ChunkTable, kinds: set[tuple[int, int]]) -> None:
        if (DM_CLASS, SERVICE_ENTRIES) in kinds:
            for i in range(len(table.occurrences(dm.ServiceEntry))):
                entry = table.view(dm.ServiceEntry, i)
                self.names.keep(entry.service_id, entry.service_name, table.chunk.first, int(table.chunk.time_ns[0]))
        for event in self.connections.feed(table):
            self._learn(event)
        self._named += requested(table)

    def _learn_smc(self, table: ChunkTable) -> None:
        from .smc_pairs import added, agreed  # it looks for structures, and so do those who ask here

        found, before = list(agreed(table)), -1
        self._smc = self._smc or bool(found)
        while self._smc and self._count > before:  # a link may be added on one that was added
            before = self._count
            for row, qp, addresses in (*found, *added(table, self)):
                self._bind(addresses, qp, int(table.chunk.time_ns[row]), table.chunk.first + row, smc_llc.SERVICE, ACTIVE)

    def _learn(self, event: object) -> None:
        if isinstance(event, Resolved) and event.resolution.status == 0:
            found = event.resolution
            self._bind({event.sender.address}, found.qpn, event.time_ns, event.frame, found.service_id, PASSIVE)
        elif isinstance(event, Requested):
            one, anew = event.connection, event.frame == event.connection.req_frame
            addresses = _addresses(one.active, one.active_lid)
            self._bind(addresses, one.active_qpn, event.time_ns, event.frame, one.served, ACTIVE, anew=anew)
        elif isinstance(event, Replied):
            one, anew = event.connection, event.frame == event.connection.rep_frame
            addresses = _addresses(one.passive, one.passive_lid)
            self._bind(addresses, one.passive_qpn, event.time_ns, event.frame, one.served, PASSIVE, anew=anew)
        elif isinstance(event, Disconnecting):
            # From now on the queue pair may serve something else without a CM message.
            one = event.connection
            far = (one.active, one.active_lid) if event.receiver == one.active else (one.passive, one.passive_lid)
            self._bind(_addresses(*far), event.qpn, event.time_ns, event.frame, NO_SERVICE, 0)
        elif isinstance(event, RepliedAlone):
            self._named.append((event.frame, event.time_ns, event.qpn, UNKNOWN))

    def assign(self, address: bytes, qp: int, service: int, side: int) -> None:
        """Set the service of a queue pair, whatever connection management said before."""
        self._ends.setdefault(qp, {})[address] = [(0, service, side)]
        self._count += 1

    def _bind(self, addresses: set[bytes], qp: int, time_ns: int, frame: int, service: int, side: int, *, anew: bool = False) -> None:
        """`anew`: whether another connection begins, perhaps to the same service."""
        if service != NO_SERVICE:
            self._named.append((frame, time_ns, qp, service))
        for address in addresses - {b"", b"\0\0"}:
            history = self._ends.get(qp, {}).get(address)
            if history and history[-1][1:] == (service, side) and not anew:
                continue  # repeated message
            if self._count >= MAX_ENDS:
                _, oldest = self._ends.popitem(last=False)
                self._count -= sum(map(len, oldest.values()))
                self.dropped.add(frame, time_ns)
            self._ends.setdefault(qp, {}).setdefault(address, []).append((time_ns, service, side))
            self._count += 1

    # -- queries

    @property
    def any(self) -> bool:
        """Whether a service of a queue pair is known."""
        return bool(self._ends)

    def serves(self, service: int) -> bool:
        """Whether a queue pair is known for a service."""
        return any(one == service for ends in list(self._ends.values()) for history in list(ends.values()) for _, one, _ in history)

    def since(self, qp: int, address: bytes, time_ns: int) -> int:
        """When the service began that a queue pair of an address has at a time; 0 for none."""
        history = self._ends.get(qp, {}).get(address, [])
        return next((moment for moment, _, _ in reversed(history) if moment <= time_ns), 0)

    def messages(self, table: ChunkTable, opcodes: Bool = STARTS_MESSAGE, *, bare: bool = False) -> tuple[Int, list[int], list[int]]:
        """Rows of a chunk whose payload starts a message on a known connection, or that have one of these OpCodes; the service id of each,
        and the side it goes to. `bare`: also those whose payload is missing.
        """
        empty: tuple[Int, list[int], list[int]] = (np.empty(0, np.int64), [], [])
        loc = table.located
        payload, bth = loc.at("payload"), loc.start.get("bth")
        if not self._ends or bth is None:
            return empty
        rows = np.flatnonzero(((payload >= 0) | ~HAS_PAYLOAD[loc.opcode] | bare) & (bth >= 0) & opcodes[loc.opcode])
        if "mad" in loc.start:
            rows = rows[loc.start["mad"][rows] < 0]
        qps = table.values_at(BTH.destqp, rows).astype(np.int64)
        known = np.isin(qps, np.fromiter(list(self._ends), np.int64))
        rows, qps = rows[known], qps[known]
        if not len(rows):
            return empty
        order = np.argsort(qps, kind="stable")
        rows, qps = rows[order], qps[order]
        found: list[tuple[int, int, int]] = []
        numbers, first = np.unique(qps, return_index=True)
        for qp, some in zip(numbers.tolist(), parts(rows, first), strict=True):
            found += _of_queue_pair(table, some, self._ends[qp])
        found.sort()
        return np.array([row for row, _, _ in found], np.int64), [s for _, s, _ in found], [side for _, _, side in found]

    def of_message(self, table: ChunkTable, struct: type[Any], i: int) -> int:
        """The service of a connection management message (occurrence `i`); 0 if its request was not seen."""
        sender, receiver = ends_at(table, int(table.occurrences(struct).rows[i]))
        view = table.view(struct, i)
        known: ConnectionSetUp | Resolution | None = None
        if struct is SIDRRep:
            known = self.connections.asked.get((receiver, view.request_id))
        elif struct in BY_CONNECTION:
            known = self.connections.of_message(view, sender, receiver)
        return known.service_id if known is not None else NO_SERVICE


def _addresses(end: End, lid: int) -> set[bytes]:
    """The addresses of a port: that of its messages, and in a native network also the LID in the REQ."""
    return {end.address} if end.lid is None else {end.address, lid.to_bytes(LID_SIZE, "big")}


def _of_queue_pair(table: ChunkTable, rows: Int, ends: dict[bytes, list[tuple[int, int, int]]]) -> Iterator[tuple[int, int, int]]:
    """(row, service, side) of packets to one queue pair number, by destination address and time."""
    for header, index, at in by_header(table, rows, ENDS):
        some, to = rows[index], gather(table.chunk.data, at + header.destination, header.size)
        for address, history in list(ends.items()):
            if len(address) != header.size:
                continue
            mine = some[(to == np.frombuffer(address, np.uint8)).all(axis=1)]
            since = np.array([moment for moment, _, _ in history], np.int64)
            at = np.searchsorted(since, table.chunk.time_ns[mine], "right") - 1
            for row, i in zip(mine.tolist(), at.tolist(), strict=True):
                if i >= 0 and history[i][1] != NO_SERVICE:
                    yield row, history[i][1], history[i][2]
