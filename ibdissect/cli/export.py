"""`ibdissect export`: writes columns, findings or frames to a file or standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import click

from ibdissect.capture.sets import Unit, files_of, sets_of
from ibdissect.cli.common import Common, common_options, progress_bar, say
from ibdissect.cli.output import (
    FRAME_ENDINGS,
    captures_of,
    ending_of,
    findings_of,
    max_findings_option,
    opened_capture,
    require_extra,
    set_files,
    set_option,
    shown_of,
    source_of,
    to_option,
)
from ibdissect.errors import CaptureError, ConfigError

TABLE_ENDINGS = (".parquet", ".arrow", ".feather", ".csv", ".jsonl", ".ndjson")
FORMATS = ("parquet", "arrow", "csv", "jsonl", "pcap", "pcapng")


@click.command(short_help="Write columns or frames to a file.")
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE")
@set_option
@to_option
@click.option("--format", "format_", type=click.Choice(FORMATS), help="The format, whatever the name of FILE.  [csv if FILE is -]")
@click.option("-e", "names", multiple=True, metavar="NAME", help="A column; repeat for more. `ibdissect fields` lists the names.")
@click.option("--first", is_flag=True, help="Only the first value of a name in a frame, in place of lists.")
@click.option("--findings", is_flag=True, help="Write the findings instead of the frames.")
@click.option("--messages", is_flag=True, help="Write the RDMA and CM messages instead of the frames.")
@click.option(
    "--partition-by", metavar="KEYS", help="Add the frames of all captures to a Parquet dataset in the folder FILE: capture,hour (or day)."
)
@max_findings_option
@common_options
def command(
    captures: tuple[str, ...], as_set: bool, target: str, format_: str | None, names: tuple[str, ...], first: bool, findings: bool,
    messages: bool, partition_by: str | None, max_findings: int, common: Common,
) -> int:  # fmt: skip
    """Write CAPTURE as a table (.parquet .arrow .feather .csv .jsonl) or its frames as a capture (.pcap .pcapng).

    `--to -` writes to standard output. A field that can occur several times in a frame becomes a list (in CSV separated by
    commas). Keys are null unless --show-keys is given; frames in a capture are unchanged, including their keys. All formats of
    tables but .csv need the extra `export`.
    """
    if partition_by is not None:
        if findings or messages or format_ not in (None, "parquet"):
            raise ConfigError("--partition-by", partition_by, "is for the columns of frames, as Parquet")
        return _partitioned(sets_of(set_files(captures)) if as_set else captures_of(captures), target, partition_by, names, first, common)
    given = format_ or ("csv" if target == "-" else None)
    ending = f".{given}" if given else ending_of(target, (*TABLE_ENDINGS, *FRAME_ENDINGS))
    if ending in FRAME_ENDINGS and (names or findings or messages or first):
        raise ConfigError("--to", target, "a capture holds frames, no columns, findings or messages", hint="name a .csv or .parquet")
    if findings and messages:
        raise ConfigError("--messages", target, "a file holds findings or messages, not both")
    if (findings or messages) and (names or first):
        whose = "findings" if findings else "messages"
        raise ConfigError("-e" if names else "--first", names[0] if names else "given", f"{whose} have columns of their own")
    if ending in TABLE_ENDINGS and (findings or messages or ending != ".csv"):
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
            common.tell(f"{count} frames written to {written}")
            return 0
        if findings:
            from ibdissect.export import tables
            from ibdissect.session.findings import SCHEMA, batches

            report = findings_of(opened, common, shown, max_findings)
            with _written(target, capture) as file:
                count = tables.write(batches(report.findings), SCHEMA, file, ending)
            common.tell(f"{count} finding{'s' * (count != 1)} written to {written}")
            return 0
        if messages:
            from ibdissect.export import messages as message_table
            from ibdissect.export import tables

            with _written(target, capture) as file:
                count = tables.write(message_table.batches(opened, shown), message_table.SCHEMA, file, ending)
            common.tell(f"{count} message{'s' * (count != 1)} written to {written}")
            return 0
        from ibdissect.export.frames import selected
        from ibdissect.session.columns import DEFAULT
        from ibdissect.session.rows import Rows, named_columns

        wanted = named_columns(opened.catalog, names or DEFAULT, first=first)
        state = opened.state(column.name for column in wanted)
        columns: Rows
        if ending == ".csv":
            from ibdissect.export.csv import write_rows

            columns = Rows(opened.catalog, wanted, opened.presenter(), state)
            chosen = selected(opened, shown, number_keys=columns.numbers_keys, progress=progress)
            with _written(target, capture) as file:
                count = write_rows(columns, chosen, file)
        else:
            from ibdissect.export import tables
            from ibdissect.session.arrow import ArrowColumns

            columns = made = ArrowColumns(opened.catalog, wanted, opened.presenter(), state)
            chosen = selected(opened, shown, number_keys=columns.numbers_keys, progress=progress)
            with _written(target, capture) as file:
                count = tables.write((made.batch(table, rows) for table, rows in chosen), made.schema, file, ending)
        if columns.masked:
            say(f"note: {columns.masked} keys are left out; --show-keys writes them")
        common.tell(f"{count} frames written to {written}")
    return 0


def _partitioned(units: Sequence[Unit], folder: str, by: str, names: tuple[str, ...], first: bool, common: Common) -> int:
    """Add the frames of captures to a dataset, capture by capture; the status is 2 if one could not be read."""
    require_extra("pyarrow")
    from ibdissect.export.frames import selected
    from ibdissect.export.partitions import KEYS, Partitions
    from ibdissect.session.arrow import ArrowColumns
    from ibdissect.session.columns import DEFAULT
    from ibdissect.session.rows import named_columns

    keys = tuple(by.split(","))
    if not set(keys) <= KEYS.keys() or len(set(keys)) < len(keys):
        raise ConfigError("--partition-by", by, "is no list of partitions", hint=f"name some of {', '.join(KEYS)}, each once")
    failed = masked = rows_written = 0
    for unit in units:
        try:
            with opened_capture(unit, common) as opened, progress_bar(files_of(unit), quiet=common.quiet) as progress:
                wanted = named_columns(opened.catalog, names or DEFAULT, first=first)
                columns = ArrowColumns(opened.catalog, wanted, opened.presenter(), opened.state(column.name for column in wanted))
                chosen = selected(opened, shown_of(opened, common), number_keys=columns.numbers_keys, progress=progress)
                with Partitions(folder, keys, columns.schema, unit) as dataset:
                    for table, rows in chosen:
                        dataset.add(columns.batch(table, rows), table.chunk.time_ns[rows])
                rows_written, masked = rows_written + dataset.rows, masked + columns.masked
        except CaptureError as error:
            say(f"error: {error}")
            failed = 2
    if masked:
        say(f"note: {masked} keys are left out; --show-keys writes them")
    common.tell(f"{rows_written} frames written to {folder}")
    return failed


@contextmanager
def _written(target: str, source: Unit) -> Iterator[IO[bytes]]:
    """The file to write, or standard output for `-`."""
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    from ibdissect.export.files import replacing

    with replacing(target, source) as file:
        yield file
