"""A P_Key table accepts packets according to seed002 Table 16-2, and gives UNKNOWN if incomplete."""

from __future__ import annotations

import pytest

from ibdissect.subnet.file_lines import doubtful, file_and_line, line_number
from ibdissect.subnet.p_keys import Member, Membership, PKeys, Verdict, block_of, keys_in

from .made import p_keys

KEPT_BLOCKS = 16


def table(*blocks: bytes) -> PKeys:
    keys = PKeys()
    for number, block in enumerate(blocks):
        keys.learn(number, block, 10 + number)
    return keys


@pytest.mark.parametrize(
    ("entry", "packet", "verdict"),
    [
        (0x1234, 0x1234, Verdict.LIMITED), (0x9234, 0x1234, Verdict.ALLOWED), (0x1234, 0x9234, Verdict.ALLOWED),
        (0x9234, 0x9234, Verdict.ALLOWED), (0x1234, 0x1235, Verdict.ABSENT),
    ],
)  # fmt: skip
def test_membership(entry: int, packet: int, verdict: Verdict) -> None:
    assert table(p_keys(0xFFFF, entry)).judge(packet, 99, 32) == (verdict, (10,))


def test_partly_known_table_never_says_absent() -> None:
    keys = table(p_keys(0xFFFF))
    assert keys.judge(0x1234, 99, 64)[0] is Verdict.UNKNOWN, "a block is missing"
    assert keys.judge(0x1234, 99, None)[0] is Verdict.UNKNOWN, "how long it is, nobody said"
    assert keys.judge(0x1234, 99, 32)[0] is Verdict.ABSENT
    assert table(p_keys(0xFFFF), p_keys()).judge(0x1234, 99, 64) == (Verdict.ABSENT, (10, 11))


@pytest.mark.parametrize("size", [1, 31, 32, 33, 63, 64, 65, 96, 97])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_table_of_any_size_is_known_only_with_its_last_block(size: int, blocks: int) -> None:
    """A table of 33 entries has two blocks, although it fills one and one entry of the next."""
    verdict = table(*[p_keys(0xFFFF)] * blocks).judge(0x1234, 99, size)[0]
    assert verdict is (Verdict.ABSENT if blocks * 32 >= size else Verdict.UNKNOWN)


def test_a_key_in_two_blocks_makes_one_member() -> None:
    assert table(p_keys(0xFFFF, 0x1234), p_keys(0x1234, 0x9234)).members() == {0xFFFF: 10, 0x1234: 10, 0x9234: 11}


def test_by_frame() -> None:
    keys = table(p_keys(0x1234))
    keys.learn(0, None, 20)
    keys.learn(0, p_keys(0x9234), 30)
    assert [keys.judge(0x1234, frame, 32)[0] for frame in (9, 10, 20, 30)] == [
        Verdict.UNKNOWN, Verdict.LIMITED, Verdict.UNKNOWN, Verdict.ALLOWED,
    ]  # fmt: skip
    assert [keys.changes(after) for after in (9, 10, 29, 30)] == [{10, 20, 30}, {20, 30}, {30}, set()]


def test_empty_table_holds_the_default_partition() -> None:
    keys = table(p_keys())
    assert keys.judge(0x7FFF, 99, 32)[0] is Verdict.ALLOWED
    assert keys.judge(0xFFFF, 99, 32)[0] is Verdict.ALLOWED
    assert keys.judge(0x8001, 99, 32)[0] is Verdict.ABSENT


def test_bounded() -> None:
    keys = PKeys()
    for block in range(2000):
        keys.learn(block, p_keys(0xFFFF), 1)
    assert len(keys.blocks) == KEPT_BLOCKS
    assert keys.judge(0x1234, 9, 65535)[0] is Verdict.UNKNOWN


def test_forms_are_those_ever_limited_and_those_full_from_a_frame_on() -> None:
    keys = table(p_keys(0xFFFF, 0x1234, 0x9235), p_keys(0x1236))
    assert keys.forms(10) == ({0x1234, 0x1236}, {0x7FFF, 0x1235})
    assert keys.forms(9)[1] == set(), "the block was shown later"
    keys.learn(0, p_keys(0x9234), 20)
    assert keys.forms(30) == ({0x1234, 0x1236}, set()), "a block that changed may have been anything"


@pytest.mark.parametrize(
    ("base", "keys", "member"),
    [
        (0x1234, (0x1234,), Member.LIMITED), (0x1234, (0x9234,), Member.FULL), (0x1234, (0x1234, 0x9234), Member.FULL),
        (0x1235, (0x1234,), Member.NONE),
        (0x7FFF, (0xFFFF,), Member.FULL), (0x7FFF, (0x8000, 0), Member.FULL), (0x7FFE, (0x8000, 0), Member.NONE), (0x7FFF, (0x0001,),
        Member.NONE),
    ],
)  # fmt: skip
def test_which_member_a_table_makes_its_port(base: int, keys: tuple[int, ...], member: Member) -> None:
    """An empty table acts as if it held the default key; 0 and 0x8000 are no keys."""
    assert table(p_keys(*keys)).member(base, 99, 32) == (member, (10,))
    whole = table(p_keys(*keys)).member(base, 99, None)[0]
    assert whole is (Member.FULL if member is Member.FULL and any(key & 0x8000 and key != 0x8000 for key in keys) else Member.UNKNOWN)


def intended(doubted: int = 0) -> PKeys:
    """partitions.conf gives a port a full key in its line 3, a limited one in line 4 and perhaps one in line 5; line 6 defines another."""
    keys = PKeys()
    lines = {0x9234: line_number(0, 3), 0x1235: line_number(0, 4), 0x9236: doubtful(line_number(0, 5))}
    keys.intended, keys.doubted = Membership(lines, {0x1237: line_number(0, 6)}, line_number(0, 0)), doubted
    return keys


@pytest.mark.parametrize(
    ("base", "member", "line"),
    [
        (0x1234, Member.FULL, 3),
        (0x1235, Member.LIMITED, 4),
        (0x1236, Member.UNKNOWN, 5),
        (0x1237, Member.NONE, 6),
        (0x1238, Member.NONE, 0),
    ],
)
def test_what_a_file_intends(base: int, member: Member, line: int) -> None:
    found, (shown,) = intended().member(base, 50, 32)
    assert (found, file_and_line(shown)) == (member, (0, line))
    assert intended().members() == {0x1235: line_number(0, 4), 0x9234: line_number(0, 3)} and intended().first == line_number(0, 0)


@pytest.mark.parametrize(("doubted", "shown", "holds"), [(0, 51, True), (0, 50, False), (50, 99, False), (51, 99, True), (1, 99, False)])
def test_what_a_file_intends_holds_until_the_table_is_shown_or_doubted(doubted: int, shown: int, holds: bool) -> None:
    keys = intended(doubted)
    keys.learn(0, p_keys(0xFFFF), shown)
    assert (keys.member(0x1234, 50, 32)[0] is Member.FULL) is holds


@pytest.mark.parametrize(
    ("p_key", "verdict"), [(0x9235, Verdict.ALLOWED), (0x1235, Verdict.UNKNOWN), (0x9236, Verdict.UNKNOWN), (0xFFFF, Verdict.ALLOWED)]
)
def test_a_full_key_needs_any_entry_of_the_known_part(p_key: int, verdict: Verdict) -> None:
    assert table(p_keys(0x1235, 0xFFFF)).judge(p_key, 99, 64)[0] is verdict


def test_keys_and_blocks() -> None:
    assert keys_in(None) == [] and keys_in(block_of([1, 0x8002]))[:3] == [1, 0x8002, 0] and len(block_of([])) == 64
    keys = table(p_keys(0xFFFF), p_keys(0x1234))
    assert keys.keys(9) == (set(), set(), ()) and keys.keys(10)[1:] == ({0}, (10,)) and keys.keys(11)[1:] == ({0, 1}, (10, 11))
    assert keys.first == 10 and not any(keys.rewritten(frame) for frame in (9, 10, 11))
    keys.learn(1, p_keys(0x9234), 20)
    assert [keys.rewritten(frame) for frame in (10, 11, 19, 20)] == [False, True, True, False]
    keys.learn(0, None, 30)
    keys.learn(0, p_keys(0x9234), 40)
    assert [keys.rewritten(frame) for frame in (20, 29, 30, 39)] == [False, False, False, False], "a Set stood before it"
    assert keys.first == 10
