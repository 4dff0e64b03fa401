"""P_Keys that are missing in the sender's own table, and paths between ports without a common partition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.lrh_packets import BY_P_KEY_TABLE, Native
from ibdissect.decode.rows import by_value, distinct_values, groups, is_in, members
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, fault, on_event
from ibdissect.rules.PKY.destination import RefusingTable, hit_of
from ibdissect.rules.shared.link_rule import stretches
from ibdissect.rules.shared.refused_packets import RefusedPackets, under_way
from ibdissect.rules.shared.stale_facts import Outdated, swept_by
from ibdissect.rules.shared.unanswered import LearntFactRule
from ibdissect.subnet import ROUTER, ChunkFollowed, FabricFollower, Port, Subnet
from ibdissect.subnet.early_packets import SENDER
from ibdissect.subnet.p_keys import Member, PKeys, Verdict
from ibdissect.subnet.vantage import CONFIGURED_NS, LIFETIME_NS
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import BASE, FULL, GET_MULTI_RESP, GET_RESP, GET_TABLE_RESP, P_KEY_TABLE, PORT_INFO, RESPONSE_BIT, SA_CLASS
from ibdissect.wire.sa_paths import PathRecord

ANSWERS = (GET_RESP, GET_TABLE_RESP, GET_MULTI_RESP)


class NotInSourceTable(RefusingTable):
    """A packet's partition is not in the P_Key table of its sender.

    A port can only send P_Keys of its own table, all 16 bits of them: the table changed while a connection was open, or somebody forges the
    sender's LID.

    Restart the connection if the table changed; otherwise find out what is plugged in behind that LID.
    """

    code, name, severity = "PKY004", "pkey-not-in-source-table", ERROR
    reference = "IBA 10.9.3"
    message = "P_Key 0x{p_key:04x} from {port} to QP 0x{qp:x}; the sender's P_Key table does not hold that partition"
    example = "NodeInfo and all P_KeyTable blocks of a port, then a packet from it with P_Key 0x9999"
    side = SENDER

    @on_event(ChunkFollowed)
    def full_form(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        """Packets with the full form of a partition of which the sender's table, known as a whole, has the limited form alone."""
        native, subnet = event.table.once(Native), event.subnet
        named = (native.p_key & FULL != 0) & (native.p_key & BASE != 0)  # partition 0 is PKY002
        index = np.flatnonzero(named & (native.dest_qp > 0) & BY_P_KEY_TABLE[native.opcode])
        index = index[(native.dest_qp[index] > 1) | _asks(event.table, native.rows[index])]  # an answer repeats the P_Key of its request
        index = index[_may_be_limited(subnet, native.slid[index] << 16 | native.p_key[index], event.table.chunk.first)]
        ways = native.slid[index] << 40 | native.p_key[index] << 24 | native.dest_qp[index]
        for way, where in by_value(ways):
            slid, p_key, qp = way >> 40, way >> 24 & 0xFFFF, way & 0xFFFFFF
            changes = subnet.changes(slid, after=event.table.chunk.first)
            for seen, rows in stretches(event.table, native.rows[index[where]], changes):
                port, since = subnet.owner(slid, seen.frame)
                if port is None or port.p_keys is None or port.node.kind == ROUTER:
                    continue
                shown = _only_limited(port, p_key & BASE, seen.frame)
                info = port.info_at(seen.frame)[0]
                if info is None or info.is_virtualization_supported:
                    rows = rows[event.table.located.at("grh")[rows] < 0]
                if change := _latest_change(port.p_keys, seen.frame):
                    rows = rows[~under_way(event, rows, change, subnet.clock.time_of(change) + LIFETIME_NS)]
                if not shown or not len(rows):
                    continue
                context.get(Outdated).listen(event.table, rows)
                proof = (*((one, TABLE) for one in shown), (since, "the {end}'s LID"))
                hit = hit_of(event.table, RefusedPackets(Verdict.ABSENT, port, proof, slid, qp, 0, p_key, rows), "sender")
                hit.message = FULL_OF_LIMITED
                yield hit


def _may_be_limited(subnet: Subnet, ways: Int, first: int) -> Bool:
    """Which LIDs and P_Keys, `lid << 16 | p_key`, are of ports whose tables may have held the limited form alone since frame `first`.

    Tables of few ports do: the others cost nothing per packet."""
    found: list[int] = []
    for lid in distinct_values(ways >> 16) if subnet.partitioned else ():
        for port in subnet.owners(lid):
            limited, full = port.p_keys.forms(first) if port.p_keys is not None else (set(), set())
            found += [lid << 16 | FULL | base for base in limited - full]
    return is_in(ways, np.array(found, np.int64))


def _asks(table: ChunkTable, rows: Int) -> Bool:
    """Which packets are management requests."""
    asks: Bool = (table.first(MAD)[rows] >= 0) & (table.values_at(MAD.method, rows) < RESPONSE_BIT)
    return asks


def _latest_change(table: PKeys, frame: int) -> int:
    """The last frame up to `frame` that changed a table; 0 if it has been as it was first seen."""
    return max((change for block in table.blocks for change in block.changes()[1:] if change <= frame), default=0)


TABLE = "the {end}'s P_Key table"
BOTH_LIMITED = "both are limited members"
FULL_OF_LIMITED = (
    "P_Key 0x{p_key:04x} (full) from {port} to QP 0x{qp:x}; the sender's P_Key table holds the limited form of that partition alone"
)


def _only_limited(port: Port, base: int, frame: int) -> tuple[int, ...]:
    """The frames that showed a port's whole table if it has a partition in its limited form alone; empty otherwise, and for files."""
    assert port.p_keys is not None
    member, shown = port.p_keys.member(base, frame, port.p_key_capacity(frame))
    return shown if member is Member.LIMITED and min(shown, default=0) > 0 else ()


class PathNotShared(LearntFactRule):
    """The SA answers with a path whose ends may not talk in its partition.

    Whoever asked sets up a connection with this P_Key, and its first packet is silently dropped at the other end.

    Compare the P_Key tables of both ports with partitions.conf: the subnet manager's view differs from what the ports hold.

    The path in an answer, and the whole P_Key tables of its ports, read before it. Silent for GIDs of virtual ports, which share a LID
    but have tables of their own, and for paths over a router: beyond it another subnet's table decides. An `info` if a table may have
    changed unseen since, or gets the partition within ten seconds, or if both ends talk in it.
    """

    code, name, severity = "PKY018", "path-record-pkey-not-shared", WARNING
    reference = "IBA 10.9, 15.2.5.16; opensm osm_physp_share_pkey"
    message = "path from LID {slid} to LID {dlid} with P_Key 0x{p_key:04x}: {reason}"
    example = "P_KeyTable of two ports with 0x1234 each, then GetResp(PathRecord) between them with P_Key 0x1234"
    written = (P_KEY_TABLE, PORT_INFO)
    holds_ns = CONFIGURED_NS
    needs = (Outdated,)

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        table = event.table
        if (SA_CLASS, PathRecord.carried_by[0].attr_id) not in table.attributes():
            return
        found = table.occurrences(PathRecord)
        index = np.flatnonzero(np.isin(table.values_at(MAD.method, found.rows), ANSWERS))
        slid, dlid, p_key = (table.values(one)[index].astype(np.int64) for one in (PathRecord.slid, PathRecord.dlid, PathRecord.p_key))
        ends = [extract(table.matrix(PathRecord)[index], gid.bit + 64, 64) for gid in (PathRecord.sgid, PathRecord.dgid)]
        first, which = groups((slid << 32 | dlid << 16 | p_key, *ends))
        for i, where in zip(first.tolist(), members(which, len(first)), strict=True):
            near, far, key = int(slid[i]), int(dlid[i]), int(p_key[i])
            guids = int(ends[0][i]), int(ends[1][i])
            changes = event.subnet.changes(near, far, after=table.chunk.first)
            for seen, mine in stretches(table, found.rows[index[where]], changes):
                reason, related, slots = _unshared(event.subnet, (near, far), guids, key, seen.frame)
                if not reason:
                    continue
                at = next(i for i in index[where].tolist() if found.rows[i] == seen.row)
                yield fault(
                    seen, {"slid": near, "dlid": far, "p_key": key, "reason": reason, "guids": guids}, PathRecord.p_key,
                    of=table.view(PathRecord, at),
                    proof=[(one, "showed a P_Key table") for one in sorted(set(related))], rows=mine, key=(near, far, key), about=slots,
                )  # fmt: skip

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO if the manager is just writing the tables, or was right."""
        subnet, (near, far, key) = context.get(FabricFollower).subnet, hit.key
        outdated, limited = context.get(Outdated), hit.arguments["reason"] == BOTH_LIMITED
        if outdated.talk(near, far, key, full=limited) or outdated.talk(far, near, key, full=limited):
            return INFO
        written = swept_by([subnet.owner(lid, hit.frame)[0] for lid in (near, far)], hit, subnet)
        unshared, _, _ = _unshared(subnet, (near, far), hit.arguments["guids"], key, written)
        return super().severity_at_end(hit, context) if unshared else INFO


def _unshared(
    subnet: Subnet, lids: tuple[int, int], guids: tuple[int, int], key: int, frame: int
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Why the ports of two LIDs may not talk in a partition, the frames that show it, and the slots of the nodes with the tables.

    Empty if they may, or if it is unknown.
    """
    unknown = "", (), ()
    base = key & BASE
    ends = [subnet.owner(lid, frame)[0] for lid in lids]
    if not base:
        return unknown
    limited, slots = [], []
    for port, lid, guid in zip(ends, lids, guids, strict=True):
        if port is None or port.p_keys is None or port.node.kind == ROUTER or port.may_share_lid(guid, frame):
            return unknown
        member, shown = port.p_keys.member(base, frame, port.p_key_capacity(frame))
        if member is Member.NONE:
            return f"LID {lid} is not in that partition", shown, (port.node.slot,)
        if member is Member.LIMITED:
            limited.append(shown)
            slots.append(port.node.slot)
    both = len(limited) == 2 and ends[0] is not ends[1]
    return (BOTH_LIMITED, limited[0] + limited[1], tuple(slots)) if both else unknown
