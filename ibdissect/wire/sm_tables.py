"""The tables of subnet management: GUIDs, P_Keys, SL to VL, VL arbitration, forwarding, link pairs."""

from .convert import width_mask_text
from .names import MEMBERSHIP
from .places import smp
from .spec import Struct, array, bit, flag, guid, lid, nested, part, pkey, raw, uint


class GUIDInfo(Struct):
    """Eight of a port's GUIDs; Wireshark files them under SwitchInfo."""

    key, section, size = "guidinfo", "IBA 14.2.5.5; python-rdma SMPGUIDInfo", 64
    carried_by = smp(0x0014)
    guid_block = array(8, guid("GUIDBlock", at="0", ws="infiniband.switchinfo.guid"))


class PKeyEntry(Struct):
    """One entry of a P_Key table."""

    key, section, size = "p_keytable", "IBA 14.2.5.7", 2
    p_key = pkey("P_Key", at="0")
    membership_type = part(p_key, 15, 15, "MembershipType", values=MEMBERSHIP)
    p_key_base = part(p_key, 14, 0, "P_KeyBase", base="hex")


class PKeyTable(Struct):
    """32 of a port's partition keys."""

    key, section, size, title = "p_keytable", "IBA 14.2.5.7; python-rdma SMPPKeyTable", 64, "P_KeyTable"
    carried_by = smp(0x0016)
    p_key_table_block = array(32, nested(PKeyEntry, "P_KeyTableBlock", at="0"))


class SLtoVLEntry(Struct):
    """VLs of an even SL and the next odd one."""

    key, section, size = "sltovlmappingtable", "IBA 14.2.5.8; python-rdma SMPSLToVLMappingTable", 1
    even_sl_to_vl = uint(4, "Even SL to VL", at="0", ws="sltovlhighbits")
    odd_sl_to_vl = uint(4, "Odd SL to VL", at="0[4]", ws="sltovllowbits")


class SLtoVLMappingTable(Struct):
    """The VL of each SL; VL 15 drops."""

    key, section, size = "sltovlmappingtable", "IBA 14.2.5.8; python-rdma SMPSLToVLMappingTable; opensm", 8
    carried_by = smp(0x0017)
    sl_to_vl = array(8, nested(SLtoVLEntry, "SLtoVL", at="0"))


class VLArbitrationEntry(Struct):
    """A VL and how much it may send per turn (64-byte units; 0 skips it)."""

    key, section, size = "vlarbitrationtable", "IBA 14.2.5.9; python-rdma SMPVLArbitrationTable", 2
    vl = uint(4, "VL", at="..0[4]")
    weight = uint(8, "Weight", at="1")


class VLArbitrationTable(Struct):
    """32 entries of a port's high or low priority arbitration table."""

    key, section, size = "vlarbitrationtable", "IBA 14.2.5.9; python-rdma SMPVLArbitrationTable", 64
    carried_by = smp(0x0018)
    vl_weight_block = array(32, nested(VLArbitrationEntry, "VLWeightBlock", at="0"))


class LinearForwardingTable(Struct):
    """Output ports of 64 consecutive LIDs; 255 drops."""

    key, section, size = "linearforwardingtable", "IBA 14.2.5.10; python-rdma SMPLinearForwardingTable", 64
    carried_by = smp(0x0019)
    port = array(64, uint(8, "Port", at="0"))


class LIDPortEntry(Struct):
    """Output port of a LID range in a random forwarding table."""

    key, section, size = "randomforwardingtable", "IBA 14.2.5.11; python-rdma SMPLIDPortBlock", 4
    lid = lid("LID", at="0")
    valid = flag("Valid", at="2")
    lmc = uint(3, "LMC", at="2[1]")
    port = uint(8, "Port", at="..3")


class RandomForwardingTable(Struct):
    """16 entries of a switch that forwards by lookup."""

    key, section, size = "randomforwardingtable", "IBA 14.2.5.11; python-rdma SMPRandomForwardingTable", 64
    carried_by = smp(0x001A)
    lid_port_block = array(16, nested(LIDPortEntry, "LIDPortBlock", at="0"))


class MulticastForwardingTable(Struct):
    """Output ports, 16 of them, of 32 consecutive multicast LIDs."""

    key, section, size = "multicastforwardingtable", "IBA 14.2.5.12; python-rdma SMPMulticastForwardingTable; opensm", 64
    carried_by = smp(0x001B)
    port_mask = array(32, uint(16, "PortMask", at="0", base="hex"))


class LinkSpeedWidthPairsTable(Struct):
    """Which widths a port offers at which speed.

    Undecided: a byte for each speed is a mask of widths, as in LinkWidthSupported, or its first bit alone counts, as in Wireshark.
    """

    key, section, size = "linkspeedwidthpairstable", "Wireshark 4.0 offsets; attribute id: libibmad", 36
    carried_by = smp(0x001C)
    num_tables = uint(8, "NumTables", at="0")
    port_mask = raw(32, "PortMask", at="1", holds="ports")
    speed_two_five = uint(8, "SpeedTwoFive", at="33", show=width_mask_text)
    speed_two_five_bit = bit(speed_two_five, 7, "SpeedTwoFiveBit (Wireshark's reading)", ws="speedtwofive.bit")
    speed_five = uint(8, "SpeedFive", at="34", show=width_mask_text)
    speed_five_bit = bit(speed_five, 7, "SpeedFiveBit (Wireshark's reading)", ws="speedfive.bit")
    speed_ten = uint(8, "SpeedTen", at="35", show=width_mask_text)
    speed_ten_bit = bit(speed_ten, 7, "SpeedTenBit (Wireshark's reading)", ws="speedten.bit")
