"""`ibdissect export`: writes columns, findings or frames to a file."""

from __future__ import annotations

import click

from ibdissect.cli.common import Common, common_options, say
from ibdissect.cli.output import (
    FRAME_ENDINGS,
    ending_of,
    findings_of,
    max_findings_option,
    opened_capture,
    require_extra,
    shown_of,
    to_option,
)
from ibdissect.errors import ConfigError

TABLE_ENDINGS = (".parquet", ".arrow", ".feather", ".csv", ".jsonl", ".ndjson")


@click.command(short_help="Write columns or frames to a file.")
@click.argument("capture", metavar="CAPTURE")
@to_option
@click.option("-e", "names", multiple=True, metavar="NAME", help="A column; repeat for more. `ibdissect fields` lists the names.")
@click.option("--first", is_flag=True, help="Only the first value of a name in a frame, in place of lists.")
@click.option("--findings", is_flag=True, help="Write the findings instead of the frames.")
@click.option("--messages", is_flag=True, help="Write the RDMA and CM messages instead of the frames.")
@max_findings_option
@common_options
def command(capture: str, target: str, names: tuple[str, ...], first: bool, findings: bool, messages: bool, max_findings: int,
            common: Common) -> int:  # fmt: skip
    """Write CAPTURE as a table (.parquet .arrow .feather .csv .jsonl) or its frames as a capture (.pcap .pcapng).

    A field that can occur several times in a frame becomes a list (in CSV separated by commas). Keys are null unless
    --show-keys is given; frames in a capture are unchanged, including their keys.
    """
    ending = ending_of(target, (*TABLE_ENDINGS, *FRAME_ENDINGS))
    if ending in FRAME_ENDINGS and (names or findings or messages):
        raise ConfigError("--to", target, "a capture holds frames, no columns, findings or messages", hint="name a .csv or .parquet")
    if (findings or messages) and names:
        raise ConfigError("-e", names[0], f"{'findings' if findings else 'messages'} have columns of their own")
    if findings and messages:
        raise ConfigError("--messages", target, "a file holds findings or messages, not both")
    if ending in TABLE_ENDINGS:
        require_extra("pyarrow")
    from ibdissect.dissect.named_values import ANSWER_NAMES
    from ibdissect.export.files import replacing

    with opened_capture(capture, common) as opened:
        if ending in FRAME_ENDINGS:
            from ibdissect.export.frames import write_frames

            shown = shown_of(opened, common)
            with replacing(target, capture) as file:
                count = write_frames(opened, shown, file, FRAME_ENDINGS[ending])
            say("note: frames are written as they are, with the keys in them")
            common.tell(f"{count} frames written to {target}")
            return 0
        from ibdissect.export import tables
        from ibdissect.export.frames import selected
        from ibdissect.session.arrow import ArrowColumns, named_columns
        from ibdissect.session.columns import DEFAULT

        if findings:
            from ibdissect.export.findings import SCHEMA, batches

            report = findings_of(opened, common, shown_of(opened, common), max_findings)
            with replacing(target, capture) as file:
                count = tables.write(batches(report.findings), SCHEMA, file, ending)
            common.tell(f"{count} findings written to {target}")
            return 0
        if messages:
            from ibdissect.export import messages as message_table

            with replacing(target, capture) as file:
                count = tables.write(message_table.batches(opened, shown_of(opened, common)), message_table.SCHEMA, file, ending)
            common.tell(f"{count} messages written to {target}")
            return 0
        chosen_names = named_columns(opened.catalog, names or DEFAULT, first=first)
        asked = {column.name for column in chosen_names} & ANSWER_NAMES
        answers = opened.answers(asked) if asked else None
        columns = ArrowColumns(opened.catalog, chosen_names, opened.presenter(), answers)
        shown = shown_of(opened, common)
        chosen = selected(opened, shown, number_keys=columns.numbers_keys)
        with replacing(target, capture) as file:
            count = tables.write((columns.batch(table, rows) for table, rows in chosen), columns.schema, file, ending)
        if columns.masked:
            say(f"note: {columns.masked} keys are left out; --show-keys writes them")
        common.tell(f"{count} frames written to {target}")
    return 0
