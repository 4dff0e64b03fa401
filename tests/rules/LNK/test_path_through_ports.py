"""Packets and the ports at both ends: each packet is counted once."""

from __future__ import annotations

from tests.craft import native
from tests.rules.findings import counted
from tests.rules.made.subnets import data, sweep


def test_packets_on_a_lane_that_no_link_has_are_counted_once() -> None:
    raw = native(slid=1, dlid=5, lrh={"lnh": 0, "vl": 3})
    assert counted([*sweep(), data(vl=3), raw, data(vl=3)], "LNK016") == [(10, 2), (11, 1)]
