"""Tables for SQL, and queries answered by a DuckDB of one capture."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.dfilter.names import FilterNames, names_of
from ibdissect.errors import CaptureError, FilterError, nearest
from ibdissect.lint.finding import Finding
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import DIRECTED, RESPONSE_BIT, STATUS
from ibdissect.wire.text import printable

from . import connections, findings, messages, records, requests
from .arrow import BATCH, ArrowColumns, schema_of
from .capture_table import TableSource
from .column_meanings import MEANS
from .default_fields import PORTS, TABLES
from .values_in_frames import NAME, NamedColumn, meanings, named_columns

SHOW_TABLES = """select table_name as name, column_name as "column", lower(data_type) as type, comment as means from duckdb_columns()
    where not internal order by table_oid, column_index"""
"""What `show tables` says: the columns, too, and what they mean."""
OPTIMIZERS = "select distinct name from duckdb_optimizers() where name <> 'unused_columns'"
"""Optimizers to disable for planning: all except the one that finds unused columns. Others judge contents; the tables are empty."""
NO_COLUMN = re.compile(r'(?:Referenced column|Table "(\w+)" does not have a column named) "(\w+)"')
NO_TABLE = re.compile(r"Table with name (\S+) does not exist")
_NOTHING = pa.RecordBatchReader.from_batches(pa.schema([]), [])
"""The empty result of a statement that returns nothing."""
Made = tuple[pa.Schema, Callable[[], Iterable[pa.RecordBatch]]]
"""What a table has, and what makes its rows."""
NOTHING: Mapping[str, Made] = MappingProxyType({})


class Database:
    """A DuckDB of one capture, on disk in a private folder. Tables hold only those columns of the capture that the query reads."""

    def __init__(
        self, opened: TableSource, names: Iterable[str], found: Callable[[], list[Finding]], others: Mapping[str, Made] = NOTHING
    ) -> None:
        """`names`: more columns of `packets`. `found` gives the findings; `others` are more tables."""
        self.opened, self.findings, self.others = opened, found, others
        known = opened.catalog.names
        self.columns: dict[str, dict[str, NamedColumn]] = {}
        """By table, then by name in SQL."""
        for table, own in TABLES.items():
            named = named_columns(opened.catalog, [*_there(own, known), *(names if table == "packets" else ())], first=True)
            self.columns[table] = {_plain(column.name): column for column in named}
        self._folder = tempfile.TemporaryDirectory(prefix="ibdissect-sql-")
        try:
            self.connection = duckdb.connect(f"{self._folder.name}/capture.duckdb")
            self.connection.execute("SET memory_limit = '128MB'; SET preserve_insertion_order = true")
            self.connection.execute("SET enable_external_access = false")  # a query must not read or write other files
            self.optimizers = ",".join(name for (name,) in self.connection.execute(OPTIMIZERS).fetchall())
            for table, columns in self.columns.items():
                self._create(table, _of_sql(schema_of(list(columns.values()))))
            for table, (schema, _) in self._others().items():
                self._create(table, _of_sql(schema))
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
        if re.fullmatch(r"\s*show\s+tables\s*;?\s*", query, re.IGNORECASE):
            query = SHOW_TABLES
        if "duckdb_columns" in query.lower():
            self._define()
        try:
            wanted = self._read_by(query)
            self.connection.execute("SET lock_configuration = true")
            self._fill(wanted)
        except duckdb.Error as error:
            raise _not_loaded(self.opened, error) from error
        try:
            result = self.connection.sql(query)
            return _NOTHING if result is None else result.to_arrow_reader(BATCH)
        except duckdb.Error as error:
            raise self.refused(query, error) from error

    def _define(self) -> None:
        """Say of each column what it means, as a comment."""
        names = names_of(self.opened.catalog)
        said = {table: {name: _label(names, column.name) for name, column in of.items()} for table, of in self.columns.items()}
        for table, of in (said | {table: MEANS.get(table, {}) for table in self._others()}).items():
            for name, means in of.items():
                quoted = means.replace("'", "''")
                self.connection.execute(f"COMMENT ON COLUMN {table}.{name} IS '{quoted}'")

    def _read_by(self, query: str) -> dict[str, list[str]]:
        """The columns of each table that a query reads. Adds those to the tables that are other names of filters."""
        try:
            statements = self.connection.extract_statements(query)
        except duckdb.Error:
            return {}  # it will be refused
        found: dict[str, dict[str, None]] = {}
        for statement in statements:
            plan = self._plan(statement.query)
            if plan is None and len(statements) > 1:  # it may depend on the one before
                return {name: list(self.columns.get(name, ())) for name in (*self.columns, *self._others()) if name in query.lower()}
            for node in _nodes(plan or []):
                about = node.get("extra_info", {})
                if "Table" in about:
                    read = about.get("Projections") or []
                    found.setdefault(about["Table"].rpartition(".")[2], {}).update(dict.fromkeys([read] if isinstance(read, str) else read))
        return {name: list(columns) for name, columns in found.items()}

    def _plan(self, query: str) -> list[dict[str, Any]] | None:
        """DuckDB's plan for a statement; None if it makes none."""
        while True:
            try:
                self.connection.execute(f"SET disabled_optimizers = '{self.optimizers}'")
                plan: list[dict[str, Any]] = json.loads(self.connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()[0][1])
                return plan
            except duckdb.BinderException as error:
                missing = NO_COLUMN.search(str(error))
                if missing is None or not self._add(missing[1], missing[2]):
                    return None
            except duckdb.Error:
                return None
            finally:
                self.connection.execute("RESET disabled_optimizers")

    def _add(self, table: str | None, name: str) -> bool:
        """Add the filter name that is `name` in SQL to a table, or to all; False if there is none."""
        every, wanted = names_of(self.opened.catalog).every(), name.lower()
        full = next(
            (
                each
                for each in every
                if wanted in (_plain(each), coded := _plain(each + NAME))
                and (wanted != coded or meanings(self.opened.catalog, each + NAME))
            ),
            None,
        )
        full = full + NAME if full is not None and _plain(full) != wanted else full
        added = False
        for each in ([table] if table in self.columns else self.columns) if full is not None else ():
            if name.lower() not in self.columns[each]:
                (column,) = named_columns(self.opened.catalog, [full or ""], first=True)
                self.columns[each][name.lower()] = column
                empty = _of_sql(schema_of([column])).empty_table()
                with self._rows(empty):
                    ((kind,),) = self.connection.execute("select column_type from (describe new_rows)").fetchall()
                self.connection.execute(f"ALTER TABLE {each} ADD COLUMN {name.lower()} {kind}")
                added = True
        return added

    def _fill(self, wanted: dict[str, list[str]]) -> None:
        """Fill the tables: one pass over the capture for all packet tables, one for each other table, one check for findings."""
        opened, made = self.opened, dict[str, ArrowColumns]()
        for name, read in wanted.items():
            if name in self.columns:
                named = [self.columns[name][column] for column in read]
                made[name] = ArrowColumns(named, opened.state(column.name for column in named))
        if made:
            number = any(columns.numbers_keys for columns in made.values())
            for table, rows in opened.selected(keys=number):
                for name, columns in made.items():
                    some = rows if name == "packets" else rows[_holds(name, table)[rows]]
                    batch = columns.batch(table, some)
                    if name == "mads":
                        batch = _without_direction(batch, table, some)
                    if columns.columns:
                        self._insert(name, pa.Table.from_batches([batch]), _of_sql(columns.schema))
                    else:
                        self.connection.execute(f"INSERT INTO {name} (frame_number) SELECT NULL FROM range({len(some)})")
        for name, (schema, batches) in self._others().items():
            for batch in batches() if name in wanted else ():
                self._insert(name, pa.Table.from_batches([batch]), _of_sql(schema))

    def _others(self) -> dict[str, Made]:
        """Tables whose columns are not filter names: what they have, and what makes their rows."""
        return {
            "connections": (connections.SCHEMA, lambda: connections.selected(self.opened)),
            "messages": (messages.SCHEMA, lambda: messages.batches(self.opened)),
            "records": (records.SCHEMA, lambda: records.batches(self.opened)),
            "requests": (requests.SCHEMA, lambda: requests.batches(self.opened)),
            "findings": (findings.SCHEMA, lambda: findings.batches(self.findings())),
            **self.others,
        }

    def refused(self, query: str, error: Exception) -> FilterError:
        """What to say of a query that DuckDB does not run."""
        missing = NO_TABLE.search(str(error))
        if missing is not None:
            hint = nearest(missing[1], (*self.columns, *self._others()))
            return FilterError(query, f"query: there is no table {printable(missing[1])}", hint=hint)
        hint = "`show tables` lists the columns" if NO_COLUMN.search(str(error)) else ""
        for dotted in re.findall(r"\w+(?:\.\w+)+", query) if isinstance(error, duckdb.BinderException) else ():
            if (field := names_of(self.opened.catalog).find(dotted)) is not None:
                hint = f"in SQL, {dotted} is {_plain(field.name)}"
        return FilterError(query, f"query: {printable(' '.join(str(error).split()))}", hint=hint)

    @contextmanager
    def _rows(self, rows: pa.Table) -> Iterator[None]:
        """Inside the `with`, queries see these rows as the table `new_rows`."""
        self.connection.register("new_rows", rows)
        yield
        self.connection.unregister("new_rows")

    def _create(self, name: str, schema: pa.Schema) -> None:
        with self._rows(schema.empty_table()):
            self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM new_rows")

    def _insert(self, name: str, rows: pa.Table, schema: pa.Schema) -> None:
        with self._rows(rows.rename_columns(schema.names).cast(schema)):
            self.connection.execute(f"INSERT INTO {name} ({', '.join(schema.names)}) SELECT * FROM new_rows")


def _not_loaded(opened: TableSource, error: Exception) -> CaptureError:
    return CaptureError(opened.path, f"cannot be loaded into a database: {' '.join(str(error).split())}")


def _nodes(plan: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in plan:
        yield node
        yield from _nodes(node.get("children", []))


def _there(names: tuple[str, ...], known: Any) -> list[str]:
    return [name for name in names if name.removesuffix(NAME) in known or name.startswith(("frame.", "_ws."))]


def _of_sql(schema: pa.Schema) -> pa.Schema:
    """The schema with names that need no quotes, and times (UTC) without zone, as DuckDB keeps only microseconds with one."""
    return pa.schema([pa.field(_plain(f.name), pa.timestamp("ns") if pa.types.is_timestamp(f.type) else f.type) for f in schema])


def _plain(name: str) -> str:
    """`infiniband.bth.destqp` as a column of SQL: bth_destqp."""
    return name.removeprefix("infiniband.").removeprefix("_ws.col.").removeprefix("_ws.").replace(".", "_").replace("-", "_")


def _label(names: FilterNames, name: str) -> str:
    """What a column of filter names holds."""
    return f"{names.label(name.removesuffix(NAME))}: what the code means" if name.endswith(NAME) else names.label(name)


def _status(table: ChunkTable, rows: Int) -> npt.NDArray[np.uint16]:
    """The status of MADs alone: its bit 15 is the direction of an SMP on a directed route, which has a column of its own."""
    status: npt.NDArray[np.uint16] = table.values_at(MAD.status, rows)
    directed = table.values_at(MAD.mgmt_class, rows) == DIRECTED
    return np.where(directed, status & np.uint16(STATUS), status)


def _without_direction(mads: pa.RecordBatch, table: ChunkTable, rows: Int) -> pa.RecordBatch:
    """The MADs, with `_status` where they have the column."""
    at = mads.schema.get_field_index(MAD.status.filter_name)
    if at < 0:
        return mads
    field = mads.schema.field(at)
    return mads.set_column(at, field, pa.array(_status(table, rows), field.type))


def _holds(name: str, table: ChunkTable) -> Bool:
    """Rows of the chunk that the table of a name has, bool[n]."""
    if name == "mads":
        return table.located.at("mad") >= 0
    holds = np.zeros(len(table), np.bool_)
    for field in (field for column in named_columns(table.catalog, _there(PORTS, table.catalog.names)) for field in column.fields):
        if field.owner.key != MAD.key:
            holds[table.occurrences(field.owner).rows] = True
    rows = np.flatnonzero(holds)
    holds[rows] = (table.values_at(MAD.method, rows) & RESPONSE_BIT != 0) & (_status(table, rows) == 0)
    return holds
