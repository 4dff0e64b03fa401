"""Lines of subnet files that state a fact, stored as negative frame numbers, so that they precede every frame.

Later files, and later lines of a file, have greater numbers, so histories stay in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct as Record

_BASE, _LINES = -(1 << 60), 1 << 32
_DOUBT = _LINES >> 1
"""Set in the number of a line that may not apply."""


class KnownFile(Record, frozen=True):
    """A subnet file, as reports name it."""

    path: str
    time_ns: int
    """When its contents held, nanoseconds since 1970; 0: unknown."""
    lasting: bool = False
    """Its contents hold until somebody changes them (partitions.conf), so its age proves nothing."""
    exact: bool = False
    """The user or the file gave that time. The file system may only know when the file was copied."""


def line_number(file: int, line: int) -> int:
    """The (negative) frame number of a fact in line `line` of file `file`, both counted from 0; line 0 is the file as a whole."""
    return _BASE + file * _LINES + min(line, _DOUBT - 1)


def doubtful(line: int) -> int:
    """The number of a line that may not apply to a port, because the kind of port is unknown."""
    return line | _DOUBT


def is_doubtful(line: int) -> bool:
    """Whether a number comes from `doubtful`."""
    return line < 0 and bool(line & _DOUBT)


def file_and_line(frame: int) -> tuple[int, int]:
    """The file and the line that a negative frame number stands for."""
    file, line = divmod(frame - _BASE, _LINES)
    return file, line & ~_DOUBT


def place_text(frame: int, files: Sequence[KnownFile]) -> str:
    """`partitions.conf:12` for a negative frame number."""
    file, line = file_and_line(frame)
    return f"{files[file].path}:{line}" if line else files[file].path
