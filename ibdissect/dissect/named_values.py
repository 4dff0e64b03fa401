"""Values of a filter name: every occurrence in a chunk, in frame order, of all structures that share the name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.hidden.cut_keys import hidden_checksums, hides
from ibdissect.decode.hidden.key_numbers import must_mask
from ibdissect.wire.catalog import BOTH, Catalog
from ibdissect.wire.spec import Field

MESSAGE_KINDS = ("SEND", "WRITE", "READ", "ATOMIC", "ATOMIC WRITE", "FLUSH", "CM connect", "CM disconnect", "CM SIDR")
MESSAGE_COLUMNS = (
    "kind", "first_frame", "last_frame", "ack_frame", "bytes", "packets", "latency", "retries", "naks", "cnps", "complete",
)  # fmt: skip
MESSAGE = "ibdissect.message."
MESSAGE_NAMES = frozenset(MESSAGE + column for column in MESSAGE_COLUMNS)
"""Names that require putting messages together."""
ANSWER_NAMES = frozenset({"ibdissect.request_frame", "ibdissect.response_frame", "ibdissect.response_time"}) | MESSAGE_NAMES
"""Names that require matching requests with their answers, or packets with their message: `dfilter.answers`."""


class FieldValues(Record, frozen=True):
    """One field of a chunk, with one entry per value."""

    field: Field[Any]
    rows: Int
    at: Int
    """First byte of each entry in the chunk's data."""
    values: npt.NDArray[Any] | list[bytes]
    """Integers, bool, uint8[k, bytes]; a list of bytes for a field that extends to the end of its structure."""


def answer_text(name: str) -> Callable[[int], str]:
    """What turns a value of one of ANSWER_NAMES into text, as `show -e` prints it."""
    if name.endswith(".kind"):
        return MESSAGE_KINDS.__getitem__
    return seconds_text if name.endswith(("_time", ".latency")) else str


def declared(catalog: Catalog, name: str) -> tuple[Field[Any], ...]:
    """The fields with a filter name that have a value of their own; none if there are none."""
    return tuple(field for each in BOTH.get(name, (name,)) for field in catalog.fields(each) if field.kind not in ("nested", "hole"))


def runs(table: ChunkTable, fields: tuple[Field[Any], ...]) -> Iterator[FieldValues]:
    """The values of each field that occurs."""
    table = table.shown
    for field in fields:
        found = table.occurrences(field.owner)
        if not len(found):
            continue
        if field.kind == "rest":
            at, data = found.at + field.bit // 8, table.chunk.data.data
            yield FieldValues(field, found.rows, at, [bytes(data[a:b]) for a, b in zip(at.tolist(), found.stop.tolist(), strict=True)])
        else:
            column = table.column(field)
            yield FieldValues(field, column.rows, column.at, column.values)


def reveals_key(table: ChunkTable, run: FieldValues) -> Bool:
    """Which entries are a key, or contain, may contain (cut record) or reveal one, bool[k]."""
    field, table = run.field, table.shown
    if field.secret:
        return must_mask(field, np.asarray(run.values))
    if field.tells:
        return np.ones(len(run.rows), np.bool_)
    if field.holds == "checksum":
        return hidden_checksums(table, run.rows, np.asarray(run.values))
    if field.kind not in ("raw", "rest", "pad"):
        return np.zeros(len(run.rows), np.bool_)
    lengths = np.array([len(value) for value in run.values], np.int64) if isinstance(run.values, list) else (field.bits + 7) // 8
    return hides(table, run.at, run.at + lengths)


def frame_numbers(table: ChunkTable, name: str, first_ns: int = 0) -> Int:
    """A number of each frame, int64[n]; times in nanoseconds. `first_ns`: the time of the capture's first frame."""
    chunk = table.chunk
    if name == "frame.number":
        return chunk.first + np.arange(len(chunk), dtype=np.int64)
    if name in ("frame.time", "frame.time_epoch"):
        return chunk.time_ns
    if name == "frame.time_relative":
        return chunk.time_ns - first_ns
    return {"frame.len": chunk.length, "frame.cap_len": chunk.caplen, "frame.interface_id": chunk.interface.astype(np.int64)}[name]


def seconds_text(ns: int) -> str:
    """Nanoseconds as seconds in tshark's format: `0.000123456`."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1_000_000_000}.{abs(ns) % 1_000_000_000:09d}"


def seconds_texts(ns: Int) -> list[str]:
    """`seconds_text` of many, in half the time."""
    if (ns < 0).any():
        return list(map(seconds_text, ns.tolist()))
    return list(map("%d.%09d".__mod__, zip(*(part.tolist() for part in np.divmod(ns, 1_000_000_000)), strict=True)))
