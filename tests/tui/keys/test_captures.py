"""Another capture is opened, and payloads are read as the user says."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Label

from tests import craft
from tests.screen_model.made import TOTAL
from tests.screen_model.test_decode_as import FRAMES
from tests.tui import drawn, made
from tests.tui.made import asks, offered, opens, running, shows, text, told, type_text, until


async def test_a_file_is_opened_and_a_wrong_one_refused(tmp_path: Path) -> None:
    (tmp_path / "two").write_bytes(craft.erf_pcap([craft.rc(0x04, bytes(8))]))
    (tmp_path / "none").write_text("no capture")
    async with running(made.capture(tmp_path)) as (app, pilot):
        for name, opened in (("none", 1), ("two", 2)):
            await pilot.press("ctrl+o")
            await until(pilot, lambda: asks(app))
            for path, said in (str(tmp_path), "type the path"), (str(tmp_path / "no"), "no such file"), ("~nobody-here/x", "no such file"):
                asks(app).value = path
                await pilot.press("enter")
                await until(pilot, lambda said=said: said in drawn.text(app))
            asks(app).value = str(tmp_path / name)
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
            place, before = next(i for i, entry in enumerate(offered(app)) if what in entry[2]), app.capture
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
        assert offered(app)[0][1:] == ("UDP port 4799", "RoCE v2")
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
        place = next(i for i, entry in enumerate(offered(app)) if "NVMe command" in entry[2])
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
        assert told(app, "earlier findings stay")


async def test_paths_are_completed(tmp_path: Path) -> None:
    for name in ("first-a.pcap", "first-b.pcap", "second.pcap", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    async with running(made.capture(tmp_path)) as (app, pilot):
        await opens(pilot, "ctrl+o")
        await until(pilot, lambda: asks(app))
        for typed, completed, said in (
            ("/fi", "/first-", "first-a.pcap, first-b.pcap"), ("/s", "/second.pcap", ""), ("/fo", "/folder/", ""), ("/.h", "/.hidden", ""),
            ("/x", "/x", "no file begins so"), ("/none/x", "/none/x", "No such file"), ("/", "/", "first-a.pcap, first-b.pcap, folder"),
        ):  # fmt: skip
            asks(app).value = f"{tmp_path}{typed}"
            await pilot.press("tab")
            reason = app.screen.query_one("#prompt-reason", Label)
            await until(pilot, lambda end=completed, reason=reason: asks(app).value == f"{tmp_path}{end}" and reason.content is not None)
            await pilot.pause()
            told = str(reason.render())
            assert told.startswith(said) and (said or "file" not in told) and "hidden" not in told, typed


async def test_recent_captures_come_back(tmp_path: Path) -> None:
    two = tmp_path / "two.pcap"
    two.write_bytes(craft.erf_pcap([craft.rc(0x04, bytes(8))]))
    async with running(made.capture(tmp_path)) as (app, pilot):
        for path in (two, made.capture(tmp_path)):
            app.recent.add(str(path), path=True)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: asks(app))
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
        await until(pilot, lambda: told(app, "to its end"))
