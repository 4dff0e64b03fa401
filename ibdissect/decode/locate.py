"""The start of each header, for a whole chunk at a time. The one dissector.

Columns, views and the tree all use these offsets, so they cannot disagree. Every offset counts from the start of `chunk.data`;
-1 means that the header is absent or does not fit its packet. `engine.locate` finds them, one packet after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec import field

from ibdissect.capture.chunk import (
    LINK_ERF,
    LINK_ETHERNET,
    LINK_INFINIBAND,
    LINK_IPOIB,
    LINK_LOOP,
    LINK_NULL,
    LINK_PPP,
    LINK_SLL,
    LINK_SLL2,
    LINKS_RAW_IP,
    Chunk,
)
from ibdissect.engine import link_headers, opcode_parts
from ibdissect.engine.locate import Finder
from ibdissect.engine.offsets import MAX_DEPTH
from ibdissect.wire import encapsulation, headers
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.spec import Struct

from .header_cache import HeaderCache

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
StructType = type[Struct]

_FORMS = {
    LINK_INFINIBAND: link_headers.INFINIBAND, LINK_ERF: link_headers.ERF, LINK_ETHERNET: link_headers.ETHERNET,
    LINK_SLL: link_headers.COOKED, LINK_SLL2: link_headers.COOKED2, LINK_IPOIB: link_headers.IPOIB,
    LINK_NULL: link_headers.LOOPBACK, LINK_LOOP: link_headers.LOOPBACK, LINK_PPP: link_headers.PPP,
    **dict.fromkeys(LINKS_RAW_IP, link_headers.RAW_IP),
}  # fmt: skip


def _by_link_type(forms: dict[int, int]) -> bytes:
    """The form of each link type: 65,536 look-ups would take 4 ms of every start."""
    table = bytearray([link_headers.UNKNOWN]) * (1 << 16)
    for link, form in forms.items():
        table[link] = form
    return bytes(table)


_FORM = _by_link_type(_FORMS)
"""By link type: what its frames begin with."""
_EXTENDED = ("RDETH", "DETH", "XRCETH", "FETH", "RETH", "AtomicETH", "AETH", "AtomicAckETH", "ImmDt", "IETH", "CNP")


def _chains() -> tuple[dict[str, npt.NDArray[np.int16]], Int]:
    """Per OpCode: offset of each extended header from the end of the BTH (-1: none), and their total size."""
    delta = {name: np.full(256, -1, np.int16) for name in _EXTENDED}
    total = np.zeros(256, np.int64)
    for code, opcode in OPCODES.items():
        at = 0
        for name in opcode.headers:
            delta[name][code] = at
            at += getattr(headers, name).size
        total[code] = at
    return delta, total


EXTENDED_AT, EXTENDED_SIZE = _chains()
IN_STREAM, IS_RESPONSE, STARTS_WRITE = (
    np.frombuffer(one, np.bool_) for one in (opcode_parts.IN_STREAM, opcode_parts.IS_RESPONSE, opcode_parts.STARTS_WRITE)
)
GOES_ON, LEAVES_OPEN = (np.frombuffer(one, np.uint8) for one in (opcode_parts.GOES_ON, opcode_parts.LEAVES_OPEN))
EXTENDED_STRUCTS: dict[StructType, str] = {getattr(headers, name): name for name in _EXTENDED}


class Located(Record, eq=False):
    """Offsets of the headers of every row of a chunk (int64, -1 if absent)."""

    n: int
    end: Int
    """End of the row's captured bytes."""
    snapped: Bool
    """The record holds fewer bytes than the frame had on the wire, or a tunnel holds only the beginning of a packet."""
    malformed: npt.NDArray[np.uint8]
    """Index into MALFORMED; 0: well-formed."""
    front: HeaderCache
    """The first bytes of every row."""
    length: Int
    """Bytes that the frame had on the wire, int64[n]; if a tunnel holds only the beginning of a packet, what it would have had."""
    start: dict[str, Int] = field(default_factory=dict)
    """By name: erf eth vlan vlan2 sll sll2 null ppp pause pfc ip4 ip6 ip6_hop_by_hop ip6_routing ip6_destination udp link lrh rwh grh bth
    payload mad icrc vcrc; `inner`: the packet inside a tunnel; `skipped`: what is not read of an IP fragment, a tunnel or an ICMP error,
    up to the end of the frame.

    eth to udp are the innermost headers. Those around a tunnel are `eth.0`, `ip4.0` ... with the tunnel's own (`gre.0`),
    those around a tunnel inside it `eth.1` ...
    """
    payload_end: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """End of the payload, before pad bytes and ICRC; meaningful where payload >= 0."""
    opcode: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    """BTH.OpCode; meaningful where bth >= 0."""
    limit: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Where the transport headers must end: at the ICRC or the end of the captured bytes; meaningful where bth >= 0."""
    complete: Bool = field(default_factory=lambda: np.empty(0, np.bool_))
    """The packet was captured up to its ICRC, so that CRCs can be checked."""
    stop: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Where the ICRC ends by the length that an outer header gives (LRH, IP, UDP, GRH), captured or not; meaningful where bth >= 0."""

    def at(self, name: str) -> Int:
        """Offsets of one kind of header, int64[n]; all -1 if no row has it."""
        found = self.start.get(name)
        if found is None:
            found = self.start[name] = np.full(self.n, -1, np.int64)
        return found

    @property
    def behind(self) -> Int:
        """Where the packet ends, its checksums included, int64[n]; meaningful where bth >= 0."""
        icrc, vcrc = self.at("icrc"), self.at("vcrc")
        return np.where(icrc < 0, self.limit, np.maximum(icrc + headers.ICRC.size, vcrc + headers.VCRC.size))

    @property
    def without_infiniband(self) -> Bool:
        """Rows with neither an InfiniBand nor a RoCE packet, bool[n]."""
        return (self.at("bth") < 0) & (self.at("lrh") < 0) & (self.at("grh") < 0) & (self.at("link") < 0)

    @property
    def in_tunnel(self) -> Bool:
        """Rows with the header of a tunnel, even if its packet could not be read, bool[n]."""
        found = np.zeros(self.n, np.bool_)
        for name, start in self.start.items():
            if name.endswith(".0"):
                found |= start >= 0
        return found


def around(*names: str) -> tuple[str, ...]:
    """The names of headers in `Located.start` around a tunnel, at all depths."""
    return tuple(f"{name}.{depth}" for depth in range(MAX_DEPTH) for name in names)


def locate(chunk: Chunk, roce_ports: Sequence[int] = (encapsulation.ROCE_PORT,)) -> Located:
    """Find the headers of every row. Never raises, whatever the bytes. `roce_ports`: UDP ports of RoCE v2."""
    n = len(chunk)
    end = chunk.offset + chunk.caplen
    loc = Located(
        n, end, chunk.caplen < chunk.length, np.zeros(n, np.uint8), HeaderCache(chunk), chunk.length.copy(), {}, end.copy(),
        np.zeros(n, np.uint8), end.copy(), np.zeros(n, np.bool_), end.copy(),
    )  # fmt: skip
    if (chunk.pseudo >= 0).any():
        loc.start["erf"] = chunk.pseudo
    beside = {
        "wire": loc.length, "limit": loc.limit, "stop": loc.stop, "payload_end": loc.payload_end, "malformed": loc.malformed,
        "opcode": loc.opcode, "complete": loc.complete.view(np.uint8), "snapped": loc.snapped.view(np.uint8),
    }  # fmt: skip
    finder = Finder(chunk.data, *map(np.ascontiguousarray, (chunk.offset, chunk.caplen, chunk.length)), beside)
    finder.ports(roce_ports)
    finder.run(np.ascontiguousarray(chunk.link), _FORM, np.ascontiguousarray(chunk.pseudo))
    columns = np.frombuffer(finder.block, np.int64)
    loc.start.update({name: columns[slot * n : (slot + 1) * n] for name, slot in finder.columns().items()})
    return loc
