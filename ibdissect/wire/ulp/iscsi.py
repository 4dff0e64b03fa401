"""iSCSI PDUs in iSER: the basic header segment, commands, responses, logins and their keys."""

from __future__ import annotations

from collections.abc import Mapping

from ..places import Inside
from ..spec import Struct, bit, enum, flag, nested, pad, part, raw, rest, uint
from ..tail import optional, repeat, text_until
from .iser import ISERControl

OPCODES: Mapping[int, str] = {
    0x00: "NOP Out", 0x01: "SCSI Command", 0x02: "Task Management Request", 0x03: "Login Command", 0x04: "Text Command",
    0x05: "SCSI Data Out", 0x06: "Logout Command", 0x10: "SNACK Request", 0x20: "NOP In", 0x21: "SCSI Response",
    0x22: "Task Management Response", 0x23: "Login Response", 0x24: "Text Response", 0x25: "SCSI Data In", 0x26: "Logout Response",
    0x31: "Ready To Transfer", 0x32: "Asynchronous Message", 0x3F: "Reject",
}  # fmt: skip
"""Opcodes (RFC 7143 11.2.1.2; Wireshark's names)."""

HEADER = 48
"""Bytes of the basic header segment."""
_WITH_KEYS = frozenset({0x03, 0x04, 0x23, 0x24})


class ISCSIKey(Struct):
    """One `key=value` of a login or of text negotiation."""

    key, section, size, title = "iser.iscsi.key", "RFC 7143 6.1", 0, "Key"
    key_value = text_until(b"\0", "KeyValue", ws="iscsi.keyvalue")


class ISCSI(Struct):
    """What every PDU starts with; fields of its own opcode, additional headers and data follow."""

    key, section, size, title = "iser.iscsi", "RFC 7143 11.2.1", 20, "iSCSI"
    carried_by = (Inside(ISERControl.pdu),)
    reserved = pad(1, at="0")
    immediate = flag("Immediate", at="0[1]", ws="iscsi.immediate")
    opcode = enum(6, OPCODES, "Opcode", at="0[2]", base="hex", ws="iscsi.opcode")
    flags = uint(8, "Flags", at="1", base="hex", ws="iscsi.flags")
    final = bit(flags, 7, "Final", ws="iscsi.final")
    opcode_specific = raw(2, "Opcode specific", at="2", ws="iscsi.opcodespecific")
    total_ahs_length = uint(8, "TotalAHSLength", at="4", unit="words", ws="iscsi.totalahslength")
    data_segment_length = uint(24, "DataSegmentLength", at="5", unit="bytes", ws="iscsi.datasegmentlength")
    lun = uint(64, "LUN or opcode specific", at="8", base="hex", ws="iscsi.lun")
    initiator_task_tag = uint(32, "InitiatorTaskTag", at="16", base="hex", ws="iscsi.initiatortasktag")
    body = rest("Body", at="20")
    keys = optional(
        opcode.isin(_WITH_KEYS),
        repeat(nested(ISCSIKey, "Key"), at=total_ahs_length * 4 + HEADER, size=data_segment_length),
    )


class ISCSICommand(Struct):
    """A SCSI command."""

    key, section, size, title = "iser.iscsi.command", "RFC 7143 11.3", 28, "SCSI Command"
    carried_by = (Inside(ISCSI.body, ((ISCSI.opcode, frozenset({0x01})),)),)
    expected_length = uint(32, "ExpectedDataTransferLength", at="0", unit="bytes", ws="iscsi.scsicommand.expecteddatatransferlength")
    command_number = uint(32, "CmdSN", at="4", ws="iscsi.cmdsn")
    expected_status_number = uint(32, "ExpStatSN", at="8", ws="iscsi.expstatsn")
    cdb = raw(16, "CDB", at="12")


class ISCSIResponse(Struct):
    """How a SCSI command ended."""

    key, section, size, title = "iser.iscsi.response", "RFC 7143 11.4", 28, "SCSI Response"
    carried_by = (Inside(ISCSI.body, ((ISCSI.opcode, frozenset({0x21})),)),)
    snack_tag = uint(32, "SNACK Tag", at="0", base="hex")
    status_number = uint(32, "StatSN", at="4", ws="iscsi.statsn")
    expected_command_number = uint(32, "ExpCmdSN", at="8", ws="iscsi.expcmdsn")
    max_command_number = uint(32, "MaxCmdSN", at="12", ws="iscsi.maxcmdsn")
    expected_data_number = uint(32, "ExpDataSN", at="16", ws="iscsi.expdatasn")
    bidirectional_residual = uint(32, "BidiReadResidualCount", at="20", ws="iscsi.scsiresponse.bidireadresidualcount")
    residual = uint(32, "ResidualCount", at="24", ws="iscsi.scsiresponse.residualcount")


class ISCSILogin(Struct):
    """A login request."""

    key, section, size, title = "iser.iscsi.login", "RFC 7143 11.12", 28, "Login Command"
    carried_by = (Inside(ISCSI.body, ((ISCSI.opcode, frozenset({0x03})),)),)
    connection_id = uint(16, "CID", at="0", ws="iscsi.cid")
    command_number = uint(32, "CmdSN", at="..4", ws="iscsi.cmdsn")
    expected_status_number = uint(32, "ExpStatSN", at="8", ws="iscsi.expstatsn")
    reserved2 = pad(128, at="12")


class ISCSILoginResponse(Struct):
    """How far a login got."""

    key, section, size, title = "iser.iscsi.loginresponse", "RFC 7143 11.13", 28, "Login Response"
    carried_by = (Inside(ISCSI.body, ((ISCSI.opcode, frozenset({0x23})),)),)
    status_number = uint(32, "StatSN", at="..4", ws="iscsi.statsn")
    expected_command_number = uint(32, "ExpCmdSN", at="8", ws="iscsi.expcmdsn")
    max_command_number = uint(32, "MaxCmdSN", at="12", ws="iscsi.maxcmdsn")
    status = uint(16, "Status", at="16", base="hex", ws="iscsi.login.status")
    status_class = part(status, 15, 8, "Status Class", values={0: "success", 1: "redirection", 2: "initiator error", 3: "target error"})
    reserved2 = pad(80, at="18")
