"""Subnets of a capture told apart by interface, directed route or GID prefix, or by the site's policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
from msgspec import Struct as Record
from msgspec import field

from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.equal_rows import U64, groups
from ibdissect.decode.mads import Mads
from ibdissect.wire.headers import GRH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import DIRECTED, FIRST_MULTICAST, GET_RESP, LINK_LOCAL, STATUS
from ibdissect.wire.sm import NodeInfo, SMInfo
from ibdissect.wire.sm_port import PortInfo

INTERFACE, CARD, ORIGIN, LID, PREFIX, GUID = "interface", "card port", "origin", "LID", "GID prefix", "GUID"
"""Kinds of addresses. The origin of a directed route is identified by the high half of its transaction ids, as in `routes`."""
HOW = {INTERFACE: "capture interfaces", CARD: "ports of the capture card", ORIGIN: "origins of directed routes"}
BY_CAPTURE = {HOW[INTERFACE], HOW[CARD]}
"""What the capture itself says of every packet: that several subnets are in one file is no fault then."""
MAX_SEEN = 1 << 18
"""Pairs of addresses seen together that are remembered; if there are more, the subnets are not separated."""

Address = tuple[str, int]
Some = tuple[str, Int, U64]
"""A kind of address, rows of a chunk, and the address in each."""


class SubnetMap(Record, frozen=True):
    """Which addresses belong to which subnet."""

    numbers: Mapping[Address, int] = field(default_factory=dict)
    """The number of the subnet, from 1. Addresses that several subnets have are left out."""
    how: str = ""
    """What distinguishes the subnets, in words."""
    expected: bool = False
    """Whether the site's policy names the subnets."""
    once: bool = False
    """Whether the capture can be read only once, so that nothing is tried to tell its subnets apart."""

    @property
    def subnets(self) -> list[int]:
        """The numbers of the subnets."""
        return sorted(set(self.numbers.values()))

    def of(self, table: ChunkTable) -> Int:
        """The subnet of each packet, int64[n]; 0 where its addresses leave it open, or contradict each other."""
        found, torn = np.zeros(len(table), np.int64), np.zeros(len(table), np.bool_)
        for kind, rows, values in (*_anchors(table, np.arange(len(table))), *_ends(table, {LID, PREFIX})):
            distinct, which = np.unique(values, return_inverse=True)
            subnet = np.array([self.numbers.get((kind, value), 0) for value in distinct.tolist()], np.int64)[which.ravel()]
            rows, subnet = rows[subnet > 0], subnet[subnet > 0]
            torn[rows] |= (found[rows] > 0) & (found[rows] != subnet)
            found[rows] = subnet
        found[torn] = 0
        return found


class SubnetSeparator:
    """Separates the subnets of a capture. One per capture; feed all chunks, in any order.

    Ports that answer on one interface, or to one origin of directed routes, belong to one subnet. Two interfaces or origins with a port in
    common belong to one subnet, too. If that joins all of them, the subnets cannot be separated.
    """

    def __init__(self, site: SubnetMap, first: Collection[int] = ()) -> None:
        """`site` is what the site's policy says, `first` are the port GUIDs of subnet 1, if files describe it."""
        self.site, self.first = site, first
        self.kinds = list(map(_Seen, HOW))
        self.useful = {PREFIX, GUID, *(kind for kind, _ in site.numbers)}

    def feed(self, table: ChunkTable) -> None:
        """Take the addresses of a chunk."""
        far = [some for some in (*_ends(table, self.useful), *_answer_addresses(table)) if some[0] in self.useful]
        addressed = np.zeros(len(table), np.bool_)
        for _, rows, _ in far:
            addressed[rows] = True
        near = list(_anchors(table, np.flatnonzero(addressed)))
        for seen in self.kinds:
            seen.feed(len(table), near, far)

    def division(self) -> SubnetMap:
        """The subnets of the chunks so far; what the site's policy says if there is no evidence."""
        return next((found for seen in self.kinds if (found := seen.division(self.site, self.first)).numbers), self.site)


def divide(tables: Iterable[ChunkTable], site: SubnetMap, first: Collection[int] = ()) -> SubnetMap:
    """The subnets of all chunks of a capture, as `SubnetSeparator` separates them."""
    divider = SubnetSeparator(site, first)
    for table in tables:
        divider.feed(table)
    return divider.division()


class _Seen:
    """Which addresses were seen together with each interface, or each origin of directed routes."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pairs: set[tuple[int, str, int]] = set()
        """Interface or origin, and the kind and value of the other address."""

    def feed(self, size: int, near: Iterable[Some], far: Iterable[Some]) -> None:
        """Process a chunk of `size` packets with these addresses."""
        anchor = np.full(size, -1, np.int64)
        for kind, rows, values in near:
            if kind == self.kind:
                anchor[rows] = values.astype(np.int64)
        for kind, rows, values in far:
            there = anchor[rows] >= 0
            if there.any() and len(self.pairs) <= MAX_SEEN:
                columns = anchor[rows][there], values[there]
                first, _ = groups(columns)
                self.pairs.update((one, kind, other) for one, other in zip(*(column[first].tolist() for column in columns), strict=True))

    def division(self, site: SubnetMap, first: Collection[int]) -> SubnetMap:
        """The subnets that these addresses distinguish; without numbers if they distinguish none."""
        group: dict[int, int] = {near: near for near, *_ in self.pairs}

        def find(one: int) -> int:
            while group[one] != one:
                group[one] = one = group[group[one]]
            return one

        seen: dict[Address | int, int] = {}
        for near, kind, far in sorted(self.pairs):
            named = site.numbers.get((self.kind, near)) or site.numbers.get((kind, far)) or int(kind == GUID and far in first)
            for shared in ((kind, far),) * (kind == GUID) + ((named,) if named else ()):
                group[find(near)] = find(seen.setdefault(shared, near))
        number: dict[int, int] = {}
        for shared, near in seen.items():
            if isinstance(shared, int) and number.setdefault(find(near), shared) != shared:
                return SubnetMap()
        for near in seen.values():
            number.setdefault(find(near), max(*number.values(), *site.subnets, len(first) > 0, 0) + 1)
        if len(number) < 2 or len(self.pairs) > MAX_SEEN:
            return SubnetMap()
        numbers = {(self.kind, near): number[find(near)] for near in group if find(near) in number}
        owners: dict[Address, set[int]] = {}
        for near, kind, far in self.pairs:
            if kind == PREFIX:  # a LID that one subnet shows may exist unseen in another
                owners.setdefault((kind, far), set()).add(numbers.get((self.kind, near), 0))
        numbers |= {address: one for address, (one, *more) in owners.items() if one and not more}
        return SubnetMap({**numbers, **site.numbers}, HOW[self.kind], site.expected)


def _anchors(table: ChunkTable, rows: Int) -> Iterator[Some]:
    """Interfaces and card ports of some packets of a chunk, and origins of its directed routes."""
    yield INTERFACE, rows, table.chunk.interface[rows].astype(np.uint64)
    cards = rows[table.chunk.pseudo[rows] >= 0]
    yield CARD, cards, table.chunk.card_ports(cards).astype(np.uint64)
    mads = table.once(Mads)
    routed = mads.mgmt_class == DIRECTED  # hosts and traps of either subnet may have transaction ids that begin alike
    yield ORIGIN, mads.rows[routed], mads.transaction[routed] >> np.uint64(32)


def _ends(table: ChunkTable, kinds: Collection[str]) -> Iterator[Some]:
    """LIDs and GID prefixes in the headers of a chunk, of the kinds that are wanted."""
    links = table.occurrences(LRH).rows
    for lids in (table.values(LRH.slid), table.values(LRH.dlid)) if LID in kinds else ():
        yield _unicast(links, lids)
    rows, source, destination = table.occurrences(GRH).rows, extract(table.values(GRH.sgid), 0, 64), extract(table.values(GRH.dgid), 0, 64)
    own = (source == destination) & (source != 0) & (source != LINK_LOCAL)  # others go through a router
    yield PREFIX, rows[own], source[own]


def _answer_addresses(table: ChunkTable) -> Iterator[Some]:
    """LIDs, GID prefixes and GUIDs that the answers in a chunk show of their ports."""
    for field_, kind in ((NodeInfo.port_guid, GUID), (SMInfo.guid, GUID), (PortInfo.gid_prefix, PREFIX), (PortInfo.lid, LID)):
        rows = table.occurrences(field_.owner).rows
        answers = (table.values_at(MAD.method, rows) == GET_RESP) & (table.values_at(MAD.status, rows) & STATUS == 0)
        rows, values = rows[answers], table.values(field_)[answers].astype(np.uint64)
        if kind == LID:
            yield _unicast(rows, values)
        else:
            good = (values != 0) & (values != LINK_LOCAL)
            yield kind, rows[good], values[good]


def _unicast(rows: Int, lids: Int | U64) -> Some:
    good = (lids > 0) & (lids < FIRST_MULTICAST)
    return LID, rows[good], lids[good].astype(np.uint64)
