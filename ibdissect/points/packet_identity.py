"""The identity of a packet at every capture point, and its fields that may change on the way. A chunk as columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import Bytes, gather, looked_up, u24
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.bit_fields import extract, value_at
from ibdissect.decode.crcs import icrc_sums
from ibdissect.decode.equal_rows import SPREAD, U64, Columns, by_value, digest, mix
from ibdissect.decode.header_cache import FieldReader
from ibdissect.decode.locate import EXTENDED_AT, EXTENDED_SIZE
from ibdissect.wire.encapsulation import UDP, IPv4, IPv6
from ibdissect.wire.headers import BTH, DETH, GRH, ICRC, LRH
from ibdissect.wire.mad import BASE_VERSION_OPA, MAD
from ibdissect.wire.numbers import DIRECTED, RESPONSE_BIT
from ibdissect.wire.opa import STLSMPDirected
from ibdissect.wire.opcodes import UD_SEND_ONLY
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.spec import Field, Struct

from .flows import HOPS_AT, MOST_HOPS, ROUTE, ROUTE_BITS, WHOLE, PointFlows, routed, unchanged_ends

FIELDS = ("vl", "fecn", "ecn", "ttl", "mac", "vlan", "hop_pointer", "sl", "address", "p_key", "payload")
"""Columns of `Sightings.fields`: first fields that a network may change, then fields that it must not; -1: the packet lacks it."""
HOP, UNCHANGED = FIELDS.index("hop_pointer"), FIELDS.index("sl")
LONGEST = 288
"""Bytes after the BTH that are compared; a MAD with all its headers is shorter."""


class Sightings(Columns):
    """Packets as points saw them."""

    point: npt.NDArray[np.uint8]
    """Number of the point."""
    frame: npt.NDArray[np.int32]
    time: Int
    """In nanoseconds since 1970, the middle of a stamp's resolution; by the point's own clock, until clocks are known."""
    key: U64
    """A hash of everything that no hop changes, up to the shortest snap length of all points."""
    flow: npt.NDArray[np.int32]
    port: npt.NDArray[np.uint16]
    """UDP source port, by which routers choose among paths; 0 without UDP."""
    psn: npt.NDArray[np.int32]
    opcode: Bytes
    syndrome: npt.NDArray[np.int16]
    """AETH.Syndrome; -1 without an AETH."""
    transaction: npt.NDArray[np.uint32]
    """A hash that is equal for a MAD and its answer; 0: no MAD."""
    asks: Bytes
    """1: a request MAD, 2: a response, 0: no MAD."""
    own_stamp: Bool
    """Its stamp differs from those before and after: equal ones were given to a whole batch of packets after its last one."""
    fields: npt.NDArray[np.int16]
    """int16[n, len(FIELDS)]: small values unchanged, others hashed."""
    sound: Bool
    """Its ICRC is right for these very headers, so that no hop changed them."""

    def __len__(self) -> int:
        return len(self.time)


def seen_in(table: ChunkTable, point: int, flows: PointFlows, shortest: int) -> Sightings:
    """The RDMA packets of one chunk; of each, `shortest` bytes from the network header on are compared."""
    loc, chunk = table.located, table.chunk
    rows = np.flatnonzero(loc.at("bth") >= 0)
    far = routed(table, rows)
    start, stop, network = _network(table, rows, far)
    whole = loc.at("bth")[rows] + BTH.size <= start + shortest  # shorter ones cannot be compared with the point that cut them
    rows, start, stop, network, far = rows[whole], start[whole], stop[whole], network[whole], far[whole]
    bth, opcode = loc.at("bth")[rows], loc.opcode[rows]
    head = FieldReader(loc.front, rows, bth)
    end = np.minimum(np.minimum(loc.limit[rows], stop), np.minimum(start + shortest, bth + BTH.size + LONGEST))
    transport = np.zeros((len(rows), 16), np.uint8)
    transport[:, : BTH.size] = head.part(0, BTH.size)
    marks = transport[:, BTH.fecn.span[0]].copy()
    transport[:, BTH.fecn.span[0]] = 0  # FECN, BECN and reserved bits
    dest_qp, psn, p_key = (extract(transport, one.bit, one.bits).astype(np.int64) for one in (BTH.destqp, BTH.psn, BTH.p_key))
    directed, hop, route = _directed(table, rows, end)
    network[directed] = 0  # the LIDs change where LID routing and directed routing meet
    body = _body(table, rows, bth + BTH.size, np.maximum(end - bth - BTH.size, 0), directed)
    udp = loc.at("udp")[rows]
    port = np.zeros(len(rows), np.uint16)
    port[udp >= 0] = value_at(chunk.data, udp[udp >= 0], UDP.source_port)
    ends = unchanged_ends(table, rows, far)
    fields = _fields(table, rows, marks, hop, far, (ends, p_key.astype(np.uint64), body))
    differs = np.concatenate(([True], np.diff(chunk.time_ns[rows]) != 0, [True]))  # stamps from those before
    return Sightings(
        np.full(len(rows), point, np.uint8), (chunk.first + rows).astype(np.int32), chunk.time_ns[rows],
        mix([network, digest(transport), body]),
        flows.of(table, rows, dest_qp, route, far, ends), port, psn.astype(np.int32), opcode, _syndromes(table, rows, bth, opcode),
        *_transactions(table, rows), differs[1:] & differs[:-1], fields, _sound(table, rows),
    )  # fmt: skip


def _sound(table: ChunkTable, rows: Int) -> Bool:
    """Which packets have their ICRC, and a right one."""
    sums, found = icrc_sums(table, rows), np.zeros(len(table), np.bool_)
    found[sums.rows] = (sums.stored == sums.wanted) & (sums.stored != 0)
    return found[rows]


def _network(table: ChunkTable, rows: Int, far: Bool) -> tuple[Int, Int, U64]:
    """Where the network header of each row starts, where its ICRC would start (captured or not), and a hash of what no hop changes.

    The hash is that of the network and UDP headers.
    """
    loc, data = table.located, table.chunk.data
    start, stop, value = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64), np.zeros(len(rows), np.uint64)
    for name, struct, kept in _INVARIANT:
        at = loc.at(name)[rows]
        there = np.flatnonzero(at >= 0)
        if not len(there):
            continue
        block = FieldReader(loc.front, rows[there], at[there]).part(0, len(kept)) & kept
        block[far[there] & (name == "lrh")] = 0  # the ICRC does not cover it
        value[there] = mix([value[there], digest(block)])
        first = there[start[there] < 0]
        start[first] = at[first]
        if name == "lrh":
            stop[first] = at[first] + (value_at(data, at[first], LRH.pktlen) << 2) - ICRC.size
        elif name == "grh":
            stop[first] = at[first] + struct.size + value_at(data, at[first], GRH.pay_len) - ICRC.size
        elif name == "udp":
            stop[there] = at[there] + value_at(data, at[there], UDP.length) - ICRC.size
    return start, stop, value


def _kept(struct: type[Struct], *changed: Field[int]) -> Bytes:
    """A mask of the bytes of a header without those of some fields, padded to words of 8 bytes."""
    mask = np.zeros(-(-struct.size // 8) * 8, np.uint8)
    mask[: struct.size] = 0xFF
    for field in changed:
        mask[slice(*field.span)] = 0
    return mask


_INVARIANT: tuple[tuple[str, type[Struct], Bytes], ...] = (
    ("lrh", LRH, _kept(LRH, LRH.vl)),
    ("grh", GRH, _kept(GRH, GRH.tclass, GRH.flow_label, GRH.hop_lmt)),
    ("ip4", IPv4, _kept(IPv4, IPv4.dsfield, IPv4.ttl, IPv4.checksum)),
    ("ip6", IPv6, _kept(IPv6, IPv6.traffic_class, IPv6.flow_label, IPv6.hop_limit)),
    ("udp", UDP, _kept(UDP, UDP.checksum)),
)
"""Header, and which of its bytes no hop changes: those that the ICRC covers (IBA 7.8.1, A17.3.3)."""


def _directed(table: ChunkTable, rows: Int, end: Int) -> tuple[Bool, Int, U64]:
    """Which rows are directed-route SMPs, on which link of their route (0: the first; -1: none), and the hash of the route.

    The low bits of the hash are those of `flows`.
    """
    data, bth = table.chunk.data, table.located.at("bth")[rows]
    smp = bth + BTH.size + DETH.size
    directed = (table.located.opcode[rows] == UD_SEND_ONLY) & (smp + 8 <= end)
    some = np.flatnonzero(directed)
    some = some[(u24(data, bth[some] + BTH.destqp.span[0]) == 0) & (value_at(data, smp[some], MAD.mgmt_class) == DIRECTED)]
    directed[:] = False
    directed[some] = True
    hop, route = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.uint64)
    at = smp[some]
    back, pointer, count = (value_at(data, at, field) for field in (SMPDirected.d, SMPDirected.hop_pointer, SMPDirected.hop_count))
    hop[some] = np.clip(np.where(back, count - pointer, pointer - 1), 0, np.maximum(count - 1, 0))
    value = mix([count])
    path = at + np.where(data[at] == BASE_VERSION_OPA, STLSMPDirected.initial_path.span[0], SMPDirected.initial_path.span[0])
    whole = path + 64 <= table.located.limit[rows[some]]
    if whole.any():
        value[whole] = mix([value[whole], digest(gather(data, path[whole], 64))])
    flags = back.astype(np.uint64) + whole * np.uint64(WHOLE) + (np.minimum(count, MOST_HOPS) << HOPS_AT).astype(np.uint64)
    route[some] = value >> np.uint64(ROUTE_BITS) << np.uint64(ROUTE_BITS) | flags | np.uint64(ROUTE)
    return directed, hop, route


def _body(table: ChunkTable, rows: Int, at: Int, size: Int, directed: Bool) -> U64:
    """A hash of `size` bytes at `at` of each row, without what directed routing changes."""
    value = np.zeros(len(rows), np.uint64)
    for words, group in by_value((size + 7) >> 3):
        width = 8 * words
        if not width:
            continue
        block = np.array(FieldReader(table.located.front, rows[group], at[group]).part(0, width))
        block[:, width - 8 :][np.arange(width - 8, width) >= size[group][:, None]] = 0
        moving = np.flatnonzero(directed[group])
        opa = (block[moving, DETH.size : DETH.size + 1] == BASE_VERSION_OPA).all(axis=1)
        for some, struct in ((moving[~opa], SMPDirected), (moving[opa], STLSMPDirected)):
            for field in (struct.hop_pointer, struct.return_path):
                block[some, DETH.size + field.span[0] : DETH.size + field.span[1]] = 0
        value[group] = digest(block)
    return value


def _syndromes(table: ChunkTable, rows: Int, bth: Int, opcode: Bytes) -> npt.NDArray[np.int16]:
    before = looked_up(opcode, EXTENDED_AT["AETH"].astype(np.int8).view(np.uint8)).view(np.int8).astype(np.int64)
    fits = bth + BTH.size + looked_up(opcode, EXTENDED_SIZE.astype(np.uint8)) <= table.located.limit[rows]
    there = np.flatnonzero((before >= 0) & fits)
    found = np.full(len(rows), -1, np.int16)
    found[there] = table.chunk.data[bth[there] + BTH.size + before[there]]
    return found


def _fields(table: ChunkTable, rows: Int, marks: Bytes, hop: Int, far: Bool, hashes: tuple[U64, U64, U64]) -> npt.NDArray[np.int16]:
    """The columns of FIELDS. `hashes`: of addresses, P_Key and payload."""
    loc, data = table.located, table.chunk.data
    found = np.full((len(rows), len(FIELDS)), -1, np.int16)
    at = {name: loc.at(name)[rows] for name in ("lrh", "ip4", "ip6", "grh", "eth", "vlan")}
    for column, name, field in _OF_HEADERS:
        some = np.flatnonzero(at[name] >= 0)
        found[some, FIELDS.index(column)] = value_at(data, at[name][some], field)
    found[:, FIELDS.index("fecn")] = marks >> 7
    some = np.flatnonzero(at["eth"] >= 0)
    macs = np.zeros((len(some), 16), np.uint8)
    macs[:, :12] = FieldReader(loc.front, rows[some], at["eth"][some]).part(0, 12)
    found[some, FIELDS.index("mac")] = digest(macs) >> np.uint64(49)
    roce = np.flatnonzero(at["lrh"] < 0)
    found[roce, FIELDS.index("vlan")] = at["vlan"][roce] >= 0
    found[:, HOP] = hop
    found[far, FIELDS.index("sl")] = -1
    for column, hashed in zip(("address", "p_key", "payload"), hashes, strict=True):
        found[:, FIELDS.index(column)] = hashed * SPREAD >> np.uint64(49)
    found[hop >= 0, FIELDS.index("address")] = -1
    return found


_OF_HEADERS: tuple[tuple[str, str, Field[int]], ...] = (
    ("vl", "lrh", LRH.vl), ("sl", "lrh", LRH.sl), ("ecn", "ip4", IPv4.ecn), ("ecn", "ip6", IPv6.ecn),
    ("ttl", "grh", GRH.hop_lmt), ("ttl", "ip4", IPv4.ttl), ("ttl", "ip6", IPv6.hop_limit),
)  # fmt: skip
"""Columns of FIELDS that are a field of a header."""


def _transactions(table: ChunkTable, rows: Int) -> tuple[npt.NDArray[np.uint32], Bytes]:
    """What a MAD and its answer share, as a hash (0: no MAD); 1 for a request, 2 for its answer."""
    data, at = table.chunk.data, table.located.at("mad")[rows]
    found, asks = np.zeros(len(rows), np.uint32), np.zeros(len(rows), np.uint8)
    some = np.flatnonzero(at >= 0)
    head = gather(data, at[some], 24)
    method = head[:, 3]
    asks[some] = np.where(method & RESPONSE_BIT, 2, 1)
    head = head.copy()
    head[:, 3:8] = 0  # method, status, hop pointer and count
    found[some] = digest(head) >> np.uint64(32)
    return found, asks
