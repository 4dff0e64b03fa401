"""Packets that make up a message, at wraps, gaps, equal PSNs and notifications."""

from __future__ import annotations

from typing import Any

from ibdissect.transport.message_table import MessageTable
from tests import craft
from tests.decode.made import tables_of

WRITE = 1


def write(psn: int, opcode: int = 0x0A, qp: int = 9) -> bytes:
    """64 bytes of a WRITE to a queue pair at LID 2."""
    return craft.rc(opcode, bytes(64), slid=1, dlid=2, bth={"psn": psn, "destqp": qp})


def ack(psn: int, qp: int = 8) -> bytes:
    """An acknowledgement to a queue pair at LID 1."""
    return craft.rc(0x11, slid=2, dlid=1, bth={"psn": psn, "destqp": qp})


def columns(*frames: bytes) -> Any:
    """What is known of each message."""
    table = MessageTable()
    for chunk in tables_of(craft.erf_pcap(frames)):
        table.feed(chunk)
    table.finish()
    return table.columns()


def test_a_message_over_the_last_psn() -> None:
    m = columns(write(0xFFFFFF, 0x06), write(0, 0x07), write(1, 0x08), ack(1))
    assert [column.tolist() for column in (m.kind, m.first_frame, m.ack_frame, m.bytes, m.packets)] == [[WRITE], [1], [4], [192], [4]]
    assert m.latency_ns.tolist() == [3_000_000]


def test_what_was_recorded_behind_its_acknowledgement_has_no_latency() -> None:
    """A capture of two interfaces may change the order."""
    m = columns(write(5), ack(5), ack(6), write(6))
    assert m.complete.tolist() == [True, True] and m.ack_frame.tolist() == [2, 3]
    assert m.latency_ns.tolist() == [1_000_000, -1] and m.retry_latency_ns.tolist() == [1_000_000, -1]


def test_without_its_middle_it_is_incomplete_although_acknowledged() -> None:
    m = columns(write(5, 0x06), write(7, 0x08), ack(7))
    assert not m.complete.any() and (m.latency_ns == -1).all()


def test_two_queue_pairs_with_equal_psns_are_not_guessed_apart() -> None:
    m = columns(write(5), write(5, qp=10), ack(5))
    assert m.packets.tolist() == [1, 1] and not m.complete.any()


def test_a_far_psn_begins_a_new_connection() -> None:
    m = columns(write(5), ack(5), write(0x500000), ack(0x500000))
    assert m.complete.tolist() == [True, True] and m.ack_frame.tolist() == [2, 4]


def test_a_notification_counts_for_the_newest_message() -> None:
    cnp = craft.rc(0x81, bytes(16), slid=2, dlid=1, bth={"destqp": 8})
    m = columns(write(5), ack(5), write(6), ack(6), cnp, write(7), ack(7))
    assert m.cnps.tolist() == [0, 1, 0] and m.packets.tolist() == [2, 3, 2] and m.last_frame.tolist() == [2, 5, 7]
