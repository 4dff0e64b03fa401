"""Which packets use another partition than their connection or multicast group?"""

from __future__ import annotations

from typing import Any

from ibdissect.fabric.groups import GroupFacts
from ibdissect.lint.rule import ERROR
from ibdissect.rules.shared.connection_rule import AgreedRule
from ibdissect.rules.shared.group_rule import GroupRule
from ibdissect.table import Int
from ibdissect.table.connection_events import Connection, QueuePair
from ibdissect.table.native_packets import Native
from ibdissect.wire.headers import BTH
from ibdissect.wire.numbers import BASE
from ibdissect.wire.spec import Field


class OtherPartition(AgreedRule):
    """A packet of a connection is in another partition than the connection was set up in.

    Both queue pairs accept only the P_Key that was agreed at set-up. The receiver drops the packet and counts a P_Key violation; the
    connection fails after its retries.

    Check whether the subnet manager moved entries in the sender's P_Key table: queue pairs hold an index, not the key.
    """

    code, name, severity = "PKY005", "pkey-connection-mismatch", ERROR
    reference = "IBA 10.9, 12.6.5"
    message = "P_Key 0x{seen:04x} from LID {slid} to QP 0x{qp:x} of LID {dlid}; the connection was set up with 0x{agreed:04x}"
    example = "REQ with Partition Key 0x8001 and its REP, then a SEND of the connection with P_Key 0x8002"
    field = BTH.p_key

    def value(self, native: Native, index: Int) -> Int:
        return native.p_key[index]

    def wrong(self, pair: Connection, end: QueuePair, value: int) -> bool:
        return bool(pair.p_key & BASE) and (pair.p_key ^ value) & BASE != 0


class WrongGroupPKey(GroupRule):
    """A multicast packet has a P_Key that is not its group's.

    A group belongs to one partition; members that are not in the packet's partition drop it.

    Check how the sender chose its P_Key index: its interface and the group are in different partitions.
    """

    code, name, severity = "PKY017", "mcast-member-pkey", ERROR
    reference = "IBA 10.5, 15.2.5.17; python-rdma MCMemberRecord"
    message = "packet to group {group} with P_Key 0x{p_key:04x}, the group is in partition 0x{held:04x}"
    example = "GetResp(MCMemberRecord) with P_Key 0x8123, then a packet to that MGID with P_Key 0xffff"

    def wrong(self, group: GroupFacts, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        if not group.p_key & BASE or p_key & BASE == group.p_key & BASE:
            return None
        return BTH.p_key, p_key, {"p_key": p_key, "held": group.p_key & BASE}
