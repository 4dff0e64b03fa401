"""Captures are read as a whole, and as a sample that all points share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ibdissect.errors import CaptureError
from ibdissect.points import reading
from ibdissect.points.reading import point_names, read_points

from .world import World, behind


def test_names_of_points() -> None:
    assert point_names(["a/left.pcap.gz", "b/right.x.pcap", "c/left.pcap"]) == ["left#1", "right", "left#3"]


@pytest.mark.parametrize("limit", [40, 200, 10_000])
def test_a_sample_has_all_sightings_of_a_packet(tmp_path: Path, limit: int) -> None:
    world = World(clocks={"tap": behind(-5_000_000)})
    world.conversation(150)
    paths = world.write(tmp_path)
    points, _ = read_points(paths, limit)
    size = sum(len(point.seen) for point in points)
    assert limit // 4 < size <= limit or size == sum(map(len, world.seen.values())) < limit
    assert len({frozenset(point.seen.key.tolist()) for point in points}) == 1
    whole = [np.concatenate([block.frame for block in point.blocks()]) for point in points]
    assert [one.tolist() for one in whole] == [list(range(1, len(world.seen[name]) + 1)) for name in world.points]
    frame, time = points[1].times(5, 9)
    assert frame.tolist() == [5, 6, 7, 8, 9] and (np.diff(time) > 0).all()


@pytest.mark.parametrize("block", [1, 2, 3, 1 << 15])
def test_stamps_of_a_batch_are_known_in_any_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(reading, "BLOCK", block)
    world = World(points=("one",))
    for psn, time in enumerate((0, 5, 5, 5, 9, 11, 11, 14)):
        world.packet(1000 * time, psn=psn)
    (point,), _ = read_points(world.write(tmp_path))
    assert point.seen.own_stamp.tolist() == [True, False, False, False, True, False, False, True]


def test_a_capture_without_rdma(tmp_path: Path) -> None:
    world = World(points=("one",))
    world.packet(0)
    world.seen["one"] = [(0, bytes(60), 0)]
    with pytest.raises(CaptureError, match=r"holds no RDMA packets$"):
        read_points(world.write(tmp_path))
