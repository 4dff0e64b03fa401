"""M_Keys are checked according to the protect-bits table of the kernel (hw/qib/qib_mad.c)."""

from __future__ import annotations

import pytest

from ibdissect.subnet.m_keys import MKey, MKeyState, hides, refuses
from tests.standard import GET, SET, TRAP_REPRESS

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
    guard = MKeyState()
    guard.learn(MKey(KEY, 2, 15), 1)
    assert guard.check(GET, 0, 1, 0) == MKey(KEY, 2, 15)
    assert guard.check(GET, 0, 1, 14 * SECOND) == MKey(KEY, 2, 15)
    assert guard.check(GET, 0, 1, 15 * SECOND) == MKey(KEY, 0, 15), "the protect bits fall to 0, the key stays"


def test_right_key_stops_the_lease() -> None:
    guard = MKeyState()
    guard.learn(MKey(KEY, 2, 15), 1)
    guard.check(GET, 0, 1, 0)
    assert guard.check(GET, KEY, 1, 10 * SECOND) is None
    assert guard.check(GET, 0, 1, 20 * SECOND) == MKey(KEY, 2, 15)


def test_key_under_way_counts_as_right() -> None:
    guard = MKeyState()
    guard.learn(MKey(KEY, 1, 0), 1)
    guard.pending = WRONG
    assert guard.check(SET, WRONG, 1, 0) is None and guard.check(SET, KEY, 1, 0) is None
    guard.learn(MKey(WRONG, 1, 0), 5)
    assert guard.check(SET, KEY, 1, 0) == MKey(WRONG, 1, 0)
    guard.forget(9)
    assert guard.check(SET, 0, 1, 0) is None


@pytest.mark.parametrize(
    ("lease", "requests", "protect"),
    [
        (15, [0, 15 * SECOND - 1], 2), (15, [0, 15 * SECOND], 0), (15, [0, 8 * SECOND, 15 * SECOND], 0), (15, [7, 15 * SECOND + 6], 2),
        (0, [0, 99 * SECOND], 2),
        (1, [0, SECOND], 0), (1, [5, 5], 2),
    ],
)  # fmt: skip
def test_a_lease_runs_from_the_first_refusal(lease: int, requests: list[int], protect: int) -> None:
    guard = MKeyState()
    guard.learn(MKey(KEY, 2, lease), 1)
    for at in requests:
        held = guard.check(GET, WRONG, 2, at)
    assert held == MKey(KEY, protect, lease)


@pytest.mark.parametrize(
    ("protect", "method", "runs"), [(2, GET, True), (1, GET, False), (1, SET, True), (0, GET, False), (3, GET, True), (2, 0x81, False)]
)
def test_only_a_refusal_starts_the_lease(protect: int, method: int, runs: bool) -> None:
    guard = MKeyState()
    guard.learn(MKey(KEY, protect, 1), 1)
    guard.check(method, WRONG, 2, 5)
    assert (guard.timer.now is not None) is runs
    assert guard.check(SET, WRONG, 3, 9 * SECOND) == MKey(KEY, 0 if runs else protect, 1)


def test_a_port_without_a_key_checks_nothing() -> None:
    guard = MKeyState()
    assert guard.check(SET, WRONG, 1, 0) is None
    guard.learn(MKey(0, 3, 1), 1)
    assert guard.check(SET, WRONG, 1, 0) is None and guard.timer.now is None
