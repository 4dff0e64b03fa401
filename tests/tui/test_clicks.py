"""Does the mouse do in every list what the keys do, and does the screen say where there is nothing?"""

from __future__ import annotations

from pathlib import Path

from textual import events
from textual.widgets import OptionList

from ibdissect.tui.bytes_pane import BytesPane
from ibdissect.tui.choice import Choice
from ibdissect.tui.conversation_screen import ConversationScreen, ExchangeTable, TalkTable
from ibdissect.tui.findings_pane import FindingsPane
from ibdissect.tui.page_screen import PageScreen
from ibdissect.tui.summary_screen import RuleTable, SummaryScreen
from tests import craft
from tests.tui import made
from tests.tui.test_app import running, shows, type_text, until


def written(folder: Path, *frames: bytes) -> Path:
    path = folder / "few.pcap"
    path.write_bytes(craft.erf_pcap(frames))
    return path


async def test_the_wheel_goes_both_ways(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path, repeat=5)) as (app, pilot):
        for kind, wanted in ((events.MouseScrollDown, 3), (events.MouseScrollDown, 6), (events.MouseScrollUp, 3), (events.MouseScrollUp, 0),
                             (events.MouseScrollUp, 0)):  # fmt: skip
            app.packets.post_message(kind(app.packets, 5, 5, 0, 1, 0, False, False, False))
            await until(pilot, lambda wanted=wanted: app.packets.scroll_offset.y == wanted)
        assert app.packets.frame == 1


async def test_groups_of_findings_open_by_a_click_and_lead_to_frames(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        pane = app.query_one(FindingsPane)
        pane.focus()
        await pilot.press("o", "home")
        closed = pane.count()
        await pilot.click("#findings", offset=(5, 0))
        await until(pilot, lambda: pane.count() > closed)
        first = pane.entries[1]
        assert not isinstance(first, str)
        await pilot.click("#findings", offset=(5, 1))
        await shows(pilot, first.frame)
        await pilot.press("up")
        assert pane.finding is first, "a group stands for its first finding"
        await pilot.press("enter")
        await until(pilot, lambda: pane.count() == closed)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, PageScreen))
        assert first.code in app.screen.heading.plain  # type: ignore[attr-defined]


async def test_layers_open_by_a_click_on_their_arrow(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        tree = app.tree_pane
        lines = len(tree.lines)
        place = next(i for i, line in enumerate(tree.lines) if line.node is not None and line.node.children)
        assert place < tree.size.height
        await pilot.click("#tree", offset=(1, place))
        await until(pilot, lambda: len(tree.lines) > lines)
        await pilot.click("#tree", offset=(20, place))
        await pilot.pause()
        assert len(tree.lines) > lines and tree.cursor == place, "beside the arrow a click selects"
        await pilot.click("#tree", offset=(1, place))
        await until(pilot, lambda: len(tree.lines) == lines)


async def test_text_of_bytes_can_be_clicked(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        pane = app.query_one(BytesPane)
        line = pane.render_line(0).text
        start = len(line.rstrip()) - pane.per_line
        await pilot.click("#bytes", offset=(start + 3, 1))
        await until(pilot, lambda: pane.byte == pane.per_line + 3)


async def test_completions_by_arrows_and_by_a_click(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("slash")
        await type_text(pilot, "infiniband.bth.p")
        bar = app.filter_bar
        await until(pilot, lambda: bar.choices.display)
        offered = [entry.text for entry in bar._found]
        await pilot.press("down", "down", "up", "up", "up")
        assert bar.choices.highlighted == len(offered) - 1, "up from the first is the last"
        await pilot.press("tab")
        assert bar.input.value == offered[-1] and not bar.choices.display
        await pilot.press("ctrl+u")
        assert bar.input.value == ""
        await type_text(pilot, "infiniband.bth.p")
        await until(pilot, lambda: bar.choices.display)
        bar.query_one(OptionList).action_first()
        await pilot.click("#filter-choices", offset=(3, 1))
        await until(pilot, lambda: bar.input.value in offered and not bar.choices.display)


async def test_one_of_several_findings_is_chosen(tmp_path: Path) -> None:
    """A frame with two findings asks which one; Esc explains none."""
    bad = craft.smp(1, 0x10, modifier=7, lrh={"vl": 0}, slid=3, dlid=5)
    async with running(written(tmp_path, bad)) as (app, pilot):
        assert len(app.model.findings.of_frame(1)) > 1
        await pilot.press("e")
        assert isinstance(app.screen, Choice)
        await pilot.press("escape")
        assert not isinstance(app.screen, (Choice, PageScreen))
        await pilot.press("e", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, PageScreen))
        assert app.model.findings.of_frame(1)[1].code in app.screen.heading.plain  # type: ignore[attr-defined]


async def test_summary_explains_and_filters(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("S")
        assert isinstance(app.screen, SummaryScreen)
        table = app.screen.query_one(RuleTable)
        code = table.groups[1][0]
        await pilot.press("down", "e")
        await until(pilot, lambda: isinstance(app.screen, PageScreen))
        assert code in app.screen.heading.plain  # type: ignore[attr-defined]


async def test_an_exchange_becomes_a_filter(tmp_path: Path) -> None:
    ask, answer = (craft.gmp(4, method, 0x12, slid=slid, dlid=3 - slid) for method, slid in ((1, 1), (0x81, 2)))
    async with running(written(tmp_path, ask, craft.rc(0x04, bytes(4)), answer)) as (app, pilot):
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, ConversationScreen))
        app.screen.query_one(ExchangeTable).focus()
        await pilot.press("home", "enter")
        await until(pilot, lambda: app.packets.rows.frames(0, 9) == [1, 3])


async def test_a_clean_capture_has_nothing_to_go_to(tmp_path: Path) -> None:
    path = tmp_path / "arp.pcap"
    path.write_bytes(craft.ethernet_pcap([bytes(12) + b"\x08\x06" + bytes(46)]))
    async with running(path) as (app, pilot):

        def said(what: str) -> bool:
            return any(what in note.message for note in app._notifications)

        await pilot.press("f")
        await until(pilot, lambda: said("No findings"))
        await pilot.press("c")
        await until(pilot, lambda: said("belongs to no InfiniBand conversation"))
        app.tree_pane.select(0)
        await pilot.press("a")
        await until(pilot, lambda: said("Select a field of the tree that has a value"))
        await pilot.press("S")
        assert isinstance(app.screen, SummaryScreen) and app.screen.query_one(RuleTable).count() == 0
        await pilot.press("e", "enter", "escape", "C")
        await until(pilot, lambda: isinstance(app.screen, ConversationScreen))
        assert app.screen.query_one(TalkTable).count() <= 1


async def test_an_empty_capture(tmp_path: Path) -> None:
    app = made.app_on(written(tmp_path))
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.study.finished)
        await until(pilot, lambda: "The capture holds no frames." in app.packets.render_line(0).text)
        await pilot.press("down", "enter", "c", "r", "R", "m", "e", "f", "left", "a")
        await pilot.pause()
        assert app.packets.frame == 0 and app.packets.count() == 0 and app.model.error in (None, "")


async def test_a_filter_that_nothing_matches_says_so(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.apply_filter("frame.number == 999")
        await until(pilot, lambda: app.packets.count() == 0 and not app.filtering.busy)
        await pilot.pause(0.1)
        assert "No frame matches this filter" in app.packets.render_line(0).text
