"""Packets that a mirror of a switch shows on their way in and out are found, compiled and interpreted, and repetitions are not."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ibdissect.capture import records
from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.decode.routed_copies import columns_of
from ibdissect.engine import in_and_out_copies
from tests.craft import erf_pcap, native
from tests.engine.plain import plain

BOTH = (in_and_out_copies, plain("in_and_out_copies"))
NAK = 0x60
Sent = tuple[int, int]
"""When in nanoseconds, and PSN; a NAK for it where that is negative."""


def frame(psn: int, vl: int = 0) -> bytes:
    if psn < 0:
        return native(0x11, b"", lrh={"slid": 2, "dlid": 1}, bth={"destqp": 5, "psn": -psn}, headers=bytes([NAK, 0, 0, 1]))
    return native(4, b"%016d" % psn, lrh={"slid": 1, "dlid": 2, "vl": vl}, bth={"destqp": 9, "psn": psn})


def found_in(engine: Any, sent: Sequence[Sent], rows: int, monkeypatch: pytest.MonkeyPatch, taps: int = 1) -> list[int]:
    """Which of the packets were shown before, as indices. Of two `taps` one has the second half of them."""
    monkeypatch.setattr(records, "ROWS", rows)
    state, found = engine.PassingPackets(64), list[int]()
    order = sorted(range(len(sent)), key=lambda i: sent[i][0])
    frames = [frame(sent[i][1], vl=n % 2) for n, i in enumerate(order)]
    times = np.array([sent[i][0] for i in order])
    for chunk in open_capture(io.BytesIO(erf_pcap(frames, step_ns=1))).chunks():
        table = ChunkTable(chunk)
        columns = columns_of(table, "mad", "icrc")
        rows_of = slice(chunk.first - 1, chunk.first - 1 + len(chunk))
        tap = np.array(order[rows_of], np.int64) * 2 // len(sent) * (taps - 1)
        columns |= {"end": columns["icrc"] + 4, "times": times[rows_of].copy(), "interface": tap}
        found += [order[row + chunk.first - 1] for row, *_ in state.feed(chunk.first, chunk.data, columns)]
    return sorted(found)


def both_ways(lag_ns: int, count: int = 40, step_ns: int = 10_000) -> list[Sent]:
    """Packets on their way in and, a while later, out: first all on their way in."""
    went_in = [(i * step_ns, i) for i in range(count)]
    return went_in + [(time + lag_ns, psn) for time, psn in went_in]


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("lag_ns", [200, 35_000, in_and_out_copies.PASSING_NS])
def test_packets_that_come_out_again(rows: int, lag_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones, until it is known that most come twice, are left."""
    sent = both_ways(lag_ns)
    for engine in BOTH:
        found = found_in(engine, sent, rows, monkeypatch)
        assert found and found == list(range(found[0], 80)) and found[0] <= 70
    assert not found_in(in_and_out_copies, both_ways(in_and_out_copies.PASSING_NS + 1), rows, monkeypatch)


def test_another_interface_shows_another_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in BOTH:
        assert found_in(engine, both_ways(300), 1000, monkeypatch) and not found_in(engine, both_ways(300), 1000, monkeypatch, taps=2)


def test_what_is_sent_again_goes_in_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """PSN 30 was lost in the switch; it comes in again although no NAK is shown, and out; 38 was acknowledged and is sent a second time."""
    sent = both_ways(300)
    lost = sent.index((30 * 10_000 + 300, 30))
    sent[lost] = (25 * 10_000 + 301, 25)  # in its place something that came out twice
    again = [(32 * 10_000 + 1000, 30), (32 * 10_000 + 1300, 30), (38 * 10_000 + 5000, 38), (38 * 10_000 + 5300, 38)]
    for engine in BOTH:
        found = found_in(engine, sent + again, 1000, monkeypatch)
        assert [i for i in found if i >= 80] == [81, 83] and lost not in found


@pytest.mark.parametrize("asked", [True, False])
def test_repetitions_that_somebody_asks_for_are_no_mirror(asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each packet is refused once and sent again at once: without its NAKs that looks like a mirror."""
    sent = [one for i in range(40) for one in ((i * 90_000, i), (i * 90_000 + 40_000, -i - 1), (i * 90_000 + 60_000, i))]
    sent = [one for one in sent if asked or one[1] >= 0]
    for engine in BOTH:
        assert bool(found_in(engine, sent, 1000, monkeypatch)) is not asked


def test_three_of_five_packets_are_no_mirror_and_looking_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in BOTH:
        sent = both_ways(300, 60)
        some = [one for one in sent if one[0] % 10_000 == 0 or one[1] % 4]
        assert found_in(engine, some, 1000, monkeypatch), "three of four"
        fewer = [one for one in sent if one[0] % 10_000 == 0 or one[1] % 5 > 1]
        assert not found_in(engine, fewer, 1000, monkeypatch)
    monkeypatch.setattr(records, "ROWS", 1000)
    state = in_and_out_copies.PassingPackets(64)
    (chunk,) = open_capture(io.BytesIO(erf_pcap([frame(i % 9) for i in range(900)], step_ns=1_000_000))).chunks()
    table = ChunkTable(chunk)
    columns = columns_of(table, "mad", "icrc")
    columns |= {"end": columns["icrc"] + 4, "interface": np.zeros(len(table), np.int64)}
    for _ in range(in_and_out_copies.TRIED // 900):
        assert not state.feed(1, chunk.data, columns) and not state.over
    state.feed(1, chunk.data, columns)
    assert state.over


def test_packets_that_are_shown_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a third port: all but the first sightings are left out, once that is known."""
    sent = both_ways(300, 100)
    sent += [(time + 300, psn) for time, psn in sent[100:]]
    for engine in BOTH:
        found = found_in(engine, sent, 1000, monkeypatch)
        assert found[0] >= 100 and {*found} >= {*range(170, 200), *range(270, 300)}
