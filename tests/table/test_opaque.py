"""Are opaque pieces looked up by place, and found in the order of their starts?"""

from __future__ import annotations

import io

from ibdissect.session.capture import Capture
from ibdissect.table.opaque import Masks, masks, opaque_pieces
from tests.fuzz.container import pcapng
from tests.table.test_insides import KEY, NAME, PLUGIN, SECRET, vendor, whole


def test_the_parts_of_a_range_that_are_opaque() -> None:
    some = Masks([10, 30], [20, 40])
    assert some.within(0, 10) == some.within(20, 30) == some.within(40, 99) == ()
    assert some.within(0, 11) == ((10, 11),) and some.within(19, 30) == ((0, 1),)
    assert some.within(12, 15) == ((0, 3),) and some.within(5, 50) == ((5, 15), (25, 35))


def test_pieces_that_overlap_or_touch_are_one() -> None:
    """The second frame is a later segment, and has a key of its own where a first segment would have it."""
    frames = [vendor(SECRET + b"\1\1\1\1"), vendor(NAME), vendor(NAME + SECRET, segment=2), vendor(b"\0\7\0\4" + KEY)]
    with Capture(io.BytesIO(pcapng(whole(*frames))), plugins=[str(PLUGIN)]) as opened:
        (table,) = opened.tables()
        rows, at, stop = table.once(opaque_pieces)
        assert rows.tolist() == [0, 2, 3] and (at[1:] >= at[:-1]).all() and (at < stop).all()
        found = table.once(masks)
        assert found is not None and len(found.at) == 3 and all(a < b for a, b in zip(found.at, found.stop, strict=True))
    with Capture(io.BytesIO(pcapng(whole(vendor(NAME)))), plugins=[str(PLUGIN)]) as opened:
        (table,) = opened.tables()
        assert table.once(masks) is None
