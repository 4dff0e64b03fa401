"""Packets between two LIDs are the same findings, wherever a window ends."""

from __future__ import annotations

from tests.cases import every
from tests.craft import native
from tests.rules.findings import counted
from tests.rules.made.subnets import data, sweep


@every("chunks", [(), (10,), (11,), (1,) * 13])
def test_raw_packets_are_findings_of_their_own(chunks: tuple[int, ...]) -> None:
    """They are judged after the others of a window."""
    raw = native(slid=1, dlid=5, lrh={"lnh": 0, "vl": 3})
    assert counted([*sweep(), raw, data(vl=3), raw, data(vl=3)], "LNK016", chunks=chunks) == [(10, 2), (11, 2)]
