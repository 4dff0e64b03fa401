"""NVMe over Fabrics capsules: commands, Fabrics commands, responses. All little-endian."""

from __future__ import annotations

from collections.abc import Mapping

from ..cm_names import IP_CM_PREFIX
from ..places import CmPayload, Inside
from ..spec import Struct, enum, flag, pad, raw, rest, secret, text, uint
from ..text import counted
from .nvme_rdma import DISCOVERY_PORT, IO_QUEUE, NVME_PORT, one_based_text, queue_text

_SERVICES = tuple(IP_CM_PREFIX | 0x06 << 16 | port for port in (NVME_PORT, DISCOVERY_PORT))
FABRICS = 0x7F
_OTHERS = frozenset(range(256)) - {FABRICS}

ADMIN_OPCODES: Mapping[int, str] = {
    0x00: "Delete I/O SQ", 0x01: "Create I/O SQ", 0x02: "Get Log Page", 0x04: "Delete I/O CQ", 0x05: "Create I/O CQ", 0x06: "Identify",
    0x08: "Abort", 0x09: "Set Features", 0x0A: "Get Features", 0x0C: "Asynchronous Event Request", 0x0D: "Namespace Management",
    0x10: "Firmware Commit", 0x11: "Firmware Image Download", 0x14: "Device Self-test", 0x15: "Namespace Attachment",
    0x18: "Keep Alive", 0x19: "Directive Send", 0x1A: "Directive Receive", 0x7F: "Fabrics", 0x80: "Format NVM",
    0x81: "Security Send", 0x82: "Security Receive", 0x84: "Sanitize",
}  # fmt: skip
IO_OPCODES: Mapping[int, str] = {
    0x00: "Flush", 0x01: "Write", 0x02: "Read", 0x04: "Write Uncorrectable", 0x05: "Compare", 0x08: "Write Zeroes",
    0x09: "Dataset Management", 0x0C: "Verify", 0x0D: "Reservation Register", 0x0E: "Reservation Report",
    0x11: "Reservation Acquire", 0x15: "Reservation Release", 0x19: "Copy", 0x7F: "Fabrics",
}  # fmt: skip
"""Opcodes of admin and of I/O commands (NVMe 1.4 figures 139 and 346). The request for the connection says which queue it is."""

GET_LOG_PAGE, IDENTIFY, SET_FEATURES, GET_FEATURES = 0x02, 0x06, 0x09, 0x0A
BY_BLOCKS = frozenset({0x01, 0x02, 0x04, 0x05, 0x08, 0x0C})
"""I/O commands for a range of blocks."""

IDENTIFIED: Mapping[int, str] = {
    0x00: "namespace", 0x01: "controller", 0x02: "active namespaces", 0x03: "namespace descriptors", 0x05: "namespace, by command set",
    0x06: "controller, by command set", 0x10: "allocated namespaces", 0x11: "allocated namespace", 0x12: "controllers of a namespace",
    0x13: "controllers",
}  # fmt: skip
FEATURES: Mapping[int, str] = {
    0x01: "Arbitration", 0x02: "Power Management", 0x03: "LBA Range Type", 0x04: "Temperature Threshold", 0x05: "Error Recovery",
    0x06: "Volatile Write Cache", 0x07: "Number of Queues", 0x08: "Interrupt Coalescing", 0x09: "Interrupt Vector Configuration",
    0x0A: "Write Atomicity", 0x0B: "Asynchronous Event Configuration", 0x0C: "Autonomous Power State Transition",
    0x0D: "Host Memory Buffer", 0x0E: "Timestamp", 0x0F: "Keep Alive Timer",
}  # fmt: skip
SELECTED: Mapping[int, str] = {0: "current", 1: "default", 2: "saved", 3: "supported capabilities"}
"""Which value of a feature is read (NVMe 1.4 figure 190; kernel linux/nvme.h NVME_FEAT_SEL)."""
LOG_PAGES: Mapping[int, str] = {
    0x01: "Error Information", 0x02: "SMART / Health Information", 0x03: "Firmware Slot Information", 0x04: "Changed Namespace List",
    0x05: "Commands Supported and Effects", 0x06: "Device Self-test", 0x07: "Telemetry Host-Initiated",
    0x08: "Telemetry Controller-Initiated", 0x0C: "Asymmetric Namespace Access", 0x70: "Discovery", 0x80: "Reservation Notification",
}  # fmt: skip
"""What Identify, Features and Get Log Page ask for (kernel linux/nvme.h)."""

FABRICS_COMMANDS: Mapping[int, str] = {
    0x00: "Property Set", 0x01: "Connect", 0x04: "Property Get", 0x05: "Authentication Send", 0x06: "Authentication Receive",
    0x08: "Disconnect",
}  # fmt: skip
"""Fabrics command types (NVMe over Fabrics 1.1 figure 13)."""

PROPERTIES: Mapping[int, str] = {0x00: "CAP", 0x08: "VS", 0x14: "CC", 0x1C: "CSTS", 0x20: "NSSR"}
"""Offsets of controller properties (NVMe 1.4 3.1)."""

DESCRIPTORS: Mapping[int, str] = {
    0: "Data Block", 1: "Bit Bucket", 2: "Segment", 3: "Last Segment", 4: "Keyed Data Block", 5: "Transport Data Block",
}  # fmt: skip
STATUS_TYPES: Mapping[int, str] = {
    0: "Generic", 1: "Command specific", 2: "Media and data integrity", 3: "Path related", 7: "Vendor specific",
}  # fmt: skip
GENERIC_STATUS: Mapping[int, str] = {
    0x00: "Successful Completion", 0x01: "Invalid Command Opcode", 0x02: "Invalid Field in Command", 0x03: "Command ID Conflict",
    0x04: "Data Transfer Error", 0x06: "Internal Error", 0x07: "Command Abort Requested", 0x0B: "Invalid Namespace or Format",
    0x0C: "Command Sequence Error", 0x0F: "Data SGL Length Invalid", 0x80: "LBA Out of Range", 0x81: "Capacity Exceeded",
    0x82: "Namespace Not Ready",
}  # fmt: skip


def status_text(value: int) -> str:
    """`Successful Completion`, `Generic 0x02 (Invalid Field in Command), do not retry`."""
    code, kind = value >> 1 & 0xFF, value >> 9 & 7
    if not code and not kind:
        return "Successful Completion"
    name = f" ({GENERIC_STATUS[code]})" if kind == 0 and code in GENERIC_STATUS else ""
    return f"{STATUS_TYPES.get(kind, f'type {kind}')} 0x{code:02x}{name}" + (", do not retry" if value & 0x8000 else "")


def blocks_text(value: int) -> str:
    """How many blocks, which is sent as number - 1."""
    return f"{value} ({counted(value + 1, 'block')})"


def length_text(value: bytes) -> str:
    """A three-byte length."""
    return f"{int.from_bytes(value, 'little')} bytes"


class NVMeCommandCapsule(Struct):
    """What a host sends to the admin queue: the first dword of a command; the rest of the command and data in the capsule follow."""

    prefix, key, section, size, title = "nvme", "cmd", "NVMe 1.4 figure 104; kernel linux/nvme.h", 4, "NVMe command"
    carried_by = tuple(CmPayload(service, toward="passive") for service in _SERVICES)
    opcode = enum(8, ADMIN_OPCODES, "Opcode", at="0", base="hex", ws="opc")
    psdt = uint(2, "PRP or SGL", at="1", ws="psdt")
    reserved = pad(4, at="1[2]", ws="rsvd")
    fused = uint(2, "Fused Operation", at="1[6]", ws="fuse_op")
    command_id = uint(16, "Command ID", at="2", base="hex", little=True, ws="cid")
    body = rest("Command", at="4")


class NVMeIOCapsule(NVMeCommandCapsule):
    """What a host sends to an I/O queue."""

    prefix, key, section, size, title = "nvme", "cmd", "NVMe 1.4 figure 104; kernel linux/nvme.h", 4, "NVMe I/O command"
    carried_by = tuple(CmPayload(service | IO_QUEUE, toward="passive") for service in _SERVICES)
    opcode = enum(8, IO_OPCODES, "Opcode", at="0", base="hex", ws="opc")


def _admin(opcodes: frozenset[int]) -> Inside:
    return Inside(NVMeCommandCapsule.body, ((NVMeCommandCapsule.opcode, opcodes),))


def _io(opcodes: frozenset[int]) -> Inside:
    return Inside(NVMeIOCapsule.body, ((NVMeIOCapsule.opcode, opcodes),))


class NVMeCommandStart(Struct):
    """What all admin and I/O commands have after their first dword: the namespace, and where the data is."""

    prefix, key, section, size, title = "nvme", "cmd", "NVMe 1.4 figure 105; kernel linux/nvme.h struct nvme_common_command", 36, "Command"
    namespace_id = uint(32, "Namespace Id", at="0", little=True, ws="nvme.cmd.nsid")
    dword2 = uint(32, "DWORD2", at="4", base="hex", little=True, ws="nvme.cmd.dword2")
    dword3 = uint(32, "DWORD3", at="8", base="hex", little=True, ws="nvme.cmd.dword3")
    metadata_pointer = uint(64, "Metadata Pointer", at="12", base="hex", little=True, ws="nvme.cmd.mptr")
    address = uint(64, "Address", at="20", base="hex", little=True, ws="nvme.cmd.sgl1.addr")
    length = raw(3, "Length", at="28", show=length_text, ws="nvme.cmd.sgl1.len")
    key_value = secret(32, "R_Key", at="31", little=True, ws="nvme.cmd.sgl1.key")
    descriptor_type = enum(4, DESCRIPTORS, "Descriptor Type", at="35", ws="nvme.cmd.sgl.type")
    descriptor_subtype = uint(4, "Descriptor Sub Type", at="35[4]", ws="nvme.cmd.sgl.subtype")


class NVMeCommand(NVMeCommandStart):
    """A command whose own dwords are not explained further; data in the capsule follows."""

    prefix, key, section, size, title = "nvme", "cmd", "NVMe 1.4 figure 105; kernel linux/nvme.h struct nvme_common_command", 60, "Command"
    carried_by = (_admin(_OTHERS - {GET_LOG_PAGE, IDENTIFY, SET_FEATURES, GET_FEATURES}), _io(_OTHERS - BY_BLOCKS))
    dword10 = uint(32, "DWORD10", at="36", base="hex", little=True, ws="dword10")
    dword11 = uint(32, "DWORD11", at="40", base="hex", little=True, ws="dword11")
    dword12 = uint(32, "DWORD12", at="44", base="hex", little=True, ws="dword12")
    dword13 = uint(32, "DWORD13", at="48", base="hex", little=True, ws="dword13")
    dword14 = uint(32, "DWORD14", at="52", base="hex", little=True, ws="dword14")
    dword15 = uint(32, "DWORD15", at="56", base="hex", little=True, ws="dword15")
    data = rest("Data", at="60", ws="data")


class NVMeBlocks(NVMeCommandStart):
    """A command for a range of blocks: Read, Write, Compare, Write Zeroes, Verify; data in the capsule follows."""

    prefix, key, section, size = "nvme", "cmd", "NVMe 1.4 figures 385 to 390; kernel linux/nvme.h struct nvme_rw_command", 60
    title = "Blocks"
    carried_by = (_io(BY_BLOCKS),)
    first_block = uint(64, "Starting LBA", at="36", little=True, ws="slba")
    blocks = uint(16, "Number of Logical Blocks", at="44", show=blocks_text, little=True, ws="nlb")
    reserved1 = pad(8, at="46", ws="rsvd2")
    limited_retry = flag("Limited Retry", at="47", ws="lr")
    force_unit_access = flag("Force Unit Access", at="47[1]", ws="fua")
    protection_action = flag("Protection Information Action", at="47[2]", ws="prinfo.action")
    check_guard = flag("Check Guard", at="47[3]", ws="prinfo.guard")
    check_application_tag = flag("Check Application Tag", at="47[4]", ws="prinfo.apptag")
    check_reference_tag = flag("Check Reference Tag", at="47[5]", ws="prinfo.lbrtag")
    reserved2 = pad(2, at="47[6]", ws="rsvd3")
    dataset_management = uint(8, "Dataset Management", at="48", base="hex", ws="dsm")
    reserved3 = pad(24, at="49", ws="rsvd3")
    reference_tag = uint(32, "Expected Initial Block Reference Tag", at="52", base="hex", little=True, ws="eilbrt")
    application_tag = uint(16, "Expected Block Application Tag", at="56", base="hex", little=True, ws="elbat")
    application_tag_mask = uint(16, "Expected Block Application Tag Mask", at="58", base="hex", little=True, ws="elbatm")
    data = rest("Data", at="60", ws="data")


class NVMeIdentify(NVMeCommandStart):
    """Identify: what a host wants to know of a controller or a namespace."""

    prefix, key, section, size = "nvme", "cmd.identify", "NVMe 1.4 figure 244; kernel linux/nvme.h struct nvme_identify", 60
    title = "Identify"
    carried_by = (_admin(frozenset({IDENTIFY})),)
    cns = enum(8, IDENTIFIED, "Controller or Namespace Structure", at="36", base="hex", ws="dword10.cns")
    reserved1 = pad(8, at="37", ws="dword10.rsvd")
    controller_id = uint(16, "Controller ID", at="38", base="hex", little=True, ws="dword10.cntid")
    reserved2 = raw(20, "Reserved", at="40", ws="rsvd")


class NVMeSetFeatures(NVMeCommandStart):
    """Set Features: which feature gets which value."""

    prefix, key, section, size = "nvme", "cmd.set_features", "NVMe 1.4 figure 271; kernel linux/nvme.h struct nvme_features", 60
    title = "Set Features"
    carried_by = (_admin(frozenset({SET_FEATURES})),)
    feature = enum(8, FEATURES, "Feature Identifier", at="36", base="hex", ws="dword10.fid")
    reserved1 = pad(16, at="37", ws="dword10.rsvd")
    save = flag("Save", at="39", ws="dword10.sv")
    reserved2 = pad(7, at="39[1]", ws="dword10.rsvd")
    value = uint(32, "Value", at="40", base="hex", little=True, ws="dword11")
    dwords = raw(16, "DWORD12 to DWORD15", at="44", ws="dwords")
    data = rest("Data", at="60", ws="data")


class NVMeGetFeatures(NVMeCommandStart):
    """Get Features: which value of which feature a host asks for."""

    prefix, key, section, size = "nvme", "cmd.get_features", "NVMe 1.4 figure 190; kernel linux/nvme.h struct nvme_features", 60
    title = "Get Features"
    carried_by = (_admin(frozenset({GET_FEATURES})),)
    feature = enum(8, FEATURES, "Feature Identifier", at="36", base="hex", ws="dword10.fid")
    reserved1 = pad(5, at="37", ws="dword10.rsvd")
    select = enum(3, SELECTED, "Select", at="37[5]", ws="dword10.sel")
    reserved2 = pad(16, at="38", ws="dword10.rsvd")
    value = uint(32, "DWORD11", at="40", base="hex", little=True, ws="dword11")
    dwords = raw(16, "DWORD12 to DWORD15", at="44", ws="dwords")


class NVMeGetLogPage(NVMeCommandStart):
    """Get Log Page: which log, from where, how much of it."""

    prefix, key, section, size = "nvme", "cmd.get_logpage", "NVMe 1.4 figure 191; kernel linux/nvme.h struct nvme_get_log_page_command", 60
    title = "Get Log Page"
    carried_by = (_admin(frozenset({GET_LOG_PAGE})),)
    page = enum(8, LOG_PAGES, "Log Page Identifier", at="36", base="hex", ws="dword10.id")
    retain_event = flag("Retain Asynchronous Event", at="37", ws="dword10.rae")
    reserved0 = pad(3, at="37[1]", ws="dword10.rsvd")
    specific = uint(4, "Log Specific Field", at="37[4]", ws="dword10.lsp")
    dwords_low = uint(16, "Number of Dwords, lower", at="38", little=True, ws="dword10.numdl")
    dwords_high = uint(16, "Number of Dwords, upper", at="40", little=True, ws="dword11.numdu")
    log_id = uint(16, "Log Specific Identifier", at="42", base="hex", little=True, ws="dword11.lsi")
    page_offset = uint(64, "Log Page Offset", at="44", base="hex", little=True, ws="lpo")
    reserved1 = raw(8, "Reserved", at="52", ws="rsvd")


class NVMeFabricsCommand(Struct):
    """A Fabrics command after its first dword; data in the capsule follows."""

    prefix, key, section, size = "nvme", "fabrics.cmd", "NVMe over Fabrics 1.1 figure 12; kernel linux/nvme.h", 60
    title = "Fabrics command"
    carried_by = (_admin(frozenset({FABRICS})), _io(frozenset({FABRICS})))
    command_type = enum(8, FABRICS_COMMANDS, "Fabric Command Type", at="0", base="hex", ws="fctype")
    reserved = raw(19, "Reserved", at="1", ws="rsvd1")
    address = uint(64, "Address", at="20", base="hex", little=True, ws="nvme.cmd.sgl1.addr")
    length = raw(3, "Length", at="28", show=length_text, ws="nvme.cmd.sgl1.len")
    key_value = secret(32, "R_Key", at="31", little=True, ws="nvme.cmd.sgl1.key")
    descriptor_type = enum(4, DESCRIPTORS, "Descriptor Type", at="35", ws="nvme.cmd.sgl.type")
    descriptor_subtype = uint(4, "Descriptor Sub Type", at="35[4]", ws="nvme.cmd.sgl.subtype")
    specific = raw(24, "Command specific", at="36", ws="specific")
    data = rest("Data", at="60", ws="data")


class NVMeConnect(Struct):
    """What Connect asks for."""

    prefix, key, section, size = "nvme", "fabrics.cmd.connect", "NVMe over Fabrics 1.1 figure 19; kernel linux/nvme.h", 24
    title = "Connect"
    carried_by = (Inside(NVMeFabricsCommand.specific, ((NVMeFabricsCommand.command_type, frozenset({1})),)),)
    record_format = uint(16, "Record Format", at="0", little=True, ws="recfmt")
    queue_id = uint(16, "Queue ID", at="2", show=queue_text, little=True, ws="qid")
    submission_queue_size = uint(16, "Submission Queue Size", at="4", show=one_based_text, little=True, ws="sqsize")
    attributes = uint(8, "Connect Attributes", at="6", base="hex", ws="cattr")
    reserved1 = pad(8, at="7", ws="rsvd2")
    keep_alive_timeout = uint(32, "Keep Alive Timeout", at="8", unit="ms", little=True, ws="kato")
    reserved2 = raw(12, "Reserved", at="12", ws="rsvd3")


class NVMeConnectData(Struct):
    """Who connects to which subsystem, as far as the packet holds it."""

    prefix, key, section, size = "nvme", "fabrics.cmd.connect.data", "NVMe over Fabrics 1.1 figure 20; kernel linux/nvme.h", 768
    title = "Connect data"
    carried_by = (Inside(NVMeFabricsCommand.data, ((NVMeFabricsCommand.command_type, frozenset({1})),)),)
    host_id = raw(16, "Host Identifier", at="0", ws="hostid")
    controller_id = uint(16, "Controller ID", at="16", base="hex", little=True, ws="cntrlid")
    reserved = raw(238, "Reserved", at="18", ws="rsvd0")
    subsystem = text(256, "Subsystem NQN", at="256", ws="subnqn")
    host = text(256, "Host NQN", at="512", ws="hostnqn")


class NVMeProperty(Struct):
    """Which property is read or written."""

    prefix, key, section, size = "nvme", "fabrics.cmd.prop_get_set", "NVMe over Fabrics 1.1 figures 23, 25; kernel linux/nvme.h", 24
    title = "Property"
    carried_by = (Inside(NVMeFabricsCommand.specific, ((NVMeFabricsCommand.command_type, frozenset({0, 4})),)),)
    reserved1 = pad(5, at="0", ws="attrib.rsvd")
    size_code = enum(3, {0: "4 bytes", 1: "8 bytes"}, "Property Size", at="0[5]", ws="nvme.fabrics.cmd.prop_get_set.attrib.size")
    reserved2 = pad(24, at="1", ws="rsvd1")
    offset_ = enum(32, PROPERTIES, "Offset", at="4", base="hex", little=True, ws="nvme.fabrics.cmd.prop_get_set.offset")
    value = uint(64, "Value", at="8", base="hex", little=True, ws="data")
    reserved3 = raw(8, "Reserved", at="16", ws="rsvd2")


class NVMeResponse(Struct):
    """What a controller answers: a completion queue entry."""

    prefix, key, section, size = "nvme", "cqe", "NVMe 1.4 figure 123; kernel linux/nvme.h struct nvme_completion", 16
    title = "NVMe response"
    carried_by = tuple(CmPayload(service, mask=IO_QUEUE - 1, toward="active") for service in _SERVICES)
    dword0 = uint(32, "DWORD0", at="0", base="hex", little=True)
    dword1 = uint(32, "DWORD1", at="4", base="hex", little=True)
    sq_head = uint(16, "SQ Head Pointer", at="8", little=True, ws="sqhd")
    sq_id = uint(16, "SQ Identifier", at="10", little=True, ws="sqid")
    command_id = uint(16, "Command Identifier", at="12", base="hex", little=True, ws="cid")
    status = uint(16, "Status Field", at="14", show=status_text, little=True)
