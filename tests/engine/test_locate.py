"""Compiled and interpreted steps find the same headers in recorded, made and broken packets."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.opening import open_capture
from ibdissect.decode.locate import locate
from tests import craft, tunnels
from tests.conftest import REPO, shared_captures
from tests.decode.made import Row, chunk_of
from tests.engine.plain import interpreted
from tests.fuzz import mutate, seeds
from tests.standard import LINK_ERF, LINK_ETHERNET, LINK_IPOIB, LINK_LOOP, LINK_NULL, LINK_PPP, LINK_SLL, LINK_SLL2

CAPTURES = [*sorted((REPO / "captures").glob("*.pcap*")), *shared_captures()]
ROWS = 1000
"""Rows of a capture that the interpreted steps are given."""
BESIDE = ("end", "snapped", "malformed", "length", "payload_end", "opcode", "limit", "complete", "stop")
PORTS = (4791, 4789)


def located(chunk: Chunk, locate: Any, ports: Sequence[int]) -> dict[str, list[int]]:
    loc = locate(chunk, ports)
    return {name: at.tolist() for name, at in loc.start.items()} | {name: getattr(loc, name).tolist() for name in BESIDE}


@cache
def plain_locate() -> Any:
    """The same, with the interpreted steps."""
    with interpreted():
        return import_module("ibdissect.decode.locate").locate


def agree(chunk: Chunk) -> None:
    """Both find the same in a chunk."""
    for ports in (PORTS[:1], PORTS):
        assert located(chunk, locate, ports) == located(chunk, plain_locate(), ports)


def first_rows(path: Path) -> Chunk:
    chunk = next(open_capture(str(path)).chunks())
    columns = {name: getattr(chunk, name)[:ROWS] for name in ("offset", "caplen", "length", "time_ns", "link", "interface", "pseudo")}
    return Chunk(chunk.first, chunk.base, chunk.data, **columns)


def test_the_second_one_is_interpreted() -> None:
    with interpreted():
        assert str(import_module("ibdissect.engine.locate").__file__).endswith(".py")
    assert plain_locate() is not locate


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_recorded_captures(path: Path) -> None:
    agree(first_rows(path))


def other_links(frame: bytes) -> Iterator[Row]:
    """An Ethernet frame with IP as it looks on other links."""
    for link, head in (
        (LINK_NULL, b"\2\0\0\0"), (LINK_LOOP, b"\0\0\0\2"), (LINK_PPP, b"\xff\3\0\x21"), (101, b""), (LINK_SLL, bytes(14) + frame[12:14]),
        (LINK_SLL2, frame[12:14] + bytes(18)), (LINK_IPOIB, bytes(40) + frame[12:14] + bytes(2)),
    ):  # fmt: skip
        yield Row(head + frame[14:], link)


def made() -> list[Row]:
    """Whole packets of every kind."""
    other = craft.roce2(payload=bytes(9), udp={"destination_port": 4789})
    frames = [craft.roce2(0x64, bytes(256), headers=bytes(8), bth={"destqp": 1}), craft.roce2(0x0A, bytes(40), vlan=5), other]
    inside = [tunnels.wrapped(kind, frame)[0] for frame in frames[:2] for kind in (*tunnels.FRAMES, *tunnels.PACKETS)]
    native = [craft.native(payload=bytes(20), grh=grh) for grh in (None, dict[str, int]())]
    rows = [Row(frame, LINK_ETHERNET) for frame in (*frames, *inside)] + [Row(frame, LINK_ERF, erf=21) for frame in native]
    ip6 = frames[0][:12] + b"\x86\xdd" + b"\x60" + bytes(3) + b"\0\x40"
    rows += [Row(ip6 + bytes([first, 9]) + bytes(32) + bytes([last, 0]) + bytes(70), LINK_ETHERNET) for first, last in ((43, 17), (60, 44))]
    rows += [Row(frames[0][:12] + b"\x88\x08" + opcode + bytes(20), LINK_ETHERNET) for opcode in (b"\0\1", b"\1\1")]
    for kind, at, value in (("", 20, 0x10), ("GRE", 35, 0x04), ("VXLAN-GPE", 45, 6)):  # a later fragment; version 4; no such protocol
        data = bytearray(tunnels.wrapped(kind, frames[0])[0] if kind else frames[0])
        data[at] = value
        rows.append(Row(bytes(data), LINK_ETHERNET))
    rows.append(Row(frames[0][:23] + b"\x29" + frames[0][24:34] + b"\x60" + bytes(39), LINK_ETHERNET))  # IPv6 in IPv4, no more
    return [*rows, *other_links(frames[0]), Row(bytes(6), LINK_ERF, erf=25)]


def broken(rnd: random.Random, rows: Sequence[Row], number: int) -> Iterator[Row]:
    """Copies with a few other bytes, cut, of other lengths on the wire."""
    for _ in range(number):
        row = rnd.choice(rows)
        data = bytearray(row.frame)
        for _ in range(rnd.randrange(4)):
            data[rnd.randrange(min(len(data), 80))] = rnd.choice((0, 1, 0x11, 0x45, 0x60, 0x88, 0xFF, rnd.randrange(256)))
        del data[rnd.choice((len(data), rnd.randrange(len(data) + 1))) :]
        yield Row(bytes(data), row.link, rnd.choice((-1, len(row.frame), len(data) + 9, max(0, len(data) - 3))), row.erf)


@pytest.mark.parametrize("seed", range(3))
def test_made_and_broken_packets(seed: int) -> None:
    rows = made()
    agree(chunk_of([*rows, *broken(random.Random(seed), rows, 600)], b"\xff" * seed))


@pytest.mark.slow
def test_packets_cut_behind_every_byte() -> None:
    """Of all headers, and of the MAD: each bound is met from both sides."""
    agree(chunk_of([Row(row.frame[:size], row.link, -1, row.erf) for row in made() for size in range(min(len(row.frame), 110))], b""))


@pytest.mark.slow
def test_packets_of_the_declarations_broken_by_the_fuzzer() -> None:
    rnd, known = random.Random(5), seeds.of_declarations()
    packets = [mutate.mutated(rnd, rnd.choice(known), known) for _ in range(1500)]
    agree(chunk_of([Row(data, link, wire) for link, data, wire in packets], b""))


def test_nothing_is_read_beyond_the_window() -> None:
    """Compiled, an offset outside raises IndexError, and so does a negative one."""
    for row in made()[::4]:
        for size in range(0, min(len(row.frame), 160), 5):
            locate(chunk_of([Row(row.frame[:size], row.link, len(row.frame), row.erf)], b""))


def test_offsets_are_those_of_the_fields() -> None:
    datagram = craft.roce2(0x64, bytes(256), headers=bytes(8), bth={"destqp": 1})
    chunk = chunk_of([Row(datagram, LINK_ETHERNET), *other_links(craft.roce2(0x04, bytes(9)))], b"")
    loc = locate(chunk)
    behind = chunk.offset + np.array([14, 4, 4, 4, 0, 16, 20, 44])
    assert np.array_equal(loc.at("ip4"), behind) and np.array_equal(loc.at("bth"), behind + 28)
    assert np.array_equal(loc.at("icrc"), loc.end - 4) and loc.at("mad").tolist() == [int(behind[0]) + 48, *[-1] * 7]
