"""Datagrams with another Q_Key than their group or service, and those that a port reports or counts for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.bounded import BoundedDict, KeptDict
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import End, ends_of
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.connection_events import Resolved
from ibdissect.decode.history import SECOND_NS, History
from ibdissect.decode.identity import Code, Frame, KeyValue, QueuePairId, Time
from ibdissect.decode.native_packets import Native
from ibdissect.lint.finding import Severity, value_of
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Seen, fault, on_chunk, on_event
from ibdissect.rules.shared.attribute_rule import ViolationCounted
from ibdissect.rules.shared.group_rule import GroupRule
from ibdissect.rules.shared.stretches import stretches
from ibdissect.rules.shared.trap_rule import ReportedPackets
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.multicast_groups import GroupFacts
from ibdissect.subnet.visible_managers import CONFIGURED_NS, LIFETIME_NS
from ibdissect.wire.headers import BTH, DETH
from ibdissect.wire.notice import TrapQKey
from ibdissect.wire.opcodes import DATAGRAMS
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Field

MAX_SERVICES, MAX_REPLIES = 4096, 16384
SERVICE = "packet to QP 0x{qp:x} with {q_key}; the service there announced {held} (SIDR_REP)"


class WrongGroupQKey(GroupRule):
    """A datagram has another Q_Key than its multicast group or the service it goes to.

    Members got the group's Q_Key when they joined; they drop the packet and count a violation. So does a service that was looked up (SIDR).

    The sender has an outdated record: let it join the group again, or look up the service's queue pair again.

    The record of the group, which is certain. Or the port's latest SIDR_REP for this queue pair: then a warning, as the service may have
    ended, and an `info` if the sender did not ask for the service itself, asked again and the capture shows no answer, if the queue pair
    sends to the sender afterwards, or where a GRH may lead to another port with that LID. The same for a Q_Key that the service never
    announced, unless the sending queue pair began with it within a second of the answer: later, another program may have the service's
    number. Silent after a SIDR_REP that refuses the service.
    """

    code, name, severity = "QKY004", "qkey-mismatch-group", ERROR
    reference = "IBA 10.5, 15.2.5.17; python-rdma MCMemberRecord"
    message = "packet to group {group} with {q_key}, the group has {held}"
    example = "GetResp(MCMemberRecord) with Q_Key 0x0b1b, then a packet to that MGID with Q_Key 0x1111"
    holds_ns = CONFIGURED_NS

    def wrong(self, group: GroupFacts, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        if not group.q_key or q_key == group.q_key:
            return None
        value = value_of(DETH.q_key, q_key)
        return DETH.q_key, value, {"q_key": value, "held": value_of(DETH.q_key, group.q_key)}

    def __init__(self) -> None:
        super().__init__()
        self.services = BoundedDict[QueuePairId, History[int]](MAX_SERVICES, "datagram services")
        """Q_Key over time by queue pair."""
        self.qpns: set[Code] = set()
        """The numbers of these queue pairs, to preselect packets quickly."""
        self.places = KeptDict[tuple[End, Code], set[QueuePairId]](MAX_SERVICES, "datagram services by id")
        """Queue pairs of each service of an end."""
        self.askers = KeptDict[tuple[QueuePairId, End], Time](MAX_REPLIES, "ends that asked for datagram services")
        """When each was answered first."""
        self.prompt = KeptDict[tuple[QueuePairId, QueuePairId], bool](MAX_REPLIES, "senders to datagram services")
        """Whether a queue pair began to send to a service with another Q_Key than the service's, just after its end was answered."""
        self.replies = BoundedDict[tuple[QueuePairId, End], Frame](MAX_REPLIES)
        """The latest frame from a service's queue pair to each receiver."""
        self.unanswered: dict[tuple[End, End], list[int]] | None = None
        """Frames of the requests for services that nobody answered, by asker and host; known at the end."""
        self.forgotten = False
        """Whether there were too many: then it is unknown whether a queue pair sent to anybody afterwards."""

    @on_event(Resolved)
    def resolved(self, event: Resolved, _context: Context) -> None:
        resolution = event.resolution
        places = self.places.get_or_make((event.sender, Code(resolution.service_id)), set, event.frame, event.time_ns)
        if resolution.status:
            for place in places or ():
                self.services[place].learn(None, event.frame)  # it is gone
        elif resolution.qpn > 0:
            key = QueuePairId(event.sender, resolution.qpn)
            self.askers.get_or_make((key, resolution.source), lambda: event.time_ns, event.frame, event.time_ns)
            if key not in self.services:
                self.services.put(key, History(), event.frame, event.time_ns)
                self.qpns = {qpn for _, qpn in self.services}
            self.services[key].learn(resolution.q_key, event.frame)
            if places is not None:
                places.add(key)

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        if not self.services or not len(table.occurrences(DETH)):
            return
        rows = table.occurrences(DETH).rows
        bth = table.first(BTH)[rows]
        opcode, qpn = table.values(BTH.opcode)[bth], table.values(BTH.destqp)[bth]
        datagrams = np.isin(opcode, [*DATAGRAMS])
        source_qp = table.values(DETH.srcqp)
        back = np.flatnonzero(datagrams & np.isin(source_qp, list(self.qpns)))
        for i, (source, destination) in zip(back.tolist(), ends_of(table, rows[back]), strict=True):
            way = QueuePairId(source, int(source_qp[i])), destination
            self.replies.pop(way, None)
            gone = self.replies.put(way, table.chunk.first + int(rows[i]))
            self.forgotten |= gone is not None
        index = np.flatnonzero(datagrams & np.isin(qpn, list(self.qpns)))
        q_keys, clock = table.values(DETH.q_key), context.get(FabricFollower).subnet.clock
        ends = ends_of(table, rows[index])
        kinds: dict[tuple[QueuePairId, End, KeyValue, bool], list[int]] = {}
        for i, (source, destination) in zip(index.tolist(), ends, strict=True):
            target, sender = QueuePairId(destination, int(qpn[i])), QueuePairId(source, int(source_qp[i]))
            knows = self._knows(target, sender, int(q_keys[i]), table.chunk.first + int(rows[i]), int(table.chunk.time_ns[rows[i]]))
            kinds.setdefault((target, source, int(q_keys[i]), knows), []).append(int(rows[i]))
        for (target, source, q_key, knows), mine in kinds.items():
            how = INFO if target.end.gid or not knows else None
            service = self.services.get(target)
            for seen, part in stretches(table, np.array(mine), service.changes()) if service is not None else ():
                held, since = service.at(seen.frame) if service is not None else (None, 0)
                if service is not None and service.at(since - 1)[0] == q_key:  # it may have been under way
                    part = part[table.chunk.time_ns[part] >= clock.time_of(since) + LIFETIME_NS]
                if held is not None and since < seen.frame and held != q_key and len(part):
                    value = value_of(DETH.q_key, q_key)
                    yield fault(
                        Seen(table, int(part[0])), {"qp": target.number, "q_key": value, "held": value_of(DETH.q_key, held)}, DETH.q_key,
                        value, rows=part, proof=[(since, "the service's answer")], key=(target, source, q_key, knows), message=SERVICE,
                        severity=how,
                    )  # fmt: skip

    def _knows(self, target: QueuePairId, sender: QueuePairId, q_key: KeyValue, frame: Frame, time_ns: Time) -> bool:
        """Whether a sender has its Q_Key from the service: the service announced it, or the sender begins with it as soon as its end is
        answered. If not, it may be another program, which means another one that has got the service's number since.
        """
        service = self.services.get(target)
        held, since = service.at(frame) if service is not None else (None, 0)
        if service is None or not since:
            return False
        if q_key != held and any(value == q_key for value, when in service.values() if when < frame):
            return True
        waited = time_ns - self.askers.get((target, sender.end), 0)
        return bool(self.prompt.get_or_make((target, sender), lambda: q_key != held and 0 <= waited <= SECOND_NS, frame, time_ns))

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO where the queue pair sends to the sender afterwards, or the sender did not ask, or asked again: another program has it."""
        lowered = super().severity_at_end(hit, context)
        if hit.message != SERVICE:
            return lowered
        target, source, *_ = hit.key
        if self.unanswered is None:
            self.unanswered = defaultdict(list)
            for one in context.get(Connections).resolutions:
                if not one.reply_frame:
                    self.unanswered[one.source, one.destination].append(one.frame)
        again = any(hit.related[0].frame < frame < hit.frame for frame in self.unanswered.get((source, target.end), ()))
        if again or (target, source) not in self.askers:
            return INFO
        return INFO if self.forgotten or self.replies.get(hit.key[:2], 0) > hit.frame else lowered or WARNING


class BadQKeyReported(ReportedPackets):
    """A port complains about a datagram's Q_Key, and the capture holds the datagram.

    The port dropped it: the queue pair has another Q_Key than the sender believes.

    Check where the sender learnt the Q_Key: a recreated multicast group, or a restarted service.
    """

    code, name, severity = "QKY008", "bad-qkey-trap-flow", INFO
    reference = "IBA 14.2.5.1; opensm ntc_257_258"
    message = "{port} complains (trap 258) of {key} from LID {slid} to LID {dlid} QP 0x{qp:x}, last seen in frame {packet}"
    example = "a datagram, then SubnTrap 258 that names both its ends and its Q_Key"
    numbers, details = (258,), TrapQKey

    def keys(self, table: ChunkTable, native: Native, some: slice) -> Int:
        rows, opcode = native.rows[some], native.opcode[some]
        found = np.full(len(rows), -1, np.int64)
        datagrams = np.flatnonzero(np.isin(opcode, [*DATAGRAMS]))
        rows = rows[datagrams]
        at = table.located.at("bth")[rows] + BTH.size  # the DETH follows the BTH
        whole = at + DETH.q_key.span[1] <= table.located.limit[rows]
        found[datagrams[whole]] = value_at(table.chunk.data, at[whole], DETH.q_key)
        return found

    def key_text(self, key: int) -> Any:
        return value_of(TrapQKey.key_value, key)


class QKeyViolations(ViolationCounted):
    """A port counted datagrams with a wrong Q_Key between two readings.

    Somebody sends to a queue pair of this port with a wrong Q_Key; those datagrams are dropped silently.

    Look for a sender with an outdated Q_Key: recreated multicast groups, restarted services. Trap 258 names both ends.
    """

    code, name, severity = "QKY005", "qkey-violations-increment", WARNING
    reference = "IBA 14.2.5.6"
    message = "{port} counts {now} Q_Key violations, up from {before}"
    example = "two GetResp(PortInfo) of a port, Q_KeyViolations 0 and 3"
    at = PortInfo.q_key_violations
