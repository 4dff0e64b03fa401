"""The summary of conversations says loss, latency and jitter of each flow."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.points import conversations, notes

from .world import CLIENT_QP, SERVER_QP, World


def test_each_direction_is_one_line(tmp_path: Path) -> None:
    world = World()
    world.conversation(80, lost={10: "tap", 40: "server"})
    forth, back = world.result(tmp_path)["conversations"]
    assert (forth["source"], forth["destination"], forth["dest_qp"]) == ("10.0.0.1", "10.0.1.2", SERVER_QP)
    assert (forth["from"], forth["to"], forth["lost"], forth["packets"]) == ("client", "server", 2, 84)
    assert (back["from"], back["to"], back["lost"], back["dest_qp"]) == ("server", "client", 0, CLIENT_QP)
    assert 1_300 < forth["latency_ns"]["min"] <= forth["latency_ns"]["p50"] < 2_200 and 0 < forth["jitter_ns"] < 600


@pytest.mark.slow
def test_only_the_largest_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses count first, then packets; that some are left out is said."""
    world = World()
    world.conversation(80, lost={10: "tap"})
    whole = world.result(tmp_path)
    for module in (conversations, notes):
        monkeypatch.setattr(module, "LISTED", 1)
    said = world.result(tmp_path)
    assert said["conversations"] == whole["conversations"][:1] and said["conversations"][0]["dest_qp"] == SERVER_QP
    assert set(said["notes"]) - set(whole["notes"]) == {"Not listed: 1 conversation with fewest losses and packets."}
