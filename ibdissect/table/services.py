"""Which service does a message belong to? What connection management taught: the queue pairs of each connection, and what it was for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.record import record
from ibdissect.wire import cm, cm_path, dm
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.transport import BTH

from .addresses import PLACES, way_of
from .locate import Bool, Int

if TYPE_CHECKING:
    from .table import ChunkTable

MAX_ENDS = 65536
"""Ends of connections, and communication ids, that are remembered; the oldest is forgotten first."""
CM_CLASS, DM_CLASS, SERVICE_ENTRIES = 0x07, 0x06, 0x0012
PASSIVE, ACTIVE, NO_SERVICE = 1, 2, 0
"""Which side a message goes to: the one that listened, the one that asked."""
_BY_CONNECTION = (cm.MRA, cm.REJ, cm.REP, cm.RTU, cm.DREQ, cm.DREP)
_MESSAGES: tuple[type[Any], ...] = (cm.REQ, *_BY_CONNECTION, cm_path.SIDRReq, cm_path.SIDRRep)


def _first_of_message() -> Bool:
    """Per OpCode: a SEND that starts a message, of any service."""
    out = np.zeros(256, np.bool_)
    for code, opcode in OPCODES.items():
        operation = opcode.operation.casefold()
        out[code] = operation.startswith("send") and ("first" in operation or "only" in operation)
    return out


STARTS_MESSAGE = _first_of_message()


@record(eq=True, frozen=False)
class _Known:
    """A connection, as far as its messages showed it."""

    service: int
    active: bytes
    passive: bytes
    active_lid: bytes = b""
    passive_lid: bytes = b""
    """Port addresses that the REQ names; empty where it names none."""


class Services:
    """What each queue pair is for, since when. `feed` the chunks of one capture in order, then ask about any of them."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        """Service id -> name, as I/O controllers list them."""
        self._by_id: dict[tuple[bytes, int], _Known] = {}
        self._ends: dict[int, dict[bytes, list[tuple[int, int, int]]]] = {}
        """Queue pair -> address -> (since when, service, side) in order of time."""
        self._count = self._fed = self._frame = 0
        self.dropped = Dropped("connections and their services")

    def feed(self, table: ChunkTable) -> None:
        """Learn from a chunk; one that was fed before is skipped."""
        if not len(table) or table.chunk.first <= self._fed:
            return
        self._fed = table.chunk.first + len(table) - 1
        kinds = {key for key in table.attributes() if key[0] in (CM_CLASS, DM_CLASS)}
        if not kinds:
            return
        if (DM_CLASS, SERVICE_ENTRIES) in kinds:
            for i in range(len(table.occurrences(dm.ServiceEntry))):
                entry = table.view(dm.ServiceEntry, i)
                if entry.service_id in self.names or len(self.names) < MAX_ENDS:
                    self.names[entry.service_id] = entry.service_name
                else:
                    self.dropped.add(table.chunk.first, int(table.chunk.time_ns[0]))
        for row, struct, i in self._messages(table):
            self._frame = table.chunk.first + row
            addresses = way_of(table, row)
            if addresses is not None:
                self._learn(struct, table.view(struct, i), *addresses, int(table.chunk.time_ns[row]))

    @staticmethod
    def _messages(table: ChunkTable) -> Iterator[tuple[int, type[Any], int]]:
        found = [(row, struct, i) for struct in _MESSAGES for i, row in enumerate(table.occurrences(struct).rows.tolist())]
        return iter(sorted(found, key=lambda item: item[0]))

    def _learn(self, struct: type[Any], view: Any, sender: bytes, receiver: bytes, time_ns: int) -> None:
        if struct is cm.REQ:
            known = _Known(view.service_id, sender, receiver)
            if len(sender) == 2:
                known.active_lid = view.primary_local_port_lid.to_bytes(2, "big")
                known.passive_lid = view.primary_remote_port_lid.to_bytes(2, "big")
            self._remember((sender, view.local_communication_id), known, time_ns)
            self._bind({known.active, known.active_lid}, view.local_qpn, time_ns, known.service, ACTIVE)
        elif struct is cm_path.SIDRReq:
            self._remember((sender, view.request_id), _Known(view.service_id, sender, receiver), time_ns)
        elif struct is cm_path.SIDRRep:
            asked = self._by_id.get((receiver, view.request_id))
            if asked is not None and view.status == 0:
                self._bind({sender}, view.qpn, time_ns, asked.service, PASSIVE)
        else:
            connection = self._of(view, sender, receiver)
            if connection is None:
                return
            if struct is cm.REP:
                self._remember((sender, view.local_communication_id), connection, time_ns)
                self._bind({connection.passive, connection.passive_lid}, view.local_qpn, time_ns, connection.service, PASSIVE)
            elif struct is cm.DREQ:
                # The queue pair may serve something else from now on, unasked.
                to_active = receiver == connection.active
                far = {connection.active, connection.active_lid} if to_active else {connection.passive, connection.passive_lid}
                self._bind(far, view.remote_qpn, time_ns, NO_SERVICE, 0)

    def _of(self, view: Any, sender: bytes, receiver: bytes) -> _Known | None:
        """The connection of a message that carries both ids."""
        return self._by_id.get((receiver, view.remote_communication_id)) or self._by_id.get((sender, view.local_communication_id))

    def _remember(self, key: tuple[bytes, int], known: _Known, time_ns: int) -> None:
        if len(self._by_id) >= MAX_ENDS:
            self._by_id.pop(next(iter(self._by_id)))
            self.dropped.add(self._frame, time_ns)
        self._by_id[key] = known

    def _bind(self, addresses: set[bytes], qp: int, time_ns: int, service: int, side: int) -> None:
        for address in addresses - {b"", b"\0\0"}:
            if self._count >= MAX_ENDS:
                oldest = self._ends.pop(next(iter(self._ends)))
                self._count -= sum(map(len, oldest.values()))
                self.dropped.add(self._frame, time_ns)
            history = self._ends.setdefault(qp, {}).setdefault(address, [])
            if history and history[-1][1:] == (service, side):
                continue  # the message came twice
            history.append((time_ns, service, side))
            self._count += 1

    # -- asking

    def messages(self, table: ChunkTable) -> tuple[Int, list[int], list[int]]:
        """Rows of a chunk whose payload starts a message of a known connection; for each its service id and the side it goes to."""
        empty: tuple[Int, list[int], list[int]] = (np.empty(0, np.int64), [], [])
        loc = table.located
        payload, bth = loc.start.get("payload"), loc.start.get("bth")
        if not self._ends or payload is None or bth is None:
            return empty
        rows = np.flatnonzero((payload >= 0) & (bth >= 0) & STARTS_MESSAGE[loc.opcode])
        if "mad" in loc.start:
            rows = rows[loc.start["mad"][rows] < 0]
        qps = table.of_rows(BTH.destqp)[0][rows].astype(np.int64)
        known = np.isin(qps, np.fromiter(list(self._ends), np.int64))
        rows, qps = rows[known], qps[known]
        if not len(rows):
            return empty
        order = np.argsort(qps, kind="stable")
        rows, qps = rows[order], qps[order]
        found: list[tuple[int, int, int]] = []
        numbers, first = np.unique(qps, return_index=True)
        for qp, some in zip(numbers.tolist(), np.split(rows, first[1:]), strict=True):
            found += _of_queue_pair(table, some, self._ends[qp])
        found.sort()
        return np.array([row for row, _, _ in found], np.int64), [s for _, s, _ in found], [side for _, _, side in found]

    def of_message(self, table: ChunkTable, struct: type[Any], i: int) -> int:
        """The service that a message of connection management (occurrence `i`) is about; 0 when its request was not seen."""
        addresses = way_of(table, int(table.occurrences(struct).rows[i]))
        if addresses is None:
            return NO_SERVICE
        view = table.view(struct, i)
        if struct is cm_path.SIDRRep:
            known = self._by_id.get((addresses[1], view.request_id))
        elif struct in _BY_CONNECTION:
            known = self._of(view, *addresses)
        else:
            known = None
        return known.service if known is not None else NO_SERVICE


def _of_queue_pair(table: ChunkTable, rows: Int, ends: dict[bytes, list[tuple[int, int, int]]]) -> Iterator[tuple[int, int, int]]:
    """(row, service, side) of packets to one queue pair number, by the address they go to and when."""
    left, data, loc = rows, table.chunk.data, table.located
    for name, _, destination, size in PLACES:
        start = loc.start.get(name)
        if start is None or not len(left):
            continue
        here = start[left] >= 0
        some, left = left[here], left[~here]
        where = (start[some] + destination)[:, None] + np.arange(size)
        to = data[where]
        for address, history in list(ends.items()):
            if len(address) != size:
                continue
            mine = some[(to == np.frombuffer(address, np.uint8)).all(axis=1)]
            since = np.array([moment for moment, _, _ in history], np.int64)
            at = np.searchsorted(since, table.chunk.time_ns[mine], "right") - 1
            for row, i in zip(mine.tolist(), at.tolist(), strict=True):
                if i >= 0 and history[i][1] != NO_SERVICE:
                    yield row, history[i][1], history[i][2]
