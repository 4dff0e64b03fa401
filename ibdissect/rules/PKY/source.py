"""Which P_Keys are missing in the sender's own table, and which paths join ports without a common partition?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.fabric import ChunkFollowed, Subnet
from ibdissect.fabric.early_packets import SENDER
from ibdissect.fabric.partitions import Verdict
from ibdissect.lint.rule import ERROR, WARNING, Context, Hit, Rule, fault, on_event
from ibdissect.rules.PKY.destination import RefusingTable
from ibdissect.rules.shared.link_rule import stretches
from ibdissect.table.rows import by_value
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import BASE, FULL, GET_MULTI_RESP, GET_RESP, GET_TABLE_RESP, SA_CLASS
from ibdissect.wire.sa_paths import PathRecord

ANSWERS = (GET_RESP, GET_TABLE_RESP, GET_MULTI_RESP)


class NotInSourceTable(RefusingTable):
    """A packet's partition is not in the P_Key table of its sender.

    A port can only send P_Keys of its own table: the table changed while a connection was open, or somebody forges the sender's LID.

    Restart the connection if the table changed; otherwise find out what is plugged in behind that LID.
    """

    code, name, severity = "PKY004", "pkey-not-in-source-table", ERROR
    reference = "IBA 10.9.3"
    message = "P_Key 0x{p_key:04x} from {port} to QP 0x{qp:x}; the sender's P_Key table does not hold that partition"
    example = "NodeInfo and all P_KeyTable blocks of a port, then a packet from it with P_Key 0x9999"
    side = SENDER


class PathNotShared(Rule):
    """The SA answers with a path whose ends may not talk in its partition.

    Whoever asked sets up a connection with this P_Key, and its first packet is silently dropped at the other end.

    Compare the P_Key tables of both ports with partitions.conf: the subnet manager's view differs from what the ports hold.

    The path in an answer, and the P_Key tables of its ports, read before it.
    """

    code, name, severity = "PKY018", "path-record-pkey-not-shared", WARNING
    reference = "IBA 10.9, 15.2.5.16; opensm osm_physp_share_pkey"
    message = "path from LID {slid} to LID {dlid} with P_Key 0x{p_key:04x}: {reason}"
    example = "P_KeyTable of two ports with 0x1234 each, then GetResp(PathRecord) between them with P_Key 0x1234"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        table = event.table
        if (SA_CLASS, PathRecord.carried_by[0].attr_id) not in table.attributes():
            return
        found = table.occurrences(PathRecord)
        index = np.flatnonzero(np.isin(table.values_at(MAD.method, found.rows), ANSWERS))
        slid, dlid, p_key = (table.values(one)[index].astype(np.int64) for one in (PathRecord.slid, PathRecord.dlid, PathRecord.p_key))
        for way, where in by_value(slid << 32 | dlid << 16 | p_key):
            near, far, key = way >> 32, way >> 16 & 0xFFFF, way & 0xFFFF
            changes = event.subnet.changes(near, far, after=table.chunk.first)
            for seen, mine in stretches(table, found.rows[index[where]], changes):
                reason, related = _unshared(event.subnet, near, far, key, seen.frame)
                if not reason:
                    continue
                at = next(i for i in index[where].tolist() if found.rows[i] == seen.row)
                yield fault(
                    seen, {"slid": near, "dlid": far, "p_key": key, "reason": reason}, PathRecord.p_key, of=table.view(PathRecord, at),
                    proof=[(one, "showed a P_Key table") for one in sorted(set(related))], rows=mine, key=way,
                )  # fmt: skip


def _unshared(subnet: Subnet, slid: int, dlid: int, key: int, frame: int) -> tuple[str, tuple[int, ...]]:
    """Why the ports of two LIDs may not talk in a partition; empty if they may or if it is unknown."""
    base = key & BASE
    ends = [subnet.owner(lid, frame)[0] for lid in (slid, dlid)]
    if not base:
        return "", ()
    limited = []
    for port, lid in zip(ends, (slid, dlid), strict=True):
        if port is None or port.p_keys is None:
            return "", ()
        verdict, shown = port.p_keys.judge(key, frame, port.p_key_capacity(frame))
        if verdict is Verdict.ABSENT:
            return f"LID {lid} is not in that partition", shown
        keys, _, shown = port.p_keys.keys(frame)
        same = {one for one in keys if one & BASE == base}
        if same and not any(one & FULL for one in same):
            limited.append(shown)
    both = len(limited) == 2 and ends[0] is not ends[1]
    return ("both are limited members", limited[0] + limited[1]) if both else ("", ())
