"""What identifies a packet at every capture point, and which of its fields may change on the way? One capture as columns."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec import field

from ibdissect.capture.chunk import LINK_ERF, LINK_INFINIBAND, Damage
from ibdissect.capture.scattered import Bytes, gather, looked_up, u16, u24
from ibdissect.errors import CaptureError
from ibdissect.session.reading import open_reading
from ibdissect.table.addresses import LID_SIZE, End, address_text, ends_at, ends_hash
from ibdissect.table.first_bytes import Place
from ibdissect.table.locate import EXTENDED_AT, EXTENDED_SIZE, Int
from ibdissect.table.rows import SPREAD, U64, digest, groups, mix
from ibdissect.table.table import ChunkTable
from ibdissect.wire.numbers import MAX_LMC
from ibdissect.wire.transport import BTH

FIELDS = ("vl", "fecn", "ecn", "ttl", "mac", "vlan", "hop_pointer", "sl", "address", "p_key", "payload")
"""Columns of `Point.fields`: first fields that a network may change, then fields that it must not; -1: the packet lacks it."""
HOP, UNCHANGED = FIELDS.index("hop_pointer"), FIELDS.index("sl")
LONGEST = 288
"""Bytes after the BTH that are compared; a MAD with all its headers is shorter."""
ICRC_SIZE = 4
LINK_HEADER = 22
"""The longest link header before IP or a GRH: Ethernet with two VLAN tags."""
LEAST = 60
"""Snap length with which the BTH fits after any network header."""
STAMPS = 10
"""Number of stamps that suffice to determine their resolution."""
BACK, WHOLE, ROUTE = 1, 2, 4
"""Low bits of a directed route's hash: the way back, the whole route was captured, it is one."""
UD_SEND, DIRECTED = 0x64, 0x81
DETH_SIZE, HOP_POINTER, RETURN_PATH, INITIAL_PATH, SMP_SIZE = 8, 6, 192, 128, 256
"""Sizes and offsets in a directed-route SMP (IBA 14.2.1.2)."""


class Flow(Record, frozen=True):
    """Packets of one source to one destination queue pair."""

    source: bytes
    """Identifies the sender: its address, or the near or far end of a directed route."""
    destination: bytes
    dest_qp: int
    text: tuple[str, str]
    """Sender and receiver as text."""
    vague: bool = False
    """A directed route of which only the length was captured."""


class Flows:
    """Numbers the flows of all points."""

    def __init__(self) -> None:
        self.known: list[Flow] = []
        self._numbers: dict[int, int] = {}

    def of(self, table: ChunkTable, rows: Int, dest_qp: Int, route: U64) -> npt.NDArray[np.int32]:
        """The number of each row's flow. `route`: the hash of a directed route, else 0."""
        name = mix([np.where(route > 0, route, ends_hash(table, rows)), dest_qp])
        first, index = groups([name])
        for i in first.tolist():
            if int(name[i]) not in self._numbers:
                self._numbers[int(name[i])] = len(self.known)
                self.known.append(_flow(ends_at(table, int(rows[i])), int(dest_qp[i]), int(route[i])))
        return np.array([self._numbers[value] for value in name[first].tolist()], np.int32)[index]

    def merged(self) -> Int:
        """For each flow the first one from the same source to the same queue pair of the same port.

        A port has 2**LMC LIDs, and sends from the lowest. A LID that sends nothing belongs to the port with the next LID below that does.
        """
        first: dict[tuple[bytes, bytes, int], int] = {}
        return np.array([first.setdefault((*ends, self.known[i].dest_qp), i) for i, ends in enumerate(self.ends())], np.int64)

    def ends(self) -> list[tuple[bytes, bytes]]:
        """The ports of each flow: sender, receiver."""
        sources = {flow.source for flow in self.known}
        return [(flow.source, _base(flow.destination, sources)) for flow in self.known]


def _base(end: bytes, sources: set[bytes]) -> bytes:
    """The lowest LID of a port, as far as the capture shows it."""
    if len(end) == LID_SIZE and end not in sources:
        lid = int.from_bytes(end, "big")
        for lmc in range(1, MAX_LMC + 1):
            base = (lid >> lmc << lmc).to_bytes(LID_SIZE, "big")
            if base in sources:
                return base
    return end


def _flow(ends: tuple[End, End], dest_qp: int, route: int) -> Flow:
    if not route:
        return Flow(bytes(ends[0]), bytes(ends[1]), dest_qp, (address_text(ends[0]), address_text(ends[1])))
    name = f"{route >> 48:04x}"
    near, far = (f"{end} of route {route >> 3}".encode() for end in ("near", "far"))
    texts = "SM", f"route {name}"
    if route & BACK:
        near, far, texts = far, near, texts[::-1]
    return Flow(near, far, dest_qp, texts, vague=not route & WHOLE)


class Point(Record):
    """The RDMA packets of one capture in file order: columns of equal length."""

    name: str
    path: str
    frames: int = 0
    """Records in the file, RDMA or not."""
    frame: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    time: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """The point's own clock, in nanoseconds since 1970; the middle of a stamp's resolution."""
    key: U64 = field(default_factory=lambda: np.empty(0, np.uint64))
    """A hash of everything that no hop changes, up to the shortest snap length of all points."""
    flow: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    port: npt.NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))
    """UDP source port, by which routers choose among paths; 0 without UDP."""
    psn: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    opcode: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    syndrome: npt.NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))
    """AETH.Syndrome; -1 without an AETH."""
    fields: npt.NDArray[np.int16] = field(default_factory=lambda: np.empty((0, len(FIELDS)), np.int16))
    """int16[n, len(FIELDS)]: small values unchanged, others hashed."""
    transaction: npt.NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    """A hash that is equal for a MAD and its answer; 0: no MAD."""
    asks: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    """1: a request MAD, 2: a response, 0: no MAD."""
    damage: list[Damage] = field(default_factory=list)
    """Where the file is damaged."""
    resolution: int = 1
    """Smallest difference of two stamps in the file, in nanoseconds."""

    def __len__(self) -> int:
        return len(self.time)


def point_names(paths: Sequence[str]) -> list[str]:
    """A point is named after its file up to the first dot; equal names get numbers."""
    names = [os.path.basename(path).split(".")[0] or os.path.basename(path) for path in paths]
    return [name if names.count(name) == 1 else f"{name}#{i + 1}" for i, name in enumerate(names)]


def read_points(paths: Sequence[str]) -> tuple[list[Point], Flows]:
    """All captures as columns. Raises CaptureError for a capture that cannot be read twice or holds no RDMA packets."""
    points = [Point(name, path) for name, path in zip(point_names(paths), paths, strict=True)]
    shortest = min(_shortest(point) for point in points)
    flows = Flows()
    for point in points:
        _read(point, flows, shortest)
        if not len(point):
            cut = "; what all captures have of each packet ends before its BTH does, as the shortest snap length of them is too short"
            raise CaptureError(point.path, "holds no RDMA packets" + cut * (shortest < LEAST))
    _clarify(points, flows)
    return points, flows


def _clarify(points: Sequence[Point], flows: Flows) -> None:
    """Complete a truncated directed route from the same packet at another point, or from its transaction in either direction."""
    vague = np.array([flow.vague for flow in flows.known])
    numbers = {(flow.source, flow.destination, flow.dest_qp): i for i, flow in enumerate(flows.known)}
    back = np.array([numbers.get((flow.destination, flow.source, flow.dest_qp), i) for i, flow in enumerate(flows.known)])
    for column in ("key", "transaction"):
        for point in points:
            for other in points:
                rows = np.flatnonzero(vague[point.flow])
                known = np.flatnonzero((other.fields[:, HOP] >= 0) & ~vague[other.flow])
                if len(rows) and len(known):
                    names = getattr(other, column)[known]
                    order = np.argsort(names, kind="stable")
                    wanted = getattr(point, column)[rows]
                    place = order[np.minimum(np.searchsorted(names[order], wanted), len(known) - 1)]
                    found = (names[place] == wanted) & (wanted != 0)
                    rows, known = rows[found], known[place[found]]
                    flow = other.flow[known]
                    point.flow[rows] = np.where(point.asks[rows] == other.asks[known], flow, back[flow])


def _shortest(point: Point) -> int:
    """Bytes from the network header on in the shortest truncated packet of a capture; a large number without a snap length."""
    shortest = 1 << 30
    once = CaptureError(point.path, "must be read twice; a pipe can be read only once")
    if point.path == "-":
        raise once
    with open_reading(point.path) as reading:
        if not reading.reader.again:
            raise once
        for chunk in reading.chunks():
            point.frames += len(chunk)
            cut = np.flatnonzero(chunk.caplen < chunk.length)
            if len(cut):
                native = (chunk.link[cut] == LINK_INFINIBAND) | (chunk.link[cut] == LINK_ERF)
                shortest = min(shortest, int((chunk.caplen[cut] - np.where(native, 0, LINK_HEADER)).min()))
        point.damage = list(reading.damage)
    return shortest


def _read(point: Point, flows: Flows, shortest: int) -> None:
    parts: list[Point] = []
    with open_reading(point.path) as reading:
        for chunk in reading.chunks():
            part = _columns(reading.table_of(chunk), flows, shortest, point)
            if part is not None:
                parts.append(part)
    if not parts:
        return
    for name in ("frame", "time", "key", "flow", "port", "psn", "opcode", "syndrome", "fields", "transaction", "asks"):
        setattr(point, name, np.concatenate([getattr(part, name) for part in parts]))
        for part in parts:
            setattr(part, name, None)  # the capture is not held twice
    if len(point) >= STAMPS:
        point.resolution = next((unit for unit in (1_000_000, 1000) if not (point.time % unit).any()), 1)
    point.time += point.resolution // 2


def _columns(table: ChunkTable, flows: Flows, shortest: int, point: Point) -> Point | None:
    """The RDMA packets of one chunk; None for none."""
    loc, chunk = table.located, table.chunk
    rows = np.flatnonzero(loc.at("bth") >= 0)
    start, stop, network = _network(table, rows)
    whole = loc.at("bth")[rows] + BTH.size <= start + shortest  # shorter ones cannot be compared with the point that cut them
    rows, start, stop, network = rows[whole], start[whole], stop[whole], network[whole]
    if not len(rows):
        return None
    bth, opcode = loc.at("bth")[rows], loc.opcode[rows]
    head = Place(loc.front, rows, bth)
    end = np.minimum(np.minimum(loc.limit[rows], stop), np.minimum(start + shortest, bth + BTH.size + LONGEST))
    transport = np.zeros((len(rows), 16), np.uint8)
    transport[:, : BTH.size] = head.part(0, BTH.size)
    marks = transport[:, 4].copy()
    transport[:, 4] = 0  # FECN, BECN and reserved bits
    dest_qp, psn = (head.part(at, 4).view(">u4")[:, 0].astype(np.int64) & 0xFFFFFF for at in (4, 8))
    directed, hop, route = _directed(table, rows, end)
    body = _body(table, rows, bth + BTH.size, np.maximum(end - bth - BTH.size, 0), directed)
    udp = loc.at("udp")[rows]
    port = np.zeros(len(rows), np.uint16)
    port[udp >= 0] = u16(chunk.data, udp[udp >= 0])
    transaction, asks = _transactions(table, rows)
    return Point(
        point.name, point.path, 0, (chunk.first + rows).astype(np.int32), chunk.time_ns[rows], mix([network, digest(transport), body]),
        flows.of(table, rows, dest_qp, route), port, psn.astype(np.int32), opcode, _syndromes(table, rows, bth, opcode),
        _fields(table, rows, marks, hop, transport[:, 2:4].copy().view(">u2")[:, 0].astype(np.uint64), body), transaction, asks,
    )  # fmt: skip


def _network(table: ChunkTable, rows: Int) -> tuple[Int, Int, U64]:
    """Where the network header of each row starts, where its ICRC would start (captured or not), and a hash of what no hop changes.

    The hash is that of the network and UDP headers.
    """
    loc, data = table.located, table.chunk.data
    start, stop, value = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64), np.zeros(len(rows), np.uint64)
    for name, size, kept in _INVARIANT:
        at = loc.at(name)[rows]
        there = np.flatnonzero(at >= 0)
        if not len(there):
            continue
        block = Place(loc.front, rows[there], at[there]).part(0, size) & kept
        value[there] = mix([value[there], digest(block)])
        first = there[start[there] < 0]
        start[first] = at[first]
        if name == "lrh":
            stop[first] = at[first] + ((u16(data, at[first] + 4) & 0x7FF) << 2) - ICRC_SIZE
        elif name == "grh":
            stop[first] = at[first] + size + u16(data, at[first] + 4) - ICRC_SIZE
        elif name == "udp":
            stop[there] = at[there] + u16(data, at[there] + 4) - ICRC_SIZE
    return start, stop, value


def _kept(size: int, *ranges: tuple[int, int]) -> Bytes:
    mask = np.zeros(size, np.uint8)
    for first, stop in ranges:
        mask[first:stop] = 0xFF
    return mask


_INVARIANT = (
    ("lrh", 8, _kept(8, (1, 8))),
    ("grh", 40, _kept(40, (4, 7), (8, 40))),
    ("ip4", 24, _kept(24, (0, 1), (2, 8), (9, 10), (12, 20))),
    ("ip6", 40, _kept(40, (4, 7), (8, 40))),
    ("udp", 8, _kept(8, (0, 6))),
)
"""Header, bytes of it, and which of them no hop changes: those that the ICRC covers (IBA 7.8.1, A17.3.3)."""


def _directed(table: ChunkTable, rows: Int, end: Int) -> tuple[npt.NDArray[np.bool_], Int, U64]:
    """Which rows are directed-route SMPs, on which link of their route (0: the first; -1: none), and the hash of the route.

    The low bits of the hash are BACK, WHOLE, ROUTE.
    """
    data, bth = table.chunk.data, table.located.at("bth")[rows]
    smp = bth + BTH.size + DETH_SIZE
    directed = (table.located.opcode[rows] == UD_SEND) & (smp + 8 <= end)
    some = np.flatnonzero(directed)
    some = some[(u24(data, bth[some] + 5) == 0) & (data[smp[some] + 1] == DIRECTED)]
    directed[:] = False
    directed[some] = True
    hop, route = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.uint64)
    at = smp[some]
    back, pointer, count = data[at + 4] >> 7, data[at + HOP_POINTER].astype(np.int64), data[at + HOP_POINTER + 1].astype(np.int64)
    hop[some] = np.where(back, count - pointer, pointer - 1)
    value = mix([count])
    whole = at + RETURN_PATH <= table.located.limit[rows[some]]
    if whole.any():
        value[whole] = mix([value[whole], digest(gather(data, at[whole] + INITIAL_PATH, 64))])
    route[some] = value & ~np.uint64(BACK | WHOLE | ROUTE) | back | whole * np.uint64(WHOLE) | np.uint64(ROUTE)
    return directed, hop, route


def _body(table: ChunkTable, rows: Int, at: Int, size: Int, directed: npt.NDArray[np.bool_]) -> U64:
    """A hash of `size` bytes at `at` of each row, without what directed routing changes."""
    value = np.zeros(len(rows), np.uint64)
    words = (size + 7) >> 3
    order = np.argsort(words, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(words[order])) + 1):
        width = 8 * int(words[group[0]])
        if not width:
            continue
        block = np.array(Place(table.located.front, rows[group], at[group]).part(0, width))
        block[:, width - 8 :][np.arange(width - 8, width) >= size[group][:, None]] = 0
        moving = np.flatnonzero(directed[group])
        block[moving, DETH_SIZE + HOP_POINTER : DETH_SIZE + HOP_POINTER + 1] = 0
        block[moving, DETH_SIZE + RETURN_PATH : DETH_SIZE + SMP_SIZE] = 0
        value[group] = digest(block)
    return value


def _syndromes(table: ChunkTable, rows: Int, bth: Int, opcode: Bytes) -> npt.NDArray[np.int16]:
    before = looked_up(opcode, EXTENDED_AT["AETH"].astype(np.int8).view(np.uint8)).view(np.int8).astype(np.int64)
    fits = bth + BTH.size + looked_up(opcode, EXTENDED_SIZE.astype(np.uint8)) <= table.located.limit[rows]
    there = np.flatnonzero((before >= 0) & fits)
    found = np.full(len(rows), -1, np.int16)
    found[there] = table.chunk.data[bth[there] + BTH.size + before[there]]
    return found


def _fields(table: ChunkTable, rows: Int, marks: Bytes, hop: Int, p_key: U64, body: U64) -> npt.NDArray[np.int16]:
    loc, data = table.located, table.chunk.data
    found = np.full((len(rows), len(FIELDS)), -1, np.int16)
    at = {name: loc.at(name)[rows] for name in ("lrh", "ip4", "ip6", "grh", "eth", "vlan")}
    there = {name: np.flatnonzero(start >= 0) for name, start in at.items()}

    def byte(name: str, offset: int) -> tuple[Int, Int]:
        return there[name], data[at[name][there[name]] + offset].astype(np.int16)

    some, value = byte("lrh", 0)
    found[some, 0] = value >> 4
    found[:, 1] = marks >> 7
    for name, offset in (("grh", 7), ("ip4", 8), ("ip6", 7)):
        some, value = byte(name, offset)
        found[some, 3] = value
    some, value = byte("ip4", 1)
    found[some, 2] = value & 3
    some, value = byte("ip6", 1)
    found[some, 2] = value >> 4 & 3
    some = there["eth"]
    macs = np.zeros((len(some), 16), np.uint8)
    macs[:, :12] = Place(loc.front, rows[some], at["eth"][some]).part(0, 12)
    found[some, 4] = digest(macs) >> np.uint64(49)
    roce = np.flatnonzero(at["lrh"] < 0)
    found[roce, 5] = at["vlan"][roce] >= 0
    found[:, HOP] = hop
    some, value = byte("lrh", 1)
    found[some, 7] = value >> 4
    for column, hashed in enumerate((ends_hash(table, rows), p_key, body), 8):
        found[:, column] = hashed * SPREAD >> np.uint64(49)
    return found


def _transactions(table: ChunkTable, rows: Int) -> tuple[npt.NDArray[np.uint32], Bytes]:
    """What a MAD and its answer share, as a hash (0: no MAD); 1 for a request, 2 for its answer."""
    data, at = table.chunk.data, table.located.at("mad")[rows]
    found, asks = np.zeros(len(rows), np.uint32), np.zeros(len(rows), np.uint8)
    some = np.flatnonzero(at >= 0)
    head = gather(data, at[some], 24)
    method = head[:, 3]
    asks[some] = np.where(method & 0x80, 2, 1)
    head = head.copy()
    head[:, 3:8] = 0  # method, status, hop pointer and count
    found[some] = digest(head) >> np.uint64(32)
    return found, asks
