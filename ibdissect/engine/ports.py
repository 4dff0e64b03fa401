# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""What does the engine read and write of nodes, their ports and directed routes? `fabric.nodes` adds the questions that rules ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .kinds import AFTER_ALL

try:
    import cython
except ImportError:
    from . import shadow as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import i64
    from cython.cimports.ibdissect.engine.facts import Fact
else:
    from .facts import Fact

    if TYPE_CHECKING:
        i64 = int
    else:
        i64 = None

_NEVER = cython.declare(cython.longlong, AFTER_ALL + 1)


@cython.cclass
class PortState:
    """What was learnt of a port."""

    __slots__ = (
        "cut", "facing", "frame", "guard", "guid", "infos", "lids", "node", "number", "p_keys", "pages", "peer_frame", "qos", "renamed",
    )  # fmt: skip

    def __init__(self, node: NodeState, number: i64, frame: i64, infos: Fact, lids: Fact, facing: Fact) -> None:
        self.node, self.number, self.frame, self.infos, self.lids, self.facing = node, number, frame, infos, lids, facing
        self.guid: Any = 0
        self.renamed = False
        self.peer_frame = 0
        self.cut = 0
        self.guard: Any = None
        self.p_keys: Any = None
        self.pages: Any = None
        self.qos: Any = None

    def take_guid(self, guid: object) -> None:
        """Learn its GUID."""
        self.renamed = self.renamed or bool(self.guid and self.guid != guid)
        self.guid = guid


@cython.cclass
class NodeState:
    """What was learnt of a node."""

    __slots__ = (
        "alive", "changed", "device_id", "facts", "forwarding", "frame", "guid", "kind", "linear_top", "multicast_top", "name", "origin",
        "port_state_change", "ports", "slot", "switch", "system_guid", "unarbitrated", "unsure", "until", "vendor_id", "weight",
    )  # fmt: skip

    def __init__(self, guid: object, slot: i64, frame: i64, facts: Fact, switch: Fact, linear_top: Fact, multicast_top: Fact) -> None:
        self.guid: Any = guid
        self.slot, self.frame = slot, frame
        self.facts, self.switch, self.linear_top, self.multicast_top = facts, switch, linear_top, multicast_top
        self.alive, self.until = True, _NEVER
        self.kind = self.system_guid = self.device_id = self.vendor_id = self.port_state_change = 0
        self.unsure = self.changed = self.weight = 0
        self.name: Any = b""
        self.origin: Any = None
        self.unarbitrated = False
        self.forwarding: Any = None
        self.ports: dict[Any, Any] = {}


@cython.final
@cython.cclass
class Hop:
    """Where a directed route ends: the node, and the port through which it enters."""

    __slots__ = ("before", "entered", "frame", "node", "shaky")

    def __init__(self, node: NodeState, entered: i64, frame: i64) -> None:
        self.node: Any = node
        self.entered, self.frame = entered, frame
        self.before: int | None = None
        """Slot of the node that the route led to before."""
        self.shaky = False
        """The route led to A, B and A again: two indistinguishable origins, or a cable that was moved."""


@cython.cclass
class OriginState:
    """What was learnt of the routes of one sender."""

    __slots__ = ("home", "hops", "joined", "sender", "shared", "turns", "valid_since")

    def __init__(self, sender: object, hops: object, home: Fact) -> None:
        self.sender: Any = sender
        self.hops: Any = hops
        self.home = home
        self.shared = self.valid_since = 0
        self.turns: dict[bytes, int] = {}
        self.joined: Any = self

    def group(self) -> OriginState:
        """One origin that stands for all that are joined by common nodes, and so are in one subnet."""
        one: OriginState = self
        while one.joined is not one:
            one.joined = one = one.joined.joined
        return one

    def reach(self, node: NodeState) -> None:
        """A route led to a node."""
        if node.origin is None:
            node.origin = self
        if node.origin is not self:
            self.group().joined = node.origin.group()


@cython.cclass
class BlockState(Fact):
    """A block of a P_Key table over time, 64 bytes; None while a Set is pending or after the port may have restarted."""

    __slots__ = ("contested", "number")

    def __init__(self, number: i64) -> None:
        super().__init__()
        self.number = number
        self.contested = False
        """Answers of a directed route contradict what was written: either may be another port's."""
