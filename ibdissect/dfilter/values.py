"""Which values do the operands of a display filter have in a chunk: one a packet, several, or none?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.record import record
from ibdissect.table.locate import Bool, Int
from ibdissect.table.mask import rows_where
from ibdissect.table.table import ChunkTable
from ibdissect.wire.column import ComputedField
from ibdissect.wire.spec import Field
from ibdissect.wire.text import gid_text

from .computed import computed
from .literals import Value
from .names import Kind, Source
from .series import Blobs, Numbers, Series, State, alike, blobs_of, pairs


@record(eq=True)
class Operand:
    """Something that has values."""

    kind: Kind

    def series(self, table: ChunkTable, state: State) -> Series:
        """The values in a chunk."""
        raise NotImplementedError


@record(eq=True)
class Constant(Operand):
    """A value from the filter's text."""

    value: Value

    def series(self, table: ChunkTable, state: State) -> Series:
        if isinstance(self.value, int):
            return Numbers(None, np.array([self.value], np.int64 if self.value < 1 << 63 else np.uint64))
        return blobs_of(None, [self.value if isinstance(self.value, bytes) else self.value.address])


@record(eq=True)
class Named(Operand):
    """A field, a structure or something of the frame."""

    source: Source

    def series(self, table: ChunkTable, state: State) -> Series:
        source = self.source
        if source.fields:
            if source.kind in ("uint", "bool"):
                return _joined_numbers([_numbers(field, table) for field in source.fields])
            return _joined_blobs([_stretches(field, table) for field in source.fields])
        if source.structs:
            found = [table.occurrences(struct) for struct in source.structs]
            return _joined_blobs([Blobs(each.rows, table.chunk.data, each.at, each.stop) for each in found])
        return computed(source.name, table, state)


@record(eq=True)
class Part(Operand):
    """Bytes of another operand; `ranges` as (start, stop), stop None for the end, negative numbers from the end."""

    of: Operand
    ranges: tuple[tuple[int, int | None], ...]

    def series(self, table: ChunkTable, state: State) -> Series:
        whole = self.of.series(table, state)
        assert isinstance(whole, Blobs)
        size = whole.stop - whole.at
        parts = []
        good = np.ones(len(size), np.bool_)
        for start, stop in self.ranges:
            first = size + start if start < 0 else np.full(len(size), start, np.int64)
            last = size if stop is None else size + stop if stop < 0 else np.full(len(size), stop, np.int64)
            good &= (first >= 0) & (last <= size) & (first < last)
            parts.append((whole.at + first, whole.at + last))
        index = np.flatnonzero(good)
        rows = None if whole.rows is None else whole.rows[index]
        if len(parts) == 1:
            return Blobs(rows, whole.data, parts[0][0][index], parts[0][1][index])
        items = [Blobs(rows, whole.data, at[index], stop[index]).items() for at, stop in parts]
        return blobs_of(rows, [b"".join(pieces) for pieces in zip(*items, strict=True)])


@record(eq=True)
class Computation(Operand):
    """`left op right`."""

    op: str
    left: Operand
    right: Operand

    def series(self, table: ChunkTable, state: State) -> Series:
        rows, left, right = pairs(self.left.series(table, state), self.right.series(table, state))
        if isinstance(left, Blobs) or isinstance(right, Blobs):
            assert isinstance(left, Blobs) and isinstance(right, Blobs)
            return _masked(rows, left, right)
        a, b = alike(left.values, right.values)
        if self.op in "/%":
            a, b = np.broadcast_arrays(a, b)
            there = np.flatnonzero(b != 0)
            rows, a, b = None if rows is None else rows[there], a[there], b[there]
        with np.errstate(all="ignore"):
            return Numbers(rows, np.asarray(_ARITHMETIC[self.op](a, b)))


@record(eq=True)
class Minus(Operand):
    """`-of`."""

    of: Operand

    def series(self, table: ChunkTable, state: State) -> Series:
        found = self.of.series(table, state)
        assert isinstance(found, Numbers)
        return Numbers(found.rows, -found.values.astype(np.int64))


@record(eq=True)
class Function(Operand):
    """`name(arguments)`."""

    name: str
    arguments: tuple[Operand, ...]

    def series(self, table: ChunkTable, state: State) -> Series:
        found = [argument.series(table, state) for argument in self.arguments]
        first = found[0]
        if self.name in ("min", "max"):
            return _extreme(self.name, [each for each in found if isinstance(each, Numbers)], len(table))
        if self.name == "count":
            assert first.rows is not None
            rows, counts = np.unique(first.rows, return_counts=True)
            return Numbers(rows, counts.astype(np.int64))
        if self.name == "len":
            if isinstance(first, Blobs):
                return Numbers(first.rows, first.stop - first.at)
            argument = self.arguments[0]
            bits = max((each.bits for each in argument.source.fields), default=32) if isinstance(argument, Named) else 32
            return Numbers(first.rows, np.full(len(first.values), (bits + 7) // 8, np.int64))
        if self.name == "abs":
            assert isinstance(first, Numbers)
            return Numbers(first.rows, np.abs(first.values) if first.values.dtype == np.int64 else first.values)
        if isinstance(first, Numbers):
            return blobs_of(first.rows, [str(value).encode() for value in first.values.tolist()])
        spell = _SPELL[self.arguments[0].kind if self.name == "string" else self.name]
        return blobs_of(first.rows, [spell(item) for item in first.items()])


_SPELL: Mapping[str, Callable[[bytes], bytes]] = {
    "upper": bytes.upper, "lower": bytes.lower, "bytes": lambda item: item.hex().encode(), "string": lambda item: item,
    "ether": lambda item: item.hex(":").encode(), "ipv4": lambda item: ".".join(map(str, item)).encode(),
    "ipv6": lambda item: gid_text(item).encode(),
}  # fmt: skip


def _divided(a: Any, b: Any) -> Any:
    """Division towards zero, as in C."""
    quotient = a // b
    return np.where((quotient < 0) & (quotient * b != a), quotient + 1, quotient)


_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "&": np.bitwise_and, "+": np.add, "-": np.subtract, "*": np.multiply, "/": _divided, "%": np.fmod,
}  # fmt: skip


def _masked(rows: Int | None, left: Blobs, right: Blobs) -> Blobs:
    """Bytewise and, as far as the shorter one reaches."""
    ours, theirs = left.items(), right.items()
    count = max(len(ours), len(theirs)) if rows is None else len(rows)
    out = []
    for i in range(count):
        a, b = ours[i if left.rows is not None else 0], theirs[i if right.rows is not None else 0]
        size = min(len(a), len(b))
        out.append((int.from_bytes(a[:size], "big") & int.from_bytes(b[:size], "big")).to_bytes(size, "big"))
    return blobs_of(rows, out)


def _extreme(name: str, found: list[Numbers], n: int) -> Numbers:
    """The least or greatest value of all arguments in each packet that has one of each that is no constant."""
    choose = np.minimum if name == "min" else np.maximum
    best: npt.NDArray[Any] = np.zeros(n, np.int64)
    there = np.zeros(n, np.bool_)
    for each in sorted(found, key=lambda numbers: numbers.rows is None):
        rows = np.flatnonzero(there) if each.rows is None else each.rows
        values = np.broadcast_to(each.values, rows.shape)
        best, values = alike(best, values)
        fresh = rows[~there[rows]]
        best[fresh] = values[~there[rows]]
        choose.at(best, rows, values)
        there[rows] = True
    rows = np.flatnonzero(there)
    return Numbers(rows, best[rows])


def _joined_numbers(parts: list[Numbers]) -> Numbers:
    """Several fields under one name, in packet order."""
    if len(parts) == 1:
        return parts[0]
    rows, order = _row_order(parts)
    wide = any(part.values.dtype == np.uint64 for part in parts)
    values = np.concatenate([part.values.astype(np.uint64 if wide else np.int64) for part in parts])
    return Numbers(rows, values[order])


def _joined_blobs(parts: list[Blobs]) -> Blobs:
    """Several fields or structures under one name, in packet order; all of them lie in the same chunk."""
    if len(parts) == 1:
        return parts[0]
    rows, order = _row_order(parts)
    at, stop = np.concatenate([part.at for part in parts]), np.concatenate([part.stop for part in parts])
    return Blobs(rows, parts[0].data, at[order], stop[order])


def _row_order(parts: Sequence[Series]) -> tuple[Int, Int]:
    """The rows of all parts in order, and where each stood."""
    rows = np.concatenate([part.rows for part in parts if part.rows is not None])
    order = np.argsort(rows, kind="stable")
    return rows[order], order


def _numbers(field: Field[Any], table: ChunkTable) -> Numbers:
    column = table.column(field)
    values = column.values
    return Numbers(column.rows, values if values.dtype == np.uint64 else values.astype(np.int64))


def _stretches(field: Field[Any], table: ChunkTable) -> Blobs:
    """Where the entries of a byte field lie; a string ends at its first NUL."""
    assert field.owner is not None
    found = table.occurrences(field.owner)
    rows, start, stop = found.rows, found.at, found.stop
    if isinstance(field, ComputedField):
        return blobs_of(rows, [row.tobytes().rstrip(b"\0") for row in table.values(field)])
    if field.when is not None:
        keep = np.isin(table.values(field.when[0]), list(field.when[1]))
        rows, start, stop = rows[keep], start[keep], stop[keep]
    if field.kind == "rest":
        return Blobs(rows, table.chunk.data, start + field.bit // 8, stop)
    size = field.bits // 8
    entries = np.array([bit // 8 for bit in field.entries()], np.int64)
    at = (start[:, None] + entries).ravel()
    rows, stop = np.repeat(rows, len(entries)), at + size
    if field.kind == "text":
        stop = at + _text_sizes(table.chunk.data, at, size)
    return Blobs(rows, table.chunk.data, at, stop)


def _text_sizes(data: npt.NDArray[np.uint8], at: Int, size: int) -> Int:
    sizes = np.full(len(at), size, np.int64)
    open_ = np.arange(len(at))
    for place in range(size):
        ended = data[at[open_] + place] == 0
        sizes[open_[ended]] = place
        open_ = open_[~ended]
        if not len(open_):
            break
    return sizes


def there(operand: Operand, table: ChunkTable, state: State) -> Bool:
    """Rows where an operand that stands alone holds: it is there, or not zero if it is computed."""
    if isinstance(operand, Named) and operand.source.mark is not None:
        return rows_where(operand.source.mark, table)
    found = operand.series(table, state)
    assert found.rows is not None
    rows = found.rows
    if isinstance(operand, (Computation, Minus)):
        zero = found.values == 0 if isinstance(found, Numbers) else np.array([not any(item) for item in found.items()], np.bool_)
        rows = rows[~zero]
    out = np.zeros(len(table), np.bool_)
    out[rows] = True
    return out
