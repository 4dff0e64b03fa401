"""Do jumps lead to the field of a finding, stay inside the filter, and back again? Marks, too."""

from __future__ import annotations

from pathlib import Path

from tests.craft import erf_pcap as made_frames
from tests.tui import made
from tests.tui.made import running, shows, type_text, until


async def test_findings_marks_and_the_way_back(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(2)
        await shows(pilot, 2)
        await pilot.press("f")
        await shows(pilot, 3)
        node = app.main.tree_pane.node
        assert node is not None and any(node.offset == span.offset for one in app.model.findings.of_frame(3) for span in one.spans)
        assert app.main.bytes_pane.span == (node.offset, node.offset + node.length)
        await pilot.press("d")
        frames = app.model.findings.frames().tolist()
        await shows(pilot, frames[frames.index(3) - 1])
        await pilot.press("alt+left")
        await shows(pilot, 3)
        await pilot.press("alt+left")
        await shows(pilot, 2)
        await pilot.press("alt+right")
        await shows(pilot, 3)
        await pilot.press("m")
        app.jump(9)
        await shows(pilot, 9)
        await pilot.press("m", "apostrophe")
        await shows(pilot, 3)
        await pilot.press("quotation_mark")
        await until(pilot, lambda: app.main.packets.rows.frames(0, 9) == [3, 9])
        await pilot.press("quotation_mark")
        await until(pilot, lambda: app.filtering.text == "")


async def test_the_first_finding_follows_the_last(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        first, *_, last = app.model.findings.frames().tolist()
        app.jump(last)
        await shows(pilot, last)
        for key, frame, which in (("f", first, "first"), ("d", last, "last")):
            await pilot.press(key)
            await shows(pilot, frame)
            assert app.main.key_bar.note == f"went round to the {which} finding"


async def test_next_finding_stays_inside_the_filter_or_asks(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        clean = next(frame for frame in range(22, 30) if app.model.findings.worst(frame) is None)
        app.filtering.enter(f"frame.number == {clean}")
        await until(pilot, lambda: app.main.packets.frame == clean and not app.filtering.busy)
        await pilot.press("f")
        await until(pilot, lambda: any("leaves the filter" in note.message for note in app._notifications))
        assert app.main.packets.frame == clean and app.filtering.text
        await pilot.press("f")
        await until(pilot, lambda: app.filtering.text == "" and app.main.packets.frame != clean)


async def test_find_leads_to_what_it_found(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("ctrl+f")
        await type_text(pilot, "NEEDLE")
        await pilot.press("enter")
        await shows(pilot, 7)
        start, stop = app.main.bytes_pane.span
        assert app.main.bytes_pane.data[start:stop] == b"needle"


async def test_the_first_frame_may_have_a_finding(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    data = made.frames()[2]
    path.write_bytes(made_frames([data[:-1] + b"\0", *made.frames()[:2], data]))
    async with running(path) as (app, pilot):
        assert app.model.findings.frames().tolist()[:1] == [1]
        await pilot.press("f")
        assert app.main.key_bar.note == "" and app.main.packets.frame == 1
        await pilot.press("f")
        await shows(pilot, 4)
