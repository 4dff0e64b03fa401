"""Traffic that works although the learnt facts forbid it: these facts are outdated, or another subnet's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.equal_rows import groups, is_in
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import FlowId, LidId, PKey
from ibdissect.decode.locate import IN_STREAM, IS_RESPONSE
from ibdissect.decode.native_packets import Native, source_qps
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFO, SEEN, Context, Hit, Rule
from ibdissect.rules.shared.full_of_limited import full_of_limited
from ibdissect.rules.shared.refused_packets import REFUSED
from ibdissect.subnet import ChunkFollowed, FabricFollower, Port, Subnet
from ibdissect.subnet.early_packets import MAX_FLOWS
from ibdissect.subnet.p_keys import Verdict
from ibdissect.subnet.visible_managers import AGES_NS
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.numbers import BASE, FULL, GSI_QP


class Talk(NamedTuple):
    """Packets one way between two LIDs in a partition. Those of connections name one queue pair only, so theirs are zero here."""

    flow: FlowId
    partition: PKey
    full: bool
    """They carry the full form of the P_Key."""
    answers: bool
    """Responses of connections."""

    def replies(self, *, full: bool) -> Iterator[Talk]:
        """What may come back; `full`: in the full form alone."""
        one = self.flow
        back = FlowId(one.destination, one.destination_qp, one.source, one.source_qp)
        for form in (True,) if full else (True, False):
            yield Talk(back, self.partition, form, not one.destination_qp and not self.answers)


class Outdated:
    """What works in partitions that P_Key tables lack, or with LIDs that no port has. One per capture; asked at its end."""

    after: ClassVar = (FabricFollower, Streams)
    learns_from: ClassVar = ChunkFollowed

    def __init__(self, follower: FabricFollower, streams: Streams) -> None:
        self.subnet, self.streams = follower.subnet, streams
        self.flows = KeptDict[tuple[LidId, LidId, PKey, bool], None](MAX_FLOWS, "flows of connections that P_Key tables refuse")
        """LID of the requester, LID of the responder, partition, and whether these are the answers."""
        self.talks = KeptDict[Talk, None](MAX_FLOWS, "flows that P_Key tables refuse")

    def take(self, event: ChunkFollowed) -> None:
        """Process the refused packets of a chunk."""
        native, chunk = event.table.once(Native), event.table.chunk
        refusals = [event.once(full_of_limited), *(event.once(side) for side in REFUSED.values())]
        if any(refusals):
            self._listen(event.table, np.concatenate([refused.rows for some in refusals for refused in some]))
        for side in REFUSED.values():
            for refused in (one for one in event.once(side) if one.verdict is Verdict.ABSENT):
                at = np.searchsorted(native.rows, refused.rows)
                at = at[IN_STREAM[native.opcode[at]]]
                answers = IS_RESPONSE[native.opcode[at]].tolist()
                for slid, dlid, answer in {*zip(native.slid[at].tolist(), native.dlid[at].tolist(), answers, strict=True)}:
                    ends = (LidId(dlid), LidId(slid)) if answer else (LidId(slid), LidId(dlid))
                    flow = (*ends, refused.p_key & BASE, bool(answer))
                    self.flows.keep(flow, None, chunk.first + refused.row, int(chunk.time_ns[refused.row]))

    def _listen(self, table: ChunkTable, refused: Int) -> None:
        """Note who says what to whom in packets that a table refuses, in these rows of a chunk."""
        native, chunk = table.once(Native), table.chunk
        index = np.flatnonzero(is_in(native.rows, refused))
        source, connected = source_qps(table, native.rows[index], native.opcode[index]), IN_STREAM[native.opcode[index]]
        known = connected | ((source > GSI_QP) & (native.dest_qp[index] > GSI_QP))
        index, source, connected = index[known], source[known], connected[known]
        p_key, answers = native.p_key[index], IS_RESPONSE[native.opcode[index]].astype(np.int64)
        ends = (np.where(connected, 0, one) for one in (source, native.dest_qp[index]))
        columns = native.slid[index], native.dlid[index], p_key & BASE, p_key & FULL, *ends, answers
        first, _ = groups(columns)
        for slid, dlid, partition, full, source_qp, qp, answer in zip(*(one[first].tolist() for one in columns), strict=True):
            flow = FlowId(LidId(slid), source_qp, LidId(dlid), qp)
            self.talks.keep(Talk(flow, partition, bool(full), bool(answer)), None, chunk.first, int(chunk.time_ns[0]))

    def talk(self, slid: int, dlid: int, p_key: int, *, full: bool = False) -> bool:
        """Whether two LIDs talk both ways in a partition: datagrams between the same two queue pairs, or requests and answers; then their
        tables have it by now. `full`: whether the second one answers in the full form. True where that is not known."""
        said = self._said.get((LidId(slid), LidId(dlid), p_key & BASE), ())
        return any(reply in self.talks for one in said for reply in one.replies(full=full)) or self.talks.dropped.count > 0

    @cached_property
    def _said(self) -> dict[tuple[LidId, LidId, PKey], list[Talk]]:
        """What goes from one LID to another one, by both and partition; known at the end."""
        said: dict[tuple[LidId, LidId, PKey], list[Talk]] = {}
        for one in self.talks:
            said.setdefault((one.flow.source, one.flow.destination, one.partition), []).append(one)
        return said

    @cached_property
    def proved(self) -> bool:
        """Whether two pairs of ports use partitions that their tables lack, or a LID talks that no port of the whole subnet has.

        That casts doubt on all facts, not only on those about these ports. Either the data are another subnet's, whose other LIDs may all
        exist in the swept one, too (managers number from 1); or a manager wrote ports where the capture does not show it, and may have
        written any. In sweeps merged with data of other subnets, even ports that these connections reach over others get false errors.
        """
        works = (flow[:2] for flow in self.flows if flow[3] and (*flow[:3], False) in self.flows)
        return len({frozenset(pair) for pair in works}) > 1 or (self._strangers() and self.subnet.swept(AFTER_ALL)[0])

    def _strangers(self) -> bool:
        """Whether both ends of a connection speak, and a LID of them has no owner."""
        between = self.streams.between
        working = (ways for ways in between if ways[-1] and (ways[0], ways[2], ways[1], False) in between)
        return bool({end.lid for _, *ends, _ in working for end in ends} - {None, *self.subnet.lids})


def swept_by(ports: Iterable[Port | None], hit: Hit, subnet: Subnet) -> int:
    """The frame that last changes a P_Key table of some ports within a sweep of a finding; the finding's own if none does.

    Managers tell of a partition before they have written all ports.
    """
    tables = [port.p_keys for port in ports if port is not None and port.p_keys is not None]
    changes = {frame for table in tables for frame in table.changes(hit.frame)}
    return max((frame for frame in changes if subnet.clock.time_of(frame) - hit.time_ns <= AGES_NS), default=hit.frame)


class RefutableRule(Rule):
    """Base of rules that compare packets with facts about their ports: an `info` where these facts are outdated, or another subnet's."""

    needs: ClassVar[tuple[type[Any], ...]] = (Streams, Outdated)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO where connections work although the facts forbid them."""
        doubtful = hit.evidence is not SEEN and context.get(Outdated).proved
        return INFO if doubtful else super().severity_at_end(hit, context)
