"""Tables of switches and ports: forwarding, SL to VL and VL arbitration, stored compactly, each block with its frame."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from ibdissect.capture.records import ROWS
from ibdissect.wire.numbers import FIRST_MULTICAST

BLOCK = 64
"""LIDs per block of the linear forwarding table."""
LINEAR_BLOCKS = 768
"""Blocks for all unicast LIDs."""
UNREACHABLE = 255
"""Port number in the linear table for LIDs without route (opensm)."""
MASKS = 32
"""Multicast LIDs per block."""
PORTS = 16
"""Ports per position of the multicast table."""
ALL_INPUTS = -1
"""In place of the number of an input port: all of them."""
KEPT_MULTICAST, KEPT_RANDOM = 1024, 1024
"""Blocks remembered per switch; further ones stay unknown."""


class Linear:
    """The linear forwarding table of a switch."""

    __slots__ = ("frames", "ports")

    def __init__(self) -> None:
        self.ports = bytearray()
        self.frames = array("q")
        """Frame that showed each block; 0: never shown."""

    def learn(self, block: int, entries: bytes, frame: int) -> bool:
        """Learn a block (64 bytes); True if it is new."""
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
        """The output port for a LID, and the frame that showed it; (255, 0) if unknown."""
        block = lid // BLOCK
        if block >= len(self.frames) or not self.frames[block]:
            return UNREACHABLE, 0
        return self.ports[lid], self.frames[block]

    def entries(self) -> Iterator[tuple[int, int]]:
        """(LID, port) of all known entries with a route."""
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
        """Block of the random table -> its 64 bytes and the frame that showed them."""
        self.multicast: dict[int, tuple[bytes, int]] = {}
        """Attribute modifier (position << 28 | block) -> 64 bytes of port masks and the frame that showed them."""

    @property
    def size(self) -> int:
        """Memory use in blocks of the linear table; a block of the other tables takes four times as much."""
        return len(self.linear.frames) + 4 * (len(self.random) + len(self.multicast))

    def learn_random(self, block: int, entries: bytes, frame: int) -> bool:
        """Learn a block of the random table; False if there is no room for it."""
        return _keep(self.random, block, entries, frame, KEPT_RANDOM)

    def learn_multicast(self, modifier: int, masks: bytes, frame: int) -> bool:
        """Learn a block of the multicast table; False if there is no room for it."""
        return _keep(self.multicast, modifier, masks, frame, KEPT_MULTICAST)

    def routes(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """(multicast LID, output ports) of all multicast LIDs with any port, ordered by LID."""
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


def lane_of(entries: bytes, sl: int) -> int:
    """The VL that an SL to VL table maps an SL to."""
    return entries[sl // 2] >> (0 if sl & 1 else 4) & 15


class Qos:
    """SL to VL and VL arbitration of an (output) port; equal tables are stored once."""

    __slots__ = ("arbitration", "first", "frame", "inputs", "others", "outdated", "replaced", "since")

    def __init__(self) -> None:
        self.first = b""
        """The first SL to VL table shown, 8 bytes; it applies to all `inputs` that are not in `others`."""
        self.inputs = 0
        """Bit mask of the input ports whose table is known."""
        self.others: dict[int, bytes] | None = None
        self.arbitration: tuple[bytes, ...] = (b"",) * 4
        """The 64 bytes of each part (two of low, two of high priority); empty if not shown."""
        self.outdated: tuple[tuple[int, tuple[bytes, ...]], ...] = ()
        """Frame of each change of `arbitration` within the last ROWS frames, and what it was before."""
        self.frame = 0
        """Frame of the latest change."""
        self.since = 0
        """Frame that first showed the table of the last input port to become known."""
        self.replaced: tuple[tuple[int, int, bytes], ...] = ()
        """Frame, input port and previous table of each change within the last ROWS frames (the most in a window)."""

    def learn_map(self, input_port: int, entries: bytes, frame: int) -> None:
        """Learn the SL to VL table for an input port."""
        before = self.map(input_port)
        if before == entries:
            return
        if before is None:
            self.since = frame
        else:
            self.replaced = (*(change for change in self.replaced if change[0] > frame - ROWS), (frame, input_port, before))
        if not self.inputs:
            self.first = entries
        if entries != self.first:
            if self.others is None:
                self.others = {}
            self.others[input_port] = entries
        elif self.others is not None:
            self.others.pop(input_port, None)
        self.inputs |= 1 << input_port
        self.frame = frame

    def learn_maps(self, inputs: Sequence[int], entries: bytes, frame: int) -> None:
        """Learn the same table for some input ports; at once if all known ones have one table and these are all of them."""
        mask = (1 << len(inputs)) - 1
        if len(inputs) == 1 or self.others is not None or self.inputs & ~mask:
            for number in inputs:
                self.learn_map(number, entries, frame)
            return
        if self.inputs != mask:
            self.since = frame
        elif self.first == entries:
            return
        if self.inputs:
            self.replaced = (*(change for change in self.replaced if change[0] > frame - ROWS), (frame, ALL_INPUTS, self.first))
        self.first, self.inputs, self.frame = entries, mask, frame

    def map(self, input_port: int) -> bytes | None:
        """The 8-byte SL to VL table for packets from an input port; None if unknown."""
        if not self.inputs >> input_port & 1:
            return None
        return self.others.get(input_port, self.first) if self.others is not None else self.first

    def numbers(self) -> Iterator[int]:
        """The input ports whose table is known."""
        return (number for number in range(self.inputs.bit_length()) if self.inputs >> number & 1)

    def tables(self) -> set[bytes]:
        """All SL to VL tables in force now or within the last ROWS frames."""
        return {self.first, *(self.others or {}).values(), *(before for _, _, before in self.replaced)}

    def changes(self) -> set[int]:
        """Frames at which the known tables changed."""
        return {self.since, *(since for since, _, _ in self.replaced)}

    def map_at(self, input_port: int, frame: int) -> bytes | None:
        """The table for an input port when `frame` was sent; None if not all tables of the port were known."""
        if frame < self.since:
            return None
        same = (input_port, ALL_INPUTS)
        return next((before for since, port, before in self.replaced if since > frame and port in same), self.map(input_port))

    def maps_frame(self, frame: int) -> int:
        """The last frame up to `frame` at which one of the tables changed."""
        return max(self.since, *(since for since, _, _ in self.replaced if since <= frame), 0)

    def vl(self, input_port: int, sl: int) -> int | None:
        """The VL that an SL is mapped to; 15: the packet is dropped."""
        entries = self.map(input_port)
        return None if entries is None else lane_of(entries, sl)

    def learn_arbitration(self, half: int, entries: bytes, frame: int) -> None:
        """Learn a part (1 to 4) of the VL arbitration table."""
        if self.arbitration[half - 1] != entries:
            self.outdated = (*(change for change in self.outdated if change[0] > frame - ROWS), (frame, self.arbitration))
            self.arbitration = (*self.arbitration[: half - 1], entries, *self.arbitration[half:])
            self.frame = frame

    def arbitration_at(self, frame: int) -> tuple[bytes, ...]:
        """The four parts of the VL arbitration table when `frame` was sent."""
        return next((before for since, before in self.outdated if since > frame), self.arbitration)
