"""Which LedInfo is impossible, or goes to a port without an LED?"""

from __future__ import annotations

from typing import Any

from ibdissect.fabric.earlier_answers import AttributeSmps, others
from ibdissect.fabric.model import SWITCH
from ibdissect.lint.rule import INFO, WARNING, Context, Rule
from ibdissect.rules.shared.attribute_rule import AttributeRule, Mask
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT
from ibdissect.wire.link import LRH
from ibdissect.wire.sm import LedInfo

LED_SUPPORTED = 1 << 9
"""CapabilityMask.IsLEDInfoSupported."""


class LedUnsupported(AttributeRule):
    """A Set(LedInfo) goes to a port that has no LED to switch.

    The port answers with an error status or not at all; nobody will see its LED blink.

    Nothing; the port's CapabilityMask says whether it has an LED.

    The Set, and the CapabilityMask in PortInfo of the port before it.
    """

    code, name, severity = "SEM055", "ledinfo-unsupported", WARNING
    reference = "IBA 14.2.5.15"
    message = "Set(LedInfo) to {port}, whose CapabilityMask 0x{mask:08x} lacks IsLEDInfoSupported"
    example = "GetResp(PortInfo) with CapabilityMask bit 9 clear, then SubnSet(LedInfo)"
    source = others(0x31)
    by_entry = True
    at = LedInfo.led_mask

    def suspicious(self, smps: AttributeSmps, context: Context) -> Mask:
        return smps.sets & (smps.slot >= 0)

    def arguments(self, smps: AttributeSmps, i: int, context: Context) -> dict[str, Any] | None:
        node = smps.node(i)
        number = int(smps.modifier[i] & 0xFF) if node is not None and node.kind == SWITCH else int(smps.entered[i])
        port = node.ports.get(number) if node is not None else None
        info = port.info_at(int(smps.frames[i]))[0] if port is not None else None
        if info is None or info.capability_mask & LED_SUPPORTED:
            return None
        return {"mask": info.capability_mask}


class LedInfoReserved(Rule):
    """A LedInfo has reserved bits set.

    Only the most significant bit switches the LED. A 1 in the last bit does nothing, although the sender believes that the LED is
    on.

    Write 0x80000000 for on and 0 for off.
    """

    code, name, severity = "SEM054", "ledinfo-reserved", INFO
    reference = "IBA 14.2.5.15"
    when = (LedInfo.reserved1 != 0) & HAS_CONTENT
    flow = (LRH.slid,)
    message = "LedInfo has reserved bits 0x{reserved1:08x}; only the first bit counts"
    example = "SubnSet(LedInfo) with the word 0x00000001"
