"""Attribute modifiers that the packet alone proves wrong (AM)."""

from __future__ import annotations

from ibdissect.lint.rule import ERROR, INFO, Rule
from ibdissect.wire.mad import MAD

SMP_CLASSES = frozenset({0x01, 0x81})


class NodeDescriptionModifier(Rule):
    """A NodeDescription SMP has an attribute modifier.

    ## Why it matters
    The attribute exists once per node, so the modifier selects nothing. A sender that sets it has mixed up attributes or left
    a field over from the packet before; a strict SMA may answer with status 7.

    ## What to do
    Look at the tool or SM that sent the request (its LID or directed route is in the frame) and correct or update it.
    """

    code, name, severity = "AM001", "nodedescription-am", ERROR
    reference = "IBA 14.2.5.1; seed000 table 29-1"
    on = MAD
    when = MAD.mgmt_class.isin(SMP_CLASSES) & (MAD.attribute_id == 0x0010) & (MAD.attribute_modifier != 0)
    at = MAD.attribute_modifier
    message = "NodeDescription takes no attribute modifier, this one is 0x{attribute_modifier:08x}"
    example = "SubnGet(NodeDescription) with AttributeModifier 1"


class PortInfoSpeedBit(Rule):
    """A PortInfo SMP sets bit 31 of the attribute modifier (SMSupportsExtendedSpeeds).

    ## Why it matters
    It is legal in newer versions of the standard and OpenSM does it for ports that support extended speeds; an old SMA that
    treats the modifier as a port number does not understand it.

    ## What to do
    Nothing, unless the port answers with an error status.
    """

    code, name, severity = "AM009", "portinfo-extspeed-bit", INFO
    reference = "opensm osm_link_mgr"
    on = MAD
    when = MAD.mgmt_class.isin(SMP_CLASSES) & (MAD.attribute_id == 0x0015) & ((MAD.attribute_modifier & 0x80000000) != 0)
    at = MAD.attribute_modifier
    message = "PortInfo modifier 0x{attribute_modifier:08x} says that the SM supports extended speeds (bit 31)"
    example = "SubnGet(PortInfo) with AttributeModifier 0x80000001"
