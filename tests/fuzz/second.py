"""Scapy as the second opinion: structures, values and damage of a packet, compared with the columns."""

from __future__ import annotations

import socket
import struct
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scapy.config import conf
from scapy.layers.inet import IP
from scapy.layers.inet import UDP as ScapyUDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet

from ibdissect.capture.gather import gather
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.decode.find_structures import at_place
from ibdissect.decode.ignored_data import unread
from ibdissect.decode.inner_structures import holds_key
from ibdissect.decode.locate import EXTENDED_STRUCTS
from ibdissect.layers import BTH, ERF, GRH, LRH, RWH, Layer, MadLayer
from ibdissect.layers import MAD as MadOnly
from ibdissect.layers.erf import INFINIBAND
from ibdissect.layers.transport import ip_room
from ibdissect.wire import encapsulation, headers
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import SA_CLASS
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.spec import Field
from ibdissect.words import Mad, MadFormat, Struct
from tests.craft import LINK_ERF, LINK_ETHERNET, LINK_INFINIBAND, LINK_SLL, LINK_SLL2

from .agree import Disagreement

OUTERMOST: dict[int, type[Packet]] = {
    LINK_ERF: ERF, LINK_INFINIBAND: LRH, LINK_ETHERNET: Ether, LINK_SLL: CookedLinux, LINK_SLL2: CookedLinuxV2,
}  # fmt: skip
LARGEST = 4 * 0x41F
"""Bytes of the largest packet that a PktLen may announce (IBA 7.7)."""
HEADERS = (headers.LRH, headers.RWH, headers.FlowControl, headers.GRH, headers.BTH, *EXTENDED_STRUCTS)
"""Structures that Scapy must see wherever the columns have them, and nowhere else."""
StructType = type[Struct]


class Dissected:
    """What Scapy makes of the rows of a chunk."""

    def __init__(self, table: ChunkTable) -> None:
        self.table = table.shown
        self.fields: dict[StructType, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        """Per structure: row and values, in row order."""
        self.attributes: dict[StructType, list[tuple[int, int, dict[str, Any]]]] = defaultdict(list)
        """Per attribute: row, byte of the MAD where it starts, values."""
        self.forms: list[tuple[int, type[MadLayer], dict[str, Any]]] = []
        self.rows: list[int] = []
        self.malformed: list[bool] = []
        self.contradictory: list[bool] = []
        """Which records hold more than they say was sent: it is a matter of taste whether their packets were cut."""

    def add(self, row: int, packet: Packet, size: int, wire: int) -> None:
        """Take in the dissection of a row: `size` bytes captured behind the ERF header, `wire` bytes sent."""
        self.rows.append(row)
        self.malformed.append(size >= wire and is_malformed(packet, int(self.table.chunk.link[row]), wire))
        self.contradictory.append(size > wire)
        layer: Any = packet
        mad: Any = None
        while layer:
            if isinstance(layer, MadLayer):
                mad = layer
                self.forms.append((row, type(layer), layer.fields))
            elif isinstance(layer, Layer):
                if mad is not None:
                    start = type(mad).early.get(mad.fields["attribute_id"], type(mad).hole[0])
                    self.attributes[layer.declared].append((row, start, layer.fields))
                    mad = None
                else:
                    self.fields[layer.declared].append((row, layer.fields))
            layer = layer.payload

    def compare(self) -> Iterator[Disagreement]:
        """Everything in which the columns see these rows otherwise."""
        table, rows = self.table, np.array(self.rows, np.int64)
        ours = table.located.malformed[rows] != 0
        differ = (ours != np.array(self.malformed, np.bool_)) & ~np.array(self.contradictory, np.bool_)
        if differ.any():
            yield Disagreement("malformed: columns and Scapy", rows[differ].tolist())
        for what in HEADERS:
            yield from self._header(what, rows)
        yield from self._mads(rows)
        for what, found in self.attributes.items():
            yield from self._attribute(what, found)
        yield from self._only_columns()

    def _only_columns(self) -> Iterator[Disagreement]:
        """Attributes that stand where the class's data starts, in whole MADs, and that Scapy has not seen."""
        table = self.table
        forms = {row: (form.hole[0], form.early) for row, form, _ in self.forms if form is not MadOnly}
        seen = {what: {row for row, _, _ in found} for what, found in self.attributes.items()}
        later = self._later_segments()
        for (_, attr_id), candidates in table.catalog.attributes.items():
            for place, what in candidates:
                found = at_place(table, what, place)
                begin = found.at - table.located.at("mad")[found.rows]
                rows = [
                    row
                    for row, at in zip(found.rows.tolist(), begin.tolist(), strict=True)
                    if row in forms and row not in later and at == forms[row][1].get(attr_id, forms[row][0])
                ]
                missing = sorted(set(rows) - seen.get(what, set()))
                if missing:
                    yield Disagreement(f"{what.__name__}: in the columns, not in Scapy", missing)

    def _later_segments(self) -> set[int]:
        """Rows of RMPP segments behind the first: Scapy, which sees one packet, leaves their records raw."""
        later = set()
        for row, _, fields in self.forms:
            rmpp = fields.get("rmpp")
            if rmpp is not None and rmpp.rmpp_type == 1 and rmpp.data1 != 1:
                later.add(row)
        return later

    def _header(self, what: StructType, rows: npt.NDArray[np.int64]) -> Iterator[Disagreement]:
        occurrences = table_rows = self.table.occurrences(what)
        keep = np.isin(table_rows.rows, rows)
        if what is headers.GRH:  # link type 242 is not Scapy's
            keep &= np.isin(self.table.chunk.link[table_rows.rows], list(OUTERMOST))
        mine = np.array([row for row, _ in self.fields.get(what, ())], np.int64)
        if not np.array_equal(occurrences.rows[keep], mine):
            wrong = sorted(set(occurrences.rows[keep].tolist()) ^ set(mine.tolist()))
            yield Disagreement(f"{what.__name__}: columns and Scapy differ in where it is", wrong)
            return
        if len(mine):
            values = [fields for _, fields in self.fields[what]]
            yield from _values(what, self.table.matrix(what)[keep], values, mine)
        if what is headers.BTH:
            yield from self._checks(mine, [fields for _, fields in self.fields.get(what, ())], headers.ICRC, "icrc", 4)
        if what is headers.LRH:
            yield from self._checks(mine, [fields for _, fields in self.fields.get(what, ())], headers.VCRC, "vcrc", 2)

    def _checks(
        self, rows: npt.NDArray[np.int64], fields: list[dict[str, Any]], what: StructType, name: str, size: int
    ) -> Iterator[Disagreement]:
        given = [(row, values[name]) for row, values in zip(rows.tolist(), fields, strict=True)]
        seen = {row: value.to_bytes(size, "big") for row, value in given if isinstance(value, int)}  # bytes: absent, or cut off
        found, matrix = self.table.occurrences(what), self.table.matrix(what)
        chosen = set(self.rows)
        ours = {row: bytes(matrix[i]) for i, row in enumerate(found.rows.tolist()) if row in chosen}
        if seen != ours:
            wrong = [row for row in sorted(seen.keys() | ours.keys()) if seen.get(row) != ours.get(row)]
            yield Disagreement(f"{what.__name__}: columns and Scapy", wrong)

    def _mads(self, rows: npt.NDArray[np.int64]) -> Iterator[Disagreement]:
        found = self.table.occurrences(MAD)
        keep = np.isin(found.rows, rows)
        mine = np.array([row for row, _, _ in self.forms], np.int64)
        if not np.array_equal(found.rows[keep], mine):
            yield Disagreement("MAD: columns and Scapy differ in where it is", sorted(set(found.rows[keep].tolist()) ^ set(mine.tolist())))
            return
        matrix = self.table.matrix(MAD)[keep]
        for form in {kind for _, kind, _ in self.forms}:
            of_form = [i for i, (_, kind, _) in enumerate(self.forms) if kind is form]
            values = [self.forms[i][2] for i in of_form]
            yield from _values(MAD, matrix[of_form], values, mine[of_form], form)
            if form is not MadOnly:
                yield from self._form(form, mine[of_form], values)
        for what in self.table.catalog.structs:
            if any(isinstance(place, MadFormat) and not place.unclaimed for place in what.carried_by):
                ours = set(self.table.occurrences(what).rows.tolist()) & set(self.rows)
                theirs = {row for row, kind, _ in self.forms if kind.declared is what}
                if ours != theirs:
                    yield Disagreement(f"{what.__name__}: columns and Scapy differ in where it is", sorted(ours ^ theirs))

    def _form(self, form: type[MadLayer], rows: npt.NDArray[np.int64], values: list[dict[str, Any]]) -> Iterator[Disagreement]:
        what = form.declared
        found = self.table.occurrences(what)
        index = np.searchsorted(found.rows, rows)
        index = np.minimum(index, len(found) - 1)
        if not len(found) or (found.rows[index] != rows).any():
            return  # said already
        yield from _values(what, self.table.matrix(what)[index], values, rows)

    def _may_be_misplaced(self, what: StructType) -> bool:
        """Whether it is a record of the SA with a key: columns have it only where segment and offset say for certain that it is one."""
        of_sa = any(isinstance(place, Mad) and place.mgmt_class == SA_CLASS for place in what.carried_by)
        return of_sa and holds_key(self.table.catalog, what)

    def _attribute(self, what: StructType, seen: list[tuple[int, int, dict[str, Any]]]) -> Iterator[Disagreement]:
        rows = np.array([row for row, _, _ in seen], np.int64)
        at = self.table.located.at("mad")[rows] + np.array([start for _, start, _ in seen], np.int64)
        found = self.table.occurrences(what)
        index = np.minimum(np.searchsorted(found.at, at), max(len(found) - 1, 0))
        missing = np.ones(len(rows), np.bool_) if not len(found) else (found.at[index] != at)
        lost = missing & ~self.table.once(unread)[rows]  # Scapy reads the data of requests that nobody reads
        if lost.any() and not self._may_be_misplaced(what):
            yield Disagreement(f"{what.__name__}: in Scapy, not in the columns", rows[lost].tolist())
        if len(found):
            values = [fields for (_, _, fields), gone in zip(seen, missing.tolist(), strict=True) if not gone]
            matrix = gather(self.table.chunk.data, at[~missing], what.size)  # all bits, also those of a request that nobody reads
            yield from _values(what, matrix, values, rows[~missing])


def dissected(outermost: type[Packet], data: bytes) -> tuple[Packet | None, Exception | None]:
    """Scapy's packet, None where Scapy's own outermost layer gives up; and what our layers raised, which must be nothing."""
    try:
        conf.debug_dissector = True
        return outermost(data), None
    except Exception as error:
        own = error if "ibdissect" in Path(traceback.extract_tb(error.__traceback__)[-1].filename).parts[-3:] else None
    finally:
        conf.debug_dissector = False
    try:
        return outermost(data), own  # what Scapy's Ethernet and IP layers raise makes the rest Raw
    except (struct.error, ValueError, IndexError):
        return None, own


def holds_tunnel(packet: Packet) -> bool:
    """Whether Scapy sees a tunnel. It knows others than we do, reads them to any depth, and some only with contributed layers."""
    layers = packet.layers()
    return sum(layer in (IP, IPv6) for layer in layers) > 1 or any(layer in (GRE, VXLAN) for layer in layers)


def opposed(table: ChunkTable, *, every: int = 1, tally: Counter[str] | None = None) -> tuple[
    list[Disagreement], list[tuple[int, Exception]], int
]:  # fmt: skip
    """What Scapy sees otherwise in every k-th row, what its layers raised (row, error), and how many rows were compared.

    `tally`: counts rows by their outermost layer, those that Scapy has no layer for or gave up on, and structures seen.
    """
    chunk, seen, raised, tried, inside = table.chunk, Dissected(table), [], 0, table.located.in_tunnel
    for row in range(0, len(table), every):
        link_type, pseudo = int(chunk.link[row]), int(chunk.pseudo[row])
        outermost = OUTERMOST.get(link_type)
        if outermost is None or not chunk.caplen[row] or (link_type == LINK_ERF and pseudo < 0):
            continue
        tried += 1
        start = pseudo if pseudo >= 0 else int(chunk.offset[row])
        packet, error = dissected(outermost, bytes(chunk.data[start : int(chunk.offset[row] + chunk.caplen[row])]))
        if error is not None:
            raised.append((row, error))
        if packet is not None and not (inside[row] or holds_tunnel(packet)):
            seen.add(row, packet, int(chunk.caplen[row]), int(chunk.length[row]))
        if tally is not None:
            tally[outermost.__name__ if packet is not None else "given up by Scapy"] += 1
    if tally is not None:
        tally["no layer or no bytes"] += len(range(0, len(table), every)) - tried
        tally["structures"] += sum(map(len, seen.fields.values())) + sum(map(len, seen.attributes.values())) + len(seen.forms)
    return list(seen.compare()), raised, len(seen.rows)


def _values(
    what: StructType, matrix: npt.NDArray[np.uint8], values: list[dict[str, Any]], rows: npt.NDArray[np.int64], form: Any = None
) -> Iterator[Disagreement]:
    """Compare the fields that Scapy found with the bytes of the columns."""
    if not len(rows):
        return
    for one, names in _compared(what):
        name = next((name for name in names if name in values[0]), None)
        if name is None or (form is not None and one.owner is MAD and name in {f.name for f in form.declared.fields}):
            continue
        theirs = [fields.get(name) for fields in values]
        there = [i for i, value in enumerate(theirs) if value is not None]
        if not there:
            continue
        ours = _plain(one, matrix[there])
        differ = [i for i, value in zip(there, ours, strict=True) if value != _scapy(one, theirs[i])]
        if differ:
            yield Disagreement(f"{one.filter_name}: columns and Scapy differ in its value", rows[differ].tolist())


@cache
def _compared(what: StructType) -> list[tuple[Field[Any], tuple[str, ...]]]:
    fields = [field for field in what.fields if field.part_of is None and field.kind not in ("hole", "rest")]
    return [(field, (f"mad_{field.name}", field.name, f"{field.name}_")) for field in fields]


def _plain(one: Field[Any], matrix: npt.NDArray[np.uint8]) -> list[Any]:
    """A field of every row as Scapy keeps it: numbers, or bytes; a list for a repeated one."""
    if one.count > 1:
        entries = [_entry(one, matrix, bit) for bit in one.entries()]
        return [list(row) for row in zip(*entries, strict=True)]
    return _entry(one, matrix, one.bit)


def _entry(one: Field[Any], matrix: npt.NDArray[np.uint8], bit: int) -> list[Any]:
    if one.kind in ("uint", "flag", "pad") and one.bits <= 64:
        number = extract(matrix, bit, one.bits)
        numbers: list[Any] = (number.byteswap() if one.little else number).tolist()
        return numbers
    cut = [bytes(row[bit // 8 : (bit + one.bits) // 8]) for row in matrix]
    if one.kind in ("uint", "flag", "pad"):
        return [int.from_bytes(value, "big") for value in cut]
    return [value.rstrip(b"\0") for value in cut] if one.kind == "text" else cut


def _scapy(one: Field[Any], value: Any) -> Any:
    if isinstance(value, list):
        return [_scapy(one, entry) for entry in value]
    if one.kind == "gid":
        return socket.inet_pton(socket.AF_INET6, value)
    if one.kind == "ip4":
        return socket.inet_aton(value)
    if one.kind == "mac":
        return bytes.fromhex(value.replace(":", ""))
    if isinstance(value, Packet):
        return value.original
    return value


def is_malformed(packet: Packet, link_type: int, wire: int) -> bool:
    """The verdict that follows from Scapy's layers alone: a header is announced and not there, or a length is too large."""
    layers = []
    layer: Any = packet
    while layer:
        layers.append(layer)
        layer = layer.payload
    last = layers[-1] if layers else None
    kinds = {type(layer): layer for layer in reversed(layers)}
    erf = kinds.get(ERF)
    native = erf.kind() == INFINIBAND if erf is not None else link_type == LINK_INFINIBAND
    if native and LRH not in kinds:
        return True
    if isinstance(packet, LRH) or LRH in kinds:
        return _native(kinds, layers, wire)
    if erf is not None or last is None:
        return False
    return _over_ethernet(kinds, layers, wire)


def _native(kinds: dict[Any, Any], layers: list[Any], wire: int) -> bool:
    lrh = kinds[LRH]
    if not lrh.whole:
        size, grh = 4 * lrh.pktlen, kinds.get(GRH)
        cut = size > len(lrh.original) and wire + headers.ICRC.size < size <= LARGEST
        return not cut or (grh is not None and len(lrh.original) >= 48 and 48 + grh.pay_len != size)
    if lrh.lnh == 0:
        return RWH not in kinds
    if lrh.lnh == 1:
        return _transport_of(kinds, layers) if BTH in kinds else False
    if lrh.lnh == 3:
        if GRH not in kinds:
            return True
        if kinds[GRH].nxt_hdr != 0x1B:
            return False
    return _transport_of(kinds, layers)


def _transport_of(kinds: dict[Any, Any], layers: list[Any]) -> bool:
    """A BTH, all its extended headers, and a whole MAD header where one belongs."""
    bth = kinds.get(BTH)
    if bth is None:
        return True
    known = OPCODES.get(bth.opcode)
    behind = layers[layers.index(bth) + 1 :]
    names = known.headers if known is not None else ()
    for i, name in enumerate(names):
        if i >= len(behind) or not isinstance(behind[i], Layer) or behind[i].declared.__name__ != name:
            return True
    if bth.opcode in (0x64, 0x65) and bth.destqp <= 1:
        return len(behind) <= len(names) or not isinstance(behind[len(names)], MadLayer)
    return False


def _over_ethernet(kinds: dict[Any, Any], layers: list[Any], wire: int) -> bool:
    outer = layers[0]
    if isinstance(outer, CookedLinuxV2) and len(outer.original) < 20:
        return False  # Scapy takes a header without the unused bytes of its address
    type_of = next((x for x in reversed(layers) if isinstance(x, (Ether, Dot1Q, Dot1AD, CookedLinux, CookedLinuxV2))), None)
    if type_of is None:
        return False
    ethertype = type_of.fields.get("type", type_of.fields.get("proto"))
    if ethertype == encapsulation.ETHERTYPE_ROCE:
        grh = kinds.get(GRH)
        if grh is None:
            return True
        return bool(grh.whole) and grh.nxt_hdr == 0x1B and _transport_of(kinds, layers)  # one that is longer than its frame was cut
    udp = kinds.get(ScapyUDP)
    if udp is None or udp.fields.get("dport") != encapsulation.ROCE_PORT:
        return False
    ip = kinds.get(IP) or kinds.get(IPv6)
    if ip is None or not (ip.version == 4 and ip.ihl >= 5 if isinstance(ip, IP) else ip.version == 6):
        return False  # Scapy reads on behind headers that are none
    if ip_room(udp) < 8:
        return False
    start = len(outer.original) - len(ip.original)
    stop = start + (ip.len if isinstance(ip, IP) else 40 + ip.plen)
    behind, fragment = len(outer.original) - len(udp.original) + udp.len, isinstance(ip, IP) and bool(ip.flags.MF)
    if stop > wire:
        return behind <= wire or (behind > stop and not fragment)  # else it was cut
    return (udp.len > ip_room(udp) and not fragment) or _transport_of(kinds, layers)
