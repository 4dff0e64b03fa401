"""The follower that learns the subnet: it reads SMPs in frame order, updates the model and emits events.

Facts come only from answers with status 0; a value that a Set changes is uncertain until its answer.
Facts learnt later do not apply to earlier packets. SA records add what no SMP showed before them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np

from ibdissect.bounded import BoundedDict
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.history import AFTER_ALL, NEIGHBOURS_NS
from ibdissect.engine.ports import Hop
from ibdissect.engine.smps import DONE, RECORDS, Steps
from ibdissect.wire import numbers
from ibdissect.wire.notice import Notice, TrapMKey
from ibdissect.wire.numbers import PERMISSIVE

from . import events
from .events import ChunkFollowed, FabricEvent, PKeysLearnt, PortStateChanged, RepressSeen, StateEvicted, TrapSeen, WrongMKey
from .facts_from_sa_records import SaRecords
from .learn import M_KEY_SIZE, KeyedRequest, Learner, Smp
from .learnt_routes import Routes
from .m_keys import refuses
from .model import Subnet
from .nodes import NOBODY, SWITCH, Node, Port
from .route_senders import Senders
from .smp_columns import PlacedSmps, Smps

MAX_ASKED = 4096
"""PortInfo requests that wait for their answer."""
MAX_EARLY = 256
"""PortInfo requests remembered before the first M_Key."""
NEIGHBOURS = 8
"""Latest PortInfo answers remembered, as an answer may be recorded before its request."""
MAX_UNPLACED = 256
"""Requests to unknown ports that wait for a bad M_Key trap from the port."""
LINK_STATE_TRAP, BAD_M_KEY_TRAP = 128, 256
EITHER = 0
"""Instead of a method: it is not known which of two requests is answered."""


class FabricFollower:
    """Updates the subnet model from chunks and emits events. One per capture; feed chunks in order."""

    def __init__(self) -> None:
        self.subnet = Subnet()
        self.routes = Routes(self.subnet)
        self.senders = Senders()
        self.learner = Learner(self.subnet, self.routes)
        self.steps = self.learner.steps = Steps(self.subnet, self.routes, self.learner.out, NOBODY)
        self.asked = BoundedDict[tuple[object, ...], KeyedRequest](MAX_ASKED)
        """PortInfo requests by `_exchange_key`, once an M_Key was seen."""
        self.early = BoundedDict[tuple[object, ...], KeyedRequest](MAX_EARLY)
        """The latest PortInfo requests, before an M_Key was seen."""
        self.written = BoundedDict[tuple[int, bool], int](MAX_EARLY)
        """(M_Key, whether the NodeInfo of the port is known): the last frame of a Set that wrote this key."""
        self.answered = BoundedDict[tuple[object, ...], int](NEIGHBOURS)
        """The latest PortInfo answers by `_exchange_key`, and their times: a request that comes right after is not a new one."""
        self.unplaced = BoundedDict[tuple[int, ...], tuple[Smp, int]](MAX_UNPLACED)
        """Directed requests to unknown ports and the offset of their MAD, by the fields that a bad M_Key trap repeats."""
        self.onward = dict[int, Hop]()
        """Where the directed part of a route ended, if the SMP continues by LID; by frame of the chunk."""

    @property
    def unreliable(self) -> bool:
        """Whether the facts are those of two subnets, so that no conclusion holds."""
        return self.subnet.contradictions.mixed

    def emit_only(self, events: Container[type[FabricEvent]]) -> None:
        """Emit only these of the high-volume events: a sweep of a large subnet changes the state and tables of every port."""
        self.steps.every_state, self.steps.every_table = PortStateChanged in events, PKeysLearnt in events

    def feed(self, table: ChunkTable) -> Iterator[FabricEvent]:
        """Process a chunk; yields each event while the state is that of its frame. Exhaust the iterator."""
        self.subnet.next_chunk()
        self.subnet.clock.take(table.chunk.first, table.chunk.time_ns)
        self.onward.clear()
        smps = Smps(table, keyed=self.subnet.keyed_since > 0, senders=self.senders)
        if not self.subnet.keyed_since:
            self._await_key(smps, table.chunk.first)
        self.records = SaRecords(table)
        which, entered, told = np.zeros((3, len(smps.rows)), np.int64)
        yield from self._each(smps, table, which, entered, told)
        nodes = tuple(self.steps.nodes)
        self.steps.end()
        last = table.chunk.first + len(table) - 1
        time_ns = int(table.chunk.time_ns[-1]) if len(table) else 0
        self.records.learn(self.subnet, AFTER_ALL)
        yield from self._evicted(last, time_ns)
        self.subnet.contradictions.note_times(table.chunk)
        followed = ChunkFollowed(last, time_ns, table, self.subnet, self._with_nodes(smps, nodes, which, entered, told, table))
        yield followed
        followed.derived.clear()  # what was derived refers to the event: the chunk's memory would wait for a garbage collection

    def _await_key(self, smps: Smps, first: int) -> None:
        """Remember the latest PortInfo requests, as the answer to one of them may show the first M_Key. After that, all are remembered."""
        requests = (smps.attribute == numbers.PORT_INFO) & ((smps.method == numbers.GET) | (smps.method == numbers.SET))
        for i in np.flatnonzero(requests[: smps.keyed_from])[-MAX_EARLY:].tolist():
            exchange = self._exchange_key(smps, i, answer=False)
            request = int(smps.method[i]), smps.m_key(i), int(smps.rows[i]) + first
            self.early.put(exchange, _awaited(self.early.pop(exchange, None), request))
        if smps.keyed_from < len(smps.rows):
            self.subnet.keyed_since = int(smps.rows[smps.keyed_from]) + first
            for exchange, asked in self.early.items():
                self.asked.put(exchange, asked)
            self.early.clear()

    def _evicted(self, frame: int, time_ns: int) -> Iterator[FabricEvent]:
        """Events for what was evicted since the last call."""
        for what, count in sorted(self.subnet.dropped.items()):
            yield StateEvicted(frame, time_ns, what, count)
        self.subnet.dropped.clear()

    @staticmethod
    def _with_nodes(smps: Smps, nodes: tuple[Node, ...], which: Int, entered: Int, told: Int, table: ChunkTable) -> PlacedSmps:
        first = table.chunk.first
        facts = np.array([(node.slot, node.kind, node.num_ports, node.changed >= first, node.frame < 0) for node in nodes], np.int64)
        slots, kind, ports, changed, listed = facts.T[:, which]
        for i in np.flatnonzero(changed).tolist():
            node = nodes[which[i]]
            ports[i] = node.facts_at(first + int(smps.rows[i]))[0].num_ports
        age = np.where(listed != 0, 0, table.chunk.time_ns[smps.rows] - told)
        return PlacedSmps(smps, np.arange(len(smps.rows)), slots, entered, nodes, which, kind, age, ports, changed != 0)

    def _each(self, smps: Smps, table: ChunkTable, which: Int, entered: Int, told: Int) -> Iterator[FabricEvent]:
        """Process the SMPs one by one, and find the node and the port of each."""
        steps, out, dropped = self.steps, self.learner.out, self.subnet.dropped
        steps.begin(self, smps, table.chunk.first, table.chunk.time_ns, smps.columns(), which, entered, told)
        while (why := steps.run(self.records.due)) != DONE:
            if why == RECORDS:
                self.records.learn(self.subnet, steps.frame)
                continue
            yield from out
            out.clear()
            if dropped:
                yield from self._evicted(steps.frame, steps.time_ns)

    def request_of(self, smps: Smps, i: int, time_ns: int) -> KeyedRequest | None:
        """The request that a PortInfo answers."""
        exchange = self._exchange_key(smps, i, answer=True)
        self.answered.put(exchange, time_ns)
        return self.asked.pop(exchange, None)

    def made(self, smps: Smps, i: int, hop: Hop | None, smp: Smp | None, frame: int, time_ns: int, body: bytes) -> Smp:
        """An SMP whose port is `hop` as the steps that few need take it; `smp` if it is made already."""
        if smp is None and smps.directed[i]:
            sender, path = smps.sender(i), smps.path(i)
            smp = Smp(i, self.routes.origin(sender), path, hop, events.DIRECTED_SENDER + sender, not path)
        elif smp is None:
            asked, asker = (smps.slid[i], smps.dlid[i]) if smps.answers[i] else (smps.dlid[i], smps.slid[i])
            smp = Smp(i, None, b"", hop, asker, asked == asker != PERMISSIVE)
        smp.frame, smp.time_ns, smp.modifier, smp.body = frame, time_ns, int(smps.modifier[i]), body
        return smp

    def address(self, smps: Smps, i: int, frame: int) -> Smp:
        """An SMP whose way is directed in part: find the node that a request goes to or an answer comes from."""
        asked = smps.slid[i] if smps.answers[i] else smps.dlid[i]
        path = smps.path(i)
        slid, dlid = int(smps.dr_slid[i]), int(smps.dr_dlid[i])
        if dlid != PERMISSIVE:
            origin = self.routes.origins.get(smps.sender(i)) if slid == PERMISSIVE else None
            end = self.routes.directed(origin, path) if origin is not None else None
            if end is not None:
                self.onward[frame] = Hop(end.node, end.entered, end.frame)
            return Smp(i, None, path, self.routes.by_lid(dlid), events.DIRECTED_SENDER + smps.sender(i), False)
        start = self.routes.by_lid(asked)  # the directed part starts at the node with this LID
        hop = self.routes.walk(start.node, start.entered, path, start.frame) if start is not None else None
        return Smp(i, None, path, hop, slid, False)

    # -- requests

    def ask(self, smps: Smps, smp: Smp) -> None:
        """Process a request."""
        method, attribute = int(smps.method[smp.i]), int(smps.attribute[smp.i])
        presented = smps.m_key(smp.i)
        if attribute == numbers.PORT_INFO:
            exchange = self._exchange_key(smps, smp.i, answer=False)
            answered = self.answered.pop(exchange, None)
            if answered is not None and 0 <= smp.time_ns - answered < NEIGHBOURS_NS:
                return  # recorded after its answer, or the copy of a second mirror
            if self.asked.put(exchange, _awaited(self.asked.get(exchange), (method, presented, smp.frame))):
                self.subnet.count_drop("requests")
        elif method == numbers.TRAP_REPRESS and attribute == numbers.NOTICE:
            self.learner.out.append(
                RepressSeen(smp.frame, smp.time_ns, self._port(smp), smps.slid[smp.i], smps.dlid[smp.i], smps.transaction(smp.i), smp.body)
            )
        hop = smp.hop
        if method == numbers.SET and attribute == numbers.PORT_INFO:
            key = int.from_bytes(smp.body[:M_KEY_SIZE], "big")
            self.written.put((key, hop is not None and hop.node.guid != 0), smp.frame)
        if hop is None:
            if smps.directed[smp.i] and not smp.local:
                request = method, attribute, smp.modifier, presented, len(smp.path)
                if self.unplaced.put(request, (smp, int(smps.mad[smp.i]))):
                    self.subnet.count_drop("requests to unknown ports")
            return
        port = hop.node.manager(hop.entered)
        if port is None:
            return
        guard = port.guard
        held = guard.check(method, presented, smp.frame, smp.time_ns) if guard is not None else None
        if held is None and method == numbers.GET and attribute == numbers.PORT_INFO and hop.node.kind != SWITCH:
            other = hop.node.ports.get(smp.modifier & 0xFF)  # both ports' keys are checked
            if other is not None and other is not port and other.guard is not None and other.guard.pending is None:
                found = other.guard.held.now
                if found is not None and refuses(found, method, presented):
                    port, guard, held = other, other.guard, found
        if held is not None:
            assert guard is not None
            if self._may_hold(port, presented, guard.held.since):
                return
            if smp.origin is None or self.routes.sure(smp.origin, smp.path, hop):
                self.learner.out.append(
                    WrongMKey(
                        smp.frame, smp.time_ns, port, held, guard.held.since, method, presented, smp.sender, smp.local,
                        int(smps.mad[smp.i]), attribute,
                    )
                )  # fmt: skip
            return
        if method != numbers.SET:
            return
        if attribute == numbers.PORT_INFO and guard is not None and self.steps.port_of(hop, smp.modifier & 0xFF, 0) is port:
            guard.pending = int.from_bytes(smp.body[:M_KEY_SIZE], "big")
        elif attribute == numbers.P_KEY_TABLE:
            target = self.steps.table_port(hop, smp.modifier >> 16)
            if target is not None and target.p_keys is not None:
                target.p_keys.learn(smp.modifier & 0xFFFF, None, smp.frame)

    def _may_hold(self, port: Port, key: int, since: int) -> bool:
        """Whether a Set after a frame may have given the port this key: if it went to an unknown port, or the port is known by LID only."""
        elsewhere = (False,) if port.node.guid else (False, True)
        return any(self.written.get((key, known), 0) > since for known in elsewhere)

    @staticmethod
    def _port(smp: Smp) -> Port | None:
        return smp.hop.node.manager(smp.hop.entered) if smp.hop is not None else None

    @staticmethod
    def _exchange_key(smps: Smps, i: int, *, answer: bool) -> tuple[object, ...]:
        """A key that is equal for a request and its answer."""
        what = smps.transaction(i), int(smps.modifier[i])
        if smps.directed[i]:
            return (*what, smps.path(i))
        return (*what, smps.dlid[i], smps.slid[i]) if answer else (*what, smps.slid[i], smps.dlid[i])

    def trap(self, smps: Smps, i: int, frame: int, time_ns: int, body: bytes) -> None:
        """Process a trap: a switch reports a link change, or any port a request with a wrong M_Key."""
        out, slid = self.learner.out, smps.slid[i]
        hop = self.routes.by_lid(slid) if not smps.directed[i] else None
        port = hop.node.manager(hop.entered) if hop is not None else None
        header = slid, smps.dlid[i], int(smps.sl[i]), bool(smps.directed[i])
        out.append(TrapSeen(frame, time_ns, port, body, smps.transaction(i), *header, int(smps.mad[i])))
        if hop is None:
            return
        trap = int.from_bytes(body[Notice.trap_number.span[0] : Notice.trap_number.span[1]], "big")
        if trap == LINK_STATE_TRAP:
            hop.node.unsure = frame
        elif trap == BAD_M_KEY_TRAP:
            bad = TrapMKey(body, Notice.data_details.bit // 8)
            key = (bad.method, bad.attributeid, bad.attributemodifier, bad.mkey, bad.dr_hop_count)
            found = self.unplaced.pop(key, None) if bad.dr_notice else None
            held = port.guard.held.now if port is not None and port.guard is not None else None
            if found is not None and port is not None and port.guard is not None and held is not None and refuses(held, key[0], key[3]):
                smp, mad = found
                out.append(
                    WrongMKey(
                        smp.frame, smp.time_ns, port, held, port.guard.held.since, key[0], key[3], smp.sender, False, mad, key[1], frame
                    )
                )


FabricEvent.source = FabricFollower


def _awaited(waiting: KeyedRequest | None, request: KeyedRequest) -> KeyedRequest:
    """A request that waits for its answer. Where another asker's with that transaction id waits, too, the answer may be to either."""
    return request if waiting is None or waiting[:2] == request[:2] else (EITHER, *request[1:])
