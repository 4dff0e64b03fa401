"""Packets drawn from the declarations are read as they were drawn, and all views agree on them when they are broken."""

from __future__ import annotations

import io
import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibdissect import Capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.wire.catalog import builtin

from .container import pcapng
from .declared import Whole, broken, drawable, whole, write
from .mutate import Packet
from .strategies import starts
from .test_agreement import disagreements

pytestmark = pytest.mark.slow

logging.getLogger("scapy").setLevel(logging.CRITICAL)


def missing(table: ChunkTable, row: int, made: Whole) -> list[str]:
    """Structures of a packet that the columns do not hold where they were put, byte by byte."""
    wrong = []
    start = int(table.chunk.offset[row]) - made.front
    for what, at, body in made.parts:
        found = table.occurrences(what)
        here = [i for i, (r, a) in enumerate(zip(found.rows.tolist(), found.at.tolist(), strict=True)) if (r, a) == (row, start + at)]
        if not here:
            wrong.append(f"{what.__name__} at {at} is not there")
        elif table.matrix(what)[here[0]].tobytes()[: len(body)] != body[: what.size]:
            wrong.append(f"{what.__name__} at {at} has other bytes")
    return wrong


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(whole(), min_size=1, max_size=3))
def test_whole_packets_hold_what_was_drawn(some: list[Whole]) -> None:
    packets = [made.packet() for made in some]
    assert disagreements(packets) == []
    with Capture(io.BytesIO(pcapng(packets))) as capture:
        number = 0
        for table in capture.tables():
            for row in range(len(table)):
                assert not table.located.malformed[row], some[number]
                assert missing(table, row, some[number]) == []
                number += 1
        assert number == len(some)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(broken(starts), min_size=1, max_size=4))
def test_broken_packets_agree(some: list[Packet]) -> None:
    assert disagreements(some) == []


def test_a_written_field_is_read_and_no_other_changes() -> None:
    """Every entry of every field of every declaration: the number that is put in comes out, and nothing beside it changes."""
    for what in builtin().structs:
        for one in drawable(what):
            value = int.from_bytes(bytes(range(0xA1, 0xA1 + 64)) * 33, "big") >> 3 & (1 << one.bits) - 1
            for entry, bit in enumerate(one.entries()):
                data = bytearray(what.size)
                write(data, one, value, entry=entry)
                read = one.read(what(bytes(data)), bit)
                if isinstance(read, bytes):
                    assert int.from_bytes(read, "big") == value, one
                elif one.kind != "text":
                    assert read == value, one
                write(data, one, 0, entry=entry)
                assert not any(data), one
