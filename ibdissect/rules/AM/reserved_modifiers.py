"""Attribute modifiers that are wrong whatever the addressed port is. One packet proves it."""

from __future__ import annotations

from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule
from ibdissect.rules.shared.mad_conditions import NO_ERROR, NamesRequest
from ibdissect.subnet import FabricFollower
from ibdissect.wire.attribute_methods import REQUESTS
from ibdissect.wire.cc import SwitchPortCongestionSetting
from ibdissect.wire.dm import IOControllerProfile, ServiceEntries
from ibdissect.wire.expr import Expr, Or
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import BASE_VERSION_IB, MAD
from ibdissect.wire.notice import Notice
from ibdissect.wire.numbers import FIRST_VENDOR, GET, SET, SMP_CLASSES, TRAP_REPRESS
from ibdissect.wire.places import Mad
from ibdissect.wire.sm import LedInfo, NodeDescription, NodeInfo, SMInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo, PortInfoExtended
from ibdissect.wire.sm_tables import MulticastForwardingTable, PKeyTable, VLArbitrationTable
from ibdissect.wire.spec import Struct

# Omni-Path's modifiers have other meanings. An answer repeats the modifier of its request: wrong, unless it refuses it.
JUDGED = (MAD.base_version == BASE_VERSION_IB) & ((MAD.method < 0x80) | NO_ERROR)


USUAL_P_KEYS, LAST_BLOCK = 32768, 2047
"""Most P_Keys of a port (IBA 14.2.5.7), and the last block that PartitionCap can name."""


def modifier_of(attribute: type[Struct], fault: Expr) -> Expr:
    """MADs of one attribute with a wrong modifier."""
    places = [place for place in attribute.carried_by if isinstance(place, Mad)]
    return (MAD.attribute_id == places[0].attr_id) & fault & JUDGED & MAD.mgmt_class.isin({place.mgmt_class for place in places})


class ModifierRule(Rule):
    """Base of the rules of this family, which judge and mark the modifier of a MAD."""

    at = MAD.attribute_modifier


class NodeDescriptionModifier(ModifierRule):
    """A NodeDescription SMP has an attribute modifier.

    A node has one NodeDescription, so the modifier selects nothing. The sender mixed up attributes or reused an old field; a strict SMA may
    answer with status 7.

    Look at the tool or SM that sent the request (its LID or directed route is in the frame) and correct or update it.
    """

    code, name, severity = "AM001", "nodedescription-am", ERROR
    reference = "IBA 14.2.5.1"
    when = modifier_of(NodeDescription, MAD.attribute_modifier != 0)
    message = "NodeDescription takes no attribute modifier, this one is 0x{attribute_modifier:08x}"
    example = "SubnGet(NodeDescription) with AttributeModifier 1"


class NodeInfoModifier(ModifierRule):
    """A NodeInfo SMP has an attribute modifier.

    NodeInfo names the port through which the request came in; no modifier selects it. The sender takes the answer for that of another port.

    Send NodeInfo with modifier 0 and read LocalPortNum of the answer; read another port's state from its PortInfo.
    """

    code, name, severity = "AM002", "nodeinfo-am", ERROR
    reference = "IBA 14.2.5.1"
    when = modifier_of(NodeInfo, MAD.attribute_modifier != 0)
    message = "NodeInfo takes no attribute modifier, this one is 0x{attribute_modifier:08x}"
    example = "SubnGet(NodeInfo) with AttributeModifier 3"


class SwitchInfoModifier(ModifierRule):
    """A SwitchInfo SMP has an attribute modifier.

    A switch has one SwitchInfo, that of its management port. The sender expects one per port and will misread the answer.

    Correct the sender to use modifier 0; per-port settings of a switch are in PortInfo.
    """

    code, name, severity = "AM003", "switchinfo-am", ERROR
    reference = "IBA 14.2.5.1"
    when = modifier_of(SwitchInfo, MAD.attribute_modifier != 0)
    message = "SwitchInfo takes no attribute modifier, this one is 0x{attribute_modifier:08x}"
    example = "SubnGet(SwitchInfo) with AttributeModifier 2"


class PortInfoReservedBits(ModifierRule):
    """A PortInfo SMP uses reserved bits of the attribute modifier.

    Only the port number (bits 7-0) and bit 31 (SMSupportsExtendedSpeeds) mean something. Other bits come from the wrong byte order or an
    old value, so another port is read or changed than was meant.

    Compare bits 7-0 with the port that the sender meant; correct the tool that built the modifier.
    """

    code, name, severity = "AM006", "portinfo-am-reserved-bits", ERROR
    reference = "IBA 14.2.5.1; opensm osm_link_mgr (bit 31)"
    when = modifier_of(PortInfo, (MAD.attribute_modifier & 0x7FFFFF00) != 0)
    message = "PortInfo modifier 0x{attribute_modifier:08x} uses reserved bits 30-8"
    example = "SubnGet(PortInfo) with AttributeModifier 0x00000100"


class PortInfoSpeedBit(ModifierRule):
    """A sender of PortInfo SMPs sets bit 31 of the attribute modifier (SMSupportsExtendedSpeeds).

    Newer versions of the standard allow it, and OpenSM does it for ports that support extended speeds. An old SMA may take the bit for part
    of the port number.

    Nothing, unless the port answers with an error status.
    """

    code, name, severity = "AM009", "portinfo-extspeed-bit", INFO
    is_note = True
    reference = "opensm osm_link_mgr"
    when = modifier_of(PortInfo, (MAD.attribute_modifier & 0x80000000) != 0)
    flow = (LRH.slid, LRH.dlid, MAD.method)
    message = "PortInfo modifier 0x{attribute_modifier:08x} says that the SM supports extended speeds (bit 31)"
    example = "SubnGet(PortInfo) with AttributeModifier 0x80000001"


class PKeyTableBlock(ModifierRule):
    """A P_KeyTable SMP names a block beyond the largest table.

    A port holds at most 32768 P_Keys, which is 1024 blocks of 32. On a switch the port number belongs in bits 31-16; a sender that swaps
    the halves reads or writes the wrong table.

    Check the block number (bits 15-0) against PartitionCap in NodeInfo (PartitionEnforcementCap for a switch's ports).

    One SMP is enough. An `info` for blocks up to 2047: the 16 bits of PartitionCap can name so large a table. Where a node shows one,
    PKY011 judges these blocks.
    """

    code, name, severity = "AM010", "pkey-block-gt-1023", ERROR
    explains = ("PKY011",)
    reference = "IBA 14.2.5.7"
    when = modifier_of(PKeyTable, (MAD.attribute_modifier & 0xFFFF) > 1023)
    needs = (FabricFollower,)
    message = "P_KeyTable modifier 0x{attribute_modifier:08x}: its block (bits 15-0) is above 1023"
    example = "SubnGet(P_KeyTable) with AttributeModifier 2000"

    def stands(self, hit: Hit, context: Context) -> bool:
        if int(hit.arguments["attribute_modifier"]) & 0xFFFF > LAST_BLOCK:
            return True
        for node in context.get(FabricFollower).subnet.slots.values():
            switch = node.switch.now
            if max(node.partition_cap, switch.partition_enforcement_cap if switch is not None else 0) > USUAL_P_KEYS:
                return False
        return True

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info where the capture may only lack the NodeInfo of a node with so large a table."""
        return INFO if int(hit.arguments["attribute_modifier"]) & 0xFFFF <= LAST_BLOCK else super().severity_at_end(hit, context)


class VLArbitrationSelector(ModifierRule):
    """A VLArbitrationTable SMP selects no part of the table.

    Bits 31-16 choose low priority 0-31 (1), low 32-63 (2), high 0-31 (3) or high 32-63 (4). With another value nothing is read or written.

    Correct the sender; a selector of 0 often means that the port number was shifted into the wrong half.
    """

    code, name, severity = "AM014", "vlarb-selects-nothing", ERROR
    reference = "IBA 14.2.5.9"
    when = modifier_of(VLArbitrationTable, ~((MAD.attribute_modifier >> 16).between(1, 4)))
    message = "VLArbitrationTable modifier 0x{attribute_modifier:08x}: bits 31-16 select none of the four parts (1-4)"
    example = "SubnGet(VLArbitrationTable) with AttributeModifier 0x00050001"


class MulticastTableReservedBits(ModifierRule):
    """A MulticastForwardingTable SMP uses reserved bits of the attribute modifier.

    Only the block (bits 8-0) and the port position (bits 31-28) are used. A block number that overflowed sets bits between them, and its
    entries go to other multicast LIDs.

    Check how the sender computes the block: (MLID - 0xC000) / 32, at most 511.
    """

    code, name, severity = "AM020", "mft-reserved-bits", ERROR
    reference = "IBA 14.2.5.12; opensm IB_MCAST_BLOCK_ID_MASK"
    when = modifier_of(MulticastForwardingTable, (MAD.attribute_modifier & 0x0FFFFE00) != 0)
    message = "MulticastForwardingTable modifier 0x{attribute_modifier:08x} uses reserved bits 27-9"
    example = "SubnGet(MulticastForwardingTable) with AttributeModifier 0x00000200"


class SMInfoControl(ModifierRule):
    """A Set(SMInfo) requests none of the five state changes.

    The modifier is the command: 1 HANDOVER, 2 ACKNOWLEDGE, 3 DISABLE, 4 STANDBY, 5 DISCOVER. The receiving SM refuses any other, so two SMs
    may both stay master.

    Find the SM or tool that sent it; `sminfo` takes the modifier from its command line.
    """

    code, name, severity = "AM023", "sminfo-set-no-change", ERROR
    reference = "IBA 14.2.5.13"
    when = modifier_of(SMInfo, (MAD.method == SET) & ~MAD.attribute_modifier.between(1, 5))
    message = "Set(SMInfo) with modifier 0x{attribute_modifier:08x}, which is no command (1-5)"
    example = "SubnSet(SMInfo) with AttributeModifier 7"


class SMInfoGetModifier(ModifierRule):
    """A Get(SMInfo) has an attribute modifier, which means nothing there.

    The modifier is a command only in a Set. A Get with one is harmless, but its sender left the field of its last Set in place.

    Nothing urgent; report it to the maker of the SM.
    """

    code, name, severity = "AM024", "sminfo-get-am", INFO
    is_note = True
    reference = "IBA 14.2.5.13"
    when = modifier_of(SMInfo, (MAD.method == GET) & (MAD.attribute_modifier != 0))
    flow = (LRH.slid, LRH.dlid, MAD.attribute_modifier)
    message = "Get(SMInfo) with modifier 0x{attribute_modifier:08x}, which is not used"
    example = "SubnGet(SMInfo) with AttributeModifier 2"


class LedInfoModifier(ModifierRule):
    """A LedInfo SMP has an attribute modifier.

    LedInfo switches the light of the port that receives the SMP; the modifier selects nothing. A tool that uses it lights the wrong port.

    Send the SMP to the port whose light is meant, with modifier 0.
    """

    code, name, severity = "AM026", "ledinfo-am", ERROR
    reference = "IBA 14.2.5.1"
    when = modifier_of(LedInfo, MAD.attribute_modifier != 0)
    message = "LedInfo takes no attribute modifier, this one is 0x{attribute_modifier:08x}"
    example = "SubnSet(LedInfo) with AttributeModifier 1"


class NoticeModifier(ModifierRule):
    """A Notice or Trap of subnet management has an attribute modifier.

    The notice says everything about the event; the modifier is not used. An SM that recognises repeated traps by it may miss some, and a
    flood of traps goes on.

    Find the agent by the issuer's LID and update its firmware.
    """

    code, name, severity = "AM027", "notice-am", WARNING
    reference = "IBA 14.2.5.1"
    when = modifier_of(Notice, (MAD.attribute_modifier != 0) & (MAD.method != TRAP_REPRESS))  # a repress is a copy of its trap
    message = "Notice takes no attribute modifier, this one is 0x{attribute_modifier:08x}"
    example = "SubnTrap(Notice) with AttributeModifier 5"


class VendorModifier(ModifierRule):
    """A vendor's subnet management attribute has a modifier above 16 bits.

    The standard limits the modifiers of attributes 0xFF00-0xFFFF to 0xFFFF. Some vendors pack more into them, which devices of other
    vendors misread.

    Nothing, if sender and receiver are from the vendor that defined the attribute.
    """

    code, name, severity = "AM028", "vendor-am", INFO
    reference = "IBA 14.2.5.1"
    when = (MAD.attribute_id >= FIRST_VENDOR) & (MAD.attribute_modifier > 0xFFFF) & JUDGED & MAD.mgmt_class.isin(SMP_CLASSES)
    flow = (LRH.slid, LRH.dlid, MAD.attribute_id)
    message = "vendor attribute 0x{attribute_id:04x} with modifier 0x{attribute_modifier:08x}, which needs more than 16 bits"
    example = "SubnGet(0xFF10) with AttributeModifier 0x00010000"


class ControllerSlot(ModifierRule):
    """An IOControllerProfile request names a slot that no I/O unit has.

    I/O controllers sit in slots 1 to 255. Any other slot is answered with an error, and the host does not find its storage target.

    Take the slot from the controller list in IOUnitInfo, counting from 1.
    """

    code, name, severity = "AM030", "dm-slot-range", WARNING
    reference = "python-rdma ControllerList"
    when = modifier_of(IOControllerProfile, ~MAD.attribute_modifier.between(1, 255))
    message = "IOControllerProfile of slot {attribute_modifier}; slots count from 1 to 255"
    example = "DevMgtGet(IOControllerProfile) with AttributeModifier 0"


class ServiceRange(ModifierRule):
    """A ServiceEntries request names a last entry before the first.

    The modifier holds the slot of the controller, the last and the first entry. An empty range is answered with an error.

    Correct the sender: bits 15-8 are the last entry, 7-0 the first.
    """

    code, name, severity = "AM036", "service-entries-range", WARNING
    reference = "IBA 16.3.3.5; SRP initiators"
    when = modifier_of(ServiceEntries, (MAD.attribute_modifier & 0xFF) > (MAD.attribute_modifier >> 8 & 0xFF))
    message = "ServiceEntries modifier 0x{attribute_modifier:08x}: the last entry (bits 15-8) is before the first (bits 7-0)"
    example = "DevMgtGet(ServiceEntries) with AttributeModifier 0x00010003"


class CongestionBlock(ModifierRule):
    """A SwitchPortCongestionSetting MAD names a block beyond the last port.

    A block holds 32 ports, so blocks 0 to 7 reach port 255. Settings in a higher block are lost, and congestion control stays unconfigured.

    Check how the sender computes the block: port / 32.
    """

    code, name, severity = "AM032", "cc-switchport-block-range", WARNING
    reference = "opensm: 32 port entries a block"
    when = modifier_of(SwitchPortCongestionSetting, MAD.attribute_modifier > 7)
    message = "SwitchPortCongestionSetting block {attribute_modifier}; the last one is 7"
    example = "CCSet(SwitchPortCongestionSetting) with AttributeModifier 99"


class PortInfoExtendedModifier(ModifierRule):
    """A PortInfoExtended SMP has more than a port number in its attribute modifier.

    Tools send the port number alone (bits 7-0). The other bits are undocumented: a device may ignore them or answer for another port.

    Compare with what `smpquery portinfoext` sends for the same port.
    """

    code, name, severity = "AM033", "vendorspec-mad-am", INFO
    reference = "rdma-core smpquery"
    when = modifier_of(PortInfoExtended, (MAD.attribute_modifier & 0xFFFFFF00) != 0)
    flow = (LRH.slid, LRH.dlid, MAD.attribute_modifier)
    message = "PortInfoExtended modifier 0x{attribute_modifier:08x} holds more than a port number"
    example = "SubnGet(PortInfoExtended) with AttributeModifier 0x00000200"


class ModifierNotZero(NamesRequest):
    """An attribute that takes no modifier has one.

    There is one such attribute at each port or agent: the modifier selects nothing. The sender mixed up attributes or did not clear the
    field; a strict receiver may answer with status 7.

    Correct the sender.

    One packet is enough. Attributes of subnet management have rules of their own (AM001 to AM028), counters have AM031.
    """

    code, name, severity = "AM034", "modifier-not-zero", WARNING
    reference = "IBA 13.4.3; opensm, python-rdma and libibmad send 0"
    when = (MAD.attribute_modifier != 0) & Or(tuple(
        (MAD.mgmt_class == mgmt_class) & MAD.attribute_id.isin({one for one, known in attributes.items() if known.no_modifier})
        for mgmt_class, attributes in REQUESTS.items() if mgmt_class not in SMP_CLASSES
    )) & JUDGED  # fmt: skip
    at = MAD.attribute_modifier
    flow = (LRH.slid, LRH.dlid, MAD.mgmt_class, MAD.attribute_id)
    message = "{what} takes no attribute modifier, this one is 0x{attribute_modifier:08x}"
    example = "DevMgtGet(IOUnitInfo) with AttributeModifier 1"
