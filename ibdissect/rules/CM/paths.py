"""Connection requests (REQ) and requests for another path (LAP) that name a path that does not exist or is another port's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import KeptDict, KeptList
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.addresses import End, lid_end
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.cm_connections import Connections, messages
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.identity import Code, Frame, PortId
from ibdissect.decode.native_packets import Native
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, fault, on_chunk, on_struct
from ibdissect.rules.shared.not_seen import LearntFactRule, with_peer
from ibdissect.rules.shared.path_lids import PathEnd, PathLidsRule
from ibdissect.rules.shared.requested_paths import RequestedPath, paths
from ibdissect.subnet import ROUTER, FabricFollower, Port
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.cm import LAP, REQ
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import LAST_UNICAST, LINK_LOCAL, MANAGEMENT_VL, PORT_INFO, SEND, SL_TO_VL
from ibdissect.wire.spec import Field, Struct

MULTICAST = 0xFF
"""The first byte of a multicast GID."""
PREFIX_BYTES = 8
HIGHEST_MTU, HIGHEST_OMNIPATH_MTU = 5, 7
RESERVED_RATE = 1
RC = 0
"""TransportServiceType of a REQ."""


def is_native(seen: Seen) -> bool:
    """Whether LIDs mean anything: the REQs of RoCE have the permissive LID."""
    return bool(seen.value(LRH.slid))


class ImpossiblePath(Rule):
    """A connection request names a path with a LID that no port has.

    The other end answers with REJ 12 or 13 (invalid GID, invalid LID), or uses the path: then no packet arrives, or only until the
    connection moves to it.

    Look at the path record that the application used, and at how it makes the request.

    One REQ of a native connection in one subnet, its primary path, or its alternate path if it has one; or a LAP, which asks for another
    path. Silent where both LIDs are 0: Linux writes that for Omni-Path's extended LIDs.
    """

    code, name, severity = "CM019", "req-lid-impossible", ERROR
    reference = "IBA 12.7.11, 12.7.12, 12.7.21, 4.1.3"
    message = "{what} with {path} path from LID {near} to LID {far}: LIDs of ports are 1 to 49151 (0xbfff)"
    example = "a REQ with Alternate Remote Port LID 0xc001"

    @on_struct(REQ, LAP)
    def look(self, view: REQ | LAP, seen: Seen) -> Iterator[Hit]:
        for path in paths(view, seen) if is_native(seen) else ():
            near, far = path.lids
            if path.value("subnet_local") and (max(near, far) > LAST_UNICAST or bool(near) != bool(far)):
                field = path.field("remote_port_lid" if 0 < near <= LAST_UNICAST else "local_port_lid")
                named = {"what": type(view).__name__, "path": path.name, "near": near, "far": far}
                yield fault(seen, named, field, of=view, key=(named["what"], path.name, near, far))


class RequestPathCodes(Rule):
    """A request names a path with values that do not exist: an MTU, a rate or a GID that no path has, or a hop limit that ends it.

    The other end rejects it (REJ 12 to 23, or 26 for the MTU), or uses the path and sends packets that nobody takes.

    Look at the path record that the application used, and at how it makes the request.

    One REQ or LAP. MTU codes are 1 to 5, and Omni-Path's 6 and 7; of the rate codes, 1 is reserved and later standards may add others. A
    hop limit of 0 or 1 only for a native path that leaves the subnet: between two prefixes, neither of them link-local, which is any
    subnet's own, of two ports, and not to the LID of an adapter or switch that the capture shows.
    """

    code, name, severity = "CM021", "req-path-impossible", WARNING
    reference = "IBA 12.7.11, 12.7.14, 12.7.17, 12.7.20, 15.2.5.16; kernel ib_verbs.h enum ib_rate"
    message = "{what} with {path} path of {why}"
    example = "a REQ with Primary Packet Rate 1"
    needs = (FabricFollower, Scopes)

    @on_struct(REQ, LAP)
    def look(self, view: REQ | LAP, seen: Seen) -> Iterator[Hit]:
        for path in paths(view, seen):
            for field, why in _impossible(path, is_native(seen)):
                named = {"what": type(view).__name__, "path": path.name, "why": why}
                first_hop = path.lids[1] if field is path.field("hop_limit") else 0
                yield fault(seen, {**named, "first_hop": first_hop}, field, of=view, key=(named["what"], path.name, why))

    def stands(self, hit: Hit, context: Context) -> bool:
        """Unless the path ends at a port of this subnet: then its GIDs have two prefixes of one subnet."""
        owners, scopes = context.get(FabricFollower).subnet.owners(hit.arguments["first_hop"]), context.get(Scopes)
        return all(port.node.kind in (0, ROUTER) or not scopes.together((hit.frame, port.frame)) for port in owners)


def _impossible(path: RequestedPath, native: bool) -> Iterator[tuple[Field[Any], str]]:
    """Fields of a path that hold what no path has, and what."""
    view = path.view
    if isinstance(view, REQ) and path.name == "primary":
        mtu = view.path_packet_payload_mtu
        if not 0 < mtu <= HIGHEST_OMNIPATH_MTU:
            yield REQ.path_packet_payload_mtu, f"MTU code {mtu}, codes are 1 to {HIGHEST_MTU}"
    if path.value("packet_rate") == RESERVED_RATE:
        yield path.field("packet_rate"), "rate code 1, which is reserved"
    near, far = path.gids
    for gid, what in ((near, "local_port_gid"), (far, "remote_port_gid")):
        if gid[0] == MULTICAST:
            yield path.field(what), "a multicast GID, which is no port's"
    limit = path.value("hop_limit")
    if native and _apart(near, far) and not path.value("subnet_local") and limit < 2:
        yield path.field("hop_limit"), f"hop limit {limit} to another subnet: the first router drops its packets"


def _apart(near: bytes, far: bytes) -> bool:
    """Whether two GIDs are those of two ports in two subnets. A link-local prefix is any subnet's own."""
    prefixes, own = ({gid[:PREFIX_BYTES] for gid in (near, far)}, LINK_LOCAL.to_bytes(PREFIX_BYTES, "big"))
    return any(near) and any(far) and len(prefixes) == 2 and own not in prefixes and near[PREFIX_BYTES:] != far[PREFIX_BYTES:]


class AckTimeoutInfinite(Rule):
    """A connection request has no ACK timeout.

    A Local ACK Timeout of 0 means to wait forever: a lost last packet is never sent again, and the connection hangs instead of failing.

    Set a timeout (14 is about 67 ms), unless the application monitors its connections itself.

    The REQ of an RC connection: its primary path, or its alternate path if it has one. A LAP does not say whether the connection is RC.
    """

    code, name, severity = "CM015", "req-no-ack-timeout", INFO
    reference = "IBA 12.7.34, 9.7.6.1.3; python-rdma"
    message = "REQ with {path} Local ACK Timeout 0: the sender waits forever for a lost packet"
    example = "a REQ for RC with Primary Local ACK Timeout 0"

    @on_struct(REQ)
    def look(self, view: REQ, seen: Seen) -> Iterator[Hit]:
        for path in paths(view, seen) if view.transport_service_type == RC else ():
            if not path.value("local_ack_timeout"):
                yield fault(seen, {"path": path.name}, path.field("local_ack_timeout"), of=view, key=path.name)


ENDS = ("local", "remote")


MAX_WATCHED, MAX_SENT = 4096, 65536
"""Service levels of paths, with their ports, whose packets are looked for; LIDs and service levels that packets had."""


class Watched(Record):
    """A service level that a port drops, as a path that was asked for has it."""

    port: PortId
    network: int
    lids: range
    sl: int
    frame: int
    """That of the table."""
    used: bool = False
    """Whether the port sent with it after its table was read."""


class SentWith(NamedTuple):
    """What packets had: the end that sent them, and their service level."""

    source: End
    sl: Code


class DroppedServiceLevel(LearntFactRule):
    """A connection request names a path with a service level that one of its ends drops.

    A port drops packets of an SL that its SL to VL table maps to VL 15, before they leave. The set-up goes over another SL and succeeds;
    the connection fails after its retries, or when it moves to its alternate path.

    Compare the SL of the path (PathRecord) with the SL to VL table of both ports (smpquery sl2vl); opensm's `qos_*_sl2vl` options say which
    SLs are in use.

    The REQ of a native connection in one subnet, or a LAP, and the SL to VL table of the adapter at either end of its primary or alternate
    path, read before it. An `info` if that port sends with the SL after the table was read: it has another one; and where no PortInfo of
    the port tells its VLs. Silent for ports that have one data VL, or no such table (IsSLMappingSupported), and for a path from a port to
    itself.
    """

    code, name, severity = "CM022", "req-sl-dropped", WARNING
    reference = "IBA 12.7.16, 12.7.22, 7.6.6; opensm osm_qos.c"
    message = "{what} with {path} path of SL {sl}, which {port} maps to VL 15: it drops all packets of this path"
    example = "SLtoVLMappingTable of an adapter with SL 5 to VL 15, then its REQ with Primary SL 5"
    written = (SL_TO_VL, PORT_INFO)
    holds_ns = CONFIGURED_NS

    def __init__(self) -> None:
        self.watched = KeptList[Watched](MAX_WATCHED, "service levels of paths")
        self._sent = KeptDict[SentWith, int](MAX_SENT, "service levels of LIDs")
        """The latest frame with each."""

    @on_chunk
    def chunk(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        subnet = context.get(FabricFollower).subnet
        for message in table.once(messages) if subnet.mapped else ():
            if not isinstance(message.view, REQ | LAP):
                continue
            seen = Seen(table, message.frame - table.chunk.first)
            for path in paths(message.view, seen):
                sl = path.value("sl")
                ends = [subnet.owner(lid, seen.frame) for lid in path.lids if path.value("subnet_local")]
                if subnet.loops(*path.lids, seen.frame):
                    continue  # its packets do not leave the adapter
                for lid, (port, since) in zip(path.lids, ends, strict=False):
                    qos = port.qos if port is not None and port.drops(sl, seen.frame) else None
                    if port is None or qos is None:
                        continue
                    own, (low, lmc) = PortId.of(port.key), port.lids.at(seen.frame)[0] or (lid, 0)
                    watched = Watched(own, message.sender.network, range(low, low + (1 << lmc)), sl, qos.maps_frame(seen.frame))
                    self.watched.keep(watched, seen.frame, seen.time_ns)
                    yield fault(
                        seen, {"what": type(path.view).__name__, "path": path.name, "sl": sl, "port": port.name_at(seen.frame)},
                        path.field("sl"), of=path.view, key=(own, sl), about=(port.node.slot,),
                        proof=[(max(qos.maps_frame(seen.frame), since), "the latest SL to VL table")],
                        severity=INFO if port.info_at(seen.frame)[0] is None else None,
                    )  # fmt: skip
        if subnet.mapped:  # what was sent before the first table does not matter
            self._note_sent(table)

    def _note_sent(self, table: ChunkTable) -> None:
        """Whether a port sends on such a path after all."""
        native = table.once(Native)
        rows = np.flatnonzero(native.vl != MANAGEMENT_VL)
        networks = table.networks[native.rows[rows]].astype(np.int64) if table.networks is not None else np.zeros(len(rows), np.int64)
        ways = networks << 20 | native.slid[rows].astype(np.int64) << 4 | native.sl[rows]
        each, last = np.unique(ways[::-1], return_index=True)
        frames = (native.rows[rows][::-1][last] + table.chunk.first).tolist()
        for way, frame in zip(each.tolist(), frames, strict=True):
            self._sent.keep(SentWith(lid_end(way >> 4 & 0xFFFF, way >> 20), way & 15), frame, frame, int(table.chunk.time_ns[0]))
        for one in self.watched:
            one.used |= any(self._sent.get(SentWith(lid_end(lid, one.network), one.sl), 0) > one.frame for lid in one.lids)

    def ports_passed(self, hit: Hit, context: Context) -> Iterator[Port]:
        """The end of the path: set-ups take it."""
        return with_peer(context.get(FabricFollower).subnet.by_key(hit.key[0].key), hit.frame)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        used = any(one.used and (one.port, one.sl) == hit.key for one in self.watched)
        used |= any(one.dropped.count for one in (self.watched, self._sent))
        return INFO if used else super().severity_at_end(hit, context)


def _ends(struct: type[Struct], name: str) -> tuple[PathEnd, ...]:
    """The ends of one path of a structure."""
    gids, lids = ([getattr(struct, f"{name}_{end}_port_{what}") for end in ENDS] for what in ("gid", "lid"))
    return tuple((f"{name.title()} {end.title()} Port LID", gid, lid, gids[0]) for end, gid, lid in zip(ENDS, gids, lids, strict=True))


class AnotherPortsPath(PathLidsRule):
    """A connection request names a LID that the port with its GID does not have.

    Packets on this path reach another port or none: the connection fails after its retries, or when it moves to its alternate path.

    The application uses an outdated path record: let it ask the SA again, and clear path caches.

    NodeInfo with the GUID of the port, and its LID: the capture shows the Sets that assign LIDs, or the port answered
    with the same LID before and after the REQ or LAP. An `info` for the primary path
    of a connection that is set up.
    """

    code, name, severity = "CM020", "req-lid-of-another-port", WARNING
    reference = "IBA 12.7.11, 12.7.12, 12.7.21"
    needs = (Connections,)
    message = "{struct} with {which} {lid} for port GUID 0x{guid:016x}, which had LID {held} and never that one"
    example = "PortInfo with LID 5 of a port, set and answered, and a REQ with Alternate Remote Port LID 9 for its GID"
    structs: ClassVar[Mapping[type[Struct], tuple[PathEnd, ...]]] = {
        REQ: (*_ends(REQ, "primary"), *_ends(REQ, "alternate")),
        LAP: _ends(LAP, "alternate"),
    }

    def __init__(self) -> None:
        super().__init__()
        self.set_up: set[Frame] | None = None
        """The REQs of connections that were set up, known at the end."""

    def judged(self, table: ChunkTable, struct: type[Struct]) -> Bool:
        return occurrences_where(MAD.method == SEND, table, struct)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO if the other end answers and the connection is set up: its messages took the primary path."""
        primary = hit.arguments["struct"] == REQ.__name__ and hit.arguments["which"].startswith("Primary")
        if self.set_up is None:
            self.set_up = {one.req_frame for one in context.get(Connections).all if one.rtu_frame > one.req_frame}
        works = primary and hit.frame in self.set_up
        return INFO if works else super().severity_at_end(hit, context)
