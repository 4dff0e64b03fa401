"""Links between ports, shown by directed routes, and what becomes uncertain when a link is lost."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.engine.ports import forget_volatile

from .model import Subnet
from .nodes import SWITCH, Port


def connect(near: Port, far: Port, frame: int) -> tuple[tuple[Port, Port], ...]:
    """Link two ports, as a frame left by `near` and entered by `far`; returns the links that this ends."""
    if near.peer is far and far.peer is near:
        near.peer_frame = far.peer_frame = frame
        return ()
    lost = []
    for port in (near, far):
        if port.peer is not None:
            lost.append((port, port.peer))
            disconnect(port, frame)
    near.face(far, frame)
    far.face(near, frame)
    return tuple(lost)


def disconnect(port: Port, frame: int) -> Port | None:
    """End a port's link; returns its peer. Adapter ports at either end may be restarting, so their keys become uncertain."""
    peer = port.peer
    port.face(None, frame)
    port.cut = frame
    if peer is None:
        return None
    peer.cut = frame
    if peer.peer is port:
        peer.face(None, frame)
    for end in (port, peer):
        if end.node.kind != SWITCH:
            forget_volatile(end, frame)
    return peer


def links(subnet: Subnet) -> Iterator[tuple[Port, Port]]:
    """Every known link once, first the end that was found first."""
    seen: set[int] = set()
    for port in subnet.ports():
        peer = port.peer
        if peer is not None and id(port) not in seen:
            seen.add(id(peer))
            yield port, peer


class ConnectedComponents:
    """Which ports do known cables and switches join? Adapters and routers join none: they may have ports in several subnets.

    To be asked when the capture has ended.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        """By identity of a port, a number that it shares with all ports of its island."""

    def join(self, subnet: Subnet, one: Port, other: Port) -> bool:
        """Whether two ports of the subnet are in one island."""
        if not self._numbers:
            for number, port in enumerate(subnet.ports()):
                self._walk(port, number)
        return self._numbers.get(id(one), -1) == self._numbers.get(id(other), -2)

    def _walk(self, start: Port, number: int) -> None:
        fresh, switches = [start], set[int]()
        while fresh:
            port = fresh.pop()
            if self._numbers.setdefault(id(port), number) != number:
                continue
            if port.node.kind == SWITCH and port.node.slot not in switches:
                switches.add(port.node.slot)
                fresh += port.node.ports.values()
            if port.peer is not None and id(port.peer) not in self._numbers:
                fresh.append(port.peer)
