"""Which multicast packets have another Q_Key than the record of their group?"""

from __future__ import annotations

from typing import Any

from ibdissect.fabric.groups import GroupFacts
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import ERROR
from ibdissect.rules.shared.group_rule import GroupRule
from ibdissect.wire.spec import Field
from ibdissect.wire.transport import DETH


class WrongGroupQKey(GroupRule):
    """A multicast packet has another Q_Key than its group.

    ## Why it matters
    Members took the group's Q_Key when they joined; they drop the packet and count a violation.

    ## What to do
    The sender has an old record of the group; let it join again.
    """

    code, name, severity = "QKY004", "qkey-mismatch-group", ERROR
    reference = "IBA 10.5, 15.2.5.17; seed004 MCMemberRecord"
    message = "packet to group {group} with {q_key}, the group has {held}"
    example = "GetResp(MCMemberRecord) with Q_Key 0x0b1b, then a packet to that MGID with Q_Key 0x1111"

    def wrong(self, group: GroupFacts, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        if not group.q_key or q_key == group.q_key:
            return None
        value = value_of(DETH.q_key, q_key)
        return DETH.q_key, value, {"q_key": value, "held": value_of(DETH.q_key, group.q_key)}
