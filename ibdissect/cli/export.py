"""`ibdissect export`: writes columns, findings or frames to a file or standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO

import click
from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect.capture.sets import Unit, files_of
from ibdissect.cli.common import Common, common_options, progress_bar, say
from ibdissect.cli.engines import EachCapture, Outcome, engine_option, jobs_option
from ibdissect.cli.output import (
    FRAME_ENDINGS,
    ending_of,
    findings_of,
    max_findings_option,
    open_for,
    opened_capture,
    require_extra,
    set_option,
    shown_of,
    source_of,
    to_option,
    units_of,
)
from ibdissect.errors import ConfigError
from ibdissect.session.check import Stop
from ibdissect.session.reading import Progress
from ibdissect.session.spread import Stopped
from ibdissect.wire.text import counted

TABLE_ENDINGS = (".parquet", ".arrow", ".feather", ".csv", ".jsonl", ".ndjson")
FORMATS = ("parquet", "arrow", "csv", "jsonl", "pcap", "pcapng")


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE")
@set_option
@to_option
@click.option("--format", "format_", type=click.Choice(FORMATS), help="The format, whatever the name of FILE.  [csv if FILE is -]")
@click.option("-e", "names", multiple=True, metavar="NAME", help="A column; repeat for more. `ibdissect fields` lists the names.")
@click.option("--first", is_flag=True, help="Only the first value of a name in a frame, in place of lists.")
@click.option("--findings", is_flag=True, help="Write the findings instead of the frames.")
@click.option("--messages", is_flag=True, help="Write the RDMA and CM messages instead of the frames.")
@click.option("--records", is_flag=True, help="Write the records of RMPP transfers, put together, instead of the frames.")
@click.option("--points", is_flag=True, help="Match the packets of several captures of the same traffic and write each sighting.")
@click.option(
    "--partition-by", metavar="KEYS", help="Add the frames of all captures to a Parquet dataset in the folder FILE: capture,hour (or day)."
)
@jobs_option
@engine_option
@max_findings_option
@common_options
def command(
    captures: tuple[str, ...], as_set: bool, target: str, format_: str | None, names: tuple[str, ...], first: bool, findings: bool,
    messages: bool, records: bool, points: bool, partition_by: str | None, jobs: int | None, engine: str | None, max_findings: int,
    common: Common,
) -> int:  # fmt: skip
    """Write CAPTURE as a table (.parquet .arrow .feather .csv .jsonl) or its frames as a capture (.pcap .pcapng).

    `--to -` writes to standard output. A field that can occur several times in a frame becomes a list (in CSV separated by
    commas). Keys are null unless --show-keys is given; frames in a capture are unchanged, including their keys. All formats of
    tables but .csv need the extra `export`.
    """
    others = [whose for whose, given in (("findings", findings), ("messages", messages), ("records", records)) if given]
    if points and (others or names or first or as_set or partition_by is not None):
        raise ConfigError("--points", target, "writes sightings of packets, which have columns of their own", hint="give --to only")
    if partition_by is not None:
        if others or format_ not in (None, "parquet"):
            raise ConfigError("--partition-by", partition_by, "is for the columns of frames, as Parquet")
        if target == "-":
            raise ConfigError("--to", target, "a dataset is a folder", hint="name one")
        return _partitioned(units_of(captures, as_set), _RowsOf(target, tuple(partition_by.split(",")), names, first), jobs, engine, common)
    if jobs is not None or engine is not None:
        raise ConfigError("--engine" if engine else "--jobs", engine or str(jobs), "is for --partition-by, which takes many captures")
    given = format_ or ("csv" if target == "-" else None)
    ending = f".{given}" if given else ending_of(target, (*TABLE_ENDINGS, *FRAME_ENDINGS))
    if ending in FRAME_ENDINGS and (names or others or first):
        what = "a capture holds frames, no columns, findings, messages or records"
        raise ConfigError("--to", target, what, hint="name a .csv or .parquet")
    if len(others) > 1:
        raise ConfigError(f"--{others[1]}", target, f"a file holds {others[0]} or {others[1]}, not both")
    if others and (names or first):
        raise ConfigError("-e" if names else "--first", names[0] if names else "given", f"{others[0]} have columns of their own")
    if points:
        return _sightings(captures, target, ending, common)
    if ending in TABLE_ENDINGS and (others or ending != ".csv"):
        require_extra("pyarrow")
    written = "standard output" if target == "-" else target
    capture = source_of(captures, as_set)
    with opened_capture(capture, common) as opened, progress_bar(files_of(capture), quiet=common.quiet) as progress:
        shown = shown_of(opened, common)
        if ending in FRAME_ENDINGS:
            from ibdissect.export.frames import write_frames

            with _written(target, capture) as file:
                count = write_frames(opened, shown, file, FRAME_ENDINGS[ending], progress=progress)
            say("note: frames are written as they are, with the keys in them")
            common.tell(f"{counted(count, 'frame')} written to {written}")
            return 0
        if others:
            from ibdissect.export import messages as message_table
            from ibdissect.export import records as record_table
            from ibdissect.export import tables
            from ibdissect.session import findings as finding_table

            if findings:
                schema, batches = finding_table.SCHEMA, finding_table.batches(findings_of(opened, common, shown, max_findings).findings)
            elif messages:
                schema, batches = message_table.SCHEMA, message_table.batches(opened, shown)
            else:
                schema, batches = record_table.SCHEMA, record_table.batches(opened, shown, progress)
            with _written(target, capture) as file:
                count = tables.write(batches, schema, file, ending)
            common.tell(f"{counted(count, others[0].removesuffix('s'))} written to {written}")
            return 0
        from ibdissect.export.frames import selected
        from ibdissect.session.columns import DEFAULT
        from ibdissect.session.rows import Rows, named_columns

        wanted = named_columns(opened.catalog, names or DEFAULT, first=first)
        state = opened.state(column.name for column in wanted)
        columns: Rows
        if ending == ".csv":
            from ibdissect.export.csv import write_rows

            columns = Rows(wanted, state)
            chosen = selected(opened, shown, number_keys=columns.numbers_keys, progress=progress)
            with _written(target, capture) as file:
                count = write_rows(columns, chosen, file)
        else:
            from ibdissect.export import tables
            from ibdissect.session.arrow import ArrowColumns

            columns = made = ArrowColumns(wanted, state)
            chosen = selected(opened, shown, number_keys=columns.numbers_keys, progress=progress)
            with _written(target, capture) as file:
                count = tables.write((made.batch(table, rows) for table, rows in chosen), made.schema, file, ending)
        if columns.masked:
            say(f"note: {counted(columns.masked, 'key')} left out; --show-keys writes them")
        common.tell(f"{counted(count, 'frame')} written to {written}")
    return 0


def _sightings(captures: Sequence[str], target: str, ending: str, common: Common) -> int:
    if ending in FRAME_ENDINGS:
        raise ConfigError("--to", target, "a capture holds no sightings", hint="`ibdissect points --write` writes one with all frames")
    require_extra("pyarrow")
    from ibdissect.cli.points import compared
    from ibdissect.export import sightings, tables

    comparison = compared(captures, common)
    with _written(target, captures[0]) as file:
        count = tables.write(sightings.batches(comparison), sightings.SCHEMA, file, ending)
    common.tell(f"{counted(count, 'sighting')} written to {'standard output' if target == '-' else target}")
    return 0


def _partitioned(units: Sequence[Unit], rows: _RowsOf, jobs: int | None, engine: str | None, common: Common) -> int:
    """Add the frames of captures to a dataset, each when all of it was read."""
    require_extra("pyarrow")
    from ibdissect.export.partitions import KEYS, unfinished_files
    from ibdissect.session.rows import named_columns
    from ibdissect.wire.catalog import builtin

    if not set(rows.keys) <= KEYS.keys() or len(set(rows.keys)) < len(rows.keys):
        hint = f"name some of {', '.join(KEYS)}, each once"
        raise ConfigError("--partition-by", ",".join(rows.keys), "is no list of partitions", hint=hint)
    named_columns(common.loaded()[0] or builtin(), rows.names)  # a wrong name is said once, not for each capture
    written = masked = 0
    quiet = replace(common, quiet=True, plugins=common.plugin_names)
    with unfinished_files(rows.folder) as private:
        each = EachCapture(units, partial(_added, rows=rows, private=private, common=quiet), jobs, engine, common)
        for outcome in each:
            written, masked = written + outcome.frames, masked + (outcome.result or 0)
    if masked:
        say(f"note: {counted(masked, 'key')} left out; --show-keys writes them")
    common.tell(f"{counted(written, 'frame')} written to {rows.folder}")
    return each.status


class _RowsOf(Record):
    """Which columns of captures go into the partitions of which folder."""

    folder: str
    keys: tuple[str, ...]
    names: tuple[str, ...]
    first: bool


def _added(
    unit: Unit, *, rows: _RowsOf, private: str, common: Common, stop: Stop | None = None, progress: Progress | None = None
) -> Outcome[int]:  # fmt: skip
    """Add the frames of a capture to the dataset; the result is the number of keys left out."""
    from ibdissect.export.frames import selected
    from ibdissect.export.partitions import Partitions
    from ibdissect.session.arrow import ArrowColumns
    from ibdissect.session.columns import DEFAULT
    from ibdissect.session.rows import named_columns

    with open_for(unit, common) as opened:
        wanted = named_columns(opened.catalog, rows.names or DEFAULT, first=rows.first)
        columns = ArrowColumns(wanted, opened.state(column.name for column in wanted))
        shown = shown_of(opened, common)
        chosen = selected(opened, shown, number_keys=columns.numbers_keys, progress=progress)
        with Partitions(rows.folder, rows.keys, columns.schema, unit, private) as dataset:
            for table, indices in chosen:
                dataset.add(columns.batch(table, indices), table.chunk.time_ns[indices])
                if stop is not None and stop():
                    raise Stopped
    hidden = shown.hidden_checksums if shown is not None else 0
    return Outcome(str(unit), columns.masked, dataset.rows, opened.damage, hidden=hidden)


@contextmanager
def _written(target: str, source: Unit) -> Iterator[IO[bytes]]:
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    from ibdissect.export.files import replacing

    with replacing(target, source) as file:
        yield file
