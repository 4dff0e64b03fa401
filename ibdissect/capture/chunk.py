"""What a reader hands on: the records of one window of a capture, as arrays, whatever the container was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ibdissect.record import record

LINK_ETHERNET, LINK_SLL, LINK_ERF, LINK_IPOIB, LINK_INFINIBAND, LINK_SLL2 = 1, 113, 197, 242, 247, 276

LINK_NAMES = {
    LINK_ETHERNET: "Ethernet",
    LINK_SLL: "Linux cooked v1",
    LINK_ERF: "ERF/InfiniBand",
    LINK_IPOIB: "IP over InfiniBand",
    LINK_INFINIBAND: "InfiniBand",
    LINK_SLL2: "Linux cooked v2",
}


FRONT = 72
"""ERF, LRH, BTH and RETH are 52 bytes; two bytes, Ethernet, IPv4, UDP, BTH and RETH are 72."""
AHEAD = 2
"""The front of an Ethernet frame starts so many bytes ahead of it: then each header behind the Ethernet one lies at whole words."""


@record
class Chunk:
    """Consecutive records of a capture; all arrays have one row a record, in file order.

    A record is never split between two chunks. `data` is the window's memory: offsets index into it.
    """

    first: int
    """Frame number of row 0; frames count from 1 over every record of the file, as Wireshark counts."""
    base: int
    """Position of `data[0]` in the (decompressed) file."""
    data: npt.NDArray[np.uint8]
    """1-D, C-contiguous; valid for as long as the chunk is referenced."""
    offset: npt.NDArray[np.int64]
    """Where the frame as Wireshark shows it starts: behind the ERF pseudo-header, at the Ethernet header for RoCE."""
    caplen: npt.NDArray[np.int64]
    """Captured bytes from `offset` on; never reaches beyond `data`."""
    length: npt.NDArray[np.int64]
    """Bytes the frame had on the wire (without the ERF pseudo-header)."""
    time_ns: npt.NDArray[np.int64]
    """Nanoseconds since 1970 UTC; ERF timestamps rounded to the nearest."""
    link: npt.NDArray[np.uint16]
    """Link type of the record (`LINK_*`)."""
    interface: npt.NDArray[np.uint16]
    """Capture-interface bits of ERF flags, else the pcapng interface index (over the whole file), else 0."""
    pseudo: npt.NDArray[np.int64]
    """Where the 16-byte ERF header of the record starts in `data`; -1 where there is none."""
    described: npt.NDArray[np.uint16] | None = None
    """Index of the pcapng interface that each record belongs to, ERF records too; None for other containers."""
    front: npt.NDArray[np.uint32] | None = None
    """FRONT bytes from `front_at` of each row on as columns of four bytes as they lie in `data`, uint32[FRONT / 4, n]; zeros behind
    the data. None where the reader had them not."""

    def __len__(self) -> int:
        return len(self.offset)

    def front_at(self) -> npt.NDArray[np.int64]:
        """Where the front of each row starts in `data`, int64[n]: at its ERF header, else frame, or AHEAD of an Ethernet frame."""
        ahead = np.where(self.link == LINK_ETHERNET, AHEAD, 0)
        return np.where(self.pseudo >= 0, self.pseudo, np.maximum(self.offset - ahead, 0))

    def frame_bytes(self, row: int) -> bytes:
        """The captured bytes of one row, from `offset` on."""
        start = int(self.offset[row])
        return self.data[start : start + int(self.caplen[row])].tobytes()


@record(eq=True)
class Damage:
    """A place where the container itself is broken; the reader went as far as it could."""

    kind: str
    """`cut-off`: the file ends inside a record. `damaged`: bytes that are no record, or an impossible length."""
    offset: int
    """Byte position in the (decompressed) file."""
    frame: int
    """The last good frame before it, 0 when there is none."""
    reason: str
    resumed: int | None = None
    """Byte position where reading went on, None when it stopped."""


class Reader(Protocol):
    """An opened capture; `chunks` may be called again on a file, once on a pipe."""

    path: str
    damage: list[Damage]
    """Filled while `chunks` runs."""
    link_types: list[int]
    """Link types seen so far, in order of first appearance."""
    comments: dict[int, list[str]]
    """Packet comments of pcapng by frame number, those of the whole capture under 0; filled while `chunks` runs."""

    def chunks(self) -> Iterator[Chunk]: ...
    def close(self) -> None: ...
