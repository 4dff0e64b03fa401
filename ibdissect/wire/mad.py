"""MADs of all classes: common header, RMPP header, classes, methods, status."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct as Record

from .convert import timeout_text
from .numbers import BM_CLASS, DIRECTED, RESPONSE_BIT, SEND, SMP_CLASSES, TRAP_REPRESS
from .spec import Struct, bit, enum, pad, part, uint

BASE_VERSION_IB, BASE_VERSION_OPA = 1, 0x80
MAD_SIZE = {BASE_VERSION_IB: 256, BASE_VERSION_OPA: 2048}
"""Bytes of a MAD by base version; RMPP segments are padded to it."""


class ManagementClass(Record, frozen=True):
    """The name of a management class (python-rdma, kernel ib_mad.h), and the version in use (kernel, libibmad, opensm)."""

    name: str
    short: str
    """The common name."""
    prefix: str = ""
    """The prefix of method names, as in SubnGet() and SubnAdmGetTable()."""
    version: int | None = None
    """ClassVersion; None if unknown."""


CLASSES: Mapping[int, ManagementClass] = {
    0x01: ManagementClass("Subnet Management (LID routed)", "SM (LID routed)", "Subn", 1),
    0x81: ManagementClass("Subnet Management (directed route)", "SM (directed)", "Subn", 1),
    0x03: ManagementClass("Subnet Administration", "SA", "SubnAdm", 2),
    0x04: ManagementClass("Performance Management", "PM", "Perf", 1),
    0x05: ManagementClass("Baseboard Management", "BM", "BM", 1),
    0x06: ManagementClass("Device Management", "DM", "DevMgt", 1),
    0x07: ManagementClass("Communication Management", "CM", "ComMgt", 2),
    0x08: ManagementClass("SNMP Tunneling", "SNMP", "SNMP", 1),
    0x10: ManagementClass("Device Administration", "DevAdm", "DevAdm"),
    0x11: ManagementClass("Boot Management", "BootMgt", "BootMgt"),
    0x12: ManagementClass("Boot Information Service", "BIS", "BIS"),
    0x21: ManagementClass("Congestion Control", "CC", "CC", 2),
    0x32: ManagementClass("Vendor: OpenIB ping", "vendor 0x32"),
    0x33: ManagementClass("Vendor: OpenIB system statistics", "vendor 0x33"),
}
"""Single classes; ranges: `class_name`."""
CLASS_PREFIX = {number: known.prefix for number, known in CLASSES.items() if known.prefix}
CLASS_VERSION = {number: known.version for number, known in CLASSES.items() if known.version is not None}

METHODS: Mapping[int, str] = {
    0x01: "Get", 0x02: "Set", 0x03: "Send", 0x05: "Trap", 0x06: "Report", 0x07: "TrapRepress", 0x12: "GetTable", 0x13: "GetTraceTable",
    0x14: "GetMulti", 0x15: "Delete", 0x81: "GetResp", 0x86: "ReportResp", 0x92: "GetTableResp", 0x93: "GetTraceTableResp",
    0x94: "GetMultiResp", 0x95: "DeleteResp",
}  # fmt: skip
"""Methods of all classes (IBA 13.4.5, 15.2.2); bit 7 marks a response."""

RESPONSE_OF: Mapping[int, frozenset[int]] = {
    0x01: frozenset({0x81}), 0x02: frozenset({0x81}), 0x06: frozenset({0x86}), 0x12: frozenset({0x92}),
    0x13: frozenset({0x92, 0x93}), 0x14: frozenset({0x94}), 0x15: frozenset({0x95}), 0x05: frozenset({0x07}),
}  # fmt: skip
"""Request method -> methods that answer it (0x13: python-rdma and libibmad differ; a Trap is answered by TrapRepress, if at all)."""

COMMON_ATTRIBUTES: Mapping[int, str] = {0x0001: "ClassPortInfo", 0x0002: "Notice", 0x0003: "InformInfo"}
"""Attributes with the same id in every class except subnet management."""

STATUS_CODES: Mapping[int, str] = {
    0: "no invalid fields", 1: "bad version", 2: "method not supported", 3: "method/attribute combination not supported",
    7: "invalid field value",
}  # fmt: skip
"""Bits 4:2 of the status (IBA 13.4.7)."""

SA_STATUS: Mapping[int, str] = {
    1: "no resources", 2: "request invalid", 3: "no records", 4: "too many records", 5: "invalid GID", 6: "insufficient components",
    7: "request denied", 8: "priority suggested",
}  # fmt: skip
"""Class-specific status of subnet administration (IBA 15.2.3; 8: opensm)."""

DM_STATUS: Mapping[int, str] = {1: "no response from IOC", 2: "no service entries", 0x80: "IOC failure"}
"""Class-specific status of device management."""

CLASS_STATUS: Mapping[int, Mapping[int, str]] = {0x03: SA_STATUS, 0x06: DM_STATUS}

RMPP_TYPES: Mapping[int, str] = {0: "None", 1: "DATA", 2: "ACK", 3: "STOP", 4: "ABORT"}
RMPP_STATUS: Mapping[int, str] = {
    0: "Normal", 1: "Resources exhausted", 118: "Total time too long", 119: "Inconsistent last and PayloadLength",
    120: "Inconsistent first and segment number", 121: "Bad RMPPType", 122: "NewWindowLast too small", 123: "Segment number too big",
    124: "Illegal status", 125: "Unsupported version", 126: "Too many retries", 127: "Unspecified",
}  # fmt: skip
"""RMPPStatus: 1 in a STOP, 118-127 in an ABORT (IBA 13.6.2.1)."""

OUI_CLASSES = range(0x30, 0x50)
"""Vendor range 2: each MAD names the vendor that defines its data."""
RMPP_CLASSES = frozenset({0x03, 0x06, 0x10, 0x12, *OUI_CLASSES})
"""Classes whose MADs have an RMPP header; in 0x06 only if its version is not 0 (kernel core/mad.c)."""


def class_name(mgmt_class: int) -> str:
    """Name of a management class or of its range."""
    if mgmt_class in CLASSES:
        return CLASSES[mgmt_class].name
    if 0x09 <= mgmt_class <= 0x0F:
        return "Vendor (range 1)"
    if 0x30 <= mgmt_class <= 0x4F:
        return "Vendor (range 2)"
    return "Application" if 0x10 <= mgmt_class <= 0x2F else "Reserved"


def short_class_name(mgmt_class: int) -> str:
    if mgmt_class in CLASSES:
        return CLASSES[mgmt_class].short
    kind = "vendor" if is_vendor(mgmt_class) else "application" if mgmt_class < 0x30 else "class"
    return f"{kind} 0x{mgmt_class:02x}"


def is_vendor(mgmt_class: int) -> bool:
    return 0x09 <= mgmt_class <= 0x0F or 0x30 <= mgmt_class <= 0x4F


def class_text(mgmt_class: int) -> str:
    """`Subnet Administration (0x03)`."""
    return f"{class_name(mgmt_class)} (0x{mgmt_class:02x})"


def class_qp(mgmt_class: int) -> int:
    """Queue pair of a class: 0 for subnet management, else 1 (IBA 3.9)."""
    return 0 if mgmt_class in SMP_CLASSES else 1


def method_name(mgmt_class: int, method: int) -> str:
    """`SubnAdmGetTable`: the class's prefix and the method; unknown methods in hex."""
    name = METHODS.get(method, f"Method(0x{method:02x})")
    return CLASS_PREFIX.get(mgmt_class, "Vend" if is_vendor(mgmt_class) else "") + name


def is_response(method: int, modifier: int = 0, mgmt_class: int = 0) -> bool:
    """Whether a MAD answers another: bit 7 of the method, or bit 0 of the modifier of a baseboard Send (kernel IB_BM_ATTR_MOD_RESP)."""
    return bool(method & RESPONSE_BIT) or method == TRAP_REPRESS or (mgmt_class == BM_CLASS and method == SEND and bool(modifier & 1))


def status_text(status: int, mgmt_class: int = 0, special_names: Mapping[int, str] | None = None) -> str:
    """Text of a MAD status; `ok` if no bit is set. In a directed-route SMP bit 15 is the direction and ignored.

    `special_names`: of bits 15:8, if not those of the class.
    """
    if mgmt_class == DIRECTED:
        status &= 0x7FFF
    parts = []
    if status & 1:
        parts.append("busy")
    if status & 2:
        parts.append("redirect required")
    code = status >> 2 & 7
    if code:
        parts.append(STATUS_CODES.get(code, f"reserved code {code}"))
    if status & 0xE0:
        parts.append(f"reserved bits {status & 0xE0:#04x}")
    special = status >> 8
    if special:
        parts.append((special_names or CLASS_STATUS.get(mgmt_class, {})).get(special, f"class-specific status {special}"))
    return ", ".join(parts) or "ok"


def _status_show(status: int) -> str:
    """Text of a MAD status without knowing the class."""
    return f"0x{status:04x} ({status_text(status)})"


class MAD(Struct):
    """Common header of every management datagram."""

    key, section, size, title = "mad", "IBA 13.4.3; python-rdma MADHeader; kernel ib_mad.h", 24, "MAD"
    base_version = enum(8, {BASE_VERSION_IB: "InfiniBand", BASE_VERSION_OPA: "Omni-Path"}, "BaseVersion", at="0", base="hex")
    mgmt_class = uint(8, "MgmtClass", at="1", base="hex", show=class_text)
    class_version = uint(8, "ClassVersion", at="2", base="hex")
    method = enum(8, METHODS, "Method", at="3", base="hex")
    status = uint(16, "Status", at="4", base="hex", show=_status_show)
    status_class_specific = part(status, 15, 8, "StatusClassSpecific", base="hex")
    status_code = part(status, 4, 2, "StatusCode", values=STATUS_CODES)
    status_redirect = bit(status, 1, "StatusRedirect")
    status_busy = bit(status, 0, "StatusBusy")
    class_specific = uint(16, "ClassSpecific", at="6", base="hex")
    transaction_id = uint(64, "TransactionID", at="8", base="hex")
    attribute_id = uint(16, "AttributeID", at="16", base="hex")
    reserved = pad(16, at="18")
    attribute_modifier = uint(32, "AttributeModifier", at="20", base="hex")


_DATA, _ACK = frozenset({1}), frozenset({2})


class RMPP(Struct):
    """Header of the Reliable Multi-Packet Transaction Protocol, after the common header of the classes that use it."""

    key, section, size = "rmpp", "IBA 13.6.2.1; python-rdma RMPPHeader; libibmad", 12
    rmpp_version = uint(8, "RMPPVersion", at="0")
    rmpp_type = enum(8, RMPP_TYPES, "RMPPType", at="1")
    r_resp_time = uint(5, "RRespTime", at="2", show=lambda code: "31 (not supplied)" if code == 31 else timeout_text(code))
    rmpp_flags = uint(3, "RMPPFlags", at="2[5]", base="hex")
    last = bit(rmpp_flags, 2, "Last")
    first = bit(rmpp_flags, 1, "First")
    active = bit(rmpp_flags, 0, "Active")
    rmpp_status = enum(8, RMPP_STATUS, "RMPPStatus", at="3")
    data1 = uint(32, "Data1", at="4", base="hex")
    segment_number = part(data1, 31, 0, "SegmentNumber", when=(rmpp_type, _DATA | _ACK))
    data2 = uint(32, "Data2", at="8", base="hex")
    payload_length = part(data2, 31, 0, "PayloadLength", when=(rmpp_type, _DATA))
    new_window_last = part(data2, 31, 0, "NewWindowLast", when=(rmpp_type, _ACK))
