"""P_Key and GUID tables that do not fit the port (PKY, SEM)."""

from __future__ import annotations

from typing import Any

from ibdissect.fabric.model import SWITCH
from ibdissect.fabric.partitions import BASE, FULL
from ibdissect.fabric.told import Others, PKeyTables, Told
from ibdissect.lint.engine import Context
from ibdissect.lint.rule import ERROR, INFO
from ibdissect.wire.sm_tables import (
    GUIDInfo,
    PKeyTable,
)

from .learnt import Mask, TellingRule, adapters


class _Guids(Others):
    attribute = 0x14


class FirstGuidWritten(TellingRule):
    """A Set(GUIDInfo) writes another first GUID than the port's own.

    ## Why it matters
    The first entry is the PortGUID and read-only. The Set is refused or ignored, with the other GUIDs in it.

    ## What to do
    Repeat the PortGUID in entry 0.
    """

    code, name, severity = "SEM047", "guidinfo-entry0-write", ERROR
    reference = "IBA 14.2.5.5; seed000 GUIDInfo"
    message = "Set(GUIDInfo) of {port} with 0x{guid:016x} in entry 0, the PortGUID is 0x{own:016x}"
    example = "NodeInfo of a port, then SubnSet(GUIDInfo) of block 0 with another GUID in entry 0"
    source = _Guids
    at = GUIDInfo.guid_block

    def suspicious(self, told: Told, context: Context) -> Mask:
        return told.sets & adapters(told) & (told.modifier == 0)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        node = told.node(i)
        port = node.ports.get(int(told.entered[i])) if node is not None else None
        guid = int.from_bytes(told.bodies[i][:8].tobytes(), "big")
        return {"guid": guid, "own": port.guid} if port is not None and port.guid and guid != port.guid else None

    def flow_of(self, told: Told, i: int) -> Any:
        return int(told.slot[i]), int(told.entered[i])

    def proof(self, told: Told, i: int) -> tuple[tuple[int, str], ...]:
        node = told.node(i)
        return ((node.frame, "NodeInfo"),) if node is not None else ()


class BlockPastTable(TellingRule):
    """A P_KeyTable request is about a block that the port does not have.

    ## Why it matters
    Writing there has no effect and reading gives zeros: P_Keys that the subnet manager wrote are not in force.

    ## What to do
    Compare with PartitionCap (NodeInfo) or PartitionEnforcementCap (SwitchInfo, for external ports).
    """

    code, name, severity = "PKY011", "block-past-capability", ERROR
    reference = "IBA 14.2.5.7; seed000 P_KeyTable"
    message = "{method}(P_KeyTable) of block {block} of {port}, whose table has {cap} entries"
    example = "NodeInfo with PartitionCap 64, then SubnGet(P_KeyTable) with AttributeModifier 5"
    source = PKeyTables
    at = PKeyTable.p_key_table_block

    def suspicious(self, told: Told, context: Context) -> Mask:
        return ~told.answers & (told.slot >= 0) & (told.modifier & 0xFFFF > 0)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        node, block = told.node(i), int(told.modifier[i] & 0xFFFF)
        if node is None or not node.kind:
            return None
        external = node.kind == SWITCH and int(told.modifier[i]) >> 16
        cap = (node.switch.partition_enforcement_cap if node.switch is not None else 0) if external else node.partition_cap
        return {"block": block, "cap": cap} if cap and block >= -(-cap // 32) else None

    def flow_of(self, told: Told, i: int) -> Any:
        return int(told.slot[i]), int(told.modifier[i])

    def proof(self, told: Told, i: int) -> tuple[tuple[int, str], ...]:
        node = told.node(i)
        return ((max(node.frame, node.switch_frame), "capacity of the table"),) if node is not None else ()


class MembershipChanged(TellingRule):
    """A Set changes a port's membership of a partition from limited to full, or back.

    ## Why it matters
    Nothing is wrong; from here on other ports may or may not talk to this one.

    ## What to do
    Compare with partitions.conf when nobody changed it.
    """

    code, name, severity = "PKY012", "membership-upgrade", INFO
    reference = "IBA 10.9; seed002"
    message = "Set(P_KeyTable) of {port} makes it a {kind} member of partition 0x{base:04x}"
    example = "GetResp(P_KeyTable) with 0x1234, then SubnSet(P_KeyTable) with 0x9234 in its place"
    source = PKeyTables
    at = PKeyTable.p_key_table_block
    why = "showed the other membership"

    def suspicious(self, told: Told, context: Context) -> Mask:
        return told.sets & (told.since > 0) & (told.bodies != told.before).any(axis=1)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        now, before = ({*body[i].view(">u2").tolist()} for body in (told.bodies, told.before))
        for key in sorted(now - before):
            if key & BASE and key ^ FULL in before and key ^ FULL not in now:
                return {"kind": "full" if key & FULL else "limited", "base": key & BASE}
        return None
