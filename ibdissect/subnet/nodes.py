"""Nodes, their ports, and the ends of a sender's directed routes, each fact with its frame."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.decode.history import History
from ibdissect.decode.identity import NodeId, PortId, one_range
from ibdissect.engine.ports import Hop, NodeState, OriginState, PortState
from ibdissect.wire.numbers import MANAGEMENT_VL
from ibdissect.wire.sm_port import PortInfo

from .m_keys import MKey, MKeyState
from .p_keys import PKeys
from .switch_tables import Forwarding, Qos, lane_of

CA, SWITCH, ROUTER = 1, 2, 3
"""NodeInfo.NodeType; 0 means that no NodeInfo was seen."""
DOWN, INIT, ARMED, ACTIVE = 1, 2, 3, 4
"""PortInfo.PortState."""
STATE_AT = PortInfo.port_state.bit // 8
"""Byte of PortInfo whose low half is PortState."""
KEPT_PAGES = 16
"""VendorDiag pages remembered per port."""
MAX_HOPS = 98304
"""Routes remembered over all origins, about 300 bytes per route."""

V = TypeVar("V")


class NodeFacts(Record, frozen=True):
    """The size of a node, from NodeInfo."""

    num_ports: int
    partition_cap: int


NO_FACTS = NodeFacts(0, 0)


class SwitchFacts(NamedTuple):
    """Capabilities of a switch; the fields are named as in `wire.sm.SwitchInfo`."""

    linear_fdb_cap: int
    random_fdb_cap: int
    multicast_fdb_cap: int
    optimized_sl_to_vl_mapping_programming: int
    partition_enforcement_cap: int
    inbound_enforcement_cap: int
    outbound_enforcement_cap: int
    enhanced_port_zero: int
    filter_raw_inbound_cap: int
    filter_raw_outbound_cap: int


class Port(PortState):
    """A port of a node; on a switch, port 0 is the management port and has the LID and keys."""

    __slots__ = ()
    node: Node
    number: int
    frame: int
    """The first frame that showed it."""
    guid: int
    renamed: bool
    """Whether it showed several GUIDs: then none of them is known to be its own."""
    infos: History[bytes]
    """PortInfo over time, 64 bytes."""
    lids: History[tuple[int, int]]
    """(base LID, LMC) over time."""
    facing: History[Port]
    """The port at the other end of the cable, over time."""
    peer_frame: int
    """Frame that last showed the link."""
    cut: int
    """Frame that last showed that its link was lost."""
    guard: MKeyState | None
    p_keys: PKeys | None
    pages: dict[int, int] | None
    """VendorDiag pages referred to by DiagCode or earlier pages, and the first frame that did."""
    qos: Qos | None

    def __init__(self, node: Node, number: int, frame: int) -> None:
        super().__init__(node, number, frame, History(), NEVER, UNCABLED)

    @property
    def key(self) -> int:
        """A number that identifies the port, made of its node's slot and its own number (`earlier_answers.port_key`)."""
        return self.node.slot << 8 | self.number

    @property
    def id(self) -> PortId:
        """Its identity."""
        return PortId(NodeId(self.node.slot), self.number)

    @property
    def is_endport(self) -> bool:
        """Whether it has a LID and a P_Key table of its own: any port but the external ones of a switch (IBA, "endport")."""
        return self.node.kind != SWITCH or not self.number

    @property
    def m_key(self) -> MKey | None:
        """Its M_Key as last shown; None if unknown."""
        return self.guard.held.now if self.guard is not None else None

    @property
    def info_frame(self) -> int:
        """Frame that first showed this PortInfo."""
        since: int = self.infos.since
        return since

    @property
    def info(self) -> PortInfo | None:
        """Latest PortInfo, None if never shown."""
        return PortInfo(self.infos.now) if self.infos.now is not None else None

    def info_at(self, frame: int) -> tuple[PortInfo | None, int]:
        """PortInfo as of a frame, and the frame that first showed it."""
        body, since = self.infos.at(frame)
        return (PortInfo(body), since) if body is not None else (None, 0)

    def may_share_lid(self, guid: int, frame: int) -> bool:
        """Whether a GID with that GUID may be a virtual port's, which has this port's LID but tables of its own."""
        info = self.info_at(frame)[0]
        return guid not in (0, self.guid) and info is not None and bool(info.is_virtualization_supported)

    def owns(self, lid: int, frame: int) -> bool | None:
        """Whether the port has a LID when `frame` was sent; None if its LMC is unknown, which is not 0."""
        base, lmc = self.lids.at(frame)[0] or (0, 0)
        if not base:
            return None
        if base <= lid < base + (1 << lmc):
            return True
        known = self.infos.at(frame)[0] is not None
        return None if not known and one_range(base, lid) else False

    def has_had(self, lid: int, frame: int) -> bool:
        """Whether the port had a LID when `frame` was sent or before, as far as it is known."""
        held = [value for value, shown in (*self.lids.past, (self.lids.now, self.lids.since)) if value is not None and shown <= frame]
        return any(base <= lid < base + (1 << lmc) for base, lmc in held)

    @property
    def state(self) -> int:
        """Latest PortState; 0 if never shown."""
        return self.infos.now[STATE_AT] & 15 if self.infos.now is not None else 0

    @property
    def peer(self) -> Port | None:
        """The port at the other end of the cable, as learnt last."""
        return self.facing.now

    def face(self, peer: Port | None, frame: int) -> None:
        """Set the port at the other end of the cable from a frame on; None: unknown."""
        if self.facing is UNCABLED:
            if peer is None:
                return
            self.facing = History()
        self.facing.learn(peer, frame)
        if peer is not None:
            self.peer_frame = frame

    def facing_at(self, frame: int) -> tuple[Port | None, int]:
        """The port at the other end of the cable when `frame` was sent, and the frame since which that is known or unknown."""
        peer, since = self.facing.at(frame)
        return (peer if peer is not None and frame < peer.node.until else None), since

    def lost_link(self, after: int, before: int) -> bool:
        """Whether the link of the port ended between two frames: the node behind it may have been restarted or replaced."""
        return any(peer is None and after < frame < before for peer, frame in self.facing.values())

    @property
    def lid(self) -> int:
        """Latest base LID; 0 if it has none."""
        return self.lids.now[0] if self.lids.now is not None else 0

    def p_key_capacity(self, frame: int) -> int | None:
        """Number of entries of the port's P_Key table when `frame` was sent; None if unknown."""
        node = self.node
        if node.kind == SWITCH and self.number:
            switch = node.switch.at(frame)[0]
            size = switch.partition_enforcement_cap if switch is not None else 0
        else:
            facts = node.facts.at(frame)[0]
            size = facts.partition_cap if facts is not None and node.kind else 0
        return size or (self.p_keys.size if self.p_keys is not None else 0) or None

    def drops(self, sl: int, frame: int) -> bool:
        """Whether an adapter's or router's port drops what it sends with an SL: its SL to VL table maps that to VL 15.

        No if that is unknown, and if it has no such table, or one data VL (IBA 14.2.5.8).
        """
        entries = self.qos.map_at(0, frame) if self.qos is not None and self.node.kind != SWITCH else None
        if entries is None or lane_of(entries, sl) != MANAGEMENT_VL:
            return False
        info = self.info_at(frame)[0]
        return info is None or (info.vl_cap != 1 and bool(info.is_sl_mapping_supported))

    def __str__(self) -> str:
        return self._named(self.lids.now)

    def name_at(self, frame: int) -> str:
        """Readable name with the LID that it had when `frame` was sent: `0x0002c903000010 port 1 (LID 7)`."""
        return self._named(self.lids.at(frame)[0])

    def _named(self, lids: tuple[int, int] | None) -> str:
        unknown = f"port 0x{self.guid:016x}" if self.guid else "an unknown node"
        name = f"0x{self.node.guid:016x}" if self.node.guid else unknown
        where = f" port {self.number}" if self.number else ""
        return f"{name}{where}" + (f" (LID {lids[0]})" if lids is not None else "")


NEVER: History[tuple[int, int]] = History()
"""Shared LID history of all ports that never had a LID, such as external ports of switches; never modify it."""
UNCABLED: History[Port] = History()
"""Shared peer history of all ports without a known link; never modify it."""


class Node(NodeState):
    """A channel adapter, switch or router; GUID 0 if no NodeInfo was seen."""

    __slots__ = ()
    guid: int
    slot: int
    frame: int
    alive: bool
    until: int
    """Not alive once the node was dropped, at frame `until`: ignore references to it from there on."""
    kind: int
    told_ns: int
    """Time of its latest NodeInfo."""
    system_guid: int
    device_id: int
    vendor_id: int
    port_state_change: int
    facts: History[NodeFacts]
    unsure: int
    """Frame that reported a change of some link of this switch: links learnt before it are unreliable."""
    name: bytes
    origin: Origin | None
    """Where the first directed route to it begins."""
    reached: int
    """The port by which that route enters it."""
    switch: History[SwitchFacts]
    linear_top: History[int]
    """LinearFDBTop."""
    multicast_top: History[int]
    """MulticastFDBTop; None where it is 0, which means nothing."""
    changed: int
    """Frame at which its known size or capabilities last changed; 0: never."""
    unarbitrated: bool
    """Some port showed a VL arbitration table without entries."""
    forwarding: Forwarding | None
    window: int
    """Number of the last window with SMPs to or from it."""
    place: int
    """Its index among the nodes of that window."""
    weight: int
    """Size of its forwarding tables, as `Subnet.weigh` counted it."""
    ports: dict[int, Port]

    def __init__(self, guid: int, slot: int, frame: int) -> None:
        super().__init__(guid, slot, frame, History(), History(), History(), History())

    @property
    def num_ports(self) -> int:
        """Latest NumPorts; 0 if never shown."""
        return self.facts.now.num_ports if self.facts.now is not None else 0

    @property
    def partition_cap(self) -> int:
        """Latest PartitionCap; 0 if never shown."""
        return self.facts.now.partition_cap if self.facts.now is not None else 0

    def facts_at(self, frame: int) -> tuple[NodeFacts, int]:
        """The size of the node as of a frame, and the frame that first showed it."""
        facts, since = self.facts.at(frame)
        return facts or NO_FACTS, since

    def learn(self, track: History[V], value: V, frame: int) -> None:
        """Learn the size or the capabilities of the node."""
        known = track.since
        if track.learn(value, frame) and known:
            self.changed = frame

    def tables(self) -> Forwarding:
        """Its forwarding tables; created empty if none is known."""
        if self.forwarding is None:
            self.forwarding = Forwarding()
        return self.forwarding

    def apart(self, other: Node) -> bool:
        """Whether directed routes led to both nodes, and none of their origins led to nodes of the other's: they may be of two subnets."""
        return self.origin is not None and other.origin is not None and self.origin.group() is not other.origin.group()

    def lost_link(self, after: int, before: int) -> bool:
        """Whether a link of the node ended between two frames."""
        return any(port.lost_link(after, before) for port in self.ports.values())

    def manager(self, entered: int) -> Port | None:
        """The port whose keys apply to an SMP that entered by port `entered`: port 0 of a switch, else the port itself."""
        return self.ports.get(self.manager_number(entered))

    def manager_number(self, entered: int) -> int:
        """The number of that port, whether or not it was seen yet."""
        return 0 if self.kind == SWITCH else entered


NOBODY = Node(0, -1, 0)
"""Any unknown node, without facts and ports; never modify it."""


class SmFacts(NamedTuple):
    """What a subnet manager says of itself."""

    state: int
    priority: int
    lid: int
    """0: unknown."""


class Origin(OriginState):
    """The routes of one sender."""

    __slots__ = ()
    sender: int
    """Number of the sender (`Senders`)."""
    shared: int
    """Frame since which two hosts are known to send with this number, so that no route is certain; 0: none."""
    hops: BoundedDict[bytes, Hop]
    """Routes by InitialPath[1 : HopCount + 1]."""
    home: History[tuple[Node, int]]
    """The sender's own node and port, over time: where the route without a hop ends."""
    turns: dict[bytes, int]
    """Changed prefix -> frame of the change; longer routes learnt before it are void."""
    valid_since: int
    """Routes learnt before this frame are void."""
    joined: Origin
    """Another origin with a route to one of its nodes; itself if there is none."""

    def __init__(self, sender: int) -> None:
        super().__init__(sender, BoundedDict(MAX_HOPS), History())
