"""The records of SA answers are found where they lie, and nowhere else."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture.opening import open_capture
from ibdissect.decode import ChunkTable
from ibdissect.mad.rmpp_reassembly import Transfers, records
from ibdissect.wire.dm import IOUnitInfo
from ibdissect.wire.sa import SAFormat, SARecordPiece
from ibdissect.wire.sa_paths import LinkRecord, MultiPathRecord
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.vendor import OpenIBPing
from ibdissect.words import Struct
from tests.cases import every
from tests.craft import erf_pcap, gmp, ud
from tests.decode.made import native_table, table_of

SA, NODE, LINK, MULTIPATH = 0x03, 0x11, 0x20, 0x3A
GET, GET_TABLE, GET_RESP, TABLE_RESP, MULTI = 0x01, 0x12, 0x81, 0x92, 0x14
DATA, ACK, STOP, ABORT = 1, 2, 3, 4
AT = 84
"""Byte of a native frame where SA data starts: LRH 8, BTH 12, DETH 8, MAD header 24, RMPP 12, SA header 20."""


def sa(
    method: int,
    attr_id: int,
    data: bytes = b"",
    *,
    kind: int = 0,
    flags: int = 0,
    number: int = 0,
    length: int = 0,
    step: int = 0,
    status: int = 0,
    mask: int = 0,
) -> bytes:
    """An SA MAD in a native frame; `step` in words of 8 bytes."""
    body = struct.pack(">BBBBII8xHxxQ", int(kind > 0), kind, flags, 0, number, length, step, mask) + data
    return gmp(SA, method, attr_id, body, at=24, header={"status": status})


def places(frame: bytes, what: type[Struct]) -> list[int]:
    """Offsets of a structure in a frame."""
    table = native_table([frame])
    return [int(at - table.chunk.offset[0]) for at in table.occurrences(what).at]


def links(count: int) -> bytes:
    return b"".join(struct.pack(">HBBHxx", i + 1, 1, 2, i + 2) for i in range(count))


def test_a_table_in_one_segment_holds_as_many_records_as_its_length_says() -> None:
    frame = sa(TABLE_RESP, LINK, links(25), kind=DATA, flags=7, number=1, length=20 + 3 * 8, step=1)
    assert places(frame, LinkRecord) == [AT, AT + 8, AT + 16]
    table = native_table([frame])
    assert table.values(LinkRecord.from_lid).tolist() == [1, 2, 3]
    assert places(frame, SARecordPiece) == []


def test_segments_hold_the_records_that_fall_into_them_whole() -> None:
    first = sa(TABLE_RESP, NODE, bytes(200), kind=DATA, flags=3, number=1, length=660, step=14)
    middle = sa(TABLE_RESP, NODE, bytes(200), kind=DATA, flags=1, number=2, length=0, step=14)
    last = sa(TABLE_RESP, NODE, bytes(200), kind=DATA, flags=5, number=3, length=20 + 5 * 112 - 400, step=14)
    assert places(first, NodeRecord) == [AT]
    assert places(middle, NodeRecord) == [AT + 24]  # 200 bytes before, two records of 112 begin there
    assert places(last, NodeRecord) == [AT + 48]
    assert places(first, SARecordPiece) == [AT + 112]
    assert places(middle, SARecordPiece) == [AT, AT + 136]
    assert places(last, SARecordPiece) == [AT]


def test_padding_between_records_is_no_piece_of_one() -> None:
    """Records of 8 bytes, 16 apart, of which 13 begin in the first segment: the second begins with the rest of the padding."""
    segments = [sa(TABLE_RESP, LINK, bytes(200), kind=DATA, flags=flags, number=number, length=length, step=2)
                for number, flags, length in ((1, 3, 660), (2, 1, 0), (3, 5, 20 + 33 * 16 - 8 - 400))]  # fmt: skip
    assert [places(one, LinkRecord) for one in segments] == [
        [AT + 16 * i for i in range(13)], [AT + 8 + 16 * i for i in range(12)], [AT + 16 * i for i in range(8)],
    ]  # fmt: skip
    assert [places(one, SARecordPiece) for one in segments] == [[], [], []]


@every(
    "frame",
    [
        sa(GET_TABLE, LINK, links(3), kind=ACK, flags=1, number=1, length=64, step=1),
        sa(TABLE_RESP, LINK, links(3), kind=STOP, flags=1, number=1, length=220, step=1),
        sa(TABLE_RESP, LINK, links(3), kind=ABORT, flags=1, number=1, length=220, step=1),
        sa(TABLE_RESP, LINK, links(3), kind=DATA, flags=7, number=1, length=20, step=1),
        sa(TABLE_RESP, LINK, links(3), kind=DATA, flags=7, number=1, length=44, step=0),
        sa(TABLE_RESP, LINK, links(3), kind=DATA, flags=7, number=1, length=44, step=1, status=0x0300),
        sa(TABLE_RESP, LINK, links(3), step=0),
        sa(GET_RESP, LINK, links(1), status=0x000C, step=1),
        sa(GET_TABLE, LINK, links(1), kind=DATA, flags=1, number=2, length=0),
    ],
)
def test_nothing_is_read_where_no_record_is(frame: bytes) -> None:
    assert places(frame, LinkRecord) == []
    assert places(frame, SAFormat) == [28]


def test_one_record_is_read_where_there_is_no_table() -> None:
    for frame in (
        sa(GET, LINK, links(2), mask=1),
        sa(GET_TABLE, LINK, links(2), mask=1),
        sa(GET_RESP, LINK, links(2), step=1),
        sa(GET_RESP, LINK, links(2), step=0),
        sa(GET_RESP, LINK, links(2), status=0x0002),
    ):
        assert places(frame, LinkRecord) == [AT]


def test_records_closer_than_their_size_are_not_cut_out_of_each_other() -> None:
    frame = sa(TABLE_RESP, NODE, bytes(200), kind=DATA, flags=7, number=1, length=220, step=3)
    assert places(frame, NodeRecord) == [AT]


def test_a_request_of_several_segments_holds_one_record_up_to_its_end() -> None:
    gids = bytes(range(64))
    frame = sa(MULTI, MULTIPATH, bytes(24) + gids, mask=(1 << 64) - 1, kind=DATA, flags=7, number=1, length=20 + 24 + 64)
    table = native_table([frame])
    found = table.occurrences(MultiPathRecord)
    assert (found.stop - found.at).tolist() == [88]


def test_a_snapped_segment_holds_the_records_that_were_captured() -> None:
    frame = sa(TABLE_RESP, LINK, links(25), kind=DATA, flags=3, number=1, length=440, step=1)
    for captured, count in ((AT + 200, 25), (AT + 25, 3), (AT + 7, 0), (AT - 2, 0), (60, 0)):
        capture = bytearray(erf_pcap([frame[:captured]]))
        struct.pack_into("<I", capture, 24 + 12, 16 + len(frame))  # original length of the pcap record
        struct.pack_into(">H", capture, 24 + 16 + 14, len(frame))  # wire length of the ERF record
        table = table_of(capture)
        assert len(table.occurrences(LinkRecord)) == count


def test_other_classes_with_rmpp_are_read_in_their_first_segment_and_vendors_where_they_are_whole() -> None:
    def managed(mgmt_class: int, attr_id: int, kind: int, number: int, at: int, version: int = 1, flags: int = 1) -> bytes:
        head = struct.pack(">BBBBII", version, kind, flags, 0, number, 220)
        oui = b"\0\0\x14\x05" if mgmt_class == 0x32 else b""
        return gmp(mgmt_class, GET_RESP, attr_id, (head + oui).ljust(at - 24, b"\0") + bytes(range(1, 100)), at=24)

    for kind, number, found in ((0, 0, 1), (DATA, 1, 1), (DATA, 2, 0), (ACK, 1, 0), (ABORT, 0, 0)):
        assert len(places(managed(0x06, 0x10, kind, number, 64), IOUnitInfo)) == found
        assert len(places(managed(0x32, 0x00, kind, number, 40, flags=5), OpenIBPing)) == found
    assert len(places(managed(0x32, 0x00, DATA, 1, 40, flags=3), OpenIBPing)) == 0  # more segments follow
    assert len(places(managed(0x06, 0x10, ACK, 1, 64, version=0), IOUnitInfo)) == 1  # reserved bytes, no RMPP


@pytest.mark.slow
@given(st.lists(st.binary(min_size=24, max_size=256), min_size=1, max_size=4), st.sampled_from([NODE, LINK, MULTIPATH, 0x38, 0x99]))
def test_no_bytes_lead_outside_their_frame(bodies: list[bytes], attr_id: int) -> None:
    frames = [ud(bytes([1, SA, 2, b[3] | 0x80]) + b[4:16] + struct.pack(">H", attr_id) + b[18:]) for b in bodies]
    table = native_table(frames)
    for what in (NodeRecord, LinkRecord, MultiPathRecord, SARecordPiece):
        found = table.occurrences(what)
        assert (found.at >= table.located.at("payload")[found.rows]).all()
        assert (found.stop <= table.located.payload_end[found.rows]).all()
        assert (found.stop - found.at >= what.size).all()


@pytest.mark.parametrize("name", ["14-saquery", "31-saquery-rmpp-ft36"])
def test_frames_show_the_records_that_whole_transfers_show(shared: Path, name: str) -> None:
    """Every record of a reassembled transfer that one frame held is found in that frame, and no other is."""
    alone: dict[type[Struct], set[tuple[int, int]]] = {}
    whole: dict[type[Struct], set[tuple[int, int]]] = {}
    transfers, cut = Transfers(), 0
    for chunk in open_capture(str(shared / f"captures/opensm/{name}.pcap")).chunks():
        table = ChunkTable(chunk)
        for transfer in transfers.feed(table).values():
            for record in records(transfer, table.catalog):
                assert record.view is not None
                # A piece of padding in another frame does not make a record a cut one.
                first = record.spans[0]
                if first.length >= type(record.view).size:
                    whole.setdefault(type(record.view), set()).add((first.frame, first.offset))
                else:
                    cut += 1
        for what in {each for (of, _), found in table.catalog.attributes.items() if of == SA for _, each in found}:
            found = table.occurrences(what)
            head = table.first(SAFormat)[found.rows]
            keep = (head >= 0) & (table.values(SAFormat.rmpp)[head][:, 1] == DATA)
            offsets = found.at[keep] - chunk.offset[found.rows[keep]]
            alone.setdefault(what, set()).update(zip((found.rows[keep] + chunk.first).tolist(), offsets.tolist(), strict=True))
    assert cut > 1000
    assert {what: places for what, places in alone.items() if places} == whole
