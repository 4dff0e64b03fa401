"""Two subnet managers that set attributes of one port at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode.addresses import End, lid_end
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.identity import LidId
from ibdissect.decode.sending_order import in_time
from ibdissect.lint.rule import WARNING, Context, Hit, Moment, Rule, fault, on_event
from ibdissect.subnet import ChunkFollowed
from ibdissect.subnet.model import Sm
from ibdissect.subnet.visible_managers import of_managers
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import DIRECTED, FIRST_MULTICAST, MASTER, SET, SM_INFO

MIXED_NS = 10_000_000_000
NOBODY = (-1, 0, 0)
MILLISECOND = 1_000_000
MAX_LIDS = 8192
"""LIDs of which the latest Sets are remembered."""


class TwoManagers(Rule):
    """Two subnet managers set attributes of one port at the same time.

    Each overwrites what the other has set: LIDs, partitions and routes flap.

    Check their priorities, their SM_Keys and whether they see each other: both believe that they are master (SEM044).

    SMInfo of both managers, and LID-routed Sets of the first, the second and the first again within ten seconds. A manager that takes
    over from a dead one is not judged, nor is a handover. Silent for what tools set, too (ports, notices, LEDs, registers of
    manufacturers), while only one of the two is Master: somebody runs a tool on the host of the other.
    """

    code, name, severity = "TXN019", "mixed-sm-senders", WARNING
    reference = "IBA 14.4"
    message = "SubnSet to LID {dlid} from the managers at LID {one} and LID {two}, {milliseconds} ms apart"
    example = "SMInfos that show two managers, and SubnSets of the first, the second and the first again to one LID within ten seconds"

    def __init__(self) -> None:
        self.last = KeptDict[End, tuple[tuple[int, int, int], tuple[int, int, int]]](MAX_LIDS, "LIDs that managers write to")
        """Sender, frame and time of the latest Set to each LID of a network, and of the latest of another manager before it."""

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, _context: Context) -> Iterator[Hit]:
        asks, table = event.requests, event.table
        sets = np.flatnonzero((asks.method == SET) & (asks.attribute != SM_INFO))  # a handover overwrites nothing
        if len(event.subnet.sms) < 2 or not len(sets):
            return
        managers: dict[LidId, list[Sm]] = {}
        for sm in event.subnet.sms.values():
            for lid in {facts.lid for facts in sm.facts.since_frame(table.chunk.first) if 0 < facts.lid < FIRST_MULTICAST}:
                managers.setdefault(LidId(lid), []).append(sm)
        rows, data = asks.rows[sets], table.chunk.data
        lrh = table.located.at("lrh")[rows]
        by_lid = (lrh >= 0) & (value_at(data, table.chunk.offset[rows] + asks.mad[sets], MAD.mgmt_class) != DIRECTED)
        rows, lrh, tools = rows[by_lid], lrh[by_lid], ~of_managers(asks.attribute[sets][by_lid], directed=False)
        order = in_time(table.chunk.time_ns[rows])
        rows, lrh, tools = (rows, lrh, tools) if order is None else (rows[order], lrh[order], tools[order])
        networks = table.networks[rows] if table.networks is not None else np.zeros_like(rows)
        slid, dlid = value_at(data, lrh, LRH.slid), value_at(data, lrh, LRH.dlid)
        for i in np.flatnonzero(np.isin(slid, [one.lid for one in managers])).tolist():  # few: managers usually set by directed route
            sender, lid, row = int(slid[i]), int(dlid[i]), int(rows[i])
            target = lid_end(lid, int(networks[i]))
            frame, time_ns = table.chunk.first + row, int(table.chunk.time_ns[row])
            since = _manager_since(managers[LidId(sender)], sender, frame)
            if not since or (tools[i] and not _is_master(managers[LidId(sender)], sender, frame)):
                continue
            latest, other = self.last.get(target, (NOBODY, NOBODY))
            self.last.keep(target, ((sender, frame, time_ns), other if latest[0] == sender else latest), frame, time_ns)
            if latest[0] == sender or other[0] != sender or time_ns - other[2] >= MIXED_NS:
                continue
            if not event.subnet.kept(lid, other[1], frame):  # another port has the LID by now
                continue
            if max(since, _manager_since(managers.get(LidId(latest[0]), ()), latest[0], frame) or frame) <= other[1]:  # else a handover
                yield fault(
                    Moment(frame, time_ns),
                    {"dlid": lid, "one": latest[0], "two": sender, "milliseconds": (time_ns - latest[2]) // MILLISECOND}, MAD.method,
                    SET, proof=[(latest[1], "the other manager's"), (other[1], "this manager's, before it")], key=target,
                )  # fmt: skip


def _is_master(managers: Iterable[Sm], lid: int, frame: int) -> bool:
    """Whether the manager at a LID had said when `frame` was sent that it is the master."""
    return any(facts is not None and facts.lid == lid and facts.state == MASTER for facts, _ in (sm.at(frame) for sm in managers))


def _manager_since(managers: Iterable[Sm], lid: int, frame: int) -> int:
    """The frame that first showed the state of the manager at a LID when `frame` was sent; 0 if none was there."""
    return max((since for facts, since in (sm.at(frame) for sm in managers) if facts is not None and facts.lid == lid), default=0)
