"""A second that brought too many requests to remember them all is reported in the same way, whatever the window. A requester that waits
for each answer sends no flood.
"""

from __future__ import annotations

import numpy as np
import pytest

from ibdissect.rules.TXN import timing
from tests.cases import every, few
from tests.craft import erf_pcap, gmp, interfaces_pcapng
from tests.rules.findings import rules
from tests.rules.made.conversations import GET, GET_RESP, counters, perf
from tests.rules.test_rules import lint
from tests.standard import SECOND_NS


@pytest.mark.parametrize(("most", "kept"), [(9, [2, 4]), (1, [4])])
def test_only_requests_of_the_last_second_are_remembered(most: int, kept: list[int]) -> None:
    """Also where a late record stands between them."""
    times = np.array([1, 2, 5, 3, 5.5]) * SECOND_NS
    assert np.arange(5)[timing._last_second(times, most)].tolist() == kept


@pytest.mark.parametrize("code", ["TXN018", "TXN002"])
@few("window", [16, 5000, 1 << 20], fast=(1, 2))
def test_the_first_one_without_room_is_named(code: str, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "MAX_KEPT", 40)
    monkeypatch.setattr(timing, "MAX_ASKED", 40)
    packets = [gmp(0x04, 1, 0x12, slid=1, dlid=2, header={"transaction_id": i + 1}) for i in range(60)]
    judges = [rules()[one] for one in (code, "CAP016")]
    told = [
        (one.frame, one.count) for one in lint(erf_pcap(packets, step_ns=10_000_000), rules=judges, window=window) if one.code == "CAP016"
    ]
    assert told == [(41, 20)]


@pytest.mark.parametrize(("pause_ms", "how"), [(49, "warning"), (50, "info")])
def test_a_program_waits_for_each_answer(pause_ms: int, how: str) -> None:
    """One of 16 answers is lost. The program repeats the request, or goes on at once like one that does not wait."""
    now, frames = 0, list[tuple[int, bytes]]()
    for n in range(1, 301):
        lost = n % 16 == 2
        frames += [(now, counters(GET, n))] + ([] if lost else [(now + 500_000, counters(GET_RESP, n))])
        now += (pause_ms if lost else 3) * 1_000_000
        if lost:
            frames += [(now, counters(GET, n)), (now + 500_000, counters(GET_RESP, n))]
            now += 3_000_000
    start = 1_700_000_000 * SECOND_NS
    capture = interfaces_pcapng([(0, frame) for _, frame in frames], times=[start + at for at, _ in frames])
    assert [str(one.severity) for one in lint(capture) if one.code == "TXN018"] == [how]


@few("more", [1, 4], fast=(1,))
@few("select", range(1, 5), fast=(0, 3))
def test_floods_of_one_window_are_told_apart(select: int, more: int) -> None:
    """One is answered, one asks from a queue pair whose answers nobody recognizes, and one has no answer, unlike an earlier question."""
    good = [frame for n in range(1, 101 + more) for frame in (counters(way, n, port_select=select) for way in (GET, GET_RESP))]
    asked = [{"transaction_id": 1000 + n} for n in range(100 + more)]
    apart = [gmp(0x04, GET, 0x12, slid=1, dlid=7, src_qp=0x48, header=one) for one in asked]
    bad = [gmp(0x04, GET, 0x12, slid=1, dlid=8, header=one) for one in asked]
    first = [gmp(0x04, GET, 0x1D, slid=1, dlid=8), gmp(0x04, GET_RESP, 0x1D, slid=8, dlid=1)]
    mixed = [*first, *(frame for four in zip(good[::2], good[1::2], apart, bad, strict=True) for frame in four)]
    times = [1_700_000_000 * SECOND_NS + 1000 * place for place in range(len(mixed))]
    mixed, times = [*mixed, good[0]], [*times, times[-1] + 3 * SECOND_NS]  # the capture goes on: nothing waits for its answer
    capture = interfaces_pcapng([(0, frame) for frame in mixed], times=times)
    found = [(one.frame, one.count, str(one.severity)) for one in lint(capture) if one.code == "TXN018"]
    assert sorted(found) == [(403, more, "info"), (405, more, "info"), (406, more, "warning")]


@every(("answered", "found"), [(1, ["warning"]), (2, [])])
@every("pause_ms", [1, 400])
def test_a_program_with_one_id_for_all_its_requests_waits(answered: int, found: list[str], pause_ms: int) -> None:
    """The capture lacks one answer; those to earlier requests of the last second show that the program waits."""
    now, frames = 0, list[tuple[int, bytes]]()
    for n in range(answered + 2):
        now += pause_ms * 1_000_000 if n < answered else 1_000_000
        lost = n == answered
        what = 0x1D if n > answered else 0x12
        frames += [(now, perf(GET, what, b""))] + ([] if lost else [(now + 500_000, perf(GET_RESP, what, b""))])
    start = 1_700_000_000 * SECOND_NS
    capture = interfaces_pcapng([(0, frame) for _, frame in frames], times=[start + at for at, _ in frames])
    assert [str(one.severity) for one in lint(capture) if one.code == "TXN002"] == found
