"""Help and palette can be read."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.widgets import Label, OptionList

from ibdissect.tui.app import TuiApp
from ibdissect.tui.screens.choice import Choice
from ibdissect.tui.screens.page import Body, PageScreen, hanging, view_page
from tests.tui import made
from tests.tui.made import running, shows, until


async def test_help_and_palette(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("question_mark")
        assert isinstance(app.screen, PageScreen) and "go to a frame number" in app.screen.body.plain
        assert "docs/numbers.md" in app.screen.body.plain
        await pilot.press("pagedown", "escape", "ctrl+p")
        await pilot.pause(0.1)
        assert type(app.screen).__name__ == "CommandPalette"
        await pilot.press("escape")
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Statistics", "Fabric", "Next finding", "Theme"} <= titles


def test_the_page_of_a_view_says_where_numbers_are_defined() -> None:
    assert view_page("Statistics", "Esc back", ()).body.plain.endswith("docs/numbers.md")


def test_the_page_of_a_view_says_each_key_once() -> None:
    """Those of the last line first, in the words that say more; names that only terminals know are left out."""
    keys = "Enter its frames · Tab more · ═ sent again · o O sort · +-0 zoom"
    known = (("enter", "choose"), ("tab", "what is said of it"), ("o", "sort"), ("O", "sort"), ("space", "values"), ("f22", "values"))
    page = view_page("W", keys, [Binding(key, "x", what) for key, what in known]).body.plain
    lines = [" ".join(line.split()) for line in page.split("\n") if line.startswith("  ")]
    assert lines == ["Enter its frames", "Tab what is said of it", "═ sent again", "o O sort", "+-0 zoom", "Space values"]


def test_what_has_no_room_in_a_column_goes_on_below_it() -> None:
    page = Text("Move\n  g      go to a frame\n  Home   first\n\nplain words of any number, not in columns")
    assert hanging(page, 40, 9) == page
    assert hanging(page, 19, 9).plain.split("\n")[:4] == ["Move", "  g      go to a ", "         frame", "  Home   first"]
    assert hanging(page, 19, 9).plain.endswith("not in columns") and hanging(page, 18, 9) == page, "no room for two columns"


async def test_keys_typed_right_behind_g_are_not_lost(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        for key in ("g", "2", "7", "enter"):
            app.post_message(events.Key(key, key if key.isdigit() or key == "g" else None))
        await shows(pilot, 27)


async def test_values_that_an_explanation_names_lead_to_their_frames(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("f", "e", "v")
        await until(pilot, lambda: isinstance(app.screen, Choice))
        assert isinstance(app.screen, Choice)
        assert {"Frames of LID 3", "Frames of LID 5"} <= {title for _, title, _ in app.screen.entries}, app.screen.entries
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main and app.filtering.text)


async def test_the_explanation_scrolls_on_a_small_screen_and_its_words_are_links(tmp_path: Path) -> None:
    """Keys of pages are those of the text, the arrows those of the frames; a value offers its filters where it stands."""
    path = made.capture(tmp_path)
    async with running(path, (80, 24)) as (app, pilot):
        await pilot.press("f", "e")
        await until(pilot, lambda: app.screen.query_one(Body).max_scroll_y)
        screen = app.screen
        assert isinstance(screen, PageScreen) and len(screen.frames) > 1
        body, frames, hint = screen.query_one(Body), screen.query_one(OptionList), screen.query_one(".hint", Label)
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
        await until(pilot, lambda: isinstance(app.screen, Choice))
        assert isinstance(app.screen, Choice) and app.screen.heading == "LID 3"
        assert [title for _, title, _ in app.screen.entries][:2] == ["Apply as filter", "Filter: and, or, not"]
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main and "slid == 3" in app.filtering.text)


def drawn_line(app: TuiApp, y: int) -> str:
    return app.screen._compositor.render_strips()[y].text


async def test_a_page_about_one_frame_scrolls_with_the_arrows(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path), (80, 24)) as (app, pilot):
        finding = next(one for one in app.model.findings.first() if not one.related)
        app.explain(finding)
        await until(pilot, lambda: app.screen.query_one(Body).max_scroll_y)
        await pilot.press("down", "down", "up")
        await until(pilot, lambda: app.screen.query_one(Body).scroll_y == 1)
