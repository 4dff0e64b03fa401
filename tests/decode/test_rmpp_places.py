"""A later segment of a table with keys is read only where all segments in front of it were seen."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest

import ibdissect
from ibdissect.capture import records
from ibdissect.decode import ChunkTable, rmpp_places
from ibdissect.decode.rmpp_places import PlacedSegments
from ibdissect.decode.services import Services
from ibdissect.wire.sa_records import NodeRecord, PortInfoRecord
from tests.craft import erf_pcap
from tests.decode.hidden.test_opaque_bytes import sa
from tests.decode.made import native_table, tables_of
from tests.fuzz.container import pcapng
from tests.planted import KEY, leaks, native

ROOM, STEP = 200, 72


def table(numbers: Sequence[int], *, attribute: int = 0x12, offset: int = STEP // 8, changed: bool = False) -> list[bytes]:
    """A table of PortInfoRecords with keys, in as many segments as it has numbers, which stand in them."""
    record = (b"\0\1\1\0" + KEY * 2 + (b"\x33" if changed else b"\x22") * 52).ljust(STEP, b"\0")
    data, frames = record * (len(numbers) * ROOM // STEP + 1), []
    for place, number in enumerate(numbers):
        flags = 1 | 2 * (place == 0) | 4 * (place == len(numbers) - 1)
        body = data[place * ROOM : (place + 1) * ROOM]
        frames.append(sa(body, attribute=attribute, rmpp=(1, 1, flags), number=number, length=220, offset=offset))
    return frames


def rows(frames: list[bytes]) -> list[int]:
    """The frames whose place is certain."""
    made = native_table(frames)
    return (rmpp_places.placed(made).nonzero()[0] + 1).tolist()


@pytest.mark.parametrize("number", [3, 5, *(pytest.param(number, marks=pytest.mark.slow) for number in (4, *range(6, 12)))])
def test_a_segment_with_another_number_shows_no_key(number: int) -> None:
    frames = table([1, number, 3, 4])
    assert leaks(native(*frames), trees=[0, 1, 3]) == []


@pytest.mark.parametrize("numbers", [
    [1, 2, 2, 4], [2, 2, 3, 4], *(pytest.param(one, marks=pytest.mark.slow) for one in ([1, 2, 5, 4], [1, 2, 3, 2], [1, 2, 3, 9])),
])  # fmt: skip
def test_every_segment_of_a_table_may_be_the_wrong_one(numbers: list[int]) -> None:
    frames = table(numbers)
    assert leaks(native(*frames, *table([1, 2, 3, 4])[1:3]), trees=range(0, 6, 2)) == []


@pytest.mark.slow
def test_a_later_segment_without_a_type_is_no_record() -> None:
    frames = [sa(b"\x11" * 4 + KEY * 49, attribute=0x12, rmpp=(1, 0, 1), number=number, offset=9) for number in (2, 3)]
    assert leaks(native(*frames)) == []


def test_a_table_in_order_is_read() -> None:
    frames = table([1, 2, 3])
    with ibdissect.open(io.BytesIO(pcapng(native(*frames)))) as opened:
        (made,) = opened.tables()
        assert len(made.occurrences(PortInfoRecord)) == 6 and len(made.shown.occurrences(PortInfoRecord)) == 8
        assert made.once(rmpp_places.placed).tolist() == [False, True, True]
        assert opened.table_at([1, 3]).once(rmpp_places.placed).tolist() == [False, True]


def test_which_segments_are_in_their_place() -> None:
    one, two, three = table([1, 2, 3])
    other = table([1, 2, 3], changed=True)
    assert rows([one, two, three]) == [2, 3]
    assert rows([one, three, two]) == [3], "nobody looks ahead"
    assert rows([one, one, two, two, three, three]) == [3, 4, 5, 6], "two mirrors"
    assert rows([one, two, three, two, three]) == [2, 3, 4, 5], "the sender went back"
    assert rows([one, two, three, one, two, three]) == [2, 3, 5, 6]
    assert rows([one, two, other[0], two, three]) == [2, 4, 5], "a segment 1 with other data begins a new transfer"
    assert rows([one, two, other[1], three]) == [2, 4], "a segment 2 with other data is not a repetition"
    assert rows([one, *table([1, 2, 3], offset=10)[1:]]) == [], "every segment repeats AttributeOffset"
    assert rows(table([1, 2, 3], attribute=0x11, offset=14)) == [], "a NodeRecord holds no key"
    made = native_table(table([1, 2, 3], attribute=0x11, offset=14)[2:])
    assert len(made.occurrences(NodeRecord)) == 1


def test_nothing_follows_the_last_segment() -> None:
    assert rows([*table([1, 2, 3]), table([1, 2, 3, 4])[3]]) == [2, 3]


@pytest.mark.parametrize(("most", "frames"), [(4, [2, 3, 5, 6]), (3, [5, 6]), (2, [5, 6]), (1, [5, 6])])
def test_what_the_latest_window_holds_is_kept(most: int, frames: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rmpp_places, "MAX_FRAMES", most)
    monkeypatch.setattr(records, "ROWS", 3)
    seen, windows = PlacedSegments(), list(tables_of(erf_pcap(table([1, 2, 3]) * 2)))
    for window in windows:
        seen.feed(window)
    assert [row + window.chunk.first for window in windows for row in seen.of(window).nonzero()[0].tolist()] == frames


def test_state_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no longer remembered is hidden."""
    services = Services()
    made = native_table(table([1, 2, 3]))
    later = [ChunkTable(made.chunk, made.catalog, services), native_table(table([1, 2, 3]))]
    services.placed.feed(later[0])
    assert services.placed.of(made).tolist() == [False, True, True]
    services.placed.feed(later[0])
    assert services.placed.fed == 3
    seen = PlacedSegments()
    seen.feed(made)
    seen.fed = 0
    seen.feed(made)
    assert seen.of(made).tolist() == [False, True, True]
    monkeypatch.setattr(rmpp_places, "MAX_AGAIN", 1)
    one, two, three = table([1, 2, 3])
    assert rows([one, two, three, two, three]) == [2, 3, 5]
    monkeypatch.setattr(rmpp_places, "MAX_TRANSFERS", 1)
    assert rows([one, table([1], offset=10)[0], two]) == []
