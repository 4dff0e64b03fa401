"""From windows to chunks, one loop for all containers: walk, check, emit, resynchronise after damage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from ibdissect.capture import record_starts
from ibdissect.capture.chunk import FRONT, Chunk, Comments, Damage
from ibdissect.capture.compressed import TooMuch
from ibdissect.capture.gather import Bytes, Ints
from ibdissect.capture.record_starts import Mask, Stride
from ibdissect.engine import packet_kinds

ROWS = packet_kinds.ROWS
"""Maximum rows of a chunk; limited because records can be as small as 12 bytes, and arrays must not outgrow the window."""
SEARCH = 1 << 20
"""How many bytes after damage are searched for the next records."""
PIECE = 1 << 16
"""Positions tried at once in that search."""
MAX_DAMAGE = 1000
"""Reading stops after this many damaged places."""
LONGEST = 262144
"""Longest captured frame accepted (Wireshark's WTAP_MAX_PACKET_SIZE_STANDARD)."""
DAY = 86400


class Records(ABC):
    """Reads one container format. Fed with windows in order; keeps all state between windows."""

    limit: int
    """Maximum bytes of a record; a longer one is damage."""
    independent = False
    """Whether each record can be read without those before it."""

    def __init__(self) -> None:
        self.frames = 0
        self.damage: list[Damage] = []
        self.link_types: list[int] = []
        self.comments = Comments()
        self.start = 0
        """Bytes of the first window before the records."""
        self.used = self.need = 0
        """After `feed`: bytes of the window processed, and bytes needed from there to continue."""
        self.stopped = False
        self.second: int | None = None
        """Time of the last good record in seconds; None if records have none."""
        self._lost: tuple[int, str] | None = None

    @property
    def anew(self) -> bool:
        """Whether a new object could begin where the next window begins."""
        return self.independent and self._lost is None

    def begin_at(self, frame: int, second: int | None) -> None:
        """Expect the record of this frame at the start of the next window; `second` is that of the record before."""
        self.frames, self.second, self.start, self.used, self.need = frame - 1, second, 0, 0, 0

    @property
    @abstractmethod
    def stride(self) -> Stride:
        """How to read a record's size."""

    @abstractmethod
    def likely(self, raw: Bytes, filled: int, positions: Ints, second: int | None) -> Mask:
        """Which positions (each with a whole header in `raw`) look like a record of about that time."""

    @abstractmethod
    def second_at(self, raw: Bytes, position: int) -> int | None:
        """Time in seconds of the record at `position`; None if records have none."""

    @abstractmethod
    def fault(self, raw: Bytes, filled: int, starts: Ints, sizes: Ints) -> tuple[int, str]:
        """Index of the first invalid record, and the reason; (len(starts), "") if all are good."""

    @abstractmethod
    def rows(self, raw: Bytes, base: int, starts: Ints) -> Chunk:
        """The frames in the complete records at `starts`; `_chunk` gives them their numbers and comments."""

    def feed(self, raw: Bytes, filled: int, base: int, final: bool, broken: str | None = None) -> Iterator[Chunk]:
        """Chunks of the records in `raw[:filled]`, read from file position `base`; `final`: nothing follows."""
        if self.start > filled:
            self.used, self.need = 0, self.start
            return
        at, self.start, self.need = self.start, 0, 0
        again = True
        while again and not self.stopped:
            if self._lost is not None:
                found = self._search(raw, filled, base, at, final, *self._lost)
                if found is None:
                    break
                at = found
            starts, after, reason, again = self.complete(raw, filled, at)
            for first in range(0, len(starts), ROWS):
                yield from self._chunk(raw, filled, base, starts[first : first + ROWS])
            at = after
            if reason:
                self._lost, again = (base + at, reason), True
        if final and not self.stopped and (at < filled or broken):
            reason = broken or "the file ends inside a record"
            limited, offset = isinstance(broken, TooMuch), base + min(at, filled)
            self.add_damage(Damage(kind="cut-off", offset=offset, frame=self.frames, reason=reason, limited=limited))
        self.used = min(at, filled)

    def add_damage(self, damage: Damage) -> None:
        """Record a damaged place; too many of them stop reading."""
        self.damage.append(damage)
        if len(self.damage) >= MAX_DAMAGE:
            self.stopped = True

    def complete(self, raw: Bytes, filled: int, at: int) -> tuple[Ints, int, str, bool]:
        """Complete good records from `at`: starts, where they end, the fault there ("" for none), whether to call again."""
        return self.checked(raw, filled, *record_starts.walk(raw, at, filled, self.stride))

    def checked(self, raw: Bytes, filled: int, starts: Ints, after: int) -> tuple[Ints, int, str, bool]:
        """Like `complete` for known starts: cut before a fault or an incomplete record."""
        sizes = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=sizes[:-1])
        sizes[-1:] = after - starts[-1:]
        bad, reason = self.fault(raw, filled, starts, sizes)
        if bad < len(starts):
            return starts[:bad], int(starts[bad]), reason, True
        if after > filled and len(starts):
            self.need = after - int(starts[-1])
            return starts[:-1], int(starts[-1]), "", False
        return starts, after, "", False

    def note_link(self, link: int) -> None:
        """Remember a link type, in order of first appearance."""
        if link not in self.link_types:
            self.link_types.append(link)

    def _chunk(self, raw: Bytes, filled: int, base: int, starts: Ints) -> Iterator[Chunk]:
        rows = self.rows(raw, base, starts)
        self.second = self.second_at(raw, int(starts[-1]))
        if not len(rows.offset):
            return
        if (rows.link == rows.link[0]).all():
            self.note_link(int(rows.link[0]))
        else:
            links, where = np.unique(rows.link, return_index=True)
            for link in links[np.argsort(where)].tolist():
                self.note_link(link)
        chunk = replace(rows, first=self.frames + 1, base=base, data=raw[:filled], comments=self.comments)
        if rows.front is not None:
            at = chunk.front_at()
            for row in np.flatnonzero(at > filled - FRONT).tolist():
                whole = np.zeros(FRONT, np.uint8)
                rest = raw[int(at[row]) : filled]
                whole[: len(rest)] = rest
                rows.front[:, row] = whole.view(np.uint32)
        self.frames += len(rows.offset)
        yield chunk

    def _search(self, raw: Bytes, filled: int, base: int, at: int, final: bool, offset: int, reason: str) -> int | None:
        """Where reading resumes after the damage at `at`; None if it stops, or if more bytes are needed to decide."""
        self.need = SEARCH + 4 * (LONGEST + 64)
        if filled - at < self.need and not final:
            return None
        stride, found = self.stride, None
        last = min(at + SEARCH, filled - stride.header)
        for first in range(at + 1, last + 1, PIECE):
            positions = np.arange(first, min(first + PIECE, last + 1), dtype=np.int64)
            likely = positions[self.likely(raw, filled, positions, self.second)]
            good = record_starts.chained(
                raw, likely, filled, stride, lambda where: self.likely(raw, filled, where, self.second),
                end=filled if final else -1,
            )  # fmt: skip
            if good.any():
                found = int(likely[good][0])
                break
        resumed = None if found is None else base + found
        self._lost = None
        self.add_damage(Damage(kind="damaged", offset=offset, frame=self.frames, reason=reason, resumed=resumed))
        self.need = 0
        self.stopped |= found is None
        return None if self.stopped else found
