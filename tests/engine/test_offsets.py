"""The columns of headers are as many as are needed, in their places, and -1 elsewhere."""

from __future__ import annotations

import numpy as np

from ibdissect.decode.locate import locate
from ibdissect.engine import offsets
from tests import craft, tunnels
from tests.decode.made import Row, chunk_of
from tests.standard import LINK_ETHERNET

ROOM = 8


def test_a_reason_has_its_text() -> None:
    assert len(offsets.MALFORMED) == offsets.UDP_LARGE + 1 and not offsets.MALFORMED[offsets.OK]
    assert offsets.MALFORMED[offsets.NO_MAD] == "the MAD is shorter than its header"


def test_there_is_room_for_more_columns_than_most_captures_need() -> None:
    """Rows with few headers lie before, between and behind one with many."""
    plain, inside = craft.roce2(payload=bytes(8)), tunnels.wrapped("VXLAN in ERSPAN", craft.roce2(0x64, bytes(264), vlan=5))[0]
    frames = [plain, inside, bytes(14), plain, inside[:60], plain]
    loc = locate(chunk_of([Row(frame, LINK_ETHERNET) for frame in frames]))
    assert len(loc.start) > ROOM
    for row, frame in enumerate(frames):
        alone = locate(chunk_of([Row(frame, LINK_ETHERNET)]))
        base = int(loc.end[row] - alone.end[0])
        assert {name: int(at[row]) - base for name, at in loc.start.items() if at[row] >= 0} == {
            name: int(at[0]) for name, at in alone.start.items() if at[0] >= 0
        }


def test_only_columns_that_some_row_has_are_kept() -> None:
    loc = locate(chunk_of([Row(craft.roce2(), LINK_ETHERNET)] * 2))
    assert sorted(loc.start) == ["bth", "eth", "icrc", "ip4", "udp"]
    assert all(np.all(at >= 0) for at in loc.start.values()) and not locate(chunk_of([])).start
