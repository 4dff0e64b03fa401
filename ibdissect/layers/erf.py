"""ERF records in Scapy: pseudo-header, extension headers, and the packet of the record's type."""

from __future__ import annotations

from typing import Any

from scapy.config import conf
from scapy.fields import ConditionalField, StrField, XShortField
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from ibdissect.wire import encapsulation

from .derive import Layer, layer, make
from .fields import scapy_fields
from .link import LRH, FlowControl

ETHERNET, INFINIBAND, INFINIBAND_LINK = 2, encapsulation.ERF_INFINIBAND, encapsulation.ERF_INFINIBAND_LINK
_COMPUTED = {"types": None, "timestamp": None, "record_length": None, "wire_length": None}


class _Extensions(StrField):
    """Extension headers of eight bytes; the first bit of each says whether another follows."""

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, bytes]:
        at, more = 0, bool(pkt.types & 0x80)
        while more and at + 8 <= len(s):
            more = bool(s[at] & 0x80)
            at += 8
        return s[at:], s[:at]


class _ERF(Layer):
    """Type, timestamp and lengths are computed if None. Two bytes (`eth_pad`) precede an Ethernet frame."""

    def kind(self) -> int:
        """The record type without the extension bit."""
        types = self.getfieldval("types")
        if types is not None:
            return int(types) & 0x7F
        return ETHERNET if isinstance(self.payload, Ether) else INFINIBAND_LINK if isinstance(self.payload, FlowControl) else INFINIBAND

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        known: dict[int, type[Packet]] = {ETHERNET: Ether, INFINIBAND: LRH, INFINIBAND_LINK: FlowControl}
        return known.get(self.kind()) or super().guess_payload_class(payload)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        built = bytearray(pkt)
        behind = len(pkt) - encapsulation.ERF.size + len(pay) + len(self.payload.build_padding())
        if self.getfieldval("timestamp") is None:
            built[:8] = int(float(self.time) * 2**32).to_bytes(8, "little")
        if self.getfieldval("types") is None:
            built[8] = self.kind() | (0x80 if self.extensions else 0)
        if self.record_length is None:
            built[10:12] = min(encapsulation.ERF.size + behind, 0xFFFF).to_bytes(2, "big")
        if self.wire_length is None:
            built[14:16] = min(len(pay), 0xFFFF).to_bytes(2, "big")
        return bytes(built) + pay


ERF = make(
    encapsulation.ERF, _ERF,
    fields=[
        *scapy_fields(encapsulation.ERF.fields, layer, _COMPUTED), _Extensions("extensions", b""),
        ConditionalField(XShortField("eth_pad", 0), lambda pkt: pkt.kind() == ETHERNET),
    ],
)  # fmt: skip
conf.l2types.register(197, ERF)
