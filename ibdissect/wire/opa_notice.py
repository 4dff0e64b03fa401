"""Omni-Path's traps, reports and class agents: STL Notice with its details, ClassPortInfo, InformInfo."""

from __future__ import annotations

from typing import Any

from .convert import timeout_text
from .mad import BASE_VERSION_OPA, METHODS
from .names import NOTICE_TYPE, PRODUCER_TYPE, TRAP_NUMBER
from .opa import opa_smp
from .places import Inside, Mad
from .spec import Field, Struct, bit, enum, flag, gid, guid, lid, pad, pkey, qpn, raw, secret, uint

_SOURCE = "opa-ff stl_mad_types.h"
_TRAPS = "opa-ff stl_sm_types.h"
OPA_TRAP_NUMBER = {**TRAP_NUMBER, 0x800: "Link width of a switch port changed", 0x801: "Cost matrix changed"}


def _opa_gmp(attr_id: int) -> tuple[Mad, ...]:
    """A common attribute in subnet administration and performance management."""
    return tuple(Mad(mgmt_class, attr_id, base_version=BASE_VERSION_OPA) for mgmt_class in (0x03, 0x04))


class STLNotice(Struct):
    """An event; unlike InfiniBand's, with 32-bit LIDs and the issuer's GID before the details."""

    prefix, key, section, size = "opa", "notice", f"{_SOURCE} STL_NOTICE", 96
    carried_by = opa_smp(0x0002) + _opa_gmp(0x0002)
    is_generic = flag("IsGeneric", at="0")
    type = enum(7, NOTICE_TYPE, "Type", at="0[1]")
    producer_type = enum(24, PRODUCER_TYPE, "ProducerType", at="1", base="hex")
    trap_number = enum(16, OPA_TRAP_NUMBER, "TrapNumber", at="4")
    toggle = flag("Toggle", at="6")
    count = uint(15, "Count", at="6[1]")
    issuer_lid = lid("IssuerLID", at="8", bits=32)
    issuer_gid = gid("IssuerGID", at="..16")
    data_details = raw(64, "DataDetails", at="32", ws="+classdatadetails")


def _details(*numbers: int) -> tuple[Inside, ...]:
    """In the details of generic notices with one of these trap numbers."""
    generic: tuple[Field[Any], frozenset[int]] = (STLNotice.is_generic, frozenset({1}))
    return (Inside(STLNotice.data_details, (generic, (STLNotice.trap_number, frozenset(numbers)))),)


class STLTrapGID(Struct):
    """Traps 64-67: a port or multicast group that came or went."""

    prefix, key, section, size = "opa", "trap", f"{_TRAPS} STL_TRAP_GID", 16
    carried_by = _details(64, 65, 66, 67)
    gid = gid("GID", at="0")


class STLTrapLinkState(Struct):
    """Trap 128, and trap 0x800 for the link width: something changed at a port of this switch."""

    prefix, key, section, size = "opa", "trap", f"{_TRAPS} STL_TRAP_PORT_CHANGE_STATE_DATA, STL_SMA_TRAP_DATA_LINK_WIDTH", 4
    carried_by = _details(128, 0x800)
    lidaddr = lid("LIDADDR", at="0", bits=32)


class STLTrapLink(Struct):
    """Traps 129-131: link integrity, buffer overrun and flow control watchdog."""

    prefix, key, section, size = "opa", "trap", f"{_TRAPS} STL_TRAP_LINK", 5
    carried_by = _details(129, 130, 131)
    lidaddr = lid("LIDADDR", at="0", bits=32)
    portno = uint(8, "PORTNO", at="4")


class STLTrapChange(Struct):
    """Trap 144: capability mask, node description or link settings of a port changed."""

    prefix, key, section, size = "opa", "trap", f"{_TRAPS} STL_TRAP_CHANGE_CAPABILITY_DATA", 14
    carried_by = _details(144)
    lidaddr = lid("LIDADDR", at="0", bits=32)
    capability_mask = uint(32, "CapabilityMask", at="4", base="hex")
    capability_mask3 = uint(16, "CapabilityMask3", at="..10", base="hex")
    link_width_downgrade_enabled_change = flag("LinkWidthDowngradeEnabledChange", at="..13[4]")
    link_speed_enabled_change = flag("LinkSpeedEnabledChange", at="13[5]", ws="+linkspeecenabledchange")
    link_width_enabled_change = flag("LinkWidthEnabledChange", at="13[6]")
    node_description_change = flag("NodeDescriptionChange", at="13[7]")


class STLTrapSystemImageGUID(Struct):
    """Trap 145: a node's SystemImageGUID changed."""

    prefix, key, section, size = "opa", "trap", f"{_TRAPS} STL_TRAP_SYSGUID_CHANGE_DATA", 12
    carried_by = _details(145)
    system_image_guid = guid("SystemImageGUID", at="0")
    lidaddr = lid("LIDADDR", at="8", bits=32)


class STLTrapMKey(Struct):
    """Trap 256: an SMP with a wrong M_Key, and where it came from."""

    prefix, key, section, size = "opa", "trap", f"{_TRAPS} STL_TRAP_BAD_M_KEY_DATA", 54
    carried_by = _details(256)
    lidaddr = lid("LIDADDR", at="0", bits=32)
    dr_slid = lid("DRSLID", at="4", bits=32)
    method = enum(8, METHODS, "Method", at="8", base="hex")
    dr_notice = flag("DRNotice", at="9")
    dr_path_truncated = flag("DRPathTruncated", at="9[1]")
    dr_hop_count = uint(6, "DRHopCount", at="9[2]")
    attribute_id = uint(16, "AttributeID", at="10", base="hex")
    attribute_modifier = uint(32, "AttributeModifier", at="12", base="hex")
    m_key = secret(64, "M_Key", "MKey", at="16")
    dr_return_path = raw(30, "DRReturnPath", at="24", ws="+drnoticereturnpath", holds="ports")


class STLTrapPKey(Struct):
    """Trap 257: a packet with a wrong P_Key, and both its ends."""

    prefix, key, section, size = "opa", "trap", f"{_TRAPS} STL_TRAP_BAD_KEY_DATA", 56
    carried_by = _details(257)
    lid1 = lid("Lid1", at="0", ws="+lidaddr", bits=32)
    lid2 = lid("Lid2", at="4", ws="+lidaddr", bits=32)
    key_value = uint(32, "Key", at="8", base="hex")
    sl = uint(5, "SL", at="12")
    gid1 = gid("Gid1", at="..16", ws="+gid")
    gid2 = gid("Gid2", at="32", ws="+gid")
    qp1 = qpn("QP1", at="..49", ws="+qp")
    qp2 = qpn("QP2", at="..53", ws="+qp")


class STLTrapQKey(STLTrapPKey):
    """Trap 258: a packet with a wrong Q_Key, and both its ends."""

    size = 56
    carried_by = _details(258)
    key_value = secret(32, "Q_Key", "Key", at="8")


class STLTrapSwitchPKey(Struct):
    """Trap 259: a packet with a wrong P_Key at a port of a switch."""

    prefix, key, section, size = "opa", "trap", f"{_TRAPS} STL_TRAP_SWITCH_BAD_PKEY_DATA", 56
    carried_by = _details(259)
    data_valid = uint(16, "DataValid", at="0", base="hex")
    lid1_valid = bit(data_valid, 15, "Lid1Valid", ws="+datavalid.lid1")
    lid2_valid = bit(data_valid, 14, "Lid2Valid", ws="+datavalid.lid2")
    p_key_valid = bit(data_valid, 13, "PKeyValid", ws="+datavalid.pkey")
    sl_valid = bit(data_valid, 12, "SLValid", ws="+datavalid.sl")
    qp1_valid = bit(data_valid, 11, "QP1Valid", ws="+datavalid.qp1")
    qp2_valid = bit(data_valid, 10, "QP2Valid", ws="+datavalid.qp2")
    gid1_valid = bit(data_valid, 9, "Gid1Valid", ws="+datavalid.gid1")
    gid2_valid = bit(data_valid, 8, "Gid2Valid", ws="+datavalid.gid2")
    p_key = pkey("PKey", at="2")
    lid1 = lid("Lid1", at="4", ws="+lidaddr", bits=32)
    lid2 = lid("Lid2", at="8", ws="+lidaddr", bits=32)
    sl = uint(5, "SL", at="12")
    gid1 = gid("Gid1", at="..16", ws="+gid")
    gid2 = gid("Gid2", at="32", ws="+gid")
    qp1 = qpn("QP1", at="48", ws="+qp")
    qp2 = qpn("QP2", at="..52", ws="+qp")
    reserved3 = pad(8, at="55")


class STLClassPortInfo(Struct):
    """What a class agent can do, and where its traps go; Wireshark spells its names `clasportinfo`."""

    prefix, key, section, size = "opa", "clasportinfo", f"{_SOURCE} STL_CLASS_PORT_INFO", 80
    carried_by = _opa_gmp(0x0001)
    base_version = uint(8, "BaseVersion", at="0", base="hex")
    class_version = uint(8, "ClassVersion", at="1", base="hex")
    cap_mask = uint(16, "CapMask", at="2", base="hex")
    generates_traps = bit(cap_mask, 0, "GeneratesTraps", ws="+capmask.trap")
    implements_notice = bit(cap_mask, 1, "ImplementsNotice", ws="+capmask.notice")
    implements_cap_mask2 = bit(cap_mask, 2, "ImplementsCapMask2", ws="+capmask.cm2")
    cap_mask2 = uint(27, "CapMask2", at="4", base="hex")
    resp_time_value = uint(5, "RespTimeValue", at="7[3]", show=timeout_text)
    redirect_gid = gid("RedirectGID", at="8", ws="+redirect.gid")
    redirect_t_class = uint(8, "RedirectTClass", at="24", base="hex", ws="+redirect.tclass")
    redirect_flow_label = uint(20, "RedirectFlowLabel", at="..25[4]", base="hex", ws="+redirect.flowlabel", holds="network")
    redirect_lid = lid("RedirectLID", at="28", ws="+redirect.lid", bits=32)
    redirect_sl = uint(5, "RedirectSL", at="32", ws="+redirect.sl")
    redirect_qp = qpn("RedirectQP", at="..33", ws="+redirect.qp")
    redirect_q_key = secret(32, "Q_Key", "RedirectQ_Key", at="36", ws="+redirect.q_key")
    trap_gid = gid("TrapGID", at="40", ws="+trap.gid")
    trap_t_class = uint(8, "TrapTClass", at="56", base="hex", ws="+trap.tclass")
    trap_flow_label = uint(20, "TrapFlowLabel", at="..57[4]", base="hex", ws="+trap.flowlabel", holds="network")
    trap_lid = lid("TrapLID", at="60", ws="+trap.lid", bits=32)
    trap_hop_limit = uint(8, "TrapHopLimit", at="64", ws="+trap.hoplimit")
    trap_qp = qpn("TrapQP", at="65", ws="+trap.qp")
    trap_q_key = secret(32, "Q_Key", "TrapQ_Key", at="68", ws="+trap.q_key")
    trap_p_key = pkey("TrapP_Key", at="72", ws="+trap.p_key")
    redirect_p_key = pkey("RedirectP_Key", at="74", ws="+redirect.p_key")
    trap_sl = uint(5, "TrapSL", at="76", ws="+trap.sl")
    reserved4 = pad(27, at="76[5]")


class STLInformInfo(Struct):
    """A subscription to events, or its end."""

    prefix, key, section, size = "opa", "informinfo", f"{_SOURCE} STL_INFORM_INFO", 40
    carried_by = (Mad(0x03, 0x0003, base_version=BASE_VERSION_OPA),)
    gid = gid("GID", at="0")
    lid_range_begin = lid("LIDRangeBegin", at="16", bits=32)
    lid_range_end = lid("LIDRangeEnd", at="20", bits=32)
    is_generic = enum(8, {0: "Vendor specific", 1: "Generic"}, "IsGeneric", at="24")
    subscribe = enum(8, {0: "Unsubscribe", 1: "Subscribe"}, "Subscribe", at="25")
    type = enum(16, {**NOTICE_TYPE, 0xFFFF: "All"}, "Type", at="26", base="hex")
    trap_number = enum(16, OPA_TRAP_NUMBER, "TrapNumber", at="..30")
    qpn = qpn("QPN", at="32")
    resp_time_value = uint(5, "RespTimeValue", at="..35[3]", show=timeout_text)
    producer_type = enum(24, PRODUCER_TYPE, "ProducerType", at="..37", base="hex")
