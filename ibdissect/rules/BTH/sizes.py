"""Which packets that are not the last of their message do not carry a path MTU, or another one than the first packet?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.bounded import BoundedDict
from ibdissect.flow.recovery import MTUS, PSNS
from ibdissect.flow.stream_packets import Packets, packets
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import ERROR, Context, Hit, Seen, fault, on_chunk
from ibdissect.rules.BTH.packet import continued
from ibdissect.rules.shared.packet_flows import PacketRule, room_behind_headers
from ibdissect.table import ChunkTable, Int
from ibdissect.table.crcs import wrong_icrcs
from ibdissect.wire.expr import Where
from ibdissect.wire.headers import BTH

Open = tuple[int, int, int, int]
"""PSN of the last packet, kind of the message that it leaves open, payload and frame of the message's first packet."""
MAX_OPEN = 65536
"""Streams with an open message that are remembered from chunk to chunk."""


def _no_mtu(table: ChunkTable) -> npt.NDArray[np.bool_]:
    """First and middle packets whose payload is not a path MTU."""
    index = np.flatnonzero(table.once(continued))
    bad = np.zeros(len(table.occurrences(BTH)), np.bool_)
    if index.size:
        room = table.once(room_behind_headers)[index]
        bad[index] = (room >= 0) & ~np.isin(room, MTUS) & (table.values(BTH.padcnt)[index] == 0)
    return bad


class NotPathMtu(PacketRule):
    """A packet that is not the last of its message is not filled to the path MTU.

    First and Middle packets carry exactly the path MTU: 256, 512, 1024, 2048 or 4096 bytes. The responder answers anything else with a NAK.

    Check the ICRC: if it is wrong, the packet was damaged; otherwise the sender's transport is at fault.

    One packet whose payload is not a path MTU. Or two packets of one message with different payloads, all packets between them, and no
    wrong ICRC.
    """

    code, name, severity = "BTH007", "first-middle-not-pmtu", ERROR
    reference = "IBA 9.4, 9.7.4.1.6"
    when = Where(BTH.opcode, _no_mtu)
    message = "{opcode!t} carries {size} bytes: more of its message follows, so it must be full (256, 512, 1024, 2048 or 4096)"
    example = "an RC SEND Middle with 100 bytes"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"size": int(seen.table.once(room_behind_headers)[i])}

    def __init__(self) -> None:
        self.open = BoundedDict[int, Open](MAX_OPEN, "streams of packets")
        """By stream."""

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        p = table.once(packets)
        if p is None:
            return
        ends = np.append(p.starts[1:], len(p.rows)) - 1
        streams = zip(p.starts.tolist(), p.key[p.starts].tolist(), strict=True)
        carried = {start: self.open[key] for start, key in streams if key in self.open}
        middle = np.flatnonzero((p.goes_on != 0) & (p.leaves_open != 0))
        if not carried and not (p.leaves_open[ends] != 0).any() and (p.length[middle] == p.length[middle - 1]).all():
            return
        size, frame, joined = _first_of_message(table, p, carried)
        odd = middle[joined[middle] & (p.length[middle] != size[middle])]
        if len(odd):
            odd = odd[np.isin(p.length[odd], MTUS) & np.isin(size[odd], MTUS)]
            odd = odd[~wrong_icrcs(table, p.rows[odd])]
        for i in odd[np.argsort(p.rows[odd])].tolist():
            yield fault(
                Seen(table, int(p.rows[i])),
                {"opcode": value_of(BTH.opcode, int(p.opcode[i])), "size": int(p.length[i]), "mtu": int(size[i])},
                BTH.opcode, int(p.opcode[i]), proof=[(int(frame[i]), "the first packet of the message")], key=("size", int(p.key[i])),
                message="{opcode!t} carries {size} bytes, the first packet of its message {mtu}",
            )  # fmt: skip
        for start in carried:
            self.open.pop(int(p.key[start]), None)
        ends = ends[p.leaves_open[ends] != 0]
        rows = p.rows[ends]
        columns = (
            p.key[ends], p.psn[ends], p.leaves_open[ends], size[ends], frame[ends], rows + table.chunk.first, table.chunk.time_ns[rows],
        )  # fmt: skip
        for key, psn, kind, length, first, last, time_ns in zip(*(column.tolist() for column in columns), strict=True):
            self.open.put(key, (psn, kind, length, first), last, time_ns)


def _first_of_message(table: ChunkTable, p: Packets, carried: dict[int, Open]) -> tuple[Int, Int, npt.NDArray[np.bool_]]:
    """Of each packet: payload and frame of the first packet of its message that is known, and whether that is another packet."""
    n = len(p.rows)
    joined = np.zeros(n, np.bool_)
    joined[1:] = (p.psn[1:] == (p.psn[:-1] + 1) % PSNS) & (p.goes_on[1:] != 0) & (p.goes_on[1:] == p.leaves_open[:-1])
    joined[p.starts] = False
    head = np.maximum.accumulate(np.where(joined, 0, np.arange(n)))
    size, frame = p.length.copy(), table.chunk.first + p.rows
    for start, (psn, kind, length, first) in carried.items():
        if p.psn[start] == (psn + 1) % PSNS and p.goes_on[start] == kind:
            size[start], frame[start], joined[start] = length, first, True
    return size[head], frame[head], joined
