"""Which connections were set up, moved to another path or torn down, and which datagram services were requested (SIDR)?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict, Dropped, KeptList
from ibdissect.wire import cm
from ibdissect.wire.cm import APR, LAP, SIDRRep, SIDRReq
from ibdissect.wire.cm_names import service_name
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import FIRST_MULTICAST, SEND
from ibdissect.wire.ulp.nvme_rdma import served_by
from ibdissect.wire.ulp.rsockets import RSOCKETS, is_rsockets

from . import connection_events as events
from .addresses import End, ends_of
from .connection_events import Connection, QueuePair, Resolution
from .locate import Bool, Int
from .order import in_time
from .rows import SLOTS, slot

if TYPE_CHECKING:
    from .native_packets import Native
    from .table import ChunkTable

MESSAGES: tuple[type[Any], ...] = (cm.REQ, cm.MRA, cm.REJ, cm.REP, cm.RTU, cm.DREQ, cm.DREP, SIDRReq, SIDRRep, LAP, APR)
MAX_CONNECTIONS, KEPT = 32768, 2
"""Connections remembered, and those of one queue pair."""
Key = tuple[End, int]
"""An end and the communication or request id that it chose."""


class Message(Record, frozen=True, eq=False):
    """A connection management message."""

    frame: int
    time_ns: int
    view: Any
    """A view of one of the MESSAGES structures."""
    sender: End
    receiver: End


def messages(table: ChunkTable) -> list[Message]:
    """All connection management messages of a chunk in the order in which they were sent. Call as `table.once(messages)`."""
    found = [(row, struct, i) for struct in MESSAGES for i, row in enumerate(table.occurrences(struct).rows.tolist())]
    if not found:
        return []
    method = table.of_rows(MAD.method)[0]
    found = sorted((one for one in found if method[one[0]] == SEND), key=lambda one: one[0])
    order = in_time(table.chunk.time_ns[[row for row, _, _ in found]])
    found = found if order is None else [found[i] for i in order.tolist()]
    ends = ends_of(table, np.array([row for row, _, _ in found], np.int64))
    return [
        Message(table.chunk.first + row, int(table.chunk.time_ns[row]), table.view(struct, i), *ways)
        for (row, struct, i), ways in zip(found, ends, strict=True)
    ]


class Connections:
    """All connections of a capture, limited in number. Feed chunks in order."""

    def __init__(self, dropped: Dropped | None = None) -> None:
        self.dropped = dropped or Dropped("connections")
        self.by_id = BoundedDict[Key, Connection](2 * MAX_CONNECTIONS, self.dropped)
        """Keyed by the active side's id, and by the passive side's once it is known."""
        self.by_queue_pair = BoundedDict[QueuePair, list[Connection]](2 * MAX_CONNECTIONS, self.dropped)
        """In-subnet connections whose REP was seen: up to two per queue pair and network, the latest last."""
        self.by_side = BoundedDict[tuple[End, int], list[Connection]](MAX_CONNECTIONS, self.dropped)
        """Connections whose REP was seen, by end and queue pair number: the last KEPT, the latest last."""
        self.begun: list[Connection] = []
        """Those whose REP is in the present chunk."""
        self._occupied: Bool = np.zeros(SLOTS, np.bool_)
        """Hash slots of these queue pairs, to preselect packets quickly."""
        self.all = KeptList[Connection](MAX_CONNECTIONS, self.dropped)
        """Connections in order of their REQs."""
        self.resolutions = KeptList[Resolution](MAX_CONNECTIONS, self.dropped)
        """Datagram services in order of their first requests."""
        self.asked = BoundedDict[Key, Resolution](MAX_CONNECTIONS, self.dropped)
        """The latest request of each requester and request id."""
        self.speakers: dict[End, int] = {}
        """Ends that sent connection management messages, and the frame of the first."""
        self.first_ns = self.last_ns = 0

    def feed(self, table: ChunkTable) -> Iterator[object]:
        """Process a chunk; yields its events in frame order."""
        if len(table.times):
            self.first_ns = self.first_ns or int(table.times[0])
            self.last_ns = int(table.times[-1])
        self.begun.clear()
        for message in table.once(messages):
            if len(self.speakers) < MAX_CONNECTIONS:
                self.speakers.setdefault(message.sender, message.frame)
            yield from self._take(message)

    # -- queries

    def both_speak(self, connection: Connection) -> bool:
        """Whether both sides sent messages. If not, the capture may show one direction only, and a missing answer proves nothing."""
        return {connection.active, connection.passive} <= self.speakers.keys()

    def of_message(self, view: Any, sender: End, receiver: End) -> Connection | None:
        """The connection of a message other than a REQ; None if its REQ was not seen."""
        # Try both ids; the receiver's first, which names the connection being answered.
        return self.by_id.get((receiver, view.remote_communication_id)) or self.by_id.get((sender, view.local_communication_id))

    def at(self, queue_pair: QueuePair, frame: int) -> Connection | None:
        """The connection of a queue pair at `frame`; None if it had none, several, or it is unknown."""
        known = self.by_queue_pair.get(queue_pair, ())
        found = [connection for connection in known if connection.lasts(frame) and connection.since(queue_pair) < frame]
        return found[0] if len(found) == 1 else None

    def facing(self, near: End, far: End, qpn: int, frame: int) -> tuple[Connection, int] | None:
        """The connection of queue pair `qpn` at `far` with one at `near` at a frame, and the latter's number; None if unknown."""
        for connection in self.by_side.get((far, qpn), ()):
            one, other = connection.sides
            mine = one if other == (far, qpn) else other
            if connection.lasts(frame) and mine[0] == near:
                return connection, mine[1]
        return None

    def retry_count(self, near: End, far: End, qpn: int, frame: int) -> int | None:
        """How often `near` may repeat what it sends to queue pair `qpn` at `far`; None if unknown.

        The REQ says how often its receiver may retry (IBA 12.7.38), and nothing of its sender.
        """
        found = self.facing(near, far, qpn, frame)
        return found[0].retry_count if found is not None and found[0].sides[0] == (far, qpn) else None

    def candidates(self, native: Native) -> Int:
        """Indices of packets that may go to a connected queue pair: includes false positives, misses none."""
        if not self.by_queue_pair:
            return np.empty(0, np.int64)
        return np.flatnonzero(self._occupied[slot(native.dlid << 24 | native.dest_qp)])

    # -- following

    def _take(self, message: Message) -> Iterator[object]:
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
        if isinstance(view, cm.REQ):
            yield events.Requested(frame, time_ns, self._request(message))
            return
        connection = self.of_message(view, sender, message.receiver)
        if connection is None:
            if isinstance(view, cm.REJ):
                yield events.RejectedAlone(frame, time_ns, sender, message.receiver, view.reason)
            return
        if isinstance(view, cm.REP):
            self._reply(connection, message)
            yield events.Replied(frame, time_ns, connection, sender)
        elif isinstance(view, cm.REJ):
            connection.rej_frame, connection.rej_reason, connection.rejected_by = frame, view.reason, sender
            connection.ended = min(connection.ended, frame)
            yield events.Rejected(frame, time_ns, connection, view.reason)
        elif isinstance(view, cm.RTU):
            if not connection.rtu_frame:
                connection.rtu_frame, connection.rtu_ns = frame, time_ns
            yield events.Confirmed(frame, time_ns, connection, sender)
        elif isinstance(view, cm.MRA):
            connection.mra_frame, connection.mra_ns = frame, time_ns
            connection.mra_of, connection.mra_timeout = view.message_mraed, view.service_timeout
        elif isinstance(view, LAP):
            connection.lap_frame, connection.apr_frame = frame, 0
            connection.lap_path = _alternate(view, back=sender != connection.active)
        elif isinstance(view, APR):
            connection.apr_frame, connection.ap_status = frame, view.ap_status
            if not view.ap_status and connection.in_subnet and connection.lap_path != events.NO_PATH:
                connection.alternates, connection.granted = (*connection.alternates[:1], connection.lap_path), frame
                self._occupy(connection, frame, time_ns)
            yield events.PathAnswered(frame, time_ns, connection)
        else:
            connection.ended = min(connection.ended, frame)
            if isinstance(view, cm.DREQ):
                connection.dreq_frame, connection.dreq_ns = connection.dreq_frame or frame, time_ns
                connection.dreq_by = connection.dreq_by if connection.dreqs else sender
                connection.dreqs += connection.dreq_by == sender
                yield events.Disconnecting(frame, time_ns, connection, message.receiver, view.remote_qpn)
            else:
                connection.drep_frame = connection.drep_frame or frame

    def _ask(self, message: Message) -> None:
        """Record a request for a datagram service."""
        view, key = message.view, (message.sender, message.view.request_id)
        known = self.asked.get(key)
        if known is not None and not known.reply_frame and known.service_id == view.service_id:
            known.asked += 1
            return
        resolution = Resolution(message.sender, message.receiver, view.service_id, view.partition_key, message.frame, message.time_ns)
        self.resolutions.keep(resolution, message.frame, message.time_ns)
        self.asked.put(key, resolution, message.frame, message.time_ns)

    def _request(self, message: Message) -> Connection:
        view, sender, frame, time_ns = message.view, message.sender, message.frame, message.time_ns
        key, lids = (sender, view.local_communication_id), (view.primary_local_port_lid, view.primary_remote_port_lid)
        known = self.by_id.get(key)
        same = known is not None and (known.active, known.active_qpn, known.service_id) == (sender, view.local_qpn, view.service_id)
        if known is not None and same and not known.dreq_frame:
            known.reqs += 1
            known.last_req_ns = time_ns
            return known
        code = view.path_packet_payload_mtu
        connection = Connection(
            sender, message.receiver, frame, time_ns, view.local_qpn, view.starting_psn, *lids,
            service_name(view.transport_service_type, view.extended_transport_type), view.service_id, view.partition_key,
            128 << code if 1 <= code <= 5 else 0,
            view.retry_count, view.max_cm_retries, view.remote_cm_response_timeout, view.primary_local_ack_timeout,
            sender.lid is not None and bool(view.primary_subnet_local) and all(0 < lid < FIRST_MULTICAST for lid in lids),
            _served(view.service_id, bytes(view.private_data)), last_req_ns=time_ns,
            alternates=tuple(path for path in (_alternate(view),) if path != events.NO_PATH),
        )  # fmt: skip
        self.all.keep(connection, frame, time_ns)
        self.by_id.put(key, connection, frame, time_ns)
        return connection

    def _reply(self, connection: Connection, message: Message) -> None:
        view, frame, time_ns = message.view, message.frame, message.time_ns
        connection.reps += 1
        if connection.rep_frame:
            return
        connection.rep_frame, connection.rep_ns = frame, time_ns
        connection.passive_qpn, connection.passive_psn = view.local_qpn, view.starting_psn
        self.by_id.put((message.sender, view.local_communication_id), connection, frame, time_ns)
        self.begun.append(connection)
        for side in connection.sides:
            before = self.by_side.get(side, [])
            for one in before:
                one.ended = min(one.ended, connection.req_frame)
            self.by_side.put(side, [*before, connection][-KEPT:], frame, time_ns)
        if connection.in_subnet:
            self._occupy(connection, frame, time_ns)

    def _occupy(self, connection: Connection, frame: int, time_ns: int) -> None:
        """The connection has its queue pairs from now on."""
        for lid, qp in connection.every_queue_pair:
            others = [one for one in self.by_queue_pair.get((lid, qp), []) if one is not connection]
            for one in others:
                if one.active.network == connection.active.network:  # elsewhere the LID is another port
                    one.ended = min(one.ended, connection.req_frame)
            earlier = [one for one in others if one.active.network == connection.active.network][-1:]
            elsewhere = [one for one in others if one.active.network != connection.active.network][-KEPT:]
            self.by_queue_pair.put((lid, qp), [*elsewhere, *earlier, connection], frame, time_ns)
            self._occupied[slot(np.array([lid << 24 | qp], np.int64))] = True


def _alternate(view: Any, *, back: bool = False) -> tuple[int, int]:
    """LIDs of an alternate path in this subnet as a REQ or LAP names them, those of its sender second if `back`; NO_PATH for none."""
    lids = view.alternate_local_port_lid, view.alternate_remote_port_lid
    if not view.alternate_subnet_local or not all(0 < lid < FIRST_MULTICAST for lid in lids):
        return events.NO_PATH
    return (lids[1], lids[0]) if back else lids


def _served(service_id: int, private_data: bytes) -> int:
    """What messages on a connection are: its service id, marked if its REQ says more than the id."""
    return service_id | RSOCKETS if is_rsockets(service_id, private_data) else served_by(service_id, private_data)


events.ConnectionEvent.source = events.RejectedAlone.source = events.Resolved.source = Connections
