"""A missing packet counts as lost if the capture shows losses, and as never sent otherwise."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ibdissect.traffic import capture_loss
from ibdissect.traffic.capture_loss import CaptureLoss
from tests import craft
from tests.cases import every, few
from tests.decode.made import tables_of
from tests.robustness.manipulations import SECOND, Pcap, Record

NEIGHBOURS = 8

FIRST = 1_700_000_000_000_000_000
"""Time of the first frame."""
LATER = FIRST + 3_600_000_000_000


def ask(transaction: int) -> bytes:
    return craft.gmp(4, 1, 0x12, slid=1, dlid=2, header={"transaction_id": transaction})


def answer(transaction: int) -> bytes:
    return craft.gmp(4, 0x81, 0x12, slid=2, dlid=1, header={"transaction_id": transaction})


def of(capture: bytes, window: int = 32 << 20) -> CaptureLoss:
    loss = CaptureLoss()
    for table in tables_of(capture, window):
        for follower in (loss.streams, loss.transactions):
            for _ in follower.feed(table):
                pass
        loss.feed(table)
    loss.streams.lanes.finish()
    return loss


def plain(frames: list[bytes]) -> bytes:
    """A container that is not known to lose packets."""
    return craft.ethernet_pcap(frames, link=247)


def test_an_answer_without_its_request_is_a_loss_near_it() -> None:
    loss = of(plain([ask(1), answer(1), answer(2)]))
    assert not loss.proves_silence(FIRST) and loss.proves_silence(LATER)
    assert of(plain([ask(1), answer(1), ask(2)])).proves_silence(FIRST)


def test_the_request_of_the_first_answer_may_be_older_than_the_capture() -> None:
    assert of(plain([answer(2), ask(1), answer(1)])).proves_silence(FIRST)


def test_requests_and_answers_that_never_belong_together_are_a_sample() -> None:
    """A switch mirrors one packet of ten; where only answers pass the capture point, nothing need be missing."""
    assert not of(plain([answer(1), ask(2), answer(3), ask(4)])).proves_silence(FIRST)
    assert of(plain([answer(1), answer(3)])).proves_silence(FIRST)


def test_a_copy_of_a_request_behind_its_answer_shows_another_order_than_the_networks() -> None:
    for frames, step, disorderly in (
        ([ask(1), answer(1), ask(1)], 1_000_000, True), ([ask(1), ask(1), answer(1)], 1_000_000, False),
        ([ask(1), answer(1), ask(1)], 10_000_000, False),
    ):  # fmt: skip
        for window in (32 << 20, 300):
            assert of(craft.ethernet_pcap(frames, link=247, step_ns=step), window).disorderly() == disorderly


def test_recording_may_have_stopped_where_nothing_was_recorded_for_more_than_a_second() -> None:
    for step, stopped in ((700_000_000, False), (SECOND, False), (SECOND + 10_000, True), (2_500_000_000, True)):
        for window in (32 << 20, 300):
            loss = of(craft.ethernet_pcap([ask(1), ask(2), ask(3)], link=247, step_ns=step), window)
            found = [loss.stopped(frame, FIRST + (frame - 1) * step + SECOND) for frame in (1, 2, 3)]
            assert found == [stopped, stopped, False]
            assert not loss.stopped(1, FIRST + SECOND, 3 * SECOND)


@pytest.mark.parametrize("window", [32 << 20, 300])
def test_nothing_was_recorded_for_long_between_two_frames(window: int) -> None:
    times = [FIRST + second * SECOND for second in (0, 1, 1801, 1802)]
    loss = of(craft.interfaces_pcapng([(0, ask(number)) for number in range(4)], times=times), window)
    assert [loss.interrupted(1, later) for later in (1, 2, 3, 4)] == [False, False, True, True]
    assert loss.interrupted(2, 3) and not loss.interrupted(3, 4)


@pytest.mark.parametrize("window", [32 << 20, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("pauses", "stops"),
    [
        ([60], []), ([1] * 59 + [60], []), ([1] * 60 + [59], []), ([1] * 60 + [60], [60]), ([10] * 6 + [60, 60], [6, 7]),
        ([10] * 6 + [60, 60, 60], []), ([10] * 5 + [60, 60], []), ([15] * 4 + [60, 15], [4]), ([16] * 9 + [60], []),
        ([300] * 5, []), ([300] * 5 + [1199], []), ([300] * 5 + [1200], [5]), ([1799] * 3, []), ([1800] * 3, [0, 1, 2]),
        ([10] * 26 + [90, 90, 90], []), ([10] * 27 + [90, 90, 90], [27, 28, 29]),
    ],
)  # fmt: skip
def test_recording_stopped_where_nothing_was_recorded_for_far_longer_than_usual(pauses: list[int], stops: list[int], window: int) -> None:
    """For a minute or more, and for four times as long as in nine of ten pauses, or in all but two; or for half an hour.

    A minute of recording shows what is usual."""
    times = [FIRST + int(second) * SECOND for second in np.cumsum([0, *pauses])]
    loss = of(craft.interfaces_pcapng([(0, ask(number)) for number in range(len(times))], times=times), window)
    assert [i for i in range(len(pauses)) if loss.interrupted(i + 1, i + 2)] == stops


def test_an_answer_before_its_request_is_no_loss() -> None:
    assert of(plain([ask(1), answer(1), answer(2), ask(2)])).proves_silence(FIRST)


def test_an_answer_before_an_answered_request_belongs_to_another_one() -> None:
    """The capture missed that request."""
    assert not of(plain([ask(1), answer(1), answer(2), ask(2), answer(2)])).proves_silence(FIRST)


def send(psn: int) -> bytes:
    return craft.roce2(4, b"data", bth={"psn": psn, "destqp": 5})


def acknowledge(psn: int) -> bytes:
    ends = {"source": bytes([192, 168, 0, 2]), "destination": bytes([192, 168, 0, 1])}
    return craft.roce2(0x11, b"", ext={"AETH": {"syndrome": 0, "msn": psn}}, bth={"psn": psn, "destqp": 6}, ip=ends)


@pytest.mark.parametrize(("acknowledged", "proves"), [(4, False), (2, True)])
def test_a_request_that_is_acknowledged_and_not_there_is_a_loss(acknowledged: int, proves: bool) -> None:
    frames = [send(1), acknowledge(1), send(2), send(4), acknowledge(acknowledged)]
    assert of(craft.ethernet_pcap(frames)).proves_silence(FIRST) is proves


@pytest.mark.slow
def test_answers_alone_prove_nothing() -> None:
    """A tap on one direction: nobody would notice a missing packet."""
    assert not of(craft.erf_pcap([answer(i) for i in range(1, 600)])).proves_silence(LATER)
    acknowledged = [one for i in range(1, 1100) for one in (send(i), acknowledge(i))]
    assert of(craft.ethernet_pcap(acknowledged)).complete() and not of(craft.ethernet_pcap(acknowledged[::2])).complete()


def sent(psn: int) -> bytes:
    """A message between two LIDs."""
    return craft.rc(4, b"12345678", slid=1, dlid=3, bth={"psn": psn, "destqp": 5})


def acknowledged(psn: int, syndrome: int = 0) -> bytes:
    return craft.rc(0x11, ext={"AETH": {"syndrome": syndrome, "msn": psn}}, slid=3, dlid=1, bth={"psn": psn, "destqp": 6})


WRITTEN = [craft.smp(method, 0x15, path=[1], header={"transaction_id": 9}) for method in (2, 0x81)]


@every(
    ("frames", "unsettled"),
    [
        ([answer(1), ask(1), *WRITTEN], True),
        ([ask(1), answer(1), *WRITTEN], False),
        ([answer(1), ask(1), answer(1), *WRITTEN], False),
        ([answer(1), ask(1), ask(2), answer(2), answer(2), ask(2), answer(2), *WRITTEN], True),
        ([answer(1), ask(1), ask(1), answer(1), *WRITTEN], True),
        ([acknowledged(5), sent(5), acknowledged(6), sent(6), *WRITTEN], True),
        ([acknowledged(4), sent(5), acknowledged(5), sent(6), *WRITTEN], False),
        ([acknowledged(5, 0x60), sent(5), acknowledged(5), sent(6), acknowledged(6), *WRITTEN], False),
        ([acknowledged(5, 0x20), sent(5), acknowledged(5), sent(6), acknowledged(6), *WRITTEN], False),
    ],
)
def test_what_was_written_is_unsettled_if_the_order_is_not_that_on_the_wire(frames: list[bytes], unsettled: bool) -> None:
    """Answers in front of their requests show that; acknowledgements of requests from before the capture do not."""
    first = [ask(3), answer(3)]
    records = [Record(i, FIRST + i * 1_000_000, one, len(one)) for i, one in enumerate([*first, *frames])]
    loss = of(Pcap(247, tuple(records)).packed())
    assert loss.unsettled(1, FIRST + 5_000_000) is unsettled
    assert not loss.unsettled(1, FIRST + 100_000_000)


@pytest.mark.parametrize(("step_ns", "disorderly"), [(5_000_000, True), (100_000_000, False)])
def test_a_request_that_is_sent_again_was_answered_before(step_ns: int, disorderly: bool) -> None:
    """The capture began after the request was first sent."""
    frames = [acknowledged(5), sent(5), acknowledged(5), sent(6), acknowledged(6)]
    assert of(craft.ethernet_pcap(frames, link=247, step_ns=step_ns)).disorderly() is disorderly


@every("window", [1, 32 << 20])
@every(("times", "disorderly"), [((0, 2, 1), True), ((0, 1, 2), False), ((0, 1, 1), False), ((5000, 5001, 0), False)])
def test_times_that_run_backwards_show_another_order(times: tuple[int, ...], disorderly: bool, window: int) -> None:
    """In ms; a clock that is set back by a second or more says nothing of the order."""
    records = [Record(1, FIRST + time * 1_000_000, one, len(one)) for time, one in zip(times, [ask(1), answer(1), ask(2)], strict=True)]
    assert of(Pcap(247, tuple(records)).packed(), window).disorderly() is disorderly


@few("window", [1, 32 << 20], fast=(1,))
def test_a_write_does_not_unsettle_itself(window: int) -> None:
    disorder, other = [answer(1), ask(1)], craft.smp(2, 0x15, path=[1], header={"transaction_id": 10})
    cases = ([WRITTEN[0], *disorder], False), ([*WRITTEN, *disorder, *WRITTEN], False), ([*WRITTEN, *disorder, other], True)
    for frames, unsettled in cases:
        records = [Record(i, FIRST + i * 1_000_000, one, len(one)) for i, one in enumerate([ask(3), answer(3), *frames])]
        assert of(Pcap(247, tuple(records)).packed(), window).unsettled(3, FIRST + 2_000_000) is unsettled


@pytest.mark.slow
def test_erf_proves_silence_by_traffic_alone() -> None:
    talk = [frame for i in range(1, 501) for frame in (ask(i), answer(i))]
    assert of(craft.erf_pcap(talk)).proves_silence(LATER)
    assert not of(craft.erf_pcap(talk[:200])).proves_silence(LATER)
    del talk[500]
    assert not of(craft.erf_pcap(talk)).proves_silence(LATER)


@pytest.mark.slow
def test_a_loss_counter_is_a_loss() -> None:
    talk = [frame for i in range(1, 501) for frame in (ask(i), answer(i))]
    capture = bytearray(craft.erf_pcap(talk))
    struct.pack_into(">H", capture, 24 + 16 + 12, 3)
    loss = of(bytes(capture))
    assert loss.near(FIRST) and not loss.near(LATER) and not loss.complete()


def test_a_clock_that_was_set_back() -> None:
    frames = [ask(1), answer(1)]
    assert of(craft.ethernet_pcap(frames, link=247, step_ns=-2_000_000_000)).set_back
    assert not of(plain(frames)).set_back


def test_forgotten_pauses_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.traffic.capture_loss.MAX_SECONDS", 2)
    loss = of(craft.ethernet_pcap([ask(i) for i in range(6)], link=247, step_ns=2_000_000_000), window=1)
    assert loss.stopped(1, FIRST) and loss.stopped(2, LATER)
    assert [loss.interrupted(1, later) for later in (2, 3, 5)] == [False, False, True], "a forgotten one may be long"
    assert loss.stopped(5, LATER) and not loss.stopped(5, FIRST)
    assert {one.what: (one.frame, one.count) for one in loss.dropped if one.count} == {"pauses of the recording": (4, 3)}


@pytest.mark.parametrize("window", [32 << 20, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("often", [1, 3], ids=["a frame a second", "three frames a second"])
def test_frames_of_a_long_recording_have_a_time(often: int, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact of hours ago is not of just now, though not every second is remembered."""
    monkeypatch.setattr("ibdissect.traffic.capture_loss.MAX_SECONDS", 16)
    seconds = [*range(100), *range(4000, 4010)]
    times = [FIRST + second * SECOND + SECOND * part // often for second in seconds for part in range(often)]
    frames = [(0, ask(number)) for number in range(1, len(times) + 1)]
    loss = of(craft.interfaces_pcapng(frames, times=times), window)
    for one, other in ((1, 50), (60, 95), (20, 105), (1, 110)):
        real, told = seconds[other - 1] - seconds[one - 1], loss.nanoseconds_between((one - 1) * often + 1, other * often) // SECOND
        assert abs(told - real) < 32, (one, other)
    assert not any(one.count for one in loss.dropped)


LOSSES = ((100, False), (750, True))


@pytest.mark.parametrize(("second", "between"), [(990, True), *(pytest.param(*one, marks=pytest.mark.slow) for one in LOSSES)])
def test_a_loss_between_two_frames_of_a_long_recording(second: int, between: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of a frame is known to 64 then: what was lost just before the later one counts, too."""
    monkeypatch.setattr("ibdissect.traffic.capture_loss.MAX_SECONDS", 16)
    times = [FIRST + number * SECOND for number in range(1002)]
    loss = of(craft.interfaces_pcapng([(0, ask(number)) for number in range(1, len(times) + 1)], times=times))
    loss.counted_losses.add(second, FIRST + second * SECOND)
    assert loss.between_frames(500, len(times)) is between


@pytest.mark.parametrize("window", [32 << 20, pytest.param(400, marks=pytest.mark.slow)])
def test_the_order_of_neighbours_is_doubtful_where_a_time_runs_back(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 21st frame is a second record of the time before it, whichever windows the two are in."""
    frames = [(0, ask(number)) for number in range(1, 41)]
    times = [FIRST + 1000 * (number - 2 * (number == 21)) for number in range(1, 41)]
    loss = of(craft.interfaces_pcapng(frames, times=times), window)
    assert [frame for frame in range(1, 41) if loss.disordered(frame, frame)] == [*range(21 - NEIGHBOURS, 21 + NEIGHBOURS)]
    assert loss.disordered(1, 40) and not loss.disordered(1, 12) and not loss.disordered(29, 40)
    assert not of(craft.interfaces_pcapng(frames), window).disordered(1, 40)
    monkeypatch.setattr(capture_loss, "MAX_SECONDS", 1)
    forgotten = of(craft.interfaces_pcapng(frames, times=times), window)
    assert forgotten.disordered(30, 40), "there may have been more of them"


def test_more_records_out_of_order_than_are_remembered_are_no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_loss, "MAX_SECONDS", 2)
    times = [FIRST + 1000 * (number - 2 * (number % 5 == 0)) for number in range(40)]
    loss = of(craft.interfaces_pcapng([(0, ask(number)) for number in range(1, 41)], times=times))
    assert {one.what: one.count for one in loss.dropped if one.count} == {"records earlier than the one before": 5}
    assert not loss.stopped(30, times[39]) and not loss.interrupted(1, 40) and loss.disordered(35, 40)


def test_an_attribute_that_is_cut_off_may_have_changed_a_fact() -> None:
    """The header still says who asked and who answered."""
    for size, cut_off in ((28 + 64, True), (28 + 64 + 100, False)):
        frames = [(ask(1), 999), (answer(1), 999), (ask(2), 999), (answer(2), size)]
        records = [Record(i, FIRST + i * SECOND, one[:kept], len(one)) for i, (one, kept) in enumerate(frames)]
        loss = of(Pcap(247, tuple(records)).packed())
        assert loss.unread_between(1, FIRST + 4 * SECOND) is cut_off
        assert not loss.between(1, FIRST + 4 * SECOND) and not loss.cut_near(FIRST + 2 * SECOND)
