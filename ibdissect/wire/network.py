"""What is the header of the network layer? The GRH."""

from .spec import Struct, enum, gid, uint

NEXT_HEADERS = {0x1B: "IBA transport", 0x06: "TCP", 0x11: "UDP", 0x3A: "ICMPv6", 0x3B: "none"}


class GRH(Struct):
    """Global Route Header."""

    key, section, size, title = "grh", "IBA 8.3; python-rdma HdrGRH", 40, "GRH"
    ipver = uint(4, "IP Version", at="0")
    tclass = uint(8, "Traffic Class", at="0[4]", base="hex")
    flow_label = uint(20, "Flow Label", at="1[4]", base="hex")
    pay_len = uint(16, "Payload Length", at="4", unit="bytes", ws="paylen")
    nxt_hdr = enum(8, NEXT_HEADERS, "Next Header", at="6", base="hex", ws="nxthdr")
    hop_lmt = uint(8, "Hop Limit", at="7", ws="hoplmt")
    sgid = gid("Source GID", at="8")
    dgid = gid("Destination GID", at="24")
