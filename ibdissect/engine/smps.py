# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""The pass over subnet management packets: the port that each reaches or comes from, and what its answer teaches.

What most packets need is here; what few need is asked of the learner of `subnet`: traps, requests, nodes, tables, keys.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from typing import Any

from ibdissect.wire import numbers
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.sm_port import PortInfo

from . import packet_kinds
from .ports import forget_volatile

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import b16, b24, b64, cut, i64, u64
    from cython.cimports.ibdissect.engine.facts import Fact, put
    from cython.cimports.ibdissect.engine.ports import (
        BlockState,
        GuardState,
        Hop,
        NodeState,
        OriginState,
        PKeysState,
        PortState,
        find_block,
        holds_several,
        kept,
    )  # fmt: skip
else:
    from .common import b16, b24, b64, cut, i64, u64
    from .facts import Fact, put
    from .ports import BlockState, GuardState, Hop, NodeState, OriginState, PKeysState, PortState, find_block, holds_several, kept

MAX_EXCHANGED = 1024
"""Exchanges about P_Key tables remembered."""
COPIED_NS = 10_000_000
"""A copy of another mirror comes within this time; nobody who was answered sends the same transaction again so soon."""
DONE, RECORDS, EVENTS = range(3)
"""Why `Steps.run` came back: nothing is left; records of subnet administration come first; something is to be told."""
BODY = 64
"""Bytes of an attribute."""
_DONE = cython.declare(cython.int, DONE)
_RECORDS = cython.declare(cython.int, RECORDS)
_EVENTS = cython.declare(cython.int, EVENTS)
_BODY = cython.declare(cython.Py_ssize_t, BODY)
_HANDLE_REQUEST = cython.declare(cython.longlong, packet_kinds.HANDLE_REQUEST)
_HANDLE_ANSWER = cython.declare(cython.longlong, packet_kinds.HANDLE_ANSWER)
_HANDLE_TRAP = cython.declare(cython.longlong, packet_kinds.HANDLE_TRAP)
_NODE_INFO = cython.declare(cython.longlong, numbers.NODE_INFO)
_PORT_INFO = cython.declare(cython.longlong, numbers.PORT_INFO)
_P_KEY_TABLE = cython.declare(cython.longlong, numbers.P_KEY_TABLE)
_PERMISSIVE = cython.declare(cython.longlong, numbers.PERMISSIVE)
_FIRST_MULTICAST = cython.declare(cython.longlong, numbers.FIRST_MULTICAST)
_SWITCH = cython.declare(cython.longlong, 2)  # NodeInfo.NodeType
_DOWN = cython.declare(cython.int, 1)  # PortInfo.PortState
_INIT = cython.declare(cython.int, 2)
_ACTIVE = cython.declare(cython.int, 4)
_NODE_TYPE = cython.declare(cython.Py_ssize_t, NodeInfo.node_type.bit // 8)
_NUM_PORTS = cython.declare(cython.Py_ssize_t, NodeInfo.num_ports.bit // 8)
_SYSTEM_GUID = cython.declare(cython.Py_ssize_t, NodeInfo.system_image_guid.bit // 8)
_NODE_GUID = cython.declare(cython.Py_ssize_t, NodeInfo.node_guid.bit // 8)
_PORT_GUID = cython.declare(cython.Py_ssize_t, NodeInfo.port_guid.bit // 8)
_PARTITION_CAP = cython.declare(cython.Py_ssize_t, NodeInfo.partition_cap.bit // 8)
_DEVICE = cython.declare(cython.Py_ssize_t, NodeInfo.device_id.bit // 8)
_LOCAL_PORT = cython.declare(cython.Py_ssize_t, NodeInfo.local_port_num.bit // 8)
_VENDOR = cython.declare(cython.Py_ssize_t, NodeInfo.vendor_id.bit // 8)
_STATE = cython.declare(cython.Py_ssize_t, PortInfo.port_state.bit // 8)
_LID = cython.declare(cython.Py_ssize_t, PortInfo.lid.bit // 8)
_LEASE = cython.declare(cython.Py_ssize_t, PortInfo.m_key_lease_period.bit // 8)
_DIAG = cython.declare(cython.Py_ssize_t, PortInfo.diag_code.bit // 8)
_LOCAL = cython.declare(cython.Py_ssize_t, PortInfo.local_port_num.bit // 8)
_LMC = cython.declare(cython.Py_ssize_t, PortInfo.lmc.bit // 8)
_M_KEY = cython.declare(cython.Py_ssize_t, PortInfo.m_key.bit // 8)
_LOW_CAP = cython.declare(cython.Py_ssize_t, PortInfo.vl_arbitration_low_cap.bit // 8)
_HIGH_CAP = cython.declare(cython.Py_ssize_t, PortInfo.vl_arbitration_high_cap.bit // 8)


@cython.final
@cython.cclass
class Steps:
    """The SMPs of one window after the other: `begin` it, then `run` until all are done."""

    def __init__(self, subnet: Any, routes: Any, out: list[Any], nobody: NodeState) -> None:
        """`routes` are `RouteEnds` that make origins; `out` takes events; `nobody` stands for unknown nodes."""
        self.subnet, self.routes = subnet, routes
        self.follower: Any = None
        self.learner: Any = None
        self.lids: dict[int, Any] = subnet.lids
        self.dropped: dict[str, int] = subnet.dropped
        self.out = out
        self.exchanged: OrderedDict[tuple[Any, ...], tuple[bytes, int, bytes]] = OrderedDict()
        """What the latest exchanges about P_Key tables asked, and time and content of the answer (0: none yet)."""
        self.shared = subnet.shared
        self.nobody = nobody
        self.nodes: list[Any] = []
        """The nodes of the window's SMPs so far; the first one is nobody."""
        self.every_table = True
        """Whether each new block of a P_Key table is told, not only those of tables with several."""
        self.every_state = True
        """Whether each change of a PortState is told."""
        self.shown: Any = 0
        """The frame as an object, which all facts that it shows share."""
        self.at = self.count = self.first = self.keyed_from = self.frame = self.time_ns = self.window = 0

    def begin(self, follower: Any, smps: Any, first: i64, times: Any, columns: dict[str, Any], which: Any, entries: Any, told: Any) -> None:
        """A window whose first frame is `first`: its SMPs, their columns as int64[n], the times of its rows.

        `which`, `entries` and `told`, int64[n] of zeros, take the index of each SMP's node in `nodes`, its port, and the time of the node's
        latest NodeInfo. `follower` and its learner, which hold these steps, know what few packets need; they are let go of at the end.
        """
        self.follower, self.learner, self.smps, self.first = follower, follower.learner, smps, first
        self.rows, self.times = memoryview(columns["rows"]), memoryview(times)
        self.kinds, self.attributes = memoryview(columns["kinds"]), memoryview(columns["attributes"])
        self.modifiers, self.senders = memoryview(columns["modifiers"]), memoryview(columns["senders"])
        self.slids, self.dlids = memoryview(columns["slids"]), memoryview(columns["dlids"])
        self.transactions, self.answers = memoryview(columns["transactions"]), memoryview(columns["answers"])
        self.pure, self.directed = memoryview(columns["pure"]), memoryview(columns["directed"])
        self.data, self.path_data, self.path_size = memoryview(columns["bodies"]), memoryview(columns["paths"]), columns["path_size"]
        self.which, self.entries, self.told, self.nodes = memoryview(which), memoryview(entries), memoryview(told), [self.nobody]
        self.keyed_from = columns["keyed_from"]
        self.window += 1
        self.at, self.count = 0, len(self.rows)

    def end(self) -> None:
        """Let go of the window."""
        self.follower = self.learner = self.smps = None
        none = array("q")
        self.rows = self.kinds = self.attributes = self.modifiers = self.senders = self.slids = self.dlids = self.times = memoryview(none)
        self.transactions = memoryview(array("Q"))
        self.which = self.entries = self.told = memoryview(none)
        self.nodes = []
        self.pure = self.directed = self.answers = self.data = self.path_data = memoryview(b"")
        self.count = self.at = 0

    def run(self, due: i64) -> int:
        """Go on; returns why it stopped. `due`: the frame of the next record of subnet administration."""
        while self.at < self.count:
            self.frame = self.first + self.rows[self.at]
            if self.frame > due:
                return _RECORDS
            self.shown, self.time_ns = self.frame, self.times[self.rows[self.at]]
            self.step(self.at)
            self.at += 1
            if self.out or self.dropped:
                return _EVENTS
        return _DONE

    def step(self, i: cython.Py_ssize_t) -> cython.int:
        """One SMP."""
        kind: i64 = self.kinds[i]
        attribute: i64 = self.attributes[i]
        hop: Hop | None = None
        smp: Any = None
        origin: OriginState | None
        if self.pure[i]:
            origin = cython.cast(dict, self.routes.origins).get(self.senders[i])
            if origin is None and kind != _HANDLE_TRAP:
                origin = self.routes.origin(self.senders[i])
            if origin is not None:
                hop = self.routes.end(origin, self.path(i))
        elif kind == _HANDLE_TRAP:
            pass
        elif self.directed[i]:
            smp = self.follower.address(self.smps, i, self.shown)
            hop = smp.hop
        else:
            hop = self.owner(self.slids[i] if self.answers[i] else self.dlids[i])
        if kind == _HANDLE_ANSWER:
            if attribute != _P_KEY_TABLE or not self.is_copy(i, True):
                hop = self.answer(i, attribute, hop, smp)
        elif kind == _HANDLE_REQUEST:
            if attribute == _P_KEY_TABLE and self.is_copy(i, False):
                return self.place(i, hop)
            self.follower.ask(self.smps, self.made(i, hop, smp))
        elif kind == _HANDLE_TRAP:
            self.follower.trap(self.smps, i, self.shown, self.time_ns, self.body_of(i))
        return self.place(i, hop)

    def body_of(self, i: cython.Py_ssize_t) -> bytes:
        """The attribute of an SMP."""
        return cut(self.data, i * _BODY, (i + 1) * _BODY)

    def made(self, i: cython.Py_ssize_t, hop: Hop | None, smp: Any) -> Any:
        """The SMP as the learner takes it."""
        return self.follower.made(self.smps, i, hop, smp, self.shown, self.time_ns, self.body_of(i))

    def path(self, i: cython.Py_ssize_t) -> bytes:
        """The directed route of an SMP, without the unused first byte; at most 63 hops."""
        at: cython.Py_ssize_t = i * self.path_size + 1
        return cut(self.path_data, at, at + self.path_data[at - 1])

    def place(self, i: cython.Py_ssize_t, hop: Hop | None) -> cython.int:
        """The SMP reached or left the port where `hop` ends."""
        node: NodeState
        if hop is not None:
            node = hop.node
            if node.window != self.window:
                node.window, node.place = self.window, len(self.nodes)
                self.nodes.append(node)
            self.which[i], self.entries[i], self.told[i] = node.place, hop.entered, node.told_ns
        return 0

    def owner(self, lid: i64) -> Hop | None:
        """The port with a LID, None if unknown."""
        track: Fact | None = self.lids.get(lid) if 0 < lid < _PERMISSIVE else None
        port: PortState | None = track.now if track is not None else None
        if port is None or not port.node.alive:
            return None
        return Hop(port.node, port.number, port.lids.since)

    def answer(self, i: cython.Py_ssize_t, attribute: i64, hop: Hop | None, smp: Any) -> Hop | None:
        """An answer with status 0; returns where it came from, as known now."""
        asked: Any = None
        if attribute == _NODE_INFO:
            return self.node_info(i, hop)
        if attribute == _PORT_INFO and i >= self.keyed_from:
            asked = self.follower.request_of(self.smps, i, self.time_ns)
        if hop is None:
            smp = self.made(i, hop, smp)
            hop = smp.hop = self.learner.nameless(self.smps, smp)
            if hop is None:
                return None
        if attribute == _PORT_INFO:
            if self.port_info(i, hop, smp, asked):
                return None
        elif attribute == _P_KEY_TABLE:
            self.p_keys(i, hop)
        else:
            self.learner.answer(self.smps, i, hop, attribute, self.shown, self.time_ns, self.body_of(i))
        return hop

    def is_copy(self, i: cython.Py_ssize_t, answers: cython.bint) -> cython.bint:
        """Whether an exchange about P_Keys that was answered shortly before comes again: from another mirror, whose clock may differ."""
        key: Any
        if self.directed[i]:
            key = self.transactions[i], self.modifiers[i], self.senders[i], self.path(i)
        elif answers:
            key = self.transactions[i], self.modifiers[i], self.dlids[i], self.slids[i]
        else:
            key = self.transactions[i], self.modifiers[i], self.slids[i], self.dlids[i]
        body: bytes = cut(self.data, i * _BODY, (i + 1) * _BODY)
        known: Any = self.exchanged.get(key)
        if known is None:
            known = b"", 0, b""
            if len(self.exchanged) >= MAX_EXCHANGED:
                self.exchanged.popitem(last=False)
        elif known[1] and 0 <= self.time_ns - known[1] < COPIED_NS and body == (known[2] if answers else known[0]):
            return True
        self.exchanged[key] = (known[0], self.time_ns, body) if answers else (body, 0, b"")
        return False

    # -- nodes

    def node_info(self, i: cython.Py_ssize_t, hop: Hop | None) -> Hop | None:
        """A node's NodeInfo; returns where it came from, as known now."""
        at: cython.Py_ssize_t = i * _BODY
        guid: u64 = b64(self.data, at + _NODE_GUID)
        origin: OriginState | None = self.routes.origins.get(self.senders[i]) if self.pure[i] else None
        if guid:
            self.learn_node(i, hop, origin, guid)
        if hop is None and origin is not None:
            hop = self.routes.end(origin, self.path(i))
        return hop

    def learn_node(self, i: cython.Py_ssize_t, hop: Hop | None, origin: OriginState | None, guid: u64) -> cython.int:
        """The node with a GUID, its port, and the link behind it."""
        at: cython.Py_ssize_t = i * _BODY
        kind: i64 = self.data[at + _NODE_TYPE]
        size: i64 = self.data[at + _NUM_PORTS]
        capacity: i64 = b16(self.data, at + _PARTITION_CAP)
        number: i64 = self.data[at + _LOCAL_PORT]
        port_guid: u64 = b64(self.data, at + _PORT_GUID)
        if hop is not None and not hop.node.guid and port_guid not in self.subnet.without_node:
            self.subnet.drop(hop.node, self.shown)
        node: NodeState | None = self.subnet.nodes.get(guid)
        if node is not None and node.kind and node.kind != kind:  # another node
            self.subnet.drop(node, self.shown)
            node = None
        new: cython.bint = node is None
        if node is None:
            node = self.subnet.node(guid, self.shown)[0]
        node.kind, node.told_ns = kind, self.time_ns
        node.system_guid, node.device_id = b64(self.data, at + _SYSTEM_GUID), b16(self.data, at + _DEVICE)
        node.vendor_id = b24(self.data, at + _VENDOR)
        known: Any = node.facts.now
        if known is None or known.num_ports != size or known.partition_cap != capacity:
            self.learner.learn_size(self.shown, node, size, capacity)
        port: PortState = self.port(node, number)
        manager: PortState = self.port(node, 0) if kind == _SWITCH else port
        port.take_guid(port_guid)
        manager.take_guid(port_guid)
        if self.subnet.without_node:
            self.subnet.adopt(manager)
        if new:
            self.learner.node_found(self.shown, self.time_ns, node)
        near: PortState | None
        if origin is not None:
            path: bytes = self.path(i)
            self.routes.learn(origin, path, node, number, self.shown)
            near = self.routes.before(origin, path, self.shown)
            if near is not None and near is not port:
                if near.facing.now is port and port.facing.now is near:
                    near.peer_frame = port.peer_frame = self.frame
                else:
                    self.learner.linked(self.shown, self.time_ns, near, port)
        elif not self.directed[i] and 0 < self.slids[i] < _FIRST_MULTICAST:
            hop = self.owner(self.slids[i])
            if hop is None or hop.node is not manager.node or hop.entered != manager.number:
                self.subnet.assign(manager, self.slids[i], 0, self.shown)
        return 0

    # -- ports

    def port(self, node: NodeState, number: i64) -> PortState:
        """A port of a node, created if missing."""
        found: PortState | None = node.ports.get(number)
        return found if found is not None else self.subnet.port(node, number, self.shown)

    def port_of(self, hop: Hop, number: i64, receiver: i64) -> Any:
        """The port that a PortInfo modifier selects, None if unknown; `receiver` is LocalPortNum, 0 if unknown."""
        return self.selected(hop, number, receiver)

    def selected(self, hop: Hop, number: i64, receiver: i64) -> PortState | None:
        """What `port_of` says."""
        if hop.node.kind != _SWITCH:
            if number == 0 or number == hop.entered:
                number = hop.entered
            elif hop.node.kind == 0:
                if number != receiver:
                    return None
                number = hop.entered
        return self.port(hop.node, number)

    def table_port(self, hop: Hop, number: i64) -> Any:
        """The port that a modifier's port number selects; adapters and routers ignore it."""
        return self.of_table(hop, number)

    def of_table(self, hop: Hop, number: i64) -> PortState | None:
        """What `table_port` says."""
        known: Any = hop.node.facts.now
        if hop.node.kind == _SWITCH:
            return self.port(hop.node, number) if number <= (known.num_ports if known is not None else 0) else None
        return self.port(hop.node, hop.entered)

    def p_keys(self, i: cython.Py_ssize_t, hop: Hop) -> cython.int:
        """A block of a port's P_Key table."""
        port: PortState | None = self.of_table(hop, self.modifiers[i] >> 16)
        number: i64 = self.modifiers[i] & 0xFFFF
        keys: PKeysState | None
        block: BlockState | None = None
        if port is None:
            return 0
        keys = port.p_keys
        if keys is not None:
            block = find_block(keys, number)
        body: bytes = cut(self.data, i * _BODY, (i + 1) * _BODY)
        if block is not None:
            if self.directed[i] and (block.contested or (block.now is not None and body != block.now)):
                # Nobody wrote it: another host's route with the same number leads to another port. The block is unknown
                # until the next Set, or an answer by LID, says what it holds.
                block.contested = True
                block.learn(None, self.shown)
                return 0
            if body == block.now:
                return 0
        if keys is None:
            keys = self.subnet.begin_table(port)
        if keys.learn(number, kept(self.shared, body), self.shown) and (self.every_table or holds_several(keys)):
            self.learner.p_keys_learnt(self.shown, self.time_ns, port, number)
        return 0

    def port_info(self, i: cython.Py_ssize_t, hop: Hop, smp: Any, asked: Any) -> cython.int:
        """A port's PortInfo; 1 if it is another node's than that which was known at this place."""
        node: NodeState = hop.node
        number: i64 = self.modifiers[i] & 0xFF
        receiver: i64 = self.data[i * _BODY + _LOCAL]
        port: PortState | None
        own: cython.bint
        if node.kind == _SWITCH:
            port, own = self.port(node, number), number == 0
        else:
            known: Any = node.facts.now
            if node.kind and known is not None and number > known.num_ports > 0:
                self.learner.is_another(hop, self.shown)
                return 1
            port = self.selected(hop, number, receiver)
            if port is None:
                return 0
            own = port is node.ports.get(hop.entered)
            if own and node.kind and receiver != port.number:
                return 0  # the route leads to another port than assumed
        body: bytes = cut(self.data, i * _BODY, (i + 1) * _BODY)
        if body != port.infos.now:
            self.changed_info(i, port, body, own)
        if own or (node.kind != _SWITCH and port.facing.now is not None):  # another port of an adapter may be in another subnet
            self.own_port(i, port, hop, smp, asked)
        return 0

    def changed_info(self, i: cython.Py_ssize_t, port: PortState, body: bytes, own: cython.bint) -> cython.int:
        """A PortInfo that differs from what is known."""
        at: cython.Py_ssize_t = i * _BODY
        before: bytes | None = port.infos.now
        was: cython.int = before[_STATE] & 15 if before is not None and port.infos.since > 0 else 0
        state: cython.int = self.data[at + _STATE] & 15
        # External ports of a switch have no LIDs, so their PortInfos are often equal.
        put(port.infos, body if own else kept(self.shared, body), self.shown)
        if was != state:
            self.other_state(port, was, state)
        if self.data[at + _DIAG] & 0x80:
            self.learner.add_page(port, b16(self.data, at + _DIAG) >> 4 & 0x7FF, self.shown)
        if not self.data[at + _LOW_CAP] or not self.data[at + _HIGH_CAP]:
            port.node.unarbitrated = True
        return 0

    def other_state(self, port: PortState, was: cython.int, state: cython.int) -> cython.int:
        """A port shows another PortState than before (0: none)."""
        peer: PortState | None = port.facing.now
        if state == _DOWN:
            self.learner.port_down(self.shown, self.time_ns, port, was)
        elif state == _INIT and _INIT < was <= _ACTIVE:
            if port.node.kind != _SWITCH:
                forget_volatile(port, self.shown)
            if peer is not None and peer.node.kind != _SWITCH:
                forget_volatile(peer, self.shown)
        if self.every_state:
            self.learner.state_changed(self.shown, self.time_ns, port, was, state)
        return 0

    def own_port(self, i: cython.Py_ssize_t, port: PortState, hop: Hop, smp: Any, asked: Any) -> cython.int:
        """The LIDs and the M_Key in the PortInfo of the port that answers."""
        at: cython.Py_ssize_t = i * _BODY
        lid: i64 = b16(self.data, at + _LID)
        lmc: i64 = self.data[at + _LMC] & 7
        if lid < _FIRST_MULTICAST and port.lids.now != ((lid, lmc) if lid else None):
            self.learner.assign(self.shown, self.time_ns, port, lid, lmc)
        key: u64 = b64(self.data, at + _M_KEY)
        protect: i64 = self.data[at + _LMC] >> 6
        lease: i64 = b16(self.data, at + _LEASE)
        guard: GuardState | None = port.guard
        changed: cython.bint
        if guard is None:
            changed = key != 0 or protect != 0 or lease != 0
        else:
            changed = key != 0 or (key, protect, lease) != guard.held.now
            if not changed:
                guard.pending = None  # still no key
        if changed:
            if key and smp is None:
                smp = self.made(i, hop, smp)
            self.learner.m_key(self.smps, i, smp, self.shown, self.time_ns, port, (key, protect, lease), asked)
        return 0
