"""What does the JSON of a diagnosis hold? docs/contract.md promises its keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .connection import Connection, Diagnosis, SharedCause

TIMES = ("span", "transferring", "ack_wait", "rnr_wait", "loss_recovery", "timeout", "idle_by_application")
COUNTS = ("messages", "payload_bytes", "packets_sent_again", "naks", "rnr_naks", "cnps", "ce")


def diagnosis_object(diagnoses: Sequence[Diagnosis]) -> dict[str, Any]:
    """Of several captures, one after the other; `capture` of a connection is its index if there are several."""
    several = len(diagnoses) > 1
    connections = [
        connection_object(one) | ({"capture": i} if several else {}) for i, each in enumerate(diagnoses) for one in each.connections
    ]
    return {
        "schema": 1,
        "captures": [{"path": each.path, "frames": each.frames} | ({"notes": each.notes} if each.notes else {}) for each in diagnoses],
        "connections": connections,
        "summary": {
            "connections": len(connections),
            "causes": [shared_object(one) | ({"capture": i} if several else {}) for i, each in enumerate(diagnoses) for one in each.shared],
        },
    }


def connection_object(one: Connection) -> dict[str, Any]:
    """One connection as plain data."""
    up = one.set_up
    reject = {"reason": up.reason, "nvme_status": up.nvme_status} if up.reason is not None else None
    return {
        "ends": [{"address": end.address, "qpn": end.qpn} for end in one.ends],
        "transport": one.transport, "requester": one.requester, "first_frame": one.first_frame, "last_frame": one.last_frame,
        "verdict": one.verdict, "cause": one.cause, "severity": one.severity, "why": one.why, "advice": one.advice,
        "detail": one.detail, "frames": {"first": one.evidence[0], "decisive": one.evidence[1]},
        "set_up": {"state": up.state, "tries": up.tries, "start_ns": up.start_ns, "established_ns": up.established_ns, "reject": reject},
        "end": {"state": one.end_state, "time_ns": one.end_ns},
        "times_ns": {name: getattr(one.times, name) for name in TIMES} if one.times is not None else None,
        "counts": {name: getattr(one.counts, name) for name in COUNTS},
        "episodes": [
            {"kind": e.kind, "start_ns": e.start_ns, "end_ns": e.end_ns, "packets_sent_again": e.packets_sent_again} for e in one.episodes
        ],
        "directions": one.directions, "blamed": one.blamed,
    }  # fmt: skip


def shared_object(one: SharedCause) -> dict[str, Any]:
    return {"cause": one.cause, "host": one.host, "connections": one.connections, "of": one.of, "why": one.why}
