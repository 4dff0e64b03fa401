"""What is known of a subnet: nodes, ports, LIDs, subnet managers - each fact with the frame that taught it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from ibdissect.wire.sm_port import PortInfo

from .groups import Groups
from .history import Track
from .keys import Guard
from .partitions import PKeys
from .tables import Forwarding, Qos

CA, SWITCH, ROUTER = 1, 2, 3
"""NodeInfo.NodeType; 0 here means that no NodeInfo was seen."""
DOWN, INIT, ARMED, ACTIVE = 1, 2, 3, 4
"""PortInfo.PortState."""
STATE_AT = PortInfo.port_state.bit // 8
"""Byte of PortInfo whose low half is PortState."""
FIRST_MULTICAST = 0xC000
PERMISSIVE = 0xFFFF
MAX_NODES = 49152
"""Nodes remembered: one for each unicast LID there can be."""
MAX_PORTS = 131072
"""Ports remembered in all; with 700 bytes a port, below 100 MB."""
MAX_BLOCKS = 1 << 22
"""Blocks of the forwarding tables of all switches: 300 MB. A single SMP may claim the last block of a table."""
MAX_SMS = 256
KEPT_PAGES = 16
"""VendorDiag pages remembered per port."""
MAX_SHARED = 65536
"""Different table blocks of which equal ones are kept once."""


NEVER: Track[tuple[int, int]] = Track()
"""The LIDs of all ports that never had one, such as external ports of switches; not to be learnt into."""
B = TypeVar("B", bytes, tuple[bytes, ...])


class SwitchFacts(NamedTuple):
    """What SwitchInfo says; the fields' names are those of `wire.sm.SwitchInfo`."""

    linear_fdb_cap: int
    random_fdb_cap: int
    multicast_fdb_cap: int
    optimized_sl_to_vl_mapping_programming: int
    partition_enforcement_cap: int
    inbound_enforcement_cap: int
    outbound_enforcement_cap: int
    enhanced_port_zero: int
    linear_fdb_top: int
    port_state_change: int

    @property
    def capabilities(self) -> tuple[int, ...]:
        """What the switch is, without what changes as it is used."""
        return self[:-2]


class Port:
    """A port of a node; on a switch, port 0 is the management port and owner of LID and keys."""

    __slots__ = ("body", "guard", "guid", "info_frame", "lids", "node", "number", "p_keys", "pages", "peer", "peer_frame", "qos")

    def __init__(self, node: Node, number: int) -> None:
        self.node, self.number = node, number
        self.guid = 0
        self.body: bytes | None = None
        """PortInfo as last shown, 64 bytes; `info` reads it."""
        self.info_frame = 0
        """Frame that showed it first."""
        self.lids = NEVER
        """(base LID, LMC) over time."""
        self.peer: Port | None = None
        """The port at the other end of the cable, as last learnt."""
        self.peer_frame = 0
        self.guard: Guard | None = None
        self.p_keys: PKeys | None = None
        self.pages: set[int] | None = None
        """VendorDiag pages that earlier pages or DiagCode name."""
        self.qos: Qos | None = None

    @property
    def info(self) -> PortInfo | None:
        """PortInfo as last shown."""
        return PortInfo(self.body) if self.body is not None else None

    @property
    def state(self) -> int:
        """PortState as last shown, 0 when it never was."""
        return self.body[STATE_AT] & 15 if self.body is not None else 0

    @property
    def lid(self) -> int:
        """Base LID as last shown, 0 when it has none."""
        return self.lids.now[0] if self.lids.now is not None else 0

    @property
    def p_key_capacity(self) -> int | None:
        """Entries of the port's P_Key table; None when it is not known."""
        node = self.node
        if node.kind == SWITCH and self.number:
            return node.switch.partition_enforcement_cap if node.switch is not None else None
        return node.partition_cap if node.kind else None

    def __str__(self) -> str:
        """As a person would name it: `0x0002c903000010 port 1 (LID 7)`."""
        name = f"0x{self.node.guid:016x}" if self.node.guid else "node without NodeInfo"
        where = f" port {self.number}" if self.number else ""
        return f"{name}{where}" + (f" (LID {self.lid})" if self.lid else "")


class Node:
    """A channel adapter, switch or router; GUID 0 stands for one that showed no NodeInfo."""

    __slots__ = (
        "alive", "device_id", "forwarding", "frame", "guid", "kind", "name", "num_ports", "partition_cap", "ports", "slot", "switch",
        "switch_frame", "system_guid", "unarbitrated", "unsure",
        "vendor_id", "weight",
    )  # fmt: skip

    def __init__(self, guid: int, slot: int, frame: int) -> None:
        self.guid, self.slot, self.frame = guid, slot, frame
        self.alive = True
        """False once evicted: what points here points nowhere."""
        self.kind = self.num_ports = self.partition_cap = self.system_guid = self.device_id = self.vendor_id = 0
        self.unsure = 0
        """Frame that said a link of this switch changed, not which: its older links are not relied upon."""
        self.name = b""
        self.switch: SwitchFacts | None = None
        self.switch_frame = 0
        """Frame that first showed these capabilities."""
        self.unarbitrated = False
        """Some port showed a VL arbitration table of no entries."""
        self.forwarding: Forwarding | None = None
        self.weight = 0
        """Size of its forwarding tables, as `Subnet.weigh` counted it."""
        self.ports: dict[int, Port] = {}

    def manager(self, entered: int) -> Port | None:
        """The port whose keys guard an SMP that came in by port `entered`: port 0 of a switch, else the port itself."""
        return self.ports.get(0 if self.kind == SWITCH else entered)


class Sm:
    """A subnet manager, by the GUID of its port."""

    __slots__ = ("count", "frame", "guid", "lid", "priority", "since", "state")

    def __init__(self, guid: int) -> None:
        self.guid = guid
        self.frame = self.lid = self.priority = self.state = self.count = 0
        self.since = 0
        """Frame that showed this state first; `frame` is the latest."""


class Subnet:
    """Everything learnt, found by GUID, by LID, by slot."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        """By NodeGUID."""
        self.slots: dict[int, Node] = {}
        """All nodes, also those without NodeInfo, oldest first, by a number that is never used again."""
        self.lids: dict[int, Track[Port]] = {}
        """Which port owned a LID, over time."""
        self.sms: dict[int, Sm] = {}
        self.groups = Groups()
        self.keyed = False
        """Some port is known to hold an M_Key."""
        self.partitioned = False
        """Some port is known to have a P_Key table."""
        self.port_count = self.weight = 0
        self._shared: dict[Any, Any] = {}
        self.dropped: dict[str, int] = {}
        """How many of each kind were evicted since this was last cleared."""
        self._next_slot = 0

    def node(self, guid: int, frame: int) -> tuple[Node, bool]:
        """The node with a NodeGUID (0: a new nameless one), made when missing; True when it is new."""
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

    def port(self, node: Node, number: int) -> Port:
        """A port of a node, made when missing; nodes dropped to make room are counted in `dropped`."""
        found = node.ports.get(number)
        if found is None:
            if self.port_count >= MAX_PORTS and len(self.slots) > 1:
                self._evict(spare=node)
            found = node.ports[number] = Port(node, number)
            self.port_count += 1
        return found

    def by_lid(self, lid: int) -> Port | None:
        """The port that owns a unicast LID now."""
        track = self.lids.get(lid)
        port = track.now if track is not None else None
        return port if port is not None and port.node.alive else None

    def owner(self, lid: int, frame: int) -> tuple[Port | None, int]:
        """The port that owned a LID when `frame` was sent, and the frame that taught it."""
        track = self.lids.get(lid)
        port, since = track.at(frame) if track is not None else (None, 0)
        return (port, since) if port is not None and port.node.alive else (None, 0)

    def assign(self, port: Port, lid: int, lmc: int, frame: int) -> Port | None:
        """A port showed its LIDs: they are its own from here on, its earlier ones are nobody's. The port that had one before, if any."""
        before = port.lids.now
        if before == (lid, lmc):
            track = self.lids.get(lid)
            if track is not None and track.now is port:
                return None
        fresh = range(lid, min(lid + (1 << lmc), FIRST_MULTICAST)) if lid else range(0)
        if before is not None:
            for old in range(before[0], before[0] + (1 << before[1])):
                track = self.lids.get(old)
                if track is not None and track.now is port and old not in fresh:
                    track.learn(None, frame)
        if port.lids is NEVER:
            port.lids = Track()
        port.lids.learn((lid, lmc) if lid else None, frame)
        taken = None
        for one in fresh:
            track = self.lids.get(one)
            if track is None:
                track = self.lids[one] = Track()
            if track.now is not None and track.now is not port and track.now.node.alive and track.now.node.guid:
                taken = track.now
            track.learn(port, frame)
        return taken

    def sm(self, guid: int) -> Sm:
        """The subnet manager on a port, made when missing."""
        found = self.sms.get(guid)
        if found is None:
            if len(self.sms) >= MAX_SMS:
                self.sms.pop(next(iter(self.sms)))
                self.count_drop("subnet managers")
            found = self.sms[guid] = Sm(guid)
        return found

    def share(self, block: B) -> B:
        """The same bytes, kept once for all who hold them."""
        if len(self._shared) >= MAX_SHARED:
            self._shared.clear()
        kept: B = self._shared.setdefault(block, block)
        return kept

    def ports(self) -> Iterator[Port]:
        """All ports of all nodes."""
        for node in self.slots.values():
            yield from node.ports.values()

    def count_drop(self, what: str) -> None:
        """One more of a kind was evicted."""
        self.dropped[what] = self.dropped.get(what, 0) + 1

    def drop(self, node: Node) -> None:
        """Forget a node and its ports; its LIDs belong to nobody."""
        node.alive, node.forwarding = False, None  # the past of its LIDs may still point here
        self.slots.pop(node.slot, None)
        if self.nodes.get(node.guid) is node:
            del self.nodes[node.guid]
        for port in node.ports.values():
            if port.peer is not None:
                port.peer.peer = None
            base, lmc = port.lids.now or (0, 0)
            for lid in range(base, base + (1 << lmc)) if base else ():
                track = self.lids.get(lid)
                if track is not None and track.now is port:
                    del self.lids[lid]
        self.port_count -= len(node.ports)
        self.weight -= node.weight

    def weigh(self, node: Node) -> None:
        """The forwarding tables of a node grew: the oldest nodes go where all tables together are too much."""
        size = node.forwarding.size if node.forwarding is not None else 0
        self.weight += size - node.weight
        node.weight = size
        while self.weight > MAX_BLOCKS and len(self.slots) > 1:
            self._evict(spare=node)

    def _evict(self, spare: Node | None = None) -> None:
        self.drop(next(node for node in self.slots.values() if node is not spare))
        self.count_drop("nodes")
