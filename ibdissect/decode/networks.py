"""Networks that addresses belong to: the same address may be another port in another VLAN, virtual network or capture interface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.bounded import KeptDict
from ibdissect.capture.gather import gather
from ibdissect.engine.seen_before import NewNumbers
from ibdissect.wire.encapsulation import GENEVE, VLAN, VXLAN, VXLANGPE
from ibdissect.wire.numbers import DIRECTED, PERMISSIVE, RESPONSE_BIT

from .addresses import ENDS, GID_SIZE, addresses_hash, by_header
from .bit_fields import extract
from .chunk_table import ChunkTable
from .equal_rows import U64, groups, mix
from .locate import Int, around
from .mads import Mads

Numbers = npt.NDArray[np.uint16]
MAX_PAIRS = 1 << 14
"""Pairs of addresses whose directions are remembered; further ones are no evidence that two interfaces show one network."""
THERE, BACK = 1, 2
"""Directions of a pair, from its smaller to its larger address and back."""
_MARKS = (
    *((name, VLAN.id) for name in ("vlan", "vlan2", "vlan3")),
    *((at, field) for name, field in (("vxlan", VXLAN.vni), ("vxlan_gpe", VXLANGPE.vni), ("geneve", GENEVE.vni)) for at in around(name)),
)
"""Where a header with the number of a network starts, and its field."""
_SMP_WAY = np.array([mix([np.full(1, PERMISSIVE + way, np.uint64)])[0] for way in (THERE, BACK)], np.uint64)
"""What stands for the ends of directed-route SMPs, whose addresses are the same in both directions."""


def shown(table: ChunkTable) -> Numbers | None:
    """The network that each packet's VLAN tags, virtual network and capture interface show, uint16[n]: a hash, 0 for the untagged one of
    the first interface or card port; None if all packets are of that one.
    """
    start, chunk, none = table.located.start, table.chunk, np.zeros(0, np.uint64)
    parts = [chunk.interface.astype(np.uint64) if chunk.interface.any() else none]
    for name, field in _MARKS:
        rows = np.flatnonzero(start[name] >= 0) if name in start else none
        parts.append(none)
        if len(rows):
            raw = gather(chunk.data, start[name][rows], field.owner.size)
            parts[-1] = np.zeros(len(table), np.uint64)
            parts[-1][rows] = extract(raw, field.bit, field.bits)
    if not any(part.any() for part in parts):
        return None
    columns = [part if len(part) else np.zeros(len(table), np.uint64) for part in parts]
    plain = np.logical_and.reduce([part == 0 for part in columns])
    return np.where(plain, 0, np.maximum(mix(columns) >> np.uint64(48), 1)).astype(np.uint16)


class _Change(Record, frozen=True):
    """From a row on, the packets of a network are those of another."""

    row: int
    shown: int
    number: int


class Networks:
    """Which interfaces and VLANs show one network? One per capture; feed chunks in order.

    Two are one network as long as some pair of ports sends in one direction only on the first, and in the other direction only on the
    second: each taps one direction. Otherwise they are two: equal addresses, transaction ids and queue pairs on them mean nothing.
    """

    def __init__(self) -> None:
        self.pairs = KeptDict[tuple[int, int], dict[int, int]](MAX_PAIRS, "pairs of addresses")
        """For each pair, the directions seen in each network."""
        self.number: dict[int, int] = {}
        """By what packets show, in order of appearance: the number of the network, that of the first of those that are one."""
        self._most_alone = 2 * MAX_PAIRS + 2
        """Directions of pairs that are remembered until there is a second network."""
        self._new = NewNumbers(self._most_alone)
        self._halves = Counter[tuple[int, int]]()
        """How many pairs have one direction in either of two networks."""
        self._alone = np.zeros((5, 0), np.uint64)
        """Until there is a second network: the addresses and directions of the pairs of the first one, in order of appearance, each with
        a frame and its time."""

    def tell_apart(self, table: ChunkTable) -> Numbers | None:
        """The network of each packet, uint16[n]; None if there is one only. Call as `table.once(networks.tell_apart)`."""
        found = shown(table)
        if found is None and not self.number and table.chunk.interfaces is None and not table.located.start.keys() & {"ip4", "ip6", "eth"}:
            return None  # as in most captures of InfiniBand
        there = np.zeros(len(table), np.uint16) if found is None else found
        values, first = np.unique(there if found is not None else there[:1], return_index=True)
        for value in values[np.argsort(first)].tolist():
            self.number.setdefault(value, value)
        numbers = there.copy()
        for value, number in self.number.items():
            numbers[there == value] = number
        for change in self._learn(table, there):
            numbers[change.row :][there[change.row :] == change.shown] = change.number
        table.networks = numbers if numbers.any() else None
        return table.networks

    def _learn(self, table: ChunkTable, there: Numbers) -> Iterator[_Change]:
        """Take the directions of the pairs in a chunk, in frame order; yields which networks have another number from then on."""
        one = len(self.number) == 1
        rows, ways = _ends(table, self._first_of_pairs(table) if one else np.flatnonzero(table.located.at("bth") >= 0))
        if not len(rows):
            return
        low, high, back = np.minimum(*ways), np.maximum(*ways), (ways[0] > ways[1]).astype(np.uint64)
        if one:
            self._keep(table, rows, np.stack([low, high, back]))
            return
        frames, times = self._alone[3:].view(np.int64)
        none = np.zeros_like(frames)
        yield from self._follow(*self._alone[:3], none + next(iter(self.number)), frames, times, none)
        self._alone = self._alone[:, :0]
        first, _ = groups((low, high, there[rows].astype(np.uint64) << np.uint64(1) | back))
        first = np.sort(first)
        at = rows[first]
        yield from self._follow(low[first], high[first], back[first], there[at], at + table.chunk.first, table.chunk.time_ns[at], at)

    def _first_of_pairs(self, table: ChunkTable) -> Int:
        """Rows of the first packets from one address to another, and all that have a MAD: others show no new pair."""
        mads, bth = table.located.at("mad") >= 0, table.located.at("bth") >= 0
        rows = np.flatnonzero(bth & ~mads)
        new = rows[np.array(self._new.feed(addresses_hash(table, rows).view(np.int64)), np.int64)]
        return np.sort(np.concatenate((new, np.flatnonzero(bth & mads))))

    def _keep(self, table: ChunkTable, rows: Int, found: U64) -> None:
        """Remember the pairs of a capture that shows one network so far."""
        when = np.stack([rows + table.chunk.first, table.chunk.time_ns[rows]]).view(np.uint64)
        first = np.sort(groups([*found])[0])
        every = np.concatenate([self._alone, np.concatenate([found, when])[:, first]], axis=1)
        first, _ = groups([*every[:3]])
        self._alone = every[:, np.sort(first)[: self._most_alone]]

    def _follow(self, *columns: npt.NDArray[np.generic]) -> Iterator[_Change]:
        """Take steps in order: both addresses, whether back, the network, the frame, its time, and the row of the present chunk."""
        for one, other, back, network, frame, time_ns, row in zip(*(column.tolist() for column in columns), strict=True):
            known = self.pairs.get_or_make((one, other), dict, frame, time_ns)
            way = BACK if back else THERE
            if known is None or known.get(network, 0) & way:
                continue
            before = self._halves_of(known, network)
            known[network] = known.get(network, 0) | way
            after = self._halves_of(known, network)
            if before != after:
                self._halves.subtract(before)
                self._halves.update(after)
                yield from self._join(row)

    def _halves_of(self, known: dict[int, int], network: int) -> list[tuple[int, int]]:
        """The networks of which this one has one direction of a pair, and the other network the other."""
        mine = known.get(network, 0)
        halves = [other for other, way in known.items() if other != network and mine | way == THERE | BACK and mine & way == 0]
        return [(min(network, other), max(network, other)) for other in halves]

    def _join(self, row: int) -> Iterator[_Change]:
        """Number the networks anew."""
        number = {value: value for value in self.number}
        for value in number:
            for other in number:  # in order of appearance
                if other == value:
                    break
                if self._halves[min(value, other), max(value, other)] > 0:
                    number[value] = number[other]
                    break
        for value, new in number.items():
            if self.number[value] != new:
                self.number[value] = new
                yield _Change(row, value, new)


def _ends(table: ChunkTable, rows: Int) -> tuple[Int, tuple[U64, U64]]:
    """The rows whose packets have two ends, and a hash of either address; directed routes by what is request and what is answer.

    `rows`: rows with a BTH, among them all with a MAD.
    """
    source, destination = np.zeros((2, len(rows)), np.uint64)
    for header, index, at in by_header(table, rows, ENDS):
        for hashed, offset in ((source, header.source), (destination, header.destination)):
            raw = np.zeros((len(at), GID_SIZE), np.uint8)
            raw[:, : header.size] = gather(table.chunk.data, at + offset, header.size)
            hashed[index] = mix([*raw.view(np.uint64).T, np.full(len(raw), header.size, np.uint64)])
    mads = table.once(Mads)
    routed = mads.mgmt_class == DIRECTED
    if routed.any():
        place = np.searchsorted(rows, mads.rows[routed])
        answers = (mads.method[routed] & RESPONSE_BIT > 0).astype(np.int64)
        source[place], destination[place] = _SMP_WAY[answers], _SMP_WAY[1 - answers]
    differ = source != destination
    return rows[differ], (source[differ], destination[differ])
