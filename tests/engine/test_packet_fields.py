"""The engine reads from a packet what the columns say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ibdissect.decode import connection_packets
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.engine import packet_fields, packet_kinds
from ibdissect.pipeline.reading import open_reading
from ibdissect.wire.headers import AETH, BTH, RETH
from tests.conftest import REPO, shared_captures
from tests.engine.plain import plain

CAPTURES = [*sorted((REPO / "captures").glob("*.pcap*")), *shared_captures()]


def columns(table: ChunkTable) -> dict[str, Any]:
    return connection_packets.columns(table, np.zeros(len(table), np.uint8))


def windows(path: Path, number: int = 2) -> Iterator[ChunkTable]:
    """The first windows of a capture."""
    with open_reading(str(path)) as reading:
        for table, _ in zip(reading.tables(keys=False), range(number), strict=False):
            yield table


def values(packet: Any) -> dict[str, int]:
    names = [name for name in dir(packet) if not name.startswith("_") and name != "copy"]
    return {name: int(getattr(packet, name)) for name in names}


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_compiled_and_interpreted_read_the_same(path: Path) -> None:
    other = plain("packet_fields")
    for table in windows(path):
        ours, theirs = packet_fields.PacketReader(), other.PacketReader()
        for reader in (ours, theirs):
            reader.begin(table.chunk.first, table.chunk.data, columns(table))
        for i in range(0, len(table), 1 + len(table) // 300):
            packet = ours.packet(i)
            assert values(packet) == values(theirs.packet(i))
            assert values(packet.copy()) == values(packet)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_fields_are_those_of_the_declarations(path: Path) -> None:
    for table in windows(path, 1):
        reader = packet_fields.PacketReader()
        reader.begin(table.chunk.first, table.chunk.data, columns(table))
        rows = table.occurrences(BTH).rows[:300]
        psn, qpn, key = (table.values(field) for field in (BTH.psn, BTH.destqp, BTH.p_key))
        for k, row in enumerate(rows.tolist()):
            packet = reader.packet(row)
            if packet.kind != packet_kinds.NOTHING:
                assert (packet.psn, packet.qpn, packet.pkey) == (psn[k], qpn[k], key[k])
                assert packet.frame == table.chunk.first + row
                if table.located.complete[row] and (at := table.located.at("payload")[row]) >= 0:
                    assert packet.size == table.located.payload_end[row] - at
                    pad = -packet.size & 3 if packet.parts & 12 else 0
                    assert packet.kind > packet_kinds.ANSWER or packet.length == packet.size + pad
        for struct, field, name in ((RETH, RETH.dmalen, "dma"), (AETH, AETH.msn, "msn")):
            for row, value in list(zip(table.occurrences(struct).rows.tolist(), table.values(field).tolist(), strict=True))[:100]:
                packet = reader.packet(row)
                if packet.kind in (packet_kinds.REQUEST, packet_kinds.ANSWER):
                    assert getattr(packet, name) == value


def test_nothing_is_read_behind_the_bytes() -> None:
    """Whatever the columns say: both forms read a packet, or both raise."""
    table = next(windows(REPO / "captures/rxe-rping.pcap"))
    data, cells = table.chunk.data, columns(table)
    raised = 0
    for row in table.occurrences(BTH).rows[:6].tolist():
        for size in range(int(table.chunk.offset[row]), int(table.located.end[row]) + 1):
            found: list[Any] = []
            for module in (packet_fields, plain("packet_fields")):
                reader = module.PacketReader()
                reader.begin(table.chunk.first, data[:size], cells)
                try:
                    found.append(values(reader.packet(row)))
                except IndexError:
                    found.append(None)
            assert found[0] == found[1]
            raised += found[0] is None
    assert raised > 100


@pytest.mark.parametrize("module", [packet_fields, plain("packet_fields")])
def test_without_a_window_nothing_is_read(module: Any) -> None:
    """Compiled, a view without memory has no elements (`initializedcheck` is off)."""
    with pytest.raises((IndexError, AttributeError)):
        module.PacketReader().packet(0)


def test_kinds_follow_the_opcodes() -> None:
    from ibdissect.wire.opcodes import OPCODES
    from tests.standard import RC, UC, XRC

    found = packet_fields._kinds()
    for code in range(256):
        opcode = OPCODES.get(code)
        if opcode is None or code & 0xE0 not in (RC, UC, XRC):
            assert found[code] == (packet_kinds.CNP if code == 0x81 else packet_kinds.OTHER)
        else:
            assert found[code] == (packet_kinds.REQUEST if opcode.request else packet_kinds.ANSWER)
