"""Several captures each keep their frames, filter and findings, and one is read only when it is shown."""

from __future__ import annotations

import threading
from pathlib import Path

from ibdissect.pipeline.check import CheckOptions
from ibdissect.rules import load
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.saved_state import FilterHistory, Profile
from ibdissect.tui.app import TuiApp
from tests import craft
from tests.screen_model.made import TOTAL
from tests.tui import drawn, made
from tests.tui.made import until


def two(tmp_path: Path) -> TuiApp:
    other = tmp_path / "other.pcap"
    other.write_bytes(craft.erf_pcap([craft.rc(0x04, bytes(8))] * 3))
    models = [CaptureModel(str(path)) for path in (made.capture(tmp_path), other)]
    history, memory = FilterHistory(tmp_path / "history"), Profile(tmp_path / "screen.json")
    return TuiApp(models, lambda: CheckOptions(rules=load()), history=history, memory=memory, display_filter="infiniband.bth")


async def test_events_of_a_hidden_tab_stay_in_it(tmp_path: Path) -> None:
    """A thread that fails is blamed on its capture; what was found while another one was in front is shown when it comes back."""
    app = two(tmp_path)
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.study.finished)
        first, second = app.captures
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: app.capture is second and app.study.finished)
        told: list[object] = []
        first.study.want(told.append)
        first.model.findings.generation += 1
        await until(pilot, lambda: told)
        assert first.main.findings_pane.outdated, "nothing is drawn behind"
        first.study.want(lambda _: 1 / 0)
        await until(pilot, lambda: first.model.error)
        assert first.model.error == "study of made.pcap ended: ZeroDivisionError: division by zero" and second.model.error is None
        go_on = threading.Event()
        second.filtering.work.run(lambda _: 1 // int(not go_on.wait(10)), "filter", second.model)
        await app.show(first)
        go_on.set()
        await until(pilot, lambda: second.model.error)
        assert second.model.error.startswith("filter of other.pcap ended: ZeroDivisionError") and first.model.error.startswith("study")
        await app.show(second)
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: app.screen is first.main and not first.main.findings_pane.outdated)
        assert "✖ study of made.pcap" in drawn.text(app)


async def test_numbers_of_another_tab_are_not_shown(tmp_path: Path) -> None:
    app = two(tmp_path)
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.study.finished)
        shots: list[object] = []
        app.with_snapshot(shots.append)
        await app.show(app.captures[1])
        await until(pilot, lambda: app.study.finished)
        app.with_snapshot(shots.append)
        await until(pilot, lambda: shots)
        assert [shot.frames for shot in shots] == [3]  # type: ignore[attr-defined]


async def test_tabs(tmp_path: Path) -> None:
    app = two(tmp_path)
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.study.finished)
        first, second = app.captures
        assert app.capture is first and first.model.complete and not second.started and "other.pcap" in drawn.text(app)
        app.main.packets.select(2)
        app.filtering.enter("infiniband.mad")
        await until(pilot, lambda: not app.filtering.busy)
        shown = app.main.packets.count()
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: app.main.packets.count() == 3 and app.study.finished)
        assert app.screen is second.main and app.model is second.model and app.filtering.text == "" and app.main.packets.has_focus
        await pilot.press("m", "s")
        await until(pilot, lambda: app.screen is not app.main)
        await pilot.press("escape", "left_square_bracket")
        await until(pilot, lambda: app.screen is first.main)
        assert app.filtering.text == "infiniband.mad" and app.main.packets.count() == shown and not app.model.marked
        await pilot.click("#tabs", offset=(len(first.name) + 5, 0))
        await until(pilot, lambda: app.screen is second.main)
        await pilot.press("ctrl+w")
        await until(pilot, lambda: app.screen is first.main and len(app.captures) == 1)
        assert second.model.stopped and not first.model.stopped and not app.main.tabs.display
        await pilot.press("ctrl+w", "right_square_bracket")
        await until(pilot, lambda: app.captures == [first])
        assert app.model.index.frames == TOTAL
    assert first.model.stopped
