"""SCSI RDMA Protocol (SRP): logins in the private data of REQ, REP and REJ, commands and responses."""

from __future__ import annotations

from collections.abc import Mapping

from ..places import CmPayload, CmService
from ..spec import Struct, bit, enum, gid, nested, pad, part, raw, rest, secret, uint
from ..tail import optional, repeat

NAME = "SRP.T10:"
"""Prefix of SRP service names in an I/O controller's list, which gives their service ids (SRP r16a annex B)."""

TYPES: Mapping[int, str] = {
    0x00: "SRP_LOGIN_REQ", 0x01: "SRP_TSK_MGMT", 0x02: "SRP_CMD", 0x03: "SRP_I_LOGOUT", 0xC0: "SRP_LOGIN_RSP", 0xC1: "SRP_RSP",
    0xC2: "SRP_LOGIN_REJ", 0x80: "SRP_T_LOGOUT", 0x81: "SRP_CRED_REQ", 0x82: "SRP_AER_REQ", 0x41: "SRP_CRED_RSP", 0x42: "SRP_AER_RSP",
}  # fmt: skip
"""Types of information units (SRP r16a; kernel scsi/srp.h)."""

REJECT_REASONS: Mapping[int, str] = {
    0x00010000: "Unable to establish the channel", 0x00010001: "Insufficient resources", 0x00010002: "Requested IU length too large",
    0x00010003: "Unable to associate the channel", 0x00010004: "Unsupported descriptor format", 0x00010005: "Multi-channel not supported",
    0x00010006: "Channel limit reached",
}  # fmt: skip
"""Reason of a login rejection (kernel scsi/srp.h)."""


class SRPLoginReq(Struct):
    """A login request; where the CM message is not of RDMA IP CM, whose private data has no room for it."""

    key, section, size, title = "srp.loginreq", "SRP r16a 6.2; kernel scsi/srp.h struct srp_login_req", 64, "SRP_LOGIN_REQ"
    carried_by = (CmService(0, messages=frozenset({0x0010}), named=NAME),)
    type = enum(8, TYPES, "Type", at="0", base="hex")
    tag = uint(64, "Tag", at="..8", base="hex")
    requested_iu_length = uint(32, "Requested Maximum Initiator To Target IU Length", at="16", unit="bytes", ws="reqitiulen")
    buffer_formats = uint(16, "Required Buffer Formats", at="..24", base="hex")
    direct = bit(buffer_formats, 1, "Direct Data Buffers")
    indirect = bit(buffer_formats, 2, "Indirect Data Buffers")
    flags = uint(8, "Flags", at="26", base="hex")
    immediate_data = bit(flags, 7, "Immediate Data Requested")
    multi_channel_action = part(flags, 1, 0, "Multi-channel Action", values={0: "single", 1: "multiple"})
    immediate_offset = uint(16, "Immediate Data Offset", at="..28", unit="bytes")
    initiator_port_id = gid("Initiator Port ID", at="..32")
    target_port_id = gid("Target Port ID", at="48")


class SRPLoginRsp(Struct):
    """A login that succeeded."""

    key, section, size, title = "srp.loginrsp", "SRP r16a 6.3; kernel scsi/srp.h struct srp_login_rsp", 52, "SRP_LOGIN_RSP"
    carried_by = (CmService(0, messages=frozenset({0x0013}), named=NAME),)
    type = enum(8, TYPES, "Type", at="0", base="hex")
    request_limit_delta = uint(32, "Request Limit Delta", at="..4")
    tag = uint(64, "Tag", at="8", base="hex")
    max_it_iu_length = uint(32, "Maximum Initiator To Target IU Length", at="16", unit="bytes", ws="maxitiulen")
    max_ti_iu_length = uint(32, "Maximum Target To Initiator IU Length", at="20", unit="bytes", ws="maxtiiulen")
    buffer_formats = uint(16, "Supported Buffer Formats", at="24", base="hex")
    direct = bit(buffer_formats, 1, "Direct Data Buffers")
    indirect = bit(buffer_formats, 2, "Indirect Data Buffers")
    flags = uint(8, "Flags", at="26", base="hex")
    immediate_data = bit(flags, 7, "Immediate Data Supported")
    multi_channel_result = part(flags, 1, 0, "Multi-channel Result", values={0: "no channels", 1: "terminated", 2: "maintained"})
    reserved2 = pad(200, at="27")


class SRPLoginRej(Struct):
    """A login that failed."""

    key, section, size, title = "srp.loginrej", "SRP r16a 6.4; kernel scsi/srp.h struct srp_login_rej", 32, "SRP_LOGIN_REJ"
    carried_by = (CmService(0, messages=frozenset({0x0012}), named=NAME),)
    type = enum(8, TYPES, "Type", at="0", base="hex")
    reason = enum(32, REJECT_REASONS, "Reason", at="..4", base="hex")
    tag = uint(64, "Tag", at="8", base="hex")
    buffer_formats = uint(16, "Supported Buffer Formats", at="..24", base="hex")
    direct = bit(buffer_formats, 1, "Direct Data Buffers")
    indirect = bit(buffer_formats, 2, "Indirect Data Buffers")
    reserved3 = pad(48, at="26")


TASK_FUNCTIONS: Mapping[int, str] = {1: "Abort Task", 2: "Abort Task Set", 4: "Clear Task Set", 8: "LUN Reset", 0x40: "Clear ACA"}
"""Task management functions (kernel scsi/srp.h)."""


DIRECT, INDIRECT, IMMEDIATE = 1, 2, 3
"""Formats of data descriptors."""


class SRPDescriptor(Struct):
    """Memory of the initiator that the target may read or write."""

    key, section, size, title = "srp.descriptor", "SRP r16a 6.8; kernel scsi/srp.h struct srp_direct_buf", 16, "Memory descriptor"
    virtual_address = uint(64, "Virtual Address", at="0", base="hex")
    memory_handle = secret(32, "R_Key", "Memory Handle (R_Key)", at="8")
    length = uint(32, "Length", at="12", unit="bytes")


class SRPCommand(Struct):
    """A SCSI command; the rest of the CDB and the data descriptors follow."""

    key, section, size, title = "srp.cmd", "SRP r16a 6.8; kernel scsi/srp.h struct srp_cmd", 48, "SRP_CMD"
    carried_by = (CmPayload(0, toward="passive", starts=(0xFF, 0x02), named=NAME),)
    type = enum(8, TYPES, "Type", at="0", base="hex")
    solicited_notification = uint(8, "Solicited Notification", at="1", base="hex")
    buffer_formats = uint(8, "Buffer Formats", at="..5", base="hex")
    data_out = part(buffer_formats, 7, 4, "Data Out Format")
    data_in = part(buffer_formats, 3, 0, "Data In Format")
    data_out_count = uint(8, "Data Out Descriptor Count", at="6")
    data_in_count = uint(8, "Data In Descriptor Count", at="7")
    tag = uint(64, "Tag", at="8", base="hex")
    lun = uint(64, "LUN", at="..20", base="hex")
    task_attribute = uint(8, "Task Attribute", at="..29", base="hex")
    additional_cdb_length = uint(8, "Additional CDB Length", at="..31", base="hex")
    cdb = raw(16, "CDB", at="32")
    additional = rest("Additional CDB and Descriptors", at="48")
    additional_cdb = optional(additional_cdb_length > 3, raw(additional_cdb_length & 0xFC, "Additional CDB"))
    out_first = optional(data_out.isin((DIRECT, INDIRECT)), nested(SRPDescriptor, "Data Out Descriptor"))
    out_total = optional(data_out == INDIRECT, uint(32, "Data Out Total Length", unit="bytes"))
    out_table = optional(data_out == INDIRECT, repeat(nested(SRPDescriptor, "Data Out Descriptor"), count=data_out_count))
    out_immediate = optional(data_out == IMMEDIATE, uint(32, "Data Out Immediate Length", unit="bytes"))
    in_first = optional((data_out <= IMMEDIATE) & data_in.isin((DIRECT, INDIRECT)), nested(SRPDescriptor, "Data In Descriptor"))
    in_total = optional((data_out <= IMMEDIATE) & (data_in == INDIRECT), uint(32, "Data In Total Length", unit="bytes"))
    in_table = optional(
        (data_out <= IMMEDIATE) & (data_in == INDIRECT), repeat(nested(SRPDescriptor, "Data In Descriptor"), count=data_in_count)
    )


class SRPTaskManagement(Struct):
    """A task management request."""

    key, section, size, title = "srp.tskmgmt", "SRP r16a 6.7; kernel scsi/srp.h struct srp_tsk_mgmt", 48, "SRP_TSK_MGMT"
    carried_by = (CmPayload(0, toward="passive", starts=(0xFF, 0x01), named=NAME),)
    type = enum(8, TYPES, "Type", at="0", base="hex")
    solicited_notification = uint(8, "Solicited Notification", at="1", base="hex")
    tag = uint(64, "Tag", at="..8", base="hex")
    lun = uint(64, "LUN", at="..20", base="hex")
    function = enum(8, TASK_FUNCTIONS, "Function", at="..30", base="hex")
    task_tag = uint(64, "Task Tag", at="..32", base="hex")
    reserved5 = pad(64, at="40")


class SRPResponse(Struct):
    """The status of a command; response and sense data follow."""

    key, section, size, title = "srp.rsp", "SRP r16a 6.9; kernel scsi/srp.h struct srp_rsp", 36, "SRP_RSP"
    carried_by = (CmPayload(0, toward="active", starts=(0xFF, 0xC1), named=NAME),)
    type = enum(8, TYPES, "Type", at="0", base="hex")
    solicited_notification = uint(8, "Solicited Notification", at="1", base="hex")
    request_limit_delta = uint(32, "Request Limit Delta", at="..4")
    tag = uint(64, "Tag", at="8", base="hex")
    flags = uint(8, "Flags", at="..18", base="hex")
    response_valid = bit(flags, 0, "RSPVALID")
    sense_valid = bit(flags, 1, "SNSVALID")
    status = uint(8, "Status", at="19", base="hex")
    data_out_residual = uint(32, "Data Out Residual Count", at="20")
    data_in_residual = uint(32, "Data In Residual Count", at="24")
    sense_length = uint(32, "Sense Data Length", at="28", unit="bytes")
    response_length = uint(32, "Response Data Length", at="32", unit="bytes")
    data = rest("Response and Sense Data", at="36")


class SRPEvent(Struct):
    """An asynchronous event of a logical unit; sense data follow."""

    key, section, size, title = "srp.aer", "SRP r16a 6.12; kernel scsi/srp.h struct srp_aer_req", 36, "SRP_AER_REQ"
    carried_by = (CmPayload(0, toward="active", starts=(0xFF, 0x82), named=NAME),)
    type = enum(8, TYPES, "Type", at="0", base="hex")
    solicited_notification = uint(8, "Solicited Notification", at="1", base="hex")
    request_limit_delta = uint(32, "Request Limit Delta", at="..4")
    tag = uint(64, "Tag", at="8", base="hex")
    lun = uint(64, "LUN", at="..20", base="hex")
    sense_length = uint(32, "Sense Data Length", at="28", unit="bytes")
    sense = rest("Sense Data", at="..36")


class SRPCredit(Struct):
    """A message that only moves credits, or ends the session: credit and event responses, logouts."""

    key, section, size, title = "srp.credit", "SRP r16a 6.10; kernel scsi/srp.h", 16, "SRP"
    carried_by = tuple(CmPayload(0, starts=(0xFF, code), named=NAME) for code in (0x03, 0x80, 0x81, 0x41, 0x42))
    type = enum(8, TYPES, "Type", at="0", base="hex")
    solicited_notification = uint(8, "Solicited Notification", at="1", base="hex")
    reserved = pad(16, at="2")
    value = uint(32, "Request Limit Delta or Reason", at="4", base="hex")
    tag = uint(64, "Tag", at="8", base="hex")
