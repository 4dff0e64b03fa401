"""Which datagrams have another Q_Key than their multicast group or the service that they go to?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.bounded import BoundedDict
from ibdissect.dropped import Dropped
from ibdissect.fabric.groups import GroupFacts
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import ERROR, WARNING, Context, Hit, on_chunk, on_event
from ibdissect.rules.shared.group_rule import UD, GroupRule
from ibdissect.rules.shared.link_rule import stretches
from ibdissect.table.addresses import End, ends_of
from ibdissect.table.connection_events import Resolved
from ibdissect.table.history import Track
from ibdissect.table.table import ChunkTable
from ibdissect.wire.spec import Field
from ibdissect.wire.transport import BTH, DETH

MAX_SERVICES = 4096
SERVICE = "packet to QP 0x{qp:x} with {q_key}, the service there told {held} (SIDR_REP)"


class WrongGroupQKey(GroupRule):
    """A datagram has another Q_Key than its multicast group or the service it goes to.

    Members got the group's Q_Key when they joined; they drop the packet and count a violation. So does a service whose queue pair
    and Q_Key were looked up (SIDR).

    The sender has an outdated record of the group; let it join again. For a service, let it look up the queue pair again, which may
    now belong to another.

    The record of the group, which is certain. Or the latest SIDR_REP of the port that names this queue pair: then a warning, as the
    service may have ended since.
    """

    code, name, severity = "QKY004", "qkey-mismatch-group", ERROR
    reference = "IBA 10.5, 15.2.5.17; python-rdma MCMemberRecord"
    message = "packet to group {group} with {q_key}, the group has {held}"
    example = "GetResp(MCMemberRecord) with Q_Key 0x0b1b, then a packet to that MGID with Q_Key 0x1111"

    def wrong(self, group: GroupFacts, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        if not group.q_key or q_key == group.q_key:
            return None
        value = value_of(DETH.q_key, q_key)
        return DETH.q_key, value, {"q_key": value, "held": value_of(DETH.q_key, group.q_key)}

    def __init__(self) -> None:
        self.dropped = Dropped("datagram services")
        self.services = BoundedDict[tuple[End, int], Track[int]](MAX_SERVICES, self.dropped)
        """Q_Key over time by port and queue pair."""
        self.qpns: set[int] = set()

    @on_event(Resolved)
    def resolved(self, event: Resolved, _context: Context) -> None:
        told = event.resolution
        if told.status == 0 and told.qpn > 0:
            key = event.sender, told.qpn
            if key not in self.services:
                self.services.put(key, Track(), event.frame, event.time_ns)
                self.qpns = {qpn for _, qpn in self.services}
            self.services[key].learn(told.q_key, event.frame)

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        if not self.services or not len(table.occurrences(DETH)):
            return
        rows = table.occurrences(DETH).rows
        bth = table.first(BTH)[rows]
        opcode, qpn = table.values(BTH.opcode)[bth], table.values(BTH.destqp)[bth]
        index = np.flatnonzero(np.isin(opcode, UD) & np.isin(qpn, list(self.qpns)))
        if not len(index):
            return
        q_keys = table.values(DETH.q_key)
        ends = ends_of(table, rows[index])
        kinds: dict[tuple[End, int, int], list[int]] = {}
        for i, (_, destination) in zip(index.tolist(), ends, strict=True):
            kinds.setdefault((destination, int(qpn[i]), int(q_keys[i])), []).append(int(rows[i]))
        for (destination, number, q_key), mine in kinds.items():
            service = self.services.get((destination, number))
            for seen, part in stretches(table, np.array(mine), service.changes()) if service is not None else ():
                held, since = service.at(seen.frame) if service is not None else (None, 0)
                if held is not None and since < seen.frame and held != q_key:
                    value = value_of(DETH.q_key, q_key)
                    yield seen.found(
                        {"qp": number, "q_key": value, "held": value_of(DETH.q_key, held)}, DETH.q_key, value, rows=part,
                        proof=[(since, "the service's answer")], key=(destination, number, q_key), message=SERVICE, severity=WARNING,
                    )  # fmt: skip
