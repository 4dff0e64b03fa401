"""The keys f and e lead to a finding and explain it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from textual.widgets import OptionList

from ibdissect.errors import ConfigError
from tests import craft
from tests.screen_model.made import all_of, written
from tests.tui import made
from tests.tui.made import focused, leaves, offered, opens, running, shows, told, type_text, until


async def test_explain_goes_to_what_proves_it(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        screen = await opens(pilot, "e")
        if found := offered(app):  # the frame may have other findings too
            screen.query_one(OptionList).highlighted = next(i for i, entry in enumerate(found) if "PKY003" in entry[1])
            screen = await opens(pilot, "enter")
        assert "PKY003" in screen.heading.plain and "Why it matters" in screen.body.plain
        assert "infiniband.bth.p_key = 0x" in screen.body.plain, "as the field is written"
        frames = [frame for frame, _ in screen.frames]
        assert frames[0] == 3 and 2 in frames
        assert screen.query_one(OptionList).highlighted == 1, "the first that is not the frame one comes from"
        await pilot.press(*["down"] * (frames.index(2) - 1), "enter")
        await shows(pilot, 2)
        await pilot.press("g")
        await type_text(pilot, "25")
        await pilot.press("enter", "e")
        assert app.screen is app.main


async def test_one_of_several_findings_is_chosen(tmp_path: Path) -> None:
    """A frame with two findings asks which one; Esc explains none."""
    bad = craft.smp(1, 0x10, modifier=7, lrh={"vl": 0}, slid=3, dlid=5)
    async with running(written(tmp_path, bad)) as (app, pilot):
        assert len(app.model.findings.of_frame(1)) > 1
        await pilot.press("e")
        assert len(offered(app)) > 1
        await pilot.press("escape")
        assert app.screen is app.main
        await opens(pilot, "e")
        page = await opens(pilot, "down", "enter")
        assert app.model.findings.of_frame(1)[1].code in page.heading.plain


async def test_a_clean_capture_has_nothing_to_go_to(tmp_path: Path) -> None:
    path = tmp_path / "arp.pcap"
    path.write_bytes(craft.ethernet_pcap([bytes(12) + b"\x08\x06" + bytes(46), craft.roce2(0x64, bytes(8))]))
    async with running(path) as (app, pilot):
        await pilot.press("f")
        await until(pilot, lambda: told(app, "No findings"))
        await pilot.press("c")
        await until(pilot, lambda: told(app, "belongs to no InfiniBand conversation"))
        app.main.tree_pane.select(0)
        await pilot.press("a")
        await until(pilot, lambda: told(app, "Select a field of the tree that has a value"))
        await opens(pilot, "S")
        assert focused(app).count() == 0
        await leaves(pilot, "e", "enter", "escape")
        await opens(pilot, "C")
        assert focused(app).count() <= 1


async def test_a_rule_is_silenced_here(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        store = app.model.findings
        finding = next(one for one in store.of_frame(3) if one.code == "PKY003")
        errors = sum(store.counts.values())
        app.explain(finding)
        await until(pilot, lambda: app.screen is not app.main)
        await pilot.press("x")
        await until(pilot, lambda: offered(app))
        assert 'ignore = ["PKY003"]' in [entry[2] for entry in offered(app)]
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main)
        assert "PKY003" not in {one.code for one in all_of(store)} and "PKY003" not in store.by_rule
        assert sum(store.counts.values()) == errors - 1 and "PKY003" not in store.codes(1, 30).get(3, ())
        assert (await opens(pilot, "S")).heading.endswith(", silent: PKY003")


async def test_a_rule_is_silenced_in_the_configuration_after_a_question(tmp_path: Path) -> None:
    written_: list[str] = []
    async with running(made.capture(tmp_path)) as (app, pilot):

        async def silence(code: str, *answers: str) -> None:
            app.explain(next(one for one in app.model.findings.first() if one.code == code))
            await until(pilot, lambda: app.screen is not app.main)
            await pilot.press("x")
            await until(pilot, lambda: offered(app))
            await pilot.press("end", "enter")
            await until(pilot, lambda: "Change /etc/ibdissect.toml" in app.screen.heading)  # type: ignore[attr-defined]
            await leaves(pilot, *answers)

        app.configuration = Configured("/etc/ibdissect.toml", written_.append)
        await silence("PKY003", "enter")
        assert not written_ and "PKY003" in app.model.findings.by_rule, "the first answer is no"
        await silence("PKY003", "end", "enter")
        assert written_ == ["PKY003"] and "PKY003" not in app.model.findings.by_rule

        def refused(code: str) -> None:
            raise ConfigError("/etc/ibdissect.toml", "ignore", f"could not be changed: add {code} by hand")

        app.configuration = Configured("/etc/ibdissect.toml", refused)
        await silence("RC002", "end", "enter")
        await until(pilot, lambda: told(app, "add RC002 by hand"))
        assert "RC002" in app.model.findings.by_rule


class Configured(NamedTuple):
    """The file that says which rules run, and what adds a rule to those that do not."""

    path: str
    ignore: Callable[[str], object]
