"""Packets of one stream, its new beginnings, and the stream of the opposite direction, which may be unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ibdissect.capture import records
from ibdissect.decode.cm_connections import Connections
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.cm import DREQ, REP, REQ
from tests import craft
from tests.decode.made import tables_of

FAR = 1 << 16


def request(number: int = 7, qpn: int = 0x60) -> bytes:
    body = craft.build(
        REQ, 232, local_communication_id=number, local_qpn=qpn, starting_psn=50, primary_local_port_lid=3, primary_remote_port_lid=4,
        primary_subnet_local=1, retry_count=3,
    )  # fmt: skip
    return craft.gmp(7, 3, 0x10, body, at=24, slid=3, dlid=4)


def reply(number: int = 7, qpn: int = 0x50) -> bytes:
    body = craft.build(REP, 232, local_communication_id=number + 100, remote_communication_id=number, local_qpn=qpn, starting_psn=100)
    return craft.gmp(7, 3, 0x13, body, at=24, slid=4, dlid=3)


def disconnect(number: int = 7) -> bytes:
    body = craft.build(DREQ, 232, local_communication_id=number, remote_communication_id=number + 100, remote_qpn=0x50)
    return craft.gmp(7, 3, 0x15, body, at=24, slid=3, dlid=4)


def ask(psn: int, qpn: int = 0x50, slid: int = 3, dlid: int = 4, **kw: Any) -> bytes:
    return craft.native(0x04, bytes(8), slid=slid, dlid=dlid, bth={"destqp": qpn, "psn": psn}, **kw)


def ack(psn: int, qpn: int = 0x60, slid: int = 4, dlid: int = 3, **kw: Any) -> bytes:
    return craft.rc(0x11, ext={"AETH": {"syndrome": 0, "msn": 1}}, slid=slid, dlid=dlid, bth={"destqp": qpn, "psn": psn}, **kw)


def followed(frames: Sequence[bytes], size: int = 0) -> Streams:
    """The streams after some frames, read in chunks of `size` frames, 0: at once."""
    connections = Connections()
    streams = Streams(connections=connections)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(records, "ROWS", size or records.ROWS)
        for table in tables_of(craft.erf_pcap(frames)):
            for follower in (connections, streams):
                for _ in follower.feed(table):
                    pass
    return streams


def others(streams: Streams) -> list[int | None]:
    """The place of each stream's opposite one."""
    return [other.number if other is not None else None for other in map(streams.other, streams.all)]


SIZES = pytest.mark.parametrize("size", [0, 1, 2, 3])


@SIZES
def test_a_stream_begins_anew_with_the_next_connection(size: int) -> None:
    first, second = [ask(100), ack(100), ask(101)], [ask(5000), ack(5000)]
    streams = followed([request(), reply(), *first, disconnect(), request(9), reply(9), *second], size)
    assert [(stream.response, stream.packets) for stream in streams.all] == [(False, 2), (True, 1), (False, 1), (True, 1)]
    assert others(streams) == [1, 0, 3, 2]
    assert len(followed([request(), reply(), *first, *second], size).all) == 2


@SIZES
def test_hosts_behind_a_router_are_told_apart_by_their_gids(size: int) -> None:
    one, other, here = (bytes([0xFE, 0x80, *bytes(13), number]) for number in (1, 2, 3))
    frames = [
        frame for psn, host in ((10, one), (20, other)) for frame in (
            ask(psn, 0x61, 30, 4, grh={"sgid": host, "dgid": here}), ack(psn, 0x61, 4, 30, grh={"sgid": here, "dgid": host}),
        )
    ]  # fmt: skip
    streams = followed(frames, size)
    assert len(streams.all) == 4 and others(streams) == [1, 0, 3, 2]


def test_an_answer_that_may_belong_to_two_streams_belongs_to_none() -> None:
    assert others(followed([ask(20, 0x50), ask(20, 0x51), ack(20, 0x61)])) == [None] * 3
    assert others(followed([ask(10, 0x50), ask(20, 0x51), ack(20, 0x61)])) == [None] * 3  # one sent this PSN, but the other will soon
    assert others(followed([ask(10, 0x50), ask(10 + FAR, 0x51), ack(10, 0x61)])) == [None] * 3
    assert others(followed([ask(10, 0x50), ask(12 + FAR, 0x51), ack(10, 0x61)])) == [2, None, 0]
    assert others(followed([ask(10, 0x50), ask((1 << 24) - 10, 0x51), ack(10, 0x61)])) == [None] * 3  # around the end of the numbers


@pytest.mark.slow
@SIZES
def test_connection_management_says_which_of_many_streams_is_the_opposite_one(size: int) -> None:
    frames = [frame for number in range(80) for frame in (request(number, 0x600 + number), reply(number, 0x500 + number))]
    frames += [ask(100 + number, 0x500 + number) for number in range(80)] + [ack(100 + number, 0x600 + number) for number in range(79)]
    streams = followed(frames, size * 50)
    assert others(streams)[:80] == [*range(80, 159), None]


def test_requests_that_went_on_over_another_path() -> None:
    streams = followed([ask(10), ask(12), ask(11, slid=13, dlid=9), ask(12, slid=13, dlid=9)])
    stream, _ = streams.all
    assert streams.moved(stream, 11, 2) and not streams.moved(stream, 13, 2) and not streams.moved(stream, 11, 3)
    back = followed([ask(10), ask(12), ask(11, slid=13, dlid=9), ask(13)])
    assert not back.moved(back.all[0], 11, 2)  # both paths go on: two hosts with the same queue pair number


def test_the_receiver_of_a_req_is_bound_to_its_retry_count() -> None:
    streams = followed([request(), reply(), ask(100), ask(50, 0x60, 4, 3)])
    assert [stream.retries() for stream in streams.all] == [7, 3]
