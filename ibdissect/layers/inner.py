"""Which Scapy layer decodes other protocols inside InfiniBand? IP and ARP in IPoIB and in raw packets."""

from __future__ import annotations

import struct

from scapy.config import conf
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP
from scapy.packet import Packet, Padding

from ibdissect.wire.ulp import ipoib

from .derive import Layer, layer, make
from .fields import scapy_fields

_INNER: dict[int, type[Packet]] = {0x0800: IP, 0x0806: ARP, 0x86DD: IPv6}
_ARP_SIZE = 56
"""ARP with 20-byte hardware addresses (RFC 4391 section 9)."""


def fits(ethertype: int, s: bytes) -> bool:
    """Whether `s` is exactly one packet of the protocol, so that nothing else is shown as IP."""
    if ethertype == 0x0800:
        return len(s) >= 20 and s[0] >> 4 == 4 and s[0] & 15 >= 5 and int.from_bytes(s[2:4], "big") == len(s)
    if ethertype == 0x86DD:
        return len(s) >= 40 and s[0] >> 4 == 6 and int.from_bytes(s[4:6], "big") + 40 == len(s)
    return ethertype == 0x0806 and len(s) == _ARP_SIZE and s[4] == 20 and s[5] == 4


class Carrier(Layer):
    """A layer that may carry IP or ARP. A payload that Scapy does not rebuild byte for byte stays Raw."""

    def ethertype(self) -> int:
        """Ethertype of the payload; 0 for none."""
        raise NotImplementedError

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        ethertype = self.ethertype()
        return _INNER[ethertype] if fits(ethertype, payload) else super().guess_payload_class(payload)

    def do_dissect_payload(self, s: bytes) -> None:
        super().do_dissect_payload(s)
        foreign = isinstance(self.payload, tuple(_INNER.values()))
        if foreign and (Padding in self.payload or not _same(self.payload, s)):
            self.remove_payload()
            self.add_payload(conf.raw_layer(s, _internal=1, _underlayer=self))


def _same(pkt: Packet, s: bytes) -> bool:
    try:
        return bool(pkt.build() == s)
    except (struct.error, ValueError, TypeError, IndexError, KeyError, AttributeError, OSError):
        return False  # hostile bytes that Scapy's layer dissects but cannot build


class _IPoIB(Carrier):
    """Type is computed from the payload if None."""

    def ethertype(self) -> int:
        return int(self.type)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.type is None:
            found = next((number for number, inner in _INNER.items() if isinstance(self.payload, inner)), 0)
            pkt = found.to_bytes(2, "big") + pkt[2:]
        return pkt + pay


_HEADER = [field for field in ipoib.IPoIB.fields if field.kind != "rest"]
IPoIB = make(ipoib.IPoIB, _IPoIB, fields=scapy_fields(_HEADER, layer, {"type": None}))


def looks_like_ipoib(s: bytes) -> bool:
    """Whether a message is almost certainly IPoIB: known Ethertype, zeros, exact packet length."""
    return len(s) > 4 and s[2:4] == b"\0\0" and fits(int.from_bytes(s[:2], "big"), s[4:])
