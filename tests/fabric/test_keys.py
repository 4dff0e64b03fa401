"""Are M_Keys checked according to the protect-bits table of the kernel (hw/qib/qib_mad.c)?"""

from __future__ import annotations

import pytest

from ibdissect.fabric.keys import Guard, MKey, hides, refuses
from ibdissect.wire.numbers import GET, SET, TRAP_REPRESS

KEY, WRONG, SECOND = 0x1122, 0xBAD, 1_000_000_000


@pytest.mark.parametrize("protect", range(4))
@pytest.mark.parametrize("presented", [0, WRONG])
def test_wrong_keys(protect: int, presented: int) -> None:
    held = MKey(KEY, protect, 0)
    assert refuses(held, GET, presented) is (protect >= 2)
    assert refuses(held, SET, presented) and refuses(held, TRAP_REPRESS, presented)
    assert not refuses(held, 0x81, presented) and not refuses(held, 0x05, presented), "answers and traps are never checked"
    assert hides(held, presented) is (protect == 1)


@pytest.mark.parametrize("protect", range(4))
@pytest.mark.parametrize("method", [GET, SET, TRAP_REPRESS])
def test_right_key_or_none(protect: int, method: int) -> None:
    assert not refuses(MKey(KEY, protect, 0), method, KEY)
    assert not refuses(MKey(0, protect, 0), method, WRONG), "a port without a key checks nothing"
    assert not hides(MKey(KEY, protect, 0), KEY)


def test_lease_runs_out() -> None:
    guard = Guard()
    guard.learn(MKey(KEY, 2, 15), 1)
    assert guard.check(GET, 0, 1, 0) == MKey(KEY, 2, 15)
    assert guard.check(GET, 0, 1, 14 * SECOND) == MKey(KEY, 2, 15)
    assert guard.check(GET, 0, 1, 15 * SECOND) == MKey(KEY, 0, 15), "the protect bits fall to 0, the key stays"


def test_right_key_stops_the_lease() -> None:
    guard = Guard()
    guard.learn(MKey(KEY, 2, 15), 1)
    guard.check(GET, 0, 1, 0)
    assert guard.check(GET, KEY, 1, 10 * SECOND) is None
    assert guard.check(GET, 0, 1, 20 * SECOND) == MKey(KEY, 2, 15)


def test_key_under_way_counts_as_right() -> None:
    guard = Guard()
    guard.learn(MKey(KEY, 1, 0), 1)
    guard.pending = WRONG
    assert guard.check(SET, WRONG, 1, 0) is None and guard.check(SET, KEY, 1, 0) is None
    guard.learn(MKey(WRONG, 1, 0), 5)
    assert guard.check(SET, KEY, 1, 0) == MKey(WRONG, 1, 0)
    guard.forget(9)
    assert guard.check(SET, 0, 1, 0) is None
