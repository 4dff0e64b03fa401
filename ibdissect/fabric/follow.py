"""How is the subnet learnt: the management packets of a chunk, one by one in frame order, into facts and events.

Facts come from answers with status 0 only; what a Set changes is uncertain from the request on and known with its answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibdissect.table.locate import Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.notice import Notice, TrapMKey

from . import columns as c
from .columns import Smps
from .events import (
    ChunkFollowed,
    FabricEvent,
    LidAssigned,
    LinkFound,
    LinkLost,
    MKeyLearnt,
    MKeyShown,
    NodeFound,
    PKeysLearnt,
    PortStateChanged,
    SmSeen,
    StateEvicted,
    WrongMKey,
)
from .keys import Guard, MKey, hides, refuses
from .model import ACTIVE, ARMED, DOWN, FIRST_MULTICAST, INIT, KEPT_PAGES, PERMISSIVE, SWITCH, Node, Port, PortFacts, Subnet, SwitchFacts
from .partitions import PKeys
from .routes import Hop, Origin, Routes
from .topology import connect, disconnect, forget_volatile

MAX_ASKED = 4096
"""PortInfo requests that wait for their answer."""
MAX_UNPLACED = 256
"""Requests to unknown ports that wait for the port's own complaint."""
LINK_STATE_TRAP, BAD_M_KEY_TRAP = 128, 256
DIRECTED_SENDER = 1 << 16
"""Added to the high word of a transaction id, so that it is no SLID."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The SMP requests of a chunk with their targets, as arrays of one length in frame order."""

    rows: Int
    """Row of the chunk."""
    method: npt.NDArray[np.uint8]
    attribute: npt.NDArray[np.uint16]
    modifier: npt.NDArray[np.uint32]
    mad: Int
    """Offset of the MAD in its frame."""
    slot: Int
    """Slot of the node addressed, -1 where it is not known."""
    entered: Int
    """Number of the port that the request came in by; on a switch addressed by LID, 0."""
    nodes: tuple[Node | None, ...]
    """The distinct targets; None for those not known."""
    which: Int
    """Index into `nodes` of each request."""


@dataclass(slots=True)
class _Smp:
    """What the steps of the follower need to know of the packet at hand."""

    i: int
    frame: int
    time_ns: int
    modifier: int
    origin: Origin | None
    path: bytes
    hop: Hop | None
    sender: int
    local: bool
    """It stays in its node."""


class Follower:
    """Feeds chunks to the subnet model and tells what happened. One per capture; chunks in order."""

    def __init__(self) -> None:
        self.subnet = Subnet()
        self.routes = Routes(self.subnet)
        self.asked: dict[tuple[object, ...], tuple[int, int, int]] = {}
        """PortInfo requests by transaction, modifier and way: method, M_Key presented, frame."""
        self.unplaced: dict[tuple[int, ...], tuple[_Smp, int]] = {}
        """Directed requests whose port is not known, by what a bad M_Key trap repeats of them; and the offset of their MAD."""

    def feed(self, table: ChunkTable) -> Iterator[FabricEvent]:
        """Take in a chunk; yields events while the state is as of their frame. Exhaust it."""
        smps = Smps(table)
        slots = np.full(len(smps.rows), -1, np.int64)
        entered = np.zeros(len(smps.rows), np.int64)
        yield from self._each(smps, table, slots, entered)
        asks = np.flatnonzero((smps.method != c.GET_RESP) & (smps.method != c.TRAP))
        targets, which = np.unique(slots[asks], return_inverse=True)
        requests = Requests(
            smps.rows[asks], smps.method[asks], smps.attribute[asks], smps.modifier[asks], smps.mad[asks], slots[asks], entered[asks],
            tuple(self.subnet.slots.get(slot) for slot in targets.tolist()), which.ravel(),
        )  # fmt: skip
        last = table.chunk.first + len(table) - 1
        time_ns = int(table.chunk.time_ns[-1]) if len(table) else 0
        for what, count in sorted(self.subnet.dropped.items()):
            yield StateEvicted(last, time_ns, what, count)
        self.subnet.dropped.clear()
        yield ChunkFollowed(last, time_ns, table, self.subnet, requests)

    def _each(self, smps: Smps, table: ChunkTable, slots: Int, entered: Int) -> Iterator[FabricEvent]:
        first = table.chunk.first
        modifiers, attributes = smps.modifier.tolist(), smps.attribute.tolist()
        times = table.chunk.time_ns[smps.rows].tolist()
        for i, (row, method) in enumerate(zip(smps.rows.tolist(), smps.method.tolist(), strict=True)):
            if method == c.TRAP:
                yield from self._trap(smps, i, first + row)
                continue
            smp = self._address(smps, i, method == c.GET_RESP)
            smp.frame, smp.time_ns, smp.modifier = first + row, times[i], modifiers[i]
            if method == c.GET_RESP:
                yield from self._answer(smps, smp, attributes[i])
                continue
            hop = smp.hop
            if hop is not None:
                slots[i], entered[i] = hop.node.slot, hop.entered
            yield from self._ask(smps, smp, method, attributes[i])

    def _address(self, smps: Smps, i: int, answer: bool) -> _Smp:
        """Who is meant: the node that a request goes to or an answer comes from."""
        far, near = (smps.slid[i], smps.dlid[i]) if answer else (smps.dlid[i], smps.slid[i])
        if not smps.directed[i]:
            return _Smp(i, 0, 0, 0, None, b"", self.routes.by_lid(far), near, far == near != PERMISSIVE)
        path = smps.path(i)
        high = smps.transaction[i] >> 32
        sender = DIRECTED_SENDER + high
        if smps.dr_dlid[i] != PERMISSIVE:
            return _Smp(i, 0, 0, 0, None, path, self.routes.by_lid(smps.dr_dlid[i]), sender, False)
        if smps.dr_slid[i] != PERMISSIVE:  # the route starts where the LIDs lead
            start = self.routes.by_lid(far)
            hop = self.routes.walk(start.node, start.entered, path, start.frame) if start is not None else None
            return _Smp(i, 0, 0, 0, None, path, hop, smps.dr_slid[i], False)
        origin = self.routes.origin(high)
        return _Smp(i, 0, 0, 0, origin, path, self.routes.directed(origin, path), sender, not path)

    # -- requests

    def _ask(self, smps: Smps, smp: _Smp, method: int, attribute: int) -> Iterator[FabricEvent]:
        presented = smps.m_key[smp.i]
        if attribute == c.PORT_INFO:
            if len(self.asked) >= MAX_ASKED:
                self.asked.pop(next(iter(self.asked)))
                self.subnet.count_drop("requests")
            self.asked[self._way(smps, smp, smps.slid[smp.i], smps.dlid[smp.i])] = (method, presented, smp.frame)
        hop = smp.hop
        if hop is None:
            if smps.directed[smp.i] and not smp.local:
                if len(self.unplaced) >= MAX_UNPLACED:
                    self.unplaced.pop(next(iter(self.unplaced)))
                self.unplaced[method, attribute, smp.modifier, presented, len(smp.path)] = (smp, int(smps.mad[smp.i]))
            return
        port = hop.node.manager(hop.entered)
        if port is None:
            return
        guard = port.guard
        held = guard.meet(method, presented, smp.time_ns) if guard is not None else None
        if held is not None:
            if smp.origin is None or self.routes.sure(smp.origin, smp.path, hop):
                assert guard is not None
                yield WrongMKey(
                    smp.frame, smp.time_ns, port, held, guard.held.since, method, presented, smp.sender, smp.local,
                    int(smps.mad[smp.i]), attribute,
                )  # fmt: skip
            return
        if method != c.SET:
            return
        if attribute == c.PORT_INFO and guard is not None and self._about(hop, smp.modifier & 0xFF, 0) is port:
            facts = smps.facts[smp.i]
            guard.pending = facts[0] if facts is not None else None
        elif attribute == c.P_KEY_TABLE:
            target = self._table_port(hop, smp.modifier >> 16)
            if target is not None and target.p_keys is not None:
                target.p_keys.learn(smp.modifier & 0xFFFF, None, smp.frame)

    def _way(self, smps: Smps, smp: _Smp, near: int, far: int) -> tuple[object, ...]:
        """What a request and its answer have in common."""
        transaction = smps.transaction[smp.i]
        return (transaction, smp.modifier, smp.path) if smps.directed[smp.i] else (transaction, smp.modifier, near, far)

    def _trap(self, smps: Smps, i: int, frame: int) -> Iterator[FabricEvent]:
        """A port complains: a switch that some link changed, any port that a request had the wrong M_Key."""
        hop = self.routes.by_lid(smps.slid[i]) if not smps.directed[i] else None
        if hop is None:
            return
        body = smps.body(i)
        trap = int.from_bytes(body[Notice.trap_number.span[0] : Notice.trap_number.span[1]], "big")
        if trap == LINK_STATE_TRAP:
            hop.node.unsure = frame
        elif trap == BAD_M_KEY_TRAP:
            bad = TrapMKey(body, Notice.data_details.bit // 8)
            key = (bad.method, bad.attributeid, bad.attributemodifier, bad.mkey, bad.dr_hop_count)
            found = self.unplaced.pop(key, None) if bad.dr_notice else None
            port = hop.node.manager(hop.entered)
            held = port.guard.held.now if port is not None and port.guard is not None else None
            if found is not None and port is not None and port.guard is not None and held is not None and refuses(held, key[0], key[3]):
                smp, mad = found
                yield WrongMKey(
                    smp.frame, smp.time_ns, port, held, port.guard.held.since, key[0], key[3], smp.sender, False, mad, key[1], frame
                )

    # -- answers

    def _answer(self, smps: Smps, smp: _Smp, attribute: int) -> Iterator[FabricEvent]:
        facts = smps.facts[smp.i]
        if attribute == c.NODE_INFO:
            assert facts is not None
            yield from self._node_info(smps, smp, facts)
            return
        hop = smp.hop
        if hop is None:
            hop = smp.hop = self._nameless(smps, smp)
            if hop is None:
                return
        if attribute == c.PORT_INFO:
            assert facts is not None
            yield from self._port_info(smps, smp, hop, facts)
        elif attribute == c.P_KEY_TABLE:
            port = self._table_port(hop, smp.modifier >> 16)
            if port is not None:
                if port.p_keys is None:
                    port.p_keys = PKeys()
                if port.p_keys.learn(smp.modifier & 0xFFFF, smps.body(smp.i), smp.frame):
                    yield PKeysLearnt(smp.frame, smp.time_ns, port, smp.modifier & 0xFFFF)
        elif attribute == c.SWITCH_INFO:
            assert facts is not None
            if hop.node.kind in (0, SWITCH):
                before, now = hop.node.switch, SwitchFacts._make(facts)
                hop.node.switch = now
                if before is None or before.capabilities != now.capabilities:
                    hop.node.switch_frame = smp.frame
                if now.port_state_change:
                    hop.node.unsure = smp.frame
        elif attribute == c.NODE_DESCRIPTION:
            hop.node.name = smps.body(smp.i).rstrip(b"\0")
        elif attribute == c.SM_INFO:
            assert facts is not None
            yield from self._sm_info(smp, hop, facts)
        else:
            self._vendor_page(smps, smp, hop)

    def _nameless(self, smps: Smps, smp: _Smp) -> Hop | None:
        """An answer of a node whose NodeInfo is not in the capture: a node that is known by its address only."""
        lid = smps.slid[smp.i]
        if smp.origin is None and (smps.directed[smp.i] or not 0 < lid < FIRST_MULTICAST):
            return None
        node, _ = self.subnet.node(0, smp.frame)
        port = self.subnet.port(node, 0)
        if smp.origin is not None:
            return self.routes.lead(smp.origin, smp.path, node, 0, smp.frame)
        self.subnet.assign(port, lid, 0, smp.frame)
        return self.routes.by_lid(lid)

    def _node_info(self, smps: Smps, smp: _Smp, facts: tuple[int, ...]) -> Iterator[FabricEvent]:
        kind, num_ports, system_guid, guid, port_guid, partition_cap, device_id, number, vendor_id = facts
        if not guid:
            return
        if smp.hop is not None and not smp.hop.node.guid:
            self.subnet.drop(smp.hop.node)
        node, new = self.subnet.node(guid, smp.frame)
        node.kind, node.num_ports, node.system_guid = kind, num_ports, system_guid
        node.partition_cap, node.device_id, node.vendor_id = partition_cap, device_id, vendor_id
        port = self.subnet.port(node, number)
        port.guid = port_guid
        manager = self.subnet.port(node, 0) if kind == SWITCH else port
        manager.guid = port_guid
        if new:
            yield NodeFound(smp.frame, smp.time_ns, node)
        if smp.origin is not None:
            self.routes.lead(smp.origin, smp.path, node, number, smp.frame)
            near = self.routes.before(smp.origin, smp.path)
            if near is not None and near is not port:
                yield from self._linked(smp, near, port)
        elif not smps.directed[smp.i] and 0 < smps.slid[smp.i] < FIRST_MULTICAST and self.subnet.by_lid(smps.slid[smp.i]) is not manager:
            self.subnet.assign(manager, smps.slid[smp.i], 0, smp.frame)

    def _linked(self, smp: _Smp, near: Port, far: Port) -> Iterator[FabricEvent]:
        known = near.peer is far
        for a, b in connect(near, far, smp.frame):
            yield LinkLost(smp.frame, smp.time_ns, a, b)
        if not known:
            yield LinkFound(smp.frame, smp.time_ns, near, far)

    def _about(self, hop: Hop, number: int, receiver: int) -> Port | None:
        """The port that a PortInfo modifier selects (attributes.csv); `receiver` is LocalPortNum, 0 when not known."""
        node = hop.node
        if node.kind == SWITCH:
            return self.subnet.port(node, number)
        if number == 0 or number == hop.entered:
            return self.subnet.port(node, hop.entered)
        if node.kind == 0:
            return self.subnet.port(node, hop.entered) if number == receiver else None
        return self.subnet.port(node, number)

    def _table_port(self, hop: Hop, number: int) -> Port | None:
        """The port that a P_KeyTable modifier selects: adapters and routers ignore it."""
        if hop.node.kind == SWITCH:
            return self.subnet.port(hop.node, number) if number <= hop.node.num_ports else None
        return self.subnet.port(hop.node, hop.entered)

    def _port_info(self, smps: Smps, smp: _Smp, hop: Hop, facts: tuple[int, ...]) -> Iterator[FabricEvent]:
        info = PortFacts._make(facts[3:])
        port = self._about(hop, smp.modifier & 0xFF, info.local_port_num)
        asked = self.asked.pop(self._way(smps, smp, smps.dlid[smp.i], smps.slid[smp.i]), None)
        if port is None:
            return
        own = port is hop.node.manager(hop.entered)
        if own and hop.node.kind not in (0, SWITCH) and info.local_port_num != port.number:
            return  # not the port that the route was thought to lead to
        before = port.info
        if info != before:
            port.info, port.info_frame = info, smp.frame
            yield from self._port_changed(smp, port, before, info)
        if hop.node.kind != SWITCH or own:
            lid, lmc = info.lid, info.lmc
            if lid < FIRST_MULTICAST and port.lids.now != ((lid, lmc) if lid else None):
                taken = self.subnet.assign(port, lid, lmc, smp.frame)
                if lid:
                    yield LidAssigned(smp.frame, smp.time_ns, port, lid, lmc, taken)
            yield from self._m_key(smps, smp, port, MKey(*facts[:3]), asked)

    def _port_changed(self, smp: _Smp, port: Port, before: PortFacts | None, info: PortFacts) -> Iterator[FabricEvent]:
        if not info.vl_arbitration_low_cap or not info.vl_arbitration_high_cap:
            port.node.unarbitrated = True
        was = before.port_state if before is not None else 0
        if was != info.port_state:
            if info.port_state == DOWN:
                peer = disconnect(port, smp.frame)
                if peer is not None:
                    yield LinkLost(smp.frame, smp.time_ns, port, peer)
            elif was in (ARMED, ACTIVE) and info.port_state == INIT:
                for end in (port, port.peer):
                    if end is not None and end.node.kind != SWITCH:
                        forget_volatile(end, smp.frame)
            yield PortStateChanged(smp.frame, smp.time_ns, port, was, info.port_state)
        if info.diag_code & 0x8000:
            self._add_page(port, info.diag_code >> 4 & 0x7FF)

    def _m_key(self, smps: Smps, smp: _Smp, port: Port, shown: MKey, asked: tuple[int, int, int] | None) -> Iterator[FabricEvent]:
        method, presented, frame = asked if asked is not None else (0, smps.m_key[smp.i], 0)
        if method == c.GET and shown.key and not smp.local and hides(shown, presented):
            yield MKeyShown(smp.frame, smp.time_ns, port, shown, presented, frame, smp.sender, int(smps.mad[smp.i]))
        guard = port.guard
        held = guard.held.now if guard is not None else None
        if shown.key == 0 and shown.protect == 1 and method != c.SET and (presented == 0 or held is None or presented != held.key):
            if held is None:
                return  # hidden or not set: nobody knows
            shown = shown._replace(key=held.key)
        if guard is None:
            guard = port.guard = Guard()
        if guard.learn(shown, smp.frame):
            yield MKeyLearnt(smp.frame, smp.time_ns, port, held, shown)

    def _sm_info(self, smp: _Smp, hop: Hop, facts: tuple[int, ...]) -> Iterator[FabricEvent]:
        guid, priority, state = facts
        sm = self.subnet.sm(guid)
        before = sm.state if sm.frame else None
        changed = before != state or sm.priority != priority
        port = hop.node.manager(hop.entered)
        sm.frame, sm.state, sm.priority = smp.frame, state, priority
        sm.lid = port.lid if port is not None else 0
        if changed:
            yield SmSeen(smp.frame, smp.time_ns, sm, before)

    def _vendor_page(self, smps: Smps, smp: _Smp, hop: Hop) -> None:
        port = hop.node.manager(hop.entered)
        if port is not None:
            self._add_page(port, int.from_bytes(smps.body(smp.i)[:2], "big"))

    @staticmethod
    def _add_page(port: Port, page: int) -> None:
        if port.pages is None:
            port.pages = set()
        if len(port.pages) < KEPT_PAGES:
            port.pages.add(page)


FabricEvent.source = Follower

__all__ = ["Follower", "Node", "Requests"]
