"""Which tables does SQL see, and how is a query answered?"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import IO, Any

import duckdb
import numpy as np
import pyarrow as pa

from ibdissect.errors import CaptureError, FilterError
from ibdissect.lint.finding import Finding
from ibdissect.session.arrow import ArrowColumns, Named, named_columns
from ibdissect.session.capture import Capture
from ibdissect.wire.text import printable

from . import findings, messages, tables
from .frames import Shown, selected

PACKETS = (
    "frame.number", "frame.time", "frame.len", "frame.cap_len", "frame.interface_id", "_ws.col.source", "_ws.col.destination",
    "_ws.col.protocol", "_ws.malformed", "ip.src", "ip.dst", "infiniband.lrh.slid", "infiniband.lrh.dlid", "infiniband.lrh.vl",
    "infiniband.lrh.sl", "infiniband.grh.sgid", "infiniband.grh.dgid", "infiniband.bth.opcode", "infiniband.bth.p_key",
    "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.a", "infiniband.deth.srcqp", "infiniband.reth.dmalen",
    "infiniband.aeth.syndrome", "_ws.col.info",
)  # fmt: skip
MADS = (
    "frame.number", "frame.time", "_ws.col.source", "_ws.col.destination", "infiniband.mad.mgmtclass", "infiniband.mad.method",
    "infiniband.mad.status", "infiniband.mad.transactionid", "infiniband.mad.attributeid", "infiniband.mad.attributemodifier",
    "_ws.col.info",
)  # fmt: skip
PORTS = (
    "frame.number", "frame.time", "infiniband.portinfo.lid", "infiniband.portinfo.mastersmlid", "infiniband.portinfo.localportnum",
    "infiniband.portinfo.portstate", "infiniband.portinfo.portphysicalstate", "infiniband.portinfo.lmc",
    "infiniband.portinfo.linkwidthactive", "infiniband.portinfo.linkspeedactive",
)  # fmt: skip
"""One row per frame with a PortInfo: the state of a port at that time."""
BATCH = 4096
_NOTHING = pa.RecordBatchReader.from_batches(pa.schema([]), [])
"""The empty result of a statement that returns nothing."""
SHOWN_ROWS = 10_000
"""Most rows of the text table; the other formats write all."""


class Database:
    """A DuckDB of one capture, on disk in a private folder; only tables that the query uses are filled."""

    def __init__(self, opened: Capture, shown: Shown | None, names: Iterable[str], found: Callable[[], list[Finding]]) -> None:
        self.opened, self.shown, self.findings = opened, shown, found
        known = opened.catalog.names
        self.names = {
            "packets": named_columns(opened.catalog, [*_there(PACKETS, known), *names], first=True),
            "mads": named_columns(opened.catalog, _there(MADS, known), first=True),
            "ports": named_columns(opened.catalog, _there(PORTS, known), first=True),
        }
        self._folder = tempfile.TemporaryDirectory(prefix="ibdissect-sql-")
        try:
            self.connection = duckdb.connect(f"{self._folder.name}/capture.duckdb")
            self.connection.execute("SET memory_limit = '128MB'; SET preserve_insertion_order = true")
        except duckdb.Error as error:  # no space, or no permission to write
            self._folder.cleanup()
            raise _not_loaded(opened, error) from error

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.connection.close()
        finally:
            self._folder.cleanup()

    def run(self, query: str) -> pa.RecordBatchReader:
        """The result of a query in batches. Raises FilterError if DuckDB rejects it."""
        try:
            self._fill([name for name in (*self.names, "findings", "messages") if name in query.lower()])
        except duckdb.Error as error:
            raise _not_loaded(self.opened, error) from error
        try:
            # A query must not be able to read or write other files.
            self.connection.execute("SET enable_external_access = false; SET lock_configuration = true")
            result = self.connection.sql(query)
            return _NOTHING if result is None else result.to_arrow_reader(BATCH)
        except duckdb.Error as error:
            raise _refused(query, error) from error

    def write(self, query: str, file: IO[bytes], ending: str) -> int:
        """Write the result in a format of `tables.write`; return the number of rows."""
        reader = self.run(query)
        try:
            return tables.write(reader, reader.schema, file, ending)
        except pa.ArrowException as error:
            raise _refused(query, error) from error

    def text(self, query: str) -> Iterator[str]:
        """The result as lines of a table; control characters are escaped."""
        reader = self.run(query)
        rows: list[tuple[str, ...]] = []
        try:
            for batch in reader:
                rows += zip(*(_texts(column) for column in batch.columns), strict=True)
                if len(rows) > SHOWN_ROWS:
                    break
        except pa.ArrowException as error:
            raise _refused(query, error) from error
        names, more = reader.schema.names, len(rows) > SHOWN_ROWS
        del rows[SHOWN_ROWS:]
        if not names:
            return
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        yield "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)).rstrip()
        yield "  ".join("-" * width for width in widths)
        for row in rows:
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if more:
            yield f"... more than {SHOWN_ROWS} rows: --format csv prints all"

    def _fill(self, wanted: list[str]) -> None:
        """Fill the tables: one pass over the capture for all packet tables, one for the messages, one check for the findings."""
        columns = {
            name: ArrowColumns(self.opened.catalog, self.names[name], self.opened.presenter()) for name in wanted if name in self.names
        }
        for name, made in columns.items():
            self._create(name, _of_sql(made.schema))
        if columns:
            for table, rows in selected(self.opened, self.shown, number_keys=True):
                for name, made in columns.items():
                    some = rows
                    if name != "packets":
                        holds = table.located.at("mad") >= 0 if name == "mads" else _has(table, self.names["ports"])
                        some = rows[holds[rows]]
                    if len(some):
                        self._insert(name, pa.Table.from_batches([made.batch(table, some)]), _of_sql(made.schema))
        others: dict[str, tuple[pa.Schema, Callable[[], Iterable[pa.RecordBatch]]]] = {
            "findings": (findings.SCHEMA, lambda: findings.batches(self.findings())),
            "messages": (messages.SCHEMA, lambda: messages.batches(self.opened, self.shown)),
        }  # fmt: skip
        for name in wanted:
            if name in others:
                schema, batches = others[name]
                self._create(name, _of_sql(schema))
                for batch in batches():
                    self._insert(name, pa.Table.from_batches([batch]), _of_sql(schema))

    def _create(self, name: str, schema: pa.Schema) -> None:
        self.connection.register("new_rows", schema.empty_table())
        self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM new_rows")
        self.connection.unregister("new_rows")

    def _insert(self, name: str, rows: pa.Table, schema: pa.Schema) -> None:
        self.connection.register("new_rows", rows.rename_columns(schema.names).cast(schema))
        self.connection.execute(f"INSERT INTO {name} SELECT * FROM new_rows")
        self.connection.unregister("new_rows")


def _not_loaded(opened: Capture, error: Exception) -> CaptureError:
    return CaptureError(opened.path, f"cannot be loaded into a database: {' '.join(str(error).split())}")


def _refused(query: str, error: Exception) -> FilterError:
    return FilterError(query, f"query: {printable(' '.join(str(error).split()))}")


def _there(names: tuple[str, ...], known: Any) -> list[str]:
    return [name for name in names if name in known or name.startswith(("frame.", "_ws."))]


def _of_sql(schema: pa.Schema) -> pa.Schema:
    """The schema with names that need no quotes, and times (UTC) without zone, as DuckDB keeps only microseconds with one."""
    return pa.schema([pa.field(_plain(f.name), pa.timestamp("ns") if pa.types.is_timestamp(f.type) else f.type) for f in schema])


def _texts(column: pa.Array) -> list[str]:
    """Values of a result as text; null becomes empty."""
    values = tables.readable(column).cast(pa.string()).to_pylist()
    return ["" if value is None else printable(value) for value in values]


def _plain(name: str) -> str:
    """`infiniband.bth.destqp` as a column of SQL: bth_destqp."""
    return name.removeprefix("infiniband.").removeprefix("_ws.col.").removeprefix("_ws.").replace(".", "_").replace("-", "_")


def _has(table: Any, columns: list[Named]) -> Any:
    """Rows of the chunk in which a structure of the columns occurs, bool[n]."""
    holds = np.zeros(len(table), np.bool_)
    for column in columns:
        for field in column.fields:
            holds[table.occurrences(field.owner).rows] = True
    return holds
