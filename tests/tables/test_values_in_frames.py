"""Cells hold what frames hold: types, nulls, lists."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ibdissect
from ibdissect.decode import ChunkTable
from ibdissect.dfilter.names import names_of
from ibdissect.dissect.named_values import runs
from ibdissect.errors import FilterError
from ibdissect.tables.values_in_frames import Rows, named_columns
from ibdissect.wire.catalog import BOTH, builtin
from ibdissect.wire.encapsulation import AROUND_TUNNELS
from ibdissect.wire.text import plain_value, printable
from tests.cases import every, few
from tests.commands import run
from tests.craft import erf_pcap, ethernet_pcap, interfaces_pcapng, native, smp, ud
from tests.dissect.frames import all_frames, ethernet_frames
from tests.subnet.made import answer, p_keys


def lines(data: bytes, *names: str, show_keys: bool = False, first: bool = False) -> tuple[list[list[str]], int]:
    """The columns of a capture as CSV, and how many keys were left out."""
    words = [word for one in names for word in ("-e", one)] + ["--show-keys"] * show_keys + ["--first"] * first
    done = run("export", "-", "--output", "-", "--format", "csv", *words, stdin=data, text=True)
    assert done.returncode == 0, done.stderr
    rows = [row or [""] for row in csv.reader(io.StringIO(done.stdout))][1:]
    left_out = re.search(r"(\d+) keys? left out", done.stderr)
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in names], int(left_out[1]) if left_out else 0


def test_absent_and_masked_values_are_empty() -> None:
    data = erf_pcap([ud(b"x", q_key=0xC0FFEE), native(0x04, b"y")])
    assert lines(data, "frame.number", "deth.q_key", "deth.srcqp") == ([["1", "2"], ["", ""], ["1", ""]], 1)
    assert lines(data, "deth.q_key", show_keys=True) == ([[str(0xC0FFEE), ""]], 0)


def test_several_values_of_a_frame_are_a_list() -> None:
    data = ethernet_pcap(ethernet_frames())
    ports, masked = lines(data, "udp.port", "frame.time", "tcp.port")
    assert ports[0][0] == "49152,4791" and ports[1][0].endswith("Z") and set(ports[2]) == {""} and not masked


@pytest.mark.slow
def test_only_what_may_repeat_is_a_list() -> None:
    columns = {column.name: column for column in named_columns(builtin(), names_of(builtin()).every())}
    for name in ("infiniband.bth.psn", "infiniband.mad.method", "infiniband.sa.componentmask", "infiniband.cm.req.alt_hoplim"):
        assert not columns[name].repeats, name
    assert columns["infiniband.portinfo.lid"].repeats and columns["infiniband.p_keytable.p_key"].repeats  # records of the SA; a table
    for data in (erf_pcap(all_frames()), ethernet_pcap(ethernet_frames())):
        with ibdissect.open(io.BytesIO(data)) as capture:
            for table in capture.tables():
                for column in columns.values():
                    rows = [row for one in runs(table, column.fields) for row in one.rows.tolist()]
                    assert column.repeats or len(rows) == len(set(rows)), column.name


@every(
    ("name", "kind", "full"),
    [
        ("bth.a", "bool", "infiniband.bth.a"), ("lrh.sl", "uint8", "infiniband.lrh.sl"), ("bth.opcode", "uint8", "infiniband.bth.opcode"),
        ("lrh.pktlen", "uint16", "infiniband.lrh.pktlen"), ("lrh.slid", "uint16", "infiniband.lrh.slid"),
        ("bth.psn", "uint32", "infiniband.bth.psn"), ("deth.q_key", "uint32", "infiniband.deth.q_key"),
        ("mad.transactionid", "uint64", "infiniband.mad.transactionid"), ("grh.sgid", "text", "infiniband.grh.sgid"),
        ("infiniband.payload", "text", "infiniband.payload"), ("ip.hdr_len", "int64", "ip.hdr_len"), ("eth.addr", "text", "eth.addr"),
        ("frame.number", "int64", "frame.number"), ("frame.time", "time", "frame.time"), ("_ws.malformed", "text", "_ws.malformed"),
        ("frame.time_relative", "seconds", "frame.time_relative"), ("frame.interface_id", "int32", "frame.interface_id"),
        ("_ws.col.info", "text", "_ws.col.info"), ("portinfo.portstate.name", "text", "infiniband.portinfo.portstate.name"),
    ],
)  # fmt: skip
def test_the_type_of_a_column(name: str, kind: str, full: str) -> None:
    """Integers are as wide as the field, beside each bound of a width; a column has the full name."""
    (column,) = named_columns(builtin(), [name])
    assert (column.type, column.name, column.meaning) == (kind, full, name.endswith(".name"))
    assert column.dtype == {"text": object, "time": np.int64, "seconds": np.int64}.get(kind, kind)
    assert not named_columns(builtin(), [name], first=True)[0].repeats


@every(
    ("name", "repeats"),
    [
        ("frame.number", False), ("frame.comment", True), ("ibdissect.code", True), ("tcp.port", True), ("udp.port", True),
        ("ip.src", True), ("ibdissect.request_frame", False), ("bth.psn", False),
        ("mad.method", False), ("reth.r_key", False), ("portinfo.lid", True),
        ("infiniband.nodeinfo.nodeguid", True), ("p_keytable.p_key", True), ("infiniband.smpdirected.d", False),
        ("infiniband.portcounters.portrcverrors", False),
    ],
)  # fmt: skip
def test_what_a_frame_may_have_several_times(name: str, repeats: bool) -> None:
    assert named_columns(builtin(), [name])[0].repeats is repeats


def test_names_of_columns_come_once_in_their_order() -> None:
    columns = named_columns(builtin(), ["bth.psn", "frame.number", "infiniband.bth.psn", "bth.opcode"])
    assert [one.name for one in columns] == ["infiniband.bth.psn", "frame.number", "infiniband.bth.opcode"]
    for wrong in ("bth.psn.name", "bth.nothing", "frame.number.name", "nothing.name"):
        with pytest.raises(FilterError):
            named_columns(builtin(), [wrong])


def test_what_codes_mean() -> None:
    data = erf_pcap([smp(0x81, 0x15, bytes(32) + bytes((0x04, 0x52)) + bytes(30)), smp(1, 0x15), native(0x04)])
    names = ("portinfo.portstate.name", "portinfo.portphysicalstate.name", "mad.method.name", "bth.opcode.name")
    (state, physical, method, opcode), _ = lines(data, *names)
    assert (state[0], physical[0]) == ("Active", "LinkUp") and [state[2], method[2]] == ["", ""]
    assert method[:2] == ["GetResp", "Get"] and opcode[2] == "RC SEND Only"


def own_values(table: ChunkTable, column: Any) -> list[list[str]]:
    """Each row's values by views on its structures, in the order of their bytes."""
    found: list[list[tuple[int, int, str]]] = [[] for _ in range(len(table))]
    for name in BOTH.get(column.name, (column.name,)):
        for field in builtin().fields(name):
            if field.kind in ("nested", "hole") or (field.owner in AROUND_TUNNELS and not column.repeats):
                continue
            places = table.shown.occurrences(field.owner)
            for i, (row, at) in enumerate(zip(places.rows.tolist(), places.at.tolist(), strict=True)):
                view = table.shown.view(field.owner, i)
                value: Any = field.__get__(view, field.owner)
                values = () if not field.applies(view) else value if field.count > 1 else (value,)
                for k, one in enumerate(values):
                    found[row].append((at + (field.bit + k * field.bits) // 8, field.bit + k, str(plain_value(field, one))))
    return [[text for *_, text in sorted(row)] for row in found]


def chosen(size: int) -> Iterator[list[int]]:
    yield from (list(range(size)), list(range(0, size, 2)), list(range(1, size, 3)), [size - 1], [0])


COLUMNS = (
    "bth.opcode", "bth.psn", "bth.a", "lrh.slid", "grh.sgid", "deth.q_key", "deth.srcqp", "reth.dmalen", "aeth.syndrome", "mad.method",
    "mad.transactionid", "portinfo.lid", "portinfo.portstate", "nodeinfo.nodeguid", "nodedescription.nodestring", "p_keytable.p_key",
    "smpdirected.initialpath", "infiniband.payload", "ip.src", "ip.dst", "udp.port", "eth.addr", "ipv6.src", "invariant.crc",
    "rmpp.segmentnumber",
)  # fmt: skip


@few("link", ["native", "ethernet"], fast=(1,))
def test_cells_are_what_the_structures_of_their_rows_hold(link: str) -> None:
    """Of all rows, some and one: the same values as views give, in the order of the bytes; and the first one of each row."""
    data = erf_pcap(all_frames()) if link == "native" else ethernet_pcap(ethernet_frames())
    seen = 0
    with ibdissect.open(io.BytesIO(data), show_keys=True) as capture:
        columns = [one for one in named_columns(capture.catalog, COLUMNS) if one.type != "bool"]
        names = [one.name for one in columns]
        (table,) = capture.tables()
        wanted = [own_values(table, column) for column in columns]
        for rows in chosen(len(table)):
            some = capture.table().filter(f"frame.number in {{{','.join(str(row + 1) for row in rows)}}}").select(*names).to_arrow()
            for name, column, want in zip(names, columns, wanted, strict=True):
                found = [value if isinstance(value, list) else [] if value is None else [value] for value in some[name].to_pylist()]
                assert [list(map(str, value)) for value in found] == [want[row] if column.repeats else want[row][:1] for row in rows], name
                seen += sum(map(bool, found))
    firsts, masked = lines(data, *names, show_keys=True, first=True)
    assert [[cell.lstrip("'") for cell in column] for column in firsts] == [[printable("".join(of[:1])) for of in want] for want in wanted]
    assert seen > 40 and not masked


def test_hidden_values_leave_nothing_and_are_counted() -> None:
    data = erf_pcap([ud(b"x", q_key=0xC0FFEE), native(0x04, b"y"), ud(b"z", q_key=0xC0FFED), ud(b"z", q_key=5)])
    assert lines(data, "deth.q_key", "deth.srcqp") == ([["", "", "", ""], ["1", "", "1", "1"]], 3)
    with ibdissect.open(io.BytesIO(data)) as capture:
        assert capture.table().select("deth.q_key").to_arrow()["infiniband.deth.q_key"].to_pylist() == [None] * 4
        assert Rows(named_columns(capture.catalog, ["_ws.col.info"]), capture.state([])).numbers_keys


def test_texts_of_cells() -> None:
    """With and without a value, one a row and in lists of any length."""
    keys = [answer(2, 0x16, p_keys(*some)) for some in ((0xFFFF,), (0xFFFF, 0x8001, 1))]
    frames = [native(0x04, bth={"a": 1, "psn": 255}), native(0x04)[:9], *keys, *(answer(2, 0x10, text) for text in (b"a", b"b\n"))]
    data = interfaces_pcapng([(0, frame) for frame in frames], times=[0, 1, 1_700_000_000_123_456_789, *[5] * 3])
    names = "bth.a", "bth.psn", "frame.time", "frame.time_relative", "p_keytable.p_key", "nodedescription.nodestring"
    (a, psn, time, since, p_key, text), _ = lines(data, *names)
    assert (a[:2], psn[:2], text) == (["true", ""], ["255", ""], ["", "", "", "", "a", "b\\x0a"]) and a[2] == "false"
    assert time[:3] == ["1970-01-01 00:00:00.000000000Z", "1970-01-01 00:00:00.000000001Z", "2023-11-14 22:13:20.123456789Z"]
    assert since[:2] == ["0.000000000", "0.000000001"]
    assert [key.split(",")[:3] for key in p_key[2:4]] == [["65535", "0", "0"], ["65535", "32769", "1"]] and p_key[4] == ""


def test_numbers_of_the_frame() -> None:
    data = interfaces_pcapng([(1, native(0x04)), (0, native(0x04)[:23])], times=(10**18, 10**18 + 5))
    names = ("frame.number", "frame.interface_id", "frame.time_relative", "frame.cap_len", "_ws.malformed")
    assert lines(data, *names)[0] == [
        ["1", "2"], ["1", "0"], ["0.000000000", "0.000000005"], [str(len(native(0x04))), "23"], ["", "LRH.PktLen is larger than the frame"],
    ]  # fmt: skip
