"""Which connections were set up, moved to another path and torn down, and which datagram services were asked for (SIDR)?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ibdissect.capture.chunk import LINK_ERF
from ibdissect.dropped import Dropped
from ibdissect.record import record
from ibdissect.table.table import ChunkTable
from ibdissect.wire import cm
from ibdissect.wire.cm_path import APR, LAP, SIDRRep, SIDRReq
from ibdissect.wire.mad import MAD

from .addresses import addresses_of

SEND = 0x03
MAX_CONNECTIONS = 65536
Key = tuple[str, int]
"""Address of one end and the communication id that it chose."""


@record(eq=True, frozen=False)
class Connection:
    """One connection, from its REQ on; -1 and frame 0 stand for not seen."""

    active: str
    """Address of the side that asked."""
    passive: str
    active_id: int
    req_frame: int
    req_ns: int
    active_qpn: int
    active_psn: int
    """What the active side expects in the passive side's first request."""
    service: int
    """TransportServiceType: 0 RC, 1 UC."""
    mtu: int
    """Path packet payload MTU in bytes, 0 when the code is reserved."""
    retry_count: int
    max_cm_retries: int
    response_timeout: int
    """Remote CM response timeout code."""
    reqs: int = 1
    passive_id: int = -1
    rep_frame: int = 0
    rep_ns: int = 0
    reps: int = 0
    passive_qpn: int = -1
    passive_psn: int = -1
    rtu_frame: int = 0
    mra_frame: int = 0
    """The latest MRA."""
    mra_ns: int = 0
    mra_of: int = -1
    """Which message it asks to be patient about: 0 REQ, 1 REP, 2 LAP."""
    mra_timeout: int = 0
    """Its ServiceTimeout code."""
    rej_frame: int = 0
    rej_reason: int = -1
    rejected_by: str = ""
    lap_frame: int = 0
    """The latest request for an alternate path."""
    apr_frame: int = 0
    ap_status: int = -1
    dreq_frame: int = 0
    dreq_ns: int = 0
    drep_frame: int = 0
    unproven: bool = False
    """From a capture that may have missed packets without saying so (ERF as ibdump writes it)."""

    @property
    def text(self) -> str:
        """`192.168.0.1 QP 0x000012 → 192.168.0.2`."""
        return f"{self.active} QP 0x{self.active_qpn:06x} → {self.passive}"


@record(eq=True, frozen=False)
class Resolution:
    """A datagram service that was asked for; -1 and frame 0 stand for no answer."""

    source: str
    destination: str
    service_id: int
    frame: int
    time_ns: int
    asked: int = 1
    """Requests sent."""
    reply_frame: int = 0
    status: int = -1
    """0: found."""
    qpn: int = -1


@record
class ConnectionEvent:
    """A message of connection management came."""

    source: ClassVar[type[Any]]
    """The follower that raises it."""
    frame: int
    time_ns: int
    connection: Connection


@record
class Requested(ConnectionEvent):
    """A REQ, the first or a repeated one."""


@record
class Replied(ConnectionEvent):
    """A REP, the first or a repeated one."""

    sender: str


@record
class Confirmed(ConnectionEvent):
    """An RTU, the first or a repeated one."""

    sender: str


@record
class PathAnswered(ConnectionEvent):
    """An APR answered the request for an alternate path."""


@record
class Rejected(ConnectionEvent):
    """A REJ of a connection whose REQ was seen."""

    reason: int


@record
class RejectedAlone:
    """A REJ that belongs to no REQ that was seen."""

    source: ClassVar[type[Any]]
    frame: int
    time_ns: int
    sender: str
    receiver: str
    reason: int


class Connections:
    """All connections of a capture, bounded; chunks in order."""

    def __init__(self) -> None:
        self.by_id: dict[Key, Connection] = {}
        """Under the active side's id, and under the passive side's once it is known."""
        self.all: list[Connection] = []
        """In the order of their REQs, at most MAX_CONNECTIONS."""
        self.resolutions: list[Resolution] = []
        """In the order of their first requests, at most MAX_CONNECTIONS."""
        self.asked: dict[Key, Resolution] = {}
        """The latest of each requester's address and request id."""
        self.speakers: set[str] = set()
        """Addresses that sent messages: of the others the capture shows one direction only."""
        self.dropped = Dropped("connections")
        self.first_ns = self.last_ns = 0

    def feed(self, table: ChunkTable) -> Iterator[object]:
        """Take in a chunk; yields what happened, in frame order."""
        if len(table):
            self.first_ns = self.first_ns or int(table.chunk.time_ns[0])
            self.last_ns = int(table.chunk.time_ns[-1])
        found = []
        for struct in (cm.REQ, cm.MRA, cm.REJ, cm.REP, cm.RTU, cm.DREQ, cm.DREP, SIDRReq, SIDRRep, LAP, APR):
            found += [(row, struct, i) for i, row in enumerate(table.occurrences(struct).rows.tolist())]
        for row, struct, i in sorted(found, key=lambda item: item[0]):
            if int(table.of_rows(MAD.method)[0][row]) != SEND:
                continue
            sender, receiver = addresses_of(table, row)
            if len(self.speakers) < MAX_CONNECTIONS:
                self.speakers.add(sender)
            frame, time_ns = table.chunk.first + row, int(table.chunk.time_ns[row])
            if struct in (SIDRReq, SIDRRep):
                self._resolve(table.view(struct, i), sender, receiver, frame, time_ns)
                continue
            unproven = bool(table.chunk.link[row] == LINK_ERF)
            yield from self._message(struct, table.view(struct, i), sender, receiver, frame, time_ns, unproven)

    def _resolve(self, view: Any, sender: str, receiver: str, frame: int, time_ns: int) -> None:
        """A datagram service is asked for, or the answer."""
        if isinstance(view, SIDRReq):
            known = self.asked.get((sender, view.request_id))
            if known is not None and not known.reply_frame and known.service_id == view.service_id:
                known.asked += 1
            elif len(self.resolutions) < MAX_CONNECTIONS:
                asked = Resolution(sender, receiver, view.service_id, frame, time_ns)
                self.resolutions.append(asked)
                self.asked[sender, view.request_id] = asked
            else:
                self.dropped.add(frame, time_ns)
            return
        asked_for = self.asked.get((receiver, view.request_id))
        if asked_for is not None and not asked_for.reply_frame:
            asked_for.reply_frame, asked_for.status, asked_for.qpn = frame, view.status, view.qpn

    def _message(
        self, struct: type[Any], view: Any, sender: str, receiver: str, frame: int, time_ns: int, unproven: bool
    ) -> Iterator[object]:
        if struct is cm.REQ:
            yield self._request(view, sender, receiver, frame, time_ns, unproven)
            return
        # Both ids are tried: the receiver's is the one that this side answers to.
        connection = self.by_id.get((receiver, view.remote_communication_id)) or self.by_id.get((sender, view.local_communication_id))
        if connection is None:
            if struct is cm.REJ:
                yield RejectedAlone(frame, time_ns, sender, receiver, view.reason)
            return
        if struct is cm.REP:
            self._reply(connection, view, sender, frame, time_ns)
            yield Replied(frame, time_ns, connection, sender)
        elif struct is cm.REJ:
            connection.rej_frame, connection.rej_reason, connection.rejected_by = frame, view.reason, sender
            yield Rejected(frame, time_ns, connection, view.reason)
        elif struct is cm.RTU:
            connection.rtu_frame = connection.rtu_frame or frame
            yield Confirmed(frame, time_ns, connection, sender)
        elif struct is cm.MRA:
            connection.mra_frame, connection.mra_ns = frame, time_ns
            connection.mra_of, connection.mra_timeout = view.message_mraed, view.service_timeout
        elif struct is LAP:
            connection.lap_frame, connection.apr_frame = frame, 0
        elif struct is APR:
            connection.apr_frame, connection.ap_status = frame, view.ap_status
            yield PathAnswered(frame, time_ns, connection)
        elif struct is cm.DREQ:
            connection.dreq_frame, connection.dreq_ns = connection.dreq_frame or frame, time_ns
        else:
            connection.drep_frame = connection.drep_frame or frame

    def _request(self, view: cm.REQ, sender: str, receiver: str, frame: int, time_ns: int, unproven: bool) -> Requested:
        key = (sender, view.local_communication_id)
        known = self.by_id.get(key)
        if known is not None and known.active == sender and known.active_qpn == view.local_qpn and not known.dreq_frame:
            known.reqs += 1
            return Requested(frame, time_ns, known)
        code = view.path_packet_payload_mtu
        connection = Connection(
            sender, receiver, view.local_communication_id, frame, time_ns, view.local_qpn, view.starting_psn,
            view.transport_service_type, 128 << code if 1 <= code <= 5 else 0, view.retry_count, view.max_cm_retries,
            view.remote_cm_response_timeout, unproven=unproven,
        )  # fmt: skip
        if len(self.all) < MAX_CONNECTIONS:
            self.all.append(connection)
        else:
            self.dropped.add(frame, time_ns)
        self._remember(key, connection)
        return Requested(frame, time_ns, connection)

    def _reply(self, connection: Connection, view: cm.REP, sender: str, frame: int, time_ns: int) -> None:
        connection.reps += 1
        if not connection.rep_frame:
            connection.rep_frame, connection.rep_ns = frame, time_ns
            connection.passive_id, connection.passive_qpn = view.local_communication_id, view.local_qpn
            connection.passive_psn = view.starting_psn
            self._remember((sender, view.local_communication_id), connection)

    def _remember(self, key: Key, connection: Connection) -> None:
        if len(self.by_id) >= 2 * MAX_CONNECTIONS:
            gone = self.by_id.pop(next(iter(self.by_id)))
            self.dropped.add(gone.req_frame, gone.req_ns)
        self.by_id[key] = connection


ConnectionEvent.source = RejectedAlone.source = Connections
