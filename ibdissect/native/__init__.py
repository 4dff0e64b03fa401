"""Which work is done in C? Checksums of many packets at once, where the package was built with a compiler (docs/decisions/native-parts.md).

Without a compiler `sums` is None, and NumPy and zlib do the same work more slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy.typing as npt

    Buffer = npt.NDArray[Any] | bytes

    class Sums(Protocol):
        """What `sums.c` offers; ValueError for an entry that does not lie in the data."""

        def icrcs(self, data: Buffer, starts: Buffer, ends: Buffer, kinds: Buffer, out: Buffer) -> None:
            """ICRCs into `out`, uint32[n], of data[starts:ends] (int64[n]); `kinds`, uint8[n], as in `table.crcs`."""

        def vcrcs(self, data: Buffer, starts: Buffer, ends: Buffer, out: Buffer) -> None:
            """VCRCs into `out`, uint32[n], of data[starts:ends] (int64[n])."""

        def fold(self, wanted: bool) -> bool:
            """Whether to use carry-less multiplication where the processor has it; returns what held before."""


sums: Sums | None
try:
    from . import _sums  # type: ignore[attr-defined, unused-ignore]
except ImportError:
    sums = None
else:
    sums = _sums
