"""Jumps lead to the field of a finding, stay inside the filter, and back again. Marks, too."""

from __future__ import annotations

import threading
from collections.abc import Callable
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


async def test_the_way_back_leads_to_filter_order_and_frame(tmp_path: Path) -> None:
    """A jump out of the filter, filters that menus and views enter, a sorted list: each is a view that Alt+Left shows again."""
    async with running(made.capture(tmp_path)) as (app, pilot):
        packets = app.main.packets
        app.filtering.enter("frame.number > 20")
        await until(pilot, lambda: packets.count() == 10 and not app.filtering.busy)
        app.jump(25)
        await pilot.press("o")
        await pilot.press(*["down"] * 6, "enter")
        await until(pilot, lambda: packets.sorted_by == "Len ▴")
        ordered = packets.rows.frames(0, 10)
        app.jump(3)
        await shows(pilot, 3)
        assert not app.filtering.text and "Alt+← goes back" in app.main.key_bar.note
        await until(pilot, lambda: packets.sorted_by == "Len ▴")  # all frames, in the same order
        app.filtering.enter("infiniband.bth.p_key == 0x9999")
        await until(pilot, lambda: packets.rows.frames(0, 9) == [3])
        await pilot.press("alt+left")
        await until(pilot, lambda: not app.filtering.text and packets.frame == 3 and packets.sorted_by)
        await pilot.press("alt+left")
        await until(pilot, lambda: app.filtering.text == "frame.number > 20" and packets.sorted_by == "Len ▴")
        assert packets.frame == 25 and packets.rows.frames(0, 10) == ordered
        assert app.main.filter_bar.input.value == app.filtering.text
        await until(pilot, lambda: str(app.main.filter_bar.count.content) == "10 of 30 shown  by Len ▴")
        await pilot.press("alt+right", "alt+right")
        await until(pilot, lambda: app.filtering.text.endswith("0x9999") and packets.frame == 3)


async def test_a_jump_ahead_of_the_filter_stays_in_it(tmp_path: Path) -> None:
    """The filter has not come to the frame yet: it will show it."""
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.model.fill, go_on = fill_later(app.model.fill)  # type: ignore[method-assign]
        app.filtering.enter("frame.number > 20")
        await pilot.pause()
        app.jump(25)
        assert app.filtering.text == "frame.number > 20" and not app.filtering.comes(3)
        go_on.set()
        await shows(pilot, 25)
        assert app.filtering.text == "frame.number > 20"


def fill_later(fill: Callable[..., None]) -> tuple[Callable[..., None], threading.Event]:
    """The filter's work, which waits for an event."""
    go_on = threading.Event()
    return lambda *given: (go_on.wait(10), fill(*given))[1], go_on
