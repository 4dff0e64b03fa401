"""The RMPP transfers of a capture, and their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import End, ends_of
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.conversation_keys import between
from ibdissect.decode.hidden.unreadable_fields import holds_key
from ibdissect.decode.identity import Frame
from ibdissect.decode.reassembled import FrameSpan, JoinedRecords, SaRecord, WholeMessage
from ibdissect.decode.sa_tables import RMPP_END
from ibdissect.decode.services import Services
from ibdissect.dissect.build import dissect_row, fields_of
from ibdissect.dissect.shown_value import Presenter
from ibdissect.dissect.tree import Node
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.kept import nothing
from ibdissect.wire.mad import MAD, MAD_SIZE, OUI_CLASSES, RMPP, RMPP_CLASSES, RMPP_STATUS, method_name
from ibdissect.wire.numbers import DATA, LAST_SEGMENT, RESPONSE_BIT, SA_CLASS
from ibdissect.wire.places import VendorOui
from ibdissect.wire.sa import SARecordPiece
from ibdissect.wire.tail_walk import walk
from ibdissect.wire.text import counted
from ibdissect.wire.vendor import VendorOuiFormat

from .rmpp import RmppMessage
from .rmpp_reassembly import Reassembled, Reassembler


def messages(table: ChunkTable) -> Iterator[RmppMessage]:
    """Every MAD of the chunk that uses RMPP, in frame order."""
    yield from _messages(table, _rows(table))


def _messages(table: ChunkTable, rows: Int) -> Iterator[RmppMessage]:
    for row, ends in zip(rows.tolist(), ends_of(table, rows), strict=True):
        message = _message(table, row, ends)
        if message is not None:
            yield message


def _rows(table: ChunkTable) -> Int:
    mad = table.located.at("mad")
    rows = np.flatnonzero((mad >= 0) & (mad + RMPP_END <= table.located.payload_end))
    data, at = table.chunk.data, mad[rows]
    version, kind = (value_at(data, at + MAD.size, field) for field in (RMPP.rmpp_version, RMPP.rmpp_type))
    used = np.isin(value_at(data, at, MAD.mgmt_class), list(RMPP_CLASSES)) & (version != 0) & (kind != 0)
    found: Int = rows[used]
    return found


def _message(table: ChunkTable, row: int, ends: tuple[End, End]) -> RmppMessage | None:
    chunk, located = table.chunk, table.located
    frame, mad, stop = int(chunk.offset[row]), int(located.at("mad")[row]), int(located.payload_end[row])
    header = chunk.data[mad:stop].tobytes()
    mgmt_class, base_version = header[1], header[0]
    rmpp = RMPP(header, 24)
    data_at = table.catalog.data_at(mgmt_class, base_version)
    if len(header) < data_at:
        return None
    end = len(header)
    if rmpp.rmpp_type == DATA:
        end = min(end, MAD_SIZE.get(base_version, end))
        if rmpp.rmpp_flags & LAST_SEGMENT and rmpp.data2 <= end - RMPP_END:
            end = max(RMPP_END + rmpp.data2, data_at)
        elif end < MAD_SIZE.get(base_version, end):
            return None  # the capture cut the segment off: what follows it in the transfer would be taken for its end
    return RmppMessage(
        frame=chunk.first + row,
        time_ns=int(chunk.time_ns[row]),
        source=ends[0],
        destination=ends[1],
        mgmt_class=mgmt_class,
        tid=int.from_bytes(header[8:16], "big"),
        method=header[3],
        attribute=int.from_bytes(header[16:18], "big"),
        kind=rmpp.rmpp_type,
        flags=rmpp.rmpp_flags,
        status=rmpp.rmpp_status,
        number=rmpp.data1,
        length=rmpp.data2,
        step=int.from_bytes(header[44:46], "big") * 8 if mgmt_class == SA_CLASS else 0,
        offset=mad - frame + data_at,
        oui=VendorOuiFormat(header).oui if mgmt_class in OUI_CLASSES else None,
        data=header[data_at:end] if rmpp.rmpp_type == DATA else b"",
    )


class Transfers(Reassembler):
    """Reassembles the transfers of a capture, chunk by chunk."""

    def feed(self, table: ChunkTable) -> dict[Frame, Reassembled]:
        """The transfers that ended in a chunk, by frame, without evicted ones. Feed chunks in capture order."""
        ended: dict[Frame, Reassembled] = {}
        for message in messages(table):
            for transfer in self.put(message):
                if transfer.end_frame:
                    ended[transfer.end_frame] = transfer
        return ended


class RecordReassembler(Reassembler):
    """Joins each record that straddles segments as soon as its last segment was seen, whatever becomes of the transfer; and what a vendor's
    MADs carry in several segments, when all have been seen."""

    def __init__(self, found: JoinedRecords) -> None:
        super().__init__()
        self.found = found

    def feed(self, table: ChunkTable) -> None:
        """Process a chunk; in capture order. Of the SA, it uses only segments with pieces of records, and those that show that a transfer
        begins anew."""
        rows = _rows(table)
        kind = value_at(table.chunk.data, table.located.at("mad")[rows] + MAD.size, RMPP.rmpp_type)
        classes = value_at(table.chunk.data, table.located.at("mad")[rows], MAD.mgmt_class)
        rows = rows[(kind != DATA) | (classes != SA_CLASS) | np.isin(rows, table.occurrences(SARecordPiece).rows)]
        self.catalog = table.catalog
        for message in _messages(table, rows):
            self.put(message)

    def on_data(self, transfer: Reassembled, message: RmppMessage) -> None:
        again = message.number in transfer.segments
        super().on_data(transfer, message)
        if again or message.number not in transfer.segments:
            return
        if message.mgmt_class != SA_CLASS:
            self._vendors(transfer, message.frame)
        else:
            struct = self.catalog.attribute(message.mgmt_class, message.attribute, message.method)
            for number, data, spans in transfer.joined(message.number):
                self.found.put(message.frame, record_of(struct, number, data, spans))

    def _vendors(self, transfer: Reassembled, frame: int) -> None:
        """Keep what a vendor's MADs carried in several segments, if the last of them to come was in `frame`."""
        place = place_of(transfer, self.catalog) if transfer.complete and len(transfer.segments) > 1 else None
        if place is not None and transfer.contradicting and holds_key(self.catalog, place[1]):
            return
        for _, data, spans in transfer.records() if place is not None else ():
            self.found.put(frame, WholeMessage(data, spans, 0, 0, stream=place and place[0]))


def records(transfer: Reassembled, catalog: Catalog) -> Iterator[SaRecord]:
    """The complete records of a transfer; of one with keys only those in front of the first missing segment, and none if segments of one
    number contradict each other: read at another place, a key would be another field."""
    first = transfer.first
    if first.mgmt_class == SA_CLASS and first.method & RESPONSE_BIT and not first.step:
        return  # AttributeOffset 0: the response has no records (IBA 15.2.1.1)
    struct, place = catalog.attribute(first.mgmt_class, first.attribute, first.method), place_of(transfer, catalog)
    carried = struct if place is None else place[1]
    keys, missing = carried is not None and holds_key(catalog, carried), min((low for low, _ in transfer.gaps()), default=0)
    if keys and transfer.contradicting:
        return
    seen = {segment.frame for number, segment in transfer.segments.items() if not missing or number < missing}
    for number, data, spans in transfer.records():
        if keys and not (all(span.frame in seen for span in spans) and (place is not None or _certain(carried, data, first.step))):
            return
        one = record_of(carried, number, data, spans)
        yield one if place is None else replace(one, place=place[0], spoken=between(first.source, first.destination))


def _certain(struct: StructType | None, data: bytes, step: int) -> bool:
    """Whether a record with a tail fits its AttributeOffset: the tail has room and is read to its end."""
    if struct is None or struct.tail is None or not step:
        return True
    if len(data) < step or step <= -(-struct.size // 8) * 8:
        return False
    found = walk(struct, memoryview(data), 0, len(data), {}, memory=nothing)
    return found.whole and not any(data[found.stop :])


def place_of(transfer: Reassembled, catalog: Catalog) -> tuple[VendorOui, StructType] | None:
    """What a vendor's MADs carry: the place and its structure; None for other classes, and if it is unknown."""
    first = transfer.first
    found = (one for one in catalog.of_vendors if one[0].takes(first.mgmt_class, first.attribute, first.oui, first.method))
    return next(found, None) if first.oui is not None else None


def record_of(struct: StructType | None, number: int, data: bytes, spans: tuple[FrameSpan, ...]) -> SaRecord:
    fits = struct is not None and len(data) >= struct.size
    return SaRecord(number, data, spans, struct(data, 0, len(data)) if fits and struct is not None else None)


def headline(transfer: Reassembled, catalog: Catalog) -> str:
    """`SubnAdmGetTableResp(NodeRecord), 22 records in 13 segments, frames 1052-1065`."""
    first, frames = transfer.first, transfer.frames
    place = place_of(transfer, catalog)
    name = place[1].title if place is not None else catalog.attribute_name(first.mgmt_class, first.attribute, first.method, oui=first.oui)
    count = sum(1 for _ in records(transfer, catalog))
    parts = [
        f"{method_name(first.mgmt_class, first.method)}({name})",
        f"{counted(count, 'record')} in {counted(len(frames), 'segment')}",
        f"frames {min(frames)}-{max(frames)}" if len(frames) > 1 else f"frame {frames[0]}",
    ]
    gaps = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in transfer.gaps())
    if gaps:
        parts.append(f"missing segments {gaps}")
    if transfer.repeated:
        parts.append(f"{len(transfer.repeated)} segments repeated")
    if transfer.contradicting:
        parts.append(f"{len(transfer.contradicting)} segments repeated with other bytes")
    if transfer.ended in ("stopped", "aborted"):
        parts.append(f"{transfer.ended}: {RMPP_STATUS.get(transfer.status, f'status {transfer.status}')}")
    return ", ".join(parts)


def nodes(transfer: Reassembled, catalog: Catalog, services: Services, presenter: Presenter) -> Iterator[tuple[SaRecord, Node]]:
    """The records, also as trees."""
    for record in records(transfer, catalog):
        yield record, node_of(record, catalog, services, presenter)


def node_of(record: SaRecord, catalog: Catalog, services: Services, presenter: Presenter) -> Node:
    """A record as a tree. Offsets count from the start of the record; its text lists its frames.

    `services`: what conversations have shown, which decides how a vendor's structure may be read.
    """
    view, size = record.view, len(record.data)
    title = type(view).title if view is not None else "Record"
    node = Node("", f"{title}[{record.number}]", 0, size, 0, size * 8, None, _places(record.spans), raw=record.data)
    if view is not None:
        node.struct = type(view)
        if record.place is None:
            node.children = fields_of(type(view), record.data, presenter, catalog)
        else:
            message = WholeMessage(record.data, record.spans, 0, 0, stream=record.place)
            frame = max(span.frame for span in record.spans)
            table = ChunkTable.of_message(message, frame, catalog, services, record.spoken)
            node.children = dissect_row(table, 0, presenter).layers
    return node


def _places(spans: tuple[FrameSpan, ...]) -> str:
    return ", ".join(f"frame {span.frame} bytes {span.offset}-{span.offset + span.length - 1}" for span in spans)


def as_json(transfer: Reassembled, catalog: Catalog, services: Services, presenter: Presenter) -> dict[str, Any]:
    """The records of a transfer, each with the bytes of the frames that it came from; docs/contract.md describes the keys."""
    shown = [record_json(record, catalog, services, presenter) for record in records(transfer, catalog)]
    return {"text": headline(transfer, catalog), "frames": transfer.frames, "records": shown}


def record_json(record: SaRecord, catalog: Catalog, services: Services, presenter: Presenter) -> dict[str, Any]:
    pieces = [{"frame": span.frame, "offset": span.offset, "length": span.length} for span in record.spans]
    name = type(record.view).title if record.view is not None else "Record"
    fields = [plain(child) for child in node_of(record, catalog, services, presenter).children]
    return {"record": record.number, "layer": name, "pieces": pieces, "fields": fields}


def plain(node: Node) -> dict[str, Any]:
    """A field as `show --format json` writes it."""
    keys = ("name", "label", "offset", "length", "bit", "bits", "value", "text")
    below = {"fields": [plain(child) for child in node.children]} if node.children else {}
    return {key: getattr(node, key) for key in keys} | below


def joined_in(table: ChunkTable) -> dict[Frame, list[SaRecord]]:
    """The records that straddle segments, by the frame of the chunk that completed them."""
    found: dict[Frame, list[SaRecord]] = {}
    for row, record in table.shown.joined:
        if isinstance(record, SaRecord):
            found.setdefault(table.chunk.first + row, []).append(record)
    return found


def reassembled_nodes(
    transfer: Reassembled | None, joined: Sequence[SaRecord], catalog: Catalog, services: Services, presenter: Presenter
) -> list[Node]:
    """A layer with the records of a transfer that the frame completed, else with the records that it `joined`; empty without any."""
    if transfer is not None and len(transfer.segments) > 1:
        text, shown = headline(transfer, catalog), list(records(transfer, catalog))
    else:
        text, shown = "records that end in this frame", list(joined)
    below = [node_of(each, catalog, services, presenter) for each in shown]
    return [Node("", "Reassembled", 0, 0, 0, 0, None, text, below)] if shown else []
