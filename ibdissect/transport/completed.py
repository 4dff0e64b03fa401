"""What a frame completes, as it is shown: records of RMPP transfers and whole messages, as nodes of the tree and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, groupby
from typing import Any

import numpy as np
from msgspec.structs import asdict

from ibdissect.decode import ChunkTable
from ibdissect.decode.conversation_keys import conversations
from ibdissect.decode.conversation_values import depended
from ibdissect.decode.identity import Frame
from ibdissect.decode.reassembled import FrameSpan, SaRecord, WholeMessage
from ibdissect.decode.services import Services
from ibdissect.dissect.frame_trees import dissect_row, fields_of
from ibdissect.dissect.shown_value import Presenter
from ibdissect.dissect.tree import Node, Tree
from ibdissect.mad.rmpp_reassembly import Reassembled, place_of, records
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.mad import RMPP_STATUS, method_name
from ibdissect.wire.places import VendorOui
from ibdissect.wire.text import counted

FIELD_KEYS = ("name", "label", "offset", "length", "bit", "bits", "value", "text")


def transfer_text(transfer: Reassembled, catalog: Catalog) -> str:
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


def message_text(message: WholeMessage) -> str:
    """`4 packets, 8312 bytes, frames 20-23`; with chunks `1 packet and 3 of RDMA, ...`."""
    frames, moved = {span.frame for span in message.spans}, {span.frame for span in message.chunks}
    of_rdma = f" and {len(moved)} of RDMA" if moved else ""
    size = counted(len(message.data), "byte")
    return f"{counted(len(frames - moved), 'packet')}{of_rdma}, {size}, frames {min(frames)}-{max(frames)}"


def record_node(record: SaRecord, catalog: Catalog, services: Services, presenter: Presenter) -> Node:
    """A record as a tree. Offsets count from the start of the record; its text lists its frames.

    `services`: what conversations have shown, which decides how a vendor's structure may be read.
    """
    view, size = record.view, len(record.data)
    node = Node("", f"{_title(record)}[{record.number}]", 0, size, 0, size * 8, None, _places(record.spans), raw=record.data)
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


def record_nodes(transfer: Reassembled, catalog: Catalog, services: Services, presenter: Presenter) -> Iterator[tuple[SaRecord, Node]]:
    """The records of a transfer, also as trees."""
    for record in records(transfer, catalog):
        yield record, record_node(record, catalog, services, presenter)


def layers_of(message: WholeMessage, table: ChunkTable, row: int, presenter: Presenter) -> list[Node]:
    """What a message says as a whole that a row completes; offsets count from its start."""
    (spoken,) = conversations(table, np.array([row])) if depended(table.catalog) else (None,)
    (frame,) = table.numbers(np.array([row]))
    return dissect_row(ChunkTable.of_message(message, frame, table.catalog, table.services, spoken), 0, presenter).layers


def records_in(table: ChunkTable) -> dict[Frame, list[SaRecord]]:
    """The records that straddle segments, by the frame of the chunk that completed them."""
    found: dict[Frame, list[SaRecord]] = {}
    for row, one in table.shown.joined:
        if isinstance(one, SaRecord):
            found.setdefault(table.chunk.first + row, []).append(one)
    return found


def messages_in(table: ChunkTable) -> dict[Frame, list[WholeMessage]]:
    """The messages that frames of the chunk completed, by frame."""
    found: dict[Frame, list[WholeMessage]] = {}
    for row, one in table.shown.joined:
        if isinstance(one, WholeMessage) and one.data:
            found.setdefault(table.chunk.first + row, []).append(one)
    return found


def completed(table: ChunkTable, row: int, presenter: Presenter, ended: Reassembled | None = None) -> list[Node]:
    """The nodes for `Tree.joined`: the records (all of a transfer that `ended`) and the messages that a row completes."""
    frame, catalog, layers = table.chunk.first + row, table.catalog, list[Node]()
    messages = table.once(messages_in).get(frame, [])
    if ended is not None and len(ended.segments) > 1:
        text, shown = transfer_text(ended, catalog), list(records(ended, catalog))
    else:
        text, shown = "records that end in this frame", table.once(records_in).get(frame, [])
    if shown:
        below = [record_node(each, catalog, table.services, presenter) for each in shown]
        layers.append(Node("", "Reassembled", 0, 0, 0, 0, None, text, below))
    for message in messages if ended is None else [one for one in messages if not isinstance(one.stream, VendorOui)]:
        below = [*layers_of(message, table, row, presenter), *_moved_nodes(message)]
        layers.append(Node("", "Message", 0, 0, 0, 0, None, message_text(message), below, raw=message.data))
    return layers


def whole_tree(table: ChunkTable, presenter: Presenter) -> Tree:
    """The tree of a table of one row, with what the row completes."""
    tree = dissect_row(table, 0, presenter)
    tree.joined = completed(table, 0, presenter)
    return tree


def completed_json(table: ChunkTable, row: int, presenter: Presenter, ended: Reassembled | None = None) -> dict[str, Any]:
    """The same as `show --format json` writes it behind the layers of the frame; docs/contract.md describes the keys."""
    frame, found = table.chunk.first + row, dict[str, Any]()
    if joined := table.once(records_in).get(frame):
        found["joined"] = [_record_json(each, table, presenter) for each in joined]
    if ended is not None and len(ended.segments) > 1:
        shown = [_record_json(each, table, presenter) for each in records(ended, table.catalog)]
        found["reassembled"] = {"text": transfer_text(ended, table.catalog), "frames": ended.frames, "records": shown}
    if messages := [_message_json(each, table, row, presenter) for each in table.once(messages_in).get(frame, ())]:
        found["message"] = messages[0]
        if len(messages) > 1:
            found["messages"] = messages
    return found


def _record_json(record: SaRecord, table: ChunkTable, presenter: Presenter) -> dict[str, Any]:
    fields = [_field_json(child) for child in record_node(record, table.catalog, table.services, presenter).children]
    return {"record": record.number, "layer": _title(record), "pieces": [*map(asdict, record.spans)], "fields": fields}


def _message_json(message: WholeMessage, table: ChunkTable, row: int, presenter: Presenter) -> dict[str, Any]:
    layers = [
        {"layer": node.label, "offset": node.offset, "length": node.length, "fields": [*map(_field_json, node.children)]}
        for node in layers_of(message, table, row, presenter)
    ]
    return {"text": message_text(message), "pieces": [*map(asdict, message.spans)], "layers": layers}


def _field_json(node: Node) -> dict[str, Any]:
    """A field as `dissect.json_lines` writes those of the frame itself."""
    below = {"fields": [*map(_field_json, node.children)]} if node.children else {}
    return {key: getattr(node, key) for key in FIELD_KEYS} | below


def _title(record: SaRecord) -> str:
    return type(record.view).title if record.view is not None else "Record"


def _places(spans: tuple[FrameSpan, ...]) -> str:
    return ", ".join(f"frame {span.frame} bytes {span.offset}-{span.offset + span.length - 1}" for span in spans)


def _moved_nodes(message: WholeMessage) -> Iterator[Node]:
    """The parts of a message that RDMA moved, with their frames; without the bytes, which fields of other layers have."""
    ends = list(accumulate(span.length for span in message.spans))
    for moved, run in groupby(zip(message.spans, ends, strict=True), lambda one: one[0] in message.chunks):
        if moved:
            places = list(run)
            size = sum(span.length for span, _ in places)
            text = f"{counted(size, 'byte')}, {counted(len(places), 'packet')}, frames {places[0][0].frame}-{places[-1][0].frame}"
            yield Node("", "Moved by RDMA", places[-1][1] - size, size, 0, size * 8, None, text)
