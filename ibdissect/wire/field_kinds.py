"""Kinds of fields, and the kinds of values (`holds`) that a field may say that it holds."""

INT_KINDS = frozenset({"uint", "flag"})
BIT_KINDS = INT_KINDS | {"pad"}
"""Kinds that may start at any bit."""
PROTOCOLS = frozenset((
    "infiniband", "infiniband_link", "infiniband_sdp", "opa", "erf", "eth", "vlan", "sll", "ip", "ipv6", "udp", "frame", "ibdissect",
    "erspan", "geneve", "gre", "icmp", "icmpv6", "ipoib", "iscsi", "iser", "macc", "mpls", "nvme", "nvme-rdma", "ppp", "rpc", "rpcordma",
    "smc", "tcp", "vxlan",
))  # fmt: skip
"""First words of a full filter name in `ws=`; any other `ws` is the last part, after `infiniband.<key>.`"""
BYTE_KINDS = frozenset({"gid", "mac", "ip4", "raw", "text"})
HOLDS_BY_KIND = {"flag": "number", "pad": "reserved", "raw": "data", "rest": "data", "hole": "data", "nested": "data"}
"""Default of `holds` by kind; for gid, mac, ip4 and text it is the kind itself."""
HOLDS = frozenset(
    {
        *HOLDS_BY_KIND.values(),
        "checksum",
        "gid",
        "guid",
        "ip4",
        "key",
        "lid",
        "mac",
        "network",
        "pkey",
        "port",
        "ports",
        "prefix",
        "qpn",
        "service",
        "text",
        "unknown",
    }
)
"""Valid values of `Field.holds`."""
WIDTHS = {
    "lid": (16, 32), "qpn": (24, 32), "guid": (64,), "prefix": (16, 64), "service": (64,), "port": (16,),
    "gid": (128,), "mac": (48,), "ip4": (32,), "pkey": (16,),
}  # fmt: skip
"""Required bits for some values of `Field.holds`."""
