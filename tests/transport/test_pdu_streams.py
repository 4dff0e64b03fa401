"""A PDU is found once, where its last byte is, however its bytes are cut into messages, and never behind a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.decode.addresses import End
from ibdissect.decode.identity import Side
from ibdissect.decode.reassembled import FrameSpan
from ibdissect.transport.pdu_streams import PduStreams, _split
from tests import commands

MAX_BYTES = 1 << 16

FOLDER = Path(__file__).parents[2] / "docs/examples/zed"
PLUGIN = str(FOLDER / "zed.py")
RULES = """
from ibdissect.rules import *
from ibdissect.lint.rule import INFO, Rule, fault, on_struct
from zed import Item, Pdu

class Big(Rule):
    "An item is there. Why. What to do."
    code, name, severity = "ZEI001", "item-there", INFO
    on, when, message, example = Item, Item.size_ > 0, "item of {size_} bytes", "any"
    reference = "ZED 9.1"

class Seen(Rule):
    "An item is seen. Why. What to do."
    code, name, severity = "ZEI002", "item-seen", INFO
    message, example = "seen {size}", "any"
    reference = "ZED 9.1"

    @on_struct(Item)
    def look(self, item, seen):
        yield self.hit(seen, item, Item.size_, size=item.size_)
"""
ITEMS = {"stream.pcap": ["6=300,250", "9=100,100", "11=10,10"], "stream2.pcap": ["6=200,340", "9=100,100", "11=10,10"]}


BOTH = [pytest.param(name, marks=[pytest.mark.slow] * (name != "stream.pcap")) for name in ITEMS]


def shown(capture: Path | str, *options: str) -> list[str]:
    done = commands.run("show", "--plugin", PLUGIN, str(FOLDER / capture), *options, text=True)
    assert done.returncode == 0, done
    return ["=".join(line.split("\t")) for line in done.stdout.splitlines() if not line.endswith("\t")]


@pytest.mark.parametrize("capture", BOTH)
def test_columns_filters_and_tree_see_each_item_once(capture: str) -> None:
    assert shown(capture, "-e", "frame.number", "-e", "zed.item.size") == ITEMS[capture]
    for frame, sizes in (one.split("=") for one in ITEMS[capture]):
        for size in sizes.split(","):
            assert shown(capture, "-Y", f"zed.item.size == {size}", "-e", "frame.number") == [frame]
        tree = "\n".join(shown(capture, "--frames", frame, "--format", "tree"))
        assert [line.split()[2] for line in tree.splitlines() if "Item Size" in line] == sizes.split(",")
    assert sum("Item Size" in line for line in shown(capture, "--format", "tree")) == 6


@pytest.mark.parametrize("capture", BOTH)
def test_rules_see_the_same_items(capture: str, tmp_path: Path) -> None:
    (tmp_path / "zei.py").write_text(RULES)
    words = ("--plugin", PLUGIN, "--plugin", str(tmp_path / "zei.py"), "--select", "ZEI", "--infos", "--format", "github")
    done = commands.run("lint", *words, str(FOLDER / capture), text=True)
    for frame, sizes in (one.split("=") for one in ITEMS[capture]):
        for size in sizes.split(","):
            assert f"frame {frame}: RC LID 1 → LID 2 QP 0x000222: seen {size}" in done.stdout
        assert f"frame {frame}: RC LID 1 → LID 2 QP 0x000222: item of {sizes.split(',')[0]} bytes" in done.stdout
    assert done.stdout.count("ZEI002") == 6


@pytest.mark.parametrize("capture", BOTH)
@pytest.mark.parametrize("form", ["tree", "json", "dump"])
def test_the_key_of_a_session_is_hidden_in_every_packet(capture: str, form: str) -> None:
    hidden, clear = ("".join(shown(capture, "--format", form, *more)).lower().replace(" ", "") for more in ((), ("--show-keys",)))
    assert "5e55" not in hidden and "1045" not in hidden
    assert "5e551045" in clear


class Packet:
    """A packet of a SEND as `whole_messages` hands it on."""

    def __init__(self, frame: int, data: bytes, psn: int, code: int = 4, complete: bool = True, gid: bytes = b"") -> None:
        self.data, self.psn, self.code, self.complete = data, psn, code, complete
        self.to, self.queue_pair, self.service, self.side, self.span = Side(End(b"to"), gid), 7, 1, 1, FrameSpan(frame, 20, len(data))


def taken(packets: list[Packet], since: int = 1) -> list[tuple[int, bytes, list[tuple[int, int, int]]]]:
    """Frame, bytes if it is in several packets, and spans of each PDU; its first byte is its length."""
    streams, found = PduStreams(), []
    streams._kind = lambda table, service, side: (None, 1, lambda data: data[0])  # type: ignore[method-assign,assignment,return-value]
    for packet in packets:
        for one in streams.take(packet, since, None, 0):  # type: ignore[arg-type]
            found.append((packet.span.frame, one.data, [(span.frame, span.offset, span.length) for span in one.spans]))
    return found


def test_pdus_in_one_packet_and_over_several() -> None:
    assert taken([Packet(1, b"\2a\4b", 9), Packet(2, b"cd\1\5", 10), Packet(3, b"efgh", 11)]) == [
        (1, b"", [(1, 20, 2)]), (2, b"\4bcd", [(1, 22, 2), (2, 20, 2)]), (2, b"", [(2, 22, 1)]),
        (3, b"\5efgh", [(2, 23, 1), (3, 20, 4)]),
    ]  # fmt: skip


def test_a_repetition_adds_nothing() -> None:
    assert taken([Packet(1, b"\2a\2", 9), Packet(2, b"\2a\2", 9), Packet(3, b"b", 10)]) == [
        (1, b"", [(1, 20, 2)]), (3, b"\2b", [(1, 22, 1), (3, 20, 1)]),
    ]  # fmt: skip


def test_queue_pairs_behind_a_router_have_streams_of_their_own() -> None:
    """They share its LID, and may share the number."""
    one, other = bytes(15) + b"\1", bytes(15) + b"\2"
    begun = [Packet(1, b"\2", 9, gid=one), Packet(2, b"\3", 700, gid=other)]
    ended = [Packet(3, b"a", 10, gid=one), Packet(4, b"bc", 701, gid=other)]
    assert [(frame, data) for frame, data, _ in taken(begun + ended)] == [(3, b"\2a"), (4, b"\3bc")]


@pytest.mark.parametrize("wrong", [
    Packet(2, b"b\1", 11), Packet(2, b"b", 10, complete=False), Packet(2, b"b\0", 10),
], ids=["a gap", "cut off", "a length of zero"])  # fmt: skip
def test_nothing_is_guessed_behind_what_is_missing(wrong: Packet) -> None:
    found = taken([Packet(1, b"\1\2", 9), wrong, Packet(3, b"\1\1", wrong.psn + 1)])
    assert [frame for frame, _, _ in found if frame != 2] == [1]


def test_psns_go_on_behind_the_largest_and_behind_a_read() -> None:
    last = (1 << 24) - 1
    assert [frame for frame, _, _ in taken([Packet(1, b"\1", last), Packet(2, b"\1", 0)])] == [1, 2]
    assert [frame for frame, _, _ in taken([Packet(1, b"\1", 5), Packet(2, b"", 6, code=12), Packet(3, b"\1", 9)])] == [1, 3]
    assert [frame for frame, _, _ in taken([Packet(1, b"\1", 5), Packet(2, b"", 6, code=10), Packet(3, b"\1", 9)])] == [1]


def test_the_longest_pdu() -> None:
    streams = PduStreams()
    for size, wanted in ((MAX_BYTES, 1), (MAX_BYTES + 1, 0)):
        streams._kind = lambda table, service, side, size=size: (None, 1, lambda data: size)  # type: ignore[method-assign,assignment,misc]
        packet = Packet(1, bytes(MAX_BYTES + 2), 1)
        packet.queue_pair = size
        assert len(list(streams.take(packet, 1, None, 0))[:1]) == wanted  # type: ignore[arg-type]


def test_spans_are_cut_where_the_pdu_ends() -> None:
    assert _split([FrameSpan(1, 5, 3), FrameSpan(2, 0, 4)], 3) == ([FrameSpan(1, 5, 3)], [FrameSpan(2, 0, 4)])
    assert _split([FrameSpan(1, 5, 3), FrameSpan(2, 0, 4)], 4) == ([FrameSpan(1, 5, 3), FrameSpan(2, 0, 1)], [FrameSpan(2, 1, 3)])


@pytest.mark.parametrize(("starts", "frames"), [((9, 70), [1, 2]), ((), [1, 2]), ((8, 70), []), ((10, 70), [])])
def test_a_stream_begins_with_the_packet_that_connection_management_announced(starts: tuple[int, ...], frames: list[int]) -> None:
    streams = PduStreams()
    streams._kind = lambda table, service, side: (None, 1, lambda data: data[0])  # type: ignore[method-assign,assignment,return-value]
    packets = Packet(1, b"\1", 9), Packet(2, b"\1", 10)
    found = [packet.span.frame for packet in packets for _ in streams.take(packet, 1, None, 0, starts)]  # type: ignore[arg-type]
    assert found == frames
