"""Numbers, times and shares as sentences say them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from ibdissect.wire.cm_names import REJ_REASONS

from .connection import ConnectionTimes

NUMBERS = ("no times", "once", "twice", "three times", "four times", "five times", "six times", "seven times", "eight times", "nine times")


def often(number: int) -> str:
    """`eight times`."""
    return NUMBERS[number] if 0 <= number < len(NUMBERS) else f"{number} times"


def reason_said(reason: int | None) -> str:
    """Why a REJ refuses: `reason 28, consumer reject`."""
    if reason is None:
        return "a reason that is cut off"
    name = REJ_REASONS.get(reason, "")
    return f"reason {reason}" + (f", {name if name[:2].isupper() else name[0].lower() + name[1:]}" if name else "")


def nth(number: int) -> str:
    """`2nd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def duration(ns: int) -> str:
    """A time with three digits: `3.82 s`, `61.5 ms`, `12 us`."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)):
        if ns >= size:
            value = ns / size
            return f"{value:.3g} {unit}" if value < 999.5 else f"{value:,.0f} {unit}"
    return f"{ns} ns"


def clock(ns: int, start_ns: int = 0) -> str:
    """A time of the day, in UTC: `12:13:20.504`. `ns`: since 1970; `start_ns`: when the capture begins, so that both times and what lies
    between them are rounded alike."""
    ms = round(start_ns / 1_000_000) + round((ns - start_ns) / 1_000_000)
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%H:%M:%S}.{ms % 1000:03}"


def day(ns: int) -> str:
    """`2026-11-18`. `ns`: since 1970."""
    return f"{datetime.fromtimestamp(ns // 1_000_000_000, UTC):%Y-%m-%d}"


def share(part: int, whole: int) -> str:
    """`41 %`; below one percent with one digit behind the point."""
    value = 100 * part / whole if whole else 0.0
    return f"{value:.0f} %" if value >= 1 or not part else f"{value:.1g} %"


def of_whole(spent: int, times: ConnectionTimes, whose: str = "its") -> str:
    """A part of the time from the first to the last data of one connection, or of several added up."""
    return f"of {whose} {duration(times.span)} ({share(spent, times.span)})"


def sum_of(times: Iterable[ConnectionTimes]) -> ConnectionTimes:
    """The times of several connections, added up."""
    every = [msgspec.structs.astuple(one) for one in times]
    return ConnectionTimes(*map(sum, zip(*every, strict=True))) if every else ConnectionTimes()
