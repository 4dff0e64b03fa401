"""Numbers, times and shares are said as people say them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ibdissect.wire import cm
from tests.cases import every
from tests.diagnosis.lab import US, Lab, spent, told


def lasted(span: int, lost: int = 1) -> str:
    """What is said of the time of a connection, of which time-outs took a part."""
    lab = Lab()
    lab.good(0, 100, 2)
    found = lab.diagnosis()
    return told(replace(found, connections=[spent(found.connections[0], span, timeout=lost, transferring=span - lost)]))


@every(("ns", "text"), [
    (1, "1 ns"), (999, "999 ns"), (1000, "1 us"), (61_530_000, "61.5 ms"), (3_820_000_000, "3.82 s"), (5_000_000_000_000, "5,000 s"),
])  # fmt: skip
def test_durations(ns: int, text: str) -> None:
    assert f"1 connection with data lasted {text}. Of that:" in lasted(ns)


@pytest.mark.parametrize(("lost", "said"), [(410, "  41 %, 410 ns: "), (5, "  0.5 %, 5 ns: "), (1000, "  100 %, 1 us: ")])
def test_shares(lost: int, said: str) -> None:
    assert said in lasted(1000, lost)


@every(("reason", "snap", "said"), [
    (28, 65535, "reason 28, consumer reject"), (1, 65535, "reason 1, no QP available"), (99, 65535, "reason 99"),
    (28, 96, "a reason that is cut off"),
])  # fmt: skip
def test_reasons(reason: int, snap: int, said: str) -> None:
    lab = Lab()
    lab.req(0)
    lab.short(200 * US, cm.REJ_ID, cm.REJ, back=True, reason=reason)
    assert f": {said}" in lab.only(snap).why


@every(("tries", "said"), [(1, "once"), (2, "twice"), (8, "eight times"), (12, "12 times")])
def test_how_often(tries: int, said: str) -> None:
    lab = Lab()
    lab.req(0, tries)
    assert f"sent its REQ {said}" in lab.only().why
