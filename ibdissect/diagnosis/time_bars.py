"""The time of a connection cut into slices by cause, for bars."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct as Record

from ibdissect.engine.episodes import LOSS, PAUSE, REORDERING, RNR, TIMEOUT

from .connection import Connection, Episode

PARTS = (
    ("transferring", "transferring"), ("ack_wait", "waiting for ACKs"), ("rnr_wait", "waiting for receive buffers"),
    ("loss_recovery", "making good losses"), ("timeout", "waiting for time-outs"), ("idle_by_application", "idle"),
)  # fmt: skip
COST = {
    "slow-by-loss": "loss_recovery", "slow-by-reordering": "loss_recovery", "slow-by-rnr": "rnr_wait", "slow-by-timeout": "timeout",
    "slow-by-application": "idle_by_application",
}  # fmt: skip
"""The part of the time that a cause takes."""
KINDS = {"rnr_wait": (RNR,), "loss_recovery": (LOSS, REORDERING), "timeout": (TIMEOUT,), "idle_by_application": (PAUSE,)}
"""Which episodes make a part of the time; the others have none."""


class TimeSlice(Record, frozen=True):
    """A part of a connection's time."""

    part: str
    """Its key: `rnr_wait`."""
    said: str
    """In words: `waiting for receive buffers`."""
    ns: int
    share: float
    """Of the whole, 0 to 1."""


def cost(one: Connection) -> int:
    """The time that trouble took."""
    return one.times.trouble if one.times is not None else 0


def when_of(one: Connection) -> tuple[int | None, int | None]:
    """When what explains a connection began and ended: a cause that takes time lasts from its first episode to its last."""
    found = episodes_in(one, COST.get(one.cause, ""))
    if not found or one.since_ns is None:
        return one.since_ns, one.until_ns
    return min(one.since_ns, found[0].start_ns), max(one.until_ns or one.since_ns, *(each.end_ns for each in found))


def slices(one: Connection) -> list[TimeSlice]:
    """The parts that took time, in the order of `PARTS`; none without data."""
    times = one.times
    if times is None or not times.span:
        return []
    return [TimeSlice(part, said, ns, ns / times.span) for part, said in PARTS if (ns := int(getattr(times, part)))]


def episodes_in(one: Connection, part: str) -> list[Episode]:
    """The episodes that make a part. A loss may show only as a time-out, whose recovery follows it."""
    kinds = KINDS.get(part, ())
    found = [each for each in one.episodes if each.kind in kinds]
    return found or [each for each in one.episodes if part == "loss_recovery" and each.kind == TIMEOUT]


def widths(parts: Sequence[TimeSlice], room: int) -> list[int]:
    """How many of `room` cells each slice has: its share, all of them together; one with an eighth of a cell has one."""
    if not parts or room < len(parts):
        largest = sorted(range(len(parts)), key=lambda i: -parts[i].ns)[: max(room, 0)]
        return [int(i in largest) for i in range(len(parts))]
    found = [max(int(8 * each.share * room >= 1), int(each.share * room)) for each in parts]
    for _ in range(max(sum(found) - room, 0)):  # those that were too small to have one took it from the widest
        found[found.index(max(found))] -= 1
    rests = sorted(range(len(parts)), key=lambda i: found[i] - parts[i].share * room)
    for i in rests[: room - sum(found)]:
        found[i] += 1
    return found
