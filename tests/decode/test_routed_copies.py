"""Packets on both sides of a router are told from packets that were sent again, wherever a window ends."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.capture import records
from ibdissect.decode.mirror_copies import Copies
from tests.craft import erf_pcap, ethernet_pcap, native, roce2
from tests.decode.made import tables_of


def at(hops: int, psn: int = 1, **kw: Any) -> bytes:
    return roce2(ip={"ttl": hops, **kw}, bth={"psn": psn})


def again(data: bytes) -> list[tuple[int, int, int]]:
    """(frame, how many before, bytes) of each copy that a router forwarded."""
    found, state = [], Copies()
    for table in tables_of(data):
        told = state.find(table)
        every = zip(told.rows.tolist(), told.behind.tolist(), told.size.tolist(), strict=True)
        found += [(row + table.chunk.first, behind, size) for row, behind, size in every if row in told.routed]
    return found


@pytest.mark.parametrize("rows", [1, 2, 3, records.ROWS])
def test_fewer_hops_are_left_behind_a_router(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS", rows)
    assert again(ethernet_pcap([at(64), at(63)], step_ns=1000)) == [(2, 1, 16)]
    assert again(ethernet_pcap([at(64), at(64, 2), at(62), at(62, 2)], step_ns=1000)) == [(3, 2, 16), (4, 2, 16)]
    # sent again: with all its hops
    assert again(ethernet_pcap([at(64), at(63), at(64), at(63)], step_ns=100_000)) == [(2, 1, 16), (4, 1, 16)]
    assert again(ethernet_pcap([at(63), at(64)], step_ns=1000)) == []
    # other packets
    assert again(ethernet_pcap([at(64), at(63, 2)], step_ns=1000)) == []
    assert again(ethernet_pcap([at(64), roce2(ip={"ttl": 63}, bth={"psn": 1}, payload=bytes(4))], step_ns=1000)) == []


@pytest.mark.parametrize(("step_ns", "found"), [(1_000_000, [(2, 1, 16)]), (1_001_000, [])])
def test_a_router_keeps_nothing_for_long(step_ns: int, found: list[tuple[int, int, int]]) -> None:
    assert again(ethernet_pcap([at(64), at(63)], step_ns=step_ns)) == found


def test_a_checksum_that_is_not_there_proves_nothing() -> None:
    frames = [roce2(ip={"ttl": hops}, crc=False) for hops in (64, 63)]
    assert again(ethernet_pcap(frames, step_ns=1000)) == []


def test_packets_with_a_global_header_and_without_one() -> None:
    frames = [native(0x04, b"12345678", grh={"hop_lmt": hops}) for hops in (64, 63)]
    assert again(erf_pcap(frames, step_ns=1000)) == [(2, 1, 24)]
    assert again(erf_pcap([native(), native()], step_ns=1000)) == []


@pytest.mark.parametrize(("others", "found"), [(4095, [(4097, 4096, 16)]), (4096, [])])
def test_few_packets_are_remembered(others: int, found: list[tuple[int, int, int]]) -> None:
    between = [at(3, 9 + i) for i in range(50)] * 82
    assert [one for one in again(ethernet_pcap([at(64), *between[:others], at(63)], step_ns=200)) if one[0] == others + 2] == found
