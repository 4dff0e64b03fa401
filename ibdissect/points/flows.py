"""The flows of all points: packets of one source to one destination queue pair."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.gather import gather
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import LID_SIZE, OF_GRH, End, address_text, addresses_hash, by_header, ends_at, gids_hash
from ibdissect.decode.equal_rows import SPREAD, U64, groups, mix
from ibdissect.decode.identity import Content, Mark
from ibdissect.wire.numbers import MAX_LMC
from ibdissect.wire.opcodes import CONNECTED, SERVICE

MOST_HOPS = 63
PREFIX, MULTICAST_GID = 8, 0xFF
"""Bytes of a GID that say which subnet it is of, and the first one of a group's."""
BACK, WHOLE, ROUTE, HOPS_AT, ROUTE_BITS = 1, 2, 4, 3, 9
"""Low bits of a directed route's hash: the way back, the whole route was captured, it is one; from bit 3 its hops."""


def routed(table: ChunkTable, rows: Int) -> Bool:
    """Which native packets go to another subnet, so that routers give them other LIDs and another SL: their GIDs say so; bool[n]."""
    found = np.zeros(len(rows), np.bool_)
    for _, index, at in by_header(table, rows, (OF_GRH,)) if "lrh" in table.located.start else ():
        native = table.located.start["lrh"].take(rows[index]) >= 0
        source, destination = (gather(table.chunk.data, at + place, PREFIX) for place in (OF_GRH.source, OF_GRH.destination))
        found[index] = native & (source != destination).any(axis=1) & (destination[:, 0] != MULTICAST_GID)
    return found


def unchanged_ends(table: ChunkTable, rows: Int, far: Bool) -> U64:
    """A hash of the addresses of each row that are the same all the way: their GIDs where `far`, for packets that are `routed`."""
    found = addresses_hash(table, rows)
    return np.where(far, gids_hash(table, rows) * SPREAD, found) if far.any() else found


class PointFlow(Record, frozen=True):
    """Packets of one source to one destination queue pair."""

    source: bytes
    """Identifies the sender: its address, or the near or far end of a directed route."""
    destination: bytes
    dest_qp: int
    route: int = 0
    """The hash of a directed route; 0 for none."""
    vague: bool = False
    """A directed route of which only the length was captured."""
    hops: int = 0
    """Links of a directed route."""
    gids: int = 0
    """A hash of both GIDs in packets of a connection, 0 without a GRH: hosts behind a router share its LID."""

    @property
    def text(self) -> tuple[str, str]:
        """Sender and receiver as text."""
        if not self.route:
            return address_text(self.source), address_text(self.destination)
        near, far = "SM", f"route {self.route >> 48:04x}"
        return (far, near) if self.route & BACK else (near, far)


class PointFlows:
    """Numbers the flows of all points."""

    def __init__(self) -> None:
        self.known: list[PointFlow] = []
        self._numbers: dict[Mark, int] = {}
        self._addresses: dict[Content, Content] = {}  # each once: many queue pairs share them

    def of(self, table: ChunkTable, rows: Int, dest_qp: Int, route: U64, far: Bool, addresses: U64) -> npt.NDArray[np.int32]:
        """The number of each row's flow. `route`: the hash of a directed route, else 0; `addresses`: of its `unchanged_ends`."""
        gids = np.where(np.isin(table.located.opcode[rows] & SERVICE, CONNECTED), gids_hash(table, rows), np.uint64(0))
        name = mix([np.where(route > 0, route, addresses ^ gids), dest_qp])
        first, index = groups([name])
        for i in first.tolist():
            mark = Mark(int(name[i]))
            if mark not in self._numbers:
                self._numbers[mark] = len(self.known)
                ends = ends_at(table, int(rows[i]))
                ends = (End(ends[0].gid), End(ends[1].gid)) if far[i] else ends
                self.known.append(self._flow(ends, int(dest_qp[i]), int(route[i]), int(gids[i])))
        return np.array([self._numbers[value] for value in name[first].tolist()], np.int32)[index]

    def merged(self) -> Int:
        """For each flow the first one from the same source to the same queue pair of the same port.

        A port has 2**LMC LIDs, and sends from the lowest. So a LID that sends nothing belongs to the port of the next lower LID that sends.
        """
        numbers, gids = (np.array([getattr(flow, name) for flow in self.known], np.uint64) for name in ("dest_qp", "gids"))
        first, index = groups([*self.ends().T, numbers, gids])
        return first[index]

    def ends(self, *, by_lid: bool = False) -> Int:
        """Numbers of the ports of each flow: sender, receiver; int64[n, 2]. `by_lid`: of its LIDs, as each has a path of its own."""
        sources = dict.fromkeys(flow.source for flow in self.known)
        numbers = {end: i for i, end in enumerate(sources)}
        both = (end for flow in self.known for end in (flow.source, flow.destination if by_lid else _base(flow.destination, sources)))
        return np.fromiter((numbers.setdefault(end, len(numbers)) for end in both), np.int64).reshape(-1, 2)

    def _flow(self, ends: tuple[End, End], dest_qp: int, route: int, gids: int) -> PointFlow:
        source, destination = map(bytes, ends)
        if route:
            near, far = (f"{end} end of route {route >> HOPS_AT}".encode() for end in ("near", "far"))
            source, destination = (far, near) if route & BACK else (near, far)
        source, destination = (self._addresses.setdefault(end, end) for end in (source, destination))
        vague, hops = route > 0 and not route & WHOLE, route >> HOPS_AT & MOST_HOPS
        return PointFlow(source, destination, dest_qp, route, vague, hops, gids)


def _base(end: bytes, sources: Collection[bytes]) -> bytes:
    """The lowest LID of a port, as far as the capture shows it."""
    if len(end) == LID_SIZE and end not in sources:
        lid = int.from_bytes(end, "big")
        for lmc in range(1, MAX_LMC + 1):
            base = (lid >> lmc << lmc).to_bytes(LID_SIZE, "big")
            if base in sources:
                return base
    return end
