"""Repeated packets are counted equally wherever chunks end."""

from __future__ import annotations

import pytest

from ibdissect.transport.psn_streams import Streams
from tests import craft
from tests.decode.made import tables_of

SEND, READ, READ_FIRST, READ_MIDDLE, READ_LAST = 0x04, 0x0C, 0x0D, 0x0E, 0x0F


def send(psn: int) -> bytes:
    return craft.rc(SEND, bytes(8), slid=1, dlid=2, bth={"destqp": 0x10, "psn": psn & 0xFFFFFF})


def read(psn: int, responses: int = 1) -> bytes:
    ext = {"RETH": {"va": 0, "r_key": 1, "dmalen": 256 * responses}}
    return craft.rc(READ, ext=ext, slid=1, dlid=2, bth={"destqp": 0x10, "psn": psn})


def piece(psn: int, opcode: int) -> bytes:
    ext = {"AETH": {"syndrome": 0x1F, "msn": 1}} if opcode != READ_MIDDLE else {}
    return craft.rc(opcode, bytes(256), ext=ext, slid=2, dlid=1, bth={"destqp": 0x20, "psn": psn})


def counted(frames: list[bytes], window: int) -> dict[str, int]:
    """What is counted over all streams; every packet once, whatever the window."""
    streams, repeated = Streams(), 0
    for table in tables_of(craft.erf_pcap(frames), window):
        for event in streams.feed(table):
            repeated += type(event).__name__ == "Repeated"
    names = {"repeated": "repeated", "repeated_reads": "repeated_reads", "repeated_responses": "repeated_responses", "gap_count": "gaps",
             "missing": "missing"}  # fmt: skip
    found = {counted_as: sum(getattr(stream, name) for stream in streams.all) for name, counted_as in names.items()}
    return {name: count for name, count in {**found, "events": bool(repeated)}.items() if count}


def responses(first: int, last: int) -> list[bytes]:
    return [piece(first, READ_FIRST), *(piece(psn, READ_MIDDLE) for psn in range(first + 1, last)), piece(last, READ_LAST)]


def swapped(frames: list[bytes], at: int) -> list[bytes]:
    """Two neighbours changed places on the way."""
    return [*frames[:at], frames[at + 1], frames[at], *frames[at + 2 :]]


@pytest.mark.parametrize("window", [400, 1000, 1 << 20])
@pytest.mark.parametrize(
    ("frames", "wanted"),
    [
        ([*map(send, range(20))], {}),
        ([*map(send, range(20)), *map(send, range(8, 24))], {"repeated": 12, "events": 1}),
        ([*map(send, range(-6, 6)), *map(send, range(-3, 9))], {"repeated": 9, "events": 1}),
        ([*map(send, range(8)), *map(send, range(12, 20))], {"gaps": 1, "missing": 4}),
        ([read(1), read(2), read(3), read(1), read(2), read(3), read(4)], {"repeated": 3, "repeated_reads": 3, "events": 1}),
        ([read(1, 12), *responses(1, 12), read(1, 12), *responses(1, 12)],
         {"repeated": 1, "repeated_reads": 1, "repeated_responses": 12, "events": 1}),
        ([read(1, 12), *swapped(responses(1, 12), 3)], {}),
    ],
    ids=["clean", "again", "again around zero", "gap", "reads", "responses", "swapped responses"],
)  # fmt: skip
def test_counts(frames: list[bytes], wanted: dict[str, int], window: int) -> None:
    assert counted(frames, window) == wanted
