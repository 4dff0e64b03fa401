"""`Chunk`: the records of one window of a capture as arrays, the same for all containers; and `Reader`, the base of what reads them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec import field

from ibdissect.capture.interfaces import Interfaces

LINK_ETHERNET, LINK_SLL, LINK_ERF, LINK_IPOIB, LINK_INFINIBAND, LINK_SLL2 = 1, 113, 197, 242, 247, 276
LINK_NULL, LINK_PPP, LINK_LOOP = 0, 9, 108
LINKS_RAW_IP = 12, 14, 101, 228, 229
"""Frames that begin with IP: 12 and 14 are what systems call the type in their own files (LINKTYPE_RAW is 101), 228 is IPv4, 229 IPv6."""

LINK_NAMES = {
    LINK_NULL: "BSD loopback",
    LINK_ETHERNET: "Ethernet",
    LINK_PPP: "PPP",
    LINK_LOOP: "OpenBSD loopback",
    **dict.fromkeys(LINKS_RAW_IP, "Raw IP"),
    LINK_SLL: "Linux cooked v1",
    LINK_ERF: "ERF/InfiniBand",
    LINK_IPOIB: "IP over InfiniBand",
    LINK_INFINIBAND: "InfiniBand",
    LINK_SLL2: "Linux cooked v2",
}

ERF_FLAGS = 9
"""Where an ERF header has its flags; the two lowest bits are the card's port."""
FRONT = 72
"""Bytes of a front: ERF, LRH, BTH and RETH need 52; AHEAD, Ethernet, IPv4, UDP, BTH and RETH need 72."""
AHEAD = 2
"""The front of an Ethernet frame starts this many bytes before it, so that the headers after Ethernet are word-aligned."""
MAX_COMMENTS, COMMENT = 1 << 26, 100
"""Characters of comments kept, and the overhead counted per comment."""


class Chunk(Record, frozen=True, eq=False):
    """Consecutive records of a capture; all arrays have one row per record, in file order.

    A record is never split between two chunks. `data` is the window's memory: offsets index into it.
    """

    first: int
    """Frame number of row 0; frames are numbered from 1 over all records of the file, as in Wireshark."""
    base: int
    """Position of `data[0]` in the (decompressed) file."""
    data: npt.NDArray[np.uint8]
    """1-D, C-contiguous; valid as long as the chunk is referenced."""
    offset: npt.NDArray[np.int64]
    """Start of the frame as Wireshark shows it: after the ERF pseudo-header; for RoCE at the Ethernet header."""
    caplen: npt.NDArray[np.int64]
    """Captured bytes from `offset`; never extends beyond `data`."""
    length: npt.NDArray[np.int64]
    """Bytes the frame had on the wire (without the ERF pseudo-header)."""
    time_ns: npt.NDArray[np.int64]
    """Nanoseconds since 1970 UTC; ERF timestamps rounded to the nearest."""
    link: npt.NDArray[np.uint16]
    """Link type of the record (`LINK_*`)."""
    interface: npt.NDArray[np.uint16]
    """Index of the pcapng interface (over the whole file), else the capture-interface bits of ERF flags, else 0: `frame.interface_id`."""
    pseudo: npt.NDArray[np.int64]
    """Where the 16-byte ERF header of the record starts in `data`; -1 for none."""
    front: npt.NDArray[np.uint32] | None = None
    """FRONT bytes from `front_at` of each row, as columns of four bytes in capture byte order, uint32[FRONT / 4, n]; zeros past the
    end of the data. None if the reader did not gather them."""
    comments: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """pcapng comments by frame number, of this chunk at least."""
    interfaces: Interfaces | None = None
    """The interfaces that a pcapng described so far; `interface_names` reads them."""

    def __len__(self) -> int:
        return len(self.offset)

    def interface_names(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """The name of the interface that captured each row; empty if the file does not give it."""
        if self.interfaces is None:
            return [""] * len(rows)
        names = [*map(self.interfaces.name, range(len(self.interfaces))), ""]
        return [names[min(i, len(names) - 1)] for i in self.interface[rows].tolist()]

    def card_ports(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """What JSON calls `interface`: the capture-interface bits of ERF flags, else the interface."""
        at, found = self.pseudo[rows], self.interface[rows].astype(np.int64)
        found[at >= 0] = self.data[at[at >= 0] + ERF_FLAGS] & 3
        return found

    def front_at(self) -> npt.NDArray[np.int64]:
        """Start of each row's front in `data`, int64[n]: its ERF header, else its frame, minus AHEAD for Ethernet."""
        ahead = np.where(self.link == LINK_ETHERNET, AHEAD, 0)
        return np.where(self.pseudo >= 0, self.pseudo, np.maximum(self.offset - ahead, 0))

    def frame_bytes(self, row: int) -> bytes:
        """The captured bytes of one row, from `offset`."""
        start = int(self.offset[row])
        return self.data[start : start + int(self.caplen[row])].tobytes()


class Damage(Record, frozen=True):
    """A place where the container itself is damaged."""

    kind: str
    """`cut-off`: the file ends inside a record. `damaged`: invalid record or impossible length. Of a set also `missing`: members that
    are not there. `unreadable`: a member of a set that is not a capture, or frames of an unknown link type."""
    offset: int
    """Byte position in the (decompressed) file."""
    frame: int
    """The last good frame before it; 0 for none."""
    reason: str
    resumed: int | None = None
    """Byte position where reading resumed; None if it stopped."""
    file: str = ""
    """The member of a set; `missing`: the one after the gap. Empty for a single file."""
    limited: bool = False
    """Whether reading stopped only because more must not be unpacked."""

    @property
    def unread(self) -> bool:
        """Whether the capture has more that was not read: above --max-unpacked, or unreadable. The exit status is 2."""
        return self.kind == "unreadable" or self.limited


class Comments(dict[int, list[str]]):
    """Comments by frame, 0 for the whole capture, limited to MAX_COMMENTS."""

    def __init__(self) -> None:
        super().__init__()
        self.room, self.lost = MAX_COMMENTS, 0
        """Characters left, and number of comments dropped."""

    def note(self, frame: int, text: str) -> None:
        """Add a comment to a frame."""
        self.room -= len(text) + COMMENT
        if self.room < 0:
            self.lost += 1
        else:
            self.setdefault(frame, []).append(text)


class SetMember(Record, frozen=True):
    """A file of a set."""

    path: str
    first: int
    """Number of its first frame in the set."""
    base: int
    """Where its (decompressed) bytes begin in those of the set."""
    packed: bool = False
    """Whether it is compressed."""


def member_of(members: Sequence[SetMember], frame: int) -> SetMember:
    """The member that holds a frame of the set."""
    return members[max(0, bisect_right(members, frame, key=lambda member: member.first) - 1)]


class Reader(ABC):
    """An opened capture; `chunks` may be called repeatedly for a file, once for a pipe. Close it, or use it in a `with` statement."""

    def __init__(self, path: str, follow: threading.Event | None, *, rereadable: bool, far: bool) -> None:
        self.path, self._stop = path, follow
        self.rereadable, self.far = rereadable, far
        """Whether `chunks` may be called more than once, and whether its bytes come over a network, so that it should be read once."""
        self.members: list[SetMember] = []
        """The files of a set that were begun so far, in any reading; empty for a single file."""
        self.damage: list[Damage] = []
        """Filled while `chunks` runs."""
        self.link_types: list[int] = []
        """Link types seen so far, in order of first appearance."""
        self.comments = Comments()
        """pcapng comments by frame number, 0 for the whole capture; filled while `chunks` runs."""
        self.interfaces: Interfaces | None = None
        """Interfaces of a pcapng file by index, filled while `chunks` runs; None for other containers."""

    @property
    @abstractmethod
    def packed(self) -> bool:
        """Whether it is compressed, so that positions of frames are not positions in the file."""

    @abstractmethod
    def chunks(self, frames: Sequence[int] = ()) -> Iterator[Chunk]:
        """The records from the first; raises CaptureError when called again for a pipe, or after `close`.

        With `frames` (ascending), only the chunks with these are wanted; a file that was read before may leave out others.
        """

    def stop(self) -> None:
        """Stop following a growing file: its current end is the end."""
        if self._stop is not None:
            self._stop.set()

    def close(self) -> None:
        """Stop following and close the file; the caller's file object stays open."""
        self.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
