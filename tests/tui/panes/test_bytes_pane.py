"""Masked bytes are hidden, and the text of bytes can be clicked."""

from __future__ import annotations

from pathlib import Path

from ibdissect.dissect.tree import Node
from ibdissect.screen_model.value_filters import as_filter
from ibdissect.wire.ulp import rpcrdma
from tests.acme import connection
from tests.craft import native
from tests.mad.test_rmpp_records import FIRST, MIDDLE
from tests.screen_model.made import written
from tests.transport.test_reassembled_messages import NFS, packets
from tests.tui import made
from tests.tui.made import running, shows, until


async def test_masked_bytes_are_not_shown(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(7)
        await shows(pilot, 7)
        pane = app.main.bytes_pane
        drawn = "".join(segment.text for i in range(pane.count()) for segment in pane.parts(i, 90))
        assert "** ** ** **" in drawn and "01 23 45 67" not in drawn
        await pilot.press("y")
        assert all("01234567" not in entry[0].replace(" ", "") for entry in app.screen.entries)  # type: ignore[attr-defined]


async def test_text_of_bytes_can_be_clicked(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        pane = app.main.bytes_pane
        line = pane.render_line(0).text
        start = len(line.rstrip()) - pane.per_line
        await pilot.click("#bytes", offset=(start + 3, 1))
        await until(pilot, lambda: pane.byte == pane.per_line + 3)


async def test_fields_of_what_a_frame_completes_have_its_bytes(tmp_path: Path) -> None:
    """A message of three packets, then a record in two segments: bytes and tree mark each other, keys stay hidden."""
    frames = (*connection(rpcrdma.SERVICE), *packets(NFS), FIRST, MIDDLE, native(0x04, bytes(8), bth={"padcnt": 2}))
    async with running(written(tmp_path, *frames)) as (app, pilot):
        pane, tree = app.main.bytes_pane, app.main.tree_pane
        await until(pilot, lambda: app.main.study.finished)
        app.jump(5)
        await shows(pilot, 5)
        shown = tree.frame_tree
        assert shown is not None and pane.data == shown.data
        program = next(node for node in shown.joined[0].walk() if node.name == "rpc.program")
        tree.reveal_node(program)
        await pilot.pause()
        assert (pane.data, pane.span) == (NFS, (program.offset, program.offset + 4))
        assert "Message  3 packets, 740 bytes, frames 3-5" in app.main.bit_line.render().plain
        drawn = "".join(segment.text for i in range(pane.count()) for segment in pane.parts(i, 90))
        assert drawn.count("**") >= 40 * 4 and "00 00 09 2" not in drawn
        tree.reveal_node(shown.joined[0])
        await pilot.press("y")
        copied = [entry[0].replace(" ", "") for entry in app.screen.entries]  # type: ignore[attr-defined]
        assert copied and all("00000927" not in text for text in copied)
        await pilot.press("escape")
        tree.reveal_node(program)
        pane.focus()
        await pilot.press("right")
        assert pane.byte == program.offset + 1 and tree.node is program
        await pilot.press("home")
        assert tree.node is not None and tree.node.name == "rpcordma.xid" and tree.node in shown.joined[0].walk()
        tree.reveal_node(shown.layers[-1])
        await pilot.pause()
        assert pane.data == shown.data

        app.jump(7)
        await shows(pilot, 7)
        shown = tree.frame_tree
        assert shown is not None and [(one.label, one.text) for one in shown.joined] == [("Reassembled", "records that end in this frame")]
        record = shown.joined[0].children[0]
        padding = next(node for node in app.model.tree(8).walk() if node.name == "infiniband.bth.padding")
        gap = Node("frame.pad", "Pad", 4, 2, 0, 16, "0102", "", field=padding.field)
        record.children.append(gap)
        tree.reveal_node(gap)
        assert as_filter(gap) == "frame[4:2] == 01:02" and tree.as_filter is None, "these bytes are at no place of the frame"
        record.children.remove(gap)
        tree.reveal_node(record.children[-1])
        await pilot.pause()
        assert len(pane.data) == 112 and pane.data == record.raw and "NodeRecord[1]  frame 6 bytes" in app.main.bit_line.render().plain
