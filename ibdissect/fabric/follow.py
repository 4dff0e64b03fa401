"""How is the subnet learnt: the management packets of a chunk, one by one in frame order, into facts and events.

Facts come from answers with status 0 only; what a Set changes is uncertain from the request on and known with its answer.
Facts learnt later say nothing about earlier packets. Records of the SA fill in, behind each chunk, what no SMP showed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np
import numpy.typing as npt

from ibdissect.record import record
from ibdissect.table.distinct import by_value
from ibdissect.table.locate import Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.notice import Notice, TrapMKey

from . import columns as c
from .columns import Smps
from .events import ChunkFollowed, FabricEvent, RepressSeen, StateEvicted, TrapSeen, WrongMKey
from .keys import refuses
from .learn import M_KEY_SIZE, Asked, Learner, Smp
from .model import FIRST_MULTICAST, PERMISSIVE, SWITCH, Node, Port, Subnet
from .places import Places
from .records import learn_records
from .routes import Hop, Routes
from .slmaps import SlMaps

MAX_ASKED = 4096
"""PortInfo requests that wait for their answer."""
MAX_UNPLACED = 256
"""Requests to unknown ports that wait for the port's own complaint."""
LINK_STATE_TRAP, BAD_M_KEY_TRAP = 128, 256
DIRECTED_SENDER = 1 << 16
"""Added to the high word of a transaction id, so that it is no SLID."""


@record(eq=True)
class Requests:
    """SMPs of a chunk with the ports they are about, as arrays of one length in frame order: its requests, or its answers."""

    rows: Int
    """Row of the chunk."""
    method: npt.NDArray[np.uint8]
    attribute: npt.NDArray[np.uint16]
    modifier: npt.NDArray[np.uint32]
    mad: Int
    """Offset of the MAD in its frame."""
    bodies: npt.NDArray[np.uint8]
    """The attribute, uint8[n, 64]."""
    slot: Int
    """Slot of the node addressed or answering, -1 where it is not known."""
    entered: Int
    """Number of the port that the request came in by; on a switch addressed by LID, 0."""
    nodes: tuple[Node | None, ...]
    """The distinct nodes; None for those not known."""
    which: Int
    """Index into `nodes` of each SMP."""
    of_attribute: dict[int, Int]
    """Indices of the SMPs of each attribute that occurs."""
    kinds: Int
    """NodeType of each of `nodes`, 0 where it is not known."""
    num_ports: Int
    """NumPorts of each of `nodes`."""


class Follower:
    """Feeds chunks to the subnet model and tells what happened. One per capture; chunks in order."""

    def __init__(self) -> None:
        self.subnet = Subnet()
        self.routes = Routes(self.subnet)
        self.learner = Learner(self.subnet, self.routes)
        self.asked: dict[tuple[object, ...], Asked] = {}
        """PortInfo requests by transaction, modifier and way, as far as M_Keys are in play."""
        self.done = 0
        """SMPs of the chunk that are taken in."""
        self.unplaced: dict[tuple[int, ...], tuple[Smp, int]] = {}
        """Directed requests whose port is not known, by what a bad M_Key trap repeats of them; and the offset of their MAD."""

    def hear(self, events: Container[type[FabricEvent]]) -> None:
        """Tell of these events only, as far as the others are many: a sweep of a large subnet changes every port's state and tables."""
        self.learner.heard = events

    def feed(self, table: ChunkTable) -> Iterator[FabricEvent]:
        """Take in a chunk; yields events while the state is as of their frame. Exhaust it."""
        smps = Smps(table, keyed=self.subnet.keyed)
        places = Places(smps, self.routes)
        yield from self._each(smps, table, places)
        last = table.chunk.first + len(table) - 1
        time_ns = int(table.chunk.time_ns[-1]) if len(table) else 0
        learn_records(self.subnet, table)
        yield from self._evicted(last, time_ns)
        asks = np.flatnonzero(~smps.answers & (smps.method != c.TRAP))
        requests = self._of(smps, asks, places)
        answers = self._of(smps, np.flatnonzero(smps.answers), places)
        yield ChunkFollowed(last, time_ns, table, self.subnet, requests, answers)

    def _evicted(self, frame: int, time_ns: int) -> Iterator[FabricEvent]:
        """What had to be forgotten since this was asked last."""
        for what, count in sorted(self.subnet.dropped.items()):
            yield StateEvicted(frame, time_ns, what, count)
        self.subnet.dropped.clear()

    def _of(self, smps: Smps, index: Int, places: Places) -> Requests:
        slots, entered = places.slot, places.entered
        distinct, which = np.unique(slots[index], return_inverse=True)
        attribute = smps.attribute[index]
        of_attribute = dict(by_value(attribute))
        nodes = tuple(self.subnet.slots.get(slot) for slot in distinct.tolist())
        return Requests(
            smps.rows[index], smps.method[index], smps.attribute[index], smps.modifier[index], smps.mad[index], smps.bodies[index],
            slots[index], entered[index], nodes, which.ravel(), of_attribute,
            np.array([node.kind if node is not None else 0 for node in nodes], np.int64),
            np.array([node.num_ports if node is not None else 0 for node in nodes], np.int64),
        )  # fmt: skip

    def _each(self, smps: Smps, table: ChunkTable, places: Places) -> Iterator[FabricEvent]:
        """The steps that some SMPs need one by one, and the columns of the others.

        Columns are right as long as every route leads where it led: when one turns, or a node goes, all behind have their own step.
        """
        maps, n = SlMaps(smps, places), len(smps.rows)
        self.done = 0
        if not self.routes.turned:
            need = smps.kind != c.PLACE_ONLY
            yield from self._walk(smps, table, places, np.flatnonzero(need & ~maps.batched | ~places.sure), first=True)
        places.settle(self.done)
        maps.learn(self.subnet, table.chunk.first, self.done)
        if self.done < n:
            yield from self._walk(smps, table, places, np.arange(self.done, n), first=False)
            places.settle(n)

    def _walk(self, smps: Smps, table: ChunkTable, places: Places, steps: Int, *, first: bool) -> Iterator[FabricEvent]:
        """Take in SMPs one by one; where the columns are right no more it stops, in the first walk. `done`: all before are taken in."""
        learner, routes, dropped, keyed = self.learner, self.routes, self.subnet.dropped, smps.keyed
        out, hops = learner.out, places.hops
        rows = smps.rows[steps]
        columns = (
            steps, smps.kind[steps], places.group[steps], smps.modifier[steps], smps.attribute[steps], smps.method[steps],
            table.chunk.first + rows, table.chunk.time_ns[rows], places.sure[steps],
        )  # fmt: skip
        learner.lost = False
        plain = Smp(0, 0, 0, 0, None, b"", None, 0, False)
        """For answers of which neither the way nor the sender matters."""
        for i, kind, way, modifier, attribute, method, frame, time_ns, sure in zip(*(column.tolist() for column in columns), strict=True):
            if kind == c.COMPLAINS:
                self._trap(smps, i, frame, time_ns)
            else:
                hop = None
                if way >= 0:
                    hop = hops[way]
                    if hop is None or not hop.node.alive or routes.turned:
                        hop = places.known(way)
                smp = None
                if hop is None and way >= 0 and kind == c.PLACE_ONLY:
                    where = places.ways[way]
                    hop = routes.directed(routes.origin(int.from_bytes(where[: c.HOPS_AT], "big")), where[c.HOPS_AT :])
                elif hop is None:
                    smp = self._address(smps, i)
                    hop = smp.hop
                if kind == c.TEACHES:
                    if hop is not None and attribute == c.PORT_INFO and not keyed:
                        node = hop.node
                        port = node.ports.get(modifier & 0xFF if node.kind == SWITCH else hop.entered)
                        if port is not None and port.guard is None and port.body == smps.body(i):  # as usual in a subnet at rest
                            if not sure:
                                places.put(i, hop)
                            continue
                    if smp is None:
                        smp = self._made(smps, i, hop) if keyed or attribute == c.NODE_INFO else plain
                    smp.i, smp.hop, smp.frame, smp.time_ns, smp.modifier = i, hop, frame, time_ns, modifier
                    asked = None
                    if keyed and attribute == c.PORT_INFO:
                        asked = self.asked.pop(self._way(smps, smp, smps.dlid[i], smps.slid[i]), None)
                    learner.answer(smps, smp, attribute, asked)
                    hop = smp.hop
                    if attribute == c.NODE_INFO:
                        places.taught(i)
                        if hop is None and smp.origin is not None:
                            hop = routes.directed(smp.origin, smp.path)
                elif kind == c.ASKS:
                    smp = smp or self._made(smps, i, hop)
                    smp.frame, smp.time_ns, smp.modifier = frame, time_ns, modifier
                    self._ask(smps, smp, method, attribute)
                if hop is not None and (not sure or routes.turned):
                    places.put(i, hop)
            if out:
                yield from out
                out.clear()
            evicted = bool(dropped)
            if evicted:
                yield from self._evicted(frame, time_ns)
            if first and (routes.turned or learner.lost or places.missed or evicted):
                self.done = i + 1
                return
        self.done = len(smps.rows)

    def _made(self, smps: Smps, i: int, hop: Hop | None) -> Smp:
        """What `_address` says of a directed SMP whose port is known already."""
        high = int.from_bytes(smps.high(i), "big")
        path = smps.path(i)
        return Smp(i, 0, 0, 0, self.routes.origin(high), path, hop, DIRECTED_SENDER + high, not path)

    def _address(self, smps: Smps, i: int) -> Smp:
        """Who is meant: the node that a request goes to or an answer comes from."""
        far, near = (smps.slid[i], smps.dlid[i]) if smps.answers[i] else (smps.dlid[i], smps.slid[i])
        if not smps.directed[i]:
            return Smp(i, 0, 0, 0, None, b"", self.routes.by_lid(far), near, far == near != PERMISSIVE)
        if smps.pure[i]:
            smp = self._made(smps, i, None)
            assert smp.origin is not None
            smp.hop = self.routes.directed(smp.origin, smp.path)
            return smp
        path = smps.path(i)
        slid, dlid = int(smps.dr_slid[i]), int(smps.dr_dlid[i])
        if dlid != PERMISSIVE:
            return Smp(i, 0, 0, 0, None, path, self.routes.by_lid(dlid), DIRECTED_SENDER + (smps.transaction(i) >> 32), False)
        start = self.routes.by_lid(far)  # the route starts where the LIDs lead
        hop = self.routes.walk(start.node, start.entered, path, start.frame) if start is not None else None
        return Smp(i, 0, 0, 0, None, path, hop, slid, False)

    # -- requests

    def _ask(self, smps: Smps, smp: Smp, method: int, attribute: int) -> None:
        presented = smps.m_key(smp.i)
        if attribute == c.PORT_INFO:
            if len(self.asked) >= MAX_ASKED:
                self.asked.pop(next(iter(self.asked)))
                self.subnet.count_drop("requests")
            self.asked[self._way(smps, smp, smps.slid[smp.i], smps.dlid[smp.i])] = (method, presented, smp.frame)
        elif method == c.TRAP_REPRESS and attribute == c.NOTICE:
            self.learner.out.append(RepressSeen(smp.frame, smp.time_ns, self._port(smp), smps.transaction(smp.i), smps.body(smp.i)))
        hop = smp.hop
        if hop is None:
            if smps.directed[smp.i] and not smp.local:
                if len(self.unplaced) >= MAX_UNPLACED:
                    self.unplaced.pop(next(iter(self.unplaced)))
                    self.subnet.count_drop("requests to unknown ports")
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
                self.learner.out.append(
                    WrongMKey(
                        smp.frame, smp.time_ns, port, held, guard.held.since, method, presented, smp.sender, smp.local,
                        int(smps.mad[smp.i]), attribute,
                    )
                )  # fmt: skip
            return
        if method != c.SET:
            return
        if attribute == c.PORT_INFO and guard is not None and self.learner.about(hop, smp.modifier & 0xFF, 0) is port:
            guard.pending = int.from_bytes(smps.body(smp.i)[:M_KEY_SIZE], "big")
        elif attribute == c.P_KEY_TABLE:
            target = self.learner.table_port(hop, smp.modifier >> 16)
            if target is not None and target.p_keys is not None:
                target.p_keys.learn(smp.modifier & 0xFFFF, None, smp.frame)

    @staticmethod
    def _port(smp: Smp) -> Port | None:
        return smp.hop.node.manager(smp.hop.entered) if smp.hop is not None else None

    def _way(self, smps: Smps, smp: Smp, near: int, far: int) -> tuple[object, ...]:
        """What a request and its answer have in common."""
        transaction = smps.transaction(smp.i)
        return (transaction, smp.modifier, smp.path) if smps.directed[smp.i] else (transaction, smp.modifier, near, far)

    def _trap(self, smps: Smps, i: int, frame: int, time_ns: int) -> None:
        """A port complains: a switch that some link changed, any port that a request had the wrong M_Key."""
        out, body, slid = self.learner.out, smps.body(i), smps.slid[i]
        hop = self.routes.by_lid(slid) if not smps.directed[i] and 0 < slid < FIRST_MULTICAST else None
        port = hop.node.manager(hop.entered) if hop is not None else None
        out.append(TrapSeen(frame, time_ns, port, body, smps.transaction(i), slid, smps.dlid[i], smps.directed[i], int(smps.mad[i])))
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


FabricEvent.source = Follower

__all__ = ["Follower", "Node", "Requests"]
