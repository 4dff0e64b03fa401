"""A scrubbed capture: harmless declared fields, substitutes for identities, zeros for the rest; no options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
from msgspec import structs

from ibdissect.capture.chunk import LINK_IPOIB, Chunk
from ibdissect.capture.gather import Bytes, gather
from ibdissect.capture.writing import CaptureWriter
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.hidden.key_numbers import secret_fields
from ibdissect.decode.ignored_data import as_read
from ibdissect.decode.services import Services
from ibdissect.engine.link_headers import extension_headers
from ibdissect.python_interface import Capture
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.encapsulation import IP6_EXTENSIONS, IP6_FRAGMENT, HopByHop, IP6Fragment, IPv6
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import BASE_VERSION_IB, MAD, RMPP_CLASSES
from ibdissect.wire.numbers import ABORT, DATA, SA_CLASS, SMP_CLASSES
from ibdissect.wire.pm import PerfMgtFormat
from ibdissect.wire.sa import SAFormat
from ibdissect.wire.spec import Field
from ibdissect.wire.tail import Laid

from . import checksums
from . import substitutes as subs
from .kinds import IDENTITIES, ScrubKind, kind_of, survivors
from .lids import ByLid
from .replacing import Replacement, Spot, gids, integers, learn, mark, replace, services, site_prefixes

ERF_HEADER = 16
TYPE_AT = 40
"""Offset of the Ethertype after the addresses of link type 242."""
RMPP_AT, SMP_LANE = MAD.size, 15


Text = tuple[int, str, int, bytes, bytes]
"""Where it is, the field's name, its size, the bytes, and what fills the room behind its substitute."""


class Scrubber:
    """Scrubs the chunks of one capture: first `survey` all of them, then `scrub` them, both in order."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        made: dict[str, Callable[[int, int], int]] = {
            "guid": subs.guid, "prefix": subs.prefix, "site": subs.site, "group": subs.group_id, "qpn": subs.qpn, "mac": subs.mac,
        }  # fmt: skip
        self.replacements = {name: Replacement(subs.NumberedSubstitutes(make), subs.SPECIAL[name]) for name, make in made.items()}
        self.replacements["ip4"] = Replacement(subs.Addresses(), subs.SPECIAL["ip4"])
        ports = catalog.roce_ports
        self.replacements["port"] = Replacement(
            subs.NumberedSubstitutes(lambda number, _: subs.port(number, ports)),
            lambda values: (values < subs.FIRST_DYNAMIC) | np.isin(values, ports),
        )
        self.lids = ByLid()
        self.texts = subs.NumberedSubstitutes(subs.text)
        self.wide_keys: dict[str, subs.NumberedSubstitutes] = {}
        self.headers, self.management = survivors(catalog)
        self._templates: dict[StructType, Bytes] = {}

    def replaced(self) -> Iterator[tuple[str, list[bytes]]]:
        """The identities and keys replaced so far by kind, except LIDs, QPNs, networks, ports and those that are also a substitute."""
        for name, each in self.replacements.items():
            short = name in ("qpn", "port") or (name.startswith(ScrubKind.NETWORK) and name != f"{ScrubKind.NETWORK} 64")
            size = 0 if short else {"ip4": 4, "mac": 6}.get(name, getattr(each.numbers, "size", 8))
            known = each.numbers.known
            yield name, [value.to_bytes(size, "big") for value in known.keys() - set(known.values()) if size]
        for name, keys in self.wide_keys.items():
            yield f"key {name}", list(keys.known)
        yield "text", [text for _, text in self.texts.known]

    def scrub(self, chunk: Chunk, services: Services | None = None) -> Chunk:
        """The scrubbed chunk; its records keep their offsets. `services`: what the capture has shown so far."""
        table = ChunkTable(chunk, self.catalog, services)
        data, read = np.zeros_like(chunk.data), table.once(as_read).data
        _containers(chunk, data)
        _extensions(table, data)
        spots: dict[str, list[Spot]] = {}
        marks: list[tuple[Int, Bytes]] = []
        texts: list[Text] = []
        for struct in (*self.headers, *self.management):
            at = self._places(table, struct)
            if not len(at):
                continue
            rows = gather(read, at, struct.size)
            index = at[:, None] + np.arange(struct.size)
            data[index] |= rows & self._template(struct)
            for field in struct.fields:
                if field.part_of is None and field.kind != "rest":
                    self._look(field, at, rows, spots, marks, texts)
            if struct.fields[-1].kind == "rest" and kind_of(struct.fields[-1]) is ScrubKind.TEXT:
                texts += self._variable_texts(table, struct, data)
        self._numbers(table, data, spots)
        self._texts(data, texts)
        _management(table, data)
        _cut_off(table, data)
        for at, mask in marks:
            mark(data, at, mask)
        scrubbed = structs.replace(chunk, data=data, front=None)
        checksums.seal(table, ChunkTable(scrubbed, self.catalog))
        return scrubbed

    def _places(self, table: ChunkTable, struct: StructType) -> Int:
        """Offsets of a structure: headers everywhere, all others in MADs only."""
        found = table.occurrences(struct)
        if struct in self.headers or not len(found):
            return found.at
        mad = table.located.at("mad")[found.rows]
        return found.at[(mad >= 0) & (found.at >= mad)]

    def _variable_texts(self, table: ChunkTable, struct: StructType, data: Bytes) -> Iterator[Text]:
        """The texts of variable size that a structure ends with. The marks that end them are declared, so they are copied."""
        field, read = struct.fields[-1], table.once(as_read).data
        laid = next((place for place in table.catalog.places(struct) if isinstance(place, Laid)), None)
        mark = laid.part.until if laid is not None and isinstance(laid.part.until, bytes) else b""
        kept = set(self._places(table, struct).tolist())
        found = table.occurrences(struct)
        for at, stop in zip(found.at.tolist(), found.stop.tolist(), strict=True):
            first, after = at + struct.size, stop + len(mark)
            if at in kept and read[first:stop].any():
                yield first, field.name, stop - first, read[first:stop].tobytes(), b"." if mark else b"\0"
            if at in kept and mark and read[stop:after].tobytes() == mark:
                data[stop:after] = read[stop:after]

    def _template(self, struct: StructType) -> Bytes:
        """Mask of the bits of a structure that are copied: those that stay, and those replaced later."""
        found = self._templates.get(struct)
        if found is None:
            bits = 0
            for field in struct.fields:
                whole = field if field.part_of is None else field.part_of[0]
                # A named part of a reserved field is judged by itself; a part of raw bytes is data like the whole.
                kind = kind_of(whole) if kind_of(whole) is not ScrubKind.MARK else kind_of(field)
                if field.kind != "rest" and (kind is ScrubKind.KEEP or kind in IDENTITIES):
                    for start in field.entries():
                        bits |= ((1 << field.bits) - 1) << (struct.size * 8 - start - field.bits)
            found = self._templates[struct] = np.frombuffer(bits.to_bytes(struct.size, "big"), np.uint8)
        return found

    def _look(
        self, field: Field[Any], at: Int, rows: Bytes, spots: dict[str, list[Spot]], marks: list[tuple[Int, Bytes]], texts: list[Any],
    ) -> None:  # fmt: skip
        """Collect what must be replaced in one field of all occurrences."""
        kind = kind_of(field)
        if kind in (ScrubKind.KEEP, ScrubKind.DROP):
            return
        for start in field.entries():
            first, last = start // 8, (start + field.bits + 7) // 8
            here, taken = at + first, rows[:, first:last]
            if kind is ScrubKind.MARK:
                bits = ((1 << field.bits) - 1) << (last * 8 - start - field.bits)
                mask = np.frombuffer(bits.to_bytes(last - first, "big"), np.uint8)
                some = (taken & mask).any(axis=1)
                if some.any():
                    marks.append((here[some], mask))
            elif kind is ScrubKind.TEXT or (field.bits > 64 and kind is ScrubKind.KEY):
                name = field.name if kind is ScrubKind.TEXT else field.secret
                size, some_of = last - first, zip(here.tolist(), taken, strict=True)
                texts += [(where, name, size, row.tobytes(), b"\0") for where, row in some_of if row.any()]
            elif kind is ScrubKind.SERVICE:
                for name, spot in services(here, integers(taken)):
                    spots.setdefault(name, []).append(spot)
            elif kind is ScrubKind.PREFIX and field.bits == 16:
                spots.setdefault("prefix", []).append(site_prefixes(here, integers(taken)))
            elif kind is ScrubKind.GID:
                for name, spot in gids(here, taken):
                    spots.setdefault(name, []).append(spot)
            else:
                name = (
                    f"key {field.secret}" if kind is ScrubKind.KEY else f"{kind} {field.bits}" if kind is ScrubKind.NETWORK else str(kind)
                )
                low = last * 8 - start - field.bits
                values = integers(taken) >> np.uint64(low) & np.uint64((1 << field.bits) - 1)
                spots.setdefault(name, []).append(Spot(here, field.bits, values, low))

    def _numbers(self, table: ChunkTable, data: Bytes, spots: dict[str, list[Spot]]) -> None:
        for name, found in spots.items():
            if name == "lid":
                continue
            known = self.replacements.get(name)
            if known is None:
                known = self.replacements[name] = self._made(name, found[0].bits)
            where = [~known.special(spot.values) for spot in found]
            learn(known.numbers, [(spot.at[keep], spot.values[keep]) for spot, keep in zip(found, where, strict=True)])
            for spot, keep in zip(found, where, strict=True):
                replace(data, spot, keep, known.numbers)
        self.lids.replace(table, data, spots.get("lid", []), lambda struct: self._places(table, struct))

    def _made(self, name: str, bits: int) -> Replacement:
        """Substitutes of keys of a kind, or of the numbers of networks with so many bits."""
        if name.startswith(ScrubKind.NETWORK):
            made = subs.NumberedSubstitutes(lambda number, _: subs.network(bits, number))
            return Replacement(made, lambda values: subs.special_networks(bits, values))
        kind = name.removeprefix("key ")
        bits = max([bits, *(field.bits for field in secret_fields(self.catalog) if field.secret == kind and field.bits <= 64)])
        return Replacement(subs.Keys(bits, privileged=kind == "Q_Key"), lambda values: subs.special_keys(kind, values))

    def _texts(self, data: Bytes, texts: list[Text]) -> None:
        """Replace strings, and keys too wide for an integer column, in byte order."""
        for at, name, size, value, fill in sorted(texts):
            if name.islower():
                key: tuple[str, bytes] = (name, value.split(b"\0", 1)[0])
                self.texts.learn([key] if key[1] else [])
                new = self.texts[key] if key[1] else b""
                if new[:size] == key[1]:  # what is left of it where there is little room
                    new = b""
            else:
                numbers = self.wide_keys.setdefault(name, subs.NumberedSubstitutes(lambda number, _value: number))
                numbers.learn([value])
                new = numbers[value].to_bytes(size, "big")
            data[at : at + size] = np.frombuffer(new[:size].ljust(size, fill), np.uint8)


def _containers(chunk: Chunk, data: Bytes) -> None:
    """Copy bytes before the packet that no structure covers: types of ERF extension headers, Ethertype of link type 242."""
    for row in np.flatnonzero((chunk.pseudo >= 0) & (chunk.offset - chunk.pseudo > ERF_HEADER)).tolist():
        types = slice(int(chunk.pseudo[row]) + ERF_HEADER, int(chunk.offset[row]), 8)
        data[types] = chunk.data[types]
    rows = np.flatnonzero((chunk.link == LINK_IPOIB) & (chunk.caplen >= TYPE_AT + 4))
    index = chunk.offset[rows][:, None] + TYPE_AT + np.arange(4)
    data[index] = chunk.data[index]


def _extensions(table: ChunkTable, data: Bytes) -> None:
    """Copy kind and size of all IPv6 extension headers: a structure shows only the last of each kind, and what follows needs all.

    Of a fragment, which is not read, its offset stays, too.
    """
    for name, starts in table.located.start.items():
        if name.partition(".")[0] == "ip6":
            rows, whole = np.flatnonzero(starts >= 0), table.chunk.data
            first = whole[starts[rows] + IPv6.next_header.bit // 8]
            rows = rows[np.isin(first, list(IP6_EXTENSIONS))]
            for at, end in zip(starts[rows].tolist(), table.located.end[rows].tolist(), strict=True):
                protocol, behind = int(whole[at + IPv6.next_header.bit // 8]), at + IPv6.size
                headers = extension_headers(whole.data, protocol, behind, end)
                for _, place, _, _ in headers:
                    for field in (HopByHop.next_header, HopByHop.length):
                        data[place + field.bit // 8] = whole[place + field.bit // 8]
                if headers:
                    _, _, protocol, behind = headers[-1]
                if protocol == IP6_FRAGMENT and behind + IP6Fragment.size <= end:  # with zeros it would be a whole packet
                    part = slice(behind + IP6Fragment.offset_.bit // 8, behind + IP6Fragment.identification.bit // 8)
                    data[part] = whole[part]


def _cut_off(table: ChunkTable, data: Bytes) -> None:
    """Copy the headers of MADs that are cut off within their class format: RMPP; for the SA also AttributeOffset and ComponentMask."""
    before, mad = table.chunk.data, table.occurrences(MAD)
    mad = mad.pick(before[mad.at] == BASE_VERSION_IB)
    rmpp, offset, mask = SAFormat.rmpp.span, SAFormat.attribute_offset.span, SAFormat.component_mask.span
    for (low, high), classes in ((rmpp, RMPP_CLASSES), (offset, {SA_CLASS}), (mask, {SA_CLASS})):
        at = mad.at[(mad.at + high <= mad.stop) & np.isin(before[mad.at + 1], list(classes))]
        index = at[:, None] + np.arange(low, high)
        data[index] = before[index]


def _management(table: ChunkTable, data: Bytes) -> None:
    """Copy bytes that rules read outside declared fields: RMPP headers of performance management, SMPs sent to other queue pairs."""
    before, located = table.chunk.data, table.located
    mad = table.occurrences(PerfMgtFormat).at
    head = before[mad[:, None] + RMPP_AT + np.arange(3)]
    mad = mad[(head[:, 0] == 1) & (head[:, 1] >= DATA) & (head[:, 1] <= ABORT) & (head[:, 2] & 1 == 1)]
    for byte, bits in enumerate((0xFF, 0xFF, 1)):
        data[mad + RMPP_AT + byte] |= before[mad + RMPP_AT + byte] & np.uint8(bits)
    lane, there = table.of_rows(LRH.vl)
    payload = located.at("payload")
    there = there & (lane == SMP_LANE) & (located.at("mad") < 0) & (payload >= 0)
    rows = np.flatnonzero(there & (payload + MAD.size <= located.payload_end))
    start = payload[rows]
    start = start[(before[start] == 1) & np.isin(before[start + 1], list(SMP_CLASSES))]
    for byte in (0, 1, 3):
        data[start + byte] = before[start + byte]


def write_scrubbed(opened: Capture, file: IO[bytes], container: str) -> tuple[int, Scrubber]:
    """Write the selected frames scrubbed; returns their number and the scrubber, for `verify`.

    Substitutes are assigned over all frames up to the last selected one, so that they do not depend on the selection. Raises
    CaptureError for a pipe, and if the container cannot hold a frame (a pcap has one link type).
    """
    opened.read_twice("to learn first how its LIDs are used")
    scrubber = Scrubber(opened.catalog)
    for table in opened.tables(keys=False, progress=opened.progress):
        scrubber.lids.survey(table)
    with CaptureWriter(file, container=container) as writer:
        for table, rows in opened.selected():
            known = opened.reader.interfaces
            if known is not None:
                writer.interfaces = known.without_options()
            scrubbed = scrubber.scrub(table.chunk, table.services)
            for row in rows.tolist():
                writer.add(scrubbed, row)
        return writer.frames, scrubber
