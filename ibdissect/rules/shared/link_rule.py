"""Base of rules that compare native packets with the ports at both ends."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ibdissect.decode import Int
from ibdissect.decode.equal_rows import groups, members
from ibdissect.decode.history import History
from ibdissect.decode.native_packets import Native
from ibdissect.lint.rule import Context, FaultDetails, Hit, Seen, fault, on_event
from ibdissect.rules.shared.attribute_rule import VLS
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.stale_facts import RefutableRule
from ibdissect.rules.shared.stretches import stretches
from ibdissect.subnet import SWITCH, ChunkFollowed, FabricFollower, Node, Port, Subnet
from ibdissect.subnet.visible_managers import LIFETIME_NS
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.headers import LRH
from ibdissect.wire.numbers import FIRST_MULTICAST, LID_COUNT, PORT_INFO, SWITCH_INFO
from ibdissect.wire.sm_port import PortInfo

KEPT = 4096
"""Most suspicious flows that a rule judges one by one per chunk."""
VLS_AT, MTU_AT = PortInfo.operational_vls.bit // 8, PortInfo.neighbor_mtu.bit // 8
NO_LIMIT = 1 << 30
CHANGED_PREFIX = 1


class PortLimits:
    """The strictest facts about the ports of its LIDs that held in a chunk. Before reporting, rules look up what held at the packet.

    Get it with `event.once(PortLimits)`.
    """

    def __init__(self, event: ChunkFollowed) -> None:
        self.mtu, self.vls, self.top = (np.full(LID_COUNT, NO_LIMIT, np.int32) for _ in range(3))
        """Largest payload allowed on the port's link; data VLs of that link; LinearFDBTop of its first switch."""
        self.prefix = np.zeros(LID_COUNT, np.uint64)
        """GidPrefix of the port; 0 if unknown, CHANGED_PREFIX if it changed in the chunk."""
        native, filled = event.table.once(Native), []
        self.unicast: Int = native.dlids[native.dlids < FIRST_MULTICAST]
        """The unicast LIDs that packets go to."""
        for lid in sorted({*self.unicast.tolist(), *native.slids[native.slids < FIRST_MULTICAST].tolist()}):
            track = event.subnet.lids.get(lid)
            for port in track.since_frame(event.table.chunk.first) if track is not None else ():
                self._fill(lid, port, event.table.chunk.first)
                filled.append(lid)
        self.smallest_mtu, self.fewest_vls, self.lowest_top = (
            int(column[filled].min(initial=NO_LIMIT)) for column in (self.mtu, self.vls, self.top)
        )

    def _fill(self, lid: int, port: Port, first: int) -> None:
        for node in {port.node} if port.node.kind == SWITCH else {peer.node for peer in port.facing.since_frame(first)}:
            if node.switch.now is not None and node.switch.now.linear_fdb_cap:
                self.top[lid] = min(self.top[lid], *node.linear_top.since_frame(first), NO_LIMIT)
        for body in port.infos.since_frame(first):
            prefix = int.from_bytes(body[slice(*PortInfo.gid_prefix.span)], "big")
            self.prefix[lid] = prefix if self.prefix[lid] in (0, prefix) else CHANGED_PREFIX
            if port.node.kind != SWITCH:  # port 0 of a switch has no link
                self.mtu[lid] = min(self.mtu[lid], 128 << (body[MTU_AT] >> 4) if body[MTU_AT] >> 4 else NO_LIMIT)
                self.vls[lid] = min(self.vls[lid], int(VLS[body[VLS_AT] >> 4]) or NO_LIMIT)


class LinkRule(LearntFactRule, RefutableRule):
    """Base of rules that group suspicious packets by source, destination and value, and judge the first one after every change."""

    evidence = (
        "The packet, and what the ports of its LIDs and their switches answered before it. Silent for LIDs whose port is not known. An "
        "`info` where the capture misses packets in between, or a SubnSet was not answered: these may have changed it; and where it "
        "changed within a packet lifetime before the packet, which may have been under way; and where a port was down or in Initialize, "
        "where links carry no data, and nobody is seen to arm it. Also an "
        "`info` where the capture changes the order of packets and something else was written within 10 ms, or where connections work "
        "although the facts forbid them: with a LID that no port of a completely read subnet has, or between two pairs of ports in "
        "partitions that their tables lack."
    )
    written = (PORT_INFO, SWITCH_INFO)
    by_value: ClassVar[bool] = True
    """Whether packets with other values are another finding."""

    def suspicious(self, event: ChunkFollowed, native: Native, ends: PortLimits) -> tuple[Int, Int]:
        """Indices into `native` of suspicious packets, and a small number (the value at fault) for each."""
        raise NotImplementedError

    def judge(self, subnet: Subnet, slid: int, dlid: int, value: int, frame: int) -> FaultDetails | None:
        """Arguments of the message and frames that prove it; None if the packet is in order."""
        raise NotImplementedError

    def facts_used_of(self, hit: Hit, context: Context) -> Collection[Node] | None:
        """The nodes of both ends, and those at the other ends of their cables."""
        if self.of_all_ports:
            return None
        owners = (context.get(FabricFollower).subnet.owner(hit.arguments[lid], hit.frame)[0] for lid in ("slid", "dlid"))
        ends = [port for port in owners if port is not None]
        peers = (port.facing_at(hit.frame)[0] for port in ends)
        return [port.node for port in (*ends, *peers) if port is not None]

    def doubtful_by_then(self, hit: Hit, context: Context) -> bool:
        """Also if the packet was in order until just before it: it may have been under way since then."""
        return super().doubtful_by_then(hit, context) or self._under_way(hit, context)

    def _under_way(self, hit: Hit, context: Context) -> bool:
        """Whether a fact that forbids the packet changed so lately that the packet may be older."""
        if not isinstance(hit.key, tuple) or {"slid", "dlid"} - hit.arguments.keys():
            return False  # of a file or the site policy
        subnet, loss, number = context.get(FabricFollower).subnet, context.get(CaptureLoss), hit.key[2]
        nodes = self.facts_used_of(hit, context)
        for node in subnet.nodes_at(hit.frame) if nodes is None else nodes:
            tracks: list[History[Any]] = [*(port.infos for port in node.ports.values()), node.linear_top]
            for track in tracks:
                since = track.at(hit.frame)[1]
                lately = 0 < since < hit.frame and loss.nanoseconds_between(since, hit.frame) <= LIFETIME_NS
                if not lately or track.at(since - 1)[0] is None:
                    continue
                if self.judge(subnet, hit.arguments["slid"], hit.arguments["dlid"], number, since - 1) is None:
                    return True
        return False

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        if not event.subnet.lids:
            return
        native = event.table.once(Native)
        if not len(native.rows):
            return
        ends = event.once(PortLimits)
        index, value = self.suspicious(event, native, ends)
        if not len(index):
            return
        yield from self.report(event, native.rows[index], (native.slid[index], native.dlid[index], value))

    def report(self, event: ChunkFollowed, rows: Int, columns: Sequence[npt.NDArray[Any]], *which: str) -> Iterator[Hit]:
        """Judge the suspicious packets in some rows. `columns`: source, destination and value of each; `which`: more of their key."""
        hits = []
        for (slid, dlid, number), seen, mine in flows(event, rows, columns, KEPT):
            if event.subnet.loops(slid, dlid, seen.frame):
                continue  # between LIDs of one port: it takes no link
            judged = self.judge(event.subnet, slid, dlid, number, seen.frame)
            if judged is not None:
                about, key = {"slid": slid, "dlid": dlid, **judged[0]}, (slid, dlid, number if self.by_value else 0, *which)
                hits.append(fault(seen, about, LRH.dlid, dlid, proof=judged[1], rows=mine, key=key))
        yield from sorted(hits, key=lambda hit: hit.frame)  # those of different values may be one finding


def flows(
    event: ChunkFollowed, rows: Int, columns: Sequence[npt.NDArray[Any]], most: int | None = None, lids: int = 2
) -> Iterator[tuple[tuple[int, ...], Seen, Int]]:
    """Rows with equal values in all columns, of which the first are `lids` LIDs, split before each frame at which their ports changed.

    Yields the values, the first packet and the rows of each stretch; flows in the order of their first packets, at `most` so many.
    """
    first, which = groups(columns)
    parts = members(which, len(first))
    for i in np.argsort(first, kind="stable")[:most].tolist():
        values, mine = tuple(int(column[first[i]]) for column in columns), rows[parts[i]]
        changes = event.subnet.changes(*values[:lids], after=event.table.chunk.first + int(mine[0])) if len(mine) > 1 else ()
        for seen, some in stretches(event.table, mine, changes):
            yield values, seen, some
