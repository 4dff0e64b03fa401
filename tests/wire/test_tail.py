"""Declared lists, choices, texts and what follows them are found where the bytes say, the same in every output, and never beyond."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ibdissect
from ibdissect.decode import ChunkTable
from ibdissect.errors import PluginError, SpecError
from ibdissect.wire.tail_walk import MOST_FIXED, walk
from ibdissect.words import Struct, UdpPort, case, choice, kept, nested, optional, pad, raw, repeat, rest, secret, text, text_until, uint
from tests import commands, planted
from tests.cases import every
from tests.craft import LINK_INFINIBAND, erf_pcap, mad, ud
from tests.fuzz.container import pcapng
from tests.wire import listed

PLUGIN = Path(listed.__file__)
KEY = bytes.fromhex("cafebabe")
POINTS = b"\1\0\7" + b"\2\1\0"
LOCK = b"\1\x08\0\x09" + KEY
NOTE = b"\2\x05\2hi" + b"\0\0\0"
ADDED = b"\4\4\0\x2a"
PACKED = (1 << 31 | 0x2ABC << 4 | 5).to_bytes(4, "little")


def body(
    *, points: bytes = POINTS, count: int = 2, more: bytes = b"\0\0\0\x11", tlvs: bytes = LOCK + NOTE + ADDED, end: bytes = b""
) -> bytes:
    head = bytes([count, 0x80 if more else 0]) + len(tlvs).to_bytes(2, "big") + PACKED
    return head + points + b"\0\7" + more + tlvs + b"\0\1\0\2" + b"abc" + b"spine\0leaf\0"


def frame(data: bytes) -> bytes:
    found = bytearray(mad(0x32, 0x81, 0x0300, data, at=40, size=256))
    found[37:40] = listed.OUI.to_bytes(3, "big")
    return ud(bytes(found))


def opened(*frames: bytes, caplens: Sequence[int | None] = (None,), **options: Any) -> ibdissect.Capture:
    rows = [(LINK_INFINIBAND, data[:caplen], len(data)) for data in frames for caplen in caplens]
    return ibdissect.open(io.BytesIO(pcapng(rows)), plugins=[str(PLUGIN)], **options)


def printed(command: str, path: Path, *options: str) -> str:
    done = commands.run(command, "--plugin", str(PLUGIN), str(path), *options)
    assert done.returncode == 0, done
    return done.stdout.decode().strip()


def found(data: bytes) -> dict[str, list[tuple[int, int]]]:
    """Start and end of each part."""
    walked, tail = walk(listed.Listed, data, 0, len(data)), listed.Listed.tail
    assert tail is not None
    return {part.field.name: walked.parts.get(id(part), []) for part in tail.parts} | {"whole": [(walked.whole, walked.stop)]}


def test_parts_lie_behind_each_other() -> None:
    data = body()
    assert found(data) == {
        "points": [(8, 11), (11, 14)], "behind": [(14, 16)], "more": [(16, 20)], "tlvs": [(20, 28), (28, 36), (36, 40)],
        "numbers": [(40, 42), (42, 44)], "blob": [(44, 47)], "names": [(47, 52), (53, 57)], "whole": [(True, len(data))],
    }  # fmt: skip


def test_a_view_gives_the_values_of_all_parts() -> None:
    data = b"\xff" * 5 + body()
    head = listed.Listed(data, 5, len(data))
    assert [(point.kind, point.distance) for point in head.points] == [(1, 7), (2, 256)]
    assert (head.behind, head.more, head.numbers, head.blob, head.names) == (7, 17, (1, 2), b"abc", ("spine", "leaf"))
    assert [tlv.value for tlv in head.tlvs] == [LOCK[2:], b"\2hi", b"\0\x2a"]
    assert (head.low, head.middle, head.top) == (5, 0x2ABC, True)


def test_an_optional_part_takes_no_bytes_where_it_is_absent() -> None:
    data = body(more=b"")
    head = listed.Listed(data, 0, len(data))
    assert (head.more, head.numbers) == (None, (1, 2))
    assert found(data)["more"] == []


def test_a_list_ends_before_the_entry_that_ends_it() -> None:
    data = body(tlvs=ADDED + b"\xff\4\0\0" + ADDED)
    assert found(data)["tlvs"] == [(20, 24)]
    assert found(data)["numbers"] == [(32, 34), (34, 36)]  # behind all bytes of the list


def test_nothing_is_read_beyond_the_bytes_that_are_there() -> None:
    data = body()
    for cut in range(len(data)):
        walked, there = walk(listed.Listed, data, 0, cut), walk(listed.Listed, data[:cut], 0, cut)
        assert all(0 <= at <= stop <= cut for places in walked.parts.values() for at, stop in places), cut
        assert walked.whole == (cut >= data.index(b"spine")) and there.parts == walked.parts, cut


@every(("tlvs", "kept"), [
    (b"\1\x09" + LOCK[2:], [(20, 28)]), (ADDED + b"\4\x05\0\x2a", [(20, 24), (24, 28)]), (ADDED + b"\4\1\0\0", [(20, 24), (24, 28)]),
    (ADDED + b"\4", [(20, 24)]),
])  # fmt: skip
def test_an_entry_that_does_not_fit_ends_the_walk(tlvs: bytes, kept: list[tuple[int, int]]) -> None:
    """One byte beyond its list, a length below its header: its header is shown; half a header is not."""
    places = found(body(tlvs=tlvs))
    assert (places["tlvs"], places["numbers"], places["whole"][0][0]) == (kept, [], False)


@pytest.mark.slow
def test_a_list_without_progress_or_end_is_not_read_for_ever() -> None:
    class Endless(Struct):
        key, size = "endless", 2
        count = uint(16, "Count")
        many = repeat(uint(8, "One"), count=count)

    data = b"\xff\xff" + bytes(70000)
    assert Endless.tail is not None
    walked = walk(Endless, data, 0, len(data))
    assert [len(places) for places in walked.parts.values()] == [65535]
    assert walked.whole and not walked.why
    walked = walk(Endless, data[:102], 0, 102)
    assert [len(places) for places in walked.parts.values()] == [100]
    assert (walked.whole, walked.why) == (False, "One should have 65,535 entries, 100 are there")


@pytest.mark.parametrize("count", [
    0, MOST_FIXED + 1, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, MOST_FIXED - 1, MOST_FIXED)),
])  # fmt: skip
@pytest.mark.parametrize("entry", ["number", "key", "text"])
def test_no_more_entries_of_one_size_than_a_pdu_has_bytes(entry: str, count: int) -> None:
    """What is left over is skipped where it holds numbers only; keys and texts may lie in others, so the structure is not whole."""

    class Counted(Struct):
        key, size = "counted", 4
        number = uint(32, "Number")
        many = repeat({"number": uint(8, "One"), "key": secret(8, "K", "One"), "text": raw(1, "One")}[entry], count=number)
        last = uint(8, "Last")

    data = count.to_bytes(4, "big") + bytes(count) + b"\x07"
    assert Counted.tail is not None
    found = walk(Counted, data, 0, len(data))
    assert len(found.parts[id(Counted.tail.parts[0])]) == min(count, MOST_FIXED)
    over = count > MOST_FIXED
    assert found.why == ("the first 65,536 entries of One are shown, 1 more are not" if over and entry != "number" else "")
    assert found.whole == (entry == "number" or not over) and Counted(data).last == (7 if found.whole else None)


class Sized(Struct):
    """An entry that says its size."""

    key, size = "sized", 2
    kind = uint(8, "Kind")
    length = uint(8, "Length")
    value = raw(length, "Value")


class Named(Struct):
    """An entry that ends where a text in it ends, so that it is walked through."""

    key, size = "named", 1
    kind = uint(8, "Kind")
    name = text_until(b"\0", "Name")


@every(
    ("entry", "count", "data", "entries", "whole", "why"),
    [
        (Sized, 2, b"\0\1a\0\1b", 2, True, ""), (Sized, 3, b"\0\1a\0\1b", 2, False, "Entry should have 3 entries, 2 fit"),
        (Sized, None, b"\0\1a\0\2b", 2, False, ""), (Sized, None, b"\0\1a\0\1b", 2, True, ""), (Sized, 0, b"\0\1a", 0, True, ""),
        (Sized, None, b"\0\1a\0", 1, False, "Entry number 2 does not fit into the 1 bytes that are left"),
        (Sized, None, b"\0", 0, False, "Entry number 1 does not fit into the 1 bytes that are left"),
        (Named, None, b"\1a\0\2b\0", 2, True, ""), (Named, 3, b"\1a\0\2b\0", 2, False, "Named needs 1 bytes, 0 are there"),
    ],
)  # fmt: skip
def test_why_a_list_ends_early(entry: type[Struct], count: int | None, data: bytes, entries: int, whole: bool, why: str) -> None:
    """An entry that begins and does not fit says so itself."""

    class Lists(Struct):
        key, size = "lists", 1
        number = uint(8, "Number")
        many = repeat(nested(entry, "Entry"), count=count)

    assert Lists.tail is not None
    found = walk(Lists, b"\0" + data, 0, 1 + len(data))
    assert (len(found.parts[id(Lists.tail.parts[0])]), found.whole, found.why) == (entries, whole, why)


def test_a_structure_without_room_says_what_it_needs() -> None:
    class Two(Struct):
        key, size = "two", 2
        number = uint(16, "Number")

    class Holds(Struct):
        key, size = "holds", 1
        kind = uint(8, "Kind")
        skip = raw(kind, "Skip")
        body = choice(kind, {0: Two, 1: Two, 2: Two}, "Body")

    said = [walk(Holds, bytes([size]) + bytes(size), 0, size + 1 + more).why for size, more in ((0, 1), (1, 0), (1, 1), (2, 2))]
    assert said == ["Two needs 2 bytes, 1 are there", "Two needs 2 bytes, 0 are there", "Two needs 2 bytes, 1 are there", ""]


def test_what_is_read_by_an_earlier_message_says_so() -> None:
    class Hello(Struct):
        key, size = "hello", 1
        version = uint(8, "Version")

    class Reply(Struct):
        key, size = "reply", 1
        first = uint(8, "First")
        body = raw(kept(Hello.version), "Body")

    class Known(Struct):
        key, size = "known", 1
        first = uint(8, "First")
        data = rest("Data")
        body = raw(kept(Hello.version), "Body")

    assert Reply.fields[-1].label == "Variable part (read by infiniband.hello.version)" and Known.data.label == "Data"


def test_nothing_is_derived_from_a_structure_of_variable_size() -> None:
    with pytest.raises(SpecError, match="Longer: is derived from Sized, which ends with parts of variable size"):
        type(Struct)("Longer", (Sized,), {"key": "longer", "more": raw(Sized.length, "More")})


def nodes(capture: ibdissect.Capture, name: str) -> list[str]:
    return [node.text for node in capture.dissect(1).walk() if node.name == name]


@pytest.mark.slow
def test_tree_filter_columns_and_export_agree(tmp_path: Path) -> None:
    path = tmp_path / "listed.pcap"
    path.write_bytes(erf_pcap([frame(body())]))
    expected: dict[str, list[Any]] = {
        "listed.point.distance": [7, 256], "listed.head.behind": [7], "listed.head.more": [17], "listed.lock.since": [9],
        "listed.note.note": ["hi"], "listed.added.number": [42], "listed.head.numbers": [1, 2],
        "listed.head.name": ["spine", "leaf"], "listed.head.middle": [0x2ABC],
    }  # fmt: skip
    with opened(frame(body())) as capture:
        for name, want in expected.items():
            assert [text.split()[0] for text in nodes(capture, name)] == [str(value) for value in want], name
            for value in want:
                said = f'"{value}"' if isinstance(value, str) else str(value)
                assert capture.table().filter(f"{name} == {said}").frames().tolist() == [1], name
            wrong = '"none"' if isinstance(want[0], str) else "77"
            assert capture.table().filter(f"{name} == {wrong}").frames().tolist() == [], name
    names = [word for name in expected for word in ("-e", name)]
    assert printed("show", path, *names).split("\t") == [",".join(map(str, want)) for want in expected.values()]
    lines = printed("export", path, "--format", "csv", "--output", "-", *names)
    for value in ("spine", "leaf", str(0x2ABC), "256", "42"):
        assert value in lines, value


HIDDEN = (
    body(tlvs=b"\1\x09" + LOCK[2:]),  # the length is one too large
    body(tlvs=b"\x09\x08" + LOCK[2:]),  # a type that nobody declares
    body(tlvs=b"\1\x0c\0\x09\0\0" + KEY + bytes(2)),  # the key is not where the structure has it, and bytes are left over
    body(count=9, points=POINTS + bytes(6) + KEY),
    body(count=3),
)  # fmt: skip


@pytest.mark.slow
def test_a_key_behind_what_cannot_be_read_is_hidden() -> None:
    masked, clear = (told(*map(frame, HIDDEN), keys=keys) for keys in (False, True))
    assert [half for half in ("cafe", "babe") for text in masked if half in text] == []
    assert all("cafebabe" in text for text in clear)


def told(*frames: bytes, caplens: Sequence[int | None] = (None,), keys: bool = False) -> list[str]:
    """What is shown of each frame, as text with hex digits."""
    rows = [(LINK_INFINIBAND, data[:caplen], len(data)) for data in frames for caplen in caplens]
    return planted.shown(rows, plugins=[str(PLUGIN)], alone=[0], keys=keys)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_key_that_the_capture_cuts_is_hidden(step: int) -> None:
    said = told(frame(body()), caplens=range(90, 140, step))
    assert [half for half in ("cafe", "babe") for text in said if half in text] == []


def test_scrub_keeps_numbers_and_replaces_keys_in_lists(tmp_path: Path) -> None:
    path, after = tmp_path / "listed.pcap", tmp_path / "after.pcap"
    path.write_bytes(erf_pcap([frame(body())]))
    printed("scrub", path, "--output", str(after))
    assert KEY not in after.read_bytes() and b"spine" not in after.read_bytes()
    kept = {"listed.point.distance": "7,256", "listed.head.behind": "7", "listed.lock.since": "9", "listed.head.numbers": "1,2",
            "listed.added.number": "42", "listed.tlv.length": "8,5,4"}  # fmt: skip
    kept |= {"listed.note.note": "no", "listed.head.name": "names,name"}  # of a substitute what has room; marks stay
    assert printed("show", after, *(word for name in kept for word in ("-e", name))).split("\t") == [*kept.values()]


def test_rules_and_tables_see_the_same_occurrences() -> None:
    with opened(frame(body()), frame(body(count=1, points=POINTS[:3]))) as capture:
        table = next(iter(capture.tables()))
        assert isinstance(table, ChunkTable)
        points = table.occurrences(table.catalog.fields("listed.point.distance")[0].owner)
        assert points.rows.tolist() == [0, 0, 1]
        struct = next(one for one in table.catalog.structs if one.__name__ == "Listed")
        assert [len(table.view(struct, i).points) for i in range(2)] == [2, 1]
        assert [table.view(struct, i).blob for i in range(2)] == [b"abc", b"abc"]


WRONG = {
    "a size of another structure": (lambda: {"a": uint(8, "A"), "b": raw(listed.Listed.count, "B")}, "b: depends on 'count', which is no"),
    "a size that comes later": (lambda: (lambda c: {"b": raw(c, "B"), "c": c})(uint(8, "C")), "b: depends on "),
    "an offset behind a list": (
        lambda: (lambda c: {"c": c, "b": raw(c, "B"), "d": uint(8, "D", at="9")})(uint(8, "C")),
        "d: follows a part of",
    ),
    "a size that is text": (lambda: {"a": uint(8, "A"), "b": repeat(uint(8, "B"), count="a")}, "b: 'a' is neither"),
    "rest before": (lambda: (lambda c: {"c": c, "r": rest("R"), "d": uint(8, "D"), "b": raw(c, "B")})(uint(8, "C")), "r: holds the rest"),
    "rest between": (lambda: (lambda c: {"c": c, "b": raw(c, "B"), "r": rest("R"), "d": uint(8, "D")})(uint(8, "C")), "r: holds the rest"),
    "no whole bytes": (lambda: (lambda c: {"c": c, "b": raw(c, "B"), "d": uint(4, "D")})(uint(8, "C")), "middle of a byte"),
}


@every("name", WRONG)
def test_a_wrong_declaration_is_refused(name: str) -> None:
    made, message = WRONG[name]
    with pytest.raises(SpecError) as caught:
        type(Struct)("Wrong", (Struct,), {"key": "wrong", "prefix": "listed", "carried_by": UdpPort(7), **made()})
    assert message in str(caught.value)


def test_a_case_of_what_is_no_choice_is_refused() -> None:
    with pytest.raises(PluginError, match=r"ListedPoint\.distance is no choice"):
        case(listed.ListedPoint.distance, 1)


def test_a_structure_in_itself_ends() -> None:
    class Nest(Struct):
        key, size = "nest", 1
        count = uint(8, "Count")
        inner = repeat(uint(8, "X"), count=count)

    class Outer(Struct):
        key, size = "outer", 1
        present = uint(8, "Present")
        nest = optional(present, nested(Nest, "Nest"))
        kind = uint(8, "Kind")
        chosen = choice(kind, {1: Nest}, "Chosen")
        last = text_until(b"\n", "Last")
        word = text(kind, "Word")

    data = b"\1" + b"\2ab" + b"\1" + b"\1c" + b"line\n" + b"w"
    outer = Outer(data, 0, len(data))
    assert (outer.nest.inner, outer.chosen, outer.last, outer.word) == ((97, 98), b"\1c", "line", "w")
    data = b"\0" + b"\1" + b"\1c" + b"line\n" + b"w"
    outer = Outer(data, 0, len(data))
    assert (outer.nest, outer.chosen, outer.last, outer.word) == (None, b"\1c", "line", "w")


class Offsets(Struct):
    """Two parts whose places the structure gives, in bytes that have a name."""

    prefix, key, section, size = "listed", "offsets", "tests", 4
    names_at = uint(8, "Names At")
    names_size = uint(8, "Names Size")
    count = uint(8, "Count")
    _1 = pad(8)
    data = rest("Data")
    numbers = repeat(uint(8, "Number"), count=count)
    names = repeat(text_until(b"\0", "Name"), at=names_at, size=names_size)


@every(("names_at", "names", "whole"), [
    (6, ("a", "b"), True), (7, ("", "b"), True), (4, ("\1\2a", "b"), True), (3, None, False), (10, (), False), (11, None, False),
])  # fmt: skip
def test_parts_at_an_offset_in_bytes_with_a_name(names_at: int, names: tuple[str, ...] | None, whole: bool) -> None:
    """Beside the bounds: in the head, at the end, behind it."""
    data = bytes((names_at, 0 if names_at == 10 else 10 - names_at if 4 <= names_at < 10 else 1, 2, 0)) + b"\1\2a\0b\0"
    view = Offsets(data)
    assert (view.data, view.numbers) == (data[4:], (1, 2))
    assert walk(Offsets, data, 0, len(data)).whole == (whole or names == ())
    assert view.names == (() if not names else tuple(name for name in names if name))
    outside = f"Name should start at byte {names_at}, outside of Offsets"
    assert walk(Offsets, data, 0, len(data)).why == ("" if names or names == () else outside) == walk(Offsets, b"-" + data, 1, 11).why
    assert Offsets.data.filter_name == "listed.offsets.data"


def test_lists_of_sized_entries_are_found_as_by_a_walk_through_each() -> None:
    from random import Random

    class Sized(Struct, prefix="flat", key="sized"):
        kind = uint(8, "Kind")
        length = uint(8, "Length")
        value = raw(length - 2, "Value", align=2)
        more = raw(kind & 1, "More")

    class Lists(Struct, prefix="flat", key="lists"):
        count = uint(8, "Count")
        counted = repeat(nested(Sized, "Counted"), count=count)
        ended = repeat(nested(Sized, "Ended"), until=Sized.kind == 9)
        last = repeat(nested(Sized, "Last"))

    random, seen = Random(46), set()
    tail = Lists.tail
    assert tail is not None and all(part.flat is not None for part in tail.parts)
    for _ in range(400):
        entries = bytes(random.choice((0, 1, 2, 3, 4, 4, 5, 9, 200)) for _ in range(random.randrange(60)))
        data = bytes([random.randrange(5)]) + entries
        quick = walk(Lists, data, 0, len(data))
        kept = [part.flat for part in tail.parts]
        for part in tail.parts:
            part.flat = None
        slow = walk(Lists, data, 0, len(data))
        for part, one in zip(tail.parts, kept, strict=True):
            part.flat = one
        assert (quick.stop, quick.whole, quick.parts, quick.marks) == (slow.stop, slow.whole, slow.parts, slow.marks), data
        seen.add((quick.whole, bool(quick.marks), len(quick.parts)))
    assert len(seen) > 4, "of each kind"


def test_what_is_no_word_of_the_language_is_said() -> None:
    with pytest.raises(SpecError, match="must be bytes"):
        text_until("x", "T")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"is no field; write repeat\(nested\(Struct"):
        repeat(Struct, count=1)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="1: 5 is no structure"):
        choice(uint(8, "A"), {1: 5}, "B")  # type: ignore[dict-item]
