"""P_Keys that the destination's partition table refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ibdissect.decode import ChunkTable
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import Frame
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFERRED, INFO, LEARNT, Context, Hit, Seen, fault, on_end, on_event
from ibdissect.rules.shared.answered_packets import Reply
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.refused_packets import REFUSED, RefusedPackets, Shown
from ibdissect.rules.shared.site_forbids import forbidden_packets
from ibdissect.rules.shared.stale_facts import Outdated, RefutableRule
from ibdissect.subnet import SWITCH, ChunkFollowed, FabricFollower, Node, Port
from ibdissect.subnet.early_packets import RECEIVER, SENDER, EarlyPackets
from ibdissect.subnet.lid_writes import LidWrites
from ibdissect.subnet.p_keys import Verdict
from ibdissect.subnet.started_ports import StartedPorts
from ibdissect.subnet.topology import ConnectedComponents
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.numbers import P_KEY_TABLE, PORT_INFO

ENDS = {RECEIVER: "destination", SENDER: "sender"}
LATER = "learnt later: {}; never contradicted in this capture"
ENFORCED = "P_Key 0x{p_key:04x} from LID {slid} to QP 0x{qp:x}: {port} checks P_Keys, and its table does not hold that partition"


class RefusingTable(LearntFactRule, RefutableRule):
    """Base of rules about the table of one end: one finding per sender, QP and P_Key."""

    needs = (EarlyPackets, LidWrites)
    evidence = (
        "Needs the complete P_Key table of the port. The table may have changed since it was read; the finding is an `info` if "
        "something says so. The capture missed packets or changed their order. A Set was not answered. The next reading differs, and "
        "the capture shows no Set. The capture does not show the port's manager asking or writing it, and the table was read half an "
        "hour before, or 10 s before and another table was written since. Another port had not yet given up the LID, or "
        "has it in what may be another subnet: no known cables join both. A port of one of "
        "the LIDs was down or in Initialize, where links carry no data, and nobody is seen to arm it; or so it is when a table that is "
        "read later is read. Both ends talk in that partition: datagrams go both ways between two queue pairs, or requests are answered "
        "(of two limited members: what comes back has the full form). Connections work between two pairs of ports or more in partitions "
        "that their tables lack, or with a LID that no port of a completely read subnet has."
    )
    written = (P_KEY_TABLE, PORT_INFO)
    holds_ns = CONFIGURED_NS
    verdict = Verdict.ABSENT
    side = RECEIVER
    """Whose table it is: RECEIVER or SENDER."""

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        for refused in event.once(REFUSED[self.side]):
            if refused.verdict is self.verdict and not (self.verdict is Verdict.LIMITED and _loops(event, refused)):
                yield hit_of(event.table, refused, ENDS[self.side])

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO where the table was rewritten or the LID changed unseen, as what follows shows, or another port still had the LID."""
        subnet = context.get(FabricFollower).subnet
        port = subnet.by_key(hit.key[0]) if hit.evidence is LEARNT else None
        changed = port is not None and port.p_keys is not None and port.p_keys.rewritten(hit.frame)
        ends = [hit.arguments[name] for name in ("slid", "dlid", "p_key")] if hit.evidence is LEARNT else []
        works = len(ends) > 0 and context.get(Outdated).talk(*ends, full=self.verdict is Verdict.LIMITED)
        moved = port is not None and (context.get(LidWrites).changed_unseen(port, hit.frame) or subnet.contested(port, hit.frame))
        if changed or works or moved or (port is not None and _elsewhere(port, hit.frame, context)):
            return INFO
        return super().severity_at_end(hit, context)

    def refutes(self, hit: Hit, reply: Reply, context: Context) -> bool:
        """A packet that was answered was not dropped, unless the table changed before the answer.

        A connection in which both ends send the limited form does not refute that both are limited members (PKY021).
        """
        port = context.get(FabricFollower).subnet.by_key(hit.key[0] if hit.evidence is LEARNT else hit.key[1])
        if port is None or port.p_keys is None or any(change <= reply.frame for change in port.p_keys.changes(hit.frame)):
            return False
        return reply.full or reply.of_request or (reply.good and self.verdict is Verdict.ABSENT)

    def facts_used_of(self, hit: Hit, context: Context) -> Collection[Node] | None:
        """The node with the table, and that at the other end of the cable: the table is the end's or that of the switch before it."""
        port = context.get(FabricFollower).subnet.by_key(hit.key[0] if hit.evidence is LEARNT else hit.key[1])
        peer = port.facing_at(hit.frame)[0] if port is not None else None
        return None if port is None else [one.node for one in (port, peer) if one is not None]

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        subnet = context.get(FabricFollower).subnet
        for early, flow, p_key, slid, port, shown, count in context.get(EarlyPackets).refusals(self.verdict, self.side):
            if self.verdict is Verdict.LIMITED and subnet.owner(slid, AFTER_ALL)[0] is port:
                continue  # to itself
            yield fault(
                early, {"p_key": p_key, "slid": slid, "qp": early.dest_qp, "port": str(port)}, BTH.p_key, p_key,
                proof=_proof(shown, ENDS[self.side], LATER), evidence=INFERRED,
                start=early.start, count=count, key=("earlier", port.key, flow),
                severity=INFO if StartedPorts.restarted(port, early.frame) else None,
            )  # fmt: skip


def _elsewhere(port: Port, frame: int, context: Context) -> bool:
    """Whether a port that no known cables join to this one has the LID, too: the capture may hold two subnets."""
    subnet = context.get(FabricFollower).subnet
    return any(not context.get(ConnectedComponents).join(subnet, other, port) for other in subnet.rivals(port, frame))


def _loops(event: ChunkFollowed, refused: RefusedPackets) -> bool:
    """Whether the packets go from a port to itself: it is its own only partner."""
    seen = Seen(event.table, refused.row)
    return event.subnet.loops(refused.slid, int(seen.value(LRH.dlid)), seen.frame)


def hit_of(table: ChunkTable, refused: RefusedPackets, end: str) -> Hit:
    """The finding about refused packets; `end` says whose table it is, unless a switch port refuses them."""
    enforced = refused.port.node.kind == SWITCH and refused.port.number > 0
    seen = Seen(table, refused.row)
    return fault(
        seen,
        {"p_key": refused.p_key, "slid": refused.slid, "qp": refused.dest_qp, "port": refused.port.name_at(seen.frame),
         "dlid": seen.value(LRH.dlid)},
        BTH.p_key, refused.p_key, proof=_proof(refused.shown, end),
        evidence=LEARNT, rows=refused.rows,
        key=(refused.port.key, refused.slid, refused.dest_qp, refused.src_qp, refused.p_key),
        message=ENFORCED if enforced else "",
    )  # fmt: skip


def _proof(shown: Shown, end: str, how: str = "showed {}") -> list[tuple[int, str]]:
    """Frames in order, and all that each showed: `showed the destination's LID`."""
    whats: dict[Frame, list[str]] = {}
    for number, what in sorted(shown):
        known = whats.setdefault(number, [])
        if what not in known:
            known.append(what)
    return [(number, how.format(" and ".join(known)).format(end=end)) for number, known in whats.items()]


class NotInDestinationTable(RefusingTable):
    """A packet's partition is not in the P_Key table of its destination.

    The destination drops the packet silently, counts a P_Key violation and may send trap 257. Applications see timeouts.

    Compare the partitions of both ports (smpquery pkeys): the destination is missing in partitions.conf, or the sender uses a wrong P_Key
    index.

    Needs the complete P_Key table of the destination, or of the switch port before it if that port checks P_Keys. An `info` if the
    table may have changed since it was read: the capture missed packets, or the next reading differs although the capture shows no
    Set. With a site policy, partitions that it does not allow are reported as well.
    """

    code, name, severity = "PKY003", "pkey-not-in-dest-table", ERROR
    explains = ("TXN001",)
    reference = "IBA 10.9.3"
    message = "P_Key 0x{p_key:04x} from LID {slid} to QP 0x{qp:x} of {port}, whose P_Key table does not hold that partition"
    example = "NodeInfo and all P_KeyTable blocks of a port, then a packet with P_Key 0x9999 to it"

    site = forbidden_packets
