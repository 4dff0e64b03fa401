"""How are more packets kept than memory holds? As blocks of columns in a temporary file, read again one by one."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Any, Generic, TypeVar

import numpy as np
from msgspec.structs import astuple

from ibdissect.errors import CaptureError
from ibdissect.table.rows import Columns

C = TypeVar("C", bound=Columns)
IN_MEMORY = 4 << 20
"""Bytes up to which nothing is written to disk."""


class Spool(Generic[C]):
    """Blocks of columns of one kind, in the order in which they were appended; gone with the last reference."""

    def __init__(self, kind: type[C]) -> None:
        self._kind = kind
        self._file = SpooledTemporaryFile(IN_MEMORY, prefix="ibdissect-points-")  # noqa: SIM115 - closed with the spool
        self._blocks: list[tuple[int, list[tuple[np.dtype[Any], tuple[int, ...]]]]] = []

    def append(self, block: C) -> None:
        """Raises CaptureError if the disk is full."""
        columns = astuple(block)
        try:
            at = self._file.seek(0, 2)
            for column in columns:
                self._file.write(np.ascontiguousarray(column).data.cast("B") if column.size else b"")
        except OSError as error:
            raise CaptureError("temporary file", error.strerror or str(error), hint="set TMPDIR to a folder with more room") from error
        self._blocks.append((at, [(column.dtype, column.shape) for column in columns]))

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self._blocks)

    def __getitem__(self, number: int) -> C:
        at, shapes = self._blocks[number]
        self._file.seek(at)
        columns = []
        for dtype, shape in shapes:
            raw = bytearray(self._file.read(int(np.prod(shape)) * dtype.itemsize))
            columns.append(np.frombuffer(raw, dtype).reshape(shape))
        return self._kind(*columns)

    def __iter__(self) -> Iterator[C]:
        return (self[number] for number in range(len(self)))
