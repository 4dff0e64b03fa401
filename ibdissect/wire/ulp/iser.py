"""iSER: the flags exchanged at connection, Hello messages, the header before each iSCSI PDU."""

from __future__ import annotations

from collections.abc import Mapping

from ..cm_names import IP_CM_PREFIX
from ..places import CmPayload, CmService
from ..spec import Struct, bit, enum, flag, hole, pad, rest, secret, uint
from .rdma_cm import IP_CM_SIZE

ISER_PORT = 3260
SERVICE = IP_CM_PREFIX | 0x06 << 16 | ISER_PORT

OPCODES: Mapping[int, str] = {1: "iSCSI control-type PDU", 2: "Hello", 3: "HelloReply"}
"""First four bits of an iSER header (RFC 7145 9)."""


class ISERConnectRequest(Struct):
    """What an initiator cannot do, after the header of RDMA IP CM."""

    key, section, size, title = "iser.cm.req", "IBA annex A12; kernel scsi/iser.h", 40, "iSER connect request"
    carried_by = (CmService(SERVICE, messages=frozenset({0x0010})),)
    header = hole(IP_CM_SIZE, "RDMA IP CM header", at="0")
    flags = uint(8, "Flags", at="36", base="hex")
    no_zero_based_addresses = bit(flags, 7, "ZBVA Not Supported", ws="zbva_not_supported")
    no_send_invalidate = bit(flags, 6, "Send With Invalidate Not Supported", ws="swi_not_supported")
    reserved = pad(24, at="37")


class ISERConnectReply(Struct):
    """What a target will not use on the new connection."""

    key, section, size, title = "iser.cm.rep", "IBA annex A12; kernel scsi/iser.h", 4, "iSER connect reply"
    carried_by = (CmService(SERVICE, messages=frozenset({0x0013})),)
    flags = uint(8, "Flags", at="0", base="hex")
    no_zero_based_addresses = bit(flags, 7, "ZBVA Not Used", ws="zbva_not_used")
    no_send_invalidate = bit(flags, 6, "Send With Invalidate Not Used", ws="swi_not_used")
    reserved = pad(24, at="1")


class ISERControl(Struct):
    """Header of an iSCSI control-type PDU: where its data may be read and written."""

    key, section, size, title = "iser", "RFC 7145 9.2; kernel scsi/iser.h struct iser_ctrl", 28, "iSER"
    carried_by = (CmPayload(SERVICE, starts=(0xF0, 0x10)),)
    opcode = enum(4, OPCODES, "Opcode", at="0", base="hex", ws="iser.flags.opcode")
    wsv = flag("WSV", at="0[4]", ws="iser.flags.wsv")
    rsv = flag("RSV", at="0[5]", ws="iser.flags.rsv")
    write_stag = secret(32, "R_Key", "Write STag", at="..4", ws="iser.write_stag")
    write_base_offset = uint(64, "Write Base Offset", at="8", base="hex", ws="iser.write_base_offset")
    read_stag = secret(32, "R_Key", "Read STag", at="16", ws="iser.read_stag")
    read_base_offset = uint(64, "Read Base Offset", at="20", base="hex", ws="iser.read_base_offset")
    pdu = rest("iSCSI PDU", at="28")


class ISERHello(Struct):
    """The initiator's Hello."""

    key, section, size, title = "iser.hello", "RFC 7145 9.3", 28, "iSER Hello"
    carried_by = (CmPayload(SERVICE, toward="passive", starts=(0xF0, 0x20)),)
    opcode = enum(4, OPCODES, "Opcode", at="0", base="hex", ws="iser.flags.opcode")
    max_version = uint(4, "MaxVer", at="..1")
    min_version = uint(4, "MinVer", at="1[4]")
    iser_ird = uint(16, "iSER-IRD", at="2", ws="iser.ird")
    reserved2 = pad(192, at="4")


class ISERHelloReply(Struct):
    """The target's answer to a Hello."""

    key, section, size, title = "iser.helloreply", "RFC 7145 9.4", 28, "iSER HelloReply"
    carried_by = (CmPayload(SERVICE, toward="active", starts=(0xF0, 0x30)),)
    opcode = enum(4, OPCODES, "Opcode", at="0", base="hex", ws="iser.flags.opcode")
    reject = flag("REJ", at="..0[7]", ws="iser.flags.rej")
    max_version = uint(4, "MaxVer", at="1")
    cur_version = uint(4, "CurVer", at="1[4]")
    iser_ord = uint(16, "iSER-ORD", at="2", ws="iser.ord")
    reserved2 = pad(192, at="4")
