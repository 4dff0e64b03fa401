"""Facts that a port's answer teaches, for the subnet model, and events for rules."""

from __future__ import annotations

from functools import lru_cache

from ibdissect.engine.ports import Hop
from ibdissect.engine.smps import Steps
from ibdissect.wire import numbers
from ibdissect.wire.cut import number_of
from ibdissect.wire.numbers import FIRST_MULTICAST
from ibdissect.wire.sm import SMInfo, SwitchInfo, VendorDiag
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import SLtoVLMappingTable

from . import events
from . import smp_columns as c
from .learnt_routes import Routes
from .m_keys import MKey, MKeyState, hides
from .mixed_subnets import KIND, SIZE
from .model import Subnet
from .nodes import DOWN, KEPT_PAGES, SWITCH, Node, NodeFacts, Origin, Port, SmFacts, SwitchFacts
from .smp_columns import Smps
from .topology import connect, disconnect

M_KEY_SIZE = PortInfo.m_key.bits // 8
OF_SWITCHES = frozenset({numbers.SWITCH_INFO, numbers.LINEAR, numbers.RANDOM, numbers.MULTICAST})
"""Attributes that only switches answer with status 0."""


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
        self.steps: Steps
        """What calls it, and finds ports for it."""

    def answer(self, smps: Smps, i: int, hop: Hop, attribute: int, frame: int, time_ns: int, body: bytes) -> None:
        """Process an answer with status 0 that tells of something else than a node, a port or its P_Keys."""
        if attribute in OF_SWITCHES and hop.node.kind not in (0, SWITCH):
            if attribute == numbers.SWITCH_INFO:
                self.subnet.contradictions.note(KIND, hop.node.slot, hop.node.kind, SWITCH, frame, certain=True)
            self.is_another(hop, frame)
        elif attribute in c.TABLES:
            self._table(hop, attribute, int(smps.modifier[i]), body, frame)
        elif attribute == numbers.SWITCH_INFO:
            self._switch_info(hop.node, body, frame)
        elif attribute == numbers.NODE_DESCRIPTION:
            hop.node.name = body.rstrip(b"\0")
        elif attribute == numbers.SM_INFO:
            self._sm_info(hop, SMInfo(body), frame, time_ns, int(smps.mad[i]))
        else:
            self._vendor_page(hop, body, frame)

    def is_another(self, hop: Hop, frame: int) -> None:
        """An adapter or router gave an answer that it cannot give: another node has its LID or place by now."""
        port = hop.node.ports.get(hop.entered)
        if port is not None:
            self.subnet.assign(port, 0, 0, frame)

    def nameless(self, smps: Smps, smp: Smp) -> Hop | None:
        """Add a placeholder for a node that answers before its NodeInfo was seen, by its LID or route. None if it has neither."""
        lid = smps.slid[smp.i]
        if smp.origin is None and (smps.directed[smp.i] or not 0 < lid < FIRST_MULTICAST):
            return None
        if smp.origin is not None and self.routes.lost(smp.origin, smp.path):
            return None  # which port answers is not known
        node, _ = self.subnet.node(0, smp.frame)
        port = self.subnet.port(node, 0, smp.frame)
        if smp.origin is not None:
            hop: Hop = self.routes.learn(smp.origin, smp.path, node, 0, smp.frame)
            return hop
        self.subnet.assign(port, lid, 0, smp.frame)
        return self.routes.by_lid(lid)

    def learn_size(self, frame: int, node: Node, num_ports: int, partition_cap: int) -> None:
        """NodeInfo shows another size of a node than what is known, if anything is."""
        was, now = node.facts.now, NodeFacts(num_ports, partition_cap)
        if was is not None:
            self.subnet.contradictions.note(SIZE, node.guid, was, now, frame)
        node.learn(node.facts, now, frame)

    def node_found(self, frame: int, time_ns: int, node: Node) -> None:
        """A node's NodeInfo was seen for the first time."""
        self.out.append(events.NodeFound(frame, time_ns, node))

    def linked(self, frame: int, time_ns: int, near: Port, far: Port) -> None:
        """A directed route shows a link that was not known, or only at one end."""
        known = near.peer is far
        for a, b in connect(near, far, frame):
            self.out.append(events.LinkLost(frame, time_ns, a, b))
        if not known:
            self.out.append(events.LinkFound(frame, time_ns, near, far))

    def assign(self, frame: int, time_ns: int, port: Port, lid: int, lmc: int) -> None:
        """A port showed other LIDs than before."""
        taken = self.subnet.assign(port, lid, lmc, frame)
        if lid:
            self.out.append(events.LidAssigned(frame, time_ns, port, lid, lmc, taken))

    def port_down(self, frame: int, time_ns: int, port: Port, was: int) -> None:
        """A port showed PortState Down, and before another one (0: none)."""
        peer = disconnect(port, frame)
        if peer is not None or was > DOWN:
            self.routes.cut(frame)
        if peer is not None:
            self.out.append(events.LinkLost(frame, time_ns, port, peer))

    def state_changed(self, frame: int, time_ns: int, port: Port, was: int, state: int) -> None:
        """A port showed another PortState than before (0: none), and somebody wants to know."""
        self.out.append(events.PortStateChanged(frame, time_ns, port, was, state))

    def m_key(
        self, smps: Smps, i: int, smp: Smp | None, frame: int, time_ns: int, port: Port, fields: tuple[int, int, int],
        asked: KeyedRequest | None,
    ) -> None:  # fmt: skip
        """A port showed an M_Key, its protect bits and its lease period that may be new; `asked`: the request, if known.

        `smp` may be missing where the key is 0.
        """
        shown = MKey(*fields)
        method, presented, since = asked if asked is not None else (0, smps.m_key(i), 0)
        if method == numbers.GET and smp is not None and shown.key and not smp.local and hides(shown, presented):
            self.out.append(events.MKeyShown(frame, time_ns, port, shown, presented, since, smp.sender, int(smps.mad[i])))
        guard, held = port.guard, port.m_key
        if shown.key == 0 and shown.protect == 1 and method != numbers.SET and (presented == 0 or held is None or presented != held.key):
            if held is None:
                return  # hidden or not set: unknown
            shown = shown._replace(key=held.key)
        if guard is None:
            guard = port.guard = MKeyState()
        if guard.learn(shown, frame):
            self.out.append(events.MKeyLearnt(frame, time_ns, port, held, shown))

    def p_keys_learnt(self, frame: int, time_ns: int, port: Port, block: int) -> None:
        """A port showed a block of its P_Key table that is new."""
        if self.steps.every_table:
            self.out.append(events.PKeysLearnt(frame, time_ns, port, block))
        if port.p_keys is not None and port.p_keys.several:
            self.out.append(events.BlockOfSeveralLearnt(frame, time_ns, port, block))

    def _table(self, hop: Hop, attribute: int, modifier: int, body: bytes, frame: int) -> None:
        node = hop.node
        if attribute in (numbers.SL_TO_VL, numbers.VL_ARBITRATION):
            if attribute == numbers.SL_TO_VL:
                self._lanes(hop, modifier, self.subnet.share(body[: SLtoVLMappingTable.size]), frame)
                return
            port = self.steps.table_port(hop, modifier & 0xFFFF)
            if port is not None and 1 <= modifier >> 16 <= 4:
                qos = self.subnet.lanes(port)
                qos.learn_arbitration(modifier >> 16, self.subnet.share(body), frame)
                qos.arbitration = self.subnet.share(qos.arbitration)
            return
        tables = node.tables()
        if attribute == numbers.LINEAR:
            if not tables.linear.learn(modifier, body, frame):
                return
        else:
            learn = tables.learn_random if attribute == numbers.RANDOM else tables.learn_multicast
            if not learn(modifier, body, frame):
                self.subnet.count_drop("blocks of forwarding tables")
        self.subnet.weigh(node)

    def _lanes(self, hop: Hop, modifier: int, entries: bytes, frame: int) -> None:
        """An SL to VL table: modifier bits 15-8 name the input port, 7-0 the output port; in the optimised form of a switch bit 17 stands
        for all input ports, bit 16 for all output ports (IBA 14.2.5.8). Adapters and routers ignore it."""
        node = hop.node
        if node.kind != SWITCH:
            port = self.steps.table_port(hop, 0)
            if port is not None:
                self.subnet.lanes(port).learn_map(0, entries, frame)
            return
        every = range(node.num_ports + 1)
        inputs = every if modifier >> 17 & 1 else (modifier >> 8 & 0xFF,)
        for number in every if modifier >> 16 & 1 else (modifier & 0xFF,):
            port = self.steps.table_port(hop, number)
            if port is not None:
                self.subnet.lanes(port).learn_maps(inputs, entries, frame)

    def _switch_info(self, node: Node, body: bytes, frame: int) -> None:
        facts, linear_top, multicast_top, port_state_change = _in_switch_info(body)
        node.learn(node.switch, facts, frame)
        node.linear_top.learn(linear_top, frame)
        node.multicast_top.learn(multicast_top or None, frame)
        node.port_state_change = port_state_change
        if port_state_change:
            node.unsure = frame

    def _sm_info(self, hop: Hop, info: SMInfo, frame: int, time_ns: int, mad: int) -> None:
        sm, priority, state, count = self.subnet.sm(info.guid), info.priority, info.sm_state, info.act_count
        before, was = sm.now.state if sm.frame > 0 else None, sm.now.priority
        port = hop.node.manager(hop.entered)
        changed = before != state or was != priority
        counted, sm.count = sm.count, count
        sm.frame = frame
        sm.facts.learn(SmFacts(state, priority, port.lid if port is not None else 0), frame)
        if changed or count < counted:
            self.out.append(events.SmSeen(frame, time_ns, sm, before, was, mad))

    def _vendor_page(self, hop: Hop, body: bytes, frame: int) -> None:
        port = hop.node.manager(hop.entered)
        if port is not None:
            self.add_page(port, number_of(body, VendorDiag.next_index), frame)

    @staticmethod
    def add_page(port: Port, page: int, frame: int) -> None:
        """A DiagCode or a page of vendor diagnostics refers to a page."""
        if port.pages is None:
            port.pages = {}
        if len(port.pages) < KEPT_PAGES:
            port.pages.setdefault(page, frame)


@lru_cache(1024)
def _in_switch_info(body: bytes) -> tuple[SwitchFacts, int, int, int]:
    """What a SwitchInfo says of the switch, LinearFDBTop, MulticastFDBTop and PortStateChange. Switches say the same at each sweep."""
    info = SwitchInfo(body)
    facts = SwitchFacts(*(int(getattr(info, name)) for name in SwitchFacts._fields))
    return facts, int(info.linear_fdb_top), int(info.multicast_fdb_top), int(info.port_state_change)
