"""Conversations are listed, and one becomes a filter."""

from __future__ import annotations

from pathlib import Path

from tests import craft
from tests.screen_model.made import written
from tests.tui import made
from tests.tui.made import focused, opens, running, until


async def test_conversations(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await opens(pilot, "C")
        conversations = focused(app)
        first = conversations.items[0]
        assert (first.far_qp, first.near_qp, first.packets) == (0x50, 0x60, (12, 1))
        assert first.repeated == 1 and first.naks == 1 and first.known_by == "PSN"
        drawn = "".join(segment.text for segment in conversations.parts(0, 118))
        assert "LID 3" in drawn and "0x000060" in drawn and "⇄" in drawn
        await pilot.press("tab")
        assert [one.kind for one in focused(app).items] == ["PM"]
        await pilot.press("tab", "enter")
        await until(pilot, lambda: len(app.main.packets.rows) == 13)
        assert 21 in app.main.packets.rows.frames(0, 99)  # the NAK goes the other way


async def test_an_exchange_becomes_a_filter(tmp_path: Path) -> None:
    ask, answer = (craft.gmp(4, method, 0x12, slid=slid, dlid=3 - slid) for method, slid in ((1, 1), (0x81, 2)))
    async with running(written(tmp_path, ask, craft.rc(0x04, bytes(4)), answer)) as (app, pilot):
        await opens(pilot, "C")
        await pilot.press("tab", "home", "enter")
        await until(pilot, lambda: app.main.packets.rows.frames(0, 9) == [1, 3])


async def test_who_sent_directed_routes_is_named(repo: Path) -> None:
    async with running(repo / "captures/opensm-first-sweep.pcap") as (app, pilot):
        await opens(pilot, "C")
        table = focused(app)
        assert table.columns[0].cell(table.items[0])[0] == "Switch1"


async def test_tables_are_sorted_and_searched(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        screen = await opens(pilot, "C")
        table = focused(app)
        place = 4
        await pilot.press(*["o"] * (place + 1))
        shown = [table.columns[place].cell(table.items[row])[0] for row in table.order]
        assert shown == sorted(shown) and "▴" in table.head and len(shown) > 2
        await pilot.press("home", "slash", *shown[-1], "enter")
        await until(pilot, lambda: app.screen is screen and table.cursor == table.count() - 1)
