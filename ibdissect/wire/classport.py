"""Attributes that all management classes support: ClassPortInfo, and InformInfo if they forward events."""

from .convert import lid_text, timeout_text
from .names import NOTICE_TYPE, PRODUCER_TYPE, TRAP_NUMBER
from .places import Mad
from .spec import Struct, bit, enum, gid, lid, pkey, qpn, secret, uint

GENERAL_CLASSES = (0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x10, 0x11, 0x12, 0x21)
"""Classes on QP1 whose attributes 1-3 are the common ones; vendor classes may use other layouts."""


class ClassPortInfo(Struct):
    """What a class agent can do, where its services moved to, and where its traps go."""

    key, section, size = "classportinfo", "IBA 13.4.8.1; python-rdma MADClassPortInfo; opensm ib_class_port_info_t", 72
    carried_by = tuple(Mad(mgmt_class, 0x0001) for mgmt_class in GENERAL_CLASSES)
    base_version = uint(8, "BaseVersion", at="0")
    class_version = uint(8, "ClassVersion", at="1")
    capability_mask = uint(16, "CapabilityMask", at="2", base="hex")
    generates_traps = bit(capability_mask, 0, "GeneratesTraps", ws="+capabilitymask.trap")
    implements_notice = bit(capability_mask, 1, "ImplementsNotice", ws="+capabilitymask.notice")
    capability_mask2 = uint(27, "CapabilityMask2", at="4", base="hex")
    resp_time_value = uint(5, "RespTimeValue", at="7[3]", show=timeout_text)
    redirect_gid = gid("RedirectGID", at="8")
    redirect_tc = uint(8, "RedirectTC", at="24", base="hex")
    redirect_sl = uint(4, "RedirectSL", at="25")
    redirect_fl = uint(20, "RedirectFL", at="25[4]", base="hex", holds="network")
    redirect_lid = lid("RedirectLID", at="28")
    redirect_p_key = pkey("RedirectP_Key", at="30", ws="redirectpkey")
    redirect_qp = qpn("RedirectQP", at="..33")
    redirect_q_key = secret(32, "Q_Key", "RedirectQ_Key", at="36", ws="redirectqkey")
    trap_gid = gid("TrapGID", at="40")
    trap_tc = uint(8, "TrapTC", at="56", base="hex")
    trap_sl = uint(4, "TrapSL", at="57")
    trap_fl = uint(20, "TrapFL", at="57[4]", base="hex", holds="network")
    trap_lid = lid("TrapLID", at="60")
    trap_p_key = pkey("TrapP_Key", at="62", ws="trappkey")
    trap_hl = uint(8, "TrapHL", at="64")
    trap_qp = qpn("TrapQP", at="65")
    trap_q_key = secret(32, "Q_Key", "TrapQ_Key", at="68", ws="trapqkey")


class InformInfo(Struct):
    """A subscription to events, or its end."""

    key, section, size = "informinfo", "IBA 13.4.8.3; python-rdma MADInformInfo; opensm ib_inform_info_t", 36
    carried_by = tuple(Mad(mgmt_class, 0x0003) for mgmt_class in GENERAL_CLASSES)
    gid = gid("GID", at="0")
    lid_range_begin = lid("LIDRangeBegin", at="16", show=lambda lid: "0xffff (all)" if lid == 0xFFFF else lid_text(lid))
    lid_range_end = lid("LIDRangeEnd", at="18")
    is_generic = enum(8, {0: "Vendor specific", 1: "Generic"}, "IsGeneric", at="..22")
    subscribe = enum(8, {0: "Unsubscribe", 1: "Subscribe"}, "Subscribe", at="23")
    type = enum(16, {**NOTICE_TYPE, 0xFFFF: "All"}, "Type", at="24", base="hex")
    trap_number = enum(16, TRAP_NUMBER, "TrapNumber", at="26", ws="trapnumberdeviceid")
    qpn = qpn("QPN", at="28")
    resp_time_value = uint(5, "RespTimeValue", at="..31[3]", show=timeout_text)
    producer_type = enum(24, PRODUCER_TYPE, "ProducerType", at="..33", base="hex", ws="producertypevendorid")
