"""Rows of one capture written by several processes: each makes those of some windows, which are written in order."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import IO, TYPE_CHECKING

from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect import failures
from ibdissect.capture.chunk import Damage
from ibdissect.capture.file_names import Unit, files_of
from ibdissect.decode import ChunkTable, Int
from ibdissect.errors import ConfigError, IbdissectError
from ibdissect.pipeline.check import Stop
from ibdissect.pipeline.ordered_pool import spread
from ibdissect.shown_urls import public_name

from .common_options import CommonOptions
from .console import progress_bar
from .each_capture import chosen_engine
from .output import lacking, open_for, selection_of, tell_lacking, tell_untold

if TYPE_CHECKING:
    from ibdissect.python_interface import Capture
    from ibdissect.tables.values_in_frames import Rows

MOST_WINDOWS = 1 << 30
Write = Callable[[Iterable[tuple[ChunkTable, Int]], IO[bytes]], int]
"""Writes the chosen rows of tables and returns their number; begins with a heading, if there is one."""
Writer = Callable[["Capture"], tuple["Rows", Write]]
"""The columns of an opened capture, and what writes them; picklable."""


class WindowRows(Record):
    """The rows of a window."""

    text: bytes = b""
    """With the heading if it is the first."""
    rows: int = 0
    masked: int = 0
    """Keys left out."""
    position: int = 0
    """Where the window ends in the capture."""
    last: bool = False
    """There are no more windows; what follows is about the whole capture."""
    damage: Sequence[Damage] = ()
    hidden: int = 0
    """Checksums that the filter did not compare."""
    untold: int = 0
    """Keys without a number of their own."""
    lacking: Sequence[tuple[str, int, int]] = ()
    """What is missing (`output.lacking`)."""
    error: str = ""
    failed: Sequence[str] = ()
    """Failures of plugin functions."""


class WindowWorker:
    """Makes the rows of single windows. It goes on where it was, so that each process reads the capture once."""

    def __init__(self, unit: Unit, common: CommonOptions, writer: Writer) -> None:
        self.unit, self.common, self.writer = unit, common, writer
        self._pieces: Iterator[WindowRows] | None = None
        self._next = self._wanted = 0

    def __call__(self, number: int, *, stop: Stop | None = None) -> WindowRows:
        """The rows of a window, by its number from 0."""
        if self._pieces is None or number < self._next:
            self._pieces, self._next = self._read(), 0
        self._wanted = number
        try:
            with failures.handed_over() as failed:
                piece = next(self._pieces)
            piece.failed = failed
            return piece
        except IbdissectError as error:
            self._pieces = None
            return WindowRows(error=str(error))

    def _read(self) -> Iterator[WindowRows]:
        with open_for(self.unit, self.common) as opened:
            opened.selection = selection = selection_of(opened, self.common)
            columns, write = self.writer(opened)
            heading = io.BytesIO()
            write((), heading)
            for table, rows in opened.selected(keys=columns.numbers_keys):
                self._next += 1
                if self._next <= self._wanted:  # another process makes its rows
                    columns.state.begin(table)
                    columns.state.end(table)
                    continue
                text, before = io.BytesIO(), columns.masked
                count = write([(table, rows)], text)
                start = heading.tell() if self._wanted else 0
                yield WindowRows(text.getvalue()[start:], count, columns.masked - before, table.chunk.base + table.window)
            hidden = selection.hidden_checksums if selection is not None else 0
            while True:
                self._next += 1
                alone = b"" if self._wanted else heading.getvalue()
                lacks = lacking(opened)
                yield WindowRows(alone, last=True, damage=opened.damage, hidden=hidden, untold=opened.masker.dropped.count, lacking=lacks)


def write_by_windows(
    unit: Unit, jobs: int | None, engine: str | None, common: CommonOptions, writer: Writer, file: IO[bytes]
) -> tuple[int, int]:
    """Write the rows of a capture with several processes: the number of rows, and of keys left out. CaptureError, ConfigError."""
    name = public_name(str(unit))
    if any(one == "-" or (os.path.exists(one) and not os.path.isfile(one)) for one in files_of(unit)):
        raise ConfigError("CAPTURE", name, "cannot be read by several processes", hint="name a file, or leave --jobs and --engine out")
    common.selection(common.loaded()[0])  # what is wrong with a filter is said once, not by each process
    work = WindowWorker(unit, replace(common, quiet=True, plugins=common.plugin_names), writer)
    count = masked = 0
    with chosen_engine(engine, jobs, common) as made, progress_bar(files_of(unit), quiet=common.quiet or file.isatty()) as progress:
        assert made is not None
        with closing(spread(range(MOST_WINDOWS), made(work), partial(_died, name), most=1)) as pieces:
            for piece in pieces:
                failures.tell(piece.failed)
                if piece.error:
                    raise IbdissectError(piece.error)
                file.write(piece.text)
                count, masked = count + piece.rows, masked + piece.masked
                if progress is not None:
                    progress(count, piece.position)
                if piece.last:
                    common.tell_damage(name, piece.damage)
                    tell_untold(name, piece.untold, common)
                    tell_lacking(name, piece.lacking, common)
                    common.tell_hidden(piece.hidden)
                    break
    return count, masked


def _died(name: str, _number: int) -> WindowRows:
    return WindowRows(error=f"{name}: the process that worked on it died")
