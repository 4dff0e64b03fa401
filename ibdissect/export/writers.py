"""Writers of record batches: Parquet, Arrow, CSV or JSON lines, by the extension of the file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from json.encoder import encode_basestring_ascii as quoted
from typing import IO, Any

import numpy as np
import pyarrow as pa

from . import csv
from .formats import WRITERS


def write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes], ending: str) -> int:
    """Write batches of one schema and return the number of rows. `ending` is one of `export.formats`."""
    count: int = globals()[WRITERS[ending]](batches, schema, file)
    return count


def parquet_writer(file: IO[bytes], schema: pa.Schema) -> Any:  # Any: pyarrow has no types
    """A `ParquetWriter` for batches of a schema."""
    from pyarrow import parquet

    # Dictionaries pay off for long repeated texts; for numbers they cost more than all other writing.
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    return parquet.ParquetWriter(file, schema, compression="snappy", use_dictionary=texts)


def write_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes]) -> int:
    with parquet_writer(file, schema) as writer:
        return _all(batches, writer.write_batch)


def write_arrow(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes]) -> int:
    with pa.ipc.new_file(file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        return _all(batches, writer.write_batch)


def write_csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes]) -> int:
    quoted = [not _written(field.type) or pa.types.is_string(field.type) for field in schema]
    blocks = ([as_texts(_joined(column) if pa.types.is_list(column.type) else column) for column in batch.columns] for batch in batches)
    return csv.write(schema.names, quoted, blocks, file)


def as_texts(column: pa.Array) -> list[str]:
    return ["" if value is None else value for value in _texts(readable(column)).to_pylist()]


def _texts(column: pa.Array) -> pa.Array:
    """A column of simple values as text; decimals without the exponent that Arrow gives to small ones."""
    texts = column.cast(pa.string())
    if not pa.types.is_decimal(column.type):
        return texts
    return pa.array([f"{Decimal(text):f}" if text is not None and "E" in text else text for text in texts.to_pylist()], pa.string())


def readable(column: pa.Array) -> pa.Array:
    """A column of simple values unchanged; others as text: bytes in hex, nested values as JSON."""
    if _written(column.type):
        return column
    return pa.array([None if value is None else _text(_simple(value)) for value in column.to_pylist()], pa.string())


def _written(kind: pa.DataType) -> bool:
    known = pa.types
    simple = (
        known.is_integer, known.is_floating, known.is_decimal, known.is_boolean, known.is_string, known.is_timestamp, known.is_date,
        known.is_time, known.is_null,
    )  # fmt: skip
    return any(is_kind(kind) for is_kind in simple)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _simple(value: Any) -> Any:
    """A value as JSON types: NaN and infinities as null, other SQL types as text."""
    if isinstance(value, dict):
        return {str(key): _simple(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_simple(inner) for inner in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _joined(column: pa.Array) -> pa.Array:
    if not _written(column.type.value_type):
        return readable(column)
    import pyarrow.compute as pc  # not needed by most exports

    texts_of = pc.fill_null(_texts(column.flatten()), "")
    offsets = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False))])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts_of, mask=column.is_null())
    return pc.binary_join(lists, ",")


def write_jsonl(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes]) -> int:
    return _all(batches, lambda batch: file.write("".join(f"{line}\n" for line in _objects(batch)).encode("ascii")))


def write_json(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: IO[bytes]) -> int:
    rows = 0
    for batch in batches:
        for line in _objects(batch):
            file.write(f"{',' if rows else '['}\n{line}".encode("ascii"))
            rows += 1
    file.write(b"\n]\n" if rows else b"[]\n")
    return rows


def _objects(batch: pa.RecordBatch) -> Iterable[str]:
    template = "{" + ", ".join(f"{quoted(name).replace('%', '%%')}: %s" for name in batch.schema.names) + "}"
    return map(template.__mod__, zip(*(_json(column) for column in batch.columns), strict=True))


def _json(column: pa.Array) -> list[str]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        times = np.datetime_as_string(column.to_numpy(zero_copy_only=False)).tolist()
        return [f'"{time}Z"' if there else "null" for time, there in zip(times, column.is_valid().to_pylist(), strict=True)]
    if pa.types.is_decimal(kind):
        return [text or "null" for text in as_texts(column)]
    values = column.to_pylist()
    if pa.types.is_string(kind):
        return ["null" if value is None else quoted(value) for value in values]
    if pa.types.is_integer(kind):
        return ["null" if value is None else str(value) for value in values]
    return [json.dumps(_simple(value)) for value in values]


def _all(batches: Iterable[pa.RecordBatch], put: Callable[[pa.RecordBatch], Any]) -> int:
    rows = 0
    for batch in batches:
        put(batch)
        rows += batch.num_rows
    return rows
