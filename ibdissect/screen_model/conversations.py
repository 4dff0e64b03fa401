"""Conversations: the two flows between two queue pairs, and what went wrong in them.

An RC packet names only its destination queue pair. Pairs are known from connection management, else from a PSN that one side sends and
the other acknowledges, else if exactly one flow goes each way between two addresses. UD packets name both ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ibdissect.decode.addresses import IP4_SIZE, End, address_text
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.connection_events import ConnectionSetUp
from ibdissect.decode.equal_rows import by_value
from ibdissect.decode.identity import StreamNumber
from ibdissect.engine.message_places import PLACE_BITS
from ibdissect.mad.response_times import ROUTES, Exchange, Name, ResponseTimes
from ibdissect.transport.message_table import MessageTable
from ibdissect.transport.psn_streams import Stream, Streams

from .one_way_flows import Flow

STREAMS = frozenset({"RC", "UC", "XRC"})
KEPT = 4096
"""The busiest conversations that a snapshot shows."""
Key = tuple[str, Name, Name, int, int]
"""Service, source, destination, destination QP, source QP (-1 where packets do not name it)."""


@dataclass(slots=True)
class Conversation:
    """Packets between two queue pairs; `near` sent the first one."""

    service: str
    near: Name
    near_qp: int
    """-1 where it is not known."""
    far: Name
    far_qp: int
    packets: tuple[int, int]
    """From near to far, and back."""
    octets: tuple[int, int]
    spark: tuple[int, ...]
    first_frame: int
    known_by: str = ""
    """How the pair is known: `CM`, `PSN`, `only one`, `DETH`; empty for a flow alone."""
    since: int = 0
    """Frame of the REQ, 0 when none was seen."""
    repeated: int = 0
    missing: int = 0
    naks: int = 0
    not_ready: int = 0
    """RNR NAKs."""
    counted: bool = False
    """Whether the PSNs were followed; otherwise the four numbers mean nothing."""
    messages: int = 0
    """SENDs, WRITEs, READs and ATOMICs that ended."""
    lanes: tuple[int, int] = (0, 0)
    """Numbers of the flows from near to far, and back (`Flow.lane`); 0: none."""
    times: ResponseTimes | None = None
    """From the first packet of a message to its acknowledgement or last response; None: none was seen."""

    @property
    def total(self) -> int:
        return sum(self.packets)

    def holds(self, source: End, destination: End, qp: int, source_qp: int = -1) -> bool:
        """Whether a packet from `source` to queue pair `qp` at `destination` belongs to it; `source_qp` where the packet names it."""
        if (source, destination, qp) == (self.near, self.far, self.far_qp):
            return source_qp in (-1, self.near_qp)
        return (source, destination, qp) == (self.far, self.near, self.near_qp) and source_qp in (-1, self.far_qp)


def trouble(one: Conversation) -> int:
    """Packets of a conversation that went wrong."""
    return one.repeated + one.missing + one.naks + one.not_ready


def conversations_of(flows: list[Flow], streams: Streams, connections: Connections) -> list[Conversation]:
    """The conversations of the given flows, the busiest first."""
    by_key: dict[Key, Flow] = {_key(flow): flow for flow in flows}
    followed = _followed(streams)
    known = _connected(connections.all)
    alone = _counterparts(flows)
    taken: set[Key] = set()
    conversations = []
    for flow in sorted(flows, key=lambda flow: flow.first_frame):
        key = _key(flow)
        if key in taken:
            continue
        taken.add(key)
        partner, how, qp, since = _partner(flow, known, followed, alone)
        sender = flow.qp if flow.source_qp >= 0 else -1
        back = by_key.get((flow.service, flow.destination, flow.source, partner, sender)) if partner >= 0 else None
        if back is not None and _key(back) in taken:
            back = None  # two flows claim one partner: neither claim can be trusted more than the first
        if back is not None:
            taken.add(_key(back))
        conversations.append(_conversation(flow, back, how, qp, since, followed))
    return sorted(conversations, key=lambda one: -one.total)[:KEPT]


def _key(flow: Flow) -> Key:
    return flow.service, flow.source, flow.destination, flow.qp, flow.source_qp


def _followed(streams: Streams) -> dict[Key, list[Stream]]:
    found: dict[Key, list[Stream]] = {}
    for stream in streams.all:
        found.setdefault((stream.ends.service, stream.ends.source, stream.ends.destination, stream.dest_qp, -1), []).append(stream)
    return found


def _connected(connections: Iterable[ConnectionSetUp]) -> dict[Key, tuple[int, int]]:
    """Key of a flow to the queue pair at its other end and the frame of the REQ; the latest connection counts."""
    found: dict[Key, tuple[int, int]] = {}
    for one in connections:
        if one.passive_qpn >= 0:
            found[one.service, one.active, one.passive, one.passive_qpn, -1] = one.active_qpn, one.req_frame
            found[one.service, one.passive, one.active, one.active_qpn, -1] = one.passive_qpn, one.req_frame
    return found


def _counterparts(flows: list[Flow]) -> dict[tuple[str, Name, Name], int]:
    """Service, source and destination to the queue pair of the only flow there is; -1 where there are several."""
    found: dict[tuple[str, Name, Name], int] = {}
    for flow in flows:
        ends = (flow.service, flow.source, flow.destination)
        found[ends] = -1 if ends in found else flow.qp
    return found


def _partner(
    flow: Flow, known: dict[Key, tuple[int, int]], followed: dict[Key, list[Stream]], alone: dict[tuple[str, Name, Name], int]
) -> tuple[int, str, int, int]:
    """The queue pair that answers, how it is known, the flow's own queue pair, and the frame of the REQ; -1 and "" if unknown."""
    if flow.source_qp >= 0:
        return flow.source_qp, "DETH", flow.source_qp, 0
    connected = known.get(_key(flow))
    if connected is not None:
        return connected[0], "CM", connected[0], connected[1]
    if flow.service not in STREAMS:
        return -1, "", -1, 0
    for stream in reversed(followed.get(_key(flow), [])):
        if stream.lane.peer is not None:
            return stream.lane.peer.qpn, "PSN", stream.lane.peer.qpn, 0
    if alone.get((flow.service, flow.source, flow.destination), -1) == flow.qp:
        qp = alone.get((flow.service, flow.destination, flow.source), -1)
        if qp >= 0:
            return qp, "only one", qp, 0
    return -1, "", -1, 0


def _conversation(flow: Flow, back: Flow | None, how: str, qp: int, since: int, followed: dict[Key, list[Stream]]) -> Conversation:
    spark = flow.spark if back is None else tuple(map(sum, zip(flow.spark, back.spark, strict=True)))
    made = Conversation(
        flow.service, flow.source, qp, flow.destination, flow.qp, (flow.packets, back.packets if back is not None else 0),
        (flow.octets, back.octets if back is not None else 0), spark, flow.first_frame, how, since,
        lanes=(flow.lane, back.lane if back is not None else 0),
    )  # fmt: skip
    for one in (flow, back):
        for stream in followed.get(_key(one), ()) if one is not None else ():
            made.counted = True
            made.repeated += stream.repeated + stream.repeated_responses
            made.missing += stream.missing + stream.missing_responses
            made.naks += sum((stream.naks or {}).values())
            made.not_ready += stream.rnr
    return made


def add_messages(conversations: Iterable[Conversation], messages: MessageTable) -> None:
    """Count the messages of conversations, and how long each took."""
    of_ends: dict[tuple[str, Name, Name, int], Conversation] = {}
    for one in conversations:
        of_ends[one.service, one.near, one.far, one.far_qp] = of_ends[one.service, one.far, one.near, one.near_qp] = one
    every = messages.columns()
    every = every.take(every.place >= 0)
    for stream, index in by_value(every.place >> PLACE_BITS):
        ends = messages.follower.ends_of(StreamNumber(stream))
        found = of_ends.get((ends.service, ends.source, ends.destination, ends.dest_qp))
        if found is None:
            continue
        found.messages += len(index)
        latency = every.latency_ns[index]
        if (latency >= 0).any():
            found.times = found.times or ResponseTimes(Counter())
            found.times.add(latency[latency >= 0])


def conversation_filter(one: Conversation) -> str:
    """The display filter that shows a conversation and nothing else."""
    there, back = _one_way(one.near, one.far, one.far_qp), _one_way(one.far, one.near, one.near_qp)
    if one.service == "UD" and one.near_qp >= 0:
        # The destination alone would let in what others send to the same queue pair.
        there += f" && infiniband.deth.srcqp == 0x{one.near_qp:06x}"
        back += f" && infiniband.deth.srcqp == 0x{one.far_qp:06x}"
    return f"({there}) || ({back})" if one.near_qp >= 0 else there


def _one_way(source: Name, destination: Name, qp: int) -> str:
    return f"{addressed(source, destination)} && infiniband.bth.destqp == 0x{qp:06x}"


def addressed(source: Name, destination: Name) -> str:
    """The display filter for packets from one end to another, by the addresses that identify the ends."""
    parts = []
    for end, lid, four, six, gid in (
        (source, "infiniband.lrh.slid", "ip.src", "ipv6.src", "infiniband.grh.sgid"),
        (destination, "infiniband.lrh.dlid", "ip.dst", "ipv6.dst", "infiniband.grh.dgid"),
    ):
        if not isinstance(end, End) or not end:
            continue
        text = address_text(end)
        if end.lid is not None:
            parts.append(f"{lid} == {end.lid}")
        else:
            parts.append(f"{four} == {text}" if len(end.address) == IP4_SIZE else f"({six} == {text} || {gid} == {text})")
    return " && ".join(parts) or "infiniband"


def exchange_filter(exchange: Exchange) -> str:
    """The display filter that shows the requests of an exchange and their answers."""
    of_class = f"infiniband.mad.mgmtclass == 0x{exchange.mgmt_class:02x}"
    if exchange.responder == ROUTES:
        return of_class
    there, back = addressed(exchange.requester, exchange.responder), addressed(exchange.responder, exchange.requester)
    return f"{of_class} && (({there}) || ({back}))"
