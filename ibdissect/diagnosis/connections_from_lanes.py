"""Connections put together from lanes and set-ups."""

from __future__ import annotations

from typing import Any

from msgspec import Struct as Record

from ibdissect.decode.addresses import GID_SIZE, IP4_SIZE, LID_SIZE, End, network_bytes
from ibdissect.engine.connection_setups import SetUp

MAPPED = 0xFFFF
"""The upper half of the low 64 bits of an IPv4-mapped GID."""


class Raw(Record):
    """A connection as the engine leaves it: Any are its lanes and halves, compiled or not."""

    setup: SetUp | None
    hosts: tuple[Any, Any]
    lanes: tuple[Any, Any]
    """What ends[0] sends to ends[1], and the other way; None: not captured."""
    requester: int = 0

    @property
    def main(self) -> Any:
        """The direction with the most requests, else with the most answers; None without data."""
        return self.half(self.requester)

    def half(self, side: int) -> Any:
        """The direction in which an end asks; None if there is none."""
        asks, back = self.lanes[side], self.lanes[1 - side]
        return asks.requests if asks is not None and asks.requests is not None else back.answers if back is not None else None

    @property
    def halves(self) -> list[Any]:
        """The directions in which the ends ask, those that there are."""
        return [half for half in (self.half(0), self.half(1)) if half is not None]

    @property
    def crowd(self) -> int:
        """Where one way alone is known: how many lanes may be the other way, and nobody can tell which; 0: there is none."""
        return max((int(lane.crowd) for lane in self.lanes if lane is not None and lane.peer is None), default=0)

    @property
    def picked(self) -> bool:
        """Whether PSNs alone told which of several lanes is the other way."""
        return self.setup is None and any(lane is not None and lane.peer is not None and lane.crowd > 1 for lane in self.lanes)

    @property
    def source(self) -> Any:
        """The host of the requester."""
        return self.hosts[self.requester]

    @property
    def target(self) -> Any:
        """The host of the responder."""
        return self.hosts[1 - self.requester]

    def qpn(self, side: int) -> int | None:
        to = self.lanes[1 - side]
        if to is not None:
            return int(to.qpn)
        return self.setup.qpns[side] if self.setup is not None else None

    @property
    def taken(self) -> tuple[int, int] | None:
        """Frame and time of what shows that its REQ was accepted: the REP if that is captured, else the RTU or a packet; None: nothing."""
        packets = ((int(lane.first_frame), int(lane.first_time)) for lane in self.lanes if lane is not None and lane.packets)
        return (self.setup and (self.setup.rep or self.setup.rtu)) or min(packets, default=None)

    @property
    def first_frame(self) -> int:
        found = [lane.first_frame for lane in self.lanes if lane is not None and lane.packets]
        return int(min([*found, *([self.setup.first_frame] if self.setup is not None else [])]))

    @property
    def first_time(self) -> int:
        found = [lane.first_time for lane in self.lanes if lane is not None and lane.packets]
        return int(min([*found, *([self.setup.first_time] if self.setup is not None else [])]))

    @property
    def last_time(self) -> int:
        found = [lane.last_time for lane in self.lanes if lane is not None and lane.packets]
        return int(max([*found, *([self.setup.last_time] if self.setup is not None else [])]))

    @property
    def last_frame(self) -> int:
        found = [lane.last_frame for lane in self.lanes if lane is not None and lane.packets]
        return int(max([*found, *([self.setup.last_frame] if self.setup is not None else [])]))


def text_of(host: Any) -> str:
    """An address as it is printed."""
    return str(address_of(host))


def address_of(host: Any) -> End:
    """The end that it is in packets."""
    hi, lo, network = int(host.hi), int(host.lo), int(host.network)
    if not hi and lo >> 32 == MAPPED:
        address = (lo & 0xFFFFFFFF).to_bytes(IP4_SIZE, "big")
    else:
        address = lo.to_bytes(LID_SIZE, "big") if not hi and lo < 1 << 16 else (hi << 64 | lo).to_bytes(GID_SIZE, "big")
    return End(address + network_bytes(network))


def assemble(lanes: Any) -> list[Raw]:
    """All connections of a capture that is at its end, in the order of their first frames."""
    found: list[Raw] = []
    of_setup: dict[SetUp, list[Any]] = {}
    for lane in lanes.finish():
        if lane.setup is not None:
            of_setup.setdefault(lane.setup, [None, None])[lane.side] = lane
        elif lane.peer is None:
            if lane.packets:
                found.append(of_lanes(lane, None) if lane.requests is not None else of_lanes(None, lane))
        elif lane.order < lane.peer.order and (lane.packets or lane.peer.packets):
            found.append(of_lanes(lane, lane.peer))
    for setup in lanes.setups.all:
        both = of_setup.get(setup, [None, None])
        hosts = lanes.hosts[*setup.ends[0], setup.network], lanes.hosts[*setup.ends[1], setup.network]
        raw = Raw(setup, hosts, (both[0], both[1]))
        raw.requester = int(busier(raw))
        found.append(raw)
    return sorted(found, key=lambda raw: (raw.first_frame, raw.last_frame))


def of_lanes(lane: Any, back: Any) -> Raw:
    """A connection without connection management: its requester is the first end."""
    hosts = (lane.src, lane.dst) if lane is not None else (back.dst, back.src)
    raw = Raw(None, hosts, (lane, back))
    if busier(raw):
        raw = Raw(None, (hosts[1], hosts[0]), (back, lane))
    return raw


def busier(raw: Raw) -> bool:
    """Whether the second end asks more than the first one."""
    asked = [(half.requests, half.answers) if (half := raw.half(side)) is not None else (0, 0) for side in (0, 1)]
    return asked[1] > asked[0]
