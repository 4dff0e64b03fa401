"""Opaque pieces are looked up by place, and found in the order of their starts."""

from __future__ import annotations

import io
import struct
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import ibdissect
from ibdissect.decode.hidden.opaque_bytes import Masks, masks
from ibdissect.wire.sa_records import PortInfoRecord
from tests.cases import every
from tests.craft import mad, ud
from tests.craft import native as native_frame
from tests.decode.hidden.test_cut_keys import in_rows
from tests.decode.hidden.test_unreadable_fields import KEY, NAME, PLUGIN, SECRET, vendor
from tests.fuzz.container import pcapng
from tests.planted import KEY as PLANTED
from tests.planted import leaks, native


def test_the_parts_of_a_range_that_are_opaque() -> None:
    some = Masks([10, 30], [20, 40])
    assert some.within(0, 10) == some.within(20, 30) == some.within(40, 99) == ()
    assert some.within(0, 11) == ((10, 11),) and some.within(19, 30) == ((0, 1),)
    assert some.within(12, 15) == ((0, 3),) and some.within(5, 50) == ((5, 15), (25, 35))


@every(
    ("pieces", "merged"),
    [([(10, 20), (20, 25)], [(10, 25)]), ([(10, 20), (21, 25)], [(10, 20), (21, 25)]),
     ([(10, 30), (12, 15), (40, 41)], [(10, 30), (40, 41)]), ([(10, 20), (15, 30), (30, 31)], [(10, 31)]), ([(10, 11)], [(10, 11)])],
)  # fmt: skip
def test_masks_are_disjoint(pieces: list[tuple[int, int]], merged: list[tuple[int, int]]) -> None:
    at, stop = np.array(pieces, np.int64).T
    table: Any = SimpleNamespace(once=lambda _: Places(at, stop))
    found = masks(table)
    assert found is not None and list(zip(found.at, found.stop, strict=True)) == merged


class Places(NamedTuple):
    """Where pieces begin and end."""

    at: Any
    stop: Any


PIECES = [
    [vendor(SECRET + b"\1\1\1\1"), vendor(NAME), vendor(NAME + SECRET, segment=2), vendor(b"\0\7\0\4" + KEY)],
    [vendor(SECRET + KEY), vendor(NAME + SECRET), vendor(SECRET + NAME + b"\0\0\0\1" + bytes(4) + KEY)],
]


@every("frames", PIECES)
def test_bytes_and_trees_hide_the_same_pieces(frames: list[bytes]) -> None:
    """Also where pieces overlap or touch. A later segment has a key of its own where a first segment would have it."""
    with ibdissect.open(io.BytesIO(pcapng(native(*frames))), plugins=[str(PLUGIN)]) as opened:
        (table,) = opened.tables()
        for row, hidden in in_rows(table):
            tree = opened.dissect(row + 1)
            assert hidden == {at for start, stop in tree.secret_bytes for at in range(start, stop)}, row
            assert (KEY in frames[row]) == bool(hidden), row


SERVICE = b"\x11" * 32 + PLANTED * 4 + b"\x11" * 128
"""A ServiceRecord with its key."""


def sa(body: bytes, *, attribute: int = 0x31, method: int = 0x92, rmpp: tuple[int, int, int] = (1, 1, 7), number: int = 1,
       length: int = 196, offset: int = 22, status: int = 0, mgmt_class: int = 3) -> bytes:  # fmt: skip
    """A MAD with version, type and flags of RMPP, segment number, PayloadLength, and in the SA AttributeOffset."""
    data = bytearray(mad(mgmt_class, method, attribute, body, at=56 if mgmt_class == 3 else 64))
    data[4:6] = status.to_bytes(2, "big")
    data[24:36] = bytes([*rmpp, 0]) + number.to_bytes(4, "big") + length.to_bytes(4, "big")
    if mgmt_class == 3:
        data[44:46] = offset.to_bytes(2, "big")
    return ud(bytes(data))


def test_a_record_that_lengths_offsets_types_or_numbers_leave_out_is_hidden() -> None:
    assert leaks(native(sa(SERVICE))) == [] and leaks(native(sa(SERVICE)), keys=True)
    frames = [sa(SERVICE, length=length) for length in (0, 20, 40, 84, 195)]
    frames += [sa(SERVICE, offset=offset) for offset in (0, 1, 21, 23, 0xFFFF)]
    frames += [sa(SERVICE, rmpp=rmpp) for rmpp in ((0, 0, 0), (1, 5, 7), (1, 0, 1), (2, 1, 7), (1, 2, 1), (1, 3, 1), (1, 4, 1))]
    frames += [sa(SERVICE, number=number, rmpp=(1, 1, flags)) for number in (0, 2, 3) for flags in (1, 5, 7)]
    frames += [sa(SERVICE, method=method, rmpp=rmpp) for method in (2, 0x13, 0x81, 0x93, 0x94, 0x7F) for rmpp in ((0, 0, 0), (1, 1, 5))]
    frames += [sa(SERVICE, method=0x92, rmpp=(0, 0, 0), offset=0), sa(SERVICE, method=0x81, number=2)]
    assert leaks(native(*frames), trees=range(0, len(frames), 7)) == []


def test_what_an_answer_that_failed_left_over_is_hidden() -> None:
    """A ClassPortInfo has keys, too: of classes with RMPP, nothing is read in an answer that failed."""
    info = bytes(36) + b"\x11" * 28 + PLANTED + bytes(4)
    frames = [sa(info, attribute=1, method=0x81, status=3, rmpp=(0, 0, 0), mgmt_class=number) for number in (6, 0x10, 0x12)]
    frames += [sa(SERVICE, method=method, status=status) for method in (0x81, 0x92) for status in (1, 0x200, 0x1C)]
    assert leaks(native(*frames), trees=[0]) == []


def test_a_wrong_offset_shows_nothing_of_a_table_with_keys() -> None:
    """Records that are read at other places would show a key as another field."""
    table = (b"\0\1\1\0" + PLANTED * 2 + b"\x22" * 56 + bytes(4)) * 2
    assert leaks(native(*(sa(table, attribute=0x12, offset=offset, length=164) for offset in (8, 9, 10, 11, 17)))) == []
    with ibdissect.open(io.BytesIO(pcapng(native(sa(table, attribute=0x12, offset=9, length=164))))) as opened:
        assert len(next(iter(opened.tables())).occurrences(PortInfoRecord)) == 2


def test_bytes_of_a_plain_attribute_are_shown() -> None:
    """A NodeRecord holds no key: what is beside it is shown, as before."""
    assert leaks(native(sa(SERVICE, attribute=0x11, length=40)))


@every(("attribute", "shown"), [(0x12, False), (0x31, False), (0x11, True), (0x99, True)])
def test_pieces_of_records_in_a_segment_are_hidden_if_their_record_holds_a_key(attribute: int, shown: bool) -> None:
    """Those of ports and services do, but not those of nodes, nor what nobody knows."""
    body = b"\x11" * 180 + PLANTED + b"\x11" * 16
    segment = sa(body, attribute=attribute, rmpp=(1, 1, 3), length=420, offset={0x12: 9, 0x31: 22}.get(attribute, 14))
    assert bool(leaks(native(segment))) is shown


@every("left", [24, 30, 40, 55, 57])
def test_a_frame_that_ends_before_its_record_hides_nothing_of_the_next_one(left: int) -> None:
    cut, whole = sa(SERVICE)[: 28 + left], native_frame(0x04, b"data", slid=0x1234, dlid=0x5678)
    records = b"".join(struct.pack("<IIII", 1, 0, len(data), 300) + data for data in (cut, whole))
    with ibdissect.open(io.BytesIO(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 247) + records)) as opened:
        (table,) = opened.tables()
        assert [min(hidden, default=None) for _, hidden in in_rows(table)][1] in (None, *range(20, 99))
