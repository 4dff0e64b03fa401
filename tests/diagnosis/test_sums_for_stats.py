"""Connections are counted by cause, and their time is summed up by hosts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.commands import run
from tests.diagnosis.lab import MS, SEC, TIMEOUT, Lab, joined
from tests.diagnosis.test_text import refused_and_asked_again


def lab() -> Lab:
    good, other, lost = Lab(), Lab(qa=0x112, qb=0x223), Lab(b=bytes([10, 0, 0, 9]))
    good.good(0, 100, 10)
    other.good(MS, 700, 5)
    lost.good(MS, 300, 5)
    for n in range(8):
        lost.ask(SEC + n * TIMEOUT, 305)
    good.good(5 * SEC, 110, 1)
    return joined(good, other, lost)


def sums(lab: Lab, snap: int = 65535) -> dict[str, list[dict[str, Any]]]:
    """What `stats` says of a capture."""
    found = json.loads(run("stats", "-", "--format", "json", stdin=lab.pcap(snap)).stdout)
    return {"causes": found["causes"], "times": found["times"]}


def test_causes_the_worst_first() -> None:
    found = sums(lab())["causes"]
    assert [(one["verdict"], one["cause"], one["connections"], one["messages"]) for one in found] == [
        ("failed", "retries-exhausted", 1, 6), ("healthy", "healthy", 2, 16),
    ]  # fmt: skip
    assert found[0]["lost_ns"] == 7 * TIMEOUT and found[1]["lost_ns"] == 0 and found[1]["payload_bytes"] == 16 * 64


def test_refusals_that_are_no_failures_are_counted() -> None:
    (found,) = [one for one in sums(refused_and_asked_again(2 * MS, others=0))["causes"] if one["cause"] == "refused"]
    assert (found["verdict"], found["connections"], found["no_failure"]) == ("failed", 1, 1)
    (found,) = [one for one in sums(refused_and_asked_again(9 * MS))["causes"] if one["cause"] == "refused"]
    assert (found["connections"], found["no_failure"]) == (1, 0)


@pytest.mark.parametrize(
    ("seen", "cut_at", "unknown"),
    [(None, 65535, (0, 0, 0)), (0x222, 65535, (0, 0, 0)), (0x111, 65535, (1, 1, 0)), (None, 54, (0, 0, 1))],
    ids=["both", "requests", "answers", "cut"],
)
def test_what_is_unknown_is_counted_and_not_summed(seen: int | None, cut_at: int, unknown: tuple[int, ...]) -> None:
    """Of answers alone neither messages nor bytes are known; of answers that are cut off before their AETH, no time."""
    lab = Lab()
    lab.good(0, 100, 5)
    lab.frames = [(time, frame) for time, frame in lab.frames if seen in (None, int.from_bytes(frame[47:50], "big"))]
    (found,) = sums(lab, cut_at)["causes"]
    assert (found["unknown_messages"], found["unknown_bytes"], found["unknown_times"]) == unknown
    assert (found["messages"], found["payload_bytes"]) == ((0, 0) if unknown[0] else (5, 5 * 64))


def test_times_of_hosts_add_up() -> None:
    found = sums(lab())["times"]
    assert [(one["source"], one["destination"], one["connections"]) for one in found] == [
        ("10.0.0.1", "10.0.0.9", 1), ("10.0.0.1", "10.0.0.2", 2),
    ]  # fmt: skip
    for one in found:
        parts = [one[f"{name}_ns"] for name in ("transferring", "ack_wait", "rnr_wait", "loss_recovery", "timeout", "idle_by_application")]
        assert sum(parts) == one["span_ns"]
    assert found[0]["lost_ns"] == found[0]["timeout_ns"] == 7 * TIMEOUT


def test_times_are_of_who_asks_where_they_are_known() -> None:
    """Although the other end set the connection up. Of answers that are cut off before their AETH no time is known."""
    lab, data = Lab(), Lab(a=Lab().b, b=Lab().a, qa=Lab().qb, qb=Lab().qa)
    lab.up()
    data.good(MS, 100, 5)
    (found,) = sums(joined(lab, data))["times"]
    assert (found["source"], found["destination"], found["connections"]) == ("10.0.0.2", "10.0.0.1", 1)
    assert sums(data, 54)["times"] == [] and sums(lab)["times"] == []
