"""Proofs of the link rules."""

from __future__ import annotations

import struct

from tests.craft import build, erf_pcap, gmp, native, smp, vcrc
from tests.rules.cases import case

GID = bytes.fromhex("fe80" + "00" * 13 + "01")
GRH = {"sgid": GID, "dgid": GID}


def raw(lnh: int, payload: bytes, **lrh: int) -> bytes:
    """A raw packet: LRH, payload, VCRC."""
    from ibdissect.wire.link import LRH

    data = build(LRH, lnh=lnh, dlid=2, slid=1, pktlen=(8 + len(payload)) // 4, **lrh) + payload
    return data + vcrc(data)


def flow_control(op: int) -> bytes:
    """An ERF capture of one flow-control packet (record type 25)."""
    from ibdissect.wire.link import FlowControl

    data = bytearray(erf_pcap([build(FlowControl, op=op, fctbs=1, vl=0, fccl=9)]))
    data[24 + 16 + 8] = 25
    return bytes(data)


def length_field(frame: bytes, words: int) -> bytes:
    """The frame with another PktLen and the right VCRC."""
    data = bytearray(frame[:-2])
    data[4:6] = struct.pack(">H", words)
    return bytes(data) + vcrc(data)


PACKET = native(payload=bytes(range(64)))
WORDS = (len(PACKET) - 2) // 4

case("LNK001", native(lrh={"lver": 1}), native())
case("LNK002", native(lrh={"reserved5": 31}), native())
case("LNK002", native(lrh={"reserved2": 1}), native())
case("LNK003", length_field(PACKET, WORDS + 1), PACKET)
case("LNK003", length_field(PACKET, WORDS - 2), PACKET[:-2], also=["ROC006", "ROC007"])  # the twin: a tap without VCRC
case("LNK004", length_field(PACKET, 3), length_field(PACKET, 6), twin_also=["LNK003", "ROC006", "ROC007"])
case("LNK005", native(payload=bytes(4220)), native(payload=bytes(4096)))
case("LNK006", native(dlid=0), native(dlid=1))
case("LNK007", native(slid=0), smp(5, 2, slid=0))
case("LNK008", native(slid=0xC001), native(slid=0xBFFF))
case("LNK009", gmp(4, 1, 0x12, dlid=0xFFFF), smp(1, 0x11, path=[1]))
case("LNK009", native(slid=0xFFFF), native(slid=0xBFFE))
case("LNK010", gmp(4, 1, 0x12, lrh={"vl": 15}), gmp(4, 1, 0x12, lrh={"vl": 14}))
case("LNK010", native(lrh={"vl": 15}), native(lrh={"vl": 0}))
case("LNK011", smp(1, 0x11, lrh={"vl": 0}), smp(1, 0x11))
case("LNK012", smp(1, 0x11, lrh={"sl": 3}), smp(1, 0x11))
case("LNK013", smp(1, 0x11, grh=GRH), smp(1, 0x11))
case("LNK014", raw(0, b"\0\0\x88\xb5" + bytes(40)), native())
case("LNK023", flow_control(5), flow_control(1), file=None)
