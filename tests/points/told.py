"""What `diagnose --points` tells of the connections of a small world."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.commands import run

from .world import ACK, ACKNOWLEDGE, CLIENT, World, behind

MS = 1_000_000
PSN = 80
"""Of the request that nobody answers, where a conversation begins with 0."""


def silence(
    *, lost: dict[int, str] | None = None, answered: str | None = "", world: World | None = None, qps: tuple[int, int] = (0, 0),
    first: int = 0, start: int = 0,
) -> World:  # fmt: skip
    """A conversation from a PSN on, then a request that is sent eight times. `lost`: the sendings that get lost, and in front of which
    point; `answered`: the server acknowledges those that arrive, which is lost in front of a point; empty: it does not answer."""
    world = world or World(clocks={"tap": behind(-7_200_000_000_000, 40), "server": behind(3_200_417, -12)})
    time, psn = world.conversation(PSN, gap=100_000, qps=qps, psn=first, time=start) + MS, first + PSN
    for n in range(8):
        arrived = world.packet(time, psn=psn, payload=bytes(32), before=(lost or {}).get(n), dest_qp=qps[1])
        if answered:
            world.packet(arrived + 500, back=True, opcode=ACKNOWLEDGE, psn=psn, syndrome=ACK, before=answered, dest_qp=qps[0])
        time += 20 * MS
    world.packet(time + 400 * MS, back=True, opcode=0x64, psn=1, payload=bytes(8))  # the captures go on
    return world


def ends_only() -> World:
    return World(points=("client", "server"))


def sent(world: World) -> list[int]:
    """When the request was sent."""
    return [time for time, frame, _ in world.seen["client"] if frame[26:30] == CLIENT][-8:]


def cut(world: World, name: str, keep: Callable[[int, int], bool]) -> World:
    """Leave out what a point captured; `keep`: by the time, and by how many times the request was sent until then."""
    tries = sent(world)
    world.seen[name] = [one for one in world.seen[name] if keep(one[0], sum(time <= one[0] for time in tries))]
    return world


def told(world: World, folder: Path) -> dict[str, Any]:
    done = run("diagnose", "--points", "--format", "json", *world.write(folder), text=True)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def only(world: World, folder: Path) -> dict[str, Any]:
    """The only connection."""
    (found,) = [one for one in told(world, folder)["connections"] if one["transport"] == "RC"]
    return dict(found)
