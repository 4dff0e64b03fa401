# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Offsets of the headers of a window's packets: one column for each kind, -1 where a packet has none."""

from __future__ import annotations

from typing import Any

from ibdissect.wire import encapsulation as wire

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import b16
else:
    from .common import b16

MALFORMED = (
    "",
    "the LRH does not fit the frame",
    "LRH.PktLen is larger than the frame",
    "LRH.PktLen is too small for the headers it announces",
    "the GRH does not fit the packet",
    "the BTH does not fit the packet",
    "an extended header does not fit the packet",
    "the IP length is larger than the frame",
    "the MAD is shorter than its header",
    "the ERF header does not fit the record",
    "the UDP length is larger than the IP packet",
)
OK, NO_LRH, PKTLEN_LARGE, PKTLEN_SMALL, NO_GRH, NO_BTH, NO_EXTENDED, IP_LARGE, NO_MAD, NO_ERF, UDP_LARGE = range(11)

MAX_DEPTH = 2
"""Tunnels read one inside the other, as when a switch mirrors a port whose packets are in VXLAN."""
LABELS = ("mpls", "mpls2", "mpls3", "mpls4")
"""Entries of an MPLS label stack, from the top."""
TAGS = ("vlan", "vlan2", "vlan3")
OF_FRAME = ("eth", *TAGS)
OF_PACKET = ("ip4", "ip6", *(struct.key for struct in wire.IP6_EXTENSIONS.values()), "udp")
"""Headers that become those of a tunnel when a frame or an IP packet is found in it."""
AROUND = (*OF_FRAME, *OF_PACKET, *(struct.key for struct in wire.OF_TUNNELS), *LABELS)
"""Headers around a packet in a tunnel; their columns are named after the depth, too."""
NAMES = (
    *OF_FRAME, *OF_PACKET, "sll", "sll2", "null", "ppp", "pause", "pfc", "link", "lrh", "rwh", "grh", "bth", "payload", "mad", "icrc",
    "vcrc", "inner", "skipped", *(f"{name}.{depth}" for depth in range(MAX_DEPTH) for name in AROUND),
)  # fmt: skip
"""The columns. `inner`: the packet inside a tunnel; `skipped`: what is not read of an IP fragment, a tunnel or an ICMP error."""
ROOM = 8
"""Columns that there is room for at first: most captures need no more."""
_DEPTH = cython.declare(cython.Py_ssize_t, MAX_DEPTH)
_AROUND = cython.declare(cython.Py_ssize_t, len(AROUND))
_OUTER = cython.declare(cython.Py_ssize_t, NAMES.index(f"{AROUND[0]}.0"))
_IP_LARGE = cython.declare(cython.int, IP_LARGE)
_SKIPPED = cython.declare(cython.Py_ssize_t, NAMES.index("skipped"))
_PAYLOAD = cython.declare(cython.Py_ssize_t, NAMES.index("payload"))


@cython.cclass
class Offsets:
    """The columns of one window, filled row by row: `begin` a row, then `put` where its headers start."""

    def __init__(self, data: Any, starts: Any, sizes: Any, lengths: Any, beside: dict[str, Any]) -> None:
        """Of a window its bytes, and int64[n] each: where frames start in them, bytes captured, bytes on the wire.

        `beside`, filled with what holds for a packet without headers, int64[n] each: `wire` (a copy of `lengths`), `limit`, `stop`,
        `payload_end` (the end of the captured bytes); uint8[n] each: `malformed`, `opcode`, `complete`, and `snapped`, 1 where fewer
        bytes were captured than there were. `decode.locate.Located` says what they mean.
        """
        self.data = memoryview(data)
        self.starts, self.sizes, self.lengths = memoryview(starts), memoryview(sizes), memoryview(lengths)
        self.wire, self.limit = memoryview(beside["wire"]), memoryview(beside["limit"])
        self.stop, self.payload_end = memoryview(beside["stop"]), memoryview(beside["payload_end"])
        self.malformed, self.opcode = memoryview(beside["malformed"]), memoryview(beside["opcode"])
        self.complete, self.snapped = memoryview(beside["complete"]), memoryview(beside["snapped"])
        self.rows = len(self.starts)
        self.slots = memoryview(bytearray(b"\xff" * (8 * len(NAMES)))).cast("q")
        self.taken = self.row = self.start = self.end = self.depth = 0
        self.block = bytearray(b"\xff") * (8 * self.rows * ROOM)
        """The columns one after the other, in the order in which they were needed: int64[taken, n] and room for more."""
        self.found = memoryview(self.block).cast("q")

    def mark_with(self, marks: tuple[bytes, ...]) -> None:
        """What shows that bytes may hold keys."""
        self.marks = marks
        pairs = bytearray(1 << 16)
        for mark in marks:
            pairs[int.from_bytes(mark[:2], "big")] = 1
        self.pairs = memoryview(pairs)
        """Whether a mark begins with two bytes."""

    def columns(self) -> dict[str, int]:
        """The number of each column in `block`, of those that some row has."""
        return {name: slot for name, slot in zip(NAMES, self.slots, strict=True) if slot >= 0}

    def more(self) -> None:
        """Make room for as many columns again."""
        self.block = self.block + b"\xff" * len(self.block)
        self.found = memoryview(self.block).cast("q")

    def begin(self, row: cython.Py_ssize_t) -> cython.int:
        """What follows is about this row."""
        self.row, self.start, self.depth = row, self.starts[row], 0
        self.end = self.start + self.sizes[row]
        return 0

    def put(self, name: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.int:
        """Set where a header of the row starts; `name`: its index in NAMES."""
        slot: cython.Py_ssize_t = self.slots[name]
        if slot < 0:
            slot = self.slots[name] = self.taken
            self.taken += 1
            if self.taken * self.rows > len(self.found):
                self.more()
        self.found[slot * self.rows + self.row] = at
        return 0

    def at(self, name: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Where a header of the row starts; -1: it has none."""
        slot: cython.Py_ssize_t = self.slots[name]
        return -1 if slot < 0 else self.found[slot * self.rows + self.row]

    def outer(self, name: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.int:
        """Set where a header of the tunnel around starts; `name`: its index in AROUND."""
        if self.depth < _DEPTH:
            self.put(_OUTER + self.depth * _AROUND + name, at)
        return 0

    def move(self, name: cython.Py_ssize_t) -> cython.int:
        """Make a header of the row one of the tunnel around; `name`: its index in NAMES and in AROUND."""
        at: cython.Py_ssize_t = self.at(name)
        if at >= 0:
            self.outer(name, at)
            self.put(name, -1)
        return 0

    def bad(self, reason: cython.int) -> cython.int:
        """Mark the row malformed, unless it was cut by a snap length or marked before."""
        if not self.snapped[self.row] and not self.malformed[self.row]:
            self.malformed[self.row] = reason
        return 0

    def missing(self, at: cython.Py_ssize_t, size: cython.Py_ssize_t, reason: cython.int) -> cython.int:
        """Mark a packet that ends in front of a header or within it. If its bytes are there although the frame was cut, a length says so,
        which may be wrong: they are skipped."""
        if self.snapped[self.row] and at + size <= self.end:
            self.skip(at)
        return self.bad(reason)

    def longer(self, stop: cython.Py_ssize_t, inner: cython.Py_ssize_t) -> cython.int:
        """Mark a packet that ends behind its frame, by the length of IP or GRH: as cut, since mirrors and packet brokers send the beginning
        of packets if told so; as malformed if it ends within it by an inner length, of UDP."""
        if stop > self.end and stop - self.start > self.lengths[self.row]:
            if inner - self.start <= self.lengths[self.row]:
                return self.bad(_IP_LARGE)
            self.snapped[self.row], self.wire[self.row] = 1, stop - self.start
        return 0

    def skip(self, at: cython.Py_ssize_t) -> cython.int:
        """Say where what is not read begins; nowhere, if nothing of it was captured."""
        if at < self.end:
            self.put(_SKIPPED, at)
        return 0

    def unread(self, at: cython.Py_ssize_t) -> cython.int:
        """What nobody reads here is skipped, if it has a mark of what may hold keys, whatever carries it."""
        if cython.compiled:
            place: cython.Py_ssize_t
            for place in range(at, self.end - 1):
                if self.pairs[b16(self.data, place)] and bytes(self.data[place : self.end]).startswith(self.marks):
                    return self.skip(at)
        elif any(mark in bytes(self.data[at : self.end]) for mark in self.marks):
            return self.skip(at)
        return 0

    def payload(self, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.int:
        """A payload, unless it is empty."""
        if stop > at:
            self.put(_PAYLOAD, at)
            self.payload_end[self.row] = stop
        return 0
