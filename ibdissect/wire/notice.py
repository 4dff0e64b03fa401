"""Traps and reports: Notice, and the details of each trap number."""

from __future__ import annotations

from typing import Any

from .mad import METHODS
from .names import NOTICE_TYPE, OTHER_TRAP_NUMBER, PRODUCER_TYPE, TRAP_NUMBER
from .places import Inside, Mad, smp
from .spec import Field, Struct, bit, enum, flag, gid, guid, lid, nested, pad, part, pkey, qpn, raw, secret, uint


class Notice(Struct):
    """An event, in the format of subnet management: no issuer GID."""

    key, section, size = "notice", "IBA 13.4.8.2; python-rdma; opensm ib_mad_notice_attr_t", 64
    carried_by = smp(0x0002)
    is_generic = flag("IsGeneric", at="0")
    type = enum(7, NOTICE_TYPE, "Type", at="0[1]")
    producer_type = enum(
        24, PRODUCER_TYPE, "ProducerType", at="1", base="hex", ws="producertypevendorid", when=(is_generic, frozenset({1}))
    )
    vendor_id = part(producer_type, 23, 0, "VendorID", base="hex", ws="producertypevendorid", when=(is_generic, frozenset({0})))
    trap_number = enum(16, TRAP_NUMBER, "TrapNumber", at="4", ws="trapnumberdeviceid", when=(is_generic, frozenset({1})))
    device_id = part(trap_number, 15, 0, "DeviceID", ws="trapnumberdeviceid", when=(is_generic, frozenset({0})))
    issuer_lid = lid("IssuerLID", at="6")
    notice_toggle = flag("NoticeToggle", at="8")
    notice_count = uint(15, "NoticeCount", at="8[1]")
    data_details = raw(54, "DataDetails", at="10")


class GMPNotice(Struct):
    """An event, in the format of all other classes: followed by the issuer's GID."""

    key, section, size, title = "notice", "IBA 13.4.8.2; python-rdma; opensm ib_mad_notice_attr_t", 80, "Notice"
    carried_by = tuple(Mad(mgmt_class, 0x0002) for mgmt_class in (0x03, 0x04, 0x06, 0x07, 0x08, 0x10, 0x12))
    notice = nested(Notice, "Notice", at="0")
    issuer_gid = gid("IssuerGID", at="64")


class OtherNotice(Notice):
    """An event of baseboard management or congestion control, whose trap numbers are not those of subnet management."""

    key, section, size, title = "notice", "IBA 13.4.8.2, 16.2, A10; opensm ib_mad_notice_attr_t", 80, "Notice"
    carried_by = (Mad(0x05, 0x0002), Mad(0x21, 0x0002))
    trap_number = enum(16, OTHER_TRAP_NUMBER, "TrapNumber", at="4", ws="trapnumberdeviceid", when=(Notice.is_generic, frozenset({1})))
    issuer_gid = gid("IssuerGID", at="64")


def _details(*numbers: int) -> tuple[Inside, ...]:
    """In the details of generic notices with one of these trap numbers."""
    generic: tuple[Field[Any], frozenset[int]] = (Notice.is_generic, frozenset({1}))
    return (Inside(Notice.data_details, (generic, (Notice.trap_number, frozenset(numbers)))),)


class TrapGID(Struct):
    """Traps 64-67: a port or multicast group that came or went."""

    key, section, size = "trap", "IBA 14.2.5.1; python-rdma; opensm _ntc_64_67", 22
    carried_by = _details(64, 65, 66, 67)
    gidaddr = gid("GIDADDR", at="..6")


class TrapPath(Struct):
    """Traps 68 and 69: paths that are no longer valid, or should be queried again."""

    key, section, size = "trap", "Wireshark 4.0", 9
    carried_by = _details(68, 69)
    comp_mask = uint(64, "COMP_MASK", at="0", base="hex")
    wait_for_repath = flag("WAIT_FOR_REPATH", at="8")
    reserved1 = pad(7, at="8[1]")


class TrapLinkState(Struct):
    """Trap 128: the link state of a port of this switch changed."""

    key, section, size = "trap", "IBA 14.2.5.1; python-rdma; opensm _ntc_128", 2
    carried_by = _details(128)
    lidaddr = lid("LIDADDR", at="0")


class TrapThreshold(Struct):
    """Traps 129-131: link integrity, buffer overrun and flow control watchdog."""

    key, section, size = "trap", "IBA 14.2.5.1; python-rdma; opensm _ntc_129_131", 5
    carried_by = _details(129, 130, 131)
    lidaddr = lid("LIDADDR", at="..2")
    portno = uint(8, "PORTNO", at="4")


class TrapLocalChange(Struct):
    """Trap 144: capability mask, node description or link settings of a port changed.

    Undecided: flag 0x20 is a change of CapabilityMask2 in OpenSM, of LinkSpeedExtEnabled in NVIDIA's header.
    """

    key, section, size = "trap", "IBA 14.2.5.1; opensm _ntc_144 and TRAP_144_MASK; flag 0x20 also: trex-core ib_types.h", 14
    carried_by = _details(144)
    lidaddr = lid("LIDADDR", at="..2")
    other_local_changes = flag("OtherLocalChanges", at="..5[7]")
    capabilitymask = uint(32, "CAPABILITYMASK", at="6", base="hex")
    change_flags = uint(16, "ChangeFlags", at="10", base="hex")
    capability_mask2_change = bit(change_flags, 5, "CapabilityMask2Change (OpenSM's reading)", ws="capabilitymask2change")
    link_speed_ext_enabled_change = bit(change_flags, 5, "LinkSpeedExtEnabledChange (NVIDIA's reading)", ws="linkspeedextenabledchange")
    hierarchy_info_change = bit(change_flags, 4, "HierarchyInfoChange")
    sm_priority_change = bit(change_flags, 3, "SMPriorityChange")
    link_speed_enabled_change = bit(change_flags, 2, "LinkSpeedEnabledChange", ws="linkspeecenabledchange")
    link_width_enabled_change = bit(change_flags, 1, "LinkWidthEnabledChange")
    node_description_change = bit(change_flags, 0, "NodeDescriptionChange")
    capabilitymask2 = uint(16, "CAPABILITYMASK2", at="12", base="hex")


class TrapSystemImageGUID(Struct):
    """Trap 145: a node's SystemImageGUID changed."""

    key, section, size = "trap", "IBA 14.2.5.1; python-rdma; opensm _ntc_145", 14
    carried_by = _details(145)
    lidaddr = lid("LIDADDR", at="..2")
    systemimageguid = guid("SYSTEMIMAGEGUID", at="..6")


class TrapMKey(Struct):
    """Trap 256: an SMP with a wrong M_Key, and where it came from."""

    key, section, size = "trap", "IBA 14.2.5.1; python-rdma; opensm _ntc_256; kernel ib_smi.h", 54
    carried_by = _details(256)
    lidaddr = lid("LIDADDR", at="..2")
    drslid = lid("DRSLID", at="4")
    method = enum(8, METHODS, "METHOD", at="6", base="hex")
    attributeid = uint(16, "ATTRIBUTEID", at="..8", base="hex")
    attributemodifier = uint(32, "ATTRIBUTEMODIFIER", at="10", base="hex")
    mkey = secret(64, "M_Key", "MKEY", at="14")
    dr_notice = flag("DRNotice", at="..23")
    dr_path_truncated = flag("DRPathTruncated", at="23[1]")
    dr_hop_count = uint(6, "DRHopCount", at="23[2]")
    dr_notice_return_path = raw(30, "DRNoticeReturnPath", at="24", holds="ports")


class TrapPKey(Struct):
    """Trap 257: a packet with a wrong P_Key, and both its ends."""

    key, section, size = "trap", "IBA 14.2.5.1; python-rdma; opensm _ntc_257_258", 50
    carried_by = _details(257)
    lidaddr1 = lid("LIDADDR1", at="..2")
    lidaddr2 = lid("LIDADDR2", at="4")
    key_value = uint(32, "KEY", at="6", base="hex")
    sl = uint(4, "SL", at="10")
    qp1 = qpn("QP1", at="..11")
    qp2 = qpn("QP2", at="..15")
    gidaddr1 = gid("GIDADDR1", at="18")
    gidaddr2 = gid("GIDADDR2", at="34")


class TrapQKey(TrapPKey):
    """Trap 258: a packet with a wrong Q_Key, and both its ends."""

    key, section, size = "trap", "IBA 14.2.5.1; python-rdma; opensm _ntc_257_258", 50
    carried_by = _details(258)
    key_value = secret(32, "Q_Key", "KEY", at="6")


class TrapSwitchPKey(Struct):
    """Trap 259: a packet with a wrong P_Key at an external port of a switch."""

    key, section, size = "trap", "IBA 14.2.5.1; python-rdma; opensm _ntc_259", 51
    carried_by = _details(259)
    data_valid = uint(16, "DataValid", at="0", base="hex")
    lidaddr1 = lid("LIDADDR1", at="2")
    lidaddr2 = lid("LIDADDR2", at="4")
    pkey = pkey("PKEY", at="6")
    sl = uint(4, "SL", at="8")
    qp1 = qpn("QP1", at="..9")
    qp2 = qpn("QP2", at="..13")
    gidaddr1 = gid("GIDADDR1", at="16")
    gidaddr2 = gid("GIDADDR2", at="32")
    swlidaddr = lid("SWLIDADDR", at="48")
    portno = uint(8, "PORTNO", at="50")


class TrapCCKey(Struct):
    """Trap 0 of congestion control: a MAD with a wrong CC_Key."""

    key, section, size = "trap", "IBA A10; opensm _ntc_cckey_0", 54
    carried_by = (Inside(OtherNotice.data_details, ((OtherNotice.trap_number, frozenset({0})),)),)
    slid = lid("SLID", at="0")
    method = enum(8, METHODS, "METHOD", at="2", base="hex")
    attributeid = uint(16, "ATTRIBUTEID", at="..4", base="hex")
    attributemodifier = uint(32, "ATTRIBUTEMODIFIER", at="..8", base="hex")
    qp = qpn("QP", at="..13")
    cc_key = secret(64, "CC_Key", at="16")
    source_gid = gid("SourceGID", at="24")
    reserved4 = pad(112, at="40")


class TrapBKey(Struct):
    """Trap 259 of baseboard management: a MAD with a wrong B_Key."""

    key, section, size = "trap", "opensm _ntc_bkey_259", 38
    carried_by = (Inside(OtherNotice.data_details, ((OtherNotice.trap_number, frozenset({259})),)),)
    lidaddr = lid("LIDADDR", at="0")
    method = enum(8, METHODS, "METHOD", at="2", base="hex")
    attributeid = uint(16, "ATTRIBUTEID", at="..4", base="hex")
    attributemodifier = uint(32, "ATTRIBUTEMODIFIER", at="6", base="hex")
    qp = qpn("QP", at="..11")
    b_key = secret(64, "B_Key", at="14")
    gidaddr = gid("GIDADDR", at="22")
