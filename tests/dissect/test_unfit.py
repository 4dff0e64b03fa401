"""The tree and the Info column say what does not fit in a plugin's structure, and how much of a list is not shown."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import ibdissect
from ibdissect.dissect.tree import outline
from ibdissect.wire import tail_walk
from tests.craft import LINK_INFINIBAND, mad, ud
from tests.fuzz.container import pcapng

PLUGIN = """
from ibdissect.words import *

class Inner(Struct):
    prefix, key, section, size = "zed", "inner", "Z 1", 2
    count = uint(8, "Bin Count", at="0")
    length = uint(8, "Bytes", at="1")
    bins = repeat(uint(16, "Bin"), count=count)
    data = raw(length, "Blob")

class Outer(Struct):
    prefix, key, section, size = "zed", "outer", "Z 2", 2
    carried_by = VendorOui(0x0055AA, 0x32, 0x0301)
    kind = uint(8, "Kind", at="0")
    length = uint(8, "Length", at="1")
    body = choice(kind, {1: Inner}, "Body", size=length)
    crc = uint(16, "Check")
    wrapped = choice(kind, {1: Inner}, "Wrapped")
    info = summary("kind {kind}")
"""


def shown(tmp_path: Path, data: bytes, plugin: str = "") -> tuple[str, str]:
    """The outline and the Info column of a MAD with these data."""
    path = tmp_path / "zed.py"
    path.write_text(plugin or PLUGIN)
    found = bytearray(mad(0x32, 0x81, 0x0301, data, at=40, size=256))
    found[37:40] = b"\0\x55\xaa"
    frame = ud(bytes(found))
    tree = ibdissect.open(io.BytesIO(pcapng([(LINK_INFINIBAND, frame, len(frame))])), plugins=[str(path)]).dissect(1)
    return outline(tree), tree.summary.info


@pytest.mark.slow
def test_what_does_not_fit_is_said_and_stays_in_its_place(tmp_path: Path) -> None:
    tree, info = shown(tmp_path, b"\1\x07" + b"\1\3\0\7abc" + b"\0\1" + b"\2\xff\0\x0a\0\x0b")
    assert "[Inner: Blob should have 255 bytes, 199 are there]" in tree
    assert info.endswith("kind 1 [Inner: Blob should have 255 bytes, 199 are there]")
    lines = tree.splitlines()
    depth = [line.index("Bin[") for line in lines if "Bin[" in line]
    assert [line.strip().split(":")[0] for line in lines if "Bin[" in line] == ["Bin[0]", "Bin[0]", "Bin[1]"]
    assert len(depth) == 3 and min(depth) > 0 and not any(line.startswith("Inner") for line in lines), tree
    tree, info = shown(tmp_path, b"\1\x04" + b"\2\0\0\7" + b"\0\1" + b"\0\0")
    assert "[Inner: Bin should have 2 entries, 1 are there]" in tree
    tree, info = shown(tmp_path, b"\1\x07" + b"\1\3\0\7abc" + b"\0\1" + b"\0\0")
    assert "should" not in tree + info and "there]" not in tree + info


def test_a_list_beyond_the_bound_is_told_and_what_follows_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"\1\x0d" + b"\4\3" + bytes(range(8)) + b"abc" + b"\x12\x34" + b"\0\0"
    monkeypatch.setattr(tail_walk, "MOST_FIXED", 3)
    tree, info = shown(tmp_path, data)
    assert "[Inner: the first 3 entries of Bin are shown, 1 more are not]" in tree and "1 more are not" in info
    assert tree.count("Bin[") == 3 and "4660" in tree and "616263" in tree
    monkeypatch.setattr(tail_walk, "MOST_FIXED", 4)
    assert "more are not" not in "".join(shown(tmp_path, data))


def test_a_structure_with_a_key_does_not_tell_what_it_read(tmp_path: Path) -> None:
    tail = "    after = secret(32, 'Zed_Key', 'Zed Key')"
    plugin = PLUGIN.replace('    data = raw(length, "Blob")', f'    data = raw(length, "Blob")\n{tail}')
    tree, info = shown(tmp_path, b"\1\xff" + b"\2\0\0\7" + b"\0\1" + b"\0\0", plugin)
    assert "[Outer cannot be read to its end]" in tree and "should have" not in tree + info
