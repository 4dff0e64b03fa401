"""Work done in C: starts of records and checksums of packets, many at once (docs/decisions/native-parts.md).

Where the package was built without a compiler, `records` and `sums` are None, and Python, NumPy and zlib do the same work more slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy.typing as npt

    Buffer = npt.NDArray[Any] | bytes

    class NativeRecords(Protocol):
        """What `records.c` offers; ValueError for lengths that do not lie in the data."""

        def walk(self, data: Buffer, at: int, limit: int, dtype: str, offset: int, plus: int, least: int, out: Buffer) -> tuple[int, int]:
            """As `capture.record_starts.walk`: starts below `limit` into `out`, int64[n]; returns their number, and where the next is."""

    class NativeSums(Protocol):
        """What `sums.c` offers; ValueError for an entry that does not lie in the data."""

        def icrcs(self, data: Buffer, starts: Buffer, ends: Buffer, kinds: Buffer, out: Buffer) -> None:
            """ICRCs into `out`, uint32[n], of data[starts:ends] (int64[n]); `kinds`, uint8[n], as in `decode.crcs`."""

        def vcrcs(self, data: Buffer, starts: Buffer, ends: Buffer, out: Buffer) -> None:
            """VCRCs into `out`, uint32[n], of data[starts:ends] (int64[n])."""

        def fold(self, wanted: bool) -> bool:
            """Whether to use carry-less multiplication where the processor has it; returns what held before."""


records: NativeRecords | None
sums: NativeSums | None
try:
    from . import _records, _sums  # type: ignore[attr-defined, unused-ignore]
except ImportError:
    records = sums = None
else:
    records, sums = _records, _sums
