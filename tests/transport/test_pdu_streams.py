"""A PDU is found once, where its last byte is, however its bytes are cut into messages, and never behind a gap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibdissect.python_interface import Capture
from tests import commands
from tests.acme import PASSIVE_QP, SERVICE, connection
from tests.cases import few
from tests.craft import erf_pcap, rc

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
def test_columns_see_each_item_once(capture: str) -> None:
    assert shown(capture, "-e", "frame.number", "-e", "zed.item.size") == ITEMS[capture]


@pytest.mark.slow
@pytest.mark.parametrize("capture", BOTH)
def test_filters_and_tree_see_each_item_once(capture: str) -> None:
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


LENGTHS = f"""
from ibdissect.words import CmPayload, Stream, Struct, rest, uint


class Lengths(Struct):
    "A PDU whose first byte is its length."

    prefix, key, section, size = "pdux", "pdu", "X 1", 1
    length = uint(8, "Length", at="0", unit="bytes")
    data = rest("Data", at="1")
    carried_by = Stream(CmPayload({SERVICE}), length=length)


class Long(Struct):
    "A PDU of another service, whose length takes three bytes."

    prefix, key, section, size = "pdux", "long", "X 2", 3
    length = uint(24, "Length", at="0", unit="bytes")
    data = rest("Data", at="3")
    carried_by = Stream(CmPayload({SERVICE + 1}), length=length)
"""


def sent(data: bytes, psn: int, code: int = 0x04, **kw: Any) -> bytes:
    """A packet of the active side."""
    ext = {0x0A: {"RETH": {"dmalen": len(data)}}, 0x0C: {"RETH": {"dmalen": 8}}}.get(code)
    return rc(code, data, ext=ext, bth={"destqp": PASSIVE_QP, "psn": psn % (1 << 24)}, **{"slid": 1, "dlid": 2, **kw})


def taken(folder: Path, frames: list[bytes], psn: int = 9, kind: str = "pdu", start: list[bytes] | None = None) -> list[tuple[int, bytes]]:
    """The PDUs of a connection: each with the packet that completes it, from 1."""
    (folder / "x.py").write_text(LENGTHS)
    before = connection(SERVICE + (kind == "long"), psn=psn) if start is None else start
    (folder / "x.pcap").write_bytes(erf_pcap([*before, *frames]))
    with Capture(str(folder / "x.pcap"), plugins=[folder / "x.py"]) as capture:
        table = capture.table()
        length, data = table[f"pdux.{kind}.length"], table[f"pdux.{kind}.data"]
    sizes = zip(length.frame.tolist(), length.value.tolist(), strict=True)
    rests = dict[int, list[bytes]]()
    for frame, value in zip(data.frame.tolist(), data.value, strict=True):
        rests.setdefault(frame, []).append(bytes(value))
    return [(frame - len(before), size.to_bytes(1, "big") + rests[frame].pop(0) if kind == "pdu" else b"") for frame, size in sizes]


@pytest.mark.slow
def test_pdus_in_one_packet_and_over_several(tmp_path: Path) -> None:
    frames = [sent(b"\2a\4b", 9), sent(b"cd\1\5", 10), sent(b"efgh", 11)]
    assert taken(tmp_path, frames) == [(1, b"\2a"), (2, b"\4bcd"), (2, b"\1"), (3, b"\5efgh")]
    with Capture(str(tmp_path / "x.pcap"), plugins=[tmp_path / "x.py"]) as capture:
        joined = [one for table in capture.tables() for _, one in table.shown.joined]
    assert [[(span.frame - 2, span.offset, span.length) for span in one.spans] for one in joined] == [
        [(1, 20, 2)], [(1, 22, 2), (2, 20, 2)], [(2, 22, 1)], [(2, 23, 1), (3, 20, 4)],
    ], "bytes are cut where the PDU ends"  # fmt: skip


def test_a_repetition_adds_nothing(tmp_path: Path) -> None:
    frames = [sent(b"\2a\2", 9), sent(b"\2a\2", 9), sent(b"b", 10)]
    assert taken(tmp_path, frames) == [(1, b"\2a"), (3, b"\2b")]


@pytest.mark.slow
def test_queue_pairs_behind_a_router_have_streams_of_their_own(tmp_path: Path) -> None:
    """They share its LID, and may share the number."""
    home = b"\xfe\x80" + bytes(13) + b"\7"
    far = [b"\xfe\xc0" + bytes(13) + bytes([last]) for last in (1, 2)]
    one, other = ({"grh": {"sgid": home, "dgid": gid}} for gid in far)
    frames = [sent(b"\2", 9, **one), sent(b"b", 10, **other), sent(b"a", 10, **one)]
    assert taken(tmp_path, frames, start=connection(SERVICE, psn=9, gids=(home, far[0]))) == [(3, b"\2a")]


@few("wrong", [sent(b"b\1", 11), sent(b"b", 10)[:-7], sent(b"b\0", 10)], ids=["a gap", "cut off", "a length of zero"], fast=(1,))
def test_nothing_is_guessed_behind_what_is_missing(tmp_path: Path, wrong: bytes) -> None:
    psn = 12 if wrong == sent(b"b\1", 11) else 11
    assert [frame for frame, _ in taken(tmp_path, [sent(b"\1\2", 9), wrong, sent(b"\1\1", psn)]) if frame != 2] == [1]


@pytest.mark.slow
def test_psns_go_on_behind_the_largest_and_behind_a_read(tmp_path: Path) -> None:
    last = (1 << 24) - 1
    assert taken(tmp_path, [sent(b"\1", last), sent(b"\1", 0)], psn=last) == [(1, b"\1"), (2, b"\1")]
    assert taken(tmp_path, [sent(b"\1", 5), sent(b"", 6, 0x0C), sent(b"\1", 9)], psn=5) == [(1, b"\1"), (3, b"\1")]
    assert taken(tmp_path, [sent(b"\1", 5), sent(b"1234", 6, 0x0A), sent(b"\1", 9)], psn=5) == [(1, b"\1")]


@pytest.mark.parametrize(("size", "found"), [(MAX_BYTES, 17), (MAX_BYTES + 1, 0)])
def test_the_longest_pdu(tmp_path: Path, size: int, found: int) -> None:
    data = size.to_bytes(3, "big") + bytes(MAX_BYTES + 4096 - 3)
    frames = [sent(data[at : at + 4096], 9 + at // 4096) for at in range(0, size, 4096)]
    assert [frame for frame, _ in taken(tmp_path, frames, kind="long")][:1] == ([-(-size // 4096)] if found else [])


@few(("psn", "packets"), [(9, [1, 2]), (8, []), (10, [])], fast=(1, 2))
def test_a_stream_begins_with_the_packet_that_connection_management_announced(tmp_path: Path, psn: int, packets: list[int]) -> None:
    assert [frame for frame, _ in taken(tmp_path, [sent(b"\1", 9), sent(b"\1", 10)], psn=psn)] == packets
