"""Which P_Keys does the destination's partition table refuse?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import KeptDict
from ibdissect.fabric import FabricFollower
from ibdissect.fabric.early_packets import MAX_FLOWS, RECEIVER, SENDER, EarlyPackets
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.lid_writes import LidWitness
from ibdissect.fabric.model import Subnet
from ibdissect.fabric.nodes import ROUTER, SWITCH, Node, Port
from ibdissect.fabric.partitions import PKeys, Verdict
from ibdissect.flow.stream_packets import IN_STREAM, IS_RESPONSE
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFERRED, INFO, LEARNT, SEEN, Context, Hit, Seen, fault, on_end, on_event
from ibdissect.rules.shared.silence import LearntFactRule
from ibdissect.rules.shared.site_policy import forbidden_packets
from ibdissect.table.bits import value_at
from ibdissect.table.locate import Int
from ibdissect.table.native_packets import BY_P_KEY_TABLE, Native, source_qps
from ibdissect.table.rows import distinct_values, groups
from ibdissect.table.table import ChunkTable
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.mad import MAD, is_response
from ibdissect.wire.numbers import BASE, FIRST_MULTICAST, FULL, LID_COUNT, P_KEY_TABLE, PORT_INFO
from ibdissect.wire.sm_port import PortInfo

Bad = tuple[Verdict, Port, tuple[int, ...]]
ENFORCED = "P_Key 0x{p_key:04x} from LID {slid} to QP 0x{qp:x}: {port} checks P_Keys, and its table does not hold that partition"


class RefusedPackets(Record, frozen=True):
    """Packets of a chunk with the same sender, receiver and P_Key, which their destination refuses."""

    verdict: Verdict
    port: Port
    shown: tuple[int, ...]
    """Frames that showed the LID and the table."""
    slid: int
    dest_qp: int
    src_qp: int
    """The source QP of datagrams, as several processes may send from one port to one QP; otherwise 0."""
    p_key: int
    rows: Int

    @property
    def row(self) -> int:
        """The first of them."""
        return int(self.rows[0])


def _refused(event: ChunkFollowed, *, outbound: bool) -> list[RefusedPackets]:
    """The packets of a chunk that are refused by the tables of their destinations (else sources) or of the switch ports before them."""
    return sorted(_refusals(event.table, event.subnet, event.table.once(Native), outbound), key=lambda refused: refused.row)


REFUSED = {RECEIVER: partial(_refused, outbound=True), SENDER: partial(_refused, outbound=False)}
"""By whose table refuses; for `event.once`."""


def _refusals(table: ChunkTable, subnet: Subnet, native: Native, outbound: bool) -> Iterator[RefusedPackets]:
    if not subnet.lids or not subnet.partitioned:
        return
    lids = native.dlid if outbound else native.slid
    keep = BY_P_KEY_TABLE[native.opcode] & (native.dest_qp != 0)  # QP0 does not check P_Keys
    known = np.zeros(LID_COUNT, np.bool_)
    for lid in (native.dlids if outbound else native.slids).tolist():
        known[lid] = 0 < lid < FIRST_MULTICAST and any(keys is not None for port in subnet.owners(lid) for keys in _tables(port))
    keep &= known[lids]
    if not keep.any():
        return
    rows, qp = native.rows[keep], native.dest_qp[keep]
    combined = (lids[keep] << 16) | native.p_key[keep]
    for combination in distinct_values(combined):
        p_key = combination & 0xFFFF
        if p_key & BASE:  # partition 0 is PKY002
            for of_them, bad in _spans(table, subnet, rows, combined, combination, outbound):
                yield from _flows(table, of_them, qp[np.searchsorted(rows, of_them)], p_key, bad)


def _tables(port: Port) -> Iterator[PKeys | None]:
    """The tables that guard a port: its own, and those of the switch ports at the other end of its cable over time."""
    yield port.p_keys
    for peer, _ in ((port.facing.now, 0), *port.facing.past):
        if peer is not None:
            yield peer.p_keys


def _judge(subnet: Subnet, lid: int, p_key: int, frame: int, outbound: bool) -> Bad | None:
    port, since = subnet.owner(lid, frame)
    if port is None or port.node.kind == ROUTER:  # beyond a router another subnet's table decides
        return None
    if port.p_keys is not None:
        verdict, shown = port.p_keys.judge(p_key, frame, port.p_key_capacity(frame))
        if verdict in (Verdict.LIMITED, Verdict.ABSENT):
            return verdict, port, (*shown, since)
    found = _enforcer(port, frame, outbound)
    near, proof = found if found is not None else (None, ())
    if near is None or near.p_keys is None:
        return None
    verdict, shown = near.p_keys.judge(p_key | FULL, frame, near.p_key_capacity(frame))  # a switch compares only the partition
    return (verdict, near, (*shown, since, *proof)) if verdict is Verdict.ABSENT else None


def _enforcer(port: Port, frame: int, outbound: bool) -> tuple[Port, tuple[int, ...]] | None:
    """The switch port that checks P_Keys of packets to or from a port, and the frames that show it."""
    near, faced = port.facing_at(frame)
    if near is None or near.node.kind != SWITCH or not near.number or near.p_keys is None:
        return None
    info, shown = near.info_at(frame)
    asked = PortInfo.partition_enforcement_outbound if outbound else PortInfo.partition_enforcement_inbound
    return (near, (shown, faced)) if info is not None and asked.__get__(info, PortInfo) else None


def _spans(table: ChunkTable, subnet: Subnet, rows: Int, combined: Int, combination: int, outbound: bool) -> Iterator[tuple[Int, Bad]]:
    """Rows of one destination and P_Key that are refused; the chunk is cut where the table or the LID's owner changed."""
    lid, p_key = combination >> 16, combination & 0xFFFF
    first, last = table.chunk.first, table.chunk.first + len(table) - 1
    edges = [first, *sorted(change for change in subnet.changes(lid, after=first) if first < change <= last), last + 1]
    verdicts = [_judge(subnet, lid, p_key, start, outbound) for start in edges[:-1]]
    if not any(verdicts):
        return
    mine = rows[combined == combination]
    for start, stop, bad in zip(edges, edges[1:], verdicts, strict=False):
        if bad is not None:
            part = mine[np.searchsorted(mine, start - first) : np.searchsorted(mine, stop - first)]
            owner = subnet.owner(lid, start)[0]
            info = owner.info_at(start)[0] if owner is not None else None
            if info is not None and info.is_virtualization_supported:
                # The GRH tells the ports apart that share this LID; each has a P_Key table of its own.
                part = part[table.located.at("grh")[part] < 0]
            if len(part):
                yield part, bad


def _flows(table: ChunkTable, rows: Int, qp: Int, p_key: int, bad: Bad) -> Iterator[RefusedPackets]:
    """One entry per sender, its QP if packets name it, and destination QP. Answers to QP1, which repeat their request's P_Key, are left
    out.
    """
    data, loc = table.chunk.data, table.located
    gsi = np.flatnonzero(qp == 1)
    if len(gsi):
        mad = loc.at("mad")[rows]
        drop = [i for i in gsi.tolist() if mad[i] < 0 or _answers(data[int(mad[i]) : int(mad[i]) + MAD.size].tobytes())]
        rows, qp = np.delete(rows, drop), np.delete(qp, drop)
    slid = value_at(data, loc.at("lrh")[rows], LRH.slid)
    source = source_qps(table, rows, loc.opcode[rows]) * (qp > 1)
    first, inverse = groups((slid, qp, source))
    for k, i in enumerate(first.tolist()):
        yield RefusedPackets(*bad, int(slid[i]), int(qp[i]), int(source[i]), p_key, rows[inverse == k])


def _answers(header: bytes) -> bool:
    mad = MAD(header)
    return is_response(mad.method, mad.attribute_modifier, mad.mgmt_class)


class Acknowledged:
    """Connections in partitions that P_Key tables lack, although their other ends answer. One per capture; asked at its end."""

    after: ClassVar = ()

    def __init__(self) -> None:
        self.flows = KeptDict[tuple[int, int, int, bool], None](MAX_FLOWS, "flows of connections that P_Key tables refuse")
        """LID of the requester, LID of the responder, partition, and whether these are the answers."""

    def take(self, event: ChunkFollowed) -> None:
        """Process the refused packets of a chunk. Call it by `event.once`."""
        native, chunk = event.table.once(Native), event.table.chunk
        for side in REFUSED.values():
            for refused in (one for one in event.once(side) if one.verdict is Verdict.ABSENT):
                at = np.searchsorted(native.rows, refused.rows)
                at = at[IN_STREAM[native.opcode[at]]]
                answers = IS_RESPONSE[native.opcode[at]].tolist()
                for slid, dlid, answer in {*zip(native.slid[at].tolist(), native.dlid[at].tolist(), answers, strict=True)}:
                    flow = (dlid, slid, refused.p_key & BASE, True) if answer else (slid, dlid, refused.p_key & BASE, False)
                    self.flows.keep(flow, None, chunk.first + refused.row, int(chunk.time_ns[refused.row]))

    @cached_property
    def refute(self) -> bool:
        """Whether the connections of two pairs of ports show that the tables are outdated, or another subnet's."""
        works = (flow[:2] for flow in self.flows if flow[3] and (*flow[:3], False) in self.flows)
        return len({frozenset(pair) for pair in works}) > 1


class RefusingTable(LearntFactRule):
    """Base of rules about the table of one end: one finding per sender, QP and P_Key."""

    evidence = (
        "Needs the complete P_Key table of the port. An `info` if the table may have changed since it was read: the capture missed "
        "packets or changed their order, a Set was not answered, the next reading differs although the capture shows no Set, or "
        "connections between two pairs of ports or more work in partitions that these tables lack."
    )
    written = (P_KEY_TABLE, PORT_INFO)
    verdict = Verdict.ABSENT
    side = RECEIVER
    """Whose table it is: RECEIVER or SENDER."""

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        event.once(context.get(EarlyPackets).take)
        event.once(context.get(LidWitness).take)
        event.once(context.get(Acknowledged).take)
        for refused in event.once(REFUSED[self.side]):
            if refused.verdict is self.verdict:
                yield hit_of(event.table, refused, "destination" if self.side == RECEIVER else "sender")

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO where the table was rewritten or the LID changed unseen, as the next reading or other packets show."""
        port = context.get(FabricFollower).subnet.by_key(hit.key[0]) if hit.evidence is LEARNT else None
        changed = port is not None and port.p_keys is not None and port.p_keys.rewritten(hit.frame)
        changed |= hit.evidence is not SEEN and context.get(Acknowledged).refute
        if changed or (port is not None and context.get(LidWitness).changed_unseen(port, hit.frame)):
            return INFO
        return super().severity_at_end(hit, context)

    def rests_on(self, hit: Hit, context: Context) -> Collection[Node] | None:
        """The node with the table, and that at the other end of the cable: the table is the end's or that of the switch before it."""
        port = context.get(FabricFollower).subnet.by_key(hit.key[0] if hit.evidence is LEARNT else hit.key[1])
        peer = port.facing_at(hit.frame)[0] if port is not None else None
        return None if port is None else [one.node for one in (port, peer) if one is not None]

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        for early, flow, p_key, slid, port, shown, count in context.get(EarlyPackets).refusals(self.verdict, self.side):
            yield fault(
                early, {"p_key": p_key, "slid": slid, "qp": early.dest_qp, "port": str(port)}, BTH.p_key, p_key,
                proof=[(frame, "learnt later; never contradicted in this capture") for frame in shown], evidence=INFERRED,
                start=early.start, count=count, key=("earlier", port.key, flow),
            )  # fmt: skip


def hit_of(table: ChunkTable, refused: RefusedPackets, end: str) -> Hit:
    """The finding about refused packets; `end` says whose table it is, unless a switch port refuses them."""
    enforced = refused.port.node.kind == SWITCH and refused.port.number > 0
    seen = Seen(table, refused.row)
    return fault(
        seen, {"p_key": refused.p_key, "slid": refused.slid, "qp": refused.dest_qp, "port": refused.port.name_at(seen.frame)}, BTH.p_key,
        refused.p_key, proof=[(number, f"showed the {end}'s LID or P_Key table") for number in sorted(set(refused.shown))],
        evidence=LEARNT, rows=refused.rows,
        key=(refused.port.key, refused.slid, refused.dest_qp, refused.src_qp, refused.p_key),
        message=ENFORCED if enforced else "",
    )  # fmt: skip


class LimitedToLimited(RefusingTable):
    """A limited member of a partition sends to another limited member.

    Limited members may talk to full members only, so the destination drops the packet silently, counts a P_Key violation and may send trap
    257. Applications see timeouts.

    Make one of the two ports a full member (opensm: `full` in partitions.conf), or stop them from talking to each other.
    """

    code, name, severity = "PKY001", "limited-to-limited", ERROR
    explains = ("TXN001",)
    reference = "IBA 10.9.3"
    message = "P_Key 0x{p_key:04x} (limited) from LID {slid} to QP 0x{qp:x} of {port}, which is a limited member of that partition too"
    example = "GetResp(P_KeyTable) of a port with entry 0x1234 only, then a packet with P_Key 0x1234 to it"
    verdict = Verdict.LIMITED


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
