"""What is left of a chunk when it has been scrubbed? Declared fields that are nobody's, substitutes for the others, zeros."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import LINK_IPOIB, Chunk
from ibdissect.table.locate import Bool, Int
from ibdissect.table.table import ChunkTable, gather
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.classport import InformInfo
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.opa import STLSwitchInfo
from ibdissect.wire.opa_notice import STLInformInfo
from ibdissect.wire.opa_port import STLPortInfo
from ibdissect.wire.sa_records import LinearForwardingTableRecord
from ibdissect.wire.sm import SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import LinearForwardingTable
from ibdissect.wire.spec import Field

from . import checksums
from . import substitutes as subs
from .kinds import IDENTITIES, Kind, kind_of, survivors

Bytes = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

ERF_HEADER = 16
TYPE_AT = 40
"""Where the Ethertype stands behind the addresses of link type 242."""
UNICAST_BLOCKS = subs.LIDS_16 // subs.BLOCK
RANGES = (
    (InformInfo.lid_range_begin, InformInfo.lid_range_end),
    (STLInformInfo.lid_range_begin, STLInformInfo.lid_range_end),
)
RMPP_AT = 24
RECORD_TABLE = LinearForwardingTableRecord.linear_forwarding_table.span[0]


@dataclass(frozen=True, slots=True)
class _Spot:
    """Numbers of one kind in whole bytes: where each starts in the chunk's data, and what it is."""

    at: Int
    bits: int
    values: U64


class Substitutes(Protocol):
    """What stands for values: told them in the order of their appearance, then asked."""

    def learn(self, values: Iterable[int]) -> None: ...
    def __getitem__(self, value: int) -> int: ...


class _Map:
    """One kind of number: which values stay, and what stands for the others."""

    def __init__(self, numbers: Substitutes, special: Callable[[U64], Bool]) -> None:
        self.numbers, self.special = numbers, special


class Scrubber:
    """Scrubs the chunks of one capture: `survey` all of them, then `scrub` them, each time in order."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.maps = {
            "guid": _Map(subs.Numbers(subs.guid), subs.special_guids), "prefix": _Map(subs.Numbers(subs.prefix), subs.special_prefixes),
            "site": _Map(subs.Numbers(subs.site), _never), "group": _Map(subs.Numbers(subs.group_id), subs.special_groups),
            "qpn": _Map(subs.Numbers(subs.qpn), subs.special_qpns), "ip4": _Map(subs.Addresses(), subs.special_ip4),
            "mac": _Map(subs.Numbers(subs.mac), subs.special_macs),
        }  # fmt: skip
        self.lids = subs.Lids()
        self._lmc, self._tops = 0, set[int]()
        self.texts = subs.Numbers(subs.text)
        self.wide_keys: dict[str, subs.Numbers] = {}
        self.headers, self.management = survivors(catalog)
        self._templates: dict[StructType, Bytes] = {}

    def survey(self, table: ChunkTable) -> None:
        """Learn from a chunk how many LIDs a port may have, and where forwarding tables end."""
        for lmc in (PortInfo.lmc, STLPortInfo.lmc):
            self._lmc = max(self._lmc, int(table.values(lmc).max(initial=0)))
        for top in (SwitchInfo.linear_fdb_top, STLSwitchInfo.linear_fdb_top):
            self._tops.update(np.unique(table.values(top)).tolist())
        self.lids = subs.Lids(self._lmc, self._tops)

    def scrub(self, chunk: Chunk) -> Chunk:
        """The chunk with other bytes, records where they were."""
        table = ChunkTable(chunk, self.catalog)
        data = np.zeros_like(chunk.data)
        _containers(chunk, data)
        spots: dict[str, list[_Spot]] = {}
        marks: list[tuple[Int, Int, Bytes]] = []
        texts: list[tuple[int, str, int, bytes]] = []
        for struct in (*self.headers, *self.management):
            at = self._places(table, struct)
            if not len(at):
                continue
            rows = gather(chunk.data, at, struct.size)
            index = at[:, None] + np.arange(struct.size)
            data[index] |= rows & self._template(struct)
            for field in struct.fields:
                if field.part_of is None and field.kind != "rest":
                    self._look(field, at, rows, spots, marks, texts)
        self._numbers(table, data, spots)
        self._texts(data, texts)
        _management(table, data)
        for at, width, mask in marks:
            _mark(data, at, int(width[0]), mask)
        scrubbed = dataclasses.replace(chunk, data=data)
        checksums.seal(table, ChunkTable(scrubbed, self.catalog))
        return scrubbed

    def _places(self, table: ChunkTable, struct: StructType) -> Int:
        """Where a structure occurs and counts: headers everywhere, all others in management datagrams."""
        found = table.occurrences(struct)
        if struct in self.headers or not len(found):
            return found.at
        mad = table.located.at("mad")[found.rows]
        return found.at[(mad >= 0) & (found.at >= mad)]

    def _template(self, struct: StructType) -> Bytes:
        """The bits of a structure that are copied: what stays, and what will be replaced."""
        found = self._templates.get(struct)
        if found is None:
            bits = 0
            for field in struct.fields:
                whole = field if field.part_of is None else field.part_of[0]
                # Named bits of reserved ones are none; those of raw bytes are a reading of data.
                kind = kind_of(whole) if kind_of(whole) is not Kind.MARK else kind_of(field)
                if field.kind != "rest" and (kind is Kind.KEEP or kind in IDENTITIES):
                    for start in field.entries():
                        bits |= ((1 << field.bits) - 1) << (struct.size * 8 - start - field.bits)
            found = self._templates[struct] = np.frombuffer(bits.to_bytes(struct.size, "big"), np.uint8)
        return found

    def _look(
        self, field: Field[Any], at: Int, rows: Bytes, spots: dict[str, list[_Spot]], marks: list[Any], texts: list[Any],
    ) -> None:  # fmt: skip
        """Note what has to be replaced in one field of all its occurrences."""
        kind = kind_of(field)
        if kind in (Kind.KEEP, Kind.DROP):
            return
        for start in field.entries():
            first, last = start // 8, (start + field.bits + 7) // 8
            here, taken = at + first, rows[:, first:last]
            if kind is Kind.MARK:
                size = last - first
                mask = ((1 << field.bits) - 1) << (last * 8 - start - field.bits)
                template = np.frombuffer(mask.to_bytes(size, "big"), np.uint8)
                some = (taken & template).any(axis=1)
                if some.any():
                    marks.append((here[some], np.array([size]), template))
            elif kind is Kind.TEXT or (field.bits > 64 and kind is Kind.KEY):
                name = field.name if kind is Kind.TEXT else field.secret
                texts += [(where, name, last - first, row.tobytes()) for where, row in zip(here.tolist(), taken, strict=True) if row.any()]
            elif kind is Kind.GID:
                for name, spot in _gids(here, taken):
                    spots.setdefault(name, []).append(spot)
            else:
                name = f"key {field.secret}" if kind is Kind.KEY else kind.name.lower()
                spots.setdefault(name, []).append(_Spot(here, field.bits, _integers(taken)))

    def _numbers(self, table: ChunkTable, data: Bytes, spots: dict[str, list[_Spot]]) -> None:
        for name, found in spots.items():
            if name == "lid":
                continue
            known = self.maps.get(name)
            if known is None:
                known = self.maps[name] = self._keys(name.removeprefix("key "), found[0].bits)
            where = [~known.special(spot.values) for spot in found]
            _learn(known.numbers, [(spot.at[keep], spot.values[keep]) for spot, keep in zip(found, where, strict=True)])
            for spot, keep in zip(found, where, strict=True):
                _replace(data, spot, keep, known.numbers)
        self._lids(table, data, spots.get("lid", []))

    def _keys(self, kind: str, bits: int) -> _Map:
        return _Map(subs.Keys(bits, privileged=kind == "Q_Key"), lambda values: subs.special_keys(kind, values))

    def _lids(self, table: ChunkTable, data: Bytes, found: list[_Spot]) -> None:
        """LIDs, and what is listed by LID."""
        where = [subs.unicast_lids(spot.values, spot.bits) for spot in found]
        named = [(spot.at[keep], spot.values[keep]) for spot, keep in zip(found, where, strict=True)]
        tables, blocks = _forwarding(table, self._places(table, LinearForwardingTable))
        units = np.arange(0, subs.BLOCK, self.lids.unit)
        named.append((np.repeat(tables, len(units)), (blocks[:, None] * subs.BLOCK + units).ravel().astype(np.uint64)))
        _learn(self.lids, named)
        for spot, keep in zip(found, where, strict=True):
            _replace(data, spot, keep, self.lids)
        if len(tables):
            ports = gather(table.chunk.data, tables, subs.BLOCK).reshape(-1, len(units), self.lids.unit)
            targets = np.array([[self._unit(block * subs.BLOCK + first) for first in units.tolist()] for block in blocks.tolist()])
            permuted = np.empty_like(ports)
            permuted[np.arange(len(ports))[:, None], targets] = ports
            data[tables[:, None] + np.arange(subs.BLOCK)] = permuted.reshape(-1, subs.BLOCK)
        for begin, end in RANGES:
            assert begin.owner is not None
            _ranges(table, data, self._places(table, begin.owner), begin, end)

    def _unit(self, lid: int) -> int:
        """Which unit of its block a LID is moved to."""
        return self.lids[lid] % subs.BLOCK // self.lids.unit

    def _texts(self, data: Bytes, texts: list[tuple[int, str, int, bytes]]) -> None:
        """Strings, and keys too wide for a number, in the order of their bytes."""
        for at, name, size, value in sorted(texts):
            if name.islower():
                key: tuple[str, bytes] = (name, value.split(b"\0", 1)[0])
                self.texts.learn([key] if key[1] else [])
                new = self.texts[key] if key[1] else b""
            else:
                numbers = self.wide_keys.setdefault(name, subs.Numbers(lambda number, _value: number))
                numbers.learn([value])
                new = numbers[value].to_bytes(size, "big")
            data[at : at + size] = np.frombuffer(new[:size].ljust(size, b"\0"), np.uint8)


def _containers(chunk: Chunk, data: Bytes) -> None:
    """What stands in front of the packet and no structure covers: types of ERF extension headers, Ethertype of link type 242."""
    for row in np.flatnonzero((chunk.pseudo >= 0) & (chunk.offset - chunk.pseudo > ERF_HEADER)).tolist():
        types = slice(int(chunk.pseudo[row]) + ERF_HEADER, int(chunk.offset[row]), 8)
        data[types] = chunk.data[types]
    rows = np.flatnonzero((chunk.link == LINK_IPOIB) & (chunk.caplen >= TYPE_AT + 4))
    index = chunk.offset[rows][:, None] + TYPE_AT + np.arange(4)
    data[index] = chunk.data[index]


def _gids(at: Int, rows: Bytes) -> Iterator[tuple[str, _Spot]]:
    """The parts of GIDs that are identities of their own: prefix and GUID, the address of an IPv4-mapped one, a group."""
    high, low = (np.ascontiguousarray(rows[:, part]).view(">u8").ravel().astype(np.uint64) for part in (slice(0, 8), slice(8, 16)))
    multicast = high >> 56 == 0xFF
    mapped = (high == 0) & ((low >> 32 == 0xFFFF) | ((low >> 32 == 0) & (low > 1)))
    unicast = ~multicast & ~mapped & ~((high == 0) & (low <= 1))
    of_site = multicast & ~np.isin(high >> 32 & 0xFFFF, list(subs.MGID_SIGNATURES)) | (multicast & (high & 0xFFFF != 0))
    yield "prefix", _Spot(at[unicast], 64, high[unicast])
    yield "guid", _Spot(at[unicast] + 8, 64, low[unicast])
    yield "ip4", _Spot(at[mapped] + 12, 32, low[mapped] & 0xFFFFFFFF)
    yield "group", _Spot(at[multicast] + 8, 64, low[multicast])
    yield "site", _Spot(at[of_site], 64, high[of_site])


def _integers(rows: Bytes) -> U64:
    """Big-endian numbers of up to eight bytes."""
    wide = np.zeros((len(rows), 8), np.uint8)
    wide[:, 8 - rows.shape[1] :] = rows
    return wide.view(">u8").ravel().astype(np.uint64)


def _learn(numbers: Substitutes, found: Iterable[tuple[Int, U64]]) -> None:
    """Tell a map the values of a chunk in the order of their bytes."""
    pieces = list(found)
    if not pieces:
        return
    at, values = (np.concatenate(part) for part in zip(*pieces, strict=True))
    values = values[np.argsort(at, kind="stable")]
    unique, first = np.unique(values, return_index=True)
    numbers.learn(unique[np.argsort(first)].tolist())


def _replace(data: Bytes, spot: _Spot, keep: Bool, numbers: Substitutes) -> None:
    """Write the substitutes of the values that have one."""
    unique, which = np.unique(spot.values[keep], return_inverse=True)
    new = np.array([numbers[value] for value in unique.tolist()], np.uint64)[which]
    size = spot.bits // 8
    data[spot.at[keep][:, None] + np.arange(size)] = new.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - size :]


def _mark(data: Bytes, at: Int, size: int, mask: Bytes) -> None:
    """Set the last of some bits where none of them is set."""
    rows = gather(data, at, size)
    empty = at[~(rows & mask).any(axis=1)]
    last = int(np.flatnonzero(mask)[-1])
    data[empty + last] |= np.uint8(int(mask[last]) & -int(mask[last]))


def _forwarding(table: ChunkTable, at: Int) -> tuple[Int, Int]:
    """Blocks of linear forwarding tables whose number is known: where, and which."""
    rows = np.searchsorted(table.chunk.offset, at, side="right") - 1
    mgmt_class, there = table.of_rows(MAD.mgmt_class)
    modifier = table.of_rows(MAD.attribute_modifier)[0].astype(np.int64)
    blocks = np.where((there & np.isin(mgmt_class, (0x01, 0x81)))[rows], modifier[rows], -1)
    records = table.occurrences(LinearForwardingTableRecord)
    if len(records):
        order = np.argsort(records.at)
        near = order[np.minimum(np.searchsorted(records.at[order], at - RECORD_TABLE), len(order) - 1)]
        inside = records.at[near] == at - RECORD_TABLE
        blocks[inside] = table.values(LinearForwardingTableRecord.block_num)[near[inside]]
    good = (blocks >= 0) & (blocks < UNICAST_BLOCKS)
    return at[good], blocks[good]


def _ranges(table: ChunkTable, data: Bytes, at: Int, begin: Field[int], end: Field[int]) -> None:
    """Keep the ends of LID ranges in order where they were."""
    size = begin.bits // 8
    first, last = (at[:, None] + field.bit // 8 + np.arange(size) for field in (begin, end))
    was, new = ([_integers(where[index]) for index in (first, last)] for where in (table.chunk.data, data))
    swap = (was[0] <= was[1]) != (new[0] <= new[1])
    first, last = first[swap], last[swap]
    data[first], data[last] = data[last], data[first]


def _management(table: ChunkTable, data: Bytes) -> None:
    """Bytes that rules read beyond the declared fields: RMPP headers of classes that have none, SMPs sent to other queue pairs."""
    before, located = table.chunk.data, table.located
    mad = located.at("mad")
    mad = mad[(mad >= 0) & (mad + RMPP_AT + 3 <= located.end)]
    head = before[mad[:, None] + RMPP_AT + np.arange(3)]
    mad = mad[(head[:, 0] == 1) & (head[:, 1] >= 1) & (head[:, 1] <= 4) & (head[:, 2] & 1 == 1)]
    data[mad + RMPP_AT], data[mad + RMPP_AT + 1] = 1, before[mad + RMPP_AT + 1]
    data[mad + RMPP_AT + 2] |= 1
    lane, there = table.of_rows(LRH.vl)
    payload = located.at("payload")
    rows = np.flatnonzero(there & (lane == 15) & (located.at("mad") < 0) & (payload >= 0) & (payload + MAD.size <= located.end))
    start = payload[rows]
    start = start[(before[start] == 1) & np.isin(before[start + 1], (0x01, 0x81))]
    for byte in (0, 1, 3):
        data[start + byte] = before[start + byte]


def _never(values: U64) -> Bool:
    return np.zeros(len(values), np.bool_)
