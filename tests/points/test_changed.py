"""A packet that was changed on the way is matched with itself, and not claimed as lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import few
from tests.craft import flipped

from .world import UD_SEND, World

IP, BTH = 14, 14 + 20 + 8


@few(("at", "name"), [(BTH + 3, "p_key"), (BTH + 12, "payload"), (IP + 19, "address")], fast=(2,))
def test_changed_is_not_lost(tmp_path: Path, at: int, name: str) -> None:
    """PSN 40 is changed in front of the tap, PSN 30 in front of the server, which drops it and asks again; PSN 20 is lost."""
    world = World()
    world.conversation(80, lost={20: "server", 30: "server"})
    numbers = world.numbers("client")
    forty = next(number for _, frame, number in world.seen["client"] if frame[BTH] == 4 and frame[BTH + 11] == 40)
    for point in ("tap", "server"):
        seen = world.seen[point]
        world.seen[point] = [(time, flipped(frame, at, 0x55) if number == forty else frame, number) for time, frame, number in seen]
    thirty = max(world.lost)
    time, frame, _ = next(one for one in world.seen["tap"] if one[2] == thirty)
    world.seen["server"].append((time + 800, flipped(frame, at, 0x55), thirty))
    said = world.result(tmp_path)
    assert [world.numbers(one["point"])[one["frame"] - 1] for one in said["lost"]] == [min(world.lost)]
    changed = {(pair["from"], pair["to"]): pair["changed"].get(name, 0) for pair in said["pairs"]}
    assert changed["client", "tap"] == 1 and changed["tap", "server"] == 1 and changed["client", "server"] == 2
    assert len(said["packets"]) == len(numbers) == world.sent


@pytest.mark.slow
def test_which_became_which(tmp_path: Path) -> None:
    """Two different packets with the same PSN within microseconds, one arrives changed: neither is claimed as lost."""
    world = World(points=("client", "server"))
    end = world.conversation(60)
    for copy in range(2):
        world.packet(end + 50_000 + 2_000 * copy, psn=5_000, payload=bytes([copy]) * 4, before="server")
    world.packet(end + 53_000, psn=5_000, payload=b"else", missing=["client"])
    result = world.result(tmp_path)
    assert not result["lost"] and result["ambiguous"]["losses"] == 2
    assert all("payload" not in pair["changed"] for pair in result["pairs"])


@pytest.mark.parametrize(("payload", "packets_of_other", "changed"), [(b"mine", 10, 0), (b"mine", 1, 1), (b"else", 1, 0)])
def test_two_senders_of_datagrams(tmp_path: Path, payload: bytes, packets_of_other: int, changed: int) -> None:
    """Packets to one queue pair from another address, with the PSNs of the client's, which the client's point does not show; the server's
    misses one of the client's. Without a right ICRC, as in a cut packet, what follows the BTH tells them apart, or that the other address
    sends more than what would be the changed packet."""
    world = World(points=("client", "server"))
    start = world.conversation(60)
    for psn in range(5_000, 5_010):
        missing, time = ["server"] if psn == 5_004 else [], start + 20_000 * (psn - 4_999)
        world.packet(time, psn=psn, opcode=UD_SEND, dest_qp=0x77, payload=b"mine", missing=missing)
        if packets_of_other == 1 and psn != 5_004:
            continue
        world.packet(time + 500, psn=psn, opcode=UD_SEND, dest_qp=0x77, payload=payload, missing=["client"])
        *seen, (at, frame, number) = world.seen["server"]
        world.seen["server"] = [*seen, (at, flipped(frame, IP + 15, 0x55), number)]
    forth = world.result(tmp_path)["pairs"][0]
    assert forth["changed"].get("address", 0) == changed


def test_a_gateway_that_changes_the_address_of_all_packets(tmp_path: Path) -> None:
    """Both addresses have other packets, too: each point misses a few of them. Most are the same, so they are no servers alike."""
    world = World(points=("client", "server"))
    start = world.conversation(60)
    for psn in range(5_000, 5_020):
        missing = ["server"] * (psn == 5_004) + ["client"] * (psn in {5_008, 5_012})
        world.packet(start + 20_000 * (psn - 4_999), psn=psn, opcode=UD_SEND, dest_qp=0x77, payload=b"mine", missing=missing)
        if "server" not in missing:
            *seen, (at, frame, number) = world.seen["server"]
            world.seen["server"] = [*seen, (at, flipped(frame, IP + 15, 0x55), number)]
    assert world.result(tmp_path)["pairs"][0]["changed"]["address"] == 17
