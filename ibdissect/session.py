"""What can be asked of an opened capture? The one composition of the rooms below, and the Python interface."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from ibdissect import plugins as plugin_loader
from ibdissect.capture.chunk import Chunk, Damage
from ibdissect.capture.index import FrameIndex
from ibdissect.capture.opening import Source, open_capture
from ibdissect.capture.stream import GZIP, XZ, ZSTD
from ibdissect.columns import Columns
from ibdissect.dissect.tree import Tree, dissect_row
from ibdissect.dissect.value import Presenter
from ibdissect.errors import CaptureError
from ibdissect.lint.finding import Finding
from ibdissect.lint.rule import Rule
from ibdissect.record import record
from ibdissect.table.secrets import Masker
from ibdissect.table.services import Services
from ibdissect.table.table import ChunkTable
from ibdissect.wire.catalog import Catalog

if TYPE_CHECKING:
    from ibdissect.dfilter.answers import Answers
    from ibdissect.dissect.rmpp import Transfer
    from ibdissect.lint.result import CaptureReport
    from ibdissect.linting import Options


@record(eq=True)
class Frame:
    """One record of a capture."""

    number: int
    """From 1, as Wireshark counts."""
    time_ns: int
    """Nanoseconds since 1970 UTC."""
    data: bytes
    """Captured bytes as Wireshark shows them: behind an ERF pseudo-header, from the Ethernet header on for RoCE."""
    link: int
    """Link type (197 and 247 InfiniBand, 1 Ethernet, ...)."""


class Capture:
    """An opened capture: iterate its frames, dissect one, ask for columns, lint it. Close it, or use it in a `with` statement."""

    def __init__(self, source: Source, *, plugins: Iterable[str] = (), show_keys: bool = False, follow: bool = False) -> None:
        loaded = plugin_loader.load(plugins)
        self.source: Source = source
        self.catalog: Catalog = loaded.catalog
        self.plugin_rules: tuple[type[Rule], ...] = loaded.rules
        self.show_keys = show_keys
        self.reader = open_capture(source, follow=follow)
        self.masker = Masker()
        self.services = Services()
        """What each connection is for, as learnt from the frames read so far."""
        self._learnt_to = 0
        self._index: FrameIndex | None = None
        self._columns: Columns | None = None
        self._answers: Answers | None = None

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        self.reader.close()
        if self._index is not None:
            self._index.close()
            self._index = None

    @property
    def path(self) -> str:
        """What the capture is called in messages."""
        return self.reader.path

    @property
    def damage(self) -> list[Damage]:
        """Broken places of the container that the last reading met."""
        return self.reader.damage

    def chunks(self) -> Iterator[Chunk]:
        """The records, a window at a time; a pipe can be read only once (CaptureError)."""
        return self.reader.chunks()

    def tables(self) -> Iterator[ChunkTable]:
        """The same as tables; keys are numbered on the way."""
        for chunk in self.chunks():
            table = ChunkTable(chunk, self.catalog, self.services)
            self._learn(table)
            yield table

    def _learn(self, table: ChunkTable) -> None:
        first = table.chunk.first
        if first == self._learnt_to + 1:
            self.services.feed(table)
            if not self.show_keys:
                self.masker.feed(table)
            self._learnt_to = first + len(table) - 1

    def presenter(self) -> Presenter:
        """Turns values into what is shown, with keys masked as this capture was opened."""
        return Presenter(self.masker, show_keys=self.show_keys)

    def __iter__(self) -> Iterator[Frame]:
        for chunk in self.chunks():
            times, links = chunk.time_ns.tolist(), chunk.link.tolist()
            for row in range(len(chunk)):
                yield Frame(chunk.first + row, times[row], chunk.frame_bytes(row), links[row])

    def frame(self, number: int) -> Frame:
        """One frame, in any order. IndexError when the capture has none of that number."""
        chunk = self._one(number)
        return Frame(number, int(chunk.time_ns[0]), chunk.frame_bytes(0), int(chunk.link[0]))

    def dissect(self, number: int) -> Tree:
        """One frame as a tree of layers and fields. IndexError when the capture has none of that number."""
        table = ChunkTable(self._one(number), self.catalog, self.services)
        if self._learnt_to < number:
            for _ in self.tables():
                if self._learnt_to >= number:
                    break
        return dissect_row(table, 0, self.presenter())

    def transfer(self, number: int) -> Transfer | None:
        """The RMPP transfer that a frame brought a segment of, complete or not; None for any other frame. Reads the capture anew."""
        from ibdissect.dissect.transfers import Transfers  # few ask for whole transfers

        transfers = Transfers()
        for table in self.tables():
            for transfer in transfers.feed(table).values():
                if transfer.holds(number):
                    return transfer
        return next((transfer for transfer in transfers.unfinished() if transfer.holds(number)), None)

    def answers(self) -> Answers:
        """Which frame answers which request, over the whole capture; found in one pass, on first use. CaptureError for a pipe."""
        if self._answers is None:
            from ibdissect.dfilter.answers import Answers  # most questions need no requests matched with answers

            if not self.reader.again:
                raise CaptureError(self.path, "is read twice to match requests with their answers, which a pipe cannot give")
            found = Answers()
            for chunk in self.chunks():
                found.feed(ChunkTable(chunk, self.catalog))
            self._answers = found
        return self._answers

    def _one(self, number: int) -> Chunk:
        index = self._indexed()
        if not 1 <= number <= index.frames:
            raise IndexError(f"{self.path} has frames 1 to {index.frames}, not {number}" if index.frames else f"{self.path} has no frames")
        return index.chunk([number])

    def _indexed(self) -> FrameIndex:
        """Where every frame is; found in one pass, on first use."""
        if self._index is None:
            self._index = FrameIndex(self._plain_path())
            for chunk in self.chunks():
                self._index.add(chunk)
                if not self.reader.again:
                    self._learn(ChunkTable(chunk, self.catalog, self.services))
        return self._index

    def _plain_path(self) -> str | None:
        """The path of a file whose bytes can be read again where they stand; None for pipes, file objects and compressed files."""
        if not isinstance(self.source, (str, os.PathLike)) or not self.reader.again:
            return None
        path = os.fspath(self.source)
        try:
            with open(path, "rb") as file:
                return None if file.read(6).startswith((GZIP, ZSTD, XZ)) else path
        except OSError as error:  # it was there when the capture was opened
            raise CaptureError(self.path, f"cannot be read: {error.strerror}") from error

    def table(self) -> Columns:
        """Columns by filter name, over the whole capture: `table["infiniband.bth.p_key"].value`, `table.filter("...").to_arrow()`."""
        if self._columns is None:
            self._columns = Columns(self)
        return self._columns

    def lint(self) -> list[Finding]:
        """Every finding of all rules, by frame and code. CaptureError when the capture cannot be read."""
        from ibdissect.linting import Options
        from ibdissect.rules import load

        rules = [*load(), *self.plugin_rules]
        return self.report(Options(rules=rules, catalog=self.catalog, max_findings=None, show_keys=self.show_keys)).findings

    def report(self, options: Options) -> CaptureReport:
        """What a check with options of one's own finds. CaptureError when the capture cannot be read, or is a pipe that was read."""
        from ibdissect.linting import check_opened

        report = check_opened(self.reader, options)
        if report.error is not None:
            raise CaptureError(self.path, report.error.removeprefix(f"{self.path}: "))
        return report
