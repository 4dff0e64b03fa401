"""What are the values of an operand in a chunk? Numbers or byte sequences, each with the row it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibdissect.record import record
from ibdissect.table.locate import Int

if TYPE_CHECKING:
    from .answers import Answers

Findings = Mapping[int, Iterable[str]]
"""Frame number -> codes of the findings in it."""

_EMPTY = np.empty(0, np.int64)


@record(eq=True, frozen=False)
class State:
    """What a filter knows besides the chunk; kept from chunk to chunk."""

    first_ns: int | None = None
    """Time of the first frame of the capture."""
    before_ns: int | None = None
    """Time of the last frame of the chunk before."""
    findings: Findings = field(default_factory=dict)
    answers: Answers | None = None
    """Requests and their answers, where the filter asks for them."""


@record(eq=True)
class Numbers:
    """Integers, times in nanoseconds, flags."""

    rows: Int | None
    """Row of the chunk for each value, int64[k], never decreasing; None for a constant, which has one value."""
    values: npt.NDArray[Any]
    """int64[k] or uint64[k]."""

    def pick(self, index: Int) -> Numbers:
        """The values at `index`; a constant stays one."""
        return self if self.rows is None else Numbers(self.rows[index], self.values[index])


@record(eq=True)
class Blobs:
    """Byte sequences: stretches of an array."""

    rows: Int | None
    data: npt.NDArray[np.uint8]
    at: Int
    stop: Int

    def pick(self, index: Int) -> Blobs:
        """The sequences at `index`; a constant stays one."""
        return self if self.rows is None else Blobs(self.rows[index], self.data, self.at[index], self.stop[index])

    def items(self) -> list[bytes]:
        """All sequences."""
        data = self.data.tobytes() if len(self.at) > 64 else self.data
        return [bytes(data[a:b]) for a, b in zip(self.at.tolist(), self.stop.tolist(), strict=True)]


Series = Numbers | Blobs


def blobs_of(rows: Int | None, items: list[bytes]) -> Blobs:
    """Byte sequences that do not stand in the capture as they are."""
    stop = np.cumsum([len(item) for item in items], dtype=np.int64) if items else _EMPTY
    sizes = np.array([len(item) for item in items], np.int64)
    return Blobs(rows, np.frombuffer(b"".join(items), np.uint8), stop - sizes, stop)


def alike(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Two arrays of one integer type; unsigned only where nothing is negative. Mixed, NumPy would compare as floats."""
    if a.dtype == b.dtype:
        return a, b
    signed = a if a.dtype.kind == "i" else b
    if (signed < 0).any():
        return a.astype(object), b.astype(object)
    return a.astype(np.uint64), b.astype(np.uint64)


def pairs(left: Series, right: Series) -> tuple[Int | None, Series, Series]:
    """Every value of one side with every value of the other in the same packet; a constant goes with each."""
    if left.rows is None or right.rows is None:
        return (left.rows if right.rows is None else right.rows), left, right
    start = np.searchsorted(right.rows, left.rows, "left")
    counts = np.searchsorted(right.rows, left.rows, "right") - start
    li = np.repeat(np.arange(len(left.rows)), counts)
    ri = np.arange(len(li)) - np.repeat(np.cumsum(counts) - counts - start, counts)
    return left.rows[li], left.pick(li), right.pick(ri)
