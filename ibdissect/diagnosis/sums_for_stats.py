"""Connections counted by cause, and the time of each pair of hosts summed up. Plain data, for `stats`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .connection import Connection
from .text import ORDER
from .time_bars import PARTS, cost


def by_cause(connections: Iterable[Connection]) -> list[dict[str, Any]]:
    """The causes, the worst verdict first, then the most frequent; `no_failure`: redirections, and refusals that were
    made good at once, which texts count beside those that failed; `lost_ns`: the time that trouble took.

    What nobody knows of a connection is not in the sums: `unknown_messages`, `unknown_bytes`, `unknown_times` say of how many.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in connections:
        entry = found.setdefault((one.verdict, one.cause), {
            "verdict": one.verdict, "cause": one.cause, "connections": 0, "no_failure": 0, "messages": 0, "unknown_messages": 0,
            "payload_bytes": 0, "unknown_bytes": 0, "lost_ns": 0, "unknown_times": 0,
        })  # fmt: skip
        messages, octets = one.known_counts["messages"], one.known_counts["payload_bytes"]
        entry["connections"] += 1
        entry["no_failure"] += one.redirected or one.recovered
        entry["messages"] += messages or 0
        entry["unknown_messages"] += messages is None
        entry["payload_bytes"] += octets or 0
        entry["unknown_bytes"] += octets is None
        entry["lost_ns"] += cost(one)
        entry["unknown_times"] += one.times is None and bool(messages is None or messages or octets is None or octets)
    return sorted(found.values(), key=lambda entry: (ORDER[entry["verdict"]], -entry["connections"], entry["cause"]))


def by_hosts(connections: Iterable[Connection]) -> list[dict[str, Any]]:
    """The time of connections by who asks whom, those that lost most first: `span_ns` and its parts, which add up to it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in connections:
        if one.times is None or not one.times.span:
            continue
        ends = one.ends[one.requester].address, one.ends[1 - one.requester].address
        entry = found.setdefault(ends, {
            "source": ends[0], "destination": ends[1], "connections": 0, "lost_ns": 0, "span_ns": 0,
            **{f"{part}_ns": 0 for part, _ in PARTS},
        })  # fmt: skip
        entry["connections"] += 1
        entry["lost_ns"] += cost(one)
        entry["span_ns"] += one.times.span
        for part, _ in PARTS:
            entry[f"{part}_ns"] += getattr(one.times, part)
    return sorted(found.values(), key=lambda entry: (-entry["lost_ns"], -entry["span_ns"], entry["source"], entry["destination"]))
