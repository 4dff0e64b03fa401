"""The captures that docs/where-was-it-lost.md works on, written by python -m tests.points.lost_packets"""

from __future__ import annotations

from pathlib import Path

from .world import World, behind

FOLDER = Path(__file__).resolve().parents[2] / "docs/examples/lost"


def write(folder: Path) -> list[str]:
    """A client, a tap behind its router, and a server; the tap's clock is two hours slow, and it misses two packets."""
    world = World(clocks={"tap": behind(-7_200_000_000_000, 40), "server": behind(3_200_417, -12)})
    world.conversation(100, gap=2_000_000, lost={12: "server", 40: "tap", 77: "server"}, missing={25: ["tap"], 60: ["tap"]})
    return world.write(folder)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    write(FOLDER)
