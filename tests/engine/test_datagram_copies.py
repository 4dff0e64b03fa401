"""Compiled and interpreted steps find the same copies, and those that a look at all earlier ones finds."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from ibdissect.capture import records
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.decode.routed_copies import columns_of
from ibdissect.engine import datagram_copies
from ibdissect.wire.headers import LRH
from tests.craft import erf_pcap, ethernet_pcap, native, roce2, smp
from tests.decode.made import tables_of
from tests.engine.plain import plain

BOTH = (datagram_copies, plain("datagram_copies"))
Sighting = tuple[int, int, int]
"""Frame, how many before, nanoseconds."""


def tables(data: bytes, rows: int, monkeypatch: pytest.MonkeyPatch) -> list[ChunkTable]:
    monkeypatch.setattr(records, "ROWS", rows)
    return list(tables_of(data))


def datagram(tid: int, slid: int = 1) -> bytes:
    mad = bytes([1, 0x81, 1, 1]) + bytes(4) + tid.to_bytes(8, "big") + bytes(240)
    return native(0x64, mad, lrh={"slid": slid}, bth={"destqp": 0}, headers=bytes(8))


def sightings(found: Iterable[tuple[int, ...]], first: int) -> list[Sighting]:
    return [(row + first, behind, later) for row, behind, later, *_ in found]


def of_datagrams(engine: Any, windows: list[ChunkTable], most: int) -> list[Sighting]:
    state, found = engine.DatagramCopies(most), list[Sighting]()
    for table in windows:
        columns = columns_of(table, "lrh", "mad") | {"end": table.located.payload_end}
        found += sightings(state.feed(table.chunk.first, table.chunk.data, columns), table.chunk.first)
    return found


def of_routed(engine: Any, windows: list[ChunkTable], most: int) -> list[Sighting]:
    state, found = engine.RoutedPackets(most), list[Sighting]()
    for table in windows:
        found += sightings(state.feed(table.chunk.first, table.chunk.data, columns_of(table, "icrc")), table.chunk.first)
    return found


@pytest.mark.parametrize("rows", [3, 100])
def test_datagrams_are_copies_of_the_last_equal_one(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a search of all that came before, with few datagrams remembered, so that both halves of the table are used."""
    luck, most = random.Random(rows), 5
    sent = [(luck.choice((0, 0, 0, *range(6))), luck.choice((1, 1, 1, 2))) for _ in range(150)]
    windows = tables(erf_pcap([datagram(*one) for one in sent], step_ns=100_000), rows, monkeypatch)
    wanted, ranks = list[Sighting](), list[int]()
    for i, one in enumerate(sent):
        before = next((k for k in range(i - 1, -1, -1) if sent[k] == one), None)
        ranks.append(ranks[before] + 1 if before is not None and i - before <= most else 0)
        if 0 < ranks[-1] <= datagram_copies.MOST and before is not None:
            wanted.append((i + 1, i - before, (i - before) * 100_000))
    for engine in BOTH:
        assert of_datagrams(engine, windows, most) == wanted
    assert len(wanted) > 20 and max(ranks) > datagram_copies.MOST and {behind for _, behind, _ in wanted} == {1, 2, 3, 4, 5}


def test_a_table_that_grows_keeps_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = tables(erf_pcap([datagram(tid) for _ in range(2) for tid in range(300)], step_ns=1), 100, monkeypatch)
    for engine in BOTH:
        assert of_datagrams(engine, windows, 400) == [(i + 1, 300, 300) for i in range(300, 600)]


@pytest.mark.parametrize(
    ("step_ns", "found"),
    [(datagram_copies.DATAGRAMS_SURELY_NS, 19), (datagram_copies.DATAGRAMS_SURELY_NS + 1, 0), (datagram_copies.DATAGRAMS_NS + 1, 0)],
)
def test_datagrams_that_come_late_are_copies_only_where_many_are(step_ns: int, found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [datagram(tid) for tid in range(19) for _ in range(2)]
    windows = tables(erf_pcap(pairs, step_ns=step_ns), 100, monkeypatch)
    usual = 19 - datagram_copies.USUAL if step_ns <= datagram_copies.DATAGRAMS_NS else 0
    for engine in BOTH:
        assert len(of_datagrams(engine, windows, 100)) == max(found, usual)


def on_its_way(hop: int, tid: int = 1, last: int = 3) -> bytes:
    """A directed SMP at a hop of its route, with the ports that it came in by so far."""
    way = {"hop_pointer": hop, "return_path": bytes([0, *range(10, 10 + hop)])}
    return smp(1, 0x11, path=[1, 2, last], header={"transaction_id": tid}, dr=way)


def test_a_directed_datagram_is_the_same_one_hop_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another transaction, another route and a repetition half a millisecond later are others."""
    soon = [on_its_way(1), on_its_way(2), on_its_way(2, tid=2), on_its_way(3, last=4), on_its_way(3)]
    for engine in BOTH:
        assert of_datagrams(engine, tables(erf_pcap(soon, step_ns=1000), 100, monkeypatch), 100) == [(2, 1, 1000), (5, 3, 3000)]
        late = tables(erf_pcap([on_its_way(1), on_its_way(1)], step_ns=datagram_copies.DATAGRAMS_SURELY_NS + 1), 100, monkeypatch)
        assert of_datagrams(engine, late, 100) == []


@pytest.mark.parametrize(("less", "step_ns", "found"), [(0, 1000, 19), (1, 1000, 0), (0, datagram_copies.DATAGRAMS_SURELY_NS + 1, 0)])
def test_datagrams_that_were_cut_are_copies_up_to_where_they_were(
    less: int, step_ns: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before their segment number was captured, and never late: what is cut off may differ."""
    cut = LRH.size + datagram_copies.KNOWN - less
    pairs = [datagram(tid)[:cut] for tid in range(19) for _ in range(2)]
    windows = tables(erf_pcap(pairs, step_ns=step_ns), 100, monkeypatch)
    for engine in BOTH:
        assert len(of_datagrams(engine, windows, 100)) == found


@pytest.mark.parametrize(("more", "found"), [(0, 5), (1, 4)])
def test_late_copies_are_usual_above_a_share_of_all_datagrams(more: int, found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With (USUAL - 2) * 15 others before, the 15th of 19 pairs is one datagram in USUAL; with one more it is the 16th."""
    alone = [datagram(1000 + tid) for tid in range((datagram_copies.USUAL - 2) * 15 + more)]
    pairs = [datagram(tid) for tid in range(19) for _ in range(2)]
    windows = tables(erf_pcap(alone + pairs, step_ns=datagram_copies.DATAGRAMS_SURELY_NS + 1), 1000, monkeypatch)
    for engine in BOTH:
        assert len(of_datagrams(engine, windows, 100)) == found


@pytest.mark.parametrize("rows", [2, 7, 100])
def test_packets_lose_hops_behind_a_router(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    luck, most = random.Random(rows), 6
    sent = [(luck.randrange(5), luck.choice((64, 63, 62))) for _ in range(60)]
    frames = [roce2(bth={"psn": psn}, ip={"ttl": hops}) for psn, hops in sent]
    windows = tables(ethernet_pcap(frames, step_ns=200_000), rows, monkeypatch)
    wanted = list[Sighting]()
    for i, (psn, hops) in enumerate(sent):
        before = next((k for k in range(i - 1, -1, -1) if sent[k][0] == psn), None)
        if before is not None and i - before <= 5 and hops < sent[before][1]:  # not after more than ROUTED_NS
            wanted.append((i + 1, i - before, (i - before) * 200_000))
    for engine in BOTH:
        assert of_routed(engine, windows, most) == wanted
    assert len(wanted) > 8


def test_equal_hop_counts_are_remembered_without_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [roce2(bth={"psn": psn}, ip={"ttl": hops}) for psn, hops in ((1, 64), (2, 64), (3, 64), (1, 63), (3, 63))]
    for most, wanted in ((2, [5]), (3, [4, 5])):
        for engine in BOTH:
            windows = tables(ethernet_pcap(frames, step_ns=1000), 3, monkeypatch)
            assert [frame for frame, _, _ in of_routed(engine, windows, most)] == wanted


OTHERS = {
    "a packet": (roce2(bth={"psn": 9}), []),
    "no ICRC yet": (roce2(bth={"psn": 9}, crc=False), [3]),
    "no RoCE": (roce2(udp={"destination_port": 53}), [3]),
}


@pytest.mark.parametrize("between", OTHERS)
def test_what_no_router_forwards_takes_no_place(between: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One packet is remembered; an ICRC of 0 is filled in by the adapter after the capture, and shows nothing."""
    other, wanted = OTHERS[between]
    frames = [roce2(ip={"ttl": 64}), other, roce2(ip={"ttl": 63})]
    for engine in BOTH:
        windows = tables(ethernet_pcap(frames, step_ns=1000), 100, monkeypatch)
        assert [frame for frame, _, _ in of_routed(engine, windows, 1)] == wanted


def test_packets_without_an_icrc_yet_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    for crc, wanted in ((True, [2, 3]), (False, [])):
        frames = [roce2(ip={"ttl": hops}, crc=crc) for hops in (64, 63, 62)] + [roce2(bth={"psn": 9}, ip={"ttl": hops}) for hops in (9, 8)]
        for engine in BOTH:
            windows = tables(ethernet_pcap(frames, step_ns=1000), 100, monkeypatch)
            assert [frame for frame, _, _ in of_routed(engine, windows, 5)] == [*wanted, 5]
