"""Who sent to whom? The flows of all points: packets of one source to one destination queue pair."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.table.addresses import LID_SIZE, End, address_text, ends_at, ends_hash
from ibdissect.table.locate import Int
from ibdissect.table.rows import U64, groups, mix
from ibdissect.table.table import ChunkTable
from ibdissect.wire.numbers import MAX_LMC

MOST_HOPS = 63
BACK, WHOLE, ROUTE, HOPS_AT, ROUTE_BITS = 1, 2, 4, 3, 9
"""Low bits of a directed route's hash: the way back, the whole route was captured, it is one; from bit 3 its hops."""


class Flow(Record, frozen=True):
    """Packets of one source to one destination queue pair."""

    source: bytes
    """Identifies the sender: its address, or the near or far end of a directed route."""
    destination: bytes
    dest_qp: int
    text: tuple[str, str]
    """Sender and receiver as text."""
    vague: bool = False
    """A directed route of which only the length was captured."""
    hops: int = 0
    """Links of a directed route."""


class Flows:
    """Numbers the flows of all points."""

    def __init__(self) -> None:
        self.known: list[Flow] = []
        self._numbers: dict[int, int] = {}

    def of(self, table: ChunkTable, rows: Int, dest_qp: Int, route: U64) -> npt.NDArray[np.int32]:
        """The number of each row's flow. `route`: the hash of a directed route, else 0."""
        name = mix([np.where(route > 0, route, ends_hash(table, rows)), dest_qp])
        first, index = groups([name])
        for i in first.tolist():
            if int(name[i]) not in self._numbers:
                self._numbers[int(name[i])] = len(self.known)
                self.known.append(_flow(ends_at(table, int(rows[i])), int(dest_qp[i]), int(route[i])))
        return np.array([self._numbers[value] for value in name[first].tolist()], np.int32)[index]

    def merged(self) -> Int:
        """For each flow the first one from the same source to the same queue pair of the same port.

        A port has 2**LMC LIDs, and sends from the lowest. A LID that sends nothing belongs to the port with the next LID below that does.
        """
        first: dict[tuple[bytes, bytes, int], int] = {}
        return np.array([first.setdefault((*ends, self.known[i].dest_qp), i) for i, ends in enumerate(self.ends())], np.int64)

    def ends(self) -> list[tuple[bytes, bytes]]:
        """The ports of each flow: sender, receiver."""
        sources = {flow.source for flow in self.known}
        return [(flow.source, _base(flow.destination, sources)) for flow in self.known]


def _base(end: bytes, sources: set[bytes]) -> bytes:
    """The lowest LID of a port, as far as the capture shows it."""
    if len(end) == LID_SIZE and end not in sources:
        lid = int.from_bytes(end, "big")
        for lmc in range(1, MAX_LMC + 1):
            base = (lid >> lmc << lmc).to_bytes(LID_SIZE, "big")
            if base in sources:
                return base
    return end


def _flow(ends: tuple[End, End], dest_qp: int, route: int) -> Flow:
    if not route:
        return Flow(bytes(ends[0]), bytes(ends[1]), dest_qp, (address_text(ends[0]), address_text(ends[1])))
    name = f"{route >> 48:04x}"
    near, far = (f"{end} of route {route >> HOPS_AT}".encode() for end in ("near", "far"))
    texts = "SM", f"route {name}"
    if route & BACK:
        near, far, texts = far, near, texts[::-1]
    return Flow(near, far, dest_qp, texts, vague=not route & WHOLE, hops=route >> HOPS_AT & MOST_HOPS)
