"""Connections set up, moved to another path or torn down by CM messages, and datagram services that were requested (SIDR)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict, Dropped, KeptList
from ibdissect.engine.connection_setups import SetUps
from ibdissect.wire import cm
from ibdissect.wire.cm import APR, LAP, SIDRRep, SIDRReq
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import CM_CLASS, FIRST_MULTICAST, SEND
from ibdissect.wire.ulp.nvme_rdma import served_by
from ibdissect.wire.ulp.rsockets import RSOCKETS, is_rsockets

from . import connection_events as events
from .addresses import End, ends_of
from .connection_events import ConnectionSetUp, QueuePair, Resolution
from .equal_rows import SLOTS, slot
from .locate import Bool, Int
from .sending_order import in_time

if TYPE_CHECKING:
    from .chunk_table import ChunkTable
    from .native_packets import Native

MESSAGES: tuple[type[Any], ...] = (cm.REQ, cm.MRA, cm.REJ, cm.REP, cm.RTU, cm.DREQ, cm.DREP, SIDRReq, SIDRRep, LAP, APR)
MAX_CONNECTIONS, KEPT = 32768, 2
"""Connections remembered, and those of one queue pair and network."""
AT_ONCE = 64
"""Those of one queue pair while their chunk is judged: rules ask for the one at a frame after all set-ups of the chunk were read."""
Key = tuple[End, int]
"""An end and the communication or request id that it chose."""


class CmMessage(Record, frozen=True, eq=False):
    """A connection management message."""

    frame: int
    time_ns: int
    view: Any
    """A view of one of the MESSAGES structures; None: it is cut off."""
    mad: bytes
    """The datagram, as far as it was captured."""
    sender: End
    receiver: End


def messages(table: ChunkTable) -> list[CmMessage]:
    """All connection management messages of a chunk in the order in which they were sent. Call as `table.once(messages)`."""
    found: list[tuple[int, type[Any] | None, int]]
    found = [(row, struct, i) for struct in MESSAGES for i, row in enumerate(table.occurrences(struct).rows.tolist())]
    whole = {row for row, _, _ in found}
    for kind, rows in table.attributes().items() if table.located.snapped.any() else ():
        if kind[0] == CM_CLASS:
            found += [(row, None, 0) for row in rows[table.located.snapped[rows]].tolist() if row not in whole]
    if not found:
        return []
    method = table.of_rows(MAD.method)[0]
    found = sorted((one for one in found if method[one[0]] == SEND), key=lambda one: one[0])
    order = in_time(table.chunk.time_ns[[row for row, _, _ in found]])
    found = found if order is None else [found[i] for i in order.tolist()]
    ends = ends_of(table, np.array([row for row, _, _ in found], np.int64))
    starts, stops, data = table.located.at("mad"), table.located.end, table.chunk.data
    return [
        CmMessage(
            table.chunk.first + row, int(table.chunk.time_ns[row]), table.view(struct, i) if struct is not None else None,
            data[starts[row] : stops[row]].tobytes(), *ways,
        )
        for (row, struct, i), ways in zip(found, ends, strict=True)
    ]  # fmt: skip


class Connections:
    """All connections of a capture, limited in number. Feed chunks in order."""

    def __init__(self, dropped: Dropped | None = None) -> None:
        self.dropped = dropped or Dropped("connections")
        self.setups = SetUps(ConnectionSetUp, MAX_CONNECTIONS, self.dropped)
        """Set-ups, also those of which only a part was captured."""
        self.by_queue_pair = BoundedDict[QueuePair, list[ConnectionSetUp]](2 * MAX_CONNECTIONS, self.dropped)
        """In-subnet connections whose REP was seen: the last KEPT per queue pair and network, and those of this chunk, the latest last."""
        self.by_side = BoundedDict[tuple[End, int], list[ConnectionSetUp]](MAX_CONNECTIONS, self.dropped)
        """Connections whose REP was seen, by end and queue pair number: the last KEPT, and those of this chunk, the latest last."""
        self.begun: list[ConnectionSetUp] = []
        """Those whose REP is in the present chunk."""
        self._occupied: Bool = np.zeros(SLOTS, np.bool_)
        """Hash slots of these queue pairs, to preselect packets quickly."""
        self.all = KeptList[ConnectionSetUp](MAX_CONNECTIONS, self.dropped)
        """Connections whose REQ is captured whole, in order of their REQs."""
        self.resolutions = KeptList[Resolution](MAX_CONNECTIONS, self.dropped)
        """Datagram services in order of their first requests."""
        self.asked = BoundedDict[Key, Resolution](MAX_CONNECTIONS, self.dropped)
        """The latest request of each requester and request id."""
        self.speakers: dict[End, int] = {}
        """Ends that sent connection management messages, and the frame of the first."""
        self._first = 0
        """The first frame of the present chunk."""
        self._missed: set[int] = set()
        """REQs of connections of this chunk that were forgotten by a queue pair."""
        self._occupied_now: set[QueuePair] = set()
        """Queue pairs that got a connection or a path in this chunk."""

    def feed(self, table: ChunkTable) -> Iterator[object]:
        """Process a chunk; yields its events in frame order."""
        self._trim()
        self.begun.clear()
        self._first = table.chunk.first
        self._missed.clear()
        for message in table.once(messages):
            if len(self.speakers) < MAX_CONNECTIONS:
                self.speakers.setdefault(message.sender, message.frame)
            yield from self._take(message)

    # -- queries

    @property
    def requested(self) -> list[ConnectionSetUp]:
        """Connections whose REQ is captured, whole or not, in the order of REQs."""
        return [one for one in list(self.setups.all) if one.reqs]

    def of_message(self, view: Any, sender: End, receiver: End) -> ConnectionSetUp | None:
        """The connection of a message other than a REQ; None if its REQ was not seen."""
        found = self.setups.known(sender, receiver, view.local_communication_id, view.remote_communication_id)
        return found if found is not None and found.lids is not None else None

    def at(self, queue_pair: QueuePair, frame: int) -> ConnectionSetUp | None:
        """The connection of a queue pair at `frame`; None if it had none, several, or it is unknown."""
        known = self.by_queue_pair.get(queue_pair, ())
        found = [connection for connection in known if connection.lasts(frame) and connection.since(queue_pair) < frame]
        return found[0] if len(found) == 1 else None

    def facing(self, near: End, far: End, qpn: int, frame: int) -> tuple[ConnectionSetUp, int] | None:
        """The connection of queue pair `qpn` at `far` with one at `near` at a frame, and the latter's number; None if unknown."""
        for connection in self.by_side.get((far, qpn), ()):
            one, other = connection.sides
            mine = one if other == (far, qpn) else other
            if connection.lasts(frame) and mine[0] == near:
                return connection, mine[1]
        return None

    def candidates(self, native: Native) -> Int:
        """Indices of packets that may go to a connected queue pair: includes false positives, misses none."""
        if not self.by_queue_pair:
            return np.empty(0, np.int64)
        return np.flatnonzero(self._occupied[slot(native.dlid << 24 | native.dest_qp)])

    # -- following

    def _take(self, message: CmMessage) -> Iterator[object]:
        view, sender, frame, time_ns = message.view, message.sender, message.frame, message.time_ns
        if isinstance(view, SIDRReq):
            self._ask(message)
            return
        if isinstance(view, SIDRRep):
            resolution = self.asked.get((message.receiver, view.request_id))
            if resolution is not None and not resolution.reply_frame:
                resolution.reply_frame, resolution.status, resolution.qpn, resolution.q_key = frame, view.status, view.qpn, view.q_key
                yield events.Resolved(frame, time_ns, resolution, sender)
            return
        taken = self.setups.take(message.mad, sender, message.receiver, sender.network, frame, time_ns)
        if view is None:
            return
        if isinstance(view, cm.REQ):
            if taken is not None:
                self._request(taken[0], message)
                yield events.Requested(frame, time_ns, taken[0])
            return
        connection = taken[0] if taken is not None else self.of_message(view, sender, message.receiver)
        if connection is None or connection.lids is None:
            if isinstance(view, cm.REJ):
                yield events.RejectedAlone(frame, time_ns, sender, message.receiver, view.reason)
            elif isinstance(view, cm.REP):
                yield events.RepliedAlone(frame, time_ns, view.local_qpn)
        elif isinstance(view, cm.REP):
            self._reply(connection, message)
            yield events.Replied(frame, time_ns, connection, sender)
        elif isinstance(view, cm.REJ):
            connection.ended = min(connection.ended, frame)
            yield events.Rejected(frame, time_ns, connection, view.reason)
        elif isinstance(view, cm.RTU):
            yield events.Confirmed(frame, time_ns, connection, sender)
        elif isinstance(view, LAP):
            connection.lap_frame, connection.apr_frame = frame, 0
            connection.lap_path = _alternate(view, back=sender != connection.active)
        elif isinstance(view, APR):
            connection.apr_frame, connection.ap_status = frame, view.ap_status
            if not view.ap_status and connection.in_subnet and connection.lap_path != events.NO_PATH:
                connection.alternates, connection.granted = (*connection.alternates[:1], connection.lap_path), frame
                self._name(connection)
                self._occupy(connection, frame, time_ns)
            yield events.PathAnswered(frame, time_ns, connection)
        elif isinstance(view, (cm.DREQ, cm.DREP)):
            connection.ended = min(connection.ended, frame)
            if isinstance(view, cm.DREQ):
                yield events.Disconnecting(frame, time_ns, connection, message.receiver, view.remote_qpn)

    def _ask(self, message: CmMessage) -> None:
        """Record a request for a datagram service."""
        view, key = message.view, (message.sender, message.view.request_id)
        known = self.asked.get(key)
        if known is not None and not known.reply_frame and known.service_id == view.service_id:
            known.asked += 1
            return
        resolution = Resolution(message.sender, message.receiver, view.service_id, view.partition_key, message.frame, message.time_ns)
        self.resolutions.keep(resolution, message.frame, message.time_ns)
        self.asked.put(key, resolution, message.frame, message.time_ns)

    def _request(self, connection: ConnectionSetUp, message: CmMessage) -> None:
        """Its first REQ that is whole says what it is."""
        if connection.lids is not None:
            return
        view, sender = message.view, message.sender
        connection.lids = lids = view.primary_local_port_lid, view.primary_remote_port_lid
        local = bool(view.primary_subnet_local) and all(0 < lid < FIRST_MULTICAST for lid in lids)
        connection.in_subnet = sender.lid is not None and local
        connection.served = served(view.service_id, bytes(view.private_data))
        connection.alternates = tuple(path for path in (_alternate(view),) if path != events.NO_PATH)
        self.all.keep(connection, message.frame, message.time_ns)
        self._name(connection)
        for one in self.by_side.get((sender, view.local_qpn), ()) if view.local_qpn else ():
            if one is not connection:
                one.ended = min(one.ended, message.frame)  # who asks with a queue pair has given up its last connection
        if connection.rep_frame:  # recorded before the REQ, so its packets may be out of order, too: no rule judges them
            self._begin(connection, message.frame, message.time_ns)

    def _name(self, connection: ConnectionSetUp) -> None:
        """Its ids also name it in messages along its alternate paths."""
        for ends in connection.alternates if connection.in_subnet else ():
            for side, lid, number in zip(connection.ends, ends, connection.ids, strict=True):
                if number is not None:
                    self.setups.name(side.at(lid), number, connection)

    def _reply(self, connection: ConnectionSetUp, message: CmMessage) -> None:
        if connection.rep_frame == message.frame:
            self._begin(connection, message.frame, message.time_ns)
            if connection.in_subnet:
                self._occupy(connection, message.frame, message.time_ns)

    def _begin(self, connection: ConnectionSetUp, frame: int, time_ns: int) -> None:
        """Its REQ and its REP are known: it has its queue pairs."""
        self.begun.append(connection)
        self._name(connection)
        for side in connection.sides:
            before = self.by_side.get(side, [])
            for one in before:
                one.ended = min(one.ended, connection.req_frame)
            self.by_side.put(side, self._latest([*before, connection], frame, time_ns), frame, time_ns)

    def _occupy(self, connection: ConnectionSetUp, frame: int, time_ns: int) -> None:
        """The connection has its queue pairs from now on."""
        for lid, qp in connection.every_queue_pair:
            others = [one for one in self.by_queue_pair.get((lid, qp), []) if one is not connection]
            for one in others:
                if one.active.network == connection.active.network:  # elsewhere the LID is another port
                    one.ended = min(one.ended, connection.req_frame)
            here = [*(one for one in others if one.active.network == connection.active.network), connection]
            elsewhere = [one for one in others if one.active.network != connection.active.network]
            kept = [*self._latest(elsewhere, frame, time_ns), *self._latest(here, frame, time_ns)]
            self.by_queue_pair.put((lid, qp), kept, frame, time_ns)
            self._occupied_now.add((lid, qp))
            self._occupied[slot(np.array([lid << 24 | qp], np.int64))] = True

    def _trim(self) -> None:
        """Forget connections of the last chunk that are not the latest of their queue pairs."""
        for side in {side for one in self.begun for side in one.sides}:
            if side in self.by_side:
                self.by_side[side] = self.by_side[side][-KEPT:]
        for pair in self._occupied_now:
            known = self.by_queue_pair.get(pair, [])
            networks = [one.active.network for one in known]
            kept = [one for i, one in enumerate(known) if networks[i + 1 :].count(networks[i]) < KEPT]
            if known:
                self.by_queue_pair[pair] = kept
        self._occupied_now.clear()

    def _latest(self, known: list[ConnectionSetUp], frame: int, time_ns: int) -> list[ConnectionSetUp]:
        """The AT_ONCE latest. Those that go are missed if they lasted into this chunk, whose packets are asked for later."""
        missed = {one.req_frame for one in known[:-AT_ONCE] if one.ended >= self._first} - self._missed
        if missed:
            self.dropped.add(frame, time_ns, len(missed))
            self._missed |= missed
        return known[-AT_ONCE:]


def _alternate(view: Any, *, back: bool = False) -> tuple[int, int]:
    """LIDs of an alternate path in this subnet as a REQ or LAP names them, those of its sender second if `back`; NO_PATH for none."""
    lids = view.alternate_local_port_lid, view.alternate_remote_port_lid
    if not view.alternate_subnet_local or not all(0 < lid < FIRST_MULTICAST for lid in lids):
        return events.NO_PATH
    return (lids[1], lids[0]) if back else lids


def served(service_id: int, private_data: bytes) -> int:
    """What messages on a connection are: its service id, marked if its REQ says more than the id."""
    return service_id | RSOCKETS if is_rsockets(service_id, private_data) else served_by(service_id, private_data)


events.ConnectionEvent.source = events.RejectedAlone.source = events.RepliedAlone.source = events.Resolved.source = Connections
