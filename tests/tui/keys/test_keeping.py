"""Frames are marked, copied and written."""

from __future__ import annotations

import json
from pathlib import Path

from textual.widgets import Input, Label, OptionList

import ibdissect
from ibdissect.screen_model.capture_model import CaptureModel
from tests.screen_model.made import TOTAL
from tests.tui import made
from tests.tui.made import asks, offered, running, shows, text, type_text, until


async def test_mark_and_write(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("m", "down", "down", "m")
        assert app.model.marked == {1, 3} and "●" in text(app, 0) and "●" not in text(app, 1)
        for name, answers in (("marked.pcap", ()), ("shown.pcapng", ("down",))):
            await pilot.press("w", *answers)
            app.screen.query_one(Input).value = str(tmp_path / name)
            await pilot.press("enter")
            await until(pilot, (tmp_path / name).exists)
        with ibdissect.open(str(tmp_path / "marked.pcap")) as marked, ibdissect.open(str(tmp_path / "shown.pcapng")) as shown:
            assert [frame.data for frame in marked] == [made.frames()[0], made.frames()[2]] and len([*shown]) == TOTAL
        await pilot.press("w")
        app.screen.query_one(Input).value = str(tmp_path / "marked.pcap")
        await pilot.press("enter")
        assert "overwrites" in str(app.screen.query_one("#prompt-reason", Label).render())
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main)
        await pilot.press("m", "M")
        assert app.model.marked == set()
        await pilot.press("M")
        assert len(app.model.marked) == TOTAL


async def test_copy(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        app.main.tree_pane.reveal(10)
        await pilot.press("y")
        texts = {what: key for key, what, _ in offered(app)}
        assert texts["as filter"] == "infiniband.bth.p_key == 0x9999" and texts["bytes in hex"] == "99 99"
        assert texts["line of the list"].startswith("3  0.002 000  LID 3  ") and "port 1  RC  9999  34  SEND" in texts["line of the list"]
        assert texts["line as CSV"].startswith('"3","0.002 000","LID 3",') and "\t" not in "".join(texts.values())
        app.screen.query_one(OptionList).highlighted = list(texts).index("as filter")
        await pilot.press("enter")
        assert app.clipboard == "infiniband.bth.p_key == 0x9999"
        app.jump(8)
        await shows(pilot, 8)
        tree = app.main.tree_pane
        reth = next(line.node for _, line in tree.lines if line.node is not None and line.node.label == "RETH")
        tree.reveal_node(reth)
        await pilot.press("y")
        assert offered(app) and "bytes in hex" not in {what for _, what, _ in offered(app)}, "they hold a key"


async def test_a_note_is_a_comment_in_pcapng(tmp_path: Path) -> None:
    out = tmp_path / "noted.pcapng"
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("down", "K")
        await until(pilot, lambda: asks(app))
        await type_text(pilot, "look here")
        await pilot.press("enter")
        await until(pilot, lambda: app.model.marked == {2})
        await pilot.press("w")
        await until(pilot, lambda: asks(app))
        app.screen.query_one(Input).value = str(out)
        await pilot.press("enter")
        await until(pilot, out.exists)
        await until(pilot, lambda: app.screen is app.main)
    model = CaptureModel(str(out))
    model.scan(lambda: None)
    assert [layer.text for layer in model.tree(1).layers if layer.label == "Comment"] == ["look here"] and model.index.frames == 1


async def test_marks_and_notes_are_there_in_the_next_run(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    async with running(path) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        await pilot.press("m")
        app.model.note(5, "look here")
        await pilot.press("q")
    async with running(path) as (app, _):
        assert app.model.marked == {3} and app.model.reader.comments.get(5, ()) == ["look here"]


async def test_ignored_frames_and_ranges(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        await pilot.press("I")
        await until(pilot, lambda: not app.filtering.busy and app.main.packets.count() == TOTAL - 1)
        app.model.marked = {4, 6, 7, *range(1000, 1500)}  # more than a filter lists: those that are marked
        await pilot.press("I")
        await until(pilot, lambda: not app.filtering.busy and app.main.packets.count() == TOTAL - 4)
        assert app.filtering.text.endswith("not (frame.marked)")
        app.model.marked = {4, 6, 7}
        await pilot.press("w", "down", "down")
        await until(pilot, lambda: asks(app) and app.screen.kind.startswith("from first"))  # type: ignore[attr-defined]
        asks(app).value = str(tmp_path / "range.json")
        await pilot.press("enter")
        await until(pilot, lambda: (tmp_path / "range.json").exists())
        rows = json.loads((tmp_path / "range.json").read_text())
        assert [row["frame"] for row in rows] == [4, 5, 6, 7] and rows[0]["p_key"] == "0xffff" and rows[0]["info"]


async def test_marks_of_a_pipe_are_asked_about(tmp_path: Path) -> None:
    app = made.app_on(made.capture(tmp_path))
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.study.finished)
        app.capture.kept.path = None
        app.model.marked = {3}
        await pilot.press("q")
        await until(pilot, lambda: offered(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: not app.is_running or app._exit)
