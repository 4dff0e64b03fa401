"""Columns, trees, JSON lines and Scapy agree on broken packets: what fuzzing found once, and a small slice of it."""

from __future__ import annotations

import io
import logging
import random
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect import Capture
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND, build, gmp, mad, native, roce2, smp, ud

from .agree import Seen, Views, columns, trees
from .container import pcapng
from .mutate import Packet, mutated
from .second import opposed
from .strategies import packets, starts

pytestmark = pytest.mark.slow

logging.getLogger("scapy").setLevel(logging.CRITICAL)


def disagreements(some: Sequence[Packet]) -> list[str]:
    """Everything on which the views of some packets differ, in words."""
    found: list[str] = []
    with Capture(io.BytesIO(pcapng(some)), show_keys=True) as capture:
        for table in capture.tables():
            found += [f"{one.what} {one.rows}" for one in columns(table)]
            seen = Seen()
            assert len(list(trees(table, Views(), seen))) == len(table)
            found += [f"{one.what} {one.rows}" for one in seen.found]
            differ, raised, _ = opposed(table)
            found += [f"{one.what} {one.rows}" for one in differ] + [repr(error) for _, error in raised]
    return found


def patched(frame: bytes, at: int, value: bytes) -> bytes:
    return frame[:at] + value + frame[at + len(value) :]


DATA = bytes(range(64))
MADS = {
    "base version 0x81 is read as InfiniBand's": patched(gmp(0x07, 3, 0x10, bytes(140), at=24), 28, b"\x81"),
    "base version 0": patched(smp(1, 0x10), 28, b"\0"),
    "failed response without its record": gmp(0x03, 0x81, 0x11, DATA, at=56, header={"status": 0x8100}),
    "failed response of another class with RMPP": gmp(0x10, 0x81, 0x01, DATA, at=64, header={"status": 0x8000}),
    "query for a LID that carries a forwarding table": gmp(
        0x03, 1, 0x15, struct.pack(">BBBBIIQHHQ", 1, 0, 0, 0, 0, 0, 0, 0, 0, 1) + DATA, at=24
    ),
    "redirected response with ClassPortInfo": gmp(0x03, 0x81, 0x01, DATA, at=56, header={"status": 2}),
    **{
        f"failed table answer in RMPP segment 1, flags {flags}, AttributeOffset {offset}": gmp(
            0x03, 0x92, 0x35, struct.pack(">BBBBIIQHH8x", 1, 1, flags, 0, 1, length, 0, offset, 0) + DATA, at=24, header={"status": 4}
        )
        for flags, offset, length in ((3, 8, 220), (3, 0, 220), (7, 8, 84), (7, 0, 44))
    },
    "table answer with AttributeOffset 0": gmp(0x03, 0x92, 0x35, struct.pack(">BBBBII", 1, 1, 7, 0, 1, 220) + DATA, at=24),
    "last segment shorter than a record": gmp(
        0x03, 0x92, 0x35, struct.pack(">BBBBIIQHH", 1, 1, 7, 0, 1, 24, 0, 8, 0) + bytes(8) + DATA, at=24
    ),
    "RMPP segment 0": gmp(0x03, 0x92, 0x35, struct.pack(">BBBBIIQHH", 1, 1, 1, 0, 0, 24, 0, 8, 0) + bytes(8) + DATA, at=24),
    "RMPP version 0 in device management": gmp(0x06, 0x81, 0x10, struct.pack(">BBBBII", 0, 2, 0, 0, 9, 9), at=24),
    "header alone": ud(bytes([1, 3, 2, 0x81]) + bytes(20)),
    "a byte less than a header": ud(bytes([1, 3, 2, 0x81]) + bytes(19)),
}  # fmt: skip
LINKS = {
    **{f"PktLen {words}": native(4, DATA, lrh={"pktlen": words}) for words in (0, 1, 2, 3, 4, 6, 7)},
    **{f"PktLen {words} cuts the GRH": native(4, DATA, grh={}, lrh={"pktlen": words}) for words in (3, 9, 12, 15, 16)},
    **{f"PktLen {words} in a raw packet": native(4, DATA, lrh={"pktlen": words, "lnh": 0}) for words in (2, 3)},
    **{f"PktLen {words} in a raw IPv6 packet": native(4, DATA, lrh={"pktlen": words, "lnh": 1}) for words in (2, 3, 12)},
}
DATAGRAMS = {
    **{f"UDP length {size}": roce2(4, DATA, udp={"length": size}) for size in (0, 7, 8, 19, 20, 24, 60, 87, 89, 400, 65535)},
    **{f"IP length {size}": roce2(4, DATA, ip={"total_length": size}) for size in (0, 1, 19, 20, 24, 28, 39, 40, 60, 65535)},
    **{f"IP header of {words} words": roce2(4, DATA, ip={"header_length": words}) for words in (0, 1, 4, 6, 15)},
    "IP version 6 behind Ethertype IPv4": roce2(4, DATA, ip={"version": 6}),
    "a fragment": roce2(4, DATA, ip={"fragment_offset": 3}),
}


@pytest.mark.parametrize("name", [*MADS, *LINKS])
def test_native(name: str) -> None:
    frame = MADS.get(name) or LINKS[name]
    assert disagreements([(LINK_INFINIBAND, frame, len(frame)), (LINK_INFINIBAND, frame, len(frame) + 40)]) == []


@pytest.mark.parametrize("name", sorted(DATAGRAMS))
def test_ethernet(name: str) -> None:
    frame = DATAGRAMS[name]
    assert disagreements([(LINK_ETHERNET, frame, len(frame)), (LINK_ETHERNET, frame, len(frame) + 40)]) == []


def test_a_first_fragment_has_no_icrc() -> None:
    """It is in another one, also if the frame has bytes behind its IP packet."""
    frame = roce2(payload=bytes(range(64)), ip={"more_fragments": 1, "total_length": 76}, udp={"length": 120})
    for link in [(LINK_ETHERNET, frame[:90], 90), (LINK_ETHERNET, frame, len(frame)), (LINK_ETHERNET, frame + bytes(60), len(frame) + 60)]:
        assert disagreements([link]) == []
        with Capture(io.BytesIO(pcapng([link]))) as capture:
            table = next(table for table in capture.tables() if len(table))
            assert table.located.at("bth")[0] > 0 and table.located.at("icrc")[0] < 0


@pytest.mark.parametrize("less", range(6))
def test_frames_that_end_in_their_icrc(less: int) -> None:
    """A datagram of a byte less than a MAD has no SA header, whatever is left of its ICRC."""
    sa = mad(0x03, 3, 0x16, DATA)
    udp = roce2(0x64, sa, bth={"destqp": 1}, udp={"length": 288 - less}, ip={"total_length": 308 - less})
    native_frame = ud(sa, grh={"pay_len": 280 - less})
    roce1 = bytes(12) + b"\x89\x15" + native_frame[8:-2]
    for link, frame in [(LINK_ETHERNET, udp), (LINK_ETHERNET, roce1), (LINK_INFINIBAND, native_frame)]:
        for cut in range(8):
            short = frame[: len(frame) - cut]
            assert disagreements([(link, short, len(short)), (link, short, len(frame))]) == [], (link, cut)


def test_a_record_that_holds_more_than_was_sent() -> None:
    """Its IP packet is whole, and the datagram in it two bytes shorter."""
    frame = roce2(0x64, mad(0x03, 3, 0x16, DATA), bth={"destqp": 1}, udp={"length": 286}, ip={"total_length": 308})
    longer = bytearray(smp(1, 0x10) + bytes(300))
    longer[4:6] = (len(longer) // 4 + 1).to_bytes(2, "big")  # words, one more than there are
    some = [(LINK_ETHERNET, frame, len(frame) - less) for less in (1, 2, 20)]
    assert disagreements([*some, (LINK_INFINIBAND, bytes(longer), 290)]) == []


def test_views_that_differ_are_noticed() -> None:
    """The comparison itself can fail."""
    frame = smp(1, 0x10)
    with Capture(io.BytesIO(pcapng([(LINK_INFINIBAND, frame, len(frame))]))) as capture:
        table = next(table for table in capture.tables() if len(table))
        table.located.malformed[0] = 3
        table.located.at("bth")[0] = -1
        assert {one.what for one in opposed(table)[0]} >= {"malformed: columns and Scapy", "BTH: columns and Scapy differ in where it is"}


def test_trees_that_differ_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from ibdissect.wire.sm import NodeInfo

    frame = smp(0x81, 0x11, build(NodeInfo, num_ports=36))
    with Capture(io.BytesIO(pcapng([(LINK_INFINIBAND, frame, len(frame))]))) as capture:
        table = next(table for table in capture.tables() if len(table))
        table._values[NodeInfo.num_ports] = table.values(NodeInfo.num_ports) + 1
        seen = Seen()
        list(trees(table, Views(), seen))
        assert [one.what for one in seen.found] == ["infiniband.nodeinfo.numports: columns and tree differ in its value"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2, 3))])
def test_mutated(seed: int) -> None:
    rnd, every = random.Random(seed), starts()
    assert disagreements([mutated(rnd, rnd.choice(every), every) for _ in range(400)]) == []


@given(st.lists(packets(), min_size=1, max_size=4))
def test_thought_up(some: list[Packet]) -> None:
    assert disagreements(some) == []
