"""What do SCSI RDMA Protocol logins hold: request, response and rejection in the private data of REQ, REP and REJ?"""

from __future__ import annotations

from collections.abc import Mapping

from ..spec import Struct, bit, enum, gid, pad, part, uint

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
    type = enum(8, TYPES, "Type", at="0", base="hex")
    reserved1 = pad(56, at="1")
    tag = uint(64, "Tag", at="8", base="hex")
    requested_iu_length = uint(32, "Requested Maximum Initiator To Target IU Length", at="16", unit="bytes", ws="reqitiulen")
    reserved2 = pad(32, at="20")
    buffer_formats = uint(16, "Required Buffer Formats", at="24", base="hex")
    direct = bit(buffer_formats, 1, "Direct Data Buffers")
    indirect = bit(buffer_formats, 2, "Indirect Data Buffers")
    flags = uint(8, "Flags", at="26", base="hex")
    immediate_data = bit(flags, 7, "Immediate Data Requested")
    multi_channel_action = part(flags, 1, 0, "Multi-channel Action", values={0: "single", 1: "multiple"})
    reserved3 = pad(8, at="27")
    immediate_offset = uint(16, "Immediate Data Offset", at="28", unit="bytes")
    reserved4 = pad(16, at="30")
    initiator_port_id = gid("Initiator Port ID", at="32")
    target_port_id = gid("Target Port ID", at="48")


class SRPLoginRsp(Struct):
    """A login that succeeded."""

    key, section, size, title = "srp.loginrsp", "SRP r16a 6.3; kernel scsi/srp.h struct srp_login_rsp", 52, "SRP_LOGIN_RSP"
    type = enum(8, TYPES, "Type", at="0", base="hex")
    reserved1 = pad(24, at="1")
    request_limit_delta = uint(32, "Request Limit Delta", at="4")
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
    type = enum(8, TYPES, "Type", at="0", base="hex")
    reserved1 = pad(24, at="1")
    reason = enum(32, REJECT_REASONS, "Reason", at="4", base="hex")
    tag = uint(64, "Tag", at="8", base="hex")
    reserved2 = pad(64, at="16")
    buffer_formats = uint(16, "Supported Buffer Formats", at="24", base="hex")
    direct = bit(buffer_formats, 1, "Direct Data Buffers")
    indirect = bit(buffer_formats, 2, "Indirect Data Buffers")
    reserved3 = pad(48, at="26")
