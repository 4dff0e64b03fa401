"""The headers of InfiniBand: link layer (LRH, raw, flow control, VCRC), network layer (GRH), transport layer (BTH to ICRC)."""

from __future__ import annotations

from .encapsulation import ETHERTYPES
from .numbers import rnr_timer_text
from .opcodes import OPCODE_NAMES
from .spec import Struct, bit, enum, flag, gid, pad, part, pkey, qpn, raw, rest, secret, uint

LNH = {0: "Raw (RWH, Ethertype)", 1: "Raw IPv6", 2: "IBA local", 3: "IBA global"}
FLOW_CONTROL_OPS = {0: "Normal", 1: "Initialization"}
NEXT_HEADERS = {0x1B: "IBA transport", 0x06: "TCP", 0x11: "UDP", 0x3A: "ICMPv6", 0x3B: "none"}
ACK, RNR, NAK = 0, 1, 3
"""The upper bits of AETH.Syndrome (IBA 9.7.5.2.1): acknowledgement, receiver not ready, negative acknowledgement."""
AETH_KINDS = {ACK: "ACK", RNR: "RNR NAK", 2: "reserved", NAK: "NAK"}
NAK_CODES = {
    0: "PSN sequence error", 1: "Invalid request", 2: "Remote access error", 3: "Remote operational error", 4: "Invalid RD request",
}  # fmt: skip
FLUSH_LEVELS = {0: "range", 1: "memory region"}


class LRH(Struct):
    """Local Route Header."""

    key, section, size, title = "lrh", "IBA 7.7; python-rdma HdrLRH", 8, "LRH"
    vl = uint(4, "Virtual Lane", at="0")
    lver = uint(4, "Link Version", at="0[4]")
    sl = uint(4, "Service Level", at="1")
    reserved2 = pad(2, at="1[4]", ws="+reserved2")
    lnh = enum(2, LNH, "Link Next Header", at="1[6]")
    dlid = uint(16, "Destination LID", at="2", holds="lid")
    reserved5 = pad(5, at="4", ws="+reserved5")
    pktlen = uint(11, "Packet Length", at="4[5]", unit="words")
    slid = uint(16, "Source LID", at="6", holds="lid")


class RWH(Struct):
    """Raw Header: what a raw (non-IBA) packet carries."""

    key, section, size, title = "rwh", "IBA 5.3; python-rdma HdrRWH", 4, "RWH"
    reserved = pad(16, at="0")
    etype = enum(16, ETHERTYPES, "Ethertype", at="2", base="hex", ws="etype")


class FlowControl(Struct):
    """Link flow-control packet."""

    key, section, size, title = "link", "IBA 7.9.4; python-rdma HdrFlowControl", 6, "Flow control"
    op = enum(4, FLOW_CONTROL_OPS, "Operand", at="0", ws="infiniband_link.op")
    fctbs = uint(12, "Flow Control Total Blocks Sent", at="0[4]", ws="infiniband_link.fctbs")
    vl = uint(4, "Virtual Lane", at="2", ws="infiniband_link.vl")
    fccl = uint(12, "Flow Control Credit Limit", at="2[4]", ws="infiniband_link.fccl")
    lpcrc = uint(16, "Link Packet CRC", at="4", base="hex", ws="infiniband_link.lpcrc")


class VCRC(Struct):
    """Variant CRC, LRH through ICRC; little-endian on the wire, shown in byte order."""

    key, section, size, title = "variant", "IBA 7.8.2", 2, "VCRC"
    crc = uint(16, "Variant CRC", at="0", base="hex", ws="infiniband.variant.crc", holds="checksum")


class GRH(Struct):
    """Global Route Header."""

    key, section, size, title = "grh", "IBA 8.3; python-rdma HdrGRH", 40, "GRH"
    ipver = uint(4, "IP Version", at="0")
    tclass = uint(8, "Traffic Class", at="0[4]", base="hex")
    flow_label = uint(20, "Flow Label", at="1[4]", base="hex", holds="network")
    pay_len = uint(16, "Payload Length", at="4", unit="bytes", ws="paylen")
    nxt_hdr = enum(8, NEXT_HEADERS, "Next Header", at="6", base="hex", ws="nxthdr")
    hop_lmt = uint(8, "Hop Limit", at="7", ws="hoplmt")
    sgid = gid("Source GID", at="8")
    dgid = gid("Destination GID", at="24")


class BTH(Struct):
    """Base Transport Header."""

    key, section, size, title = "bth", "IBA 9.2; python-rdma HdrBTH", 12, "BTH"
    opcode = enum(8, OPCODE_NAMES, "OpCode", at="0")
    se = flag("Solicited Event", at="1")
    m = flag("MigReq", at="1[1]", ws="m")
    padcnt = uint(2, "Pad Count", at="1[2]")
    tver = uint(4, "Header Version", at="1[4]")
    p_key = pkey("Partition Key", at="2", ws="p_key")
    fecn = flag("FECN", at="4")
    becn = flag("BECN", at="4[1]")
    reserved6 = pad(6, at="4[2]", ws="+reserved6")
    destqp = qpn("Destination QP", at="5")
    a = flag("Acknowledge Request", at="8", ws="a")
    reserved7 = pad(7, at="8[1]", ws="+reserved7")
    psn = uint(24, "Packet Sequence Number", at="9")


PSNS = 1 << BTH.psn.bits
"""How many PSNs there are: after the last one comes 0, as it does of MSNs."""


class RDETH(Struct):
    """Reliable Datagram Extended Transport Header."""

    key, section, size, title = "rdeth", "IBA 9.3.1; python-rdma HdrRDETH", 4, "RDETH"
    reserved8 = pad(8, at="0", ws="+reserved8")
    eecnxt = qpn("E2E Context", at="1")


class DETH(Struct):
    """Datagram Extended Transport Header."""

    key, section, size, title = "deth", "IBA 9.3.2; python-rdma HdrDETH", 8, "DETH"
    q_key = secret(32, "Q_Key", "Queue Key", at="0", ws="q_key")
    reserved8 = pad(8, at="4", ws="+reserved8")
    srcqp = qpn("Source QP", at="5")


class RETH(Struct):
    """RDMA Extended Transport Header."""

    key, section, size, title = "reth", "IBA 9.3.3; python-rdma HdrRETH", 16, "RETH"
    va = uint(64, "Virtual Address", at="0", base="hex")
    r_key = secret(32, "R_Key", "Remote Key", at="8", ws="r_key")
    dmalen = uint(32, "DMA Length", at="12", unit="bytes")


class AtomicETH(Struct):
    """Atomic Extended Transport Header."""

    key, section, size = "atomiceth", "IBA 9.3.4; python-rdma HdrAtomicETH", 28
    va = uint(64, "Virtual Address", at="0", base="hex", ws="infiniband.reth.va")
    r_key = secret(32, "R_Key", "Remote Key", at="8", ws="infiniband.reth.r_key")
    swapdt = uint(64, "Swap (or Add) Data", at="12", base="hex", holds="data")
    cmpdt = uint(64, "Compare Data", at="20", base="hex", holds="data")


class XRCETH(Struct):
    """Extended Reliable Connected Extended Transport Header: the shared receive queue at the other end."""

    key, section, size = "xrceth", "IBA Annex A14", 4
    reserved8 = pad(8, at="0", ws="+reserved8")
    xrcsrq = qpn("XRC SRQ", at="1")


class AETH(Struct):
    """ACK Extended Transport Header."""

    key, section, size, title = "aeth", "IBA 9.3.5; python-rdma HdrAETH", 4, "AETH"
    syndrome = uint(8, "Syndrome", at="0", base="hex")
    reserved = bit(syndrome, 7, "Reserved", ws="syndrome.reserved")
    syndrome_opcode = part(syndrome, 6, 5, "OpCode", values=AETH_KINDS, ws="syndrome.opcode")
    credit_count = part(syndrome, 4, 0, "Credit Count", ws="syndrome.credit_count", when=(syndrome_opcode, frozenset({0})))
    timer = part(syndrome, 4, 0, "Timer", show=rnr_timer_text, ws="syndrome.timer", when=(syndrome_opcode, frozenset({1})))
    reserved_value = part(syndrome, 4, 0, "Reserved", ws="syndrome.reserved_value", when=(syndrome_opcode, frozenset({2})))
    error_code = part(syndrome, 4, 0, "Error Code", values=NAK_CODES, ws="syndrome.error_code", when=(syndrome_opcode, frozenset({3})))
    msn = uint(24, "Message Sequence Number", at="1")


class AtomicAckETH(Struct):
    """Atomic ACK Extended Transport Header."""

    key, section, size = "atomicacketh", "IBA 9.3.5.3; python-rdma HdrAtomicAckETH", 8
    origremdt = uint(64, "Original Remote Data", at="0", base="hex", holds="data")


class ImmDt(Struct):
    """Immediate data extended header."""

    key, section, size = "immdt", "IBA 9.3.6; python-rdma HdrImmDt", 4
    immdt = uint(32, "Immediate Data", at="0", base="hex", ws="infiniband.immdt", holds="data")


class IETH(Struct):
    """Invalidate Extended Transport Header."""

    key, section, size, title = "ieth", "IBA 9.3.7; python-rdma HdrIETH", 4, "IETH"
    r_key = secret(32, "R_Key", "RKey", at="0", ws="infiniband.ieth")


class FETH(Struct):
    """FLUSH Extended Transport Header: to whom the data must be visible, and which data."""

    key, section, size, title = "feth", "IBA Annex A19; Linux rdma/rxe rxe_hdr.h", 4, "FETH"
    reserved = pad(26, at="0")
    sel = enum(2, FLUSH_LEVELS, "Selectivity Level", at="3[2]", ws="sel")
    plt = uint(4, "Placement Type", at="3[4]", base="hex", ws="plt")
    persistence = bit(plt, 1, "Persistence")
    visibility = bit(plt, 0, "Global Visibility")


class CNP(Struct):
    """Congestion notification packet: 16 reserved bytes after the BTH."""

    key, section, size, title = "cnp", "RoCEv2 Annex A17.9.3", 16, "CNP"
    reserved = raw(16, "Reserved", at="0", ws="+reserved", holds="reserved")


class Payload(Struct):
    """Bytes after the headers that no declared structure claims."""

    key, section, title = "payload", "IBA 9.2", "Payload"
    data_bytes = rest("Payload", at="0", ws="infiniband.payload")


class ICRC(Struct):
    """Invariant CRC, over all that no switch or router changes; little-endian on the wire, shown in byte order."""

    key, section, size, title = "invariant", "IBA 7.8.1", 4, "ICRC"
    crc = uint(32, "Invariant CRC", at="0", base="hex", ws="infiniband.invariant.crc", holds="checksum")
