"""What are the headers of the link layer? LRH, RWH, flow-control packets, VCRC."""

from .encapsulation import ETHERTYPES
from .spec import Struct, enum, pad, uint

LNH = {0: "Raw (RWH, Ethertype)", 1: "Raw IPv6", 2: "IBA local", 3: "IBA global"}
FLOW_CONTROL_OPS = {0: "Normal", 1: "Initialization"}


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
