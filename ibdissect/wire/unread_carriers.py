"""Headers in front of RoCE that nobody reads here. `engine` hides what they carry: there may be keys in it."""

from __future__ import annotations

ETHERTYPES = frozenset({0x22F3, 0x6558, 0x8864, 0x88E5, 0x88E7, 0x8903, 0x8909, 0x8926, 0x892F, 0x893F, 0x894F, 0x9200, 0x9300})
"""TRILL, a frame itself, PPPoE, MACsec, 802.1ah, FabricPath, TrustSec, VN-Tag, HSR, E-Tag (802.1BR), NSH, VLAN tags of old switches."""
PROTOCOLS = frozenset({50, 55, 94, 97, 98, 115, 135, 137, 139, 140, 143, 253, 254})
"""Of IP: ESP, Minimal Encapsulation, IPIP, EtherIP, ENCAP, L2TP, Mobility Header, MPLS, HIP, Shim6, Ethernet (SRv6), experiments."""
PORTS = frozenset({1701, 2152, 3544, 4341, 4500, 6080, 6635, 8472})
"""Of UDP: L2TP, GTP-U, Teredo, LISP, ESP, GUE, MPLS, and VXLAN as Linux sends it by default."""
LENGTHS = range(0x0600)
"""In place of an Ethertype: LLC follows, which may be SNAP."""
SNAP = frozenset({b"\xaa\xaa\x03\0\0\0", b"\xaa\xaa\x03\0\0\xf8"})
"""LLC and the OUIs with which an Ethertype of Ethernet follows (RFC 1042, 802.1H)."""
SNAP_SIZE = 6
ERF_WITHOUT_PACKETS = frozenset({13, 14, 27, 48})
"""Types of ERF records that carry none: counters, metadata, padding."""
