"""Another capture is opened, and payloads are read as the user says."""

from __future__ import annotations

from pathlib import Path

from ibdissect.tui.keys.captures import complete_path
from ibdissect.tui.screens.choice import Choice
from ibdissect.tui.screens.prompt import Prompt
from tests import craft
from tests.screen_model.made import TOTAL
from tests.screen_model.test_decoding import FRAMES
from tests.tui import drawn, made
from tests.tui.made import running, shows, text, type_text, until


async def test_a_file_is_opened_and_a_wrong_one_refused(tmp_path: Path) -> None:
    (tmp_path / "two").write_bytes(craft.erf_pcap([craft.rc(0x04, bytes(8))]))
    (tmp_path / "none").write_text("no capture")
    async with running(made.capture(tmp_path)) as (app, pilot):
        for name, opened in (("none", 1), ("two", 2)):
            await pilot.press("ctrl+o")
            await until(pilot, lambda: isinstance(app.screen, Prompt) and app.screen.early is None)
            for path, said in (str(tmp_path), "type the path"), (str(tmp_path / "no"), "no such file"), ("~nobody-here/x", "no such file"):
                app.screen.query_one("#prompt-input").value = path  # type: ignore[attr-defined]
                await pilot.press("enter")
                await until(pilot, lambda said=said: said in drawn.text(app))
            app.screen.query_one("#prompt-input").value = str(tmp_path / name)  # type: ignore[attr-defined]
            await pilot.press("enter")
            await until(pilot, lambda: app.screen is app.main)
            await pilot.pause(0.1)
            assert len(app.captures) == opened
        await until(pilot, lambda: app.main.packets.count() == 1)


async def test_a_capture_that_is_read_anew_keeps_notes_and_decodings(tmp_path: Path) -> None:
    path = tmp_path / "messages.pcap"
    path.write_bytes(craft.ethernet_pcap(FRAMES))
    async with running(path) as (app, pilot):
        app.model.note(3, "look here")
        for frame, what in ((1, "NVMe command"), (5, "RoCE v2")):
            app.jump(frame)
            await shows(pilot, frame)
            await pilot.press("D")
            assert isinstance(app.screen, Choice)
            place, before = next(i for i, entry in enumerate(app.screen.entries) if what in entry[2]), app.capture
            await pilot.press(*["down"] * place, "enter")
            await until(pilot, lambda before=before: app.capture is not before and app.study.finished)
        layers = [layer.label for layer in app.model.tree(1).layers] + [layer.text for layer in app.model.tree(3).layers]
        assert any("NVMe" in label for label in layers) and "look here" in layers
        app.filtering.enter("frame.comment")
        await until(pilot, lambda: not app.filtering.busy and app.main.packets.count() == 1)


async def test_roce_on_another_port_is_read_anew_with_filter_and_frame(tmp_path: Path) -> None:
    path = tmp_path / "messages.pcap"
    path.write_bytes(craft.ethernet_pcap(FRAMES))
    async with running(path, display_filter="udp") as (app, pilot):
        app.jump(5)
        await shows(pilot, 5)
        assert "RC" not in text(app, 4)
        await pilot.press("D")
        assert isinstance(app.screen, Choice) and app.screen.entries[0][1:] == ("UDP port 4799", "RoCE v2")
        before = app.capture
        await pilot.press("enter")
        await until(pilot, lambda: app.capture is not before and app.main.packets.count() == 5)
        await shows(pilot, 5)
        assert "RC" in text(app, 4) and app.filtering.text == "udp" and len(app.captures) == 1 and before.model.stopped


async def test_messages_to_a_queue_pair_are_read_as_said(tmp_path: Path) -> None:
    path = tmp_path / "messages.pcap"
    path.write_bytes(craft.ethernet_pcap(FRAMES))
    async with running(path) as (app, pilot):
        await pilot.press("D")
        assert isinstance(app.screen, Choice)
        place = next(i for i, entry in enumerate(app.screen.entries) if "NVMe command" in entry[2])
        before = app.capture
        await pilot.press(*["down"] * place, "enter")
        await until(pilot, lambda: app.capture is not before and app.study.finished and app.main.tree_pane.frame_tree)
        assert before.model.stopped, "it is judged anew"
        tree = app.main.tree_pane.frame_tree
        assert tree is not None and any("NVMe" in layer.label for layer in tree.layers)
        app.jump(4)
        await shows(pilot, 4)
        await pilot.press("D")
        assert app.screen is app.main, "there is nothing to say of an acknowledgement"
        await type_text(pilot, "q")


async def test_findings_in_a_pipe_are_reported_to_be_older(tmp_path: Path) -> None:
    path = tmp_path / "messages.pcap"
    path.write_bytes(craft.ethernet_pcap(FRAMES))
    async with running(path) as (app, pilot):
        app.model.live, before = True, app.capture
        await pilot.press("D", "enter")
        await pilot.pause()
        assert app.capture is before and [one.qp for one in app.model.decodings] == [0x12]
        assert any("earlier findings stay" in one.message for one in app._notifications)


def test_paths_are_completed(tmp_path: Path) -> None:
    for name in ("first-a.pcap", "first-b.pcap", "second.pcap", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    assert complete_path(f"{tmp_path}/fi") == (f"{tmp_path}/first-", "first-a.pcap, first-b.pcap")
    assert complete_path(f"{tmp_path}/s") == (f"{tmp_path}/second.pcap", "")
    assert complete_path(f"{tmp_path}/fo") == (f"{tmp_path}/folder/", "")
    assert "hidden" not in complete_path(f"{tmp_path}/")[1] and complete_path(f"{tmp_path}/.h")[0].endswith(".hidden")
    assert complete_path(f"{tmp_path}/x") == (f"{tmp_path}/x", "no file begins so")
    assert complete_path(f"{tmp_path}/none/x")[1]


async def test_recent_captures_come_back(tmp_path: Path) -> None:
    two = tmp_path / "two.pcap"
    two.write_bytes(craft.erf_pcap([craft.rc(0x04, bytes(8))]))
    async with running(made.capture(tmp_path)) as (app, pilot):
        for path in (two, made.capture(tmp_path)):
            app.recent.add(str(path), path=True)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: isinstance(app.screen, Prompt) and app.screen.early is None)
        await pilot.press("up", "up", "enter")
        await until(pilot, lambda: len(app.captures) == 2)
        assert app.captures[1].model.source == str(two)


async def test_a_growing_capture_is_held_and_ended(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    app = made.app_on(path, follow=True)
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.main.packets.total == TOTAL)
        await pilot.press("H", "enter")
        assert app.main.packets.held == TOTAL and "H, then Enter, shows new frames again" in app.main.key_bar.standing
        with path.open("ab") as file:
            file.write(craft.erf_pcap(made.frames())[24:])
        await until(pilot, lambda: app.model.index.frames == 2 * TOTAL)
        await pilot.pause(0.3)
        assert app.main.packets.total == TOTAL, "no new frames are shown"
        for text, shown in (("frame.number > 5", TOTAL - 5), ("frame.len > 99999", 0), ("", TOTAL)):
            app.filtering.enter(text)
            await until(pilot, lambda shown=shown: app.main.packets.total == shown)
            await pilot.pause(0.15)
            assert app.main.packets.total == shown, "a filter looks at what is shown"
        await pilot.press("H", "enter")
        await until(pilot, lambda: app.main.packets.total == 2 * TOTAL)
        await pilot.press("H", "down", "enter")
        await until(pilot, lambda: app.model.complete)
        await pilot.press("H")
        await until(pilot, lambda: any("to its end" in note.message for note in app._notifications))
