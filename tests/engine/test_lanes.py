"""Compiled and interpreted engines tell the same of every capture, and nothing depends on the windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibdissect.capture import records
from ibdissect.diagnosis.connection_follower import ConnectionFollower
from ibdissect.engine import lanes
from ibdissect.pipeline.reading import open_reading
from tests.conftest import REPO, SHARED, shared_captures
from tests.diagnosis.lab import Lab, as_json, diagnosis
from tests.diagnosis.test_causes import CAUSES, NEAR
from tests.engine.plain import plain

CAPTURES = [*sorted((REPO / "captures").glob("*.pcap*")), *shared_captures(), *sorted((SHARED / "public").glob("*.pcap"))]
FRAMES = 20_000


def interpreted() -> ConnectionFollower:
    follower = ConnectionFollower()
    follower.packets.lanes, follower.packets.reader = plain("lanes").Lanes(), plain("packet_fields").PacketReader()
    return follower


def told(path: Path, follower: ConnectionFollower) -> dict[str, Any]:
    """The diagnosis of a capture's first frames as JSON."""
    with open_reading(str(path)) as reading:
        reading.joins = False
        for table in reading.tables(keys=False, until=FRAMES):
            follower.feed(table)
    return as_json([follower.result(path.name)])


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_compiled_and_interpreted_tell_the_same(path: Path) -> None:
    assert told(path, ConnectionFollower()) == told(path, interpreted())


@pytest.mark.parametrize("name", [*CAUSES, *NEAR])
def test_they_tell_the_same_of_each_cause(name: str) -> None:
    lab = Lab()
    (CAUSES[name][2] if name in CAUSES else NEAR[name])(lab)
    data = lab.pcap()
    assert as_json([diagnosis(data)]) == as_json([diagnosis(data, interpreted())])


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "faults").is_dir(), reason="needs ../shared")
def test_nothing_depends_on_the_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    path = SHARED / "faults/roce-both/hub.pcap.gz"
    whole = told(path, ConnectionFollower())
    for rows in (1, 1000):
        monkeypatch.setattr(records, "ROWS", rows)
        assert told(path, ConnectionFollower()) == whole


def test_lanes_are_bounded_and_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.engine.test_pairing import crowd

    for module in (lanes, plain("lanes")):
        monkeypatch.setattr(module, "MAX_LANES", 10)
    follower = interpreted()
    found = diagnosis(crowd(20).pcap(), follower)
    assert len(found.connections) <= 10 and "more queue pairs than are followed" in found.notes[0]


def test_what_waits_for_its_pair_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.engine.test_pairing import crowd

    for module in (lanes, plain("lanes")):
        monkeypatch.setattr(module, "MAX_HELD", 5)
    follower = interpreted()
    found = diagnosis(crowd(20).pcap(), follower)
    assert len(found.connections) == 20 and all(one.cause == "healthy" for one in found.connections)
