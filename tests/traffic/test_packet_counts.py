"""Counts of the traffic are bounded."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.traffic.packet_counts import BoundedTally


def test_tallies_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr("ibdissect.traffic.packet_counts.MAX_VALUES", 4)
    tally = BoundedTally()
    tally.add(np.arange(10), np.full(10, 100))
    assert len(tally.frames) == 4 and tally.others == [6, 600]
