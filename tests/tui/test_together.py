"""Do c, r and R lead to the frames that belong to the selected one?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.tui.follow import conversation_filter, counterpart, find_transfer
from ibdissect.tui.key_bar import KeyBar
from ibdissect.tui.model import CaptureModel
from ibdissect.tui.study import Snapshot, Study
from ibdissect.tui.transfer_screen import RecordTree, TransferScreen
from tests import craft
from tests.conftest import REPO
from tests.tui.test_app import running, shows, until
from tests.tui.test_model import opened, studied

GET, ANSWER = 1, 0x81


def asked(tid: int, method: int, *, lid: int = 1, peer: int = 2) -> bytes:
    """A PortCounters request, or its answer."""
    ends = {"slid": lid, "dlid": peer} if method == GET else {"slid": peer, "dlid": lid}
    return craft.gmp(4, method, 0x12, header={"transaction_id": tid}, **ends)


def data(psn: int, *, qp: int = 0x10) -> bytes:
    return craft.rc(0x04, bytes(8), slid=1, dlid=2, bth={"destqp": qp, "psn": psn})


def ack(psn: int, *, qp: int = 0x20) -> bytes:
    return craft.rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, slid=2, dlid=1, bth={"destqp": qp, "psn": psn})


FRAMES = [asked(1, GET), data(5), asked(2, GET), data(6), asked(1, ANSWER), ack(6), data(7), ack(7), asked(3, GET),
          craft.ud(bytes(8), dest_qp=0x40, src_qp=0x41, slid=1, dlid=2), craft.ud(bytes(8), dest_qp=0x41, src_qp=0x40, slid=2, dlid=1),
          craft.ud(bytes(8), dest_qp=0x41, src_qp=0x99, slid=2, dlid=1)]  # fmt: skip


def written(folder: Path, frames: list[bytes] = FRAMES) -> Path:
    path = folder / "together.pcap"
    path.write_bytes(craft.erf_pcap(frames))
    return path


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[CaptureModel, Study, Snapshot]:
    """The frames with all that is known of them."""
    path = written(tmp_path_factory.mktemp("together"))
    model = opened(path)
    study, shot = studied(model)
    again = opened(path)
    again.answers = model.answers
    return again, study, shot


@pytest.mark.parametrize(
    ("frame", "other"), [(1, 5), (5, 1), (3, None), (9, None), (2, 6), (4, 6), (6, 4), (7, 8), (8, 7), (10, None)]
)  # fmt: skip
def test_counterparts(learnt: tuple[CaptureModel, Study, Snapshot], frame: int, other: int | None) -> None:
    model, study, shot = learnt
    assert counterpart(model, frame, shot.talks, study.connections.all) == other


@pytest.mark.parametrize(
    ("frame", "frames"), [(1, [1, 5]), (3, [3]), (2, [2, 4, 6, 7, 8]), (8, [2, 4, 6, 7, 8]), (10, [10, 11]), (12, [12])]
)
async def test_follow_a_conversation(tmp_path: Path, frame: int, frames: list[int]) -> None:
    async with running(written(tmp_path)) as (app, pilot):
        app.jump(frame)
        await shows(pilot, frame)
        await pilot.press("c")
        await until(pilot, lambda: app.packets.rows.frames(0, 99) == frames and not app.filtering.busy)
        await shows(pilot, frame)
        await pilot.press("c")
        await until(pilot, lambda: len(app.packets.rows) == len(FRAMES))
        assert app.filter_text == "" and app.filter_bar.input.value == ""


async def test_following_gives_back_the_filter_that_was_there(tmp_path: Path) -> None:
    async with running(written(tmp_path), display_filter="frame.number < 6") as (app, pilot):
        await until(pilot, lambda: len(app.packets.rows) == 5)
        await pilot.press("c")
        await until(pilot, lambda: app.packets.rows.frames(0, 9) == [1, 5])
        await pilot.press("c")
        await until(pilot, lambda: app.filter_text == "frame.number < 6" and len(app.packets.rows) == 5)


async def test_jump_between_request_and_answer(tmp_path: Path) -> None:
    async with running(written(tmp_path)) as (app, pilot):
        await shows(pilot, 1)
        await pilot.press("r")
        await shows(pilot, 5)
        assert "frame 1" in app.query_one(KeyBar).note
        await pilot.press("r")
        await shows(pilot, 1)
        app.jump(9)
        await shows(pilot, 9)
        await pilot.press("r")
        await until(pilot, lambda: any("No request and no answer" in note.message for note in app._notifications))
        assert app.packets.frame == 9


async def test_connection_management(tmp_path: Path) -> None:
    async with running(REPO / "captures" / "rxe-rping.pcap") as (app, pilot):
        one = app.study.connections.all[0]
        app.history.path = app.memory.path = None
        app.jump(one.req_frame)
        await shows(pilot, one.req_frame)
        await pilot.press("r")
        await shows(pilot, one.rep_frame)
        await pilot.press("c")
        await until(pilot, lambda: len(app.packets.rows) > 20 and not app.filtering.busy)
        frames = set(app.packets.rows.frames(0, 10_000))
        assert {one.req_frame, one.rep_frame, one.rtu_frame} <= frames


def test_no_conversation_without_infiniband(tmp_path: Path) -> None:
    path = tmp_path / "arp.pcap"
    path.write_bytes(craft.ethernet_pcap([bytes(12) + b"\x08\x06" + bytes(28), craft.roce2(0x04, bytes(4))]))
    model = opened(path)
    assert conversation_filter(model, 1, (), ()) is None and find_transfer(model, 1, lambda: True) is None
    assert counterpart(model, 1, (), ()) is None
    model.close()


async def test_reassembled_transfer(shared: Path) -> None:
    async with running(shared / "captures/opensm/31-saquery-rmpp-ft36.pcap") as (app, pilot):
        app.history.path = app.memory.path = None
        app.apply_filter("infiniband.rmpp.rmpptype == 1 && infiniband.rmpp.segmentnumber == 3")
        await until(pilot, lambda: len(app.packets.rows) and not app.filtering.busy)
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, TransferScreen))
        screen, tree = app.screen, app.screen.query_one(RecordTree)
        assert isinstance(screen, TransferScreen)
        assert "segments" in screen.heading and len(screen.found) > 3
        closed = tree.count()
        drawn = "".join(segment.text for i in range(4) for segment in tree.parts(i, 100))
        assert "[0]" in drawn and "LID" in drawn
        await pilot.press("left")
        assert tree.count() == len(screen.found) < closed
        await pilot.press("right", "down", "left")
        assert tree.cursor == 0
        await pilot.press("asterisk")
        assert tree.count() > closed
        await pilot.press("left", "end")
        frame = tree.lines[tree.cursor][2]
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, TransferScreen))
        assert app.packets.frame == frame
        app.jump(1)
        await pilot.press("R")
        await until(pilot, lambda: any("no RMPP transfer" in note.message for note in app._notifications))
