"""Which port faces which: links as directed routes show them, and what a lost link makes uncertain."""

from __future__ import annotations

from collections.abc import Iterator

from .model import SWITCH, Port, Subnet


def connect(near: Port, far: Port, frame: int) -> tuple[tuple[Port, Port], ...]:
    """A frame went out by `near` and came in by `far`: they face each other; returns the links that this ends."""
    if near.peer is far and far.peer is near:
        near.peer_frame = far.peer_frame = frame
        return ()
    lost = []
    for port in (near, far):
        if port.peer is not None:
            lost.append((port, port.peer))
            disconnect(port, frame)
    near.peer, far.peer = far, near
    near.peer_frame = far.peer_frame = frame
    return tuple(lost)


def disconnect(port: Port, frame: int) -> Port | None:
    """A port faces nobody from here on. The adapter port at either end may be restarting: its keys become uncertain."""
    peer = port.peer
    port.peer = None
    if peer is None:
        return None
    if peer.peer is port:
        peer.peer = None
    for end in (port, peer):
        if end.node.kind != SWITCH:
            forget_volatile(end, frame)
    return peer


def forget_volatile(port: Port, frame: int) -> None:
    """What a port loses when it restarts: M_Key and P_Key table, unless kept in non-volatile memory - so they are unknown."""
    if port.guard is not None:
        port.guard.forget(frame)
    if port.p_keys is not None:
        port.p_keys.forget(frame)


def links(subnet: Subnet) -> Iterator[tuple[Port, Port]]:
    """Every known link once, the end found first in front."""
    seen: set[int] = set()
    for port in subnet.ports():
        peer = port.peer
        if peer is not None and id(port) not in seen:
            seen.add(id(peer))
            yield port, peer
