"""What is learnt from a port's answer? Facts for the subnet model, and events for rules."""

from __future__ import annotations

from collections.abc import Container
from struct import Struct

from ibdissect.wire import numbers
from ibdissect.wire.numbers import FIRST_MULTICAST
from ibdissect.wire.sm_port import PortInfo

from . import events
from . import smps as c
from .keys import Guard, MKey, hides
from .mixed_subnets import KIND, SIZE
from .model import Subnet
from .nodes import ACTIVE, ARMED, DOWN, INIT, KEPT_PAGES, STATE_AT, SWITCH, Hop, Node, NodeFacts, Origin, Port, SmFacts, SwitchFacts
from .routes import Routes
from .smps import Smps
from .topology import connect, disconnect, forget_volatile

NO_KEY = (0, 0, 0)
LID_AT, LEASE_AT, DIAG_AT = PortInfo.lid.bit // 8, PortInfo.m_key_lease_period.bit // 8, PortInfo.diag_code.bit // 8
LOCAL_AT, LMC_AT = PortInfo.local_port_num.bit // 8, PortInfo.lmc.bit // 8
M_KEY_SIZE = PortInfo.m_key.bits // 8
LID = Struct(">H")
LOW_CAP_AT, HIGH_CAP_AT = PortInfo.vl_arbitration_low_cap.bit // 8, PortInfo.vl_arbitration_high_cap.bit // 8


class Smp:
    """The current packet as the follower's steps need it."""

    __slots__ = ("body", "frame", "hop", "i", "local", "modifier", "origin", "path", "sender", "time_ns")

    def __init__(self, i: int, origin: Origin | None, path: bytes, hop: Hop | None, sender: int, local: bool) -> None:
        self.i, self.origin, self.path, self.hop, self.sender = i, origin, path, hop, sender
        self.local = local
        """It does not leave its node."""
        self.frame = self.time_ns = self.modifier = 0
        self.body = b""
        """The attribute, 64 bytes."""


KeyedRequest = tuple[int, int, int]
"""Method, M_Key presented and frame of a request."""


class Learner:
    """Processes answers and appends events to `out`."""

    def __init__(self, subnet: Subnet, routes: Routes) -> None:
        self.subnet, self.routes = subnet, routes
        self.out: list[events.FabricEvent] = []
        self.handled: Container[type[events.FabricEvent]] = (events.PortStateChanged, events.PKeysLearnt)
        """High-volume events to emit."""
        self.dropped_nameless = False
        """A node without GUID was dropped because its NodeInfo arrived."""

    def answer(self, smps: Smps, smp: Smp, attribute: int, asked: KeyedRequest | None) -> None:
        """Process an answer with status 0."""
        if attribute == numbers.NODE_INFO:
            self._node_info(smps, smp)
            return
        hop = smp.hop
        if hop is None:
            hop = smp.hop = self._nameless(smps, smp)
            if hop is None:
                return
        if attribute == numbers.PORT_INFO:
            self.port_info(smps, smp, hop, asked)
        elif attribute == numbers.P_KEY_TABLE:
            self._p_keys(smp, hop, by_route=smps.directed[smp.i])
        elif attribute in c.TABLES:
            self._table(smp, hop, attribute)
        elif attribute == numbers.SWITCH_INFO:
            facts = smps.facts[smp.i]
            assert facts is not None
            if hop.node.kind in (0, SWITCH):
                self._switch_info(hop.node, facts, smp.frame)
            else:
                self.subnet.contradictions.note(KIND, hop.node.slot, hop.node.kind, SWITCH, smp.frame, certain=True)
        elif attribute == numbers.NODE_DESCRIPTION:
            hop.node.name = smp.body.rstrip(b"\0")
        elif attribute == numbers.SM_INFO:
            facts = smps.facts[smp.i]
            assert facts is not None
            self._sm_info(smps, smp, hop, facts)
        else:
            self._vendor_page(smp, hop)

    def _nameless(self, smps: Smps, smp: Smp) -> Hop | None:
        """Add a node that answers but whose NodeInfo has not been seen, so that it is known only by its address. None if not possible."""
        lid = smps.slid[smp.i]
        if smp.origin is None and (smps.directed[smp.i] or not 0 < lid < FIRST_MULTICAST):
            return None
        if smp.origin is not None and self.routes.lost(smp.origin, smp.path):
            return None  # which port answers is not known
        node, _ = self.subnet.node(0, smp.frame)
        port = self.subnet.port(node, 0, smp.frame)
        if smp.origin is not None:
            return self.routes.learn(smp.origin, smp.path, node, 0, smp.frame)
        self.subnet.assign(port, lid, 0, smp.frame)
        return self.routes.by_lid(lid)

    def knows(self, smps: Smps, i: int) -> bool:
        """Whether a LID-routed NodeInfo tells nothing new of the port with its LID."""
        facts, manager = smps.facts[i], self.subnet.by_lid(smps.slid[i])
        if facts is None or manager is None or self.subnet.without_node:
            return False
        kind, num_ports, system_guid, guid, port_guid, partition_cap, device_id, number, vendor_id = facts
        node, port = manager.node, manager.node.ports.get(number)
        return (
            node.guid == guid and node.kind == kind and node.facts.now == NodeFacts(num_ports, partition_cap)
            and (node.system_guid, node.device_id, node.vendor_id) == (system_guid, device_id, vendor_id)
            and manager.number == (0 if kind == SWITCH else number)
            and manager.guid == port_guid and port is not None and port.guid == port_guid
        )  # fmt: skip

    def _node_info(self, smps: Smps, smp: Smp) -> None:
        facts = smps.facts[smp.i]
        assert facts is not None
        kind, num_ports, system_guid, guid, port_guid, partition_cap, device_id, number, vendor_id = facts
        if not guid:
            return
        if smp.hop is not None and not smp.hop.node.guid and port_guid not in self.subnet.without_node:
            self.subnet.drop(smp.hop.node, smp.frame)
            self.dropped_nameless = True
        known = self.subnet.nodes.get(guid)
        if known is not None and known.kind not in (0, kind):  # another node
            self.subnet.drop(known, smp.frame)
            self.dropped_nameless = True
        node, new = self.subnet.node(guid, smp.frame)
        node.kind, node.system_guid, node.device_id, node.vendor_id = kind, system_guid, device_id, vendor_id
        was, facts_now = node.facts.now, NodeFacts(num_ports, partition_cap)
        if was is not None and was != facts_now:
            self.subnet.contradictions.note(SIZE, guid, was, facts_now, smp.frame)
        node.learn(node.facts, facts_now, smp.frame)
        port = self.subnet.port(node, number, smp.frame)
        port.take_guid(port_guid)
        manager = self.subnet.port(node, 0, smp.frame) if kind == SWITCH else port
        manager.take_guid(port_guid)
        if self.subnet.without_node and self.subnet.adopt(manager):
            self.dropped_nameless = True
        if new:
            self.out.append(events.NodeFound(smp.frame, smp.time_ns, node))
        if smp.origin is not None:
            self.routes.learn(smp.origin, smp.path, node, number, smp.frame)
            near = self.routes.before(smp.origin, smp.path, smp.frame)
            if near is not None and near is not port:
                self._linked(smp, near, port)
        elif not smps.directed[smp.i] and 0 < smps.slid[smp.i] < FIRST_MULTICAST and self.subnet.by_lid(smps.slid[smp.i]) is not manager:
            self.subnet.assign(manager, smps.slid[smp.i], 0, smp.frame)

    def _linked(self, smp: Smp, near: Port, far: Port) -> None:
        known = near.peer is far
        for a, b in connect(near, far, smp.frame):
            self.out.append(events.LinkLost(smp.frame, smp.time_ns, a, b))
        if not known:
            self.out.append(events.LinkFound(smp.frame, smp.time_ns, near, far))

    def port_of(self, hop: Hop, number: int, receiver: int, frame: int) -> Port | None:
        """The port that a PortInfo modifier selects; `receiver` is LocalPortNum, 0 if unknown."""
        node = hop.node
        if node.kind != SWITCH:
            if number == 0 or number == hop.entered:
                number = hop.entered
            elif node.kind == 0:
                if number != receiver:
                    return None
                number = hop.entered
        return node.ports.get(number) or self.subnet.port(node, number, frame)

    def table_port(self, hop: Hop, number: int, frame: int) -> Port | None:
        """The port that a modifier's port number selects; adapters and routers ignore it."""
        if hop.node.kind == SWITCH:
            return self.subnet.port(hop.node, number, frame) if number <= hop.node.num_ports else None
        return self.subnet.port(hop.node, hop.entered, frame)

    def port_info(self, smps: Smps, smp: Smp, hop: Hop, asked: KeyedRequest | None) -> None:
        body, frame, node, number = smp.body, smp.frame, hop.node, smp.modifier & 0xFF
        if node.kind == SWITCH:
            port, own = node.ports.get(number) or self.subnet.port(node, number, frame), number == 0
        else:
            selected = self.port_of(hop, number, body[LOCAL_AT], frame)
            if selected is None:
                return
            port, own = selected, selected is node.ports.get(hop.entered)
            if own and node.kind and body[LOCAL_AT] != port.number:
                return  # the route leads to another port than assumed
        infos = port.infos
        before = infos.now
        if body != before:
            was, state = before[STATE_AT] & 15 if before is not None and infos.since > 0 else 0, body[STATE_AT] & 15
            # External ports of a switch have no LIDs, so their PortInfos are often equal.
            infos.change(body if own else self.subnet.share(body), frame)
            if was != state and (state in (DOWN, INIT) or events.PortStateChanged in self.handled):
                self._state_changed(smp, port, was, state)
            if body[DIAG_AT] & 0x80:
                self._add_page(port, (body[DIAG_AT] << 8 | body[DIAG_AT + 1]) >> 4 & 0x7FF, frame)
            if not body[LOW_CAP_AT] or not body[HIGH_CAP_AT]:
                node.unarbitrated = True
        if own or (node.kind != SWITCH and port.peer is not None):  # another port of an adapter may be in another subnet
            lid, lmc = LID.unpack_from(body, LID_AT)[0], body[LMC_AT] & 7
            if lid < FIRST_MULTICAST and port.lids.now != ((lid, lmc) if lid else None):
                taken = self.subnet.assign(port, lid, lmc, frame)
                if lid:
                    self.out.append(events.LidAssigned(frame, smp.time_ns, port, lid, lmc, taken))
            shown = int.from_bytes(body[:M_KEY_SIZE], "big"), body[LMC_AT] >> 6, LID.unpack_from(body, LEASE_AT)[0]
            guard = port.guard
            if guard is None:
                if shown != NO_KEY:
                    self._m_key(smps, smp, port, MKey(*shown), asked)
            elif shown[0] or shown != guard.held.now:
                self._m_key(smps, smp, port, MKey(*shown), asked)
            else:
                guard.pending = None  # still no key

    def _state_changed(self, smp: Smp, port: Port, was: int, state: int) -> None:
        if state == DOWN:
            peer = disconnect(port, smp.frame)
            if peer is not None or was > DOWN:
                self.routes.cut(smp.frame)
            if peer is not None:
                self.out.append(events.LinkLost(smp.frame, smp.time_ns, port, peer))
        elif was in (ARMED, ACTIVE) and state == INIT:
            for end in (port, port.peer):
                if end is not None and end.node.kind != SWITCH:
                    forget_volatile(end, smp.frame)
        if events.PortStateChanged in self.handled:
            self.out.append(events.PortStateChanged(smp.frame, smp.time_ns, port, was, state))

    def _m_key(self, smps: Smps, smp: Smp, port: Port, shown: MKey, asked: KeyedRequest | None) -> None:
        method, presented, frame = asked if asked is not None else (0, smps.m_key(smp.i), 0)
        if method == numbers.GET and shown.key and not smp.local and hides(shown, presented):
            self.out.append(events.MKeyShown(smp.frame, smp.time_ns, port, shown, presented, frame, smp.sender, int(smps.mad[smp.i])))
        guard, held = port.guard, port.m_key
        if shown.key == 0 and shown.protect == 1 and method != numbers.SET and (presented == 0 or held is None or presented != held.key):
            if held is None:
                return  # hidden or not set: unknown
            shown = shown._replace(key=held.key)
        if guard is None:
            guard = port.guard = Guard()
        if guard.learn(shown, smp.frame):
            self.out.append(events.MKeyLearnt(smp.frame, smp.time_ns, port, held, shown))

    def _p_keys(self, smp: Smp, hop: Hop, *, by_route: bool) -> None:
        port = self.table_port(hop, smp.modifier >> 16, smp.frame)
        block = smp.modifier & 0xFFFF
        if by_route and port is not None and port.p_keys is not None and port.p_keys.contradict(block, smp.body, smp.frame):
            return  # nobody wrote it: another host's route with the same number leads to another port
        if port is not None and self.subnet.learn_p_keys(port, block, smp.body, smp.frame):
            if events.PKeysLearnt in self.handled:
                self.out.append(events.PKeysLearnt(smp.frame, smp.time_ns, port, block))
            if port.p_keys is not None and port.p_keys.several:
                self.out.append(events.BlockOfSeveralLearnt(smp.frame, smp.time_ns, port, block))

    def _table(self, smp: Smp, hop: Hop, attribute: int) -> None:
        node, modifier, body = hop.node, smp.modifier, smp.body
        if attribute in (numbers.SL_TO_VL, numbers.VL_ARBITRATION):
            if attribute == numbers.SL_TO_VL:
                self._lanes(hop, modifier, self.subnet.share(body[:8]), smp.frame)
                return
            port = self.table_port(hop, modifier & 0xFFFF, smp.frame)
            if port is not None and 1 <= modifier >> 16 <= 4:
                qos = port.lanes()
                qos.learn_arbitration(modifier >> 16, self.subnet.share(body), smp.frame)
                qos.arbitration = self.subnet.share(qos.arbitration)
            return
        if node.kind not in (0, SWITCH):
            return
        tables = node.tables()
        if attribute == numbers.LINEAR:
            tables.linear.learn(modifier, body, smp.frame)
        else:
            learn = tables.learn_random if attribute == numbers.RANDOM else tables.learn_multicast
            if not learn(modifier, body, smp.frame):
                self.subnet.count_drop("blocks of forwarding tables")
        self.subnet.weigh(node)

    def _lanes(self, hop: Hop, modifier: int, entries: bytes, frame: int) -> None:
        """An SL to VL table: modifier bits 15-8 name the input port, 7-0 the output port; in the optimised form of a switch bit 17 stands
        for all input ports, bit 16 for all output ports (IBA 14.2.5.8). Adapters and routers ignore it."""
        node = hop.node
        if node.kind != SWITCH:
            port = self.table_port(hop, 0, frame)
            if port is not None:
                port.lanes().learn_map(0, entries, frame)
            return
        every = range(node.num_ports + 1)
        inputs = every if modifier >> 17 & 1 else (modifier >> 8 & 0xFF,)
        for number in every if modifier >> 16 & 1 else (modifier & 0xFF,):
            port = self.table_port(hop, number, frame)
            if port is not None:
                port.lanes().learn_maps(inputs, entries, frame)

    def _switch_info(self, node: Node, facts: tuple[int, ...], frame: int) -> None:
        *capabilities, linear_top, multicast_top, port_state_change = facts
        node.learn(node.switch, SwitchFacts._make(capabilities), frame)
        node.linear_top.learn(linear_top, frame)
        node.multicast_top.learn(multicast_top or None, frame)
        node.port_state_change = port_state_change
        if port_state_change:
            node.unsure = frame

    def _sm_info(self, smps: Smps, smp: Smp, hop: Hop, facts: tuple[int, ...]) -> None:
        guid, priority, state, count = facts
        sm = self.subnet.sm(guid)
        before, was = sm.now.state if sm.frame > 0 else None, sm.now.priority
        port = hop.node.manager(hop.entered)
        changed = before != state or was != priority
        counted, sm.count = sm.count, count
        sm.frame = smp.frame
        sm.facts.learn(SmFacts(state, priority, port.lid if port is not None else 0), smp.frame)
        if changed or count < counted:
            self.out.append(events.SmSeen(smp.frame, smp.time_ns, sm, before, was, int(smps.mad[smp.i])))

    def _vendor_page(self, smp: Smp, hop: Hop) -> None:
        port = hop.node.manager(hop.entered)
        if port is not None:
            self._add_page(port, int.from_bytes(smp.body[:2], "big"), smp.frame)

    @staticmethod
    def _add_page(port: Port, page: int, frame: int) -> None:
        if port.pages is None:
            port.pages = {}
        if len(port.pages) < KEPT_PAGES:
            port.pages.setdefault(page, frame)
