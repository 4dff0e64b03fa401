"""`ibdissect sql`: queries a capture with SQL."""

from __future__ import annotations

import sys
from itertools import chain

import click

from ibdissect.cli.common_options import CommonOptions, common_options
from ibdissect.cli.console import echo, lifted
from ibdissect.cli.output import captures_argument, findings_of, opened_capture, require_extra, set_option, source_of
from ibdissect.export.formats import PRINTED


@click.command()
@captures_argument
@click.argument("query", metavar="QUERY")
@set_option
@click.option("-e", "names", multiple=True, metavar="NAME", help="Another column of `packets`; repeat for more.")
@click.option(
    "--points", is_flag=True,
    help="Match several captures of the same traffic, in the table `sightings`; the other tables are of the first.",
)  # fmt: skip
@click.option("--format", "format_", type=click.Choice(("text", *PRINTED)), default="text", show_default=True)
@common_options
def command(
    captures: tuple[str, ...], query: str, as_set: bool, names: tuple[str, ...], points: bool, format_: str, common: CommonOptions
) -> int:
    """Run QUERY (DuckDB's SQL) over the tables packets, mads, connections, messages, records, requests, findings and ports of CAPTURE.

    Columns are named after filter fields, with underscores for dots and without `infiniband.`: bth_destqp. `show tables` lists
    those that are always there; a query may name any other field. Keys are null unless --show-keys is given. A query cannot
    access files or the network. docs/numbers.md defines each number. With --points and several captures of the
    same traffic, the table sightings says where each packet was seen, and what became of it.
    """
    require_extra("duckdb", "pyarrow")
    from ibdissect.export import query_results
    from ibdissect.tables.sql import Database, Made

    others: dict[str, Made] = {}
    if points:
        from ibdissect.cli.points import compared
        from ibdissect.export import sightings

        comparison, captures = compared(captures, common), captures[:1]
        others["sightings"] = sightings.SCHEMA, lambda: sightings.batches(comparison)
    with (
        opened_capture(source_of(captures, as_set, quiet=common.quiet), common, passes=1) as opened,
        Database(opened, names, lambda: findings_of(opened, common).findings, others) as database,
    ):
        if format_ == "text":
            lines = iter(query_results.text(database, query))
            first = next(lines, None)  # the capture is read before the first line
            with lifted():
                for line in lines if first is None else chain([first], lines):
                    echo(line)
        else:
            query_results.write(database, query, sys.stdout.buffer, f".{format_}")
            sys.stdout.flush()
    return 0
