"""Addresses of packets: the one that identifies sender or receiver, and the one that is shown.

There are two orders of precedence. `ENDS`, to identify: the LRH first. Inside a subnet every packet of a port carries its LID, but a GRH
may be present in one direction only, or in some packets: matching by it would split conversations. `SHOWN`, to print: IP, then GRH, then
LRH, as Wireshark fills its address columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.gather import gather
from ibdissect.wire.encapsulation import SLL, SLL2, Ethernet, IPv4, IPv6
from ibdissect.wire.headers import GRH, LRH
from ibdissect.wire.spec import Field
from ibdissect.wire.text import gid_text, ip4_text

from .equal_rows import SPREAD, U64, mix
from .header_cache import FieldReader
from .locate import Int

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

LID_SIZE, IP4_SIZE, MAC_SIZE, GID_SIZE = 2, 4, 6, 16
"""Address sizes in bytes; the size identifies the kind of address. An IPv6 address counts as a GID."""
NETWORK_SIZE = 3
"""Bytes behind an address that say of which network it is, if not of the first: with them, each size still identifies one kind."""
_PLAIN = (0, LID_SIZE, IP4_SIZE, MAC_SIZE, GID_SIZE)


class Header(Record, frozen=True):
    """A header with source and destination addresses."""

    name: str
    """Key of `Located.start`."""
    source: int
    """Bytes from the start of the header to the sender's address."""
    destination: int
    """Bytes to the receiver's address; -1 if the header has none."""
    size: int


def _header(name: str, source: Field[Any], destination: Field[Any] | None) -> Header:
    return Header(name, source.bit // 8, destination.bit // 8 if destination is not None else -1, source.bits // 8)


OF_LRH = _header("lrh", LRH.slid, LRH.dlid)
OF_GRH = _header("grh", GRH.sgid, GRH.dgid)
OF_IP4 = _header("ip4", IPv4.source, IPv4.destination)
OF_IP6 = _header("ip6", IPv6.source, IPv6.destination)
NETWORK = (OF_IP6, OF_IP4, OF_GRH)
SHOWN = (*NETWORK, OF_LRH)
ENDS = (OF_LRH, OF_GRH, OF_IP4, OF_IP6)
LINKS = (_header("sll2", SLL2.source, None), _header("sll", SLL.source, None), _header("eth", Ethernet.source, Ethernet.destination))
"""Shown if there is no other address; never used to match conversations."""


class End(bytes):
    """One end of a packet: the bytes of the address that identifies it (2: LID, 4: IPv4, 16: GID or IPv6, 0: no address), and those of its
    network if it is not the first one (`networks`).

    Ends with the same bytes are equal, whatever address is shown for them: an address means one port within one network only.
    `str(end)` is the text that `show` prints.
    """

    gid: bytes = b""
    """A GID or IP address to show instead of the LID; empty for none."""

    @property
    def lid(self) -> int | None:
        """The LID that identifies the end; None for other addresses."""
        address = self.address
        return int.from_bytes(address, "big") if len(address) == LID_SIZE else None

    @property
    def network(self) -> int:
        """The number of its network, as in `decode.networks`."""
        return 0 if len(self) in _PLAIN else int.from_bytes(self[-NETWORK_SIZE:], "big")

    @property
    def address(self) -> bytes:
        """The address without the network."""
        return self if len(self) in _PLAIN else self[:-NETWORK_SIZE]

    def at(self, lid: int) -> End:
        """The end with another LID of the same network; only for an end that a LID identifies."""
        return End(lid.to_bytes(LID_SIZE, "big") + self[LID_SIZE:])

    def __str__(self) -> str:
        return address_text(self.gid or self)


NOWHERE = End()


def lid_end(lid: int, network: int = 0) -> End:
    """The end with a LID in a network."""
    return End(lid.to_bytes(LID_SIZE, "big") + network_bytes(network))


def network_bytes(network: int) -> bytes:
    """What stands behind an address of a network; nothing in the first one."""
    return network.to_bytes(NETWORK_SIZE, "big") if network else b""


def address_text(address: bytes) -> str:
    """An address in its usual notation, without its network; empty for no address."""
    if len(address) not in _PLAIN:
        address = address[:-NETWORK_SIZE]
    if len(address) == LID_SIZE:
        return f"LID {int.from_bytes(address, 'big')}"
    if len(address) == MAC_SIZE:
        return address.hex(":")
    if len(address) == IP4_SIZE:
        return ip4_text(address)
    return gid_text(address) if address else ""


def by_header(table: ChunkTable, rows: Int, order: tuple[Header, ...]) -> Iterator[tuple[Header, slice | Int, Int]]:
    """For each header of `order`: the rows that have it and none before it in `order` (index into `rows`), and where it starts."""
    left: Int | None = None
    for header in order if len(rows) else ():
        start = table.located.start.get(header.name)
        if start is None:
            continue
        at = start.take(rows if left is None else rows[left])
        there = at >= 0
        if there.all():
            yield header, slice(None) if left is None else left, at
            return
        here = np.flatnonzero(there)
        if len(here):
            yield header, here if left is None else left[here], at[here]
            left = np.flatnonzero(~there) if left is None else left[~there]


def ends_of(table: ChunkTable, rows: Int) -> list[tuple[End, End]]:
    """Sender and receiver of each row."""
    ends = [(NOWHERE, NOWHERE)] * len(rows)
    for header, index, at in by_header(table, rows, ENDS):
        for i, near, far in _addresses(table, rows, header, index, at):
            ends[i] = End(near), End(far)
    for i, number in enumerate(table.networks.take(rows).tolist()) if table.networks is not None else ():
        if number:
            near, far = (End(end + network_bytes(number)) for end in ends[i])
            ends[i] = near, far
    if "lrh" not in table.located.start:
        return ends
    native = np.flatnonzero(table.located.start["lrh"].take(rows) >= 0)
    for header, index, at in by_header(table, rows[native], NETWORK):
        for i, near, far in _addresses(table, rows[native], header, index, at):
            source, destination = ends[native[i]]
            source.gid, destination.gid = near, far
    return ends


def _addresses(table: ChunkTable, rows: Int, header: Header, index: slice | Int, at: Int) -> Iterator[tuple[int, bytes, bytes]]:
    """The addresses in one header of the indexed rows: row index, sender, receiver."""
    places = range(len(rows)) if isinstance(index, slice) else index.tolist()
    near, far = (gather(table.chunk.data, at + offset, header.size).tobytes() for offset in (header.source, header.destination))
    for k, i in enumerate(places):
        part = slice(k * header.size, (k + 1) * header.size)
        yield i, near[part], far[part]


def ends_at(table: ChunkTable, row: int) -> tuple[End, End]:
    """Sender and receiver of one row."""
    return ends_of(table, np.array([row], np.int64))[0]


def ends_bytes(table: ChunkTable, rows: Int) -> npt.NDArray[np.uint8]:
    """The addresses that identify each row's ends, uint8[n, 33]: address size, then sender and receiver, each zero-padded to 16 bytes."""
    found = np.zeros((len(rows), 1 + 2 * GID_SIZE), np.uint8)
    for header, index, at in by_header(table, rows, ENDS):
        found[index, 0] = header.size
        for offset, column in ((header.source, 1), (header.destination, 1 + GID_SIZE)):
            found[index, column : column + header.size] = gather(table.chunk.data, at + offset, header.size)
    return found


def ends_hash(table: ChunkTable, rows: Int) -> U64:
    """A hash of the ends of each row, equal for equal pairs of `ends_of`; the two directions differ."""
    found = addresses_hash(table, rows)
    if table.networks is not None:
        found ^= table.networks.take(rows).astype(np.uint64) * SPREAD
    return found


def sides_hash(table: ChunkTable, rows: Int) -> U64:
    """As `ends_hash`, but also told apart by GIDs (`gids_hash`)."""
    return ends_hash(table, rows) ^ gids_hash(table, rows)


def gids_hash(table: ChunkTable, rows: Int) -> U64:
    """A hash of both GIDs of native packets with a GRH, 0 of others: routers and virtual ports share a LID."""
    found = np.zeros(len(rows), np.uint64)
    for _, index, at in by_header(table, rows, (OF_GRH,)) if "lrh" in table.located.start else ():
        native = table.located.start["lrh"].take(rows[index]) >= 0
        gids = mix(list(gather(table.chunk.data, at + OF_GRH.source, 2 * GID_SIZE).view(np.uint64).T))
        found[index] = np.where(native, gids, np.uint64(0))
    return found


def same_side(one: End, other: End) -> bool:
    """Whether two ends may be one: equal, and if both have a GID behind their LID, equal ones."""
    return one == other and (not one.gid or not other.gid or one.gid == other.gid)


def addresses_hash(table: ChunkTable, rows: Int) -> U64:
    """A hash of the addresses of each row in any network, as captures of several points have other VLANs and interfaces."""
    found = np.zeros(len(rows), np.uint64)
    for header, index, at in by_header(table, rows, ENDS):
        place = FieldReader(table.located.front, rows[index], at)
        if header.size == GID_SIZE:
            found[index] = mix(list(gather(table.chunk.data, at + header.source, 2 * GID_SIZE).view(np.uint64).T))
        elif header.size == IP4_SIZE:
            found[index] = place.part(header.source, 2 * IP4_SIZE).view(np.uint64)[:, 0]
        else:
            far, near = (place.part(offset, LID_SIZE).view(">u2")[:, 0].astype(np.uint64) for offset in (header.destination, header.source))
            far <<= np.uint64(16)
            far |= near
            found[index] = far
    found *= SPREAD
    found ^= found >> np.uint64(32)
    found *= SPREAD
    return found
