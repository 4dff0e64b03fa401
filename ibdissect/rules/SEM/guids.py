"""Which GUID tables do not fit the port?"""

from __future__ import annotations

from typing import Any

from ibdissect.fabric.earlier_answers import AttributeSmps, PortInfos, others
from ibdissect.lint.rule import ERROR, WARNING, Context
from ibdissect.rules.shared.attribute_rule import AttributeRule, Mask, adapters
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import GUIDInfo


class FirstGuidWritten(AttributeRule):
    """A Set(GUIDInfo) writes a first GUID that is not the port's own.

    The first entry is the PortGUID and read-only. The Set is refused or ignored, including its other GUIDs.

    Write the PortGUID into entry 0.
    """

    code, name, severity = "SEM047", "guidinfo-entry0-write", ERROR
    reference = "IBA 14.2.5.5"
    message = "Set(GUIDInfo) of {port} with 0x{guid:016x} in entry 0, the PortGUID is 0x{own:016x}"
    example = "NodeInfo of a port, then SubnSet(GUIDInfo) of block 0 with another GUID in entry 0"
    source = others(0x14)
    by_entry, by_node = True, True
    at = GUIDInfo.guid_block

    def suspicious(self, smps: AttributeSmps, context: Context) -> Mask:
        return smps.sets & adapters(smps) & (smps.modifier == 0)

    def arguments(self, smps: AttributeSmps, i: int, context: Context) -> dict[str, Any] | None:
        node = smps.node(i)
        port = node.ports.get(int(smps.entered[i])) if node is not None else None
        guid = int.from_bytes(smps.bodies[i][:8].tobytes(), "big")
        return {"guid": guid, "own": port.guid} if port is not None and port.guid and guid != port.guid else None


class NoGuids(AttributeRule):
    """An adapter or router port shows GUIDCap 0.

    Every port has at least one GUID, its PortGUID, and GUIDCap counts it; tools that rely on GUIDCap do not read the GUIDs at all.

    Update the firmware.
    """

    code, name, severity = "SEM016", "guidcap-zero", WARNING
    reference = "IBA 14.2.5.6"
    message = "{port} shows GUIDCap 0"
    example = "NodeInfo of a channel adapter, then its GetResp(PortInfo) with GUIDCap 0"
    source = PortInfos
    at = PortInfo.guid_cap
    by_node = True

    def suspicious(self, smps: AttributeSmps, context: Context) -> Mask:
        return smps.answers & adapters(smps) & (smps.now(PortInfo.guid_cap) == 0)
