"""Packets in another partition than their connection or multicast group."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.connection_events import ConnectionSetUp, QueuePair
from ibdissect.decode.identity import ConnectionId, PKey
from ibdissect.decode.native_packets import Native
from ibdissect.engine.psn_gaps import distance
from ibdissect.lint.rule import ERROR, INFO, Context, Hit
from ibdissect.lint.waiting_hits import apart
from ibdissect.rules.shared.connection_rule import AgreedRule, of_pair
from ibdissect.rules.shared.group_rule import GroupRule
from ibdissect.subnet.multicast_groups import GroupFacts
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.headers import BTH
from ibdissect.wire.numbers import BASE
from ibdissect.wire.spec import Field

MAX_OTHERS = 4096
"""Connections with packets in another partition; whether something refutes what is said of further ones is unknown: an info."""


class OtherPartition(AgreedRule):
    """A packet of a connection is in another partition than the connection was set up in.

    Both queue pairs accept only the P_Key that was agreed at set-up. The receiver drops the packet and counts a P_Key violation; the
    connection fails after its retries.

    Check whether the subnet manager moved entries in the sender's P_Key table: queue pairs hold an index, not the key.
    """

    code, name, severity = "PKY005", "pkey-connection-mismatch", ERROR
    reference = "IBA 10.9, 12.6.5"
    message = "P_Key 0x{seen:04x} from LID {slid} to QP 0x{qp:x} of LID {dlid}; the connection was set up with 0x{agreed:04x}"
    example = "REQ with Partition Key 0x8001 and its REP, then a SEND of the connection with P_Key 0x8002"
    field = BTH.p_key
    evidence = (
        f"{AgreedRule.evidence} Silent where both ends use the other partition, or one acknowledges what the other sends in it: the queue "
        "pairs were set up again where the capture does not show it."
    )
    needs = (Streams,)

    def __init__(self) -> None:
        super().__init__()
        self.used = KeptDict[tuple[ConnectionId, PKey], set[bool]](MAX_OTHERS, "connections in other partitions")
        """By connection and partition: the sides that received packets in another partition than the connection's; True: the active one."""

    def value(self, native: Native, index: Int) -> Int:
        return native.p_key[index]

    def found(self, table: ChunkTable, native: Native, index: Int, pair: ConnectionSetUp, end: QueuePair, value: int) -> Iterator[Hit]:
        mine = index[of_pair(table, native, index, pair, end)]
        for hit in chain.from_iterable(super(OtherPartition, self).found(table, native, one, pair, end, value) for one in apart(mine)):
            used = self.used.get_or_make((ConnectionId(pair.req_frame), value & BASE), set, hit.frame, hit.time_ns)
            if used is not None:
                used.add(pair.is_active(end))
            hit.arguments["psn"] = int(table.values_at(BTH.psn, np.array([hit.frame - table.chunk.first], np.int64))[0])
            if used is None:
                hit.severity = INFO
            yield hit

    def stands(self, hit: Hit, context: Context) -> bool:
        """Not if both ends use the other partition, or one accepts what the other sends in it: the queue pairs were set up again unseen."""
        (lid, qpn), req, value = hit.key
        if len(self.used.get((req, value & BASE), ())) > 1:
            return False
        streams, frame = context.get(Streams), hit.frame
        at = [
            one for one in streams.to_queue_pair(qpn) if one.ends.destination.lid == lid and not one.response and one.first_frame <= frame
        ]
        other = streams.other(at[-1]) if at else None
        return other is None or distance(other.high, hit.arguments["psn"]) < 0

    def wrong(self, pair: ConnectionSetUp, end: QueuePair, value: int) -> bool:
        return bool(pair.p_key & BASE) and (pair.p_key ^ value) & BASE != 0


class WrongGroupPKey(GroupRule):
    """A multicast packet has a P_Key that is not its group's.

    A group belongs to one partition; members that are not in the packet's partition drop it.

    Check how the sender chose its P_Key index: its interface and the group are in different partitions.
    """

    code, name, severity = "PKY017", "mcast-member-pkey", ERROR
    reference = "IBA 10.5, 15.2.5.17; python-rdma MCMemberRecord"
    message = "packet to group {group} with P_Key 0x{p_key:04x}, the group is in partition 0x{held:04x}"
    example = "GetResp(MCMemberRecord) with P_Key 0x8123, then a packet to that MGID with P_Key 0xffff"
    holds_ns = CONFIGURED_NS

    def wrong(self, group: GroupFacts, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        if not group.p_key & BASE or p_key & BASE == group.p_key & BASE:
            return None
        return BTH.p_key, p_key, {"p_key": p_key, "held": group.p_key & BASE}
