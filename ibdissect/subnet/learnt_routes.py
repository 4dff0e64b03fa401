"""Directed routes as the capture showed them: what their senders, ends and changes teach. `engine/directed_routes.py` follows them.

A directed route starts at its origin, which an SMP does not show (permissive LIDs). `senders` tells origins apart. If two hosts look
alike, their routes contradict each other: no conclusion rests on a route that returns to an earlier end, or on any of an origin whose own
node changed. A route ends when a link on it goes down.
"""

from __future__ import annotations

from ibdissect.bounded import BoundedDict
from ibdissect.engine.directed_routes import RouteEnds
from ibdissect.engine.ports import Hop

from .mixed_subnets import ROUTE
from .model import Subnet
from .nodes import MAX_HOPS, Node, Origin, Port

MAX_ORIGINS = 1024
MAX_TURNS = 64
"""Changed prefixes remembered per origin; beyond that, all older routes become void."""


class Routes(RouteEnds):
    """All origins of a subnet, bounded; the oldest origin is evicted first."""

    origins: BoundedDict[int, Origin]
    subnet: Subnet

    def __init__(self, subnet: Subnet) -> None:
        super().__init__(subnet, BoundedDict(MAX_ORIGINS))
        self.count = 0

    def cut(self, frame: int) -> None:
        """A link was lost: routes over it end."""
        self.last_cut, self.turned = frame, True

    def origin(self, sender: int) -> Origin:
        """The origin with the number of a sender (`Senders`), created if missing."""
        found = self.origins.get(sender)
        if found is None:
            found = Origin(sender)
            gone = self.origins.put(sender, found)
            if gone is not None:
                self._dropped(gone[1], "origins")
        return found

    def _dropped(self, oldest: Origin, what: str) -> None:
        self.count -= len(oldest.hops)
        self.subnet.count_drop(what)

    def end_of(self, sender: int, path: bytes) -> Hop | None:
        """The end of an origin's route according to NodeInfo, None if it may be void."""
        if self.turned:
            return None
        origin = self.origins.get(sender)
        hop = origin.hops.get(path) if origin is not None else None
        return hop if hop is not None and hop.node.alive else None

    def lost(self, origin: Origin, path: bytes) -> bool:
        """Whether the end of a route was known, and the route ended since."""
        hop = origin.hops.get(path)
        return hop is not None and hop.node.guid != 0 and self.void(origin, path, hop)

    def learn_home(self, origin: Origin, node: Node, entered: int, frame: int) -> None:
        home = origin.home.now
        if home is not None and _differ(home[0], node, entered):
            origin.shared = origin.shared or frame
        origin.home.learn((node, entered), frame)

    def new_end(self, origin: Origin, path: bytes, node: Node, entered: int, frame: int) -> Hop:
        while self.count >= MAX_HOPS and len(self.origins) > 1:
            self._dropped(self.origins.popitem(last=False)[1], "routes")
        hop = Hop(node, entered, frame)
        if origin.hops.put(path, hop):
            self.subnet.count_drop("routes")
        else:
            self.count += 1
        return hop

    def other_end(self, origin: Origin, path: bytes, hop: Hop, node: Node, entered: int, frame: int) -> None:
        if hop.node is not node:
            hop.ambiguous = hop.ambiguous or hop.before == node.slot
            hop.before = hop.node.slot
            if hop.node.guid and node.guid:
                way = origin.sender, path
                self.subnet.contradictions.note(ROUTE, way, hop.node.guid, node.guid, frame, certain=not path)
                was, now = _sender(path, hop.node, hop.entered), _sender(path, node, entered)
                if was is not None and now is not None and was is not now and self.subnet.contradictions.homes is None:
                    self.subnet.contradictions.homes = origin.hops, was, now
                    self.subnet.contradictions.met = any(way and one.node is now for way, one in origin.hops.items())
        renewed = not (hop.node.alive or hop.node.guid or node.guid)
        hop.node, hop.entered = node, entered
        hop.frame = frame
        if renewed:  # a placeholder in the place of one whose node turned out to be known: nothing shows that the route changed
            return
        self.turned = True
        if len(origin.turns) >= MAX_TURNS and path not in origin.turns:
            origin.turns.clear()
            origin.valid_since = frame
        origin.turns[path] = frame

    def sure(self, origin: Origin, path: bytes, hop: Hop) -> bool:
        """Whether nothing contradicts a route: each known node on it is still linked to the next one."""
        if hop.ambiguous or origin.shared:
            return False
        near: Hop | None = None
        for size in range(len(path) + 1):
            here = hop if size == len(path) else origin.hops.get(path[:size])
            if here is not None:
                if here.ambiguous or not here.node.alive:
                    return False
                if near is not None:
                    port = near.node.ports.get(path[size - 1])
                    if port is None or port.peer is None or port.peer.node is not here.node or port.peer.number != here.entered:
                        return False
                    if near.node.unsure > port.peer_frame:
                        return False
            near = here
        return True

    def ends(self, high_word: int, path: bytes, frame: int) -> tuple[Port | None, Port | None]:
        """The port that sends SMPs along a route, and the one that a route leads to; None for what is unknown or was ever contradicted."""
        origin = self.origins.get(high_word)
        if origin is None:
            return None, None
        home = origin.home.at(frame)[0] or (None if origin.home.past else origin.home.now)
        hop = self.directed(origin, path)
        reached = hop.node.manager(hop.entered) if hop is not None and self.sure(origin, path, hop) else None
        return home[0].manager(home[1]) if home is not None and home[0].alive else None, reached

    def by_lid(self, lid: int) -> Hop | None:
        """The port with a LID, None if unknown."""
        port = self.subnet.by_lid(lid)
        return Hop(port.node, port.number, port.lids.since) if port is not None else None


def _differ(was: Node, now: Node, entered: int) -> bool:
    """Whether two nodes are certainly not one: they have two NodeGUIDs, or what answered before its NodeInfo was seen had another LID."""
    if was is now or not now.guid:
        return False
    port = now.manager(entered)
    lids = [one.lids.now for one in was.ports.values() if one.lids.now is not None]
    return was.guid != 0 or (port is not None and port.lids.now is not None and bool(lids) and port.lids.now not in lids)


def _sender(path: bytes, node: Node, entered: int) -> Node | None:
    """The node whose route ends at `node`, entered by port `entered`; None if unknown. Seldom does a capture show routes without hops."""
    if not path:
        return node
    port = node.ports.get(entered) if len(path) == 1 else None
    return port.peer.node if port is not None and port.peer is not None else None
