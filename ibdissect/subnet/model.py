"""The model of a subnet: nodes, ports, LIDs, subnet managers, each fact with the frame it was learnt from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from ibdissect.bounded import BoundedDict
from ibdissect.decode.history import AFTER_ALL, Clock, History
from ibdissect.decode.repeated_smps import MAX_JUDGED
from ibdissect.engine.ports import Shared
from ibdissect.engine.seen_before import Judged
from ibdissect.wire.sm_port import PortInfo

from .lid_owners import LidOwners
from .mixed_subnets import Contradictions
from .multicast_groups import Groups
from .nodes import DOWN, ROUTER, STATE_AT, SWITCH, UNCABLED, Node, Port, SmFacts
from .p_keys import PKeys
from .recent_flows import RecentFlows
from .roce_network import RoceNetwork
from .switch_tables import Qos

MAX_NODES = 49152
"""Nodes remembered: one per possible unicast LID."""
MAX_PORTS = 131072
"""Ports remembered in total; at 1.4 KB per port, less than 190 MB."""
MAX_BLOCKS = 1 << 21
"""Blocks of forwarding tables over all switches, of 2730 full tables: 150 MB. A single SMP can claim the last block of a table."""
MAX_SMS = 256


B = TypeVar("B", bytes, tuple[bytes, ...])


class Sm:
    """A subnet manager, by the GUID of its port."""

    __slots__ = ("count", "facts", "frame", "guid")

    def __init__(self, guid: int) -> None:
        self.guid = guid
        self.facts: History[SmFacts] = History()
        """What its SMInfo said over time."""
        self.frame = self.count = 0
        """The latest frame that showed it, and its ActCount."""

    @property
    def now(self) -> SmFacts:
        """What it said last."""
        return self.facts.now or SmFacts(0, 0, 0)

    def at(self, frame: int) -> tuple[SmFacts | None, int]:
        """What it had said when `frame` was sent, and the frame that first showed this state."""
        now, since = self.facts.at(frame)
        for before, earlier in reversed(self.facts.past):
            if earlier < since:
                if before is None or now is None or before.state != now.state:
                    break
                since = earlier
        return now, since


class Subnet(LidOwners):
    """All that is known of the subnet, by GUID, LID and slot."""

    def __init__(self) -> None:
        super().__init__(Contradictions())
        self.nodes: dict[int, Node] = {}
        """By NodeGUID."""
        self.slots: dict[int, Node] = {}
        """All nodes, also those without NodeInfo, oldest first, by a number that is never reused."""
        self.gone: dict[int, Node] = {}
        """Nodes dropped in this chunk, by slot, as earlier packets of the chunk refer to them."""
        self.dropped_before = 0
        """The latest frame before this chunk at which a node was dropped."""
        self.sms = BoundedDict[int, Sm](MAX_SMS)
        self.groups = Groups()
        self.keyed_since = 0
        """Frame that showed or set the first M_Key; 0: none."""
        self.partitioned = False
        """Whether any P_Key table is known."""
        self.mapped = False
        """Whether any SL to VL or VL arbitration table is known."""
        self.clock = Clock()
        """The times of the latest frames."""
        self.recent = RecentFlows()
        self.listed = 0
        """Number of the file (`file_lines`) that lists all LIDs of the subnet; 0: none."""
        self.roce = RoceNetwork()
        self.without_node: dict[int, Port] = {}
        """Ports whose GUID is known from files, but whose node is not."""
        self.port_count = self.weight = 0
        self.shared = Shared()
        self.judged = Judged(MAX_JUDGED)
        """What conditions judged that ask what ports and nodes showed before (`lint.compared_with_answers`)."""
        self.dropped: dict[str, int] = {}
        """Evictions by kind since the follower last reported them."""
        self._next_slot = 0

    def node(self, guid: int, frame: int) -> tuple[Node, bool]:
        """The node with a NodeGUID, created if missing (0: always a new one), and whether it is new."""
        found = self.nodes.get(guid) if guid else None
        if found is not None:
            return found, False
        while len(self.slots) >= MAX_NODES or self.port_count >= MAX_PORTS:
            self._evict()
        node = Node(guid, self._next_slot, frame)
        self._next_slot += 1
        self.slots[node.slot] = node
        if guid:
            self.nodes[guid] = node
        return node, True

    def by_slot(self, slot: int) -> Node | None:
        """The node in a slot, also if dropped in this chunk; None if unknown."""
        return self.slots.get(slot) or self.gone.get(slot)

    def by_key(self, key: int) -> Port | None:
        """The port with a `Port.key`, also if its node was dropped in this chunk; None if unknown."""
        node = self.by_slot(key >> 8)
        return node.ports.get(key & 0xFF) if node is not None else None

    def port(self, node: Node, number: int, frame: int) -> Port:
        """A port of a node, created if missing; nodes evicted to make room are counted in `dropped`."""
        found = node.ports.get(number)
        if found is None:
            if self.port_count >= MAX_PORTS and len(self.slots) > 1:
                self._evict(spare=node)
            found = node.ports[number] = Port(node, number, frame)
            self.port_count += 1
        elif frame < found.frame:  # tables of a chunk are learnt together, behind other packets
            found.frame = frame
        return found

    def next_chunk(self) -> None:
        """Forget the nodes that were dropped in the last chunk."""
        self.dropped_before = self.last_drop(AFTER_ALL)
        self.gone.clear()

    def last_drop(self, frame: int) -> int:
        """The last frame up to `frame` at which a node was dropped."""
        return max((node.until for node in self.gone.values() if self.dropped_before < node.until <= frame), default=self.dropped_before)

    def nodes_at(self, frame: int) -> Iterator[Node]:
        """All nodes known when a frame of this chunk was sent."""
        for nodes in (self.slots, self.gone):
            yield from (node for node in nodes.values() if node.frame <= frame < node.until)

    def ports_at(self, frame: int) -> Iterator[Port]:
        """The ports of these nodes."""
        return (port for node in self.nodes_at(frame) for port in node.ports.values())

    def swept(self, frame: int) -> tuple[bool, int]:
        """Whether the whole subnet had been read when `frame` was sent, and since when.

        All means: every link leads to a known port, and every end port has a LID.
        """
        latest, switches = self.last_drop(frame), 0
        for node in self.nodes_at(frame):
            facts, since = node.facts_at(frame)
            known = [port for port in node.ports.values() if port.frame <= frame]
            latest = max(latest, node.frame, since, *(port.frame for port in known))
            if not node.guid or node.kind == ROUTER or (node.kind == SWITCH and len(known) <= facts.num_ports):
                return False, max(node.frame, since)
            switches += node.kind == SWITCH
            for port in known:
                (body, shown), (peer, faced), (lids, had) = port.infos.at(frame), port.facing_at(frame), port.lids.at(frame)
                external = node.kind != SWITCH or port.number
                latest = max(latest, shown, faced, had)
                if body is not None and body[STATE_AT] & 15 == DOWN:
                    continue
                if body is None or (external and peer is None) or (not (external and node.kind == SWITCH) and lids is None):
                    return False, max(port.frame, shown, faced, had)
                if PortInfo(body).is_virtualization_supported:
                    return False, shown  # virtual ports have LIDs of their own
        return bool(switches and latest), latest

    def adopt(self, port: Port) -> bool:
        """Give a port whose node is now known the facts that files gave for its GUID; returns whether there were any."""
        known = self.without_node.pop(port.guid, None)
        if known is None or not known.node.alive:
            return False
        lids, since = known.lids.now, known.lids.since
        self.drop(known.node)
        port.p_keys, port.guard = port.p_keys or known.p_keys, port.guard or known.guard
        if lids is not None and port.lids.now is None:
            self.assign(port, *lids, since)
        return True

    def learn_p_keys(self, port: Port, block: int, entries: bytes, frame: int) -> bool:
        """Learn a block of a port's P_Key table, 64 bytes; True if it is new."""
        keys = port.p_keys if port.p_keys is not None else self.begin_table(port)
        known = keys.block(block)
        if known is not None and known.now == entries:
            return False
        return keys.learn(block, self.share(entries), frame)

    def begin_table(self, port: Port) -> PKeys:
        """The P_Key table of a port of which nothing is known yet."""
        self.partitioned, port.p_keys = True, PKeys()
        return port.p_keys

    def lanes(self, port: Port) -> Qos:
        """The SL to VL and VL arbitration tables of a port; created empty if none is known."""
        if port.qos is None:
            self.mapped, port.qos = True, Qos()
        return port.qos

    def sm(self, guid: int) -> Sm:
        """The subnet manager with a port GUID, created if missing."""
        found = self.sms.get(guid)
        if found is None:
            found = Sm(guid)
            if self.sms.put(guid, found):
                self.count_drop("subnet managers")
        return found

    def share(self, block: B) -> B:
        """An equal block that is stored only once."""
        kept: B = self.shared.share(block)
        return kept

    def ports(self) -> Iterator[Port]:
        """All ports of all nodes."""
        for node in self.slots.values():
            yield from node.ports.values()

    def end_ports(self) -> Iterator[Port]:
        """Those with a LID of their own (`Port.is_endport`)."""
        for node in self.slots.values():
            if node.kind != SWITCH:
                yield from node.ports.values()
            elif (port := node.ports.get(0)) is not None:
                yield port

    def count_drop(self, what: str) -> None:
        self.dropped[what] = self.dropped.get(what, 0) + 1

    def drop(self, node: Node, frame: int = 0) -> None:
        """Remove a node and its ports from a frame on; its LIDs have no owner then. 0: forget it for earlier frames, too."""
        node.alive, node.until, node.forwarding = False, frame, None  # histories of its LIDs may still refer to it
        if self.slots.pop(node.slot, None) is not None:
            self.gone[node.slot] = node
        if self.nodes.get(node.guid) is node:
            del self.nodes[node.guid]
        for port in node.ports.values():
            if port.peer is not None and frame:
                port.peer.face(None, frame)
            elif port.peer is not None:
                port.peer.facing = UNCABLED
            base, lmc = port.lids.now or (0, 0)
            for lid in range(base, base + (1 << lmc)) if base else ():
                track = self.lids.get(lid)
                if track is not None and track.now is port and frame:
                    track.learn(None, frame)
                elif track is not None and track.now is port:
                    del self.lids[lid]
        self.port_count -= len(node.ports)
        self.weight -= node.weight

    def weigh(self, node: Node) -> None:
        """Recount a node's forwarding tables, and evict the oldest nodes if all tables together are too large."""
        size = node.forwarding.size if node.forwarding is not None else 0
        self.weight += size - node.weight
        node.weight = size
        while self.weight > MAX_BLOCKS and len(self.slots) > 1:
            self._evict(spare=node)

    def _evict(self, spare: Node | None = None) -> None:
        self.drop(next(node for node in self.slots.values() if node is not spare))
        self.count_drop("nodes")
