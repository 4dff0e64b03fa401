"""Which ports are connected? Links shown by directed routes, and what becomes uncertain when a link is lost."""

from __future__ import annotations

from collections.abc import Iterator

from .model import Subnet
from .nodes import SWITCH, Port
from .tables import UNREACHABLE


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
    if peer is None:
        return None
    if peer.peer is port:
        peer.face(None, frame)
    for end in (port, peer):
        if end.node.kind != SWITCH:
            forget_volatile(end, frame)
    return peer


def forget_volatile(port: Port, frame: int) -> None:
    """Make M_Key and P_Key table unknown: a restarting port loses them unless they are in non-volatile memory."""
    if port.guard is not None:
        port.guard.forget(frame)
    if port.p_keys is not None:
        port.p_keys.forget(frame)


def links(subnet: Subnet) -> Iterator[tuple[Port, Port]]:
    """Every known link once, first the end that was found first."""
    seen: set[int] = set()
    for port in subnet.ports():
        peer = port.peer
        if peer is not None and id(port) not in seen:
            seen.add(id(peer))
            yield port, peer


def are_joined(one: Port, other: Port) -> bool:
    """Whether known cables and switches lead from one port to another. Adapters and routers may have their ports in several subnets."""
    seen, fresh = {id(one)}, [one]
    while fresh:
        port = fresh.pop()
        near = [*port.node.ports.values()] if port.node.kind == SWITCH else []
        fresh += (new := [end for end in (*near, port.peer) if end is not None and id(end) not in seen])
        seen.update(map(id, new))
    return id(other) in seen


def way(start: Port, goal: Port) -> Iterator[tuple[Port, int]]:
    """The ports through which packets from one port to another's LID leave each node, each with the frame that showed the table entry.

    Ends at the node of `goal`, or where nothing is known. Another thread may change the subnet meanwhile.
    """
    node, seen = start.node, set[int]()
    while node is not goal.node and node.slot not in seen and (node.kind == SWITCH or not seen):
        seen.add(node.slot)
        out: Port | None = start
        frame = 0
        if node.kind == SWITCH:
            number, frame = node.forwarding.linear.port(goal.lid) if node.forwarding is not None else (UNREACHABLE, 0)
            out = node.ports.get(number)
        peer = out.peer if out is not None else None
        if out is None or peer is None:
            return
        yield out, frame
        node = peer.node
