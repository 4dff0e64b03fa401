"""Records of RMPP transfers as a table, including those that straddle segments."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from ibdissect.dissect.tree import Node
from ibdissect.mad.rmpp_reassembly import Reassembled, Transfers
from ibdissect.transport.completed import record_nodes
from ibdissect.wire.mad import method_name

from .arrow import TIME, in_batches
from .capture_table import TableSource

SCHEMA = pa.schema([
    ("layer", pa.string()), ("record", pa.int64()), ("frames", pa.list_(pa.int64())), ("offsets", pa.list_(pa.int64())),
    ("lengths", pa.list_(pa.int64())), ("source", pa.string()), ("destination", pa.string()), ("time", TIME), ("mgmt_class", pa.int64()),
    ("method", pa.string()), ("attribute", pa.string()), ("transaction", pa.uint64()), ("segments", pa.int64()), ("complete", pa.bool_()),
    ("fields", pa.string()),
])  # fmt: skip
"""One row per record, in the order in which the transfers ended. `frames`, `offsets` and `lengths` say where its bytes are; `time` is that
of the transfer's first segment, `complete` whether all segments were seen; `fields` are filter names with values, as a JSON object."""


def batches(opened: TableSource, masked: Counter[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The records of which a frame is selected, as record batches of SCHEMA.

    `masked` counts the keys that are null, by filter name.
    """
    return in_batches(_rows(opened, masked if masked is not None else Counter()), SCHEMA)


def _rows(opened: TableSource, masked: Counter[str]) -> Iterator[tuple[Any, ...]]:
    transfers, only, chosen = Transfers(), opened.selection, bytearray()
    presenter = opened.presenter()

    def of(ended: Iterable[Reassembled]) -> Iterator[tuple[Any, ...]]:
        for transfer in ended:
            first, catalog = transfer.first, opened.catalog
            about = (
                str(first.source), str(first.destination), first.time_ns, first.mgmt_class, method_name(first.mgmt_class, first.method),
                catalog.attribute_name(first.mgmt_class, first.attribute, first.method), first.tid, len(transfer.segments),
                transfer.complete,
            )  # fmt: skip
            for record, node in record_nodes(transfer, catalog, opened.services, presenter):
                places = [(span.frame, span.offset, span.length) for span in record.spans]
                if only is None or any(chosen[frame - 1] for frame, _, _ in places):
                    masked.update(leaf.name for leaf in _leaves(node.children) if leaf.masked and leaf.value is None)
                    layer = type(record.view).title if record.view is not None else None
                    yield layer, record.number, *map(list, zip(*places, strict=True)), *about, json.dumps(_values(node.children))

    for table in opened.tables(keys=True, progress=opened.progress):
        if only is not None:
            chosen += only.rows(table).tobytes()
        yield from of(transfers.feed(table).values())
    yield from of(transfers.unfinished())


def _values(fields: Iterable[Node]) -> dict[str, Any]:
    """The fields of a record by filter name; one that occurs several times is a list."""
    found: dict[str, list[Any]] = {}
    for node in _leaves(fields):
        if node.name:
            found.setdefault(node.name, []).append(node.value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _leaves(fields: Iterable[Node]) -> Iterator[Node]:
    for node in fields:
        if node.children:
            yield from _leaves(node.children)
        else:
            yield node
