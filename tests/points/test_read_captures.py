"""Captures are read as a whole, and as a sample that all points share."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.capture import records
from ibdissect.errors import CaptureError
from tests.cases import few

from .world import World, behind, said


@pytest.mark.slow
def test_names_of_points(tmp_path: Path) -> None:
    world = World(points=("a", "b", "c"))
    world.conversation(30)
    names = "a/left.pcap", "b/right.x.pcap", "c/left.pcap"
    for path, name in zip(world.write(tmp_path), names, strict=True):
        (tmp_path / name).parent.mkdir()
        Path(path).rename(tmp_path / name)
    assert [point["name"] for point in said([str(tmp_path / name) for name in names])["points"]] == ["left#1", "right", "left#3"]


@few("limit", [40, 200, 10_000], fast=(0,))
def test_a_sample_has_all_sightings_of_a_packet(tmp_path: Path, limit: int) -> None:
    """So clocks and directions are learnt from packets that are matched, and all packets are."""
    world = World(clocks={"tap": behind(-5_000_000)})
    world.conversation(150, lost={70: "server"})
    found = said(world.write(tmp_path), sample=limit)
    (_, tap, _) = (point["clock"]["segments"] for point in found["points"])
    assert len(tap) == 1 and abs(tap[0]["offset_ns"] + 5_000_000) < 800
    assert [point["frames"] for point in found["points"]] == [len(world.seen[name]) for name in world.points]
    numbers = {name: world.numbers(name) for name in world.points}
    for row in found["packets"]:
        assert len({numbers[name][frame - 1] for name, frame in zip(world.points, row, strict=True) if frame}) == 1
    assert len(found["packets"]) == world.sent and len(found["lost"]) == 1


@pytest.mark.parametrize("rows", [7])
def test_stamps_of_a_batch_are_known_in_any_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """The server stamps the last three requests of four at once, some too early: equal stamps do not bound its clock."""
    world = World(points=("client", "server"))
    for burst in range(20):
        arrived = [world.packet(100_000 * burst + 4_000 * n, psn=4 * burst + n, payload=bytes([burst, n])) for n in range(4)]
        world.packet(arrived[-1] + 9_000, back=True, opcode=0x11, psn=4 * burst + 3, syndrome=0x1F)
        batch = world.seen["server"][-4:-1]
        world.seen["server"][-4:-1] = [(batch[0][0], frame, number) for _, frame, number in batch]
    paths = world.write(tmp_path)
    whole = said(paths)
    monkeypatch.setattr(records, "ROWS", rows)
    assert said(paths) == whole
    assert abs(whole["points"][1]["clock"]["segments"][0]["offset_ns"]) < 1_000


def test_a_capture_without_rdma(tmp_path: Path) -> None:
    world = World(points=("one", "other"))
    world.packet(0)
    world.seen["one"] = [(0, bytes(60), 0)]
    with pytest.raises(CaptureError, match=r"one\.pcap: holds no RDMA packets$"):
        world.result(tmp_path)
