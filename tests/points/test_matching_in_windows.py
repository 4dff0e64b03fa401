"""Packets are matched in windows as they are all at once, and what does not fit is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibdissect.points import matching_in_windows, read_captures

from .world import World, behind, said


def whole_and_windows(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is said of everything at once, and in windows of a few packets."""
    paths = world.write(folder)
    once = said(paths)
    monkeypatch.setattr(read_captures, "BLOCK", 16)
    monkeypatch.setattr(matching_in_windows, "REORDERED_NS", 100_000)
    return once, said(paths, window=50)


@pytest.mark.slow
def test_windows_say_what_the_whole_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses, misses, a mirror, keepalives that repeat, changed packets, a hole, MADs, and a clock that was set."""
    world = World(clocks={"tap": behind(-7_200_000_000_000, 40), "server": behind(3_000_000, -15, {25_000_000: 90_000_000})})
    time = world.conversation(500, gap=60_000, lost={20: "server", 150: "tap", 280: "server"}, missing={30: ["tap"], 133: ["server"]})
    for beat in range(80):
        world.packet(time + 1_000_000 * beat, psn=9_000 + beat % 3, before="server" if beat in (7, 23) else None)
    for psn in range(2_000, 2_040):
        at = time + 90_000_000 + 30_000 * psn
        world.packet(at, psn=psn, payload=bytes(8), changed={"tap": {"p_key": 0x8001}} if psn == 2_020 else None)
    world.seen["tap"] += [(time + 900, frame, number) for time, frame, number in world.seen["tap"][::5]]
    world.seen["server"] = [one for one in world.seen["server"] if not 16_000_000 < one[0] < 17_000_000]
    whole, parts = whole_and_windows(world, tmp_path, monkeypatch)
    assert whole == parts
    assert len(whole["lost"]) == 2 and whole["not_captured"] and any(pair["outside"] for pair in whole["pairs"])
    assert len(whole["points"][2]["clock"]["segments"]) == 2 and any("p_key" in pair["changed"] for pair in whole["pairs"])


@pytest.mark.slow
def test_equal_packets_without_a_pause_are_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CNPs of a congested flow: the same bytes every 50 us, for longer than anything is held; every tenth one is lost."""
    world = World(points=("client", "server"))
    time = world.conversation(60)
    for number in range(3_000):
        world.packet(time + 50_000 * number, back=True, opcode=0x81, payload=bytes(16), before="client" if number % 400 == 399 else None)
    _, parts = whole_and_windows(world, tmp_path, monkeypatch)
    assert any("groups of them were split at their longest gaps." in note for note in parts["notes"])
    numbers = {name: world.numbers(name) for name in world.points}
    for row in parts["packets"]:
        assert len({numbers[name][frame - 1] for name, frame in zip(world.points, row, strict=True) if isinstance(frame, int)}) == 1
    assert {numbers[one["point"]][one["frame"] - 1] for one in parts["lost"]} <= world.lost.keys()


@pytest.mark.slow
def test_frames_far_out_of_order_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(points=("client", "server"))
    world.conversation(300, gap=50_000)
    write = world.write

    def shuffled(folder: Path) -> list[str]:
        paths = write(folder)
        data = Path(paths[1]).read_bytes()
        size = 16 + int.from_bytes(data[24 + 8 : 24 + 12], "little")
        first, rest = data[24 : 24 + size], data[24 + size :]
        Path(paths[1]).write_bytes(data[:24] + rest + first)  # the first packet comes last
        return paths

    monkeypatch.setattr(world, "write", shuffled)
    _, parts = whole_and_windows(world, tmp_path, monkeypatch)
    assert any(note.startswith("1 packet came more than") for note in parts["notes"]) and not parts["lost"]
