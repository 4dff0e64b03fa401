"""The Python interface to an opened capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ibdissect import plugins as plugin_loader
from ibdissect.capture.chunk import Chunk
from ibdissect.capture.index import FrameIndex
from ibdissect.capture.opening import Source, open_capture
from ibdissect.capture.path_arguments import discover
from ibdissect.capture.recordings import one_set
from ibdissect.decode import ChunkTable, Int
from ibdissect.dissect.named_values import MESSAGE_NAMES
from ibdissect.dissect.tree import Tree
from ibdissect.errors import CaptureError, ConfigError, FilterError, missing_extra
from ibdissect.lint.finding import Finding
from ibdissect.lint.rule import Rule
from ibdissect.pipeline.reading import Progress, Reading, Selection, plain_files
from ibdissect.tables.capture_table import CaptureTable
from ibdissect.tables.columns import Columns
from ibdissect.wire.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from ibdissect.dfilter.answers import AnswerFrames
    from ibdissect.dfilter.frame_properties import Findings, State
    from ibdissect.diagnosis.connection import Connection
    from ibdissect.lint.finding import CaptureReport
    from ibdissect.mad.rmpp_reassembly import Reassembled
    from ibdissect.pipeline.check import CheckOptions
    from ibdissect.subnet.files import SubnetFiles
    from ibdissect.subnet.nodes_of_packets import Ends
    from ibdissect.tables.connections import ConnectionTable
    from ibdissect.tables.findings import FindingsTable


OVERVIEW = (
    "frame.number", "frame.time_relative", "_ws.col.source", "_ws.col.destination", "_ws.col.protocol", "frame.len", "_ws.col.info",
)  # fmt: skip
"""Columns of a capture in a notebook."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One record of a capture."""

    number: int
    """From 1, as in Wireshark."""
    time_ns: int
    """Nanoseconds since 1970 UTC."""
    data: bytes = field(repr=False)
    """Captured bytes as Wireshark shows them: without ERF pseudo-header; RoCE from the Ethernet header on."""
    link: int
    """Link type (197 and 247 InfiniBand, 1 Ethernet, ...)."""

    def _repr_html_(self) -> str:  # without the bytes: they may hold keys
        at = np.datetime64(self.time_ns, "ns")
        return f"<p>Frame {self.number}: {len(self.data)} bytes, link type {self.link}, {at}Z</p>"


class Capture(Reading):
    """An opened capture: iterate its frames, dissect one, get columns, lint it. Close it, or use a `with` statement.

    `progress` is a function that you may set: it is called after each window of some MiB with the number of its last frame and the bytes
    read so far. What it raises ends the reading and arrives where you asked: so a program cancels.
    """

    def __init__(
        self, source: Source | Sequence[str], *, plugins: Iterable[str] = (), show_keys: bool = False, follow: bool = False,
        subnet: Iterable[str] = (), set: bool = False, roce_ports: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """`source`: a path, `-` or a binary file object; CaptureError if it is not a capture. `plugins`: files or modules, as for --plugin.

        `show_keys`: keys are not masked. `follow`: wait for more when the file ends, until it is closed. `subnet`: files about the
        subnet, as for --subnet; SubnetFileError if they cannot be read.

        `set`: read the files, directories and globs in `source` as one capture, as --set does. `roce_ports`: UDP ports of RoCE v2 beside
        4791, as for --roce-port.
        """
        if set:
            source = one_set(discover([source] if isinstance(source, str) else cast("Sequence[str]", source)).files)
        elif isinstance(source, Sequence) and not isinstance(source, str):
            raise CaptureError(", ".join(source), "are several files", hint="open([...], set=True) reads them as one capture")
        files = None
        if subnet:
            from ibdissect.subnet.files import read_files

            files = read_files(subnet)
        loaded = plugin_loader.load(plugins)
        catalog = loaded.catalog.with_roce(roce_ports) if roce_ports else loaded.catalog
        super().__init__(open_capture(source, follow=follow), catalog=catalog, show_keys=show_keys)
        self.source: Source = source
        self.subnet: SubnetFiles | None = files
        self.plugin_rules: tuple[type[Rule], ...] = loaded.rules
        self._index: FrameIndex | None = None
        self._columns: Columns | None = None
        self._answers: AnswerFrames | None = None
        self._ends: Ends | None = None
        self._codes: Findings | None = None
        self.options: Callable[[], CheckOptions] = self._options
        """How findings are made where a filter or a column needs them."""
        self.on_incomplete: Callable[[str], None] = self._refuse_incomplete
        """Called with the reason if a check missed something."""
        self.selection: Selection | None = None
        """The frames that `selected` gives; None: all."""
        self.progress: Progress | None = None
        """Called with each window that `selected` or a check reads."""

    def close(self) -> None:
        """Close the file."""
        super().close()
        if self._index is not None:
            self._index.close()
            self._index = None

    def __len__(self) -> int:
        """The number of frames; found in one pass on first use. TypeError for a pipe, which can be read only once."""
        if not self.reader.rereadable:
            raise TypeError(f"{self.path} is a pipe: the number of its frames is known at its end")
        return self._indexed().frames

    def __bool__(self) -> bool:
        return True  # without counting frames

    def __repr__(self) -> str:
        return f"<ibdissect.Capture {printable(self.path)}>"

    def _repr_html_(self) -> str:
        if not self.reader.rereadable:
            return f"<p>{escape(printable(self.path))}: a pipe, which can be read only once</p>"
        return self.table().select(*OVERVIEW)._repr_html_()

    def __iter__(self) -> Iterator[Frame]:
        for chunk in self.chunks():
            times, links = chunk.time_ns.tolist(), chunk.link.tolist()
            for row in range(len(chunk)):
                yield Frame(chunk.first + row, times[row], chunk.frame_bytes(row), links[row])

    def frame(self, number: int) -> Frame:
        """The frame with a number, in any order. Raises IndexError if there is none."""
        chunk = self._one(number)
        return Frame(number, int(chunk.time_ns[0]), chunk.frame_bytes(0), int(chunk.link[0]))

    def dissect(self, number: int) -> Tree:
        """The frame with a number as a tree of layers and fields, and what the frame completes. Raises IndexError if there is none."""
        table = self.table_of(self._one(number))
        if self.keys_to < number or not self.has_joined(number):
            for _ in self.tables(until=number):
                pass
        from ibdissect.transport.completed import whole_tree  # commands that show no single frame do not need it

        return whole_tree(table, self.presenter())

    def selected(self, *, keys: bool = False) -> Iterator[tuple[ChunkTable, Int]]:
        """Tables with the rows of their selected frames, up to the last frame that may be selected. `keys`: number masked keys."""
        only = self.selection
        for table in self.tables(keys=keys, until=None if only is None else only.last, progress=self.progress):
            yield table, np.arange(len(table)) if only is None else np.flatnonzero(only.rows(table))

    def transfer(self, number: int) -> Reassembled | None:
        """The RMPP transfer that a frame carries a segment of, complete or not; None for other frames. Reads the capture again."""
        from ibdissect.mad.rmpp_reassembly import Transfers  # rarely needed

        transfers = Transfers()
        for table in self.tables():
            for transfer in transfers.feed(table).values():
                if transfer.holds(number):
                    return transfer
        return next((transfer for transfer in transfers.unfinished() if transfer.holds(number)), None)

    def answers(self, names: Iterable[str] = ()) -> AnswerFrames:
        """Which frame answers which request in the whole capture; found in one pass on first use. CaptureError for a pipe.

        `names`: what is asked of it; with one of `named_values.MESSAGE_NAMES` packets are put together to messages, too.
        """
        messages = not MESSAGE_NAMES.isdisjoint(map(str.lower, names))
        if self._answers is None or (messages and self._answers.messages is None):
            from ibdissect.dfilter.answers import AnswerFrames  # rarely needed

            self.read_twice("to match requests with their answers")
            found = AnswerFrames(messages=messages)
            for table in self.tables(keys=False):
                found.feed(table)
            found.finish()
            self._answers = found
        return self._answers

    def codes(self) -> Findings:
        """Code, rule and severity of the findings in each frame; found in one check on first use. CaptureError for a pipe."""
        if self._codes is None:
            self.read_twice("for its findings")
            from ibdissect.dfilter.frame_properties import FindingFacts

            found: dict[int, list[FindingFacts]] = {}
            for one in self.report(self.options()).findings:
                found.setdefault(one.frame, []).append(FindingFacts(one.code, one.name, one.severity.value))
            self._codes = found
        return self._codes

    def ends(self) -> Ends:
        """Which nodes send and receive packets, from the capture and from files about the subnet; found in one pass on first use.
        CaptureError for a pipe without files.
        """
        if self._ends is None:
            from ibdissect.pipeline.capture_nodes import ends_in

            self._ends = ends_in(self, self.subnet)
        return self._ends

    def state(self, names: Iterable[str]) -> State:
        """What columns of these names need beyond their frames: findings, answers, names of nodes. ConfigError, CaptureError."""
        from ibdissect.dfilter.frame_properties import FINDING_NAMES, NODE_NAMES, State
        from ibdissect.dissect.named_values import ANSWER_NAMES

        wanted, state = set(names), State(presenter=self.presenter(), hide_keys=not self.show_keys)
        if wanted & NODE_NAMES.keys():
            state.ends = self.ends()
        if wanted & ANSWER_NAMES:
            state.answers = self.answers(wanted)
        if wanted & FINDING_NAMES.keys():
            state.findings = self.codes()
        return state

    def table_at(self, frames: Sequence[int]) -> ChunkTable:
        """The given frames (ascending) as columns; row i is frames[i]."""
        return self.table_of(self._indexed().chunk(frames), frames)

    def _one(self, number: int) -> Chunk:
        index = self._indexed()
        if not 1 <= number <= index.frames:
            raise IndexError(f"{self.path} has frames 1 to {index.frames}, not {number}" if index.frames else f"{self.path} has no frames")
        return index.chunk([number])

    def _indexed(self) -> FrameIndex:
        """The positions of all frames; found in one pass on first use."""
        if self._index is None:
            self._index = FrameIndex(plain_files(self.source, self.reader))
            for chunk in self.chunks():
                self._index.add(chunk)
                if not self.reader.rereadable:
                    self.learn(self.table_of(chunk))
        return self._index

    def table(self) -> Columns:
        """Columns by filter name, over the whole capture: `table["bth.p_key"].value`, `polars.DataFrame(table.filter("..."))`."""
        if self._columns is None:
            self._columns = Columns(self)
        return self._columns

    def connections(self) -> list[Connection]:
        """What became of each connection, as `ibdissect diagnose` tells it, in the order of first frames. CaptureError."""
        from ibdissect.pipeline.diagnosing import diagnosed  # rarely needed

        return diagnosed(self, self.path, self.progress).connections

    def messages(self) -> CaptureTable:
        """The messages of queue pairs and of connection management, in the order of their first frames, as `export --messages` has them,
        for Arrow, polars, DuckDB and pandas. CaptureError for a pipe; ConfigError if pyarrow is missing.
        """
        return self._table("messages")

    def records(self) -> CaptureTable:
        """The records of RMPP transfers, as `export --records` has them. CaptureError; ConfigError if pyarrow is missing."""
        return self._table("records")

    def requests(self) -> CaptureTable:
        """Management requests, and those of plugins' protocols, with their answers and how long these took, as the table `requests` of
        `ibdissect sql` has them. CaptureError; ConfigError if pyarrow is missing.
        """
        return self._table("requests")

    def _table(self, name: str) -> CaptureTable:
        try:
            module = import_module(f"ibdissect.tables.{name}")
        except ModuleNotFoundError as error:
            raise missing_extra("export", str(error.name)) from error
        return CaptureTable(f"{name} of {self.path}", module.SCHEMA, lambda: module.batches(self))

    def sql(self, query: str) -> pa.Table:
        """The result of a query with DuckDB's SQL over the tables that `ibdissect sql` has, as an Arrow table: polars.DataFrame(x),
        x.to_pandas(). FilterError for a query that DuckDB refuses; ConfigError if duckdb or pyarrow is missing.
        """
        try:
            from ibdissect.tables.sql import Database
        except ModuleNotFoundError as error:
            raise missing_extra("export", str(error.name)) from error
        with Database(self, (), self.lint) as database:
            return database.run(query).read_all()

    def connection_table(self) -> ConnectionTable:
        """What `connections` gives, as a table for Arrow, polars, DuckDB and pandas. CaptureError; ConfigError if pyarrow is missing."""
        try:
            from ibdissect.tables.connections import ConnectionTable
        except ModuleNotFoundError as error:
            raise missing_extra("export", str(error.name)) from error
        return ConnectionTable(self.connections())

    def lint(
        self, *, select: str | Iterable[str] = (), ignore: str | Iterable[str] = (), filter: str = "", max_findings: int | None = None
    ) -> list[Finding]:
        """The findings, ordered by frame and code. CaptureError if the capture cannot be read, ConfigError, FilterError.

        `select` and `ignore` are codes, prefixes or names of rules, as for `ibdissect lint`. `filter`: only findings in frames that a
        display filter selects; all frames are learnt from. `max_findings`: most findings per rule.
        """
        options = self._options(select, ignore, max_findings)
        if filter:
            from ibdissect.dfilter.compile import compile_filter

            options.selection = only = compile_filter(filter, self.catalog, hide_keys=not self.show_keys)
            if only.codes or only.ahead:
                raise FilterError(filter, "the filter needs the results of this check itself", hint="choose rules with select")
        return self.report(options).findings

    def findings(self, **options: Any) -> FindingsTable:
        """What `lint` finds with the same options, as a table for Arrow, polars, DuckDB and pandas. ConfigError if pyarrow is missing."""
        try:
            from ibdissect.tables.findings import FindingsTable
        except ModuleNotFoundError as error:
            raise missing_extra("export", str(error.name)) from error
        return FindingsTable(self.lint(**options))

    def _options(
        self, selected: str | Iterable[str] = (), ignored: str | Iterable[str] = (), max_findings: int | None = None
    ) -> CheckOptions:
        """The options of a check with all rules, or those selected."""
        from ibdissect.lint.rule_selection import causes_of, select, split_codes
        from ibdissect.pipeline.check import CheckOptions
        from ibdissect.rules import load

        if max_findings is not None and max_findings < 1:
            raise ConfigError("max_findings", str(max_findings), "is not a number from 1 on", hint="leave it out for no limit")
        every, without = [*load(), *self.plugin_rules], split_codes(ignored)
        rules = select(every, split_codes(selected), without)
        return CheckOptions(
            rules=rules, causes=causes_of(rules, every, without), catalog=self.catalog, max_findings=max_findings, show_keys=self.show_keys,
            subnet=self.subnet,
        )  # fmt: skip

    def report(self, options: CheckOptions) -> CaptureReport:
        """The report of a check with the given options. CaptureError if the capture cannot be read (a pipe only once), or not all of it."""
        from ibdissect.pipeline.check import check_reading

        stopped: list[Exception] = []

        def told(frame: int, read: int) -> None:
            try:
                if self.progress is not None:
                    self.progress(frame, read)
            except Exception as error:  # the caller cancels, which is no fault in the capture
                stopped.append(error)
                raise

        report = check_reading(Reading(self.reader, catalog=self.catalog, show_keys=options.show_keys), options, progress=told)
        if stopped:
            raise stopped[0]
        if report.error is not None:
            (self._refuse_incomplete if report.status == "unreadable" else self.on_incomplete)(report.error)
        return report

    def _refuse_incomplete(self, reason: str) -> None:
        raise CaptureError(self.path, reason.removeprefix(f"{self.path}: "))
