"""`ibdissect export`: writes columns, findings or frames to a file or standard output."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, TypeVar

import click
from msgspec import Struct as Record

from ibdissect.capture.file_names import Unit
from ibdissect.cli import output
from ibdissect.cli.common_options import CommonOptions, common_options, grouped, refuse, say
from ibdissect.cli.each_capture import EachCapture, Outcome, engine_option, jobs_option
from ibdissect.errors import ConfigError
from ibdissect.export import formats
from ibdissect.pipeline.check import Stop
from ibdissect.pipeline.ordered_pool import Stopped
from ibdissect.pipeline.reading import Progress
from ibdissect.wire.text import counted

if TYPE_CHECKING:
    from ibdissect.cli.windows_in_processes import Write
    from ibdissect.python_interface import Capture
    from ibdissect.tables.values_in_frames import Rows

OTHERS = ("findings", "connections", "messages", "records", "points")
"""Options that say what is written instead of the frames."""
FORMATS = (*formats.NAMES, "pcap", "pcapng")


class ExportArguments(Record):
    """What to write of which captures, and how."""

    as_set: bool
    target: str
    format_: str | None
    names: tuple[str, ...]
    first: bool
    findings: bool
    connections: bool
    messages: bool
    records: bool
    points: bool
    partition_by: str | None
    jobs: int | None
    engine: str | None
    max_findings: int

    @property
    def rows(self) -> str:
        """What a row of the table is. Raises ConfigError for options that cannot be used together."""
        chosen = next((what for what in OTHERS if getattr(self, what)), "frames")
        if chosen != "frames":
            whose = f"does nothing with --{chosen}: {'sightings' if chosen == 'points' else chosen} have columns of their own"
            refuse(*(what for what in OTHERS if what != chosen), reason=f"does nothing with --{chosen}: a file holds one of them")
            refuse("names", "first", *(("as_set", "partition_by") if chosen == "points" else ()), reason=whose)
        if chosen != "findings":
            refuse("max_findings", reason="is for --findings")
        return chosen

    @property
    def ending(self) -> str:
        """The extension that says how to write. Raises ConfigError if it cannot hold what is wanted."""
        given = self.format_ or ("csv" if self.target == "-" else None)
        ending = f".{given}" if given else output.ending_of(self.target, (*formats.ENDINGS, *output.FRAME_ENDINGS))
        if ending in output.FRAME_ENDINGS:
            hint = "`ibdissect points --write` writes a capture with all frames" if self.points else "name a .csv or .parquet"
            refuse(*OTHERS, "names", "first", reason="does nothing here: a capture holds frames only", hint=hint)
        elif self.rows != "frames" or ending != ".csv":
            output.require_extra("pyarrow")
        return ending

    @property
    def partitions(self) -> tuple[str, ...]:
        """What the folders of a dataset are named after. Raises ConfigError for unknown words."""
        assert self.partition_by is not None
        refuse(*OTHERS, reason="does nothing with --partition-by, which is for the columns of frames")
        if self.format_ not in (None, "parquet"):
            refuse("format_", reason="is not a format of --partition-by, which writes Parquet")
        if self.target == "-" or os.path.isfile(self.target):
            raise ConfigError("--output", self.target, "is a file, and a dataset is a folder", hint="name a folder")
        output.require_extra("pyarrow")
        from ibdissect.export.parquet_folders import KEYS, keys_of

        keys = tuple(self.partition_by.split(","))
        if not set(keys) <= KEYS.keys() or len(set(keys)) < len(keys):
            hint = f"name some of {', '.join(KEYS)}, each once"
            raise ConfigError("--partition-by", self.partition_by or "''", "is not a list of partition keys", hint=hint)
        if (there := keys_of(self.target)) not in ((), keys):
            mixed = next((key for key in there if "|" in key), "")
            reason = f"{self.target} is partitioned by {','.join(there)}: frames that are there already would count twice"
            if mixed:
                reason = f"{self.target} holds folders of {' and of '.join(mixed.split('|'))} side by side, which are not one dataset"
            hint = "use another folder" if mixed else "use the same keys, or another folder"
            raise ConfigError("--partition-by", self.partition_by, reason, hint=hint)
        return keys


@click.command()
@output.captures_argument
@grouped(
    ExportArguments,
    "wanted",
    output.set_option,
    output.output_option,
    click.option("--format", "format_", type=click.Choice(FORMATS), help="The format, whatever the name of FILE.  [csv if FILE is -]"),
    click.option("-e", "names", multiple=True, metavar="NAME", help="A column; repeat for more. `ibdissect fields` lists the names."),
    click.option("--first", is_flag=True, help="Only the first value of a name in a frame, in place of lists."),
    click.option("--findings", is_flag=True, help="Write the findings instead of the frames."),
    click.option("--connections", is_flag=True, help="Write what became of each connection (see diagnose) instead of the frames."),
    click.option("--messages", is_flag=True, help="Write the RDMA and CM messages instead of the frames."),
    click.option("--records", is_flag=True, help="Write the records of reassembled RMPP transfers instead of the frames."),
    click.option("--points", is_flag=True, help="Match the packets of several captures of the same traffic and write each sighting."),
    click.option(
        "--partition-by", metavar="KEYS",
        help="Add the frames of all captures to a Parquet dataset in the folder FILE: capture,hour (or day).",
    ),
    jobs_option("Share the work among N processes: the rows of one capture, or with --partition-by the captures."),
    engine_option,
    output.max_findings_option,
)  # fmt: skip
@common_options
def command(captures: tuple[str, ...], wanted: ExportArguments, common: CommonOptions) -> int:
    """Write CAPTURE as a table, or its frames as a capture. The extension of FILE names the format; --format lists them.

    `--output -` writes to standard output. A field that can occur several times in a frame becomes a list (in CSV separated by
    commas). Keys are null unless --show-keys is given; frames in a capture are unchanged, including their keys. All formats of
    tables but .csv need the extra `export`. docs/numbers.md defines each number. Several processes (--jobs,
    --engine) share the captures of --partition-by, or the rows of one capture written as .csv or .jsonl.
    """
    rows = wanted.rows
    if wanted.partition_by is not None:
        return _partitioned(output.units_of(captures, wanted.as_set, quiet=common.quiet), wanted, common)
    ending = wanted.ending
    if rows != "frames" or ending not in formats.LINES:
        refuse("jobs", "engine", reason=f"is for --partition-by, and for the frames of a capture as {formats.BY_LINES}")
    if rows == "points":
        rows, count = "sightings", _sightings(captures, wanted.target, ending, common)
    else:
        capture = output.source_of(captures, wanted.as_set, quiet=common.quiet)
        if wanted.engine is not None or (wanted.jobs or 1) > 1:
            return _by_windows(capture, wanted, ending, common)
        passes = int(wanted.target != "-" or not sys.stdout.isatty())  # a bar would be drawn among the rows
        with output.opened_capture(capture, common, passes=passes) as opened, _written(wanted.target, capture) as file:
            if ending in output.FRAME_ENDINGS:
                from ibdissect.export.copied_frames import write_frames

                count = write_frames(opened, file, output.FRAME_ENDINGS[ending])
            elif rows == "frames":
                count = _columns(opened, wanted, ending, file)
            else:
                count = _others(opened, wanted, ending, common, file)
    if ending in output.FRAME_ENDINGS:
        say("note: frames are written as they are, with the keys in them")
    _tell_written(count, rows.removesuffix("s"), wanted, common)
    return 0


def _tell_written(count: int, what: str, wanted: ExportArguments, common: CommonOptions) -> None:
    common.tell(f"{counted(count, what, ',')} written to {'standard output' if wanted.target == '-' else wanted.target}")


C = TypeVar("C", bound="Rows")


def _columns_of(kind: type[C], opened: Capture, wanted: ExportArguments) -> C:
    """The wanted columns of a capture, as texts or for Arrow."""
    from ibdissect.tables.default_fields import DEFAULT
    from ibdissect.tables.values_in_frames import named_columns

    named = named_columns(opened.catalog, wanted.names or DEFAULT, first=wanted.first)
    return kind(named, opened.state(column.name for column in named))


def _writer(opened: Capture, wanted: ExportArguments, ending: str) -> tuple[Rows, Write]:
    """The columns of frames, and what writes them."""
    if ending == ".csv":
        from ibdissect.export.csv import write_rows
        from ibdissect.tables.values_in_frames import Rows

        columns = _columns_of(Rows, opened, wanted)
        return columns, partial(write_rows, columns)
    from ibdissect.export import writers
    from ibdissect.tables.arrow import ArrowColumns

    made = _columns_of(ArrowColumns, opened, wanted)
    return made, lambda chosen, file: writers.write((made.batch(table, rows) for table, rows in chosen), made.schema, file, ending)


def _columns(opened: Capture, wanted: ExportArguments, ending: str, file: IO[bytes]) -> int:
    """Write the columns of frames and return the number of rows."""
    columns, write = _writer(opened, wanted, ending)
    count = write(opened.selected(keys=columns.numbers_keys), file)
    _tell_masked(columns.masked)
    return count


def _by_windows(capture: Unit, wanted: ExportArguments, ending: str, common: CommonOptions) -> int:
    """Write the columns of frames with several processes."""
    from .windows_in_processes import write_by_windows

    with _written(wanted.target, capture) as file:
        writer = partial(_writer, wanted=wanted, ending=ending)
        count, masked = write_by_windows(capture, wanted.jobs, wanted.engine, common, writer, file)
    _tell_masked(masked)
    _tell_written(count, "frame", wanted, common)
    return 0


def _others(opened: Capture, wanted: ExportArguments, ending: str, common: CommonOptions, file: IO[bytes]) -> int:
    """Write findings, connections, messages or records and return the number of rows."""
    from ibdissect.export import writers
    from ibdissect.tables import connections, findings, messages, records

    masked = Counter[str]()
    if wanted.findings:
        report = output.findings_of(opened, common, wanted.max_findings)
        schema, batches = findings.SCHEMA, findings.batches(report.findings)
    elif wanted.connections:
        schema, batches = connections.SCHEMA, connections.selected(opened)
    elif wanted.messages:
        schema, batches = messages.SCHEMA, messages.batches(opened)
    else:
        schema, batches = records.SCHEMA, records.batches(opened, masked)
    count = writers.write(batches, schema, file, ending)
    _tell_masked(masked.total())
    return count


def _tell_masked(count: int) -> None:
    if count:
        say(f"note: {counted(count, 'key')} left out; --show-keys writes them")


def _sightings(captures: Sequence[str], target: str, ending: str, common: CommonOptions) -> int:
    """Write the sightings of packets at several points and return their number."""
    from ibdissect.cli.points import compared
    from ibdissect.export import sightings, writers

    comparison = compared(captures, common)
    with _written(target, captures[0]) as file:
        return writers.write(sightings.batches(comparison), sightings.SCHEMA, file, ending)


def _partitioned(units: Sequence[Unit], wanted: ExportArguments, common: CommonOptions) -> int:
    """Add the frames of captures to a dataset, each when all of it was read."""
    keys = wanted.partitions
    from ibdissect.export.parquet_folders import unfinished_files
    from ibdissect.tables.values_in_frames import named_columns
    from ibdissect.wire.catalog import builtin

    named_columns(common.loaded()[0] or builtin(), wanted.names)  # a wrong name is said once, not for each capture
    written = masked = 0
    with unfinished_files(wanted.target) as private:
        add = partial(_added, wanted=wanted, keys=keys, private=private)
        each = EachCapture(units, add, wanted.jobs, wanted.engine, common)
        for outcome in each:
            written, masked = written + outcome.frames, masked + (outcome.result or 0)
    _tell_masked(masked)
    _tell_written(written, "frame", wanted, common)
    return each.status


def _added(
    unit: Unit, *, wanted: ExportArguments, keys: tuple[str, ...], private: str, common: CommonOptions, stop: Stop | None = None,
    progress: Progress | None = None,
) -> Outcome[int]:  # fmt: skip
    """Add the frames of a capture to the dataset; the result is the number of keys left out."""
    from ibdissect.export.parquet_folders import Partitions
    from ibdissect.tables.arrow import ArrowColumns

    with output.open_for(unit, common) as opened:
        columns = _columns_of(ArrowColumns, opened, wanted)
        opened.selection, opened.progress = (selection := output.selection_of(opened, common)), progress
        with Partitions(wanted.target, keys, columns.schema, unit, private) as dataset:
            for table, indices in opened.selected(keys=columns.numbers_keys):
                dataset.add(columns.batch(table, indices), table.chunk.time_ns[indices])
                if stop is not None and stop():
                    raise Stopped
    hidden = selection.hidden_checksums if selection is not None else 0
    return Outcome(str(unit), columns.masked, dataset.rows, opened.damage, hidden=hidden)


@contextmanager
def _written(target: str, source: Unit) -> Iterator[IO[bytes]]:
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    from ibdissect.export.whole_files import replacing

    with replacing(target, source) as file:
        yield file
