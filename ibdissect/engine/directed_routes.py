# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""The ends of directed routes: by the NodeInfo that came back along them, else along known cables; nowhere if a route may be void."""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import i64
    from cython.cimports.ibdissect.engine.ports import Hop, NodeState, OriginState, PortState
else:
    from .common import i64
    from .ports import Hop, NodeState, OriginState, PortState

_CA = cython.declare(cython.longlong, 1)
_SWITCH = cython.declare(cython.longlong, 2)  # NodeInfo.NodeType


@cython.cclass
class RouteEnds:
    """All origins of a subnet, and where their routes end."""

    def __init__(self, subnet: Any, origins: object) -> None:
        """`origins`: a dict by the number of their senders."""
        self.subnet = subnet
        self.origins: Any = origins
        self.turned = False
        """Whether any route ever changed its end or lost a link, so that known routes may be void."""
        self.last_cut = 0
        """Frame that last showed that a link was lost."""

    def directed(self, origin: OriginState, path: bytes) -> Hop | None:
        """The current end of an origin's route: from its NodeInfo, else along known links; None if unknown."""
        return self.end(origin, path)

    def void(self, origin: OriginState, path: bytes, hop: Hop) -> bool:
        """Whether what is known of a route's end may no longer hold."""
        return bool(self.is_void(origin, path, hop))

    def walk(self, node: NodeState, entered: i64, ports: bytes, frame: i64) -> Hop | None:
        """Leave `node` by the first of `ports`, follow the cable, leave by the next, and so on; None if a cable is unknown."""
        return self.follow(node, entered, ports, frame, False)

    def before(self, origin: OriginState, path: bytes, frame: i64) -> Any:
        """The port through which an SMP takes the last hop of a route; None if the node before it is unknown."""
        last: cython.Py_ssize_t = len(path) - 1
        if last < 0:
            return None
        hop: Hop | None = cython.cast(dict, origin.hops).get(path[:last])
        if hop is None or not hop.node.alive or self.is_void(origin, path[:last], hop):
            return None
        if hop.node.kind == _CA and (last or hop.entered != path[last]):
            return None
        port: PortState | None = hop.node.ports.get(path[last])
        return port if port is not None else self.subnet.port(hop.node, path[last], frame)

    def learn(self, origin: OriginState, path: bytes, node: NodeState, entered: i64, frame: i64) -> Hop:
        """Learn the end of a route, as a NodeInfo returned along it."""
        hop: Hop | None = cython.cast(dict, origin.hops).get(path)
        if node.guid:
            origin.reach(node, entered, node.kind == _CA)
        if not path:
            self.learn_home(origin, node, entered, frame)
        if hop is None:
            return self.new_end(origin, path, node, entered, frame)
        if hop.node is not node or hop.entered != entered:
            self.other_end(origin, path, hop, node, entered, frame)
        elif self.is_void(origin, path, hop):
            hop.frame = frame
        return hop

    def learn_home(self, origin: Any, node: Any, entered: i64, frame: i64) -> None:
        """The route without a hop led to a node and its port."""
        raise NotImplementedError

    def new_end(self, origin: Any, path: bytes, node: Any, entered: i64, frame: i64) -> Hop:
        """A route is shown for the first time."""
        raise NotImplementedError

    def other_end(self, origin: Any, path: bytes, hop: Hop, node: Any, entered: i64, frame: i64) -> None:
        """A route leads to another port than before."""
        raise NotImplementedError

    def end(self, origin: OriginState, path: bytes) -> Hop | None:
        """What `directed` says."""
        hop: Hop | None = cython.cast(dict, origin.hops).get(path)
        if hop is not None and hop.node.alive and not self.is_void(origin, path, hop):
            return hop
        return self.along_links(origin, path)

    def is_void(self, origin: OriginState, path: bytes, hop: Hop) -> cython.bint:
        """What `void` says."""
        if hop.frame < origin.valid_since or (hop.frame < self.last_cut and self.is_cut(origin, path, hop)):
            return True
        if not origin.turns:  # the usual case
            return False
        for turned, since in origin.turns.items():  # noqa: SIM110
            if since > hop.frame and len(turned) < len(path) and path.startswith(turned):
                return True
        return False

    def is_cut(self, origin: OriginState, path: bytes, hop: Hop) -> cython.bint:
        """Whether a link on the route was lost since its NodeInfo."""
        size: cython.Py_ssize_t
        near: Hop | None
        port: PortState | None
        for size in range(len(path)):
            near = cython.cast(dict, origin.hops).get(path[:size])
            if near is not None:
                port = near.node.ports.get(path[size])
                if port is not None and port.cut > hop.frame:
                    return True
        return False

    def along_links(self, origin: OriginState, path: bytes) -> Hop | None:
        """Follow links from the end of the longest known prefix of the route."""
        size: cython.Py_ssize_t = len(path) - 1
        while size >= 0:
            hop: Hop | None = cython.cast(dict, origin.hops).get(path[:size])
            if hop is not None:
                if not hop.node.alive or self.is_void(origin, path[:size], hop):
                    return None
                return self.follow(hop.node, hop.entered, path[size:], hop.frame, size == 0)
            size -= 1
        return None

    def follow(self, node: NodeState, entered: i64, ports: bytes, frame: i64, from_origin: cython.bint) -> Hop | None:
        """What `walk` says; `from_origin`: `node` sends the SMP itself."""
        i: cython.Py_ssize_t
        near: NodeState = node
        port: PortState | None
        peer: PortState | None
        for i in range(len(ports)):
            if near.kind != _SWITCH and not (from_origin and i == 0):
                return None  # only switches forward SMPs (kernel smi.c, C14-9)
            port = near.ports.get(ports[i])
            peer = port.facing.now if port is not None else None
            if port is None or peer is None:
                return None
            frame = max(frame, port.peer_frame)
            near, entered = peer.node, peer.number
        return Hop(near, entered, frame) if near.alive else None
