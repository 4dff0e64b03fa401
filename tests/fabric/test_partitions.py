"""Does a P_Key table accept packets according to seed002 Table 16-2, and give UNKNOWN if incomplete?"""

from __future__ import annotations

import pytest

from ibdissect.engine.ports import KEPT_BLOCKS
from ibdissect.fabric.partitions import PKeys, Verdict

from .made import p_keys


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
