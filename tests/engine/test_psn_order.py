"""Streams tell the same compiled and interpreted, and the right events for the packets beside each bound."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ibdissect.decode.connection_packets import LaneFollower
from ibdissect.engine import lanes, psn_order
from ibdissect.pipeline.reading import open_reading
from ibdissect.transport.psn_streams import Streams
from tests import craft
from tests.cases import every
from tests.conftest import REPO, SHARED, shared_captures
from tests.decode.made import tables_of
from tests.engine.plain import plain

CAPTURES = [*sorted((REPO / "captures").glob("*.pcap*")), *shared_captures(), *sorted((SHARED / "public").glob("*.pcap"))]
FRAMES = 5000


def followed(interpreted: bool) -> Streams:
    packets = LaneFollower()
    if interpreted:
        packets.lanes, packets.reader = plain("lanes").Lanes(), plain("packet_fields").PacketReader()
    return Streams(packets)


def told(streams: Streams, tables: Any) -> list[Any]:
    """All events, and the state of all streams after them."""
    found: list[Any] = []
    for table in tables:
        found += [
            (type(one).__name__, one.ends.text, *(getattr(one, name) for name in one.__struct_fields__ if name != "ends"))
            for one in streams.feed(table)
        ]
    for one in streams.all:
        back = streams.other(one)
        state = {name: getattr(one, name) for name in dir(one) if not name.startswith("_") and not callable(getattr(one, name))}
        state |= {"told": None, "lane": None, "next": None, "back": back.number if back is not None else None, "ends": one.ends.text}
        found.append({name: str(value) if name == "gaps" else value for name, value in state.items()})
    return found


def same(tables: Any) -> list[Any]:
    """What both tell."""
    ours, theirs = (told(followed(interpreted), tables()) for interpreted in (False, True))
    assert ours == theirs
    return ours


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_compiled_and_interpreted_tell_the_same(path: Path) -> None:
    with open_reading(str(path)) as reading:
        same(lambda: reading.tables(keys=False, until=FRAMES))


@pytest.mark.parametrize("packets", [500, pytest.param(2000, marks=pytest.mark.slow)])
def test_they_tell_the_same_of_random_packets(packets: int) -> None:
    rnd = np.random.default_rng(11)
    frames = []
    for _ in range(packets):
        code = int(rnd.choice([0, 1, 2, 4, 6, 7, 8, 0xA, 0xC, 0xC, 0xD, 0xE, 0xF, 0x10, 0x11, 0x11, 0x12, 0x13, 0x24, 0x26, 0x28, 0xA4]))
        body = rnd.integers(0, 256, int(rnd.choice([0, 4, 16, 20, 256, 260, 512])), np.uint8).tobytes()
        near, far = (1, 2) if rnd.integers(2) else (2, 1)
        bth = {"destqp": int(rnd.integers(2, 4)), "psn": int(rnd.integers(-8, 40)) & 0xFFFFFF}
        frames.append(craft.native(code, body, slid=near, dlid=far, bth=bth))
    events = [one[0] for one in same(lambda: tables_of(craft.erf_pcap(frames))) if isinstance(one, tuple)]
    assert {psn_order.REPEATED, psn_order.ORDER_WRONG} < set(events)


def ask(psn: int, code: int = 0x04, size: int = 8, **kw: Any) -> bytes:
    return craft.rc(code, bytes(size), slid=1, dlid=2, bth={"destqp": 0x10, "psn": psn & 0xFFFFFF}, **kw)


def answer(psn: int, msn: int, syndrome: int = 0) -> bytes:
    ext = {"AETH": {"syndrome": syndrome, "msn": msn}}
    return craft.rc(0x11, ext=ext, slid=2, dlid=1, bth={"destqp": 0x20, "psn": psn & 0xFFFFFF})


def events(*frames: bytes, window: int = 1 << 20) -> list[tuple[Any, ...]]:
    """Kind, frame and what else is told."""
    found = told(followed(False), tables_of(craft.erf_pcap(list(frames)), window))
    return [(one[0], one[2], *one[6:]) for one in found if isinstance(one, tuple)]


WRITE = {"RETH": {"r_key": 7, "dmalen": 600}}


def test_requests_that_follow_each_other_tell_nothing() -> None:
    assert events(ask(1), ask(2), answer(2, 2), ask(3)) == [] == events(ask(-3), ask(-2, 0x00, 256))


def read(psn: int, size: int, va: int = 0) -> bytes:
    return ask(psn, 0x0C, 0, ext={"RETH": {"va": va, "r_key": 7, "dmalen": size}})


@every("seed", range(12))
def test_no_read_is_taken_for_the_rest_of_another(seed: int) -> None:
    """READs of many lengths and other requests, without responses; where the capture misses some, no more PSNs are skipped than those."""
    rnd = random.Random(seed)
    psn, va, mtu, kept = rnd.choice([0, -200, 1 << 23]), 0, 256 << seed % 5, []
    for _ in range(60):
        size = rnd.choice([-1, 0, 1, 256, 257, 1024, 2000, 4096, 4096, 8192, 16384, 100_000])
        count = max(1, -(-size // mtu))
        if seed < 5 or rnd.random() < 0.7:
            kept.append((psn, count, ask(psn) if size < 0 else read(psn, size, va)))
        psn, va = psn + count, va + size if rnd.random() < 0.8 else rnd.getrandbits(48)
    streams = followed(False)
    found = [one[0] for one in told(streams, tables_of(craft.erf_pcap([frame for *_, frame in kept]))) if isinstance(one, tuple)]
    assert set(found) <= {"Wrapped"}
    assert streams.all[0].missing <= sum(after[0] - before[0] - before[1] for before, after in itertools.pairwise(kept))


REST = [read(1, 8192, 100), read(4, 8192 - 3 * 1024, 100 + 3 * 1024)]


@every(
    ("frames", "wanted"),
    [
        (REST, 1),
        ([*REST, ask(9)], 1),
        ([*REST, ask(8)], 2),  # the first one took eight PSNs
        ([REST[0], read(4, 8192 - 3 * 1024, 101 + 3 * 1024)], 0),  # other bytes
        ([REST[0], read(4, 8192 - 3 * 1024 + 1, 99 + 3 * 1024)], 0),  # no MTU makes three responses of these bytes
        ([REST[0], read(9, 4096, 100 + 4096)], 0),  # half of the bytes again, and eight responses of 1024 bytes before
        ([REST[0], read(9, 4096, 100 + 8192), read(1, 8192, 100), ask(13)], 1),  # only the first one was sent again
        ([REST[0], read(9, 4096, 100 + 8192), read(1, 8192, 100), ask(12)], 1),
    ],
)  # fmt: skip
def test_the_rest_of_a_read_is_sent_again(frames: list[bytes], wanted: int) -> None:
    assert sum(len(one[-1]) for one in events(*frames)) == wanted


@every(("psn", "missing"), [(9, 0), (10, 1), (17, 0), (33, 0), (34, 1)])
def test_what_may_be_a_response_is_not_missing(psn: int, missing: int) -> None:
    """8192 bytes make 2 to 32 responses: as many as fit."""
    streams = followed(False)
    assert told(streams, tables_of(craft.erf_pcap([ask(0), read(1, 8192), ask(psn)])))[:-1] == []
    assert streams.all[0].missing == missing


def test_a_read_before_the_last_one_is_sent_again_alone() -> None:
    streams = followed(False)
    told(streams, tables_of(craft.erf_pcap([read(1, 8192), read(9, 4096, 1 << 20), read(1, 8192), ask(13)])))
    assert (streams.all[0].repeated, streams.all[0].missing) == (1, 0)


def test_the_last_psn_wraps() -> None:
    assert events(ask(-2), ask(-1), ask(0)) == [("Wrapped", 2)]
    assert events(ask(-1), ask(0)) == [("Wrapped", 1)]  # the first packet, too
    assert events(ask(-1), ask(-2), ask(-1)) == [("Wrapped", 1), ("Repeated", 2, False, False, [2, 3])]


@pytest.mark.parametrize(("far", "wanted"), [(psn_order.psn_gaps.FAR, 1), (psn_order.psn_gaps.FAR + 1, 0)])
def test_a_far_psn_is_another_connection(far: int, wanted: int) -> None:
    streams = followed(False)
    told(streams, tables_of(craft.erf_pcap([ask(0), ask(1 + far)])))
    assert streams.all[0].gap_count == wanted


def test_repetitions_that_follow_each_other_are_one_event_of_a_window() -> None:
    frames = [ask(1), ask(2), ask(3), ask(1), ask(2), ask(3), ask(1)]
    assert events(*frames) == [("Repeated", 4, False, False, [4, 5, 6]), ("Repeated", 7, False, False, [7])]
    assert [one[-1] for one in events(*frames, window=100)] == [[4], [5], [6], [7]]


def test_all_wrong_writes_of_a_window_are_one_event() -> None:
    pair = [[ask(psn, 0x06, 256, ext=WRITE), ask(psn + 1, 0x08, 256)] for psn in (1, 3)]
    right = [ask(5, 0x06, 256, ext=WRITE), ask(6, 0x08, 344)]
    assert events(*pair[0], *pair[1], *right) == [("LengthWrong", 2, 600, 512, 2)]


def test_a_message_goes_on_as_it_began() -> None:
    assert events(ask(1, 0x00, 256), ask(2, 0x08, 8)) == [("OrderWrong", 2, 0x08, 0x00)]
    assert events(ask(1, 0x00, 256), ask(2, 0x01, 512)) == [("SizeChanged", 2, 0x01, 512, 256, 1)]
    assert events(ask(1, 0x00, 256), ask(2, 0x01, 500), ask(3, 0x02, 8)) == []  # no path MTU: a rule about single packets tells


@every(("msn", "wanted"), [(4, []), (5, []), (6, [("MsnJumped", 3, 6, 3, 2, 1)]), (2, [("MsnFell", 3, 2, 3, 2)])])
def test_a_message_number_rises_as_far_as_the_psn(msn: int, wanted: list[Any]) -> None:
    assert events(ask(5), answer(5, 3), answer(6, msn)) == wanted


@pytest.mark.parametrize(("tries", "wanted"), [(7, 0), (8, 1)])
def test_seven_retries_are_allowed(tries: int, wanted: int) -> None:
    """The first repetition, and seven more: a packet is sent nine times."""
    data = craft.erf_pcap([ask(4), answer(4, 1), ask(5), *[ask(5)] * tries], step_ns=100_000_000)
    found = told(followed(False), tables_of(data))
    assert sum(one[0] == "Exhausted" for one in found if isinstance(one, tuple)) == wanted


def test_streams_of_one_lane_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each host behind a router makes one."""
    monkeypatch.setattr(lanes, "MAX_WAYS", 3)
    gids = [bytes([0xFE, 0x80, *bytes(13), k]) for k in range(1, 6)]
    frames = [craft.native(0x04, slid=1, dlid=2, bth={"destqp": 5}, grh={"sgid": gid, "dgid": bytes(16)}) for gid in gids]
    streams = followed(False)
    told(streams, tables_of(craft.erf_pcap(frames)))
    assert len(streams.all) == 3 and streams.dropped[0].count == 2


def packet(psn: int, op: int = 4, **values: Any) -> Any:
    p = plain("packet_fields").Packet()
    p.psn, p.op, p.opcode, p.length, p.whole, p.syndrome, p.msn = psn, op, op, 8, True, -1, -1
    for name, value in values.items():
        setattr(p, name, value)
    return p


def stream(*packets: Any, answers: bool = False) -> Any:
    """The state after some packets, interpreted."""
    found = plain("psn_order").Order(psn_order.psn_gaps.Told(), None, packets[0], answers)
    for one in packets:
        found.take(one, None)
    return found


WRONG = 2
GOES_ON = 3


@pytest.mark.parametrize(("psn", "high"), [(6, 7), (7, 6), (5, 6)])
def test_a_request_with_a_wrong_icrc_counts_only_in_step(psn: int, high: int) -> None:
    assert stream(packet(5), packet(psn, bad_icrc=WRONG)).high == high
    assert stream(packet(5, bad_icrc=WRONG), packet(psn, bad_icrc=WRONG)).high == max(psn + 1, 6)  # a sender that computes none right


@every(("psn", "goes_on", "high"), [
    (6, 0, 6), (9, 0, 9), (9, GOES_ON, 5), (5 + psn_order.psn_gaps.FAR, 0, 5 + psn_order.psn_gaps.FAR), (6 + psn_order.psn_gaps.FAR, 0, 5),
])  # fmt: skip
def test_an_answer_with_a_wrong_icrc_counts_only_in_step(psn: int, goes_on: int, high: int) -> None:
    """It may leave out requests, which one ACK acknowledges together, but begins no message in the midst."""
    first = packet(5, 17, syndrome=31, msn=1)
    assert stream(first, packet(psn, 17, syndrome=31, msn=2, parts=goes_on, bad_icrc=WRONG), answers=True).high == high


def test_what_is_not_captured_is_counted() -> None:
    assert stream(packet(5), packet(6, length=-1), packet(7)).unsized == 1 and stream(packet(5), packet(6)).bytes == 16
    found = stream(packet(5, 17, syndrome=31, msn=1), packet(6, 17), packet(7, 17, syndrome=31, msn=3), answers=True)
    assert (found.unread, found.high) == (1, 7)


@every(("psns", "missing"), [((9,), 0), ((1, 9), 0), ((0, 9), 0), ((9, 11), 1)])
def test_a_read_whose_length_is_cut_off_ends_where_the_next_request_begins(psns: tuple[int, ...], missing: int) -> None:
    """Also if it, or a request before it, is sent again first."""
    found = stream(packet(0), packet(1, 12), *(packet(psn, 12 if psn == 1 else 4) for psn in psns))
    assert found.missing == missing and found.repeated == sum(psn < 9 for psn in psns)
