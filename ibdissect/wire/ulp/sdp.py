"""Sockets Direct Protocol (SDP): the header of each message, and the Hello in the private data of a REQ."""

from __future__ import annotations

from collections.abc import Mapping

from ..cm_names import SDP_MASK, SDP_PREFIX
from ..places import CmService
from ..spec import Struct, bit, enum, gid, ip4, nested, part, uint

MESSAGES: Mapping[int, str] = {
    0x00: "Hello", 0x01: "HelloAck", 0x02: "DisConn", 0x03: "AbortConn", 0x04: "SendSm", 0x05: "RdmaWrCompl", 0x06: "RdmaRdCompl",
    0x07: "ModeChange", 0x08: "SrcAvailCancel", 0x09: "SinkAvailCancel", 0x0A: "SinkCancelAck", 0x0B: "ChRcvBuf", 0x0C: "ChRcvBufAck",
    0x0D: "SuspComm", 0x0E: "SuspCommAck", 0xFD: "SinkAvail", 0xFE: "SrcAvail", 0xFF: "Data",
}  # fmt: skip
"""Message identifiers (OFED sdp.h enum sdp_mid; Wireshark's names)."""

_IPV4 = frozenset({4})


class BSDH(Struct):
    """Base Sockets Direct Header."""

    prefix, key, section, size = "infiniband_sdp", "bsdh", "IBA annex A4; OFED and FreeBSD rdma_sdp.h", 16
    mid = enum(8, MESSAGES, "MID", at="0", base="hex")
    flags = uint(8, "Flags", at="1", base="hex")
    oob_pres = bit(flags, 0, "OOB_PRES", ws="oobpres")
    oob_pend = bit(flags, 1, "OOB_PEND", ws="oobpend")
    req_pipe = bit(flags, 2, "REQ_PIPE", ws="reqpipe")
    buffers = uint(16, "Buffers", at="2", ws="bufs")
    length = uint(32, "Length", at="4", unit="bytes", ws="len")
    m_seq = uint(32, "MSeq", at="8", base="hex")
    m_seq_ack = uint(32, "MSeqAck", at="12", base="hex")


class SDPHello(Struct):
    """The first message of an SDP connection; the REQ carries it."""

    prefix, key, section, size = "infiniband_sdp", "hh", "IBA annex A4; FreeBSD rdma_sdp.h; kernel core/cma.c struct sdp_hh", 64
    carried_by = (CmService(SDP_PREFIX, SDP_MASK, frozenset({0x0010})),)
    bsdh = nested(BSDH, "BSDH", at="0")
    major_version = uint(4, "Major Version", at="16", ws="majv")
    minor_version = uint(4, "Minor Version", at="16[4]", ws="minv")
    ip_version = uint(4, "IP Version", at="17", ws="ipv")
    capabilities = uint(4, "Capabilities", at="17[4]", base="hex", ws="cap")
    invalidate = bit(capabilities, 0, "INVALIDATE_CAP", ws="cap_invalidate")
    extended_max_adverts = bit(capabilities, 1, "EXTENDED_MAXADVERTS", ws="cap_extmaxadverts")
    max_adverts = uint(8, "Max Adverts", at="..19")
    des_rem_rcv_sz = uint(32, "DesRemRcvSz", at="20", unit="bytes")
    local_rcv_sz = uint(32, "LocalRcvSz", at="24", unit="bytes")
    local_port = uint(16, "Local Port", at="28")
    source_address = gid("Source IP", at="..32", ws="src_ip")
    source_ipv4 = ip4("Source IPv4", ws="src_ip4", part_of=(source_address, 0), when=(ip_version, _IPV4))
    destination_address = gid("Destination IP", at="48", ws="dst_ip")
    destination_ipv4 = ip4("Destination IPv4", ws="dst_ip4", part_of=(destination_address, 0), when=(ip_version, _IPV4))


class SDPHelloAck(Struct):
    """The answer to a Hello; the REP carries it."""

    prefix, key, section, size = "infiniband_sdp", "hah", "IBA annex A4; FreeBSD rdma_sdp.h; kernel core/cma.c struct sdp_hah", 24
    carried_by = (CmService(SDP_PREFIX, SDP_MASK, frozenset({0x0013})),)
    bsdh = nested(BSDH, "BSDH", at="0")
    version = uint(8, "Version", at="16", base="hex")
    major_version = part(version, 7, 4, "Major Version", ws="majv")
    minor_version = part(version, 3, 0, "Minor Version", ws="minv")
    max_adverts = uint(8, "Max Adverts", at="..19")
    actrcvsz = uint(32, "ActRcvSz", at="20", unit="bytes")
