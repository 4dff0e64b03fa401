"""P_Key tables of ports as far as they are known (`engine.ports` remembers them), and whether one accepts a packet."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ibdissect.engine.ports import PKeysState
from ibdissect.wire.numbers import BASE, FULL

from .file_lines import is_doubtful

BLOCK = 32
"""P_Keys per block of the table."""
MAX_BLOCKS = 2048
"""Blocks of the largest table: PartitionCap has 16 bits."""


class Verdict(Enum):
    """Whether a table accepts a packet's P_Key."""

    UNKNOWN = "unknown"
    ALLOWED = "allowed"
    LIMITED = "limited"
    """The whole table is known, all its entries of this partition are limited members, and so is the packet."""
    ABSENT = "absent"
    """The whole table is known and lacks the partition."""


def keys_in(block: bytes | None) -> list[int]:
    """The P_Keys of a block of a table, in its order; none if the block is unknown."""
    keys: list[int] = np.frombuffer(block or b"", ">u2").tolist()
    return keys


def block_of(keys: Iterable[int]) -> bytes:
    """A block of a table that begins with these P_Keys, 64 bytes."""
    return b"".join(key.to_bytes(2, "big") for key in keys).ljust(2 * BLOCK, b"\0")


class Member(Enum):
    """Which member of a partition a table makes its port."""

    UNKNOWN = "unknown"
    """The known part of the table leaves it open."""
    NONE = "none"
    LIMITED = "limited"
    FULL = "full"
    """Perhaps a limited one as well: a table may hold both forms."""


if TYPE_CHECKING:
    from ibdissect.decode.history import History
    from ibdissect.engine.ports import BlockState

    class Block(BlockState, History[bytes]):  # type: ignore[misc] # Track adds no attributes to Fact
        """A block of a table over time, as rules see it."""


class Membership(NamedTuple):
    """All P_Keys that a port should hold according to partitions.conf, whatever their places in its table."""

    keys: dict[int, int]
    """P_Key -> number of the line that gives it to the port (`file_lines`), perhaps a doubtful one."""
    definitions: dict[int, int]
    """Partition -> number of the line that defines it."""
    whole: int
    """Number of the file as a whole."""


class PKeys(PKeysState):
    """The P_Key table of one port, block by block."""

    __slots__ = ()
    blocks: tuple[Block, ...]
    intended: Membership | None
    """What partitions.conf says; used as the table until the first block is shown or written."""
    doubted: int
    """Frame that wrote a block that was never shown, or after which the port may have restarted; 0: none."""
    size: int
    """Number of entries, if a file said so; 0: unknown."""

    def rewritten(self, frame: int) -> bool:
        """True if the next answer shows another table, although no Set was seen: the state at `frame` is then uncertain."""
        later = (next((value for value, since in (*one.past, (one.now, one.since)) if since > frame), None) for one in self.blocks)
        return any(value is not None and one.at(frame)[0] is not None for one, value in zip(self.blocks, later, strict=True))

    def changes(self, after: int) -> set[int]:
        """Frames later than `after` at which a block changed."""
        return {frame for track in self.blocks for frame in track.changes_after(after)}

    def keys(self, frame: int, size: int = MAX_BLOCKS * BLOCK) -> tuple[set[int], set[int], tuple[int, ...]]:
        """The 16-bit keys and the blocks known when `frame` was sent, and the frames that showed them.

        `size`: entries of the table; what stands behind them means nothing.
        """
        keys: set[int] = set()
        known: set[int] = set()
        shown = []
        for track in self.blocks:
            entries, since = track.at(frame)
            if entries is not None:
                keys.update(keys_in(entries)[: max(0, size - track.number * BLOCK)])
                known.add(track.number)
                shown.append(since)
        return keys, known, tuple(sorted(set(shown)))

    def forms(self, after: int) -> tuple[set[int], set[int]]:
        """Partitions that blocks have held in their limited form at any time, and in their full form from frame `after` on."""
        limited, full = set[int](), set[int]()
        for block in self.blocks:
            for value in {value for value, _ in (*block.past, (block.now, 0))}:
                limited.update(key for key in keys_in(value) if 0 < key < FULL)
            if not block.past and block.since <= after:
                full.update(key & BASE for key in keys_in(block.now) if key & FULL)
        return limited, full

    def members(self) -> dict[int, int]:
        """The 16-bit keys, each once, with a frame that showed it: of the table as it is now or, if never shown, of partitions.conf."""
        if not self.blocks and self.intended is not None:
            return {key: line for key, line in sorted(self.intended.keys.items()) if not is_doubtful(line)}
        found: dict[int, int] = {}
        for block in self.blocks:
            for key in keys_in(block.now):
                if key & BASE:
                    found.setdefault(key, block.since)
        return found

    def member(self, base: int, frame: int, size: int | None) -> tuple[Member, tuple[int, ...]]:
        """Which member of a partition a table of `size` entries (None: unknown) made its port when `frame` was sent, and the frames that
        showed the table.

        What the table lacks, the full form too, is known only if all of its blocks are.
        """
        if self.intended is not None and not 0 < self.doubted <= frame and all(frame < block.changes()[0] for block in self.blocks):
            return self._intended(self.intended, base)
        keys, known, shown = self.keys(frame)
        same = {key for key in keys if key & BASE == base}
        if any(key & FULL for key in same):
            return Member.FULL, shown
        if not size or any(block not in known for block in range(min(-(-size // BLOCK), MAX_BLOCKS))):
            return Member.UNKNOWN, shown
        if not any(key & BASE for key in keys) and base == BASE:
            return Member.FULL, shown  # an empty table acts as if it held the default key
        return (Member.LIMITED if same else Member.NONE), shown

    @staticmethod
    def _intended(of: Membership, base: int) -> tuple[Member, tuple[int, ...]]:
        same = {key: line for key, line in of.keys.items() if key & BASE == base}
        if not same:
            return Member.NONE, (of.definitions.get(base, of.whole),)
        sure = [key for key, line in same.items() if not is_doubtful(line)]
        member = Member.FULL if any(key & FULL for key in sure) else Member.LIMITED if sure else Member.UNKNOWN
        return member, tuple(sorted(same.values()))

    def judge(self, p_key: int, frame: int, size: int | None) -> tuple[Verdict, tuple[int, ...]]:
        """Verdict of a table of `size` entries (None: unknown) on a packet's P_Key, and the frames that showed the table."""
        member, shown = self.member(p_key & BASE, frame, size)
        if member is Member.NONE:
            return Verdict.ABSENT, shown
        if member is Member.LIMITED:
            return (Verdict.ALLOWED if p_key & FULL else Verdict.LIMITED), shown
        held = member is Member.FULL or (p_key & FULL and self._holds(p_key & BASE, frame))
        return (Verdict.ALLOWED if held else Verdict.UNKNOWN), shown

    def _holds(self, base: int, frame: int) -> bool:
        """Whether the known part of the table has an entry of a partition."""
        return any(key & BASE == base for key in self.keys(frame)[0])

    @property
    def first(self) -> int:
        """Frame (or line of a file) that first showed the table."""
        if self.intended is not None:
            return self.intended.whole
        first: int = min(block.changes()[0] for block in self.blocks)
        return first
