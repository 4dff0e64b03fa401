"""A key stays hidden in its frame when a byte in front of it is changed: a length, a type, a count, a version, a status, a number."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ibdissect import Capture
from ibdissect.decode.hidden.cut_keys import without_keys
from ibdissect.dissect.json_lines import JsonLines
from ibdissect.dissect.printers import dump
from ibdissect.dissect.shown_value import Presenter
from ibdissect.wire import dm
from ibdissect.wire.ulp import iser, rds, rpcrdma, srp
from tests import smc
from tests.acme import connection, message
from tests.cases import few
from tests.craft import build, gmp, mad, ud
from tests.decode.hidden.test_opaque_bytes import SERVICE, sa
from tests.fuzz.container import pcapng
from tests.planted import KEY, SPELLINGS, Rows, ethernet, leaks, mutants, native

DERIVED = """
from ibdissect.wire.column import column
from ibdissect.wire.dialogue import note, summary
from ibdissect.wire.places import DestQP
from ibdissect.wire.spec import Struct, bit, part, secret, uint


class Kp(Struct):
    "A key, and what follows from it."

    prefix, key, section, size = "zz", "kp", "Z", 12
    carried_by = DestQP(0xAC3)
    k = secret(32, "Z_Key", "Key", at="0")
    high = part(k, 31, 16, "High")
    odd = bit(k, 0, "Odd")
    little = secret(32, "Z_Key", "Little Key", at="4", little=True)
    low = part(little, 15, 0, "Low")
    op = uint(32, "Op", at="8", holds="number")
    info = summary("key {k} {high} {odd} {low} op {op}")
    notes = note(k > 0x80000000, "large key"), note(op == 7, "op seven")


sum_ = column(Kp, "sum", Kp.k & 0xFFFF, "Sum")
text = column(Kp, "text", lambda view: hex(view.k), "Text", kind="text")
more = column(Kp, "more", lambda view: view.op + 1, "More")
"""


def words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in numbers)


def nfs(*head: int) -> bytes:
    """An RPC-over-RDMA message whose read list holds the key."""
    return words(*head) + KEY + words(64, 0, 0, 0, 0, 0)


def rds_message(extension: bytes) -> bytes:
    return bytes(16) + words(5, 0) + bytes(8) + extension.ljust(16, b"\0") + b"hello"


def test_the_scanner_finds_every_spelling() -> None:
    for text in ("00a7c3e95b", "5be9c3a7", "c3 e9 5b", "2814634331", "value 42947,", "p8ppww==".lower(), "e9c3a7"):
        assert SPELLINGS.search(text) or text == "p8ppww==", text
    assert not SPELLINGS.search("a7c3 7c3e9 2814634332 142947")
    assert leaks(native(ud(KEY, dest_qp=5, src_qp=5)))


def test_chunk_lists_that_nobody_can_read() -> None:
    """Words that say neither that an entry follows nor that none does, other types and versions of a message, and errors with more."""
    heads = [(1, version, 32, kind, there, 28) for version in (1, 2) for kind in range(7) for there in (0, 1, 2, 256, 0xFFFFFFFF)]
    heads += [(1, 1, 32, 0, *lists, count) for lists in ((0, 2), (0, 256), (0, 0, 2), (0, 0, 256)) for count in (1, 2, 0xFFFF)]
    frames = [message(nfs(*head)) for head in heads if head[1] != 1 or head[3:5] not in ((0, 0), (1, 0))]
    assert leaks(native(*connection(rpcrdma.SERVICE), *frames)) == []


def test_extension_headers_behind_the_end_of_their_list() -> None:
    frames = [message(rds_message(extension)) for extension in (b"\3" + KEY, b"\0\3" + KEY, b"\1\0\0\0\1\0\3" + KEY, b"\7" + KEY)]
    assert leaks(native(*connection(rds.SERVICE), *frames)) == []


def test_messages_of_types_that_nobody_declares() -> None:
    frames = [message(bytes([kind << 4 | 12, 0, 0, 0]) + KEY + bytes(8) + KEY + bytes(56)) for kind in range(16)]
    assert leaks(native(*connection(iser.SERVICE), *frames)) == []


def test_handshakes_of_smc_with_another_type_or_header_length() -> None:
    """But for the types 1 and 4, in which every reader finds something else there."""
    accept = smc.clc(2, build(smc.smc.SMCAccept, gid=smc.gid_of(smc.SERVER), qpn=0x123, buffer_size=3, r_key=int.from_bytes(KEY, "big")))
    whole = smc.segment(accept, answer=True)
    frames = [whole[:46] + bytes([size << 4]) + whole[47:] for size in range(16)]
    frames += [whole[:58] + bytes([n]) + whole[59:] for n in (0, 2, 3, 5, 6, 7)]
    assert leaks(ethernet(*frames)) == []


def test_what_follows_from_a_key_of_a_plugin(tmp_path: Path) -> None:
    plugin = tmp_path / "derived.py"
    plugin.write_text(DERIVED)
    rows = native(*(ud(KEY + KEY + words(op), dest_qp=0xAC3, src_qp=5) for op in (6, 7)))
    assert leaks(rows, plugins=[str(plugin)], trees=[0, 1]) == []
    said = {where.strip() for _, where in leaks(rows, plugins=[str(plugin)], trees=[0], keys=True)}
    assert said, "they are shown on request"


CASES: dict[str, Callable[[], tuple[Rows, bytes, int]]] = {
    "ServiceRecord": lambda: ([], sa(SERVICE), 28),
    "PortInfoRecord": lambda: ([], sa((b"\0\1\1\0" + KEY * 2 + b"\x22" * 56 + bytes(4)) * 2, attribute=0x12, offset=9, length=164), 28),
    "RPC": lambda: (native(*connection(rpcrdma.SERVICE)), message(nfs(1, 1, 32, 0, 1, 28)), 20),
}  # fmt: skip
"""Frames before it, a frame with a key, and where its headers begin that say where the key is: a MAD, or a payload."""


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_every_byte_in_front_of_a_key(name: str) -> None:
    """But class and attribute of a MAD: they say that something else is there."""
    context, frame, begin = CASES[name]()
    frames = [data for _, data in mutants(frame, begin, skip=() if context else (begin + 1, begin + 16, begin + 17))]
    assert len(frames) > 200 and leaks([*context, *native(*frames)]) == []


SHELVES = """
from ibdissect.wire.places import Mad
from ibdissect.wire.spec import Struct, nested, rest, secret, uint
from ibdissect.wire.tail import repeat


class Entry(Struct):
    "An entry with a key."

    prefix, key, section, size = "zz", "entry", "Z", 8
    op = uint(32, "Op", at="0", holds="number")
    k = secret(32, "Z_Key", "Entry Key", at="4")


class Shelf(Struct):
    "A record with a list behind it."

    prefix, key, section, size = "zz", "shelf", "Z", 8
    carried_by = Mad(3, 0xFF10)
    count = uint(32, "Count", at="0")
    op = uint(32, "Op", at="4", holds="number")
    body = rest("Body", at="8")
    entries = repeat(nested(Entry, "Entry"), count=count)
"""


def test_an_offset_without_room_for_the_tails_of_records(tmp_path: Path) -> None:
    """The second segment has only entries of the list; read as records, each would have a list of none, and its key in a field."""
    plugin = tmp_path / "shelves.py"
    plugin.write_text(SHELVES)
    data = words(48, 7) + (words(0) + KEY) * 48
    for offset in (2, 24):
        parts = ((1, 3, data[:200], 440), (2, 5, data[200:], 212))
        frames = [sa(part, attribute=0xFF10, rmpp=(1, 1, flags), number=number, length=length, offset=offset)
                  for number, flags, part, length in parts]  # fmt: skip
        assert leaks(native(*frames), plugins=[str(plugin)], trees=[0, 1]) == [], offset


@few(("formats", "out", "into", "more"), [(0x11, 0, 0, 0), (0x20, 2, 0, 0), (0x22, 2, 1, 4)], fast=(0, 2))
def test_descriptors_of_srp_with_other_formats_and_counts(formats: int, out: int, into: int, more: int) -> None:
    """Counts, formats and the length of the CDB that contradict the descriptors of a command."""
    entry, number = build(dm.ServiceEntry, service_name="SRP.T10:0002C90300001234", service_id=0x2C9), 0x2C9
    one = b"\x11" * 8 + KEY + b"\x22" * 4
    table = one + words(0x2000)
    body = bytes(more) + {0x11: one * 2, 0x20: table + one * 2, 0x22: table + one * 2 + table + one}[formats]
    heads = [(formats ^ flip, out, into, more) for flip in (0, 1, 2, 3, 16, 32, 48, 64, 128, 255)]
    heads += [head for flip in (1, 2, 4, 64, 255) for head in ((formats, out ^ flip, into, more), (formats, out, into ^ flip, more))]
    heads += [(formats, out, into, more ^ flip) for flip in range(0, 64, 4)]
    commands = [build(srp.SRPCommand, type=2, buffer_formats=kinds, data_out_count=outs, data_in_count=ins, additional_cdb_length=length)
                for kinds, outs, ins, length in heads]  # fmt: skip
    context = [gmp(0x06, 0x81, 0x0012, entry, at=64), *connection(number)]
    assert leaks(native(*context, *(message(command + body) for command in commands))) == []
    assert leaks(native(*context, message(commands[0] + body)), keys=True), "they are read"


FORM = """
from ibdissect.words import Mad, MadFormat, Struct, raw, secret, uint


class Form(Struct, prefix="zz", key="form", section="Z", carried_by=MadFormat(0x0B)):
    head = raw(24, "Head", at="0")
    k = secret(64, "Z_Key", "Form Key", at="24")
    data = raw(224, "Data", at="32")


class Attribute(Struct, prefix="zz", key="attribute", section="Z", carried_by=Mad(0x0B, 0x77)):
    number = uint(32, "Number", at="0", holds="number")
    k = secret(32, "Z_Key", "Attribute Key", at="4")
"""


@pytest.mark.slow
def test_a_plugins_form_of_a_class_decides_where_attributes_lie(tmp_path: Path) -> None:
    """Although we declare one, too; also in a frame that is cut off."""
    plugin = tmp_path / "form.py"
    plugin.write_text(FORM)
    frame = ud(mad(0x0B, 0x81, 0x77, KEY + KEY + words(7) + KEY))
    rows = [(link, data[:size], len(data)) for link, data, _ in native(frame) for size in (len(frame), *range(54, 76))]
    assert leaks(rows, plugins=[str(plugin)], trees=range(len(rows))) == []
    with Capture(io.BytesIO(pcapng(rows)), plugins=[str(plugin)]) as opened:
        column = opened.table()["zz.attribute.number"]
    assert column.frame.tolist()[:1] == [1] and set(column.value.tolist()) == {7}


UNALIGNED = """
from ibdissect.words import DestQP, Struct, secret, uint


class Half(Struct, prefix="zz", key="half", section="Z", carried_by=DestQP(0xAC3)):
    first = uint(4, "First", at="0[0]", holds="number")
    k = secret(32, "Z_Key", "Half Key", at="0[4]")
    last = uint(4, "Last", at="4[4]", holds="number")
    more = secret(5, "Y_Key", "More", at="5[0]")
    rest_ = uint(3, "Three", at="5[5]", holds="number")
"""


def test_a_key_that_does_not_begin_with_a_byte_is_hidden_to_its_last_bit(tmp_path: Path) -> None:
    plugin = tmp_path / "half.py"
    plugin.write_text(UNALIGNED)
    shown = []
    for key in (0xA7C3E95B, 0x17C3E95D):
        frame = ud((9 << 36 | key << 4 | 6).to_bytes(5, "big") + bytes([key & 0x1F << 3 | 5]), dest_qp=0xAC3, src_qp=5)
        with Capture(io.BytesIO(pcapng(native(frame))), plugins=[str(plugin)]) as opened:
            (table,) = opened.tables()
            blank = table.once(without_keys)
            shown.append((*JsonLines(Presenter()).lines(table, np.arange(1)), dump(opened.dissect(1)), blank.tobytes()))
    assert shown[0] == shown[1]
