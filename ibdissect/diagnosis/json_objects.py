"""The JSON of a diagnosis. docs/contract.md promises its keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from .connection import Connection, Diagnosis, SharedCause


def _capture(one: Connection, number: int, diagnoses: Sequence[Diagnosis]) -> dict[str, Any]:
    """Which capture a connection is of, if there are several; of points of the same traffic also what the others have."""
    if one.capture is None:
        return {"capture": number} if len(diagnoses) > 1 else {}
    return {"capture": one.capture, "elsewhere": [*one.elsewhere], "lost": [*one.lost]}


def _captures(diagnoses: Sequence[Diagnosis]) -> list[dict[str, Any]]:
    points = [point for each in diagnoses for point in each.points]
    if points:
        return [
            {"path": one.path, "name": one.name, "frames": one.frames, "start_ns": one.start_ns, "end_ns": one.end_ns,
             "clock_ns": one.clock_ns, "doubt_ns": one.doubt_ns} | ({"notes": [*one.notes]} if one.notes else {})
            for one in points
        ]  # fmt: skip
    return [
        {"path": each.path, "frames": each.frames, "start_ns": each.start_ns, "end_ns": each.end_ns}
        | ({"notes": each.notes} if each.notes else {})
        for each in diagnoses
    ]


def _summary(diagnoses: Sequence[Diagnosis]) -> dict[str, Any]:
    """The causes that connections have in common; `members` counts through the connections of all captures."""
    before = [0, *accumulate(len(each.connections) for each in diagnoses)]
    several = len(diagnoses) > 1
    causes = [
        shared_object(one, before[i]) | ({"capture": i} if several else {}) for i, each in enumerate(diagnoses) for one in each.shared
    ]
    return {"connections": before[-1], "causes": causes}


AT_ONCE = 256
"""Connections whose text is made at a time."""


def json_text(diagnoses: Sequence[Diagnosis]) -> Iterator[str]:
    """The diagnosis of several captures, one after the other; `capture` of a connection is its index if there are several.

    In pieces, with a line for each connection: of many, the whole text would take hundreds of megabytes.
    """
    found = [(i, one) for i, each in enumerate(diagnoses) for one in each.connections]
    yield f'{{"schema": 1, "captures": {_text(_captures(diagnoses))}, "connections": ['
    for first in range(0, len(found), AT_ONCE):
        some = [_text(_connection(one) | _capture(one, i, diagnoses)) for i, one in found[first : first + AT_ONCE]]
        yield ",\n".join(some) + ("," if first + AT_ONCE < len(found) else "")
    yield f'], "summary": {_text(_summary(diagnoses))}}}'


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _connection(one: Connection) -> dict[str, Any]:
    """One connection, with the values that msgspec writes by itself as they are: their fields are the keys."""
    up = one.set_up
    reject = {"reason": up.reason, "nvme_status": up.nvme_status} if up.reason is not None else None
    return {
        "ends": [*one.ends],
        "transport": one.transport, "requester": one.requester, "first_frame": one.first_frame, "last_frame": one.last_frame,
        "verdict": one.verdict, "cause": one.cause, "severity": one.severity, "why": one.why, "advice": one.advice,
        "detail": one.detail, "frames": {"first": one.evidence[0], "decisive": one.evidence[1]},
        "set_up": {"state": up.state, "tries": up.tries, "start_ns": up.start_ns, "established_ns": up.established_ns, "reject": reject},
        "end": {"state": one.end_state, "time_ns": one.end_ns},
        "times_ns": one.times, "counts": one.known_counts, "episodes": [*one.episodes],
        "directions": one.directions, "blamed": one.blamed, "start_ns": one.start_ns, "last_ns": one.last_ns, "since_ns": one.since_ns,
        "until_ns": one.until_ns, "round_trip_ns": one.round_trip_ns,
    }  # fmt: skip


def shared_object(one: SharedCause, before: int = 0) -> dict[str, Any]:
    """A cause that several connections share; `before`: connections of captures that are listed before its own."""
    return {
        "cause": one.cause, "host": one.host, "connections": one.connections, "of": one.of, "why": one.why, "advice": one.advice,
        "members": [before + i for i in one.members], "since_ns": one.since_ns, "until_ns": one.until_ns,
    }  # fmt: skip
