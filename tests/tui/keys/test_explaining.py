"""The keys f and e lead to a finding and explain it."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import OptionList

from ibdissect.errors import ConfigError
from ibdissect.tui.keys.explaining import Configuration, silence
from ibdissect.tui.screens.choice import Choice
from ibdissect.tui.screens.conversations import ConversationScreen, ConversationTable
from ibdissect.tui.screens.findings_summary import RuleTable, SummaryScreen
from ibdissect.tui.screens.page import PageScreen
from tests import craft
from tests.screen_model.made import all_of, written
from tests.tui import made
from tests.tui.made import running, shows, type_text, until


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
        assert "infiniband.bth.p_key = 0x" in screen.body.plain, "as the field is written"
        frames = [frame for frame, _ in screen.frames]
        assert frames[0] == 3 and 2 in frames
        assert screen.query_one(OptionList).highlighted == 1, "the first that is not the frame one comes from"
        await pilot.press(*["down"] * (frames.index(2) - 1), "enter")
        await shows(pilot, 2)
        await pilot.press("g")
        await type_text(pilot, "25")
        await pilot.press("enter", "e")
        assert not isinstance(app.screen, PageScreen)


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


async def test_a_clean_capture_has_nothing_to_go_to(tmp_path: Path) -> None:
    path = tmp_path / "arp.pcap"
    path.write_bytes(craft.ethernet_pcap([bytes(12) + b"\x08\x06" + bytes(46), craft.roce2(0x64, bytes(8))]))
    async with running(path) as (app, pilot):

        def said(what: str) -> bool:
            return any(what in note.message for note in app._notifications)

        await pilot.press("f")
        await until(pilot, lambda: said("No findings"))
        await pilot.press("c")
        await until(pilot, lambda: said("belongs to no InfiniBand conversation"))
        app.main.tree_pane.select(0)
        await pilot.press("a")
        await until(pilot, lambda: said("Select a field of the tree that has a value"))
        await pilot.press("S")
        assert isinstance(app.screen, SummaryScreen) and app.screen.query_one(RuleTable).count() == 0
        await pilot.press("e", "enter", "escape", "C")
        await until(pilot, lambda: isinstance(app.screen, ConversationScreen))
        assert app.screen.query_one(ConversationTable).count() <= 1


async def test_a_rule_is_silenced_here(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        store = app.model.findings
        finding = next(one for one in store.of_frame(3) if one.code == "PKY003")
        errors = sum(store.counts.values())
        app.explain(finding)
        await until(pilot, lambda: isinstance(app.screen, PageScreen))
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, Choice))
        assert 'ignore = ["PKY003"]' in [entry[2] for entry in app.screen.entries]  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main)
        assert "PKY003" not in {one.code for one in all_of(store)} and "PKY003" not in store.by_rule
        assert sum(store.counts.values()) == errors - 1 and "PKY003" not in store.codes(1, 30).get(3, ())
        await pilot.press("S")
        assert isinstance(app.screen, SummaryScreen) and app.screen.heading.endswith(", silent: PKY003")


async def test_a_rule_is_silenced_in_the_configuration_after_a_question(tmp_path: Path) -> None:
    written_: list[str] = []
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.configuration = Configuration("/etc/ibdissect.toml", written_.append)
        silence(app, "PKY003")
        await until(pilot, lambda: isinstance(app.screen, Choice))
        await pilot.press("end", "enter")
        await until(pilot, lambda: isinstance(app.screen, Choice) and "/etc/ibdissect.toml" in app.screen.heading)
        await pilot.press("enter")
        assert not written_ and "PKY003" in app.model.findings.by_rule, "the first answer is no"
        silence(app, "PKY003")
        await until(pilot, lambda: isinstance(app.screen, Choice))
        await pilot.press("end", "enter")
        await until(pilot, lambda: isinstance(app.screen, Choice) and "Change" in app.screen.heading)
        await pilot.press("end", "enter")
        await until(pilot, lambda: app.screen is app.main)
        assert written_ == ["PKY003"] and "PKY003" not in app.model.findings.by_rule

        def refused(code: str) -> None:
            raise ConfigError("/etc/ibdissect.toml", "ignore", f"could not be changed: add {code} by hand")

        app.configuration = Configuration("/etc/ibdissect.toml", refused)
        silence(app, "CAP001")
        await until(pilot, lambda: isinstance(app.screen, Choice))
        await pilot.press("end", "enter", "end", "enter")
        await until(pilot, lambda: any("add CAP001 by hand" in note.message for note in app._notifications))
