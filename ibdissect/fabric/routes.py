"""Where does a subnet management packet go: directed routes followed to their port, LIDs looked up.

A directed route counts from its origin, which an SMP on the way hides (permissive LIDs). What tells origins apart is the high
half of the transaction id, which the Linux kernel fills per agent. Where that is shared by two hosts their routes contradict
each other, and a route that went back to an earlier end is not trusted any more.
"""

from __future__ import annotations

from .model import CA, PERMISSIVE, SWITCH, Node, Port, Subnet

MAX_ORIGINS = 1024
MAX_HOPS = 98304
"""Routes remembered over all origins, about 300 bytes each."""
MAX_TURNS = 64
"""Re-routed prefixes remembered per origin; beyond it all older routes are forgotten."""


class Hop:
    """Where a directed route ends: the node, and the port it comes in by."""

    __slots__ = ("before", "entered", "frame", "node", "shaky")

    def __init__(self, node: Node, entered: int, frame: int) -> None:
        self.node, self.entered, self.frame = node, entered, frame
        self.before: int | None = None
        """Slot of the node that the route led to earlier."""
        self.shaky = False
        """The route led to A, to B and to A again: two origins that cannot be told apart, or a cable that moves."""


class Origin:
    """The routes of one sender."""

    __slots__ = ("floor", "hops", "turns")

    def __init__(self) -> None:
        self.hops: dict[bytes, Hop] = {}
        """By InitialPath[1 : HopCount + 1]."""
        self.turns: dict[bytes, int] = {}
        """Prefixes that lead elsewhere since a frame: longer routes learnt before are void."""
        self.floor = 0
        """Routes learnt before this frame are void."""


class Routes:
    """All origins of a subnet; bounded, the oldest origin goes first."""

    def __init__(self, subnet: Subnet) -> None:
        self.subnet = subnet
        self.origins: dict[int, Origin] = {}
        self.count = 0
        self.turned = False
        """Some route led elsewhere than before: what is known may be void."""

    def origin(self, high_word: int) -> Origin:
        """The sender whose transaction ids start with `high_word`."""
        found = self.origins.get(high_word)
        if found is None:
            if len(self.origins) >= MAX_ORIGINS:
                self._drop_oldest("origins")
            found = self.origins[high_word] = Origin()
        return found

    def _drop_oldest(self, what: str) -> None:
        oldest = self.origins.pop(next(iter(self.origins)))
        self.count -= len(oldest.hops)
        self.subnet.count_drop(what)

    def known(self, way: bytes) -> Hop | None:
        """Where NodeInfo said that a route leads, when nothing can have voided it; `way`: 4 bytes of origin, then the path."""
        if self.turned:
            return None
        origin = self.origins.get(int.from_bytes(way[:4], "big"))
        hop = origin.hops.get(way[4:]) if origin is not None else None
        return hop if hop is not None and hop.node.alive else None

    def directed(self, origin: Origin, path: bytes) -> Hop | None:
        """Where a route of an origin leads now: as its own NodeInfo said, else along known links."""
        hop = origin.hops.get(path)
        if hop is not None and hop.node.alive and not self._void(origin, path, hop):
            return hop
        return self._along_links(origin, path)

    def _void(self, origin: Origin, path: bytes, hop: Hop) -> bool:
        if hop.frame < origin.floor:
            return True
        return any(since > hop.frame and len(turned) < len(path) and path.startswith(turned) for turned, since in origin.turns.items())

    def _along_links(self, origin: Origin, path: bytes) -> Hop | None:
        """The longest known prefix of the route, then cable by cable."""
        for size in range(len(path) - 1, -1, -1):
            hop = origin.hops.get(path[:size])
            if hop is not None:
                if not hop.node.alive or self._void(origin, path[:size], hop):
                    return None
                return self.walk(hop.node, hop.entered, path[size:], hop.frame, from_origin=size == 0)
        return None

    def walk(self, node: Node, entered: int, ports: bytes, frame: int, *, from_origin: bool = False) -> Hop | None:
        """Leave `node` by the first of `ports`, follow the cable, leave by the next ...; None where a cable is unknown."""
        for i, number in enumerate(ports):
            if node.kind != SWITCH and not (from_origin and i == 0):
                return None  # only switches pass SMPs on (kernel smi.c, C14-9)
            port = node.ports.get(number)
            if port is None or port.peer is None:
                return None
            frame = max(frame, port.peer_frame)
            node, entered = port.peer.node, port.peer.number
        return Hop(node, entered, frame) if node.alive else None

    def lead(self, origin: Origin, path: bytes, node: Node, entered: int, frame: int) -> Hop:
        """A NodeInfo came back along a route: it leads to this node, by this port."""
        hop = origin.hops.get(path)
        if hop is None:
            while self.count >= MAX_HOPS and len(self.origins) > 1:
                self._drop_oldest("routes")
            if self.count >= MAX_HOPS:
                origin.hops.pop(next(iter(origin.hops)))
                self.count -= 1
                self.subnet.count_drop("routes")
            hop = origin.hops[path] = Hop(node, entered, frame)
            self.count += 1
            return hop
        if hop.node is not node or hop.entered != entered:
            if hop.node is not node:
                hop.shaky = hop.shaky or hop.before == node.slot
                hop.before = hop.node.slot
            hop.node, hop.entered = node, entered
            hop.frame = frame
            self.turned = True
            if len(origin.turns) >= MAX_TURNS and path not in origin.turns:
                origin.turns.clear()
                origin.floor = frame
            origin.turns[path] = frame
        elif self._void(origin, path, hop):
            hop.frame = frame
        return hop

    def before(self, origin: Origin, path: bytes) -> Port | None:
        """The port that an SMP leaves by for the last hop of a route; None when the node in front is not known."""
        if not path:
            return None
        hop = origin.hops.get(path[:-1])
        if hop is None or not hop.node.alive or self._void(origin, path[:-1], hop):
            return None
        if hop.node.kind == CA and (len(path) > 1 or hop.entered != path[0]):
            return None
        return self.subnet.port(hop.node, path[-1])

    def sure(self, origin: Origin, path: bytes, hop: Hop) -> bool:
        """Whether nothing seen since contradicts a route: every known node of it is still cabled to the next one."""
        if hop.shaky:
            return False
        near: Hop | None = None
        for size in range(len(path) + 1):
            here = hop if size == len(path) else origin.hops.get(path[:size])
            if here is not None:
                if here.shaky or not here.node.alive:
                    return False
                if near is not None:
                    port = near.node.ports.get(path[size - 1])
                    if port is None or port.peer is None or port.peer.node is not here.node or port.peer.number != here.entered:
                        return False
                    if near.node.unsure > port.peer_frame:
                        return False
            near = here
        return True

    def by_lid(self, lid: int) -> Hop | None:
        """The port that a LID leads to."""
        if not 0 < lid < PERMISSIVE:
            return None
        port = self.subnet.by_lid(lid)
        return Hop(port.node, port.number, port.lids.since) if port is not None else None
