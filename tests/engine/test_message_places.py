"""Places of packets among messages: compiled and interpreted engines note the same, and what a far, damaged or late PSN says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ibdissect.decode.connection_packets import LaneFollower
from ibdissect.engine.message_places import COLUMNS, PLACE_BITS
from ibdissect.pipeline.reading import open_reading
from ibdissect.transport.message_table import MessageTable
from tests import craft
from tests.conftest import REPO, SHARED
from tests.decode.made import tables_of
from tests.engine.plain import plain
from tests.transport.test_message_parts import ack, columns, write

RXE = ("netem_corrupt", "netem_reorder_resp", "netem_loss_both", "k612_ops_batch")
CAPTURES = [*sorted((REPO / "captures").glob("*.pcap*")), *(SHARED / f"captures/rxe/{name}.pcap" for name in RXE if SHARED.is_dir())]
PSN, TURN = (1 << PLACE_BITS) - 1, 1 << 24


def noted(tables: Iterable[Any], follower: LaneFollower) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What the engine notes of each packet."""
    follower.with_places = follower.ordered = True
    for table in tables:
        follower.feed(table)
    follower.finish()
    return np.asarray(follower.start().notes_places().taken()).reshape(-1, len(COLUMNS)).copy()


def places(*frames: bytes) -> list[tuple[int, int]]:
    """Frame and place of each packet, less the turn of PSNs that each stream begins with. Too fast for queue pairs that are made anew."""
    return [(row[1], (row[0] & PSN) - TURN) for row in noted(tables_of(craft.erf_pcap(frames, step_ns=1000)), LaneFollower()).tolist()]


def damaged(frame: bytes) -> bytes:
    """The same with a wrong ICRC, which ends a frame of `craft.rc` with the VCRC behind it."""
    return frame[:-3] + bytes([frame[-3] ^ 1]) + frame[-2:]


@pytest.mark.slow
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_compiled_and_interpreted_note_the_same(path: Path) -> None:
    found = []
    for interpreted in (False, True):
        follower = LaneFollower()
        if interpreted:
            follower.lanes, follower.reader = plain("lanes").Lanes(), plain("packet_fields").PacketReader()
        with open_reading(str(path)) as reading:
            reading.joins = False
            found.append(noted(reading.tables(keys=False, until=5000), follower))
    assert (found[0] == found[1]).all()


def test_answers_have_the_place_of_their_request() -> None:
    assert places(write(5), ack(5), write(6), ack(6)) == [(1, 5), (2, 5), (3, 6), (4, 6)]


def test_a_place_goes_on_over_the_last_psn() -> None:
    assert places(write(TURN - 1), write(0), ack(0)) == [(1, TURN - 1), (2, TURN), (3, TURN)]


def test_a_far_psn_comes_after_all_others() -> None:
    """Also a lower one: another connection has the queue pair."""
    assert places(write(0x500000), write(5), ack(5)) == [(1, 0x500000), (2, TURN + 5), (3, TURN + 5)]


def test_an_answer_far_behind_what_was_asked_is_nobodys() -> None:
    assert places(write(5), ack(5), ack(6), ack(0x20005)) == [(1, 5), (2, 5), (3, 6)]


def test_the_answers_of_a_long_read_are_not_far() -> None:
    read = craft.rc(0x0C, ext={"RETH": {"va": 0, "r_key": 1, "dmalen": 1 << 26}}, slid=1, dlid=2, bth={"psn": 5, "destqp": 9})
    last = craft.rc(0x0F, bytes(64), ext={"AETH": {"syndrome": 31, "msn": 1}}, slid=2, dlid=1, bth={"psn": 0x30005, "destqp": 8})
    assert places(read, ack(5), last) == [(1, 5), (2, 5), (3, 0x30005)]


def test_answers_from_before_the_first_request_are_nobodys() -> None:
    assert places(write(5), ack(5), ack(4)) == [(1, 5), (2, 5)]
    assert places(write(7), write(6), ack(7), ack(6)) == [(1, 7), (2, 6), (3, 7), (4, 6)]  # a later one may be the first


def test_a_notification_is_for_requests_where_both_ends_ask() -> None:
    back = craft.rc(0x0A, bytes(64), slid=2, dlid=1, bth={"psn": 0x70, "destqp": 8})
    answer = craft.rc(0x11, slid=1, dlid=2, bth={"psn": 0x70, "destqp": 9})
    notification = craft.rc(0x81, bytes(16), slid=2, dlid=1, bth={"destqp": 8})
    assert places(write(5), ack(5), back, answer, notification)[-1] == (5, 5)


@pytest.mark.slow
def test_no_psn_leads_into_another_stream() -> None:
    """Each PSN is far below the one before."""
    frames = [write(-70_000 * i % TURN) for i in range((1 << PLACE_BITS) // TURN + 100)]
    found = noted(tables_of(craft.erf_pcap(frames, step_ns=1000)), LaneFollower())[:, 0]
    assert 1 << PLACE_BITS - 1 < found.max() < 1 << PLACE_BITS and found.min() >= 0 and len(found) > 4000


@pytest.mark.slow
def test_no_answer_leads_into_another_stream() -> None:
    """It answers a READ of 2 GiB at the end of the places that a stream has."""
    frames = [write(5), ack(5), *(write((5 - 70_000 * i) % TURN) for i in range(1, 4120))]
    found = noted(tables_of(craft.erf_pcap(frames, step_ns=1000)), LaneFollower())
    psn, frame = int(found[:, 0].max()) % TURN, int(found[found[:, 0].argmax(), 1])
    asked = {"RETH": {"va": 0, "r_key": 1, "dmalen": 1 << 31}}
    read = craft.rc(0x0C, ext=asked, slid=1, dlid=2, bth={"psn": (psn + 1) % TURN, "destqp": 9})
    for answered, more in ((TURN - 1, 2), (100, 1)):  # the last place of a stream ends with TURN - 1
        data = craft.rc(0x10, bytes(64), ext={"AETH": {"syndrome": 31, "msn": 1}}, slid=2, dlid=1, bth={"psn": answered, "destqp": 8})
        again = noted(tables_of(craft.erf_pcap([*frames[:frame], read, data], step_ns=1000)), LaneFollower())[:, 0]
        assert len(again) == len(found[: found[:, 0].argmax() + 1]) + more and again.max() < 1 << PLACE_BITS


def test_a_wrong_icrc_makes_an_unexpected_psn_worthless() -> None:
    assert places(write(5), damaged(write(6)), damaged(write(9)), write(7)) == [(1, 5), (2, 6), (4, 7)]
    assert len(places(damaged(write(5)), damaged(write(9)))) == 2  # its sender computes them otherwise


def test_answers_that_came_before_it_was_known_whose_they_are_count() -> None:
    """Two queue pairs begin with the same PSN: only the third answer tells them apart."""
    frames = [frame for psn in range(5, 9) for frame in (write(psn), ack(psn))]
    m = columns(write(5, qp=10), *frames)
    assert m.complete.tolist() == [False] + [True] * 4 and m.latency_ns.tolist() == [-1] + [1_000_000] * 4


def test_a_first_packet_that_was_lost_and_comes_again_belongs_to_its_message() -> None:
    """The stream begins with the middle of a message: what came before is not left out."""
    opcodes = ((6, 0x07), (7, 0x08), (5, 0x06), (6, 0x07), (7, 0x08))
    m = columns(*(write(psn, opcode) for psn, opcode in opcodes), ack(7))
    assert [column.tolist() for column in (m.complete, m.bytes, m.retries)] == [[True], [192], [2]]


def test_messages_between_two_queue_pairs_are_a_conversation_both_ways() -> None:
    back = craft.rc(0x0A, bytes(64), slid=2, dlid=1, bth={"psn": 0x70, "destqp": 8})
    table = MessageTable()
    for chunk in tables_of(craft.erf_pcap([write(5), ack(5), back, write(0x400, qp=11)])):
        table.feed(chunk)
    table.finish()
    first = table.columns().first_frame
    assert first[table.conversation(first.tolist().index(1))].tolist() == [1, 3]
    assert first[table.conversation(first.tolist().index(4))].tolist() == [4]
