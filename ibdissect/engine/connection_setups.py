"""Set-up and end of each connection: its messages of connection management, as far as they were captured.

The only follower of them: `engine.lanes` feeds it for `diagnose`, `decode.cm_connections` for `stats`, messages, services and rules."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar, cast

from ibdissect.bounded import BoundedDict, Dropped, KeptList
from ibdissect.wire import cm
from ibdissect.wire.cm_names import same_service
from ibdissect.wire.cut import field_of
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import CM_CLASS
from ibdissect.wire.spec import Field

MAX_SETUPS = 50_000
"""Set-ups that are kept, refused ones included."""
MAX_TRIES, MAX_ALL_TRIES = 64, 1 << 17
"""REQs of one connection whose frames are kept, and those of all."""
SOONEST_NS = 50_000_000
"""Nobody repeats a message of connection management sooner: timers are 4 s or, rarely, a tenth of that."""
OF_REQ, OF_LAP = 0, 2
"""The message whose answer an MRA delays; 1 is a REP."""
Address = Any
"""Of an end: hashable; the engine's are pairs of numbers, those of `decode.cm_connections` its `End`."""


AGREED: dict[str, Field[Any]] = {
    "p_key": cm.REQ.partition_key, "mtu": cm.REQ.path_packet_payload_mtu, "retry_count": cm.REQ.retry_count,
    "rnr_retry_count": cm.REQ.rnr_retry_count, "ack_timeout": cm.REQ.primary_local_ack_timeout, "max_cm_retries": cm.REQ.max_cm_retries,
    "cm_timeout": cm.REQ.remote_cm_response_timeout, "initiator_depth": cm.REQ.initiator_depth,
    "asker_resources": cm.REQ.responder_resources, "transport": cm.REQ.transport_service_type, "extended": cm.REQ.extended_transport_type,
    "service_id": cm.REQ.service_id, "asked_gid": cm.REQ.primary_remote_port_gid, "asked_lid": cm.REQ.primary_remote_port_lid,
    "alternate_lid": cm.REQ.alternate_remote_port_lid,
}  # fmt: skip
"""What a REQ proposes."""
_OF_REP = ("resources", "rnr_retry_of_rep")


class Agreed:
    """What a REQ proposes, and what its REP says to it, by name; None: not captured."""

    __slots__ = (*AGREED, *_OF_REP)

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, None)

    def __getitem__(self, name: str) -> int | None:
        return cast("int | None", getattr(self, name))

    def __setitem__(self, name: str, value: int | None) -> None:
        setattr(self, name, value)


class Repetitions:
    """How often a message was sent: one that follows another sooner than anybody repeats it is the copy of a second mirror."""

    __slots__ = ("count", "frame", "time")

    def __init__(self) -> None:
        self.count = self.frame = self.time = 0

    def take(self, frame: int, time: int) -> bool:
        """It was captured once more. Whether it was sent once more."""
        anew = not self.count or abs(time - self.time) >= SOONEST_NS
        if anew:
            self.count, self.frame = self.count + 1, frame
        self.time = time
        return anew


class SetUp:
    """One connection as connection management sees it. Frames and times are those of the first message of a kind; None: not captured."""

    __slots__ = (
        "agreed", "drep", "dreqs", "ends", "first_frame", "first_time", "ids", "last_frame", "last_req", "last_time", "mra", "network",
        "nvme_status", "psns", "qpns", "rej", "rej_body", "rejections", "rep", "replies", "reps", "reqs", "requests", "rtu", "tries",
    )  # fmt: skip

    def __init__(self, asker: Address, other: Address, network: int) -> None:
        self.ends: tuple[Address, Address] = (asker, other)
        self.network = network
        self.ids: list[int | None] = [None, None]
        self.qpns: list[int | None] = [None, None]
        self.psns: list[int | None] = [None, None]
        """The first PSN of the packets to the asker, and of those to the other end."""
        self.reqs: list[tuple[int, int]] = []
        self.tries = self.last_req = 0
        """REQs without copies of another mirror, and the time of the latest."""
        self.mra: tuple[int, int, int, int | None] | None = None
        """The latest: frame, time, the exponent of the time it asks for, and the message whose answer it delays; None: cut off."""
        self.rep: tuple[int, int] | None = None
        self.reps = 0
        self.requests, self.replies = Repetitions(), Repetitions()
        self.rtu: tuple[int, int] | None = None
        self.rej: tuple[int, int, int | None, int] | None = None
        """Frame, time, reason (None: cut off), and which end sent it."""
        self.rej_body = b""
        """The first REJ, up to its last byte that is not 0."""
        self.rejections: list[int] = []
        self.nvme_status: int | None = None
        self.dreqs: list[tuple[int, int, int]] = []
        self.drep: tuple[int, int] | None = None
        self.agreed = Agreed()
        self.first_frame = self.last_frame = 0
        self.first_time = self.last_time = 0

    @property
    def asked_service(self) -> int | None:
        """The service that its REQ asks for, as connections to it are compared."""
        return same_service(self.agreed["service_id"])

    @property
    def over(self) -> bool:
        """Whether it was refused or ended."""
        return self.rej is not None or self.drep is not None or bool(self.dreqs)

    @property
    def accepted(self) -> bool:
        """Whether there is a REP, or may be: a message is it, answers it (RTU; MRA, also if what it delays is cut off), or ends what it
        began."""
        delayed = self.mra is not None and self.mra[3] != OF_REQ
        return self.rep is not None or self.rtu is not None or delayed or bool(self.dreqs) or self.drep is not None

    def side_of(self, end: Address) -> int:
        """0: the asker, 1: the other end, -1: neither."""
        return self.ends.index(end) if end in self.ends else -1

    def seen(self, frame: int, time: int) -> None:
        if not self.first_frame:
            self.first_frame, self.first_time = frame, time
        self.last_frame, self.last_time = frame, time


def gid_of(end: Address) -> bytes:
    """The GID of an end, if its address has one beside."""
    return cast(bytes, getattr(end, "gid", b""))


SERVICE_NVME, NVME_REASON = 4420, 28
"""The port of NVMe over Fabrics, and the reason whose private data then hold its status."""


Kind = TypeVar("Kind", bound=SetUp)


def terms(setup: SetUp) -> tuple[int, int]:
    """The path MTU in bytes, and half of the shortest time after which a requester may repeat, in ns; 0: not known."""
    code, timeout = setup.agreed["mtu"] or 0, setup.agreed["ack_timeout"] or 0
    return (128 << code if 1 <= code <= 5 else 0), (4096 << timeout) // 2 if timeout else 0


class SetUps(Generic[Kind]):
    """Follows the messages of connection management. A connection is known by its asker and the asker's communication id."""

    def __init__(self, make: type[Kind] | None = None, limit: int | None = None, dropped: Dropped | None = None) -> None:
        """`make`: what a connection is kept as; `limit`: how many."""
        self.make = make or cast("type[Kind]", SetUp)
        limit = MAX_SETUPS if limit is None else limit
        self.lost = dropped or Dropped("set-ups of connections")
        self.all = KeptList[Kind](limit, self.lost)
        self.by_id = BoundedDict[tuple[Hashable, ...], Kind](2 * limit)
        """By an end and the id that it chose, and by its GID as well: virtual ports share a LID."""
        self.tries = 0
        """REQs whose frames are kept."""

    @property
    def dropped(self) -> int:
        """Set-ups that were not kept."""
        return self.lost.count

    def known(self, src: Address, dst: Address, local: int, remote: int | None) -> Kind | None:
        """The connection of a message other than a REQ, by its ids; None if none of its messages was seen."""
        # The receiver's id first, which names the connection that is answered.
        found = self.named(dst, remote) if remote is not None else None
        if found is not None:
            return found
        found = self.named(src, local)
        if found is None or found.side_of(dst) < 0:
            return None  # the sender uses the id again, with somebody else
        other = found.ids[found.side_of(dst)]
        return found if not remote or other in (None, remote, local) else None

    def named(self, end: Address, number: int) -> Kind | None:
        """The latest set-up in which an end chose an id; not that of another GID with its LID."""
        gid = gid_of(end)
        found = self.by_id.get((end, gid, number)) or self.by_id.get((end, number))
        if found is None or not gid:
            return found
        own = gid_of(found.ends[found.ends.index(end)]) if end in found.ends else b""
        return found if own in (b"", gid) else None

    def name(self, end: Address, number: int, setup: Kind) -> None:
        """From now on this is what `named` says."""
        self.by_id.put((end, number), setup)
        if gid := gid_of(end):
            self.by_id.put((end, gid, number), setup)

    def take(self, mad: bytes, src: Address, dst: Address, network: int, frame: int, time: int) -> tuple[Kind, int] | None:
        """A datagram, cut off or not; returns its set-up and which message it is, None if it is none of connection management."""
        if len(mad) < MAD.size + 4 or mad[MAD.mgmt_class.bit // 8] != CM_CLASS:
            return None
        attribute, body = field_of(mad, MAD.attribute_id), mad[MAD.size :]
        local = field_of(body, cm.REQ.local_communication_id)
        assert local is not None
        if attribute == cm.REQ_ID:
            asked = self._request(body, local, src, dst, network, frame, time)
            if asked is None:
                return None
            setup = asked
        elif attribute in (cm.MRA_ID, cm.REJ_ID, cm.REP_ID, cm.RTU_ID, cm.DREQ_ID, cm.DREP_ID):
            remote = field_of(body, cm.REP.remote_communication_id)
            found = self.known(src, dst, local, remote)
            if found is None or found.side_of(src) < 0 or (attribute == cm.REP_ID and found.over and found.ids[0] != remote):
                if attribute not in (cm.REP_ID, cm.REJ_ID, cm.DREQ_ID) or remote is None:
                    return None
                # A REP or REJ goes to the asker, but who refuses without knowing the other's number asked; who sends a DREQ may be either.
                asks = attribute == cm.DREQ_ID or (attribute == cm.REJ_ID and not remote)
                asker, other, ids = (src, dst, (local, remote)) if asks else (dst, src, (remote, local))
                found = self.make(asker, other, network)
                if attribute != cm.DREQ_ID and not self.keep(found, frame, time):
                    return None  # a DREQ alone is kept with the packets of its queue pair, if there are any
                found.ids = [*ids]
                for end, number in zip(found.ends, ids, strict=True):
                    if number:
                        self.name(end, number, found)
            setup = found
            self._message(setup, attribute, body, src, local, frame, time)
        else:
            return None
        setup.seen(frame, time)
        return setup, attribute

    def keep(self, setup: Kind, frame: int, time: int) -> bool:
        """Whether there is room for one more."""
        before = len(self.all)
        self.all.keep(setup, frame, time)
        return len(self.all) > before

    def _request(self, body: bytes, local: int, src: Address, dst: Address, network: int, frame: int, time: int) -> Kind | None:
        known, qpn, service = self.named(src, local), field_of(body, cm.REQ.local_qpn), field_of(body, cm.REQ.service_id)
        psn = field_of(body, cm.REQ.starting_psn)  # another try of the application has another one
        same = known is not None and known.ends == (src, dst) and not known.over
        same = same and known is not None and known.qpns[0] in (qpn, None) and (psn is None or known.psns[0] in (psn, None))
        if known is not None and same and known.agreed["service_id"] in (service, None):
            setup = known
        else:
            setup = self.make(src, dst, network)
            if not self.keep(setup, frame, time):
                return None
            setup.ids[0] = local
            self.name(src, local, setup)
        anew = setup.requests.take(frame, time)
        setup.tries += anew
        setup.last_req = time
        if anew and len(setup.reqs) < MAX_TRIES and (not setup.reqs or self.tries < MAX_ALL_TRIES):
            setup.reqs.append((frame, time))
            self.tries += 1
        setup.qpns[0] = qpn
        if setup.psns[0] is None:
            setup.psns[0] = psn
        for name, field in AGREED.items():
            if setup.agreed[name] is None:  # a repeated REQ says the same; another one with its numbers is of another network
                setup.agreed[name] = field_of(body, field)
        return setup

    def _message(self, setup: Kind, attribute: int, body: bytes, src: Address, local: int, frame: int, time: int) -> None:
        side = setup.side_of(src)
        if attribute == cm.MRA_ID:
            setup.mra = frame, time, field_of(body, cm.MRA.service_timeout) or 0, field_of(body, cm.MRA.message_mraed)
        elif attribute == cm.REP_ID:
            setup.reps += 1
            setup.replies.take(frame, time)
            if setup.rep is None:
                setup.ids[1], setup.rep = local, (frame, time)
                self.name(src, local, setup)
                setup.qpns[1], setup.psns[1] = field_of(body, cm.REP.local_qpn), field_of(body, cm.REP.starting_psn)
                setup.agreed["resources"] = field_of(body, cm.REP.responder_resources)
                setup.agreed["rnr_retry_of_rep"] = field_of(body, cm.REP.rnr_retry_count)
        elif attribute == cm.RTU_ID:
            setup.rtu = setup.rtu or (frame, time)
        elif attribute == cm.REJ_ID:
            if setup.rej is None:
                reason = field_of(body, cm.REJ.reason)
                setup.rej, setup.rej_body = (frame, time, reason, side), body.rstrip(b"\0")
                start = cm.REJ.private_data.bit // 8
                port = (setup.agreed["service_id"] or 0) & 0xFFFF
                if reason == NVME_REASON and port in (SERVICE_NVME, 0) and len(body) >= start + 4:
                    setup.nvme_status = int.from_bytes(body[start + 2 : start + 4], "little") or None
            if len(setup.rejections) < MAX_TRIES:
                setup.rejections.append(frame)
        elif attribute == cm.DREQ_ID:
            setup.dreqs[MAX_TRIES - 1 :] = [(frame, time, side)]  # the latest takes the last place
            if setup.qpns[1 - side] is None:
                setup.qpns[1 - side] = field_of(body, cm.DREQ.remote_qpn)
        else:
            setup.drep = setup.drep or (frame, time)
