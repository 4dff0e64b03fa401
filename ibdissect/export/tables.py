"""How are record batches written: Parquet, Arrow, CSV or JSON lines, by the ending of the file's name?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring_ascii as quoted
from typing import IO, Any

import numpy as np
import pyarrow as pa

from ibdissect.wire.text import printable

FORMULA = frozenset("=+-@\t\r|%")
"""A cell that starts so is run by spreadsheets (OWASP, CSV injection)."""


def write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes], ending: str) -> int:
    """Write batches of one schema and return the number of rows. `ending` is one of .parquet .arrow .feather .csv .jsonl."""
    return _WRITERS[ending](batches, schema, file)


def _parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes]) -> int:
    from pyarrow import parquet

    # A dictionary pays where values are long and repeat; for numbers it costs more than all the rest of the writing.
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    with parquet.ParquetWriter(file, schema, compression="snappy", use_dictionary=texts) as writer:
        return _all(batches, writer.write_batch)


def _arrow(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes]) -> int:
    with pa.ipc.new_file(file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        return _all(batches, writer.write_batch)


def _csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes]) -> int:
    from pyarrow import csv

    flat = pa.schema([pa.field(field.name, pa.string() if pa.types.is_nested(field.type) else field.type) for field in schema])
    with csv.CSVWriter(file, flat) as writer:
        return _all((_cells(batch, flat) for batch in batches), writer.write_batch)


def _cells(batch: pa.RecordBatch, flat: pa.Schema) -> pa.RecordBatch:
    """Lists as text with commas between, as tshark has it; texts harmless."""
    columns = [_joined(column) if pa.types.is_nested(column.type) else column for column in batch.columns]
    columns = [_harmless(column) if pa.types.is_string(column.type) else column for column in columns]
    return pa.RecordBatch.from_arrays(columns, schema=flat)


def _joined(column: pa.Array) -> pa.Array:
    if pa.types.is_struct(column.type.value_type):
        texts = [None if value is None else json.dumps(value) for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    import pyarrow.compute as pc  # of no use for most exports

    texts_of = pc.fill_null(column.flatten().cast(pa.string()), "")
    offsets = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False))])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts_of, mask=column.is_null())
    return pc.binary_join(lists, ",")


def _harmless(column: pa.Array) -> pa.Array:
    """Control characters as escapes, an apostrophe in front of what a spreadsheet would run; each distinct text once."""
    encoded = column.dictionary_encode()
    known = [_cell(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(known, pa.string()).take(encoded.indices)


def _cell(text: str) -> str:
    text = printable(text)
    return f"'{text}" if text.lstrip()[:1] in FORMULA and text.strip() else text


def _jsonl(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes]) -> int:
    template = "{" + ", ".join(f"{quoted(name).replace('%', '%%')}: %s" for name in schema.names) + "}\n"

    def put(batch: pa.RecordBatch) -> None:
        columns = [_json(column) for column in batch.columns]
        file.write("".join(map(template.__mod__, zip(*columns, strict=True))).encode("ascii"))

    return _all(batches, put)


def _json(column: pa.Array) -> list[str]:
    """The values of a column as JSON."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        times = np.datetime_as_string(column.to_numpy(zero_copy_only=False), unit="ns").tolist()
        return [f'"{time}Z"' for time in times]
    if pa.types.is_decimal(kind):
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    values = column.to_pylist()
    if pa.types.is_string(kind):
        return ["null" if value is None else quoted(value) for value in values]
    if pa.types.is_integer(kind):
        return ["null" if value is None else str(value) for value in values]
    return [json.dumps(value) for value in values]


def _all(batches: Iterable[pa.RecordBatch], put: Callable[[pa.RecordBatch], Any]) -> int:
    rows = 0
    for batch in batches:
        put(batch)
        rows += batch.num_rows
    return rows


_WRITERS: dict[str, Callable[[Iterable[pa.RecordBatch], pa.Schema, IO[bytes]], int]] = {
    ".parquet": _parquet, ".arrow": _arrow, ".feather": _arrow, ".csv": _csv, ".jsonl": _jsonl, ".ndjson": _jsonl,
}  # fmt: skip
