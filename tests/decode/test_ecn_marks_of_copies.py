"""A packet is marked once, whichever of its copies shows the mark: in stats, in diagnose and in findings, wherever a window ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibdissect.capture import records
from ibdissect.lint.linter import Linter
from ibdissect.subnet.separate_subnets import SubnetMap
from ibdissect.traffic.statistics import Statistics
from tests.cases import few
from tests.craft import gmp, interfaces_pcapng, native, rc, roce2
from tests.decode.made import tables_of
from tests.diagnosis.lab import diagnosis
from tests.rules.findings import rules

Made = Callable[[int, bool], bytes]
"""A packet by its number, marked or not."""
AETH = {"AETH": {"syndrome": 31, "msn": 0}}
EARLY, BEHIND, BOTH, BEFORE = 2, 30, 33, 36
"""Packets that are marked: while nobody knows that most come twice, behind the switch, on both sides, and only before it."""


def native_rc(number: int, marked: bool) -> bytes:
    return native(4, b"%08d" % number, lrh={"vl": marked}, bth={"destqp": 9, "psn": number, "fecn": marked})


def native_ack(number: int, marked: bool) -> bytes:
    return rc(0x11, ext=AETH, slid=2, dlid=1, bth={"destqp": 5, "psn": number, "fecn": marked})


def roce(number: int, marked: bool) -> bytes:
    return roce2(4, b"%08d" % number, bth={"destqp": 9, "psn": number}, ip={"ecn": 3 if marked else 2, "identification": number + 1})


def routed(number: int, marked: bool) -> bytes:
    """Behind the router each packet has fewer hops left, and its mark."""
    return roce2(4, b"%08d" % number, bth={"destqp": 9, "psn": number}, ip={"ecn": 3 if marked else 2, "ttl": 63 if marked else 64})


def datagram(number: int, marked: bool) -> bytes:
    return gmp(4, 1, 0x12, header={"transaction_id": number + 1}, bth={"fecn": marked})


def shown_twice(made: Made, link: int) -> bytes:
    """40 packets, each on its way into a switch and 300 ns later on its way out."""
    every = []
    for number in range(40):
        every += [(10_000 * number, made(number, number in (BOTH, BEFORE)))]
        every += [(10_000 * number + 300, made(number, number in (EARLY, BEHIND, BOTH)))]
    return interfaces_pcapng([(0, frame) for _, frame in every], link=link, times=[1_700_000_000_000_000_000 + time for time, _ in every])


def stats(data: bytes) -> tuple[int, int, int]:
    statistics = Statistics()
    for table in tables_of(data):
        statistics.feed(table)
    (entry,) = statistics.result()["congestion"]
    return entry["ce"], entry["fecn"], entry["becn"]


def found_in(data: bytes, linter: Linter) -> list[int]:
    """How often each finding of a linter was made."""
    for table in tables_of(data):
        linter.feed(table)
    return [found.count for found in linter.finish()]


@pytest.mark.parametrize("rows", [7, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (1, 3, records.ROWS))])
@few(
    ("made", "link", "marks"),
    [(native_rc, 247, (0, 4, 0)), (native_ack, 247, (0, 4, 0)), (roce, 1, (4, 0, 0)), (datagram, 247, (0, 4, 0))],
    fast=(0, 2),
)
def test_a_mark_counts_once(made: Made, link: int, marks: tuple[int, int, int], rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS", rows)
    data = shown_twice(made, link)
    assert stats(data) == marks
    if made is not datagram:
        assert sum(one.counts.ce for one in diagnosis(data).connections) == 4
    if made is not roce:
        assert found_in(data, Linter([rules()["BTH020"]])) == [4]


def test_a_packet_that_bore_a_mark_before_the_switch_is_found_once() -> None:
    """It had BECN, and the switch added FECN."""

    def marked(number: int, behind: bool) -> bytes:
        return native(4, b"%08d" % number, bth={"destqp": 9, "psn": number, "becn": number == BEHIND, "fecn": behind and number >= BEHIND})

    every = [frame for number in range(40) for frame in (marked(number, False), marked(number, True))]
    times = [1_700_000_000_000_000_000 + 10_000 * (i // 2) + 300 * (i % 2) for i in range(80)]
    data = interfaces_pcapng([(0, frame) for frame in every], times=times)
    assert stats(data) == (0, 40 - BEHIND, 1)
    assert found_in(data, Linter([rules()["BTH020"]])) == [40 - BEHIND]


def test_a_part_of_a_mixed_capture_has_its_copies() -> None:
    """They are left out there, too, and what they are the first to show is not."""
    linter = Linter([])
    linter.parts = {number: Linter([rules()["BTH020"]]) for number in (0, 1, 2)}
    linter.context.sources[SubnetMap] = SubnetMap({("LID", lid): 1 for lid in (1, 2)})
    assert found_in(shown_twice(native_rc, 247), linter) == [4]


@few("rows", [1, records.ROWS], fast=(1,))
def test_marks_that_are_set_behind_a_router(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS", rows)
    frames = [(0, routed(number, marked)) for number in range(5) for marked in (False, True)]
    data = interfaces_pcapng(frames, link=1, step_ns=2000)
    assert stats(data) == (5, 0, 0)
    assert [one.counts.ce for one in diagnosis(data).connections] == [5] and not diagnosis(data).connections[0].counts.packets_sent_again


def test_a_notification_answers_marks_behind_a_switch() -> None:
    """It came after the mark, in the same window: no mark is without notification."""
    from ibdissect.decode.counted_packets import Distinct
    from ibdissect.transport.congestion import Congestion

    frames = [(0, routed(number, marked)) for number in range(5) for marked in (False, True)]
    back = {"source": bytes([192, 168, 0, 2]), "destination": bytes([192, 168, 0, 1])}
    frames.append((0, roce2(0x81, bytes(16), headers=b"", bth={"becn": 1}, ip=back)))
    times = [1_700_000_000_000_000_000 + 2000 * i for i in range(10)] + [1_700_000_000_100_000_000, 1_700_000_003_000_000_000]
    frames.append((0, roce2(4, bth={"destqp": 9, "psn": 9}, ip={"ecn": 2})))
    congestion, distinct = Congestion(), Distinct()
    for table in tables_of(interfaces_pcapng(frames, link=1, times=times)):
        congestion.feed(distinct.of(table))
    congestion.finish()
    assert sorted((pair.ce, pair.notifications, pair.ignored_frame) for pair in congestion.pairs.values()) == [(0, 1, 0), (5, 0, 0)]
