"""Frames that are copies by a mirror are found wherever a window ends, and nothing reads them as packets."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from ibdissect.capture import records
from ibdissect.capture.opening import open_capture
from ibdissect.decode import ChunkTable
from ibdissect.decode.mirror_copies import Copies
from ibdissect.wire.headers import BTH
from tests import tunnels
from tests.craft import ethernet_pcap, gmp, interfaces_pcapng, native, roce2

FRAMES = [roce2(payload=b"%08d" % i, bth={"psn": i}) for i in range(5)]


def copies(frames: list[bytes], step_ns: int, late_ns: Sequence[int] = ()) -> tuple[list[tuple[int, int, int]], list[int]]:
    """(frame, how many before, nanoseconds) of each copy, and the frames that have a BTH. `late_ns`: for each frame of a single chunk."""
    found, packets, state = [], [], Copies()
    for chunk in open_capture(io.BytesIO(ethernet_pcap(frames, step_ns=step_ns))).chunks():
        table = ChunkTable(replace(chunk, time_ns=chunk.time_ns + late_ns) if late_ns else chunk)
        told = state.leave_out(table)
        found += list(zip((told.rows + chunk.first).tolist(), told.behind.tolist(), told.later_ns.tolist(), strict=True))
        packets += (table.occurrences(BTH).rows + chunk.first).tolist()
    return found, packets


@pytest.mark.parametrize("rows", [1, 2, 3, records.ROWS])
def test_copies_of_earlier_frames_hold_no_packets(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS", rows)
    a, b, c, d, _ = FRAMES
    assert copies([a, b, a, b, c, d, d], 1000) == ([(3, 2, 2000), (4, 2, 2000), (7, 1, 1000)], [1, 2, 5, 6])
    assert copies([a, b, c, d, a], 1000) == ([], [1, 2, 3, 4, 5])  # 4 us later


def test_acks_are_repeated_at_once() -> None:
    """A responder that gets a request twice acknowledges it twice; a mirror repeats much more."""
    a, *_ = FRAMES
    ack = roce2(0x11, headers=bytes(4))
    assert copies([a, ack, ack], 500) == ([(3, 1, 500)], [1, 2]), "one of three frames"
    frames = [roce2(payload=b"%08d" % i, bth={"psn": i}) for i in range(40)]
    assert copies([*frames, ack, ack], 500) == ([], [*range(1, 43)])
    assert copies([*frames, a, a], 500)[0] == [(42, 1, 500)]


@pytest.mark.parametrize(("kept", "found"), [(41, []), (60, [(2, 1, 500)])])
def test_frames_that_end_before_their_psn_are_not_compared(kept: int, found: list[tuple[int, int, int]]) -> None:
    state, (chunk,) = Copies(), open_capture(io.BytesIO(ethernet_pcap([FRAMES[0][:kept]] * 2, step_ns=500))).chunks()
    told = state.leave_out(ChunkTable(replace(chunk, length=chunk.length + 100)))
    assert list(zip((told.rows + 1).tolist(), told.behind.tolist(), told.later_ns.tolist(), strict=True)) == found


def test_a_copy_may_follow_a_frame_of_another_time() -> None:
    a, b, c, *_ = FRAMES
    assert copies([a, b, a, c], 100, [0, 5000, 0, 5000]) == ([(3, 2, 200)], [1, 2, 4])


def test_headers_of_other_frames_stay_where_they_were() -> None:
    chunk = next(iter(open_capture(io.BytesIO(ethernet_pcap([FRAMES[0], FRAMES[0], FRAMES[1]], step_ns=1))).chunks()))
    table = ChunkTable(chunk)
    before = {name: at.copy() for name, at in table.located.start.items()}
    Copies().leave_out(table)
    for name, at in table.located.start.items():
        assert np.array_equal(at[[0, 2]], before[name][[0, 2]]) and at[1] == -1
    assert np.array_equal(chunk.offset, ChunkTable(chunk).chunk.offset) and (chunk.offset >= 0).all()


@pytest.mark.parametrize("rows", [1, records.ROWS])
def test_copies_may_differ_below_ip(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `tcpdump -i any` records them: with and without a VLAN tag, to another MAC address, and in a tunnel of IP packets."""
    monkeypatch.setattr(records, "ROWS", rows)
    frame = FRAMES[0]
    tagged, readdressed = frame[:12] + b"\x81\0\0\x05" + frame[12:], bytes(6) + frame[6:]
    for other in (tagged, readdressed, tunnels.wrapped("IP in IP", frame)[0]):
        for pair in ((frame, other), (other, frame)):
            assert copies([*pair, FRAMES[1]], 500) == ([(2, 1, 500)], [1, 3])
    routed = bytearray(frame)
    routed[22] -= 1  # the time to live
    assert copies([frame, bytes(routed)], 500) == ([(2, 1, 500)], [1]), "behind a router"
    assert copies([bytes(routed), frame], 500) == ([], [1, 2]), "hops do not grow"


@pytest.mark.parametrize("rows", [1, records.ROWS])
@pytest.mark.parametrize(("more", "found"), [(0, [(2, 1, 500), (3, 1, 500)]), (4, [(3, 2, 1000)])])
def test_copies_may_be_cut_at_different_places(
    more: int, found: list[tuple[int, int, int]], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a tag less of the packet is captured; one that had more bytes is another packet."""
    monkeypatch.setattr(records, "ROWS", rows)
    plain, tagged = FRAMES[0], FRAMES[0][:12] + b"\x81\0\0\x05" + FRAMES[0][12:]
    lengths = np.array([len(plain), len(tagged) + more, len(plain)])
    told, state = list[tuple[int, int, int]](), Copies()
    for chunk in open_capture(io.BytesIO(ethernet_pcap([plain[:62], tagged[:60], plain[:58]], step_ns=500))).chunks():
        here = slice(chunk.first - 1, chunk.first - 1 + len(chunk))
        copy = state.leave_out(ChunkTable(replace(chunk, length=lengths[here])))
        told += zip((copy.rows + chunk.first).tolist(), copy.behind.tolist(), copy.later_ns.tolist(), strict=True)
    assert told == found


def test_the_size_of_a_copy_is_what_is_equal() -> None:
    frame = FRAMES[0]
    tagged = frame[:12] + b"\x81\0\0\x05" + frame[12:]
    chunk = next(iter(open_capture(io.BytesIO(ethernet_pcap([frame, frame, tagged], step_ns=1))).chunks()))
    assert Copies().leave_out(ChunkTable(chunk)).size.tolist() == [len(frame), len(frame) - 14]


@pytest.mark.parametrize("rows", [1, 2, records.ROWS])
def test_what_the_network_doubled_has_the_number_of_its_original(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a window ends. Its sender numbers what it sends again anew, and so does one who was asked to."""
    monkeypatch.setattr(records, "ROWS", rows)
    numbered, other = (roce2(payload=b"%08d" % i, bth={"psn": i}, ip={"identification": 7 + i}) for i in range(2))
    nak = roce2(0x11, headers=bytes([0x60, 0, 0, 0]), ip={"identification": 9})
    assert copies([numbered, other, numbered], 2_000_000) == ([(3, 2, 4_000_000)], [1, 2])
    assert copies([numbered, nak, numbered], 2_000_000) == ([], [1, 2, 3])
    assert copies([numbered, other, numbered], 2_600_000) == ([], [1, 2, 3])
    assert copies([numbered, other, FRAMES[2], numbered], 1_600_000) == ([(4, 3, 4_800_000)], [1, 2, 3]), "one without a number is none"
    assert copies([FRAMES[0], other, FRAMES[0]], 2_000_000)[0] == ([(3, 2, 4_000_000)] if int.from_bytes(FRAMES[0][18:20], "big") else [])


@pytest.mark.parametrize("rows", [1, records.ROWS])
@pytest.mark.parametrize("kind", ["VXLAN", "ERSPAN II"])
def test_copies_of_mirrored_frames_differ_in_their_tunnels(kind: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is equal is the frame inside; other frames are behind it."""
    monkeypatch.setattr(records, "ROWS", rows)
    one, other = (tunnels.wrapped(kind, FRAMES[0], number=number)[0] for number in (1, 2))
    assert one != other
    assert copies([one, other, FRAMES[1]], 500) == ([(2, 1, 500)], [1, 3])
    chunk = next(iter(open_capture(io.BytesIO(ethernet_pcap([one, other, FRAMES[1]], step_ns=500))).chunks()))
    if len(chunk) == 3:
        assert Copies().leave_out(ChunkTable(chunk)).size.tolist() in ([len(FRAMES[0])], [len(FRAMES[0]) - 14])


def test_copies_that_are_found_in_several_ways_are_in_the_order_of_frames_and_each_is_one() -> None:
    """A datagram that a switch forwarded on another lane, 100 us later, in front of a copy of a mirror; and one that is both."""
    asked, other = (gmp(4, 1, 0x12, header={"transaction_id": number}) for number in (7, 8))
    forwarded, sent = bytes([asked[0] ^ 0x10]) + asked[1:], native(0x04, b"some words")
    frames, times = [asked, forwarded, sent, sent, other, other], [0, 100_000, 200_000, 200_500, 300_000, 300_500]
    data = interfaces_pcapng([(0, frame) for frame in frames], times=[1_700_000_000_000_000_000 + time for time in times])
    found, state = list[tuple[int, int, int]](), Copies()
    for chunk in open_capture(io.BytesIO(data)).chunks():
        told = state.find(ChunkTable(chunk))
        found += zip((told.rows + chunk.first).tolist(), told.behind.tolist(), told.later_ns.tolist(), strict=True)
    assert found == [(2, 1, 100_000), (4, 1, 500), (6, 1, 500)]
