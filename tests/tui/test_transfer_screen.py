"""Does R show a reassembled transfer with its records, also from a frame in its middle and where segments are missing?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.tui.follow import find_transfer
from ibdissect.tui.transfer_screen import RecordTree, TransferScreen
from tests import craft
from tests.dissect.test_transfers import ABORT, FIRST, LAST, MIDDLE, segment
from tests.tui.test_app import running, shows, until
from tests.tui.test_model import opened

OTHER = craft.gmp(4, 1, 0x12, slid=1, dlid=2)
ACK = segment(3, 1, 67, b"", kind=2, method=0x12, slid=2, dlid=1)


def written(folder: Path, *frames: bytes) -> Path:
    path = folder / "transfer.pcap"
    path.write_bytes(craft.erf_pcap(frames))
    return path


@pytest.mark.parametrize(("frame", "frames"), [(1, None), (2, [2, 3, 5]), (3, [2, 3, 5]), (5, [2, 3, 5]), (4, [2, 3, 5]), (6, None)])
def test_which_transfer_a_frame_belongs_to(tmp_path: Path, frame: int, frames: list[int] | None) -> None:
    """Segments, and the acknowledgement between them; a request of the same ends is none of it."""
    model = opened(written(tmp_path, OTHER, FIRST, MIDDLE, ACK, LAST, OTHER))
    found = find_transfer(model, frame, lambda: True)
    assert (sorted(found.frames) if found is not None else None) == frames
    model.close()


def test_a_transfer_that_has_no_end_is_found_too(tmp_path: Path) -> None:
    model = opened(written(tmp_path, FIRST, OTHER, MIDDLE))
    found = find_transfer(model, 3, lambda: True)
    assert found is not None and sorted(found.frames) == [1, 3] and not found.end_frame
    model.close()


def test_nothing_is_looked_for_when_nobody_wants_it_any_more(tmp_path: Path) -> None:
    model = opened(written(tmp_path, FIRST, MIDDLE, LAST))
    assert find_transfer(model, 1, lambda: False) is None
    model.close()


async def test_records_open_close_and_lead_to_their_frames(tmp_path: Path) -> None:
    async with running(written(tmp_path, OTHER, FIRST, MIDDLE, LAST)) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, TransferScreen))
        screen = app.screen
        assert isinstance(screen, TransferScreen) and "5 records in 3 segments" in screen.heading
        tree = screen.query_one(RecordTree)
        assert tree.has_focus and [depth for depth, _, _ in tree.lines].count(0) == 5
        opened_first = tree.count()
        drawn = ["".join(segment.text for segment in tree.parts(i, 100)) for i in range(tree.count())]
        assert "▾ NodeRecord[0]" in drawn[0] and "LID 1" in drawn[0] and any("▸ NodeRecord[4]" in line for line in drawn)
        await pilot.press("left")
        assert tree.count() == 5, "the first one is open at the start"
        await pilot.press("right", "down", "left")
        assert tree.cursor == 0 and tree.count() == opened_first, "from a field left leads to its record"
        await pilot.press("asterisk")
        assert tree.count() > 5 * 10
        await pilot.press("left", "end", "enter")
        await until(pilot, lambda: not isinstance(app.screen, TransferScreen))
        assert app.packets.frame == 4, "the last record begins in the last segment"


async def test_records_open_by_clicks(tmp_path: Path) -> None:
    async with running(written(tmp_path, FIRST, MIDDLE, LAST)) as (app, pilot):
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, TransferScreen))
        tree = app.screen.query_one(RecordTree)
        before = tree.count()
        await pilot.click(RecordTree, offset=(5, 0))
        await until(pilot, lambda: tree.count() == 5 < before)
        await pilot.click(RecordTree, offset=(5, 2))
        await until(pilot, lambda: tree.cursor == 2 and tree.count() > 5)


async def test_what_has_no_transfer_says_so(tmp_path: Path) -> None:
    async with running(written(tmp_path, OTHER, FIRST, LAST, ABORT)) as (app, pilot):
        await pilot.press("R")
        await until(pilot, lambda: any("belongs to no RMPP transfer" in note.message for note in app._notifications))
        assert not isinstance(app.screen, TransferScreen)
        app.jump(2)
        await shows(pilot, 2)
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, TransferScreen))
        screen = app.screen
        assert isinstance(screen, TransferScreen) and "missing segments 2, aborted" in screen.heading and len(screen.found) == 2
