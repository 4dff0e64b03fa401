# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Lanes: the packets that one host sends to one queue pair of another, and the lane of their answers. A connection is two lanes.

A lane is what one host sends to one queue pair of another. Connection management says which two belong together; without it,
the PSNs of answers do. Until that is known, a lane's packets wait, within a bound, so that both are read in the order of their frames.
"""

from __future__ import annotations

from typing import Any

from ibdissect.wire.opcodes import SERVICE, UC

from . import agreed_lanes, pairing
from .connection_setups import SetUps, terms
from .psn_gaps import FAR, Told
from .psn_order import MAX_ORDERS, MAX_WAYS

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import ANEW_NS, ANSWER, CNP, NOTHING, OTHER, READ_REQUEST, REQUEST, distance, i64, mix, u64
    from cython.cimports.ibdissect.engine.hosts import Host, Lane
    from cython.cimports.ibdissect.engine.message_places import Places
    from cython.cimports.ibdissect.engine.packet_fields import Packet, PacketReader
    from cython.cimports.ibdissect.engine.pairing import Pairing
    from cython.cimports.ibdissect.engine.psn_order import Order
    from cython.cimports.ibdissect.engine.requester_responder import Half
    from cython.cimports.ibdissect.engine.waiting_packets import Path, Room
else:
    from .common import distance, i64, mix, u64
    from .hosts import Host, Lane
    from .message_places import Places
    from .packet_fields import Packet, PacketReader
    from .packet_kinds import ANEW_NS, ANSWER, CNP, NOTHING, OTHER, READ_REQUEST, REQUEST
    from .pairing import Pairing
    from .psn_order import Order
    from .requester_responder import Half
    from .waiting_packets import Path, Room

MAX_LANES = 50_000
"""Lanes that are followed, those that are over included, and directions of connections: two lanes have one or two."""
MAX_HOSTS = 100_000
"""Addresses that are remembered."""
MAX_BACKLOG, MAX_HELD = 256, 100_000
"""Packets that wait until it is known where a lane's answers come: of one lane, of all. In a crowd (`pairing`) more are needed."""
LOOKED_FOR = cython.declare(cython.longlong, 512)
"""Packets of a lane whose PSNs are compared with those of other lanes."""
_FAR = cython.declare(cython.longlong, FAR)  # neither missing nor sent again in one step, as long as no READ takes as many
_NEAR = cython.declare(cython.ulonglong, (1 << 14) - 1)
"""Mask of the hash by which a lane or a host is found again without the dict: each has one place, which another one may have taken."""
_AHEAD = cython.declare(cython.Py_ssize_t, 16)  # rows whose bytes are on their way
_UC = cython.declare(cython.int, UC)
_SERVICE = cython.declare(cython.int, SERVICE)
_CM_QPN = cython.declare(cython.int, 1)


@cython.final
@cython.cclass
class Lanes:
    """All lanes of a capture. Feed windows in order, then call `finish` once."""

    def __init__(self) -> None:
        self.lanes, self.hosts, self.paths, self.expected = {}, {}, {}, {}
        self.pairing = Pairing(self.lanes)
        self.setups, self.finished, self.queue = SetUps(), [], []
        places: list[Any] = [None] * (_NEAR + 1)
        self.near, self.near_hosts = places, places[:]
        self.held = self.dropped = self.order = self.first_time = self.frames = 0
        self.packet = Packet()
        self.told: Any = None  # `Told`, where somebody asks for the order of packets
        self.places: Any = None  # `Places`, where somebody asks for messages
        self.room, self.hosts_dropped, self.halves = Room(), 0, 0

    def feed(self, reader: PacketReader) -> None:
        """A window that `reader` has begun."""
        p: Packet = self.packet
        i: cython.Py_ssize_t
        lane: Lane
        for i in range(reader.rows):
            reader.touch(i + _AHEAD)
            reader.read(i, p)
            self.frames += 1
            if p.kind == NOTHING:
                continue
            if p.again:
                self.marked(p)
                continue
            if not self.first_time:
                self.first_time = p.time
            if p.kind == OTHER:
                self.datagram(reader, p, i)
                continue
            lane = self.near[p.lane & _NEAR]
            if lane is None or lane.key != p.lane:
                lane = self.lanes.get(p.lane)
                if lane is not None:
                    self.near[p.lane & _NEAR] = lane
            if lane is None:
                lane = self.new_lane(p)
                if lane is None:
                    self.left_out(p)
                    continue
            elif lane.qpn != p.qpn or lane.src.lo != p.src_lo or lane.dst.lo != p.dst_lo:
                continue  # another lane with an equal hash
            if p.kind == REQUEST:
                lane = self.asks(lane, p)
                if lane is None:
                    self.left_out(p)
                    continue
            lane.active = p.time
            if lane.peer is None and p.kind != CNP and lane.packets < LOOKED_FOR:
                self.unpaired(lane, p)
            else:
                self.deliver(lane, p)
            if self.told is not None and p.whole and p.kind < CNP:
                self.follow(lane, p)

    # -- the order of packets

    def tells(self) -> Told:
        """Follow the order of packets from now on; what happens is told there."""
        told: Told = self.told or Told()
        self.told = told
        return told

    def notes_places(self) -> Places:
        """Note where packets belong among messages from now on."""
        self.tells()
        places: Places = self.places or Places()
        self.places = places
        return places

    def follow(self, lane: Lane, p: Packet) -> cython.int:
        """A packet reaches its stream at once."""
        one: Order = self.stream_of(lane, p)
        if one is None:
            self.told.left_out += 1
            return 0
        if one.back is None:
            one.back = self.facing(one)
        return one.take(p, one.back)

    def stream_of(self, lane: Lane, p: Packet) -> Order:
        """The stream of a packet; None if there are too many."""
        answers: cython.bint = p.kind == ANSWER
        service: cython.int = p.opcode & _SERVICE
        ways: cython.int = 0
        one: Order = lane.stream
        while one is not None and (one.response != answers or one.service != service or one.gids != p.gids):
            one = one.next
            ways += 1
        if one is None:
            if ways >= MAX_WAYS or self.told.count >= MAX_ORDERS:
                return None
            one = Order(self.told, lane, p, answers)
            one.next, lane.stream = lane.stream, one
            self.told.count += 1
            self.told.begun.append(one)
        return one

    def facing(self, one: Order) -> Order:
        """The stream that answers another one, or is answered by it; None if it is not known."""
        lane: Lane = one.lane
        if lane.peer is None:
            return None
        back: Order = lane.peer.stream
        while back is not None and (back.response == one.response or back.service != one.service or not back.faces(one)):
            back = back.next
        return back

    # -- hosts and lanes

    def host(self, hi: u64, lo: u64, network: i64) -> Host | None:
        """The host of an address in a network; None if there are too many."""
        place: u64 = mix(hi, lo) & _NEAR
        host: Host = self.near_hosts[place]
        if host is not None and host.lo == lo and host.hi == hi and host.network == network:
            return host
        host = self.hosts.get((hi, lo, network))
        if host is None:
            if len(self.hosts) >= MAX_HOSTS:
                self.hosts_dropped += 1
                return None
            host = self.hosts[hi, lo, network] = Host(hi, lo, network, len(self.hosts))
        self.near_hosts[place] = host
        return host

    def new_lane(self, p: Packet) -> Lane | None:
        src: Host = self.host(p.src_hi, p.src_lo, p.network)
        dst: Host = self.host(p.dst_hi, p.dst_lo, p.network)
        if src is None or dst is None:
            return None
        lane: Lane = self.made(p.lane, src, dst, p.qpn, p.network)
        if lane is not None:
            lane.service = p.opcode & _SERVICE
        return lane

    def left_out(self, p: Packet) -> cython.int:
        """A packet of a lane for which there is no room still shows that its sender lives, and what is captured."""
        self.dropped += 1
        src, dst = self.hosts.get((p.src_hi, p.src_lo, p.network)), self.hosts.get((p.dst_hi, p.dst_lo, p.network))
        if src is not None:
            src.last_time, src.last_frame = p.time, p.frame
        if dst is not None:
            dst.heard += 1
        return 0

    def asks(self, lane: Lane, p: Packet) -> Lane | None:
        """The lane of a request: a new one where the queue pair was made again without connection management. None if there are too many.

        It begins a message after a silence, with the first PSN and other bytes than before, or far from all PSNs that it used.
        """
        ahead: i64 = distance(p.psn, lane.front + 1)
        if lane.begun < 0:
            lane.begun, lane.begun_content, lane.front = p.psn, p.content, p.psn
        elif p.first and lane.setup is None and p.time - self.last_active(lane) >= ANEW_NS and (
            (abs(ahead) > _FAR and not lane.long_reads) or (p.psn == lane.begun and p.content != lane.begun_content)
        ):
            if lane.peer is not None:
                self.made(lane.peer.key, lane.peer.src, lane.peer.dst, lane.peer.qpn, lane.peer.network)
            before: Lane = lane
            lane = self.made(before.key, before.src, before.dst, before.qpn, before.network)
            if lane is None:
                return None
            lane.service = p.opcode & _SERVICE
            lane.begun, lane.begun_content, lane.front = p.psn, p.content, p.psn
        elif ahead >= 0:
            lane.front = p.psn
        if p.op == READ_REQUEST and p.dma >= _FAR << 8:
            lane.long_reads = True
        return lane

    @cython.cfunc
    @cython.exceptval(-1)
    def last_active(self, lane: Lane) -> i64:
        """When the last packet of a queue pair came, either way."""
        return lane.active if lane.peer is None else max(lane.active, lane.peer.active)

    def made(self, key: u64, src: Host, dst: Host, qpn: i64, network: i64) -> Lane | None:
        """A lane, which takes the place of an earlier one of the same queue pair; None if there are too many."""
        if len(self.lanes) + len(self.finished) >= MAX_LANES:
            return None
        self.order += 1
        lane: Lane = Lane(key, src, dst, qpn, network, self.order)
        before = self.lanes.get(key)
        if before is not None:
            self.settle(before)
            self.pairing.over(before)
            self.finished.append(before)
        self.pairing.name(lane)
        self.lanes[key] = self.near[key & _NEAR] = lane
        hint = self.expected.pop(key, None)
        if hint is not None:
            lane.setup, lane.side = hint
        return lane

    def key_of(self, src: Host, dst: Host, qpn: int, network: int) -> int:
        """The key of a lane, as `PacketReader.read` makes it."""
        return mix(mix(mix(src.hi, src.lo), mix(dst.hi, dst.lo)), cython.cast(u64, qpn) << 32 | cython.cast(u64, network))

    def half(self, requests: Lane | None, answers: Lane | None) -> Half | None:
        """The direction in which a lane asks; `answers`: the lane back, or None. None if there are too many."""
        if requests is not None and requests.requests is not None:
            return requests.requests
        if answers is not None and answers.answers is not None:
            return answers.answers
        if self.halves >= MAX_LANES:
            return None
        self.halves += 1
        lane: Lane = requests if requests is not None else answers
        pair: u64 = mix(lane.src.number, lane.dst.number) if requests is not None else mix(lane.dst.number, lane.src.number)
        path = self.paths.get(pair)
        if path is None:
            path = self.paths[pair] = Path(self.room)
        half: Half = Half(path, lane.service != _UC)
        if lane.setup is not None:
            half.agreed_mtu, half.timer = terms(lane.setup)
        if requests is not None:
            requests.requests = half
        if answers is not None:
            answers.answers = half
        return half

    # -- packets

    def marked(self, p: Packet) -> cython.int:
        """A copy shows that the network marked a packet: all that was not known."""
        lane: Lane = self.lanes.get(p.lane)
        if lane is None or lane.qpn != p.qpn or p.kind >= CNP:
            return 0
        if lane.settled:
            return self.deliver(lane, p)
        lane.backlog.append(p.copy())
        self.held += 1
        return 0

    def deliver(self, lane: Lane, p: Packet) -> cython.int:
        """A packet reaches the state of its direction."""
        peer: Lane = lane.peer
        half: Half
        if p.again:
            half = lane.requests if p.kind == REQUEST else lane.answers
            return half.mark(p) if half is not None else 0
        if not lane.packets:
            lane.first_frame, lane.first_time = p.frame, p.time
            lane.service = p.opcode & _SERVICE if p.kind != CNP else lane.service
        if p.kind == REQUEST:
            half = lane.requests if lane.requests is not None else self.half(lane, peer)
            if half is None:
                return self.left_out(p)
            half.request(p)
            half.first_frame = half.first_frame or p.frame
            lane.pkey = p.pkey
        elif p.kind == CNP:
            lane.cnps += 1
            lane.cnp_last = p.frame
            lane.cnp_frame = lane.cnp_frame or p.frame
        else:
            half = lane.answers if lane.answers is not None else self.half(peer, lane)
            if half is None:
                return self.left_out(p)
            half.answer(p)
            half.first_frame = half.first_frame or p.frame
        lane.packets += 1
        lane.last_frame, lane.last_time = p.frame, p.time
        self.noted(lane, p)
        return self.place(lane, p) if self.places is not None and (p.whole or p.kind == CNP) else 0

    def place(self, lane: Lane, p: Packet) -> cython.int:
        """Note where a packet belongs among the messages of its connection."""
        places: Places = self.places
        other: Order = None
        if p.kind == CNP:
            other = lane.peer.stream if lane.peer is not None else None
            while other is not None and other.response:
                other = other.next
            return places.slow_down(other, p) if other is not None else 0
        one: Order = self.stream_of(lane, p)
        if one is None or places.says_nothing(one, p):
            return 0
        if p.kind == REQUEST:
            return places.ask(one, p)
        other = one.back if one.back is not None else self.facing(one)
        return places.answer(other, p) if other is not None else 0

    def noted(self, lane: Lane, p: Packet) -> cython.int:
        """What is known of the hosts at both ends."""
        if p.frame > lane.src.last_frame:  # what waited is older
            lane.src.last_time, lane.src.last_frame = p.time, p.frame
        lane.dst.heard += 1
        lane.versions |= 1 << p.version
        if p.bad_icrc:
            lane.checked += 1
            lane.src.checked += 1
            if p.bad_icrc > 1:
                lane.wrong += 1
                lane.src.wrong += 1
                lane.wrong_last = p.frame
                if not lane.wrong_first:
                    lane.wrong_first = p.frame
        return 0

    def unpaired(self, lane: Lane, p: Packet) -> cython.int:
        """A packet of a lane of which it is not known where the answers come."""
        other: Lane = self.pairing.match(lane, p)
        if other is not None:
            lane.backlog.append(p.copy())
            self.held += 1
            self.pair(lane, other)
        elif lane.settled:
            self.deliver(lane, p)
        else:
            lane.backlog.append(p.copy())
            self.held += 1
            if len(lane.backlog) == 1:
                self.queue.append(lane)
            if len(lane.backlog) >= MAX_BACKLOG:
                self.settle(lane)
            while self.held > MAX_HELD:
                self.settle(self.queue.pop(0))
        return 0

    def pair(self, one: Lane, other: Lane) -> None:
        """Two lanes are the two ways of a connection; what waited of both is read in the order of its frames."""
        self.pairing.forget(one)
        self.pairing.forget(other)
        one.peer, other.peer = other, one
        if one.setup is None and other.setup is not None:
            one.setup, one.side = other.setup, 1 - other.side
        elif one.setup is not None:
            other.setup, other.side = one.setup, 1 - one.side
        for asks, back in ((one, other), (other, one)):
            if asks.requests is not None:
                back.answers = asks.requests  # what answers told before their requests were known is little, and lost
            elif back.answers is not None:
                asks.requests = back.answers
        for lane, p in pairing.merged(one, other):
            self.deliver(lane, p)
        self.held -= len(one.backlog) + len(other.backlog)
        one.backlog, other.backlog, one.settled, other.settled = [], [], True, True

    def settle(self, lane: Lane) -> None:
        """Wait no longer for a lane's answers."""
        if not lane.settled:
            lane.settled = True
            for p in lane.backlog:
                self.deliver(lane, p)
            self.held -= len(lane.backlog)
            lane.backlog = []

    def finish(self) -> list[Lane]:
        """All lanes, once the capture is at its end."""
        pairing.pair_rest(self)
        for lane in self.lanes.values():
            self.settle(lane)
        self.queue = []
        return [*self.finished, *self.lanes.values()]

    # -- datagrams

    def datagram(self, reader: PacketReader, p: Packet, i: cython.Py_ssize_t) -> cython.int:
        """A packet of no connection: it shows that its sender lives, and may be connection management."""
        src: Host = self.host(p.src_hi, p.src_lo, p.network)
        dst: Host = self.host(p.dst_hi, p.dst_lo, p.network)
        if src is None or dst is None:
            return 0
        src.last_time, src.last_frame = p.time, p.frame
        dst.heard += 1
        if p.bad_icrc:
            src.checked += 1
            src.wrong += p.bad_icrc > 1
        if p.qpn != _CM_QPN:
            return 0
        mad: bytes = reader.message(i)
        if not mad:
            return 0
        found = self.setups.take(mad, (src.hi, src.lo), (dst.hi, dst.lo), p.network, p.frame, p.time)
        if found is not None:
            agreed_lanes.expect(self, found[0], found[1])
        return 0
