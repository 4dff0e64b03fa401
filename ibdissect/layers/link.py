"""Link and network headers in Scapy: LRH with VCRC, RWH, GRH, flow control."""

from __future__ import annotations

from typing import Any

from scapy.config import conf
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

from ibdissect.wire import crc, encapsulation, headers
from ibdissect.wire.cut import number_of
from ibdissect.wire.mad import class_qp

from .derive import Layer, layer, make
from .fields import TrailerField, scapy_fields, trailer_bytes
from .inner import Carrier
from .mad import MadLayer

_IBA_TRANSPORT, _IPV6 = 0x1B, 1
_LEAST = 12
"""Bytes of the shortest packet that PktLen may give: LRH and four more."""


def management_qp(pkt: Packet) -> int | None:
    """The queue pair (0 or 1) of the MAD's class; None if the packet contains no MAD."""
    inner: Any = pkt.payload
    while inner:
        if isinstance(inner, MadLayer):
            return class_qp(inner.place()[0])
        inner = inner.payload
    return None


class _LRH(Carrier):
    """VL, LNH and PktLen are computed if None; `vcrc` follows the payload if PktLen fits the frame."""

    def pre_dissect(self, s: bytes) -> bytes:
        s = super().pre_dissect(s)
        end = number_of(s, headers.LRH.pktlen) * 4
        self.whole = _LEAST <= end <= len(s)
        if not self.whole:
            self.cut = max(end - len(s), 0)
            return s
        there = end + 2 <= len(s)
        if there:
            self.tail["vcrc"] = int.from_bytes(s[end : end + 2], "big")
        self.behind = s[end + 2 * there :]
        return s[:end]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        if self.pktlen * 4 < _LEAST:
            return conf.raw_layer
        if self.lnh == _IPV6:
            return super().guess_payload_class(payload)
        return _next_layers()[self.lnh]

    def ethertype(self) -> int:
        return encapsulation.ETHERTYPE_IPV6 if self.lnh == _IPV6 else 0

    def header(self, pkt: bytes, size: int) -> bytes:
        """The eight bytes with the computed fields; `size` counts the bytes between LRH and VCRC."""
        built = bytearray(pkt)
        if self.vl is None:
            built[0] |= 0xF0 if management_qp(self) == 0 else 0
        if self.lnh is None:
            built[1] |= next((lnh for lnh, next_layer in _next_layers().items() if isinstance(self.payload, next_layer)), 2)
        if self.pktlen is None:
            words = (8 + size + 3) // 4 & 0x7FF
            built[4] |= words >> 8
            built[5] = words & 0xFF
        return bytes(built)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        built = self.header(pkt, len(pay)) + pay
        given = self.vcrc
        return built + (crc.vcrc(built).to_bytes(2, "little") if given is None else trailer_bytes(given, 16))


class _GRH(Layer):
    """PayLen is computed if None. Over Ethernet (RoCE v1) it also determines where the packet ends."""

    def pre_dissect(self, s: bytes) -> bytes:
        s = super().pre_dissect(s)
        if isinstance(self.underlayer, LRH):
            self.whole, self.cut = self.underlayer.whole, self.underlayer.cut
            return s
        end = headers.GRH.size + number_of(s, headers.GRH.pay_len)
        self.whole = end <= len(s)
        if not self.whole:
            self.cut = end - len(s)
            return s
        self.behind = s[end:]
        return s[:end]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        return layer(headers.BTH) if self.nxt_hdr == _IBA_TRANSPORT else super().guess_payload_class(payload)

    def header(self, pkt: bytes, size: int) -> bytes:
        """The 40 bytes with PayLen filled in; `size` counts the bytes after them."""
        start, stop = headers.GRH.pay_len.span
        return pkt if self.pay_len is not None else pkt[:start] + min(size, 0xFFFF).to_bytes(2, "big") + pkt[stop:]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        return self.header(pkt, len(pay)) + pay


class _RWH(Carrier):
    """A raw packet: the Ethertype determines what follows."""

    def ethertype(self) -> int:
        return int(self.etype)


class _FlowControl(Layer):
    """A link packet of six bytes; its CRC is computed if None."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        return b"", s

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.lpcrc is None:
            pkt = pkt[: headers.FlowControl.lpcrc.span[0]] + crc.lpcrc(pkt).to_bytes(2, "little")
        return pkt + pay


def _next_layers() -> dict[int, type[Packet]]:
    """Next layer by LNH. BTH is looked up on use because its module imports this one."""
    return {0: RWH, _IPV6: IPv6, 2: layer(headers.BTH), 3: GRH}


_COMPUTED = {"vl": None, "lnh": None, "pktlen": None}
LRH = make(headers.LRH, _LRH, fields=[*scapy_fields(headers.LRH.fields, layer, _COMPUTED), TrailerField("vcrc", 16)])
RWH = make(headers.RWH, _RWH)
FlowControl = make(headers.FlowControl, _FlowControl, fields=scapy_fields(headers.FlowControl.fields, layer, {"lpcrc": None}))
GRH = make(
    headers.GRH,
    _GRH,
    fields=scapy_fields(headers.GRH.fields, layer, {"ipver": 6, "nxt_hdr": _IBA_TRANSPORT, "hop_lmt": 64, "pay_len": None}),
)
conf.l2types.register(247, LRH)
