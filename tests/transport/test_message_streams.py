"""Streams that packets begin, and responses with the requests that they answer."""

from __future__ import annotations

from typing import Any

from ibdissect.transport.messages import Messages
from tests.craft import erf_pcap
from tests.decode.made import tables_of

from .test_message_parts import ack, columns, write


def followed(*frames: bytes) -> Any:
    """The streams of a capture."""
    messages = Messages()
    for table in tables_of(erf_pcap(frames)):
        assert [*messages.feed(table)]
    return messages.streams


def test_the_requester_is_whom_the_responses_go_to() -> None:
    streams = followed(write(5), ack(5))
    assert [(ends.dest_qp, ends.response) for ends in streams.ends] == [(9, False), (8, True)]
    assert streams.requester(1) == 8 and streams.requester(2) is None


def test_responses_that_two_streams_may_get_belong_to_none() -> None:
    streams = followed(write(5), write(5, qp=10), ack(5))
    assert streams.requester(1) is None and streams.requester(2) is None


def test_numbers_go_on_after_all_streams_are_forgotten() -> None:
    streams = followed(write(5), ack(5), write(0x500000))
    assert len(streams.ends) == 3 and len(streams.asking) == 2
    streams.forget()
    assert streams.base == 4 and not streams.asking and streams.requester(1) is None


def test_a_first_packet_that_was_lost_and_comes_again_belongs_to_its_message() -> None:
    """The stream begins with the middle of a message: what came before is not left out."""
    opcodes = ((6, 0x07), (7, 0x08), (5, 0x06), (6, 0x07), (7, 0x08))
    m = columns(*(write(psn, opcode) for psn, opcode in opcodes), ack(7))
    assert [column.tolist() for column in (m.complete, m.bytes, m.retries)] == [[True], [192], [2]]
