"""A connection of one point is found among those of another, and the point tells of it that knows most."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ibdissect.diagnosis.connection import Connection, ConnectionEnd, Diagnosis
from ibdissect.points.same_connections import Same, same_connections
from tests.cases import every
from tests.diagnosis.lab import Lab

SEC = 1_000_000_000
_LAB = Lab()
_LAB.good(0, 100, 3)
NOT_CAPTURED = _LAB.only().set_up
"""A set-up of which the capture shows nothing."""


class Shifted(Struct):
    """Clocks of which the second is a second ahead."""

    def on_reference(self, point: int, frames: Any, times: Any) -> Any:
        return times - point * SEC


def connection(cause: str = "healthy", verdict: str = "healthy", **more: Any) -> Connection:
    ends = more.pop("ends", (ConnectionEnd("10.0.0.1", 5), ConnectionEnd("10.0.0.2", 6)))
    severity = {"healthy": "none", "slow": "warning"}.get(verdict, "error")
    values = {"start_ns": 0, "last_ns": SEC, "first_frame": 1, "last_frame": 9, "set_up": NOT_CAPTURED, **more}
    return Connection(
        ends, "RC", 0, cause=cause, verdict=verdict, severity=severity, why="", advice="", evidence=(1, 2), end_state="open", **values,
    )  # fmt: skip


def groups(*points: list[Connection]) -> list[list[int]]:
    """Which points have each."""
    found = same_connections([Diagnosis("", 9, some, [], []) for some in points], Shifted())  # type: ignore[arg-type]
    return [sorted(one.at) for one in found]


def test_ends_set_up_and_time_make_it_the_same() -> None:
    late = {"start_ns": SEC, "last_ns": 2 * SEC}
    one, other = connection(), connection(**late)
    assert groups([one], [other]) == [[0, 1]]
    assert groups([one], [connection(start_ns=9 * SEC, last_ns=10 * SEC)]) == [[0], [1]]
    assert groups([one], [connection(ends=(ConnectionEnd("10.0.0.1", 7), ConnectionEnd("10.0.0.2", 6)), **late)]) == [[0], [1]]
    assert groups([one], [connection(ends=(ConnectionEnd("10.0.0.2", 6), ConnectionEnd("::ffff:10.0.0.1", 5)), **late)]) == [[0, 1]]


def test_two_set_ups_of_one_queue_pair_are_two_connections() -> None:
    up = [replace(NOT_CAPTURED, state="refused", tries=1, id=number) for number in (1, 2)]
    unknown = (ConnectionEnd("10.0.0.1", 5), ConnectionEnd("10.0.0.2", None))
    first = [connection(ends=unknown, set_up=one) for one in up]
    second = [connection(ends=unknown, set_up=one, start_ns=SEC, last_ns=2 * SEC) for one in reversed(up)]
    assert groups(first, second) == [[0, 1], [0, 1]]
    assert groups(first[:1], second[:1]) == [[0], [1]] and groups(first[:1], second[1:]) == [[0, 1]]


@every(("near", "far", "lost", "teller"), [
    (("healthy", "healthy"), ("retries-exhausted", "failed"), False, 0),  # the requester got its answers
    (("retries-exhausted", "failed"), ("healthy", "healthy"), False, 0),
    (("healthy", "healthy"), ("icrc-wrong-at-sender", "odd"), False, 1),  # near the sender the ICRC was not filled in yet
    (("slow-by-loss", "slow"), ("slow-by-reordering", "slow"), False, 1),
    (("slow-by-loss", "slow"), ("slow-by-reordering", "slow"), True, 0),
    (("cannot-tell", "cannot-tell"), ("slow-by-rnr", "slow"), False, 1),
])  # fmt: skip
def test_the_point_tells_that_knows_most(near: tuple[str, str], far: tuple[str, str], lost: bool, teller: int) -> None:
    both = Same({0: connection(*near), 1: connection(*far)})
    assert both.teller([0, 1], lost=lost) == teller
    assert Same({0: connection(*far), 1: connection(*near)}).teller([1, 0], lost=lost) == 1 - teller


def test_one_direction_tells_only_where_nobody_has_both() -> None:
    one_way = connection("retries-exhausted", "failed", directions="requests")
    assert one_way.directions != "both" and Same({0: one_way, 1: connection()}).teller([0, 1], lost=False) == 1
    assert Same({0: one_way}).teller([0, 1], lost=False) == 0
