"""Tables of switches and ports as learnt: forwarding, SL to VL, VL arbitration - compact, each block with its frame."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

BLOCK = 64
"""LIDs of a block of the linear forwarding table (attributes.csv)."""
LINEAR_BLOCKS = 768
"""Blocks that unicast LIDs fill."""
UNREACHABLE = 255
"""Port of the linear table that means: nowhere (opensm, seed004)."""
FIRST_MULTICAST = 0xC000
MASKS = 32
"""Multicast LIDs of a block."""
PORTS = 16
"""Ports of a position of the multicast table."""
KEPT_MULTICAST, KEPT_RANDOM = 1024, 1024
"""Blocks remembered per switch; further ones stay unknown."""


class Linear:
    """The linear forwarding table of a switch."""

    __slots__ = ("frames", "ports")

    def __init__(self) -> None:
        self.ports = bytearray()
        self.frames = array("Q")
        """Frame that taught each block; 0 where none did."""

    def learn(self, block: int, entries: bytes, frame: int) -> bool:
        """A block was shown (64 bytes); True when it is news."""
        if block >= LINEAR_BLOCKS:
            return False
        start = block * BLOCK
        if len(self.ports) < start + BLOCK:
            self.ports.extend(bytes([UNREACHABLE]) * (start + BLOCK - len(self.ports)))
            self.frames.extend([0] * (block + 1 - len(self.frames)))
        if self.frames[block] and self.ports[start : start + BLOCK] == entries:
            return False
        self.ports[start : start + BLOCK] = entries
        self.frames[block] = frame
        return True

    def port(self, lid: int) -> tuple[int, int]:
        """The port that a LID leaves by, and the frame that taught it: (255, 0) where it is not known."""
        block = lid // BLOCK
        if block >= len(self.frames) or not self.frames[block]:
            return UNREACHABLE, 0
        return self.ports[lid], self.frames[block]

    def entries(self) -> Iterator[tuple[int, int]]:
        """(LID, port) of all known entries that lead somewhere."""
        for block, frame in enumerate(self.frames):
            if frame:
                for lid in range(block * BLOCK, block * BLOCK + BLOCK):
                    if self.ports[lid] != UNREACHABLE:
                        yield lid, self.ports[lid]

    def __len__(self) -> int:
        return sum(BLOCK - self.ports[i * BLOCK : i * BLOCK + BLOCK].count(UNREACHABLE) for i, frame in enumerate(self.frames) if frame)


class Forwarding:
    """All forwarding tables of a switch."""

    __slots__ = ("linear", "multicast", "random")

    def __init__(self) -> None:
        self.linear = Linear()
        self.random: dict[int, tuple[bytes, int]] = {}
        """Block of the random table to its 64 bytes and the frame that taught them."""
        self.multicast: dict[int, tuple[bytes, int]] = {}
        """Attribute modifier (position << 28 | block) to 64 bytes of port masks and the frame that taught them."""

    @property
    def size(self) -> int:
        """How much of it is known, in blocks of the linear table; what others keep of a block takes four times as much."""
        return len(self.linear.frames) + 4 * (len(self.random) + len(self.multicast))

    def learn_random(self, block: int, entries: bytes, frame: int) -> bool:
        """A block of the random table was shown; False where there is no room for it."""
        return _keep(self.random, block, entries, frame, KEPT_RANDOM)

    def learn_multicast(self, modifier: int, masks: bytes, frame: int) -> bool:
        """A block of the multicast table was shown; False where there is no room for it."""
        return _keep(self.multicast, modifier, masks, frame, KEPT_MULTICAST)

    def routes(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """(multicast LID, ports) of all groups that leave by any port, by LID."""
        found: dict[int, list[int]] = {}
        for modifier, (masks, _) in sorted(self.multicast.items()):
            position, block = modifier >> 28, modifier & 0x1FF
            for i in range(MASKS):
                mask = int.from_bytes(masks[2 * i : 2 * i + 2], "big")
                if mask:
                    ports = found.setdefault(FIRST_MULTICAST + block * MASKS + i, [])
                    ports += [position * PORTS + bit for bit in range(PORTS) if mask >> bit & 1]
        for lid, ports in sorted(found.items()):
            yield lid, tuple(ports)


def _keep(blocks: dict[int, tuple[bytes, int]], number: int, entries: bytes, frame: int, most: int) -> bool:
    known = blocks.get(number)
    if known is None and len(blocks) >= most:
        return False
    if known is None or known[0] != entries:
        blocks[number] = (entries, frame)
    return True


class Qos:
    """SL to VL and VL arbitration of an (output) port; equal tables are kept once."""

    __slots__ = ("arbitration", "first", "frame", "inputs", "others")

    def __init__(self) -> None:
        self.first = b""
        """The SL to VL table shown first, 8 bytes; it holds for all `inputs` that `others` does not name."""
        self.inputs = 0
        """Input ports whose table is known, as a mask."""
        self.others: dict[int, bytes] | None = None
        self.arbitration: tuple[bytes, ...] = (b"",) * 4
        """The 64 bytes of each half of the table (low priority twice, high twice); empty where it was not shown."""
        self.frame = 0
        """Frame that taught the latest news."""

    def learn_map(self, input_port: int, entries: bytes, frame: int) -> None:
        """The SL to VL table from an input port was shown."""
        if not self.inputs:
            self.first = entries
        elif self.map(input_port) == entries:
            return
        if entries != self.first:
            if self.others is None:
                self.others = {}
            self.others[input_port] = entries
        elif self.others is not None:
            self.others.pop(input_port, None)
        self.inputs |= 1 << input_port
        self.frame = frame

    def learn_same(self, input_ports: list[int], entries: bytes, frame: int) -> bool:
        """One table was shown from several input ports, last in `frame`; False, and nothing is learnt, where that takes single steps."""
        mask = sum(1 << port for port in set(input_ports))
        if self.inputs and (self.others or self.first != entries):
            return False
        if self.inputs | mask == self.inputs:
            return True
        if self.inputs or mask.bit_count() != len(input_ports):
            return False
        self.first, self.inputs, self.frame = entries, mask, frame
        return True

    def map(self, input_port: int) -> bytes | None:
        """The 8 bytes that map SLs of packets from an input port; None where they are not known."""
        if not self.inputs >> input_port & 1:
            return None
        return self.others.get(input_port, self.first) if self.others is not None else self.first

    def vl(self, input_port: int, sl: int) -> int | None:
        """The VL that an SL is mapped to; 15 drops the packet."""
        entries = self.map(input_port)
        return None if entries is None else entries[sl // 2] >> (0 if sl & 1 else 4) & 15

    def learn_arbitration(self, half: int, entries: bytes, frame: int) -> None:
        """A half (1 to 4) of the VL arbitration table was shown."""
        if self.arbitration[half - 1] != entries:
            self.arbitration = (*self.arbitration[: half - 1], entries, *self.arbitration[half:])
            self.frame = frame
