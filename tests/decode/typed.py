"""Packets with a field of each type, and which of them a condition of a rule or a filter holds for. A plugin declares them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import ibdissect
from ibdissect.decode.conditions import occurrences_where
from ibdissect.wire.expr import Expr
from ibdissect.words import DestQP, Parsed, Struct, array, column, gid, ip4, raw, repeat, rest, text, uint
from tests.craft import build, erf_pcap, ud

QP = 0xBCD


class Typed(Struct):
    """A field of each type."""

    prefix, key, section, size, carried_by = "typed", "all", "TYPED 1", 140, DestQP(QP)
    u8 = uint(8, "U8", at="0", holds="number")
    left_size = uint(8, "Left Size", at="1", unit="bytes")
    u16 = uint(16, "U16", at="2", holds="number")
    u32 = uint(32, "U32", at="4", holds="number")
    u64 = uint(64, "U64", at="8", holds="number")
    other = uint(64, "Other", at="16", holds="number")
    four = ip4("Four", at="24")
    right_size = uint(8, "Right Size", at="28", unit="bytes")
    some_count = uint(8, "Some Count", at="29", holds="number")
    others_count = uint(8, "Others Count", at="30", holds="number")
    spans = uint(8, "Spans", at="31", holds="number")
    six = gid("Six", at="32")
    parts = array(4, raw(3, "Part", at="48"))
    note = text(16, "Note", at="60")
    long = text(64, "Long", at="76")
    left = raw(left_size, "Left")
    right = raw(right_size, "Right")
    left_word = text(left_size, "Left Word")
    right_word = text(right_size, "Right Word")
    some = repeat(uint(8, "Some", holds="number"), count=some_count)
    others = repeat(uint(8, "Others", holds="number"), count=others_count)
    body = rest("Body")


def find(data: bytes) -> Iterator[tuple[int, int]]:
    """Begin and end of each piece, two bytes with a sign behind their number; they count from behind all of these."""
    ends = [1 + 2 * data[0] + byte - (byte >> 7 << 8) for byte in data[1 : 1 + 2 * data[0]]]
    yield from zip(ends[::2], ends[1::2], strict=True)


class Piece(Struct):
    """Bytes of the body, which may lie in those of another piece."""

    prefix, key, section, size, carried_by = "typed", "piece", "TYPED 2", 0, Parsed(Typed.body, find)
    bytes_ = rest("Bytes")


class Block(Struct):
    """Four bytes of the body, or more."""

    prefix, key, section, size, carried_by = "typed", "block", "TYPED 3", 4, Parsed(Typed.body, find)
    value = raw(4, "Value", at="0")


signed = column(Typed, "signed", lambda view: view.u64 - (view.u64 >> 63 << 64), "Signed")
divisor = column(Typed, "divisor", lambda view: view.other - (view.other >> 63 << 64), "Divisor")


def packet(
    *, left: bytes = b"", right: bytes = b"", some: bytes = b"", others: bytes = b"", pieces: tuple[tuple[int, int], ...] = (),
    body: bytes = b"", **fields: Any,
) -> bytes:  # fmt: skip
    """A datagram; negative numbers as two's complement. `pieces`: begin and end in `body`."""
    numbers = {name: value % (1 << 64) if isinstance(value, int) else value for name, value in fields.items()}
    sizes = {"left_size": len(left), "right_size": len(right), "some_count": len(some), "others_count": len(others)}
    head = build(Typed, 140, **sizes, **numbers)
    return ud(head + (left + right) * 2 + some + others + bytes([len(pieces), *(end % 256 for end in sum(pieces, ()))]) + body, dest_qp=QP)


class Packets:
    """A capture of such packets."""

    def __init__(self, *packets: bytes) -> None:
        self._opened = ibdissect.open(io.BytesIO(erf_pcap(packets)), plugins=[__name__])
        (self.table,) = self._opened.tables()
        self._columns = self._opened.table()

    def where(self, condition: Expr) -> list[int]:
        """The packets, from 0, for which a rule's condition on `Typed` holds."""
        found: list[int] = occurrences_where(condition, self.table, Typed).nonzero()[0].tolist()
        return found

    def filter(self, text: str) -> list[int]:
        """The packets, from 0, that a filter selects."""
        found: list[int] = (self._columns.filter(text).frames() - 1).tolist()
        return found

    def column(self, name: str) -> list[tuple[int, Any]]:
        """Each value of a field with its packet."""
        column = self._columns[name]
        return list(zip((column.frame - 1).tolist(), column.value.tolist(), strict=True))
