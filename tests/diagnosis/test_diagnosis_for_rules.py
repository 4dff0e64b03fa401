"""Rules get the same connections as `ibdissect diagnose`, whatever the windows; a capture without connections costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ibdissect.diagnosis import frame_times
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.wire import cm
from tests.craft import build, erf_pcap, ethernet_pcap, smp
from tests.decode.made import tables_of
from tests.diagnosis.lab import MS, SEC, START, Lab, diagnosis


def refused() -> bytes:
    """Ten SENDs that work, and one whose access is refused."""
    lab = Lab()
    lab.good(0, 100, 10)
    lab.ask(SEC, 110)
    lab.answer(SEC + MS, 110, 0x62)
    return lab.pcap()


def fed(data: bytes, window: int = 1 << 20) -> Stories:
    found = Stories()
    for table in tables_of(data, window):
        assert not list(found.feed(table))
    return found


@pytest.mark.parametrize("window", [256, 1 << 20])
def test_rules_get_what_diagnose_says(window: int) -> None:
    told = fed(refused(), window)
    (one,) = told.of_cause("remote-access-error")
    assert one == diagnosis(refused()).connections[0]
    assert not told.of_cause("healthy") and not told.of_cause("retries-exhausted")
    first, decisive = one.evidence
    assert (first, decisive) == (21, 22)
    assert [told.time_of(frame) - START for frame in (1, 21, 22)] == [0, SEC, SEC + MS]


def test_times_of_further_frames_are_those_of_the_last_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_times, "MAX_TIMES", 21)
    told = fed(refused())
    assert told.time_of(22) - START == SEC
    assert (told.times.dropped.count, told.times.dropped.frame) == (1, 22)


@pytest.mark.parametrize(("after", "connected"), [(SEC, True), (11 * SEC, False)])
def test_when_a_connection_was_accepted_is_known_beyond_all_times_of_frames(
    after: int, connected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one who refuses a connection asks for one itself, as late in a long capture as anywhere."""
    monkeypatch.setattr(frame_times, "MAX_TIMES", 1)
    lab = Lab()
    lab.good(0, 100, 3)
    lab.req(20 * SEC, service_id=0x1061145)
    lab.short(20 * SEC + MS, cm.REJ_ID, cm.REJ, back=True, reason=28)
    asks = {"local_communication_id": 0xB7, "local_qpn": lab.qb, "service_id": 0x1062233}
    lab.manage(20 * SEC + after, cm.REQ_ID, build(cm.REQ, **asks), back=True)
    accepts = {"local_communication_id": 0xA7, "remote_communication_id": 0xB7, "local_qpn": lab.qa}
    lab.manage(20 * SEC + after + MS, cm.REP_ID, build(cm.REP, **accepts))
    told = fed(lab.pcap())
    (refused_one,) = told.of_cause("refused")
    assert told.connected_back(refused_one) is connected


@pytest.mark.parametrize(("shown", "connected"), [("RTU", True), ("packet", True), ("", False)])
def test_what_shows_that_a_later_request_was_accepted(shown: str, connected: bool) -> None:
    """The REP is not captured."""
    lab = Lab()
    lab.req(0, local_communication_id=0xA7, local_qpn=0x700)
    lab.short(MS, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, remote_communication_id=0xA7, reason=28)
    lab.req(SEC)
    if shown == "RTU":
        lab.short(SEC + MS, cm.RTU_ID, cm.RTU)
    elif shown:
        lab.put(SEC + MS, lab.b, lab.a, 4, lab.qa, 500, payload=b"data")
    told = fed(lab.pcap())
    (refused_one,) = told.of_cause("refused")
    assert told.connected_later(refused_one) is connected


@pytest.mark.parametrize(("most", "connected"), [(1, True), (2, False)])
def test_a_later_request_may_be_beyond_the_bound(most: int, connected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.engine.connection_setups.MAX_SETUPS", most)
    lab = Lab()
    lab.req(0, local_communication_id=0xA7, local_qpn=0x700)
    lab.short(MS, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, remote_communication_id=0xA7, reason=28)
    lab.req(SEC, service_id=0x1062233)
    lab.rep(SEC + MS)
    told = fed(lab.pcap())
    (refused_one,) = told.of_cause("refused")
    assert told.connected_later(refused_one) is connected


@pytest.mark.parametrize("window", [256, 1 << 20])
def test_frames_of_windows_without_transport_headers_count(window: int) -> None:
    lab = Lab()
    for i in range(20):
        lab.frames.append((START + i, b"\xff" * 12 + b"\x08\x06" + bytes(46)))
    lab.good(0, 100, 3)
    for i in range(20):
        lab.frames.append((START + SEC + i, b"\xff" * 12 + b"\x08\x06" + bytes(46)))
    told = fed(lab.pcap(), window).diagnosis
    assert told is not None and told.frames == len(lab.frames) == 46


def test_who_computes_its_icrcs_wrongly() -> None:
    lab = Lab()
    lab.good(0, 100, 10)
    lab.frames = [(time, frame[:-1] + bytes([frame[-1] ^ 1]) if i % 2 == 0 else frame) for i, (time, frame) in enumerate(lab.frames)]
    told = fed(lab.pcap())
    assert told.computes_wrongly(lab.a) and not told.computes_wrongly(lab.b)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capture", "module"),
    [(ethernet_pcap([bytes(60)]), "engine.lanes"), (erf_pcap([smp(1, 0x11)]), "diagnosis.verdicts")],
    ids=["without transport headers", "a sweep has no connections to judge"],
)
def test_what_is_not_needed_is_not_loaded(capture: bytes, module: str) -> None:
    code = (
        "import io, sys; from ibdissect.capture.opening import open_capture; from ibdissect.decode.chunk_table import ChunkTable;"
        "from ibdissect.diagnosis.diagnosis_for_rules import Stories; told = Stories();"
        f"[told.feed(ChunkTable(one)) for one in open_capture(io.BytesIO({capture!r})).chunks()];"
        f"assert not told.of_cause('refused') and 'ibdissect.{module}' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_was_not_followed_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """CAP016 says so."""
    from ibdissect.engine import lanes
    from tests.engine.test_pairing import crowd

    monkeypatch.setattr(lanes, "MAX_LANES", 4)
    stories = fed(crowd(8).pcap())
    assert stories.follower is not None and stories.dropped[1].count == stories.follower.lanes.dropped > 0


@pytest.mark.parametrize("window", [256, 1 << 20])
def test_frames_that_are_cut_off_count_once(window: int) -> None:
    lab = Lab()
    lab.good(0, 100, 5, size=1000)
    cut = lab.pcap(snap=64)
    told = fed(cut, window)
    assert (told.times.cut, told.times.frames, told.times.cut_at) == (5, 10, 64)
    assert told.verdicts is not None and told.verdicts.diagnosis("", told.times.frames).notes == diagnosis(cut).notes
