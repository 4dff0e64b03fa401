"""Help and palette can be read."""

from __future__ import annotations

import shutil
from pathlib import Path

from textual import events
from textual.widgets import Label, OptionList

from ibdissect.tui.app import TuiApp
from tests.tui import drawn, made
from tests.tui.made import leaves, offered, opens, running, shows, until

TEXT = "#page-body"
"""What scrolls in a page."""


async def test_help_and_palette(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        page = await opens(pilot, "question_mark")
        assert "go to a frame number" in page.body.plain and "docs/numbers.md" in page.body.plain
        await pilot.press("pagedown", "escape", "ctrl+p")
        await pilot.pause(0.1)
        assert type(app.screen).__name__ == "CommandPalette"
        await pilot.press("escape")
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Statistics", "Fabric", "Next finding", "Theme"} <= titles


async def test_the_page_of_a_view_says_each_key_once(repo: Path, tmp_path: Path) -> None:
    """Those of the last line first, in the words that say more; names that only terminals know are left out."""
    shutil.copy(repo / "captures/slow-lab.pcap", tmp_path / "x.pcap")
    async with running(tmp_path / "x.pcap") as (_, pilot):
        said = {}
        for key in "WLT":
            await opens(pilot, key)
            page = (await opens(pilot, "question_mark")).body.plain
            said[key] = [" ".join(line.split()) for line in page.split("\n") if line.startswith("  ")]
            assert page.endswith("docs/numbers.md")
            await leaves(pilot, "escape", "escape")
        again = {key: [line.split()[0] for line in lines] for key, lines in said.items()}
        assert all(len(set(keys)) == len(keys) for keys in again.values()) and "f22" not in str(said)
        assert said["W"][:5] == ["Enter its frames", "Tab what is said of it", "▸ leads to frames", "L its ladder", "o O sort"]
        assert {"═ sent again", "n next match", "N previous match"} <= set(said["L"]) and "+-0 zoom" in said["T"]
        assert said["W"][-3:] == [
            "Space Shift+F10 nodes, ports, queue pairs, frames that the line names", "Esc q W back", "? F1 these keys",
        ]  # fmt: skip


async def test_what_has_no_room_in_a_column_goes_on_below_it(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await opens(pilot, "question_mark")
        for width, said in (
            (120, "  g                go to a frame number"),
            (60, "  f  d             next, previous frame with a     \n" + " " * 19 + "finding"),
            (44, "  g                go to a frame    \nnumber"),
        ):  # fmt: skip
            await pilot.resize_terminal(width, 30)
            await until(pilot, lambda said=said: said in drawn.text(app))


async def test_keys_typed_right_behind_g_are_not_lost(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        for key in ("g", "2", "7", "enter"):
            app.post_message(events.Key(key, key if key.isdigit() or key == "g" else None))
        await shows(pilot, 27)


async def test_values_that_an_explanation_names_lead_to_their_frames(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("f", "e", "v")
        await until(pilot, lambda: offered(app))
        assert {"Frames of LID 3", "Frames of LID 5"} <= {title for _, title, _ in offered(app)}, offered(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main and app.filtering.text)


async def test_the_explanation_scrolls_on_a_small_screen_and_its_words_are_links(tmp_path: Path) -> None:
    """Keys of pages are those of the text, the arrows those of the frames; a value offers its filters where it stands."""
    path = made.capture(tmp_path)
    async with running(path, (80, 24)) as (app, pilot):
        screen = await opens(pilot, "f", "e")
        await until(pilot, lambda: app.screen.query_one(TEXT).max_scroll_y)
        assert len(screen.frames) > 1
        body, frames, hint = screen.query_one(TEXT), screen.query_one(OptionList), screen.query_one(".hint", Label)
        await until(pilot, lambda: "more ·" in str(hint.content))
        await pilot.press("down")
        assert frames.highlighted == 2 and not body.scroll_y, "the first proof was selected"
        end = body.max_scroll_y
        for key, where in (("pagedown", body.size.height - 1), ("pageup", 0), ("end", end), ("home", 0), ("end", end)):
            await pilot.press(key)
            await until(pilot, lambda where=where: body.scroll_y == where)
        assert frames.highlighted == 2 and "more" not in str(hint.content)
        await pilot.press("home")
        await until(pilot, lambda: not body.scroll_y)
        line = next(y for y in range(24) if "LID 3" in drawn_line(app, y))
        await pilot.click(offset=(drawn_line(app, line).index("LID 3") + 1, line))
        await until(pilot, lambda: offered(app))
        assert app.screen.heading == "LID 3"  # type: ignore[attr-defined]
        assert [title for _, title, _ in offered(app)][:2] == ["Apply as filter", "Filter: and, or, not"]
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main and "slid == 3" in app.filtering.text)


def drawn_line(app: TuiApp, y: int) -> str:
    return app.screen._compositor.render_strips()[y].text


async def test_a_page_about_one_frame_scrolls_with_the_arrows(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path), (80, 24)) as (app, pilot):
        finding = next(one for one in app.model.findings.first() if not one.related)
        app.explain(finding)
        await until(pilot, lambda: app.screen.query_one(TEXT).max_scroll_y)
        await pilot.press("down", "down", "up")
        await until(pilot, lambda: app.screen.query_one(TEXT).scroll_y == 1)
