"""Connection requests, joins and groups that name a partition in which their ports may not talk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.cm_connections import CmMessage, Connections, messages
from ibdissect.decode.connection_events import PathAnswered
from ibdissect.decode.identity import LidId, PKey
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, fault, on_chunk, on_event
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.mad_conditions import SA_ANSWER
from ibdissect.rules.shared.not_seen import LearntFactRule, with_peer
from ibdissect.rules.shared.packet_flows import is_ipoib
from ibdissect.rules.shared.requested_paths import paths
from ibdissect.rules.shared.stale_facts import swept_by
from ibdissect.subnet import ChunkFollowed, FabricFollower, Port
from ibdissect.subnet.p_keys import Member, Verdict
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.cm import LAP, REQ, SIDRReq
from ibdissect.wire.expr import Where
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import BASE, GET_RESP, P_KEY_TABLE, PORT_INFO, SET
from ibdissect.wire.sa_paths import MCMemberRecord
from ibdissect.wire.text import gid_text

MAX_GRANTED = 16384
"""Alternate paths that are remembered because an APR granted them."""


class SharedPartition(NamedTuple):
    """Two LIDs that were set up to talk in a partition."""

    lids: frozenset[LidId]
    p_key: PKey


def _shared(lids: tuple[int, int], p_key: PKey) -> SharedPartition:
    return SharedPartition(frozenset(map(LidId, lids)), p_key)


class RequestNotShared(LearntFactRule):
    """A connection request names a partition in which its ports may not talk.

    One of them is no member, or both are limited members: the connection is set up by datagrams of another partition, and its first packet
    is silently dropped.

    Compare the P_Key tables of both ports with the partition that the application chose (its P_Key index, or the path of the SA).

    The REQ of a native connection in one subnet, or a LAP, which asks for another path of it, and the P_Key tables of both ports of its
    primary or alternate path, read before it. Or a SIDR_REQ, which asks for a datagram service, and the tables of its sender and receiver.
    An `info` if the connection was set up or the service granted nevertheless: the tables may be outdated.
    """

    code, name, severity = "PKY022", "req-pkey-not-shared", WARNING
    reference = "IBA 10.9, 12.7.24"
    message = "{what} from LID {slid} to LID {dlid} with P_Key 0x{p_key:04x}: {reason}"
    example = "P_KeyTable of two ports with 0x1234 each, then a REQ between them with P_Key 0x1234"
    written = (P_KEY_TABLE, PORT_INFO)
    holds_ns = CONFIGURED_NS
    needs = (Connections,)

    def __init__(self) -> None:
        self.granted = KeptDict[SharedPartition, int](MAX_GRANTED, "granted alternate paths")
        """The latest APR for each path."""

    @on_chunk
    def chunk(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        subnet, connections = context.get(FabricFollower).subnet, context.get(Connections)
        for message in table.once(messages) if subnet.partitioned else ():
            view, seen, proof = message.view, Seen(table, message.frame - table.chunk.first), list[tuple[int, str]]()
            if isinstance(view, SIDRReq):
                key, field, asked = view.partition_key, SIDRReq.partition_key, _ends(message)
            elif isinstance(view, REQ):
                key, field, asked = view.partition_key, REQ.partition_key, _local(view, seen)
            elif isinstance(view, LAP) and (known := connections.of_message(view, message.sender, message.receiver)) is not None:
                key, field, asked = known.p_key, LAP.alternate_local_port_lid, _local(view, seen)
                proof = [(known.req_frame, "REQ of the connection")]
            else:
                continue
            for lids in asked if key & BASE else ():
                ends = [subnet.owner(lid, seen.frame)[0] for lid in lids]
                reason, shown = _unshared(ends, lids, key & BASE, seen.frame)
                if not reason:
                    continue
                yield fault(
                    seen, {"what": type(view).__name__, "slid": lids[0], "dlid": lids[1], "p_key": key, "reason": reason}, field, of=view,
                    proof=[*proof, *((one, "showed a P_Key table") for one in sorted(set(shown)))], key=(*lids, key),
                    about=tuple(port.node.slot for port in ends if port is not None),
                )  # fmt: skip

    @on_event(PathAnswered)
    def note_granted(self, event: PathAnswered, _context: Context) -> Iterator[Hit]:
        one = event.connection
        if not one.ap_status:
            self.granted.keep(_shared(one.lap_path, one.p_key), event.frame, event.frame, event.time_ns)
        yield from ()

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        connections, (near, far, key) = context.get(Connections), hit.key
        asked = _shared((near, far), key)
        works = any(one.rtu_frame > hit.frame and any(_shared(lids, one.p_key) == asked for lids in one.paths) for one in connections.all)
        works |= any(
            one.reply_frame > hit.frame and not one.status
            and _shared((one.source.lid or 0, one.destination.lid or 0), one.p_key) == asked
            for one in connections.resolutions
        )  # fmt: skip
        granted = self.granted.get(asked, 0) > hit.frame or any(one.dropped.count for one in (self.granted, connections.all))
        return INFO if works or granted else super().severity_at_end(hit, context)


def _local(view: REQ | LAP, seen: Seen) -> list[tuple[int, int]]:
    """The LIDs of the paths that a message names in this subnet, each pair once."""
    return list(dict.fromkeys(path.lids for path in paths(view, seen) if path.value("subnet_local")))


def _ends(message: CmMessage) -> list[tuple[int, int]]:
    """The LIDs between which a message goes; none where a GRH may lead it to another subnet."""
    near, far = message.sender, message.receiver
    return [(near.lid, far.lid)] if near.lid is not None and far.lid is not None and not far.gid else []


def _unshared(ends: list[Port | None], lids: tuple[int, int], base: int, frame: int) -> tuple[str, tuple[int, ...]]:
    """Why two ports may not talk in a partition; empty if they may, or if it is unknown."""
    shown, limited = list[int](), 0
    for port, lid in zip(ends, lids, strict=True):
        info = port.info_at(frame)[0] if port is not None else None
        if port is None or port.p_keys is None or info is None or info.is_virtualization_supported:
            return "", ()
        member, frames = port.p_keys.member(base, frame, port.p_key_capacity(frame))
        if member is Member.NONE:
            return f"LID {lid} is not in that partition", frames
        limited += member is Member.LIMITED
        shown += frames
    return ("both are limited members", tuple(shown)) if limited == len(ends) and ends[0] is not ends[1] else ("", ())


def _other_partition(table: ChunkTable) -> Bool:
    """Records of IPoIB groups whose GID names another partition than their P_Key."""
    mgid = table.values(MCMemberRecord.mgid)
    named, p_key = extract(mgid, 32, 16).astype(np.int64) & BASE, table.values(MCMemberRecord.p_key).astype(np.int64) & BASE
    other: Bool = is_ipoib(mgid) & (named != 0) & (p_key != 0) & (named != p_key)
    return other


class GroupOfOtherPartition(Rule):
    """The SA answers with a group of IP over InfiniBand whose P_Key is not that of its GID.

    The GID of such a group names its partition. Hosts send with the one or the other: some members never hear the others.

    Correct the group in the subnet manager's configuration (opensm: `mgid` and the partition in partitions.conf).

    One record of an answer is enough.
    """

    code, name, severity = "PKY024", "group-pkey-vs-mgid", ERROR
    reference = "RFC 4391 section 4; opensm MGID format"
    when = Where(MCMemberRecord.p_key, _other_partition) & SA_ANSWER
    flow = (MCMemberRecord.mgid, MCMemberRecord.p_key)
    message = "group {mgid} with P_Key 0x{p_key:04x}, its GID names partition 0x{named:04x}"
    example = "GetResp(MCMemberRecord) of ff12:401b:8001::1 with P_Key 0x8002"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"named": int(extract(seen.table.values(MCMemberRecord.mgid)[i : i + 1], 32, 16)[0]) & BASE}


class JoinOutsidePartition(LearntFactRule):
    """The SA lets a port join a group of a partition that the port is not in.

    The port cannot send to the group, and drops what it gets from it.

    Compare the P_Key table of the port with partitions.conf: the subnet manager's view differs from what the port holds.

    The join and its answer, and the whole P_Key table of the port with that GUID, read before it. Silent for the answer to a query: a
    member stays one when its partition is taken from it. An `info` if the capture lacks what is answered, or if the table gets the
    partition within ten seconds.
    """

    code, name, severity = "PKY023", "join-outside-partition", WARNING
    reference = "IBA 10.5, 15.2.5.17"
    message = "{port} joins group {mgid} with P_Key 0x{p_key:04x}, a partition that its P_Key table does not hold"
    example = "P_KeyTable of a port, then GetResp(MCMemberRecord) to its join of a group of another partition"
    written = (P_KEY_TABLE, PORT_INFO)
    holds_ns = CONFIGURED_NS

    @on_event(ChunkFollowed)
    def chunk(self, followed: ChunkFollowed, context: Context) -> Iterator[Hit]:
        table, subnet = followed.table, followed.subnet
        found = table.occurrences(MCMemberRecord)
        if not len(found) or not subnet.partitioned:
            return
        method, status = (table.values_at(field, found.rows) for field in (MAD.method, MAD.status))
        ports = {port.guid: port for port in subnet.ports() if port.is_endport and port.guid and port.p_keys is not None}
        event = context.get(Transactions).matched
        asked, joined = np.empty((2, 0), np.int64)
        if event is not None:
            asked = event.frames - table.chunk.first
            joined = asked[event.request_method == SET]
        told = (method == GET_RESP) & (status == 0) & (np.isin(found.rows, joined) | ~np.isin(found.rows, asked))
        for i in np.flatnonzero(told).tolist():
            view: MCMemberRecord = table.view(MCMemberRecord, i)
            seen, key = Seen(table, int(found.rows[i])), view.p_key
            port = ports.get(int.from_bytes(view.port_gid[8:], "big"))
            if port is None or port.p_keys is None or not key & BASE or not view.join_state:
                continue
            verdict, shown = port.p_keys.judge(key, seen.frame, port.p_key_capacity(seen.frame))
            if verdict is Verdict.ABSENT:
                yield fault(
                    seen, {"port": port.name_at(seen.frame), "mgid": gid_text(view.mgid), "p_key": key}, MCMemberRecord.p_key, of=view,
                    proof=[(one, "showed a P_Key table") for one in sorted(set(shown))], key=(port.key, view.mgid, key),
                    about=(port.node.slot,), severity=None if seen.row in joined else INFO,
                )  # fmt: skip

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO if the manager is just writing the table."""
        subnet = context.get(FabricFollower).subnet
        port = subnet.by_key(hit.key[0])
        if port is not None and port.p_keys is not None:
            written = swept_by([port], hit, subnet)
            verdict, _ = port.p_keys.judge(hit.arguments["p_key"], written, port.p_key_capacity(written))
            if verdict is not Verdict.ABSENT:
                return INFO
        return super().severity_at_end(hit, context)

    def ports_passed(self, hit: Hit, context: Context) -> Iterator[Port]:
        """That of the new member, which asked to join."""
        return with_peer(context.get(FabricFollower).subnet.by_key(hit.key[0]), hit.frame)
