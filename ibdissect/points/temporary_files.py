"""Packets that do not fit into memory, as blocks of columns in a temporary file, read back one by one."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Generic, TypeVar

import numpy as np
from msgspec.structs import astuple

from ibdissect.decode.equal_rows import Columns
from ibdissect.errors import CaptureError

C = TypeVar("C", bound=Columns)
IN_MEMORY = 4 << 20
"""Bytes up to which nothing is written to disk."""


class Spool(Generic[C]):
    """Blocks of columns of one kind, in the order in which they were appended; gone with the last reference."""

    def __init__(self, kind: type[C]) -> None:
        self._kind = kind
        self._file = SpooledTemporaryFile(IN_MEMORY, prefix="ibdissect-points-")  # noqa: SIM115 - closed with the spool
        self._starts: list[int] = []

    def append(self, block: C) -> None:
        """Raises CaptureError if the disk is full."""
        try:
            self._starts.append(self._file.seek(0, 2))
            for column in astuple(block):
                np.save(self._file, column)
        except OSError as error:
            raise CaptureError("temporary file", error.strerror or str(error), hint="set TMPDIR to a folder with more room") from error

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self._starts)

    def __getitem__(self, number: int) -> C:
        self._file.seek(self._starts[number])
        return self._kind(*(np.load(self._file) for _ in self._kind.__struct_fields__))

    def __iter__(self) -> Iterator[C]:
        return (self[number] for number in range(len(self)))
