"""Fields of records that straddle RMPP segments belong to the frame that completed the record, for filters and columns alike."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

import ibdissect
from ibdissect.decode.reassembled import JoinedRecords
from ibdissect.mad.rmpp_reassembly import records
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.ulp import rpcrdma
from tests.acme import connection
from tests.cases import few
from tests.commands import run
from tests.craft import build, erf_pcap
from tests.mad.test_rmpp_records import ABORT, FIRST, LAST, MIDDLE
from tests.mad.transfers import ROOM, segment
from tests.transport.test_reassembled_messages import NFS, PACKET, SEGMENTS, packets

IN_ORDER = [FIRST, MIDDLE, LAST]


def lids(frames: Sequence[bytes], *, one_by_one: bool = False) -> dict[int, list[int]]:
    """The LIDs of the NodeRecords that each frame shows."""
    found: dict[int, list[int]] = {}
    with ibdissect.open(io.BytesIO(erf_pcap(frames))) as opened:
        for table in opened.tables(edges=range(2, len(frames) + 1) if one_by_one else ()):
            shown = table.shown
            for row, value in zip(shown.occurrences(NodeRecord).rows.tolist(), shown.values(NodeRecord.lid).tolist(), strict=True):
                found.setdefault(table.chunk.first + row, []).append(value)
    return found


@few("one_by_one", [False, True], fast=(0,))
def test_a_record_belongs_to_the_frame_that_completes_it(one_by_one: bool) -> None:
    assert lids(IN_ORDER, one_by_one=one_by_one) == {1: [1], 2: [2, 3], 3: [4, 5]}
    assert lids([FIRST, LAST, MIDDLE], one_by_one=one_by_one) == {1: [1], 2: [5], 3: [2, 3, 4]}
    assert lids([MIDDLE, LAST, FIRST], one_by_one=one_by_one) == {1: [3], 2: [4, 5], 3: [1, 2]}


def test_each_record_is_joined_once() -> None:
    assert lids([FIRST, MIDDLE, MIDDLE, LAST]) == {1: [1], 2: [2, 3], 3: [3], 4: [4, 5]}


def test_a_missing_segment_and_an_abort() -> None:
    assert lids([FIRST, LAST]) == {1: [1], 2: [5]}
    assert lids([FIRST, MIDDLE, ABORT]) == {1: [1], 2: [2, 3]}
    assert lids([FIRST, ABORT, MIDDLE, LAST]) == {1: [1], 3: [3], 4: [5]}  # an ABORT ends the transfer: nobody puts later segments together


def test_a_segment_that_was_cut_off_joins_nothing() -> None:
    """The bytes behind it would be taken for those of the record."""
    cut = [frame[:-40] for frame in IN_ORDER]
    assert lids([FIRST, cut[1], LAST]) == {1: [1], 2: [3], 3: [5]}
    assert lids([*cut[:2], LAST]) == {1: [1], 2: [3], 3: [5]}


def test_nothing_is_learnt_of_it_and_a_view_is_whole() -> None:
    with ibdissect.open(io.BytesIO(erf_pcap(IN_ORDER))) as opened:
        (table,) = opened.tables()
        assert [table.view(NodeRecord, i).lid for i in range(len(table.occurrences(NodeRecord)))] == [1, 3, 5]
        shown = table.shown
        assert [shown.view(NodeRecord, i).lid for i in range(len(shown.occurrences(NodeRecord)))] == [1, 2, 3, 4, 5]


def test_commands_agree(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "a.pcap"
    path.write_bytes(erf_pcap(IN_ORDER))
    fields = run("show", str(path), "-e", "frame.number", "-e", "infiniband.sa.lid", "-Y", "infiniband.sa.lid == 4", text=True)
    assert fields.stdout == "3\t4,5\n"
    (frame,) = map(json.loads, run("show", str(path), "--format", "jsonl", "-Y", "infiniband.sa.lid == 2", text=True).stdout.splitlines())
    (record,) = frame["joined"]
    assert (frame["frame"], record["record"], record["layer"]) == (2, 1, "NodeRecord")
    assert record["pieces"] == [{"frame": 1, "offset": 196, "length": 88}, {"frame": 2, "offset": 84, "length": 24}]
    tree = run("show", str(path), "--format", "tree", "--frames", "2", text=True).stdout
    assert "NodeRecord[1]:               frame 1 bytes 196-283, frame 2 bytes 84-107" in tree
    with ibdissect.open(str(path)) as opened:
        column = opened.table()["infiniband.sa.lid"]
        assert (column.frame.tolist(), column.value.tolist()) == ([1, 2, 2, 3, 3], [1, 2, 3, 4, 5])
        (row,) = np.flatnonzero(opened.table_at([1, 3]).shown.occurrences(NodeRecord).rows == 1)[:1]
        assert opened.table_at([1, 3]).shown.values(NodeRecord.lid)[row] == 4


def test_texts_in_such_records_are_searched() -> None:
    """They lie behind all frames of the window, where those of later frames do not."""
    names = [build("NodeDescription", node_string=f"host-{lid}") for lid in range(1, 6)]
    table = b"".join(build("NodeRecord", 112, node_description=name) for name in names)
    parts = (1, 3, 60 + len(table), table[:ROOM]), (2, 1, 0, table[ROOM : 2 * ROOM]), (3, 5, 20 + len(table) - 2 * ROOM, table[2 * ROOM :])
    with ibdissect.open(io.BytesIO(erf_pcap([*(segment(*part) for part in parts)]))) as opened:
        name = next(node.name for node in opened.dissect(1).walk() if node.value == "host-1")
        found = [opened.table().filter(f'{name} contains "host-{lid}"').frames().tolist() for lid in range(1, 6)]
    assert found == [[1], [2], [2], [3], [3]]


def test_a_key_in_such_a_record_is_masked(tmp_path) -> None:  # type: ignore[no-untyped-def]
    key = bytes.fromhex("deadbeefcafef00d0123456789abcdef")
    table = b"".join(build("ServiceRecord", 176, service_key=key, service_lease=n) for n in range(2))
    path = tmp_path / "a.pcap"
    parts = (1, 3, 40 + len(table), table[:ROOM]), (2, 5, 20 + len(table) - ROOM, table[ROOM:])
    path.write_bytes(erf_pcap(segment(*part, attribute=0x31, step=176) for part in parts))
    names = ["-e", "infiniband.linkrecord.servicekey", "-e", "infiniband.linkrecord.servicelease"]
    said = run("show", str(path), *names, text=True).stdout
    assert said.splitlines() == ["ServiceKey#1\t0", "ServiceKey#1\t1"]
    assert key.hex() not in said + run("show", str(path), "--format", "jsonl", text=True).stdout


ROOM_FOR_SOME = 8000
"""Bytes."""


@cache
def some() -> tuple[Any, int]:
    """A record in several segments, and of how many like it there is room."""
    with ibdissect.open(io.BytesIO(erf_pcap(IN_ORDER))) as opened:
        (table,) = opened.tables()
        (_, record), *_ = table.shown.joined
    found, frame = JoinedRecords(ROOM_FOR_SOME), 0
    while not found.forgotten_to:
        found.put(frame := frame + 1, record)
    return record, frame - 1


def test_records_kept_are_bounded() -> None:
    record, room = some()
    found = JoinedRecords(ROOM_FOR_SOME)
    assert 5 < room < 50
    for frame in range(1, 101):
        found.put(frame, record)
        assert len(found.among(range(1, 101))) <= room
    assert [row for row, _ in found.among(range(96, 101))] == [0, 1, 2, 3, 4]
    assert [row for row, _ in found.among([3, 97, 99, 200])] == [1, 2]


def test_what_was_not_read_yet_is_told_when_it_is_forgotten() -> None:
    record, room = some()
    found, last = JoinedRecords(ROOM_FOR_SOME), 3 * room + 1
    for first in range(1, last + 1, 3):  # those before the last window were read
        found.begin(first, first * 1000)
        for frame in range(first, first + 3):
            found.put(frame, record)
    assert not found.dropped[0].count and found.forgotten_to
    for frame in range(last + 3, last + 2 + room):
        found.put(frame, record)
    assert found.dropped[0].count and found.dropped[0].frame >= last - 3 and found.dropped[0].time_ns == last * 1000


def test_recorded_transfers(shared) -> None:  # type: ignore[no-untyped-def]
    """Every record that `export --records` has of a recorded table is among the occurrences, and straddling ones only once."""
    from ibdissect.mad.rmpp_reassembly import Transfers

    with ibdissect.open(str(shared / "captures/opensm/14-saquery.pcap")) as opened:
        transfers, expected, seen = Transfers(), 0, 0
        for table in opened.tables(edges=range(2, 8000, 97)):
            for transfer in transfers.feed(table).values():
                expected += sum(len(each.spans) > 1 for each in records(transfer, opened.catalog) if each.view is not None)
            seen += len(table.shown.joined)
    assert expected == seen > 1000


def test_a_check_joins_records() -> None:
    """Its rules judge them; messages of upper layers are put together only where frames are shown."""
    opened = ibdissect.open(io.BytesIO(erf_pcap(IN_ORDER)))
    opened.joins = False
    assert [len(table.shown.joined) for table in opened.tables(keys=False)] == [2]
    assert opened.joined_messages.among([1, 2, 3]) == []


def test_each_entry_of_a_list_is_found_once() -> None:
    with ibdissect.open(io.BytesIO(erf_pcap([*connection(rpcrdma.SERVICE), *packets(NFS)]))) as opened:
        (table,) = opened.tables()
        column = table.shown.column(rpcrdma.RPCRDMASegment.offset_)
        assert sorted(column.values.tolist()) == list(range(SEGMENTS))
        first = (PACKET - 28) // 16
        assert column.rows.tolist() == [2] * first + [len(table) - 1] * (SEGMENTS - first)
        assert table.shown.column(rpcrdma.RPCRDMA.xid).rows.tolist() == [2]
        assert table.shown.column(rpcrdma.RPCCall.program).rows.tolist() == [len(table) - 1]
        assert len(table.column(rpcrdma.RPCRDMASegment.offset_).rows) == first, "nothing is learnt of the whole"
