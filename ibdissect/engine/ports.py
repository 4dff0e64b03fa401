# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""State of nodes, their ports and directed routes, as the engine reads and writes it. `subnet.nodes` adds the questions that rules ask."""

from __future__ import annotations

from typing import Any

from .packet_kinds import AFTER_ALL

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import i64
    from cython.cimports.ibdissect.engine.facts import Fact, changed, end, put
else:
    from .common import i64
    from .facts import Fact, changed, end, put

KEPT_BLOCKS = 16
"""Blocks remembered per port: 512 keys, more than adapters have; of a longer table only what it holds is known, never what it lacks."""
MAX_SHARED = 65536
"""Distinct table blocks that are stored only once."""
_KEPT_BLOCKS = cython.declare(cython.Py_ssize_t, KEPT_BLOCKS)
_EMPTY = cython.declare(object, bytes(64))
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

    def changes(self, after: i64) -> set[int]:
        """Frames later than `after` at which the known state of the port, its node or its peers changed."""
        found: list[Any] = []
        peer: PortState
        state_changed(self, after, found)
        for peer in self.facing.since_frame(after):
            state_changed(peer, after, found)
        return set(found)

    def take_guid(self, guid: object) -> None:
        """Learn its GUID."""
        self.renamed = self.renamed or bool(self.guid and self.guid != guid)
        self.guid = guid


def state_changed(port: PortState, after: i64, found: list[Any]) -> cython.int:
    """Add the frames later than `after` at which the known state of a port or its node changed."""
    node: NodeState = port.node
    keys: PKeysState | None
    block: BlockState
    changed(port.lids, after, found)
    changed(port.infos, after, found)
    changed(port.facing, after, found)
    changed(node.facts, after, found)
    changed(node.switch, after, found)
    changed(node.linear_top, after, found)
    keys = port.p_keys
    if keys is not None:
        for block in keys.blocks:
            changed(block, after, found)
    return 0


def owner_changes(owners: Fact, after: i64) -> set[int]:
    """Frames later than `after` at which the owner of a LID, by its history, or the owner's known state changed."""
    found: list[Any] = []
    port: PortState
    peer: PortState
    changed(owners, after, found)
    for port in owners.since_frame(after):
        state_changed(port, after, found)
        for peer in port.facing.since_frame(after):
            state_changed(peer, after, found)
    return set(found)


@cython.cclass
class NodeState:
    """What was learnt of a node."""

    __slots__ = (
        "alive", "changed", "device_id", "facts", "forwarding", "frame", "guid", "kind", "linear_top", "multicast_top", "name", "origin",
        "place", "port_state_change", "ports", "reached", "slot", "switch", "system_guid", "told_ns", "unarbitrated", "unsure", "until",
        "vendor_id", "weight", "window",
    )  # fmt: skip

    def __init__(self, guid: object, slot: i64, frame: i64, facts: Fact, switch: Fact, linear_top: Fact, multicast_top: Fact) -> None:
        self.guid: Any = guid
        self.slot, self.frame = slot, frame
        self.facts, self.switch, self.linear_top, self.multicast_top = facts, switch, linear_top, multicast_top
        self.alive, self.until = True, _NEVER
        self.kind = self.system_guid = self.device_id = self.vendor_id = self.port_state_change = 0
        self.unsure = self.changed = self.weight = self.told_ns = 0
        self.window = self.place = self.reached = 0
        self.name: Any = b""
        self.origin: Any = None
        self.unarbitrated = False
        self.forwarding: Any = None
        self.ports: dict[Any, Any] = {}


@cython.final
@cython.cclass
class Hop:
    """Where a directed route ends: the node, and the port through which it enters."""

    __slots__ = ("ambiguous", "before", "entered", "frame", "node")

    def __init__(self, node: NodeState, entered: i64, frame: i64) -> None:
        self.node: Any = node
        self.entered, self.frame = entered, frame
        self.before: int | None = None
        """Slot of the node that the route led to before."""
        self.ambiguous = False
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

    def reach(self, node: NodeState, entered: i64 = 0, adapter: cython.bint = False) -> None:
        """A route led to a node, by one of its ports; those of an adapter may be in two subnets."""
        if node.origin is None:
            node.origin, node.reached = self, entered
        if node.origin is not self and (not adapter or node.reached == entered):
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


@cython.cclass
class PKeysState:
    """The P_Key table of a port, block by block."""

    __slots__ = ("blocks", "doubted", "intended", "size")

    def __init__(self) -> None:
        self.blocks: tuple[Any, ...] = ()
        self.intended: Any = None
        self.doubted = 0
        self.size: Any = 0

    def block(self, number: i64) -> BlockState | None:
        """A block over time; None if it was never shown."""
        return find_block(self, number)

    def learn(self, number: i64, entries: bytes | None, frame: Any) -> bool:
        """Learn that a block was shown (64 bytes) or became uncertain (None); True if that is new."""
        block: BlockState | None = find_block(self, number)
        if block is None:
            if entries is None:
                self.doubted = self.doubted or frame
            if entries is None or len(self.blocks) >= _KEPT_BLOCKS:
                return False
            block = BlockState(number)
            self.blocks = (*self.blocks, block)
        block.contested = False
        return block.learn(entries, frame)

    def forget(self, frame: Any) -> None:
        """The port may have restarted: its table is unknown from now on."""
        block: BlockState
        self.doubted = self.doubted or frame
        for block in self.blocks:
            block.contested = False
            end(block, frame)

    @property
    def several(self) -> bool:
        """Whether more than one block holds keys."""
        return bool(holds_several(self))


def find_block(keys: PKeysState, number: i64) -> BlockState | None:
    """What `PKeysState.block` says."""
    block: BlockState
    for block in keys.blocks:
        if block.number == number:
            return block
    return None


def holds_several(keys: PKeysState) -> cython.int:
    """What `PKeysState.several` says."""
    block: BlockState
    found: cython.int = 0
    if len(keys.blocks) < 2:
        return 0
    for block in keys.blocks:
        found += block.now is not None and block.now != _EMPTY
    return found > 1


@cython.cclass
class GuardState:
    """A port's M_Key as learnt."""

    __slots__ = ("held", "pending", "timer")

    def __init__(self, held: Fact, timer: Fact) -> None:
        self.held, self.timer = held, timer
        self.pending: Any = None

    def learn(self, value: object, frame: Any) -> bool:
        """Learn a port's key from an answer; True if it is new."""
        self.pending = None
        if value == self.held.now:
            return False
        end(self.timer, frame)
        put(self.held, value, frame)
        return True

    def forget(self, frame: Any) -> None:
        """The port may have restarted: its key is unknown from now on."""
        end(self.held, frame)
        self.pending = None
        end(self.timer, frame)


def forget_volatile(port: PortState, frame: Any) -> None:
    """Make M_Key and P_Key table unknown: a restarting port loses them unless they are in non-volatile memory."""
    if port.guard is not None:
        port.guard.forget(frame)
    if port.p_keys is not None:
        port.p_keys.forget(frame)


@cython.final
@cython.cclass
class Shared:
    """Blocks of tables, of which equal ones are stored once."""

    __slots__ = ("blocks", "limit")

    def __init__(self) -> None:
        self.blocks: dict[Any, Any] = {}
        self.limit = MAX_SHARED

    def share(self, block: object) -> Any:
        """An equal block that is stored only once."""
        return kept(self, block)


def kept(shared: Shared, block: object) -> object:
    """What `Shared.share` says."""
    found: object = shared.blocks.get(block)
    if found is not None:
        return found
    if len(shared.blocks) >= shared.limit:
        shared.blocks.clear()
    shared.blocks[block] = block
    return block
