"""Does every key and pane do what the help says, on a screen that is not there?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, Label, OptionList, SelectionList

from ibdissect.capture.opening import open_capture
from ibdissect.tui.app import TuiApp
from ibdissect.tui.bit_line import BitLine
from ibdissect.tui.bytes_pane import BytesPane
from ibdissect.tui.choice import Choice
from ibdissect.tui.column_choice import ColumnChoice
from ibdissect.tui.column_header import ColumnHeader
from ibdissect.tui.conversation_screen import ConversationScreen, ExchangeTable, TalkTable
from ibdissect.tui.fabric_screen import DetailTable, FabricScreen, FabricTree
from ibdissect.tui.findings_pane import FindingsPane
from ibdissect.tui.key_bar import KeyBar
from ibdissect.tui.page_screen import PageScreen
from ibdissect.tui.prompt import Prompt
from ibdissect.tui.splitter import Splitter
from ibdissect.tui.statistics_screen import Bars, Plot, StatisticsScreen
from ibdissect.tui.summary_screen import RuleTable, SummaryScreen
from ibdissect.tui.title_bar import TitleBar
from tests.conftest import REPO
from tests.tui import made

TOTAL = len(made.frames())
Running = tuple[TuiApp, Pilot[None]]


async def until(pilot: Pilot[None], true: Callable[[], object]) -> None:
    """Wait for what a thread does; fails after ten seconds."""
    for _ in range(400):
        if true():
            await pilot.pause()
            return
        await pilot.pause(0.025)
    raise AssertionError("nothing came of it")


@asynccontextmanager
async def running(path: Path, size: tuple[int, int] = made.SIZE, display_filter: str = "") -> AsyncIterator[Running]:
    app = made.app_on(path, display_filter=display_filter)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.study.finished and app.tree_pane.lines)
        await pilot.pause(0.15)
        yield app, pilot


async def shows(pilot: Pilot[None], frame: int) -> None:
    """Wait until list and tree are on a frame."""
    app = pilot.app
    assert isinstance(app, TuiApp)
    await until(pilot, lambda: app.packets.frame == frame and app.tree_pane.frame_tree and app.tree_pane.frame_tree.frame == frame)


def text(app: TuiApp, line: int) -> str:
    """A line of the packet list as it is drawn."""
    return "".join(segment.text for segment in app.packets.render_line(line))


async def type_text(pilot: Pilot[None], what: str) -> None:
    names = {" ": "space", "_": "underscore", ".": "full_stop", "=": "equals_sign"}
    await pilot.press(*(names.get(character, character) for character in what))


async def test_moving(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await shows(pilot, 1)
        await pilot.press("down", "down")
        await shows(pilot, 3)
        await pilot.press("up")
        await shows(pilot, 2)
        await pilot.press("end")
        await shows(pilot, TOTAL)
        await pilot.press("pageup")
        assert app.packets.frame < TOTAL - 5
        await pilot.press("home")
        await shows(pilot, 1)
        await pilot.press("pagedown")
        assert app.packets.frame > 5


async def test_go_to(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path, repeat=40)) as (app, pilot):
        await pilot.press("g")
        assert isinstance(app.screen, Prompt)
        await type_text(pilot, "99999")
        await pilot.press("enter")
        assert isinstance(app.screen, Prompt)  # there is no such frame
        await pilot.press("backspace", "backspace", "enter")
        await shows(pilot, 999)
        assert app.packets.scroll_offset.y > 900
        await pilot.press("g", "escape")
        await shows(pilot, 999)


async def test_filter_bar(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("down", "down", "down", "slash")
        await type_text(pilot, "bth.psn =")
        assert app.filter_bar.has_class("invalid") and not app.filter_bar.has_class("valid")
        await pilot.press("escape")
        assert "▴" in str(app.query_one("#filter-reason", Label).render())
        await type_text(pilot, "= 110")
        assert app.filter_bar.has_class("valid")
        await pilot.press("enter")
        await until(pilot, lambda: len(app.packets.rows) == 3 and not app.filtering.busy)
        assert app.packets.rows.frames(0, 9) == [19, 20, 21] and app.packets.has_focus
        await shows(pilot, 19)  # the nearest to frame 4
        await until(pilot, lambda: "3 of 30 shown" in str(app.query_one("#filter-count", Label).render()))
        await pilot.press("slash", "ctrl+u", "enter")
        await until(pilot, lambda: len(app.packets.rows) == TOTAL)
        await shows(pilot, 19)
        await pilot.press("slash", "up")
        assert app.filter_bar.input.value == "bth.psn == 110"
        await pilot.press("down")
        assert app.filter_bar.input.value == ""
        await pilot.press("escape")
        assert app.packets.has_focus and not app.filter_bar.input.can_focus


async def test_what_comes_in_one_go_behind_the_slash_is_the_filter(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        for character in "/bth.psn == 110":
            app.post_message(events.Key({"/": "slash"}.get(character, character), character))
        app.post_message(events.Key("enter", "\r"))
        await until(pilot, lambda: app.filter_text == "bth.psn == 110" and len(app.packets.rows) == 3)
        await pilot.press("ctrl+f", "slash")
        assert app.screen.query_one(Input).value == "/"  # where text is typed it is text


async def test_filter_completion(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("slash")
        await type_text(pilot, "bth.opc")
        assert app.filter_bar.choices.display
        await pilot.press("tab")
        assert app.filter_bar.input.value == "bth.opcode" and not app.filter_bar.choices.display
        await pilot.press("escape")
        assert app.filter_bar.input.value == ""


async def test_filter_without_matches_and_from_the_command_line(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path), display_filter="frame.number > 25") as (app, pilot):
        await until(pilot, lambda: len(app.packets.rows) == TOTAL - 25)
        app.apply_filter("frame.number > 1000")
        await until(pilot, lambda: "No frame matches" in app.packets.empty)
        await pilot.press("down", "end", "m", "a", "y", "n")
        app.jump(2)
        await shows(pilot, 2)
        assert len(app.packets.rows) == TOTAL and app.filter_text == ""


async def test_find(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("ctrl+f")
        await type_text(pilot, "needle")
        await pilot.press("enter")
        await shows(pilot, 7)
        await pilot.press("ctrl+f", "down")
        app.screen.query_one(Input).value = "xx"
        await pilot.press("enter")
        assert isinstance(app.screen, Prompt)
        app.screen.query_one(Input).value = "6e656564"
        await pilot.press("enter")
        await until(pilot, lambda: "went round" in app.query_one(KeyBar).note)
        await pilot.press("ctrl+f", "down")
        app.screen.query_one(Input).value = "bth.psn >= 109 && bth.psn <= 110"
        await pilot.press("enter")
        await shows(pilot, 18)
        await pilot.press("n")
        await shows(pilot, 19)
        await pilot.press("N")
        await shows(pilot, 18)


async def test_find_nothing(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("n")
        assert isinstance(app.screen, Prompt)
        await type_text(pilot, "nowhere")
        await pilot.press("enter")
        await until(pilot, lambda: "not found" in app.query_one(KeyBar).note)
        assert app.packets.frame == 1


async def test_mark_and_write(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("m", "down", "down", "m")
        assert app.model.marked == {1, 3} and "●" in text(app, 0) and "●" not in text(app, 1)
        for name, answers in (("marked.pcap", ()), ("shown.pcapng", ("down",))):
            await pilot.press("w", *answers)
            app.screen.query_one(Input).value = str(tmp_path / name)
            await pilot.press("enter")
            await until(pilot, (tmp_path / name).exists)
        with open_capture(str(tmp_path / "marked.pcap")) as reader:
            chunk = next(iter(reader.chunks()))
            assert [chunk.frame_bytes(i) for i in range(len(chunk))] == [made.frames()[0], made.frames()[2]]
        with open_capture(str(tmp_path / "shown.pcapng")) as reader:
            assert sum(len(chunk) for chunk in reader.chunks()) == TOTAL
        await pilot.press("w")
        app.screen.query_one(Input).value = str(tmp_path / "marked.pcap")
        await pilot.press("enter")
        assert isinstance(app.screen, Prompt) and "overwrites" in str(app.screen.query_one("#prompt-reason", Label).render())
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Prompt))
        await pilot.press("m", "M")
        assert app.model.marked == set()
        await pilot.press("M")
        assert len(app.model.marked) == TOTAL


async def test_findings(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        first = app.model.findings.frames()[0]
        await pilot.press("end", "f")
        await shows(pilot, first)
        pane = app.query_one(FindingsPane)
        pane.focus()
        await pilot.press("end", "enter")
        assert pane.finding is not None
        await shows(pilot, pane.finding.frame)
        lines = pane.count()
        await pilot.press("o")
        assert pane.grouped and pane.count() == len(app.model.findings.rules())
        await pilot.press("home", "right")
        opened = pane.count()
        assert opened > len(app.model.findings.rules())
        await pilot.press("left")
        assert pane.count() < opened
        await pilot.press("o", "e")
        assert pane.count() == lines and isinstance(app.screen, PageScreen)
        await pilot.press("escape", "F")
        assert not pane.display
        await pilot.press("F")
        assert pane.display and pane.has_focus


async def test_explain_goes_to_what_proves_it(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        await pilot.press("e")
        screen = app.screen
        if isinstance(screen, Choice):  # the frame may have other findings too
            place = next(i for i, entry in enumerate(screen.entries) if "PKY003" in entry[1])
            screen.query_one(OptionList).highlighted = place
            await pilot.press("enter")
            screen = app.screen
        assert isinstance(screen, PageScreen) and "PKY003" in screen.heading.plain and "Why it matters" in screen.body.plain
        frames = [frame for frame, _ in screen.frames]
        assert frames[0] == 3 and 2 in frames
        await pilot.press(*["down"] * frames.index(2), "enter")
        await shows(pilot, 2)
        await pilot.press("g")
        await type_text(pilot, "25")
        await pilot.press("enter", "e")
        assert not isinstance(app.screen, PageScreen)


async def test_summary_screen(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("S")
        assert isinstance(app.screen, SummaryScreen)
        table = app.screen.query_one(RuleTable)
        place = next(i for i, group in enumerate(table.groups) if group[0] == "PKY003")
        await pilot.press(*["down"] * place, "enter")
        await until(pilot, lambda: app.packets.rows.frames(0, 9) == [3])
        await pilot.press("S", "e")
        assert isinstance(app.screen, PageScreen)


async def test_apply_and_prepare_the_selected_field(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        app.tree_pane.reveal(10)  # BTH.P_Key of a frame without GRH
        await pilot.pause()
        await pilot.press("p")
        assert app.filter_bar.input.has_focus and app.filter_bar.input.value == "infiniband.bth.p_key == 0x9999"
        await pilot.press("escape", "a")
        await until(pilot, lambda: app.packets.rows.frames(0, 9) == [3])
        app.tree_pane.select(0)
        await pilot.press("a")
        assert app.filter_text == "infiniband.bth.p_key == 0x9999"


async def test_bytes_and_tree_follow_each_other(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        pane, tree = app.query_one(BytesPane), app.tree_pane
        pane.focus()
        await pilot.press("home", "right", "right")
        assert pane.byte == 2 and tree.node is not None and tree.node.name == "infiniband.lrh.dlid" and pane.span == (2, 4)
        await pilot.press("left")
        assert tree.node.name == "infiniband.lrh.dlid" or tree.node.bits < 8  # a field of some bits of byte 1
        tree.focus()
        sl = next(i for i, line in enumerate(tree.lines) if line.node is not None and line.node.name == "infiniband.lrh.sl")
        tree.select(sl)
        await pilot.pause()
        assert pane.span == (1, 2) and pane.bits == (8, 12)
        drawn = [(segment.text, segment.style.bgcolor) for segment in pane.parts(0, 60) if segment.style is not None]
        bits, span = pane.ink("bits").bgcolor, pane.ink("span").bgcolor
        assert [ink for _, ink in drawn if ink in (bits, span)][:2] == [bits, span]  # high nibble doubly, low one once
        assert "bits 0-3" in app.query_one(BitLine).render().plain
        pane.focus()
        await pilot.press("down", "up", "end", "pageup", "home")
        assert pane.byte == 0


async def test_tree_opens_and_closes(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        tree = app.tree_pane
        tree.focus()
        place = next(i for i, line in enumerate(tree.lines) if line.node is not None and line.node.label == "LRH")
        tree.select(place)
        closed = tree.count()
        await pilot.press("right")
        assert tree.count() > closed and tree.cursor == place
        await pilot.press("down", "left")
        assert tree.cursor == place
        await pilot.press("left")
        assert tree.count() == closed
        await pilot.press("enter", "asterisk")
        assert tree.count() > closed + 8
        await pilot.press("home", "down")
        before = tree.node
        app.jump(4)
        await shows(pilot, 4)
        assert before is not None and tree.node is not None and tree.node.label == before.label


async def test_masked_bytes_are_not_shown(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(7)
        await shows(pilot, 7)
        pane = app.query_one(BytesPane)
        drawn = "".join(segment.text for i in range(pane.count()) for segment in pane.parts(i, 90))
        assert "** ** ** **" in drawn and "01 23 45 67" not in drawn
        await pilot.press("y")
        assert all("01234567" not in entry[0].replace(" ", "") for entry in app.screen.entries)  # type: ignore[attr-defined]


async def test_copy(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        app.tree_pane.reveal(10)
        await pilot.press("y")
        screen = app.screen
        assert isinstance(screen, Choice)
        texts = {what: key for key, what, _ in screen.entries}
        assert texts["as filter"] == "infiniband.bth.p_key == 0x9999" and texts["bytes in hex"] == "99 99"
        assert texts["line of the list"].startswith("3\tLID 3\tLID 5\tRC")
        screen.query_one(OptionList).highlighted = list(texts).index("as filter")
        await pilot.press("enter")
        assert app.clipboard == "infiniband.bth.p_key == 0x9999"


async def test_time_formats(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        seen = [text(app, 1)]
        for _ in range(3):
            await pilot.press("t")
            await pilot.pause()
            seen.append(text(app, 1))
        assert "0.001 000" in seen[0] and "22:13:20.001 000" in seen[2] and "2023-11-14 22:13:20" in seen[3]
        await pilot.press("t")
        await pilot.pause()
        assert text(app, 1) == seen[0]


async def test_columns(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("v")
        assert isinstance(app.screen, ColumnChoice)
        choice = app.screen.query_one(SelectionList)
        choice.deselect("length")
        await pilot.press("enter")
        await pilot.pause()
        assert "Len" not in app.query_one(ColumnHeader).title_line
        app.jump(3)
        await shows(pilot, 3)
        app.tree_pane.reveal(9 + 8 - 6)
        app.tree_pane.select(next(i for i, line in enumerate(app.tree_pane.lines) if line.node and line.node.name.endswith("bth.psn")))
        await pilot.press("plus")
        await pilot.pause()
        assert "psn" in app.query_one(ColumnHeader).title_line and "110" in text(app, 18)
        await pilot.press("plus")
        assert [column.key for column in app.packets.columns].count("infiniband.bth.psn") == 1


async def test_statistics(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, StatisticsScreen))
        assert sum(app.screen.query(Plot).first().values) == TOTAL
        drawn = "".join(bars.render().plain for bars in app.screen.query(Bars))
        assert "RC SEND Only" in drawn and "PM" in drawn and "LID 3" in drawn
        assert "▲" in app.screen.query(Plot).first().render().plain
        await pilot.press("escape")
        assert app.packets.has_focus


async def test_conversations(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, ConversationScreen))
        talks = app.screen.query_one(TalkTable)
        first = talks.talks[0]
        assert talks.has_focus and (first.far_qp, first.near_qp, first.packets) == (0x50, 0x60, (12, 1))
        assert first.repeated == 1 and first.naks == 1 and first.known_by == "PSN"
        drawn = "".join(segment.text for segment in talks.parts(0, 118))
        assert "LID 3" in drawn and "0x000060" in drawn and "⇄" in drawn
        await pilot.press("tab")
        assert app.screen.query_one(ExchangeTable).has_focus
        await pilot.press("tab", "enter")
        await until(pilot, lambda: len(app.packets.rows) == 13)
        assert 21 in app.packets.rows.frames(0, 99)  # the NAK goes the other way


async def test_fabric(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, FabricScreen))
        tree = app.screen.query_one(FabricTree)
        drawn = "".join(segment.text for i in range(tree.count()) for segment in tree.parts(i, 60))
        assert "\x1b" not in drawn and "\x07" not in drawn and "[red]" in drawn
        place = next(i for i, (_, entry) in enumerate(tree.lines) if entry.kind in ("ca", "switch"))
        await pilot.press(*["down"] * place, "right", "down")
        details = app.screen.query_one(DetailTable)
        assert any(label == "P_Key" for label, _, _ in details.details)
        await pilot.press("left", "left", "tab")
        assert details.has_focus
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, FabricScreen))
        assert app.packets.frame in (1, 2, 4)


async def test_help_and_palette(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("question_mark")
        assert isinstance(app.screen, PageScreen) and "go to a frame number" in app.screen.body.plain
        await pilot.press("pagedown", "escape", "ctrl+p")
        await pilot.pause(0.1)
        assert type(app.screen).__name__ == "CommandPalette"
        await pilot.press("escape")
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Statistics", "Fabric", "Next finding", "Theme"} <= titles


@pytest.mark.parametrize("theme", ["ibdissect-dark", "ibdissect-light", "ibdissect-contrast", "textual-light", "nord"])
async def test_themes(tmp_path: Path, theme: str) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.theme = theme
        await pilot.pause()
        assert "SubnGetResp" in text(app, 0)
        cursor, quiet = app.packets.ink("cursor"), app.packets.ink("cursor-quiet")
        assert cursor.bgcolor is not None and quiet.bgcolor is not None and cursor.bgcolor != quiet.bgcolor


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36), (200, 50), (250, 80), (40, 10)])
async def test_sizes(tmp_path: Path, size: tuple[int, int]) -> None:
    async with running(made.capture(tmp_path), size) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        small = size[0] < 100
        assert app.query_one("#byte-side").display != small
        if small:
            await pilot.press("x")
            assert app.query_one(BytesPane).has_focus and not app.tree_pane.display
            await pilot.press("x", "F")
            assert app.query_one(FindingsPane).has_focus and not app.tree_pane.display
        for strip in app.packets.render_lines(app.packets.size.region):
            assert strip.cell_length <= size[0]
        await pilot.resize_terminal(120, 40)
        await pilot.pause()


async def test_mouse(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path, repeat=5)) as (app, pilot):
        await pilot.click("#packets", offset=(20, 5))
        await shows(pilot, 6)
        app.packets.post_message(_wheel(app))
        await until(pilot, lambda: app.packets.scroll_offset.y == 3)
        assert app.packets.frame == 6
        await pilot.click("#bytes", offset=(8, 0))
        await until(pilot, lambda: app.query_one(BytesPane).byte == 0)
        await pilot.click("#findings", offset=(5, 0))
        finding = app.query_one(FindingsPane).finding
        assert finding is not None
        await shows(pilot, finding.frame)
        detail = app.query_one("#detail")
        before, splitter = detail.size.height, app.query_one("#split-detail", Splitter)
        await pilot.mouse_down(splitter)
        await pilot.hover("#packets", offset=(10, 4))
        await pilot.mouse_up("#packets", offset=(10, 4))
        await pilot.pause()
        assert detail.size.height > before
        await pilot.click("#keys", offset=(2, 0))
        assert app.filter_bar.input.has_focus


def _wheel(app: TuiApp) -> object:
    from textual import events

    return events.MouseScrollDown(app.packets, 5, 5, 0, 1, 0, False, False, False)


async def test_tab_goes_round_the_panes(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        seen = []
        for _ in range(4):
            await pilot.press("tab")
            seen.append(app.focused.id if app.focused is not None else None)
        assert seen == ["tree", "bytes", "findings", "packets"]
        await pilot.press("shift+tab")
        assert app.query_one(FindingsPane).has_focus


async def test_hostile_text_stays_text(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path, name="[red]x.pcap")) as (app, pilot):
        app.jump(4)
        await shows(pilot, 4)
        await pilot.press("tab", "asterisk")
        tree = app.tree_pane
        drawn = "".join(segment.text for i in range(tree.count()) for segment in tree.parts(i, 200))
        drawn += "".join(text(app, i) for i in range(10)) + app.query_one(TitleBar).render().plain
        assert "\\x1b[31mhost" in drawn and "[red]" in drawn
        assert not any(character in drawn for character in "\x1b\x07\u202e")


async def test_damage_and_repeats_are_shown(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    async with running(path) as (app, pilot):
        assert "cut-off at byte" in app.query_one(TitleBar).render().plain
        await pilot.pause(0.2)
        assert "[repeated PSN]" in text(app, 19)
        assert app.packets.line(20) is not None


async def test_growing_file_is_followed(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    app = made.app_on(path, follow=True)
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.model.index.frames > 3)
        before = app.model.index.frames
        assert before < TOTAL
        await pilot.press("end")
        await pilot.pause(0.25)
        with path.open("ab") as file:
            file.write(whole[len(whole) // 2 :])
        await until(pilot, lambda: app.model.index.frames == TOTAL)
        await until(pilot, lambda: app.packets.frame == TOTAL)  # the cursor was at the end and stays there
        await until(pilot, lambda: app.study.done == TOTAL)
        assert "following" in app.query_one(TitleBar).render().plain


async def test_a_failing_thread_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made.capture(tmp_path)
    app = made.app_on(path)

    def broken(_: object) -> None:
        raise ArithmeticError("[bold]no[/bold]")

    monkeypatch.setattr(app.study, "run", broken)
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.model.error)
        assert app.model.error == "study ended: ArithmeticError: [bold]no[/bold]"
        await until(pilot, lambda: app.packets.count() == TOTAL)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quit(tmp_path: Path, key: str) -> None:
    app = made.app_on(made.capture(tmp_path))
    async with app.run_test(size=made.SIZE) as pilot:
        await pilot.press(key)
        await asyncio.sleep(0.05)
    assert app.return_code == 0 and app.model.stopped


@pytest.mark.parametrize("name", ["pkey-lab.pcap", "opensm-first-sweep.pcap", "rxe-rping.pcap", "mkey-enforced.pcap.gz"])
async def test_every_frame_of_the_samples_can_be_visited(name: str) -> None:
    app = made.app_on(REPO / "captures" / name)
    app.history.path = Path("/nonexistent/history")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.study.finished)
        total = app.model.index.frames
        for frame in range(1, total + 1, max(total // 25, 1)):
            app.jump(frame)
            await shows(pilot, frame)
            for byte in range(0, len(app.query_one(BytesPane).data), 37):
                app.tree_pane.reveal(byte)
