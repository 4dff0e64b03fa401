"""Headers are found where they are, and nowhere else, whatever the lengths claim."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ibdissect.engine import offsets as where
from ibdissect.engine.offsets import MALFORMED
from ibdissect.wire.headers import BTH
from ibdissect.wire.opcodes import OPCODES
from tests import craft
from tests.cases import every
from tests.craft import headers_of, native, rc, roce2, smp, ud
from tests.decode.made import ethernet_table, native_table, table_of


@every("opcode", sorted(OPCODES))
def test_every_opcode_native_with_and_without_grh(opcode: int) -> None:
    payload = bytes(range(10)) if OPCODES[opcode].payload else b""
    size = len(headers_of(opcode))
    for grh in (None, {}):
        table = native_table([rc(opcode, payload, grh=grh)])
        loc = table.located
        base, start = int(table.chunk.offset[0]), 8 + 40 * (grh is not None)
        assert not loc.malformed[0] and loc.complete[0]
        assert loc.at("bth")[0] == base + start and (loc.at("grh")[0] == base + 8) == (grh is not None)
        assert loc.opcode[0] == opcode
        if payload:
            assert loc.at("payload")[0] == base + start + 12 + size
            assert loc.payload_end[0] - loc.at("payload")[0] == 10
        assert loc.at("icrc")[0] == base + len(rc(opcode, payload, grh=grh)) - 6
        for name in OPCODES[opcode].headers:
            assert len(table.occurrences(getattr(__import__("ibdissect.wire.headers", fromlist=["x"]), name))) == 1


def test_mad_is_found_on_qp0_and_qp1_only() -> None:
    body = craft.mad(0x04, 1, 0x12)
    loc = native_table([ud(body), ud(body, dest_qp=0), ud(body, dest_qp=2), ud(body[:20])]).located
    assert (loc.at("mad") >= 0).tolist() == [True, True, False, False]
    assert [MALFORMED[i] for i in loc.malformed] == ["", "", "", MALFORMED[where.NO_MAD]]


@every(
    ("frame", "reason"),
    [
        (native()[:7], where.NO_LRH),
        (native(lrh={"pktlen": 7}), where.PKTLEN_LARGE),
        (native(lrh={"pktlen": 8}), where.OK),
        (native(lrh={"pktlen": 2047}), where.PKTLEN_LARGE),
        (native(lrh={"pktlen": 2}), where.PKTLEN_SMALL),
        (native(lrh={"pktlen": 4}), where.NO_BTH),
        (native(opcode=0x0A), where.NO_EXTENDED),
        (native(lrh={"lnh": 3}), where.NO_GRH),
    ],
)
def test_what_does_not_fit_is_not_there(frame: bytes, reason: int) -> None:
    loc = native_table([frame]).located
    assert MALFORMED[loc.malformed[0]] == MALFORMED[reason]


def test_roce_v2_with_vlan_and_other_ports() -> None:
    frames = [roce2(payload=b"abc"), roce2(vlan=5), roce2(udp={"destination_port": 4790}), roce2(ip={"protocol": 6})]
    loc = ethernet_table(frames).located
    assert (loc.at("bth") >= 0).tolist() == [True, True, False, False]
    assert (loc.at("vlan") >= 0).tolist() == [False, True, False, False]
    assert (loc.at("udp") >= 0).tolist() == [True, True, True, False]
    assert loc.payload_end[0] - loc.at("payload")[0] == 3


def test_roce_v1() -> None:
    packet = native(grh={}, payload=b"abcd")
    frame = bytes(12) + b"\x89\x15" + packet[8:-2]
    loc = ethernet_table([frame]).located
    assert loc.at("grh")[0] >= 0 and loc.complete[0] and loc.payload_end[0] - loc.at("payload")[0] == 4


def test_a_later_fragment_is_no_roce_packet() -> None:
    loc = ethernet_table([roce2(ip={"fragment_offset": 3}), roce2(ip={"more_fragments": 1})]).located
    assert (loc.at("bth") >= 0).tolist() == [False, True]


def test_a_snapped_frame_is_not_malformed_and_has_no_icrc() -> None:
    frame = rc(0x0A, bytes(100))
    data = craft.ethernet_pcap([frame])
    cut = 40
    snapped = data[:20] + struct.pack("<I", 247) + data[24:32] + struct.pack("<II", cut, len(frame)) + frame[:cut]
    table = table_of(snapped)
    assert table.located.snapped[0] and not table.located.malformed[0] and table.located.at("icrc")[0] == -1
    assert len(table.occurrences(BTH)) == 1


SEEDS = [native(), native(grh={}), rc(0x0A, bytes(64)), smp(1, 0x15), ud(bytes(30)), rc(0x14)]
ETHERNET = [roce2(payload=bytes(9)), roce2(vlan=7), roce2(0x64, bytes(256), bth={"destqp": 1})]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
@example(5799)  # nothing was captured of what is not read
def test_no_bytes_raise_and_every_offset_lies_inside(seed: int) -> None:
    rnd = random.Random(seed)

    def mutate(frame: bytes) -> bytes:
        data = bytearray(frame)
        for _ in range(rnd.randrange(6)):
            data[rnd.randrange(len(data))] = rnd.randrange(256)
        return bytes(data[: rnd.randrange(1, len(data) + 1)] if rnd.random() < 0.4 else data)

    for make, seeds in ((native_table, SEEDS), (ethernet_table, ETHERNET)):
        table = make([mutate(rnd.choice(seeds)) for _ in range(40)])
        end = table.chunk.offset + table.chunk.caplen
        for name, start in table.located.start.items():
            there = start >= 0
            assert (start[there] < end[there]).all(), name
        for struct_ in table.catalog.structs:
            found = table.occurrences(struct_)
            assert (found.at + struct_.size <= end[found.rows]).all() or struct_.__name__ == "ERF"
            assert (found.stop <= np.maximum(end[found.rows], found.at + struct_.size)).all()
            assert (np.diff(found.rows) >= 0).all()


@every("words", [6, 511, 512, 513, 1023, 1024, 1025, 2046, 2047])
def test_pktlen_has_eleven_bits(words: int) -> None:
    """The five bits above them are reserved: they change nothing."""
    frames = [bytearray(native(0x04, bytes(words * 4 - 24))) for _ in range(6)]
    for reserved, frame in enumerate(frames[1:]):
        frame[4] |= 0x08 << reserved
    assert int.from_bytes(frames[0][4:6], "big") == words
    located = native_table(map(bytes, frames)).located
    assert not located.malformed.any() and (located.at("vcrc") - located.at("lrh") == words * 4).all()
