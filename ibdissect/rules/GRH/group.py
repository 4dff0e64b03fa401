"""Which multicast packets go to another MLID than that in their group's record?"""

from __future__ import annotations

from typing import Any

from ibdissect.fabric.groups import GroupFacts
from ibdissect.lint.rule import ERROR
from ibdissect.rules.shared.group_rule import GroupRule
from ibdissect.wire.link import LRH
from ibdissect.wire.spec import Field


class WrongMlid(GroupRule):
    """A multicast packet goes to another LID than its group's.

    Switches forward by the LID: the packet reaches the members of another group, or nobody.

    The sender has an outdated record of the group; let it join again.
    """

    code, name, severity = "GRH009", "mgid-mlid-mismatch", ERROR
    reference = "IBA 10.5, 15.2.5.17; python-rdma MCMemberRecord"
    message = "packet to group {group} with LID 0x{dlid:04x}, the group has LID 0x{mlid:04x}"
    example = "GetResp(MCMemberRecord) with MLID 0xc001, then a packet to that MGID with DLID 0xc002"

    def wrong(self, group: GroupFacts, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        return (LRH.dlid, dlid, {"dlid": dlid}) if dlid != group.mlid else None
