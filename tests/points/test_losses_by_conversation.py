"""The summary of conversations says loss, latency and jitter of each flow."""

from __future__ import annotations

from pathlib import Path

import pytest

from .world import CLIENT_QP, SERVER_QP, UD_SEND, World


def test_each_direction_is_one_line(tmp_path: Path) -> None:
    world = World()
    world.conversation(80, lost={10: "tap", 40: "server"})
    forth, back = world.result(tmp_path)["conversations"]
    assert (forth["source"], forth["destination"], forth["dest_qp"]) == ("10.0.0.1", "10.0.1.2", SERVER_QP)
    assert (forth["from"], forth["to"], forth["lost"], forth["packets"]) == ("client", "server", 2, 84)
    assert (back["from"], back["to"], back["lost"], back["dest_qp"]) == ("server", "client", 0, CLIENT_QP)
    assert 1_300 < forth["latency_ns"]["min"] <= forth["latency_ns"]["p50"] < 2_200 and 0 < forth["jitter_ns"] < 600


@pytest.mark.slow
def test_only_the_largest_are_listed(tmp_path: Path) -> None:
    """Losses count first, then packets; that some are left out is said."""
    world = World(points=("client", "server"))
    time = world.conversation(80, lost={10: "server"})
    for number in range(10_001):
        world.packet(time + 1_000 * number, psn=number, dest_qp=0x1000 + number, opcode=UD_SEND)
    said = world.result(tmp_path)
    assert len(said["conversations"]) == 10_000 and said["conversations"][0]["dest_qp"] == SERVER_QP
    assert {one["dest_qp"]: one["packets"] for one in said["conversations"]}[CLIENT_QP] == 81
    assert "Not listed: 3 conversations with fewest losses and packets." in said["notes"]
