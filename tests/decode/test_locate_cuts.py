"""A header is there exactly when all its bytes are, wherever a frame is cut off and whatever lies beside it.

What each kind of frame holds is written down here by hand; every cut of every kind is compared with that.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ibdissect.capture.gather import u16, u24
from ibdissect.decode.locate import locate
from ibdissect.engine import offsets as where
from tests.cases import every
from tests.craft import LINK_ERF, LINK_ETHERNET, LINK_INFINIBAND, LINK_IPOIB, LINK_SLL, LINK_SLL2, mad, native, rc, roce2, ud
from tests.decode.made import Row, chunk_of


@dataclass(frozen=True)
class Kind:
    """A whole frame and where its headers start."""

    name: str
    link: int
    frame: bytes
    outer: dict[str, tuple[int, int]]
    """Headers in front of the BTH: offset and size."""
    bth: int
    """-1: the packet has none, and its payload starts behind `outer`."""
    stop: int
    """Behind the ICRC, or behind the payload of a packet without BTH."""
    extended: int = 0
    pad: int = 0
    mad: bool = False
    reasons: tuple[tuple[int, int], ...] = ()
    """A frame that ends below the first number is malformed for that reason."""


ROCE = roce2(payload=bytes(range(9)))
OVER_IP = ROCE[14:]
TRANSPORT = ROCE[42:]
DATAGRAM = struct.pack(">HHHH", 49152, 4791, 8 + len(TRANSPORT), 0)
OVER_IP6 = struct.pack(">IHBB", 6 << 28, 8 + len(TRANSPORT), 17, 64) + bytes(32) + DATAGRAM + TRANSPORT
GLOBAL = native(grh={}, payload=b"abcdef")
OPTIONS = bytes([0x46]) + OVER_IP[1:2] + struct.pack(">H", len(OVER_IP) + 4) + OVER_IP[4:20] + b"\1\1\1\1" + OVER_IP[20:]
RAW = bytes([0, 0, 0, 2]) + struct.pack(">HH", 12, 3) + b"\0\0\x08\x00" + bytes(36) + b"\0\0"
RAW_IP6 = bytes([0, 1, 0, 2]) + struct.pack(">HH", (8 + len(OVER_IP6)) // 4, 3) + OVER_IP6 + b"\0\0"
MACS = bytes(12)


def over(headers: bytes, link: int, **at: tuple[int, int]) -> Kind:
    """RoCE v2 over IPv4 behind some headers."""
    n = len(headers)
    return Kind(
        "+".join(at), link, headers + OVER_IP, {**at, "ip4": (n, 20), "udp": (n + 20, 8)}, n + 28, n + len(OVER_IP), 0, 3,
    )  # fmt: skip


def longer_than(stop: int) -> tuple[tuple[int, int], ...]:
    """Of a native packet that ends there: a mirror may have cut it in front of its ICRC, not within it."""
    return (8, where.NO_LRH), (stop - 4, 0), (stop, where.PKTLEN_LARGE)


def of_native(name: str, frame: bytes, bth: int, **kw: Any) -> Kind:
    outer = {"lrh": (0, 8)} | ({"grh": (8, 40)} if bth > 8 else {})
    stop = len(frame) - 2
    return Kind(name, LINK_INFINIBAND, frame, outer, bth, stop, reasons=longer_than(stop), **kw)


VLAN = struct.pack(">HH", 0x8100, 7)
KINDS = [
    of_native("write", rc(0x0A, bytes(range(10))), 8, extended=16, pad=2),
    of_native("empty", native(), 8),
    of_native("global", GLOBAL, 48, pad=2),
    of_native("mad", ud(mad(0x04, 1, 0x12)), 8, extended=8, mad=True),
    of_native("mad to QP0 with immediate", rc(0x65, mad(0x01, 1, 0x15), bth={"destqp": 0}), 8, extended=12, mad=True),
    of_native("datagram", ud(bytes(40), dest_qp=2), 8, extended=8),
    Kind("raw", LINK_INFINIBAND, RAW, {"lrh": (0, 8), "rwh": (8, 4)}, -1, 48, reasons=longer_than(48)),
    Kind("raw IPv6", LINK_INFINIBAND, RAW_IP6, {"lrh": (0, 8), "ip6": (8, 40), "udp": (48, 8)}, 56, 8 + len(OVER_IP6), pad=3,
         reasons=longer_than(8 + len(OVER_IP6))),
    Kind("RoCE v1", LINK_ETHERNET, MACS + b"\x89\x15" + GLOBAL[8:-2], {"eth": (0, 14), "grh": (14, 40)}, 54, len(GLOBAL) + 4, pad=2,
         reasons=((14, 0), (54, where.NO_GRH))),
    Kind("RoCE v2 over IPv6", LINK_ETHERNET, MACS + b"\x86\xdd" + OVER_IP6, {"eth": (0, 14), "ip6": (14, 40), "udp": (54, 8)}, 62,
         14 + len(OVER_IP6), pad=3),
    Kind("IPv4 with options", LINK_ETHERNET, MACS + b"\x08\x00" + OPTIONS, {"eth": (0, 14), "ip4": (14, 20), "udp": (38, 8)}, 46,
         14 + len(OPTIONS), pad=3),
    over(MACS + b"\x08\x00", LINK_ETHERNET, eth=(0, 14)),
    over(MACS + VLAN + b"\x08\x00", LINK_ETHERNET, eth=(0, 14), vlan=(14, 4)),
    over(MACS + b"\x91\0\0\1" + VLAN + b"\x08\x00", LINK_ETHERNET, eth=(0, 14), vlan=(14, 4), vlan2=(18, 4)),
    over(MACS + b"\x88\xa8\0\1" + VLAN + VLAN + b"\x08\x00", LINK_ETHERNET, eth=(0, 14), vlan=(14, 4), vlan2=(18, 4), vlan3=(22, 4)),
    over(bytes(14) + b"\x08\x00", LINK_SLL, sll=(0, 16)),
    over(b"\x08\x00" + bytes(18), LINK_SLL2, sll2=(0, 20)),
    over(bytes(40) + b"\x08\x00\0\0", LINK_IPOIB, grh=(0, 44)),
]  # fmt: skip
NAMES = (
    "erf", "eth", "vlan", "vlan2", "vlan3", "sll", "sll2", "ip4", "ip6", "udp", "link", "lrh", "rwh", "grh", "bth", "payload", "mad",
    "icrc", "vcrc", "skipped",
)  # fmt: skip
Found = tuple[dict[str, int], int, bool, int | None, int | None]
"""Offsets in the frame, malformed, complete, end of the payload, limit of headers; the last two where they mean something."""


def expected(kind: Kind, cut: int, snapped: bool) -> Found:
    """What is there of the first `cut` bytes of a frame."""
    there = {name: at for name, (at, size) in kind.outer.items() if at + size <= cut}
    reason = next((reason for below, reason in kind.reasons if cut < below), 0)
    if kind.link == LINK_INFINIBAND and cut >= kind.stop + 2:
        there["vcrc"] = kind.stop
    if kind.bth < 0:
        start = max(at + size for at, size in kind.outer.values())
        if cut > start:
            there["payload"] = start
        return there, 0 if snapped else reason, False, min(cut, kind.stop) if cut > start else None, None
    complete = cut >= kind.stop
    limit = min(kind.stop - 4, cut)
    if len(there) < len(kind.outer) or kind.bth + 12 > limit:
        return there, 0 if snapped else reason, False, None, None
    there["bth"] = kind.bth
    if complete:
        there["icrc"] = limit
    payload, end = kind.bth + 12 + kind.extended, limit - kind.pad if complete else limit
    if payload < end:
        there["payload"] = payload
    if kind.mad and payload + 24 <= end:
        there["mad"] = payload
    return there, 0 if snapped else reason, complete, end if payload < end else None, limit


def found(rows: Sequence[Row]) -> list[Found]:
    """What is found of each frame, in one chunk."""
    chunk = chunk_of(rows)
    loc = locate(chunk)
    assert set(loc.start) <= set(NAMES)
    result: list[Found] = []
    for i, base in enumerate(chunk.offset.tolist()):
        there = {name: int(loc.at(name)[i]) - base for name in NAMES if loc.at(name)[i] >= 0}
        end = int(loc.payload_end[i]) - base if "payload" in there else None
        limit = int(loc.limit[i]) - base if "bth" in there else None
        result.append((there, int(loc.malformed[i]), bool(loc.complete[i]), end, limit))
        if "bth" in there:
            assert loc.opcode[i] == chunk.data[base + there["bth"]]
        assert loc.snapped[i] == (len(rows[i].frame) < loc.length[i]) and loc.length[i] >= rows[i].wire
    return result


def cuts(kind: Kind, snapped: bool) -> tuple[list[Row], list[Found]]:
    """A frame cut off behind every byte, and what is there of it."""
    lengths = range(len(kind.frame) + (not snapped))
    rows = [Row(kind.frame[:cut], kind.link, len(kind.frame) if snapped else cut) for cut in lengths]
    return rows, [expected(kind, cut, snapped) for cut in lengths]


@every("snapped", [False, True])
@every("kind", KINDS)
def test_frames_cut_off_behind_every_byte(kind: Kind, snapped: bool) -> None:
    rows, wanted = cuts(kind, snapped)
    assert found(rows) == wanted
    for row, one in zip(rows[::9], wanted[::9], strict=True):
        assert found([row]) == [one], "alone in its chunk"


def test_neighbours_of_other_kinds_make_no_difference() -> None:
    pairs = [pair for kind in KINDS for snapped in (False, True) for pair in zip(*cuts(kind, snapped), strict=True)]
    random.Random(1).shuffle(pairs)
    for some in (pairs, pairs[:9], pairs[100:150]):
        assert found([row for row, _ in some]) == [one for _, one in some]


@every("kind", [kind for kind in KINDS if kind.link == LINK_INFINIBAND])
def test_native_frames_behind_an_erf_header(kind: Kind) -> None:
    rows, wanted = cuts(kind, False)
    behind = [Row(row.frame, LINK_ERF, row.wire, erf=21) for row in rows]
    assert found(behind) == [({"erf": -16, **one[0]}, *one[1:]) for one in wanted]


def test_erf_records_of_all_kinds() -> None:
    """Bit 7 of the type tells of further headers; other types than InfiniBand are not looked into; a header may be missing."""
    packet = native()
    rows = [
        Row(packet, LINK_ERF, erf=21), Row(packet, LINK_ERF, erf=0x80 | 21), Row(packet, LINK_ERF, erf=2), Row(packet, LINK_ERF),
        Row(bytes(6), LINK_ERF, erf=25), Row(bytes(5), LINK_ERF, erf=25), Row(packet, LINK_ERF, len(packet) + 9),
        Row(bytes(6), LINK_ERF, erf=26),
    ]  # fmt: skip
    heads = [sorted(name for name in one[0] if name in ("erf", "lrh", "bth", "link")) for one in found(rows)]
    assert heads == [["bth", "erf", "lrh"], ["bth", "erf", "lrh"], ["erf"], [], ["erf", "link"], ["erf"], [], ["erf"]]
    assert [one[1] for one in found(rows)] == [0, 0, 0, where.NO_ERF, 0, 0, 0, 0]
    assert found(rows)[4][0]["link"] == 0
    assert [found([row])[0] for row in rows] == found(rows)


def test_links_that_hold_no_infiniband() -> None:
    rows = [Row(native(), 105), Row(roce2(), LINK_ETHERNET), Row(native(), 105)]
    assert [one[0].get("bth") for one in found(rows)] == [None, 42, None]
    assert found([rows[0]]) == [({"skipped": 0}, 0, False, None, None)]


def test_an_empty_chunk_and_empty_frames() -> None:
    loc = locate(chunk_of([]))
    assert loc.n == 0 and not loc.start and len(loc.at("bth")) == 0
    for link, reason in ((LINK_ETHERNET, 0), (LINK_INFINIBAND, where.NO_LRH)):
        assert found([Row(b"", link)]) == [({}, reason, False, None, None)]


def changed(frame: bytes, at: int, *values: int) -> bytes:
    return frame[:at] + bytes(values) + frame[at + len(values) :]


WORDS = native(payload=bytes(8))
V2 = MACS + b"\x08\x00" + OVER_IP
V6 = MACS + b"\x86\xdd" + OVER_IP6
MAD = ud(mad(0x04, 1, 0x12))
HIDDEN = {"eth": 0, "skipped": 14}
"""What is behind Ethernet has the UDP port of RoCE."""


@every(
    ("frame", "link", "there", "reason"),
    [
        (changed(WORDS, 4, 0, 2), LINK_INFINIBAND, {"lrh": 0}, where.PKTLEN_SMALL),
        (changed(WORDS, 4, 0, 3), LINK_INFINIBAND, {"lrh": 0, "vcrc": 12}, where.NO_BTH),
        (changed(WORDS, 4, 0, 5), LINK_INFINIBAND, {"lrh": 0, "bth": 8, "vcrc": 20}, 0),
        (changed(WORDS, 4, 0, 6), LINK_INFINIBAND, {"lrh": 0, "bth": 8, "icrc": 20, "vcrc": 24}, 0),
        (changed(WORDS, 4, 0x08, 6), LINK_INFINIBAND, {"lrh": 0, "bth": 8, "icrc": 20, "vcrc": 24}, 0),
        (changed(WORDS, 1, 0), LINK_INFINIBAND, {"lrh": 0, "rwh": 8, "payload": 12, "vcrc": 32}, 0),
        (changed(WORDS, 1, 0)[:4] + b"\0\3" + WORDS[6:], LINK_INFINIBAND, {"lrh": 0, "rwh": 8, "vcrc": 12}, 0),
        (changed(WORDS, 1, 1), LINK_INFINIBAND, {"lrh": 0, "vcrc": 32}, 0),
        (changed(WORDS, 1, 3), LINK_INFINIBAND, {"lrh": 0, "vcrc": 32}, where.NO_GRH),
        (changed(GLOBAL, 14, 0x1C), LINK_INFINIBAND, {"lrh": 0, "grh": 8, "payload": 48, "vcrc": 72, "skipped": 48}, 0),
        (changed(RAW_IP6, 8, 0x50), LINK_INFINIBAND, {"lrh": 0, "vcrc": len(RAW_IP6) - 2, "skipped": 8}, 0),
        (changed(RAW_IP6, 4, 0, 12), LINK_INFINIBAND, {"lrh": 0, "ip6": 8, "vcrc": 48, "udp": 48, "bth": 56, "payload": 68, "icrc": 80}, 0),
        (changed(RAW_IP6, 4, 0, 11), LINK_INFINIBAND, {"lrh": 0, "vcrc": 44, "skipped": 8}, 0),
        (changed(V2, 14, 0x55), LINK_ETHERNET, HIDDEN, 0),
        (changed(V2, 14, 0x44), LINK_ETHERNET, HIDDEN, 0),
        (changed(V2, 23, 6), LINK_ETHERNET, {"eth": 0, "ip4": 14}, 0),
        (changed(V2, 20, 0x01), LINK_ETHERNET, {"eth": 0, "ip4": 14, "skipped": 34}, 0),
        (changed(V2, 20, 0xE0), LINK_ETHERNET, {"eth": 0, "ip4": 14, "udp": 34, "bth": 42, "payload": 54, "icrc": 66}, 0),
        (changed(V2, 21, 0x01), LINK_ETHERNET, {"eth": 0, "ip4": 14, "skipped": 34}, 0),
        (changed(V2, 36, 0x12, 0xB8), LINK_ETHERNET, {"eth": 0, "ip4": 14, "udp": 34}, 0),
        (changed(V2, 16, 0, 27), LINK_ETHERNET, {"eth": 0, "ip4": 14, "skipped": 34}, 0),
        (changed(V2, 16, 0, 28), LINK_ETHERNET, {"eth": 0, "ip4": 14, "udp": 34}, where.NO_BTH),
        (changed(V2, 16, 0, 57), LINK_ETHERNET, {"eth": 0, "ip4": 14, "udp": 34, "bth": 42, "payload": 54, "icrc": 66}, where.IP_LARGE),
        (changed(V2, 38, 0, 35), LINK_ETHERNET, {"eth": 0, "ip4": 14, "udp": 34, "bth": 42, "payload": 54, "icrc": 65}, 0),
        (changed(V2, 38, 0, 90), LINK_ETHERNET, {"eth": 0, "ip4": 14, "udp": 34, "bth": 42, "payload": 54, "icrc": 66}, where.UDP_LARGE),
        (changed(V2, 38, 0, 37), LINK_ETHERNET, {"eth": 0, "ip4": 14, "udp": 34, "bth": 42, "payload": 54, "icrc": 66}, where.UDP_LARGE),
        (changed(changed(V2, 38, 0, 90), 20, 0x20), LINK_ETHERNET, {"eth": 0, "ip4": 14, "udp": 34, "bth": 42, "payload": 54}, 0),
        (changed(V6, 14, 0x50), LINK_ETHERNET, HIDDEN, 0),
        (changed(V6, 20, 6), LINK_ETHERNET, {"eth": 0, "ip6": 14}, 0),
        (changed(V6, 20, 44), LINK_ETHERNET, {"eth": 0, "ip6": 14, "skipped": 54}, 0),
        (changed(changed(V6, 20, 44), 54, 17), LINK_ETHERNET, {"eth": 0, "ip6": 14, "skipped": 54}, 0),
        (changed(V2, 12, 0x88, 0xCC), LINK_ETHERNET, HIDDEN, 0),
        (changed(rc(0x14), 4, 0, 6), LINK_INFINIBAND, {"lrh": 0, "bth": 8, "icrc": 20, "vcrc": 24}, where.NO_EXTENDED),
        (changed(native(), 9, 0x30), LINK_INFINIBAND, {"lrh": 0, "bth": 8, "icrc": 20, "vcrc": 24}, 0),
        (changed(MAD, 13, 1), LINK_INFINIBAND, {"lrh": 0, "bth": 8, "payload": 28, "icrc": 284, "vcrc": 288}, 0),
        (changed(MAD, 14, 1), LINK_INFINIBAND, {"lrh": 0, "bth": 8, "payload": 28, "icrc": 284, "vcrc": 288}, 0),
        (changed(MAD, 8, 0x63), LINK_INFINIBAND, {"lrh": 0, "bth": 8, "payload": 20, "icrc": 284, "vcrc": 288}, 0),
        (changed(MAD, 8, 0x66), LINK_INFINIBAND, {"lrh": 0, "bth": 8, "payload": 20, "icrc": 284, "vcrc": 288}, 0),
        (changed(ud(bytes(23)), 9, 0x90), LINK_INFINIBAND, {"lrh": 0, "bth": 8, "payload": 28, "icrc": 52, "vcrc": 56}, where.NO_MAD),
    ],
)  # fmt: skip
def test_what_the_headers_say(frame: bytes, link: int, there: dict[str, int], reason: int) -> None:
    """Lengths, types and numbers decide what follows; lengths that are too small or too large are no reason to read elsewhere."""
    row = Row(frame, link)
    (one,) = found([row])
    assert (one[0], one[1]) == (there, reason)
    assert found([Row(V2, LINK_ETHERNET), row, Row(WORDS, LINK_INFINIBAND), Row(MAD, LINK_INFINIBAND)])[1] == one


def test_the_first_reason_stays() -> None:
    """A packet whose length is a lie has further faults that follow from it."""
    assert found([Row(changed(WORDS, 5, 5)[:18], LINK_INFINIBAND)])[0][1] == where.PKTLEN_LARGE


@pytest.mark.parametrize("link", [LINK_ETHERNET, LINK_IPOIB])
def test_a_header_inside_another_of_its_kind_moves_no_record(link: int) -> None:
    """A GRH behind that of link type 242, Ethernet in Ethernet: the chunk's own offsets are not written."""
    frames = {
        LINK_IPOIB: bytes(40) + b"\x89\x15\0\0" + GLOBAL[8:-2],
        LINK_ETHERNET: MACS + bytes.fromhex("88470000010000000000") + MACS + b"\x89\x15" + GLOBAL[8:-2],
    }
    chunk = chunk_of([Row(frames[link], link)] * 2)
    before = chunk.offset.tolist()
    assert locate(chunk).at("grh")[0] > before[0] and chunk.offset.tolist() == before


def test_numbers_at_the_edges_of_the_data() -> None:
    for read, size in ((u16, 2), (u24, 3)):
        data = np.arange(1, 9, dtype=np.uint8)
        places = range(size == 3, 8 - size + 1)
        wanted = [int.from_bytes(bytes(data[at : at + size]), "big") for at in places]
        assert read(data, np.array(places, np.int64)).tolist() == wanted
        assert read(data[: size + (size == 3)], np.array([size == 3], np.int64)).tolist() == wanted[:1]
        for few in range(size + (size == 3)):
            nothing = read(data[:few], np.empty(0, np.int64))
            assert len(nothing) == 0 and nothing.dtype == np.int64
