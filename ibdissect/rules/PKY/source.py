"""P_Keys that are missing in the sender's own table, and paths between ports without a common partition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.decode.bit_fields import extract
from ibdissect.decode.equal_rows import groups, members
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, fault, on_event
from ibdissect.rules.PKY.destination import RefusingTable, hit_of
from ibdissect.rules.shared.full_of_limited import full_of_limited
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.stale_facts import Outdated, swept_by
from ibdissect.rules.shared.stretches import stretches
from ibdissect.subnet import ROUTER, ChunkFollowed, FabricFollower, Subnet
from ibdissect.subnet.early_packets import SENDER
from ibdissect.subnet.p_keys import Member
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import BASE, GET_MULTI_RESP, GET_RESP, GET_TABLE_RESP, P_KEY_TABLE, PORT_INFO, SA_CLASS
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
    def full_form(self, event: ChunkFollowed, _context: Context) -> Iterator[Hit]:
        """Packets with the full form of a partition of which the sender's table holds the limited form alone."""
        for refused in event.once(full_of_limited):
            hit = hit_of(event.table, refused, "sender")
            hit.message = FULL_OF_LIMITED
            yield hit


BOTH_LIMITED = "both are limited members"
FULL_OF_LIMITED = (
    "P_Key 0x{p_key:04x} (full) from {port} to QP 0x{qp:x}; the sender's P_Key table holds the limited form of that partition alone"
)


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
