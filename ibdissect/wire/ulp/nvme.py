"""What do NVMe over Fabrics capsules contain: commands, Fabrics commands, responses? All little-endian."""

from __future__ import annotations

from collections.abc import Mapping

from ..cm_names import IP_CM_PREFIX
from ..places import CmPayload, Inside
from ..spec import Struct, enum, pad, raw, rest, secret, text, uint
from .nvme_rdma import NVME_PORT, one_based_text, queue_text

DISCOVERY_PORT = 8009
_SERVICES = tuple(IP_CM_PREFIX | 0x06 << 16 | port for port in (NVME_PORT, DISCOVERY_PORT))
FABRICS = 0x7F
_OTHERS = frozenset(range(256)) - {FABRICS}

OPCODES: Mapping[int, str] = {
    0x00: "Flush or Delete I/O SQ", 0x01: "Write or Create I/O SQ", 0x02: "Read or Get Log Page",
    0x04: "Write Uncorrectable or Delete I/O CQ", 0x05: "Compare or Create I/O CQ",
    0x06: "Identify", 0x08: "Write Zeroes or Abort", 0x09: "Dataset Management or Set Features",
    0x0A: "Get Features", 0x0C: "Verify or Asynchronous Event Request", 0x0D: "Reservation Register or Namespace Management",
    0x0E: "Reservation Report", 0x10: "Firmware Commit", 0x11: "Reservation Acquire or Firmware Image Download",
    0x14: "Device Self-test", 0x15: "Reservation Release or Namespace Attachment", 0x18: "Keep Alive", 0x19: "Copy or Directive Send",
    0x1A: "Directive Receive", 0x7F: "Fabrics", 0x80: "Format NVM", 0x81: "Security Send", 0x82: "Security Receive", 0x84: "Sanitize",
}  # fmt: skip
"""Opcodes of both I/O and admin commands (NVMe 1.4 figures 139 and 346), because the capsule does not give its queue."""

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


def length_text(value: bytes) -> str:
    """A three-byte length."""
    return f"{int.from_bytes(value, 'little')} bytes"


class NVMeCommandCapsule(Struct):
    """What a host sends: the first dword of a command; the rest of the command and data in the capsule follow."""

    prefix, key, section, size, title = "nvme", "cmd", "NVMe 1.4 figure 104; kernel linux/nvme.h", 4, "NVMe command"
    carried_by = tuple(CmPayload(service, toward="passive") for service in _SERVICES)
    opcode = enum(8, OPCODES, "Opcode", at="0", base="hex", ws="opc")
    psdt = uint(2, "PRP or SGL", at="1", ws="psdt")
    reserved = pad(4, at="1[2]", ws="rsvd")
    fused = uint(2, "Fused Operation", at="1[6]", ws="fuse_op")
    command_id = uint(16, "Command ID", at="2", base="hex", little=True, ws="cid")
    body = rest("Command", at="4")


class NVMeCommand(Struct):
    """An admin or I/O command after its first dword."""

    prefix, key, section, size, title = "nvme", "cmd", "NVMe 1.4 figure 105; kernel linux/nvme.h struct nvme_common_command", 60, "Command"
    carried_by = (Inside(NVMeCommandCapsule.body, ((NVMeCommandCapsule.opcode, _OTHERS),)),)
    namespace_id = uint(32, "Namespace Id", at="0", little=True, ws="nsid")
    dword2 = uint(32, "DWORD2", at="4", base="hex", little=True)
    dword3 = uint(32, "DWORD3", at="8", base="hex", little=True)
    metadata_pointer = uint(64, "Metadata Pointer", at="12", base="hex", little=True, ws="mptr")
    address = uint(64, "Address", at="20", base="hex", little=True, ws="nvme.cmd.sgl1.addr")
    length = raw(3, "Length", at="28", show=length_text, ws="nvme.cmd.sgl1.len")
    key_value = secret(32, "R_Key", at="31", little=True, ws="nvme.cmd.sgl1.key")
    descriptor_type = enum(4, DESCRIPTORS, "Descriptor Type", at="35", ws="nvme.cmd.sgl.type")
    descriptor_subtype = uint(4, "Descriptor Sub Type", at="35[4]", ws="nvme.cmd.sgl.subtype")
    dword10 = uint(32, "DWORD10", at="36", base="hex", little=True, ws="dword10")
    dword11 = uint(32, "DWORD11", at="40", base="hex", little=True, ws="dword11")
    dword12 = uint(32, "DWORD12", at="44", base="hex", little=True, ws="dword12")
    dword13 = uint(32, "DWORD13", at="48", base="hex", little=True, ws="dword13")
    dword14 = uint(32, "DWORD14", at="52", base="hex", little=True, ws="dword14")
    dword15 = uint(32, "DWORD15", at="56", base="hex", little=True, ws="dword15")


class NVMeFabricsCommand(Struct):
    """A Fabrics command after its first dword; data in the capsule follows."""

    prefix, key, section, size = "nvme", "fabrics.cmd", "NVMe over Fabrics 1.1 figure 12; kernel linux/nvme.h", 60
    title = "Fabrics command"
    carried_by = (Inside(NVMeCommandCapsule.body, ((NVMeCommandCapsule.opcode, frozenset({FABRICS})),)),)
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
    carried_by = tuple(CmPayload(service, toward="active") for service in _SERVICES)
    dword0 = uint(32, "DWORD0", at="0", base="hex", little=True)
    dword1 = uint(32, "DWORD1", at="4", base="hex", little=True)
    sq_head = uint(16, "SQ Head Pointer", at="8", little=True, ws="sqhd")
    sq_id = uint(16, "SQ Identifier", at="10", little=True, ws="sqid")
    command_id = uint(16, "Command Identifier", at="12", base="hex", little=True, ws="cid")
    status = uint(16, "Status Field", at="14", show=status_text, little=True)
