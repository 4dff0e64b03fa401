"""Comparison of values with other values or with a constant."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import cache
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.gather import gather

from .locate import Bool, Int
from .operand_values import Blobs, NumberSeries, Series, Values, alike, blobs_of, constant

ORDER: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "===": operator.eq, "!=": operator.ne, "!==": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Network(Record, frozen=True):
    """An address with a prefix length: only the first `bits` bits are compared."""

    address: bytes
    bits: int


def against(op: str, left: Series, value: int | bytes | str | Network) -> Bool:
    """Compare each value with a constant, bool[k]."""
    if isinstance(left, NumberSeries):
        assert isinstance(value, int)
        return against_number(op, left.values, value)
    if isinstance(value, Network):
        return _in_network(op, left, value)
    wanted = value.encode() if isinstance(value, str) else value
    assert isinstance(wanted, bytes)
    if op == "contains":
        return holding(left.data, left.at, left.stop, wanted)
    if op in ("<", "<=", ">", ">="):
        return compared(op, left, constant(wanted))
    same = _equal(left, wanted)
    return ~same if op in ("!=", "!==") else same


def against_number(op: str, values: Values, number: int) -> Bool:
    """Compare each number with a constant that its dtype may be too small for."""
    low, high = _range_of(values.dtype)
    if not low <= number <= high:
        return np.full(values.shape, ORDER[op](0, number), np.bool_)
    result: Bool = ORDER[op](values, number)
    return result


@cache
def _range_of(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the greatest number of a dtype."""
    if dtype.kind == "O":
        return -inf, inf
    limits = np.iinfo(dtype)
    return limits.min, limits.max


def compared(op: str, left: Series, right: Series) -> Bool:
    """Compare value by value; a constant side has one value."""
    if isinstance(left, NumberSeries) and isinstance(right, NumberSeries):
        same_type = left.values.dtype == right.values.dtype
        return np.asarray(ORDER[op](*((left.values, right.values) if same_type else alike(left.values, right.values))), np.bool_)
    assert isinstance(left, Blobs) and isinstance(right, Blobs)
    ours, theirs = left.items(), right.items()
    if right.rows is None:
        theirs = theirs * len(ours)
    if op == "contains":
        return np.array([bool(b) and b in a for a, b in zip(ours, theirs, strict=True)], np.bool_)
    compare = ORDER[op]
    if left.text:
        return np.array([compare(a, b) for a, b in zip(ours, theirs, strict=True)], np.bool_)
    # Wireshark orders byte sequences by length first.
    return np.array([compare((len(a), a), (len(b), b)) for a, b in zip(ours, theirs, strict=True)], np.bool_)


def _equal(left: Blobs, value: bytes) -> Bool:
    same = left.stop - left.at == len(value)
    index = np.flatnonzero(same)
    if len(index) and value:
        rows = gather(left.data, left.at[index], len(value))
        same[index] = (rows == np.frombuffer(value, np.uint8)).all(axis=1)
    return np.asarray(same, np.bool_)


def _in_network(op: str, left: Blobs, network: Network) -> Bool:
    """Compare only the bits of the prefix."""
    size = len(network.address)
    mask = ((1 << network.bits) - 1 << size * 8 - network.bits).to_bytes(size, "big")
    prefix = bytes(a & b for a, b in zip(network.address, mask, strict=True))
    rows = gather(left.data, left.at, size) & np.frombuffer(mask, np.uint8)
    return compared(op, blobs_of(left.rows, [row.tobytes() for row in rows]), constant(prefix))


def _divided(a: Values, b: Values) -> Values:
    """Division towards zero, as in C."""
    quotient = a // b
    return np.where((quotient < 0) & (quotient * b != a), quotient + 1, quotient)


ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "&": np.bitwise_and, ">>": np.right_shift, "<<": np.left_shift, "+": np.add, "-": np.subtract, "*": np.multiply, "/": _divided,
    "%": np.fmod,
}  # fmt: skip


def computed(op: str, left: Series, right: Series) -> Series:
    """`left op right`, pair by pair; pairs that divide by zero are left out."""
    rows = left.rows if left.rows is not None else right.rows
    if isinstance(left, Blobs) or isinstance(right, Blobs):
        assert isinstance(left, Blobs) and isinstance(right, Blobs)
        return _masked(left, right)
    a, b = left.values, right.values
    if op == "&" and a.dtype.kind == "u" and right.rows is None and int(b[0]) >= 0:
        return NumberSeries(rows, a & a.dtype.type(int(b[0]) & int(np.iinfo(a.dtype).max)))
    a, b = np.broadcast_arrays(*alike(a, b))
    if op in "/%":
        there = np.flatnonzero(b != 0)
        rows, a, b = None if rows is None else rows[there], a[there], b[there]
    with np.errstate(all="ignore"):
        return NumberSeries(rows, np.asarray(ARITHMETIC[op](a, b)))


def _masked(left: Blobs, right: Blobs) -> Blobs:
    """Bitwise AND, cut to the shorter operand."""
    ours, theirs = left.items(), right.items()
    count = max(len(ours), len(theirs)) if left.rows is None or right.rows is None else len(ours)
    rows = left.rows if left.rows is not None else right.rows
    out = []
    for i in range(0 if rows is not None and not len(rows) else count):
        a, b = ours[i if left.rows is not None else 0], theirs[i if right.rows is not None else 0]
        size = min(len(a), len(b))
        out.append((int.from_bytes(a[:size], "big") & int.from_bytes(b[:size], "big")).to_bytes(size, "big"))
    return blobs_of(rows, out)


def holding(data: npt.NDArray[np.uint8], at: Int, stop: Int, needle: bytes) -> Bool:
    """Which of the ranges `data[at:stop]` contain `needle`, bool[k]; none contains an empty one, as in Wireshark."""
    hits = np.zeros(len(at), np.bool_)
    if not len(at) or not needle:
        return hits
    low = int(at.min())
    hay = data[low : int(stop.max())].tobytes()
    starts, stops = (at - low).tolist(), (stop - low).tolist()
    if (at[1:] < stop[:-1]).any():  # ranges overlap or are not ascending
        return np.array([hay.find(needle, a, b) >= 0 for a, b in zip(starts, stops, strict=True)], np.bool_)
    place = hay.find(needle)
    while place >= 0:
        row = bisect_right(starts, place) - 1
        if row >= 0 and place + len(needle) <= stops[row]:
            hits[row] = True
        # A later match in this range would overrun it too.
        if row + 1 == len(starts):
            break
        place = hay.find(needle, max(starts[row + 1], place))
    return hits
