"""Text of a capture, of its name or of a filter does nothing on the screen but be read. Every pane, screen, message and copy."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.segment import Segment
from textual.pilot import Pilot
from textual.widgets import Input

from ibdissect.screen_model.value_filters import as_filter
from ibdissect.tui.app import TuiApp
from ibdissect.wire.convert import decode_text
from ibdissect.wire.sa_service import ServiceRecord
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.text import printable
from tests.capture.built import block, option, section
from tests.cli.test_serve import fetch
from tests.craft import build, gmp, smp, ud
from tests.mad.transfers import segment
from tests.screen_model.made import all_of
from tests.test_hostile import TEXTS
from tests.test_hostile_pcapng import interface
from tests.tui import drawn, made
from tests.tui.made import asks, focused, opens, shows, until

WANTED = ("ansi", "eight-bit escapes", "textual markup", "bidi", "unseen", "html", "line ends", "surrogate", "not UTF-8", "no NUL")
NODES = {name: TEXTS[name][:64].ljust(64, b"\0") for name in WANTED}
READ = [printable(decode_text(text)) for text in NODES.values()]
"""How a person sees the texts."""
MARKUP = b"\x1b[31m[@click=app.quit]q[/] \xe2\x80\xae[red]"
NAME = os.fsdecode(b"a\x1b[31m\xff\n<b>[red]\xe2\x80\xae[@click=app.quit]x[@].pcapng")
SHOWN = ("nodestring", "servicename")
"""Filter names of fields that hold the texts."""
SIZE = (160, 50)


def frames() -> list[bytes]:
    """Four frames a text: a node that says its name (a wrong modifier makes it a finding), a service, a connection request, data."""
    sent = []
    for i, text in enumerate(NODES.values()):
        guid = 0x100 + i
        path = [1, i + 1]
        info = build(NodeInfo, base_version=1, class_version=1, node_type=1, num_ports=1, node_guid=guid, port_guid=guid, local_port_num=1)
        service = build(ServiceRecord, service_id=guid, service_p_key=0xFFFF, service_name=text)
        sent += [smp(1, 0x11, path=path), smp(0x81, 0x11, info, path=path), smp(1, 0x10, path=path, modifier=i + 1)]
        sent += [smp(0x81, 0x10, text, path=path), gmp(3, 0x81, 0x31, service, at=56, slid=3, dlid=5)]
        sent.append(gmp(7, 0x03, 0x10, bytes(140) + text, at=24, slid=3, dlid=5))
        sent.append(ud(text, dest_qp=0x40, src_qp=0x41, q_key=1, slid=3, dlid=5))
    return [*sent, segment(1, 7, 20 + 112, bytes(44) + MARKUP.ljust(68, b"\0"))]


def written(folder: Path, name: str = NAME) -> Path:
    """A pcapng with hostile comments, and hostile names of its interface and programs."""
    texts = b"".join(option("<", code, MARKUP) for code in (1, 2, 3, 4, 12))
    data = section("<", texts) + interface("<", texts)
    for number, frame in enumerate(frames()):
        head = struct.pack("<IIIII", 0, 0x000604E0, number * 1000, len(frame), len(frame))
        data += block("<", 6, head + frame + bytes(-len(frame) % 4) + option("<", 1, MARKUP))
    path = folder / name
    path.write_bytes(data)
    return path


@asynccontextmanager
async def running(path: Path, display_filter: str = "") -> AsyncIterator[tuple[TuiApp, Pilot[None]]]:
    app = made.app_on(path, display_filter=display_filter)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await until(pilot, lambda: app.study.finished and (app.main.tree_pane.lines or not len(app.main.packets.rows)))
        await pilot.pause(0.15)
        yield app, pilot


def links_of(piece: Segment) -> set[str]:
    """The actions of a piece of text."""
    meta = piece.style.meta if piece.style is not None else {}
    return {re.sub(r"^(screen\.value)\(\d+\)$", r"\1", str(what)) for key, what in meta.items() if key.startswith("@")}


def harmless(app: TuiApp) -> str:
    """The text of the screen, in which nothing is hidden, and no link or action but those of values found in it."""
    found = drawn.segments(app)
    for piece in found:
        assert piece.text == "\n" or piece.text.isprintable(), repr(piece.text)
        assert not piece.control
        if piece.style is not None:
            assert piece.style.link is None and links_of(piece) <= {"screen.value"}, piece
    said = "".join(piece.text for piece in found)
    assert not set("\x1b\u202e\u2066\u200f\u200b\u2060") & set(app.title + app.sub_title)
    return said


async def test_panes(tmp_path: Path) -> None:
    async with running(written(tmp_path)) as (app, pilot):
        await pilot.press("F")
        said = harmless(app)
        assert printable(NAME) in said and "[red]" in said
        seen = []
        for i, text in enumerate(READ):
            for number in (4, 5, 6, 7):  # name, service, connection request, data
                app.jump(7 * i + number)
                await shows(pilot, 7 * i + number)
                tree = app.main.tree_pane
                tree.action_open_all()
                tree.select(max((k for k, (_, line) in enumerate(tree.lines) if line.node and line.node.name.endswith(SHOWN)), default=0))
                await pilot.pause()
                said = harmless(app)
                seen.append(number > 5 or text[:20].strip() in said)
        assert len(seen) == 4 * len(READ) and all(seen)


async def test_fields_become_filters_columns_copies(tmp_path: Path) -> None:
    """Each way a value leaves the tree: as a filter that is typed, entered, remembered; as a column; to the clipboard."""
    async with running(written(tmp_path)) as (app, pilot):
        for i, name in list(enumerate(NODES))[::2]:
            app.jump(7 * i + 4)
            await shows(pilot, 7 * i + 4)
            tree = app.main.tree_pane
            app.set_focus(tree)
            tree.action_open_all()
            tree.select(next(k for k, (_, line) in enumerate(tree.lines) if line.node and line.node.name.endswith("nodestring")))
            text = as_filter(tree.node)
            assert text is not None and text.isprintable()
            await pilot.press("p")
            await pilot.pause()
            assert text[:40] in harmless(app), name
            await pilot.press("escape", "escape")
            app.set_focus(tree)
            await pilot.press("y")
            await pilot.pause()
            assert READ[i][:20].strip() in harmless(app), name
            await pilot.press("down", "enter")
            await pilot.pause()
            assert app.clipboard == READ[i]
        app.set_focus(app.main.tree_pane)
        await pilot.press("plus")
        app.jump(4)
        await pilot.pause(0.1)
        assert READ[0][:20] in harmless(app)
        await pilot.press("v")
        await pilot.pause()
        assert "nodestring" in harmless(app)


async def test_findings_pages(tmp_path: Path) -> None:
    async with running(written(tmp_path)) as (app, pilot):
        assert all_of(app.model.findings)
        await pilot.press("S")
        harmless(app)
        await pilot.press("escape")
        for finding in all_of(app.model.findings)[::9]:
            app.explain(finding)
            await pilot.pause()
            assert app.screen is not app.main and finding.code in harmless(app)
            await pilot.press("escape")


async def test_screens_of_the_whole(tmp_path: Path) -> None:
    async with running(written(tmp_path)) as (app, pilot):
        await opens(pilot, "b")
        tree = focused(app)
        said = harmless(app)
        names = [entry.text for entry in tree.entries]
        assert {text.strip() for text in READ if text.strip()} <= set(names)
        for index in range(tree.count()):
            tree.select(index)
            said += harmless(app)
        assert all(name[:20] in said for name in names)
        await pilot.press("escape")
        for key in ("s", "C", "question_mark"):
            await pilot.press(key)
            await until(pilot, lambda: len(app.screen_stack) > 1)
            await pilot.pause()
            harmless(app)
            await pilot.press("escape")
            await pilot.pause()
        app.jump(7 * len(NODES) + 1)
        await shows(pilot, 7 * len(NODES) + 1)
        await pilot.press("R")
        await until(pilot, lambda: len(app.screen_stack) > 1)
        harmless(app)
        focused(app).action_open_all()
        assert "\\x1b[31m[@click=app.quit]q[/]" in harmless(app)


@pytest.mark.parametrize("text", ["\x1b[31m[@click=app.quit]q[/]", "\u202e[red]\ud800", 'frame matches "\x9b["'])
async def test_filter_bar_and_search(text: str, tmp_path: Path) -> None:
    """What is typed, pasted or given with -Y is shown as it is read, and so is what is wrong with it."""
    async with running(made.capture(tmp_path), display_filter=text) as (app, pilot):
        await pilot.press("slash")
        app.main.filter_bar.put(text)
        await pilot.pause()
        assert printable(text) in harmless(app)
        app.main.filter_bar.put("")
        app.main.filter_bar.input.insert_text_at_cursor(text)
        await pilot.pause()
        assert printable(text) in harmless(app)
        app.filtering.apply(text)
        await pilot.pause(0.1)
        harmless(app)
        app.history.add(text)
        app.main.filter_bar.action_older(1)
        await pilot.pause()
        harmless(app)
        await pilot.press("escape", "escape", "ctrl+f")
        await pilot.pause()
        app.screen.query_one(Input).value = text
        await pilot.pause()
        harmless(app)
        await pilot.press("enter")
        await until(pilot, lambda: "not found" in app.main.key_bar.note)
        assert printable(text)[:20] in harmless(app)


async def test_completions(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("slash", "m", "a", "d")
        await until(pilot, lambda: app.main.filter_bar.choices.display)
        assert "mad" in harmless(app)


async def test_messages_and_windows(tmp_path: Path) -> None:
    """Notes of what went wrong: of threads, of files that are written, of names of folders."""
    hostile = decode_text(MARKUP)
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.failed(f"x ended: ValueError: {hostile}", app.model)
        app.note(f"3 frames written to /y{hostile}.pcap")
        app.notify(hostile, title=hostile, markup=False)
        app.warn(hostile)
        app.main.key_bar.say(hostile)
        await pilot.pause(0.1)
        said = harmless(app)
        for part in ("x ended: ValueError: ", "frames written to /y"):
            assert part + printable(hostile)[:12] in said
        assert said.count("[@click=app.quit]q[/]") >= 4
        await pilot.press("w")
        await pilot.pause()
        asks(app).value = f"/none{hostile}/x.pcap"
        await pilot.pause()
        assert "there is no folder /none\\x1b[31m" in harmless(app)
        app.copy_to_clipboard(hostile)
        assert app.clipboard == printable(hostile)


async def test_a_capture_that_breaks_off(tmp_path: Path) -> None:
    """The reason, which names the file, takes the place of the list."""
    path = tmp_path / NAME
    path.write_bytes(written(tmp_path, "x.pcapng").read_bytes()[:60])
    async with running(path) as (app, pilot):
        await pilot.pause(0.2)
        assert printable(NAME) in harmless(app)


@pytest.mark.slow
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    """Its title is the name of the file: read, not run, also one that is no UTF-8."""
    pytest.importorskip("textual_serve")
    path = made.capture(tmp_path, name=NAME.replace(".pcapng", "<script>.pcap"))
    words = [sys.executable, "-m", "ibdissect", "serve", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline().decode()
            found = re.search(r"http://([0-9.]+):(\d+)/([\w-]+)/", said)
            assert found is not None, said
            status, page = fetch(found[1], int(found[2]), f"/{found[3]}/")
        finally:
            process.send_signal(signal.SIGTERM)
        out, rest = process.communicate(timeout=30)
    assert not out and not rest
    assert said.rstrip("\n").isprintable() and printable(NAME)[:-7] in said
    assert status == 200 and "<b>[red]" not in page and "x[@]<script>" not in page
    assert not [c for c in page if not c.isprintable() and c not in "\n\t\r"]
