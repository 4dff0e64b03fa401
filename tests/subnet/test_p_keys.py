"""A P_Key table accepts packets according to seed002 Table 16-2, and gives UNKNOWN if incomplete."""

from __future__ import annotations

from typing import Any

from ibdissect.subnet.file_lines import file_and_line
from tests.cases import every
from tests.subnet.files.made_files import subnet_of

from .made import SET, answer, ask, node, p_keys
from .taught import taught

KEPT_BLOCKS, ENTRIES = 16, 32


def written(block: int) -> bytes:
    """Somebody writes a block; until an answer shows it, it is unknown."""
    return ask(5, 0x16, method=SET, modifier=block, body=p_keys(0xFFFF))


def shown(block: int, *keys: int) -> bytes:
    return answer(5, 0x16, p_keys(*keys), modifier=block)


def table(*frames: bytes) -> Any:
    """The table of a port of which frame 9 shows the node, and these frames the blocks."""
    return taught(*[answer(5, 0x11, node(5, partition_cap=0xFFFF))] * 9, *frames).port(5).p_keys


def blocks(*keys: tuple[int, ...]) -> Any:
    """The table with these keys in its blocks, which frames 10, 11, .. show."""
    return table(*(shown(number, *some) for number, some in enumerate(keys)))


@every(
    ("entry", "packet", "verdict"),
    [
        (0x1234, 0x1234, "LIMITED"), (0x9234, 0x1234, "ALLOWED"), (0x1234, 0x9234, "ALLOWED"),
        (0x9234, 0x9234, "ALLOWED"), (0x1234, 0x1235, "ABSENT"),
    ],
)  # fmt: skip
def test_membership(entry: int, packet: int, verdict: str) -> None:
    found, frames = blocks((0xFFFF, entry)).judge(packet, 99, 32)
    assert (found.name, frames) == (verdict, (10,))


def test_partly_known_table_never_says_absent() -> None:
    keys = blocks((0xFFFF,))
    assert keys.judge(0x1234, 99, 64)[0].name == "UNKNOWN", "a block is missing"
    assert keys.judge(0x1234, 99, None)[0].name == "UNKNOWN", "how long it is, nobody said"
    assert keys.judge(0x1234, 99, 32)[0].name == "ABSENT"
    found, frames = blocks((0xFFFF,), ()).judge(0x1234, 99, 64)
    assert (found.name, frames) == ("ABSENT", (10, 11))


@every("size", [1, 31, 32, 33, 63, 64, 65, 96, 97])
@every("number", [1, 2, 3])
def test_a_table_of_any_size_is_known_only_with_its_last_block(size: int, number: int) -> None:
    """A table of 33 entries has two blocks, although it fills one and one entry of the next."""
    verdict = blocks(*[(0xFFFF,)] * number).judge(0x1234, 99, size)[0]
    assert verdict.name == ("ABSENT" if number * ENTRIES >= size else "UNKNOWN")


def test_a_key_in_two_blocks_makes_one_member() -> None:
    assert blocks((0xFFFF, 0x1234), (0x1234, 0x9234)).members() == {0xFFFF: 10, 0x1234: 10, 0x9234: 11}


def test_by_frame() -> None:
    keys = table(shown(0, 0x1234), written(0), shown(0, 0x9234))
    assert [keys.judge(0x1234, frame, 32)[0].name for frame in (9, 10, 11, 12)] == [
        "UNKNOWN", "LIMITED", "UNKNOWN", "ALLOWED",
    ]  # fmt: skip
    assert [keys.changes(after) for after in (9, 10, 11, 12)] == [{10, 11, 12}, {11, 12}, {12}, set()]


def test_empty_table_holds_the_default_partition() -> None:
    keys = blocks(())
    assert [keys.judge(key, 99, 32)[0].name for key in (0x7FFF, 0xFFFF, 0x8001)] == ["ALLOWED", "ALLOWED", "ABSENT"]


def test_bounded() -> None:
    keys = blocks(*[(0xFFFF,)] * (KEPT_BLOCKS + 9))
    assert len(keys.blocks) == KEPT_BLOCKS
    assert keys.judge(0x1234, 99, 65535)[0].name == "UNKNOWN"


def test_forms_are_those_ever_limited_and_those_full_from_a_frame_on() -> None:
    frames = [shown(0, 0xFFFF, 0x1234, 0x9235), shown(1, 0x1236)]
    keys = table(*frames)
    assert keys.forms(10) == ({0x1234, 0x1236}, {0x7FFF, 0x1235})
    assert keys.forms(9)[1] == set(), "the block was shown later"
    keys = table(*frames, shown(0, 0x9234))
    assert keys.forms(30) == ({0x1234, 0x1236}, set()), "a block that changed may have been anything"


@every(
    ("base", "keys", "member"),
    [
        (0x1234, (0x1234,), "LIMITED"), (0x1234, (0x9234,), "FULL"), (0x1234, (0x1234, 0x9234), "FULL"),
        (0x1235, (0x1234,), "NONE"),
        (0x7FFF, (0xFFFF,), "FULL"), (0x7FFF, (0x8000, 0), "FULL"), (0x7FFE, (0x8000, 0), "NONE"), (0x7FFF, (0x0001,),
        "NONE"),
    ],
)  # fmt: skip
def test_which_member_a_table_makes_its_port(base: int, keys: tuple[int, ...], member: str) -> None:
    """An empty table acts as if it held the default key; 0 and 0x8000 are no keys."""
    found, frames = blocks(keys).member(base, 99, 32)
    assert (found.name, frames) == (member, (10,))
    whole = blocks(keys).member(base, 99, None)[0].name
    assert whole == ("FULL" if member == "FULL" and any(key & 0x8000 and key != 0x8000 for key in keys) else "UNKNOWN")


CONF = """# ours
Default=0x7fff : ALL=full ;
A=0x1234 : 0x11=full ;
B=0x1235 : 0x11 ;
C=0x1236 : ALL_SWITCHES=full ;
D=0x1237 : 0x22=full ;
"""
"""A full key in line 3, a limited one in line 4 and perhaps one in line 5; line 6 defines another."""


def intended() -> Any:
    """What partitions.conf gives a port."""
    return subnet_of(("guid2lid", "0x11 0x5 0x5"), ("partitions.conf", CONF)).by_lid(5).p_keys  # type: ignore[union-attr]


@every(
    ("base", "member", "line"),
    [
        (0x1234, "FULL", 3),
        (0x1235, "LIMITED", 4),
        (0x1236, "UNKNOWN", 5),
        (0x1237, "NONE", 6),
        (0x1238, "NONE", 0),
    ],
)
def test_what_a_file_intends(base: int, member: str, line: int) -> None:
    found, (proof,) = intended().member(base, 50, 32)
    assert (found.name, file_and_line(proof)) == (member, (1, line))
    lines = {key: file_and_line(frame)[1] for key, frame in intended().members().items()}
    assert lines.items() >= {0x1235: 4, 0x9234: 3}.items() and 0x9236 not in lines and file_and_line(intended().first) == (1, 0)


@every(("doubted", "shown", "holds"), [(0, 51, True), (0, 50, False), (50, 99, False), (51, 99, True), (1, 99, False)])
def test_what_a_file_intends_holds_until_the_table_is_shown_or_doubted(doubted: int, shown: int, holds: bool) -> None:
    keys = intended()
    keys.doubted = doubted
    keys.learn(0, p_keys(0xFFFF), shown)
    assert (keys.member(0x1234, 50, 32)[0].name == "FULL") is holds


@every(("p_key", "verdict"), [(0x9235, "ALLOWED"), (0x1235, "UNKNOWN"), (0x9236, "UNKNOWN"), (0xFFFF, "ALLOWED")])
def test_a_full_key_needs_any_entry_of_the_known_part(p_key: int, verdict: str) -> None:
    assert blocks((0x1235, 0xFFFF)).judge(p_key, 99, 64)[0].name == verdict


def test_keys_and_blocks() -> None:
    frames = [shown(0, 0xFFFF), shown(1, 0x1234)]
    keys = table(*frames)
    assert keys.keys(9) == (set(), set(), ()) and keys.keys(10)[1:] == ({0}, (10,)) and keys.keys(11)[1:] == ({0, 1}, (10, 11))
    assert keys.first == 10 and not any(keys.rewritten(frame) for frame in (9, 10, 11))
    keys = table(*frames, shown(1, 0x9234), written(0), shown(0, 0x9234))
    assert [keys.rewritten(frame) for frame in (10, 11, 12)] == [False, True, False]
    assert [keys.rewritten(frame) for frame in (12, 13)] == [False, False], "a Set stood before it"
    assert keys.first == 10
