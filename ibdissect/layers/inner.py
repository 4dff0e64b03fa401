"""Other protocols inside InfiniBand in Scapy: IP and ARP in IPoIB and in raw packets."""

from __future__ import annotations

import struct

from scapy.config import conf
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP
from scapy.packet import Packet, Padding

from ibdissect.wire.cut import number_of
from ibdissect.wire.encapsulation import ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6
from ibdissect.wire.ulp import ipoib

from .derive import Layer, layer, make
from .fields import scapy_fields

_INNER: dict[int, type[Packet]] = {ETHERTYPE_IPV4: IP, ETHERTYPE_ARP: ARP, ETHERTYPE_IPV6: IPv6}


class Carrier(Layer):
    """A layer that may carry IP or ARP. A payload that Scapy does not rebuild byte for byte stays Raw."""

    def ethertype(self) -> int:
        """Ethertype of the payload; 0 for none."""
        raise NotImplementedError

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        ethertype = self.ethertype()
        return _INNER[ethertype] if ipoib.fits(ethertype, payload) else super().guess_payload_class(payload)

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
            pkt = found.to_bytes(2, "big") + pkt[ipoib.IPoIB.type.span[1] :]
        return pkt + pay


_HEADER = [field for field in ipoib.IPoIB.fields if field.kind != "rest"]
IPoIB = make(ipoib.IPoIB, _IPoIB, fields=scapy_fields(_HEADER, layer, {"type": None}))


def looks_like_ipoib(s: bytes) -> bool:
    """Whether a message is almost certainly IPoIB: known Ethertype, zeros, exact packet length."""
    head = ipoib.IPoIB
    return len(s) > head.size and not number_of(s, head.reserved) and ipoib.fits(number_of(s, head.type), s[head.size :])
