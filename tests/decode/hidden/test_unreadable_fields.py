"""A field in which a key may lie is hidden as a whole wherever it cannot be read to its end."""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType

import pytest

import ibdissect
from ibdissect.decode import ChunkTable
from ibdissect.errors import SpecError
from ibdissect.wire.catalog import Catalog, builtin_modules
from ibdissect.words import Inside, Struct, UdpPort, choice, nested, raw, secret, uint
from tests import commands, planted
from tests.cases import every
from tests.conftest import HAS_SHARED, SHARED
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND, mad, ud
from tests.decode import vault
from tests.decode.hidden.test_cut_keys import in_rows
from tests.decode.made import ethernet_table
from tests.fuzz.container import pcapng
from tests.planted import Rows, native

PLUGIN = Path(vault.__file__)
KEY, HALVES = bytes.fromhex("cafebabe"), ("cafe", "babe")
NAME = b"\0\2\0\5shelf"
SECRET = b"\0\1\0\x08" + b"\0\0\x12\x34" + KEY
LAST = b"\0\2\0\1x"
GROUP = b"\0\3\0\x0d\2\5\1" + KEY + b"\5\2" + KEY
"""A list of two entries in a TLV."""


def vendor(body: bytes, *, fixed: bytes = bytes(4), segment: int = 0, last: bool = False, size: int = 256) -> bytes:
    """A datagram of the plugin's attribute; `segment`: one of an RMPP transfer, whose body is the data."""
    data = bytearray(mad(0x32, 0x81, 0x0200, (b"" if segment > 1 else b"\0\0\0\7" + fixed) + body, at=40, size=size))
    data[37:40] = vault.OUI.to_bytes(3, "big")
    if segment:
        data[24:36] = bytes([1, 1, 1 | 2 * (segment == 1) | 4 * last, 0]) + segment.to_bytes(4, "big") + (220).to_bytes(4, "big")
    return ud(bytes(data))


def shown(rows: Rows, *, keys: bool = False) -> str:
    """What is shown of frames, of the first and the last also where it is read alone."""
    return "\n".join(planted.shown(rows, plugins=[str(PLUGIN)], alone={0, len(rows) - 1}, keys=keys))


def told(rows: Rows) -> list[str]:
    """The halves of the key that are shown."""
    said = shown(rows)
    return [half for half in HALVES if half in said]


def test_what_can_be_read_is_shown_and_only_keys_are_hidden() -> None:
    rows = native(vendor(NAME + SECRET + GROUP + LAST, fixed=KEY))
    said = shown(rows)
    assert told(rows) == [] and "vault_key#1" in said and "entry number" in said and b"shelf".hex() in said
    assert "4660" in said and KEY.hex() in shown(rows, keys=True)


@pytest.mark.slow
def test_a_frame_that_is_cut_off_anywhere_shows_no_part_of_a_key() -> None:
    data = vendor(NAME + SECRET + GROUP + LAST, fixed=KEY)
    begin = data.index(KEY) - 4
    rows = [(LINK_INFINIBAND, data[:size], length) for size in range(begin, begin + 70) for length in (size, len(data))]
    assert told(rows) == []


@pytest.mark.parametrize("place", ["name", "key", "group"])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_wrong_lengths(place: str, step: int) -> None:
    """Of the TLV in front of a key, of that with the key, of one that holds a list."""
    body = NAME + SECRET + GROUP + LAST
    at = body.index({"name": NAME, "key": SECRET, "group": GROUP}[place]) + 2
    right = int.from_bytes(body[at : at + 2], "big")
    wrong = [body[:at] + n.to_bytes(2, "big") + body[at + 2 :] for n in [*range(0, 64, step), 255, 65535] if n != right]
    hidden = []
    for one in wrong:
        spans = list(vault.find_tlvs(one + bytes(100)))
        to_end = spans[-1][1] <= len(one) + 100 and not any(one[spans[-1][1] :])
        if place == "name" and to_end and spans[0][1] > len(NAME):
            continue  # the length ends, by chance, where the rest reads as TLVs: for every reader the key is part of the name then
        hidden.append(vendor(one))
    assert len(hidden) > 30 // step and told(native(*hidden)) == [], [one.hex() for one in hidden if told(native(one))]


def test_a_wrong_type_is_hidden_alone() -> None:
    body = NAME + b"\0\x09" + SECRET[2:] + LAST
    said = shown(native(vendor(body)))
    assert not [half for half in HALVES if half in said] and b"shelf".hex() in said


def test_a_function_that_raises() -> None:
    assert told(native(vendor(NAME + SECRET + b"\0\x63\0\0"), vendor(SECRET + b"\0\2\0\0" * 40 + LAST))) == []


@pytest.mark.slow
def test_a_function_that_finds_too_much() -> None:
    assert told(native(vendor(SECRET + b"\0\2\0\0" * 4096 + LAST, size=20000))) == []


@pytest.mark.parametrize("bad", [b"\1\5\1" + KEY, b"\2\x08\1" + KEY, b"\2\0\1" + KEY, b"\2\3\1" + KEY, b"\2\6\1" + KEY + b"\xaa"])
def test_a_list_within_a_list(bad: bytes) -> None:
    """A length of the inner list that is wrong hides the outer one, too, and nothing of either is found."""
    inner = bad + b"\5\2" + KEY
    body = NAME + b"\0\3" + len(inner).to_bytes(2, "big") + inner + LAST
    said = shown(native(vendor(body)))
    assert not [half for half in HALVES if half in said]
    assert ("vault value" in said) == bad.startswith(b"\1"), "a count that no function reads is no fault"


@pytest.mark.parametrize("at", [pytest.param(at, marks=[pytest.mark.slow] * (at not in (4, 22))) for at in range(1, 40, 3)])
def test_later_segments_of_a_transfer_are_hidden(at: int) -> None:
    """The list is divided anywhere; nothing says where the rest of it begins."""
    body = NAME + SECRET + GROUP + LAST
    rows = native(vendor(body[:at], segment=1), vendor(body[at:], segment=2), vendor(body, segment=3, last=True))
    if at == len(NAME + SECRET):
        assert told(rows[1:]) == []
    assert told(rows) == []


def test_a_datagram_that_is_too_short_for_its_key() -> None:
    from tests.test_plugin_places import udp

    data = b"\0\0\0\7" + b"\x11\x22" + KEY + b"\x33\x44"
    rows = [(LINK_ETHERNET, frame, len(frame)) for size in range(4, 13) for frame in [udp(1000, vault.PORT, data[:size])]]
    assert told(rows) == []
    frame = udp(1000, vault.PORT, data)
    assert told([(LINK_ETHERNET, frame[:size], len(frame)) for size in range(len(frame) - 8, len(frame))]) == []
    assert "vault_key#" in shown(rows[-1:])


def test_padding_is_no_rest() -> None:
    with ibdissect.open(io.BytesIO(pcapng(native(vendor(NAME + LAST + bytes(40))))), plugins=[str(PLUGIN)]) as opened:
        (table,) = opened.tables()
        assert len(table.occurrences(next(one for one in table.catalog.structs if one.__name__ == "VaultTlv"))) == 2
        assert not any(hidden for _, hidden in in_rows(table))


def test_a_key_has_a_kind() -> None:
    for kind in ("", " "):
        with pytest.raises(SpecError, match="a key without a kind"):
            type("X", (Struct,), {"key": "x", "section": "x", "size": 4, "e": secret(32, kind, "E"), "__module__": __name__})


EXTEND = [("zed", "zed"), ("zed", "rmpp"), ("zed", "cut2"), ("zed", "badlen"), ("zed", "stream"), ("zed", "udp"), ("zraise", "zed")]


@pytest.mark.skipif(not HAS_SHARED, reason="no captures of the vendor")
@pytest.mark.slow
@pytest.mark.parametrize(("plugin", "name"), EXTEND)
def test_every_output_of_a_vendors_captures(plugin: str, name: str, tmp_path: Path) -> None:
    folder = SHARED / "extend"
    path, given = str(folder / f"{name}.pcap"), ("--plugin", str(folder / f"{plugin}.py"))
    fields = ("zed.inventory.body", "zed.tlv.value", "zed.optics.opticskey", "infiniband.mad.data", "frame")
    names = [word for one in fields for word in ("-e", one)]
    words = [("show", path, "--format", form) for form in ("summary", "tree", "dump", "dotted", "scapy", "json", "jsonl")]
    words += [("lint", path, "--format", form) for form in ("text", "json", "jsonl", "sarif", "html")]
    words += [("show", path, *names), ("report", path), ("follow", path), ("stats", path), ("fabric", path)]
    files = [tmp_path / f"x.{ending}" for ending in ("csv", "jsonl", "parquet", "arrow", "pcap")]
    words += [("export", path, "--to", str(file), *names) for file in files[:4]]
    words += [("sql", path, "select * from packets", "--format", "jsonl", *names), ("scrub", path, "--to", str(files[4]))]
    for each in words:
        done = commands.run(each[0], *given, *each[1:])
        text = (done.stdout + done.stderr).lower().replace(b" ", b"").replace(b"\n", b"")
        assert done.returncode in (0, 1, 2) and b"traceback" not in text
        assert not [form for form in (b"cafebabe", b"bebafeca", b"3405691582") if form in text], each
    for file in files:
        if file.exists():
            text = file.read_bytes().lower()
            assert not [form for form in (KEY, KEY[::-1], b"cafebabe", b"bebafeca", b"3405691582") if form in text], file


class Outer(Struct):
    prefix, key, carried_by = "acme", "outer", UdpPort(5557)
    body = raw(8, "Body")


class Box(Struct):
    kind = uint(8, "Kind")
    data = raw(6, "Data")


class Shell(Struct):
    box = nested(Box, "Box")


class Middle(Struct):
    prefix, key, carried_by = "acme", "middle", Inside(Outer.body)
    first = uint(8, "First")
    box = nested(Box, "Box")


class Deep(Struct):
    prefix, key, carried_by = "acme", "deep", Inside(Outer.body)
    first = uint(8, "First")
    shell = nested(Shell, "Shell")


class Fits(Struct):
    prefix, key, carried_by = "acme", "fits", Inside(Box.data, ((Box.kind, (1,)),))
    number = uint(16, "Number")
    token = secret(32, "Token")


class TooLong(Struct):
    prefix, key, carried_by = "acme", "toolong", Inside(Box.data, ((Box.kind, (2,)),))
    number = uint(24, "Number")
    token = secret(32, "Token")


class Keyed(Struct):
    prefix, key = "acme", "keyed"
    token = secret(16, "Token")


class Chooses(Struct):
    prefix, key, carried_by = "acme", "chooses", UdpPort(5557)
    kind = uint(8, "Kind")
    length = uint(8, "Length")
    chosen = choice(kind, {1: Keyed}, "Chosen", size=length)


def datagrams(middle: type[Struct], *bodies: bytes, outer: type[Struct] = Outer) -> ChunkTable:
    """UDP datagrams of these structures."""
    from tests.test_plugin_places import udp

    acme = ModuleType("acme")
    for one in (outer, middle, Fits, TooLong):
        one.__module__ = "acme"
        setattr(acme, one.__name__, one)
    return ChunkTable(ethernet_table([udp(1000, 5557, body) for body in bodies]).chunk, Catalog([*builtin_modules(), acme]))


@pytest.mark.parametrize("middle", [Middle, Deep])
def test_a_field_is_broken_where_a_nested_one_inside_it_is(middle: type[Struct]) -> None:
    """The kind is the second byte, whatever the first is."""
    table = datagrams(middle, *(bytes([first, kind]) + bytes(6) for first in range(3) for kind in range(3)))
    assert [bool(hidden) for _, hidden in in_rows(table)] == [False, False, True] * 3


@every(("behind", "broken"), [(b"", False), (bytes(4), False), (b"\0\0\1\0", True), (b"\1\1\1\1", True), (b"\1", True)])
def test_what_a_choice_holds_behind_its_structure_may_be_a_key(behind: bytes, broken: bool) -> None:
    table = datagrams(Keyed, bytes([1, 2 + len(behind)]) + b"ke" + behind, outer=Chooses)
    ((_, hidden),) = in_rows(table)
    key = table.chunk.data[int(table.chunk.offset[0]) :].tobytes().index(b"ke")
    assert hidden & set(range(key, key + 2 + len(behind))) == set(range(key, key + 2 + len(behind) * broken))
