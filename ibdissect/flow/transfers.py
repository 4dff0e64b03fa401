"""Which RMPP transfers does a capture contain, and what are their records?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ibdissect.dissect.tree import Node, fields_of
from ibdissect.dissect.value import Presenter
from ibdissect.table.addresses import ends_at
from ibdissect.table.bits import value_at
from ibdissect.table.locate import Int
from ibdissect.table.sa_tables import MAD_SIZE, RMPP_END
from ibdissect.table.table import ChunkTable
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.mad import MAD, RMPP, RMPP_CLASSES, RMPP_STATUS, method_name
from ibdissect.wire.numbers import DATA, LAST_SEGMENT, RESPONSE_BIT, SA_CLASS
from ibdissect.wire.spec import Struct
from ibdissect.wire.text import counted

from .reassembly import Reassembled, Reassembler, Span
from .rmpp import Message


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a transfer."""

    number: int
    """Index in the whole transfer, from 0; missing records count."""
    data: bytes
    spans: tuple[Span, ...]
    """Where its bytes came from, in order."""
    view: Struct | None
    """None if the attribute is unknown or the record is too short for it."""


def messages(table: ChunkTable) -> Iterator[Message]:
    """Every MAD of the chunk that uses RMPP, in frame order."""
    for row in _rows(table).tolist():
        message = _message(table, row)
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


def _message(table: ChunkTable, row: int) -> Message | None:
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
    ends = ends_at(table, row)
    return Message(
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
        data=header[data_at:end] if rmpp.rmpp_type == DATA else b"",
    )


class Transfers(Reassembler):
    """Reassembles the transfers of a capture, chunk by chunk."""

    def feed(self, table: ChunkTable) -> dict[int, Reassembled]:
        """The transfers that ended in a chunk, by frame, without evicted ones. Feed chunks in capture order."""
        ended: dict[int, Reassembled] = {}
        for message in messages(table):
            for transfer in self.put(message):
                if transfer.end_frame:
                    ended[transfer.end_frame] = transfer
        return ended


def records(transfer: Reassembled, catalog: Catalog) -> Iterator[Record]:
    """The complete records of a transfer."""
    first = transfer.first
    if first.mgmt_class == SA_CLASS and first.method & RESPONSE_BIT and not first.step:
        return  # AttributeOffset 0: the response has no records (IBA 15.2.1.1)
    struct = catalog.attribute(first.mgmt_class, first.attribute, first.method)
    for number, data, spans in transfer.records():
        fits = struct is not None and len(data) >= struct.size
        yield Record(number, data, spans, struct(data, 0, len(data)) if fits and struct is not None else None)


def headline(transfer: Reassembled, catalog: Catalog) -> str:
    """`SubnAdmGetTableResp(NodeRecord), 22 records in 13 segments, frames 1052-1065`."""
    first, frames = transfer.first, transfer.frames
    name = catalog.attribute_name(first.mgmt_class, first.attribute, first.method)
    count = sum(1 for _ in records(transfer, catalog))
    said = [
        f"{method_name(first.mgmt_class, first.method)}({name})",
        f"{counted(count, 'record')} in {counted(len(frames), 'segment')}",
        f"frames {min(frames)}-{max(frames)}" if len(frames) > 1 else f"frame {frames[0]}",
    ]
    gaps = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in transfer.gaps())
    if gaps:
        said.append(f"missing segments {gaps}")
    if transfer.repeated:
        said.append(f"{len(transfer.repeated)} segments repeated")
    if transfer.contradicting:
        said.append(f"{len(transfer.contradicting)} segments repeated with other bytes")
    if transfer.ended in ("stopped", "aborted"):
        said.append(f"{transfer.ended}: {RMPP_STATUS.get(transfer.status, f'status {transfer.status}')}")
    return ", ".join(said)


def nodes(transfer: Reassembled, catalog: Catalog, presenter: Presenter) -> Iterator[tuple[Record, Node]]:
    """The records, also as trees. Field offsets count from the start of the record; the text of a record lists its frames."""
    for record in records(transfer, catalog):
        view = record.view
        title = type(view).title if view is not None else "Record"
        first = record.spans[0]
        node = Node("", f"{title}[{record.number}]", first.offset, len(record.data), 0, len(record.data) * 8, None, _places(record.spans))
        node.raw = record.data
        if view is not None:
            node.struct = type(view)
            node.children = fields_of(type(view), record.data, presenter, catalog)
        yield record, node


def _places(spans: tuple[Span, ...]) -> str:
    return ", ".join(f"frame {span.frame} bytes {span.offset}-{span.offset + span.length - 1}" for span in spans)


def as_json(transfer: Reassembled, catalog: Catalog, presenter: Presenter) -> dict[str, Any]:
    """The records of a transfer, each with the bytes of the frames that it came from; docs/contract.md describes the keys."""
    shown = []
    for record, node in nodes(transfer, catalog, presenter):
        pieces = [{"frame": span.frame, "offset": span.offset, "length": span.length} for span in record.spans]
        name = type(record.view).title if record.view is not None else "Record"
        shown.append({"record": record.number, "layer": name, "pieces": pieces, "fields": [_plain(child) for child in node.children]})
    return {"text": headline(transfer, catalog), "frames": transfer.frames, "records": shown}


def _plain(node: Node) -> dict[str, Any]:
    """A field as `show --format json` writes it."""
    keys = ("name", "label", "offset", "length", "bit", "bits", "value", "text")
    below = {"fields": [_plain(child) for child in node.children]} if node.children else {}
    return {key: getattr(node, key) for key in keys} | below


def outline(transfer: Reassembled, catalog: Catalog, presenter: Presenter) -> list[Node]:
    """A layer with the records of a transfer, for the frame that completed it; none if the transfer has one segment only."""
    if len(transfer.segments) < 2:
        return []
    below = [node for _, node in nodes(transfer, catalog, presenter)]
    return [Node("", "Reassembled", 0, 0, 0, 0, None, headline(transfer, catalog), below)]
