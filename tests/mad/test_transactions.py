"""Requests are matched with their answers, and the unanswered ones are as documented."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import astuple

from ibdissect.mad.request_outcomes import AnsweredMany
from ibdissect.mad.single_answers import Pairs
from ibdissect.mad.transactions import Transactions
from ibdissect.wire.headers import DETH
from tests import craft
from tests.conftest import SHARED
from tests.decode.made import tables_of


def followed(source: str | bytes, window: int = 16 << 20) -> tuple[Counter[str], int, list[Any]]:
    """Events by name, requests without answer, and the answered ones."""
    transactions, seen, answered = Transactions(), Counter[str](), list[Any]()
    for table in tables_of(source, window):
        for event in transactions.feed(table):
            if isinstance(event, AnsweredMany):
                answered += event.each()
            else:
                seen[type(event).__name__] += 1
    return seen, seen["Unanswered"] + sum(1 for _ in transactions.open_requests()), answered


def page() -> dict[str, int]:
    """File name to unanswered requests, as ../shared/captures/opensm/INDEX.md counts them."""
    index = SHARED / "captures/opensm/INDEX.md"
    if not index.is_file():
        return {}
    return {name: int(count) for name, count in re.findall(r"^\| (\S+\.pcap) \| \d+ \| \d+ \| (\d+) \|", index.read_text(), re.M)}


@pytest.mark.parametrize(("name", "unanswered"), sorted(page().items()))
def test_unanswered_requests_are_those_of_the_page(shared: Path, name: str, unanswered: int) -> None:
    seen, found, _ = followed(str(shared / "captures/opensm" / name))
    assert found == unanswered
    assert not seen["AnsweredAgain"] and not seen["AnsweredFromElsewhere"]


def test_chunks_make_no_difference(shared: Path) -> None:
    path = str(shared / "captures/opensm/31-saquery-rmpp-ft36.pcap")
    assert followed(path, window=100_000)[:2] == followed(path)[:2]


@pytest.mark.parametrize("window", [1, 16 << 20])
def test_a_copy_of_an_answered_request_is_not_unanswered(window: int) -> None:
    """A second mirror adds the request again and loses its answer; a second later, it is another request."""
    ask, other = craft.gmp(4, 1, 0x12, slid=1, dlid=2), craft.gmp(4, 1, 0x1D, slid=1, dlid=2)
    answer = craft.gmp(4, 0x81, 0x12, slid=2, dlid=1)
    for last, step_ns, wanted in ((ask, 20_000, 0), (ask, 600_000_000, 1), (other, 20_000, 1)):
        capture = craft.erf_pcap([ask, answer, last], step_ns=step_ns)
        assert followed(capture, window=window)[1] == wanted


def test_latency_counts_from_the_latest_try() -> None:
    ask = craft.gmp(4, 1, 0x12, slid=1, dlid=2)
    frames = [ask, ask, craft.gmp(4, 0x81, 0x12, slid=2, dlid=1)]
    _, unanswered, answered = followed(craft.erf_pcap(frames, step_ns=5_000_000))
    assert unanswered == 0 and len(answered) == 1
    assert answered[0].request.tries == 2 and answered[0].request.frame == 1 and answered[0].frame == 3
    assert abs(answered[0].latency_ns - 5_000_000) < 10  # ERF has binary fractions of a second


def test_another_question_with_the_same_transaction_does_not_end_the_first() -> None:
    frames = [craft.gmp(4, 1, 0x12, slid=1, dlid=2), craft.gmp(4, 1, 0x1D, slid=1, dlid=2), craft.gmp(4, 0x81, 0x1D, slid=2, dlid=1)]
    seen, unanswered, answered = followed(craft.erf_pcap(frames))
    assert unanswered == 1 and not seen["Unanswered"] and answered[0].request.frame == 2
    seen, unanswered, answered = followed(craft.erf_pcap([*frames, craft.gmp(4, 0x81, 0x12, slid=2, dlid=1)]))
    assert not unanswered and not seen["Unanswered"] and [one.request.frame for one in answered] == [2, 1]


def test_many_questions_with_one_transaction_are_answered_in_any_order() -> None:
    asked = [craft.gmp(4, 1, attribute, slid=1, dlid=2) for attribute in range(0x10, 0x19)]
    back = [craft.gmp(4, 0x81, attribute, slid=2, dlid=1) for attribute in (0x13, 0x18, 0x11, 0x17, 0x14, 0x12, 0x16, 0x15)]
    seen, unanswered, answered = followed(craft.erf_pcap([*asked, *back]))
    assert unanswered == seen["Unanswered"] == 1  # the first of nine is given up
    assert [one.request.attribute for one in answered] == [0x13, 0x18, 0x11, 0x17, 0x14, 0x12, 0x16, 0x15]


def test_virtual_ports_of_one_lid_are_told_apart_by_their_gids() -> None:
    one, other, manager = (bytes([0xFE, 0x80, *bytes(13), number]) for number in (1, 2, 3))
    asked = [craft.gmp(3, 1, 0x35, slid=1, dlid=2, grh={"sgid": gid, "dgid": manager}) for gid in (one, other)]
    back = [craft.gmp(3, 0x81, 0x35, slid=2, dlid=1, grh={"sgid": manager, "dgid": gid}) for gid in (other, one)]
    for frames, pairs in (([*asked, *back], [2, 1]), ([asked[0], back[1], asked[1], back[0]], [1, 3]), ([*asked, back[1]], [1])):
        _, unanswered, answered = followed(craft.erf_pcap(frames))
        assert [each.request.frame for each in answered] == pairs and unanswered == 2 - len(pairs)


def test_a_datagram_that_is_recorded_behind_a_later_one_comes_before_it() -> None:
    ask, other = craft.gmp(4, 1, 0x12, slid=1, dlid=2), craft.gmp(4, 1, 0x1D, slid=1, dlid=2)
    back = craft.gmp(4, 0x81, 0x12, slid=2, dlid=1)
    capture = bytearray(craft.ethernet_pcap([ask, other, back], link=247))
    at = capture.rindex(back) - 12  # its record is 1 ms later than the one before
    capture[at : at + 4] = (500_000).to_bytes(4, "little")
    _, unanswered, answered = followed(bytes(capture))
    assert [one.request.frame for one in answered] == [1] and answered[0].latency_ns == 500_000 and unanswered == 1


def test_directed_routes_are_distinguished() -> None:
    frames = [craft.smp(1, 0x11, path=[1]), craft.smp(1, 0x11, path=[2]), craft.smp(0x81, 0x11, path=[2])]
    _, unanswered, answered = followed(craft.erf_pcap(frames))
    assert unanswered == 1 and answered[0].request.frame == 2 and answered[0].request.to == "route 0,2"


def test_open_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.mad.transactions.MAX_OPEN", 10)
    frames = [craft.gmp(4, 1, 0x12, slid=1, dlid=2, header={"transaction_id": i}) for i in range(1, 31)]
    seen, unanswered, _ = followed(craft.erf_pcap(frames))
    assert seen["Unanswered"] == 20 and unanswered == 30


def test_open_requests_are_those_of_a_class() -> None:
    """Those that wait in columns, and those that are handled one by one, because they were repeated."""
    once = [craft.gmp(kind, 1, 0x12, slid=1, dlid=2, header={"transaction_id": kind}) for kind in (3, 4)]
    again = [craft.gmp(kind, 1, 0x12, slid=1, dlid=2, header={"transaction_id": 9}) for kind in (3, 4) * 2]
    transactions = Transactions()
    for table in tables_of(craft.erf_pcap([*once, *again])):
        assert not list(transactions.feed(table))
    found = {kind: [one.frame for one in transactions.open_requests(kind)] for kind in (None, 3, 4, 5)}
    assert found == {None: [1, 2, 3, 4], 3: [1, 3], 4: [2, 4], 5: []}


def answers_of(event: AnsweredMany, names: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(getattr(event, name).tolist() for name in names), strict=True))


def events_and_answers(frames: list[bytes], window: int) -> tuple[list[object], list[tuple[object, ...]]]:
    """What happened in order, and the answers."""
    transactions, answers = Transactions(), list[tuple[object, ...]]()
    events: list[object] = []
    for table in tables_of(craft.erf_pcap(frames), window):
        for event in transactions.feed(table):
            if isinstance(event, AnsweredMany):
                answers += answers_of(event, COLUMNS)
                each = list(event.each())
                assert [(one.request.frame, one.request.last_frame) for one in each] == answers_of(event, COLUMNS[-3:-1])
                assert [(one.frame, one.latency_ns) for one in each] == answers_of(event, ("frames", "latency_ns"))
            else:
                events.append(said(event))
    return [*events, *map(said, transactions.open_requests()), transactions.answers], answers


def said(event: Any) -> tuple[object, ...]:
    """An event as something that can be compared, with the request or transfer that it holds."""
    return type(event).__name__, *(said(value) if isinstance(value, Struct) else value for value in astuple(event))


COLUMNS = (
    "frames", "times_ns", "method", "status", "mgmt_class", "request_method", "attribute", "request_frames", "last_frames", "latency_ns",
)  # fmt: skip
LIDS = st.integers(1, 3)
GMPS = st.builds(
    lambda method, attribute, tid, slid, dlid: craft.gmp(4, method, attribute, slid=slid, dlid=dlid, header={"transaction_id": tid}),
    st.sampled_from([1, 2, 3, 5, 7, 0x81]), st.sampled_from([0x12, 0x1D]), st.integers(0, 2), LIDS, LIDS,
)  # fmt: skip
SMPS = st.builds(
    lambda method, path, tid: craft.smp(method, 0x11, path=path, header={"transaction_id": tid}),
    st.sampled_from([1, 0x81]), st.sampled_from([[], [1], [1, 2], [1] * 9]), st.integers(1, 2),
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(st.one_of(GMPS, SMPS), min_size=1, max_size=25))
def test_columns_agree_with_single_steps(frames: list[bytes]) -> None:
    by_columns = events_and_answers(frames, 16 << 20)
    assert events_and_answers(frames, 16) == by_columns  # each datagram in a chunk of its own
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibdissect.mad.transactions.pair", no_pairs)
        assert events_and_answers(frames, 16 << 20) == by_columns


def no_pairs(marks: npt.NDArray[np.uint64], _columns: object, role: npt.NDArray[np.uint8], _waiting: object) -> Pairs:
    """Leaves all to go one by one."""
    none = np.empty(0, np.int64)
    return Pairs(none, none, none, np.flatnonzero(role))


def test_an_answer_that_comes_again_in_a_later_chunk() -> None:
    ask, answer = craft.gmp(4, 1, 0x12, slid=1, dlid=2), craft.gmp(4, 0x81, 0x12, slid=2, dlid=1)
    fill = [craft.gmp(4, 3, 0x12, slid=1, dlid=2)] * 30
    seen, _, answered = followed(craft.erf_pcap([ask, answer, *fill, answer]), window=4096)
    assert seen["AnsweredAgain"] == 1 and len(answered) == 1


def over_ip(method: int, source: int, destination: int) -> bytes:
    """A PerfMgt datagram over RoCE v2; addresses are the last byte of 10.0.0.0."""
    payload = craft.mad(4, method, 0x12)
    headers = craft.build(DETH, q_key=craft.GSI_KEY, srcqp=1)
    ends = {"source": bytes([10, 0, 0, source]), "destination": bytes([10, 0, 0, destination])}
    return craft.roce2(0x64, payload, headers=headers, bth={"destqp": 1, "m": 0}, ip=ends)


@pytest.mark.parametrize("window", [1000, 16 << 20])
def test_a_request_that_is_recorded_late_is_not_unanswered(window: int) -> None:
    """The second window begins with a packet that was sent long after the answer, but the request in it was not."""
    ask, answer = craft.gmp(4, 1, 0x12, slid=1, dlid=2), craft.gmp(4, 0x81, 0x12, slid=2, dlid=1)
    other = craft.gmp(4, 3, 0x12, slid=3, dlid=2)
    first, last = craft.erf_pcap([other, other, answer]), craft.erf_pcap([other], start_ns=1_700_000_001_000_000_000)
    capture = first + last[24:] + craft.erf_pcap([ask])[24:]
    assert followed(capture, window=window)[1] == 0


@pytest.mark.parametrize("window", [16, 16 << 20])
def test_ip_addresses_tell_requesters_apart(window: int) -> None:
    frames = [over_ip(1, 1, 2), over_ip(1, 3, 2), over_ip(0x81, 2, 3), over_ip(0x81, 2, 4)]
    _, unanswered, answered = followed(craft.ethernet_pcap(frames), window=window)
    assert unanswered == 1 and len(answered) == 1
    assert (answered[0].request.frame, answered[0].request.to) == (2, "10.0.0.2")


@pytest.mark.parametrize("window", [16, 16 << 20])
def test_an_answer_counts_however_late(window: int) -> None:
    asks = [craft.gmp(4, 1, 0x12, slid=1, dlid=2, header={"transaction_id": i}) for i in range(1, 4)]
    late = craft.gmp(4, 0x81, 0x12, slid=2, dlid=1, header={"transaction_id": 1})
    seen, unanswered, answered = followed(craft.erf_pcap([*asks, late], step_ns=6_000_000_000), window=window)
    assert seen["Unanswered"] == 0 and unanswered == 2 and [one.request.frame for one in answered] == [1]
