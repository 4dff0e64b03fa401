"""Does a port's P_Key table, as far as it was learnt, accept a packet?"""

from __future__ import annotations

from enum import Enum

from .history import Track

BLOCK = 32
"""P_Keys in a block of the table (seed000: P_KeyTable)."""
FULL, BASE = 0x8000, 0x7FFF
MAX_BLOCKS = 1024
"""Blocks of the largest table (seed000: 32K entries)."""
KEPT_BLOCKS = 16
"""Blocks remembered per port: 512 keys, more than adapters hold; a longer table stays unknown for 'absent' verdicts."""


class Verdict(Enum):
    """What a table says about a packet's P_Key."""

    UNKNOWN = "unknown"
    ALLOWED = "allowed"
    LIMITED = "limited"
    """Every entry of this partition is limited, and so is the packet (seed002 Table 16-2)."""
    ABSENT = "absent"
    """The whole table is known, and the partition is not in it."""


class Block(Track[bytes]):
    """A block of a table over time, 64 bytes; None while a Set is under way or the port may have restarted."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class PKeys:
    """The P_Key table of one port, block by block."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: tuple[Block, ...] = ()

    def block(self, number: int) -> Block | None:
        """A block over time; None where it was never shown."""
        for block in self.blocks:
            if block.number == number:
                return block
        return None

    def learn(self, block: int, entries: bytes | None, frame: int) -> bool:
        """A block was shown (64 bytes) or became uncertain (None); True when that is news."""
        track = self.block(block)
        if track is None:
            if entries is None or len(self.blocks) >= KEPT_BLOCKS:
                return False
            track = Block(block)
            self.blocks = (*self.blocks, track)
        return track.learn(entries, frame)

    def forget(self, frame: int) -> None:
        """The port may have restarted: nothing is certain from here on."""
        for track in self.blocks:
            track.learn(None, frame)

    def changes(self) -> list[int]:
        """Frames from which on another table held, in order."""
        return sorted({frame for track in self.blocks for frame in track.changes()})

    def keys(self, frame: int) -> tuple[set[int], set[int], tuple[int, ...]]:
        """The 16-bit keys known when `frame` was sent, the blocks known, and the frames that taught them."""
        keys: set[int] = set()
        known: set[int] = set()
        taught = []
        for track in self.blocks:
            entries, since = track.at(frame)
            if entries is not None:
                keys.update(int.from_bytes(entries[i : i + 2], "big") for i in range(0, len(entries), 2))
                known.add(track.number)
                taught.append(since)
        return keys, known, tuple(sorted(set(taught)))

    def judge(self, p_key: int, frame: int, size: int | None) -> tuple[Verdict, tuple[int, ...]]:
        """What the table of `size` entries (None: not known) says about a packet, and the frames that taught it."""
        keys, known, taught = self.keys(frame)
        base = p_key & BASE
        same = {key for key in keys if key & BASE == base}
        if same:
            limited = not p_key & FULL and not any(key & FULL for key in same)
            return (Verdict.LIMITED if limited else Verdict.ALLOWED), taught
        if not size or any(block not in known for block in range(min(-(-size // BLOCK), MAX_BLOCKS))):
            return Verdict.UNKNOWN, taught
        if not any(key & BASE for key in keys) and base == BASE:
            return Verdict.ALLOWED, taught  # an empty table acts as if it held the default key (seed002: NV memory)
        return Verdict.ABSENT, taught
