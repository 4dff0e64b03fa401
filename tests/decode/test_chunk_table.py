"""The columns of a chunk are what views of its structures read, row by row, for every declared attribute."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from ibdissect.decode import ChunkTable
from ibdissect.wire.catalog import builtin
from ibdissect.wire.column import ComputedField
from ibdissect.wire.encapsulation import IPv4
from ibdissect.wire.headers import AETH, BTH, GRH, LRH, RETH
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import PKeyTable
from ibdissect.wire.spec import BYTE_KINDS, Field
from tests.cases import every
from tests.craft import ethernet_pcap, gmp, native, rc, roce2, smp, ud
from tests.decode.made import ethernet_table, native_table, tables_of

PATTERNS = bytes(n * 37 + 11 & 0xFF for n in range(256)), bytes(n * 101 + 131 & 0xFF for n in range(256))
SUBNET = (0x01, 0x81)


def frames() -> Iterator[bytes]:
    """An answer with each attribute of base version 1, twice with other bytes; and packets without MAD between them."""
    catalog = builtin()
    for number, ((mgmt_class, attribute), places) in enumerate(sorted(catalog.attributes.items())):
        if number % 10 == 0:
            yield rc(0x06, PATTERNS[0][:20], slid=number + 1, ext={"RETH": {"va": number << 40 | 5, "r_key": 7, "dmalen": number}})
        if places[0][0].base_version != 1 or mgmt_class in range(0x30, 0x50):
            continue
        at = catalog.start_of(places[0][0])
        for pattern in PATTERNS:
            body = pattern[number % 7 :][: 256 - at]
            if mgmt_class in SUBNET:
                yield smp(0x81, attribute, body[:64], **({"path": [1]} if mgmt_class == 0x81 else {"slid": 5}))
            else:
                yield gmp(mgmt_class, 0x81, attribute, body, at=at)


@cache
def whole() -> ChunkTable:
    return native_table(frames())


def fields(table: ChunkTable) -> Iterator[tuple[Field[Any], int]]:
    """Every field of structures that occur, and how often."""
    for struct in table.catalog.structs:
        number = len(table.occurrences(struct))
        for field in struct.fields if number else ():
            if field.kind not in ("rest", "nested", "hole"):
                yield field, number


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def read(table: ChunkTable, field: Field[Any], i: int) -> list[Any]:
    """The entries of a field, as a view of its structure reads them."""
    view = table.view(field.owner, i)
    found = [field.read(view, bit) for bit in field.entries()]
    return [list(one) if isinstance(one, bytes) else list(one.encode().ljust(field.bits // 8, b"\0")) if isinstance(one, str) else one
            for one in found]  # fmt: skip


def test_every_field_has_the_values_that_views_read() -> None:
    table, seen = whole(), 0
    for field, number in fields(table):
        values = table.values(field)
        assert len(values) == number
        if field.kind == "text":
            continue
        for i in range(0, number, 1 + number // 8):
            want = read(table, field, i)
            have = plain(values[i])
            if field.kind in BYTE_KINDS and field.count > 1:
                want = [[byte for one in want for byte in one]]
            assert (have if field.count > 1 and field.kind not in BYTE_KINDS else [have]) == want, (field, i)
            seen += 1
    assert seen > 2000


@pytest.mark.slow
def test_columns_have_the_place_of_each_value() -> None:
    """Counted from the start of the chunk, one for each entry; where a field does not apply, it has none."""
    table = whole()
    data = table.chunk.data.tobytes() + bytes(9)
    for field, number in fields(table):
        if field.kind == "text" or field.little or field.part_of is not None:
            continue
        column, found = table.column(field), table.occurrences(field.owner)
        applies = [i for i in range(number) if field.applies(table.view(field.owner, i))]
        want = [(int(found.rows[i]), int(found.at[i]) + bit // 8, bit % 8) for i in applies for bit in field.entries()]
        assert column.rows.tolist() == [row for row, *_ in want] and column.at.tolist() == [at for _, at, _ in want], field
        if field.kind == "uint" and field.bits <= 64:
            bits = [int.from_bytes(data[at : at + 9], "big") >> 72 - bit - field.bits & (1 << field.bits) - 1 for _, at, bit in want]
            assert column.values.tolist() == bits, field


def test_the_first_occurrence_of_each_row() -> None:
    table = whole()
    for struct in (MAD, RMPP, PortInfo, NodeInfo, RETH, LRH, AETH, PKeyTable):
        rows = table.occurrences(struct).rows.tolist()
        assert table.first(struct).tolist() == [rows.index(row) if row in rows else -1 for row in range(len(table))]
        assert table.matrix(struct).shape == (len(rows), struct.size)
        assert all(table.matrix(struct)[i].tobytes() == bytes(table.view(struct, i).buffer[table.view(struct, i).offset :][: struct.size])
                   for i in range(len(rows)))  # fmt: skip


@pytest.mark.slow
@every("field", [MAD.method, RETH.va, PortInfo.lid, LRH.slid, GRH.sgid, PortInfo.m_key, NodeInfo.num_ports, AETH.msn])
def test_values_of_rows(field: Field[Any]) -> None:
    """0, and no presence, where the row has no such structure."""
    table = whole()
    values, there = table.of_rows(field)
    rows = table.occurrences(field.owner).rows.tolist()
    assert there.tolist() == [row in rows for row in range(len(table))]
    want = [plain(table.values(field)[rows.index(row)]) if row in rows else plain(np.zeros_like(values[0])) for row in range(len(table))]
    assert values.tolist() == want
    for some in ([], [0], rows[:3], [row for row in range(len(table)) if row not in rows][:3], list(range(len(table)))[::-1]):
        assert table.values_at(field, np.array(some, np.int64)).tolist() == [want[row] for row in some]


def test_rows_by_class_and_attribute() -> None:
    table = whole()
    groups = table.attributes()
    views = [(row, table.view(MAD, i)) for i, row in enumerate(table.occurrences(MAD).rows.tolist())]
    assert sum(map(len, groups.values())) == len(views) and len(groups) > 60
    for row, view in views:
        assert row in groups[view.mgmt_class, view.attribute_id].tolist()
    assert all((np.diff(rows) > 0).all() for rows in groups.values()) and native_table([native()]).attributes() == {}


@every("keep", [[True, False, True, True], [False] * 4, [True] * 4, [False, True, False, False]])
def test_only_some_packets(keep: list[bool]) -> None:
    sent = [native(slid=1), ud(b"x", slid=2), native(slid=3, lrh={"pktlen": 7}), smp(1, 0x11, slid=4)]
    table = native_table(sent)
    part = table.only_rows(np.array(keep))
    assert part.values(LRH.slid).tolist() == [number for number, one in zip((1, 2, 3, 4), keep, strict=True) if one]
    assert part.own is not None and (len(part), part.own.tolist()) == (4, np.flatnonzero(keep).tolist())
    assert part.located.malformed.tolist() == [code if one else 0 for code, one in zip(table.located.malformed.tolist(), keep, strict=True)]
    assert part.located.at("erf").tolist() == table.located.at("erf").tolist(), "they count losses"
    assert table.values(LRH.slid).tolist() == [1, 2, 3, 4] and table.located.malformed[2], "the whole is as it was"
    assert part.numbers(np.array([0, 3])) == [1, 4]
    part.frames = [7, 8, 9, 12]
    assert part.numbers(np.array([0, 3])) == [7, 12]


def test_what_is_computed_once() -> None:
    table, calls = native_table([native()]), []

    def derive(of: ChunkTable) -> int:
        calls.append(of)
        return len(calls)

    assert not table.has(derive) and table.once(derive) == table.once(derive) == 1 and table.has(derive) and calls == [table]


def test_occurrences_with_one_of_the_values() -> None:
    table = whole()
    method, attribute = table.values(MAD.method), table.values(MAD.attribute_id)
    assert table.where(MAD, ()).all() and table.where(MAD, ((MAD.method, {0x81}),)).tolist() == (method == 0x81).tolist()
    both = table.where(MAD, ((MAD.method, [0x81]), (MAD.attribute_id, range(0x11, 0x13))))
    assert both.tolist() == ((method == 0x81) & (attribute >= 0x11) & (attribute < 0x13)).tolist() and both.any()


def test_a_view_begins_where_its_structure_does_in_its_frame() -> None:
    table = whole()
    for struct in (LRH, BTH, MAD, PortInfo, RETH):
        found = table.occurrences(struct)
        for i in range(0, len(found), 7):
            view, base = table.view(struct, i), int(table.chunk.offset[found.rows[i]])
            assert (view.offset, view.stop) == (int(found.at[i]) - base, int(found.stop[i]) - base)
            assert bytes(view.buffer) == table.chunk.frame_bytes(int(found.rows[i]))


def test_windows_have_the_same_values() -> None:
    data = ethernet_pcap([roce2(0x04, b"abc", bth={"psn": number}) for number in range(9)])
    (one,) = tables_of(data)
    parts = [*tables_of(data, 200)]
    assert len(parts) > 2
    for field in (BTH.psn, IPv4.source, IPv4.total_length):
        assert [plain(value) for table in parts for value in table.values(field)] == one.values(field).tolist()
    assert one.values(BTH.psn).tolist() == [*range(9)]


def test_computed_fields_are_values_of_their_structure() -> None:
    table, seen = ethernet_table([roce2(0x04, b"abc"), roce2(0x64, bytes(8), ext={"DETH": {}})]), 0
    for struct, columns in table.catalog.computed.items():
        for column in columns:
            assert isinstance(column, ComputedField) and len(table.values(column)) == len(table.occurrences(struct))
            for i in range(len(table.occurrences(struct))):
                value = column.read(table.view(struct, i), 0)
                seen += 1
                assert column.kind == "text" or int(table.values(column)[i]) == value
    assert seen
