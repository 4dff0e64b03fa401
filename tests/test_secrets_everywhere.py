"""A key is hidden behind whatever header its packet stands, wherever the frame is cut off, and whatever length is wrong.

Each packet has a key of its own, whose bytes are looked for: where filters and columns read (`without_keys`), in what the tree shows, and
in every output.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.l2 import Ether
from scapy.packet import bind_bottom_up, split_bottom_up

from ibdissect import Capture
from ibdissect.cli import COMMANDS
from ibdissect.cli.scapy_text import shown as by_scapy
from ibdissect.decode.hidden.cut_keys import without_keys
from ibdissect.dfilter.compile import compile_filter
from ibdissect.dissect.printers import dump
from ibdissect.dissect.shown_value import Presenter
from ibdissect.layers import BTH, GRH
from tests import commands
from tests.carriers import CARRIERS
from tests.cases import every, few
from tests.craft import LINK_ERF, LINK_ETHERNET, LINK_INFINIBAND, LINK_IPOIB, LINK_PPP, LINKS_RAW_IP
from tests.decode.hidden.test_cut_keys import trees
from tests.fuzz.container import PCAPNG_LINKS, pcapng
from tests.keyed import KEYED, MACS, Keyed, frames
from tests.test_secrets import COLUMNS, Planted, shown

LINKS = (*PCAPNG_LINKS, LINK_PPP, 0, 108, *LINKS_RAW_IP)
Row = tuple[int, bytes, int]
Case = tuple[Keyed, str, Row]
FEW = {one.key: one for one in KEYED if one.name in ("infiniband.deth.q_key", "infiniband.reth.r_key", "infiniband.smplid.mkey")}
OF_LINK_ADDRESSES = {"IPoIB"}
"""Of a GRH in front of IP, the addresses are those of the connection, which was set up without one here."""


def whole(link: int, data: bytes) -> Row:
    return link, data, len(data)


@cache
def sent(version: int) -> tuple[list[Row], dict[str, bytes]]:
    """The packets that say what others are, and those with a key by name, as Ethernet frames; version 0: as InfiniBand packets."""
    before, last = [], {}
    for number, one in enumerate(KEYED):
        if version in (0, 1, 6) and not one.native:
            continue
        packets = [*one.before, one.packet] if version == 0 else frames(one, version, number)
        before += [whole(LINK_ETHERNET if version else LINK_INFINIBAND, packet) for packet in packets[:-1]]
        last[one.name] = packets[-1]
    return before, last


def left_of(key: bytes, data: bytes) -> tuple[int, int]:
    """Where a key is in a frame, and how many bytes of it: the frame may end within it."""
    at = data.rfind(key)
    if at >= 0:
        return at, len(key)
    return next(((len(data) - size, size) for size in range(len(key) - 1, 0, -1) if data.endswith(key[:size])), (0, 0))


def told(before: list[Row], cases: list[Case]) -> list[str]:
    """What shows a byte of its key, of frames behind some others."""
    found = []
    with Capture(io.BytesIO(pcapng([*before, *(row for _, _, row in cases)], links=LINKS))) as opened:
        for table in opened.tables():
            read, seen = table.once(without_keys), dict(trees(table))
            for row in range(max(len(before) + 1 - table.chunk.first, 0), len(table)):
                one, what, (_, data, _) = cases[table.chunk.first - 1 + row - len(before)]
                at, size = left_of(one.key, data)
                key, begin = np.frombuffer(one.key[:size], np.uint8), int(table.chunk.offset[row]) + at
                hidden = {place for start, stop in seen[row].secret_bytes for place in range(start, stop)}
                if ((read[begin : begin + size] == key) & (key != 0)).any():
                    found.append(f"{one.name}, {what}: filters read it")
                if any(byte and at + i not in hidden for i, byte in enumerate(key.tolist())):
                    found.append(f"{one.name}, {what}: the tree shows it")
    return found


def carried(version: int, names: Iterable[str], some: Iterable[Keyed] = KEYED) -> Iterator[Case]:
    """Packets behind these headers."""
    _, last = sent(version)
    for name in names:
        for one in some:
            if one.name in last and not (name in OF_LINK_ADDRESSES and one.before):
                yield one, name, whole(*CARRIERS[name](last[one.name]))


def test_a_key_that_is_shown_is_found() -> None:
    """Behind an Ethertype that nobody knows, without what marks its protocol; and each packet has its key once."""
    _, last = sent(4)
    assert len(last) == len(KEYED) > 50
    assert [one.name for one in KEYED if last[one.name].count(one.key) != 1] == []
    cases = [(one, "local", whole(LINK_ETHERNET, MACS + struct.pack(">H", LOCAL) + one.key)) for one in KEYED]
    assert len(told([], cases)) == 2 * len(KEYED)


def test_behind_every_header() -> None:
    assert told([], list(carried(4, CARRIERS, list(FEW.values())[:1]))) == []


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 6])
def test_every_key_behind_every_header(version: int) -> None:
    assert told(sent(version)[0], list(carried(version, CARRIERS))) == []


def shortened(version: int, data: bytes, step: int) -> Iterator[tuple[str, bytes]]:
    """The frame with other lengths in its headers."""
    places = {4: {"UDP": (38, 0), "IP": (16, 20)}, 6: {"UDP": (58, 0), "IP": (18, 0)}, 1: {"GRH": (18, 0)}, 0: {"PktLen": (4, 0)}}[version]
    for size in (*range(0, 60), *range(60, len(data) + 2, step)) if version else range(len(data) // 4 + 2):
        both = data
        for name, (at, more) in places.items():
            length = struct.pack(">H", size + more)
            both = both[:at] + length + both[at + 2 :]
            yield f"{name} {size}", data[:at] + length + data[at + 2 :]
        yield f"all {size}", both


def short(version: int, some: Iterable[Keyed], step: int) -> list[Case]:
    """Frames with shorter lengths, and frames that end around the key."""
    _, last = sent(version)
    link, cases = LINK_ETHERNET if version else LINK_INFINIBAND, list[Case]()
    for one in (one for one in some if one.name in last):
        data = last[one.name]
        at = data.rfind(one.key)
        cases += [(one, what, whole(link, other)) for what, other in shortened(version, data, step)]
        for end in range(at + 1, min(at + len(one.key) + 9, len(data))):
            cases += [(one, f"cut behind {end}", (link, data[:end], size)) for size in (end, len(data))]
    return cases


OF_CONNECTIONS = [one for one in KEYED if one.name in ("NVMe", "rping", "SMC-R message")]


@pytest.mark.slow
def test_a_message_with_any_length_and_cut() -> None:
    before = [whole(LINK_INFINIBAND, data) for data in OF_CONNECTIONS[0].before]
    assert told(before, short(0, OF_CONNECTIONS[:1], 40)) == []
    assert told(sent(4)[0], short(4, OF_CONNECTIONS, 200)) == []


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1, 4, 6])
def test_every_key_with_any_length_and_cut(version: int) -> None:
    """InfiniBand packets of all connections have the same addresses: each with its own connection only."""
    if version:
        assert told(sent(version)[0], short(version, KEYED, 23)) == []
    for one in KEYED if not version else ():
        assert told([whole(LINK_INFINIBAND, data) for data in one.before], short(0, [one], 23)) == []


def cut_and_short(version: int, some: Iterable[Keyed], step: int) -> list[Case]:
    """Frames with shorter lengths of which the last byte was not captured: then only the lengths could tell that they are wrong."""
    _, last = sent(version)
    link = LINK_ETHERNET if version else LINK_INFINIBAND
    return [(one, f"{what}, cut", (link, other, len(other) + 1)) for one in some if one.name in last
            for what, other in islice(shortened(version, last[one.name], 40), 0, None, step)]  # fmt: skip


@pytest.mark.slow
def test_a_length_that_is_too_short_in_a_frame_that_is_cut() -> None:
    some = list(FEW.values())
    assert told(sent(4)[0], cut_and_short(4, some, 29)) == []
    assert told([], cut_and_short(0, [one for one in some if not one.before], 5)) == []


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 4, 6])
def test_every_key_with_a_length_that_is_too_short_in_a_frame_that_is_cut(version: int) -> None:
    assert told(sent(version)[0], cut_and_short(version, KEYED, 2)) == []


@pytest.mark.slow
def test_every_key_of_infiniband_with_a_length_that_is_too_short_in_a_frame_that_is_cut() -> None:
    for one in KEYED:
        assert told([whole(LINK_INFINIBAND, data) for data in one.before], cut_and_short(0, [one], 1)) == []


@pytest.mark.slow
def test_a_message_that_a_length_cuts_short_in_a_tunnel() -> None:
    before, last = sent(4)
    some = [one for one in OF_CONNECTIONS if one.native]
    cases = [(one, f"{what} in {kind}", whole(*CARRIERS[kind](other))) for one in some for kind in ("VXLAN", "GRE of IP", "AH", "SLL2")
             for what, other in shortened(4, last[one.name], 40)]  # fmt: skip
    assert told(before, cases) == []


# -- outputs

FORMATS = ("summary", "tree", "dump", "dotted", "scapy", "json", "jsonl")
TABLES = ("packets", "mads", "connections", "messages", "records", "requests", "findings", "ports")
FINDINGS = ("text", "concise", "full", "json", "jsonl", "sarif", "junit", "github", "gitlab", "markdown", "html")
OUTPUTS = {
    **{f"show {name}": ("show", "A", "--format", name) for name in FORMATS},
    **{f"lint {name}": ("lint", "A", "--max-findings", "none", "--format", name) for name in FINDINGS},
    **{f"points {name}": ("points", "A", "B", "--fail-on", "never", "--format", name) for name in FINDINGS},
    **{f"{name} {form}": (name, "A", "--format", form) for name in ("stats", "fabric", "diagnose") for form in ("text", "json")},
    **{f"diff {form}": ("diff", "A", "OTHER", "--format", form) for form in ("text", "json")},
    **{f"sql {name}": ("sql", "A", f"select * from {name}", "--format", "csv") for name in TABLES},
    "report": ("report", "A"), "fabric dot": ("fabric", "A", "--dot"), "every story": ("diagnose", "A", "--all"),
    "packets of points": ("points", "A", "B", "--fail-on", "never", "--format", "json", "--packets"),
    "stories of points": ("diagnose", "A", "B", "--points", "--all"),
    "fields": ("show", "A", *COLUMNS),
    "csv": ("export", "A", "--output", "-", "--format", "csv", *COLUMNS),
    "jsonl": ("export", "A", "--output", "-", "--format", "jsonl", *COLUMNS),
    "findings": ("export", "A", "--findings", "--output", "WRITTEN.jsonl"),
    "scrub": ("scrub", "A", "--output", "WRITTEN.pcapng"), "annotate": ("annotate", "A", "--output", "WRITTEN.pcapng"),
    "follow": ("follow", "A", "FRAME"), "follow raw": ("follow", "A", "FRAME", "--as", "raw"),
}  # fmt: skip
"""Commands on the capture A; B is its copy, OTHER a part of it, WRITTEN what they write, FRAME the last one."""
WITHOUT_CAPTURE, SCREENS = {"rules", "fields", "trust"}, {"tui", "serve"}
"""Commands that print nothing of a capture, and those whose screens tests/test_secrets_more.py looks at."""


def test_every_command_is_looked_at() -> None:
    assert {words[0] for words in OUTPUTS.values()} | WITHOUT_CAPTURE | SCREENS == COMMANDS.keys()


def printed(folder: Path, words: tuple[str, ...], rows: list[Row]) -> bytes:
    """What a command prints and writes, without the frames themselves, which `annotate` keeps."""
    names = {"A": "a.pcapng", "B": "b.pcapng", "OTHER": "other.pcapng", "FRAME": str(len(rows))}
    done = commands.run(*(names.get(word, word) for word in words), cwd=folder)
    assert done.returncode in (0, 1) and b"Traceback" not in done.stderr, (words, done.stderr)
    said: bytes = done.stdout + done.stderr
    for path in folder.glob("WRITTEN.*"):
        written = path.read_bytes()
        path.unlink()
        for _, data, _ in rows if words[0] == "annotate" else ():
            written = written.replace(data, b"")
        said += written
    return said


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 6])
def test_no_output_shows_a_key(version: int, tmp_path: Path) -> None:
    """One packet behind each header, the keys take turns; then messages of connections, the last over another path."""
    pytest.importorskip("duckdb")
    before, last = sent(version)
    known = [one for one in KEYED if one.name in last and not one.before]
    cases = [case for number, name in enumerate(CARRIERS) for case in carried(version, [name], [known[number % len(known)]])]
    cases += [(one, "", whole(LINK_ETHERNET, last[one.name])) for one in KEYED if one.name in last and one.before]
    ping = next(one for one in KEYED if one.name == "rping")
    cases.append((ping, "another path", whole(LINK_ETHERNET, frames(ping, version, 250)[-1])))
    rows = [*before, *(row for _, _, row in cases)]
    for name, some in {"a": rows, "b": rows, "other": rows[len(rows) // 2 :]}.items():
        (tmp_path / f"{name}.pcapng").write_bytes(pcapng(some, links=LINKS))
    planted = [Planted(one.name, one.key, number, 0) for number, (one, _, _) in enumerate(cases, len(before))]
    for name, words in OUTPUTS.items():
        assert shown(printed(tmp_path, words, rows), planted) == [], name
    assert len(shown(printed(tmp_path, ("show", "A", "--format", "jsonl", "--show-keys"), rows), planted)) > len(planted) // 2


@pytest.mark.slow
def test_no_filter_finds_a_key() -> None:
    """One that finds bytes would tell them one after the other."""
    before, _ = sent(4)
    cases = [*carried(4, ("4 tags", "LLC/SNAP", "AH", "header 139", "VXLAN-GPE 4789 1", "unread link"), FEW.values())]
    with Capture(io.BytesIO(pcapng([*before, *(row for _, _, row in cases)], links=LINKS))) as opened:
        tables = list(opened.tables())
    for one in FEW.values():
        pattern = "".join(f"\\x{byte:02x}" for byte in one.key[:4])
        for text in (f"frame contains {one.key[:4].hex(':')}", f'frame matches "{pattern}"'):
            assert not any(compile_filter(text, hide_keys=True).rows(table).any() for table in tables), text
            assert sum(compile_filter(text).rows(table).sum() for table in tables) >= 6, text


# -- Scapy

LOCAL = 0x88B5
"""An Ethertype for experiments, which `locate` does not read."""


def scapys(*rows: Row, show_keys: bool = False) -> list[str]:
    with Capture(io.BytesIO(pcapng(rows, links=LINKS)), show_keys=show_keys) as opened:
        return [by_scapy(table, row, Presenter(show_keys=show_keys)) for table in opened.tables() for row in range(len(table))]


@few(("upper", "version"), [(GRH, 1), (BTH, 4)], fast=(1,))
def test_scapy_shows_no_packet_that_is_not_read(upper: type, version: int) -> None:
    """Of Scapy's own layers one may know a header that we do not."""
    one = next(iter(FEW.values()))
    data = sent(version)[1][one.name]
    row = whole(LINK_ETHERNET, data[:12] + struct.pack(">H", LOCAL) + data[14 if version == 1 else 42 :])
    bind_bottom_up(Ether, upper, type=LOCAL)
    try:
        (text,), (open_text,) = scapys(row), scapys(row, show_keys=True)
    finally:
        split_bottom_up(Ether, upper, type=LOCAL)
    assert "BTH" not in text and "bytes hidden" in text and shown(text.encode(), [Planted("", one.key, 0, 0)]) == []
    assert "BTH" in open_text and f"0x{int.from_bytes(one.key, 'big'):x}" in open_text


@every("size", [0, 2, 19, 20, 23])
def test_what_scapy_cannot_read_is_no_traceback(size: int) -> None:
    """An IP header whose length is too small for it; whatever Scapy's classes raise."""
    _, data = CARRIERS["raw IP 101"](sent(4)[1]["infiniband.deth.q_key"])
    text = scapys(whole(101, data[:2] + struct.pack(">H", size) + data[4:]))[0]
    assert text.startswith("###[")


def test_what_scapy_raises_is_named() -> None:
    class Broken(Ether):
        def do_dissect(self, s: bytes) -> bytes:
            raise RecursionError("0xdeadbeef")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scapy.layers.l2.Ether", Broken)
        (text,) = scapys(whole(LINK_ETHERNET, bytes(60)))
    assert "(Scapy fails at this frame: RecursionError)" in text and "deadbeef" not in text and "Raw" in text


@pytest.mark.slow
def test_ppp_with_messages_of_a_connection() -> None:
    before, last = sent(4)
    rows = [whole(*CARRIERS["PPP"](data)) for _, data, _ in before] + [whole(*CARRIERS["PPP"](last["rping"]))]
    assert "###[ BTH ]###" in scapys(*rows)[-1] and "r_key" in scapys(*rows)[-1]


def test_erf_records_of_other_types_are_hidden_and_ip_in_them_is_read() -> None:
    """Omni-Path, PPP, a link without a name; metadata carry no packet, but here one is in them."""
    one = FEW[next(iter(FEW))]
    data = sent(4)[1][one.name][14:]
    kinds = {kind: bytes(8) + struct.pack(">BBHHH", kind, 4, 16 + len(data), 0, len(data)) + data for kind in (22, 24, 27, 28, 29)}
    with Capture(io.BytesIO(pcapng([whole(LINK_ERF, record) for record in kinds.values()], links=LINKS))) as opened:
        dumps = {tree.frame: dump(tree) for table in opened.tables() for _, tree in trees(table)}
    told_by = {kind: shown(dumps[frame].encode(), [Planted("", one.key, 0, 0)]) for frame, kind in enumerate(kinds, 1)}
    assert [kind for kind, found in told_by.items() if found] == []
    assert ["BTH" in dumps[frame + 1] for frame in range(len(kinds))] == [True, False, False, False, False]


def test_what_carries_no_packet_is_shown() -> None:
    """LCP, which sets up a link of PPP; LLC; Ethertypes, protocols, ports and ERF metadata of nothing that we know; ping; text over TCP."""
    data, text = sent(4)[1]["infiniband.deth.q_key"][:34], bytes(range(0x20, 0x7F)) * 3
    rows = [whole(LINK_PPP, b"\xff\3\xc0\x21" + text), whole(LINK_IPOIB, bytes(44)), whole(LINK_ETHERNET, data[:12] + b"\0\x40" + text),
            whole(LINK_ETHERNET, data[:12] + b"\x88\xb5" + text), whole(LINK_ERF, bytes(8) + b"\x1b\4\1\x2d\0\0\0\0" + text)]  # fmt: skip
    inside = {99: text, 17: b"\0\x35\0\x35\1\x25\0\0" + text, 1: b"\x08\0\0\0" + text, 6: bytes(12) + b"\x50" + bytes(7) + text}
    rows += [whole(LINK_ETHERNET, data[:23] + bytes([protocol]) + data[24:] + more) for protocol, more in inside.items()]
    with Capture(io.BytesIO(pcapng(rows, links=LINKS))) as opened:
        assert [row for table in opened.tables() for row, tree in trees(table) if tree.secret_bytes] == []
