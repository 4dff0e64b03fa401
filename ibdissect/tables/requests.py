"""Requests and their answers as a table: management datagrams, and what structures of plugins declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from ibdissect.decode.counted_packets import Distinct
from ibdissect.mad.request_outcomes import Answered, AnsweredMany, Request, Unanswered
from ibdissect.mad.transactions import Transactions
from ibdissect.transport.plugin_requests import PluginAnswers, PluginRequest, answering
from ibdissect.wire.numbers import DIRECTED

from .arrow import SECONDS, TIME, in_batches
from .capture_table import TableSource

SCHEMA = pa.schema([
    ("request", pa.string()), ("source", pa.string()), ("destination", pa.string()), ("time", TIME), ("request_frame", pa.int64()),
    ("last_request_frame", pa.int64()), ("tries", pa.int64()), ("response_frame", pa.int64()), ("response_time", SECONDS),
    ("status", pa.int64()),
])  # fmt: skip
"""One row per request, answered ones in the order of their answers, the others behind them. `request` is `SubnGet(NodeInfo)`, or the title
of a plugin's structure; `last_request_frame` is that of its latest try, from which `response_time` counts; `status` is that of the MAD that
answers."""
Row = tuple[Any, ...]


def batches(opened: TableSource) -> Iterator[pa.RecordBatch]:
    """The requests of which a frame is selected, as record batches of SCHEMA."""
    return in_batches(_rows(opened), SCHEMA)


def _rows(opened: TableSource) -> Iterator[Row]:
    transactions, of_plugins, distinct = Transactions(), PluginAnswers(), Distinct()
    only, chosen, late = opened.selection, bytearray(), list[Row]()

    def wanted(rows: Iterable[Row]) -> Iterator[Row]:
        return (row for row in rows if only is None or any(frame and chosen[frame - 1] for frame in (row[4], row[5], row[7])))

    def of_mad(request: Request, answer: Answered | None = None) -> Row:
        about = request.what(opened.catalog), str(request.source), request.to, request.time_ns
        frames = request.frame, request.last_frame, request.tries
        return *about, *frames, *((None,) * 3 if answer is None else (answer.frame, answer.latency_ns, _status(answer)))

    for table in opened.tables(keys=False, progress=opened.progress):
        if only is not None:
            chosen += only.rows(table).tobytes()
        table = distinct.of(table)
        for event in transactions.feed(table):
            if isinstance(event, AnsweredMany):
                yield from wanted(of_mad(one.request, one) for one in event.each())
            elif isinstance(event, Unanswered):
                late.append(of_mad(event.request))
        for one in of_plugins.feed(table) if answering(opened.catalog) else ():
            yield from wanted([(*_of_plugin(one.request), one.frame, one.latency_ns, None)])
    late += (of_mad(one) for one in transactions.open_requests())
    late += ((*_of_plugin(one), None, None, None) for one in of_plugins.open.values())
    yield from wanted(sorted(late, key=lambda row: int(row[4])))


def _status(answer: Answered) -> int:
    """The status without the bit that is the direction of an SMP on a directed route."""
    return answer.status & 0x7FFF if answer.request.mgmt_class == DIRECTED else answer.status


def _of_plugin(one: PluginRequest) -> Row:
    source, destination = map(str, one.ends)
    return one.struct.title, source, destination, one.time_ns, one.frame, one.frame, 1
