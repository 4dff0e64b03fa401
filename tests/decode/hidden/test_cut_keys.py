"""No hidden key can be computed from the shown bytes of its frame. A solver of linear equations over the CRCs tries."""

from __future__ import annotations

import io
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import ibdissect
from ibdissect.decode import ChunkTable
from ibdissect.decode.hidden.cut_keys import hidden_bytes, without_keys
from ibdissect.dfilter.compile import compile_filter
from ibdissect.dissect.frame_trees import dissect_row, dissect_rows
from ibdissect.dissect.named_values import reveals_key, runs
from ibdissect.dissect.printers import dump
from ibdissect.dissect.shown_value import Presenter
from ibdissect.dissect.tree import Tree
from ibdissect.wire import crc
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.opcodes import OPCODES
from tests import craft, tunnels
from tests.cases import every
from tests.conftest import a_third_of, shared_captures
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND
from tests.decode.made import ethernet_table, native_table
from tests.fuzz.container import pcapng
from tests.test_secrets import FRAMES, PLANTED, UPPER, Planted

HERE = Path(__file__).parents[3] / "captures"
_WORD = re.compile(r"^ *(\d+) ([0-9A-F*]+)(?: |$)")


def printed(text: str) -> dict[int, int | None]:
    """The bytes that a dump shows, by offset; None for a masked one."""
    found: dict[int, int | None] = {}
    front = False
    for line in text.splitlines():
        front = line == "ERF" if line[:1].isalpha() else front
        word = None if front else _WORD.match(line)
        for i in range(len(word[2]) // 2 if word else 0):
            digits = word[2][2 * i : 2 * i + 2] if word else ""
            found[int(word[1]) + i if word else 0] = None if digits == "**" else int(digits, 16)
    return found


def checks(table: ChunkTable, row: int) -> Iterator[tuple[int, int, int, Callable[[bytes], int]]]:
    """Start, end and place of the bytes that a checksum of the row covers, and how it is computed; offsets in the frame."""
    at = {name: int(table.located.at(name)[row] - table.chunk.offset[row]) for name in ("lrh", "grh", "ip4", "ip6", "icrc", "vcrc")}
    if at["icrc"] >= 0:
        if at["lrh"] >= 0:
            yield at["lrh"], at["icrc"], 4, lambda data: crc.icrc_native(data, at["grh"] >= 0)
        elif at["grh"] >= 0:
            yield at["grh"], at["icrc"], 4, crc.icrc_roce1
        else:
            yield max(at["ip4"], at["ip6"]), at["icrc"], 4, crc.icrc_roce2
    if at["vcrc"] >= 0:
        yield at["lrh"], at["vcrc"], 2, crc.vcrc


def known_bits(table: ChunkTable, row: int, shown: dict[int, int | None]) -> tuple[int, int]:
    """How many bits of the hidden bytes (checksums apart) there are, and how many equations the shown checksums give for them."""
    places = list(checks(table, row))
    sums = {at + i for _, at, size, _ in places for i in range(size)}
    hidden = [at for at, value in shown.items() if value is None and at not in sums]
    rows: list[int] = []
    for start, stop, size, compute in places:
        if any(shown.get(stop + i) is None for i in range(size)):
            continue
        base = bytes(shown.get(at) or 0 for at in range(start, stop))
        zero, columns = compute(base), []
        for at in hidden:
            for bit in range(8):
                flipped = bytearray(base)
                if start <= at < stop:
                    flipped[at - start] ^= 0x80 >> bit
                columns.append(compute(bytes(flipped)) ^ zero)
        rows += [sum((column >> place & 1) << i for i, column in enumerate(columns)) for place in range(size * 8)]
    rank = 0
    while rows:
        pivot = rows.pop()
        if pivot:
            rank += 1
            rows = [row ^ pivot if row & pivot & -pivot else row for row in rows]
    return len(hidden) * 8, rank


def trees(table: ChunkTable) -> Iterator[tuple[int, Tree]]:
    """Rows and trees of a chunk."""
    return dissect_rows(table, Presenter())


def key_frames(path: Path) -> Iterator[tuple[ChunkTable, int, Tree]]:
    """The first two frames with the same layers that have something masked."""
    with ibdissect.open(path) as opened:
        for table in opened.tables():
            seen = Counter[tuple[object, ...]]()
            for row, tree in trees(table):
                shape = tuple((node.label, node.offset, node.length) for node in tree.layers) if tree.secret_bytes else ()
                seen[shape] += 1
                if shape and seen[shape] <= 2:
                    yield table, row, tree


@pytest.mark.parametrize("path", [
    pytest.param(path, marks=[pytest.mark.slow] * (path.name not in ("rxe-rping.pcap", "pkey-lab.pcap")), id=path.name)
    for path in sorted(HERE.glob("*.pcap*"))
])  # fmt: skip
def test_no_equation_for_a_hidden_key_is_shown(path: Path) -> None:
    for table, row, tree in key_frames(path):
        assert known_bits(table, row, printed(dump(tree)))[1] == 0, tree.frame


def test_the_solver_finds_keys_where_checksums_are_shown() -> None:
    """Else the test above could not fail: 32 bits of an R_Key follow from the ICRC."""
    table, row, tree = next(key_frames(HERE / "rxe-rping.pcap"))
    shown = printed(dump(tree))
    icrc = int(table.located.at("icrc")[row] - table.chunk.offset[row])
    shown.update({icrc + i: tree.data[icrc + i] for i in range(4)})
    assert known_bits(table, row, shown) == (32, 32)


def test_filters_and_columns_tell_no_checksum_beside_a_key() -> None:
    with ibdissect.open(HERE / "rxe-rping.pcap") as opened:
        table = next(iter(opened.tables()))
        (run,) = (run for run in runs(table, tuple(table.catalog.fields("infiniband.invariant.crc"))) if len(run.rows))
        told = reveals_key(table, run)
        assert 0 < told.sum() < len(told)
        for text in ("infiniband.invariant.crc >= 0", "infiniband.invariant.crc in {0..0xffffffff}", "infiniband.invariant.crc & 1 == 0"):
            asked = compile_filter(text, hide_keys=True).rows(table)
            assert not asked[run.rows[told]].any(), text
            assert compile_filter(text).rows(table)[run.rows[told]].any(), text
        row = int(run.rows[told][0])
        digits = tree_digits(table, row, int(run.at[told][0]))
        assert not compile_filter(f"frame contains {digits}", hide_keys=True).rows(table)[row]
        assert compile_filter(f"frame contains {digits}").rows(table)[row]


def tree_digits(table: ChunkTable, row: int, at: int) -> str:
    """Four bytes of the chunk, as a filter writes them."""
    return bytes(table.chunk.data[at : at + 4]).hex(":")


@pytest.mark.slow
@pytest.mark.parametrize("path", a_third_of(shared_captures(), 2), ids=lambda path: path.name)
def test_no_equation_in_the_shared_captures(path: Path) -> None:
    test_no_equation_for_a_hidden_key_is_shown(path)


# -- what is hidden, of every declared key


def chunks(rows: list[tuple[int, bytes, int]]) -> list[ChunkTable]:
    """Tables of frames given as link type, bytes and original length."""
    with ibdissect.open(io.BytesIO(pcapng(rows))) as opened:
        return list(opened.tables())


def in_rows(table: ChunkTable) -> Iterator[tuple[int, set[int]]]:
    """Each row of a chunk, and the offsets in its frame of the bytes that are hidden."""
    places = table.shown.once(hidden_bytes)
    assert (places[1:] > places[:-1]).all()
    for row in range(len(table)):
        start = int(table.chunk.offset[row])
        low, high = places.searchsorted([start, start + int(table.chunk.caplen[row])]).tolist()
        yield row, set((places[low:high] - start).tolist())


@pytest.fixture(scope="module")
def whole() -> list[ChunkTable]:
    """A frame for every place of every declared key."""
    return chunks([(LINK_INFINIBAND, data, len(data)) for data in FRAMES])


@pytest.mark.slow
def test_trees_and_bytes_hide_the_same_of_whole_frames(whole: list[ChunkTable]) -> None:
    for table in whole:
        hidden = dict(in_rows(table))
        for row, tree in trees(table):
            assert {at for start, stop in tree.secret_bytes for at in range(start, min(stop, tree.caplen))} == hidden[row], tree.frame


def test_every_key_and_its_checksums_are_hidden_and_nothing_in_front(whole: list[ChunkTable]) -> None:
    keys: dict[int, list[Planted]] = {}
    for key in PLANTED:
        keys.setdefault(key.frame, []).append(key)
    for table in whole:
        blank, places = table.once(without_keys), table.shown.once(hidden_bytes)
        assert not blank[places].any() and not (np.delete(blank, places) != np.delete(table.chunk.data, places)).any()
        sums = {int(at) for name in ("icrc", "vcrc") for at in table.located.at(name)}
        for row, hidden in in_rows(table):
            start, there = int(table.chunk.offset[row]), keys.get(table.chunk.first + row - 1, [])
            for key in there:
                assert hidden >= set(range(key.end - len(key.value), key.end)), key.field
                assert hidden >= {at - start + i for at in sums if start <= at < start + int(table.chunk.caplen[row]) for i in (0, 1)}
            assert not hidden & set(range(8)), "no key is in an LRH"


@pytest.mark.slow
@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("known", [True, False], ids=["cut off by the capture", "short"])
def test_what_is_left_of_a_key_is_hidden(more: int, known: bool) -> None:
    left = [key for key in PLANTED if not key.field.startswith(UPPER)]
    ends = [max(key.end + more, key.end - len(key.value) + 1) for key in left]
    frames = [FRAMES[key.frame] for key in left]
    rows = [(LINK_INFINIBAND, data[:end], len(data) if known else end) for data, end in zip(frames, ends, strict=True)]
    for table in chunks(rows):
        hidden = dict(in_rows(table))
        for row, tree in trees(table):
            key, end = left[tree.frame - 1], ends[tree.frame - 1]
            assert hidden[row] >= set(range(key.end - len(key.value), min(key.end, end))), key.field
            assert hidden[row] >= {at for start, stop in tree.secret_bytes for at in range(start, min(stop, end))}
            assert not hidden[row] & set(range(8))


@pytest.mark.parametrize("words", [13, 20, 100])
def test_payload_of_a_packet_with_a_wrong_length_is_data(words: int) -> None:
    """It may end within a header with a key, so these are hidden, but what an application sends is shown."""
    frame = craft.native(0x04, b"some words of mine..")
    (table,) = chunks([(LINK_INFINIBAND, frame[:4] + words.to_bytes(2, "big") + frame[6:], len(frame))])
    ((_, hidden),) = in_rows(table)
    start = frame.index(b"some")
    assert hidden and not hidden & set(range(start, start + 20))


def test_frames_without_keys_hide_nothing() -> None:
    """Of the frames above with zeros for their keys, neither these nor what is beside them. Malformed frames may hold keys anywhere,
    records of subnet administration in any segment, private data too; nobody reads the data of a Get."""
    blank = {key.frame: bytearray(FRAMES[key.frame]) for key in PLANTED if not key.field.startswith(UPPER)}
    for key in PLANTED:
        if key.frame in blank:
            blank[key.frame][key.end - len(key.value) : key.end] = bytes(len(key.value))
    seen = 0
    for table in chunks([(LINK_INFINIBAND, bytes(data), len(data)) for data in blank.values()]):
        (mgmt_class, there), (method, _) = table.of_rows(MAD.mgmt_class), table.of_rows(MAD.method)
        plain = (table.located.malformed == 0) & (~there | (~np.isin(mgmt_class, [0x03, 0x07, 0x0C]) & (method != 1)))
        for row, hidden in in_rows(table):
            if plain[row]:
                assert not hidden, table.chunk.first + row
                seen += 1
    assert seen > 60


@pytest.mark.parametrize("attr_id", [0x15, 0x11, 0x31])
def test_a_structure_with_a_key_is_cut_one_byte_before_its_end(attr_id: int) -> None:
    table = native_table([craft.smp(0x81, attr_id) if attr_id < 0x30 else craft.gmp(0x03, 0x92, attr_id, b"", at=24)])
    ((mgmt_class, _),) = table.attributes()
    forms = [form.size for form in table.catalog.formats[mgmt_class, 1] if any(field.secret for field in form.fields)]
    carried = [table.catalog.start_of(place) + what.size for place, what in table.catalog.attributes[mgmt_class, attr_id]
               if place.base_version == 1 and any(field.secret for field in what.fields)]  # fmt: skip
    end = int(table.located.at("mad")[0] - table.chunk.offset[0]) + max(forms + carried)
    data = table.chunk.data[table.chunk.offset[0] :][: table.chunk.caplen[0]].tobytes()
    for size, cut in ((end - 1, True), (end, False)):
        (short,) = chunks([(LINK_INFINIBAND, data[:size], len(data))])
        assert [bool(hidden) for _, hidden in in_rows(short)] == [cut], size


def test_the_checksum_of_ethernet_is_hidden_beside_a_key_only() -> None:
    keyed, plain = craft.roce2(0x0A, b"data", ext={"RETH": {"r_key": 0xD1D2D3D4, "dmalen": 4}}), craft.roce2(0x04, b"data")
    (table,) = chunks([(LINK_ETHERNET, data + b"\x5a\x5b\x5c\x5d", len(data) + 4) for data in (keyed, plain)])
    hidden, key = dict(in_rows(table)), keyed.index(b"\xd1\xd2\xd3\xd4")
    of_udp = table.located.at("bth")[0] - table.chunk.offset[0] - 2
    assert hidden[0] == {of_udp, of_udp + 1, *range(key, key + 4), *range(len(keyed) - 4, len(keyed) + 4)} and not hidden[1]


def test_a_key_in_what_is_not_read_is_hidden() -> None:
    """The packet may be one of RoCE. Other packets stay visible: what is read, fragments of ICMP, first fragments to other UDP ports."""
    key = bytes.fromhex("a1b2c3d4")
    frame = craft.roce2(0x0A, bytes(20), ext={"RETH": {"r_key": int.from_bytes(key, "big")}})
    plain = tunnels.ip4(6, bytes(20) + key, 0)

    def changed(kind: str, *places: tuple[int, int]) -> bytes:
        data = bytearray(tunnels.wrapped(kind, frame)[0])
        for at, value in places:
            data[at] = value
        return bytes(data)

    parts = [changed(kind, place) for kind in ("VXLAN", "GRE", "IP in IP") for place in ((20, 0x20), (20, 1), (21, 1))]
    deeper = tunnels.wrapped("GRE", tunnels.wrapped("VXLAN in ERSPAN", frame)[0])[0]
    labels = tunnels.ethernet(0x8847, b"\0\6\x40\x40" * 4 + b"\0\6\x41\x40" + frame[14:])
    unknown = [changed(*each) for each in (("GRE", (35, 1)), ("ERSPAN II", (42, 0x20)), ("VXLAN-GPE", (45, 4)), ("GENEVE", (44, 9)))]
    six = [tunnels.ip6(44, bytes([inside, 0, 0, 9]) + bytes(4) + key, 0) for inside in (6, 17, 47)]
    short = frame[:16] + b"\0\x1b" + frame[18:]  # IPv4 that claims to end within the UDP header
    quoted = frame[14:], tunnels.ip6(17, frame[34:], 0)[18:], tunnels.ip4(17, tunnels.udp(53, bytes(16) + key, 0), 0)[14:]
    errors = [tunnels.ip4(1, b"\3\3" + bytes(6) + quoted[0], 0), tunnels.ip6(58, b"\1\4" + bytes(6) + quoted[1], 0)]
    optional = b"\x46" + quoted[0][1:20] + b"\1\1\1\0" + quoted[0][20:]
    carried = [tunnels.wrapped(kind, frame)[0][14:] for kind in ("VXLAN", "GRE")]
    errors += [tunnels.ip4(1, b"\3\3" + bytes(6) + each, 0) for each in (*carried, optional, *quoted[1:])]
    errors += [tunnels.ip4(1, key, 0, flags=1), tunnels.ip6(44, b"\x3a\0\0\x09\0\0\0\7" + key, 0)]  # a quotation may go on in a fragment
    hidden = [*parts, short, deeper, labels, *unknown, *six, *errors, *(each[:-1] for each in parts)]
    empty = craft.roce2(payload=b"")
    trailers = [tunnels.wrapped(kind, empty)[0] + key for kind in ("IP in IP", "GRE")]
    pings = [tunnels.ip4(1, b"\x08\0" + bytes(6) + b"\x10" * 20 + key, 0)]
    shown = [*trailers, *pings, plain, tunnels.wrapped("VXLAN", plain)[0], tunnels.ip4(17, tunnels.udp(53, key, 0), 0, flags=0x2000)]
    table = ethernet_table([*hidden, *shown])
    data, blank = table.chunk.data, table.once(without_keys)
    for row, start in enumerate(table.chunk.offset.tolist()):
        stop = start + int(table.chunk.caplen[row])
        tree = dissect_row(table, row, Presenter())
        there = data[start:stop].tobytes().index(key)
        assert (key not in blank[start:stop].tobytes()) == (row < len(hidden)) == (key.hex().upper() not in dump(tree)), row
        secret = {at for low, high in tree.secret_bytes for at in range(low, high)}
        assert set(range(there, there + 4)) <= secret if row < len(hidden) else not secret
        sums = [node.text for node in tree.walk() if node.name == "udp.checksum"]
        assert [text.startswith("hidden") for text in sums] == [row < len(hidden)] * len(sums)


@every("r_key", [0xA1B2C3D4, 0])
@every("roce", [False, True])
def test_a_checksum_that_is_cut_off_or_looks_like_payload_is_hidden_beside_a_key(r_key: int, roce: bool) -> None:
    """Each of its bytes gives 8 bits of the key; what an application sends is shown."""
    words = b"some words of mine.."
    native = craft.rc(0x0A, words, ext={"RETH": {"r_key": r_key}})
    frame, link = (tunnels.roce(native), LINK_ETHERNET) if roce else (native[:-2], LINK_INFINIBAND)
    start, icrc, longer = frame.index(b"some"), len(frame) - 4, frame
    for at in (16, 38) if roce else (4,):
        (size,) = struct.unpack_from(">H", frame, at)
        longer = longer[:at] + struct.pack(">H", size + (4 if roce else 1)) + longer[at + 2 :]
    cut = [(link, frame[: icrc + left], len(frame)) for left in range(4)]
    for table in chunks([*cut, (link, longer, len(longer))]):
        hidden = dict(in_rows(table))
        for row, tree in trees(table):
            secret = {at for low, high in tree.secret_bytes for at in range(low, high)}
            last = set(range(icrc, tree.caplen))
            if not r_key:
                assert not hidden[row] & set(range(start, tree.caplen)) and not secret
            elif tree.frame == len(cut) + 1:
                assert hidden[row] >= secret >= set(range(start, tree.caplen))
            else:
                assert last <= hidden[row] & secret and not (hidden[row] | secret) & set(range(start, icrc))
                assert [node.value for node in tree.walk() if node.name == "infiniband.payload"] == [words.hex()]


@every("kind", ["ERSPAN II", "VXLAN", "GRE"])
@every("r_key", [0xA1B2C3D4, 0])
def test_a_checksum_of_a_packet_in_a_tunnel_that_claims_to_be_longer(kind: str, r_key: int) -> None:
    """It may be what a mirror cut: then its payload would end there."""
    frame = tunnels.roce(craft.rc(0x0A, b"some words of mine..", ext={"RETH": {"r_key": r_key}}))
    for at in (16, 38):
        (size,) = struct.unpack_from(">H", frame, at)
        frame = frame[:at] + struct.pack(">H", size + 4) + frame[at + 2 :]
    data = tunnels.wrapped(kind, frame)[0]
    payload = set(range(data.index(b"some"), len(data)))
    for table in chunks([(LINK_ETHERNET, data, len(data))]):
        hidden = dict(in_rows(table))
        for row, tree in trees(table):
            secret = {at for low, high in tree.secret_bytes for at in range(low, high)}
            assert payload <= hidden[row] & secret if r_key else not payload & (hidden[row] | secret)


@pytest.mark.slow
@pytest.mark.parametrize("more", [1, 4, 8, 1000])
@pytest.mark.parametrize("kind", [None, "ERSPAN II", "InfiniBand"])
def test_lengths_that_are_too_large_show_no_more(kind: str | None, more: int) -> None:
    """LRH or IP and UDP say that the packet goes on: a mirror may have cut it, or its checksum stands at the end of what looks like
    payload."""

    def frame(native: bytes, more: int) -> bytes:
        if kind == "InfiniBand":
            words = int.from_bytes(native[4:6], "big") + -(-more // 4)
            return native[:4] + words.to_bytes(2, "big") + native[6:]
        data = tunnels.roce(native)
        ip, udp = (int.from_bytes(data[at : at + 2], "big") + more for at in (16, 38))
        data = data[:16] + ip.to_bytes(2, "big") + data[18:38] + udp.to_bytes(2, "big") + data[40:]
        return tunnels.wrapped(kind, data)[0] if kind else data

    link, checksums = (LINK_INFINIBAND, 6) if kind == "InfiniBand" else (LINK_ETHERNET, 4)
    whole, longer = (chunks([(link, data, len(data)) for data in (frame(one, by) for one in FRAMES)]) for by in (0, more))
    checked = 0
    for before, after in zip(whole, longer, strict=True):
        hidden, then = dict(in_rows(before)), dict(in_rows(after))
        assert kind == "ERSPAN II" or all(then.values()), "no more than of a malformed packet"
        for row, tree in trees(after):
            if hidden[row]:
                sums = set(range(tree.caplen - checksums, tree.caplen))
                secret = {at for low, high in tree.secret_bytes for at in range(low, high)}
                assert hidden[row] | sums <= then[row] and sums <= secret, tree.frame
                checked += 1
    assert checked > 100


def test_a_packet_that_ends_before_its_extended_headers_may_hold_a_key() -> None:
    front, rows, may = LRH.size + BTH.size, [], []
    for opcode in OPCODES:
        data, need = craft.rc(opcode, bytes(8)), front + len(craft.headers_of(opcode))
        for size in range(front, need + 1):
            rows.append((LINK_INFINIBAND, data[:size], len(data)))
            may.append((opcode, size, size < need))
    found = chain.from_iterable([bool(hidden) for _, hidden in in_rows(table)] for table in chunks(rows))
    assert [case for case, one in zip(may, found, strict=True) if one != case[2]] == []
