"""Which multicast packets have another P_Key than the record of their group?"""

from __future__ import annotations

from typing import Any

from ibdissect.fabric.groups import GroupFacts
from ibdissect.fabric.partitions import BASE
from ibdissect.lint.rule import ERROR
from ibdissect.rules.shared.group_rule import GroupRule
from ibdissect.wire.spec import Field
from ibdissect.wire.transport import BTH


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
