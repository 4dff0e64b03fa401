"""The values of a connection are what commands rely on."""

from __future__ import annotations

from ibdissect.diagnosis.connection import ConnectionEnd, ConnectionTimes
from tests.diagnosis.lab import US, Lab


def test_ends_and_times() -> None:
    assert str(ConnectionEnd("LID 7", 0x12)) == "LID 7 QP 0x000012" and str(ConnectionEnd("LID 7", None)) == "LID 7"
    assert [ConnectionEnd("LID 7", qpn).said({"LID 7": "node1 port 1"}.__getitem__) for qpn in (0x12, None)] == [
        "node1 port 1 QP 0x000012",
        "node1 port 1",
    ]
    assert ConnectionTimes(10, idle_by_application=4).busy == 6


def test_who_is_healthy() -> None:
    lab = Lab()
    lab.good(0, 100, 3)
    assert lab.only().healthy
    lab.ask(800 * US, 103)
    lab.answer(810 * US, 103, 0x62)
    assert not lab.only().healthy
