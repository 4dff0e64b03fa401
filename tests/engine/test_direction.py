"""The time between two packets is counted for the state after the first."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.engine import packet_kinds
from tests.cases import every
from tests.engine.plain import plain


def direction() -> Any:
    return plain("direction").Direction(plain("waiting_packets").Path(plain("waiting_packets").Room()))


@every(
    ("state", "asks", "name"),
    [
        (packet_kinds.IDLE, True, "idle"), (packet_kinds.TRANSFERRING, True, "transferring"), (packet_kinds.BUSY, True, "transferring"),
        (packet_kinds.RECOVERY, False, "loss_recovery"), (packet_kinds.WAITING, False, "rnr_wait"),
    ],
)  # fmt: skip
def test_each_state_has_its_time(state: int, asks: bool, name: str) -> None:
    one = direction()
    one.spend(1000, True)
    one.state = state
    one.spend(1500, asks)
    parts = {part: getattr(one, part) for part in ("idle", "transferring", "loss_recovery", "rnr_wait", "timeout")}
    assert parts == dict.fromkeys(parts, 0) | {name: 500} and not one.gaps.count
    one.unasked = True
    one.spend(1700, True)
    assert one.timeout == 200 and not one.unasked


def test_what_an_answer_ends_is_a_gap() -> None:
    one = direction()
    one.spend(1000, True)
    one.state = packet_kinds.BUSY
    one.spend(1007, False)
    assert one.gaps.classes() == [(7, 1, 7)]


@pytest.mark.parametrize(
    ("gap", "pauses"), [(packet_kinds.PAUSE_NS - 1, []), (packet_kinds.PAUSE_NS, [1000, 1000 + packet_kinds.PAUSE_NS])]
)
def test_a_pause_is_long(gap: int, pauses: list[int]) -> None:
    one = direction()
    one.spend(1000, True)
    one.spend(1000 + gap, True)
    assert one.idle_times() == pauses and one.idle == gap


def test_psns_count_on_from_those_sent_last() -> None:
    one = direction()
    one.front = (1 << 24) + 5
    assert [one.unwrap(psn) for psn in (5, 0, 0xFFFFFF)] == [(1 << 24) + 5, 1 << 24, (1 << 24) - 1]


def test_lists_are_counted_when_they_changed() -> None:
    one = direction()
    whole = one.path.room.entries
    one.holes.append([1, 2])
    one.account()
    assert one.path.room.entries == whole
    one.listed = True
    one.account()
    assert (one.path.room.entries, one.held, one.listed) == (whole - 1, 1, False)
