"""A small world with the truth, for tests of several capture points: client, router, server, points."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ibdissect.capture.writing import CaptureWriter
from ibdissect.points.comparison import Comparison
from ibdissect.points.findings import point_faults
from ibdissect.points.result import packets, result
from tests.craft import LINK_ETHERNET, roce2

START = 1_790_000_000_000_000_000
SEND_ONLY, ACKNOWLEDGE, UD_SEND = 0x04, 0x11, 0x64
ACK, NAK = 0x1F, 0x60
CLIENT, SERVER = bytes([10, 0, 0, 1]), bytes([10, 0, 1, 2])
CLIENT_QP, SERVER_QP = 0x44, 0x45
Clock = Callable[[int], int]


class Fault(NamedTuple):
    """A finding of a rule of points, and whether it is sure."""

    sure: bool
    words: dict[str, str]
    """What its message says."""


def said(paths: Sequence[str], **window: int) -> dict[str, Any]:
    """What `ibdissect points --packets --format json` says of captures but for findings; in this process: a command takes twice as long."""
    found = Comparison(paths, **window)
    return {**result(found), "packets": [*packets(found)]}


def faults(paths: Sequence[str]) -> list[dict[str, list[Fault]]]:
    """The findings for each of several captures, by code."""
    of_points = point_faults(Comparison(paths))
    return [{code: [Fault(one.sure, one.arguments) for one in found] for code, found in one.by_rule.items()} for one in of_points]


@dataclass
class World:
    """Packets pass `points` in this order from client to server, and the other way back; a router lies behind the first point."""

    points: tuple[str, ...] = ("client", "tap", "server")
    clocks: dict[str, Clock] = field(default_factory=dict)
    """The point's own clock by true time, both in nanoseconds from the start."""
    random: random.Random = field(default_factory=lambda: random.Random(1))
    seen: dict[str, list[tuple[int, bytes, int]]] = field(default_factory=dict)
    """For each point: true time, bytes, number of the packet."""
    hop: int = 700
    """Shortest time from one point to the next, in nanoseconds."""
    sent: int = 0
    lost: dict[int, str] = field(default_factory=dict)
    """Number of each lost packet and the point in front of which it was lost."""

    def packet(
        self, time: int, *, back: bool = False, before: str | None = None, missing: Collection[str] = (), twice: Collection[str] = (),
        apart: int = 1_000, changed: dict[str, dict[str, Any]] | None = None, **what: Any,
    ) -> int:  # fmt: skip
        """Send a packet; it is lost in front of point `before`, and not recorded by those in `missing`. The time of its arrival.

        Points in `twice` get it again `apart` nanoseconds later; `changed`: what is different from a point on.
        """
        number, self.sent = self.sent, self.sent + 1
        for name in reversed(self.points) if back else self.points:
            if name == before:
                self.lost[number] = name
                break
            routed = (name == self.points[0]) == back
            what |= (changed or {}).get(name, {})
            for again in range(1 + (name in twice) if name not in missing else 0):
                self.seen.setdefault(name, []).append((time + apart * again, _frame(back, 63 if routed else 64, **what), number))
            time += self.hop + int(self.random.expovariate(1 / 150))
        return time

    def conversation(
        self, count: int, *, time: int = 0, gap: int = 20_000, lost: dict[int, str] | None = None,
        missing: dict[int, Collection[str]] | None = None, psn: int = 0, qps: tuple[int, int] = (0, 0),
    ) -> int:  # fmt: skip
        """SENDs from a PSN on, each acknowledged. `qps`: of client and server, if not theirs. `lost`: PSN -> point in front of which its
        first copy is lost: the server asks for it with a NAK when the next one comes, and the client goes back. The time of the last
        packet."""
        again: set[int] = set()
        stop, (client, server) = psn + count, qps
        while psn < stop:
            before = (lost or {}).get(psn) if psn not in again else None
            asked = {"psn": psn, "payload": psn.to_bytes(4, "big") * 8, "dest_qp": server}
            arrived = self.packet(time, before=before, missing=(missing or {}).get(psn, ()), **asked)
            if before is not None:
                again |= {psn}
                arrived = self.packet(time + 2_000, psn=psn + 1, payload=(psn + 1).to_bytes(4, "big") * 8, dest_qp=server)
                time = 15_000 + self.packet(arrived + 500, back=True, opcode=ACKNOWLEDGE, psn=psn, syndrome=NAK, dest_qp=client)
                continue
            self.packet(arrived + 500, back=True, opcode=ACKNOWLEDGE, psn=psn, syndrome=ACK, dest_qp=client)
            time += gap
            psn += 1
        return time

    def write(self, folder: Path) -> list[str]:
        """One capture per point, in order of time."""
        paths = []
        for name in self.points:
            paths.append(str(folder / f"{name}.pcap"))
            with CaptureWriter(paths[-1]) as writer:
                for time, frame, _ in sorted(self.seen.get(name, [])):
                    own = self.clocks.get(name, lambda now: now)(time)
                    writer.write(frame, link=LINK_ETHERNET, time_ns=START + own)
        return paths

    def result(self, folder: Path) -> dict[str, Any]:
        """What is said of the captures."""
        return said(self.write(folder))

    def faults(self, folder: Path) -> list[dict[str, list[Fault]]]:
        """What the rules of points find in the capture of each point, by code."""
        return faults(self.write(folder))

    def numbers(self, name: str) -> list[int]:
        """The number of the packet in each frame of a point."""
        return [number for _, _, number in sorted(self.seen[name])]


@lru_cache(1 << 14)
def _frame(
    back: bool, ttl: int, *, opcode: int = SEND_ONLY, psn: int = 0, payload: bytes = b"", syndrome: int | None = None, p_key: int = 0xFFFF,
    flipped: int = 0, ecn: int = 0, dest_qp: int = 0,
) -> bytes:  # fmt: skip
    """`flipped`: a mask for the last byte of the payload that the ICRC does not know of."""
    ends = {"source": SERVER, "destination": CLIENT} if back else {"source": CLIENT, "destination": SERVER}
    ext = {} if syndrome is None else {"AETH": {"syndrome": syndrome, "msn": psn}}
    bth = {"psn": psn, "destqp": dest_qp or (CLIENT_QP if back else SERVER_QP), "a": int(not back), "p_key": p_key}
    frame = bytearray(roce2(opcode, payload, ext=ext, bth=bth, ip={"ttl": ttl, "dsfield": ecn, **ends}))
    frame[-5] ^= flipped
    return bytes(frame)


def behind(offset: int, drift_ppm: float = 0.0, steps: dict[int, int] | None = None) -> Clock:
    """A clock with an offset, a drift, and steps: true time -> nanoseconds."""
    return lambda time: time + offset + round(drift_ppm * 1e-6 * time) + sum(by for at, by in (steps or {}).items() if time >= at)
