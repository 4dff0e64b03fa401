"""Which Scapy layer decodes what InfiniBand carries for other protocols: IP and ARP in IPoIB and in raw packets."""

from __future__ import annotations

import struct

from scapy.config import conf
from scapy.fields import XShortEnumField, XShortField
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP
from scapy.packet import Packet, Padding

from ibdissect.wire.around import ETHERTYPES

from .derive import Layer

_INNER: dict[int, type[Packet]] = {0x0800: IP, 0x0806: ARP, 0x86DD: IPv6}
_ARP_SIZE = 56
"""ARP with 20-byte hardware addresses (RFC 4391 section 9)."""


def fits(ethertype: int, s: bytes) -> bool:
    """Whether `s` is, in all its length, a packet of the protocol: nothing else may be shown as IP."""
    if ethertype == 0x0800:
        return len(s) >= 20 and s[0] >> 4 == 4 and s[0] & 15 >= 5 and int.from_bytes(s[2:4], "big") == len(s)
    if ethertype == 0x86DD:
        return len(s) >= 40 and s[0] >> 4 == 6 and int.from_bytes(s[4:6], "big") + 40 == len(s)
    return ethertype == 0x0806 and len(s) == _ARP_SIZE and s[4] == 20 and s[5] == 4


class Carrier(Layer):
    """A layer with an Ethertype. What does not come back byte for byte from Scapy's dissector stays Raw."""

    def ethertype(self) -> int:
        """Ethertype of the payload."""
        raise NotImplementedError

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        ethertype = self.ethertype()
        return _INNER[ethertype] if fits(ethertype, payload) else super().guess_payload_class(payload)

    def do_dissect_payload(self, s: bytes) -> None:
        super().do_dissect_payload(s)
        if s and not (Padding not in self.payload and _same(self.payload, s)):
            self.remove_payload()
            self.add_payload(conf.raw_layer(s, _internal=1, _underlayer=self))


def _same(pkt: Packet, s: bytes) -> bool:
    try:
        return bool(pkt.build() == s)
    except (struct.error, ValueError, TypeError, IndexError, KeyError, AttributeError, OSError):
        return False  # hostile bytes that a foreign layer takes in but cannot write


class IPoIB(Carrier):
    """Header of IP over InfiniBand (RFC 4391 section 6)."""

    name = "IPoIB"
    fields_desc = [XShortEnumField("etype", 0x0800, ETHERTYPES), XShortField("reserved", 0)]

    def ethertype(self) -> int:
        return int(self.etype)


def looks_like_ipoib(s: bytes) -> bool:
    """Whether a message is an IPoIB one beyond reasonable doubt: Ethertype, zeros, and a packet of exactly that length."""
    return len(s) > 4 and s[2:4] == b"\0\0" and fits(int.from_bytes(s[:2], "big"), s[4:])
